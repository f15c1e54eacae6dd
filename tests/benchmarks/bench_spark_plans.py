"""Plans inside Spark against Spark's own windows: python tests/benchmarks/bench_spark_plans.py [rows] [folder].

Every line prints seconds of each repetition, the median, tuples a second and what came out (rows, sum of counts).
Spark's own sliding windows are run on a tenth of the rows, since they make RANGE/SLIDE rows of each; the ratio is then
by tuples a second. Medians of three after one run that is not counted; ratios are within one run of this script.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from math import nan
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_capture import SNAPLEN
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from oop_engine.api.stream import Stream
from oop_engine.plan.graph import source_node
from oop_engine.plan.punctuate import slack
from oop_engine.sources.files import Files
from oop_engine.sources.memory import Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.protocol import Source
from oop_engine.spark.run import on_spark
from oop_engine.spark.session import session
from operators.functions import count, sum

BASE = 1_795_255_200_000_000
ARROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("srcIP", pa.int64()), ("length", pa.int32())])
Total = tuple[int, int]


def write(path: Path, rows: int, sources: int, seconds: int, *, start: int = 0, seed: int = 0) -> Path:
    """Write packets that are up to two seconds out of order, addresses by Zipf's law."""
    draw = np.random.default_rng(seed)
    ordered = np.sort(draw.integers(0, seconds * 1_000_000, rows)) + start * 1_000_000
    times = BASE + ordered + draw.integers(-1_000_000, 1_000_000, rows)
    addresses = draw.zipf(1.3, rows) % sources if sources < 50_000 else draw.integers(0, sources, rows)
    columns = [pa.array(times).view(ARROW.field(0).type), pa.array(addresses, pa.int64())]
    columns.append(pa.array(draw.integers(40, 1500, rows), pa.int32()))
    pq.write_table(pa.Table.from_arrays(columns, schema=ARROW), path, row_group_size=1 << 20)
    return path


def total(frame: DataFrame) -> Total:
    """Count the results, and add up their counts."""
    found = frame.agg(sql.count("*"), sql.sum("count")).first()
    assert found is not None
    return int(found[0]), int(found[1])


def timed(name: str, rows: int, run: Callable[[], Total], times: int = 3) -> float:
    """Print the seconds that something takes, and give tuples a second."""
    out = run() if times > 1 else None
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        out = run()
        taken.append(time.perf_counter() - begin)
    rate = rows / median(taken)
    shown = " ".join(f"{seconds:.2f}" for seconds in taken)
    print(f"{name:<44} {shown:<18} median {median(taken):6.2f} s {rate / 1e6:7.3f} M tuples/s {out}", flush=True)
    return rate


def plan(path: Path, size: str, slide: str | None) -> Stream:
    """Count by address over windows of a file."""
    return Stream(source_node(Files("packets", path))).window(range=size, slide=slide).aggregate(count(), by="srcIP")


def own(frame: DataFrame, size: str, slide: str | None) -> DataFrame:
    """Count by address as Spark does it."""
    window = sql.window("ts", size) if slide is None else sql.window("ts", size, slide)
    return frame.groupBy(window, "srcIP").agg(sql.count("*").alias("count"))


