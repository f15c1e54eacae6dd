"""Decode common frames many at once: find them, gather their words side by side, check them, fill columns.

Common is an Ethernet frame, with one VLAN tag or none, that holds a whole IPv4 packet without options, and in it TCP
or UDP of which the capture has the header (and as much of UDP as of TCP). The row of any other is passed over and told
of, for the decoder that knows every layer. Bytes that may be no record end the work; the walk then decides what they
are.

Each step is a loop over the frames of a stretch, without a branch for each: the compiler makes vector instructions of
all but the gathering, and the words of a stretch stay in the first cache. A column that is not wanted costs nothing.
Records of one size, as most are that a snaplen cuts, are found without waiting for each one's length. While frames are
worked on, memory brings what comes next: it is asked for in several steps, since it answers few requests at a time.
"""

from __future__ import annotations

from typing import Final

from numpy import int32, int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import OutTables, PassedTables
from oop_engine.sources.capture.rows import STRETCH
from oop_engine.sources.capture.walk import CUT, FULL, MAX_CAPLEN, REACH
from operators.kernels.compile.kernel import inlined_kernel, kernel
from operators.kernels.compile.prefetch import LINE, prefetch
from operators.kernels.data.byte_order import Whole, u32_le, u64_le

# Where in `bases` each column's base stands.
TS: Final = 0
SRC: Final = 1
DST: Final = 2
SRC_PORT: Final = 3
DST_PORT: Final = 4
PROTO: Final = 5
LENGTH: Final = 6
FLAGS: Final = 7
CAPLEN: Final = 8
IP_LENGTH: Final = 9
PAYLOAD: Final = 10
TTL: Final = 11
VLAN: Final = 12
FRAGMENT: Final = 13
INTERFACE: Final = 14
STATUS: Final = 15
SEQ: Final = 16
ACK: Final = 17
WINDOW: Final = 18
MSS: Final = 19
SEEN: Final = 20

#: Why the work ended, if neither FULL nor CUT: at a record for the walk, which may be damage or a file header, or is a
#: short one with too little behind it.
ODD: Final = -1

_HEADER = 16
_LEAST = 54  # bytes of Ethernet, IPv4 and TCP
_UNLIKE = 0xF9F9F9F9_00000000  # bits of a time of which a doubtful one has none
_MARK = 0x8000  # of a tag, which may be 0
_MAPPED = 0xFFFF0000  # what stands before an IPv4 address in memory
_HAS_TCP = 0x39F  # all but a VLAN, a fragment and options
_ONLY_TCP = 0x388  # of these what UDP has not: flags, both numbers and the window
_HAS_VLAN = 0x20


@kernel
def _doubtful(time: uint64, size: uint64) -> bool:
    """Return whether a record header may be none: zeros, or a version 2.4 where the fraction of a second should be."""
    ticks = time >> uint64(32)
    return (
        (time | size == uint64(0))
        | (ticks == uint64(0x00040002))
        | (ticks == uint64(0x00020004))
        | (ticks == uint64(0x04000200))
        | (ticks == uint64(0x02000400))
    )


@kernel
def _ask(data: NDArray[uint8], place: NDArray[int64], ahead: Whole, low: Whole, high: Whole) -> None:
    """Ask for the second line of memory of frames `low` to `high`, as far ahead."""
    for k in range(low, high):
        prefetch(data, place[uint64(k)] + ahead + LINE)


@kernel
def _turned(word: uint64) -> uint64:
    """Return the four lowest bytes in the other order."""
    return (
        (word & uint64(0xFF)) << uint64(24)
        | (word & uint64(0xFF00)) << uint64(8)
        | word >> uint64(8) & uint64(0xFF00)
        | word >> uint64(24) & uint64(0xFF)
    )


