"""Compiled counts of the tuples of a page by window: down to a firing, or one by one where one fires."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel


@kernel
def number_slots(slots, places, which, first, own, turns, counts):
    """Number slots as they come first, and the tuples of each; return how many slots there are.

    `places` has -1 for each slot, and has it again afterwards. Slot n is `which[n]`, comes first at `first[n]`, and has
    `counts[n]` tuples; tuple i is the `turns[i]`-th, from 0, of slot `own[i]`.
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
        own[i] = at
        turns[i] = counts[at]
        counts[at] += 1
    for i in range(n):
        places[which[i]] = -1
    return n


@kernel
def uniform(first, last):
    """Return whether all tuples are in the same windows."""
    least, most, ends, above = first[0], first[0], last[0], last[0]
    for i in range(len(first)):
        least = min(least, first[np.uint64(i)])
        most = max(most, first[np.uint64(i)])
        ends = min(ends, last[np.uint64(i)])
        above = max(above, last[np.uint64(i)])
    return least == most and ends == above


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
