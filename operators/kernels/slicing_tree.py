# pyright: reportMissingParameterType=false
"""Compiled eager store: final slices in a row, and what ranges of them combine to, ahead of any window.

Positions count the final slices in order of time, from 0 on; those before `head` are gone. Level 0 of `nodes` has the
slices, node j of level l what the positions [j * 2^l, (j+1) * 2^l) combine to. A level is a ring, half as wide as the
one below. The columns of slices are those of the stream slicer.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.kernel import kernel, making_kernel

END, BEGIN = 1, 0
CELL, OLDER, NEWER = 1, 2, 3
FIRST, LAST = 0, 1


@kernel
def final_slices(slot, bound, near, cells, links, times, slots, keys):  # type: ignore[no-untyped-def]
    """List the slices of a group from `slot` on that no tuple at or after a bound can change; gives their number.

    A key is a tick that orders a slice among others and lies in the windows that the slice is in.
    """
    n = np.int64(0)
    while slot >= 0 and n < len(slots):
        c = links[slot, CELL]
        if cells[c, END] > bound and (near == 0 or times[slot, LAST] + near > bound):
            break
        slots[n] = slot
        keys[n] = cells[c, BEGIN] if near == 0 else times[slot, FIRST]
        n += 1
        slot = np.int64(links[slot, NEWER])
    return n


@kernel
def chain_totals(before, totals, slots, into, source):  # type: ignore[no-untyped-def]
    """List what makes up each running total: the one before it, when there is one (before >= 0), and its slice."""
    n = np.int64(0)
    for i in range(len(totals)):
        if before >= 0:
            into[n] = totals[i]
            source[n] = before
            n += 1
        into[n] = totals[i]
        source[n] = slots[i]
        n += 1
        before = np.int64(totals[i])
    return n


@kernel
def differences(starts, stops, totals, base, first, last, into, earlier):  # type: ignore[no-untyped-def]
    """Write the running total at the end of each range to `last`, and list what is to be taken from it again.

    Range i goes to the result first + i; that is in `into`, and in `earlier` the total before the range, where there is
    one (`base` is that before all positions). Gives how many of these there are.
    """
    n = np.int64(0)
    for i in range(len(starts)):
        last[i] = totals[stops[i] - 1]
        before = totals[starts[i] - 1] if starts[i] > 0 else base
        if before >= 0:
            into[n] = first + i
            earlier[n] = before
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
