"""Walk datagrams: find the sender of each, whether it is whole, new and in order, and its runs of records.

The walk stops at what Python has to see (a stranger, a template, options, data without a template) and goes on where it
stopped; all else is counted here. Every byte is read behind a comparison with the end of its datagram, every loop moves
on by at least a byte, so any bytes come to an end.

A session is what numbers its datagrams: an exporter's address and port, the protocol, and the domain in the header. An
agent of sFlow says its address itself; who sends its datagrams, for it or for others too, is part of its session.
"""

from __future__ import annotations

from typing import Final

from numpy import int32, int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.entries import Whole
from oop_engine.sources.flows.fields import signed32
from operators.kernels.compile.kernel import inlined_kernel, kernel
from operators.kernels.data.byte_order import u16_be, u32_be, u32_le, u64_le

# How a datagram stands to its session's sequence.
_NEXT, _AHEAD, _LATE, _STRAY, _ANEW, _KNOWN, _OLD = 0, 1, 2, 3, 4, 5, 6
_JUMP: Final = 1 << 20
# In ms: how far a clock's beginning may seem to move (headers of v9 have whole seconds), by how much more at most since
# the clocks of date and uptime drift apart (by a 1,024th at most), how far back a clock goes that did not begin anew,
# and how late a straggler is of which nothing else is known.
_BOOT_TOLERANCE: Final = 3000
_DRIFT: Final = 600_000
_UPTIME_TOLERANCE: Final = 60_000
_STRAGGLING: Final = 10_000
# A gap is a number and what is packed with its size. An open one is behind a datagram of which it is not known how many
# records it has, so what of it was lost is not known: `_AFTER` has how far behind that datagram's own number it begins.
_SIZE: Final = 0xFFFFFF
_AFTER: Final = 24
_OPEN: Final = 1 << 60
_FOR_EVER: Final = 1 << 61  # nobody will ever know


@kernel
def _home(
    high: uint64, low: uint64, sent_high: uint64, sent_low: uint64, port: Whole, version: Whole, domain: Whole
) -> uint64:
    """Return the hash of a session's key."""
    word = high * uint64(0x9E3779B97F4A7C15) ^ low * uint64(0xC2B2AE3D27D4EB4F)
    word ^= (sent_high ^ sent_low * uint64(0xD6E8FEB86659FD93)) >> uint64(7)
    word ^= (uint64(port) << uint64(40) | uint64(version) << uint64(32) | uint64(domain)) * uint64(0x165667B19E3779F9)
    word ^= word >> uint64(29)
    word *= uint64(0xBF58476D1CE4E5B9)
    return word >> uint64(32)


@kernel
def find_session(
    keys: NDArray[uint64], senders: NDArray[uint64], table: NDArray[int64], index: NDArray[int32], high: uint64,
    low: uint64, sent_high: uint64, sent_low: uint64, port: Whole, version: Whole, domain: Whole,
) -> Whole:  # fmt: skip
    """Return the place in `index` of a session, or -1 - the free place it would have."""
    mask = uint64(len(index) - 1)
    at = _home(high, low, sent_high, sent_low, port, version, domain) & mask
    while True:
        session = int64(index[at])
        if session < 0:
            return -1 - int64(at)
        if (
            keys[session, 0] == high
            and keys[session, 1] == low
            and senders[session, 0] == sent_high
            and senders[session, 1] == sent_low
            and table[session, e.T_DOMAIN] == domain
            and table[session, e.T_PORT] == port
            and table[session, e.T_VERSION] == version
        ):
            return int64(at)
        at = (at + uint64(1)) & mask


@kernel
def add_session(
    keys: NDArray[uint64], senders: NDArray[uint64], table: NDArray[int64], index: NDArray[int32], session: Whole
) -> None:
    """Put a session into `index` by its key."""
    place = find_session(
        keys, senders, table, index, keys[session, 0], keys[session, 1], senders[session, 0], senders[session, 1],
        table[session, e.T_PORT], table[session, e.T_VERSION], table[session, e.T_DOMAIN],
    )  # fmt: skip
    index[-1 - place] = session


@kernel
def remove_session(
    keys: NDArray[uint64], senders: NDArray[uint64], table: NDArray[int64], index: NDArray[int32], session: Whole
) -> None:
    """Take a session out of `index`, and close the gap for those whose search leads over it."""
    mask = uint64(len(index) - 1)
    place = find_session(
        keys, senders, table, index, keys[session, 0], keys[session, 1], senders[session, 0], senders[session, 1],
        table[session, e.T_PORT], table[session, e.T_VERSION], table[session, e.T_DOMAIN],
    )  # fmt: skip
    hole = uint64(place)
    at = (hole + uint64(1)) & mask
    while index[at] >= 0:
        other = int64(index[at])
        home = _home(
            keys[other, 0], keys[other, 1], senders[other, 0], senders[other, 1], table[other, e.T_PORT],
            table[other, e.T_VERSION], table[other, e.T_DOMAIN],
        )  # fmt: skip
        if (at - home) & mask >= (at - hole) & mask:
            index[hole] = other
            hole = at
        at = (at + uint64(1)) & mask
    index[hole] = -1


@kernel
def find_template(slot_ids: NDArray[int32], session: Whole, template: Whole) -> Whole:
    """Return the slot of a session's template, or -1 - the free slot it would have."""
    mask = slot_ids.shape[1] - 1
    at = (template * 40_503 >> 3) & mask
    while True:
        if slot_ids[session, at] == template:
            return at
        if slot_ids[session, at] < 0:
            return -1 - at
        at = (at + 1) & mask


@kernel
def remove_template(slot_ids: NDArray[int32], slot_plans: NDArray[int32], session: Whole, template: Whole) -> None:
    """Take a template out of its session's slots, and close the gap for those whose search leads over it."""
    mask = slot_ids.shape[1] - 1
    hole = find_template(slot_ids, session, template)
    at = (hole + 1) & mask
    while slot_ids[session, at] >= 0:
        home = (int64(slot_ids[session, at]) * 40_503 >> 3) & mask
        if (at - home) & mask >= (at - hole) & mask:
            slot_ids[session, hole] = slot_ids[session, at]
            slot_plans[session, hole] = slot_plans[session, at]
            hole = at
        at = (at + 1) & mask
    slot_ids[session, hole] = -1