def windows(spark: SparkSession, folder: Path, rows: int) -> None:
    """Compare windows over bounded data."""
    large = write(folder / "sliding.parquet", rows, 2_000, 600)
    small = write(folder / "tenth.parquet", rows // 10, 2_000, 600)
    many = write(folder / "tumbling.parquet", rows, 10_000, 600)
    read = spark.read.parquet

    def both(size: str, slide: str | None, path: Path, given: bool) -> Total:
        return total(on_spark(plan(path, size, slide), spark, {"packets": read(str(path))} if given else None))

    print("sliding RANGE 60 s SLIDE 1 s, count by srcIP")
    reading = timed("  the plan, which reads the file", rows, lambda: both("60 s", "1 s", large, False))
    given = timed("  the plan, over a DataFrame", rows, lambda: both("60 s", "1 s", large, True))
    sparks = timed(
        f"  Spark's own, on {rows // 10:,}",
        rows // 10,
        lambda: total(own(read(str(small)), "60 seconds", "1 second")),
        1,
    )
    print(f"  {reading / sparks:.0f} and {given / sparks:.0f} times Spark's own\ntumbling 10 s, count by srcIP")
    sparks = timed("  Spark's own", rows, lambda: total(own(read(str(many)), "10 seconds", None)))
    reading = timed("  the plan, which reads the file", rows, lambda: both("10 s", None, many, False))
    given = timed("  the plan, over a DataFrame", rows, lambda: both("10 s", None, many, True))
    print(f"  {reading / sparks:.2f} and {given / sparks:.2f} times Spark's own", flush=True)


def capture(path: Path, rows: int, sources: int, seconds: int, *, start: int = 0, seed: int = 0) -> Path:
    """Write packets as `write` does, each with its first 96 bytes, as a capture."""
    draw = np.random.default_rng(seed)
    ordered = np.sort(draw.integers(0, seconds * 1_000_000, rows)) + start * 1_000_000
    times = BASE + ordered + draw.integers(-1_000_000, 1_000_000, rows)
    records = np.zeros(rows, dtype=[("head", "<u4", 4), ("data", "u1", SNAPLEN)])
    head, data = records["head"], records["data"]
    head[:, 0], head[:, 1] = times // 1_000_000, times % 1_000_000
    head[:, 2] = SNAPLEN
    head[:, 3] = draw.integers(SNAPLEN, 1500, rows)
    data[:, 12], data[:, 14], data[:, 22], data[:, 23] = 8, 0x45, 64, 17
    data[:, 26:30] = (10 << 24 | draw.integers(0, sources, rows)).astype(">u4").view("u1").reshape(rows, 4)
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAPLEN, 1) + records.tobytes())
    return path


def streaming(spark: SparkSession, folder: Path, rows: int) -> None:
    """Run windows over folders of files as streams, a file a micro-batch, 100,000 keys."""
    source = Rows("packets", (pa.RecordBatch.from_arrays([pa.array([], f.type) for f in ARROW], schema=ARROW),))
    given = filled(folder / "stream", write, "parquet", rows)
    reader = spark.readStream.schema("ts timestamp, srcIP bigint, length int").option("maxFilesPerTrigger", 1)
    print(f"streaming, tumbling 10 s, 100,000 keys, {rows:,} tuples a micro-batch")
    streamed(spark, source, reader.parquet(str(given)), "a DataFrame of Parquet files", rows)
    given = filled(folder / "captures", capture, "pcap", rows)
    reader = spark.readStream.format("oop.pcap").options(columns="ts,srcIP,length", pages="true")
    packets = Packets(sorted(given.iterdir()), label="packets")
    frame = reader.option("maxFilesPerTrigger", 1).load(str(given))
    streamed(spark, packets, frame, "pages of captures (oop.pcap)", rows)


def filled(folder: Path, write: Callable[..., Path], suffix: str, rows: int) -> Path:
    """Write four files, one after the other in time."""
    folder.mkdir()
    for number in range(4):
        path = write(folder / f"{number}.{suffix}", rows, 100_000, 10, start=10 * number, seed=number)
        os.utime(path, (1e9 + number, 1e9 + number))
    return folder


def streamed(spark: SparkSession, source: Source, frame: DataFrame, name: str, rows: int) -> None:
    """Print the seconds of each micro-batch, and tuples a second of those behind the first."""
    packets = Stream(source_node(source, promises=[slack("2 s")]))
    result = packets.window(range="10 s").aggregate(count(), sum("length"), by="srcIP")
    out = on_spark(result, spark, {"packets": frame})
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    taken = [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows]
    shown = " ".join(f"{seconds:.2f}" for seconds in taken)
    print(
        f"  {name:<32} seconds {shown}; after the first, {rows / median(taken[1:] or [nan]) / 1e6:.2f} M/s", flush=True
    )


def main() -> None:
    """Run all."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    folder = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    spark = session(2, **{"spark.sql.shuffle.partitions": 2, "spark.sql.execution.arrow.maxRecordsPerBatch": 131_072})
    try:
        windows(spark, folder, rows)
        streaming(spark, folder, rows // 2)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
