"""Turn records into columns: for each run of records of one template, field by field, outside the loop over records.

A run's records lie in one datagram. Each step costs for itself, so short runs of one template that follow each other
are filled together; what is known of their datagrams is told one run after the other.
"""

from __future__ import annotations

from typing import Final

from numpy import bool_, int32, int64, uint8, uint32, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import fields as f
from oop_engine.sources.flows.entries import Whole
from operators.kernels.compile.kernel import kernel
from operators.kernels.compile.prefetch import LINE, prefetch
from operators.kernels.data.byte_order import u16_be

_NAMED: Final = 1 << e.BY_SAMPLER
_TOGETHER: Final = 192
"""Records that are filled together at most, so that they and what is known of them stay in the first cache."""

_MOST_UPTIME: Final = 2**31 * 1_000_000
"""The ns by which a signed difference of uptimes may lie off an export time."""


@kernel
def _clock(heads: NDArray[int64], datagram: Whole) -> tuple[Whole, Whole]:
    """Return when a datagram was exported, and its exporter's uptime then in ms, -1 for none."""
    export = heads[datagram, e.H_EXPORT]
    uptime = heads[datagram, e.H_UPTIME]
    if uptime < 0 and heads[datagram, e.H_INIT] != e.NO_TIME and export != e.NO_TIME:
        uptime = (export // 1_000_000 - heads[datagram, e.H_INIT]) & 0xFFFFFFFF
    return export, uptime


@kernel
def _certain(r: Whole, after: Whole, run_datagram: NDArray[int32], heads: NDArray[int64]) -> bool:
    """Return whether every uptime of 32 bits gives a time that can be in these runs."""
    for one in range(r, after):
        export, uptime = _clock(heads, int64(run_datagram[uint64(one)]))
        if uptime < 0 or not e.EARLIEST + _MOST_UPTIME <= export < e.LATEST - _MOST_UPTIME:
            return False
    return True


@kernel
def _names_samplers(operations: NDArray[int32], plan: Whole, many: Whole) -> bool:
    """Return whether records of the plan may name samplers."""
    for o in range(many):
        if operations[plan, o, e.O_KIND] == e.SAMPLER and operations[plan, o, e.O_EXTRA] == _NAMED:
            return True
    return False


@kernel
def _together(
    r: Whole, runs: Whole, room: Whole, run_plan: NDArray[int32], run_count: NDArray[int32], run_row: NDArray[int64],
    run_datagram: NDArray[int32], heads: NDArray[int64],
) -> tuple[Whole, Whole]:  # fmt: skip
    """Return the run after those that are filled together with run r, and how many records these have."""
    plan = run_plan[uint64(r)]
    row = run_row[uint64(r)]
    n = int64(run_count[uint64(r)])
    after = r + 1
    while (
        after < runs
        and run_plan[uint64(after)] == plan
        and run_row[uint64(after)] == row + n
        and n + int64(run_count[uint64(after)]) <= room
        and heads[int64(run_datagram[uint64(after)]), e.H_SAMPLERS] == 0
    ):
        n += int64(run_count[uint64(after)])
        after += 1
    return after, n


@kernel
def _lay(
    r: Whole, after: Whole, stride: Whole, run_at: NDArray[int64], run_count: NDArray[int32], place: NDArray[int64]
) -> None:
    """Write where the records of runs begin."""
    to = int64(0)
    for one in range(r, after):
        at = run_at[uint64(one)]
        n = int64(run_count[uint64(one)])
        for k in range(n):
            place[uint64(to + k)] = at + k * stride
        to += n


@kernel
def _lay_varying(
    data: NDArray[uint8], at: Whole, n: Whole, variable: Whole, plan: Whole, segments: NDArray[int32],
    place: NDArray[int64],
) -> Whole:  # fmt: skip
    """Write where the segments of n records begin; return where the last one ends."""
    for k in range(n):
        for s in range(variable):
            place[uint64(s * n + k)] = at
            at += int64(segments[plan, s])
            size = int64(data[uint64(at)])
            at += 1
            if size == 255:
                size = u16_be(data, at)
                at += 2
            at += size
        place[uint64(variable * n + k)] = at
        at += int64(segments[plan, variable])
    return at


@kernel
def _ask(
    data: NDArray[uint8], r: Whole, after: Whole, runs: Whole, stride: Whole, share: Whole, shares: Whole,
    run_at: NDArray[int64], run_count: NDArray[int32],
) -> None:  # fmt: skip
    """Ask for a share of the records that come next, as many runs as are filled now."""
    many = after - r
    for one in range(after + many * share // shares, min(after + many * (share + 1) // shares, runs)):
        begin = run_at[uint64(one)]
        for at in range(begin, min(begin + int64(run_count[uint64(one)]) * stride, len(data)), LINE):
            prefetch(data, at)


@kernel
def _ask_out(out8: NDArray[uint8], begin: Whole, size: Whole) -> None:
    """Ask for the memory of the entries that come next."""
    for at in range(begin, min(begin + size, len(out8)), LINE):
        prefetch(out8, at)


@kernel
def _rates(
    value: NDArray[int64], n: Whole, samplers: NDArray[int64], session: Whole, rates: Whole, kinds: Whole,
    rated: NDArray[int64], named: bool,
) -> None:  # fmt: skip
    """Turn the names of samplers into the rates announced for them, 0 for none; with `named` note of which is none."""
    key = int64(-1)
    found = int64(0)
    for k in range(n):
        if value[uint64(k)] != key or k == 0:
            key = value[uint64(k)]
            found = int64(0)
            for j in range(rates):
                if samplers[session, j, 1] == key and kinds >> samplers[session, j, 0] & 1:
                    found = samplers[session, j, 2]
                    break
        if named and key != 0 and found == 0:
            rated[uint64(k)] |= 2
        value[uint64(k)] = found


@kernel
def _store_exporters(
    r: Whole, after: Whole, several: bool | bool_, n: Whole, run_count: NDArray[int32],
    run_datagram: NDArray[int32], address: NDArray[uint64], to: Whole, out64: NDArray[uint64],
) -> None:  # fmt: skip
    """Store the exporter's address of every record of these runs, from entry `to` on; a single run has n records."""
    for one in range(r, after):
        of = int64(run_datagram[uint64(one)])
        high = address[uint64(2 * of)]
        low = address[uint64(2 * of + 1)]
        count = int64(run_count[uint64(one)]) if several else n
        for k in range(count):
            out64[uint64(to + 2 * k)] = high
            out64[uint64(to + 2 * k + 1)] = low
        to += 2 * count


@kernel
def _whole(value: NDArray[int64], other: NDArray[int64], n: Whole, kind: Whole, length: Whole) -> None:
    """Turn loaded numbers into signed ones, truth values or rates; a spaced rate counts what was skipped (`other`)."""
    if kind == e.SIGNED:
        up = 64 - 8 * length
        for k in range(n):
            value[uint64(k)] = value[uint64(k)] << up >> up
    elif kind == e.BOOLEAN:
        for k in range(n):
            value[uint64(k)] = int64(1) if value[uint64(k)] == 1 else int64(0)
    elif kind == e.RATE:
        for k in range(n):
            value[uint64(k)] = min(max(value[uint64(k)], 0), 0xFFFFFFFF)
    else:
        for k in range(n):
            taken = value[uint64(k)]
            rounded = int64(0) if taken < 1 else (taken + other[uint64(k)] + taken // 2) // taken
            value[uint64(k)] = min(max(rounded, 0), 0xFFFFFFFF)


@kernel
def fill(
    data: NDArray[uint8], runs: Whole, listed: e.RunLists, heads: NDArray[int64], address: NDArray[uint64],
    plans: e.PlanTables, samplers: NDArray[int64], columns: e.ColumnTables, out: e.OutTables,
    faults: tuple[NDArray[int64], NDArray[int64]], desk: NDArray[int64],
) -> None:  # fmt: skip
    """Fill the columns from `runs` runs of records; count in `untimed` the times of each column that cannot be, and in
    `unrated` the records of each run that name a sampler that is not announced, and of which nothing tells the rate.

    A column of width 0 holds eight bytes of position and, at `sizes`, four of length. The rows of `desk` are room to
    work in; a row has room for a record's segments.
    """
    run_plan, run_at, run_count, run_row, run_datagram = listed
    facts, segments, operations = plans
    bases, sizes, widths = columns
    out8, out16, out32, out64, outf = out
    untimed, unrated = faults
    place, value, other, rated = desk[0], desk[1], desk[2], desk[3]
    room = len(value)
    after = int64(0)
    while after < runs:
        r = after
        plan = int64(run_plan[uint64(r)])
        datagram = int64(run_datagram[uint64(r)])
        at = int64(run_at[uint64(r)])
        row = int64(run_row[uint64(r)])
        left = int64(run_count[uint64(r)])
        stride = facts[plan, e.P_SIZE]
        variable = facts[plan, e.P_VARIABLE]
        many = facts[plan, e.P_OPERATIONS]
        session = heads[datagram, e.H_SESSION]
        rates = heads[datagram, e.H_SAMPLERS]
        # Records may name samplers, of which some may not be announced, where nothing holds for all.
        named = _names_samplers(operations, plan, many)
        naming = named and heads[datagram, e.H_RATE] == 1
        after += 1
        if variable == 0 and rates == 0 and not named:
            after, left = _together(
                r, runs, min(room, _TOGETHER), run_plan, run_count, run_row, run_datagram, heads
            )  # fmt: skip
        several = after > r + 1
        while left > 0:
            n = min(left, room // (variable + 1))
            # 1. Where the records' segments begin.
            if several:
                _lay(r, after, stride, run_at, run_count, place)
            elif variable == 0:
                for k in range(n):
                    place[uint64(k)] = at + k * stride
                at += n * stride
            else:
                at = _lay_varying(data, at, n, variable, plan, segments, place)
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
                to = bases[column] + row * (width if width else 8)
                if rates == 0 and (kind == e.OF_TEMPLATE or (kind == e.SAMPLER and not (naming and extra == _NAMED))):
                    continue
                if several:
                    _ask(data, r, after, runs, stride, o, many, run_at, run_count)
                    _ask_out(out8, to + n * width, n * width)

                # 2. What is stored as it is loaded.
                if kind == e.UNSIGNED and f.move(
                    data, place, first, skip, length, n, width, to, out8, out16, out32, out64
                ):  # fmt: skip
                    continue
                if kind in (e.IPV4, e.IPV4_SET):
                    f.move_addresses(data, place, first, skip, n, kind == e.IPV4_SET, to, out64)
                    continue
                if kind == e.BYTES:
                    for k in range(n):
                        p = place[uint64(first + k)] + skip
                        for b in range(length):
                            out8[uint64(to + k * width + b)] = data[uint64(p + b)]
                    continue
                if kind in (e.VARYING, e.VARYING_TEXT):
                    to_size = sizes[column] + 4 * row
                    text = kind == e.VARYING_TEXT
                    f.note_varying(data, place, first, skip, length, n, text, to, to_size, out32, out64)
                    continue
                if kind == e.FROM_EXPORTER:
                    _store_exporters(r, after, several, n, run_count, run_datagram, address, to >> 3, out64)
                    continue
                if kind == e.UPTIME and length == 4 and _certain(r, after, run_datagram, heads):
                    begin = int64(0)
                    for one in range(r, after):
                        export, uptime = _clock(heads, int64(run_datagram[uint64(one)]))
                        end = begin + int64(run_count[uint64(one)]) if several else n
                        f.move_uptimes(data, place, first, begin, end, skip, export, uptime, to, out64)
                        begin = end
                    continue

                # 3. Load numbers.
                if kind == e.FROM_HEAD:
                    begin = int64(0)
                    for one in range(r, after):
                        same = heads[int64(run_datagram[uint64(one)]), extra]
                        end = begin + int64(run_count[uint64(one)]) if several else n
                        if same == e.NO_TIME:
                            untimed[column] += end - begin
                        for k in range(begin, end):
                            value[uint64(k)] = same
                        begin = end
                elif kind == e.OF_TEMPLATE:
                    for k in range(n):
                        value[uint64(k)] = facts[plan, e.P_TEMPLATE]
                else:
                    f.load(data, place, first, skip, length, n, value)

                # 4. Turn them into what the column holds.
                if kind in (e.SIGNED, e.BOOLEAN, e.RATE, e.RATE_SPACED):
                    _whole(value, other, n, kind, length)
                elif kind == e.OTHER:
                    for k in range(n):
                        other[uint64(k)] = value[uint64(k)]
                    continue
                elif kind in (e.SAMPLER, e.OF_TEMPLATE):
                    of_interest = naming and kind == e.SAMPLER and extra == _NAMED
                    _rates(value, n, samplers, session, rates, extra, rated, of_interest)
                elif kind == e.FLOAT32:
                    f.store_floats(value, n, to, outf)
                    continue
                elif e.SECONDS <= kind <= e.AFTER:
                    if kind <= e.NTP_NANOSECONDS:
                        f.since_1970(value, n, kind)
                    elif kind == e.AFTER:
                        f.after(value, n, int64(operations[plan, o, e.O_FACTOR]), (bases[extra] >> 3) + row, out64)
                    else:
                        begin = int64(0)
                        for one in range(r, after):
                            export, uptime = _clock(heads, int64(run_datagram[uint64(one)]))
                            end = begin + int64(run_count[uint64(one)]) if several else n
                            f.since_export(value, other, begin, end, kind, export, uptime)
                            begin = end
                    for k in range(n):
                        untimed[column] += value[uint64(k)] == e.NO_TIME

                # 5. Store them.
                if kind in (e.UNSIGNED_SET, e.RATE, e.RATE_SPACED, e.SAMPLER, e.OF_TEMPLATE):
                    if naming and kind != e.UNSIGNED_SET:
                        for k in range(n):
                            rated[uint64(k)] |= value[uint64(k)] != 0
                    f.store_some(value, n, width, to, out8, out16, out32, out64)
                else:
                    f.store(value, n, width, to, out8, out16, out32, out64)
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
