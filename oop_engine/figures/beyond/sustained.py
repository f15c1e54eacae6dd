"""Desis' many queries over a stream as fast as it really comes: what a second of events takes."""

from __future__ import annotations

from time import process_time
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from operators import functions as fn
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.protocol import Element, Promises
from operators.window import SlidingWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END

SECOND: Final = 1_000_000_000
PAGES: Final = 50
"""A second of events."""
SHORTEST, LONGEST = 1_000, 20_000
"""Milliseconds of ranges and slides."""
RATE, BYTES = 5_000_000, 300
"""The tuples a second of events, and the most bytes a window, that are wanted."""
SERIES: Final = "windows of any range and slide"


def distinct(count: int) -> dict[str, SlidingWindow]:
    """Return windows that slide, no two alike: ranges of 1 to 20 s, and slides from 1 s to the range, in whole ms.

    - `count`: how many.

    >>> len({(window.size, window.slide) for window in distinct(1000).values()})
    1000
    """
    random = np.random.default_rng(1)
    pairs = np.empty((0, 2), np.int64)
    while len(pairs) < count:
        more = np.sort(random.integers(SHORTEST, LONGEST + 1, (count, 2)), axis=1)
        _, first = np.unique(np.concatenate([pairs, more]), axis=0, return_index=True)
        pairs = np.concatenate([pairs, more])[np.sort(first)][:count]
    return {
        f"w{i}": SlidingWindow("ts", size=size, slide=slide)
        for i, (slide, size) in enumerate((pairs * (SECOND // 1_000)).tolist())
    }


@attrs.frozen(eq=False)
class Steady:
    """A stream in order at one rate, whose pages have the same values one after the other.

    - `rate`: tuples a second of event time, a multiple of 50 that divides a thousand million.
    - `values`: those of a page.
    """

    rate: int
    values: Int64s

    @classmethod
    def of(cls, rate: int) -> Steady:
        """Make one."""
        return cls(rate, np.random.default_rng(2).integers(1, 1000, rate // PAGES))

    def page(self, number: int) -> tuple[Page, Promises]:
        """Return a page, and the promise behind it."""
        n, begin = len(self.values), number * (SECOND // PAGES)
        schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
        page = Page.of(schema, {"ts": begin + np.arange(n) * (SECOND // self.rate), "v": self.values})
        return page, Promises("ts", np.array([n]), np.array([begin + SECOND // PAGES]))

    def sums(self, begins: Int64s, ends: Int64s, pages: int) -> Int64s:
        """Return the sum of values of each window, shape (n,), where the stream has so many pages."""
        before = np.concatenate([[0], np.cumsum(self.values)])
        there = pages * len(self.values)

        def below(ticks: Int64s) -> Int64s:
            tuples = np.clip(-(-ticks // (SECOND // self.rate)), 0, there)
            whole, rest = np.divmod(tuples, len(self.values))
            return np.asarray(whole * before[-1] + before[rest])

        return below(ends) - below(begins)


def measure(size: Size) -> Measured:
    """Time each second of events by the number of windows, once their sums are known to be right."""
    stream = Steady.of(size.of(tiny=1_000, small=RATE, paper=RATE))
    seconds = size.of(tiny=3, small=3, paper=25)
    rows: list[dict[str, object]] = []
    warm = SlicingAggregate(distinct(1), {"total": fn.sum("v")})
    for number in range(4 * PAGES):  # loads the kernels
        warm.process_with(*Steady.of(1_000).page(number), lambda element: None)
    for count in size.of(tiny=[1, 30], small=[100, 10_000, 100_000], paper=[100, 10_000, 100_000, 1_000_000]):
        operator = SlicingAggregate(distinct(count), {"total": fn.sum("v")})
        spent: list[float] = []
        results: list[Page] = []

        def emit(element: Element, results: list[Page] = results) -> None:
            if isinstance(element, Page):
                results.append(element)

        for second in range(seconds):
            script = [stream.page(second * PAGES + number) for number in range(PAGES)]
            begun = process_time()
            for page, promises in script:
                operator.process_with(page, promises, emit)
            spent.append(process_time() - begun)
        details = operator.statistics()
        operator.punctuate(END, emit)
        found = 0
        for page in results:
            found += len(page)
            wanted = stream.sums(page.ticks("window_start"), page.ticks("window_end"), seconds * PAGES)
            if not np.array_equal(np.asarray(page["total"]), wanted):
                raise PlanError(f"with {count:,} windows some sums are not those of the tuples between their ends")
        rows.append(
            {
                "series": SERIES,
                "windows": count,
                "rate": stream.rate / max(spent) / 1e6,
                "median": stream.rate / float(np.median(spent)) / 1e6,
                "bytes": max(details["state_bytes"], details["peak_state_bytes"]) / count,
                "results": found,
            }
        )
    return Measured.of(
        rows,
        f"{stream.rate:,} tuples a second of event time, in order, for {seconds} s, a promise every {1000 // PAGES} ms;"
        " ranges of 1 to 20 s, and slides from 1 s to the range. The rate is that of the second of events that took"
        " the most processor time, the first among them; `median` is that of half of them. Windows are made before.",
        "Each sum was compared with the values between the ends of its window.",
    )


def judge(measured: Measured) -> Verdict:
    """See that the operator keeps up with the stream where there are the most windows, and what a window takes."""
    rates = measured.along(SERIES, "windows", "rate")
    most = max(rates)
    taken = measured.along(SERIES, "windows", "bytes")[most]
    text = f"with {most:,} windows it takes {rates[most]:.1f} M tuples a second; {RATE / 1e6:.0f} come"
    return Verdict.of(
        Check(rates[most] >= RATE / 1e6, text),
        Check(taken <= BYTES, f"a window takes {taken:,.0f} bytes there; {BYTES} are wanted"),
        why="Each second of events completes windows, and the first one opens all of them.",
    )


SUSTAINED: Final = Figure(
    "desis-sustained",
    "beyond",
    "Throughput of a fast stream by the number of windows",
    "Queries that share slices keep up with a stream of millions of tuples a second (Desis: up to a million windows).",
    Axis("windows", "windows over one stream", scale="log"),
    [
        Axis("rate", "M tuples a second, of the slowest second", scale="log"),
        Axis("bytes", "bytes a window", scale="log"),
    ],
    measure,
    judge,
)
