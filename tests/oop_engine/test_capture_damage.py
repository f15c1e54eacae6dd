"""Cut, damaged, compressed and dripping captures give the packets before the damage, and say where that is."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.capture import Capture, DecodeError
from tests.capture_files import (
    FRAMES,
    RECORDS,
    WHOLE,
    block,
    enhanced,
    ether,
    interface,
    ipv4,
    noise,
    pcap,
    rows,
    rows_of,
    section,
    udp,
    zstd,
)
from tests.examples import share


@pytest.mark.parametrize("kind", WHOLE)
def test_a_cut_anywhere_gives_the_whole_packets_before_it_and_a_note(kind: str, tmp_path: Path) -> None:
    whole = rows(WHOLE[kind])
    for size in range(4, len(WHOLE[kind])):
        path = tmp_path / "cut.pcap"
        path.write_bytes(WHOLE[kind][:size])
        for source in (path, io.BytesIO(WHOLE[kind][:size])):
            capture = Capture(source)
            got = rows_of(capture)
            assert got == whole[: len(got)]
            assert capture.counts["packets"] == len(got)
            if capture.notes:
                (note,) = capture.notes
                assert f"truncated at byte {size}: " in note and note.endswith(f", {len(got)} packets read")
            else:
                assert Capture(path).size == size and size in ends(kind)


def ends(kind: str) -> set[int]:
    """Give the sizes at which a capture of the records ends between two of them."""
    if kind == "pcap":
        return {len(pcap(RECORDS[:k])) for k in range(5)}
    parts = [section(), interface(), *(enhanced(ns // 1000, data) for ns, data in RECORDS)]
    return {sum(map(len, parts[:k])) for k in range(7)}


def test_strict_raises_the_note_after_the_packets() -> None:
    capture = Capture(io.BytesIO(WHOLE["pcap"][:-3]), strict=True)
    batches = capture.batches()
    assert next(batches).num_rows == 3
    with pytest.raises(
        DecodeError, match=r"truncated at byte \d+: what begins at byte \d+ is cut short, 3 packets read"
    ):
        next(batches)


def broken(kind: str, where: int, value: bytes) -> bytes:
    return WHOLE[kind][:where] + value + WHOLE[kind][where + len(value) :]


DAMAGE: dict[str, tuple[bytes, str, int]] = {
    "zeros": (WHOLE["pcap"] + b"\0" * 4096, "zero bytes instead of a record from byte", 4),
    "few zeros": (WHOLE["pcap"] + b"\0" * 9, "is cut short", 4),
    "zeros in pcapng": (WHOLE["pcapng"] + b"\0" * 4096, "zero bytes instead of a record from byte", 4),
    "caplen": (broken("pcap", 24 + 8, b"\xff\xff\xff\x7f"), "a record claims more than 262,144 captured bytes", 0),
    "lengths": (broken("pcapng", len(WHOLE["pcapng"]) - 4, b"\1"), "the block's two lengths differ", 3),
    "interface lengths": (section() + interface()[:-4] + b"\1\0\0\0", "the block's two lengths differ", 0),
    "odd": (broken("pcapng", 28 + 24 + 4, b"\x21"), "a block of impossible length", 0),
    "tiny": (section() + struct.pack("<III", 1, 12, 12), "a block of impossible length", 0),
    "overrun": (broken("pcapng", 28 + 24 + 20, b"\xff\0"), "the packet is larger than its block", 0),
    "overrun by one word": (broken("pcapng", 28 + 24 + 20, b"\x40\0"), "the packet is larger than its block", 0),
    "section": (WHOLE["pcapng"] + section()[:8] + b"\0" * 20, "a section header without a byte order", 4),
    "section length": (
        WHOLE["pcapng"] + section()[:4] + b"\3\0\0\0" + section()[8:],
        "a section header of impossible",
        4,
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_ends_the_reading_with_a_note(name: str) -> None:
    source, what, packets = DAMAGE[name]
    capture = Capture(io.BytesIO(source))
    assert sum(batch.num_rows for batch in capture.batches()) == packets
    (note,) = capture.notes
    assert what in note and note.endswith(f"{packets} packets read")
    with pytest.raises(DecodeError, match=what):
        list(Capture(io.BytesIO(source), strict=True).batches())


@pytest.mark.parametrize("first", WHOLE)
@pytest.mark.parametrize("second", ["pcap", "pcapng", "swapped"])
def test_captures_laid_end_to_end_are_read_on(first: str, second: str) -> None:
    more = WHOLE.get(second, pcap(RECORDS, order=">", tick=1))
    capture = Capture(io.BytesIO(WHOLE[first] + more))
    assert [row["ts"] for row in rows_of(capture)] == 2 * [ns for ns, _ in RECORDS]
    assert len(capture.notes) == (0 if second == "pcapng" else 1)
    if capture.notes:
        assert f"another file header at byte {len(WHOLE[first])}" in capture.notes[0]


@pytest.mark.parametrize(
    "source", [b"", b"\x89PNG\r\n\x1a\n", b"#separator \\x09", b"\0" * 64, section()[:8] + b"abcd" + b"\0" * 16]
)
def test_what_is_no_capture_is_refused_with_its_first_bytes(source: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(source)
    with pytest.raises(DecodeError, match="is no capture: ") as error:
        list(Capture(path).times())
    assert (source[:8].hex(" ") if source else "it is empty") in str(error.value)
    assert "classic pcap" in str(error.value) and str(path) in str(error.value)


def test_other_compressions_are_named_with_the_command_that_unpacks_them() -> None:
    with pytest.raises(DecodeError, match="xz -dc"):
        list(Capture(io.BytesIO(lzma.compress(WHOLE["pcap"]))).batches())


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip members": lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + b"\0" * 512,
    "zstd": zstd,
    "zstd frames": lambda data: zstd(data[:1000]) + zstd(data[1000:]),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("kind", WHOLE)
def test_compressed_captures_are_known_by_their_first_bytes(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "misnamed.txt"
    path.write_bytes(PACKED[name](WHOLE[kind] * 3))
    want = rows(io.BytesIO(WHOLE[kind] * 3))
    capture = Capture(path)
    assert rows_of(capture) == want
    assert capture.position == capture.size == path.stat().st_size
    with path.open("rb") as stream:
        assert rows(stream) == want


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_compressed_capture_that_is_cut_gives_what_could_be_unpacked(name: str, tmp_path: Path) -> None:
    whole = noise(8000)
    packed = PACKED[name](pcap(whole, tick=1))
    path = tmp_path / "cut"
    counts = []
    for part in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(packed[: int(len(packed) * part)])
        capture = Capture(path)
        try:
            got = np.concatenate([np.zeros(0, np.int64), *capture.times()]).tolist()
        except DecodeError as error:  # not even the file header could be unpacked
            assert name in str(error)
            got = []
        else:
            assert f"the {name} data are cut" in capture.notes[0]
        assert got == [ns for ns, _ in whole[: len(got)]]
        counts.append(len(got))
    assert counts == sorted(counts) and counts[2] > 5000


def test_damaged_gzip_gives_the_packets_before_the_damage(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(pcap(noise(400), tick=1)))
    packed[len(packed) // 2] ^= 0xFF
    capture = Capture(io.BytesIO(bytes(packed)))
    assert 100 < sum(map(len, capture.times())) <= 400
    assert "the gzip data are damaged" in capture.notes[0]


class Dripping(io.RawIOBase):
    """A raw stream that gives at most so many bytes at once."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes, self._at, self._turn = data, sizes, 0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        size = min(len(into), self._sizes[self._turn % len(self._sizes)])
        self._turn += 1
        piece = self._data[self._at : self._at + size]
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@share(2.5)
@given(
    st.sampled_from([*WHOLE.values(), gzip.compress(WHOLE["pcap"]), zstd(WHOLE["pcapng"]), WHOLE["pcapng"][:-5]]),
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
    st.integers(1, 5),
)
def test_a_stream_in_any_pieces_gives_the_packets_of_the_file(source: bytes, sizes: list[int], batch_rows: int) -> None:
    for pieces in (sizes, [1]):
        stream = Capture(Dripping(source, pieces), batch_rows=batch_rows)  # pyright: ignore[reportArgumentType]
        whole = Capture(io.BytesIO(source))
        assert rows_of(stream) == rows_of(whole)
        assert stream.notes == whole.notes
        assert stream.position == len(source)
        again = Capture(Dripping(source, pieces))  # pyright: ignore[reportArgumentType]
        assert np.concatenate(list(again.times())).tolist() == [row["ts"] for row in rows(source)]


