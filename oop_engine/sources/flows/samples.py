"""Turn sFlow's flow samples into rows: the fields of sample and records, and the place of the sampled header.

The headers themselves are left to the decoder of captures. A sample's records are read behind comparisons with its end;
one that reaches beyond gives what came before it, and the sample is counted as bad.
"""

from __future__ import annotations

from typing import Final

from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows.entries import Whole
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u32_be

# What is known of a sample; -1 where it was not said.
S_HEADER: Final = 0  # where the sampled packet's first byte lies
S_CAPLEN: Final = 1
S_LENGTH: Final = 2
S_LINK: Final = 3  # the link type, as captures number it
S_RATE: Final = 4
S_IN: Final = 5
S_OUT: Final = 6
S_VLAN: Final = 7
S_HOP: Final = 8  # where the next hop's address lies
S_HOP_BYTES: Final = 9
S_SRC_MASK: Final = 10
S_DST_MASK: Final = 11
S_SRC_AS: Final = 12
S_DST_AS: Final = 13
S_PACKET: Final = 14  # where a record of a packet's addresses and ports, not its header, lies
S_PACKET_BYTES: Final = 15  # bytes of an address in it
S_WIDTH: Final = 16


@kernel
def _link(protocol: Whole) -> Whole:
    """Return the link type of a capture for sFlow's number of a header protocol; -1 where there is none."""
    if protocol == 1:
        return int64(1)
    if protocol == 4:
        return int64(10)
    if protocol == 7:
        return int64(9)
    if protocol == 11:
        return int64(228)
    if protocol == 12:
        return int64(229)
    return int64(-1)


@kernel
def read_samples(
    data: NDArray[uint8], run_at: NDArray[int64], run_count: NDArray[int64], samples: NDArray[int64],
    bad: NDArray[int64],
) -> None:  # fmt: skip
    """Read the first flow samples of datagrams, as many of each as `run_count` says; count the bad ones of each."""
    row = 0
    run = 0
    at = int64(0)
    left_here = int64(0)
    while row < len(samples):
        if left_here == 0:
            at = run_at[run]
            left_here = run_count[run]
            run += 1
        kind = u32_be(data, at)
        size = u32_be(data, at + 4)
        p = at + 8
        last = p + size
        at = last
        if not ((kind == 1 and size >= 32) or (kind == 3 and size >= 44)):
            continue
        for s in range(S_WIDTH):
            samples[row, s] = -1
        if kind == 1:
            rate = p + 8
            inward = u32_be(data, p + 20)
            outward = u32_be(data, p + 24)
            # The two upper bits say what the number is: 0 for an interface.
            samples[row, S_IN] = inward if inward >> 30 == 0 else -1
            samples[row, S_OUT] = outward if outward >> 30 == 0 else -1
            p += 28
        else:
            rate = p + 12
            if data[uint64(p + 27)] == 0:
                samples[row, S_IN] = u32_be(data, p + 28)
            if data[uint64(p + 35)] == 0:
                samples[row, S_OUT] = u32_be(data, p + 36)
            p += 40
        samples[row, S_RATE] = max(u32_be(data, rate), 1)
        left = u32_be(data, p)
        p += 4
        fault = False
        while left > 0:
            left -= 1
            if p + 8 > last:
                fault = True
                break
            record = u32_be(data, p)
            length = u32_be(data, p + 4)
            p += 8
            if p + length > last:
                fault = True
                break
            edge = p + length
            if record == 1 and length >= 16:
                kept = u32_be(data, p + 12)
                if p + 16 + kept > edge:
                    fault = True
                    kept = edge - p - 16
                samples[row, S_LINK] = _link(u32_be(data, p))
                wire = u32_be(data, p + 4)
                samples[row, S_LENGTH] = min(wire, 0x7FFFFFFF)
                samples[row, S_CAPLEN] = kept
                samples[row, S_HEADER] = p + 16
            elif record == 3 and length >= 32:
                samples[row, S_PACKET] = p
                samples[row, S_PACKET_BYTES] = 4
            elif record == 4 and length >= 56:
                samples[row, S_PACKET] = p
                samples[row, S_PACKET_BYTES] = 16
            elif record == 1001 and length >= 16:
                samples[row, S_VLAN] = u32_be(data, p) & 0xFFF
            elif (record == 1002 or record == 1003) and length >= 4:
                kind = int64(data[uint64(p + 3)])
                hop = int64(0)
                if kind == 1:
                    hop = int64(4)
                elif kind == 2:
                    hop = int64(16)
                q = p + 4 + hop
                if q > edge:
                    fault = True
                    break
                if hop and samples[row, S_HOP] < 0:
                    samples[row, S_HOP] = p + 4
                    samples[row, S_HOP_BYTES] = hop
                if record == 1002 and q + 8 <= edge:
                    samples[row, S_SRC_MASK] = int64(data[uint64(q + 3)])
                    samples[row, S_DST_MASK] = int64(data[uint64(q + 7)])
                elif record == 1003 and q + 16 <= edge:
                    samples[row, S_SRC_AS] = u32_be(data, q + 4)
                    # The destination is the last of the last segment of the path.
                    parts = u32_be(data, q + 12)
                    q += 16
                    while parts > 0:
                        parts -= 1
                        if q + 8 > edge:
                            fault = True
                            break
                        many = u32_be(data, q + 4)
                        q += 8 + 4 * many
                        if q > edge:
                            fault = True
                            break
                        if many:
                            samples[row, S_DST_AS] = u32_be(data, q - 4)
            p = edge
        bad[run - 1] += fault
        left_here -= 1
        row += 1


@kernel
def read_packets(data: NDArray[uint8], samples: NDArray[int64], entry: Whole, found: NDArray[int64]) -> None:
    """Read an entry of the records of packets: 0 length, 1 protocol, 2 and 3 ports, 4 flags, 5 type of service."""
    for k in range(len(samples)):
        p = samples[k, S_PACKET]
        found[k] = -1
        if p >= 0:
            if entry > 1:
                p += 2 * samples[k, S_PACKET_BYTES]
            p += 4 * entry
            found[k] = u32_be(data, p)


@kernel
def read_addresses(
    data: NDArray[uint8], position: NDArray[int64], size: NDArray[int64], rows: NDArray[int64], out: NDArray[uint8]
) -> None:
    """Write the addresses of 4 or 16 bytes at these positions to their rows of `out`; those at -1 are left out."""
    for k in range(len(position)):
        p = position[k]
        if p < 0:
            continue
        to = 16 * rows[k]
        if size[k] == 4:
            for b in range(12):
                out[uint64(to + b)] = uint8(255) if b >= 10 else uint8(0)
            for b in range(4):
                out[uint64(to + 12 + b)] = data[uint64(p + b)]
        else:
            for b in range(16):
                out[uint64(to + b)] = data[uint64(p + b)]
