# pyright: reportMissingParameterType=false
"""Compiled AdaptWID: tuples wait in a buffer B or update partial aggregates H at once, group by group, tuple by tuple.

Everything is a row of an array. A group's row of `groups` says how it is evaluated and what it holds; `volumes[g, k]`
is the number of its unexpired tuples from source k. A tuple in B is a row of `tuples` and of `spans` (its window-ids
[first, last)), at its position in the log that has its values. A partial aggregate in H is a row of `parts`, with its
window-id in `part_wids` and, by source, in `leaving` the number of tuples that expire with it (tupleCnt of the thesis).
A window-id that has either is a row of `windows` and `wids`: it heads the chain of its partial aggregates and the bin
of the tuples whose last window it is. `part_table` and `window_table` find rows by hash.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.baselines.layout import *
from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FOREVER

_HALF = np.uint64(32)
_FACTOR = np.uint64(0x9FB21C651E98DF25)


@kernel
def _mix(h):
    h = (h ^ (h >> np.uint64(32))) * _FACTOR
    return h ^ (h >> np.uint64(29))


@kernel
def _home(group, wid):
    """Return where the search for a partial aggregate begins."""
    return _mix(np.uint64(np.int64(wid)) * _FACTOR + np.uint64(np.int64(group))) >> _HALF


@kernel
def threshold(volumes, g, high, rule):
    """Return the right side of condition 6.9 for a group, times tup * SLIDE * RANGE, so that small numbers stay exact.

    That is base + rate * sum of volumes[g, k] * offset_k, with base = aggr * wed * RANGE and rate = tup * SLIDE, both
    of them in `rule`; offset_k is how far source k is behind the one that is furthest.
    """
    rate = rule[RATE]
    found = np.float64(rule[BASE])
    if volumes.shape[1] > 1:
        top = high[0]
        for k in range(1, len(high)):
            top = max(top, high[k])
        for k in range(volumes.shape[1]):
            if volumes[g, k] > 0:
                found += rate * np.float64(volumes[g, k]) * np.float64(top - high[k])
    return found


@kernel
def _volume(volumes, g):
    total = np.int64(0)
    for k in range(volumes.shape[1]):
        total += volumes[g, k]
    return total


@kernel
def _window(wid, windows, wids, window_table, counters):
    """Return the row of a window-id, made when there is none; there is room."""
    mask = np.uint64(len(window_table) - 1)
    place = (_mix(np.uint64(np.int64(wid))) >> _HALF) & mask
    while True:
        row = np.int64(window_table[place])
        if row < 0:
            break
        if wids[row] == wid:
            return row
        place = (place + np.uint64(1)) & mask
    row = counters[OPEN]
    counters[OPEN] += 1
    window_table[place] = row
    wids[row] = wid
    windows[row, CHAIN] = -1
    windows[row, SIZE] = 0
    windows[row, BIN] = -1
    return row


@kernel
def _find(g, wid, parts, part_wids, part_table):
    """Return the partial aggregate of a group and window, -1 when there is none."""
    mask = np.uint64(len(part_table) - 1)
    place = _home(g, wid) & mask
    while True:
        slot = np.int64(part_table[place])
        if slot < 0 or (part_wids[slot] == wid and parts[slot, OWNER] == g):
            return slot
        place = (place + np.uint64(1)) & mask


@kernel
def _part(g, wid, memory, fresh):
    """Make the partial aggregate of a group and window that has none, and list it in `fresh`; there is room."""
    groups, parts, part_wids = memory[OF_GROUPS], memory[OF_PARTS], memory[OF_PART_WIDS]
    leaving, part_table, free = memory[OF_LEAVING], memory[OF_PART_TABLE], memory[OF_FREE]
    windows, wids, window_table = memory[OF_WINDOWS], memory[OF_WIDS], memory[OF_WINDOW_TABLE]
    counters = memory[OF_COUNTERS]
    mask = np.uint64(len(part_table) - 1)
    place = _home(g, wid) & mask
    while part_table[place] >= 0:
        place = (place + np.uint64(1)) & mask
    if counters[FREE] > 0:
        counters[FREE] -= 1
        slot = np.int64(free[counters[FREE]])
    else:
        slot = counters[EVER]
        counters[EVER] += 1
    part_table[place] = slot
    row = _window(wid, windows, wids, window_table, counters)
    following = windows[row, CHAIN]
    parts[slot, OWNER] = g
    parts[slot, NEXT] = following
    parts[slot, BEFORE] = -1
    if following >= 0:
        parts[following, BEFORE] = slot
    windows[row, CHAIN] = slot
    windows[row, SIZE] += 1
    part_wids[slot] = wid
    for k in range(leaving.shape[1]):
        leaving[slot, k] = 0
    groups[g, PARTS] += 1
    counters[LIVE] += 1
    fresh[counters[FRESH]] = slot
    counters[FRESH] += 1
    return slot


@kernel
def arrive(arrived, start, released, rule, weights, memory, lists):
    """Take tuples from `start` on, each as the thesis says (6.3.4.2, Processing Tuples and Switching).

    `arrived` has the group, the windows [first, last), the tick and the source of each. Lists new partial aggregates
    in `fresh`, updates from B as (replay_slots, replays), updates from the page as (slots, rows), the page's tuples
    that went to B in `stowed`. Returns the number of tuples done; fewer than all when a list or an array is full:
    counters[NEED] says how many partial aggregates the next tuple may need. `rule` is that of `threshold`, `weights`
    are those of a buffered tuple, a partial aggregate and a group.
    """
    ids, first, last, ticks, sources = arrived
    fresh, replay_slots, slots, replays, rows, stowed = lists
    groups, volumes, high, tuples = memory[OF_GROUPS], memory[OF_VOLUMES], memory[OF_HIGH], memory[OF_TUPLES]
    spans, parts, part_wids = memory[OF_SPANS], memory[OF_PARTS], memory[OF_PART_WIDS]
    leaving, part_table, windows = memory[OF_LEAVING], memory[OF_PART_TABLE], memory[OF_WINDOWS]
    wids, window_table, counters = memory[OF_WIDS], memory[OF_WINDOW_TABLE], memory[OF_COUNTERS]
    room = min(len(parts), len(part_table) // 2)
    for i in range(start, len(ids)):
        g = ids[i]
        s = sources[i]
        b = last[i]
        a = min(max(first[i], released), b)
        high[s] = max(high[s], ticks[i])
        volumes[g, s] += 1
        total = _volume(volumes, g)
        eager = groups[g, EAGER] == 1
        switching = not eager and rule[UNIT] * total > threshold(volumes, g, high, rule)
        need = np.int64(0)
        pairs = np.int64(0)
        if eager or switching:
            low = a
            stop = b
            pairs = b - a
            if switching:
                position = np.int64(groups[g, NEWEST])
                for _ in range(groups[g, TUPLES]):
                    while tuples[position, GROUP] != g:
                        position = np.int64(tuples[position, OLDER])
                    from_wid = min(max(spans[position, 0], released), spans[position, 1])
                    low = min(low, from_wid)
                    stop = max(stop, spans[position, 1])
                    pairs += spans[position, 1] - from_wid
                    position = np.int64(tuples[position, OLDER])
            need = min(pairs, stop - low)
            lacking = counters[LIVE] + need > room or counters[OPEN] + need > len(wids)
            lacking = lacking or counters[FRESH] + need > len(fresh) or counters[UPDATES] + pairs > len(rows)
            lacking = lacking or counters[REPLAYS] + pairs > len(replays)
        else:
            lacking = counters[MADE] >= len(tuples) or counters[OPEN] >= len(wids)
        if lacking:
            volumes[g, s] -= 1
            counters[NEED] = need
            counters[PAIRS] = pairs
            return i
        if total == 1:
            counters[ENTRIES] += 1
        if not (eager or switching):
            position = counters[MADE]
            counters[MADE] += 1
            row = _window(b - 1, windows, wids, window_table, counters)
            tuples[position, GROUP] = g
            tuples[position, OLDER] = groups[g, NEWEST]
            tuples[position, BESIDE] = windows[row, BIN]
            tuples[position, SOURCE] = s
            spans[position, 0] = first[i]
            spans[position, 1] = b
            windows[row, BIN] = position
            groups[g, NEWEST] = position
            groups[g, TUPLES] += 1
            counters[HELD] += 1
            stowed[counters[STOWED]] = i
            counters[STOWED] += 1
        else:
            if switching:
                # The group's newest tuple is met first, so the list is filled from its end: replays keep the order of
                # arrival.
                at = counters[REPLAYS] + pairs - (b - a)
                counters[REPLAYS] = at
                position = np.int64(groups[g, NEWEST])
                for _ in range(groups[g, TUPLES]):
                    while tuples[position, GROUP] != g:
                        position = np.int64(tuples[position, OLDER])
                    for w in range(spans[position, 1] - 1, max(spans[position, 0], released) - 1, -1):
                        slot = _find(g, w, parts, part_wids, part_table)
                        if slot < 0:
                            slot = _part(g, w, memory, fresh)
                        if w == spans[position, 1] - 1:
                            leaving[slot, tuples[position, SOURCE]] += 1
                        at -= 1
                        replay_slots[at] = slot
                        replays[at] = position
                    tuples[position, GROUP] = -1
                    position = np.int64(tuples[position, OLDER])
                counters[HELD] -= groups[g, TUPLES]
                counters[SCANNED] += groups[g, TUPLES]
                counters[TO_EAGER] += 1
                groups[g, TUPLES] = 0
                groups[g, NEWEST] = -1
                groups[g, EAGER] = 1
            at = counters[UPDATES]
            for w in range(a, b):
                slot = _find(g, w, parts, part_wids, part_table)
                if slot < 0:
                    slot = _part(g, w, memory, fresh)
                slots[at] = slot
                rows[at] = i
                at += 1
                if w == b - 1:
                    leaving[slot, s] += 1
            counters[UPDATES] = at
        counters[PEAK] = max(counters[PEAK], counters[HELD] + counters[LIVE] + counters[ENTRIES])
        weight = counters[HELD] * weights[0] + counters[LIVE] * weights[1] + counters[ENTRIES] * weights[2]
        counters[WEIGHT] = max(counters[WEIGHT], weight)
    return len(ids)


@kernel
def survey(released, stop, memory):
    """Find the first window of [released, stop) that has anything, and how much there is to evaluate in all of them.

    Returns (first window, or `stop`; partial aggregates plus pairs of a buffered tuple and a window).
    """
    tuples, spans, windows, wids = memory[OF_TUPLES], memory[OF_SPANS], memory[OF_WINDOWS], memory[OF_WIDS]
    counters = memory[OF_COUNTERS]
    low = stop
    pairs = np.int64(0)
    for row in range(counters[OPEN]):
        if windows[row, SIZE] > 0 and wids[row] < stop:
            low = min(low, wids[row])
            pairs += windows[row, SIZE]
        if wids[row] >= released:
            position = np.int64(windows[row, BIN])
            while position >= 0:
                if tuples[position, GROUP] >= 0:
                    a = max(spans[position, 0], released)
                    if a < stop:
                        low = min(low, a)
                        pairs += min(spans[position, 1], stop) - a
                position = np.int64(tuples[position, BESIDE])
    return low, pairs


@kernel
def collect(released, stop, memory, found):
    """List the tuples of B that are in a window of [released, stop), bin by bin, and give their number."""
    tuples, spans, windows, wids = memory[OF_TUPLES], memory[OF_SPANS], memory[OF_WINDOWS], memory[OF_WIDS]
    counters = memory[OF_COUNTERS]
    n = 0
    for row in range(counters[OPEN]):
        if wids[row] >= released:
            position = np.int64(windows[row, BIN])
            while position >= 0:
                if tuples[position, GROUP] >= 0 and spans[position, 0] < stop:
                    found[n] = position
                    n += 1
                position = np.int64(tuples[position, BESIDE])
    return n


@kernel
def expired(bound, memory, found):
    """List the tuples of the bins below `bound`, and give their number."""
    tuples, windows, wids = memory[OF_TUPLES], memory[OF_WINDOWS], memory[OF_WIDS]
    counters = memory[OF_COUNTERS]
    n = 0
    for row in range(counters[OPEN]):
        if wids[row] < bound:
            position = np.int64(windows[row, BIN])
            while position >= 0:
                if tuples[position, GROUP] >= 0:
                    found[n] = position
                    n += 1
                position = np.int64(tuples[position, BESIDE])
    return n


@kernel
def collect_groups(which, released, stop, memory, found):
    """Do as `collect` does for some groups; returns (tuples, pairs of one and a window)."""
    groups, tuples, spans = memory[OF_GROUPS], memory[OF_TUPLES], memory[OF_SPANS]
    n = 0
    pairs = np.int64(0)
    for j in range(len(which)):
        g = which[j]
        position = np.int64(groups[g, NEWEST])
        for _ in range(groups[g, TUPLES]):
            while tuples[position, GROUP] != g:
                position = np.int64(tuples[position, OLDER])
            a = max(spans[position, 0], released)
            b = min(spans[position, 1], stop)
            if a < b:
                found[n] = position
                n += 1
                pairs += b - a
            position = np.int64(tuples[position, OLDER])
    return n, pairs


@kernel
def evaluate(found, released, stop, memory, fresh, slots, positions):
    """Pair buffered tuples with the partial aggregates of their windows in [released, stop), made when there is none.

    H serves as the temporary table T: what is made here leaves with its window. There is room.
    """
    tuples, spans, parts = memory[OF_TUPLES], memory[OF_SPANS], memory[OF_PARTS]
    part_wids, part_table = memory[OF_PART_WIDS], memory[OF_PART_TABLE]
    n = 0
    for j in range(len(found)):
        position = found[j]
        g = tuples[position, GROUP]
        for w in range(max(spans[position, 0], released), min(spans[position, 1], stop)):
            slot = _find(g, w, parts, part_wids, part_table)
            if slot < 0:
                slot = _part(g, w, memory, fresh)
            slots[n] = slot
            positions[n] = position
            n += 1
    return n


@kernel
def chains(order, memory, slots):
    """List the partial aggregates of these rows of `windows`, window by window, and give their number."""
    windows, parts = memory[OF_WINDOWS], memory[OF_PARTS]
    n = 0
    for j in range(len(order)):
        slot = np.int64(windows[order[j], CHAIN])
        while slot >= 0:
            slots[n] = slot
            n += 1
            slot = np.int64(parts[slot, NEXT])
    return n


@kernel
def group_parts(which, order, stop, memory, slots, fill):
    """List the partial aggregates of some groups in these windows, those below `stop`, window by window."""
    parts, part_wids, part_table = memory[OF_PARTS], memory[OF_PART_WIDS], memory[OF_PART_TABLE]
    wids = memory[OF_WIDS]
    n = 0
    for j in range(len(order)):
        wid = wids[order[j]]
        if wid >= stop:
            break
        for i in range(len(which)):
            slot = _find(which[i], wid, parts, part_wids, part_table)
            if slot >= 0:
                if fill:
                    slots[n] = slot
                n += 1
    return n


@kernel
def drop_parts(gone, memory, touched):
    """Forget partial aggregates; the tuples that expire with them leave their groups' volumes.

    Lists groups met for the first time in this call and gives their number.
    """
    groups, volumes, parts = memory[OF_GROUPS], memory[OF_VOLUMES], memory[OF_PARTS]
    part_wids, leaving, part_table = memory[OF_PART_WIDS], memory[OF_LEAVING], memory[OF_PART_TABLE]
    free, windows, wids = memory[OF_FREE], memory[OF_WINDOWS], memory[OF_WIDS]
    window_table, counters = memory[OF_WINDOW_TABLE], memory[OF_COUNTERS]
    mask = np.uint64(len(part_table) - 1)
    n = 0
    for i in range(len(gone)):
        slot = np.int64(gone[i])
        g = parts[slot, OWNER]
        wid = part_wids[slot]
        hole = _home(g, wid) & mask
        while part_table[hole] != slot:
            hole = (hole + np.uint64(1)) & mask
        probe = hole
        while True:
            probe = (probe + np.uint64(1)) & mask
            other = np.int64(part_table[probe])
            if other < 0:
                break
            home = _home(parts[other, OWNER], part_wids[other]) & mask
            if ((probe - home) & mask) >= ((probe - hole) & mask):
                part_table[hole] = other
                hole = probe
        part_table[hole] = -1
        following = parts[slot, NEXT]
        before = parts[slot, BEFORE]
        if following >= 0:
            parts[following, BEFORE] = before
        row = _window(wid, windows, wids, window_table, counters)
        if before >= 0:
            parts[before, NEXT] = following
        else:
            windows[row, CHAIN] = following
        windows[row, SIZE] -= 1
        for k in range(leaving.shape[1]):
            volumes[g, k] -= leaving[slot, k]
        groups[g, PARTS] -= 1
        free[counters[FREE]] = slot
        counters[FREE] += 1
        counters[LIVE] -= 1
        if groups[g, TOUCHED] == 0:
            groups[g, TOUCHED] = 1
            touched[n] = g
            n += 1
    return n


@kernel
def drop_tuples(found, bound, memory, touched, start):
    """Forget those of these tuples that are in no window from `bound` on; the others' windows begin there.

    Goes on listing groups met from `start` on, and gives how many there are then.
    """
    groups, volumes, tuples, spans = memory[OF_GROUPS], memory[OF_VOLUMES], memory[OF_TUPLES], memory[OF_SPANS]
    counters = memory[OF_COUNTERS]
    n = start
    for j in range(len(found)):
        position = found[j]
        g = tuples[position, GROUP]
        if spans[position, 1] > bound:
            spans[position, 0] = max(spans[position, 0], bound)
            continue
        volumes[g, tuples[position, SOURCE]] -= 1
        groups[g, TUPLES] -= 1
        tuples[position, GROUP] = -1
        counters[HELD] -= 1
        if groups[g, TOUCHED] == 0:
            groups[g, TOUCHED] = 1
            touched[n] = g
            n += 1
    return n


@kernel
def settle(touched, rule, band, memory, idle):
    """Decide about groups whose volumes fell: those of none are listed in `idle`, eager ones below turn lazy.

    The second threshold is the first less the part `band` of it; `rule` is that of `threshold`.
    """
    groups, volumes, high = memory[OF_GROUPS], memory[OF_VOLUMES], memory[OF_HIGH]
    counters = memory[OF_COUNTERS]
    n = 0
    for j in range(len(touched)):
        g = touched[j]
        groups[g, TOUCHED] = 0
        if groups[g, TUPLES] == 0:
            groups[g, NEWEST] = -1
        total = _volume(volumes, g)
        if total == 0:
            groups[g, EAGER] = 0
            counters[ENTRIES] -= 1
            idle[n] = g
            n += 1
        elif groups[g, EAGER] == 1 and rule[UNIT] * total < (1.0 - band) * threshold(volumes, g, high, rule):
            groups[g, EAGER] = 0
            counters[TO_LAZY] += 1
    return n


@kernel
def close_windows(bound, memory):
    """Forget the window-ids below `bound`, and those that have nothing, and enter the others anew."""
    windows, wids, window_table = memory[OF_WINDOWS], memory[OF_WIDS], memory[OF_WINDOW_TABLE]
    counters = memory[OF_COUNTERS]
    for place in range(len(window_table)):
        window_table[place] = -1
    n = counters[OPEN]
    counters[OPEN] = 0
    for row in range(n):
        if wids[row] >= bound and (windows[row, SIZE] > 0 or windows[row, BIN] >= 0):
            chain = windows[row, CHAIN]
            size = windows[row, SIZE]
            newest = windows[row, BIN]
            new = _window(wids[row], windows, wids, window_table, counters)
            windows[new, CHAIN] = chain
            windows[new, SIZE] = size
            windows[new, BIN] = newest


@kernel
def pane_survey(released, firsts, memory):
    """Do as `survey` does where a group is an item: the part of a group in a pane that begins at firsts[item].

    Returns (the first window from `released` on that has anything, the one after the last); both `released` if none.
    """
    tuples, windows, wids, parts = memory[OF_TUPLES], memory[OF_WINDOWS], memory[OF_WIDS], memory[OF_PARTS]
    counters = memory[OF_COUNTERS]
    low = FOREVER
    stop = released
    for row in range(counters[OPEN]):
        if wids[row] < released:
            continue
        slot = np.int64(windows[row, CHAIN])
        while slot >= 0:
            low = min(low, max(firsts[parts[slot, OWNER]], released))
            stop = max(stop, wids[row] + 1)
            slot = np.int64(parts[slot, NEXT])
        position = np.int64(windows[row, BIN])
        while position >= 0:
            if tuples[position, GROUP] >= 0:
                low = min(low, max(firsts[tuples[position, GROUP]], released))
                stop = max(stop, wids[row] + 1)
            position = np.int64(tuples[position, BESIDE])
    return min(low, stop), stop


@kernel
def pane_cover(low, stop, order, items, memory, seen, fill, lists):
    """List, for the windows [low, stop), the results (window, group) and what each is made of: items of panes.

    `items` says where the pane of each item begins and whose it is, and of each group its own bound and whether it is
    chosen. An eager item is a pair (into, source) of a result and a partial aggregate, a lazy one a pair (into_too,
    position) for each of its tuples. A group whose own bound is past a window has had that window. seen[g] is -1 for
    all groups at the start. With fill = False only counts. Returns (results, pairs, pairs with tuples).
    """
    tuples, windows, wids, parts = memory[OF_TUPLES], memory[OF_WINDOWS], memory[OF_WIDS], memory[OF_PARTS]
    firsts, owners, own, chosen = items
    results, groups, into, source, into_too, positions = lists
    n = np.int64(0)
    eager = np.int64(0)
    lazy = np.int64(0)
    for w in range(low, stop):
        begun = n
        for j in range(len(order)):
            row = order[j]
            if wids[row] < w:
                continue
            slot = np.int64(windows[row, CHAIN])
            while slot >= 0:
                item = parts[slot, OWNER]
                g = owners[item]
                if firsts[item] <= w and own[g] <= w and chosen[g]:
                    if seen[g] < begun:
                        seen[g] = n
                        if fill:
                            results[n] = w
                            groups[n] = g
                        n += 1
                    if fill:
                        into[eager] = seen[g]
                        source[eager] = slot
                    eager += 1
                slot = np.int64(parts[slot, NEXT])
            position = np.int64(windows[row, BIN])
            while position >= 0:
                item = tuples[position, GROUP]
                if item >= 0:
                    g = owners[item]
                    if firsts[item] <= w and own[g] <= w and chosen[g]:
                        if seen[g] < begun:
                            seen[g] = n
                            if fill:
                                results[n] = w
                                groups[n] = g
                            n += 1
                        if fill:
                            into_too[lazy] = seen[g]
                            positions[lazy] = position
                        lazy += 1
                position = np.int64(tuples[position, BESIDE])
    return n, eager, lazy


@kernel
def enter(owners, part_of, memory, fresh):
    """Make the partial aggregates of these groups and windows, in this order; there is room."""
    counters = memory[OF_COUNTERS]
    counters[FRESH] = 0
    for i in range(len(owners)):
        _part(owners[i], part_of[i], memory, fresh)


@kernel
def rehash(live, memory):
    """Enter these partial aggregates into an empty table."""
    parts, part_wids, part_table = memory[OF_PARTS], memory[OF_PART_WIDS], memory[OF_PART_TABLE]
    mask = np.uint64(len(part_table) - 1)
    for i in range(len(live)):
        slot = live[i]
        place = _home(parts[slot, OWNER], part_wids[slot]) & mask
        while part_table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        part_table[place] = slot


@kernel
def rehash_windows(memory):
    """Enter the open windows into an empty table."""
    wids, window_table, counters = memory[OF_WIDS], memory[OF_WINDOW_TABLE], memory[OF_COUNTERS]
    mask = np.uint64(len(window_table) - 1)
    for row in range(counters[OPEN]):
        place = (_mix(np.uint64(wids[row])) >> _HALF) & mask
        while window_table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        window_table[place] = row


@kernel
def compact(memory):
    """Move the tuples of B together, in their order, and chain them anew; the log is cut by its owner."""
    groups, tuples, spans, windows = memory[OF_GROUPS], memory[OF_TUPLES], memory[OF_SPANS], memory[OF_WINDOWS]
    wids, window_table, counters = memory[OF_WIDS], memory[OF_WINDOW_TABLE], memory[OF_COUNTERS]
    for g in range(len(groups)):
        groups[g, NEWEST] = -1
    for row in range(counters[OPEN]):
        windows[row, BIN] = -1
    n = 0
    for position in range(counters[MADE]):
        g = tuples[position, GROUP]
        if g < 0:
            continue
        first = spans[position, 0]
        last = spans[position, 1]
        source = tuples[position, SOURCE]
        row = _window(last - 1, windows, wids, window_table, counters)
        tuples[n, GROUP] = g
        tuples[n, OLDER] = groups[g, NEWEST]
        tuples[n, BESIDE] = windows[row, BIN]
        tuples[n, SOURCE] = source
        spans[n, 0] = first
        spans[n, 1] = last
        groups[g, NEWEST] = n
        windows[row, BIN] = n
        n += 1
    counters[MADE] = n
