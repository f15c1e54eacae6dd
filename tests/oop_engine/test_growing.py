"""Files and folders that grow: each line and packet comes once, whatever becomes of the files meanwhile."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.following import Followed, followed, kind_of_growing
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.found_columns import kept_columns
from oop_engine.errors import CheckpointError
from oop_engine.sources.errors import SourceError
from oop_engine.sources.generator import packets
from oop_engine.sources.growing import source, tails
from oop_engine.sources.growing.source import Growing, GrowingReader
from oop_engine.sources.positions import Placing
from oop_engine.sources.recording import write_pcap
from operators.data.saved import decode_state, encode_state
from tests.examples import share

EXPORTS = Path("demos/captures/exports.pcap.gz")
STORED = Path("../shared/data/captures/own/flows1.nfcapd")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody wait for what does not come, or for files to settle."""
    monkeypatch.setattr(source, "_FIRST", 0.0)
    monkeypatch.setattr(source, "SETTLED", 0.0)
    monkeypatch.setattr(tails, "SETTLED", 0.0)


def growing(*places: Path, kind: str = "", order: str = "name", **more: object) -> Growing:
    said = {"strict": False, "types": None, "columns": (), "delimiter": None, "decimal": None, "encoding": None}
    how = {**said, "time_format": None, "flatten": False, **more}
    return followed(places, Followed(kind or kind_of_growing(places), order, **how), "")  # pyright: ignore


def reader(given: Growing, *columns: str) -> GrowingReader:
    return given.open(columns or given.arrow.names, 1000)


def rows(reading: GrowingReader) -> list[dict[str, object]]:
    return [row for batch in reading.new() for row in batch.to_pylist()]


def gone_on(given: Growing, reading: GrowingReader, *columns: str) -> GrowingReader:
    """Return the reading of another run, which goes on from what this one has saved."""
    placing = Placing("growing")
    reading.go_on(placing)
    reading.stop()
    (snapshot,) = reading.chunks()
    other = reader(given, *columns)
    placing.state = decode_state(encode_state(snapshot.state))
    other.go_on(placing)
    return other


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def test_lines_come_when_they_are_whole(tmp_path: Path) -> None:
    append(log := tmp_path / "a.ndjson", '{"v":1}\n{"v":2')
    reading = reader(growing(log))
    assert rows(reading) == [{"v": 1}]
    append(log, "0}\n")
    assert rows(reading) == [{"v": 20}] and rows(reading) == []


@pytest.mark.parametrize("order", ["name", "time"])
def test_new_files_of_a_folder_are_taken_in_order_and_those_that_are_written_still_are_left(
    tmp_path: Path, order: str
) -> None:
    append(tmp_path / "b.csv", "v\n1\n")
    reading = reader(growing(tmp_path, order=order))
    assert rows(reading) == [{"v": 1}]
    append(tmp_path / "d.csv", "v\n3\n")
    append(tmp_path / "c.csv", "v\n2\n")
    for hidden in (".x.csv", "x.csv.tmp", "x.csv.part"):
        append(tmp_path / hidden, "v\n9\n")
    (tmp_path / "c.csv").touch()
    assert [row["v"] for row in rows(reading)] == sorted([2, 3], reverse=order == "time" and _older(tmp_path))


def _older(folder: Path) -> bool:
    return (folder / "d.csv").stat().st_mtime_ns < (folder / "c.csv").stat().st_mtime_ns


def test_a_file_that_is_renamed_is_read_on_under_a_name_that_nobody_follows(tmp_path: Path) -> None:
    append(log := tmp_path / "a.csv", "v\n1\n")
    reading = reader(growing(log))
    assert rows(reading) == [{"v": 1}]
    append(log, "2\n")
    log.rename(tmp_path / "a.csv.1")
    append(log, "v\n4\n")
    append(tmp_path / "a.csv.1", "3\n")
    assert rows(reading) == [{"v": 2}, {"v": 3}, {"v": 4}]
    assert reading.notes() == ["1 times a file was renamed, and read on"]


