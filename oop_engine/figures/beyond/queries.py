"""Desis' workload of many queries: thousands of windows over one stream, which share their slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.scotty.throughput import RATES
from oop_engine.figures.scotty.workload import BUCKETS, EAGER, LAZY, NOTE, RATE, Workload, concurrent
from operators import functions as fn
from operators.window import SlidingWindow
from operators.window_aggregate.stores.slices import SlicingAggregate

SHARED: Final = (LAZY, EAGER)
FLAT: Final = 3
LENGTHS: Final = "Lengths are whole milliseconds from 1 to 20 s: with more than 19,001 queries some have the same."
WANTED_BYTES: Final = 300
"""The bytes a query that are wanted with the most queries."""


def held(load: Workload, windows: Mapping[str, SlidingWindow], store: Literal["lazy", "eager"]) -> tuple[int, int]:
    """Return the most bytes that slicing holds at any time, and the most slices."""
    operator = SlicingAggregate(windows, {"total": fn.sum("v")}, store=store)
    for page, promises in load.elements():
        operator.process_with(page, promises, lambda element: None)
    details = operator.statistics()
    return max(details["state_bytes"], details["peak_state_bytes"]), details["peak_state_tuples"]


def measure(size: Size) -> Measured:
    """Time sums over one stream in order by the number of queries, each a window of its own length."""
    n, runs = size.of(tiny=45_000, small=60_000, paper=4_000_000), size.of(tiny=1, small=1, paper=3)
    load = Workload.of(n)
    rows: list[dict[str, object]] = []
    for count in size.of(
        tiny=[1, 30], small=[1, 100, 500, 2_000], paper=[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]
    ):
        windows = concurrent(count)
        results = sum(-(-int(load.ts[-1] + 1) // window.size) for window in windows.values())
        for name, rate in load.rates(windows, (LAZY, EAGER, BUCKETS), runs).items():
            per = {"rate": rate / 1e6, "results": results * rate / n / 1e6}
            rows.append({"series": name, "queries": count, **per})
    said = f"{n:,} tuples in order, {RATE:,} a second of event time; medians of {runs} runs."
    return Measured.of(rows, said, NOTE, LENGTHS)


def judge(measured: Measured) -> Verdict:
    """See that shared slices are flat, and that buckets fall with each query."""
    by = {name: measured.along(name, "queries", "rate") for name in measured.series}
    least, most = min(by[LAZY]), max(by[LAZY])
    checks = [
        Check(
            max(by[name].values()) <= FLAT * min(by[name].values()),
            f"{name}: {min(by[name].values()):.2f} to {max(by[name].values()):.2f} M tuples a second; flat is a"
            f" factor of {FLAT}",
        )
        for name in SHARED
    ]
    fall = by[BUCKETS][least] / by[BUCKETS][most]
    ahead = max(by[name][most] for name in SHARED) / by[BUCKETS][most]
    return Verdict.of(
        *checks,
        Check(fall >= 10, f"{BUCKETS} fall by {fall:,.0f} times from {least:,} query to {most:,}"),
        Check(ahead >= 10, f"with {most:,} queries shared slices have {ahead:,.1f} times the rate of {BUCKETS}"),
        why="Many queries give more results than there are tuples of a stream as slow as this one: the second picture"
        " shows what those cost, and desis-sustained how a fast stream fares. The lazy"
        " store combines each result from all slices of its window, and each length adds slices: with 2,000 queries"
        " that is four fifths of its time in a profile, and it grows with the square. The eager store spends a third"
        " of its time on making windows, 5 microseconds each, before the first tuple. Unless told, the operator"
        " combines ahead, as the eager store, from 256 slices a window on.",
    )


QUERIES: Final = Figure(
    "desis-queries",
    "beyond",
    "Throughput by the number of queries",
    "Queries that share slices cost almost nothing each, so throughput stays flat; with a bucket for each window it"
    " falls with every query (Desis: up to a million windows).",
    Axis("queries", "queries over one stream", scale="log"),
    [RATES, Axis("results", "M results a second", scale="log")],
    measure,
    judge,
)


def measure_memory(size: Size) -> Measured:
    """Look at the most bytes that slices of many queries take, by the number of queries."""
    load = Workload.of(size.of(tiny=4_500, small=60_000, paper=200_000))
    rows: list[dict[str, object]] = []
    for count in size.of(tiny=[1, 30], small=[10, 100, 1_000, 10_000], paper=[10, 1_000, 100_000, 1_000_000]):
        windows = concurrent(count)
        stores: dict[str, Literal["lazy", "eager"]] = {LAZY: "lazy", EAGER: "eager"}
        for name, store in stores.items():
            nbytes, slices = held(load, windows, store)
            row = {"bytes": nbytes / count, "slices": slices, "all": nbytes}
            rows.append({"series": name, "queries": count, **row})
    return Measured.of(
        rows,
        f"{len(load.ts):,} tuples in order, {RATE:,} a second of event time; each query is a window of its own length,"
        " of 1 to 20 s. `all` are the bytes of all queries.",
        "These are the arrays that the operator keeps. Objects that describe windows are not counted, nor work arrays"
        " of a release: with 10,000 queries the lazy store lists the windows and slices to combine in 134 MB.",
        LENGTHS,
    )


def judge_memory(measured: Measured) -> Verdict:
    """See what a query takes where there are the most."""
    checks: list[Check] = []
    for name in SHARED:
        by = measured.along(name, "queries", "bytes")
        most = max(by)
        text = f"{name}: {by[most]:,.0f} bytes a query with {most:,} queries; {WANTED_BYTES} are wanted"
        checks.append(Check(by[most] <= WANTED_BYTES, text))
    slices = measured.along(LAZY, "queries", "slices")
    most = max(slices)
    return Verdict.of(
        *checks,
        why=f"With {most:,} queries there are up to {slices[most]:,} slices at once. Of 166 bytes a query that the"
        " eager store took with a million, the list of edges was 60, windows and their next edges 64, where to look for"
        " slices 25, lists of a release 8, and slices, cells and sums 6. Not in them: 24 for how far windows are given,"
        " 11 for names, and 63 for lists and dictionaries of windows. tracemalloc saw 297 in all, 341 for moments.",
    )


MEMORY: Final = Figure(
    "desis-memory",
    "beyond",
    "Memory a query by the number of queries",
    "Queries that share slices take little memory each (Desis: up to a million windows).",
    Axis("queries", "queries over one stream", scale="log"),
    [Axis("bytes", "bytes a query", scale="log")],
    measure_memory,
    judge_memory,
)
