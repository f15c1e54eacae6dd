# pyright: reportMissingParameterType=false
"""Compiled queues: each keeps its entries (key, item) in the order of the key, in a room of an arena that all share.

A queue owns a room of `keys` and `items`, as `places` has it. Rooms are powers of two; spare[level] heads the chain of
unused rooms of 2^level, linked through their first key. heads[q] is the least key, FOREVER when the queue is empty, so
that one scan of a dense array finds the queues behind a bound.

A batch for several queues comes as `queues`, each named once, and `ends`: queue j's entries are those from ends[j - 1]
to ends[j], in order.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ticks import BEFORE_ALL, FOREVER


@kernel
def arrange(queues, order, counts, touched, ends, out):
    """Sort tuples by queue, keeping `order` within each; lists the queues and where each one's tuples end.

    An empty `order` stands for the order of arrival. counts[q] is zero for every queue before and after. Returns how
    many queues there are; they stand in the order of first appearance.
    """
    found = 0
    arrived = len(order) == 0
    for i in range(len(queues)):
        q = queues[i] if arrived else queues[order[i]]
        if counts[q] == 0:
            touched[found] = q
            found += 1
        counts[q] += 1
    at = np.int64(0)
    for j in range(found):
        n = counts[touched[j]]
        counts[touched[j]] = at
        at += n
        ends[j] = at
    for i in range(len(queues)):
        t = np.int64(i) if arrived else np.int64(order[i])
        q = queues[t]
        out[counts[q]] = t
        counts[q] += 1
    for j in range(found):
        counts[touched[j]] = 0
    return found


@kernel
def _vacate(q, places, spare, keys):
    """Chain a queue's room with the unused ones of its level."""
    room = places[q, ROOM]
    if room > 0:
        level = 0
        while (np.int64(1) << level) < room:
            level += 1
        keys[places[q, BASE]] = spare[level]
        spare[level] = places[q, BASE]
    places[q, BASE] = 0
    places[q, ROOM] = 0
    places[q, START] = 0
    places[q, SIZE] = 0


@kernel
def has_room(q, extra, tables):
    """Let a queue take so many more entries at its end; False where the arena is full.

    It slides to the base of its room when that leaves a quarter free, else it moves to a larger room: amortised O(1) an
    entry.
    """
    places, counters = tables[PLACES], tables[COUNTERS]
    keys, items, spare = tables[KEYS], tables[ITEMS], tables[SPARE]
    base = places[q, BASE]
    room = places[q, ROOM]
    start = places[q, START]
    size = places[q, SIZE]
    need = size + extra
    if start + need <= base + room:
        return True
    if 4 * need <= 3 * room:
        for i in range(size):
            keys[base + i] = keys[start + i]
            items[base + i] = items[start + i]
        places[q, START] = base
        return True
    level = LEAST_LEVEL
    while 3 * (np.int64(1) << level) < 4 * need:
        level += 1
    to = spare[level]
    if to >= 0:
        spare[level] = keys[to]
    elif counters[USED] + (np.int64(1) << level) <= len(keys):
        to = counters[USED]
        counters[USED] += np.int64(1) << level
    else:
        return False
    for i in range(size):
        keys[to + i] = keys[start + i]
        items[to + i] = items[start + i]
    _vacate(q, places, spare, keys)
    places[q, BASE] = to
    places[q, ROOM] = np.int64(1) << level
    places[q, START] = to
    places[q, SIZE] = size
    return True


@kernel
def make_room(queues, extra, tables, begin):
    """Let queue j take extra[j] more entries at its end, from j = begin on; stops where the arena is full.

    Returns how many queues are done.
    """
    for j in range(begin, len(queues)):
        if not has_room(queues[j], extra[j], tables):
            return j
    return len(queues)