def test_a_log_that_is_cut_is_read_from_its_start_also_without_a_header(tmp_path: Path) -> None:
    append(log := tmp_path / "a.csv", "ts,v\n1,1\n2,2\n")
    reading = reader(growing(log))
    assert len(rows(reading)) == 2
    log.write_text("3,3\n")
    assert rows(reading) == [{"ts": 3, "v": 3}]
    log.write_text("ts,v\n4,4\n")
    assert rows(reading) == [{"ts": 4, "v": 4}]
    assert reading.notes() == ["2 times a file was cut or replaced, and read from its start"]


def test_what_was_removed_before_it_was_read_is_counted(tmp_path: Path) -> None:
    append(log := tmp_path / "a.ndjson", '{"v":1}\n{"v":')
    reading = reader(growing(log))
    assert rows(reading) == [{"v": 1}]
    log.unlink()
    assert rows(reading) == []
    assert reading.notes() == [
        "1 files were removed", "5 bytes were in files that were cut or removed before they were read to the end",
    ]  # fmt: skip


def test_files_that_come_and_go_between_two_looks_are_counted(tmp_path: Path) -> None:
    append(log := tmp_path / "a.ndjson", '{"v":1}\n')
    given = growing(log)
    reading = reader(given)
    assert rows(reading) == [{"v": 1}]
    reading = gone_on(given, reading)
    for number in (1, 2):
        log.rename(tmp_path / f"a.ndjson.{number}")
        append(log, f'{{"v":{number}}}\n')
    future = log.stat().st_mtime_ns + 10**9
    os.utime(tmp_path / "a.ndjson.2", ns=(future, future))
    assert rows(reading) == [{"v": 2}]
    assert any('1 files were renamed before they were seen, and not read; follow "' in note for note in reading.notes())


