# pyright: reportMissingParameterType=false
"""Compiled eager store: final slices in a row, and what ranges of them combine to, ahead of any window.

Positions count the final slices in order of time, from 0 on; those before `head` are gone. Level 0 of `nodes` has the
slices, node j of level l what the positions [j * 2^l, (j+1) * 2^l) combine to. A level is a ring, half as wide as the
one below. The columns of slices are those of the stream slicer.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.kernel import kernel, making_kernel
from operators.kernels.slicing_release import enter_keys, seek
from operators.kernels.slicing_settle import take_slot

END, BEGIN = 1, 0
CELL, OLDER, NEWER = 1, 2, 3
FIRST, LAST = 0, 1
OLDEST, NEAR = 2, 2
KEY, SLOT, TOTAL = 0, 1, 2


@kernel
def append(  # type: ignore[no-untyped-def]
    bound, before, summed, cells, links, times, chains, ledger, grid, scale, rows, start, stop, slots, totals, into,
    source,
):  # fmt: skip
    """Append to the queue the slices of the one group there is that no tuple at or after a bound can change.

    `rows` has key, slot and running total of each slice held, from `start` to `stop`; a key is a tick that orders a
    slice among others and lies in the windows that the slice is in. New slices are listed in `slots`. When `summed`,
    each takes a slot for its running total, listed in `totals`; `into` and `source` list what makes these up: the one
    before (`before` for the first, when >= 0), and the slice. Keys are entered in the grid while it has room.
    Returns (slices, combinations, whether the grid had room, whether slots ran out before the slices did).
    """
    near = ledger[NEAR]
    slot = np.int64(chains[0, OLDEST]) if start == stop else np.int64(links[rows[SLOT, stop - 1], NEWER])
    if start < stop and summed:
        before = rows[TOTAL, stop - 1]
    n, pairs = np.int64(0), np.int64(0)
    starved = False
    while slot >= 0 and n < len(slots):
        c = links[slot, CELL]
        if cells[c, END] > bound and (near == 0 or times[slot, LAST] + near > bound):
            break
        total = slot
        if summed:
            total = take_slot(links, ledger)
            if total < 0:
                starved = True
                break
            totals[n] = total
            if before >= 0:
                into[pairs], source[pairs] = total, before
                pairs += 1
            into[pairs], source[pairs] = total, slot
            pairs += 1
            before = total
        rows[KEY, stop + n] = cells[c, BEGIN] if near == 0 else times[slot, FIRST]
        rows[SLOT, stop + n], rows[TOTAL, stop + n] = slot, total
        slots[n] = slot
        n += 1
        slot = np.int64(links[slot, NEWER])
    return n, pairs, enter_keys(rows[KEY, start : stop + n], stop - start, grid, scale), starved


@kernel
def ranges(  # type: ignore[no-untyped-def]
    opens, closes, rows, start, stop, grid, scale, base, first, windows, starts, stops, last, into, earlier
):
    """List the windows that have a slice of the queue: which range of them, and which totals it is the difference of.

    The total at the end of a range goes to `last`. What is to be taken from it again is in `earlier`, where there is
    one (`base` is that before all slices), and `first` plus the place of the range in `into`. Returns (ranges, how many
    have an earlier total).
    """
    keys = rows[KEY, start:stop]
    n = np.int64(len(keys))
    m, taken = np.int64(0), np.int64(0)
    for w in range(len(opens)):
        low = seek(opens[w], keys, n, grid, scale)
        high = seek(closes[w], keys, n, grid, scale)
        if low < high:
            windows[m], starts[m], stops[m] = w, low, high
            last[m] = rows[TOTAL, start + high - 1]
            before = rows[TOTAL, start + low - 1] if low > 0 else base
            if before >= 0:
                into[taken], earlier[taken] = first + m, before
                taken += 1
            m += 1
    return m, taken


@kernel
def totals_before(base, totals, number, out):  # type: ignore[no-untyped-def]
    """List the running totals before that of slice `number - 1`, and `base`, if there is one (>= 0); gives how many."""
    n = np.int64(0)
    if base >= 0:
        out[n] = base
        n += 1
    for i in range(number - 1):
        out[n] = totals[i]
        n += 1
    return n


@kernel
def _node(level, j, width):  # type: ignore[no-untyped-def]
    """Give the place of a node."""
    return 2 * width - ((2 * width) >> level) + (j & ((width >> level) - 1))


@kernel
def raise_nodes(slots, head, count, width, nodes, spare, into, source):  # type: ignore[no-untyped-def]
    """Append slices at positions from `count` on and every node that they complete.

    New nodes take their slots from `spare`; gives how many did, each with two pairs of `into` and `source`.
    """
    used = np.int64(0)
    for i in range(len(slots)):
        j = count + i
        nodes[_node(0, j, width)] = slots[i]
        level = 0
        while j & 1 and (width >> (level + 1)) > 0:
            left = nodes[_node(level, j - 1, width)]
            right = nodes[_node(level, j, width)]
            level += 1
            j >>= 1
            place = _node(level, j, width)
            if (j << level) < head:
                nodes[place] = -1
                continue
            nodes[place] = spare[used]
            into[2 * used] = spare[used]
            source[2 * used] = left
            into[2 * used + 1] = spare[used]
            source[2 * used + 1] = right
            used += 1
    return used


@kernel
def fell_nodes(head, until, count, width, nodes, out):  # type: ignore[no-untyped-def]
    """List the slots of the nodes above slices that reach back before `until`; positions from `head` on are held."""
    n = np.int64(0)
    level = 1
    while (width >> level) > 0:
        j = (head + (1 << level) - 1) >> level
        while (j << level) < until and ((j + 1) << level) <= count:
            place = _node(level, j, width)
            if nodes[place] >= 0:
                out[n] = nodes[place]
                nodes[place] = -1
                n += 1
            j += 1
        level += 1
    return n


@making_kernel
def climb(starts, stops, head, width, nodes, into, source):  # type: ignore[no-untyped-def]
    """List the nodes that make up each range of positions, in order; gives their number, at most 2 log2(width) each."""
    pairs = np.int64(0)
    right = np.empty(64, np.int32)
    for r in range(len(starts)):
        x, y = head + starts[r], head + stops[r]
        n_right = 0
        level = 0
        while x < y:
            if x & 1:
                into[pairs] = r
                source[pairs] = nodes[_node(level, x, width)]
                pairs += 1
                x += 1
            if y & 1:
                y -= 1
                right[n_right] = nodes[_node(level, y, width)]
                n_right += 1
            x >>= 1
            y >>= 1
            level += 1
        for i in range(n_right - 1, -1, -1):
            into[pairs] = r
            source[pairs] = right[i]
            pairs += 1
    return pairs