@kernel
def merge(queues, ends, new_keys, new_items, tables):
    """Enter a batch; of equal keys the entry that was there stands first. Cost: what moves, so little when in order."""
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items = tables[KEYS], tables[ITEMS]
    k = 0
    for j in range(len(queues)):
        q = queues[j]
        begin = ends[j - 1] if j > 0 else 0
        start = places[q, START]
        i = start + places[q, SIZE] - 1
        at = i + ends[j] - begin
        for k in range(ends[j] - 1, begin - 1, -1):
            while i >= start and keys[i] > new_keys[k]:
                keys[at] = keys[i]
                items[at] = items[i]
                i -= 1
                at -= 1
            keys[at] = new_keys[k]
            items[at] = new_items[k]
            at -= 1
        places[q, SIZE] += ends[j] - begin
        counters[ENTRIES] += ends[j] - begin
        if places[q, SIZE] > 0:
            heads[q] = keys[start]


@kernel
def weigh(queues, ends, new_keys, weights, tables):
    """Add weights[k] to the entry of its key, entering keys that are not there; a weight of zero is left out.

    Keys are distinct within a queue of the batch and within the queue.
    """
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items = tables[KEYS], tables[ITEMS]
    for j in range(len(queues)):
        q = queues[j]
        begin = ends[j - 1] if j > 0 else 0
        start = places[q, START]
        last = start + places[q, SIZE] - 1
        fresh = 0
        i = last
        for k in range(ends[j] - 1, begin - 1, -1):
            if weights[k] == 0:
                continue
            while i >= start and keys[i] > new_keys[k]:
                i -= 1
            if i < start or keys[i] != new_keys[k]:
                fresh += 1
        i = last
        at = last + fresh
        for k in range(ends[j] - 1, begin - 1, -1):
            if weights[k] == 0:
                continue
            while i >= start and keys[i] > new_keys[k]:
                keys[at] = keys[i]
                items[at] = items[i]
                i -= 1
                at -= 1
            weight = weights[k]
            if i >= start and keys[i] == new_keys[k]:
                weight += items[i]
                i -= 1
            keys[at] = new_keys[k]
            items[at] = weight
            at -= 1
        places[q, SIZE] += fresh
        counters[ENTRIES] += fresh
        if places[q, SIZE] > 0:
            heads[q] = keys[start]


@kernel
def below(queues, bounds, tables, counts):
    """Count the entries of each queue j with a key below bounds[j]."""
    places, keys = tables[PLACES], tables[KEYS]
    for j in range(len(queues)):
        start = places[queues[j], START]
        low = start
        high = start + places[queues[j], SIZE]
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < bounds[j]:
                low = middle + 1
            else:
                high = middle
        counts[j] = low - start


@kernel
def take(queues, counts, tables, out_keys, out_items):
    """Take the first counts[j] entries out of each queue and write them, queue after queue."""
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items, spare = tables[KEYS], tables[ITEMS], tables[SPARE]
    n = 0
    for j in range(len(queues)):
        q = queues[j]
        start = places[q, START]
        for i in range(start, start + counts[j]):
            out_keys[n] = keys[i]
            out_items[n] = items[i]
            n += 1
        places[q, START] += counts[j]
        places[q, SIZE] -= counts[j]
        counters[ENTRIES] -= counts[j]
        if places[q, SIZE] == 0:
            _vacate(q, places, spare, keys)
            heads[q] = FOREVER
        else:
            heads[q] = keys[places[q, START]]


@kernel
def copy(queues, tables, out_keys, out_items):
    """Write all entries of these queues, queue after queue, and leave them there."""
    places, keys, items = tables[PLACES], tables[KEYS], tables[ITEMS]
    n = 0
    for j in range(len(queues)):
        start = places[queues[j], START]
        for i in range(start, start + places[queues[j], SIZE]):
            out_keys[n] = keys[i]
            out_items[n] = items[i]
            n += 1


