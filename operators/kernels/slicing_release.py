# pyright: reportMissingParameterType=false
"""Compiled window manager: which windows a bound completes, and which slices each result is combined from.

Results and what they are combined from are lists of equal length, `into` a result and `source` a slot, in order of time
for each result; accumulators run down such lists. Columns are those of the stream slicer.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.kernel import kernel

NEVER = np.int64(2**62)
BEGIN, END, UNTIL, HEAD, SIZE = 0, 1, 2, 3, 4
GROUP, CELL, OLDER, NEWER, NEXT, PREVIOUS = 0, 1, 2, 3, 4, 5
FIRST, LAST, DONE = 0, 1, 2
NEWEST, IN_CELL, OLDEST = 0, 1, 2
OWN, DUE = 0, 1
START, NUMBER = 0, 1
RANGE, SLIDE, ORIGIN, LEAST, MOST = 0, 1, 2, 3, 4
GAP, SINCE, BIT = 0, 1, 2
FROM, SHIFT, GONE, LAST_PART = 0, 1, 2, 3
"""Places of `scale`: part q of a grid has the ticks with (tick - from) >> shift = q; the keys that are gone since the
positions in the grid began; the part of the last key."""


@kernel
def enter_keys(keys, start, grid, scale):  # type: ignore[no-untyped-def]
    """Write to the grid which key is the first one in or after each part, for keys from `start` on; False without room.

    The keys ascend, and those before `start` were entered before.
    """
    last = scale[LAST_PART]
    for k in range(start, len(keys)):
        part = (keys[k] - scale[FROM]) >> scale[SHIFT]
        if part >= len(grid):
            return False
        for q in range(last + 1, part + 1):
            grid[q] = scale[GONE] + k
        last = max(last, part)
    scale[LAST_PART] = last
    return True


@kernel
def seek(tick, keys, n, grid, scale):  # type: ignore[no-untyped-def]
    """Give the first of n ascending places whose key is at or after a tick.

    The search begins where a grid says; without one, where the tick would be if keys were spread evenly. It doubles its
    steps from there.
    """
    if n == 0 or tick <= keys[0]:
        return np.int64(0)
    if tick > keys[n - 1]:
        return np.int64(n)
    # keys[low] < tick <= keys[high] from here on.
    low = np.int64(0)
    high = np.int64(n - 1)
    if len(grid) > 0:
        k = np.int64(grid[(tick - scale[FROM]) >> scale[SHIFT]]) - scale[GONE]
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
def occupied(cells, order, n, live, begins):  # type: ignore[no-untyped-def]
    """List the cells with a slice in order of time, and their begins; gives their number."""
    m = 0
    for k in range(n):
        c = order[k, NUMBER]
        if cells[c, SIZE] > 0:
            live[m] = c
            begins[m] = cells[c, BEGIN]
            m += 1
    return m


@kernel
def unfinished(bands, bound):  # type: ignore[no-untyped-def]
    """Give the least begin and the least end of the windows that a bound does not complete."""
    begin = NEVER
    end = NEVER
    for i in range(len(bands)):
        w = max((bound - bands[i, ORIGIN]) // bands[i, SLIDE], bands[i, LEAST])
        if w <= bands[i, MOST]:
            stop = bands[i, ORIGIN] + (w + 1) * bands[i, SLIDE]
            end = min(end, stop)
            begin = min(begin, stop - bands[i, RANGE])
    return begin, end


@kernel
def complete(  # type: ignore[no-untyped-def]
    bands, banded, nexts, bound, begins, n, grid, scale, which, wids, opens, closes
):
    """List the windows that a bound completes and that have an occupied cell, from nexts[i] on, which moves on.

    `banded` has the place of each band's window. Returns how many windows there are, and the least begin and the least
    end of those that follow; as many as fit when that is all the room, and then what follows is not all looked at.
    """
    count = 0
    first = NEVER
    last = NEVER
    for i in range(len(bands)):
        size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
        w = nexts[i]
        known = w >= bands[i, LEAST] and w > -NEVER
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
                k = seek(origin + (w + 1) * slide - size, begins, n, grid, scale)
            while w < stop:
                begin = origin + (w + 1) * slide - size
                while k < n and begins[k] < begin:
                    k += 1
                if k >= n:
                    break
                if begins[k] >= begin + size:
                    w = max(w + 1, (begins[k] - origin) // slide)
                    continue
                if count == len(wids):
                    nexts[i] = w
                    return count, first, last
                which[count] = banded[i]
                wids[count] = w
                opens[count] = begin
                closes[count] = begin + size
                count += 1
                w += 1
        nexts[i] = stop
        if stop <= bands[i, MOST]:
            end = origin + (stop + 1) * slide
            last = min(last, end)
            first = min(first, end - size)
    return count, first, last


@kernel
def cover(  # type: ignore[no-untyped-def]
    opens, closes, first, cells, live, begins, n, grid, scale, links, bounds, seen, windows, groups, into, source
):
    """List the results (window, group) of the windows from `first` on, and the slots of each, as far as there is room.

    A group whose own bound is past a window has had that window already. Returns (windows done, results, pairs); the
    first two are equal to `first` and -pairs needed when even one window does not fit.
    """
    results = np.int64(0)
    pairs = np.int64(0)
    seen[:] = -1
    for w in range(first, len(opens)):
        start = seek(opens[w], begins, n, grid, scale)
        stop = start
        members = np.int64(0)
        while stop < n and begins[stop] < closes[w]:
            members += cells[live[stop], SIZE]
            stop += 1
        if pairs + members > len(into):
            return np.int64(w), results if w > first else -members, pairs
        base = results
        for k in range(start, stop):
            c = live[k]
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
def cover_groups(  # type: ignore[no-untyped-def]
    which, bands, bound, past, cells, links, chains, bounds, at, bands_of, wids, opens, closes, groups, into, source
):
    """List the windows that a promise on single groups completes for these, from their own bounds on up to `bound`.

    `past` is what is promised for all. Takes groups from `at` on while there is room for a group as a whole; returns
    (groups done, results, pairs), or results = -pairs needed when not even one group fits.
    """
    results = np.int64(0)
    pairs = np.int64(0)
    for j in range(at, len(which)):
        g = which[j]
        since = max(bounds[g, OWN], past)
        needed_results = np.int64(0)
        needed_pairs = np.int64(0)
        for fill in range(2):
            if fill == 1 and (results + needed_results > len(wids) or pairs + needed_pairs > len(into)):
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
                        bands_of[results] = i
                        wids[results] = w
                        opens[results] = begin
                        closes[results] = begin + size
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
def _sessions(  # type: ignore[no-untyped-def]
    g, bound, settled, links, times, sessions, all_bits, chains, fill, results, pairs, over, n_over, which, groups,
    firsts, lasts, into, source,
):  # fmt: skip
    """List the sessions of a group that a bound completes, oldest first; without `fill` only counts.

    Those that no tuple may change any more, with their end at or before `settled`, are done with. Returns (results,
    pairs, slices that no session window needs any more, the next bound that may complete or settle one).
    """
    due = NEVER
    for j in range(len(sessions)):
        gap, bit = sessions[j, GAP], sessions[j, BIT]
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] & bit:
                slot = np.int64(links[slot, NEWER])
                continue
            last = slot
            length = np.int64(1)
            while True:
                newer = np.int64(links[last, NEWER])
                # What is done for this window already (out of order, after its bound) does not link sessions.
                if newer < 0 or times[newer, FIRST] - times[last, LAST] >= gap or times[newer, DONE] & bit:
                    break
                last = newer
                length += 1
            end = times[last, LAST] + gap
            following = np.int64(links[last, NEWER])
            if end > bound:
                due = min(due, end)
                break
            if end > settled:
                due = min(due, end + (bound - settled))
            if fill:
                which[results] = j
                groups[results] = g
                firsts[results] = times[slot, FIRST]
                lasts[results] = times[last, LAST]
                one = slot
                for _ in range(length):
                    into[pairs] = results
                    source[pairs] = one
                    pairs += 1
                    if end <= settled:
                        times[one, DONE] |= bit
                        if times[one, DONE] == all_bits:
                            over[n_over] = one
                            n_over += 1
                    one = np.int64(links[one, NEWER])
            else:
                pairs += length
            results += 1
            slot = following
    return results, pairs, n_over, due


@kernel
def _sink(dues, n):  # type: ignore[no-untyped-def]
    """Let the first of n entries sink to its place: the smaller child rises all the way, then the entry from below."""
    if n <= 0:
        return
    tick = dues[0, 0]
    g = dues[0, 1]
    i = np.int64(0)
    child = np.int64(1)
    while child + 1 < n:
        child += np.int64(dues[child + 1, 0] < dues[child, 0])
        dues[i, 0] = dues[child, 0]
        dues[i, 1] = dues[child, 1]
        i = child
        child = 2 * i + 1
    if child < n:
        dues[i, 0] = dues[child, 0]
        dues[i, 1] = dues[child, 1]
        i = child
    _rise(dues, i, tick, g)


@kernel
def _rise(dues, i, tick, g):  # type: ignore[no-untyped-def]
    """Put an entry in the place i, or above it where larger ones are."""
    while i > 0:
        parent = (i - 1) // 2
        if dues[parent, 0] <= tick:
            break
        dues[i, 0] = dues[parent, 0]
        dues[i, 1] = dues[parent, 1]
        i = parent
    dues[i, 0] = tick
    dues[i, 1] = g


@kernel
def complete_sessions(  # type: ignore[no-untyped-def]
    bound,
    settled,
    links,
    times,
    sessions,
    all_bits,
    chains,
    bounds,
    dues,
    n_dues,
    most,
    over,
    which,
    groups,
    firsts,
    lasts,
    into,
    source,
):
    """List the sessions that a bound completes, of the groups whose deadline it passes.

    `most` is how many pairs there may be in all; with less room than that they are counted first. Returns (deadlines
    left, results, pairs, slices done with, whether all is done); results = -pairs needed when not one group fits.
    """
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    while n_dues > 0 and dues[0, 0] <= bound:
        g = dues[0, 1]
        if bounds[g, DUE] != dues[0, 0]:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
            _sink(dues, n_dues)
            continue
        if most > len(which):
            more, needed, _, _ = _sessions(
                g, bound, settled, links, times, sessions, all_bits, chains, False, none, none, over, none, which,
                groups, firsts, lasts, into, source,
            )  # fmt: skip
            if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
                if results == 0:
                    return n_dues, -max(more, needed), pairs, n_over, False
                return n_dues, results, pairs, n_over, False
        results, pairs, n_over, tick = _sessions(
            g, bound, settled, links, times, sessions, all_bits, chains, True, results, pairs, over, n_over, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
        bounds[g, DUE] = tick
        if tick < NEVER:
            dues[0, 0] = tick
        else:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
        _sink(dues, n_dues)
    return n_dues, results, pairs, n_over, True


@kernel
def sessions_of(  # type: ignore[no-untyped-def]
    chosen, at, bound, links, times, sessions, all_bits, chains, over, which, groups, firsts, lasts, into, source
):
    """List the sessions of single groups that a promise on these completes, from `at` on, as far as there is room.

    Returns (groups done, results, pairs, slices done with); results = -pairs needed when not even one group fits.
    """
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    for i in range(at, len(chosen)):
        g = chosen[i]
        more, needed, _, _ = _sessions(
            g, bound, bound, links, times, sessions, all_bits, chains, False, none, none, over, none, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
        if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
            return np.int64(i), results if i > at else -max(more, needed), pairs, n_over
        results, pairs, n_over, _ = _sessions(
            g, bound, bound, links, times, sessions, all_bits, chains, True, results, pairs, over, n_over, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
    return np.int64(len(chosen)), results, pairs, n_over


@kernel
def earliest(links, times, all_bits, chains):  # type: ignore[no-untyped-def]
    """Give the first tick of the slices that a session window still needs, over all groups."""
    first = NEVER
    for g in range(len(chains)):
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] != all_bits:
                first = min(first, times[slot, FIRST])
                break
            slot = np.int64(links[slot, NEWER])
    return first


@kernel
def begun(links, times, all_bits, chains, firsts):  # type: ignore[no-untyped-def]
    """Write the first tick that a session window still needs of each group."""
    for g in range(len(chains)):
        firsts[g] = NEVER
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] != all_bits:
                firsts[g] = times[slot, FIRST]
                break
            slot = np.int64(links[slot, NEWER])


@kernel
def hasten(groups, tick, bounds, dues, n):  # type: ignore[no-untyped-def]
    """Let these groups be looked at when a bound reaches a tick; gives the number of deadlines then."""
    for i in range(len(groups)):
        g = np.int64(groups[i])
        if bounds[g, DUE] > tick:
            bounds[g, DUE] = tick
            _rise(dues, n, tick, g)
            n += 1
    return n


@kernel
def touched(late_groups, late_ticks, groups, opens, closes, out):  # type: ignore[no-untyped-def]
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
