# pyright: reportMissingParameterType=false
"""Compiled bookkeeping of partial aggregates: one slot for each (slice, group), chained by slice, on demand by group.

A slice is the set of tuples with one range of window-ids. `by_slice` heads doubly linked chains: links[s] = (next in
slice, previous in slice). So do `by_group` and kin[s] for groups once single groups are released; before, both are of
length 0, since neighbours in a group lie anywhere in memory. held[g] says how many slots a group has.
A slice may have a row: rows[row_of[s], g] is then the slot of each of its groups, -1 for none; the slots of slices
without one (row_of[s] = -1) are found in a hash table.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.windows.layout import *

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Sums that follow one another, times this, are far apart in their upper half."""


@kernel
def _mix(h):
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x9FB21C651E98DF25)
    return h ^ (h >> np.uint64(29))


@kernel
def _link(of, slot, heads, links):
    """Put a slot at the head of the chain of its slice, or of its group."""
    following = heads[of]
    links[slot, 0] = following
    links[slot, 1] = -1
    if following >= 0:
        links[following, 1] = slot
    heads[of] = slot


@kernel
def _unlink(of, slot, heads, links):
    """Take a slot out of the chain of its slice, or of its group."""
    following = links[slot, 0]
    before = links[slot, 1]
    if following >= 0:
        links[following, 1] = before
    if before >= 0:
        links[before, 0] = following
    else:
        heads[of] = following


@kernel
def chain(live, pairs, by_group, kin):
    """Chain these slots by group, the last of them first."""
    for i in range(len(live)):
        _link(np.int64(pairs[live[i]] & _LOW), live[i], by_group, kin)