@kernel
def least_template(
    slot_ids: NDArray[int32], slot_plans: NDArray[int32], facts: NDArray[int64], session: Whole
) -> Whole:
    """Return the template of a session that is the least used, of several the one learnt first; -1 if it has none."""
    found = int64(-1)
    used = int64(0)
    born = int64(0)
    for slot in range(slot_ids.shape[1]):
        if slot_ids[session, slot] >= 0:
            plan = int64(slot_plans[session, slot])
            at = facts[plan, e.P_USED]
            if found < 0 or at < used or (at == used and facts[plan, e.P_BORN] < born):
                found = int64(slot_ids[session, slot])
                used = at
                born = facts[plan, e.P_BORN]
    return found


@kernel
def _stir(word: uint64, more: uint64) -> uint64:
    """Stir eight bytes into a mark."""
    word = (word ^ more) * uint64(0x9E3779B97F4A7C15)
    return word ^ word >> uint64(32)


@kernel
def _bytes(data: NDArray[uint8], at: Whole, end: Whole, kind: Whole) -> Whole:
    """Return a number that the same bytes in a set of the same kind give again; never 0."""
    word = uint64(end - at) * uint64(0x9E3779B97F4A7C15) ^ uint64(kind)
    for p in range(at, end):
        word = (word ^ uint64(data[uint64(p)])) * uint64(0x100000001B3)
        word ^= word >> uint64(29)
    return int64(word >> uint64(1)) | 1


@kernel
def _read_before(read: NDArray[int64], session: Whole, mark: Whole, now: Whole) -> Whole:
    """Return how many templates a set has that was read before and is still good, -1 for one that has to be read."""
    for k in range(read.shape[1]):
        if read[session, k, e.R_BYTES] == mark and now <= read[session, k, e.R_UNTIL]:
            return read[session, k, e.R_TEMPLATES]
    return int64(-1)


@kernel
def _spent(cursor: NDArray[int64], allowances: NDArray[int64], row: Whole, now: Whole) -> bool:
    """Return whether Python has done enough for a datagram or its exporter."""
    if row == e.FREELY or now == e.NO_TIME:
        return False
    if allowances[row] - now > e.BURST + 4 * e.MOST_WORK * e.UNIT:  # now is long before: other files
        allowances[row] = now
    return cursor[e.C_WORK] >= e.MOST_WORK or allowances[row] - now >= e.BURST


@kernel
def _came(recent: NDArray[int64], session: Whole, mark: Whole) -> bool:
    """Return whether a datagram of this mark came before."""
    came = False
    for k in range(recent.shape[1]):
        came |= recent[session, k] == mark
    return came


