"""Where the payload of each packet begins and ends, and between which ports."""

from __future__ import annotations

from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.decode import ip_header, link_layer, shims
from oop_engine.sources.capture.layout import PacketTables, PayloadTables
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u16_be


@kernel
def find_payloads(data: NDArray[uint8], rows: int, packets: PacketTables, found: PayloadTables) -> None:
    """Find what TCP and UDP carry in `rows` packets, as far as it was captured: data[start[i] : stop[i]].

    `proto` is 0 where there is no whole header of either, as in later fragments.
    """
    _, offset, caplen, length, links = packets
    start, stop, proto, source, target = found
    for i in range(rows):
        at = int64(offset[uint64(i)])
        end = at + int64(caplen[uint64(i)])
        wire = at + int64(length[uint64(i)])
        ether, at = link_layer(data, at, end, int64(links[uint64(i)]))
        ether, at, _, _, _, _, _, _, _ = shims(data, at, end, ether)
        at, limit, whole, _, _, number, _, _, _, _, _, _, _ = ip_header(data, at, end, wire, ether)
        edge = min(end, limit)
        size = int64(0)
        if whole and number == 17 and at + 8 <= edge:
            size = int64(8)
            said = u16_be(data, at + 4)
            if said >= 8:
                edge = min(edge, at + said)
        elif whole and number == 6 and at + 20 <= edge:
            size = int64(data[uint64(at + 12)]) >> 4 << 2
        proto[uint64(i)] = 0
        start[uint64(i)] = stop[uint64(i)] = at
        if size >= 8 and at + size <= edge:
            proto[uint64(i)] = number
            source[uint64(i)] = u16_be(data, at)
            target[uint64(i)] = u16_be(data, at + 2)
            start[uint64(i)] = at + size
            stop[uint64(i)] = edge
