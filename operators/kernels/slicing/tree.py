# pyright: reportMissingParameterType=false
"""Compiled tree of the eager store: what ranges of final slices combine to, ahead of any window.

Positions count the final slices in order of time, from 0 on; those before `head` are gone. Level 0 of `nodes` has the
slices, node j of level l what the positions [j * 2^l, (j+1) * 2^l) combine to. A level is a ring, half as wide as the
one below.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel


@kernel
def _node(level, j, width):
    """Return the place of a node."""
    return 2 * width - ((2 * width) >> level) + (j & ((width >> level) - 1))


@kernel
def raise_nodes(slots, head, count, width, nodes, spare, into, source):
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
def fell_nodes(head, until, count, width, nodes, out):
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
def climb(starts, stops, head, width, nodes, into, source):
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
