"""LightSaber's queries: what each core adds, beside the rate that was published."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, cores, repeated
from oop_engine.figures.scotty.parallel import clocked, sorted_rows

SECOND: Final = 1_000_000_000
RATE: Final = 10_000
"""Tuples a second of event time."""
PUBLISHED: Final = "LightSaber, as published"
AT_BEST: Final = "at best"
PUBLISHED_RATE, PUBLISHED_CORES = 470, 16
"""M tuples a second, the most that the paper reports, and of how many cores."""
LINEAR: Final = 0.7
"""So much of the rate a core is left where throughput grows linearly, as in scotty-22."""
WHOLE: Final = 0.8
"""One thread has a core for itself if it keeps so much of it busy."""


def queries(n: int) -> dict[str, oop.Stream]:
    """Return the queries by name, over n tuples in order: of clusters (CM), grids (SG), roads (LRB) and views (YSB).

    - `n`: how many tuples.
    """
    random = np.random.default_rng(1)
    below = {
        "category": 8, "job": 1_000, "event": 9, "cpu": 1_000,
        "house": 40, "household": 5, "plug": 5, "load": 1_000,
        "highway": 4, "direction": 2, "segment": 100, "speed": 100,
        "view": 3, "ad": 1_000,
    }  # fmt: skip
    columns = {name: random.integers(0, most, n) for name, most in below.items()}
    stream = oop.arrow(pa.table({"ts": np.arange(n) * (SECOND // RATE), **columns}), punctuate=oop.ordered("ts"))
    campaigns = {"ad": list(range(1_000)), "campaign": [ad // 10 for ad in range(1_000)]}

    def sliding(of: oop.Stream, seconds: int) -> oop.Windowed:
        return of.window(range=seconds * SECOND, slide=SECOND, wattr="ts")

    road = ["highway", "direction", "segment"]
    return {
        "CM1": sliding(stream, 60).aggregate(result=oop.sum("cpu"), by="category"),
        "CM2": sliding(stream.filter("event = 1"), 60).aggregate(result=oop.avg("cpu"), by="job"),
        "SG1": sliding(stream, 3_600).aggregate(result=oop.avg("load")),
        "SG2": sliding(stream, 128).aggregate(result=oop.avg("load"), by=["plug", "household", "house"]),
        "LRB": sliding(stream, 300).aggregate(result=oop.avg("speed"), by=road).filter("result < 40"),
        "YSB": stream.filter("view = 0").lookup(campaigns, "ad").window(range=10 * SECOND, wattr="ts")
        .aggregate(result=oop.count(), by="campaign"),
    }  # fmt: skip


def measure(size: Size) -> Measured:
    """Time each query by threads, up to the cores there are."""
    n, runs = size.of(tiny=(1_000, 1), small=(200_000, 3), paper=(4_000_000, 5))
    there = cores()
    steps = [count for count in (1, 2, 4, 8, 16) if count <= max(2, there)]
    rows: list[dict[str, object]] = []
    for name, query in queries(n).items():
        agreed({f"{name}, {threads} threads": sorted_rows(query, threads) for threads in steps})
        found = repeated({str(threads): partial(clocked, query, threads) for threads in steps}, runs)
        for threads in steps:
            seconds, busy = (median(values) for values in zip(*found[str(threads)], strict=True))
            row = {"query": name, "rate": n / seconds / threads / 1e6, "threads": threads, "busy": busy}
            rows.append({"series": _named(threads), **row, "cpu": n / seconds / busy / 1e6, "cores": there})
    published = {"query": AT_BEST, "rate": PUBLISHED_RATE / PUBLISHED_CORES, "threads": PUBLISHED_CORES}
    rows.append({"series": PUBLISHED, **published, "busy": None, "cpu": None, "cores": PUBLISHED_CORES})
    return Measured.of(
        rows,
        f"{n:,} tuples in order, {RATE:,} a second of event time, from Arrow in memory. Wall-clock time of whole runs,"
        f" medians of {runs} alternate runs on {there} cores. `busy` is how many cores a run kept busy,"
        " `cpu` M tuples a second of processor time.",
        "CM1: sum by category over 60 s; CM2: mean by job of one kind of event in nine over 60 s; SG1: mean over an"
        " hour; SG2: mean by plug of 1,000 over 128 s; LRB: segments of roads with a mean speed below 40 over 300 s;"
        " these slide by a second. YSB: views by campaign in tumbling windows of 10 s, campaigns looked up. Values are"
        " drawn evenly, where the paper replays traces.",
        f"Published are {PUBLISHED_RATE} M tuples a second on {PUBLISHED_CORES} cores, the most of all its queries,"
        " on another machine (Theodorakis and others, SIGMOD 2020).",
    )


def _named(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def judge(measured: Measured) -> Verdict:
    """See how much of the rate a core is left with all cores, and how near the published rate the best query is."""
    rows = [row for row in measured.table.to_pylist() if row["series"] != PUBLISHED]
    best, published = max(rows, key=lambda row: row["cpu"]), PUBLISHED_RATE / PUBLISHED_CORES
    near = Check(
        best["cpu"] >= published,
        f"at best {best['cpu']:.1f} M tuples a second of processor time ({best['query']}, {best['series']});"
        f" {published:.1f} a second and core were published",
    )
    cores = rows[0]["cores"]
    most = max(row["threads"] for row in rows if row["threads"] <= cores)
    one, all_of = ({row["query"]: row for row in rows if row["threads"] == count} for count in (1, most))
    had = median(row["busy"] for row in one.values())
    if cores < 2 or had < WHOLE:
        shared = f"Others use this machine, so that one thread had {had:.1f} of a core."
        why = f"{'This machine has one core.' if cores < 2 else shared} What threads add is not judged."
        return Verdict("not comparable" if near.holds else "does not hold", [near], why=f"{why} {_WHY}")
    checks: list[Check] = []
    for name, row in one.items():
        rate, other = all_of[name]["rate"], row["rate"]
        text = f"{name}: {rate:.2f} M tuples a second and core with {most} threads, {rate / other:.0%} of {other:.2f}"
        checks.append(Check(rate >= LINEAR * other, f"{text} with one; {LINEAR:.0%} and more is linear"))
    busy = ", ".join(f"{row['busy']:.1f} ({name})" for name, row in all_of.items())
    return Verdict.of(*checks, near, why=f"Of {most} cores these were busy: {busy}. {_WHY}")


_WHY: Final = (
    "A run reads, drives its operators and hands on results in one thread; others take parts of large pages, by rows or"
    " by groups, and SG1 has no groups. LightSaber compiles a query to one loop over its tuples; here each operator has"
    " its own. The published rate is of another machine."
)
LIGHTSABER: Final = Figure(
    "lightsaber",
    "beyond",
    "Rate a core of LightSaber's queries, by threads",
    "Throughput grows linearly with the number of cores, so that the rate a core stays as it is; up to 470 M tuples a"
    " second on 16 cores, which is 29 M a core (LightSaber).",
    Axis("query", "query"),
    [Axis("rate", "M tuples a second and core", scale="log")],
    measure,
    judge,
    shape="bars",
)