@inlined_kernel
def _columns(
    data: NDArray[uint8], n: Whole, row: Whole, ahead: Whole, nanoseconds: Whole, tagged: bool, place: NDArray[int64],
    bases: NDArray[int64], out: OutTables, words: NDArray[uint64],
) -> None:  # fmt: skip
    """Write the columns that are wanted of n frames from their words, and ask for memory ahead meanwhile."""
    out8, out16, out32, out64 = out
    times, sizes, kinds, parts, pairs = words[0], words[1], words[2], words[3], words[4]
    ports, controls, tags, numbers, windows = words[5], words[6], words[7], words[9], words[10]
    if bases[TS] >= 0:
        base = (bases[TS] >> 3) + row
        step = uint64(nanoseconds)
        for k in range(n):
            seconds = times[uint64(k)] & uint64(0xFFFFFFFF)
            out64[uint64(base + k)] = seconds * uint64(1_000_000_000) + (times[uint64(k)] >> uint64(32)) * step
    _ask(data, place, ahead, 0, n // 3)
    if bases[LENGTH] >= 0:
        base = (bases[LENGTH] >> 2) + row
        for k in range(n):
            out32[uint64(base + k)] = uint32(min(sizes[uint64(k)] >> uint64(32), uint64(0x7FFFFFFF)))
    if bases[CAPLEN] >= 0:
        base = (bases[CAPLEN] >> 2) + row
        for k in range(n):
            out32[uint64(base + k)] = uint32(sizes[uint64(k)] & uint64(0xFFFFFFFF))
    if bases[INTERFACE] >= 0:
        base = (bases[INTERFACE] >> 2) + row
        for k in range(n):
            out32[uint64(base + k)] = uint32(0)
    _ask(data, place, ahead, n // 3, 2 * n // 3)
    if bases[SRC] >= 0:
        base = (bases[SRC] >> 3) + 2 * row
        for k in range(n):
            out64[uint64(base + 2 * k)] = uint64(0)
            out64[uint64(base + 2 * k + 1)] = pairs[uint64(k)] << uint64(32) | uint64(_MAPPED)
    _ask(data, place, ahead, 2 * n // 3, n)
    if bases[DST] >= 0:
        base = (bases[DST] >> 3) + 2 * row
        for k in range(n):
            out64[uint64(base + 2 * k)] = uint64(0)
            out64[uint64(base + 2 * k + 1)] = pairs[uint64(k)] >> uint64(32) << uint64(32) | uint64(_MAPPED)
    if bases[SRC_PORT] >= 0:
        base = (bases[SRC_PORT] >> 1) + row
        for k in range(n):
            word = ports[uint64(k)]
            out16[uint64(base + k)] = uint16(word << uint64(8) & uint64(0xFF00) | word >> uint64(8) & uint64(0xFF))
    if bases[DST_PORT] >= 0:
        base = (bases[DST_PORT] >> 1) + row
        for k in range(n):
            word = ports[uint64(k)]
            out16[uint64(base + k)] = uint16(word >> uint64(8) & uint64(0xFF00) | word >> uint64(24) & uint64(0xFF))
    if bases[PROTO] >= 0:
        base = bases[PROTO] + row
        for k in range(n):
            out8[uint64(base + k)] = uint8(parts[uint64(k)] >> uint64(24) & uint64(0xFF))
    if bases[TTL] >= 0:
        base = bases[TTL] + row
        for k in range(n):
            out8[uint64(base + k)] = uint8(parts[uint64(k)] >> uint64(16) & uint64(0xFF))
    if bases[FLAGS] >= 0:
        base = bases[FLAGS] + row
        for k in range(n):
            tcp = (parts[uint64(k)] >> uint64(24) & uint64(1)) - uint64(1)
            out8[uint64(base + k)] = uint8(controls[uint64(k)] >> uint64(56) & tcp)
    if bases[IP_LENGTH] >= 0:
        base = (bases[IP_LENGTH] >> 2) + row
        for k in range(n):
            word = kinds[uint64(k)]
            out32[uint64(base + k)] = uint32(word >> uint64(24) & uint64(0xFF00) | word >> uint64(40) & uint64(0xFF))
    if bases[PAYLOAD] >= 0:
        base = (bases[PAYLOAD] >> 2) + row
        for k in range(n):
            word = kinds[uint64(k)]
            total = word >> uint64(24) & uint64(0xFF00) | word >> uint64(40) & uint64(0xFF)
            tcp = (parts[uint64(k)] >> uint64(24) & uint64(1)) - uint64(1)
            header = tcp & controls[uint64(k)] >> uint64(50) & uint64(0x3C) | ~tcp & uint64(8)
            out32[uint64(base + k)] = uint32(max(int64(total) - 20 - int64(header), int64(0)))
    if bases[VLAN] >= 0:
        base = (bases[VLAN] >> 1) + row
        for k in range(n):
            out16[uint64(base + k)] = uint16(tags[uint64(k)] & uint64(0xFFF)) if tagged else uint16(0)
    if bases[FRAGMENT] >= 0:
        base = (bases[FRAGMENT] >> 2) + row
        for k in range(n):
            out32[uint64(base + k)] = uint32(0)
    if bases[STATUS] >= 0:
        base = bases[STATUS] + row
        for k in range(n):
            out8[uint64(base + k)] = uint8(0)
    if bases[SEQ] >= 0:
        base = (bases[SEQ] >> 2) + row
        for k in range(n):
            tcp = (parts[uint64(k)] >> uint64(24) & uint64(1)) - uint64(1)
            out32[uint64(base + k)] = uint32(_turned(numbers[uint64(k)]) & tcp)
    if bases[ACK] >= 0:
        base = (bases[ACK] >> 2) + row
        for k in range(n):
            tcp = (parts[uint64(k)] >> uint64(24) & uint64(1)) - uint64(1)
            out32[uint64(base + k)] = uint32(_turned(numbers[uint64(k)] >> uint64(32)) & tcp)
    if bases[WINDOW] >= 0:
        base = (bases[WINDOW] >> 1) + row
        for k in range(n):
            tcp = (parts[uint64(k)] >> uint64(24) & uint64(1)) - uint64(1)
            out16[uint64(base + k)] = uint16(_turned(windows[uint64(k)] >> uint64(32)) & tcp & uint64(0xFFFF))
    if bases[MSS] >= 0:
        base = (bases[MSS] >> 1) + row
        for k in range(n):
            out16[uint64(base + k)] = uint16(0)


@kernel
def decode_frames(
    data: NDArray[uint8], start: int, stop: int, nanoseconds: int, row: Whole, room: int, bases: NDArray[int64],
    out: OutTables, words: NDArray[uint64], place: NDArray[int64], rests: PassedTables,
) -> tuple[Whole, Whole, Whole, Whole, Whole]:  # fmt: skip
    """Decode the records of a little-endian pcap file of Ethernet in data[start:stop] into rows `row` to `room`.

    Gives (position, row reached, rows passed over, bits of `seen` that all others have, why it ended). The i-th
    row passed over is rest[i], of the packet data[offset[i] : offset[i] + caplen[i]] of length[i] bytes on the wire;
    of its columns only those of the record are right.

    `bases` says where in `out` (one memory under four types) a column begins, -1 for one that is not wanted; SEEN
    always is. `words` and `place` are room for the words and the places of STRETCH frames. Where the largest segment
    is wanted, a SYN is not common: it has options.
    """
    out16 = out[1]
    rest, offset, caplen, length = rests
    times, sizes, kinds, parts, pairs = words[0], words[1], words[2], words[3], words[4]
    ports, controls, tags, wrongs = words[5], words[6], words[7], words[8]
    numbers, windows = words[9], words[10]
    at = int64(start)
    row = int64(row)
    passed = int64(0)
    common = uint64(0xFFFF)
    usual = int64(0)
    controlled = bases[FLAGS] >= 0 or bases[PAYLOAD] >= 0 or bases[MSS] >= 0
    numbered = bases[SEQ] >= 0 or bases[ACK] >= 0
    windowed = bases[WINDOW] >= 0
    optioned = uint64(bases[MSS] >= 0)
    why = FULL
    while row < room and why == FULL:
        # 1. Where the records are: as far apart as those before, or else by following their lengths.
        most = min(int64(STRETCH), room - row)
        n = int64(0)
        spaced = usual >= _HEADER + _LEAST and at + most * usual <= stop
        if spaced:
            n = most
            for k in range(n):
                place[uint64(k)] = at + k * usual
        else:
            begin = at
            while n < most:
                if at + _HEADER > stop:
                    why = CUT
                    break
                kept = u32_le(data, at + 8)
                if kept > MAX_CAPLEN or at + _HEADER + max(kept, _LEAST) > stop:
                    high = u32_le(data, at + 4)
                    doubtful = kept > MAX_CAPLEN or _doubtful(uint64(high) << uint64(32), uint64(1))
                    why = ODD if doubtful or at + _HEADER + kept <= stop else CUT
                    break
                for line in range(at + REACH, at + REACH + _HEADER + kept, LINE):
                    prefetch(data, line)
                place[uint64(n)] = at
                at += _HEADER + kept
                n += 1
            usual = place[1] - place[0] if n == STRETCH else int64(0)
            if usual * n != at - begin:
                usual = int64(0)

        # Meanwhile memory is asked for what lies as far ahead as these reach.
        ahead = usual * STRETCH

        # 2. Their words, as if none had a tag. Those that are not as far apart are followed after all.
        for k in range(n):
            p = place[uint64(k)]
            prefetch(data, p + ahead)
            times[uint64(k)] = u64_le(data, p)
            sizes[uint64(k)] = u64_le(data, p + 8)
            kinds[uint64(k)] = u64_le(data, p + 28)
            parts[uint64(k)] = u64_le(data, p + 36)
            pairs[uint64(k)] = u64_le(data, p + 42)
            ports[uint64(k)] = u64_le(data, p + 50)
        if controlled:
            for k in range(n):
                p = place[uint64(k)]
                controls[uint64(k)] = u64_le(data, p + 56)
        if numbered:
            for k in range(n):
                numbers[uint64(k)] = u64_le(data, place[uint64(k)] + 54)
        if windowed:
            for k in range(n):
                windows[uint64(k)] = u64_le(data, place[uint64(k)] + 58)
        least = ~uint64(0)
        untagged = ~uint64(0)
        differ = uint64(0)
        for k in range(n):
            least = min(least, times[uint64(k)] & uint64(_UNLIKE))
            untagged = min(untagged, kinds[uint64(k)] & uint64(0xFFFF) ^ uint64(0x0081))
            differ |= sizes[uint64(k)] ^ uint64(usual - _HEADER)
        if spaced:
            if differ & uint64(0xFFFFFFFF):
                usual = int64(0)
                continue
            at += n * usual

        # 3. What is doubtful ends the work before it. Behind a tag all lies four bytes further on.
        if least == uint64(0):
            for k in range(n):
                if _doubtful(times[uint64(k)], sizes[uint64(k)]):
                    n = int64(k)
                    at = place[uint64(k)]
                    why = ODD
                    break
        tagged = untagged == uint64(0)
        if tagged:
            for k in range(n):
                tags[uint64(k)] = uint64(0)
                kept = int64(sizes[uint64(k)] & uint64(0xFFFFFFFF))
                if kinds[uint64(k)] & uint64(0xFFFF) == uint64(0x0081) and kept >= _LEAST + 4:
                    word = kinds[uint64(k)]
                    tags[uint64(k)] = (
                        uint64(_MARK) | word >> uint64(8) & uint64(0xF00) | word >> uint64(24) & uint64(0xFF)
                    )
                    p = place[uint64(k)] + 4
                    place[uint64(k)] = p
                    kinds[uint64(k)] = u64_le(data, p + 28)
                    parts[uint64(k)] = u64_le(data, p + 36)
                    pairs[uint64(k)] = u64_le(data, p + 42)
                    ports[uint64(k)] = u64_le(data, p + 50)
                    controls[uint64(k)] = u64_le(data, p + 56)
                    numbers[uint64(k)] = u64_le(data, p + 54)
                    windows[uint64(k)] = u64_le(data, p + 58)

        # 4. Which are common. There an odd protocol number is UDP's, 17, and an even one TCP's, 6.
        wrong = uint64(0)
        base = (bases[SEEN] >> 1) + row
        for k in range(n):
            number = parts[uint64(k)] >> uint64(24) & uint64(0xFF)
            udp = uint64(0) - (number & uint64(1))  # all bits or none
            kept = sizes[uint64(k)] & uint64(0xFFFFFFFF)
            total = kinds[uint64(k)] >> uint64(24) & uint64(0xFF00) | kinds[uint64(k)] >> uint64(40) & uint64(0xFF)
            fault = (
                kinds[uint64(k)] & uint64(0xFFFFFF) ^ uint64(0x450008)  # IPv4 with a header of five words
                | parts[uint64(k)] & uint64(0xFF3F)  # a part of a packet
                | number ^ uint64(6) + (udp & uint64(11))
                | kept - uint64(_LEAST) >> uint64(63)
                | total - uint64(40) + (udp & uint64(12)) >> uint64(63)
                | controls[uint64(k)] >> uint64(57) & optioned & ~udp
            )
            wrongs[uint64(k)] = fault
            wrong |= fault
            has = uint64(_HAS_TCP) ^ udp & uint64(_ONLY_TCP)
            common &= has
            out16[uint64(base + k)] = uint16(has)
        if wrong or tagged:
            for k in range(n):
                behind = 4 if tagged and tags[uint64(k)] else 0
                if behind and not wrongs[uint64(k)]:
                    out16[uint64(base + k)] |= uint16(_HAS_VLAN)
                if wrongs[uint64(k)]:
                    rest[uint64(passed)] = row + k
                    offset[uint64(passed)] = place[uint64(k)] - behind + _HEADER
                    caplen[uint64(passed)] = int32(sizes[uint64(k)] & uint64(0xFFFFFFFF))
                    length[uint64(passed)] = int32(min(sizes[uint64(k)] >> uint64(32), uint64(0x7FFFFFFF)))
                    passed += 1

        # 5. The columns.
        _columns(data, n, row, ahead, nanoseconds, tagged, place, bases, out, words)
        row += n
    return at, row, passed, int64(common), why
