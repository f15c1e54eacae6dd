"""A file read in blocks is the file, by a thread that reads ahead or without, wherever a block or the reading ends."""

from __future__ import annotations

import errno
import gc
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.capture import Capture, ahead
from oop_engine.sources.capture import supply as supplies
from oop_engine.sources.capture.ahead import Ahead
from oop_engine.sources.capture.supply import Stored
from tests.capture_files import SECOND, ether, ipv4, pcap, tcp, udp

PACKETS = [
    (SECOND + k, ether(ipv4(tcp(b"x" * (k % 7)), 6)) if k % 5 else ether(ipv4(udp(b"y" * 90), 17)) + bytes(k % 11))
    for k in range(300)
]
WHOLE = pcap(PACKETS)
Given = Callable[[int, int], int]
"""How many bytes a read gives, of so many from a place on."""


class Giving(io.FileIO):
    """A file whose reads give what they are told to."""

    gives: Given

    def readinto(self, buffer: Any, /) -> int:
        return super().readinto(memoryview(buffer)[: self.gives(self.tell(), len(buffer))])

    def read_at(self, room: memoryview, place: int) -> int:
        return os.preadv(self.fileno(), [room[: self.gives(place, len(room))]], place)


class Opened(type(Path())):
    """A path that opens files whose reads give what they are told to, and keeps them."""

    gives: Given
    files: list[Giving]

    def open(self, *_: Any, **__: Any) -> Any:
        file = Giving(str(self), "rb")
        file.gives = self.gives
        self.files.append(file)
        return file