@kernel
def sweep(lows, highs, targets, slots, into, source):
    """List the combinations that add slots[lows[q]], ..., slots[highs[q] - 1] to targets[q], for ranges that only rise.

    Two stacks in place: of the slots before `split` each becomes the sum of itself and those behind it up to the split;
    the slot at the split becomes the sum of those from there on, up to `reach`. So it takes at most three combinations
    a slot and two a range, however long the ranges are, and no inverse. Returns how many combinations there are.
    """
    n = 0
    split = 0
    reach = 0
    for q in range(len(targets)):
        low = lows[q]
        high = highs[q]
        if low >= high:
            continue
        if low >= split:
            last = low
            if low == split and reach > split:
                # This slot is a sum already, so it takes up what is new, and those behind it are summed without it.
                for i in range(reach, high):
                    into[n] = slots[low]
                    source[n] = slots[i]
                    n += 1
                last = low + 1
            for i in range(high - 2, last - 1, -1):
                into[n] = slots[i]
                source[n] = slots[i + 1]
                n += 1
            split = high
            reach = high
        elif high > reach:
            first = reach
            if reach == split:
                first = split + 1
            for i in range(first, high):
                into[n] = slots[split]
                source[n] = slots[i]
                n += 1
            reach = high
        into[n] = targets[q]
        source[n] = slots[low]
        n += 1
        if reach > split:
            into[n] = targets[q]
            source[n] = slots[split]
            n += 1
    return n


@kernel
def listed(lows, highs, targets, slots, into, source):
    """List the combinations that add slots[lows[q]], ..., slots[highs[q] - 1] to targets[q], one by one."""
    n = 0
    for q in range(len(targets)):
        for i in range(lows[q], highs[q]):
            into[n] = targets[q]
            source[n] = slots[i]
            n += 1


@kernel
def slice_numbers(ranks, size, slide, numbers):
    """Write the slice of each rank: windows of `size` ranks every `slide` begin and end between slices only.

    Slices 2k and 2k + 1 part slide k where a window begins in it; -1 for a rank that is in no window.
    """
    inner = slide - size % slide
    for i in range(len(ranks)):
        k = ranks[i] // slide
        behind = ranks[i] - k * slide >= inner
        numbers[i] = 2 * k + np.int64(behind)
        if size < slide and not behind:
            numbers[i] = -1


@kernel
def fold(groups, ends, order, numbers, slots, tables, pairs, fresh_ends, fresh_keys, fresh_slots):
    """Put single tuples into their group's slices: the first of a slice becomes it, the others are combined into it.

    `order` lists the tuples by group, each group's in the order of rank; slices[-1] is the group's newest. Returns
    (combinations, new slices); a tuple without a slice is left alone.
    """
    places, keys, items = tables[PLACES], tables[KEYS], tables[ITEMS]
    n = 0
    made = 0
    for j in range(len(groups)):
        g = groups[j]
        begin = ends[j - 1] if j > 0 else 0
        last = np.int64(-1)
        slot = np.int32(-1)
        if places[g, SIZE] > 0:
            newest = places[g, START] + places[g, SIZE] - 1
            last = keys[newest]
            slot = items[newest]
        for i in range(begin, ends[j]):
            t = order[i]
            if numbers[t] < 0:
                continue
            if numbers[t] == last:
                pairs[INTO, n] = slot
                pairs[SOURCE, n] = slots[t]
                n += 1
                continue
            last = numbers[t]
            slot = slots[t]
            fresh_keys[made] = last
            fresh_slots[made] = slot
            made += 1
        fresh_ends[j] = made
    return n, made


