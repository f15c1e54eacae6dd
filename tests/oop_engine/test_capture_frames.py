"""Frames that are decoded many at once give what the decoder of all layers gives for each, to the bit and the count."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oop_engine.sources.capture import PACKET_SCHEMA, Capture
from oop_engine.sources.capture import supply as supplies
from oop_engine.sources.capture.formats import Classic
from oop_engine.sources.capture.rows import STRETCH
from tests.capture_files import SECOND, Record, ether, ipv4, ipv6, pcap, syn, tag, tcp, udp
from tests.examples import mostly_slow

OPTIONED = ipv4(tcp(b"abc"), 6, options=b"\1" * 8)
LAYERS = {
    "tcp": ether(ipv4(tcp(b"hello"), 6)),
    "tcp with options": ether(ipv4(tcp()[:12] + b"\x80\x18" + bytes(18) + b"content", 6)),
    "tcp of one word": ether(ipv4(tcp()[:12] + b"\x10\x18" + bytes(6), 6)),
    "syn": ether(ipv4(syn(b"\1\2\4\5\xb4\1\1\0"), 6)),
    "syn of a vlan": ether(b"\0\5\x08\0" + ipv4(syn(b"\2\4\5\xb4"), 6), 0x8100),
    "udp": ether(ipv4(udp(b"a datagram of twelve bytes and more"), 17)),
    "short udp": ether(ipv4(udp(b"x"), 17)),
    "no fragments": ether(ipv4(udp(bytes(20)), 17, fragment=0x4000)),
    "first fragment": ether(ipv4(tcp(b"hello"), 6, fragment=0x2000)),
    "later fragment": ether(ipv4(b"\xff" * 40, 17, fragment=0x00B9)),
    "options": ether(OPTIONED),
    "no length": ether(ipv4(tcp(b"abc"), 6, total=0)),
    "length below the headers": ether(ipv4(tcp(b"abc"), 6, total=39)),
    "length beyond the frame": ether(ipv4(udp(bytes(20)), 17, total=1400)),
    "padded": ether(ipv4(udp(b"x"), 17)) + b"\0" * 18,
    "icmp": ether(ipv4(b"\3\1" + bytes(40), 1)),
    "gre": ether(ipv4(bytes(40), 47)),
    "version 5": ether(b"\x55" + ipv4(tcp(b"abc"), 6)[1:]),
    "four words": ether(b"\x44" + ipv4(tcp(b"abc"), 6)[1:]),
    "ipv6": ether(ipv6(tcp(b"abc"), 6), 0x86DD),
    "extended ipv6": ether(ipv6(b"\x06\0" + b"\1" * 6 + tcp(b"x"), 60), 0x86DD),
    "arp": ether(bytes(46), 0x0806),
    "vlan": ether(tag(0x8100, 5)[2:] + b"\x08\0" + ipv4(tcp(b"hello"), 6), 0x8100),
    "priority": ether(b"\xe0\0\x08\0" + ipv4(udp(bytes(20)), 17), 0x8100),
    "vlan ipv6": ether(b"\0\5\x86\xdd" + ipv6(udp(bytes(9)), 17), 0x8100),
    "vlan arp": ether(b"\0\5\x08\6" + bytes(46), 0x8100),
    "vlan options": ether(b"\0\5\x08\0" + OPTIONED, 0x8100),
    "two vlans": ether(b"\0\7\x81\0\0\5\x08\0" + ipv4(tcp(b"hello"), 6), 0x8100),
    "service vlan": ether(b"\0\7\x08\0" + ipv4(tcp(b"hello"), 6), 0x88A8),
    "snap": ether(b"\xaa\xaa\3\0\0\0\x08\0" + ipv4(tcp(b"hello"), 6), 60),
    "mpls": ether(b"\0\2\1\x40" + ipv4(tcp(b"hello"), 6), 0x8847),
    "pppoe": ether(b"\x11\0\0\1\0\x40\0\x21" + ipv4(tcp(b"hello"), 6), 0x8864),
    "nothing": b"",
}
COLUMNS = st.none() | st.sets(st.sampled_from(PACKET_SCHEMA.names), min_size=1).map(sorted)
HEADERS = st.sampled_from(
    [
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1),
        struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 90, 0, 65_535, 1),
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 999_999, 0, 65_535, 1),
        struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1),
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101),
        bytes(16),
        struct.pack("<IIII", 7, 7, 262_145, 9),
        struct.pack("<IIII", 0xA1B2C3D4, 0x00040002, 60, 60),
        b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\1\0\0\0" + b"\xff" * 8 + b"\x1c\0\0\0",
    ]
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Give a frame of any layers, cut at any byte, some of its bytes changed."""
    frame = bytearray(draw(st.sampled_from(sorted(LAYERS.values()))))
    for where, value in draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2)):
        if frame:
            frame[where % len(frame)] = value
    return bytes(frame[: draw(st.just(len(frame)) | st.integers(0, len(frame)))])


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """Give frames, some of them many times, as often as makes stretches and more of them."""
    drawn = draw(st.lists(st.tuples(frames(), st.sampled_from([1, 1, 1, 2, STRETCH, 2 * STRETCH + 1])), max_size=6))
    ticks = draw(st.sampled_from([1, 1000, 262_146_000, 131_076_000]))
    made = [frame for frame, times in drawn for _ in range(times)]
    return [(SECOND * (k // 3) + (k % 3) * ticks, frame) for k, frame in enumerate(made)]


def everything(source: Any, **options: Any) -> tuple[Any, ...]:
    capture = Capture(io.BytesIO(source) if isinstance(source, bytes) else source, **options)
    table = pa.Table.from_batches(capture.batches(), schema=capture.schema)
    for column in table.columns:
        column.validate(full=True)
    notes = [note.removeprefix(capture.name) for note in capture.notes]
    return table.combine_chunks(), notes, capture.counts


def without_frames(source: bytes, **options: Any) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classic, "framed", property(lambda _: False))
        return everything(source, **options)


def at_once(path: Path, **options: Any) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supplies, "_BLOCK", 1 << 30)
        patch.setattr(Classic, "framed", property(lambda _: False))
        return everything(path, **options)


@given(records(), st.integers(0, 2000), COLUMNS, st.sampled_from([1, 3, STRETCH, 65_536]))
@settings(deadline=None)
def test_frames_decoded_at_once_are_those_decoded_one_by_one(
    packets: list[Record], wire: int, columns: list[str] | None, batch_rows: int
) -> None:
    source = pcap(packets, wire=wire)
    assert everything(source, columns=columns, batch_rows=batch_rows) == without_frames(source, columns=columns)


@pytest.mark.parametrize("name", mostly_slow(LAYERS, every=3))
def test_a_frame_cut_at_every_byte_is_the_same_either_way(name: str) -> None:
    frame = LAYERS[name]
    cuts = [(SECOND + k, frame[:k]) for k in range(len(frame) + 1)]
    for source in (pcap(cuts, wire=len(frame)), pcap(cuts[::-1], wire=len(frame)), *(pcap([cut]) for cut in cuts)):
        assert everything(source) == without_frames(source)


@given(records(), HEADERS, records(), st.integers(0, 400), st.integers(0, 60))
@settings(deadline=None)
def test_what_is_no_record_is_judged_alike(
    before: list[Record], middle: bytes, after: list[Record], gap: int, lost: int
) -> None:
    whole = pcap(before) + middle + pcap(after)[24:]
    source = whole[: 24 + gap] + whole[24 + gap + lost :]
    assert everything(source) == without_frames(source)


@given(records(), HEADERS | st.just(b""), records(), st.integers(1, 400), st.integers(0, 40))
@settings(deadline=None)
def test_a_file_read_in_blocks_of_any_size_is_the_file_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, before: list[Record], middle: bytes, after: list[Record], block: int,
    cut: int,
) -> None:  # fmt: skip
    source = pcap(before) + middle + pcap(after)[24:]
    source = source[: max(len(source) - cut, 24)]
    path = tmp_path_factory.getbasetemp() / "blocks.pcap"
    path.write_bytes(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supplies, "_BLOCK", block)
        for options in ({}, {"batch_rows": 5}):
            assert everything(path, **options) == at_once(path, **options)
        times = np.concatenate([np.empty(0, np.int64), *Capture(path, batch_rows=5).times()])
        assert times.tolist() == at_once(path)[0]["ts"].cast(pa.int64()).to_pylist()


