"""In a folder of captures and flow exports each file is read as what it holds, by one reader, whatever its name."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable

import oop_engine as oop
from oop_engine.sources.errors import SourceError
from oop_engine.spark.contents import Contents, Kind
from oop_engine.spark.growing import GrowingReader
from oop_engine.spark.journal import NAME
from oop_engine.spark.pipeline import Pipeline
from oop_engine.spark.sources import FlowSource, PacketSource
from tests.capture_files import FRAMES, WHOLE, pcap
from tests.oop_engine.flows.exporter import v5, v5_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEMOS = Path(__file__).resolve().parents[3] / "demos" / "captures"
START = {"file": 0, "byte": 0}
PATTERNS = ("*netflow*", "*ipfix*", "*sflow*")
HELD: dict[str, Kind | None] = {
    "web-ipfix.pcap.gz": "packets",
    "exports-netflow.pcap.gz": "exports",
    "exports.pcap.gz": "packets",  # that a capture holds exports is said by its name
    "sflow.pcap": "packets",
    "netflow.pcapng": "packets",
    "datagrams.bin": "exports",
    "datagrams.gz": "exports",
    "new-ipfix.pcap": None,  # no packet yet
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    shutil.copy(DEMOS / "web.pcap.gz", place / "web-ipfix.pcap.gz")
    shutil.copy(DEMOS / "exports.pcap.gz", place / "exports-netflow.pcap.gz")
    shutil.copy(DEMOS / "exports.pcap.gz", place)
    (place / "sflow.pcap").write_bytes(pcap([(1000, FRAMES[0])]))
    (place / "netflow.pcapng").write_bytes(WHOLE["pcapng"])
    (place / "datagrams.bin").write_bytes(v5([v5_record()]))
    (place / "datagrams.gz").write_bytes(gzip.compress(v5([v5_record()], sequence=1)))
    (place / "new-ipfix.pcap").write_bytes(pcap([]))
    return place


def stream(kind: Kind, path: Path, **options: str) -> GrowingReader:
    given = {"path": str(path), "__is_streaming__": "true", "exports": ",".join(PATTERNS), **options}
    source = (PacketSource if kind == "packets" else FlowSource)({k: v for k, v in given.items() if v})
    return source.streamReader(source.schema())


def planned(reader: GrowingReader, start: dict[str, int] = START) -> tuple[set[str], dict[str, int]]:
    """Give the files that a batch of all there is reads, and where it ends; everything in it can be read."""
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    for part in parts:
        list(reader.read(part))
    return {piece.path.name for part in parts for piece in part.value or ()}, end


@pytest.mark.parametrize(("name", "held"), HELD.items())
def test_what_a_file_holds_is_told_by_its_content(folder: Path, name: str, held: Kind | None) -> None:
    kinds: tuple[Kind, ...] = ("packets", "exports")
    assert [kind for kind in kinds if Contents(kind, PATTERNS).takes(folder / name)] == ([held] if held else [])


@pytest.mark.parametrize("shared", [True, False])
def test_every_file_is_read_by_one_of_two_streams(folder: Path, tmp_path: Path, shared: bool) -> None:
    places = {kind: "" if shared else str(tmp_path / kind) for kind in ("packets", "exports")}
    for kind in ("packets", "exports"):
        found, end = planned(stream(kind, folder, journal=places[kind]))
        assert found == {name for name, held in HELD.items() if held == kind}
        assert planned(stream(kind, folder, journal=places[kind]), end)[0] == set()
    assert (folder / NAME).exists() == shared


def test_a_capture_without_packets_is_read_when_there_are_some(folder: Path) -> None:
    reader = stream("packets", folder)
    _, end = planned(reader)
    with (folder / "new-ipfix.pcap").open("ab") as file:
        file.write(pcap([(1000, FRAMES[0])])[24:])
    assert planned(reader, end)[0] == {"new-ipfix.pcap"}


def test_what_a_query_that_does_not_look_into_files_numbered_is_looked_into(folder: Path) -> None:
    planned(stream("packets", folder, exports="", only="*.pcap*"))
    assert planned(stream("exports", folder))[0] == {name for name, held in HELD.items() if held == "exports"}


def test_a_file_that_is_neither_is_refused_by_name(folder: Path) -> None:
    (folder / "read.netflow.txt").write_text("no capture at all, and more than 24 bytes")
    with pytest.raises(Exception, match=r"read\.netflow\.txt is no capture"):
        planned(stream("packets", folder))


def test_a_stream_of_exports_refuses_a_capture_that_holds_none(folder: Path) -> None:
    reader = stream("exports", folder, exports="", only="web*")
    with pytest.raises(SourceError, match=r"web-ipfix\.pcap\.gz holds no flow exports: none of its 4,631 packets is a"):
        planned(reader)
    with pytest.raises(SourceError, match="option ports, leave the file out by the option except"):
        planned(stream("exports", folder, exports="", only="web*"))
    assert planned(stream("exports", folder, exports="", only="exports.pcap.gz"))[0] == {"exports.pcap.gz"}


def test_a_capture_that_holds_no_exports_is_told_without_spark(folder: Path) -> None:
    (note,) = oop.netflow(str(folder / "sflow.pcap")).run().statistics.notes
    assert "sflow.pcap holds no flow exports: its only packet is no datagram of NetFlow, IPFIX or sFlow v5" in note
    assert oop.netflow(str(folder / "new-ipfix.pcap")).run().statistics.notes == ()


def test_a_pipeline_counts_a_capture_of_any_name_once(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    report = Pipeline(folder, tmp_path / "tables").run(spark)
    packets = [oop.pcap(str(folder / name)).run().table.num_rows for name, held in HELD.items() if held == "packets"]
    records = oop.netflow(*(str(folder / name) for name, held in HELD.items() if held == "exports")).run().table
    assert (report.packets, report.records) == (sum(packets), records.num_rows)
    again = Pipeline(folder, tmp_path / "tables").run(spark)
    assert (again.packets, again.records) == (0, 0)
