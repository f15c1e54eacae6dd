"""Turn one field of some records into part of a column: load, convert, store.

`place` holds where the segments of each record begin in `data`, those of segment s from s * n on for n records; `first`
is where those of the field's segment begin, and `skip` the field's distance from them. `out8` to `out64` are one memory
under four types; a column's entries have `width` bytes there, and the records' entries begin at byte `to`.

Arithmetic is on int64, of which unsigned numbers keep all their bits; only an index is cast to uint64.
"""

from __future__ import annotations

import numpy as np
from numpy import float64, int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.entries import Whole
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u16_be, u32_be, u32_le, u64_be


@kernel
def signed32(value: Whole) -> Whole:
    """Take the lower 32 bits as a signed number."""
    return int64(value) << 32 >> 32


@kernel
def _time(value: Whole, factor: Whole) -> Whole:
    """Turn an unsigned count since 1970 into ns; NO_TIME where no clock of an exporter could be."""
    if value < 0 or value > e.LATEST // factor:
        return int64(e.NO_TIME)
    value = value * factor
    return value if e.EARLIEST <= value < e.LATEST else int64(e.NO_TIME)


@kernel
def load(
    data: NDArray[uint8], place: NDArray[int64], first: Whole, skip: Whole, length: Whole, n: Whole,
    value: NDArray[int64],
) -> None:  # fmt: skip
    """Load a number of `length` bytes of each record."""
    if length == 4:
        for k in range(n):
            p = place[uint64(first + k)] + skip
            value[uint64(k)] = u32_be(data, p)
    elif length == 2:
        for k in range(n):
            p = place[uint64(first + k)] + skip
            value[uint64(k)] = u16_be(data, p)
    elif length == 1:
        for k in range(n):
            value[uint64(k)] = int64(data[uint64(place[uint64(first + k)] + skip)])
    elif length == 8:
        for k in range(n):
            p = place[uint64(first + k)] + skip
            value[uint64(k)] = int64(u64_be(data, p))
    else:
        for k in range(n):
            p = place[uint64(first + k)] + skip
            word = int64(0)
            for b in range(length):
                word = word << 8 | int64(data[uint64(p + b)])
            value[uint64(k)] = word


