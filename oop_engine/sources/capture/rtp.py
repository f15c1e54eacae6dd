"""Headers of RTP in what UDP carries."""

from __future__ import annotations

from numpy import uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import PayloadTables, RtpTables
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u16_be, u32_be

_HEADER = 12
_CONTROL = (72, 76)  # types that nobody uses, as those of RTCP look so


@kernel
def read_rtp(data: NDArray[uint8], payloads: PayloadTables, found: RtpTables) -> None:
    """Read the headers of datagrams that may be of RTP: of version 2 and whole, and not of RTCP; -1 for others."""
    start, stop, proto, _, _ = payloads
    kind, number, time, source = found
    for i in range(len(start)):
        at = start[uint64(i)]
        kind[uint64(i)] = number[uint64(i)] = time[uint64(i)] = source[uint64(i)] = -1
        if proto[uint64(i)] != 17 or at + _HEADER > stop[uint64(i)] or data[uint64(at)] >> 6 != 2:
            continue
        said = data[uint64(at + 1)] & 0x7F
        if said >= _CONTROL[0] and said <= _CONTROL[1]:
            continue
        kind[uint64(i)] = said
        number[uint64(i)] = u16_be(data, at + 2)
        time[uint64(i)] = u32_be(data, at + 4)
        source[uint64(i)] = u32_be(data, at + 8)
