"""Several partitions that one task reads have their tuples in the order of the partitions, whatever Spark prefers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.api.stream import Stream, meld
from oop_engine.plan.graph import source_node
from oop_engine.plan.punctuate import slack
from oop_engine.sources.memory import Rows
from oop_engine.spark.batch import PARTITION, in_order
from oop_engine.spark.counts import Counts
from oop_engine.spark.run import on_spark
from operators import functions as f
from tests.oop_engine.spark.simulated import embedded
from tests.oop_engine.spark.test_on_spark import answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1_000
ARROW = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def small_batches(spark: SparkSession) -> Generator[SparkSession, None, None]:
    """Let Python have few rows at a time, so that a partition is several batches."""
    before = str(spark.conf.get(LIMIT))
    spark.conf.set(LIMIT, 40)
    yield spark
    spark.conf.set(LIMIT, before)


def frame_of(spark: SparkSession, low: int = 0, high: int = ROWS, partitions: int = 4) -> DataFrame:
    return spark.range(low, high, 1, partitions).selectExpr("id as ts", "id % 5 as k", "id as x")


def stream_of(name: str, count: int = ROWS) -> Stream:
    columns = [range(count), [i % 5 for i in range(count)], range(count)]
    batch = pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=ARROW)
    return Stream(source_node(Rows(name, (batch,), ARROW), promises=(slack(3),)))


TWO: Mapping[str, Callable[[Stream, Stream], Stream]] = {
    "join": lambda a, b: a.join(b, "x", range=(1, 1)),
    "meld": lambda a, b: meld(a, b).window(range=10, wattr="ts").aggregate(f.count()),
}


@pytest.mark.parametrize("name", TWO)
def test_two_dataframes_of_several_partitions_keep_their_order(small_batches: SparkSession, name: str) -> None:
    spark, counts = small_batches, Counts(small_batches)
    plan = TWO[name](stream_of("a"), stream_of("b"))
    inputs = {"a": frame_of(spark), "b": frame_of(spark, partitions=3)}
    assert answer(on_spark(plan, spark, inputs, counts=counts)) == embedded(plan)
    assert counts.totals().get("late", 0) == 0


@pytest.mark.parametrize("names", ["a", "ab"])
def test_partitions_that_are_cached_are_not_read_before_those_that_are_not(
    small_batches: SparkSession, names: str
) -> None:
    spark, counts = small_batches, Counts(small_batches)
    cached = frame_of(spark, 600, ROWS, 2).cache()
    cached.count()
    try:
        frame = frame_of(spark, 0, 600, 2).unionAll(cached)
        streams = [stream_of(name) for name in names]
        plan = meld(*streams) if len(streams) > 1 else streams[0]
        plan = plan.window(range=10, wattr="ts").aggregate(f.count(), f.first("x"))
        result = on_spark(plan, spark, dict.fromkeys(names, frame), counts=counts)
        assert answer(result) == embedded(plan)
        assert counts.totals().get("late", 0) == 0
    finally:
        cached.unpersist()


@pytest.mark.parametrize("given", [True, False])
def test_what_each_partition_counted_is_added_up_though_one_task_has_them_all(spark: SparkSession, given: bool) -> None:
    counts = Counts(spark)
    streams = [Stream(source_node(stream_of(name).node.source)) for name in "ab"]  # type: ignore[union-attr]
    inputs = {"a": frame_of(spark), "b": frame_of(spark, partitions=3)} if given else {}
    result = on_spark(meld(*streams).filter("x > 3"), spark, inputs, counts=counts)
    assert len(result.coalesce(1).collect()) == 2 * (ROWS - 4)
    assert counts.totals()["tuples"] == 2 * ROWS


@pytest.mark.parametrize(
    "given",
    [
        [[0, 0, 1], [1, 3]],
        [[2, 0, 0], [1], [3, 4]],
        [[2], [2, 0], [1, 1]],
        [[3, 3], [3, 5], []],
        [[1]],
        [],
    ],
)
def test_the_first_partition_waits_for_those_before_it(given: list[list[int]]) -> None:
    batches = [
        pa.record_batch({PARTITION: pa.array(numbers, pa.int32()), "x": pa.array(range(len(numbers)), pa.int64())})
        for numbers in given
    ]
    found = [(n, x) for rows in in_order(batches) for n, x in zip(*rows.to_pydict().values(), strict=True)]
    told = [(n, x) for rows in batches for n, x in zip(*rows.to_pydict().values(), strict=True)]
    assert found == sorted(told, key=lambda row: row[0])
