"""DataFrames of pages stand for sources as DataFrames of tuples do: same answer, batch, in order and streaming."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.errors import SchemaError
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns, pruned
from oop_engine.spark.batch import Packed, Scan, rows_of
from oop_engine.spark.in_memory import is_paged
from oop_engine.spark.narrow import page_bytes, read_page
from oop_engine.spark.partial_final import cut_in_levels
from oop_engine.spark.reading import packed
from oop_engine.spark.run import on_spark
from oop_engine.spark.stage_run import elsewhere
from oop_engine.spark.stages import FRONT, KEYED, TAIL
from oop_engine.spark.streaming import OUT, Folding
from oop_engine.spark.wire import PAGE, WireRow
from punctuation import NO_TIME
from tests.oop_engine.spark.plans import FREE, batch, promised, stream
from tests.oop_engine.spark.simulated import embedded, shipped
from tests.oop_engine.spark.test_on_spark import answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEMO = Path(__file__).resolve().parents[3] / "demos" / "captures" / "web.pcap.gz"
ROWS = [(n % 7, "ab"[n % 2], n % 3, n) for n in range(60)]


def paged(*given: pa.RecordBatch) -> pa.RecordBatch:
    """Make a record batch of pages, as Spark would hand it over."""
    body = pa.concat_arrays([packed(one) for one in given])
    return pa.RecordBatch.from_arrays([pa.array([len(one) for one in given], pa.int64()), body], ["rows", "page"])


def test_pages_of_tuples_are_told_from_tuples_that_have_pages() -> None:
    assert is_paged(["rows", "page"], pa.schema([("ts", pa.int64())]))
    assert not is_paged(["rows", "page"], pa.schema([("rows", pa.int64()), ("page", pa.binary())]))
    assert not is_paged(["ts", "page"], pa.schema([("ts", pa.int64())]))


def test_a_partition_of_pages_is_scanned_as_one_of_tuples() -> None:
    whole = cut_in_levels(pruned(Plan((FREE["sliding"]({"a": stream("a", [])}).node,))))
    small = attrs.evolve(whole, plan=elsewhere(whole.plan))
    scan = Scan(small, {KEYED: 2, TAIL: 1}, None, 0, columns(whole.plan)[0])
    halves = [batch(ROWS[:25]), batch(ROWS[25:])]
    tuples = [b.to_pydict() for b in shipped(scan)(halves)]
    found = [b.to_pydict() for b in shipped(attrs.evolve(scan, paged=True))([paged(*halves)])]
    assert found == tuples != []


def test_pages_are_sent_on_as_they_are_in_their_order() -> None:
    halves = [batch(ROWS[:25]), batch(ROWS[25:])]
    given = [paged(*halves), paged(halves[0])]
    sent = list(rows_of(shipped(Packed(3, paged=True))(given)))
    assert [(row.port, row.seq, read_page(row.body)) for row in sent] == list(
        zip([3] * 3, range(3), [*halves, halves[0]], strict=True)
    )
    assert list(rows_of(Packed(3)(halves))) == sent[:2]


def test_a_page_may_bring_more_than_is_read_but_not_less() -> None:
    plan = pruned(Plan((FREE["sliding"](promised([])).node,)))
    whole = cut_in_levels(plan, ordered=True)
    folding = Folding(attrs.evolve(whole, plan=elsewhere(whole.plan)), FRONT, {FRONT: 1, KEYED: 1, TAIL: 1})

    def folded(given: pa.RecordBatch) -> list[WireRow]:
        return folding.fold(0, None, [WireRow(FRONT, 0, 0, 0, 0, NO_TIME, PAGE, page_bytes(given))])[1]

    given = batch(ROWS)
    assert "n" in given.schema.names and "n" not in columns(whole.plan)[0]
    assert [row.body for row in folded(given)] == [row.body for row in folded(given.select(["x", "k", "ts"]))]
    assert all(row.stage != OUT or row.kind != PAGE for row in folded(given))
    with pytest.raises(SchemaError, match=r'pages of a DataFrame have no column "k"'):
        folded(given.select(["ts", "x"]))


def loaded(reader: object, folder: Path) -> DataFrame:
    """Read a folder of captures in pages."""
    options = {"columns": "ts,srcIP,length", "pages": "true", "batchRows": "50"}
    return reader.format("oop.pcap").options(**options).load(str(folder))  # type: ignore[attr-defined]


def counted(folder: Path, promise: bool) -> Stream:
    """Count packets of captures by source, over sliding windows; promised by the tuples, or read in any order."""
    paths = sorted(str(path) for path in folder.iterdir())
    packets = oop.pcap(*paths, name="packets", slack="2 s" if promise else None)
    return packets.window(range="4 s", slide="1 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """A folder with two captures, the second one of the same packets again and therefore late."""
    folder = tmp_path / "captures"
    folder.mkdir()
    for number in range(2):
        path = folder / f"{number}.pcap"
        path.write_bytes(gzip.decompress(DEMO.read_bytes()))
        os.utime(path, (1e9 + number, 1e9 + number))
    return folder


@pytest.mark.parametrize("promise", [False, True])
def test_pages_of_captures_stand_for_a_source(spark: SparkSession, captures: Path, promise: bool) -> None:
    result = counted(captures, promise)
    frame = on_spark(result, spark, {"packets": loaded(spark.read, captures)})
    assert answer(frame) == embedded(result)


@pytest.mark.parametrize("end", [False, True])
def test_streaming_pages_of_captures_stand_for_a_source(
    spark: SparkSession, captures: Path, tmp_path: Path, end: bool
) -> None:
    result = counted(captures, promise=True)
    reader = spark.readStream.option("maxFilesPerTrigger", 1).option("complete", end)
    frame = on_spark(result, spark, {"packets": loaded(reader, captures)}, end=end)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert answer(spark.read.parquet(str(tmp_path / "out"))) == embedded(result, end=end)
