"""Queries on one folder share its journal, and each reads its own files once; files may go when they were read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, ReadMaxRows

from oop_engine.sources.errors import SourceError
from oop_engine.spark.growing import GrowingReader
from oop_engine.spark.journal import NAME
from oop_engine.spark.pipeline import Pipeline
from oop_engine.spark.sources import FlowSource, PacketSource
from tests.capture_files import FRAMES, WHOLE, pcap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = ReadAllAvailable()
START = {"file": 0, "byte": 0}
Place = dict[str, int]


def capture(first: int, count: int) -> bytes:
    return pcap([((first + k) * 1000, FRAMES[k % len(FRAMES)]) for k in range(count)])


def packets(path: Path, **options: object) -> GrowingReader:
    given = {"path": str(path), "columns": "ts_ns", "__is_streaming__": "true"}
    source = PacketSource({**given, **{key: str(value) for key, value in options.items()}})
    return source.streamReader(source.schema())


def exports(path: Path, **options: object) -> GrowingReader:
    given = {"path": str(path), "__is_streaming__": "true"}
    source = FlowSource({**given, **{key: str(value) for key, value in options.items()}})
    return source.streamReader(source.schema())


def read(reader: GrowingReader, start: Place, end: Place) -> list[int]:
    return [
        ns // 1000
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for ns in batch.column(0).to_pylist()
    ]


def drained(reader: GrowingReader, start: Place = START, limit: ReadLimit = EVERY) -> tuple[list[int], Place]:
    found: list[int] = []
    for _ in range(50):
        end = reader.latestOffset(start, limit)
        if end == start:
            return found, end
        found += read(reader, start, end)
        start = end
    raise AssertionError("there is always something new")


def files(reader: GrowingReader) -> list[str]:
    """Drain a reader; give the files that it would read, one name a piece."""
    found: list[str] = []
    start: Place = START
    while (end := reader.latestOffset(start, ReadMaxFiles(1))) != start:
        found += [piece.path.name for part in reader.partitions(start, end) for piece in part.value]
        start = end
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """East has the packets from 0 on, west those from 100 on, north those from 200 on."""
    place = tmp_path / "captures"
    (place / "deep").mkdir(parents=True)
    for age, (name, data) in enumerate(
        [
            ("east.pcap", capture(0, 5)),
            ("west.pcap", capture(100, 7)),
            ("east.pcapng", WHOLE["pcapng"]),
            ("deep/north.pcap", capture(200, 3)),
        ]
    ):
        (place / name).write_bytes(data)
        os.utime(place / name, (100 + age, 100 + age))
    return place


EAST, WEST, NORTH = list(range(5)), list(range(100, 107)), [200, 201, 202]


@pytest.mark.parametrize("limit", [EVERY, ReadMaxFiles(1), ReadMaxRows(2)])
def test_each_query_on_a_folder_reads_the_files_that_it_names(folder: Path, limit: ReadLimit) -> None:
    assert drained(packets(folder / "east*.pcap"), limit=limit)[0] == EAST
    assert drained(packets(folder / "west*.pcap"), limit=limit)[0] == WEST
    assert drained(packets(folder, **{"except": "east*"}), limit=limit)[0] == WEST + NORTH
    assert drained(packets(folder, only="north*"), limit=limit)[0] == NORTH
    assert drained(packets(folder / "*.pcap"), limit=limit)[0] == EAST + WEST
    found = drained(packets(folder, only="*.pcap"), limit=limit)[0]
    assert found == EAST + WEST + NORTH


def test_a_query_does_not_go_on_with_files_of_others(folder: Path) -> None:
    reader = packets(folder / "east*.pcap", complete=True)
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(START, EVERY)
    assert end["end"] == 1
    drained(packets(folder))
    assert reader.latestOffset(end, EVERY) == end
    again = packets(folder / "east*.pcap", complete=True)
    again.prepareForTriggerAvailableNow()
    assert again.latestOffset(end, EVERY) == end


def test_a_capture_that_grows_while_others_read_theirs_is_read_once(folder: Path) -> None:
    east, west = packets(folder / "east*.pcap"), packets(folder / "west*.pcap")
    (seen, at), (other, there) = drained(east), drained(west)
    for k in (5, 8):
        with (folder / "east.pcap").open("ab") as file:
            file.write(capture(k, 3)[24:])
        with (folder / "west.pcap").open("ab") as file:
            file.write(capture(102 + k, 3)[24:])
        (more, at), (further, there) = drained(east, at), drained(west, there)
        seen, other = seen + more, other + further
    assert seen == list(range(11))
    assert other == list(range(100, 113))


def test_what_ends_now_does_not_end_a_capture_for_who_reads_on(folder: Path) -> None:
    (folder / "west.pcap").unlink()
    now = packets(folder / "*.pcap")
    now.prepareForTriggerAvailableNow()
    with (folder / "east.pcap").open("ab") as file:
        file.write(capture(5, 5)[24:])
    found, at = drained(packets(folder / "*.pcap"))
    (folder / "west.pcap").write_bytes(capture(100, 7))
    reader = packets(folder / "*.pcap")
    reader.latestOffset(at, ReadMaxRows(1))
    assert drained(now)[0] == EAST
    assert found + drained(reader, at)[0] == [*range(10), *WEST]


def test_a_format_of_whole_files_reads_what_was_numbered_in_stretches_once(folder: Path) -> None:
    reader = packets(folder, only="*.pcap")
    start: Place = START
    for k in (5, 7):  # three stretches of east.pcap in the journal
        _, start = drained(reader, start)
        with (folder / "east.pcap").open("ab") as file:
            file.write(capture(k, 2)[24:])
    drained(reader, start)
    lines = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    assert [line["name"] for line in lines if "name" in line].count("east.pcap") > 1
    assert sorted(files(exports(folder))) == ["east.pcap", "east.pcapng", "north.pcap", "west.pcap"]
    assert files(exports(folder, only="e*.pcap")) == ["east.pcap"]
    # A checkpoint of times when its first stretch was planned in parts, with the file read already.
    assert exports(folder, only="east.pcap").latestOffset({"file": 0, "byte": 60}, EVERY) == {"file": 0, "byte": 60}


def test_a_whole_file_that_grows_after_it_was_read_is_an_error_though_another_query_numbered_it(folder: Path) -> None:
    drained(packets(folder))
    reader = exports(folder, only="west*")
    end = reader.latestOffset(START, EVERY)
    with (folder / "west.pcap").open("ab") as file:
        file.write(capture(107, 1)[24:])
    with pytest.raises(SourceError, match="settleSeconds=60"):
        exports(folder, only="west*").latestOffset(end, EVERY)


def test_a_file_that_another_query_numbered_rests_before_it_is_read_as_a_whole(folder: Path) -> None:
    drained(packets(folder, only="*.pcap"))
    (folder / "west.pcap").touch()
    reader = exports(folder, only="west.pcap", settleSeconds=3600)
    assert files(reader) == []
    os.utime(folder / "west.pcap", (1, 1))
    assert files(reader) == ["west.pcap"]


def noted(notes: Path) -> list[str]:
    return [line for path in sorted(notes.glob("*.json")) for line in json.loads(path.read_text())["notes"]]


@pytest.mark.parametrize("restart", [False, True])
def test_captures_that_were_read_may_be_deleted(folder: Path, tmp_path: Path, restart: bool) -> None:
    notes = tmp_path / "notes"

    def opened() -> GrowingReader:
        return packets(folder, notes=notes, only="*.pcap")

    reader = opened()
    found, at = drained(reader)
    assert found == EAST + WEST + NORTH
    for path in folder.rglob("*.pcap"):
        path.unlink()
    reader = opened() if restart else reader
    assert drained(reader, at) == ([], at)
    now = opened()
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(at, EVERY) == at
    (folder / "new.pcap").write_bytes(capture(300, 2))
    reader = opened() if restart else reader
    assert drained(reader, at)[0] == [300, 301]
    assert noted(notes) == []


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("limit", "byte"), [(ReadMaxRows(2), None), (ReadMaxFiles(1), 24)])
def test_a_capture_that_goes_before_it_was_read_to_its_end_is_noted_once(
    folder: Path, tmp_path: Path, limit: ReadLimit, byte: int | None, restart: bool
) -> None:
    notes = tmp_path / "notes"

    def opened() -> GrowingReader:
        return packets(folder, notes=notes, only="*st.pcap")

    reader = opened()
    at = reader.latestOffset(START, limit)
    found = read(reader, START, at)
    gone = folder / ("east.pcap" if byte is None else "west.pcap")
    gone.unlink()
    for _ in range(2):
        reader = opened() if restart else reader
        rest, at = drained(reader, at)
        found += rest
    (folder / "last.pcap").write_bytes(capture(300, 1))
    found += drained(opened(), at)[0]
    assert found == ([0, 1, *WEST, 300] if byte is None else [*EAST, 300])
    (line,) = noted(notes)
    assert str(gone) in line
    assert f"byte {at['byte'] if byte is None and not at['file'] else byte or ''}" in line


def test_a_capture_that_goes_between_planning_and_reading_is_noted(folder: Path, tmp_path: Path) -> None:
    reader = packets(folder, notes=tmp_path / "notes", only="*.pcap,*.pcapng")
    end = reader.latestOffset(START, EVERY)
    (folder / "west.pcap").unlink()
    (folder / "deep" / "north.pcap").unlink()
    parts = reader.partitions(START, end)
    found = [ns for part in parts for batch in reader.read(part) for ns in batch.column(0).to_pylist()]
    assert len(found) == 5 + len(FRAMES)
    assert sorted(Path(line.partition(":")[0]).name for line in noted(tmp_path / "notes")) == [
        "north.pcap",
        "west.pcap",
    ]


@pytest.mark.parametrize("name", ["east.pcap", "east.pcapng"])
@pytest.mark.parametrize("kind", [packets, exports])
def test_a_file_that_a_worker_cannot_open_fails_the_batch_and_is_read_when_it_can(
    folder: Path, tmp_path: Path, kind: Callable[..., GrowingReader], name: str
) -> None:
    """A worker that does not see a file of the driver cannot know whether it is gone."""
    reader = kind(folder, notes=tmp_path / "notes", only=name)
    end = reader.latestOffset(START, EVERY)
    parts = reader.partitions(START, end)
    worker = cloudpickle.loads(cloudpickle.dumps(reader))
    (folder / name).rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=rf'cannot open ".*/{name}": No such file or directory') as caught:
        for part in parts:
            list(worker.read(part))
    assert f'Make the folder "{folder}" visible to every worker' in str(caught.value)
    assert noted(tmp_path / "notes") == []
    (tmp_path / "elsewhere").rename(folder / name)
    again = kind(folder, notes=tmp_path / "notes", only=name)
    pieces = [piece.path.name for part in again.partitions(START, end) for piece in part.value]
    assert pieces == [name]
    assert noted(tmp_path / "notes") == []


def test_a_first_batch_that_failed_and_whose_file_is_deleted_is_noted_by_the_driver(
    folder: Path, tmp_path: Path
) -> None:
    end = packets(folder, only="*.pcap").latestOffset(START, EVERY)
    (folder / "west.pcap").unlink()
    again = packets(folder, notes=tmp_path / "notes", only="*.pcap")
    assert read(again, START, end) == EAST + NORTH
    (line,) = noted(tmp_path / "notes")
    assert str(folder / "west.pcap") in line


def test_without_a_folder_of_notes_files_that_are_gone_are_told_on_stderr(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = packets(folder, only="*.pcap")
    end = reader.latestOffset(START, ReadMaxRows(2))
    assert capsys.readouterr().err == ""
    for path in folder.glob("*.pcap"):
        path.unlink()
    assert read(reader, end, drained(reader, end)[1]) == NORTH
    (line,) = capsys.readouterr().err.splitlines()
    east, west = folder / "east.pcap", folder / "west.pcap"
    assert line.startswith("warning: 2 files are gone, and not read to the end: ")
    assert f"{east} (read up to byte {end['byte']}), {west} (read up to byte 24)" in line


def test_a_file_that_a_worker_cannot_open_fails_a_query_that_does_not_stream(folder: Path) -> None:
    source = PacketSource({"path": str(folder / "*.pcap"), "columns": "ts_ns"})
    reader = source.reader(source.schema())
    parts = reader.partitions()
    (folder / "west.pcap").unlink()
    with pytest.raises(SourceError, match=r"cannot open .*west.pcap.*The driver saw this file"):
        for part in parts:
            list(reader.read(part))


def test_what_went_before_a_query_began_is_none_of_its_files(folder: Path, tmp_path: Path) -> None:
    drained(packets(folder))
    (folder / "east.pcap").unlink()
    found, _ = drained(packets(folder, notes=tmp_path / "notes", only="*.pcap"))
    assert found == WEST + NORTH
    assert noted(tmp_path / "notes") == []


def test_a_journal_of_an_earlier_version_is_read_on(folder: Path) -> None:
    lines = [
        {"file": 0, "name": "east.pcap", "low": 24, "high": None, "whole": False},
        {"file": 0, "high": (folder / "east.pcap").stat().st_size, "final": False},
        {"file": 1, "name": "west.pcap", "low": 24, "high": None, "whole": False},
    ]
    (folder / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert drained(packets(folder, only="*.pcap"), {"file": 1, "byte": 0})[0] == WEST + NORTH
    (folder / "west.pcap").unlink()
    assert drained(packets(folder, only="*.pcap"), {"file": 2, "byte": 0})[0] == NORTH


def test_a_pipeline_whose_captures_were_all_archived_has_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "tables" / ".work").mkdir(parents=True)
    Pipeline(tmp_path / "captures", tmp_path / "tables").check()
    shutil.rmtree(tmp_path / "tables")
    with pytest.raises(SourceError, match="holds no captures"):
        Pipeline(tmp_path / "captures", tmp_path / "tables").check()


def test_a_pipeline_goes_on_when_captures_were_archived(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(folder, tmp_path / "tables")
    assert pipeline.run(spark).packets == 5 + 7 + 3 + len(FRAMES)
    for path in (folder / "west.pcap", folder / "east.pcapng", folder / "deep" / "north.pcap"):
        path.unlink()
    assert pipeline.run(spark).packets == 0
    (folder / "east.pcap").unlink()
    assert pipeline.run(spark).packets == 0
    (folder / "new.pcap").write_bytes(capture(300, 2))
    last = pipeline.run(spark)
    assert (last.packets, last.notes) == (2, ())
