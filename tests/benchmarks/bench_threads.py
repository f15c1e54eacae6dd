"""What several threads gain: Q-a, Q-b, Q-c, a join and a capture, by threads, after their answers were compared.

    python tests/benchmarks/bench_threads.py [--threads 1,2,4] [--tuples 4e6] [--runs 5] [--rows Q-a,Q-b]

For each number of threads it prints the least time of runs that take turns, the speed-up against the first number, the
efficiency (speed-up for each thread), and the CPU time of the whole process against that of the first: what dividing
pages costs. The data are those of bench_windows and bench_capture.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oop_engine as oop
from oop_engine.api.stream import Stream
from tests.benchmarks.bench_capture import write
from tests.benchmarks.bench_windows import generate


def queries(folder: Path, n: int) -> Mapping[str, Callable[[], Stream]]:
    """Write the data and return the queries by name."""
    generate(folder / "in.parquet", n)
    table = pq.read_table(folder / "in.parquet", columns=["ts", "srcIP"]).slice(0, n // 4)
    for half in (0, 1):
        chosen = pa.array(np.arange(half, table.num_rows, 2))
        pq.write_table(table.take(chosen), folder / f"half{half}.parquet")
    write(folder / "packets.pcap", n // 2, sources=100_000)
    packets = oop.table(str(folder / "in.parquet"))
    halves = [oop.table(str(folder / f"half{half}.parquet")) for half in (0, 1)]

    def counted(stream: Stream) -> Stream:
        return stream.window(range="10 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")

    tumbling: dict[str, Any] = {f"w{seconds}": oop.tumbling(f"{seconds} s") for seconds in range(1, 21)}
    return {
        "Q-a": lambda: counted(packets),
        "Q-a, filtered": lambda: counted(packets.filter("length > 400")),
        "Q-b": lambda: packets.window(range="60 s", slide="1 s").aggregate(oop.count(), by="srcIP"),
        "Q-c": lambda: packets.windows(**tumbling).aggregate(oop.sum("length")),
        "10 windows by srcIP": lambda: packets.windows(
            **{name: tumbling[name] for name in [f"w{seconds}" for seconds in range(1, 11)]}
        ).aggregate(oop.sum("length"), by="srcIP"),
        "join": lambda: halves[0].join(halves[1], on="srcIP", range="2 ms").aggregate(oop.count()),
        "capture": lambda: counted(oop.pcap(folder / "packets.pcap")),
    }


def answer(stream: Stream, threads: int) -> pa.Table:
    table = stream.run(threads=threads).table
    return table.sort_by([(name, "ascending") for name in table.column_names])


def main(threads: list[int], n: int, runs: int, rows: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = queries(folder, n)
        print(f"{n:,} tuples, the least of {runs} runs that take turns")
        print(f"{'':22}{'threads':>8}{'seconds':>9}{'speed-up':>10}{'efficiency':>12}{'CPU time':>10}")
        for row in rows or list(found):
            make = found[row]
            expected = answer(make(), threads[0])
            assert all(answer(make(), many).equals(expected) for many in threads[1:]), row
            clock, cpu = dict.fromkeys(threads, float("inf")), dict.fromkeys(threads, float("inf"))
            for _ in range(runs):
                for many in threads:
                    output = make().to(folder / "out.parquet")
                    begun = perf_counter(), process_time()
                    output.run(threads=many)
                    clock[many] = min(clock[many], perf_counter() - begun[0])
                    cpu[many] = min(cpu[many], process_time() - begun[1])
            for many in threads:
                gain = clock[threads[0]] / clock[many]
                print(
                    f"{row if many == threads[0] else '':22}{many:8}{clock[many]:9.3f}{gain:10.2f}"
                    f"{gain * threads[0] / many:12.2f}{cpu[many] / cpu[threads[0]]:10.2f}"
                )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--threads", default="1,2,4", help="numbers of threads, the first of which is compared with")
    asked.add_argument("--tuples", default="4e6", type=float)
    asked.add_argument("--runs", default=5, type=int)
    asked.add_argument("--rows", default="", help="names of rows, between commas; all without")
    given = asked.parse_args()
    main(
        [int(many) for many in given.threads.split(",")], int(given.tuples), given.runs,
        [row for row in given.rows.split(",") if row],
    )  # fmt: skip
