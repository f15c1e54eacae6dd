"""Queries from Parquet to Parquet beside DuckDB with the same cores: seconds, CPU seconds and memory of a process.

    python tests/benchmarks/bench_cores.py [--cores 1,2] [--tuples 1e7] [--runs 5] [--rows Q-a,...]

A process that is bound to so many cores runs each query once to warm up, and then `runs` times; the least is printed.
Reading, operators and writing are threads of one run, so `threads=1` of ours uses more than one core where there are
several; DuckDB is told how many threads it has. Programs take turns, and their answers are compared before. Both write
the same columns, packed by zstd.

- Q-a: tumbling 10 s, count and sum(length) by srcIP, 100 k sources, row groups of 100 k and of 1 M tuples.
- Q-a, 1 M and 5 M sources, row groups of 1 M, each source as often as the others.
- Q-d: a band join: even rows with odd rows, srcIP of both alike, times less than 2 s apart; a tenth of the tuples.
- Q-b: RANGE 60 s, SLIDE 1 s, count by srcIP. Q-c: sum(length) in 20 tumbling windows of 1 to 20 s, without groups. A
  capture of as many packets, of 100 k sources, to what Q-a gives. These three are ours alone: how much the second core
  gains.

The data are those of bench_windows and bench_capture.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.bench_capture import write as write_capture
from tests.benchmarks.bench_windows import SECOND, generate

_KEYS = {"Q-a (1 M sources)": 1_000_000, "Q-a (5 M sources)": 5_000_000}
_ALONE = ("Q-b", "Q-c", "capture")
ROWS = ("Q-a (100 k a group)", "Q-a (1 M a group)", *_KEYS, "Q-d", *_ALONE)


def write(folder: Path, n: int) -> None:
    """Write the data of all rows."""
    generate(folder / "whole.parquet", n)
    table = pq.read_table(folder / "whole.parquet")
    pq.write_table(table, folder / "Q-a (100 k a group).parquet", row_group_size=100_000)
    pq.write_table(table, folder / "Q-a (1 M a group).parquet", row_group_size=1_000_000)
    for row, keys in _KEYS.items():
        sources = np.random.default_rng(keys).integers(0, keys, n).astype(np.uint32)
        keyed = table.set_column(1, "srcIP", pa.array(sources))
        pq.write_table(keyed, folder / f"{row}.parquet", row_group_size=1_000_000)
    for half in (0, 1):
        some = table.take(pa.array(np.arange(half, n // 10, 2)))
        pq.write_table(some, folder / f"half{half}.parquet", row_group_size=1_000_000)
    write_capture(folder / "packets.pcap", n, sources=100_000)


def ours(folder: Path, row: str, to: Path, cores: int) -> Callable[[], object]:
    import oop_engine as oop

    pa.set_cpu_count(cores)
    packets = oop.table(str(folder / "Q-a (1 M a group).parquet"))
    if row == "Q-b":
        sliding = packets.window(range="60 s", slide="1 s").aggregate(oop.count(), by="srcIP")
        return lambda: sliding.to(to).run()
    if row == "Q-c":
        windows: dict[str, Any] = {f"w{seconds}": oop.tumbling(f"{seconds} s") for seconds in range(1, 21)}
        several = packets.windows(**windows).aggregate(oop.sum("length"))
        return lambda: several.to(to).run()
    if row != "Q-d":
        path = str(folder / f"{row}.parquet")
        source = oop.pcap(folder / "packets.pcap") if row == "capture" else oop.table(path)
        result = source.window(range="10 s").aggregate(count=oop.count(), total=oop.sum("length"), by="srcIP")
        return lambda: result.to(to).run()
    left, right = (oop.table(str(folder / f"half{half}.parquet")) for half in (0, 1))
    pairs = left.join(right, on="srcIP", range="2 s").aggregate(count=oop.count())
    return lambda: pairs.to(to).run()


def duckdb(folder: Path, row: str, to: Path, cores: int) -> Callable[[], object]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {cores}")
    query = f"""SELECT srcIP, count, total, wid, make_timestamp_ns(wid * {10 * SECOND}) AS window_start,
                       make_timestamp_ns((wid + 1) * {10 * SECOND}) AS window_end
                FROM (SELECT srcIP, epoch_ns(ts) // {10 * SECOND} AS wid, count(*) AS count,
                             CAST(sum(length) AS BIGINT) AS total
                      FROM '{folder / f"{row}.parquet"}' GROUP BY ALL)"""
    if row == "Q-d":
        query = f"""SELECT count(*) AS count FROM '{folder / "half0.parquet"}' l JOIN '{folder / "half1.parquet"}' r
                    ON l.srcIP = r.srcIP AND epoch_ns(r.ts) > epoch_ns(l.ts) - {2 * SECOND}
                    AND epoch_ns(r.ts) < epoch_ns(l.ts) + {2 * SECOND}"""
    return lambda: connection.execute(f"COPY ({query}) TO '{to}' (FORMAT parquet, COMPRESSION zstd)")


ENGINES = {"ours": ours, "DuckDB": duckdb}


def measure(engine: str, folder: Path, row: str, cores: int, runs: int) -> None:
    """Print what the runs of one program took, as JSON; for a process of its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    query = ENGINES[engine](folder, row, folder / f"{engine}.parquet", cores)
    query()
    seconds, cpu = list[float](), list[float]()
    for _ in range(runs):
        began, used = perf_counter(), process_time()
        query()
        seconds.append(perf_counter() - began)
        cpu.append(process_time() - used)
    print(json.dumps([min(seconds), min(cpu), most_memory()]))


