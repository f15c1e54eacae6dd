"""Tuples a second of the source side: punctuators, the suffix pass, Input, the generator, tables and sinks.

Run as `python tests/benchmarks/bench_sources.py [tuples]`; each figure is the median of five runs in this process.
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

from oop_engine.sinks import sink_for
from oop_engine.sources.generator import SECOND, Band, Blocks, Generated, packets
from oop_engine.sources.tables import Table
from operators.data.page import Page
from operators.data.schema import Schema
from operators.streams.input import Input
from punctuation import END, Ordered, Punctuator, Scheduled, Slack, SuffixMinimum, TupleSlack

RUNS = 5
PAGE = 8192


def report(what: str, tuples: int, work: Callable[[], object]) -> None:
    times: list[float] = []
    for _ in range(RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    print(f"{what:52} {tuples:>11,} tuples  {tuples / median(times) / 1e6:8.1f} M/s  page {PAGE}")


def punctuators(batches: list[pa.RecordBatch], n: int) -> None:
    schema = Schema(batches[0].schema)
    columns = [Page(schema, batch).ticks("ts") for batch in batches]

    def scheduled() -> SuffixMinimum:
        collected = SuffixMinimum(step=SECOND)
        for values in columns:
            collected.feed(values)
        return collected

    report("suffix minimum, step 1 s", n, scheduled)
    schedule = scheduled().finish()
    pages = [page.slice(i, min(i + PAGE, len(page))) for b in batches for page in [Page(schema, b)] for i in
             range(0, len(b), PAGE)]  # fmt: skip
    kinds: dict[str, Callable[[], Punctuator]] = {
        "scheduled (exact)": lambda: Scheduled("ts", schedule),
        "slack 2 s, step 1 s: nothing late": lambda: Slack("ts", 2 * SECOND, step=SECOND),
        "slack 0.5 s, step 1 s: some late": lambda: Slack("ts", SECOND // 2, step=SECOND),
        "ordered, every 8192: most late": lambda: Ordered("ts", every=PAGE),
        "slack of 1000 places, step 1 s": lambda: TupleSlack("ts", 1000, step=SECOND),
        "slack of 1000 larger, step 1 s": lambda: TupleSlack("ts", 1000, displacement="larger", step=SECOND),
    }
    for name, make in kinds.items():

        def read(make: Callable[[], Punctuator] = make) -> Input:
            operator = Input((make(),))
            for page in pages:
                operator.process(page, lambda element: None)
            return operator

        report(f"Input, {name} ({read().statistics()['late']:,} late)", n, read)


def files(generated: Generated, batches: list[pa.RecordBatch], n: int, folder: Path) -> None:
    schema = Schema(generated.schema)
    for suffix in (".parquet", ".csv", ".ndjson", ".arrow"):
        path = folder / f"x{suffix}"

        def write(path: Path = path) -> None:
            with sink_for(path).opened(schema) as deliver:
                for batch in batches:
                    deliver(Page(schema, batch))
                deliver(END)

        report(f"write {suffix}", n, write)
        types = {"srcIP": "ip", "destIP": "ip"} if suffix in (".csv", ".ndjson") else {}
        table = Table(path, types=types)
        report(f"read {suffix}, all columns", n, lambda table=table: sum(map(len, table.batches())))
        report(f"read {suffix}, ts alone", n, lambda table=table: sum(map(len, table.values("ts"))))


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    generated = packets(n, rate=100_000, sources=100_000, disorder=Band(2 * SECOND), late_share=0.2)
    report("generate, band of 2 s", n, lambda: sum(map(len, generated.batches())))
    blocks = packets(n, rate=100_000, sources=100_000, disorder=Blocks(SECOND))
    report("generate, blocks of 1 s", n, lambda: sum(map(len, blocks.batches())))
    batches = list(generated.batches())
    disorder = np.concatenate([b.column(0).view(pa.int64()).to_numpy() for b in batches])
    late = float((disorder < np.maximum.accumulate(disorder)).mean())
    print(f"{late:.0%} of the tuples are behind the highest time seen")
    punctuators(batches, n)
    with tempfile.TemporaryDirectory() as folder:
        files(generated, batches, n, Path(folder))


if __name__ == "__main__":
    main()
