"""Captures of every format give the packets that were written, in the columns and batches asked for."""

from __future__ import annotations

import gzip
import io
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.capture import NO_TIME, PACKET_SCHEMA, Capture, DecodeError
from operators.errors import SchemaError
from tests.capture_files import (
    DATAGRAM,
    FRAMES,
    LINKS,
    MAGIC,
    RECORDS,
    SECOND,
    SHIMS,
    SIX,
    WHOLE,
    block,
    enhanced,
    interface,
    mapped,
    noise,
    pcap,
    rows,
    rows_of,
    section,
    table,
    zstd,
)
from tests.examples import share


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("tick", [1, 1000])
def test_a_classic_capture_gives_every_column(order: str, tick: int) -> None:
    read = rows(pcap(RECORDS, order=order, tick=tick))
    assert [row["ts"] for row in read] == [ns for ns, _ in RECORDS]
    assert read[0] == {
        "ts": RECORDS[0][0], "srcIP": mapped("10.1.2.3"), "destIP": mapped("192.0.2.9"), "srcPort": 443,
        "destPort": 50_000, "proto": 6, "length": 59, "flags": 0x12, "caplen": 59, "ip_length": 45,
        "payload_length": 5, "ttl": 61, "vlan": None, "fragment": None, "interface": 0, "status": 0,
        "seq": 1, "ack": 2, "tcp_window": 512, "mss": None,
    }  # fmt: skip
    assert (read[1]["srcPort"], read[1]["flags"], read[1]["payload_length"], read[1]["status"]) == (53, None, 3, 0)
    assert (read[2]["srcIP"], read[2]["destIP"], read[2]["ip_length"], read[2]["proto"]) == (*SIX, 48, 17)
    assert all(read[3][name] is None for name in ("srcIP", "destIP", "srcPort", "proto", "ttl", "ip_length"))
    assert read[3]["status"] == 2


