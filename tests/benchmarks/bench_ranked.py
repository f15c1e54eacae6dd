"""Windows that tuples define: slide by tuple, by rank, n tuples in order of time, the last n; replayed from memory.

    python tests/benchmarks/bench_ranked.py [tuples] [runs]

Each line: tuples a second from the first page to END, releases included; results; the largest state in entries (bins,
slices, tuples that wait) and bytes; how long a release takes, a punctuation following each page. Late tuples lag by up
to 2 % of a second of 1,000,000 tuples. Medians of interleaved runs; ratios at the end compare lines of this run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from math import nan
from statistics import median
from time import perf_counter

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import count, max, min, sum
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.last import LastAggregate
from operators.window_aggregate.stores.ranked.slide import SlideAggregate
from punctuation import END, Punctuation, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), x=pa.int64(), progress=["ts"])
TICK = 1_000
"""Nanoseconds from tuple to tuple."""
COUNT, SUM, MAX, MIN = {"n": count()}, {"total": sum("x")}, {"most": max("x")}, {"least": min("x")}


@attrs.frozen
class Case:
    """One line: what is run over which stream."""

    name: str
    make: Callable[[], SlideAggregate | CountAggregate | LastAggregate]
    page: int = 8192
    groups: int = 1
    late: float = 0.0
    share: float = 1.0
    """Of the tuples, for lines that are slow."""


@attrs.frozen
class Measured:
    """What one run gave."""

    seconds: float
    results: int
    releases: list[float]
    entries: int
    nbytes: int


def stream(n: int, case: Case) -> list[tuple[Page, Punctuation]]:
    """Make pages, each with the punctuation that is true behind it."""
    rng = np.random.default_rng(1)
    ts = np.arange(n) * TICK
    ts -= np.where(rng.random(n) < case.late, rng.integers(0, 20_000 * TICK, n), 0)
    columns = {"ts": ts, "k": rng.integers(0, case.groups, n), "x": rng.integers(0, 1500, n)}
    pages = [
        Page.of(SCHEMA, {name: column[at : at + case.page] for name, column in columns.items()})
        for at in range(0, n, case.page)
    ]
    least = np.minimum.accumulate(np.append(ts, ts[-1])[::-1])[::-1]
    bounds = [int(least[min_(at, n)]) for at in range(case.page, n + case.page, case.page)]
    return [(page, before("ts", bound)) for page, bound in zip(pages, bounds, strict=True)]


def min_(a: int, b: int) -> int:
    return a if a < b else b


def run(case: Case, elements: list[tuple[Page, Punctuation]]) -> Measured:
    """Drive an operator through a stream."""
    operator = case.make()
    operator.output_schema(SCHEMA)
    results = 0
    releases: list[float] = []

    def emit(element: Element) -> None:
        nonlocal results
        results += len(element) if isinstance(element, Page) else 0

    start = perf_counter()
    for page, promise in elements:
        operator.process(page, emit)
        begun = perf_counter()
        operator.punctuate(promise, emit)
        releases.append(perf_counter() - begun)
    operator.punctuate(END, emit)
    seconds = perf_counter() - start
    found = operator.statistics()
    return Measured(seconds, results, releases, found["peak_state_tuples"], found["peak_state_bytes"])


def slide(functions: Mapping[str, AggregateFunction], reach: int, *by: str) -> Callable[[], SlideAggregate]:
    return lambda: SlideAggregate(SlideByTuple("ts", size=reach * TICK), functions, by)


def counted(
    functions: Mapping[str, AggregateFunction], size: int, every: int, *by: str
) -> Callable[[], CountAggregate]:
    return lambda: CountAggregate(CountWindow("ts", size=size, slide=every), functions, by)


def last(functions: Mapping[str, AggregateFunction], size: int, every: int, *by: str) -> Callable[[], LastAggregate]:
    return lambda: LastAggregate(LastTuples("ts", size=size, slide=every * TICK), functions, by)


CASES = [
    Case("slide by tuple, 100 in reach, count", slide(COUNT, 100)),
    Case("slide by tuple, 100 in reach, sum", slide(SUM, 100)),
    Case("slide by tuple, 100 in reach, max", slide(MAX, 100)),
    Case("the same, 20 % late", slide(MAX, 100), late=0.2),
    Case("the same, pages of 100 tuples", slide(MAX, 100), page=100, share=0.1),
    Case("the same, pages of one tuple", slide(MAX, 100), page=1, share=0.005),
    Case("slide by tuple, 100,000 in reach, max", slide(MAX, 100_000), late=0.2),
    Case(
        "slide by 5 of rank, 100 in reach, max",
        lambda: SlideAggregate(SlideByRank("ts", size=100 * TICK, rows=5), MAX),
        late=0.2,
    ),
    Case(
        "slide by 5 on arrival, 100 in reach, max",
        lambda: SlideAggregate(SlideByRows("ts", size=100 * TICK, rows=5), MAX),
        late=0.2,
    ),
    Case("slide by tuple, 1,000 groups, 10 in reach of each", slide(MAX, 10_000, "k"), groups=1_000, late=0.2),
    Case("slide by tuple, 100,000 groups, 1 in reach of each", slide(MAX, 100_000, "k"), groups=100_000, late=0.2),
    Case("1,000 tuples every 1,000, sum", counted(SUM, 1_000, 1_000)),
    Case("the same, 20 % late", counted(SUM, 1_000, 1_000), late=0.2),
    Case("1,024 tuples every 1, min, 20 % late", counted(MIN, 1_024, 1), late=0.2),
    Case("1,024 tuples every 64, min, 20 % late", counted(MIN, 1_024, 64), late=0.2),
    Case("10 tuples every 10, 100,000 groups, sum", counted(SUM, 10, 10, "k"), groups=100_000, late=0.2),
    Case("last 10 tuples every 100, sum", last(SUM, 10, 100), late=0.2),
    Case("last 1,000 tuples every 10, max", last(MAX, 1_000, 10), late=0.2),
    Case("last 10 tuples every 100,000, 1,000 groups, sum", last(SUM, 10, 100_000, "k"), groups=1_000, late=0.2),
]


def main(n: int, runs: int) -> None:
    for case in CASES:
        # Compiles what this line needs.
        run(case, stream(min_(n, 2 * case.page), case))
    measured: dict[int, list[Measured]] = {i: [] for i in range(len(CASES))}
    tuples = [int(n * case.share) for case in CASES]
    for _ in range(runs):
        for i, case in enumerate(CASES):
            measured[i].append(run(case, stream(tuples[i], case)))
    print(f"{n:,} tuples, pages of 8,192, medians of {runs} interleaved runs")
    rates: list[float] = []
    for i, case in enumerate(CASES):
        seconds = median(found.seconds for found in measured[i])
        releases = [at for found in measured[i] for at in found.releases]
        found = measured[i][0]
        rates.append(tuples[i] / seconds / 1e6)
        print(
            f"{case.name:52} {rates[-1]:7.2f} M tuples/s  {found.results:10,} results  "
            f"peak {found.entries:8,} entries {found.nbytes / 1e6:6.1f} MB  "
            f"release {median(releases or [nan]) * 1e3:6.2f} ms, longest {np.max(releases or [nan]) * 1e3:6.2f} ms"
        )
    print(f"slide by tuple with 100 in reach: {rates[2]:.1f} M tuples/s (at least 2 wanted)")
    print(f"reach 100,000 takes {rates[3] / rates[6]:.2f} times the time of reach 100 (1,000 times as many bins in it)")
    print(f"a page of 8,192 takes {rates[5] * 8192 / rates[3]:.0f} times the time of a page of one tuple")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
