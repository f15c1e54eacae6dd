"""Desis' workload of many queries: thousands of windows over one stream, which share their slices."""

from __future__ import annotations

from typing import Final

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.scotty.throughput import RATES
from oop_engine.figures.scotty.workload import BUCKETS, EAGER, LAZY, NOTE, RATE, Workload, concurrent

SHARED: Final = (LAZY, EAGER)
FLAT: Final = 3


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
    return Measured.of(rows, f"{n:,} tuples in order, {RATE:,} a second of event time; medians of {runs} runs.", NOTE)


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
    fall, ahead = by[BUCKETS][least] / by[BUCKETS][most], max(by[name][most] for name in SHARED) / by[BUCKETS][most]
    return Verdict.of(
        *checks,
        Check(fall >= 10, f"{BUCKETS} fall by {fall:,.0f} times from {least:,} query to {most:,}"),
        Check(ahead >= 10, f"with {most:,} queries shared slices have {ahead:,.1f} times the rate of {BUCKETS}"),
        why="Many queries give more results than there are tuples: the second picture shows what those cost. The lazy"
        " store combines each result from all slices of its window, and each length adds slices: with 1,000 queries"
        " that is half of its time in a profile, and it grows with the square. Unless told, the operator combines"
        " ahead, as the eager store, from 256 slices a window on.",
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
