"""Measure how fast captures, pages and results cross between the engine and Spark, on two cores.

Usage: python tests/benchmarks/bench_spark_sources.py [packets] [runs]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from bench_capture import write
from pyspark.sql import functions as sql

import oop_engine as oop
from oop_engine.sinks.pagelog import PageLogSink
from oop_engine.sources.capture import Capture
from oop_engine.spark.dataframe import batches


def counted(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read pages behind a shuffle and count their tuples."""
    for batch in given:
        rows = sum(oop.spark.read_page(page.as_buffer()).num_rows for page in batch.column(1))
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def main(packets: int = 5_000_000, runs: int = 3) -> None:
    """Print what was done, seconds (median, after one run to warm up) and millions of tuples a second."""

    def tell(what: str, tuples: int, run: Callable[[], object]) -> None:
        run()
        seconds = []
        for _ in range(runs):
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
        median = statistics.median(seconds)
        print(f"{what:62}{median:8.2f} s{tuples / median / 1e6:8.2f} M/s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "snap.pcap", Path(folder) / "packets.pages"
        write(path, packets)
        print(f"{packets:,} packets, {path.stat().st_size / 1e6:.0f} MB; local[2]; median of {runs}, wall time")
        spark = oop.spark.session(2, memory="4g")
        shape = {"columns": "ts,srcIP,length", "addresses": "binary"}
        read = spark.read.format("oop.pcap")
        path_text = str(path)
        tell("no Spark, one thread: ts, srcIP, length", packets,
             lambda: sum(b.num_rows for b in Capture(path, columns=["ts", "srcIP", "length"]).batches()))  # fmt: skip
        tell("tuples to a sum: length", packets,
             lambda: read.options(columns="length").load(path_text).agg({"length": "sum"}).collect())  # fmt: skip
        tell("tuples to a sum: ts_ns, length", packets,
             lambda: read.options(columns="ts_ns,length").load(path_text).agg({"length": "sum"}).collect())  # fmt: skip
        tell("tuples to a sum: ts, srcIP (16 bytes), length", packets,
             lambda: read.options(**shape).load(path_text).agg({"length": "sum"}).collect())  # fmt: skip
        tell("tuples to a sum: ts, srcIP (text), length", packets,
             lambda: read.options(columns="ts,srcIP,length", addresses="text").load(path_text)
             .agg({"length": "sum"}).collect())  # fmt: skip
        pages = spark.read.format("oop.pcap").options(columns="ts,srcIP,length", pages="true").load(path_text)
        tell("pages to a sum of their rows", packets, lambda: pages.agg({"rows": "sum"}).collect())
        tell("pages to a sum of their bytes", packets, lambda: pages.agg(sql.sum(sql.length("page"))).collect())
        # By a number, as operators' buckets have it; a repartition without one sorts the pages, byte by byte.
        keyed = pages.selectExpr("rows", "page", "monotonically_increasing_id() % 2 AS bucket").repartition(2, "bucket")
        # The length of what came through: all bytes of the pages are written by the exchange, and read behind it.
        tell("pages into the shuffle, and the sum of their bytes behind it", packets,
             lambda: keyed.agg(sql.sum(sql.length("page"))).collect())  # fmt: skip
        tell("pages through a shuffle, opened behind it", packets,
             lambda: keyed.mapInArrow(counted, "rows long").agg({"rows": "sum"}).collect())  # fmt: skip
        stream = oop.pcap(path).project("ts", "length")
        stream.to(PageLogSink(log)).run()
        results = spark.read.format("oop.results").load(str(log))
        tell("page log to a sum: ts, length", packets, lambda: results.agg({"length": "sum"}).collect())
        tell("toArrow, through the driver: ts, length", packets, lambda: results.toArrow().num_rows)
        tell("batches by pages, bounded memory: ts, length", packets,
             lambda: sum(batch.num_rows for batch in batches(results)))  # fmt: skip
        spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
