"""Walking a capture finds each packet's place, time and lengths without looking inside it.

The walks are resumable: given where to start they give where they stopped and why, so that a growing file, a pipe and
a mapped file are read by the same code. All arithmetic is on int64; only an index is cast to uint64, which spares
the compiled loop the branch for negative indices. Each record's place hangs on the length of the one before, so
memory is asked for what lies ahead.
"""

from __future__ import annotations

from typing import Final

from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import Record, RowTables
from operators.kernels.compile.kernel import kernel
from operators.kernels.compile.prefetch import LINE, prefetch
from operators.kernels.data.byte_order import u32
from operators.kernels.ticks import FOREVER
from punctuation import NO_TIME

#: More captured bytes than this in one packet is damage (the bound other readers use).
MAX_CAPLEN: Final = 262_144
MAX_BLOCK: Final = 1 << 24

# Why a walk stopped.
FULL: Final = 0  # as many rows as asked for
CUT: Final = 1  # the next record is not all there (yet)
TOO_LONG: Final = 2  # a record of an impossible size
ZEROS: Final = 3  # a record header of zero bytes
HEADER: Final = 4  # another file or section header begins here
INTERFACE: Final = 5  # an interface description begins here
MISMATCH: Final = 6  # a block's two lengths differ
OVERRUN: Final = 7  # a packet larger than the block that holds it
ODD_SIZE: Final = 8  # a block length below its minimum, above MAX_BLOCK for packets, or no multiple of 4

# How the ticks of an interface become nanoseconds.
MULTIPLY: Final = 0
DIVIDE: Final = 1
SHIFT: Final = 2
UNTIMED: Final = 3

#: How many bytes ahead memory is asked for.
REACH: Final = 2048
_ALIKE = 8
#: Records of one size whose memory is asked for ahead, and that are taken at once where only their times are wanted.
_AHEAD = 32

_SHB, _IDB, _PB, _SPB, _EPB = 0x0A0D0D0A, 1, 2, 3, 6


@kernel
def _ask(data: NDArray[uint8], at: int64, size: int64, alike: int) -> None:
    """Ask for memory further on: where a later record is, if so many were of one size; or else for all there is."""
    if alike >= _ALIKE:
        prefetch(data, at + _AHEAD * size)
    else:
        for line in range(at + REACH, at + REACH + size, LINE):
            prefetch(data, line)


@kernel
def is_header(seconds: int64, ticks: int64, kept: int64) -> bool:
    """Return whether a file or section header stands where a record should."""
    if seconds == _SHB:
        return kept == 0x1A2B3C4D or kept == 0x4D3C2B1A
    magic = (
        seconds == 0xA1B2C3D4
        or seconds == 0xA1B23C4D
        or seconds == 0xA1B2CD34
        or seconds == 0xD4C3B2A1
        or seconds == 0x4D3CB2A1
        or seconds == 0x34CDB2A1
    )
    return magic and (ticks == 0x00040002 or ticks == 0x00020004 or ticks == 0x04000200 or ticks == 0x02000400)


@kernel
def walk_pcap(
    data: NDArray[uint8], start: int, stop: int, record: Record, rows: RowTables
) -> tuple[int64, int, int, int]:  # fmt: skip
    """Walk classic pcap records in data[start:stop] into rows; give (position, rows, untimed, why)."""
    swapped, nanoseconds, extra, old, link = record
    offset, ts, caplen, length, interface, links = rows
    room = len(offset)
    at = int64(start)
    row = 0
    size = int64(0)
    alike = 0
    while row < room:
        if at + 16 + extra > stop:
            return at, row, 0, CUT
        seconds = u32(data, at, swapped)
        ticks = u32(data, at + 4, swapped)
        kept = u32(data, at + 8, swapped)
        wire = u32(data, at + 12, swapped)
        if kept == 0 and wire == 0 and seconds == 0 and ticks == 0:
            return at, row, 0, ZEROS
        if is_header(seconds, ticks, kept):
            return at, row, 0, HEADER
        if old and kept > wire:
            kept, wire = wire, kept
        if kept > MAX_CAPLEN:
            return at, row, 0, TOO_LONG
        after = at + 16 + extra + kept
        if after > stop:
            return at, row, 0, CUT
        alike = alike + 1 if after - at == size else 0
        size = after - at
        _ask(data, at, size, alike)
        offset[row] = after - kept
        ts[row] = seconds * 1_000_000_000 + ticks * nanoseconds
        caplen[row] = kept
        length[row] = min(wire, 0x7FFFFFFF)
        interface[row] = 0
        links[row] = link
        row += 1
        at = after
    return at, row, 0, FULL


@kernel
def alike_times(
    data: NDArray[uint8], start: int, stop: int, nanoseconds: int, extra: int, ts: NDArray[int64]
) -> tuple[int64, int64]:
    """Take the times of classic, little-endian records while they are of the first one's size; give (position, rows).

    A record of the size of the one before says where the next one is, as a chain of them does, so places need not wait
    for lengths. Stops before what is of another size, or may be no record: that is for `walk_pcap`.
    """
    at = int64(start)
    row = int64(0)
    if at + 16 > stop:
        return at, row
    first = u32(data, at, False)
    kept = u32(data, at + 8, False)
    size = 16 + extra + kept
    if kept == 0 or kept > MAX_CAPLEN or is_header(first, u32(data, at + 4, False), kept):
        return at, row
    while row + _AHEAD <= len(ts) and at + _AHEAD * size <= stop:
        # A file header among them has times far from these.
        other = int64(0)
        for k in range(_AHEAD):
            place = at + k * size
            prefetch(data, place + _AHEAD * size)
            seconds = u32(data, place, False)
            other |= u32(data, place + 8, False) ^ kept | abs(seconds - first) >> 24
            ts[uint64(row + k)] = seconds * 1_000_000_000 + u32(data, place + 4, False) * nanoseconds
        if other != 0:
            break
        row += _AHEAD
        at += _AHEAD * size
    return at, row


