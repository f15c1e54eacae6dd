"""The workload of Scotty (TODS 2021, section 10): concurrent tumbling windows of 1 to 20 s over disordered streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.figures.kernels import peers
from oop_engine.figures.measuring import agreed, alternate, timed
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import AggregateFunction, sum
from operators.protocol import Element, Promises
from operators.window import SlidingWindow, tumbling
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END

SECOND: Final = 1_000_000_000
RATE: Final = 2_000
LAZY, EAGER, BUCKETS, TREE, BUFFER = "lazy slicing", "eager slicing", "buckets", "aggregate tree", "tuple buffer"
SERIES: Final = (LAZY, EAGER, BUCKETS, TREE, BUFFER)
Window = SlidingWindow | SessionWindow
Answers = dict[tuple[str, int], int]
NOTE: Final = (
    "Slicing is the operator of oop-engine, with pages and results in Arrow. The others are compiled loops of their own"
    " without an operator around them, a tuple at a time; they compute no sessions, which is in their favour."
)


@attrs.frozen(eq=False)
class Workload:
    """Hold a stream in memory: a page and a promise for each second of arrivals.

    - `ts`, `values`: the tuples, in the order of their arrival.
    - `stops`, `bounds`: behind so many tuples, no tuple is before this time.
    """

    ts: Int64s
    values: Int64s
    stops: Int64s
    bounds: Int64s

    @classmethod
    def of(
        cls,
        n: int,
        *,
        rate: int = RATE,
        late: float = 0.0,
        delays: tuple[float, float] = (0, 2),
        gaps: bool = False,
    ) -> Workload:
        """Make n tuples.

        - `rate`: tuples a second of event time.
        - `late`: the share of tuples that come late.
        - `delays`: by how many seconds, at least and at most.
        - `gaps`: leave 1.5 s without tuples every 12 s, for sessions.
        """
        rng = np.random.default_rng(1)
        times = np.arange(n) * (SECOND // rate)
        if gaps:
            times += times // (12 * SECOND) * (3 * SECOND // 2)
        least, most = (round(delay * SECOND) for delay in delays)
        arrivals = times + np.where(rng.random(n) < late, rng.integers(least, most, n), 0)
        order = np.argsort(arrivals, kind="stable")
        arrivals = arrivals[order]
        seconds = np.arange(1, int(arrivals[-1]) // SECOND + 1) * SECOND
        stops = np.append(np.searchsorted(arrivals, seconds), n)
        bounds = np.append(seconds - (most if late else 0), int(times[-1]) + 60 * SECOND)
        return cls(times[order], rng.integers(1, 1000, n), stops, bounds)

    def elements(self) -> list[tuple[Page, Promises]]:
        """Return each page with the promise behind it, as sources hand them over; seconds without tuples give none."""
        whole = Page.of(Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"]), {"ts": self.ts, "v": self.values})
        found: list[tuple[Page, Promises]] = []
        start = 0
        for stop, bound in zip(self.stops[:-1].tolist(), self.bounds[:-1].tolist(), strict=True):
            if stop > start:
                found.append((whole.slice(start, stop), Promises("ts", np.array([stop - start]), np.array([bound]))))
            start = stop
        if len(whole) > start:
            last = np.array([self.bounds[-1]])
            found.append((whole.slice(start, len(whole)), Promises("ts", np.array([len(whole) - start]), last)))
        return found

    def sliced(
        self,
        windows: Mapping[str, Window],
        store: Literal["lazy", "eager"],
        functions: Mapping[str, AggregateFunction] | None = None,
        emit: Callable[[Element], None] = lambda element: None,
    ) -> Callable[[], None]:
        """Return a run of the slicing operator over the whole stream."""
        elements = self.elements()

        def run() -> None:
            operator = SlicingAggregate(windows, functions or {"total": sum("v")}, store=store)
            for page, promises in elements:
                operator.process_with(page, promises, emit)
            operator.punctuate(END, emit)

        return run

    def by_slices(self, windows: Mapping[str, Window], store: Literal["lazy", "eager"]) -> Answers:
        """Return the sums of all windows by name and window-id."""
        pages: list[Page] = []
        self.sliced(windows, store, emit=lambda e: pages.append(e) if isinstance(e, Page) else None)()
        table = pa.Table.from_batches([page.batch for page in pages])
        names = table["window"].to_pylist() if len(windows) > 1 else [*windows] * len(table)
        keys = zip(names, table["wid"].to_pylist(), strict=True)
        return dict(zip(keys, table["total"].to_pylist(), strict=True))

    def results(
        self, windows: Mapping[str, SlidingWindow], functions: Mapping[str, AggregateFunction]
    ) -> dict[str, dict[tuple[str, int], tuple[str, ...]]]:
        """Return the results of all windows by name and window-id: of lazy and eager slices, and of buckets.

        Floats are given with nine digits, because they are added up in another order.
        """
        script = [element for page, promises in self.elements() for element in promises.one_by_one(page)]
        sliced = {LAZY: list[Element](), EAGER: list[Element]()}
        self.sliced(windows, "lazy", functions, sliced[LAZY].append)()
        self.sliced(windows, "eager", functions, sliced[EAGER].append)()
        found = {name: [(str(row["window"]), row) for row in rows(elements)] for name, elements in sliced.items()}
        found[BUCKETS] = [
            (name, row)
            for name, window in windows.items()
            for row in rows(drive(WindowAggregate(window, functions), drive(Bucket(window), [*script, END])))
        ]
        return {
            series: {(name, int(str(row["wid"]))): tuple(nine(row[of]) for of in functions) for name, row in each}
            for series, each in found.items()
        }

    def peer(self, name: str, windows: Mapping[str, SlidingWindow]) -> Int64s:
        """Return the sums by window (down) and window-id (across), computed by another technique."""
        sizes = np.array([window.size for window in windows.values()])
        found = np.zeros((len(sizes), int(self.ts.max()) // int(sizes.min()) + 1), np.int64)
        arguments = self.ts, self.values, self.stops, self.bounds, sizes, found
        if name == TREE:
            # The longest window, how late tuples come, and as much again.
            span = int(sizes.max()) + int((np.maximum.accumulate(self.ts) - self.ts).max()) + 2 * SECOND
            peers.tree(*arguments, 1 << int(np.ceil(np.log2(2 * span // SECOND * RATE + 2))))
        else:
            (peers.buckets if name == BUCKETS else peers.buffer)(*arguments)
        return found

    def by_peer(self, name: str, windows: Mapping[str, SlidingWindow]) -> Answers:
        """Return the sums of all windows that have a tuple, by name and window-id."""
        found, names = self.peer(name, windows), list(windows)
        return {(names[w], int(wid)): int(found[w, wid]) for w, wid in zip(*np.nonzero(found), strict=True)}

    def rates(
        self, windows: Mapping[str, SlidingWindow], series: Sequence[str], runs: int, *, session: bool = False
    ) -> dict[str, float]:
        """Return tuples a second by series, after all answers were compared.

        - `windows`: what all compute.
        - `series`: of `SERIES`.
        - `runs`: alternate runs of each.
        - `session`: let slicing compute sessions of gap 1 s, too.
        """
        more: dict[str, Window] = {"session": SessionWindow("ts", gap=SECOND)} if session else {}
        sliced: dict[str, Window] = {**windows, **more}
        stores: dict[str, Literal["lazy", "eager"]] = {LAZY: "lazy", EAGER: "eager"}
        own = {name: self.by_slices(sliced, stores[name]) for name in series if name in stores}
        agreed(own)
        answers = {name: {key: v for key, v in found.items() if key[0] in windows} for name, found in own.items()}
        agreed({**answers, **{name: self.by_peer(name, windows) for name in series if name not in stores}})
        works: dict[str, Callable[[], object]] = {
            name: self.sliced(sliced, stores[name]) if name in stores else partial(self.peer, name, windows)
            for name in series
        }
        spent = alternate({name: partial(timed, work) for name, work in works.items()}, runs)
        return {name: len(self.ts) / seconds for name, seconds in spent.items()}


def nine(value: object) -> str:
    """Write a value, a float with nine digits.

    >>> nine(1 / 3), nine(2)
    ('0.333333333', '2')
    """
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def concurrent(n: int) -> dict[str, SlidingWindow]:
    """Return n tumbling windows of 1 to 20 s, evenly spread.

    >>> [window.size // 10**9 for window in concurrent(3).values()]
    [1, 10, 20]
    """
    sizes = np.linspace(1, 20, n) if n > 1 else np.array([10.0])
    return {f"w{i}": tumbling("ts", int(size * 1000) * 1_000_000) for i, size in enumerate(sizes)}
