# pyright: reportMissingParameterType=false
"""Compiled window manager: which windows a bound completes, and which slices each result is combined from.

Results and what they are combined from are lists of equal length, `into` a result and `source` a slot, in order of time
for each result; accumulators run down such lists. Columns are those of the stream slicer. Where no group is, the slices
that are final stand in a queue besides, in order of time, so that a window is a range of it.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *
from operators.kernels.ticks import FAR

NEAR_BY = 4
"""Keys that are looked at one after the other before steps are doubled."""
FROM, SHIFT, GONE, LAST_PART = 0, 1, 2, 3
"""Places of the scale of a grid, beside its parts.

Part q has the ticks with (tick - from) >> shift = q; the keys that are gone since the positions in the grid began; the
part of the last key.
"""
MOST_GONE = 1 << 30
"""More keys than this are not counted on, since a grid has numbers of 32 bits."""


@kernel
def overdue(ticks, bands, bound, out):
    """Mark each tick that is in a window of some band which ends at or before a bound."""
    for i in range(len(ticks)):
        t = ticks[i]
        out[i] = False
        for j in range(len(bands)):
            # The first window that may have the tick is also the one that ends first.
            w = max((t - bands[j, ORIGIN]) // bands[j, SLIDE], bands[j, LEAST])
            end = bands[j, ORIGIN] + (w + 1) * bands[j, SLIDE]
            if w <= bands[j, MOST] and end <= bound and end - bands[j, RANGE] <= t:
                out[i] = True
                break


@kernel
def enter_keys(keys, start, grid):
    """Write to the grid which key is the first one in or after each part, for keys from `start` on; False without room.

    The keys ascend, and those before `start` were entered before. Parts lie in the grid, whose length is a power of
    two, one behind the other and from its end on from its beginning, where those before the first key were.
    """
    parts, scale = grid
    if start == len(keys):
        return True
    if len(keys) > len(parts) or scale[GONE] + len(keys) > MOST_GONE:
        return False
    first = (keys[0] - scale[FROM]) >> scale[SHIFT]
    last = scale[LAST_PART]
    for k in range(start, len(keys)):
        part = (keys[k] - scale[FROM]) >> scale[SHIFT]
        if part - first >= len(parts):
            return False
        for q in range(max(last + 1, first), part + 1):
            parts[q & (len(parts) - 1)] = scale[GONE] + k
        last = max(last, part)
    scale[LAST_PART] = last
    return True


@kernel
def _seek(tick, keys, n, grid):
    """Return the first of n ascending places whose key is at or after a tick.

    The search begins where a grid says; without one, where the tick would be if keys were spread evenly. It doubles its
    steps from there.
    """
    parts, scale = grid
    if n == 0 or tick <= keys[0]:
        return np.int64(0)
    if tick > keys[n - 1]:
        return np.int64(n)
    # keys[low] < tick <= keys[high] from here on.
    low = np.int64(0)
    high = np.int64(n - 1)
    if len(parts) > 0:
        # The first key of the part that the tick is in, or of one after it, and as a rule few more before the tick.
        part = (tick - scale[FROM]) >> scale[SHIFT]
        k = max(np.int64(parts[part & (len(parts) - 1)]) - scale[GONE], np.int64(0))
        near = min(k + NEAR_BY, high)
        while k < near and keys[k] < tick:
            k += 1
        if keys[k] >= tick:
            return k
    else:
        k = np.int64(np.float64(tick - keys[0]) / np.float64(keys[high] - keys[0]) * np.float64(high))
        k = min(max(k, np.int64(0)), high)
    step = np.int64(1)
    if keys[k] < tick:
        low = k
        while low + step < high and keys[low + step] < tick:
            low += step
            step *= 2
        high = min(high, low + step)
    else:
        high = k
        while high - step > low and keys[high - step] >= tick:
            high -= step
            step *= 2
        low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        if keys[middle] < tick:
            low = middle
        else:
            high = middle
    return high


@kernel
def between(first, last, keys, grid):
    """Return the first of ascending places whose key is at or after `first`, and that at or after `last`."""
    n = np.int64(len(keys))
    return _seek(first, keys, n, grid), _seek(last, keys, n, grid)


@kernel
def occupied(memory, live):
    """List the begins and the numbers of the cells with a slice, in order of time; gives how many there are."""
    cells, order = memory[OF_CELLS], memory[OF_ORDER]
    m = 0
    for k in range(memory[OF_LEDGER][CELLS]):
        c = order[k, NUMBER]
        if cells[c, SIZE] > 0:
            live[NUMBER, m] = c
            live[START, m] = cells[c, BEGIN]
            m += 1
    return m


@kernel
def unfinished(bands, bound):
    """Return the least begin and the least end of the windows that a bound does not complete."""
    begin = FAR
    end = FAR
    for i in range(len(bands)):
        w = max((bound - bands[i, ORIGIN]) // bands[i, SLIDE], bands[i, LEAST])
        if w <= bands[i, MOST]:
            stop = bands[i, ORIGIN] + (w + 1) * bands[i, SLIDE]
            end = min(end, stop)
            begin = min(begin, stop - bands[i, RANGE])
    return begin, end


@kernel
def complete(bands, ahead, bound, begins, grid, gone, near, found, first, room):
    """List the windows that a bound completes and that have an occupied cell, from `ahead` on, which moves on.

    They go to `room` places of `found`, from `first` on. If `near` has any length, their last cells are told as well,
    and it has for each band where to look for the next window's first cell, counted with those that are gone. Returns
    how many windows there are, and the least begin and the least end of those that follow; as many as fit when that is
    all the room, and then what follows is not all looked at.
    """
    n = np.int64(len(begins))
    count = first
    following = FAR
    ending = FAR
    for i in range(len(bands)):
        if ahead[NEXT_END, i] > bound:
            continue
        size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
        w = ahead[NEXT_WID, i]
        known = w >= bands[i, LEAST] and w > -FAR
        if known and origin + (w + 1) * slide > bound:
            stop = w
        elif known and origin + (w + 2) * slide > bound and w <= bands[i, MOST]:
            stop = w + 1
        else:
            stop = max(min((bound - origin) // slide, bands[i, MOST] + 1), bands[i, LEAST])
        if n > 0 and not (known and w >= stop):
            if not known or origin + (w + 1) * slide <= begins[0]:
                w = max(bands[i, LEAST], (begins[0] - origin) // slide)
            k = np.int64(0)
            if w < stop:
                begin = origin + (w + 1) * slide - size
                if len(near):
                    k = min(max(near[i] - gone, np.int64(0)), n)
                if len(near) == 0 or (k > 0 and begins[k - 1] >= begin):
                    k = _seek(begin, begins, n, grid)
            while w < stop:
                begin = origin + (w + 1) * slide - size
                few = min(k + NEAR_BY, n)
                while k < few and begins[k] < begin:
                    k += 1
                if k < n and begins[k] < begin:
                    k = _seek(begin, begins, n, grid)
                if k >= n:
                    break
                if begins[k] >= begin + size:
                    w = max(w + 1, (begins[k] - origin) // slide)
                    continue
                if count == first + room:
                    ahead[NEXT_WID, i] = w
                    return room, following, ending
                found[PLACE, count] = bands[i, OWNER]
                found[WID, count] = w
                found[OPENS, count] = begin
                found[CLOSES, count] = begin + size
                found[STARTS, count] = k
                if len(near):
                    last = _seek(begin + size, begins, n, grid)
                    found[STOPS, count] = last
                    if slide >= size:
                        k = last
                    near[i] = gone + k
                count += 1
                w += 1
        ahead[NEXT_WID, i] = stop
        more = stop <= bands[i, MOST]
        ahead[NEXT_END, i] = origin + (stop + 1) * slide if more else FAR
        ahead[NEXT_BEGIN, i] = ahead[NEXT_END, i] - size if more else FAR
    for i in range(len(bands)):
        ending = min(ending, ahead[NEXT_END, i])
        following = min(following, ahead[NEXT_BEGIN, i])
    return count - first, following, ending


@kernel
def cover(spans, first, live, n, memory, seen, windows, groups, into, source):
    """List the results (window, group) of the windows from `first` on, and the slots of each, as far as there is room.

    `spans` has their begins, their ends, and the places of their first cells among the `n` with a slice, of length 0
    where they are not known. A group whose own bound is past a window has had that window already. Returns (windows
    done, results, pairs); the first two are equal to `first` and -pairs needed when even one window does not fit.
    """
    cells, links, bounds = memory[OF_CELLS], memory[OF_LINKS], memory[OF_BOUNDS]
    begins = live[START]
    opens, closes, firsts = spans
    no_grid = into[:0], begins[:0]
    results = np.int64(0)
    pairs = np.int64(0)
    seen[:] = -1
    for w in range(first, len(opens)):
        start = firsts[w] if len(firsts) else _seek(opens[w], begins, n, no_grid)
        stop = start
        members = np.int64(0)
        while stop < n and begins[stop] < closes[w]:
            members += cells[live[NUMBER, stop], SIZE]
            stop += 1
        if pairs + members > len(into):
            return np.int64(w), results if w > first else -members, pairs
        base = results
        for k in range(start, stop):
            c = live[NUMBER, k]
            slot = np.int64(cells[c, HEAD])
            while slot >= 0:
                older = links[slot, OLDER]
                g = links[slot, GROUP]
                # Slices of one group in one cell are taken together, from the first on.
                if (older < 0 or links[older, CELL] != c) and bounds[g, OWN] < closes[w]:
                    result = np.int64(seen[g])
                    if result < base:
                        result = results
                        seen[g] = result
                        windows[result] = w
                        groups[result] = g
                        results += 1
                    one = slot
                    while one >= 0 and links[one, CELL] == c:
                        into[pairs] = result
                        source[pairs] = one
                        pairs += 1
                        one = np.int64(links[one, NEWER])
                slot = np.int64(links[slot, NEXT])
    return np.int64(len(opens)), results, pairs


@kernel
def cover_groups(which, bands, bound, past, memory, at, found, groups, into, source):
    """List the windows that a promise on single groups completes for these, from their own bounds on up to `bound`.

    `past` is what is promised for all. Takes groups from `at` on while there is room for a group as a whole; returns
    (groups done, results, pairs), or results = -pairs needed when not even one group fits.
    """
    cells, links, chains, bounds = memory[OF_CELLS], memory[OF_LINKS], memory[OF_CHAINS], memory[OF_BOUNDS]
    results = np.int64(0)
    pairs = np.int64(0)
    for j in range(at, len(which)):
        g = which[j]
        since = max(bounds[g, OWN], past)
        needed_results = np.int64(0)
        needed_pairs = np.int64(0)
        for fill in range(2):
            if fill == 1 and (results + needed_results > len(groups) or pairs + needed_pairs > len(into)):
                needed = max(needed_results, needed_pairs)
                return np.int64(j), results if j > at else -needed, pairs
            for i in range(len(bands)):
                size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
                stop = min((bound - origin) // slide, bands[i, MOST] + 1)
                w = max((since - origin) // slide, bands[i, LEAST])
                head = np.int64(chains[g, OLDEST])
                while head >= 0 and w < stop:
                    begin = origin + (w + 1) * slide - size
                    while head >= 0 and cells[links[head, CELL], BEGIN] < begin:
                        head = np.int64(links[head, NEWER])
                    if head < 0:
                        break
                    tick = cells[links[head, CELL], BEGIN]
                    if tick >= begin + size:
                        w = max(w + 1, (tick - origin) // slide)
                        continue
                    if fill == 1:
                        found[PLACE, results] = bands[i, OWNER]
                        found[WID, results] = w
                        found[OPENS, results] = begin
                        found[CLOSES, results] = begin + size
                        groups[results] = g
                    one = head
                    while one >= 0 and cells[links[one, CELL], BEGIN] < begin + size:
                        if fill == 1:
                            into[pairs] = results
                            source[pairs] = one
                            pairs += 1
                        else:
                            needed_pairs += 1
                        one = np.int64(links[one, NEWER])
                    if fill == 1:
                        results += 1
                    else:
                        needed_results += 1
                    w += 1
    return np.int64(len(which)), results, pairs


@kernel
def touched(late_groups, late_ticks, groups, opens, closes, out):
    """Mark the results to which a late tuple came; the late ones are sorted by group, then by tick."""
    for i in range(len(groups)):
        low = np.int64(0)
        high = np.int64(len(late_ticks))
        while low < high:
            middle = (low + high) // 2
            if late_groups[middle] < groups[i] or (late_groups[middle] == groups[i] and late_ticks[middle] < opens[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low < len(late_ticks) and late_groups[low] == groups[i] and late_ticks[low] < closes[i]


@kernel
def _take_slot(links, ledger):
    """Return a slot that is nobody's, the caller's from now on; -1 when there is none."""
    slot = ledger[FREE]
    if slot >= 0:
        ledger[FREE] = links[slot, OLDER]
    elif ledger[MADE] < len(links):
        slot = ledger[MADE]
        ledger[MADE] += 1
    return slot


@kernel
def take(links, ledger, out):
    """Write slots to `out` that are nobody's, the caller's from now on; gives how many there were."""
    for i in range(len(out)):
        slot = _take_slot(links, ledger)
        if slot < 0:
            return np.int64(i)
        out[i] = slot
    return np.int64(len(out))


@kernel
def append(bound, summed, memory, grid, rows, start, stop, slots, totals):
    """Append to the queue the slices of the one group there is that no tuple at or after a bound can change.

    `rows` has those held from `start` to `stop`; the key of a slice orders it among others and lies in the windows that
    it is in. New slices are listed in `slots`. When `summed`, each takes a slot for its running total, listed in
    `totals`. Keys are entered in the grid while it has room.
    Returns (slices, whether the grid had room, whether slots ran out before the slices did).
    """
    cells, links, times = memory[OF_CELLS], memory[OF_LINKS], memory[OF_TIMES]
    chains, ledger = memory[OF_CHAINS], memory[OF_LEDGER]
    near = ledger[NEAR]
    slot = np.int64(chains[0, OLDEST]) if start == stop else np.int64(links[rows[SLOT, stop - 1], NEWER])
    n = np.int64(0)
    starved = False
    while slot >= 0 and n < len(slots):
        c = links[slot, CELL]
        if cells[c, END] > bound and (near == 0 or times[slot, LAST] + near > bound):
            break
        total = slot
        if summed:
            total = _take_slot(links, ledger)
            if total < 0:
                starved = True
                break
            totals[n] = total
        rows[KEY, stop + n] = cells[c, BEGIN] if near == 0 else times[slot, FIRST]
        rows[SLOT, stop + n], rows[TOTAL, stop + n] = slot, total
        slots[n] = slot
        n += 1
        slot = np.int64(links[slot, NEWER])
    return n, enter_keys(rows[KEY, start : stop + n], stop - start, grid), starved


@kernel
def ranges(spans, rows, start, stop, grid, base, windows, starts, stops, ends):
    """List the windows that have a slice of the queue: which range of them, and which totals it is the difference of.

    `spans` has the begins, the ends and the beginnings of the ranges, of length 0 where these are not known. The total
    at the end of a range goes to ends[0], that before it to ends[1], -1 for none (`base` is that before all slices).
    Returns how many.
    """
    opens, closes, firsts = spans
    keys = rows[KEY, start:stop]
    n = np.int64(len(keys))
    m = np.int64(0)
    for w in range(len(opens)):
        low = firsts[w] if len(firsts) else _seek(opens[w], keys, n, grid)
        high = _seek(closes[w], keys, n, grid)
        if low < high:
            windows[m], starts[m], stops[m] = w, low, high
            ends[0, m] = rows[TOTAL, start + high - 1]
            ends[1, m] = rows[TOTAL, start + low - 1] if low > 0 else base
            m += 1
    return m


@kernel
def release(bound, summed, memory, grid, queue, bands, ahead, appended, room, found, ends):
    """Do `append`, `complete` and `ranges` at once: what a release without groups asks, and each call of it costs.

    `queue` has its rows, where it is, and where to look for the first slice of each band's next window. `ends` takes
    the later and the earlier total; the first `room` places of it and of `found` are for windows. Windows are looked
    for when all slices were appended and the grid had room for them; otherwise their number is -1, and the call is to
    be made again. Returns (slices, whether the grid had room, whether slots ran out, windows, least begin and least end
    of those that follow).
    """
    rows, queued, near = queue
    start, stop, base = queued[QUEUE_START], queued[QUEUE_STOP], queued[BASE_TOTAL]
    n, gridded, starved = append(
        bound, summed, memory, grid, rows, start, stop, appended[APPENDED_SLOT], appended[APPENDED_TOTAL]
    )
    if starved or not gridded:
        return n, gridded, starved, np.int64(-1), FAR, FAR
    keys = rows[KEY, start : stop + n]
    count, begin, end = complete(bands, ahead, bound, keys, grid, queued[BEFORE], near, found, 0, room)
    for w in range(count):
        low, high = found[STARTS, w], found[STOPS, w]
        ends[0, w] = rows[TOTAL, start + high - 1]
        ends[1, w] = rows[TOTAL, start + low - 1] if low > 0 else base
    return n, gridded, starved, np.int64(count), begin, end