@kernel
def _sent_before(table: NDArray[int64], session: Whole, uptime: Whole, export: Whole) -> bool:
    """Return whether clocks that go on say that a datagram was sent a little before the last one that was in order."""
    ago = int64(0)
    earlier = False
    if uptime >= 0:
        ago = signed32(table[session, e.T_UPTIME] - uptime)
        earlier = ago > 0
    if export != e.NO_TIME and table[session, e.T_EXPORT] != e.NO_TIME:
        since = table[session, e.T_EXPORT] - export
        earlier |= since > 0
        ago = max(ago, since // 1_000_000)
    return bool(earlier and ago <= _STRAGGLING)


@kernel
def _of_old(table: NDArray[int64], session: Whole, ahead: Whole, uptime: Whole, export: Whole) -> bool:
    """Return whether one clock alone says that a datagram is of before the exporter began anew."""
    if uptime >= 0:
        # Only the clock of then is so far from that of the last datagram, and so near to where it stopped.
        jumped = signed32(uptime - table[session, e.T_UPTIME]) > _UPTIME_TOLERANCE
        old = table[session, e.T_OLD_BOOT]
        return bool(jumped and old >= 0 and abs(signed32(uptime - old)) <= _UPTIME_TOLERANCE)
    return bool(ahead > 0 and export != e.NO_TIME and export < table[session, e.T_BEGAN])


@kernel
def _in_gap(table: NDArray[int64], gaps: NDArray[int64], session: Whole, sequence: Whole) -> bool:
    """Return whether a number is one of those that were passed over and have not come since."""
    for g in range(table[session, e.T_GAPS]):
        if (sequence - gaps[session, 2 * g]) & 0xFFFFFFFF < gaps[session, 2 * g + 1] & _SIZE:
            return True
    return False


@kernel
def _overtaken(
    table: NDArray[int64], gaps: NDArray[int64], session: Whole, sequence: Whole, export: Whole
) -> bool:  # fmt: skip
    """Return whether a datagram was sent before the last one in order, behind which the number to come is not known.

    Only what was exported no later may be: a number that is smaller at a later time is one of an exporter that began
    anew.
    """
    behind = signed32(-2 - table[session, e.T_EXPECTED] - sequence)
    if not 0 < behind <= _JUMP or export == e.NO_TIME or table[session, e.T_EXPORT] == e.NO_TIME:
        return False
    since = table[session, e.T_EXPORT] - export
    return bool(0 <= since <= _STRAGGLING * 1_000_000 or (since > 0 and _in_gap(table, gaps, session, sequence)))


@kernel
def _enter(
    table: NDArray[int64], recent: NDArray[int64], gaps: NDArray[int64], session: Whole, sequence: Whole,
    uptime: Whole, export: Whole, mark: Whole,
) -> Whole:  # fmt: skip
    """Return how a datagram stands to what its session sent before."""
    expected = table[session, e.T_EXPECTED]
    ahead = signed32(sequence - expected) if expected >= 0 else int64(0)
    # A copy of what came before has a number that is over; or any, where the number to come is not known.
    over = ahead < 0 or expected < 0 or (ahead == 0 and table[session, e.T_IDLE])
    if over and _came(recent, session, mark):
        return int64(_KNOWN)
    if expected < -1 and _overtaken(table, gaps, session, sequence, export):
        return int64(_OLD) if export < table[session, e.T_BEGAN] else int64(_LATE)
    if ahead == 0 or (sequence == table[session, e.T_ALSO]):
        return int64(_NEXT)
    # A clock that began anew is a restart, whichever way the sequence moved. What was sent before that, by the clock of
    # then, is a straggler.
    clocked = uptime >= 0 and export != e.NO_TIME and table[session, e.T_EXPORT] != e.NO_TIME
    back = uptime >= 0 and signed32(uptime - table[session, e.T_UPTIME]) < -_UPTIME_TOLERANCE
    moved = False
    returned = False
    passed = int64(0)
    if clocked:
        boot = export // 1_000_000 - uptime
        passed = (export - table[session, e.T_EXPORT]) // 1_000_000
        tolerance = _BOOT_TOLERANCE + min(abs(passed) >> 10, _DRIFT)
        moved = abs(signed32(boot - table[session, e.T_BOOT])) > tolerance
        old = table[session, e.T_OLD_BOOT]
        returned = moved and old >= 0 and abs(signed32(boot - old)) <= tolerance
        if returned and export <= table[session, e.T_BEGAN]:
            return int64(_KNOWN) if not over and _came(recent, session, mark) else int64(_OLD)
    elif _of_old(table, session, ahead, uptime, export):
        return int64(_KNOWN) if not over and _came(recent, session, mark) else int64(_OLD)
    if 0 < ahead <= _JUMP:
        # A clock may be put right, or stand still: the uptime has to be one of since the last datagram.
        before = table[session, e.T_UPTIME]
        if returned or (moved and uptime != before and (uptime < before or uptime <= passed + _BOOT_TOLERANCE)):
            return int64(_ANEW)
        return int64(_ANEW) if back and not clocked else int64(_AHEAD)
    if _in_gap(table, gaps, session, sequence):
        return int64(_LATE)
    # The sequence is elsewhere. The exporter began anew if its clock did. What is behind by its clock too is late,
    # though no gap is known that it fills; of anything else the next datagram has to agree.
    if moved or (back and not clocked):
        return int64(_ANEW)
    if -_JUMP <= ahead < 0 and _sent_before(table, session, uptime, export):
        return int64(_OLD) if export != e.NO_TIME and export < table[session, e.T_BEGAN] else int64(_LATE)
    return int64(_STRAY)


@kernel
def _follow(table: NDArray[int64], session: Whole, sequence: Whole) -> Whole:
    """Return how a message of a connection, in which nothing overtakes, stands to what its session sent before."""
    ahead = signed32(sequence - table[session, e.T_EXPECTED])
    return int64(_AHEAD if table[session, e.T_EXPECTED] >= 0 and 0 < ahead <= _JUMP else _NEXT)


@kernel
def _lets_in(cursor: NDArray[int64], table: NDArray[int64], allowed: NDArray[uint64], high: uint64, low: uint64,
             port: Whole) -> bool:  # fmt: skip
    """Return whether a stranger is told of singly; else it is counted. Connections were let in as they were made."""
    lets_in = is_allowed(allowed, high, low)
    if (lets_in and port >= e.STREAM) or cursor[e.C_STRANGERS if lets_in else e.C_REFUSED] > 0:
        return True
    table[e.NOBODY, e.DATAGRAMS] += 1
    table[e.NOBODY, e.UNADMITTED if lets_in else e.REFUSED] += 1
    return False


@kernel
def _close(table: NDArray[int64], gaps: NDArray[int64], session: Whole, gap: Whole) -> None:
    """Forget a gap; the others stay in the order in which they were found."""
    many = table[session, e.T_GAPS]
    for g in range(2 * gap + 2, 2 * many):
        gaps[session, g - 2] = gaps[session, g]
    table[session, e.T_GAPS] = many - 1


@kernel
def _behind(sequence: Whole, after: Whole, known: bool) -> Whole:
    """Return what `T_EXPECTED` says behind a datagram of which only that is known that it has `after` records or more.

    `known` is whether it may be known later.
    """
    return -2 - (((sequence + after) & 0xFFFFFFFF) | after << 32 | int64(not known) << 61)


@kernel
def _opening(expected: Whole) -> tuple[Whole, Whole]:
    """Return where the gap begins behind a datagram whose end is not known, and what is packed with its size."""
    told = -2 - expected
    flags = int64(_OPEN) | (int64(_FOR_EVER) if told >> 61 else int64(0))
    return told & 0xFFFFFFFF, flags | (told >> 32 & _SIZE) << _AFTER


@kernel
def _own(start: Whole, packed: Whole) -> Whole:
    """Return the number of the datagram behind which an open gap is."""
    return (start - (packed >> _AFTER & _SIZE)) & 0xFFFFFFFF


@kernel
def _whose(start: Whole, packed: Whole) -> Whole:
    """Return the number of the datagram behind which an open gap is; -1 where nothing will be known of it."""
    return int64(-1) if packed & _FOR_EVER or not packed & _OPEN else _own(start, packed)


@kernel
def _add_gap(table: NDArray[int64], gaps: NDArray[int64], session: Whole, start: Whole, packed: Whole) -> None:
    """Note a gap, in the place of the oldest one where there are many."""
    if table[session, e.T_GAPS] == gaps.shape[1] // 2:
        _close(table, gaps, session, 0)
    many = table[session, e.T_GAPS]
    gaps[session, 2 * many] = start & 0xFFFFFFFF
    gaps[session, 2 * many + 1] = packed
    table[session, e.T_GAPS] = many + 1


@kernel
def _fill(
    table: NDArray[int64], gaps: NDArray[int64], session: Whole, sequence: Whole, units: Whole, after: Whole
) -> None:  # fmt: skip
    """Put a datagram that comes late into the gap that it is of.

    Of a gap that was open, what is behind a datagram that is counted is lost; behind one that is not, the gap is open.
    One without records may have the number of one with records, so it tells nothing.
    """
    if units == 0 and after >= 0:
        return
    for g in range(table[session, e.T_GAPS]):
        start = gaps[session, 2 * g]
        packed = gaps[session, 2 * g + 1]
        size = packed & _SIZE
        before = (sequence - start) & 0xFFFFFFFF
        if before < size:
            found = min(max(units, 0), size - before)
            rest = size - before - found
            if packed & _OPEN == 0:
                table[session, e.LOST] -= size - before
            # What is before it stays as it was; an open gap stays, though it be empty, until it is known to be.
            if before > 0 or packed & _OPEN:
                gaps[session, 2 * g + 1] = packed - size + before
            else:
                _close(table, gaps, session, g)
            if after >= 0:
                table[session, e.LOST] += rest
                if rest > 0:
                    _add_gap(table, gaps, session, sequence + found, rest)
            else:
                table[session, e.UNTOLD] += 1
                behind, flags = _opening(after)
                if flags & _FOR_EVER == 0:
                    _add_gap(table, gaps, session, behind, flags | rest)
            return


@kernel
def tell_units(
    table: NDArray[int64], gaps: NDArray[int64], session: Whole, sequence: Whole, units: Whole, state: Whole
) -> None:  # fmt: skip
    """Take note of records in a datagram, given by its number, whose end was not known.

    `state` is 0 where more of it waits, 1 where it is known now, so that what is behind it and did not come is lost,
    and -1 where it will never be.
    """
    if sequence < 0:
        return
    expected = table[session, e.T_EXPECTED]
    if expected < -1:
        start, packed = _opening(expected)
        if _whose(start, packed) == sequence:
            after = ((packed >> _AFTER) & _SIZE) + units
            table[session, e.T_EXPECTED] = _behind(sequence, after, bool(state >= 0))
            if state > 0:
                table[session, e.T_EXPECTED] = (sequence + after) & 0xFFFFFFFF
                table[session, e.UNTOLD] -= 1
            return
    for g in range(table[session, e.T_GAPS]):
        start = gaps[session, 2 * g]
        packed = gaps[session, 2 * g + 1]
        if _whose(start, packed) == sequence:
            size = packed & _SIZE
            rest = max(size - units, 0)
            gaps[session, 2 * g] = (start + units) & 0xFFFFFFFF
            gaps[session, 2 * g + 1] = packed - size + rest + (units << _AFTER)
            if state > 0:
                table[session, e.LOST] += rest
                table[session, e.UNTOLD] -= 1
                gaps[session, 2 * g + 1] = rest
            if state < 0 or (state > 0 and rest == 0):
                _close(table, gaps, session, g)
            return


@kernel
def _settle(
    table: NDArray[int64], gaps: NDArray[int64], session: Whole, mode: Whole, sequence: Whole, units: Whole,
    after: Whole, uptime: Whole, export: Whole,
) -> None:  # fmt: skip
    """Take note of a datagram that was not the next, now that it is known how far it moves its session's sequence."""
    if mode == _OLD:
        table[session, e.REORDERED] += 1
        return
    if mode == _LATE:
        table[session, e.REORDERED] += 1
        _fill(table, gaps, session, sequence, units, after)
        return
    jumped = signed32(sequence - table[session, e.T_EXPECTED])
    if mode == _STRAY:
        # Several of one burst that lag behind agree too: an exporter does not begin anew in no time.
        at_once = jumped < 0 and export != e.NO_TIME and export == table[session, e.T_EXPORT]
        at_once &= uptime == table[session, e.T_UPTIME]
        if table[session, e.T_CANDIDATE] != sequence or at_once:
            table[session, e.REORDERED] += 1
            table[session, e.T_CANDIDATE] = after
            return
        # The second that agrees: the first was no straggler. Backwards it is a restart, forwards a loss.
        table[session, e.REORDERED] -= 1
        if jumped < 0 or sequence < table[session, e.T_EXPECTED]:
            table[session, e.RESTARTS] += 1
            table[session, e.T_GAPS] = 0
            table[session, e.T_BEGAN] = export
        else:
            table[session, e.LOST] += jumped
    elif mode == _ANEW:
        table[session, e.T_GAPS] = 0
    elif mode == _AHEAD:
        table[session, e.LOST] += jumped
        _add_gap(table, gaps, session, table[session, e.T_EXPECTED], jumped)
    table[session, e.T_CANDIDATE] = -1
    table[session, e.T_EXPECTED] = after
    table[session, e.T_IDLE] = units == 0 and after >= 0


@kernel
def measure(
    data: NDArray[uint8], first: Whole, last: Whole, least: Whole, variable: Whole, plan: Whole,
    segments: NDArray[int32], room: Whole,
) -> tuple[Whole, Whole]:  # fmt: skip
    """Count the whole records with fields of variable length in data[first:last], at most `room`; give the fault too.

    What is shorter than the least record at the end is padding.
    """
    count = int64(0)
    p = first
    while p + least <= last:
        if count == room:
            return count, int64(e.TOO_MANY)
        for s in range(variable):
            p += int64(segments[plan, s])
            if p + 3 > last and (p >= last or data[uint64(p)] == 255):
                return count, int64(e.BAD_RECORD)
            field = int64(data[uint64(p)])
            p += 1
            if field == 255:
                field = u16_be(data, p)
                p += 2
            p += field
        p += int64(segments[plan, variable])
        if p > last:
            return count, int64(e.BAD_RECORD)
        count += 1
    return count, int64(0)


@kernel
def _in_order(word: uint64) -> uint64:
    """Return the number whose bytes, as they lie in memory, have the highest first."""
    turned = uint64(0)
    for b in range(8):
        turned = turned << uint64(8) | (word >> uint64(8 * b)) & uint64(255)
    return turned


@kernel
def is_allowed(allowed: NDArray[uint64], high: uint64, low: uint64) -> bool:
    """Return whether an address, as it lies in memory, is in one of some networks, or there is none.

    A network is its first and last address, of two numbers each.
    """
    if len(allowed) == 0:
        return True
    high, low = _in_order(high), _in_order(low)
    for k in range(len(allowed)):
        if (high > allowed[k, 0] or (high == allowed[k, 0] and low >= allowed[k, 1])) and (
            high < allowed[k, 2] or (high == allowed[k, 2] and low <= allowed[k, 3])
        ):
            return True
    return False


@inlined_kernel
def read_header(
    data: NDArray[uint8], at: Whole, end: Whole, sent_high: uint64, sent_low: uint64
) -> tuple[
    Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole, Whole, uint64, uint64
]:  # fmt: skip
    """Read a datagram's header: version, domain, sequence, uptime, export, units, count, body, end, fault, rate, agent.

    The body is 0 where it is no header of any version. The agent's address is as it lies in memory.
    """
    version = int64(0)
    if at + 2 <= end:
        version = u16_be(data, at)
    domain = int64(0)
    sequence = int64(0)
    uptime = int64(-1)
    export = int64(e.NO_TIME)
    units = int64(1)
    count = int64(0)
    body = int64(0)
    fault = int64(0)
    rate = int64(1)
    high = sent_high
    low = sent_low
    if version == 5 and at + 24 <= end:
        count = u16_be(data, at + 2)
        uptime = u32_be(data, at + 4)
        seconds = u32_be(data, at + 8)
        part = u32_be(data, at + 12)
        sequence = u32_be(data, at + 16)
        domain = u16_be(data, at + 20)
        rate = max(u16_be(data, at + 22) & 0x3FFF, 1)
        export = seconds * 1_000_000_000 + min(part, 999_999_999)
        units = count
        body = at + 24
        if count * 48 != end - body:
            fault = int64(e.BAD_LENGTH)
        count = min(count, (end - body) // 48)
    elif (version == 1 and at + 16 <= end) or (version == 7 and at + 24 <= end):
        count = u16_be(data, at + 2)
        uptime = u32_be(data, at + 4)
        export = u32_be(data, at + 8) * 1_000_000_000 + min(u32_be(data, at + 12), 999_999_999)
        units = count
        body = at + 16
        if version == 7:
            sequence = u32_be(data, at + 16)
            body = at + 24
        size = 52 if version == 7 else 48
        if count * size != end - body:
            fault = int64(e.BAD_LENGTH)
        count = min(count, (end - body) // size)
    elif version == 9 and at + 20 <= end:
        uptime = u32_be(data, at + 4)
        seconds = u32_be(data, at + 8)
        sequence = u32_be(data, at + 12)
        domain = u32_be(data, at + 16)
        export = seconds * 1_000_000_000
        body = at + 20
    elif version == 10 and at + 16 <= end:
        seconds = u32_be(data, at + 4)
        sequence = u32_be(data, at + 8)
        domain = u32_be(data, at + 12)
        export = seconds * 1_000_000_000
        body = at + 16
        units = int64(0)
        said = u16_be(data, at + 2)
        if at + said != end:
            fault = int64(e.BAD_LENGTH)
        end = max(min(end, at + said), body)
    elif version == 0 and at + 28 <= end and u16_be(data, at + 2) == 5 and u32_be(data, at + 4) <= 2:
        # The agent's address is none, IPv4 or IPv6.
        agent = 4 * int64(data[uint64(at + 7)]) ** 2
        p = at + 8 + (agent if agent <= 4 else 16)
        if p + 16 <= end:
            version = e.SFLOW
            domain = u32_be(data, p)
            sequence = u32_be(data, p + 4)
            uptime = u32_be(data, p + 8)
            count = u32_be(data, p + 12)
            body = p + 16
            # An agent that does not know its address has that of who sends for it.
            if agent == 4 and u32_be(data, at + 8):
                high = uint64(0)
                low = uint64(0xFFFF0000) | uint64(u32_le(data, at + 8)) << uint64(32)
            elif agent > 4:
                words = u64_le(data, at + 8), u64_le(data, at + 16)
                if words[0] != uint64(0) or words[1] != uint64(0):
                    high, low = words
    return version, domain, sequence, uptime, export, units, count, body, end, fault, rate, high, low


@inlined_kernel
def _samples(
    data: NDArray[uint8], at: Whole, end: Whole, cursor: NDArray[int64], session: Whole, table: NDArray[int64],
    drops: NDArray[int64],
) -> tuple[Whole, Whole, Whole, bool]:  # fmt: skip
    """Count the samples of an agent of sFlow: of flows, of counters, others; tell whether the datagram cuts one."""
    samples = int64(0)
    p = at
    left = cursor[e.C_COUNT]
    others = int64(0)
    counters = int64(0)
    cut = False
    while left > 0 and not cut:
        if p + 8 > end:
            cut = True
            break
        kind = u32_be(data, p)
        size = u32_be(data, p + 4)
        if p + 8 + size > end:
            cut = True
            break
        if (kind == 1 and size >= 32) or (kind == 3 and size >= 44):
            samples += 1
            # What an agent could not sample it counts from its start on, for each source of its own.
            wide = int64(4) if kind == 3 else int64(0)
            source = u32_be(data, p + 12)
            if wide:
                source = source << 32 | u32_be(data, p + 16)
            q = p + 24 + wide
            dropped = u32_be(data, q)
            place = source & (drops.shape[1] - 1)
            more = signed32(dropped - drops[session, place, 1])
            if drops[session, place, 0] != source + 1:
                drops[session, place, 0] = source + 1
                drops[session, place, 1] = dropped
            elif more > 0 or (more < 0 and cursor[e.C_MODE] != _LATE):
                drops[session, place, 1] = dropped
                table[session, e.UNSAMPLED] += max(more, 0)
        elif kind == 2 or kind == 4:
            counters += 1
        else:
            others += 1
        p += 8 + size
        left -= 1
    return samples, counters, others, cut


@kernel
def _note(runs: e.RunLists, run: Whole, plan: Whole, at: Whole, count: Whole, row: Whole, datagram: Whole) -> None:
    """Note a run of records."""
    run_plan, run_at, run_count, run_row, run_datagram = runs
    run_plan[run] = plan
    run_at[run] = at
    run_count[run] = count
    run_row[run] = row
    run_datagram[run] = datagram


@inlined_kernel
def _sets(
    given: e.Given, i: Whole, at: Whole, end: Whole, version: Whole, session: Whole, cursor: NDArray[int64],
    sessions: e.SessionTables, plans: e.PlanTables, heads: NDArray[int64], most: tuple[Whole, Whole], runs: e.RunLists,
) -> Whole:  # fmt: skip
    """Go through sets of records, each of one template, and note their runs; DONE, or why it stopped."""
    data, _, _, arrival, _, _ = given
    _, _, table, _, _, _, read, _, allowances, slot_ids, slot_plans = sessions
    facts, segments, _ = plans
    most_records, most_rows = most
    while at + 4 <= end:
        kind = u16_be(data, at)
        size = u16_be(data, at + 2)
        if kind == 0 and size == 0:  # filled up with zeros
            break
        if size < 4 or at + size > end:
            table[session, e.BAD_SET] += 1
            if version == e.IPFIX:
                cursor[e.C_UNITS] = -1
            break
        first = at + 4
        last = at + size
        now = arrival[i] if arrival[i] != e.NO_TIME else heads[i, e.H_EXPORT]
        if cursor[e.C_MODE] == _OLD:  # its templates are gone, and not those of now
            table[session, e.NO_TEMPLATE if kind >= 256 else e.SKIPPED] += 1
            at = last
            continue
        if kind < 256:
            cursor[e.C_AT] = last
            if (version == e.V9 and kind <= 1) or (version == e.IPFIX and (kind == 2 or kind == 3)):
                same = _bytes(data, first, last, kind)
                known = _read_before(read, session, same, now)
                if known >= 0:
                    table[session, e.TEMPLATES_SEEN] += known
                    at = last
                    continue
                if _spent(cursor, allowances, table[session, e.T_ALLOWANCE], now):
                    table[session, e.LEFT_OUT] += 1
                    at = last
                    continue
                cursor[e.C_BODY] = first
                cursor[e.C_BODY_END] = last
                cursor[e.C_TEMPLATE] = kind
                cursor[e.C_BYTES] = same
                return e.TEMPLATES
            table[session, e.SKIPPED] += 1
            at = last
            continue
        slot = find_template(slot_ids, session, kind)
        plan = int64(-1)
        if slot >= 0:
            plan = int64(slot_plans[session, slot])
            if now > facts[plan, e.P_EXPIRES]:
                slot = int64(-1)
        if slot < 0:
            if cursor[e.C_WORK] >= e.MOST_WORK and table[session, e.T_ALLOWANCE] != e.FREELY:
                table[session, e.NO_TEMPLATE] += 1
                if version == e.IPFIX:
                    cursor[e.C_UNITS] = -1
                at = last
                continue
            cursor[e.C_WAITS] += version == e.IPFIX
            cursor[e.C_AT] = last
            cursor[e.C_BODY] = first
            cursor[e.C_BODY_END] = last
            cursor[e.C_TEMPLATE] = kind
            return e.UNKNOWN
        if facts[plan, e.P_KIND] == e.K_RAW:
            if _spent(cursor, allowances, table[session, e.T_ALLOWANCE], now):
                table[session, e.LEFT_OUT] += 1
                if version == e.IPFIX:
                    cursor[e.C_UNITS] = -1
                at = last
                continue
            cursor[e.C_AT] = at
            cursor[e.C_TEMPLATE] = kind
            return e.RAW
        stride = facts[plan, e.P_SIZE]
        variable = facts[plan, e.P_VARIABLE]
        room = int64(most_rows if heads[i, e.H_PORT] >= e.STREAM else most_records) - cursor[e.C_RECORDS]
        count = (last - first) // stride
        fault = int64(0)
        if variable > 0:
            count, fault = measure(data, first, last, stride, variable, plan, segments, last - first)
        beyond = max(count - room, 0)
        count -= beyond
        facts[plan, e.P_USED] = cursor[e.C_CLOCK]
        flows = facts[plan, e.P_KIND] == e.K_FLOWS
        if count > 0 and flows:
            row = cursor[e.C_ROWS]
            run = cursor[e.C_RUNS]
            if row + count > most_rows or run == len(runs[0]):
                cursor[e.C_AT] = at
                return e.FULL
            _note(runs, run, plan, first, count, row, i)
            cursor[e.C_ROWS] = row + count
            cursor[e.C_RUNS] = run + 1
        if fault:
            table[session, fault] += 1
            if version == e.IPFIX:
                cursor[e.C_UNITS] = -1
        if beyond > 0:
            table[session, e.TOO_MANY] += cursor[e.C_FULL] == 0
            table[session, e.BEYOND] += beyond
            cursor[e.C_FULL] = 1
        table[session, e.RECORDS if flows else e.OPTION_RECORDS] += count
        cursor[e.C_RECORDS] += count
        if version == e.IPFIX and cursor[e.C_UNITS] >= 0:
            cursor[e.C_UNITS] += count + beyond
        at = last
        cursor[e.C_AT] = at
        same = int64(0)
        if count > 0 and facts[plan, e.P_KIND] == e.K_READ_OPTIONS:
            same = _bytes(data, first, last, kind)
        if same != 0 and _read_before(read, session, same, now) < 0:
            if _spent(cursor, allowances, table[session, e.T_ALLOWANCE], now):
                table[session, e.LEFT_OUT] += 1
                continue
            cursor[e.C_BYTES] = same
            cursor[e.C_BODY] = first
            cursor[e.C_BODY_END] = last
            cursor[e.C_PLAN] = plan
            cursor[e.C_TEMPLATE] = kind
            cursor[e.C_COUNT] = count
            return e.OPTIONS
    return e.DONE


@inlined_kernel
def _mark(data: NDArray[uint8], at: Whole, end: Whole) -> Whole:
    """Return the mark of a datagram, which a copy has too: of its length, its header and what follows, its last bytes.

    Datagrams of one session differ in their headers already.
    """
    word = uint64(end - at)
    for part in range(6):
        p = at + 8 * part if part < 5 else end - 8
        if p + 8 <= end:
            word = _stir(word, u64_le(data, p))
    return int64(word >> uint64(1)) | 1


@inlined_kernel
def _tell(
    heads: NDArray[int64], i: Whole, export: Whole, uptime: Whole, domain: Whole, version: Whole, session: Whole,
    arrival: Whole, port: Whole, table: NDArray[int64], ahead: Whole, sequence: Whole,
) -> None:  # fmt: skip
    """Write what a datagram's head tells of all its records; it is `ahead` of the sequence by what was lost."""
    heads[i, e.H_SEQUENCE] = sequence if version == e.IPFIX else int64(-1)
    heads[i, e.H_EXPORT] = export
    heads[i, e.H_UPTIME] = uptime
    heads[i, e.H_DOMAIN] = domain
    heads[i, e.H_VERSION] = version
    heads[i, e.H_SESSION] = session
    heads[i, e.H_ARRIVAL] = arrival
    heads[i, e.H_PORT] = int64(port)
    heads[i, e.H_INIT] = table[session, e.T_INIT]
    heads[i, e.H_RATE] = table[session, e.T_RATE]
    heads[i, e.H_SAMPLERS] = table[session, e.T_SAMPLERS]
    heads[i, e.H_LOST] = table[session, e.LOST] + ahead
    if version == e.V5 or version == e.IPFIX:
        heads[i, e.H_RECEIVED] = table[session, e.RECORDS] + table[session, e.OPTION_RECORDS]
    else:
        heads[i, e.H_RECEIVED] = table[session, e.DATAGRAMS] - 1


@inlined_kernel
def _end(
    i: Whole, version: Whole, session: Whole, cursor: NDArray[int64], table: NDArray[int64], recent: NDArray[int64],
    gaps: NDArray[int64], heads: NDArray[int64],
) -> None:  # fmt: skip
    """Take note at the end of a datagram of which number is to come, and what was lost before it."""
    recent[session, table[session, e.T_RECENT]] = cursor[e.C_MARK]
    table[session, e.T_RECENT] = (table[session, e.T_RECENT] + 1) % recent.shape[1]
    units = cursor[e.C_UNITS]
    # What is to come behind a datagram that cannot be counted whole is not known, but that it is behind.
    told = units >= 0 and cursor[e.C_WAITS] == 0
    after = (cursor[e.C_SEQUENCE] + units) & 0xFFFFFFFF
    if not told:
        after = _behind(cursor[e.C_SEQUENCE], max(units, 0), units >= 0)
    expected = table[session, e.T_EXPECTED]
    start, flags = _opening(expected)
    if (
        cursor[e.C_MODE] == _NEXT
        and told
        and units == 0
        and expected < -1
        and _own(start, flags) == cursor[e.C_SEQUENCE]
    ):
        # Nothing but templates, overtaken by the data that have the same number; in a connection nothing is.
        table[session, e.REORDERED] += heads[i, e.H_PORT] < e.STREAM
    elif cursor[e.C_MODE] == _NEXT and cursor[e.C_OPEN] and expected >= 0:
        # Its template told where the one before it ends: this one is the next, behind a loss, or was overtaken.
        jumped = signed32(cursor[e.C_SEQUENCE] - expected)
        mode = int64(_AHEAD) if 0 < jumped <= _JUMP else int64(_NEXT)
        if -_JUMP <= jumped < 0 and heads[i, e.H_PORT] < e.STREAM:  # in a connection nothing is overtaken
            mode = int64(_LATE)
        cursor[e.C_MODE] = mode
        uptime = heads[i, e.H_UPTIME]
        export = heads[i, e.H_EXPORT]
        _settle(table, gaps, session, mode, cursor[e.C_SEQUENCE], units, after, uptime, export)
    elif cursor[e.C_MODE] == _NEXT:
        size = signed32(cursor[e.C_SEQUENCE] - start)
        if expected < -1 and flags & _FOR_EVER == 0 and 0 <= size <= _JUMP:
            _add_gap(table, gaps, session, start, flags | size)
        table[session, e.T_CANDIDATE] = -1
        table[session, e.T_EXPECTED] = after
        table[session, e.T_IDLE] = units == 0 and told
    else:
        uptime = heads[i, e.H_UPTIME]
        export = heads[i, e.H_EXPORT]
        _settle(table, gaps, session, cursor[e.C_MODE], cursor[e.C_SEQUENCE], units, after, uptime, export)
    # What cannot be counted leaves it open which number is to come, and what was lost before the next datagram.
    table[session, e.UNTOLD] += not told and table[session, e.T_EXPECTED] == after and cursor[e.C_MODE] != _LATE
    if cursor[e.C_MODE] != _LATE and cursor[e.C_MODE] != _OLD and table[session, e.T_EXPECTED] == after:
        # A header that announces more than was sent may be wrong, or the rest is cut by a capture.
        short = (version == e.V5 or version == e.V7) and cursor[e.C_COUNT] < units
        table[session, e.T_ALSO] = (cursor[e.C_SEQUENCE] + cursor[e.C_COUNT]) & 0xFFFFFFFF if short else int64(-1)


@kernel
def walk(
    given: e.Given, datagrams: Whole, cursor: NDArray[int64], sessions: e.SessionTables, plans: e.PlanTables,
    heads: NDArray[int64], most: tuple[Whole, Whole], allowed: NDArray[uint64], runs: e.RunLists,
) -> Whole:  # fmt: skip
    """Walk datagrams from where `cursor` stands, note the runs of records, and say why it stopped.

    `most` says how many records a datagram may have, and how many rows all may have together. `allowed` are the
    networks from which datagrams may come, see `is_allowed`.
    """
    data, offset, length, arrival, address, port = given
    keys, senders, table, index, recent, gaps, _, drops, _, _, _ = sessions
    most_records, most_rows = most
    while cursor[e.C_DATAGRAM] < datagrams:
        i = int64(cursor[e.C_DATAGRAM])
        at = int64(cursor[e.C_AT])
        if at == 0:
            # 1. The header: whose it is, how long, when it was sent.
            at = int64(offset[uint64(i)])
            end = at + int64(length[uint64(i)])
            sent_high = address[uint64(2 * i)]
            sent_low = address[uint64(2 * i + 1)]
            version, domain, sequence, uptime, export, units, count, body, end, fault, rate, high, low = read_header(
                data, at, end, sent_high, sent_low
            )
            if body == 0:
                table[e.NOBODY, e.DATAGRAMS] += 1
                table[e.NOBODY, e.BAD_HEADER] += 1
                cursor[e.C_DATAGRAM] = i + 1
                continue
            if not e.EARLIEST <= export < e.LATEST:
                export = int64(e.NO_TIME)
            session = cursor[e.C_SESSION]
            if (
                keys[session, 0] != high
                or keys[session, 1] != low
                or senders[session, 0] != sent_high
                or senders[session, 1] != sent_low
                or table[session, e.T_PORT] != int64(port[i])
                or table[session, e.T_DOMAIN] != domain
                or table[session, e.T_VERSION] != version
            ):
                found = find_session(
                    keys, senders, table, index, high, low, sent_high, sent_low, int64(port[i]), version, domain
                )
                if found < 0:
                    if not _lets_in(cursor, table, allowed, sent_high, sent_low, int64(port[i])):
                        cursor[e.C_DATAGRAM] = i + 1
                        continue
                    cursor[e.C_VERSION] = version
                    cursor[e.C_DOMAIN] = domain
                    cursor[e.C_HIGH] = int64(high)
                    cursor[e.C_LOW] = int64(low)
                    return e.STRANGER
                session = int64(index[found])
                cursor[e.C_SESSION] = session
            cursor[e.C_CLOCK] += 1
            table[session, e.T_USED] = cursor[e.C_CLOCK]
            table[session, e.DATAGRAMS] += 1
            if table[session, e.T_REFUSED]:
                table[session, e.REFUSED] += 1
                cursor[e.C_DATAGRAM] = i + 1
                continue
            if fault:
                table[session, fault] += 1

            # 2. Its place in the sequence.
            mark = _mark(data, at, end)
            mode = int64(_NEXT)
            if version == e.V1:  # it has no sequence; only a copy can be told
                sequence = max(table[session, e.T_EXPECTED], 0)
                if _came(recent, session, mark):
                    mode = int64(_KNOWN)
            elif port[i] >= e.STREAM:
                mode = int64(_follow(table, session, sequence))
            elif sequence != table[session, e.T_EXPECTED] or table[session, e.T_IDLE]:
                mode = int64(_enter(table, recent, gaps, session, sequence, uptime, export, mark))
            if mode == _KNOWN:
                table[session, e.DUPLICATED] += 1
                cursor[e.C_DATAGRAM] = i + 1
                continue
            if mode == _ANEW:
                # Where there is no time of export, the uptime itself is what a straggler has of before.
                known_clock = table[session, e.T_EXPORT] != e.NO_TIME and export != e.NO_TIME
                before = table[session, e.T_BOOT] if known_clock else table[session, e.T_UPTIME]
                table[session, e.T_OLD_BOOT] = before
                table[session, e.T_BEGAN] = export
            if mode != _LATE and mode != _STRAY and mode != _OLD:
                table[session, e.T_UPTIME] = uptime
                table[session, e.T_EXPORT] = export
                if export != e.NO_TIME and uptime >= 0:
                    table[session, e.T_BOOT] = (export // 1_000_000 - uptime) & 0xFFFFFFFF
            if version == e.V5:
                table[session, e.T_RATE] = rate
            ahead = signed32(sequence - table[session, e.T_EXPECTED]) if mode == _AHEAD else int64(0)
            _tell(heads, i, export, uptime, domain, version, session, arrival[i], port[i], table, ahead, sequence)
            at = body
            cursor[e.C_END] = end
            cursor[e.C_SESSION] = session
            cursor[e.C_OPEN] = table[session, e.T_EXPECTED] < -1
            cursor[e.C_UNITS] = units
            cursor[e.C_MODE] = mode
            cursor[e.C_SEQUENCE] = sequence
            cursor[e.C_MARK] = mark
            cursor[e.C_RECORDS] = cursor[e.C_WORK] = cursor[e.C_FULL] = cursor[e.C_WAITS] = 0
            cursor[e.C_VERSION] = version
            cursor[e.C_COUNT] = count
            cursor[e.C_AT] = at
            if mode == _ANEW:
                table[session, e.RESTARTS] += 1
                return e.RESTARTED

        end = cursor[e.C_END]
        session = cursor[e.C_SESSION]
        version = cursor[e.C_VERSION]
        if version == e.V5 or version == e.V1 or version == e.V7:
            # 3. Records of one layout.
            count = min(cursor[e.C_COUNT], most_records)
            if count > 0:
                row = cursor[e.C_ROWS]
                run = cursor[e.C_RUNS]
                if row + count > most_rows or run == len(runs[0]):
                    return e.FULL
                plan = e.PLAN_V5
                if version != e.V5:
                    plan = e.PLAN_V1 if version == e.V1 else e.PLAN_V7
                _note(runs, run, plan, at, count, row, i)
                cursor[e.C_ROWS] = row + count
                cursor[e.C_RUNS] = run + 1
                table[session, e.RECORDS] += count
            table[session, e.TOO_MANY] += cursor[e.C_COUNT] > most_records
            table[session, e.BEYOND] += max(cursor[e.C_COUNT] - most_records, 0)
        elif version == e.SFLOW:
            # 4. Samples, of which those of flows are one row each.
            samples, counters, others, cut = _samples(data, at, end, cursor, session, table, drops)
            beyond = max(samples - most_records, 0)
            samples = min(samples, most_records)
            if samples > 0:
                row = cursor[e.C_ROWS]
                run = cursor[e.C_RUNS]
                if row + samples > most_rows or run == len(runs[0]):
                    return e.FULL
                _note(runs, run, e.PLAN_SFLOW, at, samples, row, i)
                cursor[e.C_ROWS] = row + samples
                cursor[e.C_RUNS] = run + 1
                table[session, e.RECORDS] += samples
            table[session, e.COUNTER_SAMPLES] += counters
            table[session, e.SKIPPED] += others
            table[session, e.BAD_SAMPLE] += cut
            table[session, e.TOO_MANY] += beyond > 0
            table[session, e.BEYOND] += beyond
        else:
            # 5. Sets of records, each of one template.
            why = _sets(given, i, at, end, version, session, cursor, sessions, plans, heads, most, runs)
            if why != e.DONE:
                return why
        _end(i, version, session, cursor, table, recent, gaps, heads)
        cursor[e.C_AT] = 0
        cursor[e.C_DATAGRAM] = i + 1
    return e.DONE
