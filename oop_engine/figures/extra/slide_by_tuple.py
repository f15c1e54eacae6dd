"""Windows that slide by each tuple: bins that a tuple updates once, and tuples that are kept and read again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.kernels import textbook
from oop_engine.figures.measuring import agreed, alternate, timed
from operators import functions as fn
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.window.counted import SlideByTuple
from operators.window_aggregate.stores.ranked.slide import SlideAggregate
from punctuation import END, before

BINS, BUFFER = "bins", "buffered tuples"
SCHEMA: Final = Schema.of(ts="int64", v="int64", progress=["ts"])
PAGE, LATE = 1_024, 512
"""Tuples of a page, and by how many ticks a tuple is late at most; there is a tuple each tick."""
FLAT: Final = 2
"""The longest time over the shortest up to which a technique is about flat."""


@attrs.frozen(eq=False)
class Slid:
    """Hold a stream of which a fifth is late, and compute the least value of the last `reach` ticks at each tuple.

    - `ts`, `values`: in the order of arrival.
    - `stops`, `bounds`: behind so many tuples, no tuple is before this time.
    """

    ts: Int64s
    values: Int64s
    stops: Int64s
    bounds: Int64s

    @classmethod
    def of(cls, n: int) -> Slid:
        """Make n tuples."""
        random, times = np.random.default_rng(1), np.arange(n)
        arrivals = times + np.where(random.random(n) < 0.2, random.integers(0, LATE, n), 0)
        ts = times[np.argsort(arrivals, kind="stable")]
        stops = np.append(np.arange(PAGE, n, PAGE), n)
        least = np.append(np.minimum.accumulate(ts[::-1])[::-1], n)
        return cls(ts, random.integers(0, 1 << 20, n), stops, least[stops])

    def by_bins(self, reach: int, emit: Callable[[Element], None]) -> int:
        """Run the operator of the engine; the most bins that it holds."""
        operator = SlideAggregate(SlideByTuple("ts", size=reach), {"least": fn.min("v")})
        whole, start = Page.of(SCHEMA, {"ts": self.ts, "v": self.values}), 0
        for stop, bound in zip(self.stops.tolist(), self.bounds.tolist(), strict=True):
            operator.process(whole.slice(start, stop), emit)
            operator.punctuate(before("ts", bound), emit)
            start = stop
        operator.punctuate(END, emit)
        return operator.statistics()["peak_state_tuples"]

    def by_tuples(self, reach: int, emit: Callable[[Int64s, Int64s], None]) -> int:
        """Keep tuples, and read those of each window when it is complete; the most tuples that are kept."""
        ts, values, start, done, held = self.ts[:0], self.values[:0], 0, -1, 0
        for stop, bound in zip(self.stops.tolist(), self.bounds.tolist(), strict=True):
            ts, values = np.append(ts, self.ts[start:stop]), np.append(values, self.values[start:stop])
            held, start = max(held, len(ts)), stop
            order = np.argsort(ts, kind="stable")
            ts, values = ts[order], values[order]
            first, last = np.searchsorted(ts, [done + 1, bound])
            tails = np.arange(first, last) + 1
            heads = np.searchsorted(ts, ts[first:last] - reach, side="right")
            found = np.empty(len(tails), np.int64)
            textbook.recompute_least(values, heads, tails, len(values), found)
            emit(ts[first:last], found)
            done = bound - 1
            kept = ts > done - reach
            ts, values = ts[kept], values[kept]
        return held


def answers(load: Slid, reach: int) -> dict[str, dict[int, int]]:
    """Return the least value by the time of the tuple at which a window ends, of both ways.

    - `load`: the stream.
    - `reach`: of the windows, in ticks.
    """
    found: dict[str, dict[int, int]] = {BINS: {}, BUFFER: {}}

    def take(element: Element) -> None:
        if isinstance(element, Page):
            found[BINS].update(zip(element["wid"].tolist(), element["least"].tolist(), strict=True))

    load.by_bins(reach, take)
    load.by_tuples(reach, lambda ts, least: found[BUFFER].update(zip(ts.tolist(), least.tolist(), strict=True)))
    return found


def measure(size: Size) -> Measured:
    """Time both by the reach of windows."""
    n, runs = size.of(tiny=4_000, small=60_000, paper=200_000), size.of(tiny=1, small=3, paper=5)
    load, rows = Slid.of(n), list[dict[str, object]]()
    for reach in size.of(tiny=(10, 1_000), small=(10, 100, 1_000, 10_000), paper=(10, 100, 1_000, 10_000, 100_000)):
        agreed(answers(load, reach))
        ways: dict[str, Callable[[], int]] = {
            BINS: partial(load.by_bins, reach, lambda element: None),
            BUFFER: partial(load.by_tuples, reach, lambda ts, least: None),
        }
        held = {name: way() for name, way in ways.items()}
        spent = alternate({name: partial(timed, way) for name, way in ways.items()}, runs)
        rows.extend(
            {"series": name, "reach": reach, "us": s / n * 1e6, "held": held[name]} for name, s in spent.items()
        )
    return Measured.of(
        rows,
        f"{n:,} tuples, one each tick, a fifth of them up to {LATE} ticks late; pages of {PAGE:,} with a promise each;"
        f" the least value of the last ticks at each tuple. Medians of {runs} alternate runs, processor time.",
        "Bins are the operator of oop-engine, with results in Arrow. Buffered tuples are a sorted array and a compiled"
        " loop over the tuples of each window, without an operator around it, which is in its favour.",
    )


def judge(measured: Measured) -> Verdict:
    """See whose time grows with the reach, who is faster with much of it, and what is held."""
    time, held = ({name: measured.along(name, "reach", c) for name in (BINS, BUFFER)} for c in ("us", "held"))
    least, most = min(time[BINS]), max(time[BINS])
    grown = {name: max(by.values()) / min(by.values()) for name, by in time.items()}
    ahead = time[BUFFER][most] / time[BINS][most]
    more = [held[BINS][reach] / held[BUFFER][reach] for reach in held[BINS]]
    return Verdict.of(
        Check(
            grown[BINS] <= FLAT, f"{BINS}: {grown[BINS]:.1f} times as long at one reach as at another; {FLAT} is flat"
        ),
        Check(
            grown[BUFFER] > FLAT,
            f"{BUFFER}: {time[BUFFER][least]:.2f} microseconds a tuple at a reach of {least:,},"
            f" {time[BUFFER][most]:.2f} at {most:,}",
        ),
        Check(ahead > 1, f"at a reach of {most:,} {BUFFER} take {ahead:.1f} times the time of {BINS}"),
        Check(max(more) <= 1, f"bins are {min(more):.2f} to {max(more):.2f} times as many as buffered tuples"),
        why="Each tuple opens a bin that ends a reach behind it, so there are as many bins as tuples within reach, and"
        " those of late tuples besides. What bins spare is to read tuples again.",
    )


SLIDE: Final = Figure(
    "slide-by-tuple",
    "extra",
    "Time and memory of windows that slide by each tuple, by their reach",
    "Bins are updated once by each tuple, late or not, so that their time does not grow with the reach of windows, as"
    " it does with buffered tuples; and no more is held (thesis, section 6.1.4).",
    Axis("reach", "reach, tuples", scale="log"),
    [Axis("us", "microseconds a tuple", scale="log"), Axis("held", "bins or tuples held", scale="log")],
    measure,
    judge,
)
