"""Q-a beside what a Python user could install instead: csp, Bytewax and PySpark's structured streaming, in one run.

    python tests/benchmarks/bench_others.py [tuples] [tuples for the slow ones]

Each counts and sums `length` by srcIP over tumbling 10 s windows of event time on the same data, out of order by
up to 2 s, each in the way its documentation shows. An engine that is not installed is named and left out. csp has no
event-time windows over late data, so it gets the tuples sorted beforehand and not timed: that is in its favour.
csp and Bytewax get fewer tuples, because they take one at a time; each is compared with ours on as many.
"""

from __future__ import annotations

import datetime as dt
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench_windows import generate

import oop_engine as oop

UTC = dt.UTC
Rows = list[tuple[dt.datetime, str, int]]


def rows_of(path: Path, n: int) -> Rows:
    """Give the first n tuples as Python values, the form that the row engines take."""
    table = pq.read_table(path).slice(0, n)
    times = [t.replace(tzinfo=UTC) for t in table["ts"].cast(pa.timestamp("us", "UTC"), safe=False).to_pylist()]
    return list(zip(times, map(str, table["srcIP"].to_pylist()), table["length"].to_pylist(), strict=True))


def with_csp(rows: Rows) -> Callable[[], object]:
    import csp

    ordered = sorted(rows)
    ticks = [(time.replace(tzinfo=None) + dt.timedelta(microseconds=0), (key, n)) for time, key, n in ordered]

    @csp.node
    def tumbling(x: csp.ts[object]) -> csp.ts[object]:
        with csp.alarms():
            close: csp.ts[bool] = csp.alarm(bool)
        with csp.state():
            s_groups = {}
        with csp.start():
            csp.schedule_alarm(close, dt.timedelta(seconds=10), True)
        if csp.ticked(x):
            key, n = x
            count, total = s_groups.get(key, (0, 0))
            s_groups[key] = (count + 1, total + n)
        if csp.ticked(close):
            csp.schedule_alarm(close, dt.timedelta(seconds=10), True)
            groups, s_groups = s_groups, {}
            return groups

    @csp.graph
    def graph() -> None:
        csp.add_graph_output("out", tumbling(csp.curve(object, ticks)))

    begin, end = ticks[0][0], ticks[-1][0] + dt.timedelta(seconds=11)
    return lambda: csp.run(graph, starttime=begin, endtime=end)


def with_bytewax(rows: Rows) -> Callable[[], object]:
    import bytewax.operators as op
    import bytewax.operators.windowing as win
    from bytewax.dataflow import Dataflow
    from bytewax.operators.windowing import EventClock, TumblingWindower
    from bytewax.testing import TestingSink, TestingSource, run_main

    def run() -> object:
        out: list[object] = []
        flow = Dataflow("qa")
        keyed = op.key_on("key", op.input("in", flow, TestingSource(rows, batch_size=1000)), lambda row: row[1])
        clock = EventClock(lambda row: row[0], wait_for_system_duration=dt.timedelta(seconds=2))
        windower = TumblingWindower(length=dt.timedelta(seconds=10), align_to=dt.datetime(2023, 1, 1, tzinfo=UTC))
        folded = win.fold_window(
            "sum", keyed, clock, windower, lambda: (0, 0), lambda acc, row: (acc[0] + 1, acc[1] + row[2]),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
        )  # fmt: skip
        op.output("out", folded.down, TestingSink(out))
        run_main(flow)
        return out

    return run


def with_spark(folder: Path, source: Path) -> Iterator[Callable[[], object]]:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", False)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    # Spark reads nanoseconds as long integers only, so it gets microseconds.
    files = folder / "spark-in"
    files.mkdir()
    pq.write_table(pq.read_table(source).cast(_micro(source), safe=False), files / "in.parquet", coerce_timestamps="us")
    schema = spark.read.parquet(str(files)).schema
    number = 0

    def run() -> object:
        nonlocal number
        number += 1
        stream = spark.readStream.schema(schema).parquet(str(files)).withWatermark("ts", "2 seconds")
        grouped = stream.groupBy(f.window("ts", "10 seconds"), "srcIP").agg(f.count("*"), f.sum("length"))
        writer = grouped.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / f"check{number}"))
        writer.start(str(folder / f"spark{number}")).awaitTermination()
        return None

    yield run
    spark.stop()


def _micro(source: Path) -> Any:
    schema = pq.read_schema(source)
    return schema.set(0, pa.field("ts", pa.timestamp("us", "UTC")))


def measured(name: str, n: int, work: Callable[[], object], runs: int = 3) -> float:
    times: list[float] = []
    for _ in range(runs):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    rate = n / median(times)
    print(f"{name:36} {n:>12,} tuples  {median(times):8.3f} s  {rate / 1e6:9.4f} M tuples/s", flush=True)
    return rate


def main(n: int, few: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours: dict[int, float] = {}
        for number in sorted({n, few}):
            source = folder / f"in{number}.parquet"
            generate(source, number)
            query = oop.table(source).window(range="10 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")
            run = query.to(str(folder / f"out{number}.parquet")).run
            run()
            ours[number] = measured("oop-engine, Parquet to Parquet", number, run)
        rows = rows_of(folder / f"in{few}.parquet", few)
        others: list[tuple[str, int, float]] = []
        for title, make in (("csp, sorted rows from memory", with_csp), ("Bytewax, rows from memory", with_bytewax)):
            try:
                work = make(rows)
            except ImportError as error:
                print(f"{title:36} not installed: {error}")
                continue
            others.append((title, few, measured(title, few, work)))
        try:
            for work in with_spark(folder, folder / f"in{n}.parquet"):
                work()
                others.append(("PySpark", n, measured("PySpark streaming, local[2]", n, work)))
        except ImportError as error:
            print(f"{'PySpark':36} not installed: {error}")
        for title, number, rate in others:
            print(f"oop-engine is {ours[number] / rate:.1f} times as fast as {title}, both on {number:,} tuples")


if __name__ == "__main__":
    many = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    main(many, int(float(sys.argv[2])) if len(sys.argv) > 2 else 200_000)
