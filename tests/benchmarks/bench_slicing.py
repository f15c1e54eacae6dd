"""Slices shared by concurrent windows: throughput, bytes a group, and the latency of a release, lazy and eager.

    python tests/benchmarks/bench_slicing.py [tuples] [runs] [cpu] [thin | keyed]

The workload of Scotty (TODS 2021, section 10): concurrent tumbling windows of 1 to 20 s, a sum, tuples replayed from
memory, each page with the promises behind it. A thick stream has 100,000 tuples a second of event time, in pages of
8,192, and a promise behind the page that passes a second. A thin one has 2,000, and every second is one page and one
promise, as Scotty gets its watermarks. Fig 13: in order; Fig 14 and 17a: with sessions (gap 1 s, five gaps a minute)
and tuples late by 0 to 2 s; by 100 k groups. The release of one window of many slices is in Fig 16:
`oop-engine figures scotty-16`.

The first run of each row is not counted: it compiles, and its results are compared with those of a naive program.
Runs of all rows are interleaved; medians are printed, and how long a page takes, and a promise that releases something,
when they are handed over apart (nan where none does). With `cpu` the least time of the process is taken, which other
work on the machine disturbs less; with `thin` the thin rows and the thick ones beside them are run alone, with `keyed`
those by groups. `together` is what a page takes with the promises behind it.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from math import nan
from statistics import median
from time import perf_counter, process_time

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.figures.scotty.workload import SECOND, Window, Workload, concurrent
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction, count, sum
from operators.protocol import Element, Promises
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before

PAGE = 8192
GROUPS = 100_000
THICK, THIN = 100_000, 2_000
TOTAL: dict[str, AggregateFunction] = {"total": sum("v")}
clock: Callable[[], float] = perf_counter


def stream(n: int, rate: int, *, late: float = 0.0, gaps: bool = False, groups: int = 0) -> list[Element]:
    """Make pages and promises of n tuples, `rate` a second of event time, a share of them late by 0 to 2 s."""
    load = Workload.of(n, rate=rate, late=late, gaps=gaps)
    types = {"ts": pa.int64(), "v": pa.int64()} | ({"k": pa.int64()} if groups else {})
    columns = {"ts": load.ts, "v": load.values}
    if groups:
        columns["k"] = np.random.default_rng(2).integers(0, groups, n)
    everything = Page.of(Schema.of(progress=["ts"], **types), columns)
    script: list[Element] = []
    stops = load.stops.tolist() if rate <= PAGE else [*range(PAGE, n, PAGE), n]
    start = promised = 0
    for stop in stops:
        if stop > start:
            script.append(everything.slice(start, stop))
        # The seconds that have passed when so many tuples have come; that of the last tuple has not.
        passed = int(np.searchsorted(load.stops[:-1], stop, side="right"))
        script += [before("ts", bound) for bound in load.bounds[promised:passed].tolist()[-1:]]
        start, promised = stop, passed
    return script


def with_session(n: int) -> dict[str, Window]:
    """Give n tumbling windows and a session."""
    return {**concurrent(n), "session": SessionWindow("ts", gap=SECOND)}


@attrs.define
class Row:
    """One line of the table: a workload, and what was measured of it."""

    name: str
    script: Sequence[Element]
    windows: Mapping[str, Window]
    functions: Mapping[str, AggregateFunction] = attrs.field(factory=lambda: TOTAL)
    by: tuple[str, ...] = ()
    seconds: list[float] = attrs.field(factory=list)
    pages: list[float] = attrs.field(factory=list)
    releases: list[float] = attrs.field(factory=list)
    operator: SlicingAggregate | None = None

    @property
    def tuples(self) -> int:
        return builtins.sum(len(element) for element in self.script if isinstance(element, Page))

    def run(self) -> None:
        """Drive a fresh operator over the script."""
        operator = self._fresh()

        def emit(element: Element) -> None:
            pass

        together = self.together
        start = clock()
        for page, promises in together:
            if promises is None:
                operator.process(page, emit)
            else:
                operator.process_with(page, promises, emit)
        self.seconds.append(clock() - start)
        self.operator = operator

    @property
    def together(self) -> list[tuple[Page, Promises | None]]:
        """Each page with the promise behind it, as sources hand them over."""
        found: list[tuple[Page, list[int]]] = []
        for element in self.script:
            if isinstance(element, Page):
                found.append((element, []))
            elif found and isinstance(bound := element.bound("ts"), int):
                found[-1][1].append(bound)
        return [
            (page, Promises("ts", np.full(len(bounds), len(page)), np.array(bounds)) if bounds else None)
            for page, bounds in found
        ]

    def look(self) -> None:
        """Time every call apart, which takes longer as a whole."""
        operator, given = self._fresh(), 0

        def emit(element: Element) -> None:
            nonlocal given
            given += len(element) if isinstance(element, Page) else 0

        for element in self.script:
            given, start = 0, perf_counter()
            if isinstance(element, Page):
                operator.process(element, emit)
                self.pages.append(perf_counter() - start)
                continue
            operator.punctuate(element, emit)
            if given:
                self.releases.append(perf_counter() - start)

    def check(self) -> None:
        """Compare all results with naive ones; AssertionError where they differ."""
        operator, pages = self._fresh(), list[pa.RecordBatch]()

        def emit(element: Element) -> None:
            if isinstance(element, Page):
                pages.append(element.batch)

        for page, promises in self.together:
            if promises is None:
                operator.process(page, emit)
            else:
                operator.process_with(page, promises, emit)
        operator.punctuate(END, emit)
        found = pa.Table.from_batches(pages)
        given = [page.batch for page, _ in self.together]
        table = pa.Table.from_batches(given)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        keys = columns["k"] if self.by else np.zeros(len(table), np.int64)
        values = columns["v"] if "total" in self.functions else np.ones(len(table), np.int64)
        order = np.lexsort((columns["ts"], keys))
        inputs = columns["ts"][order], keys[order], values[order]
        of_window = found["window"].combine_chunks() if len(self.windows) > 1 else None
        results = [found["k"].to_numpy() if self.by else np.zeros(len(found), np.int64)]
        results += [found[name].to_numpy() for name in ("wid", next(iter(self.functions)))]
        for name, window in self.windows.items():
            rows = np.ones(len(found), np.bool_) if of_window is None else pc.equal(of_window, name).to_numpy(False)
            k, wids, totals = (column[rows] for column in results)
            order = np.lexsort((wids, k))
            for ours, theirs in zip((k, wids, totals), naive(window, *inputs), strict=True):
                assert np.array_equal(ours[order], theirs), f"{self.name}: results of {name} differ from the naive ones"

    def _fresh(self) -> SlicingAggregate:
        return SlicingAggregate(self.windows, self.functions, self.by)

    def __str__(self) -> str:
        assert self.operator is not None
        told, pages = self.operator.statistics(), builtins.sum(isinstance(element, Page) for element in self.script)
        taken = min(self.seconds) if clock is process_time else median(self.seconds)
        peak = f"peak {told['peak_state_tuples']:,} slices, {told['peak_state_bytes'] / 1e6:.1f} MB"
        if told["groups"]:
            peak += f", {told['peak_state_bytes'] / told['groups']:.0f} bytes a group"
        return (
            f"{self.name:52} {self.tuples / taken / 1e6:7.1f} M tuples/s  together {taken / pages * 1e6:6.1f} us  page"
            f" {median(self.pages) * 1e6:6.0f} us  release {median(self.releases or [nan]) * 1e6:6.0f} us"
            f"  {told['results']:9,} results  {peak}"
        )


def naive(window: Window, ticks: Int64s, keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Give key, window-id and total of each result, in order, of tuples that are sorted by key and tick."""
    if isinstance(window, SessionWindow):
        first = np.append(True, (np.diff(ticks) >= window.gap) | (np.diff(keys) != 0))
        wids = ticks
    else:
        assert window.size == window.slide, "only tumbling windows are known here"
        wids = (ticks - window.origin) // window.slide
        first = np.append(True, (np.diff(wids) != 0) | (np.diff(keys) != 0))
    starts = np.flatnonzero(first)
    return keys[starts], wids[starts], np.add.reduceat(values, starts)