def test_records_with_eight_more_header_bytes_are_read_by_their_magic_number() -> None:
    out = struct.pack("<IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65_535, 1)
    for ns, data in RECORDS:
        out += struct.pack("<IIIIIHBB", ns // SECOND, ns % SECOND // 1000, len(data), len(data), 3, 8, 0, 0) + data
    assert rows(out) == rows(pcap(RECORDS))


def test_the_length_on_the_wire_is_kept_beside_the_captured_one() -> None:
    (row,) = rows(pcap([RECORDS[0]], wire=1500))
    assert (row["length"], row["caplen"]) == (1500, 59)


def test_before_version_2_4_the_smaller_length_is_the_captured_one() -> None:
    out = struct.pack("<IHHiIII", MAGIC[1000], 2, 3, 0, 0, 65_535, 1)
    out += struct.pack("<IIII", 1, 0, 1500, len(FRAMES[0])) + FRAMES[0]
    assert [(row["length"], row["caplen"]) for row in rows(out)] == [(1500, 59)]


@pytest.mark.parametrize("order", "<>")
def test_pcapng_gives_the_packets_of_classic_pcap(order: str) -> None:
    blocks = [section(order), interface(order)] + [enhanced(ns // 1000, data, order) for ns, data in RECORDS]
    assert rows(b"".join(blocks)) == rows(pcap(RECORDS))


@pytest.mark.parametrize("since", [0, -3600, 86_400])
@pytest.mark.parametrize(
    "resolution", [0, 3, 6, 9, 10, 12, 19, 27, 28, 127, 0x80, 0x8A, 0x9F, 0xA0, 0xA1, 0xBF, 0xC0, 0xFF]
)
def test_ticks_become_nanoseconds_exactly_and_rounded_down(resolution: int, since: int) -> None:
    per_second = 2 ** (resolution & 127) if resolution & 128 else 10**resolution
    ticks = [0, 1, 999, 2**31, 2**32 - 1, 1_700_000_000 * 10**6 + 123_457, 2**62 + 12_345, 2**63, 2**64 - 1]
    out = section() + interface(resolution=resolution, since=since)
    out += b"".join(enhanced(tick, FRAMES[0]) for tick in ticks)
    want = [int(Fraction(tick * SECOND, per_second).__floor__()) for tick in ticks]
    if resolution in (28, 127):  # 64 bits of it span no two nanoseconds: taken for damage
        want = [2**63] * len(ticks)
    want = [ns + since * SECOND if ns < 2**63 and ns + since * SECOND < 2**63 else None for ns in want]
    assert [row["ts"] for row in rows(out)] == want


def test_a_clock_offset_beyond_64_bits_leaves_the_packets_without_time() -> None:
    capture = Capture(io.BytesIO(section() + interface(since=2**62) + enhanced(5, FRAMES[0])))
    assert [batch["ts"].null_count for batch in capture.batches()] == [1]
    assert capture.counts["untimed"] == 1


def test_simple_blocks_have_no_time_and_old_blocks_have() -> None:
    simple = block(3, struct.pack("<I", 1500) + FRAMES[0])
    old = block(2, struct.pack("<HHIIII", 0, 9, 0, 2_000_000, len(FRAMES[1]), 99) + FRAMES[1])
    for order in "<>":
        if order == ">":
            simple = block(3, struct.pack(">I", 1500) + FRAMES[0], ">")
            old = block(2, struct.pack(">HHIIII", 0, 9, 0, 2_000_000, len(FRAMES[1]), 99) + FRAMES[1], ">")
        source = section(order) + interface(order, snaplen=len(FRAMES[0])) + simple + old
        read = rows(source)
        assert [(row["ts"], row["length"], row["caplen"]) for row in read] == [(None, 1500, 59), (2 * SECOND, 99, 45)]
        capture = Capture(io.BytesIO(source))
        assert np.concatenate(list(capture.times())).tolist() == [NO_TIME, 2 * SECOND]
        assert capture.counts["untimed"] == 1


def test_sections_may_change_byte_order_and_interfaces_are_numbered_through() -> None:
    out = section("<") + interface("<") + interface("<", link=101, resolution=9)
    out += (
        enhanced(7, FRAMES[1][14:], which=1)
        + block(5, b"statistics..")
        + block(0x0BAD, b"custom")
        + enhanced(8, FRAMES[0])
    )
    out += section(">") + interface(">", link=113) + enhanced(9, b"\0" * 14 + b"\x08\0" + FRAMES[0][14:], ">")
    read = rows(out)
    assert [(row["ts"], row["interface"], row["proto"]) for row in read] == [(7, 1, 17), (8000, 0, 6), (9000, 2, 6)]


def test_a_packet_of_an_undescribed_interface_is_kept_without_time() -> None:
    (row,) = rows(section() + enhanced(5, FRAMES[0], which=4))
    assert (row["ts"], row["interface"], row["status"], row["length"]) == (None, 4, 2, 59)


def test_only_the_columns_asked_for_are_given_in_the_order_of_the_schema() -> None:
    for names in (["length", "ts"], ["destPort"], ["srcIP"], ["vlan", "fragment", "status"], ["caplen", "interface"]):
        capture = Capture(io.BytesIO(WHOLE["pcap"]), columns=names)
        assert capture.schema.names == [name for name in PACKET_SCHEMA.names if name in names]
        assert pa.Table.from_batches(capture.batches()) == table(WHOLE["pcap"]).select(capture.schema.names)


def test_an_unknown_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SchemaError, match=r'"srcIp".*\n.*\n.*Did you mean "srcIP"'):
        Capture(io.BytesIO(b""), columns=["srcIp"])


def test_batches_are_bounded_and_the_times_are_theirs() -> None:
    capture = Capture(io.BytesIO(pcap(noise(10), tick=1)), batch_rows=4)
    assert [batch.num_rows for batch in capture.batches()] == [4, 4, 2]
    capture = Capture(io.BytesIO(pcap(noise(10), tick=1)), batch_rows=4)
    assert [times.tolist() for times in capture.times()][2] == [SECOND + 8, SECOND + 9]
    with pytest.raises(ValueError, match="batch_rows is 0"):
        Capture(io.BytesIO(b""), batch_rows=0)


def test_a_path_can_be_read_again_and_a_stream_cannot(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(WHOLE["pcap"][:-1])
    capture = Capture(str(path))
    assert rows_of(capture) == rows_of(capture)
    assert len(capture.notes) == 1 and capture.counts["packets"] == 3
    stream = Capture(io.BytesIO(WHOLE["pcap"]))
    list(stream.times())
    with pytest.raises(ValueError, match="was read before"):
        list(stream.batches())


def test_a_missing_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Capture(tmp_path / "none.pcap")


@share(15)
@given(
    st.sampled_from(
        [
            WHOLE["pcap"],
            WHOLE["pcapng"],
            pcap(RECORDS, order=">", tick=1) + WHOLE["pcapng"],
            section(">") + interface(">", resolution=0xBF) + enhanced(2**60, FRAMES[2], ">") + WHOLE["pcap"],
            *(pcap([(1, header + DATAGRAM)], link=link) for link, header in LINKS.values()),
            *(pcap([(1, b"\2" * 12 + shim + DATAGRAM)]) for shim, _ in SHIMS.values()),
            gzip.compress(WHOLE["pcap"]),
            zstd(WHOLE["pcapng"]),
        ]
    ),
    st.lists(
        st.tuples(st.integers(0, 700), st.sampled_from([0, 1, 4, 0x45, 0x60, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)),
        max_size=6,
    ),
    st.integers(0, 700),
    st.integers(0, 40),
)
def test_any_bytes_give_packets_a_note_or_a_decode_error(
    source: bytes, changes: list[tuple[int, int]], cut: int, gap: int
) -> None:
    damaged = bytearray(source)
    for where, value in changes:
        damaged[where % len(damaged)] = value
    del damaged[cut : cut + gap]
    capture = Capture(io.BytesIO(bytes(damaged)))
    try:
        batches = list(capture.batches())
    except DecodeError:
        return
    for batch in batches:
        batch.validate(full=True)
        assert batch["status"].null_count == 0 and set(batch["status"].to_pylist()) <= {0, 1, 2, 3}
    times = Capture(io.BytesIO(bytes(damaged)))
    assert sum(map(len, times.times())) == capture.counts["packets"] == sum(batch.num_rows for batch in batches)
    assert times.notes == capture.notes
