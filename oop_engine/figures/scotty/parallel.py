"""Fig 22: what several threads gain on the windows of a dashboard, which shows M4 of 80 windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Final

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, cores, repeated
from oop_engine.figures.scotty.workload import BUCKETS, RATE, SECOND, concurrent

SLICING: Final = "slicing"
KEYS: Final = 16


def streams(n: int, windows: int) -> dict[str, oop.Stream]:
    """Return M4 by key over concurrent windows, from shared slices, and from buckets: a query for each window."""
    random = np.random.default_rng(1)
    times = np.arange(n) * (SECOND // RATE)
    table = pa.table({"ts": times, "k": random.integers(0, KEYS, n), "v": random.integers(0, 1_000, n)})
    stream, result = oop.arrow(table, punctuate=oop.ordered("ts")), oop.m4("v", "ts")
    sizes = {name: window.size for name, window in concurrent(windows).items()}
    kept = ("k", "m4", "window_start", "window_end")
    shared = stream.windows({name: oop.tumbling(size) for name, size in sizes.items()})
    apart = [
        stream.window(range=size, wattr="ts").aggregate(m4=result, by="k", strategy="wid").project(*kept)
        for size in sizes.values()
    ]
    return {SLICING: shared.aggregate(m4=result, by="k").project(*kept), BUCKETS: oop.meld(*apart)}


def clocked(stream: oop.Stream, threads: int) -> tuple[float, float]:
    """Return the seconds that a run takes, and how many cores it keeps busy.

    - `stream`: what to run.
    - `threads`: how many share its operators.

    >>> seconds, busy = clocked(oop.rows([(1,)], oop.Schema.of(ts="int64")), 1)
    >>> seconds > 0 and busy > 0
    True
    """
    start, cpu = perf_counter(), process_time()
    stream.run(threads=threads)
    seconds = perf_counter() - start
    return seconds, (process_time() - cpu) / seconds


def sorted_rows(stream: oop.Stream, threads: int) -> list[str]:
    """Return the results of a run as text, in the order of the alphabet.

    - `stream`, `threads`: as for `clocked`.

    >>> sorted_rows(oop.rows([(3,), (1,)], oop.Schema.of(ts="int64")), 1)
    ["{'ts': 1}", "{'ts': 3}"]
    """
    return sorted(map(repr, stream.run(threads=threads).table.to_pylist()))


def measure(size: Size) -> Measured:
    """Time both by threads, up to the cores there are."""
    n, windows, runs = size.of(tiny=(2_000, 4, 1), small=(20_000, 80, 1), paper=(1_000_000, 80, 5))
    there = cores()
    steps = [count for count in (1, 2, 4, 8, 16) if count <= max(2, there)]
    queries = streams(n, windows)
    answers = {
        f"{name}, {threads} threads": sorted_rows(q, threads) for threads in steps for name, q in queries.items()
    }
    agreed(answers)
    works: Mapping[str, Callable[[], tuple[float, float]]] = {
        f"{name} {threads}": partial(clocked, query, threads) for threads in steps for name, query in queries.items()
    }
    first = {
        f"{name} {threads}": partial(clocked, query, threads)
        for threads in steps
        for name, query in streams(KEYS, windows).items()
    }
    found, short = repeated(works, runs), repeated(first, runs)
    rows: list[dict[str, object]] = []
    for threads in steps:
        for name in queries:
            seconds, busy = (median(values) for values in zip(*found[f"{name} {threads}"], strict=True))
            start = median(spent for spent, _ in short[f"{name} {threads}"]) / seconds * 100
            row = {"rate": n / seconds / 1e6, "cpu": busy * 100, "cores": there, "start": start}
            rows.append({"series": name, "threads": threads, **row})
    return Measured.of(
        rows,
        f"{n:,} tuples of {KEYS} keys, in order; M4 over {windows} windows. Wall-clock time, medians of {runs} runs on"
        f" {there} cores.",
        "Threads share the keys of one query, where the paper gives each operator instance windows of its own."
        f" `start` is the time of a run over {KEYS} tuples, in percent of the whole run.",
    )


def judge(measured: Measured) -> Verdict:
    """See what each core adds, and how far apart slicing and buckets are; one core says nothing of it."""
    cores = int(measured.table["cores"][0].as_py())
    by = {name: measured.along(name, "threads", "rate") for name in measured.series}
    if cores < 2:
        return Verdict("not comparable", why="This machine has one core.")
    most = max(count for count in by[SLICING] if count <= cores)
    ratios = [rate / by[BUCKETS][count] for count, rate in by[SLICING].items()]
    starts = {name: measured.along(name, "threads", "start") for name in measured.series}
    said = " and ".join(f"{own[1]:.0f} % ({name}, 1 thread)" for name, own in starts.items())
    gains = {name: rates[most] / rates[1] for name, rates in by.items()}
    return Verdict.of(
        *(
            Check(
                gain >= 0.7 * most,
                f"{name}: {most} threads on {cores} cores have {gain:.2f} times the rate of one; {0.7 * most:.1f} and"
                " more is linear",
            )
            for name, gain in gains.items()
        ),
        Check(min(ratios) >= 10, f"slicing has {min(ratios):.1f} to {max(ratios):.1f} times the rate of buckets"),
        why=f"A run over {KEYS} tuples, which makes the same operators and threads and gives the results of as many"
        f" windows, takes {said} of the time of the whole run, and threads do not share that. Whatever else runs on the"
        " machine takes from the other cores.",
    )


FIG_22: Final = Figure(
    "scotty-22",
    "scotty",
    "Throughput and load by threads",
    "Throughput grows with the number of cores, for slicing and buckets; slicing is an order of magnitude faster.",
    Axis("threads", "threads", scale="log"),
    [Axis("rate", "M tuples a second", scale="log"), Axis("cpu", "CPU, %")],
    measure,
    judge,
)
