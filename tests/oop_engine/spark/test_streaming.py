"""A streaming plan gives what embedded has released, at any boundaries of micro-batches, and after a kill."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.errors import PlanError
from oop_engine.plan.punctuate import slack
from oop_engine.spark.counts import Counts
from oop_engine.spark.errors import SparkError
from oop_engine.spark.run import on_spark
from oop_engine.spark.schema import Wanted
from oop_engine.spark.session import STORE
from tests.oop_engine.spark.plans import ARROW, FREE, Row, batch, stream
from tests.oop_engine.spark.simulated import Result, embedded
from tests.oop_engine.spark.test_on_spark import pages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def written(folder: Path, given: Sequence[Sequence[Row]], sizes: Sequence[int]) -> Path:
    """Write rows as files of these sizes, and an empty one; the files' times are their order."""
    rows = [row for page in given for row in page]
    folder.mkdir()
    at = 0
    for number, size in enumerate([*sizes, 0, len(rows)]):
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.Table.from_batches([batch(rows[at : at + size])]), path)
        os.utime(path, (1e9 + number, 1e9 + number))
        at += size
    return folder


def reading(spark: SparkSession, folder: Path) -> DataFrame:
    """Read a folder of files as a stream, a file a micro-batch."""
    reader = spark.readStream.schema(Wanted.of(ARROW, None).struct)
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


def started(frame: DataFrame, out: Path, checkpoint: Path) -> StreamingQuery:
    """Start a streaming DataFrame over all that there is."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start(str(out))


def run(frame: DataFrame, out: Path, checkpoint: Path) -> None:
    """Run a streaming DataFrame over all that there is."""
    started(frame, out, checkpoint).awaitTermination()


def answer(spark: SparkSession, out: Path) -> Counter[Result]:
    """Give the rows that a stream has written."""
    return Counter(tuple(row.values()) for row in spark.read.parquet(str(out)).toArrow().to_pylist())


def test_a_stream_gives_what_embedded_has_released(spark: SparkSession, tmp_path: Path) -> None:
    given = pages(150)
    folder = written(tmp_path / "in", given, (3, 40, 1, 60))
    counts = Counts(spark)
    frame = on_spark(
        FREE["sliding"]({"a": stream("a", [], slack(5))}), spark, {"a": reading(spark, folder)}, counts=counts
    )
    assert frame.isStreaming
    run(frame, tmp_path / "out", tmp_path / "checkpoint")
    result = FREE["sliding"]({"a": stream("a", given, slack(5))})
    assert answer(spark, tmp_path / "out") == embedded(result, end=False)
    assert counts.totals()["late"] == result.run().statistics.late > 0


@pytest.mark.parametrize("name", ["join", "join of aggregates"])
def test_a_join_of_streams(spark: SparkSession, tmp_path: Path, name: str) -> None:
    given = {"a": pages(60), "b": pages(40, 3)}
    closing: list[Row] = [(1000, None, 0, 0)]
    folders = {n: written(tmp_path / n, [*p, closing], (30, 5)) for n, p in given.items()}
    plan = FREE[name]({n: stream(n, [], slack(80)) for n in given})
    frame = on_spark(plan, spark, {n: reading(spark, folder) for n, folder in folders.items()})
    run(frame, tmp_path / "out", tmp_path / "checkpoint")
    result = FREE[name]({n: stream(n, p) for n, p in given.items()})
    assert answer(spark, tmp_path / "out") == embedded(result)


def test_a_stream_without_promises_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", pages(5), ())
    with pytest.raises(PlanError, match="nothing is promised of a"):
        on_spark(FREE["sliding"]({"a": stream("a", [])}), spark, {"a": reading(spark, folder)})
    with pytest.raises(PlanError, match="b is read by the plan itself"):
        both = FREE["join"]({n: stream(n, [], slack(3)) for n in "ab"})
        on_spark(both, spark, {"a": reading(spark, folder)})


def test_a_session_that_cannot_keep_the_state_says_what_to_set(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", pages(5), ())
    plan = FREE["sliding"]({"a": stream("a", [], slack(3))})
    store = str(spark.conf.get(STORE))
    spark.conf.set(STORE, store.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(SparkError, match="this session in HDFSBackedStateStoreProvider") as caught:
            on_spark(plan, spark, {"a": reading(spark, folder)})
    finally:
        spark.conf.set(STORE, store)
    assert f'spark.conf.set("{STORE}"' in str(caught.value)
    assert on_spark(plan, spark, {"a": reading(spark, folder)}).isStreaming


DRIVER = """
    from pathlib import Path
    from oop_engine.plan.punctuate import slack
    from oop_engine.spark.run import on_spark
    from oop_engine.spark.session import session
    from tests.oop_engine.spark.plans import FREE, stream
    from tests.oop_engine.spark.test_streaming import reading, started

    folder = Path({folder!r})
    spark = session(2, **{{"spark.sql.shuffle.partitions": 2}})
    plan = FREE["sliding"]({{"a": stream("a", [], slack(5))}})
    frame = on_spark(plan, spark, {{"a": reading(spark, folder / "in")}})
    query = started(frame, folder / "out", folder / "checkpoint")
    while not (folder / "checkpoint/commits/2").exists() and not query.awaitTermination(0.02):
        pass
    print("three micro-batches are committed", flush=True)
    query.awaitTermination()
"""


def test_a_driver_that_is_killed_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    given = pages(200)
    written(tmp_path / "in", given, (20,) * 9)
    code = textwrap.dedent(DRIVER.format(folder=str(tmp_path)))
    root = Path(__file__).resolve().parents[3]
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert driver.stdout is not None
    try:
        assert select.select([driver.stdout], [], [], 150)[0], "the driver has not come to be killed"
        assert driver.stdout.readline() == "three micro-batches are committed\n"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    commits = len(list((tmp_path / "checkpoint/commits").glob("[0-9]*")))
    assert 3 <= commits < 11
    plan = FREE["sliding"]({"a": stream("a", [], slack(5))})
    run(on_spark(plan, spark, {"a": reading(spark, tmp_path / "in")}), tmp_path / "out", tmp_path / "checkpoint")
    result = FREE["sliding"]({"a": stream("a", given, slack(5))})
    assert answer(spark, tmp_path / "out") == embedded(result, end=False)
