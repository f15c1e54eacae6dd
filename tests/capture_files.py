"""Captures that the tests write themselves, byte by byte, and how they read them back."""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from oop_engine.sources.capture import Capture

SECOND = 1_000_000_000


def mapped(text: str) -> bytes:
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(text)


def ipv4(payload: bytes, proto: int, *, options: bytes = b"", fragment: int = 0, total: int | None = None) -> bytes:
    size = 20 + len(options)
    length = size + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, length, 7, fragment, 61, proto, 0)
    return head + socket.inet_aton("10.1.2.3") + socket.inet_aton("192.0.2.9") + options + payload


SIX = (socket.inet_pton(socket.AF_INET6, "2001:db8::7"), socket.inet_pton(socket.AF_INET6, "2001:db8:1::9"))


def ipv6(payload: bytes, following: int, *, length: int | None = None) -> bytes:
    return (
        struct.pack(">IHBB", 6 << 28, len(payload) if length is None else length, following, 61)
        + SIX[0]
        + SIX[1]
        + payload
    )


def tcp(content: bytes = b"", flags: int = 0x12) -> bytes:
    return struct.pack(">HHIIBBHHH", 443, 50_000, 1, 2, 5 << 4, flags, 512, 0, 0) + content


def syn(options: bytes) -> bytes:
    """Open a connection with options, whose bytes are a multiple of four."""
    return struct.pack(">HHIIBBHHH", 443, 50_000, 1, 0, 5 + len(options) // 4 << 4, 2, 512, 0, 0) + options


def udp(content: bytes = b"") -> bytes:
    return struct.pack(">HHHH", 53, 5353, 8 + len(content), 0) + content


def ether(packet: bytes, kind: int = 0x0800) -> bytes:
    return b"\2" * 6 + b"\4" * 6 + struct.pack(">H", kind) + packet


MAGIC = {1000: 0xA1B2C3D4, 1: 0xA1B23C4D}


Record = tuple[int, bytes]  # nanoseconds, bytes


def pcap(records: list[Record], *, order: str = "<", tick: int = 1000, link: int = 1, wire: int = 0) -> bytes:
    out = bytearray(struct.pack(order + "IHHiIII", MAGIC[tick], 2, 4, 0, 0, 65_535, link))
    for ns, data in records:
        out += struct.pack(order + "IIII", ns // SECOND, ns % SECOND // tick, len(data), wire or len(data)) + data
    return bytes(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += b"\0" * (-len(body) % 4)
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    order: str = "<", *, link: int = 1, snaplen: int = 0, resolution: int | None = None, since: int = 0
) -> bytes:
    body = struct.pack(order + "HHI", link, 0, snaplen)
    if resolution is not None:
        body += struct.pack(order + "HHB3x", 9, 1, resolution)
    if since:
        body += struct.pack(order + "HHq", 14, 8, since)
    return block(1, body + struct.pack(order + "HH", 0, 0), order)


def enhanced(ticks: int, data: bytes, order: str = "<", which: int = 0) -> bytes:
    head = struct.pack(order + "IIIII", which, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, head + data + b"\0" * (-len(data) % 4), order)


def table(source: Any, **options: Any) -> pa.Table:
    capture = Capture(io.BytesIO(source) if isinstance(source, bytes) else source, **options)
    return pa.Table.from_batches(capture.batches(), schema=capture.schema)


def rows(source: Any, **options: Any) -> list[dict[str, Any]]:
    read = table(source, **options)
    return (
        read.set_column(0, "ts", read["ts"].cast(pa.int64())).to_pylist()
        if "ts" in read.schema.names
        else read.to_pylist()
    )


def only(frame: bytes, link: int = 1) -> dict[str, Any]:
    (row,) = rows(pcap([(SECOND, frame)], link=link))
    return row


FRAMES = [
    ether(ipv4(tcp(b"hello"), 6)),
    ether(ipv4(udp(b"dns"), 17)),
    ether(ipv6(udp(), 17), 0x86DD),
    ether(b"arp", 0x0806),
]


RECORDS = [(SECOND * 1_700_000_000 + 250_000 * k, frame) for k, frame in enumerate(FRAMES)]


DATAGRAM = ipv4(udp(b"x"), 17)


LLC = b"\xaa\xaa\x03\0\0\0\x08\0"


WIFI = struct.pack("<BBH", 0x88, 1, 0) + b"\2" * 18 + b"\0\0" + b"\0\0"


LINKS = {
    "raw": (101, b""),
    "raw bsd": (12, b""),
    "ipv4": (228, b""),
    "null": (0, b"\2\0\0\0"),
    "null swapped": (0, b"\0\0\0\2"),
    "loop": (108, b"\0\0\0\2"),
    "null with an EtherType": (0, b"\x0f\0\x08\0"),
    "sll": (113, b"\0" * 14 + b"\x08\0"),
    "sll2": (276, b"\x08\0" + b"\0" * 18),
    "ppp": (9, b"\0\x21"),
    "ppp hdlc": (9, b"\xff\3\0\x21"),
    "ppp short": (9, b"\x21"),
    "pppoe": (51, b"\x11\0\0\1\0\x20\0\x21"),
    "fddi": (10, b"\x50" + b"\2" * 12 + LLC),
    "nflog": (239, b"\2\0\0\0" + b"\5\0\4\0z\0\0\0" + struct.pack("<HH", 4 + len(DATAGRAM), 9)),
    "nflog swapped": (239, b"\2\0\0\0" + b"\0\5\0\4z\0\0\0" + struct.pack(">HH", 4 + len(DATAGRAM), 9)),
    "wifi": (105, WIFI + LLC),
    "radiotap": (127, b"\0\0\x0a\0" + b"\0" * 6 + WIFI + LLC),
    "fcs bits": (0x5400_0065, b""),
}


def tag(kind: int, vid: int) -> bytes:
    return struct.pack(">HH", kind, 0xE000 | vid)


MPLS_LABEL, MPLS_LAST = b"\0\x01\0\x40", b"\0\x02\x01\x40"


SHIMS = {
    "vlan": (tag(0x8100, 5) + b"\x08\0", 5),
    "priority tag": (tag(0x8100, 0) + b"\x08\0", 0),
    "qinq": (tag(0x88A8, 7) + tag(0x8100, 5) + b"\x08\0", 7),
    "five tags": (b"".join(tag(0x8100, v) for v in (9, 8, 7, 6, 5)) + b"\x08\0", 9),
    "9100": (tag(0x9100, 4) + b"\x08\0", 4),
    "pppoe": (b"\x88\x64\x11\0\0\1\0\x20\0\x21", None),
    "mpls": (b"\x88\x47" + MPLS_LABEL + MPLS_LAST, None),
    "mpls in vlan": (tag(0x8100, 5) + b"\x88\x47" + MPLS_LAST, 5),
    "snap": (b"\0\x40" + LLC, None),
    "llc": (b"\0\x40\6\6\3", None),
    "snap in vlan": (tag(0x8100, 5) + b"\0\x40" + LLC, 5),
    "pppoe mpls": (b"\x88\x64\x11\0\0\1\0\x20\2\x81" + MPLS_LAST, None),
}


WHOLE = {
    "pcap": pcap(RECORDS),
    "pcapng": section() + interface() + b"".join(enhanced(ns // 1000, data) for ns, data in RECORDS),
}


def rows_of(capture: Capture) -> list[dict[str, Any]]:
    return [
        {**row, "ts": ts}
        for batch in capture.batches()
        for row, ts in zip(batch.to_pylist(), batch["ts"].cast(pa.int64()).to_pylist(), strict=True)
    ]


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


def noise(count: int) -> list[Record]:
    """Give frames that hardly compress, so that compressed captures can be cut at many places."""
    rng = np.random.default_rng(7)
    return [(SECOND + k, ether(ipv4(udp(rng.bytes(60)), 17))) for k in range(count)]
