"""Decoding reads the outermost headers of each packet: link layer, IP, transport.

Arithmetic is on int64 and only an index is cast to uint64. Every byte is read behind a comparison with the end of what
was captured, so that no packet can be read past its end.
"""

from __future__ import annotations

from typing import Final

from numpy import bool_, int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import ColumnTables, PacketTables
from operators.kernels.compile.kernel import inlined_kernel, kernel
from operators.kernels.data.byte_order import Whole, u16_be, u16_le, u32_be, u32_le, u64_le

# What a row has (bits of `seen`); a column without its bit is null in that row.
HAS_IP: Final = 1
HAS_PROTO: Final = 2
HAS_PORTS: Final = 4
HAS_FLAGS: Final = 8
HAS_PAYLOAD: Final = 16
HAS_VLAN: Final = 32
HAS_FRAGMENT: Final = 64
HAS_SEQ: Final = 128
HAS_ACK: Final = 256
HAS_WINDOW: Final = 512
HAS_MSS: Final = 1024
EVERY: Final = 0x7FF
"""All of these."""

# The columns wanted (bits of `want`); arrays of the others may be empty.
WANT_SRC: Final = 1
WANT_DST: Final = 2
WANT_PORTS: Final = 4
WANT_PROTO: Final = 8
WANT_FLAGS: Final = 16
WANT_IP_LENGTH: Final = 32
WANT_PAYLOAD: Final = 64
WANT_TTL: Final = 128
WANT_VLAN: Final = 256
WANT_FRAGMENT: Final = 512
WANT_STATUS: Final = 1024
WANT_SEQ: Final = 2048
WANT_ACK: Final = 4096
WANT_WINDOW: Final = 8192
WANT_MSS: Final = 16384

DECODED: Final = 0
IP_ONLY: Final = 1
NOT_IP: Final = 2
TRUNCATED: Final = 3

# What stands at the place reached: an EtherType (below 1,536: LLC), or one of these.
_IPV4, _IPV6 = 0x0800, 0x86DD
OTHER = 0x10000  # nothing that is decoded
SHORT = 0x10001  # the captured bytes end here
_GUESS = 0x10002  # IP of the version its first nibble says
_PPP = 0x10003  # a PPP protocol number
_MAPPED = 0xFFFF0000  # what stands before an IPv4 address in memory
_SYN = 2


@inlined_kernel
def link_layer(data: NDArray[uint8], at: Whole, end: Whole, link: Whole) -> tuple[Whole, Whole]:
    """Read the link layer's header; return the EtherType behind it, and where that begins."""
    ether = int64(OTHER)
    if link == 1:  # Ethernet
        ether = int64(SHORT)
        if at + 14 <= end:
            ether = u16_be(data, at + 12)
            at += 14
    elif link == 101 or link == 12 or link == 14 or link == 228 or link == 229:  # raw IP
        ether = int64(_GUESS)
    elif link == 113:  # Linux cooked
        ether = int64(SHORT)
        if at + 16 <= end:
            ether = u16_be(data, at + 14)
            at += 16
    elif link == 276:  # Linux cooked 2
        ether = int64(SHORT)
        if at + 20 <= end:
            ether = u16_be(data, at)
            at += 20
    elif link == 0 or link == 108:  # BSD loopback: a family in the writer's byte order, or the network's
        ether = int64(SHORT)
        if at + 4 <= end:
            family = u16_le(data, at)
            if family == 0:
                family = u16_be(data, at + 2)
            # What is no family may be an EtherType in the last two bytes.
            ether = max(u16_be(data, at + 2), int64(1536))
            if family == 2:
                ether = int64(_IPV4)
            elif family == 24 or family == 28 or family == 30 or family == 10:
                ether = int64(_IPV6)
            at += 4
    elif link == 9 or link == 50:  # PPP, with or without its HDLC framing
        ether = int64(_PPP)
        if at + 2 <= end and data[uint64(at)] == 0xFF and data[uint64(at + 1)] == 0x03:
            at += 2
    elif link == 51:  # PPPoE
        ether = int64(0x8864)
    elif link == 10:  # FDDI, then LLC
        ether = int64(0)
        at += 13
    elif link == 239:  # netfilter log: a chain of attributes in the writer's byte order, one of them the packet
        ether = int64(SHORT)
        at += 4
        while at + 4 <= end:
            size = u16_le(data, at)
            kind = u16_le(data, at + 2)
            if kind & 0x3FFF > 255:
                size = u16_be(data, at)
                kind = u16_be(data, at + 2)
            if size < 4:
                ether = int64(OTHER)
                break
            if kind & 0x3FFF == 9:
                ether = int64(_GUESS)
                at += 4
                break
            at += (size + 3) & ~3
    elif link == 105 or link == 127:  # 802.11, alone or behind a radiotap header
        ether = int64(SHORT)
        if link == 127:
            at += u16_le(data, at + 2) if at + 4 <= end else int64(4)
        if at + 26 <= end:
            control = int64(data[uint64(at)])
            bits = int64(data[uint64(at + 1)])
            at += 24
            if bits & 0x03 == 0x03:
                at += 6
            ether = int64(0)
            # Only data frames that hold data in the clear, and one frame each, are decoded.
            if control & 0x4C != 0x08 or bits & 0x40:
                ether = int64(OTHER)
            elif control & 0x80:
                if at + 2 > end:
                    ether = int64(SHORT)
                elif data[uint64(at)] & 0x80:
                    ether = int64(OTHER)
                at += 6 if bits & 0x80 else 2
    return ether, at