def shared(n: int) -> list[Row]:
    """Give the rows of streams without groups, at both rates."""
    many, few = f"{THICK // 1000} k tuples/s", f"{THIN // 1000} k tuples/s"
    thick, thin = stream(n, THICK), stream(n // 4, THIN)
    late_thick, late_thin = stream(n, THICK, late=0.2, gaps=True), stream(n // 4, THIN, late=0.2, gaps=True)
    return [
        *(Row(f"in order, {many}, n = {k}", thick, concurrent(k)) for k in (1, 10, 100, 1000)),
        *(Row(f"in order, {few}, n = {k}", thin, concurrent(k)) for k in (1, 10, 100, 1000)),
        *(Row(f"sessions, 20% late, {many}, n = {k}", late_thick, with_session(k)) for k in (10, 100)),
        *(Row(f"sessions, 20% late, {few}, n = {k}", late_thin, with_session(k)) for k in (10, 100, 1000)),
    ]


def throughput(n: int, runs: int, *, thin: bool, keyed: bool) -> None:
    """Print the rows of Fig 13, 14, 17a, and of groups."""
    table = [] if keyed else shared(n)
    if not thin and not keyed:
        for share in (0.0, 0.2, 0.5, 0.9):
            script = stream(n, THICK, late=share, gaps=True)
            table.append(Row(f"n = 20 and sessions, {share:.0%} late by 0 to 2 s", script, with_session(20)))
    if not thin:
        slow, of = stream(n + n // 2, THICK, groups=GROUPS), f"by 100 k groups, {THICK // 1000} k tuples/s"
        table += [Row(f"{of}, n = {k}", slow, concurrent(k), TOTAL, ("k",)) for k in (1, 10)]
        grouped = stream(24_000_000 if n >= 4_000_000 else n, 1_000_000, groups=GROUPS)
        of = "by 100 k groups, 1 M tuples/s"
        table.append(Row(f"{of}, n = 20, sum", grouped, concurrent(20), TOTAL, ("k",)))
        table.append(Row(f"{of}, n = 20, count", grouped, concurrent(20), {"n": count()}, ("k",)))
        short: dict[str, Window] = {"session": SessionWindow("ts", gap=SECOND // 2)}
        table.append(Row(f"{of}, sessions of gap 0.5 s", grouped, short, {"n": count()}, ("k",)))
    for row in table:
        row.check()
        row.look()
    for _ in range(runs):
        for row in table:
            row.run()
    for row in table:
        print(row)


if __name__ == "__main__":
    words = sys.argv[1:]
    if "cpu" in words:
        clock = process_time
    thin, keyed = "thin" in words, "keyed" in words
    numbers = [int(float(word)) for word in words if word not in ("cpu", "thin", "keyed")]
    throughput(*[*numbers, *(4_000_000, 5)[len(numbers) :]], thin=thin, keyed=keyed)