def test_packets_come_out_of_a_pipe_before_it_is_closed() -> None:
    near, far = os.pipe()
    source = WHOLE["pcap"]
    first = len(pcap(RECORDS[:1]))
    with os.fdopen(near, "rb") as read, os.fdopen(far, "wb", buffering=0) as write:
        write.write(source[: first + 7])
        batches = Capture(read).batches()
        assert next(batches).num_rows == 1
        write.write(source[first + 7 :])
        assert next(batches).num_rows == 3
        write.close()
        assert next(batches, None) is None


def test_a_named_pipe_is_read_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Opened for both ways, the writing end needs no other thread; what is written fits the pipe's buffer.
    with open(path, "r+b", buffering=0) as both:
        both.write(WHOLE["pcap"])
        capture = Capture(path)
        assert capture.size is None
        batches = capture.batches()
        assert next(batches).num_rows == 4


def test_blocks_larger_than_the_buffer_are_passed_over(tmp_path: Path) -> None:
    large = block(0x0BAD, b"\1" * 9_000_000)
    out = section() + interface() + enhanced(1, FRAMES[0]) + large + enhanced(2, FRAMES[0])
    for data, ts in ((out, [1000, 2000]), (out[: -len(large) // 2], [1000])):
        path = tmp_path / "large.pcapng"
        path.write_bytes(data)
        for source in (path, io.BytesIO(data)):
            capture = Capture(source)
            assert np.concatenate(list(capture.times())).tolist() == ts
            assert len(capture.notes) == 2 - len(ts)
            assert all(f"truncated at byte {len(data)}: " in note for note in capture.notes)


def test_a_packet_larger_than_the_buffer_is_given() -> None:
    frame = ether(ipv4(udp(b"x" * 65_000), 17)) + b"\0" * 9_000_000
    capture = Capture(io.BytesIO(section() + interface() + enhanced(1, FRAMES[0]) + enhanced(2, frame)))
    assert [row["caplen"] for row in rows_of(capture)] == [len(FRAMES[0]), len(frame)]