def opened(path: Path, gives: Given = lambda _, size: size) -> Opened:
    made = Opened(path)
    made.gives, made.files = gives, []
    return made


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read files as they tell, and leave no thread."""
    read_at = ahead.read_at

    def told(file: Any, room: memoryview, place: int) -> int:
        return file.read_at(room, place) if isinstance(file, Giving) else read_at(file, room, place)

    monkeypatch.setattr(ahead, "read_at", told)
    yield
    assert not readers()


@pytest.fixture(params=[False, True], ids=["as asked", "ahead"])
def threaded(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.pcap"
    path.write_bytes(WHOLE)
    return path


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "capture read-ahead"]


def in_blocks(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(supplies, "BLOCK", size)
    patch.setattr(ahead, "BLOCK", size)


def read(capture: Capture) -> tuple[Any, ...]:
    batches: Iterable[pa.RecordBatch] = capture.batches()
    table = pa.Table.from_batches(batches, schema=capture.schema).combine_chunks()
    return table, [note.removeprefix(capture.name) for note in capture.notes], capture.counts


def test_a_block_may_end_at_every_byte_of_a_record(path: Path, threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(Capture(path))
    assert len(expected[0]) == 300
    for block in range(1, 180):
        in_blocks(monkeypatch, block)
        assert read(Capture(path, read_ahead=threaded)) == expected


@given(st.integers(1, 600), st.integers(24, len(WHOLE)), st.integers(1, 700), st.booleans())
@settings(deadline=None, max_examples=60)
def test_short_reads_of_whole_and_cut_files_leave_nothing_out(
    tmp_path_factory: pytest.TempPathFactory, block: int, size: int, most: int, threaded: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.pcap"
    path.write_bytes(WHOLE[:size])
    expected = read(Capture(path))
    assert expected[:2] == read(Capture(io.BytesIO(WHOLE[:size])))[:2]
    with pytest.MonkeyPatch.context() as patch:
        in_blocks(patch, block)
        source = opened(path, lambda _, asked: min(asked, most))
        assert read(Capture(source, read_ahead=threaded)) == expected


@given(st.binary(max_size=4000), st.integers(1, 300), st.lists(st.integers(0, 900), max_size=20), st.booleans())
@settings(deadline=None)
def test_bytes_are_those_of_the_file_whatever_is_left_or_passed_over(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int, steps: list[int], threaded: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch, io.FileIO(path) as file:
        in_blocks(patch, block)
        patch.setattr(supplies, "PAGE", 64)
        patch.setattr(ahead, "PAGE", 64)
        patch.setattr(ahead, "_FRONT", 128)
        supply = Ahead(file, len(content)) if threaded else Stored(file, len(content))
        place, end, there = 0, 0, True
        while there:
            before, place = end, min(place + (steps.pop() if steps else 1), len(content))
            there = supply.more(place - supply.base)
            end = supply.base + supply.end
            assert supply.base == place and there == (end > max(place, before))
            assert supply.data[: supply.end].tobytes() == content[place:end]
            assert (supply.data.ctypes.data - place) % 64 == 0
        assert end == len(content)
        if isinstance(supply, Ahead):
            supply.close()


def test_an_error_shows_where_its_block_is_needed(path: Path, threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def worn(place: int, size: int) -> int:
        if place + size > 9_000:
            raise OSError(errno.EIO, "the disk is worn")
        return size

    in_blocks(monkeypatch, 1000)
    source = opened(path, worn)
    capture = Capture(source, batch_rows=5, read_ahead=threaded)
    found: list[int] = []
    with pytest.raises(OSError, match=r"^\[Errno 5\] the disk is worn$"):
        found.extend(map(len, capture.batches()))
    whole = [k for k in range(len(PACKETS)) if len(pcap(PACKETS[: k + 1])) <= 9_000]
    assert capture.counts["packets"] == len(whole) and found == [5] * (len(whole) // 5)
    assert capture.position == capture.counts["bytes"] <= 9_000
    assert all(file.closed for file in source.files) and not readers()


def test_what_was_read_before_an_error_in_a_block_is_given(path: Path, threaded: bool) -> None:
    def worn(place: int, size: int) -> int:
        if place >= 9_000:
            raise OSError(errno.EIO, "the disk is worn")
        return min(size, 9_000 - place)

    capture = Capture(opened(path, worn), batch_rows=1, read_ahead=threaded)
    found: list[int] = []
    with pytest.raises(OSError, match="the disk is worn"):
        found.extend(map(len, capture.batches()))
    assert len(found) == capture.counts["packets"] == sum(len(pcap(PACKETS[: k + 1])) <= 9_000 for k in range(300))


@pytest.mark.parametrize("how", ["closed", "forgotten", "in a cycle", "failed"])
def test_who_stops_reading_leaves_no_open_file_and_no_thread(
    path: Path, how: str, threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks(monkeypatch, 1000)
    source = opened(path)
    batches: Any = Capture(source, batch_rows=50, read_ahead=threaded).batches()
    assert len(next(batches)) == 50
    assert not any(file.closed for file in source.files) and len(readers()) == threaded
    if how == "closed":
        batches.close()
    elif how == "failed":
        with pytest.raises(KeyboardInterrupt):
            batches.throw(KeyboardInterrupt())
    elif how == "in a cycle":
        cycle: list[Any] = [batches]
        cycle.append(cycle)
        del cycle, batches
        gc.collect()
    else:
        del batches
    assert all(file.closed for file in source.files) and not readers()


def test_a_file_that_is_cut_while_it_is_read_ends_there(
    path: Path, threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks(monkeypatch, 1000)
    capture = Capture(path, batch_rows=5, read_ahead=threaded)
    batches = capture.batches()
    rows = len(next(batches))
    with path.open("r+b") as file:
        file.truncate(5000)
    rows += sum(map(len, batches))
    assert 0 < rows == capture.counts["packets"] < 300
    assert capture.notes[0].startswith(f"{path}: truncated at byte 5000: ")


def test_records_larger_than_a_block_are_read(tmp_path: Path, threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([(SECOND + k, rng.bytes(int(size))) for k, size in enumerate(rng.integers(0, 60_000, 12))]))
    expected = read(Capture(io.BytesIO(path.read_bytes())))[:2]
    monkeypatch.setattr(ahead, "_FRONT", 5000)
    for block in (997, 4000, 70_000):
        in_blocks(monkeypatch, block)
        assert read(Capture(path, read_ahead=threaded))[:2] == expected


def test_a_thread_reads_large_files_ahead_where_there_are_processors(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(**options: Any) -> int:
        batches: Any = Capture(path, batch_rows=1, **options).batches()
        next(batches)
        found = len(readers())
        batches.close()
        return found

    monkeypatch.setattr(ahead, "processors", lambda: 2)
    assert (begun(), begun(read_ahead=True), begun(read_ahead=False)) == (0, 1, 0)
    monkeypatch.setattr(ahead, "_LEAST", len(WHOLE))
    assert (begun(), begun(read_ahead=True), begun(read_ahead=False)) == (1, 1, 0)
    monkeypatch.setattr(ahead, "_LEAST", len(WHOLE) + 1)
    assert begun() == 0
    monkeypatch.setattr(ahead, "_LEAST", 1)
    monkeypatch.setattr(ahead, "processors", lambda: 1)
    assert (begun(), begun(read_ahead=True), begun(read_ahead=False)) == (0, 1, 0)


def test_bytes_are_read_without_a_thread_that_finds_no_processor_or_cannot_begin(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(Capture(path))
    in_blocks(monkeypatch, 1000)
    with monkeypatch.context() as patch:
        patch.setattr(ahead.Ahead, "_work", lambda _: None)
        assert read(Capture(path, read_ahead=True)) == expected

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert read(Capture(path, read_ahead=True)) == expected


def test_a_thread_that_takes_the_processor_of_the_reader_is_left_out_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def called(displaced: list[tuple[int, int]], calls: int) -> int:
        seen = iter(displaced)
        monkeypatch.setattr(ahead, "displaced", lambda: next(seen))
        queue: SimpleQueue[bool] = SimpleQueue()
        helper = ahead.Helper(queue, threading.Thread())
        for _ in range(calls):
            helper.call()
        return queue.qsize()

    assert called([(1, 0), (1, 3), (1, 6)], 16) == 16
    assert called([(1, 0), (2, 9), (3, 90)], 16) == 16  # others, who were displaced before
    assert called([(1, 0), (1, 4)], 7 + 64) == 7
    assert called([(1, 0), (1, 4), (1, 4), (1, 5)], 7 + 64 + 16) == 7 + 16


def test_a_stream_reads_ahead_as_it_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    begin = ahead.Helper.begin
    monkeypatch.setattr(ahead.Helper, "begin", lambda work: (began.append(work), begin(work))[1])
    counts = [
        oop.pcap(path, read_ahead=read_ahead).window(range="1 h").aggregate(oop.count()).to_arrow()
        for read_ahead in (None, False, True)
    ]
    assert counts[0] == counts[1] == counts[2] and len(began) == 1


FORKED = """
import os, sys
from oop_engine.sources.capture import Capture, ahead
ahead.BLOCK = 1000
batches = Capture(sys.argv[1], batch_rows=50, read_ahead=True).batches()
rows = len(next(batches))
child = os.fork()
rows += sum(map(len, batches))
if not child:
    os._exit(0 if rows == 300 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and rows == 300, rows
"""
LEFT = """
import sys
from oop_engine.sources.capture import Capture
batches = Capture(sys.argv[1], batch_rows=1, read_ahead=True).batches()
next(batches)
"""


@pytest.mark.parametrize("script", [FORKED, LEFT], ids=["forked", "left"])
def test_a_process_reads_on_behind_a_fork_and_ends_while_it_reads(path: Path, script: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", script, str(path)]
    subprocess.run(command, check=True, timeout=100)
