# pyright: reportMissingParameterType=false
"""Compiled firings of sessions: what each has at the ticks at which it fires, and when it ends.

A result that fires at a tick is over the tuples before it. A tuple that no later tuple can part from its open session,
before the next tick at which that fires, joins it when it arrives. Others wait in runs, one aggregate each, that no
firing can part, whatever is still to come. A session begins at or above what is promised, so it fires at the earliest
one step above that; and the open session of the partition fires at ticks that are known.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ranked.ranked import has_room
from operators.kernels.ticks import BEFORE_ALL, FOREVER


@kernel
def next_firing(begin, tick, rule, after):
    """Return the first tick behind one at which a session fires, FOREVER for none.

    It fires each EVERY ticks, and so many ticks `after` its begin, which rise.
    """
    behind = tick - begin
    found = FOREVER
    if rule[EVERY] > 0:
        found = begin + (behind // rule[EVERY] + 1) * rule[EVERY]
    for i in range(len(after)):
        if after[i] > behind:
            return min(found, begin + after[i])
    return found


@kernel
def _behind(tick, start, stop, keys):
    """Return the place of the first of the keys from `start` to `stop` that is above a tick, `stop` for none."""
    if start == stop or keys[stop - 1] <= tick:
        return stop
    low = start
    high = stop - 1
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= tick:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _note(newest, p, tick, ceiling, slot, is_open):
    """Let an aggregate take the tuples of a partition that come in order."""
    newest[p, NEWEST_TICK] = tick
    newest[p, NEWEST_CEILING] = ceiling
    newest[p, NEWEST_SLOT] = slot
    newest[p, NEWEST_OPEN] = is_open


@kernel
def arrive(parts, ticks, own, bound, rule, after, sessions, tables, fresh, cursor, slots, apart):
    """Take tuples as they arrive into the open sessions of their partitions, or into runs that wait in `tables`.

    Writes the slot of each. `own` is what is promised of each partition, `bound` of all. Runs begin in slots of
    `fresh`; tuples that begin one among those that wait are listed in `apart`. Goes on at `cursor`, and stops where
    `fresh` is used up or the arena is full. Returns how many slots of `fresh` are used.
    """
    begins, lasts, nexts, helds = sessions[BEGIN], sessions[LAST], sessions[NEXT], sessions[HELD]
    reach, ceilings, newest = sessions[REACH], sessions[CEILING], sessions[NEWEST]
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items = tables[KEYS], tables[ITEMS]
    gap, merges = rule[GAP], rule[MERGES] != 0
    step = next_firing(0, 0, rule, after)
    used = 0
    for i in range(cursor[ENTRY], len(parts)):
        cursor[ENTRY] = i
        if used == len(fresh):
            return used
        p = parts[i]
        tick = ticks[i]
        last = newest[p, NEWEST_TICK]
        if last <= tick and tick < newest[p, NEWEST_CEILING] and tick < last + gap:
            newest[p, NEWEST_TICK] = tick
            slot = newest[p, NEWEST_SLOT]
            slots[i] = slot
            if newest[p, NEWEST_OPEN] == 0:
                reach[slot] = tick
            else:
                lasts[p] = tick
            continue
        begin = begins[p]
        if merges and begin != FOREVER and tick < nexts[p] and tick < lasts[p] + gap:
            if helds[p] < 0:
                helds[p] = fresh[used]
                used += 1
            lasts[p] = max(lasts[p], tick)
            slots[i] = helds[p]
            if tick >= last:
                _note(newest, p, lasts[p], nexts[p], helds[p], 1)
            continue
        start = places[p, START]
        stop = start + places[p, SIZE]
        at = _behind(tick, start, stop, keys)
        ceiling = max(own[p], bound) + step
        if merges:
            if at > start:
                slot = items[at - 1]
                if tick <= reach[slot] or (tick < ceilings[slot] and tick < reach[slot] + gap):
                    reach[slot] = max(reach[slot], tick)
                    slots[i] = slot
                    if tick >= last:
                        _note(newest, p, reach[slot], ceilings[slot], slot, 0)
                    continue
            if begin != FOREVER:
                ceiling = min(ceiling, next_firing(begin, tick, rule, after))
            if at < stop and keys[at] < tick + gap and reach[items[at]] < ceiling:
                slot = items[at]
                keys[at] = tick
                ceilings[slot] = ceiling
                slots[i] = slot
                if at == start:
                    heads[p] = tick
                continue
        if at == stop and not has_room(p, 1, tables):
            return used
        slot = fresh[used]
        used += 1
        reach[slot] = tick
        ceilings[slot] = ceiling
        slots[i] = slot
        if merges and tick >= last:
            _note(newest, p, tick, ceiling, slot, 0)
        if at < stop:
            apart[cursor[APART]] = i
            cursor[APART] += 1
            continue
        stop = places[p, START] + places[p, SIZE]
        keys[stop] = tick
        items[stop] = slot
        if places[p, SIZE] == 0:
            heads[p] = tick
        places[p, SIZE] += 1
        counters[ENTRIES] += 1
    cursor[ENTRY] = len(parts)
    return used


@kernel
def fire(parts, ends, ticks, slots, bound, rule, after, sessions, fresh, cursor, pairs, found):
    """Take runs of tuples into the sessions of their partitions, and list the results of those that fire or end.

    Runs come by partition, those of one in the order of their first `ticks`, below `bound`. Results that fire up to
    `bound` are due. A result that is not final holds a copy in a slot of `fresh`, or with DISCARDS the slot that the
    session had. Goes on at `cursor`; stops where `found` is full, and the queue at the cursor is then not the last.
    Returns (combinations, slots spent, slots of `fresh` used, results).
    """
    begins, lasts, fireds, tolds = sessions[BEGIN], sessions[LAST], sessions[FIRED], sessions[TOLD]
    nexts, helds, reach, newest = sessions[NEXT], sessions[HELD], sessions[REACH], sessions[NEWEST]
    combined = spent = used = made = 0
    while cursor[QUEUE] < len(parts):
        j = cursor[QUEUE]
        p = parts[j]
        i = cursor[ENTRY]
        stop = ends[j]
        _note(newest, p, BEFORE_ALL, BEFORE_ALL, -1, 0)
        while True:
            end = tick = FOREVER
            if begins[p] != FOREVER:
                end = lasts[p] + rule[GAP]
                tick = min(end, nexts[p])
            if tick < FOREVER and tick <= (ticks[i] if i < stop else bound):
                if made == found.shape[1]:
                    cursor[ENTRY] = i
                    return combined, spent, used, made
                if helds[p] >= 0:
                    slot = helds[p]
                    if tick < end and rule[DISCARDS] == 0:
                        slot = fresh[used]
                        used += 1
                        pairs[INTO, combined] = slot
                        pairs[SOURCE, combined] = helds[p]
                        combined += 1
                    else:
                        helds[p] = -1
                    found[OWNER, made] = p
                    found[SLOT, made] = slot
                    found[BEGINS, made] = begins[p]
                    found[ENDS, made] = end
                    found[FIRES, made] = tick
                    made += 1
                    tolds[p] = end
                if tick == end:
                    begins[p] = FOREVER
                    lasts[p] = FOREVER
                    fireds[p] = FOREVER
                    tolds[p] = FOREVER
                    nexts[p] = FOREVER
                else:
                    fireds[p] = tick
                    nexts[p] = next_firing(begins[p], tick, rule, after)
                continue
            if i == stop:
                break
            if begins[p] == FOREVER:
                begins[p] = ticks[i]
                lasts[p] = ticks[i]
                fireds[p] = ticks[i]
                nexts[p] = next_firing(ticks[i], ticks[i], rule, after)
            lasts[p] = max(lasts[p], ticks[i], reach[slots[i]])
            if helds[p] < 0:
                helds[p] = slots[i]
            else:
                pairs[INTO, combined] = helds[p]
                pairs[SOURCE, combined] = slots[i]
                combined += 1
                pairs[SPENT, spent] = slots[i]
                spent += 1
            i += 1
        cursor[QUEUE] = j + 1
        cursor[ENTRY] = stop
    return combined, spent, used, made
