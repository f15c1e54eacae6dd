"""What the engine computes reaches Spark once and whole, and what Spark computes reaches the engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.errors import PlanError, SchemaError
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog, PageLogSink
from oop_engine.spark.dataframe import each_batch, from_spark
from oop_engine.spark.embedded import to_spark
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.results import LogStreamWriter, LogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("ns", "UTC")),
        ("naive", pa.timestamp("ms")),
        ("span", pa.duration("ns")),
        ("u8", pa.uint8()),
        ("u64", pa.uint64()),
        ("f", pa.float32()),
        ("words", pa.list_(pa.string())),
        ("pair", pa.struct([("a", pa.uint16()), ("b", pa.binary(2))])),
        ("times", pa.list_(pa.struct([("t", pa.timestamp("ns", "UTC"))]))),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
    ]
)
ROW = {
    "t": -1_500, "naive": 1_000, "span": 2_500, "u8": 255, "u64": 2**64 - 1, "f": 0.5, "words": ["x", None],
    "pair": {"a": 65_535, "b": b"ab"}, "times": [{"t": -1}], "flag": True, "day": dt.date(2024, 2, 29),
}  # fmt: skip


def test_every_type_arrives_with_its_value(spark: SparkSession, tmp_path: Path) -> None:
    columns = [pa.array([ROW[f.name], None], f.type) for f in SCHEMA]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    log = PageLog(tmp_path)
    log.begin(SCHEMA)
    log.publish(0, [log.seal(SCHEMA, [batch])])
    frame = spark.read.format("oop.results").load(str(tmp_path))
    assert frame.schema.simpleString() == (
        "struct<t:timestamp,naive:timestamp_ntz,span:interval day to second,u8:smallint,u64:decimal(20,0),f:float,"
        "words:array<string>,pair:struct<a:int,b:binary>,times:array<struct<t:timestamp>>,flag:boolean,day:date>"
    )
    row, nothing = frame.toArrow().to_pylist()
    assert set(nothing.values()) == {None}
    assert row["t"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_998, dt.UTC)
    assert row["naive"] == dt.datetime(1970, 1, 1, 0, 0, 1)
    assert row["span"] == dt.timedelta(microseconds=2)
    assert (row["u8"], int(row["u64"]), row["f"], row["flag"]) == (255, 2**64 - 1, 0.5, True)
    assert row["words"] == ["x", None]
    assert row["pair"] == {"a": 65_535, "b": b"ab"}
    assert row["times"] == [{"t": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)}]
    assert row["day"] == dt.date(2024, 2, 29)
    nanoseconds = spark.read.format("oop.results").option("columns", "t_ns,u8").load(str(tmp_path))
    assert nanoseconds.first().t_ns == -1_500


def talkers() -> oop.Stream:
    return oop.packets(20_000, sources=50, seed=3).window(range="50 ms").aggregate(oop.count(), by="srcIP")


def counts(table: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(table["srcIP"].to_pylist(), table["count"].to_pylist(), strict=True))


def test_results_of_a_plan_are_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    expected = counts(talkers().run().table)
    assert counts(to_spark(talkers(), spark).toArrow()) == expected
    log = tmp_path / "talkers.pages"
    assert counts(to_spark(talkers().to(PageLogSink(log)), spark).toArrow()) == expected
    with pytest.raises(PlanError, match="this one goes to FileSink"):
        to_spark(talkers().to(tmp_path / "a.parquet"), spark)


def test_a_dataframe_is_a_stream_of_the_engine(spark: SparkSession) -> None:
    made = oop.packets(20_000, sources=50, seed=3).project("ts", "srcIP", "length")
    frame = to_spark(made, spark).repartition(3)
    stream = from_spark(frame, types={"srcIP": "ip"})
    assert stream.schema.names == ["ts", "srcIP", "length"]
    result = stream.window(range="50 ms").aggregate(oop.count(), by="srcIP").run()
    assert counts(result.table) == counts(talkers().run().table)
    assert result.statistics is not None


def log_of(folder: Path, *epochs: list[int]) -> PageLog:
    schema = pa.schema([("n", pa.int64())])
    log = PageLog(folder)
    log.begin(schema)
    first = len(log.epochs())
    for k, rows in enumerate(epochs):
        batch = pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], schema=schema)
        log.publish(first + k, [log.seal(schema, [batch])])
    return log


def numbers(folder: Path) -> list[int]:
    log = PageLog(folder)
    read: Iterator[pa.RecordBatch] = (b for epoch in log.epochs() for s in epoch for b in log.read(s))
    return sorted(n for batch in read for n in batch["n"].to_pylist())


def copied(spark: SparkSession, source: Path, target: Path, checkpoint: Path) -> None:
    stream = spark.readStream.format("oop.results").option("maxFilesPerTrigger", 1).load(str(source))
    writing = stream.repartition(2).writeStream.format("oop.results").option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start(str(target))
    with errors():
        assert query.awaitTermination(100)


def test_a_stream_from_log_to_log_is_exact_through_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "a.pages", tmp_path / "b.pages", tmp_path / "checkpoint"
    log_of(source, [1, 2, 3], [4], [5, 6])
    copied(spark, source, target, checkpoint)
    assert numbers(target) == [1, 2, 3, 4, 5, 6]
    assert [sum(s.rows for s in epoch) for epoch in PageLog(target).epochs()] == [3, 1, 2]
    # A crash after the sink's commit and before Spark's: the batch runs again, its epoch is there, nothing doubles.
    for name in ("2", ".2.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    log_of(source, [7])
    copied(spark, source, target, checkpoint)
    assert numbers(target) == [1, 2, 3, 4, 5, 6, 7]
    # A crash before the sink's commit: what was staged is seen by nobody, and the batch runs again.
    for name in ("3", ".3.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    (target / "epochs" / f"{3:010d}.json").unlink()
    copied(spark, source, target, checkpoint)
    assert numbers(target) == [1, 2, 3, 4, 5, 6, 7]
    # Another query that begins anew must not be taken for this one, whose epochs it would find written.
    log_of(tmp_path / "c.pages", [8, 9])
    with pytest.raises(SparkError, match=r"epoch 0 of the page log .* has 3 rows, and now 2"):
        copied(spark, tmp_path / "c.pages", target, tmp_path / "other")


def test_a_dataframe_is_written_as_a_further_epoch(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        spark.range(5).selectExpr("id as n").write.format("oop.results").mode("append").save(str(tmp_path / "log"))
    assert numbers(tmp_path / "log") == sorted([0, 1, 2, 3, 4] * 2)
    with pytest.raises(SparkError, match="only added to"), errors():
        spark.range(5).write.format("oop.results").mode("overwrite").save(str(tmp_path / "log"))


def test_what_was_never_null_may_be_null_in_later_epochs_and_other_types_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    def add(frame: DataFrame) -> None:
        with errors():
            frame.write.format("oop.results").mode("append").save(str(tmp_path / "log"))

    first = spark.range(2).selectExpr("id", "array(named_struct('x', id)) AS xs")
    assert not first.schema["id"].nullable
    add(first)
    add(spark.sql("SELECT 2L AS id, array(named_struct('x', 2L), NULL) AS xs UNION ALL SELECT NULL, NULL"))
    read = spark.read.format("oop.results").load(str(tmp_path / "log"))
    assert all(field.nullable for field in read.schema)
    found = {row["id"]: row["xs"] for row in read.toArrow().to_pylist()}
    assert found == {0: [{"x": 0}], 1: [{"x": 1}], 2: [{"x": 2}, None], None: None}
    assert read.where("id IS NULL").count() == 1
    with pytest.raises(SparkError, match=r"\n  id: int64 there, int32 to be written"):
        add(first.selectExpr("CAST(id AS int) AS id", "xs"))


def test_every_batch_of_a_stream_runs_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    log_of(tmp_path / "in", [1, 2, 3], [4, 5])

    def plan(stream: oop.Stream, number: int) -> object:
        return stream.aggregate(oop.sum("n")).to(tmp_path / f"sum-{number}.csv")

    stream = spark.readStream.format("oop.results").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    writing = stream.writeStream.foreachBatch(each_batch(plan)).option("checkpointLocation", str(tmp_path / "ck"))
    assert writing.trigger(availableNow=True).start().awaitTermination(100)
    assert [(tmp_path / f"sum-{k}.csv").read_text().split()[-1] for k in range(2)] == ["6", "9"]
    with pytest.raises(PlanError, match="each_batch"):
        from_spark(stream)


def test_a_folder_that_is_no_log_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match=r"SinkError: .* is no page log"), errors():
        spark.read.format("oop.results").load(str(tmp_path))


def test_uint64_comes_back_from_spark_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has it as decimal(20, 0), which is not summed up here."""
    table = pa.table({"k": ["a", "a", "b"], "x": pa.array([5, None, 2**64 - 1], pa.uint64())})
    frame = to_spark(oop.arrow(table), spark)
    assert frame.schema.simpleString() == "struct<k:string,x:decimal(20,0)>"
    sums = from_spark(frame).filter("k = 'a'").aggregate(oop.sum("x"), by="k").to_arrow()
    assert sums["sum_x"].to_pylist() == [5]
    assert from_spark(frame).to_arrow()["x"].to_pylist() == table["x"].to_pylist()
    below = spark.sql("SELECT cast(-5 AS decimal(20, 0)) AS x")
    with pytest.raises(SchemaError, match=r'"x" is decimal128\(20, 0\), which is taken as uint64.*\n.*types={"x": pa'):
        from_spark(below)
    kept = from_spark(below, types={"x": pa.decimal128(20, 0)})
    assert [int(value) for value in kept.to_arrow()["x"].to_pylist()] == [-5]


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_what_workers_wrote_out_of_the_drivers_sight_is_no_epoch(tmp_path: Path, kind: str) -> None:
    """A folder of one name on two machines: the driver must not name files in an epoch that no reader would find."""
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})
    log = PageLog(tmp_path / "log")
    there = LogWriter(PageLog(tmp_path / "other machine"), batch.schema).write(iter([batch]))
    here = LogWriter(log, batch.schema).write(iter([batch]))
    with pytest.raises(SinkError, match=r"wrote 2 files .*, and the driver does not see 1 of them.*\n.*share"):
        if kind == "batch":
            LogWriter(log, batch.schema).commit([here, there])
        else:
            LogStreamWriter(log, batch.schema).commit([here, there], 0)
    assert log.epochs() == []
    LogStreamWriter(log, batch.schema).commit([here], 0)
    assert [segment.rows for (segment,) in log.epochs()] == [3]
