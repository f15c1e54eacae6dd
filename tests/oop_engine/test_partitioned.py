"""Results in partitions are in the folders that their values name, each once, also where a run was killed."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.sinks import SinkError, partitioned, sink_for
from oop_engine.sinks.committed import committed
from oop_engine.sinks.disk import RealDisk
from operators.data.page import Page
from operators.data.schema import Schema
from punctuation import before

HOUR = 3600
SCHEMA = Schema(pa.schema([("ts", pa.timestamp("s", "UTC")), ("host", pa.string()), ("n", pa.int64())]))
ROWS = [(0, "a", 1), (HOUR, "b/=", 2), (25 * HOUR + 7, None, 3), (HOUR + 1, "a", 4), (None, "a", 5)]
PAGE = Page.of_rows(SCHEMA, ROWS)


def written(path: Path, by: str) -> list[str]:
    with sink_for(path, partition_by=by).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 2))
        deliver(PAGE.slice(2, 5))
        deliver(PAGE.slice(0, 0))
    listed = json.loads((path / "_manifest.json").read_text())["parts"]
    assert sorted(str(p.relative_to(path)) for p in path.rglob("*.parquet")) == listed
    return listed


def test_hours_are_folders_of_a_date_and_an_hour(tmp_path):
    folders = [str(Path(part).parent) for part in written(tmp_path / "out", "hour(ts)")]
    null = "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"
    assert folders == ["date=1970-01-01/hour=00", "date=1970-01-01/hour=01", "date=1970-01-02/hour=01", null]


def test_duckdb_and_arrow_read_what_was_written_with_the_columns_of_the_folders(tmp_path):
    written(tmp_path / "out", "day(ts), host")
    query = f"SELECT n, date, host FROM read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning=true) ORDER BY n"
    found = [(n, None if day is None else str(day), host) for n, day, host in duckdb.sql(query).fetchall()]
    first = "1970-01-01"
    assert found == [(1, first, "a"), (2, first, "b/="), (3, "1970-01-02", None), (4, first, "a"), (5, None, "a")]
    table = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert sorted(zip(table["n"].to_pylist(), table["host"].to_pylist(), strict=True)) == [
        (n, host) for _, host, n in ROWS
    ]


def test_a_checkpoint_shows_what_it_committed_and_a_run_that_goes_on_gives_nothing_twice(tmp_path):
    disk, path = RealDisk(), tmp_path / "out"
    sink = sink_for(path, partition_by=["hour(ts)"])
    first = committed(sink, SCHEMA, disk)
    kept = first.fresh()
    first.begin(kept)
    first(PAGE.slice(0, 3))
    cut = first.cut(1, ended=False)
    first.sync(cut)
    first(PAGE.slice(3, 5))
    assert not list(path.rglob("date=*")) and not first.overtaken(kept)
    # It was killed here: the cut is committed, what came later is in no checkpoint.
    second = committed(sink, SCHEMA, disk)
    second.begin(json.loads(json.dumps(cut)))
    assert second.overtaken(kept) and not second.overtaken(cut)
    second(PAGE.slice(3, 5))
    last = second.cut(2, ended=True)
    second.sync(last)
    second.publish(last)
    second.publish(last)
    rows = sorted(n for p in path.rglob("*.parquet") for n in pq.read_table(p, partitioning=None)["n"].to_pylist())
    assert rows == [1, 2, 3, 4, 5] == sorted(range(1, 1 + last["rows"]))
    (path / "date=1970-01-01" / "hour=00" / "part-00000001-000.parquet").unlink()
    with pytest.raises(SinkError, match="was committed, and is missing"):
        committed(sink, SCHEMA, disk).begin(cut)


def test_a_job_writes_partitions(tmp_path):
    stream = oop.rows([(i * 1800, "a", i) for i in range(5)], SCHEMA, punctuate=oop.ordered("ts"))
    output = stream.window("1 hour").aggregate(oop.count()).to(tmp_path / "out", partition_by="hour(window_start)")
    assert output.run(checkpoint=tmp_path / "job").tuples == 5
    assert output.run(checkpoint=tmp_path / "job").notes[0].endswith("nothing was read or written now")
    found = duckdb.sql(f"SELECT sum(count), count(*) FROM '{tmp_path}/out/*/*/*.parquet'").fetchall()
    assert found == [(5, 3)]


def test_many_partitions_hold_few_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr(partitioned, "_OPEN", 3)
    page = Page.of_rows(SCHEMA, [(0, f"h{i % 5}", i) for i in range(15)])
    with sink_for(tmp_path / "out", partition_by="host").opened(SCHEMA) as deliver:
        for _ in range(2):
            deliver(page)
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT host) FROM '{tmp_path}/out/*/*.parquet'").fetchall()
    assert found == [(30, 5)]
    assert len(list((tmp_path / "out").glob("host=h0/*"))) == 2


def test_a_run_that_fails_leaves_no_results_but_an_endless_one_keeps_and_goes_behind_them(tmp_path):
    path = tmp_path / "out"
    for endless in (False, True, True):
        with (
            pytest.raises(ZeroDivisionError),
            sink_for(path, partition_by="hour(ts)", endless=endless).opened(SCHEMA) as deliver,
        ):
            deliver(PAGE)
            deliver(before("ts", 5))
            raise ZeroDivisionError
    assert len(list(path.rglob("*.parquet"))) == 8
    with (
        pytest.raises(SinkError, match="partitioned by"),
        sink_for(path, partition_by="day(ts)", endless=True).opened(SCHEMA),
    ):
        raise AssertionError("results of two partitionings would be mixed")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("hour(tss)", 'no such attribute. Did you mean "ts"'),
        ("hour(n)", "that is int64, and no point in time"),
        ("week(ts)", r"write hour\(ts\), day\(ts\) or ts"),
        ("day(ts), hour(ts)", 'named "date"'),
        ("ts, host, n", "no attribute beside"),
    ],
)
def test_what_cannot_be_partitioned_by_is_refused(tmp_path, by, words):
    with pytest.raises(SinkError, match=words), sink_for(tmp_path / "out", partition_by=by).opened(SCHEMA):
        raise AssertionError("it was opened")


def test_partitions_are_a_folder_of_this_machine():
    for target in ("-", "s3a://bucket/out", "out.csv"):
        with pytest.raises(SinkError, match="a folder of Parquet or Arrow files"):
            sink_for(target, partition_by="host")
