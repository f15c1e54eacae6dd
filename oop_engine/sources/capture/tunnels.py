"""Packets in tunnels: GRE, VXLAN, Geneve, GTP-U, and IP in IP are opened, one inside the other up to four deep.

A tunnel is open where its header is whole and what it holds has an IP header; else the packet is the outer one.
"""

from __future__ import annotations

from typing import Final

from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.decode import HAS_IP, ip_header, link_layer, shims
from oop_engine.sources.capture.layout import PacketTables, TunnelTables
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import Whole, u16_be, u32_be

DEEPEST: Final = 4
"""How many tunnels are opened at most."""
NAMES: Final = ("gre", "vxlan", "geneve", "gtp-u", "ip-in-ip")
"""The kinds of tunnels, from 1 on."""
_GRE, _VXLAN, _GENEVE, _GTP, _IP = 1, 2, 3, 4, 5
_ETHERNET, _PPP, _RAW = 1, 9, 101
_CLOSED = -1
_MOST_EXTENSIONS = 16


@kernel
def _gre(data: NDArray[uint8], at: Whole, end: Whole) -> tuple[Whole, Whole, Whole]:
    """Open GRE at data[at]; return where what it holds begins, its link type, and the key; -1 for none."""
    closed = int64(_CLOSED), int64(_CLOSED), int64(_CLOSED)
    if at + 4 > end:
        return closed
    bits = u16_be(data, at)
    protocol = u16_be(data, at + 2)
    key = int64(_CLOSED)
    at += 4
    if bits & 7 > 1 or bits & 0x4000:  # another version, or routing
        return closed
    if bits & 0x8000:
        at += 4
    if bits & 0x2000:
        if at + 4 > end:
            return closed
        # That of PPTP is the payload's length, then the number of the call.
        key = u16_be(data, at + 2) if bits & 7 else u32_be(data, at)
        at += 4
    at += 4 if bits & 0x1000 else 0
    if bits & 7:
        at += 4 if bits & 0x80 else 0
        return (at, int64(_PPP), key) if protocol == 0x880B else closed
    if protocol == 0x0800 or protocol == 0x86DD:
        return at, int64(_RAW), key
    if protocol == 0x6558:
        return at, int64(_ETHERNET), key
    if protocol == 0x88BE:  # ERSPAN, whose second type has a number and a header
        return at + 8 if bits & 0x1000 else at, int64(_ETHERNET), key
    if protocol == 0x22EB and at + 12 <= end:
        return at + 20 if data[uint64(at + 11)] & 1 else at + 12, int64(_ETHERNET), key
    return closed


@kernel
def _gtp(data: NDArray[uint8], at: Whole, end: Whole) -> tuple[Whole, Whole, Whole]:
    """Open GTP-U at data[at], as `_gre` does: a message of version 1 that carries a packet."""
    closed = int64(_CLOSED), int64(_CLOSED), int64(_CLOSED)
    if at + 8 > end or data[uint64(at)] & 0xF0 != 0x30 or data[uint64(at + 1)] != 255:
        return closed
    bits = data[uint64(at)] & 7
    key = u32_be(data, at + 4)
    at += 8
    if bits:
        if at + 4 > end:
            return closed
        at += 4
        following = data[uint64(at - 1)] if bits & 4 else uint8(0)
        for _ in range(_MOST_EXTENSIONS):
            if following == 0:
                break
            if at >= end:
                return closed
            size = int64(data[uint64(at)]) << 2
            at += size
            if size == 0 or at > end:
                return closed
            following = data[uint64(at - 1)]
        if following != 0:
            return closed
    return at, int64(_RAW), key


@kernel
def _over_udp(
    data: NDArray[uint8], at: Whole, end: Whole, source: Whole, target: Whole
) -> tuple[Whole, Whole, Whole, Whole]:
    """Open what UDP carries at data[at] between two ports; return the kind, 0 for none, and the same as `_gre`."""
    closed = int64(0), int64(_CLOSED), int64(_CLOSED), int64(_CLOSED)
    if source == 2152 or target == 2152:
        begin, link, key = _gtp(data, at, end)
        return (int64(_GTP), begin, link, key) if begin >= 0 else closed
    if at + 8 > end:
        return closed
    if (target == 4789 or target == 8472) and data[uint64(at)] & 8:
        return int64(_VXLAN), at + 8, int64(_ETHERNET), u32_be(data, at + 4) >> 8
    if target == 6081 and data[uint64(at)] >> 6 == 0:
        begin = at + 8 + (int64(data[uint64(at)] & 0x3F) << 2)
        protocol = u16_be(data, at + 2)
        key = u32_be(data, at + 4) >> 8
        if protocol == 0x6558:
            return int64(_GENEVE), begin, int64(_ETHERNET), key
        if protocol == 0x0800 or protocol == 0x86DD:
            return int64(_GENEVE), begin, int64(_RAW), key
    return closed


@kernel
def find_tunnels(data: NDArray[uint8], rows: int, packets: PacketTables, found: TunnelTables) -> None:
    """Find the innermost packet of each of `rows` packets, and the outermost tunnel that holds it, 0 for none."""
    _, offsets, caplens, lengths, links = packets
    inner, parts, sizes, kinds, tunnel, number, sources, targets = found
    for i in range(rows):
        begin = int64(offsets[uint64(i)])
        end = begin + int64(caplens[uint64(i)])
        wire = begin + int64(lengths[uint64(i)])
        link = int64(links[uint64(i)])
        tunnel[uint64(i)] = 0
        number[uint64(i)] = _CLOSED
        kind = outer = key = int64(0)
        first_high = first_low = second_high = second_low = uint64(0)
        for depth in range(DEEPEST + 1):
            ether, at = link_layer(data, begin, end, link)
            ether, at, _, _, _, _, _, _, _ = shims(data, at, end, ether)
            (
                at, limit, whole, _, has, protocol, _, _, _, source_high, source_low, target_high, target_low,
            ) = ip_header(data, at, end, wire, ether)  # fmt: skip
            if depth > 0 and not has & HAS_IP:
                break
            if depth == 1:
                tunnel[uint64(i)] = outer
                number[uint64(i)] = key
                sources[uint64(2 * i)] = first_high
                sources[uint64(2 * i + 1)] = first_low
                targets[uint64(2 * i)] = second_high
                targets[uint64(2 * i + 1)] = second_low
            inner[uint64(i)] = begin
            parts[uint64(i)] = max(end - begin, 0)
            sizes[uint64(i)] = max(wire - begin, 0)
            kinds[uint64(i)] = link
            if not whole or depth == DEEPEST:
                break
            edge = min(end, limit)
            kind = begin = key = int64(_CLOSED)
            if protocol == 47:
                kind = int64(_GRE)
                begin, link, key = _gre(data, at, edge)
            elif protocol == 4 or protocol == 41:
                kind = int64(_IP)
                begin = at
                link = int64(_RAW)
            elif protocol == 17 and at + 8 <= edge:
                kind, begin, link, key = _over_udp(data, at + 8, edge, u16_be(data, at), u16_be(data, at + 2))
            if begin < 0 or begin >= edge:
                break
            if depth == 0:
                outer = kind
                first_high = source_high
                first_low = source_low
                second_high = target_high
                second_low = target_low
            end = edge
            wire = limit