@kernel
def plan_ranks(groups, starts, stops, size, slide, tables, cursor, slots, owners, ranges):
    """List the windows starts[i] <= w < stops[i] of each group that has a slice in them, and which slices these are.

    slots[lows[n]], ..., slots[highs[n] - 1] are the slices of result n. Goes on at `cursor` until a
    column is full. Returns (results, slots listed).
    """
    places, keys, items = tables[PLACES], tables[KEYS], tables[ITEMS]
    inner = slide - size % slide
    rows = 0
    held = 0
    for i in range(cursor[QUEUE], len(groups)):
        g = groups[i]
        n = places[g, SIZE]
        if held + n > len(slots):
            cursor[QUEUE] = i
            return rows, held
        start = places[g, START]
        first = held
        for k in range(n):
            slots[held] = items[start + k]
            held += 1
        w = max(starts[i], cursor[WINDOW])
        low = 0
        high = 0
        while w < stops[i]:
            begin = (w + 1) * slide - size
            k = begin // slide
            begin = 2 * k + np.int64(begin - k * slide >= inner)
            end = 2 * (w + 1)
            while low < n and keys[start + low] < begin:
                low += 1
            if low == n:
                break
            high = max(high, low)
            while high < n and keys[start + high] < end:
                high += 1
            if low < high:
                if rows == len(owners):
                    cursor[QUEUE] = i
                    cursor[WINDOW] = w
                    return rows, held
                ranges[WID, rows] = w
                owners[rows] = g
                ranges[LOW, rows] = first + low
                ranges[HIGH, rows] = first + high
                rows += 1
            w += 1
        cursor[WINDOW] = BEFORE_ALL
    cursor[QUEUE] = len(groups)
    return rows, held


@kernel
def plan_edges(parts, starts, stops, window, tables, cursor, slots, owners, ranges):
    """List the windows starts[i] <= w < stops[i] of each queue: the last `tuples` before origin + (w + 1) slide.

    With `idle` all windows from that of the first entry on, else only those with an entry in their last slide. Slots
    and cursor as for `plan_ranks`; begins[n] is the key of the first entry of result n.
    """
    tuples, slide, origin, idle = window
    places, keys, items = tables[PLACES], tables[KEYS], tables[ITEMS]
    rows = 0
    held = 0
    for i in range(cursor[QUEUE], len(parts)):
        q = parts[i]
        n = places[q, SIZE]
        if held + n > len(slots):
            cursor[QUEUE] = i
            return rows, held
        start = places[q, START]
        first = held
        for k in range(n):
            slots[held] = items[start + k]
            held += 1
        w = max(starts[i], cursor[WINDOW])
        if n > 0:
            w = max(w, (keys[start] - origin) // slide)
        high = 0
        while n > 0 and w < stops[i]:
            if not idle:
                while high < n and (keys[start + high] - origin) // slide < w:
                    high += 1
                if high == n:
                    break
                w = (keys[start + high] - origin) // slide
                if w >= stops[i]:
                    break
            end = origin + (w + 1) * slide
            while high < n and keys[start + high] < end:
                high += 1
            if rows == len(owners):
                cursor[QUEUE] = i
                cursor[WINDOW] = w
                return rows, held
            low = max(0, high - tuples)
            ranges[WID, rows] = w
            owners[rows] = q
            ranges[LOW, rows] = first + low
            ranges[HIGH, rows] = first + high
            ranges[FROM, rows] = keys[start + low]
            rows += 1
            w += 1
        cursor[WINDOW] = BEFORE_ALL
    cursor[QUEUE] = len(parts)
    return rows, held


@kernel
def by_group(lows, highs, slots, group_of, seen, rows, owners, into, source):
    """Part each range slots[lows[q]], ..., slots[highs[q] - 1] by group: result n is group owners[n] of range rows[n].

    into[k] is a result, source[k] a slot of it. seen[g] is -1 for every group at the start. Returns (results, pairs).
    """
    results = np.int64(0)
    n = 0
    for q in range(len(lows)):
        base = results
        for i in range(lows[q], highs[q]):
            g = group_of[slots[i]]
            if seen[g] < base:
                seen[g] = results
                rows[results] = q
                owners[results] = g
                results += 1
            into[n] = seen[g]
            source[n] = slots[i]
            n += 1
    return results, n


@kernel
def vacate(queues, tables):
    """Free the rooms of these queues, whatever they hold."""
    for j in range(len(queues)):
        _vacate(queues[j], tables[PLACES], tables[SPARE], tables[KEYS])
