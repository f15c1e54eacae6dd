"""FiBA's bulk insertion and eviction: blocks of tuples come far behind the newest one, into one long window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.throughput import RATES
from operators import functions as fn
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction
from operators.protocol import Element, Promises
from operators.window import SlidingWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END

ORDERED, FREE = "number of changes", "sum"
"""A function that depends on the order of the tuples, and one that does not."""
FLAT: Final = 2
WANTED: Final = 20
"""M tuples a second that are wanted of `ORDERED` at `AT`."""
AT: Final = 100_000
LONGER: Final = 4
"""So many times as long blocks tell what a block costs besides its tuples."""
State: TypeAlias = tuple[int, int, int, int]


def _lift(v: int) -> State:
    return v, v, 0, 1


def _combine(a: State, b: State) -> State:
    if a[3] == 0:
        return b
    if b[3] == 0:
        return a
    return a[0], b[1], a[2] + b[2] + (1 if a[1] != b[0] else 0), 1


def _lower(a: State) -> int:
    return a[2]


def changes(*, interpreted: bool = False) -> AggregateFunction:
    """Count the tuples whose value differs from that of the one before them: the order decides.

    - `interpreted`: run it uncompiled, for a few tuples.
    """
    return fn.user_aggregate(
        "changes",
        _lift,
        _combine,
        _lower,
        arguments="v",
        identity=(0, 0, 0, 0),
        output=pa.int64(),
        commutative=False,
        interpreted=interpreted,
    )


@attrs.frozen(eq=False)
class Bulk:
    """Hold blocks of tuples, every second of which comes `distance` tuples late, and one window that slides by a block.

    - `values`: in the order of time; the tuple at place t has the time t.
    - `block`: tuples that come and go at once.
    - `distance`: how many younger tuples are there before a late block.
    - `size`: the tuples of a window.
    """

    values: Int64s
    block: int
    distance: int
    size: int

    @classmethod
    def of(cls, n: int, block: int, distance: int, size: int) -> Bulk:
        """Make n tuples with values 0 to 3."""
        return cls(np.random.default_rng(1).integers(0, 4, n), block, distance, size)

    def elements(self) -> list[tuple[Page, Promises]]:
        """Return a page for each block, with the promise that is true behind it."""
        times = np.arange(len(self.values))
        blocks = times // self.block
        arrivals = times + np.where(blocks % 2 == 1, self.distance, 0)
        # A block that comes at the time of another comes behind it, as a whole.
        order = np.lexsort((times, blocks, arrivals // self.block))
        ts = times[order]
        stops = np.append(np.arange(self.block, len(ts), self.block), len(ts))
        least = np.append(np.minimum.accumulate(ts[::-1])[::-1], len(ts))[stops]
        columns = {"ts": ts, "v": self.values[order]}
        whole = Page.of(Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"]), columns)
        starts = [0, *stops[:-1].tolist()]
        return [
            (whole.slice(start, stop), Promises("ts", np.array([stop - start]), np.array([bound])))
            for start, stop, bound in zip(starts, stops.tolist(), least.tolist(), strict=True)
        ]

    def run(
        self,
        function: AggregateFunction,
        store: Literal["lazy", "eager"],
        emit: Callable[[Element], None] = lambda element: None,
    ) -> Callable[[], None]:
        """Return a run over all blocks."""
        elements, window = self.elements(), SlidingWindow("ts", size=self.size, slide=self.block)

        def run() -> None:
            operator = SlicingAggregate({"w": window}, {"a": function}, store=store)
            for page, promises in elements:
                operator.process_with(page, promises, emit)
            operator.punctuate(END, emit)

        return run

    def answers(self, function: AggregateFunction, store: Literal["lazy", "eager"]) -> dict[int, int]:
        """Return the result of each window by its id."""
        found: dict[int, int] = {}

        def emit(element: Element) -> None:
            if isinstance(element, Page):
                found.update(zip(element["wid"].tolist(), element["a"].tolist(), strict=True))

        self.run(function, store, emit)()
        return found

    def loop(self, ordered: bool) -> dict[int, int]:
        """Return the same from the tuples in order: how often neighbours differ, or their sum."""
        n = len(self.values)
        ends = np.arange(self.block, n + self.size, self.block)
        first, last = np.maximum(0, ends - self.size), np.minimum(n, ends)
        kept = first < last
        ends, first, last = ends[kept], first[kept], last[kept]
        if ordered:
            steps = np.append(0, np.cumsum(np.diff(self.values) != 0))
            found = steps[last - 1] - steps[first]
        else:
            totals = np.append(0, np.cumsum(self.values))
            found = totals[last] - totals[first]
        return dict(zip((ends // self.block - 1).tolist(), found.tolist(), strict=True))


def measure(size: Size) -> Measured:
    """Time both functions by the distance at which blocks are put in."""
    n, window, block = size.of(
        tiny=(4_000, 1_000, 100), small=(2_000_000, 1_000_000, 4_096), paper=(20_000_000, 1_000_000, 4_096)
    )
    distances = size.of(tiny=[100, 1_000], small=[1_000, 100_000, 1_000_000], paper=[1_000, 10_000, 100_000, 1_000_000])
    runs = size.of(tiny=1, small=1, paper=5)
    functions = {ORDERED: changes(), FREE: fn.sum("v")}
    rows: list[dict[str, object]] = []
    for distance in distances:
        bulk, longer = Bulk.of(n, block, distance, window), Bulk.of(n, LONGER * block, distance, window)
        for name, function in functions.items():
            agreed({"loop": bulk.loop(name == ORDERED), name: bulk.answers(function, "eager")})
        works = {name: partial(timed, bulk.run(function, "eager")) for name, function in functions.items()}
        apart = {name: partial(timed, longer.run(function, "eager")) for name, function in functions.items()}
        spent, less = alternate(works, runs), alternate(apart, runs)
        for name, seconds in spent.items():
            # A tuple costs the same in both, so what fewer blocks save is what a block costs without its tuples.
            each = (seconds - less[name]) / (n / block - n / block / LONGER) * 1e6
            row = {"rate": n / seconds / 1e6, "longer": n / less[name] / 1e6, "block": each}
            rows.append({"series": name, "distance": distance, **row})
    return Measured.of(
        rows,
        f"{n:,} tuples in blocks of {block:,} (`longer`: {LONGER} times as many), every second block late by the"
        f" distance; a window of {window:,} tuples that slides by a block, so each block puts one in and takes one out."
        f" Medians of {runs} runs. `block` are the microseconds that a block costs without its tuples.",
        "There is no FiBA tree here: tuples of a function that depends on the order wait in a sorted buffer until a"
        " promise makes their order certain, and eager slices are a tree that grows at its young end alone.",
    )


def judge(measured: Measured) -> Verdict:
    """See that the distance costs little, and how fast a function that depends on the order is."""
    by = {name: measured.along(name, "distance", "rate") for name in measured.series}
    each, longer = (measured.along(ORDERED, "distance", column) for column in ("block", "longer"))
    most = max(by[ORDERED])
    at = AT if AT in by[ORDERED] else most
    return Verdict.of(
        *(
            Check(
                max(rates.values()) <= FLAT * min(rates.values()),
                f"{name}: {min(rates.values()):.1f} to {max(rates.values()):.1f} M tuples a second by distance; a"
                f" factor of {FLAT} is little",
            )
            for name, rates in by.items()
        ),
        Check(
            by[ORDERED][at] >= WANTED,
            f"{ORDERED}: {by[ORDERED][at]:.1f} M tuples a second at a distance of {at:,}; {WANTED} are wanted",
        ),
        why=f"A block costs {each[at]:,.0f} microseconds besides its tuples: with blocks {LONGER} times as long the"
        f" rate of {ORDERED} is {longer[at]:.1f} M tuples a second. In a profile that is Python: about 290 calls for"
        " the page, its promise and the result of a window, because states of a user's function have no compiled way"
        " from the page to the result, as sums have. To hold tuples until their promise comes, and to let them out, is"
        " a seventh of the time; blocks that do not overlap in time are not sorted.",
    )


BULK: Final = Figure(
    "fiba-bulk",
    "beyond",
    "Throughput of blocks that come late",
    "Putting in a block far behind the newest tuple costs about as much as near it, also where the order of the tuples"
    " decides (FiBA: the logarithm of the distance).",
    Axis("distance", "distance from the newest tuple, tuples", scale="log"),
    [RATES],
    measure,
    judge,
)
