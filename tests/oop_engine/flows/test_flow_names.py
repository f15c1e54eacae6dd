"""Flow records are queried in any of the names that people know them by, from the command line as from Python."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA
from oop_engine.sources.kind import kind_of
from operators.data.schema import Schema, aliased, aliases_of
from tests.capture_files import ether, ipv4, pcap
from tests.oop_engine.flows.exporter import NOW, SECOND, v5, v5_record
from tests.open_set import OPEN_SET, with_open_set

ZEEK = """#separator \\x09
#path\tconn
#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\torig_pkts\torig_ip_bytes
#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tcount\tcount
1700000000.5\tC1\t10.0.0.1\t40000\t10.0.0.2\t53\tudp\t2\t150
1700000000.1\tC2\t10.0.0.1\t40001\t10.0.0.3\t53\tudp\t1\t50
"""
SHORT = "SELECT srcIP, sum(bytes) AS total [RANGE 1 minute, WA ts] FROM Flows GROUP BY srcIP"
IANA = (
    "SELECT sourceIPv4Address, sum(octetDeltaCount) AS total [RANGE 1 minute, WA flowStartMilliseconds] FROM Flows "
    "GROUP BY sourceIPv4Address"
)


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    payloads = [v5([v5_record("10.0.0.1", octets=k), v5_record("10.0.0.2", octets=7)], sequence=2 * k) for k in (1, 2)]
    datagrams = [struct.pack(">HHHH", 5000, 2055, 8 + len(p), 0) + p for p in payloads]
    frames = [(NOW * SECOND + k, ether(ipv4(d, 17))) for k, d in enumerate(datagrams)]
    path = tmp_path / "exports.pcap"
    path.write_bytes(pcap(frames))
    return path


def run(*arguments: str) -> tuple[list[str], str]:
    done = CliRunner().invoke(commands, ["query", *arguments, "-q"])
    return done.output.splitlines()[1:], done.output


@pytest.mark.parametrize("text", [SHORT, IANA])
@pytest.mark.parametrize("place", ["Flows=netflow:{}", "netflow:{}", "{}"])
def test_a_capture_of_exports_is_queried_in_short_and_in_iana_names(exports: Path, text: str, place: str) -> None:
    given = ["--format", "netflow"] if place == "{}" else []
    lines, output = run(text, "--stream", place.format(exports), *given)
    assert sorted(line.split(",")[:2] for line in lines) == [["10.0.0.1", "3"], ["10.0.0.2", "14"]], output


def test_without_a_word_a_capture_of_exports_is_a_capture(exports: Path) -> None:
    lines, _ = run("SELECT count(*) [RANGE 1 minute, WA ts] FROM Main", "--stream", str(exports))
    assert [line.split(",")[0] for line in lines] == ["2"]


def test_elements_that_only_the_query_names_are_read(exports: Path) -> None:
    text = "SELECT count(postOctetDeltaCount) AS posts, count(*) AS all_ [RANGE 1 minute, WA ts] FROM Flows"
    lines, output = run(text, "--stream", f"Flows=netflow:{exports}")
    assert [line.split(",")[:2] for line in lines] == [["0", "4"]], output


def test_two_formats_of_one_stream_are_refused(exports: Path) -> None:
    _, output = run(SHORT, "-s", f"Flows=netflow:{exports}", "-s", f"Flows=pcap:{exports}")
    assert "stream Flows is to be read as netflow and as pcap" in output


def test_a_file_whose_name_begins_with_a_format_is_that_file(exports: Path, tmp_path: Path) -> None:
    named = tmp_path / "odd"
    named.mkdir()
    (named / "netflow:x.pcap").write_bytes(exports.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(named)
        lines, output = run("SELECT count(*) [RANGE 1 minute, WA ts] FROM Main", "-s", "Main=netflow:x.pcap")
    assert [line.split(",")[0] for line in lines] == ["2"], output


@pytest.mark.parametrize(("packed", "name"), [(False, "id.orig_h"), (True, "`id.orig_h`"), (False, "Log.src")])
def test_a_log_of_zeek_is_known_by_its_content(tmp_path: Path, packed: bool, name: str) -> None:
    path = tmp_path / ("conn.log.gz" if packed else "conn.log")
    path.write_bytes(gzip.compress(ZEEK.encode()) if packed else ZEEK.encode())
    assert kind_of(path) == "zeek"
    text = f"SELECT {name}, sum(orig_ip_bytes) AS total [RANGE 1 minute, WA ts] FROM Log GROUP BY src"
    lines, output = run(text, "--stream", f"Log={path}")
    assert [line.split(",")[:2] for line in lines] == [["10.0.0.1", "200"]], output


def test_a_json_log_of_zeek_is_known_by_its_content_and_by_the_format(tmp_path: Path) -> None:
    one = {"ts": 1700000000.5, "uid": "C1", "id.orig_h": "10.0.0.1", "id.orig_p": 1, "id.resp_h": "10.0.0.2",
           "id.resp_p": 2, "proto": "tcp", "conn_state": "SF", "orig_ip_bytes": 40}  # fmt: skip
    for name, known in (("conn.log", None), ("conn.json", "zeek")):
        path = tmp_path / name
        path.write_text(json.dumps(one) + "\n")
        assert kind_of(path) == "zeek"
        table = oop.read(path, format=known).project("src", "dport", "bytes").to_arrow()
        assert table.to_pylist() == [{"src": "10.0.0.1", "dport": 2, "bytes": 40}]


def test_datagrams_end_to_end_and_files_of_nfdump_are_known_by_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(v5([v5_record()]))
    (tmp_path / "b").write_bytes(b"\x0c\xa5" + bytes(200))
    (tmp_path / "c").write_bytes(b'{"ts": 1}\n')
    (tmp_path / "d").write_bytes(b"")
    assert [kind_of(tmp_path / name) for name in "abcd"] == ["netflow", "nfdump", None, None]
    assert oop.read(tmp_path / "a").project("srcIP").to_arrow().num_rows == 1


def test_a_wrong_format_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(oop.PlanError, match="netflow"):
        oop.read(tmp_path / "x", format="netflw")


@pytest.mark.parametrize(("alias", "name"), sorted(FLOW_ALIASES.items()))
def test_every_alias_means_its_column(alias: str, name: str) -> None:
    assert Schema(FLOW_SCHEMA).resolve(alias, where="test") == name


def test_an_alias_follows_its_attribute_and_is_in_no_other_streams_way() -> None:
    shape = Schema(pa.schema([aliased(pa.field("srcIP", pa.int64()), ["src"]), pa.field("x", pa.int64())]))
    stream = oop.rows([{"srcIP": 1, "x": 2}], shape)
    assert stream.project(who="src").project("src").to_arrow().to_pylist() == [{"src": 1}]
    with pytest.raises(oop.SchemaError, match='no attribute "src"'):
        stream.project("x").project("src")
    named = pa.schema([*shape.arrow, pa.field("src", pa.int64())])
    assert Schema(named).resolve("src", where="test") == "src"
    assert aliases_of(aliased(shape.arrow.field(0), ["source"])) == ["src", "source"]
    assert aliases_of(pa.field("x", pa.int64())) == []


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
@with_open_set
def test_a_file_of_nfdump_is_read_by_name_and_by_content() -> None:
    place = OPEN_SET / "own/flows1.nfcapd"
    named = oop.nfdump(place, name="stored").project("src", "octetDeltaCount")
    assert named.to_arrow().num_rows == 30_737
    lines, output = run("SELECT sum(bytes) [RANGE ALL, SLIDE 1 day, WA start] FROM F", "-s", str(place))
    assert lines[-1].split(",")[0] == "45198581", output


def test_nfdump_without_a_file_says_what_to_write() -> None:
    with pytest.raises(oop.PlanError, match="at least one file"):
        oop.nfdump()
