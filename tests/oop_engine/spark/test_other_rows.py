"""A stream that would write other rows into an epoch that is there says so, and drops nothing in silence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark.sql.types import LongType, StructField, StructType

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog
from oop_engine.sources.errors import SourceError
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.results import LogStreamWriter, ResultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRUCT = StructType([StructField("host", LongType()), StructField("count", LongType())])


def writer(log: Path, **options: str) -> LogStreamWriter:
    made = ResultSource({"path": str(log), "checkpointLocation": "ck", **options}).streamWriter(STRUCT, False)
    assert isinstance(made, LogStreamWriter)
    return made


def written(log: Path, number: int, *tasks: dict[int, int], **options: str) -> None:
    """Write a micro-batch: of every task its counts by host."""
    made = writer(log, **options)
    columns = [{"host": list(task), "count": list(task.values())} for task in tasks]
    given = [
        pa.RecordBatch.from_pydict(c, schema=pa.schema([("host", pa.int64()), ("count", pa.int64())])) for c in columns
    ]
    messages = [made.write(iter([batch])) for batch in given]
    try:
        made.commit(messages, number)
    except SinkError:
        made.abort(messages, number)
        raise


def test_a_corrected_query_under_a_new_checkpoint_is_refused_and_a_batch_run_again_is_not(tmp_path: Path) -> None:
    log = tmp_path / "out.pages"
    written(log, 0, {1: 10, 2: 20}, {3: 30})
    written(log, 0, {3: 30}, {2: 20}, {1: 10})
    with pytest.raises(SinkError, match=r"other rows than the 3 that are now to be written.*(?s:.*)another folder"):
        written(log, 0, {1: 11, 2: 22}, {3: 33})
    written(log, 0, {1: 11, 2: 22}, {3: 33}, compare="counts")
    epochs = PageLog(log).epochs()
    rows = [row for s in epochs[0] for b in PageLog(log).read(s) for row in b.to_pylist()]
    assert sorted(row["count"] for row in rows) == [10, 20, 30]
    assert {path.name for path in (log / "segments").iterdir()} == {s.file for s in epochs[0]}


def test_what_is_compared_is_rows_or_counts(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match='compare="count" is none of rows, counts'):
        writer(tmp_path, compare="count")


def test_spark_fails_a_corrected_query_that_gives_as_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    log = PageLog(tmp_path / "in")
    log.begin(schema)
    log.publish(0, [log.seal(schema, [pa.RecordBatch.from_pydict({"n": [1, 2, 3]}, schema=schema)])])

    def run(query: str, checkpoint: str) -> None:
        stream = spark.readStream.format("oop.results").load(str(tmp_path / "in")).selectExpr(query)
        writing = stream.writeStream.format("oop.results").option("checkpointLocation", str(tmp_path / checkpoint))
        with errors():
            assert writing.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(100)

    run("n", "first")
    run("n", "again")
    with pytest.raises(SparkError, match="other rows than the 3 that are now to be written"):
        run("2 * n as n", "corrected")
    assert len(list((tmp_path / "out" / "segments").iterdir())) == 1
