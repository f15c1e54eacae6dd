"""Records become columns: for each run of records of one template, field by field, outside the loop over records.

A run's records lie in one datagram. `place` holds where each record's segments begin: segment 0 is the record's start,
and each field of variable length ends one segment and begins the next, so any field lies at a fixed distance from its
segment. A field is loaded to `value`, turned into what its column holds, and stored in the column's width.

Arithmetic is on int64, of which unsigned numbers keep all their bits; only an index is cast to uint64.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy import bool_, float64, int32, int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.entries import Whole
from operators.kernels.kernel import kernel

_NAMED: Final = 1 << e.BY_SAMPLER


@kernel
def _time(value: Whole, factor: Whole) -> Whole:
    """Turn an unsigned count since 1970 into ns; NO_TIME where no clock of an exporter could be."""
    if value < 0 or value > e.LATEST // factor:
        return int64(e.NO_TIME)
    value = value * factor
    return value if e.EARLIEST <= value < e.LATEST else int64(e.NO_TIME)


@kernel
def _signed32(value: Whole) -> Whole:
    """Take the lower 32 bits as a signed number."""
    value = value & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


@kernel
def fill(
    data: NDArray[uint8], runs: Whole, run_plan: NDArray[int32], run_at: NDArray[int64], run_count: NDArray[int32],
    run_row: NDArray[int64], run_datagram: NDArray[int32], heads: NDArray[int64], address: NDArray[uint64],
    facts: NDArray[int64], segments: NDArray[int32], operations: NDArray[int32], samplers: NDArray[int64],
    bases: NDArray[int64], sizes: NDArray[int64], widths: NDArray[int64], out8: NDArray[uint8], out16: NDArray[uint16],
    out32: NDArray[uint32], out64: NDArray[uint64], outf: NDArray[float64], untimed: NDArray[int64],
    unrated: NDArray[int64], place: NDArray[int64], value: NDArray[int64], other: NDArray[int64],
    rated: NDArray[int64],
) -> None:  # fmt: skip
    """Fill the columns from `runs` runs of records; count in `untimed` the times of each column that cannot be, and in
    `unrated` the records of each run that name a sampler that is not announced, and of which nothing tells the rate.

    `bases` and `widths` say where in `out` (one memory under five types) a column begins and the bytes of an entry; a
    column of width 0 holds eight bytes of position and, at `sizes`, four of length. `place`, `value`, `other` and
    `rated` are room to work in; `place` is as long as `value`, and has room for a record's segments.
    """
    room = len(value)
    for r in range(runs):
        plan = int64(run_plan[uint64(r)])
        datagram = int64(run_datagram[uint64(r)])
        at = int64(run_at[uint64(r)])
        row = int64(run_row[uint64(r)])
        left = int64(run_count[uint64(r)])
        stride = facts[plan, e.P_SIZE]
        variable = facts[plan, e.P_VARIABLE]
        many = facts[plan, e.P_OPERATIONS]
        export = heads[datagram, e.H_EXPORT]
        uptime = heads[datagram, e.H_UPTIME]
        if uptime < 0 and heads[datagram, e.H_INIT] != e.NO_TIME and export != e.NO_TIME:
            uptime = (export // 1_000_000 - heads[datagram, e.H_INIT]) & 0xFFFFFFFF
        session = heads[datagram, e.H_SESSION]
        rates = heads[datagram, e.H_SAMPLERS]
        # Records may name samplers, of which some may not be announced, where nothing holds for all.
        naming = False
        if heads[datagram, e.H_RATE] == 1:
            for o in range(many):
                naming |= operations[plan, o, e.O_KIND] == e.SAMPLER and operations[plan, o, e.O_EXTRA] == _NAMED
        while left > 0:
            n = min(left, room // (variable + 1))
            # 1. Where the records' segments begin.
            if variable == 0:
                for k in range(n):
                    place[uint64(k)] = at + k * stride
                at += n * stride
            else:
                for k in range(n):
                    for s in range(variable):
                        place[uint64(s * n + k)] = at
                        at += int64(segments[plan, s])
                        size = int64(data[uint64(at)])
                        at += 1
                        if size == 255:
                            size = int64(data[uint64(at)]) << 8 | int64(data[uint64(at + 1)])
                            at += 2
                        at += size
                    place[uint64(variable * n + k)] = at
                    at += int64(segments[plan, variable])
            if naming:
                for k in range(n):
                    rated[uint64(k)] = 0

            for o in range(many):
                column = int64(operations[plan, o, e.O_COLUMN])
                kind = int64(operations[plan, o, e.O_KIND])
                first = int64(operations[plan, o, e.O_SEGMENT]) * n
                skip = int64(operations[plan, o, e.O_OFFSET])
                length = int64(operations[plan, o, e.O_LENGTH])
                extra = int64(operations[plan, o, e.O_EXTRA])
                width = widths[column]
                base = bases[column]
                if rates == 0 and (kind == e.OF_TEMPLATE or (kind == e.SAMPLER and not (naming and extra == _NAMED))):
                    continue

                # 2. What is copied as it lies there.
                if kind in (e.IPV4, e.IPV4_SET):
                    to = (base >> 3) + 2 * row
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        word = (
                            uint64(data[uint64(p)]) << uint64(32)
                            | uint64(data[uint64(p + 1)]) << uint64(40)
                            | uint64(data[uint64(p + 2)]) << uint64(48)
                            | uint64(data[uint64(p + 3)]) << uint64(56)
                        )
                        if kind == e.IPV4 or word != uint64(0):
                            out64[uint64(to + 2 * k)] = uint64(0)
                            out64[uint64(to + 2 * k + 1)] = word | uint64(0xFFFF0000)
                    continue
                if kind == e.BYTES:
                    to = base + row * width
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        for b in range(length):
                            out8[uint64(to + k * width + b)] = data[uint64(p + b)]
                    continue
                if kind in (e.VARYING, e.VARYING_TEXT):
                    to = (base >> 3) + row
                    to_size = (sizes[column] >> 2) + row
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        size = length
                        if length == e.VARIABLE:
                            size = int64(data[uint64(p)])
                            p += 1
                            if size == 255:
                                size = int64(data[uint64(p)]) << 8 | int64(data[uint64(p + 1)])
                                p += 2
                        if kind == e.VARYING_TEXT:
                            while size > 0 and data[uint64(p + size - 1)] == 0:
                                size -= 1
                        out64[uint64(to + k)] = uint64(p)
                        out32[uint64(to_size + k)] = uint32(size)
                    continue
                if kind == e.FROM_EXPORTER:
                    to = (base >> 3) + 2 * row
                    high = address[uint64(2 * datagram)]
                    low = address[uint64(2 * datagram + 1)]
                    for k in range(n):
                        out64[uint64(to + 2 * k)] = high
                        out64[uint64(to + 2 * k + 1)] = low
                    continue

                # 3. Load numbers.
                if kind == e.FROM_HEAD:
                    same = heads[datagram, extra]
                    if same == e.NO_TIME:
                        untimed[column] += n
                    for k in range(n):
                        value[uint64(k)] = same
                elif kind == e.OF_TEMPLATE:
                    for k in range(n):
                        value[uint64(k)] = facts[plan, e.P_TEMPLATE]
                elif length == 4:
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        value[uint64(k)] = (
                            int64(data[uint64(p)]) << 24
                            | int64(data[uint64(p + 1)]) << 16
                            | int64(data[uint64(p + 2)]) << 8
                            | int64(data[uint64(p + 3)])
                        )
                elif length == 2:
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        value[uint64(k)] = int64(data[uint64(p)]) << 8 | int64(data[uint64(p + 1)])
                elif length == 1:
                    for k in range(n):
                        value[uint64(k)] = int64(data[uint64(place[uint64(first + k)] + skip)])
                elif length == 8:
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        value[uint64(k)] = (
                            int64(data[uint64(p)]) << 56
                            | int64(data[uint64(p + 1)]) << 48
                            | int64(data[uint64(p + 2)]) << 40
                            | int64(data[uint64(p + 3)]) << 32
                            | int64(data[uint64(p + 4)]) << 24
                            | int64(data[uint64(p + 5)]) << 16
                            | int64(data[uint64(p + 6)]) << 8
                            | int64(data[uint64(p + 7)])
                        )
                else:
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        word64 = int64(0)
                        for b in range(length):
                            word64 = word64 << 8 | int64(data[uint64(p + b)])
                        value[uint64(k)] = word64

                # 4. Turn them into what the column holds.
                if kind == e.SIGNED:
                    up = 64 - 8 * length
                    for k in range(n):
                        value[uint64(k)] = value[uint64(k)] << up >> up
                elif kind == e.BOOLEAN:
                    for k in range(n):
                        value[uint64(k)] = int64(1) if value[uint64(k)] == 1 else int64(0)
                elif kind == e.OTHER:
                    for k in range(n):
                        other[uint64(k)] = value[uint64(k)]
                    continue
                elif kind == e.RATE:
                    for k in range(n):
                        value[uint64(k)] = min(max(value[uint64(k)], 0), 0xFFFFFFFF)
                elif kind == e.RATE_SPACED:
                    for k in range(n):
                        taken = value[uint64(k)]
                        rounded = int64(0) if taken < 1 else (taken + other[uint64(k)] + taken // 2) // taken
                        value[uint64(k)] = min(max(rounded, 0), 0xFFFFFFFF)
                elif kind in (e.SAMPLER, e.OF_TEMPLATE):
                    key = int64(-1)
                    found = int64(0)
                    for k in range(n):
                        if value[uint64(k)] != key or k == 0:
                            key = value[uint64(k)]
                            found = int64(0)
                            for j in range(rates):
                                if samplers[session, j, 1] == key and extra >> samplers[session, j, 0] & 1:
                                    found = samplers[session, j, 2]
                                    break
                        if naming and kind == e.SAMPLER and extra == _NAMED and key != 0 and found == 0:
                            rated[uint64(k)] |= 2
                        value[uint64(k)] = found
                elif kind == e.FLOAT32:
                    to = (base >> 3) + row
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
                    continue
                elif e.SECONDS <= kind <= e.AFTER:
                    if kind == e.SECONDS:
                        for k in range(n):
                            value[uint64(k)] = _time(value[uint64(k)], 1_000_000_000)
                    elif kind == e.MILLISECONDS:
                        for k in range(n):
                            value[uint64(k)] = _time(value[uint64(k)], 1_000_000)
                    elif kind in (e.NTP_MICROSECONDS, e.NTP_NANOSECONDS):
                        # Seconds since 1900, from 2036 on since then; and a fraction of 2^-32 s, rounded.
                        parts = int64(1_000_000 if kind == e.NTP_MICROSECONDS else 1_000_000_000)
                        for k in range(n):
                            seconds = value[uint64(k)] >> 32 & 0xFFFFFFFF
                            seconds += 2_085_978_496 if seconds < 0x80000000 else -2_208_988_800
                            fraction = value[uint64(k)] & 0xFFFFFFFF
                            rounded = (fraction * parts + 0x80000000) >> 32
                            value[uint64(k)] = _time(seconds * 1_000_000_000 + rounded * (1_000_000_000 // parts), 1)
                    elif export == e.NO_TIME and kind != e.AFTER:
                        for k in range(n):
                            value[uint64(k)] = int64(e.NO_TIME)
                    elif kind == e.DELTA_MICROSECONDS:
                        for k in range(n):
                            value[uint64(k)] = _time(export - value[uint64(k)] * 1000, 1)
                    elif kind == e.UPTIME:
                        # Both are 32 bits that wrap, and the field may even be a little ahead of the header's.
                        for k in range(n):
                            ago = _signed32(uptime - value[uint64(k)])
                            value[uint64(k)] = _time(export - ago * 1_000_000, 1) if uptime >= 0 else int64(e.NO_TIME)
                    elif kind == e.UPTIME_SINCE:
                        for k in range(n):
                            ago = _signed32(export // 1_000_000 - other[uint64(k)] - value[uint64(k)])
                            value[uint64(k)] = _time(export - export % 1_000_000 - ago * 1_000_000, 1)
                    else:
                        factor = int64(operations[plan, o, e.O_FACTOR])
                        since = (bases[extra] >> 3) + row
                        for k in range(n):
                            known = int64(out64[uint64(since + k)])
                            value[uint64(k)] = (
                                int64(e.NO_TIME) if known == e.NO_TIME else _time(known + value[uint64(k)] * factor, 1)
                            )
                    for k in range(n):
                        untimed[column] += value[uint64(k)] == e.NO_TIME

                # 5. Store them.
                if kind in (e.UNSIGNED_SET, e.RATE, e.RATE_SPACED, e.SAMPLER, e.OF_TEMPLATE):
                    for k in range(n):
                        if value[uint64(k)] == 0:
                            continue
                        if naming and kind != e.UNSIGNED_SET:
                            rated[uint64(k)] |= 1
                        if width == 8:
                            out64[uint64((base >> 3) + row + k)] = uint64(value[uint64(k)])
                        elif width == 4:
                            out32[uint64((base >> 2) + row + k)] = uint32(value[uint64(k)] & 0xFFFFFFFF)
                        elif width == 2:
                            out16[uint64((base >> 1) + row + k)] = uint16(value[uint64(k)] & 0xFFFF)
                        else:
                            out8[uint64(base + row + k)] = uint8(value[uint64(k)] & 0xFF)
                elif width == 8:
                    to = (base >> 3) + row
                    for k in range(n):
                        out64[uint64(to + k)] = uint64(value[uint64(k)])
                elif width == 4:
                    to = (base >> 2) + row
                    for k in range(n):
                        out32[uint64(to + k)] = uint32(value[uint64(k)] & 0xFFFFFFFF)
                elif width == 2:
                    to = (base >> 1) + row
                    for k in range(n):
                        out16[uint64(to + k)] = uint16(value[uint64(k)] & 0xFFFF)
                else:
                    to = base + row
                    for k in range(n):
                        out8[uint64(to + k)] = uint8(value[uint64(k)] & 0xFF)
            if naming:
                for k in range(n):
                    unrated[r] += rated[uint64(k)] == 2
            row += n
            left -= n


@kernel
def present(
    runs: Whole, run_plan: NDArray[int32], run_count: NDArray[int32], run_row: NDArray[int64], has: NDArray[uint8],
    column: Whole, rows: NDArray[bool_],
) -> None:  # fmt: skip
    """Mark every row whose plan has the column."""
    for r in range(runs):
        if has[int64(run_plan[uint64(r)]), column]:
            start = int64(run_row[uint64(r)])
            for row in range(start, start + int64(run_count[uint64(r)])):
                rows[uint64(row)] = True


@kernel
def gather(
    data: NDArray[uint8], position: NDArray[uint64], size: NDArray[uint32], offsets: NDArray[int32], out: NDArray[uint8]
) -> None:  # fmt: skip
    """Copy byte strings, each from data[position : position + size], one behind the other into `out`."""
    to = uint64(0)
    for k in range(len(position)):
        offsets[k] = int32(to)
        p = position[k]
        for _ in range(size[k]):
            out[to] = data[p]
            to += uint64(1)
            p += uint64(1)
    offsets[len(position)] = int32(to)