@kernel
def store(
    value: NDArray[int64], n: Whole, width: Whole, to: Whole, out8: NDArray[uint8], out16: NDArray[uint16],
    out32: NDArray[uint32], out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store each value in the column's width."""
    if width == 8:
        to >>= 3
        for k in range(n):
            out64[uint64(to + k)] = uint64(value[uint64(k)])
    elif width == 4:
        to >>= 2
        for k in range(n):
            out32[uint64(to + k)] = uint32(value[uint64(k)] & 0xFFFFFFFF)
    elif width == 2:
        to >>= 1
        for k in range(n):
            out16[uint64(to + k)] = uint16(value[uint64(k)] & 0xFFFF)
    else:
        for k in range(n):
            out8[uint64(to + k)] = uint8(value[uint64(k)] & 0xFF)


@kernel
def store_some(
    value: NDArray[int64], n: Whole, width: Whole, to: Whole, out8: NDArray[uint8], out16: NDArray[uint16],
    out32: NDArray[uint32], out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store each value that is not 0, over what an operation before has stored."""
    for k in range(n):
        one = value[uint64(k)]
        if one == 0:
            continue
        if width == 8:
            out64[uint64((to >> 3) + k)] = uint64(one)
        elif width == 4:
            out32[uint64((to >> 2) + k)] = uint32(one & 0xFFFFFFFF)
        elif width == 2:
            out16[uint64((to >> 1) + k)] = uint16(one & 0xFFFF)
        else:
            out8[uint64(to + k)] = uint8(one & 0xFF)


@kernel
def move(
    data: NDArray[uint8], place: NDArray[int64], first: Whole, skip: Whole, length: Whole, n: Whole, width: Whole,
    to: Whole, out8: NDArray[uint8], out16: NDArray[uint16], out32: NDArray[uint32], out64: NDArray[uint64],
) -> bool:  # fmt: skip
    """Store an unsigned number as soon as it is loaded; False, and nothing done, for lengths and widths seldom seen."""
    if length == 4 and width == 8:
        to >>= 3
        for k in range(n):
            p = place[uint64(first + k)] + skip
            word = u32_be(data, p)
            out64[uint64(to + k)] = uint64(word)
    elif length == 4 and width == 4:
        to >>= 2
        for k in range(n):
            p = place[uint64(first + k)] + skip
            word = u32_be(data, p)
            out32[uint64(to + k)] = uint32(word)
    elif length == 2 and width == 4:
        to >>= 2
        for k in range(n):
            p = place[uint64(first + k)] + skip
            out32[uint64(to + k)] = uint32(u16_be(data, p))
    elif length == 2 and width == 2:
        to >>= 1
        for k in range(n):
            p = place[uint64(first + k)] + skip
            out16[uint64(to + k)] = uint16(u16_be(data, p))
    elif length == 1 and width == 2:
        to >>= 1
        for k in range(n):
            out16[uint64(to + k)] = uint16(data[uint64(place[uint64(first + k)] + skip)])
    elif length == 1 and width == 1:
        for k in range(n):
            out8[uint64(to + k)] = data[uint64(place[uint64(first + k)] + skip)]
    else:
        return False
    return True


@kernel
def move_uptimes(
    data: NDArray[uint8], place: NDArray[int64], first: Whole, begin: Whole, end: Whole, skip: Whole, export: Whole,
    uptime: Whole, to: Whole, out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store the times of uptimes of 4 bytes of records `begin` to `end`, where no time can be that cannot be stored."""
    to >>= 3
    for k in range(begin, end):
        p = place[uint64(first + k)] + skip
        word = u32_be(data, p)
        # Both are 32 bits that wrap, and the field may even be a little ahead of the header's.
        out64[uint64(to + k)] = uint64(export - signed32(uptime - word) * 1_000_000)


@kernel
def since_1970(value: NDArray[int64], n: Whole, kind: Whole) -> None:
    """Turn absolute times into ns since 1970."""
    if kind == e.SECONDS:
        for k in range(n):
            value[uint64(k)] = _time(value[uint64(k)], 1_000_000_000)
    elif kind == e.MILLISECONDS:
        for k in range(n):
            value[uint64(k)] = _time(value[uint64(k)], 1_000_000)
    else:
        # Seconds since 1900, from 2036 on since then; and a fraction of 2^-32 s, rounded.
        parts = int64(1_000_000 if kind == e.NTP_MICROSECONDS else 1_000_000_000)
        for k in range(n):
            seconds = value[uint64(k)] >> 32 & 0xFFFFFFFF
            seconds += 2_085_978_496 if seconds < 0x80000000 else -2_208_988_800
            fraction = value[uint64(k)] & 0xFFFFFFFF
            rounded = (fraction * parts + 0x80000000) >> 32
            value[uint64(k)] = _time(seconds * 1_000_000_000 + rounded * (1_000_000_000 // parts), 1)


@kernel
def since_export(
    value: NDArray[int64], other: NDArray[int64], begin: Whole, end: Whole, kind: Whole, export: Whole, uptime: Whole
) -> None:
    """Turn times that are told by the datagram's header into ns since 1970, of records `begin` to `end`."""
    if export == e.NO_TIME or (kind == e.UPTIME and uptime < 0):
        for k in range(begin, end):
            value[uint64(k)] = int64(e.NO_TIME)
    elif kind == e.DELTA_MICROSECONDS:
        for k in range(begin, end):
            value[uint64(k)] = _time(export - value[uint64(k)] * 1000, 1)
    elif kind == e.UPTIME:
        # Both are 32 bits that wrap, and the field may even be a little ahead of the header's.
        for k in range(begin, end):
            ago = signed32(uptime - value[uint64(k)])
            value[uint64(k)] = _time(export - ago * 1_000_000, 1)
    else:
        for k in range(begin, end):
            ago = signed32(export // 1_000_000 - other[uint64(k)] - value[uint64(k)])
            value[uint64(k)] = _time(export - export % 1_000_000 - ago * 1_000_000, 1)


@kernel
def after(value: NDArray[int64], n: Whole, factor: Whole, since: Whole, out64: NDArray[uint64]) -> None:
    """Turn durations into the times that lie so long after those that are stored from `out64[since]` on."""
    for k in range(n):
        known = int64(out64[uint64(since + k)])
        value[uint64(k)] = int64(e.NO_TIME) if known == e.NO_TIME else _time(known + value[uint64(k)] * factor, 1)


@kernel
def move_addresses(
    data: NDArray[uint8], place: NDArray[int64], first: Whole, skip: Whole, n: Whole, some: bool, to: Whole,
    out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store IPv4 addresses as the IPv6 addresses they are mapped to; with `some`, those that are not 0.0.0.0."""
    to >>= 3
    for k in range(n):
        p = place[uint64(first + k)] + skip
        word = uint64(u32_le(data, p)) << uint64(32)
        if not some or word != uint64(0):
            out64[uint64(to + 2 * k)] = uint64(0)
            out64[uint64(to + 2 * k + 1)] = word | uint64(0xFFFF0000)


@kernel
def note_varying(
    data: NDArray[uint8], place: NDArray[int64], first: Whole, skip: Whole, length: Whole, n: Whole, text: bool,
    to: Whole, to_size: Whole, out32: NDArray[uint32], out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store where strings lie and their bytes; of a text without the zero bytes that fill a fixed length."""
    for k in range(n):
        p = place[uint64(first + k)] + skip
        size = length
        if length == e.VARIABLE:
            size = int64(data[uint64(p)])
            p += 1
            if size == 255:
                size = u16_be(data, p)
                p += 2
        if text:
            while size > 0 and data[uint64(p + size - 1)] == 0:
                size -= 1
        out64[uint64((to >> 3) + k)] = uint64(p)
        out32[uint64((to_size >> 2) + k)] = uint32(size)


@kernel
def store_floats(value: NDArray[int64], n: Whole, to: Whole, outf: NDArray[float64]) -> None:
    """Store the numbers whose 32 bits these are."""
    to >>= 3
    for k in range(n):
        bits = value[uint64(k)]
        power = bits >> 23 & 0xFF
        part = float64(bits & 0x7FFFFF)
        if power == 255:
            number = float64(np.inf) if part == 0.0 else float64(np.nan)
        elif power == 0:
            number = part * 2.0**-149
        else:
            number = (part + 8388608.0) * 2.0 ** float64(power - 150)
        outf[uint64(to + k)] = -number if bits >> 31 else number
