"""Tables hold every packet once, however the runs that wrote them were cut."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.sinks.files import claimed
from oop_engine.sources.errors import SourceError
from oop_engine.spark.pipeline import Pipeline, Tally
from tests.capture_files import SECOND, ether, ipv4, pcap, tcp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMO = Path(__file__).resolve().parents[3] / "demos" / "captures" / "web.pcap.gz"
HOUR = 3600


def table(place: Path, name: str) -> list[dict[str, object]]:
    return pq.read_table(place / name).to_pylist()


def syn(port: int, flags: int = 2) -> bytes:
    segment = bytearray(tcp(flags=flags))
    segment[2:4] = port.to_bytes(2, "big")
    return ether(ipv4(bytes(segment), 6))


def embedded(path: Path) -> list[tuple[str, int, int]]:
    """Count packets and bytes by source with the engine itself."""
    found = oop.pcap(path).aggregate(oop.count(), oop.sum("length"), by="srcIP").run().table
    return sorted(zip(*(found[name].to_pylist() for name in ("srcIP", "count", "sum_length")), strict=True), key=repr)


def test_tables_hold_every_packet_once_through_new_files_and_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    source, tables = tmp_path / "captures", tmp_path / "tables"
    source.mkdir()
    shutil.copy(DEMO, source / "a.pcap.gz")
    pipeline = Pipeline(source, tables, many=20)
    first = pipeline.run(spark)
    assert (first.packets, first.batches, first.hours) == (4631, 1, ("2013-05-02T20",))
    sources = pq.read_table(tables / "sources")
    assert sorted(
        zip(*(sources[name].to_pylist() for name in ("srcIP", "packets", "bytes")), strict=True), key=repr
    ) == embedded(DEMO)
    # More of the same hour, and a scan in another, of which the last record is cut short.
    (source / "b.pcap").write_bytes(gzip.decompress(DEMO.read_bytes()))
    scan = pcap([((50 * HOUR + k) * SECOND, syn(1000 + k)) for k in range(25)])
    (source / "c.pcap").write_bytes(scan[:-1])
    second = pipeline.run(spark)
    assert (second.packets, second.hours) == (4631 + 24, ("1970-01-03T02", "2013-05-02T20"))
    assert pc.sum(pq.read_table(tables / "flows")["packets"]).as_py() == 2 * 4631 + 24
    (alert,) = table(tables, "alerts")
    assert (alert["srcIP"], alert["alert"], alert["value"]) == ("10.1.2.3", "scan", 24)
    # Killed after the counts of a batch were written and before Spark or the tables knew of it.
    for name in ("1", ".1.crc"):
        (tables / ".work" / "checkpoints" / "packets" / "commits" / name).unlink(missing_ok=True)
    (tables / ".work" / "published.json").write_text('{"packets": 0}')
    pipeline.run(spark)
    assert pc.sum(pq.read_table(tables / "flows")["packets"]).as_py() == 2 * 4631 + 24
    assert len(table(tables, "alerts")) == 1


def test_relative_folders_are_those_where_it_was_made(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "captures" / "a.pcap").write_bytes(scan(2, 5))
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline("captures", "tables")
    monkeypatch.chdir(tmp_path / "elsewhere")
    pipeline.check()
    assert pipeline.run(spark).packets == 5
    assert pq.read_table(tmp_path / "tables" / "flows")["packets"].to_pylist() == [1] * 5
    assert list(Path().iterdir()) == []


def scan(hour: int, ports: int, flags: int = 2) -> bytes:
    """A capture of one packet to each of so many ports of one host."""
    return pcap([((hour * HOUR + k) * SECOND, syn(1000 + k, flags)) for k in range(ports)])


def test_alerts_are_those_of_all_that_was_read_and_of_one_threshold(spark: SparkSession, tmp_path: Path) -> None:
    source, tables = tmp_path / "captures", tmp_path / "tables"
    source.mkdir()

    def alerts(many: int) -> list[tuple[object, object]]:
        report = Pipeline(source, tables, many=many).run(spark)
        hours.append(report.hours)
        return sorted((row["hour"], row["value"]) for row in table(tables, "alerts"))

    hours: list[tuple[str, ...]] = []
    two, three, four = (f"1970-01-01T0{hour}" for hour in (2, 3, 4))
    for hour, ports in ((2, 25), (3, 30), (4, 9)):
        (source / f"{hour}.pcap").write_bytes(scan(hour, ports))
    assert alerts(20) == [(two, 25), (three, 30)]
    # The packets that show that the first was none come in another run.
    (source / "later.pcap").write_bytes(scan(2, 25, flags=16))
    assert alerts(20) == [(three, 30)]
    assert alerts(5) == [(three, 30), (four, 9)]
    assert alerts(20) == [(three, 30)]
    # A run with another threshold that was killed before all alerts were made anew, and tables of earlier versions.
    (tables / ".work" / "published.json").write_text('{"packets": 1}')
    shutil.copytree(tables / "alerts" / f"hour={three}", tables / "alerts" / f"hour={four}")
    assert alerts(20) == [(three, 30)]
    assert alerts(20) == [(three, 30)]
    assert hours == [(two, three, four), (two,), *[(two, three, four)] * 3, ()]


def progress(first: int, count: int, rows: int = 7) -> list[dict[str, object]]:
    """What Spark tells of batches of two sources."""
    sources = [{"numInputRows": rows}, {"numInputRows": 1}]
    return [{"batchId": number, "sources": sources} for number in range(first, first + count)]


def test_rows_are_counted_of_all_batches_though_spark_tells_of_the_last_hundred() -> None:
    tally = Tally()
    for seen in range(40, 1001, 40):
        tally.take(progress(max(0, seen - 100), min(seen, 100)))
    assert (tally.rows, tally.batches) == (8 * 1000, 1000)


def test_a_batch_of_which_spark_tells_twice_counts_once() -> None:
    tally = Tally()
    tally.take([{"batchId": 0, "sources": [{"numInputRows": 0}]}])  # it waited for data
    tally.take(progress(0, 2))
    tally.take(progress(0, 2))
    tally.take([{"batchId": 2, "sources": [{"numInputRows": 0}]}])
    assert (tally.rows, tally.batches) == (16, 2)


def test_a_folder_that_is_not_there_or_empty_is_told_before_spark_starts(tmp_path: Path) -> None:
    from oop_engine.cli.pipeline import command

    for place, words in ((tmp_path / "none", "there is no folder"), (tmp_path, "holds no captures")):
        with pytest.raises(SourceError, match=words):
            Pipeline(place, tmp_path / "tables").check()
        done = CliRunner().invoke(command, ["run", "--input", str(place), "--tables", str(tmp_path / "tables")])
        assert done.exit_code == 2
        assert words in done.stderr


def test_tables_that_another_run_writes_are_refused_before_spark_starts(tmp_path: Path) -> None:
    from oop_engine.cli.pipeline import command

    (tmp_path / "in").mkdir()
    shutil.copy(DEMO, tmp_path / "in")
    (tmp_path / "tables" / ".work").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "tables")
    with claimed(tmp_path / "tables" / ".work" / "run"):
        done = CliRunner().invoke(command, ["run", "--input", str(tmp_path / "in"), "--tables", str(tmp_path / "link")])
    assert done.exit_code == 2
    assert f'the tables "{tmp_path / "link"}" are being written by the process {os.getpid()}' in done.stderr
    Pipeline(tmp_path / "in", tmp_path / "tables").check()
