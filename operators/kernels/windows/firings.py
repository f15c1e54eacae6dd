"""Compiled counts of the tuples of a page by window: up to a firing, or one by one where one fires."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel

STRETCH = np.int64(256)
"""Tuples that are looked at together."""


@kernel
def number_slots(slots, places, which, first, counts):
    """Number slots as they come first, with the tuples of each; return how many slots there are.

    `places` has -1 for each slot, and then its number, until `part_slots` clears it. Slot n is `which[n]`, comes first
    at `first[n]`, and has `counts[n]` tuples.
    """
    n = 0
    for i in range(len(slots)):
        at = places[slots[i]]
        if at < 0:
            at = n
            places[slots[i]] = n
            which[n] = slots[i]
            first[n] = i
            counts[n] = 0
            n += 1
        counts[at] += 1
    return n


@kernel
def part_slots(slots, places, firing, over, turns, ends, made, rest, targets, fires):
    """Write the slot that takes each tuple: of the firing before which it comes, or of what comes behind the last.

    Firing n is at the tuple `fires[n]`.

    `places` has the number of each slot, and -1 again afterwards. Slot n has the firings from `firing[n]` to `over[n]`:
    behind so many of its tuples as `ends` has, and into the slots `made`. `rest[n]` takes what is left. `firing`, and
    `turns`, which has a 0 for each slot, are used up.
    """
    for i in range(len(slots)):
        n = places[slots[i]]
        at = firing[n]
        if at == over[n]:
            targets[i] = rest[n]
            continue
        targets[i] = made[at]
        turns[n] += 1
        if turns[n] == ends[at]:
            fires[at] = i
            firing[n] = at + 1
    for i in range(len(slots)):
        places[slots[i]] = -1


@kernel
def runs(first, last, ends):
    """Write where runs of tuples end that are in the same windows; return how many runs there are.

    0 where there are more than `ends` has room for.
    """
    n = 0
    for begin in range(1, len(first), STRETCH):
        stop = min(begin + STRETCH, np.int64(len(first)))
        differ = 0
        for i in range(begin, stop):
            differ += first[np.uint64(i)] != first[np.uint64(i - 1)] or last[np.uint64(i)] != last[np.uint64(i - 1)]
        if differ == 0:
            continue
        if n + differ >= len(ends):
            return 0
        for i in range(begin, stop):
            if first[i] != first[i - 1] or last[i] != last[i - 1]:
                ends[n] = i
                n += 1
    ends[n] = len(first)
    return n + 1


@kernel
def count_up(slots, rows, due):
    """Count a tuple in each of these slots, and return True; False, with nothing counted, where one is to fire.

    A slot fires once its `rows` reach what `due` has of it, which is more than they are.
    """
    fires = False
    for i in range(len(slots)):
        slot = slots[i]
        rows[slot] += 1
        fires |= rows[slot] >= due[slot]
    if fires:
        for i in range(len(slots)):
            rows[slots[i]] -= 1
        return False
    return True


@kernel
def count_firings(slots, counted, fresh, places, fires, listed, followed):
    """Count a tuple in each of these slots, list the firings, and return how many there are.

    `counted` are the columns `rows`, `given`, `due`, `fired` and `signals` of slots. One that has fired lacks `fresh`
    tuples and has no signals. Firing n is at the tuple `fires[n]`. `listed` has a row for each of: the slot that fires,
    which of its firings that is, the tuples that it has had, and the firing before it of that slot in this page, -1 for
    none. `followed[n]` is False where none of that slot comes behind it in this page. `places`, all -1, stays so.
    """
    rows, given, due, fired, signals = counted
    n = 0
    for i in range(len(slots)):
        slot = slots[i]
        rows[slot] += 1
        if rows[slot] < due[slot]:
            continue
        fires[n] = i
        listed[0, n] = slot
        listed[1, n] = fired[slot]
        listed[2, n] = rows[slot]
        listed[3, n] = places[slot]
        followed[n] = False
        if places[slot] >= 0:
            followed[places[slot]] = True
        places[slot] = n
        fired[slot] += 1
        given[slot] = rows[slot]
        due[slot] = rows[slot] + fresh
        signals[slot] = 0
        n += 1
    for at in range(n):
        places[listed[0, at]] = -1
    return n


@kernel
def part_firings(slots, fires, made, places, targets):
    """Write the slot that takes each tuple: `made[n]` up to the firing n, its own behind the last firing.

    `places`, all -1, stays so.
    """
    at = len(fires) - 1
    for back in range(len(slots)):
        i = len(slots) - 1 - back
        slot = slots[i]
        if at >= 0 and fires[at] == i:
            places[slot] = made[at]
            at -= 1
        targets[i] = slot if places[slot] < 0 else places[slot]
    for i in fires:
        places[slots[i]] = -1