def test_batches_of_a_file_are_full_whatever_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([(SECOND + k, LAYERS["tcp" if k % 3 else "ipv6"]) for k in range(1000)]))
    monkeypatch.setattr(supplies, "_BLOCK", 777)
    assert [len(batch) for batch in Capture(path, batch_rows=300).batches()] == [300, 300, 300, 100]
    assert [len(times) for times in Capture(path, batch_rows=300).times()] == [300, 300, 300, 100]


def test_a_batch_takes_no_more_memory_than_twice_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    one = pcap([(SECOND, LAYERS["tcp"])])
    path.write_bytes(one[:24] + 70_000 * one[24:])
    for batch in Capture(path, columns=["ts", "length"]).batches():
        for column in batch.columns:
            assert column.buffers()[1].size <= 2 * len(batch) * 8


def test_most_frames_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = Classic.walk

    def counted(self: Classic, *arguments: Any) -> tuple[int, int, int, int]:
        found = walk(self, *arguments)
        walked.append(found[1])
        return found

    monkeypatch.setattr(Classic, "walk", counted)
    names = ("tcp", "udp", "ipv6", "vlan", "padded", "arp")
    packets = [(SECOND * 1_700_000_000 + 1000 * k, LAYERS[names[k % 6]]) for k in range(3000)]
    counts = everything(pcap(packets))[2]
    assert counts["packets"] == 3000 and counts["undecoded"] == 500
    assert sum(walked) == 0