@kernel
def locate(slices, groups, memory, slots, fresh, start):
    """Write the slot of each tuple's (slice, group), from tuple `start` on, making and chaining new slots.

    New slots are listed in `fresh`. Returns the number of tuples done; fewer than all when a table is full.
    """
    row_of, rows, pairs, table = memory[OF_ROW_OF], memory[OF_ROWS], memory[OF_PAIRS], memory[OF_TABLE]
    counters, free, by_slice = memory[OF_COUNTERS], memory[OF_FREE], memory[OF_BY_SLICE]
    links, sizes, held, by_group = memory[OF_LINKS], memory[OF_SIZES], memory[OF_HELD], memory[OF_BY_GROUP]
    kin = memory[OF_KIN]
    mask = np.uint64(len(table) - 1)
    # Counting in memory would make each step wait for the store of the last one.
    live, made, spare, new = counters[HELD], counters[MADE], counters[SPARE], counters[FRESH]
    room = np.int64(len(table) // 2)
    chained = len(kin) > 0
    done = np.int64(len(slices))
    for i in range(start, len(slices)):
        s = slices[i]
        g = groups[i]
        pair = (np.uint64(s) << _HALF) | np.uint64(g)
        row = row_of[s]
        place = np.uint64(0)
        if row >= 0:
            slot = np.int64(rows[row, g])
        else:
            place = (_mix(pair) >> _HALF) & mask
            while True:
                slot = np.int64(table[place])
                if slot < 0 or pairs[slot] == pair:
                    break
                place = (place + np.uint64(1)) & mask
        if slot < 0:
            if live >= room or new >= len(fresh) or (spare == 0 and made >= len(pairs)):
                done = np.int64(i)
                break
            if spare > 0:
                spare -= 1
                slot = np.int64(free[spare])
            else:
                slot = made
                made += 1
            live += 1
            fresh[new] = slot
            new += 1
            pairs[slot] = pair
            if row >= 0:
                rows[row, g] = slot
            else:
                table[place] = slot
            _link(s, slot, by_slice, links)
            sizes[s] += 1
            held[g] += 1
            if chained:
                _link(g, slot, by_group, kin)
        slots[i] = slot
    counters[HELD], counters[MADE], counters[SPARE], counters[FRESH] = live, made, spare, new
    return done


@kernel
def rehash(live, row_of, pairs, table):
    """Enter these slots, which are not in the table, but those of slices with a row."""
    mask = np.uint64(len(table) - 1)
    for i in range(len(live)):
        if row_of[np.int64(pairs[live[i]] >> _HALF)] >= 0:
            continue
        place = (_mix(pairs[live[i]]) >> _HALF) & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = live[i]


@kernel
def drop(gone, memory, idle):
    """Unchain these slots and forget them; lists the groups that are left without a slot and gives their number."""
    row_of, rows, pairs, table = memory[OF_ROW_OF], memory[OF_ROWS], memory[OF_PAIRS], memory[OF_TABLE]
    counters, free, by_slice = memory[OF_COUNTERS], memory[OF_FREE], memory[OF_BY_SLICE]
    links, sizes, held, by_group = memory[OF_LINKS], memory[OF_SIZES], memory[OF_HELD], memory[OF_BY_GROUP]
    kin = memory[OF_KIN]
    mask = np.uint64(len(table) - 1)
    chained = len(kin) > 0
    left = 0
    live, spare = counters[HELD], counters[SPARE]
    for i in range(len(gone)):
        slot = gone[i]
        pair = pairs[slot]
        s = np.int64(pair >> _HALF)
        g = np.int64(pair & _LOW)
        if row_of[s] >= 0:
            rows[row_of[s], g] = -1
        else:
            hole = (_mix(pair) >> _HALF) & mask
            while table[hole] != slot:
                hole = (hole + np.uint64(1)) & mask
            probe = hole
            while True:
                probe = (probe + np.uint64(1)) & mask
                entry = table[probe]
                if entry < 0:
                    break
                home = (_mix(pairs[entry]) >> _HALF) & mask
                if ((probe - home) & mask) >= ((probe - hole) & mask):
                    table[hole] = entry
                    hole = probe
            table[hole] = -1
        _unlink(s, slot, by_slice, links)
        sizes[s] -= 1
        if chained:
            _unlink(g, slot, by_group, kin)
        held[g] -= 1
        if held[g] == 0:
            idle[left] = g
            left += 1
        free[spare] = slot
        spare += 1
        live -= 1
    counters[HELD], counters[SPARE] = live, spare
    return left


@kernel
def members(slices, by_slice, links, out):
    """List the slots of these slices, slice by slice."""
    n = 0
    for i in range(len(slices)):
        slot = by_slice[slices[i]]
        while slot >= 0:
            out[n] = slot
            n += 1
            slot = links[slot, 0]
    return n


@kernel
def stretch(wid, stop, order, starts, ends, sizes, budget):
    """Find how many windows from `wid` on fit a budget of partial aggregates to combine.

    `order` lists the open slices by start. Returns (first window with a tuple, window after the last one taken,
    partial aggregates in all); the first window is always taken.
    """
    first = wid
    total = np.int64(0)
    head = 0
    w = wid
    while w < stop:
        here = np.int64(0)
        upcoming = stop
        # Slices before `head` are in no window from w on.
        while head < len(order) and ends[order[head]] <= w:
            head += 1
        for i in range(head, len(order)):
            s = order[i]
            if starts[s] > w:
                upcoming = min(upcoming, starts[s])
                break
            if ends[s] > w:
                here += sizes[s]
        if here == 0:
            if total == 0:
                first = upcoming
            w = upcoming
            continue
        if total > 0 and total + here > budget:
            break
        total += here
        w += 1
    return first, w, total


@kernel
def cover(wid, stop, order, starts, ends, memory, own, seen, wids, groups, into, source):
    """List, for the windows [wid, stop), the results (window, group) and which slots each is combined from.

    A group whose own bound is past a window has had that window already. seen[g] is -1 for every group at the start.
    Returns (results, pairs of result and slot).
    """
    by_slice, links, pairs = memory[OF_BY_SLICE], memory[OF_LINKS], memory[OF_PAIRS]
    results = np.int64(0)
    n = np.int64(0)
    head = 0
    w = wid
    while w < stop:
        base = results
        upcoming = stop
        active = False
        while head < len(order) and ends[order[head]] <= w:
            head += 1
        for i in range(head, len(order)):
            s = order[i]
            if starts[s] > w:
                upcoming = min(upcoming, starts[s])
                break
            if ends[s] <= w:
                continue
            active = True
            slot = by_slice[s]
            while slot >= 0:
                g = np.int64(pairs[slot] & _LOW)
                if own[g] <= w:
                    result = np.int64(seen[g])
                    if result < base:
                        result = results
                        seen[g] = result
                        wids[result] = w
                        groups[result] = g
                        results += 1
                    into[n] = result
                    source[n] = slot
                    n += 1
                slot = links[slot, 0]
        w = w + 1 if active else upcoming
    return results, n


@kernel
def cover_groups(which, released, bound, starts, ends, suffixed, memory, own, wids, groups, into, source):
    """Do as `cover` does for single groups, each from its own bound (or what is released for all) up to `bound`.

    In slices that are suffixed a group's oldest slot of a window stands for the younger ones there. The slots of a
    result are in the order of the group's chain, not in that of their slices. Without room in `into` only counts.
    Returns (results, pairs).
    """
    fill = len(into) > 0
    by_group, kin, pairs = memory[OF_BY_GROUP], memory[OF_KIN], memory[OF_PAIRS]
    results = np.int64(0)
    n = np.int64(0)
    for i in range(len(which)):
        g = which[i]
        low = max(own[g], released)
        w = low
        while w < bound:
            upcoming = bound
            here = np.int64(0)
            oldest = np.int64(-1)
            age = np.int64(0)
            begun = np.int64(0)
            slot = np.int64(by_group[g])
            while slot >= 0:
                s = np.int64(pairs[slot] >> _HALF)
                if starts[s] > w:
                    upcoming = min(upcoming, starts[s])
                elif ends[s] > w:
                    if suffixed[s]:
                        if oldest < 0 or ends[s] < age or (ends[s] == age and starts[s] < begun):
                            oldest = slot
                            age = ends[s]
                            begun = starts[s]
                    else:
                        if fill:
                            into[n] = results
                            source[n] = slot
                        n += 1
                        here += 1
                slot = np.int64(kin[slot, 0])
            if oldest >= 0:
                if fill:
                    into[n] = results
                    source[n] = oldest
                n += 1
                here += 1
            if here > 0:
                if fill:
                    wids[results] = w
                    groups[results] = g
                results += 1
                w += 1
            else:
                w = upcoming
    return results, n


@kernel
def settled(which, bound, ends, by_group, kin, pairs, out):
    """List the slots of these groups whose slice is in no window from `bound` on."""
    n = 0
    for i in range(len(which)):
        slot = by_group[which[i]]
        while slot >= 0:
            if ends[np.int64(pairs[slot] >> _HALF)] <= bound:
                out[n] = slot
                n += 1
            slot = kin[slot, 0]
    return n


@kernel
def _place_of(first, last, table):
    """Return where to look for a range first, given that most ranges follow one another."""
    return ((np.uint64(first + last) * _SPREAD) >> _HALF) & np.uint64(len(table) - 1)


@kernel
def slice_ids(first, last, starts, ends, table, ids, start):
    """Write the open slice of each tuple's range [first, last), from tuple `start` on; stops at a range not open.

    `table` holds slice numbers by hash of the range, -1 where empty. An index that is cast to uint64 spares the loop
    the case of a negative one.
    """
    mask = np.uint64(len(table) - 1)
    for i in range(start, len(first)):
        a = first[np.uint64(i)]
        b = last[np.uint64(i)]
        place = _place_of(a, b, table)
        found = table[place]
        while found >= 0 and (starts[np.uint64(found)] != a or ends[np.uint64(found)] != b):
            place = (place + np.uint64(1)) & mask
            found = table[place]
        if found < 0:
            return i
        ids[np.uint64(i)] = found
    return len(first)


@kernel
def enter_slices(numbers, starts, ends, table):
    """Enter these slices into a table with room."""
    mask = np.uint64(len(table) - 1)
    for i in range(len(numbers)):
        s = numbers[i]
        place = _place_of(starts[s], ends[s], table)
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = s