@kernel
def _nanoseconds(high: int64, low: int64, mode: int64, factor: int64, since: int64) -> int64:
    """Turn a 64-bit count of ticks into nanoseconds since the epoch; NO_TIME where int64 cannot hold them."""
    value = int64(NO_TIME)
    if mode == MULTIPLY:
        if high < 0x80000000 and (high << 32 | low) <= FOREVER // factor:
            value = (high << 32 | low) * factor
    elif mode == DIVIDE:
        value = int64((uint64(high) << uint64(32) | uint64(low)) // uint64(factor))
    elif mode == SHIFT:
        # The whole seconds, then the rest times 10^9 in two 32-bit halves: exact, since both shifts round down.
        ticks = uint64(high) << uint64(32) | uint64(low)
        if factor < 64:
            seconds = ticks >> uint64(factor)
            rest = ticks - (seconds << uint64(factor))
        else:
            seconds = uint64(0)
            rest = ticks
        if seconds < uint64(9_223_372_036):
            upper = int64(rest >> uint64(32)) * 1_000_000_000
            lower = int64(rest & uint64(0xFFFFFFFF)) * 1_000_000_000
            part = upper + (lower >> 32) >> min(factor - 32, 63) if factor >= 32 else lower >> factor
            value = int64(seconds) * 1_000_000_000 + part
    if value == NO_TIME:
        return value
    if since > 0 and value > FOREVER - since:
        return int64(NO_TIME)
    return value + since


@kernel
def walk_pcapng(
    data: NDArray[uint8], start: int, stop: int, swapped: bool, first: int, table: NDArray[int64], known: int,
    rows: RowTables,
) -> tuple[int64, int, int, int]:  # fmt: skip
    """Walk pcapng blocks in data[start:stop] into rows; give (position, rows, untimed, why).

    Interface `i` of the `known` ones of this section is numbered first + i, and table[i] tells its link type, how its
    ticks become nanoseconds (mode, factor), its clock's offset in ns, and its snaplen. Blocks that hold no packet are
    passed over by their length, so the position may lie beyond `stop`.
    """
    offset, ts, caplen, length, interface, links = rows
    room = len(offset)
    at = int64(start)
    row = 0
    untimed = 0
    before = int64(0)
    alike = 0
    while row < room:
        if at + 12 > stop:
            return at, row, untimed, CUT
        kind = u32(data, at, swapped)
        size = u32(data, at + 4, swapped)
        if kind == 0 and size == 0:
            return at, row, untimed, ZEROS
        if kind == _SHB:
            return at, row, untimed, HEADER
        if kind == 0xA1B2C3D4 or kind == 0xD4C3B2A1 or kind == 0xA1B23C4D or kind == 0x4D3CB2A1:
            return at, row, untimed, HEADER
        if size < 12 or size & 3:
            return at, row, untimed, ODD_SIZE
        if kind == _IDB:
            return at, row, untimed, INTERFACE
        if kind != _EPB and kind != _SPB and kind != _PB:
            at += size
            if at > stop:
                return at, row, untimed, CUT
            continue
        body = 32 if kind != _SPB else 16
        if size < body or size > MAX_BLOCK:
            return at, row, untimed, ODD_SIZE
        after = at + size
        if after > stop:
            return at, row, untimed, CUT
        tail = u32(data, after - 4, swapped)
        if tail != size:
            return at, row, untimed, MISMATCH
        if kind == _SPB:
            which = 0
            wire = u32(data, at + 8, swapped)
            kept = min(wire, size - 16)
            if known > 0 and table[0, 4] > 0:
                kept = min(kept, table[0, 4])
            time = int64(NO_TIME)
            place = at + 12
        else:
            which = u32(data, at + 8, swapped)
            if kind == _PB:  # two 16-bit numbers: the interface, then a drop count
                which = which >> 16 if swapped else which & 0xFFFF
            high = u32(data, at + 12, swapped)
            low = u32(data, at + 16, swapped)
            kept = u32(data, at + 20, swapped)
            wire = u32(data, at + 24, swapped)
            if kept > size - 32:
                return at, row, untimed, OVERRUN
            time = int64(NO_TIME)
            if which < known:
                time = _nanoseconds(
                    high, low, table[uint64(which), 1], table[uint64(which), 2], table[uint64(which), 3]
                )
            place = at + 28
        alike = alike + 1 if size == before else 0
        before = size
        _ask(data, at, size, alike)
        offset[row] = place
        ts[row] = time
        caplen[row] = kept
        length[row] = min(wire, 0x7FFFFFFF)
        interface[row] = min(first + which, 0x7FFFFFFF)
        links[row] = table[uint64(which), 0] if which < known else -1
        untimed += time == NO_TIME
        row += 1
        at = after
    return at, row, untimed, FULL