@inlined_kernel
def shims(
    data: NDArray[uint8], at: Whole, end: Whole, ether: Whole
) -> tuple[Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole]:
    """Pass over tags, labels and shims up to the first IP header; each round moves on or ends.

    Return what is there, where, the first and the second VLAN tag or -1, how many there are, the label on top and the
    one below all others or -1, how many there are, and the EtherType behind the tags.
    """
    tag = int64(-1)
    second = int64(-1)
    tags = int64(0)
    top = int64(-1)
    bottom = int64(-1)
    labels = int64(0)
    behind = ether
    while ether != _IPV4 and ether != _IPV6 and ether != OTHER and ether != SHORT:
        if ether == 0x8100 or ether == 0x88A8 or ether == 0x9100:
            if at + 4 > end:
                ether = int64(SHORT)
                break
            if tag < 0:
                tag = u16_be(data, at) & 0xFFF
            elif second < 0:
                second = u16_be(data, at) & 0xFFF
            tags += 1
            ether = u16_be(data, at + 2)
            behind = ether
            at += 4
        elif ether < 1536:
            if at + 3 > end:
                ether = int64(SHORT)
            elif data[uint64(at)] == 0x06 and data[uint64(at + 1)] == 0x06:
                ether = int64(_IPV4)
                at += 3
            elif data[uint64(at)] != 0xAA or data[uint64(at + 1)] != 0xAA or data[uint64(at + 2)] != 0x03:
                ether = int64(OTHER)
            elif at + 8 > end:
                ether = int64(SHORT)
            else:
                ether = u16_be(data, at + 6)
                # 0 is an encapsulated EtherType, F8 the bridge-tunnel form of it; others are a vendor's own.
                organisation = u16_be(data, at + 3) << 8 | int64(data[uint64(at + 5)])
                if organisation != 0 and organisation != 0xF8:
                    ether = int64(OTHER)
                at += 8
        elif ether == 0x8864:
            ether = int64(_PPP)
            at += 6
        elif ether == _PPP:
            if at + 2 > end:
                ether = int64(SHORT)
                break
            protocol = int64(data[uint64(at)])
            if protocol & 1:  # compressed to one byte
                at += 1
            else:
                protocol = protocol << 8 | int64(data[uint64(at + 1)])
                at += 2
            ether = int64(OTHER)
            if protocol == 0x21:
                ether = int64(_IPV4)
            elif protocol == 0x57:
                ether = int64(_IPV6)
            elif protocol == 0x281 or protocol == 0x283:
                ether = int64(0x8847)
        elif ether == 0x8847 or ether == 0x8848:
            if at + 4 > end:
                ether = int64(SHORT)
                break
            bottom = u32_be(data, at) >> 12
            if top < 0:
                top = bottom
            labels += 1
            if data[uint64(at + 2)] & 1:
                ether = int64(_GUESS)
            at += 4
        elif ether == _GUESS:
            ether = int64(SHORT)
            if at < end:
                version = data[uint64(at)] >> 4
                ether = int64(OTHER)
                if version == 4:
                    ether = int64(_IPV4)
                elif version == 6:
                    ether = int64(_IPV6)
        else:
            ether = int64(OTHER)
    return ether, at, tag, second, tags, top, bottom, labels, behind