def test_a_packed_copy_of_a_file_that_was_read_is_left_out(tmp_path: Path) -> None:
    text = "".join(f'{{"v":{n}}}\n' for n in range(30))
    append(log := tmp_path / "a.ndjson", text)
    given = growing(tmp_path, kind="ndjson")
    reading = reader(given)
    assert len(rows(reading)) == 30
    log.unlink()
    (tmp_path / "a.ndjson.1.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress(b'{"v":77}\n' * 20))
    assert rows(reading) == []
    assert rows(reading) == [{"v": 77}] * 20
    assert "1 packed files are copies of files that were read, and were left out" in reading.notes()
    assert rows(gone_on(given, reading)) == []


def test_captures_that_are_rotated_give_each_packet_once(tmp_path: Path) -> None:
    write_pcap(packets(300, rate=1000), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    first, header = tmp_path / "c0.pcap", whole[:24]
    wanted = oop.pcap(tmp_path / "whole").project("ts", "length").to_arrow().to_pylist()
    given = growing(tmp_path / "c*.pcap")
    reading, found = reader(given, "ts", "length"), []
    first.write_bytes(b"")
    ends = [0, 10, 24, 300, 5000, 5001, 12_000]
    for begin, end in pairwise(ends):
        with open(first, "ab") as file:
            file.write(whole[begin:end])
        found += rows(reading)
        reading = gone_on(given, reading, "ts", "length")
    with open(first, "ab") as file:
        file.write(whole[12_000 : (cut := _record(whole, 15_000))])
    (tmp_path / "c1.pcap").write_bytes(header + whole[cut:])
    found += rows(reading)
    assert [{**row, "ts": row["ts"]} for row in found] == wanted
    assert reading.notes() == []


def _record(capture: bytes, least: int) -> int:
    """Return where the first record begins behind so many bytes."""
    at = 24
    while at < least:
        at += 16 + int.from_bytes(capture[at + 8 : at + 12], "little")
    return at


def test_templates_of_one_file_are_known_in_the_next(tmp_path: Path) -> None:
    whole = gzip.decompress(EXPORTS.read_bytes())
    wanted = oop.netflow(EXPORTS).aggregate(oop.count(), oop.sum("bytes")).to_arrow().to_pylist()[0]
    cut = _record(whole, len(whole) // 2)
    (tmp_path / "f0.pcap").write_bytes(whole[: cut - 7])
    given = growing(tmp_path, kind="netflow")
    reading = reader(given, "bytes")
    found = rows(reading)
    reading = gone_on(given, reading, "bytes")
    (tmp_path / "f0.pcap").write_bytes(whole[:cut])
    (tmp_path / "f1.pcap").write_bytes(whole[:24] + whole[cut:])
    found += rows(reading)
    assert {"count": len(found), "sum_bytes": sum(row["bytes"] for row in found)} == wanted


def test_parquet_and_arrow_files_are_read_when_they_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "SETTLED", 1000.0)
    pq.write_table(pa.table({"v": [1, 2]}), tmp_path / "p0.parquet")
    data = (tmp_path / "p0.parquet").read_bytes()
    given = growing(tmp_path)
    reading = reader(given)
    assert rows(reading) == [{"v": 1}, {"v": 2}]
    (tmp_path / "p1.parquet").write_bytes(data[:100])
    assert rows(reading) == []
    (tmp_path / "p1.parquet").write_bytes(data)
    assert rows(gone_on(given, reading)) == [{"v": 1}, {"v": 2}]


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
@share(1)
@given(data=st.data())
def test_every_line_comes_once_however_files_are_rotated_and_readings_go_on(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    log, header = folder / f"a.{kind}", "v,w\n" if kind == "csv" else ""
    append(log, header + _line(kind, 0))
    given = growing(folder / f"a.{kind}*")
    reading, found, held, written = reader(given), list[int](), "", 1
    for step in data.draw(st.lists(st.sampled_from(["write", "rotate", "cut", "look", "go on"]), max_size=12)):
        match step:
            case "write":
                count = data.draw(st.integers(1, 4))
                held += "".join(_line(kind, written + i) for i in range(count))
                written += count
                cut = data.draw(st.integers(0, len(held)))
                append(log, held[:cut])
                held = held[cut:]
            case "rotate":
                append(log, held)
                log.rename(folder / f"a.{kind}.{written}-{len(list(folder.iterdir()))}")
                held = ""
                append(log, header)
            case "cut":
                append(log, held)
                found += [row["v"] for row in rows(reading)]
                held = ""
                log.write_text("")
                found += [row["v"] for row in rows(reading)]
            case "look":
                found += [row["v"] for row in rows(reading)]
            case _:
                reading = gone_on(given, reading)
    append(log, held)
    found += [row["v"] for row in rows(reading)]
    assert sorted(found) == list(range(written))


BAD = {
    "csv": ["x,1", "5", "5,6,7", "\udcff,1", '5,6,"x"'],
    "ndjson": ['{"v":"x","w":1}', '{"v":5', '"v":5}', "5", '{"v":5} 7', '{"v":5,', '{"v":5,"w":"\udcff"}'],
}


def mixed(kind: str, parts: Sequence[tuple[bool, int]]) -> tuple[str, list[int], int]:
    """Return lines, good and bad ones, the values of the good ones, and how many are bad."""
    lines, values = list[str](), list[int]()
    for number, (bad, choice) in enumerate(parts, 1):
        bads = BAD[kind]
        lines.append(bads[choice % len(bads)] if bad else _line_of_text(kind, number, choice))
        values += [] if bad else [number]
    return "".join(line + "\n" for line in lines), values, len(lines) - len(values)


def _line_of_text(kind: str, v: int, choice: int) -> str:
    texts = ["a", "", "é", "b c"] if kind == "ndjson" else ["a", '"c ""d"""', '"e, f"', "é"]
    text = texts[choice % len(texts)]
    return f"{v},{text}" if kind == "csv" else json.dumps({"v": v, "w": text}, ensure_ascii=False)


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
@share(1)
@given(data=st.data())
def test_damaged_lines_are_left_out_and_counted_however_they_come_and_readings_go_on(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("logs") / f"a.{kind}"
    parts = data.draw(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=25))
    text, values, bad = mixed(kind, parts)
    held = text.encode("utf-8", "surrogateescape")
    first = _line_of_text(kind, 0, 0) + "\n"
    log.write_bytes((("v,w\n" if kind == "csv" else "") + first).encode())
    given = growing(log, on_error="skip", strict=True)
    reading, found = reader(given), list[object]()
    for step in data.draw(st.lists(st.sampled_from(["write", "look", "go on", "start"]), max_size=12)):
        match step:
            case "write":
                cut = data.draw(st.integers(0, len(held)))
                with open(log, "ab") as file:
                    file.write(held[:cut])
                held = held[cut:]
            case "look":
                found += [row["v"] for row in rows(reading)]
            case "go on":
                reading = gone_on(given, reading)
            case _:
                # Another process finds the columns in lines some of which are damaged.
                given = growing(log, on_error="skip", strict=True)
                reading = gone_on(given, reading)
    with open(log, "ab") as file:
        file.write(held)
    found += [row["v"] for row in rows(reading)]
    assert found == [0, *values]
    told = [note for note in reading.notes() if note.startswith(f"{bad:,} lines and rests of files")]
    assert len(told) == bool(bad) and given.arrow.field("v").type == pa.int64()


def test_a_quote_that_is_never_closed_costs_its_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log := tmp_path / "a.csv", "v,w\n1,a\n")
    given = growing(log, on_error="skip")
    reading = reader(given)
    append(log, '2,"b\n3,c\n')
    assert rows(reading) == [{"v": 1, "w": "a"}]
    # The next quote seems to close it, and what is then there is no line.
    append(log, '4,"d,e"\n5,e"\n6,f\n')
    reading = gone_on(given, reading)
    assert [row["v"] for row in rows(reading)] == [3, 4, 6]
    monkeypatch.setattr(tails, "PIECE", 20)
    append(log, '7,"g\n8,h\n' + "9,i\n" * 5)
    reading = gone_on(given, reading)
    assert [row["v"] for row in rows(reading)] == [8, 9, 9, 9, 9, 9]
    assert reading.notes() == [
        "3 lines and rests of files could not be read, and were left out; windows of their times may lack rows",
        'a.csv: 3 lines could not be read, and were left out; the first is line 3: a " in it is never closed',
    ]


def test_a_whole_file_that_is_damaged_is_left_out_when_nobody_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        pq.write_table(pa.table({"v": [1, 2]}), tmp_path / f"{name}.parquet")
    data = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(data[:4] + b"\xff" * 30 + data[34:])
    given = growing(tmp_path, on_error="skip")
    reading = reader(given)
    assert len(rows(reading)) == 4 and reading.notes() == []
    monkeypatch.setattr(tails, "PATIENCE", -1.0)
    assert rows(reading) == []
    reading = gone_on(given, reading)
    assert rows(reading) == []
    total, damage = reading.notes()
    assert total.startswith("1 lines and rests") and damage.startswith("b.parquet: its rest could not be read")
    pq.write_table(pa.table({"v": [3]}), tmp_path / "b.parquet")
    assert rows(reading) == [{"v": 3}]


def test_a_run_that_follows_goes_on_over_damage(tmp_path: Path) -> None:
    append(log := tmp_path / "a.ndjson", '{"ts":1,"v":1}\n{"ts":2,"v"\n{"ts":12,"v":1}\n')

    def summed(until: int) -> tuple[list[object], list[str]]:
        stream = oop.read(log, follow=True, slack=5, on_error="skip")
        output = stream.window(range=10).aggregate(oop.sum("v")).to(tmp_path / "out.ndjson")
        outcome = oop.run_outputs(
            [output], checkpoint=tmp_path / "job", every="1 hour", watch=lambda c: c.progress(0)[0] >= until
        )
        found = (tmp_path / "out.ndjson").read_text().splitlines()
        return [(json.loads(line)["window_start"], json.loads(line)["sum_v"]) for line in found], outcome.notes

    assert summed(log.stat().st_size)[0] == []
    append(log, '{"ts":13,"v":"-"}\n{"ts":14,"v":1}\n{"ts":40,"v":1}\n')
    found, notes = summed(log.stat().st_size)
    assert found == [(0, 1), (10, 2)]
    assert any("a.ndjson: 2 lines could not be read, and were left out; the first is line 2" in n for n in notes)


@pytest.mark.parametrize("more", [{}, {"on_error": "skip"}, {"time_format": "%d.%m.%Y"}], ids=str)
def test_a_run_that_goes_on_takes_the_columns_of_the_first_file_though_it_is_gone(
    tmp_path: Path, more: dict[str, str]
) -> None:
    def summed(until: int) -> tuple[str, list[dict[str, object]]]:
        stream = oop.read(
            tmp_path / "*.csv", name="M", follow=True, slack=5, checkpoint=tmp_path / "job", format="csv", **more
        )
        output = stream.project("ts", "v", "day").to(tmp_path / "out.ndjson")
        oop.run_outputs(
            [output], checkpoint=tmp_path / "job", every="1 hour", watch=lambda c: c.progress(0)[0] >= until
        )
        found = (tmp_path / "out.ndjson").read_text().splitlines()
        return str(stream.schema.arrow), [json.loads(line) for line in found]

    append(log := tmp_path / "a.csv", "ts,v,w,day\n1,1.5,,01.02.2026\n")
    before, _ = summed(log.stat().st_size)
    # Today's file has whole numbers, and no day.
    log.unlink()
    append(log := tmp_path / "b.csv", "ts,v,w,day\n2,2,7,\n")
    append(other := tmp_path / "c.csv", "ts,v,w,day\n3,3.5,x,03.02.2026\n")
    after, rows = summed(log.stat().st_size + other.stat().st_size)
    assert after == before
    assert [(row["ts"], row["v"], bool(row["day"])) for row in rows] == [
        (1, 1.5, True),
        (2, 2.0, False),
        (3, 3.5, True),
    ]
    # What the user says of types goes before that, and a file of another kind has other columns.
    retyped = oop.read(
        tmp_path / "*.csv", name="M", follow=True, slack=5, checkpoint=tmp_path / "job", types={"v": "text"}
    )
    assert retyped.schema.field("v", where="here").type == pa.string()
    shutil.rmtree(tmp_path / "job")
    anew = oop.read(tmp_path / "*.csv", name="M", follow=True, slack=5, checkpoint=tmp_path / "job")
    assert anew.schema.field("v", where="here").type == pa.int64()


def test_a_job_of_other_files_and_a_damaged_one_tell_no_columns(tmp_path: Path) -> None:
    append(tmp_path / "a.csv", "ts,v\n1,1.5\n")
    with pytest.raises(oop.PlanError, match="add follow=True"):
        oop.read(tmp_path / "a.csv", checkpoint=tmp_path / "job")
    stream = oop.read(tmp_path / "a.csv", follow=True, slack=5)
    oop.run_outputs([stream.to(tmp_path / "out.csv")], checkpoint=tmp_path / "job", watch=lambda control: True)
    (place, *_), kind = (tmp_path / "a.csv",), "csv"
    found = kept_columns(tmp_path / "job", [place], "", kind)
    assert found is not None and found.schema.names == ["ts", "v"]
    assert kept_columns(tmp_path / "job", [tmp_path / "b.csv"], "", kind) is None
    assert kept_columns(tmp_path / "job", [place], "M", kind) is None
    assert kept_columns(tmp_path, [place], "", kind) is None
    (tmp_path / "job" / "CURRENT").write_bytes(b"damaged")
    assert kept_columns(tmp_path / "job", [place], "", kind) is None


def _line(kind: str, v: int) -> str:
    return f'{v},"a\nb"\n' if kind == "csv" else f'{{"v":{v}}}\n'


def test_a_damaged_state_and_a_folder_without_files_are_told(tmp_path: Path) -> None:
    append(tmp_path / "a.ndjson", '{"v":1}\n')
    reading = reader(growing(tmp_path))
    placing = Placing("x")
    placing.state = {"files": "no", "counts": "{}", "gone": "[]"}
    with pytest.raises(CheckpointError, match="the files of the checkpoint cannot be taken up"):
        reading.go_on(placing)
    with pytest.raises(SourceError, match=r"no file has come in 0 s that shows .*\n  Start again"):
        growing(tmp_path / "none-*.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--follow"], "M promises nothing"),
        (["--follow-order", "time", "--slack", "1s"], "add --follow"),
    ],
)
def test_the_command_says_what_following_needs(tmp_path: Path, options: Sequence[str], said: str) -> None:
    append(tmp_path / "a.ndjson", '{"ts":1,"v":1}\n')
    query = "SELECT sum(v) [RANGE 10, WA ts] FROM M"
    done = CliRunner().invoke(commands, ["query", query, "-s", f"M={tmp_path / 'a.ndjson'}", *options])
    assert done.exit_code == 2 and said in done.stderr


