"""Captures and flow exports read by Spark are what the engine reads, in parts, in batches and after a restart."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive.outcome import table_of
from oop_engine.sources.capture import Capture
from oop_engine.spark.errors import SparkError, errors
from operators.data.page import Page
from operators.data.schema import Schema
from tests.capture_files import FRAMES, SECOND, WHOLE, pcap
from tests.oop_engine.flows.exporter import v5, v5_record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEMO = Path(__file__).resolve().parents[3] / "demos" / "captures" / "web.pcap.gz"
COLUMNS = "ts_ns,srcIP,destIP,srcPort,proto,length,flags"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture packed, one large enough for parts, and a pcapng."""
    folder = tmp_path_factory.mktemp("captures")
    data = gzip.decompress(DEMO.read_bytes())
    (folder / "a.pcap.gz").write_bytes(DEMO.read_bytes())
    (folder / "b.pcap").write_bytes(data[:24] + data[24:] * 12)
    (folder / "c.pcapng").write_bytes(WHOLE["pcapng"])
    return folder


def embedded(folder: Path) -> list[tuple[object, ...]]:
    """Read the same columns without Spark."""
    names = COLUMNS.replace("ts_ns", "ts").split(",")
    rows: list[tuple[object, ...]] = []
    for path in sorted(folder.iterdir()):
        capture = Capture(path, columns=names)
        schema = Schema(capture.schema)
        read = table_of(capture.schema, [Page(schema, batch) for batch in capture.batches()])
        read = read.set_column(0, "ts", read["ts"].cast(pa.int64()))
        rows += zip(*(read[name].to_pylist() for name in names), strict=True)
    return sorted(rows, key=repr)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    table = frame.toArrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_a_folder_of_captures_is_what_the_engine_reads(spark: SparkSession, captures: Path) -> None:
    frame = spark.read.format("oop.pcap").option("columns", COLUMNS).option("splitBytes", "700k").load(str(captures))
    assert frame.schema.simpleString() == (
        "struct<ts_ns:bigint,srcIP:string,destIP:string,srcPort:int,proto:smallint,length:int,flags:smallint>"
    )
    assert frame.rdd.getNumPartitions() > 1
    assert rows_of(frame) == embedded(captures)


def test_a_dataframe_that_was_filtered_once_still_gives_all_rows(spark: SparkSession, captures: Path) -> None:
    # Spark 4.3.0 keeps the filters that a source took for every later use of the DataFrame; so this one takes none.
    frame = spark.read.format("oop.pcap").option("columns", "proto,length").load(str(captures / "a.pcap.gz"))
    every = frame.count()
    few = frame.where("length < 100").count()
    assert 0 < few < every
    assert frame.count() == every
    assert frame.where("length < 100").union(frame.where("length >= 100")).count() == every


