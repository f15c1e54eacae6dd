"""Compiled numbering of the windows that a page has tuples of, and of these tuples in each."""

from __future__ import annotations

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
