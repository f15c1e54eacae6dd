"""A file in blocks, mapped or read, is the file: wherever a block ends, however little a read gives, if it is left."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oop_engine.sources.capture import Capture
from oop_engine.sources.capture import mapping as mappings
from oop_engine.sources.capture import supply as supplies
from oop_engine.sources.capture.mapping import Mapping
from oop_engine.sources.capture.splits import Parted, PartedDamage, parts
from oop_engine.sources.capture.supply import Stored
from oop_engine.sources.flows.captured import CapturedDatagrams
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


@pytest.fixture(params=["mapped", "read"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have files of any size mapped where they can be, or none."""
    monkeypatch.setattr(supplies, "_MAPPED", 0 if request.param == "mapped" else 2**62)
    return str(request.param)


def blocks_of(size: int, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(supplies, "_BLOCK", size)
    patch.setattr(supplies, "_SPAN", size)


def leased(path: Path) -> bool:
    """Tell whether there is a lease on a file: whoever opens it for writing and does not wait is sent away."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        return True
    return False


@pytest.fixture
def mapping(path: Path) -> Iterator[Mapping]:
    with path.open("rb", buffering=0) as file:
        made = Mapping.of(file, len(WHOLE))
        if made is None or made.hold(0, 10) is None:
            pytest.skip("files here can't be leased, or it can't be told whether they lie in the page cache")
        made.free()
        yield made
        made.free()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.pcap"
    path.write_bytes(WHOLE)
    return path


def read(capture: Capture) -> tuple[Any, ...]:
    batches: Iterable[pa.RecordBatch] = capture.batches()
    table = pa.Table.from_batches(batches, schema=capture.schema).combine_chunks()
    return table, [note.removeprefix(capture.name) for note in capture.notes], capture.counts


@pytest.mark.usefixtures("way")
def test_a_block_may_end_at_every_byte_of_a_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(Capture(path))
    assert len(expected[0]) == 300
    for block in range(1, 180):
        blocks_of(block, monkeypatch)
        assert read(Capture(path)) == expected


@given(st.integers(1, 600), st.integers(24, len(WHOLE)), st.integers(1, 700))
@settings(deadline=None, max_examples=60)
def test_short_reads_of_whole_and_cut_files_leave_nothing_out(
    tmp_path_factory: pytest.TempPathFactory, block: int, size: int, most: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.pcap"
    path.write_bytes(WHOLE[:size])
    expected = read(Capture(path))
    assert expected[:2] == read(Capture(io.BytesIO(WHOLE[:size])))[:2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supplies, "_BLOCK", block)
        assert read(Capture(opened(path, lambda _, asked: min(asked, most)))) == expected


@given(
    st.binary(max_size=4000),
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(0, 900), st.booleans(), st.booleans())),
)
@settings(deadline=None)
def test_bytes_are_those_of_the_file_whatever_is_left_or_passed_over_mapped_or_read(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int, steps: list[tuple[int, bool, bool]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch, io.FileIO(path) as file:
        blocks_of(block, patch)
        patch.setattr(supplies, "_PAGE", 64)
        patch.setattr(supplies, "_MAPPED", 0)
        supply = Stored.mapped(file, len(content))
        assert supply.fault is None
        place, end, there = 0, 0, True
        while there:
            step, refused, rests = steps.pop() if steps else (1, False, False)
            before, place = end, min(place + step, len(content))
            with pytest.MonkeyPatch.context() as refusing:
                if refused:
                    refusing.setattr(Mapping, "hold", lambda *_: None)
                there = supply.more(place - supply.base)
            end = supply.base + supply.end
            assert supply.base == place and there == (end > max(place, before))
            assert supply.data[: supply.end].tobytes() == content[place:end]
            if rests:
                supply.rest(0)
                end = supply.base + supply.end
        assert end == len(content) and supply.fault is None
        supply.rest(0)


def test_an_error_shows_where_its_block_is_needed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def worn(place: int, size: int) -> int:
        if place + size > 9_000:
            raise OSError(errno.EIO, "the disk is worn")
        return size

    monkeypatch.setattr(supplies, "_BLOCK", 1000)
    source = opened(path, worn)
    capture = Capture(source, batch_rows=5)
    found: list[int] = []
    with pytest.raises(OSError, match="the disk is worn"):
        found.extend(map(len, capture.batches()))
    assert all(size == 5 for size in found) and 5 * len(found) <= capture.counts["packets"] < 5 * len(found) + 5
    assert len(found) > 10 and all(file.closed for file in source.files)


def test_who_stops_reading_leaves_no_open_file(path: Path) -> None:
    for closed in (True, False):
        source = opened(path)
        batches: Any = Capture(source, batch_rows=50).batches()
        assert len(next(batches)) == 50
        assert not any(file.closed for file in source.files)
        if closed:
            batches.close()
        else:
            del batches
        assert all(file.closed for file in source.files)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("read", [Capture.batches, Capture.times])
def test_a_file_that_is_cut_while_it_is_read_ends_there(
    path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Capture], Iterator[Any]]
) -> None:
    blocks_of(1000, monkeypatch)
    capture = Capture(path, batch_rows=5)
    batches = read(capture)
    rows = len(next(batches))
    assert not leased(path)
    with path.open("r+b") as file:
        file.truncate(5000)
    rows += sum(map(len, batches))
    assert 0 < rows == capture.counts["packets"] < 300
    assert capture.notes[0].startswith(f"{path}: truncated at byte 5000: the file was cut there while it was read")


@pytest.mark.usefixtures("mapping")
def test_a_file_that_is_cut_before_what_was_read_ends_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supplies, "_MAPPED", 0)
    capture = Capture(path, batch_rows=100)
    batches = capture.batches()
    next(batches)
    with path.open("r+b") as file:
        file.truncate(1000)
    assert sum(map(len, batches)) + 100 == capture.counts["packets"] < 300
    assert "the file was cut there while it was read" in capture.notes[0]


def test_nobody_cuts_a_file_while_it_is_looked_at(path: Path, mapping: Mapping) -> None:
    held = mapping.hold(24, 5000)
    assert held is not None and held.tobytes() == WHOLE[24:5000]
    assert leased(path)
    again = mapping.hold(5000, 6000)
    assert again is not None and again.tobytes() == WHOLE[5000:6000]
    mapping.free()
    assert not leased(path)


def test_a_file_that_is_written_or_was_cut_is_read(path: Path, mapping: Mapping) -> None:
    with path.open("ab"):
        assert mapping.hold(0, 5000) is None
    assert mapping.hold(0, 5000) is not None
    mapping.free()
    with path.open("r+b") as file:
        file.truncate(4999)
    assert mapping.hold(0, 5000) is None and not leased(path)
    assert mapping.hold(0, 4999) is not None


def test_a_file_that_is_not_in_the_page_cache_is_read(
    path: Path, mapping: Mapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []

    def cached(_: int, low: int, high: int) -> bool:
        found.append((low, high))
        return high <= 6000

    monkeypatch.setattr(mappings, "_cached", cached)
    assert mapping.hold(1000, 5000) is not None
    assert mapping.hold(2000, 6000) is not None
    assert mapping.hold(3000, 6001) is None and not leased(path)
    assert mapping.hold(3000, 4000) is not None
    assert found == [(1000, 5000), (5000, 6000), (6000, 6001)]


def test_what_was_dropped_from_the_page_cache_is_told(path: Path, mapping: Mapping) -> None:
    with path.open("rb") as file:
        assert mappings._cached(file.fileno(), 5, len(WHOLE) - 3)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        dropped = not mappings._cached(file.fileno(), 5, len(WHOLE) - 3)
        assert dropped == (mapping.hold(5, len(WHOLE) - 3) is None)
        file.read()
        assert mappings._cached(file.fileno(), 5, len(WHOLE) - 3)


def test_no_lease_is_left_between_batches_behind_them_or_by_an_error(
    path: Path, mapping: Mapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supplies, "_MAPPED", 0)
    looked: list[bool] = []
    hold = Mapping.hold

    def holding(self: Mapping, low: int, high: int) -> Any:
        found = hold(self, low, high)
        looked.append(found is not None and leased(path))
        return found

    monkeypatch.setattr(Mapping, "hold", holding)
    for _ in Capture(path, batch_rows=50).batches():
        assert not leased(path)
    assert not leased(path)
    file = Parted.open(path)
    for part in parts(path, len(WHOLE) // 3):
        for _ in file.batches(part, batch_rows=20):
            assert not leased(path)
        assert not leased(path)
    assert len(looked) > 10 and all(looked)
    damaged = path.with_suffix(".damaged")
    damaged.write_bytes(WHOLE[:5000] + b"\xff" * 400 + WHOLE[5400:])
    first = parts(damaged, len(WHOLE) // 3)[0]
    with pytest.raises(PartedDamage) as kept:
        list(Parted.open(damaged).batches(first, batch_rows=10_000))
    assert kept and not leased(damaged)


def test_a_file_may_be_cut_while_exports_are_found_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "exports.pcap"
    path.write_bytes(pcap([(SECOND + k, ether(ipv4(udp(b"z" * 80), 17))) for k in range(300)]))
    monkeypatch.setattr(supplies, "_BLOCK", 1000)
    found = CapturedDatagrams(Capture(path), frozenset({5353}))
    blocks = found.blocks()
    first = next(blocks)
    with path.open("r+b") as file:
        file.truncate(10_000)
    assert all(bytes(first.data[at : at + 80]) == b"z" * 80 for at in first.offset) and len(first.offset)
    datagrams = len(first.offset) + sum(len(block.offset) for block in blocks)
    assert 0 < datagrams < 300
    assert found.capture.notes[0].startswith(f"{path}: truncated at byte 10000: ")


def test_records_larger_than_a_block_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([(SECOND + k, rng.bytes(int(size))) for k, size in enumerate(rng.integers(0, 60_000, 12))]))
    expected = read(Capture(io.BytesIO(path.read_bytes())))[:2]
    for block in (997, 4000, 70_000):
        monkeypatch.setattr(supplies, "_BLOCK", block)
        assert read(Capture(path))[:2] == expected