def test_a_time_range_leaves_out_what_is_outside(spark: SparkSession, captures: Path) -> None:
    read = spark.read.format("oop.pcap").option("columns", "length")
    times = sorted(int(str(row[0])) for row in embedded(captures))
    low, high = times[len(times) // 3], times[len(times) // 2]
    seconds = {name: f"{t // SECOND}.{t % SECOND:09d}" for name, t in (("start", low), ("end", high))}
    found = read.options(**seconds).load(str(captures))
    assert found.columns == ["length"]
    assert found.count() == sum(low <= t < high for t in times)


def test_every_column_arrives_as_its_type(spark: SparkSession, captures: Path) -> None:
    frame = spark.read.format("oop.pcap").option("addresses", "binary").load(str(captures / "c.pcapng"))
    rows = frame.collect()
    assert [row.srcIP is None for row in rows] == [False, False, False, True]
    assert rows[0].srcIP == bytes(10) + b"\xff\xff" + bytes([10, 1, 2, 3])
    assert [row.destPort for row in rows] == [50_000, 5353, 5353, None]
    assert [row.ts.year for row in rows] == [2023] * 4


@pytest.mark.parametrize(
    ("options", "path", "words"),
    [
        ({"column": "ts"}, "{}", 'SourceError: oop.pcap has no option "column".*\n.*Did you mean "columns"'),
        ({"columns": "ts,scrIP"}, "{}", 'SchemaError: columns: there is no column "scrIP".*Did you mean "srcIP"'),
        ({"splitBytes": "many"}, "{}", 'splitBytes="many" is no whole number'),
        ({"start": "noon"}, "{}", 'start="noon" is no time'),
        ({}, "{}/nothing.pcap", "SourceError: there is no file .*nothing.pcap"),
        ({}, "s3://bucket/a.pcap", "Mount the place s3://bucket"),
    ],
)
def test_wrong_options_are_told_in_a_few_lines(
    spark: SparkSession, captures: Path, options: dict[str, str], path: str, words: str
) -> None:
    with pytest.raises(SparkError) as caught, errors():
        spark.read.format("oop.pcap").options(**options).load(path.format(captures)).count()
    assert re.search(words, str(caught.value), re.S), str(caught.value)
    assert len(str(caught.value).splitlines()) <= 5
    assert "java" not in str(caught.value).replace(str(captures), "")


def test_a_file_that_is_no_capture_is_told_in_the_decoders_words(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("not a capture\n" * 9)
    with (
        pytest.raises(SparkError, match=r"DecodeError: .*a.pcap is no capture: its first bytes are 6e 6f") as caught,
        errors(),
    ):
        spark.read.format("oop.pcap").load(str(tmp_path)).count()
    assert len(str(caught.value).splitlines()) == 3


def drain(spark: SparkSession, source: Path, out: Path, **options: object) -> list[int]:
    """Run a stream to what is there now, and give the rows of all its runs, by number; some batch is not empty."""
    stream = spark.readStream.format("oop.pcap").options(columns="ts_ns", **options).load(str(source))
    writing = stream.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    query = writing.trigger(availableNow=True).start(str(out / "rows"))
    assert query.awaitTermination(100)
    return sorted(row.ts_ns // 1000 for row in spark.read.parquet(str(out / "rows")).collect())


def test_a_stream_goes_on_where_it_stopped_and_a_file_grows_under_it(spark: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()

    def records(first: int, count: int) -> bytes:
        return pcap([((first + k) * 1000, FRAMES[0]) for k in range(count)])[24:]

    (source / "a.pcap").write_bytes(pcap([]) + records(0, 60) + records(60, 1)[:30])
    assert drain(spark, source, out, maxRowsPerTrigger=25) == list(range(60))
    with (source / "a.pcap").open("ab") as file:
        file.write(records(60, 1)[30:] + records(61, 9))
    (source / "b.pcap").write_bytes(pcap([]) + records(70, 30))
    assert drain(spark, source, out, maxRowsPerTrigger=25) == list(range(100))
    # A crash between what a batch wrote and Spark's own note of it: the batch is read again, the same.
    commits = out / "checkpoint" / "commits"
    last = max(int(p.name) for p in commits.iterdir() if p.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    assert drain(spark, source, out, maxRowsPerTrigger=25) == list(range(100))


def test_flow_exports_are_what_the_engine_reads_in_a_batch_and_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for k in range(2):
        (source / f"{k}.netflow").write_bytes(
            v5([v5_record(packets=k + 1), v5_record(octets=2**32 - 1)], sequence=2 * k)
        )
    (source / "other.txt").write_text("no exports")
    names = ["ts_ns", "srcIP", "bytes", "packets", "version"]
    read = spark.read.format("oop.netflow").option("columns", ",".join(names)).option("except", "*.txt")
    table = oop.netflow(str(source / "*.netflow")).project(*(n.removesuffix("_ns") for n in names)).run().table
    table = table.set_column(0, "ts_ns", table["ts"].cast(pa.int64()))
    expected = sorted(zip(*(table[name].to_pylist() for name in names), strict=True), key=repr)
    assert len(expected) == 4
    frame = read.load(str(source))
    assert [(t, s, int(b), int(p), v) for t, s, b, p, v in rows_of(frame)] == expected
    stream = spark.readStream.format("oop.netflow").options(columns=",".join(names), only="*.netflow").load(str(source))
    writing = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writing.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination(100)
    rows = rows_of(spark.read.parquet(str(tmp_path / "rows")))
    assert [(t, s, int(b), int(p), v) for t, s, b, p, v in rows] == expected


def test_pages_hold_the_tuples_with_their_own_types(spark: SparkSession, captures: Path) -> None:
    frame = spark.read.format("oop.pcap").options(pages="true", columns="ts,srcIP,length", batchRows="2000")
    rows = frame.load(str(captures / "a.pcap.gz")).collect()
    pages = [oop.spark.read_page(row.page) for row in rows]
    capture = Capture(captures / "a.pcap.gz", columns=["ts", "srcIP", "length"])
    assert [row.rows for row in rows] == [page.num_rows for page in pages]
    assert len(pages) == 3
    assert pa.Table.from_batches(pages).equals(pa.Table.from_batches(capture.batches()))