def most_memory() -> float:
    """Return the most MB that this process has held; `ru_maxrss` counts those of the process that made it, too."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def measured(engine: str, folder: Path, row: str, cores: int, runs: int) -> list[float]:
    module = [sys.executable, "-m", "tests.benchmarks.bench_cores", "--measure", engine, str(folder)]
    told = subprocess.run(
        [*module, "--rows", row, "--cores", str(cores), "--runs", str(runs)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    found: list[float] = json.loads(told.stdout)
    return found


def answer(path: Path, row: str) -> pa.Table:
    ends = ["window_start", "window_end"]
    table = pq.read_table(path, columns=["count"] if row == "Q-d" else ["srcIP", "wid", "count", "total", *ends])
    table = table.cast(pa.schema([(name, pa.int64()) for name in table.column_names]))
    return table.sort_by([(name, "ascending") for name in table.column_names])


def compare(folder: Path, row: str, cores: Sequence[int], runs: int) -> None:
    engines = ["ours"] if row in _ALONE else [*ENGINES]
    first = 0.0
    for many in cores:
        found = {engine: list[list[float]]() for engine in engines}
        for _ in range(2):
            for engine in engines:
                found[engine].append(measured(engine, folder, row, many, runs))
            assert row in _ALONE or answer(folder / "ours.parquet", row).equals(
                answer(folder / "DuckDB.parquet", row)
            ), row
        least = {engine: np.min(runs_of, axis=0) for engine, runs_of in found.items()}
        if row in _ALONE:
            seconds, cpu, memory = least["ours"]
            first = first or seconds
            gain = f"{first / seconds:5.2f} times the first"
            print(
                f"{row:22}{many:2} core{'s' if many > 1 else ' '} {seconds:6.3f} s, {gain}   CPU {cpu:6.3f} s"
                f"   {memory:6.0f} MB",
                flush=True,
            )
            continue
        (seconds, cpu, memory), (theirs, their_cpu, their_memory) = least["ours"], least["DuckDB"]
        print(
            f"{row:22}{many:2} core{'s' if many > 1 else ' '} {seconds:6.3f} and {theirs:6.3f} s,"
            f" {seconds / theirs:5.2f}   CPU {cpu:6.3f} and {their_cpu:6.3f} s"
            f"   {memory:6.0f} and {their_memory:6.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--tuples", type=float, default=1e7)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    cores = [int(many) for many in asked.cores.split(",")]
    if asked.measure:
        engine, folder = asked.measure
        measure(engine, Path(folder), asked.rows, cores[0], asked.runs)
        return
    there = len(os.sched_getaffinity(0))
    if max(cores) > there:
        parser.error(f"--cores {asked.cores}: this process may use {there}.")
    rows = [row for row in ROWS if asked.rows is None or any(row.startswith(one) for one in asked.rows.split(","))]
    with tempfile.TemporaryDirectory() as made:
        write(Path(made), int(asked.tuples))
        print(
            f"{int(asked.tuples):,} tuples; ours and DuckDB: the least seconds of {2 * asked.runs} runs, and the ratio"
        )
        for row in rows:
            compare(Path(made), row, cores, asked.runs)


if __name__ == "__main__":
    main()