def test_a_run_follows_a_folder_until_it_is_stopped(tmp_path: Path) -> None:
    append(tmp_path / "a.ndjson", "".join(json.dumps({"ts": ts, "v": 1}) + "\n" for ts in (1, 5, 12, 40)))
    stream = oop.read(tmp_path / "*.ndjson", follow=True, slack=5)
    windows = stream.window(range=10).aggregate(oop.sum("v"))
    found = list[object]()
    for page in windows:
        found += [(row["window_start"], row["sum_v"]) for row in page.rows()]
        if len(found) == 2:
            append(tmp_path / "b.ndjson", '{"ts":60,"v":1}\n')
        if len(found) == 3:
            break
    assert found == [(0, 2), (10, 1), (40, 1)]


def test_logs_of_zeek_are_read_as_they_are_written_and_files_of_nfdump_when_they_are_complete(tmp_path: Path) -> None:
    header = "#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n"
    append(log := tmp_path / "conn.log", f"{header}1.5\tA\n2.5\t")
    given = growing(log, kind="zeek")
    reading = reader(given, "uid")
    assert rows(reading) == [{"uid": "A"}]
    append(log, "B\n")
    assert rows(gone_on(given, reading, "uid")) == [{"uid": "B"}]
    append(log, "3.5\tC\n#close\t2026\n")
    log.rename(tmp_path / "conn.2026.log")
    append(log, f"{header}4.5\tD\n")
    assert rows(reading) == [{"uid": "B"}, {"uid": "C"}, {"uid": "D"}]


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
@pytest.mark.skipif(not STORED.exists(), reason="the data beside this repository are not there")
def test_files_of_nfdump_are_read_when_they_were_renamed(tmp_path: Path) -> None:
    data = STORED.read_bytes()
    (tmp_path / "nfcapd.202601010000").write_bytes(data)
    given = growing(tmp_path, kind="nfdump")
    reading = reader(given, "bytes")
    first = rows(reading)
    (tmp_path / "nfcapd.current.77").write_bytes(data)
    assert len(first) > 1000 and rows(reading) == []
    reading = gone_on(given, reading, "bytes")
    (tmp_path / "nfcapd.current.77").rename(tmp_path / "nfcapd.202601010005")
    assert rows(reading) == first


def test_what_files_that_grow_cannot_have_is_refused(tmp_path: Path) -> None:
    append(tmp_path / "a.ndjson", '{"v":1}\n')
    for more, said in (
        ({"on_error": "ignore"}, 'write "stop" or "skip"'),
        ({"order": "size"}, 'write "name" or "time"'),
        ({"encoding": "utf-16"}, "is read line by line"),
    ):
        with pytest.raises(oop.PlanError, match=said):
            oop.read(tmp_path / "a.ndjson", follow=True, slack=1, **more)  # pyright: ignore[reportArgumentType]
    with pytest.raises(oop.PlanError, match="standard input and open streams are read on as they are"):
        oop.read("-", follow=True, format="ndjson", slack=1)