@inlined_kernel
def ip_header(
    data: NDArray[uint8], at: Whole, end: Whole, wire: Whole, ether: Whole
) -> tuple[Whole, Whole, bool | bool_, Whole, Whole, Whole, Whole, Whole, Whole, uint64, uint64, uint64, uint64]:
    """Read the IP header, with the extension headers of IPv6.

    Return where the transport header begins and the packet ends, whether it is a whole packet, how far it could be
    decoded, what it has, its protocol, hops left, length and place as a fragment, and both addresses.
    """
    has = 0
    source_high = uint64(0)
    source_low = uint64(0)
    target_high = uint64(0)
    target_low = uint64(0)
    number = int64(0)
    hops = int64(0)
    total = int64(0)
    part = int64(0)
    limit = at
    whole = False
    condition = NOT_IP
    if ether == SHORT:
        condition = TRUNCATED
    elif ether == _IPV4:
        if at + 20 > end:
            condition = TRUNCATED
        elif data[uint64(at)] >> 4 == 4:
            condition = IP_ONLY
            has |= HAS_IP | HAS_PROTO
            total = u16_be(data, at + 2)
            word = u16_be(data, at + 6)
            hops = int64(data[uint64(at + 8)])
            number = int64(data[uint64(at + 9)])
            source_low = uint64(_MAPPED) | uint64(u32_le(data, at + 12)) << uint64(32)
            target_low = uint64(_MAPPED) | uint64(u32_le(data, at + 16)) << uint64(32)
            if total == 0:  # left to the network card, or longer than the number can say
                total = max(wire - at, 20)
            if word & 0x3FFF:
                part = (word & 0x1FFF) << 3
                has |= HAS_FRAGMENT
            limit = at + total
            header = (int64(data[uint64(at)]) & 15) << 2
            whole = part == 0 and header >= 20
            at += header
    elif ether == _IPV6:
        if at + 40 > end:
            condition = TRUNCATED
        elif data[uint64(at)] >> 4 == 6:
            condition = IP_ONLY
            has |= HAS_IP | HAS_PROTO
            total = u16_be(data, at + 4) + 40
            number = int64(data[uint64(at + 6)])
            hops = int64(data[uint64(at + 7)])
            source_high = u64_le(data, at + 8)
            source_low = u64_le(data, at + 16)
            target_high = u64_le(data, at + 24)
            target_low = u64_le(data, at + 32)
            if total == 40:  # a jumbogram or a segment left to the network card: what was on the wire
                total = max(wire - at, 40)
            limit = at + total
            at += 40
            whole = True
            for _ in range(8):
                if number not in (0, 43, 44, 51, 60, 135, 139, 140) or part > 0:
                    break
                if at + 8 > min(end, limit):
                    # The chain goes on beyond what is here: the transport protocol is unknown.
                    condition = TRUNCATED if end < limit else IP_ONLY
                    has &= ~HAS_PROTO
                    whole = False
                    break
                following = int64(data[uint64(at)])
                if number == 44:
                    word = u16_be(data, at + 2)
                    if word & 0xFFF9:  # all zero: an atomic fragment, which is a whole packet
                        part = word & 0xFFF8
                        has |= HAS_FRAGMENT
                    at += 8
                elif number == 51:
                    at += (int64(data[uint64(at + 1)]) + 2) << 2
                else:
                    at += (int64(data[uint64(at + 1)]) + 1) << 3
                number = following
            whole = whole and part == 0
    return (
        at, limit, whole, condition, has, number, hops, total, part, source_high, source_low, target_high, target_low
    )  # fmt: skip


@inlined_kernel
def _transport(
    data: NDArray[uint8], at: Whole, end: Whole, limit: Whole, number: Whole, condition: Whole
) -> tuple[Whole, Whole, Whole, Whole, Whole, Whole]:
    """Read the transport header of a whole packet or first fragment: ports, flags, payload, how far, what it has."""
    has = 0
    first = int64(0)
    second = int64(0)
    bits = int64(0)
    content = int64(0)
    edge = min(end, limit)
    need = 0
    if number == 6:
        need = 20
    elif number == 17 or number == 136 or number == 1 or number == 58:
        need = 8
    elif number == 132 or number == 33:
        need = 12
    if need:
        # What the IP length leaves out is malformed (IP only); what the capture leaves out is truncated.
        condition = DECODED
        if at + need > edge:
            condition = TRUNCATED if at + need <= limit else IP_ONLY
        if (number == 1 or number == 58) and at + 2 <= edge:
            first = int64(data[uint64(at)])
            second = int64(data[uint64(at + 1)])
            has |= HAS_PORTS
        elif number != 1 and number != 58 and at + 4 <= edge:
            first = u16_be(data, at)
            second = u16_be(data, at + 2)
            has |= HAS_PORTS
        if number == 6:
            if at + 14 <= edge:
                bits = int64(data[uint64(at + 13)])
                has |= HAS_FLAGS | HAS_PAYLOAD
                content = max(limit - at - (int64(data[uint64(at + 12)]) >> 4 << 2), 0)
        elif at + need <= limit:
            content = limit - at - need
            has |= HAS_PAYLOAD
    return first, second, bits, content, condition, has


