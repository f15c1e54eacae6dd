"""Hardware addresses, EtherTypes, VLAN tags and MPLS labels are those on the wire, and cost nothing unasked."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language.translate.files import packet_attributes
from oop_engine.sources.capture import FURTHER_SCHEMA, PACKET_SCHEMA
from oop_engine.sources.capture.splits import Parted, cut
from operators.errors import SchemaError
from tests.capture_files import (
    DATAGRAM,
    LINKS,
    LLC,
    MPLS_LABEL,
    MPLS_LAST,
    SECOND,
    SHIMS,
    WHOLE,
    ether,
    ipv4,
    pcap,
    rows,
    table,
    tag,
    tcp,
)
from tests.examples import chosen
from tests.open_set import OPEN_SET, with_open_set

MACS = bytes(range(0x10, 0x16)) + bytes(range(0xF0, 0xF6))
TARGET, SOURCE = "10:11:12:13:14:15", "f0:f1:f2:f3:f4:f5"
NAMES = ["srcMAC", "destMAC", "ethertype", "inner_vlan", "vlan_count", "mpls_label", "mpls_bottom", "mpls_count"]
WIFI = {0: (4, 10), 1: (16, 10), 2: (4, 16), 3: (16, 24)}
"""Where the receiver and the sender stand in a frame of 802.11, by the bits of its direction."""


def one(frame: bytes, *, link: int = 1, names: list[str] = NAMES) -> tuple[Any, ...]:
    (row,) = rows(pcap([(SECOND, frame)], link=link), columns=names)
    return tuple(row[name] for name in names)


def naive(frame: bytes) -> tuple[Any, ...]:
    """Read the link layer of an Ethernet frame with tags and labels, byte by byte."""
    macs = [frame[at : at + 6].hex(":") if len(frame) >= at + 6 else None for at in (6, 0)]
    if len(frame) < 14:
        return (*macs, None, None, 0, None, None, 0)
    kind, rest = int.from_bytes(frame[12:14], "big"), frame[14:]
    tags, labels = [], []
    while kind in (0x8100, 0x88A8, 0x9100) and len(rest) >= 4:
        tags.append(int.from_bytes(rest[:2], "big") % 4096)
        kind, rest = int.from_bytes(rest[2:4], "big"), rest[4:]
    while kind in (0x8847, 0x8848) and len(rest) >= 4:
        labels.append(int.from_bytes(rest[:3], "big") >> 4)
        if rest[2] & 1:
            break
        rest = rest[4:]
    return (
        *macs, kind if kind >= 1536 else None, tags[1] if tags[1:] else None, len(tags),
        labels[0] if labels else None, labels[-1] if labels else None, len(labels),
    )  # fmt: skip


@pytest.mark.parametrize("name", SHIMS)
def test_behind_every_shim_tags_and_labels_are_those_of_a_reading_byte_by_byte(name: str) -> None:
    if name.startswith("pppoe"):
        assert one(MACS + SHIMS[name][0] + DATAGRAM)[2:5] == (0x8864, None, 0)
        return
    frame = MACS + SHIMS[name][0] + DATAGRAM
    found = one(frame)
    assert found == naive(frame)
    assert found[:2] == (SOURCE, TARGET)


def test_frames_of_any_tags_and_labels_cut_anywhere_are_read_as_byte_by_byte() -> None:
    made = random.Random(5)
    frames = []
    for _ in range(40 * chosen.unit):
        stack = b"".join(
            tag(made.choice((0x8100, 0x88A8, 0x9100)), made.randrange(4096)) for _ in range(made.randrange(4))
        )
        labels = [made.randrange(1 << 20) << 12 | 64 for _ in range(made.randrange(4))]
        shims = b"".join(struct.pack(">I", label) for label in labels[:-1])
        shims += struct.pack(">I", labels[-1] | 256) if labels else b""
        kind = made.choice((0x8847, 0x8848)) if labels else made.choice((0x0800, 0x0806, 0x88CC))
        frame = made.randbytes(12) + stack + struct.pack(">H", kind) + shims + DATAGRAM
        frames.append(frame[: made.choice((len(frame), made.randrange(len(frame) + 1)))])
    read = rows(pcap([(SECOND, frame) for frame in frames]), columns=NAMES)
    assert [tuple(row[name] for name in NAMES) for row in read] == [naive(frame) for frame in frames]


def test_a_stack_of_hundreds_of_tags_is_counted_up_to_255() -> None:
    assert one(MACS + tag(0x8100, 7) * 300 + b"\x08\0" + DATAGRAM, names=["vlan", "inner_vlan", "vlan_count"]) == (
        7, 7, 255,
    )  # fmt: skip
    assert one(MACS + b"\x88\x47" + MPLS_LABEL * 300 + MPLS_LAST + DATAGRAM)[5:] == (16, 32, 255)


@pytest.mark.parametrize("direction", WIFI)
def test_frames_of_802_11_name_sender_and_receiver_by_their_direction(direction: int) -> None:
    places = [bytes([16 * place]) * 6 for place in range(1, 5)]
    header = bytes([0x08, direction, 0, 0]) + b"".join(places[:3]) + b"\0\0" + (places[3] if direction == 3 else b"")
    target, source = (header[at : at + 6].hex(":") for at in WIFI[direction])
    assert one(header + LLC + DATAGRAM, link=105)[:3] == (source, target, None)
    assert one(b"\0\0\x0a\0" + b"\0" * 6 + header + LLC + DATAGRAM, link=127)[:2] == (source, target)
    assert one(b"\xd4" + header[1:], link=105)[:2] == (None, None), "an acknowledgement has no sender"


def test_link_types_have_the_addresses_that_they_carry() -> None:
    cooked = struct.pack(">HHH", 0, 1, 6) + MACS[6:] + b"\0\0" + b"\x08\0" + DATAGRAM
    assert one(cooked, link=113)[:3] == (SOURCE, None, 0x0800)
    second = b"\x08\0\0\0" + b"\0\0\0\1\0\1\0\6" + MACS[6:] + b"\0\0" + DATAGRAM
    assert one(second, link=276)[:3] == (SOURCE, None, 0x0800)
    assert one(b"\x50" + MACS + LLC + DATAGRAM, link=10)[:3] == (SOURCE, TARGET, None)
    for name in ("raw", "null", "ppp", "nflog"):
        link, header = LINKS[name]
        assert one(header + DATAGRAM, link=link) == (None, None, None, None, 0, None, None, 0)


def test_further_columns_leave_the_others_as_they_are_for_every_kind_of_file() -> None:
    for source in WHOLE.values():
        plain, more = table(source), table(source, columns=[*PACKET_SCHEMA.names, *FURTHER_SCHEMA.names])
        assert more.select(PACKET_SCHEMA.names) == plain
        assert more.schema.names == [*PACKET_SCHEMA.names, *FURTHER_SCHEMA.names]
        for column in more.columns:
            column.validate(full=True)
    assert table(pcap([]), columns=["srcMAC"]).num_rows == 0


def test_batches_of_any_size_and_parts_of_a_file_have_the_same_columns(tmp_path: Path) -> None:
    frames = [MACS + shim + DATAGRAM for shim, _ in SHIMS.values()] * 20
    path = tmp_path / "tags.pcap"
    path.write_bytes(pcap([(SECOND * k, frame) for k, frame in enumerate(frames)]))
    names = ["ts", "vlan", *NAMES]
    whole = table(path, columns=names).combine_chunks()
    for batch_rows in (1, 7, 100):
        assert table(path, columns=names, batch_rows=batch_rows).combine_chunks() == whole
    parted = Parted.open(path)
    batches = [
        batch
        for part in cut(path, 24, path.stat().st_size, 3000)
        for batch in parted.batches(part, columns=names, batch_rows=11)
    ]
    assert pa.Table.from_batches(batches).combine_chunks() == whole


def test_a_stream_has_further_attributes_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "stack.pcap"
    frames = [MACS + tag(0x88A8, 7) + tag(0x8100, k % 2) + b"\x08\0" + ipv4(tcp(b"x"), 6) for k in range(6)]
    path.write_bytes(pcap([(SECOND * k, frame) for k, frame in enumerate([*frames, ether(DATAGRAM)])]))
    stream = oop.pcap(path, columns=["inner_vlan", "srcMAC"])
    assert stream.schema.names == [*PACKET_SCHEMA.names, "srcMAC", "inner_vlan"]
    counted = stream.aggregate(oop.count(), by=["vlan", "inner_vlan", "srcMAC"]).to_arrow().to_pylist()
    assert sorted((str(row["inner_vlan"]), row["srcMAC"], row["count"]) for row in counted) == [
        ("0", SOURCE, 3), ("1", SOURCE, 3), ("None", "04:04:04:04:04:04", 1),
    ]  # fmt: skip
    assert oop.read(path, columns=["mpls_count"]).schema.names[-1] == "mpls_count"


def test_a_name_that_packets_do_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(SchemaError, match=r'a packet has no column "srcMac"(.|\n)*Did you mean "?srcMAC'):
        oop.pcap("demos/captures/web.pcap.gz", columns=["srcMac"])


def test_a_query_reads_what_it_names_in_any_case() -> None:
    text = "SELECT SRCMAC, `inner_vlan`, count(*) [RANGE 1 s, WA ts] FROM M WHERE 'mpls_label' = 'x' GROUP BY srcMAC"
    assert packet_attributes(text) == ["srcMAC", "inner_vlan"]


def test_who_names_an_attribute_that_was_not_asked_for_is_told_how() -> None:
    packets = oop.pcap("demos/captures/web.pcap.gz")
    with pytest.raises(oop.LanguageError, match=r'columns=\["srcMAC"\]'):
        oop.query("SELECT srcMac, count(*) [RANGE 1 s, WA ts] FROM M GROUP BY srcMac", M=packets)


TSHARK = ["eth.src", "eth.dst", "eth.type", "ieee8021ad.id", "vlan.id", "vlan.etype", "vlan.len", "mpls.label"]


def by_tshark(path: Path) -> list[tuple[Any, ...]]:
    """Return the same of the frames of a capture of Ethernet, as tshark reads them."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    fields = [argument for field in TSHARK for argument in ("-e", field)]
    command = ["tshark", "-r", str(path), "-n", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=;", *fields]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in told:
        source, target, kind, services, tags, kinds, size, labels = line.split("\t")
        vids = [int(tag, 0) for tag in f"{services};{tags}".split(";") if tag]
        stack = [int(label, 0) for label in labels.split(";") if label]
        last = (kinds.split(";")[-1] or kind).split(";")[0]
        found.append((
            source.split(";")[0] or None, target.split(";")[0] or None, int(last, 0) if last and not size else None,
            vids[1] if vids[1:] else None, len(vids), stack[0] if stack else None, stack[-1] if stack else None,
            len(stack),
        ))  # fmt: skip
    return found


def test_made_frames_are_read_as_tshark_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "shims.pcap"
    shims = [shim for name, (shim, _) in SHIMS.items() if name not in ("9100", "pppoe", "pppoe mpls")]
    path.write_bytes(pcap([(SECOND, MACS + shim + ipv4(tcp(b"x" * 40), 6)) for shim in shims]))
    assert [tuple(row[name] for name in NAMES) for row in rows(path, columns=NAMES)] == by_tshark(path)


LINKED = [
    "linktypes/tcpdump__802.1ad_QinQ.pcap",
    "linktypes/tcpdump__mpls-traceroute.pcap",
    "linktypes/pcapplusplus__VlanPackets.pcap",
    "communityid/tcp.pcap",
]


@with_open_set
@pytest.mark.parametrize("name", LINKED)
def test_captures_of_others_are_read_as_tshark_reads_them(name: str) -> None:
    path = OPEN_SET / name
    assert [tuple(row[name] for name in NAMES) for row in rows(path, columns=NAMES)] == by_tshark(path)
