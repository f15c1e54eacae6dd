"""Compiled counts of the tuples of a page by window: down to a firing, or one by one where one fires."""

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
def part_slots(slots, places, firing, over, turns, ends, made, rest, targets):
    """Write the slot that takes each tuple: of the firing before which it comes, or of what comes behind the last.

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
def count_down(slots, rows, all_rows, lacking):
    """Count a tuple in each of these slots, and return True; False, with nothing counted, where one is to fire.

    `lacking` has how many tuples each slot lacks until it fires, 1 at least.
    """
    due = False
    for i in range(len(slots)):
        slot = slots[i]
        lacking[slot] -= 1
        due |= lacking[slot] <= 0
    if due:
        for i in range(len(slots)):
            lacking[slots[i]] += 1
        return False
    for i in range(len(slots)):
        rows[slots[i]] += 1
        all_rows[slots[i]] += 1
    return True