@inlined_kernel
def _tcp(data: NDArray[uint8], at: Whole, edge: Whole, bits: Whole) -> tuple[Whole, Whole, Whole, Whole, Whole]:
    """Read what only TCP has: sequence and acknowledgement number, window, the largest segment, what there is of it."""
    has = 0
    sequence = int64(0)
    answer = int64(0)
    window = int64(0)
    largest = int64(0)
    if at + 8 <= edge:
        sequence = u32_be(data, at + 4)
        has |= HAS_SEQ
    if at + 12 <= edge:
        answer = u32_be(data, at + 8)
        has |= HAS_ACK
    if at + 16 <= edge:
        window = u16_be(data, at + 14)
        has |= HAS_WINDOW
    if bits & _SYN:
        last = min(at + (int64(data[uint64(at + 12)]) >> 4 << 2), edge)
        at += 20
        while at + 4 <= last:
            kind = data[uint64(at)]
            size = int64(1) if kind == 1 else int64(data[uint64(at + 1)])
            if kind == 2 and size == 4:
                largest = u16_be(data, at + 2)
                has |= HAS_MSS
            if kind == 0 or kind == 2 or size == 0:
                break
            at += size
    return sequence, answer, window, largest, has


@kernel
def decode(
    data: NDArray[uint8], rows: int, packets: PacketTables, want: int, columns: ColumnTables
) -> tuple[Whole, Whole, Whole]:
    """Decode `rows` packets of data[offset[i] : offset[i] + caplen[i]] into the rows row[i] of the columns.

    Gives (packets not IP, packets cut short, the bits of `seen` that all rows have). An IPv4 address is mapped
    (::ffff:a.b.c.d).
    """
    row, offset, caplen, length, links = packets
    (
        src, dst, src_port, dst_port, proto, flags, ip_length, payload, ttl, vlan, fragment, status, seq, ack,
        tcp_window, mss, seen,
    ) = columns  # fmt: skip
    others = 0
    shorts = 0
    common = EVERY
    for i in range(rows):
        at = int64(offset[uint64(i)])
        end = at + int64(caplen[uint64(i)])
        wire = at + int64(length[uint64(i)])
        link = int64(links[uint64(i)])
        ether, at = link_layer(data, at, end, link)
        ether, at, tag, _, _, _, _, _, _ = shims(data, at, end, ether)
        (
            at, limit, whole, condition, has, number, hops, total, part,
            source_high, source_low, target_high, target_low,
        ) = ip_header(data, at, end, wire, ether)  # fmt: skip
        if tag >= 0:
            has |= HAS_VLAN
        else:
            tag = int64(0)
        first = second = bits = content = sequence = answer = window = largest = int64(0)
        if whole:
            first, second, bits, content, condition, more = _transport(data, at, end, limit, number, condition)
            has |= more
            if number == 6:
                sequence, answer, window, largest, more = _tcp(data, at, min(end, limit), bits)
                has |= more
        to = int64(row[uint64(i)])
        others += condition == NOT_IP
        shorts += condition == TRUNCATED
        seen[uint64(to)] = has
        common &= has
        if want & WANT_SRC:
            src[uint64(2 * to)] = source_high
            src[uint64(2 * to + 1)] = source_low
        if want & WANT_DST:
            dst[uint64(2 * to)] = target_high
            dst[uint64(2 * to + 1)] = target_low
        if want & WANT_PORTS:
            src_port[uint64(to)] = first
            dst_port[uint64(to)] = second
        if want & WANT_PROTO:
            proto[uint64(to)] = number
        if want & WANT_FLAGS:
            flags[uint64(to)] = bits
        if want & WANT_IP_LENGTH:
            ip_length[uint64(to)] = total
        if want & WANT_PAYLOAD:
            payload[uint64(to)] = content
        if want & WANT_TTL:
            ttl[uint64(to)] = hops
        if want & WANT_VLAN:
            vlan[uint64(to)] = tag
        if want & WANT_FRAGMENT:
            fragment[uint64(to)] = part
        if want & WANT_STATUS:
            status[uint64(to)] = condition
        if want & WANT_SEQ:
            seq[uint64(to)] = sequence
        if want & WANT_ACK:
            ack[uint64(to)] = answer
        if want & WANT_WINDOW:
            tcp_window[uint64(to)] = window
        if want & WANT_MSS:
            mss[uint64(to)] = largest
    return others, shorts, common
