"""Tuples a second through the ready queries, from memory: packets with attacks among them, and flow records of these.

Run as `python tests/benchmarks/bench_queries.py [tuples]`; each figure is the median of five runs in this process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

import oop_engine as oop
from oop_engine import queries
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from tests.attacks import LENGTH, SECOND, flows, scenario

RUNS = 5


def repeated(table: pa.Table, tuples: int, names: tuple[str, ...] = ("ts",)) -> pa.Table:
    """Give the tuples again and again, each time later, until there are enough."""
    parts = []
    for k in range(-(-tuples // len(table))):
        part = table
        for name in names:
            place, times = table.schema.get_field_index(name), table.column(name).combine_chunks()
            moved = pa.array(np.asarray(times.cast(pa.int64())) + k * LENGTH).view(times.type)
            part = part.set_column(place, table.schema.field(name), moved)
        parts.append(part)
    return pa.concat_tables(parts).combine_chunks()


def told(table: pa.Table) -> pa.Table:
    """Give flow records with what a collector adds: exporter, export and arrival."""
    ends = np.asarray(table.column("end_ts").combine_chunks().cast(pa.int64()))
    moment = table.schema.field("end_ts").type
    export = pa.array(ends + 15 * SECOND).view(moment)
    arrival = pa.array(np.maximum.accumulate(ends + 16 * SECOND)).view(moment)
    exporter = pa.array([bytes(15) + bytes([1 + k % 3]) for k in range(len(table))], pa.binary(16))
    domain = pa.array(np.zeros(len(table), np.uint32))
    more = {"export_ts": export, "arrival_ts": arrival, "exporter": exporter, "domain": domain}
    for name, column in more.items():
        table = table.append_column(name, column)
    return table


def run(stream: Stream) -> tuple[float, float, int]:
    """Give seconds in all and until the first element came out, and the most that the operators held at a time."""
    started = perf_counter()
    running = Run(Plan((stream.node,)))
    elements = iter(running)
    next(elements)
    first = perf_counter() - started
    for _ in elements:
        pass
    seconds = perf_counter() - started
    peak = sum(
        count
        for s in running.circuit.statistics()
        for name, count in s.details.items()
        if name.startswith("peak") and "bytes" not in name
    )
    return seconds, first, peak


def main() -> None:
    tuples = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    table, _ = scenario(1)
    packets = repeated(table, tuples)
    records = told(repeated(flows(table), tuples, ("ts", "end_ts")))
    plain: list[Callable[[Stream], Stream]] = [
        queries.syn_flood, queries.vertical_scan, queries.horizontal_scan, queries.dns_amplification,
        queries.top_talkers, queries.beaconing,
    ]  # fmt: skip
    for what, given, asked in (("packets", packets, plain), ("flows", records, [*plain, queries.exporter_health])):
        for query in asked:
            runs = [run(query(oop.arrow(given))) for _ in range(RUNS)]
            seconds = median(s for s, _, _ in runs)
            first = median(f for _, f, _ in runs)
            print(
                f"{query.__name__:>18} of {what:<7}: {len(given) / seconds / 1e6:6.2f} M tuples/s of {len(given):,},"
                f" first result after {first * 1e3:6.1f} ms, at most {runs[0][2]:,} held"
            )


if __name__ == "__main__":
    main()
