"""Compiled counts of the tuples of a page by window, and the firings of windows in a page."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FAR
from operators.kernels.windows.conditions import holds, stepped

STRETCH = np.int64(256)
"""Tuples that are looked at together."""


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
def clear_slots(slots, columns, due, fresh):
    """Let slots have seen nothing in these columns, and lack `fresh` tuples."""
    for slot in slots:
        for column in columns:
            column[slot] = 0
        due[slot] = fresh


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
def count_firings(slots, counted, fresh, condition, places, fires, listed, followed):
    """Count a tuple in each of these slots, list the firings, and return how many there are.

    `counted` are the columns `rows`, `given`, `due`, `fired`, `signals`, `all_signals` and `steps` of slots. One that
    has fired has no signals, and lacks `fresh` tuples, or where `fresh` is 0 as many as its `condition` says, which is
    (nodes, held, active). Firing n is at the tuple `fires[n]`. `listed` has a row for each of: the slot that fires,
    which of its firings that is, the tuples that it has had, and the firing before it of that slot in this page, -1 for
    none. `followed[n]` is False where none of that slot comes behind it in this page. `places`, all -1, stays so.
    """
    rows, given, due, fired, signals, all_signals, steps = counted
    nodes, held, active = condition
    n = 0
    for i in range(len(slots)):
        slot = slots[i]
        rows[slot] += 1
        if rows[slot] < due[slot] and (fresh > 0 or places[slot] < 0):
            continue
        if fresh == 0:
            seen = rows[slot] - given[slot]
            if not holds(nodes, held, seen, rows[slot], signals[slot], all_signals[slot], steps[slot]):
                continue
            steps[slot] = stepped(nodes, held, active, steps[slot])
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
        due[slot] = rows[slot] + (fresh if fresh > 0 else FAR)
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
