"""The link layer of each packet: hardware addresses, the EtherType behind all VLAN tags, tags and labels."""

from __future__ import annotations

from typing import Final

from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.decode import OTHER, link_layer, shims
from oop_engine.sources.capture.layout import LinkTables, PacketTables
from operators.kernels.compile.kernel import inlined_kernel, kernel
from operators.kernels.data.byte_order import Whole, u16_be, u16_le, u32_be

#: What stands in a table where a packet has none.
NONE: Final = -1


@kernel
def _mac(data: NDArray[uint8], at: Whole, end: Whole) -> int64:
    """Read the six bytes of a hardware address; NONE where they are not all there."""
    return u16_be(data, at) << 32 | u32_be(data, at + 2) if at + 6 <= end else int64(NONE)


@inlined_kernel
def _addresses(data: NDArray[uint8], at: Whole, end: Whole, link: Whole) -> tuple[Whole, Whole]:
    """Read who sent a frame and whom it is for, NONE where the link type has no such address."""
    source = int64(NONE)
    target = int64(NONE)
    if link == 1:  # Ethernet
        target = _mac(data, at, end)
        source = _mac(data, at + 6, end)
    elif link == 10:  # FDDI
        target = _mac(data, at + 1, end)
        source = _mac(data, at + 7, end)
    elif link == 113:  # Linux cooked
        if at + 6 <= end and u16_be(data, at + 4) == 6:
            source = _mac(data, at + 6, end)
    elif link == 276:  # Linux cooked 2
        if at + 12 <= end and data[uint64(at + 11)] == 6:
            source = _mac(data, at + 12, end)
    elif link == 105 or link == 127:  # 802.11: which address is which hangs on the two bits of its direction
        if link == 127:
            at += u16_le(data, at + 2) if at + 4 <= end else end - at
        if at + 2 <= end and data[uint64(at)] & 0x0C == 0x08:
            bits = data[uint64(at + 1)] & 3
            target = _mac(data, at + 16 if bits & 1 else at + 4, end)
            source = _mac(data, at + 10, end)
            if bits == 2:
                source = _mac(data, at + 16, end)
            elif bits == 3:
                source = _mac(data, at + 24, end)
    return source, target


@kernel
def read_links(data: NDArray[uint8], rows: int, packets: PacketTables, found: LinkTables) -> None:
    """Read the link layer of `rows` packets of data[offset[i] : offset[i] + caplen[i]] into the rows of the tables."""
    _, offset, caplen, _, links = packets
    source, target, kind, second, tags, top, bottom, labels = found
    for i in range(rows):
        at = int64(offset[uint64(i)])
        end = at + int64(caplen[uint64(i)])
        link = int64(links[uint64(i)])
        source[uint64(i)], target[uint64(i)] = _addresses(data, at, end, link)
        ether, at = link_layer(data, at, end, link)
        ether, at, _, inner, count, high, low, stack, behind = shims(data, at, end, ether)
        named = (link == 1 or link == 113 or link == 276) and behind >= 1536 and behind < OTHER
        kind[uint64(i)] = behind if named else int64(NONE)
        second[uint64(i)] = inner
        tags[uint64(i)] = min(count, 255)
        top[uint64(i)] = high
        bottom[uint64(i)] = low
        labels[uint64(i)] = min(stack, 255)
