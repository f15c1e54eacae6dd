"""Compiled firings of windows that share slices: a slice has what a group got since its windows took what it had.

A slice is a slot as a window is one, and counts its tuples. It is due with the first of its windows, so that tuples
which make none of them fire cost one count each. Behind a tuple that makes one fire, all windows of the slice take what
is in it, and another slot takes its place.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FAR
from operators.kernels.windows import layout


@kernel
def lack(slots, windows, rows, due):
    """Let slices be due with the first of their windows; `windows` has the slots of them, shape (slices, windows)."""
    for i in range(len(slots)):
        least = np.int64(FAR)
        for w in windows[i]:
            least = min(least, due[w] - rows[w])
        due[slots[i]] = rows[slots[i]] + max(least, np.int64(1))


@kernel
def settle(slots, windows, rows, into, source):
    """Let windows count the tuples of their slices, and write which slot takes up which: one pair for each window."""
    n = 0
    for i in range(len(slots)):
        for w in windows[i]:
            rows[w] += rows[slots[i]]
            into[n] = w
            source[n] = slots[i]
            n += 1


@kernel
def fire(groups, begin, slices, counted, rule, spare, current, targets, pairs, found, freed, cursor):
    """Count tuples in the slices of their groups, from the tuple `begin` on, and let windows fire behind them.

    Returns up to which tuple it got: a tuple is left for the next call, if there may be no room for what it fires.
    `slices` are (places, numbers, slots, windows): the slot of the slice of each group, and its number; by number its
    slot, and the slots of its windows. `counted` are the columns `rows`, `given`, `due`, `fired` and `signals` of all
    slots, `rule` is (how many tuples a window lacks that fires, 1 where results are what is new). `spare` are slots
    that hold nothing. `targets[i]` takes the tuple i, then `pairs` say which slot takes up which, in their order.
    `current`, all -1, is the slot that has what is new of a window that fires, where results are what is new.
    `found` has a row for each of: the tuple behind which it fires, the slot of the result, which firing of its window
    it is, the tuples that the window has had, the number of the slice, the place of the window in it. `freed` are slots
    that are of no use behind the results, as many as are used of `spare`. `cursor` counts these, pairs and firings.
    """
    places, numbers, slots, windows = slices
    rows, given, due, fired, signals = counted
    fresh, discards = rule
    many = windows.shape[1]
    used, paired, listed = 0, 0, 0
    done = len(groups)
    for i in range(begin, len(groups)):
        group = groups[i]
        slot = places[group]
        rows[slot] += 1
        targets[i - begin] = slot
        if rows[slot] < due[slot]:
            continue
        if used + many + 1 > len(spare) or paired + 2 * many > pairs.shape[1] or listed + many > found.shape[1]:
            rows[slot] -= 1
            done = i
            break
        number = numbers[group]
        least = np.int64(FAR)
        for place in range(many):
            w = windows[number, place]
            rows[w] += rows[slot]
            at = current[w] if discards and current[w] >= 0 else w
            pairs[0, paired] = at
            pairs[1, paired] = slot
            paired += 1
            if rows[w] >= due[w]:
                if discards:
                    current[w] = spare[used]
                else:
                    at = spare[used]
                    pairs[0, paired] = at
                    pairs[1, paired] = w
                    paired += 1
                freed[used] = spare[used]
                used += 1
                found[layout.BEHIND, listed] = i
                found[layout.RESULT, listed] = at
                found[layout.FIRING, listed] = fired[w]
                found[layout.HAD, listed] = rows[w]
                found[layout.SLICE, listed] = number
                found[layout.PLACE, listed] = place
                listed += 1
                fired[w] += 1
                given[w] = rows[w]
                signals[w] = 0
                due[w] = rows[w] + fresh
            least = min(least, due[w] - rows[w])
        freed[used] = slot
        slot = spare[used]
        used += 1
        rows[slot] = 0
        due[slot] = least
        places[group] = slot
        slots[number] = slot
    cursor[0], cursor[1], cursor[2] = used, paired, listed
    return done
