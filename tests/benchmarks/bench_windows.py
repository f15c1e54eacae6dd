"""Q-a, Q-b and Q-c on one Parquet file, beside DuckDB and a NumPy program on the same file in the same run.

    python tests/benchmarks/bench_windows.py [tuples] [runs] [beside]

Q-a: tumbling 10 s count and sum(length) by srcIP. Q-b: sliding RANGE 60 s SLIDE 1 s count by srcIP, its input side
(until the last tuple is in, releases taken out) and in all. The data: 100 k sources, bounded Zipf(1.1), 100 k tuples a
second of event time, a fifth late by up to 2 s. DuckDB and Q-a are interleaved, then Q-a and Q-b; medians are printed,
and ratios of medians.

With `beside`, two programs that were written for one query and know that the file ends are run instead, after their
answers were compared with ours: for Q-b twenty lines of NumPy, which count by second and keep a rolling dense vector of
all addresses, and for Q-c (sum(length) over 20 tumbling windows of 1 to 20 s, no groups) DuckDB, in which one pane of a
second is shared by hand. One thread each; the least CPU time of the process is printed, since other work on the machine
disturbs it least.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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


Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Window-id, key and aggregate of results."""


def rolling(source: str) -> list[Columns]:
    """Answer Q-b: count by second and address, then let a dense vector of all addresses roll over the seconds."""
    table = pq.read_table(source, columns=["ts", "srcIP"], use_threads=False)
    seconds, keys = table["ts"].to_numpy().view(np.int64) // SECOND, table["srcIP"].to_numpy().astype(np.int64)
    least, first = int(keys.min()), int(seconds.min())
    width, number = int(keys.max()) - least + 1, int(seconds.max()) - first + 1
    panes = np.bincount((seconds - first) * width + keys - least, minlength=number * width).reshape(-1, width)
    counts, results = np.zeros(width, np.int64), list[Columns]()
    for wid in range(number + 59):
        if wid < number:
            counts += panes[wid]
        if wid >= 60:
            counts -= panes[wid - 60]
        there = np.flatnonzero(counts)
        results.append((np.full(len(there), first + wid), there + least, counts[there]))
    return results


def found(stream: oop.Stream, wid: str, key: str, value: str) -> list[Columns]:
    """Run a plan, and give its results page by page, as `rolling` does."""
    results: list[Columns] = []
    for _, element in Run(Plan((stream.node,))):
        if isinstance(element, Page) and len(element):
            columns = (element.column(name) for name in (wid, key, value))
            # Names of windows, w1 to w20, stand for their seconds.
            numbers = (
                pc.utf8_slice_codeunits(c, 1).cast(pa.int64()) if pa.types.is_string(c.type) else c for c in columns
            )
            a, b, c = (column.to_numpy().astype(np.int64, copy=False) for column in numbers)
            results.append((a, b, c))
    return results


def in_order(results: list[Columns]) -> list[npt.NDArray[np.int64]]:
    wids, keys, values = (np.concatenate(columns) for columns in zip(*results, strict=True))
    order = np.lexsort((keys, wids))
    return [wids[order], keys[order], values[order]]


def compare(ours: list[Columns], theirs: list[Columns]) -> None:
    """Check that two programs gave the same results."""
    for mine, other in zip(in_order(ours), in_order(theirs), strict=True):
        assert np.array_equal(mine, other), "the answers differ"


def beside(n: int, runs: int) -> None:
    """Print Q-b beside NumPy and Q-c beside DuckDB."""
    import duckdb

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    duckdb.sql("SET threads = 1")
    with tempfile.TemporaryDirectory() as folder:
        source = str(Path(folder) / "in.parquet")
        generate(Path(source), n)
        packets = oop.table(source)
        qb = packets.window(range="60 s", slide="1 s").aggregate(oop.count(), by="srcIP")
        several = packets.windows(**{f"w{size}": oop.tumbling(f"{size} s") for size in range(1, 21)})
        qc = several.aggregate(total=oop.sum("length"))
        sql = f"""WITH panes AS (SELECT epoch_ns(ts) // {SECOND} AS second, sum(length) AS total
                                 FROM '{source}' GROUP BY ALL)
                  SELECT second // size AS wid, size, sum(total)::BIGINT AS total
                  FROM panes, range(1, 21) AS sizes(size) GROUP BY ALL"""

        def by_hand() -> list[Columns]:
            a, b, c = duckdb.sql(sql).fetchnumpy().values()
            return [(np.asarray(a, np.int64), np.asarray(b, np.int64), np.asarray(c, np.int64))]

        def run(stream: oop.Stream) -> int:
            return sum(len(element) for _, element in Run(Plan((stream.node,))) if isinstance(element, Page))

        compare(found(qb, "wid", "srcIP", "count"), rolling(source))
        compare(found(qc, "wid", "window", "total"), by_hand())
        rows: dict[str, Callable[[], object]] = {
            "Q-b": lambda: run(qb),
            "Q-b, NumPy: panes and a rolling dense vector": lambda: rolling(source),
            "Q-c": lambda: run(qc),
            "Q-c, DuckDB: one pane shared by hand": lambda: duckdb.sql(sql).fetchnumpy(),
            "Parquet to Arrow, both columns of Q-c": lambda: pq.read_table(
                source, columns=["ts", "length"], use_threads=False
            ),
        }
        taken: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(runs):
            for name, work in rows.items():
                start = process_time()
                work()
                taken[name].append(process_time() - start)
        print(f"{n:,} tuples, least CPU seconds of {runs} interleaved runs, one thread each")
        for name, seconds in taken.items():
            print(f"{name:48} {min(seconds):7.3f} s  {n / min(seconds) / 1e6:7.1f} M tuples/s")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "beside"]
    tuples, times = int(float(words[0])) if words else 10_000_000, int(words[1]) if len(words) > 1 else 5
    (beside if "beside" in sys.argv else main)(tuples, times)
