"""Packets in tunnels are read as if they had been captured alone; what is no whole tunnel leaves the packet outside."""

from __future__ import annotations

import random
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oop_engine as oop
from oop_engine.drive.checkpoints.identity import changed, identity
from oop_engine.sources.capture import PACKET_SCHEMA
from oop_engine.sources.packets import Packets
from tests.capture_files import SECOND, ether, ipv4, ipv6, mapped, pcap, rows, table, tag, tcp, udp
from tests.examples import chosen, mostly_slow
from tests.open_set import OPEN_SET, with_open_set

TUNNEL = ["tunnel", "tunnel_id", "outer_srcIP", "outer_destIP"]
OUTSIDE = (mapped("203.0.113.1"), mapped("203.0.113.2"))
WIRE = ("ts", "length", "caplen", "vlan", "interface")
"""What stays as it is on the wire."""


def outside(payload: bytes, proto: int) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0, 61, proto, 0)
    return head + socket.inet_aton("203.0.113.1") + socket.inet_aton("203.0.113.2") + payload


def datagram(port: int, content: bytes) -> bytes:
    return outside(struct.pack(">HHHH", 40_000, port, 8 + len(content), 0) + content, 17)


def gre(bits: int, protocol: int, rest: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda packet: outside(struct.pack(">HH", bits, protocol) + rest + packet, 47)


def gtp(bits: int = 0, rest: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda packet: datagram(2152, struct.pack(">BBHI", 0x30 | bits, 255, len(rest + packet), 77) + rest + packet)


OPTIONED = bytes(4) + b"\x20" + bytes(10) + b"\1" + bytes(8)
KINDS: dict[str, tuple[str, int | None, Callable[[bytes], bytes]]] = {
    "gre": ("gre", None, gre(0, 0x0800)),
    "gre of all fields": ("gre", 5, gre(0xB000, 0x0800, struct.pack(">III", 0, 5, 9))),
    "nvgre": ("gre", 0x500, lambda packet: gre(0x2000, 0x6558, struct.pack(">I", 0x500))(ether(packet))),
    "erspan 1": ("gre", None, lambda packet: gre(0, 0x88BE)(ether(packet))),
    "erspan 2": ("gre", None, lambda packet: gre(0x1000, 0x88BE, bytes(4) + b"\x10" + bytes(7))(ether(packet))),
    "erspan 3": ("gre", None, lambda packet: gre(0x1000, 0x22EB, bytes(4) + b"\x20" + bytes(11))(ether(packet))),
    "erspan 3 and more": ("gre", None, lambda packet: gre(0x1000, 0x22EB, OPTIONED)(ether(packet))),
    "pptp": ("gre", 3, gre(0x3081, 0x880B, struct.pack(">HHII", 9, 3, 1, 2) + b"\xff\3\0\x21")),
    "vxlan": ("vxlan", 9, lambda packet: datagram(4789, b"\x08\0\0\0\0\0\x09\0" + ether(packet))),
    "vxlan of tags": (
        "vxlan", 9, lambda packet: datagram(8472, b"\x08\0\0\0\0\0\x09\0" + ether(b"\0\5\x08\0" + packet, 0x8100)),
    ),
    "geneve": ("geneve", 8, lambda packet: datagram(6081, b"\1\0\x65\x58\0\0\x08\0" + bytes(4) + ether(packet))),
    "geneve of ip": ("geneve", 8, lambda packet: datagram(6081, b"\0\0\x08\0\0\0\x08\0" + packet)),
    "gtp": ("gtp-u", 77, gtp()),
    "gtp of a number": ("gtp-u", 77, gtp(2, b"\0\1\0\0")),
    "gtp of extensions": ("gtp-u", 77, gtp(4, b"\0\0\0\x85\1\0\0\x85\2" + bytes(6) + b"\0")),
    "ip in ip": ("ip-in-ip", None, lambda packet: outside(packet, 4)),
}  # fmt: skip
INNER = ipv4(tcp(b"hello"), 6)


def inner(frame: bytes, **options: Any) -> dict[str, Any]:
    source = pcap([(SECOND, frame)], **options)
    (row,) = rows(source, columns=[*PACKET_SCHEMA.names, *TUNNEL], inner=True)
    return row


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in TUNNEL)


@pytest.mark.parametrize("name", KINDS)
def test_a_packet_in_any_tunnel_is_read_as_alone_and_its_tunnel_is_named(name: str) -> None:
    kind, number, wrap = KINDS[name]
    for packet in (INNER, ipv4(udp(b"datagram"), 17)):
        alone, row = inner(ether(packet)), inner(ether(wrap(packet)))
        assert without(row, *WIRE, *TUNNEL) == without(alone, *WIRE, *TUNNEL)
        assert told(row) == (kind, number, *OUTSIDE) and told(alone) == (None,) * 4
        assert row["length"] == len(ether(wrap(packet)))


def test_without_inner_headers_are_the_outer_ones_and_the_tunnel_is_named_all_the_same() -> None:
    frame = ether(KINDS["vxlan"][2](INNER))
    (row,) = rows(pcap([(SECOND, frame)]), columns=["srcIP", "destPort", "proto", *TUNNEL])
    assert (row["srcIP"], row["destPort"], row["proto"]) == (OUTSIDE[0], 4789, 17)
    assert told(row) == ("vxlan", 9, *OUTSIDE)


def test_the_vlan_is_that_of_the_wire_and_not_one_in_the_tunnel() -> None:
    packet = KINDS["vxlan of tags"][2](INNER)
    assert inner(ether(packet))["vlan"] is None
    row = inner(b"\2" * 12 + tag(0x8100, 7) + b"\x08\0" + packet)
    assert (row["vlan"], row["srcIP"]) == (7, mapped("10.1.2.3"))
    mixed = pcap([(SECOND, ether(packet)), (SECOND, b"\2" * 12 + tag(0x8100, 7) + b"\x08\0" + packet)])
    assert table(mixed, columns=["vlan"], inner=True)["vlan"].to_pylist() == [None, 7]


def test_tunnels_in_tunnels_are_opened_four_deep_and_the_outermost_is_named() -> None:
    packet = INNER
    for depth in range(1, 6):
        packet = outside(packet, 4)
        row = inner(ether(packet))
        assert row["srcIP"] == (mapped("10.1.2.3") if depth < 5 else OUTSIDE[0])
        assert told(row) == ("ip-in-ip", None, *OUTSIDE)
    nested = inner(ether(KINDS["gtp"][2](KINDS["vxlan"][2](INNER))))
    assert (nested["tunnel"], nested["tunnel_id"], nested["srcIP"]) == ("gtp-u", 77, mapped("10.1.2.3"))


def test_ipv6_in_ipv4_and_ipv4_in_ipv6_are_opened() -> None:
    assert inner(ether(outside(ipv6(udp(b"x"), 17), 41)))["srcPort"] == 53
    row = inner(ether(ipv6(INNER, 4), 0x86DD))
    assert (row["srcIP"], row["tunnel"], row["ttl"]) == (mapped("10.1.2.3"), "ip-in-ip", 61)
    assert row["outer_srcIP"] == socket.inet_pton(socket.AF_INET6, "2001:db8::7")


@pytest.mark.parametrize(
    "packet",
    [
        gre(0, 0x0806)(INNER),
        gre(2, 0x0800)(INNER),
        gre(0x4000, 0x0800)(INNER),
        gre(1, 0x0800)(INNER),
        gre(0, 0x0800)(b"\x55" * 40),
        datagram(4789, b"\0" * 8 + ether(INNER)),
        datagram(4789, b"\x08" + b"\0" * 7 + ether(b"arp" * 9, 0x0806)),
        datagram(4790, b"\x08" + b"\0" * 7 + ether(INNER)),
        datagram(6081, b"\x40\0\x65\x58" + bytes(4) + ether(INNER)),
        datagram(6081, b"\x3f\0\x65\x58" + bytes(4) + ether(INNER)),
        datagram(2152, struct.pack(">BBHI", 0x30, 1, 0, 77) + INNER),
        datagram(2152, struct.pack(">BBHI", 0x20, 255, 0, 77) + INNER),
        gtp(4, b"\0\0\0\x85\0\0\0\0")(INNER),
        gtp(4, b"\0\0\0\x85" + b"\1\0\0\x85" * 40)(INNER),
        outside(b"", 4),
    ],
)
def test_what_is_no_whole_tunnel_of_ip_leaves_the_packet_outside(packet: bytes) -> None:
    row = inner(ether(packet))
    (plain,) = rows(pcap([(SECOND, ether(packet))]))
    assert without(row, *TUNNEL) == plain
    assert told(row) == (None,) * 4


@pytest.mark.parametrize("name", mostly_slow(KINDS, every=4))
def test_a_tunnel_cut_anywhere_shows_the_outer_packet_or_the_inner_one_and_never_what_follows(name: str) -> None:
    frame = ether(KINDS[name][2](INNER))
    whole, plain = inner(frame), rows(pcap([(SECOND, frame)]))[0]
    for size in range(len(frame)):
        seen = []
        for other in (0x00, 0x45, 0xFF):
            out = pcap([(SECOND, frame[:size])], wire=len(frame))
            out += struct.pack("<IIII", *[other * 0x01010101] * 2, 60, 60) + bytes([other]) * 60
            seen.append(rows(out, columns=[*PACKET_SCHEMA.names, *TUNNEL], inner=True)[0])
        assert seen.count(seen[0]) == 3
        for column in ("srcIP", "destIP", "srcPort", "proto", "ttl"):
            assert seen[0][column] in (None, whole[column], plain[column])
        assert seen[0]["tunnel"] in (None, whole["tunnel"])


def test_packets_of_random_tunnels_with_changed_bytes_are_decoded_to_valid_columns() -> None:
    made, frames = random.Random(9), []
    for _ in range(100 * chosen.unit):
        packet = bytearray(INNER)
        for _ in range(made.randrange(6)):
            packet = bytearray(made.choice(list(KINDS.values()))[2](bytes(packet)))
        for _ in range(made.randrange(3)):
            packet[made.randrange(len(packet))] = made.randrange(256)
        frame = ether(bytes(packet))
        frames.append(frame[: made.choice((len(frame), made.randrange(len(frame) + 1)))])
    source = pcap([(SECOND, frame) for frame in frames])
    read = table(source, columns=[*PACKET_SCHEMA.names, *TUNNEL], inner=True).combine_chunks()
    read.validate(full=True)
    for batch_rows in (1, 17):
        again = table(source, columns=[*PACKET_SCHEMA.names, *TUNNEL], inner=True, batch_rows=batch_rows)
        assert again.combine_chunks() == read


def test_packets_without_a_tunnel_are_the_same_with_inner_and_without() -> None:
    frames = [
        ether(INNER),
        ether(ipv6(udp(), 17), 0x86DD),
        ether(b"arp", 0x0806),
        b"\2" * 12 + tag(0x8100, 5) + b"\x08\0",
    ]
    source = pcap([(SECOND, frame) for frame in frames])
    assert table(source, inner=True) == table(source)


def test_a_stream_reads_inner_packets_and_a_checkpoint_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "tunnels.pcap"
    path.write_bytes(pcap([(SECOND * k, ether(KINDS[name][2](INNER))) for k, name in enumerate(KINDS)]))
    for read in (oop.pcap, oop.read):
        counted = read(path, columns=["tunnel"], inner=True).aggregate(oop.count(), by=["srcIP", "tunnel"])
        found = {(row["srcIP"], row["tunnel"]): row["count"] for row in counted.to_arrow().to_pylist()}
        kinds = [kind for kind, _, _ in KINDS.values()]
        assert found == {("10.1.2.3", kind): kinds.count(kind) for kind in kinds}
    plain, opened = (identity(Packets((path,), inner=inner)) for inner in (False, True))
    assert changed("M", plain, plain) is None
    assert changed("M", opened, plain) == "M: the inner packets of tunnels were read before, and now the outer ones"


FIELDS = [
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "gre.key",
    "gre.key.call_id",
    "vxlan.vni",
    "geneve.vni",
    "gtp.teid",
]


def by_tshark(path: Path) -> list[tuple[set[str], set[int]]]:
    """Return the addresses of the outermost and innermost IP headers that tshark finds, and the numbers of tunnels."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    command = ["tshark", "-r", str(path), "-n", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=;"]
    command += [argument for field in FIELDS for argument in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in lines:
        cells = [[cell for cell in field.split(";") if cell] for field in line.split("\t")]
        ends = {cell for field in cells[:4] for cell in (field[:1] + field[-1:])}
        found.append((ends, {int(cell, 0) for field in cells[4:] for cell in field}))
    return found


def address(value: bytes) -> str:
    four = value.startswith(mapped("0.0.0.0")[:12])
    return socket.inet_ntoa(value[12:]) if four else socket.inet_ntop(socket.AF_INET6, value)


def check_with_tshark(path: Path) -> None:
    names = ["srcIP", "destIP", *TUNNEL]
    tunnels = 0
    for row, (ends, numbers) in zip(rows(path, columns=names, inner=True), by_tshark(path), strict=True):
        shown = {address(row[name]) for name in names if name.endswith("IP") and row[name] is not None}
        assert shown == ends
        tunnels += row["tunnel"] is not None
        assert row["tunnel_id"] is None or row["tunnel_id"] in numbers
    assert tunnels


def test_made_tunnels_are_those_of_tshark(tmp_path: Path) -> None:
    path = tmp_path / "tunnels.pcap"
    # tshark takes port 8472 for VXLAN only if it is told so.
    frames = [ether(wrap(INNER)) for name, (_, _, wrap) in KINDS.items() if name != "vxlan of tags"]
    path.write_bytes(pcap([(SECOND * k, frame) for k, frame in enumerate([*frames, ether(INNER)])]))
    check_with_tshark(path)


@with_open_set
@pytest.mark.parametrize(
    "name",
    ["zeek__vxlan.pcap", "zeek__geneve.pcap", "zeek__erspanII.pcap", "zeek__gre-sample.pcap", "zeek__4in6.pcap",
     "zeek__6in4.pcap", "pcapplusplus__GrePackets.cap"],
)  # fmt: skip
def test_tunnels_of_others_are_those_of_tshark(name: str) -> None:
    check_with_tshark(OPEN_SET / "linktypes" / name)
