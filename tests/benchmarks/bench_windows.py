"""Q-a and Q-b, Parquet to Parquet in one process, beside DuckDB's batch group-by on the same file in the same run.

    python tests/benchmarks/bench_windows.py [tuples] [runs]

Q-a: tumbling 10 s count and sum(length) by srcIP. Q-b: sliding RANGE 60 s SLIDE 1 s count by srcIP, its input side
(until the last tuple is in, releases taken out) and in all. The data: 100 k sources, bounded Zipf(1.1), 100 k tuples a
second of event time, a fifth late by up to 2 s. DuckDB and Q-a are interleaved, then Q-a and Q-b; medians are printed,
and ratios of medians.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from operators.protocol import Emit
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import Punctuation

SECOND = 1_000_000_000
RATE, SOURCES = 100_000, 100_000


def generate(path: Path, n: int) -> None:
    """Write the data set."""
    rng = np.random.default_rng(1)
    shares = np.cumsum(np.arange(1, SOURCES + 1) ** -1.1)
    ranks = np.searchsorted(shares / shares[-1], rng.random(n))
    sources = (rng.permutation(SOURCES)[ranks] + (10 << 24)).astype(np.uint32)
    times = 1_700_000_000 * SECOND + np.arange(n) * (SECOND // RATE)
    times -= np.where(rng.random(n) < 0.2, rng.integers(0, 2 * SECOND, n), 0)
    columns = {
        "ts": pa.array(times).view(pa.timestamp("ns", "UTC")),
        "srcIP": pa.array(sources),
        "length": pa.array(rng.integers(60, 1500, n).astype(np.int32)),
    }
    pq.write_table(pa.table(columns), path, row_group_size=1 << 20)


def timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


class Clocked:
    """Times what a window aggregate spends on promises, apart from what it spends on tuples."""

    def __init__(self) -> None:
        self.releases: list[float] = []
        self._plain = WindowAggregate.punctuate

    def __enter__(self) -> Clocked:
        plain, releases = self._plain, self.releases

        def punctuate(self: WindowAggregate, p: Punctuation, emit: Emit, port: int = 0) -> None:
            start = perf_counter()
            plain(self, p, emit, port)
            releases.append(perf_counter() - start)

        WindowAggregate.punctuate = punctuate  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        WindowAggregate.punctuate = self._plain  # type: ignore[method-assign]


def main(n: int, runs: int) -> None:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        source, ours, theirs = (str(Path(folder) / name) for name in ("in.parquet", "ours.parquet", "theirs.parquet"))
        generate(Path(source), n)
        packets = oop.table(source)
        qa = packets.window(range="10 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")
        qb = packets.window(range="60 s", slide="1 s").aggregate(oop.count(), by="srcIP")
        sql = f"""COPY (SELECT srcIP, epoch_ns(ts) // 10000000000 AS wid, count(*), sum(length)
                  FROM '{source}' GROUP BY ALL) TO '{theirs}'"""

        def sliding() -> tuple[float, float, list[float], int, Run]:
            results = 0
            start = perf_counter()
            run = Run(Plan((qb.node,)))
            with Clocked() as clock:
                for _, element in run:
                    results += len(element) if isinstance(element, Page) else 0
            whole = perf_counter() - start
            return whole, whole - sum(clock.releases), clock.releases, results, run

        batch, window, beside, whole, inner = [], [], [], [], []
        releases: list[float] = []
        for number in range(runs + 1):
            batch.append(timed(lambda: duckdb.sql(sql)))
            start = perf_counter()
            statistics = qa.to(ours).run()
            window.append(perf_counter() - start)
            if not number:
                # The first compiles, and opens what is opened once.
                batch.clear(), window.clear()
        sliding()
        for _ in range(runs):
            beside.append(timed(qa.to(ours).run))
            total, entry, latencies, results, run = sliding()
            whole.append(total)
            inner.append(entry)
            releases += latencies[1:-1]
        table, check = pq.read_table(ours), pq.read_table(theirs)
        assert table.num_rows == check.num_rows and int(pa.compute.sum(table["count"]).as_py()) == n

        def line(what: str, seconds: list[float], more: str = "") -> None:
            print(f"{what:44} {median(seconds):7.3f} s  {n / median(seconds) / 1e6:7.1f} M tuples/s  {more}")

        print(f"{n:,} tuples, pages of {Run(Plan((qa.node,))).page_rows:,}, medians of {runs} interleaved runs")
        line("DuckDB batch group-by, Parquet to Parquet", batch)
        line("Q-a, Parquet to Parquet", window, f"peak state {statistics.peak_state:,} partial aggregates")
        state = run.circuit.statistics()[-1].details
        peak = f"peak state {state['peak_state_tuples']:,}, {state['peak_state_bytes'] / 1e6:.0f} MB"
        line("Q-b, input side", inner, peak)
        line("Q-b, with its results", whole, f"{results:,} results")
        print(
            f"Q-b, release of one window: median {median(releases) * 1e3:.1f} ms, longest {max(releases) * 1e3:.1f} ms"
        )
        print(f"Q-a takes {median(window) / median(batch):.2f} times DuckDB's time (at most 2 wanted)")
        print(f"Q-b's input side takes {median(inner) / median(beside):.2f} times Q-a's time (at most 3 wanted)")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
