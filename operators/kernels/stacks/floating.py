"""The floating sum of every window of panes with what rounding lost, by four techniques.

A sum is (sum, what rounding lost), added by Knuth's two-sum, so that the two together carry some 100 bits. Without
subtraction the error of a window depends on its own values alone. `subtract` also carries the error of the values that
were taken away: after much larger values the last bits of a sum are theirs (it drifts), and after an infinite or
undefined one the window is added up anew. Panes, marks, heads and tails are as in
`techniques`.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *
from operators.kernels.stacks.techniques import TWO, techniques

LANES = 32
_FINITE = np.float64(np.finfo(np.float64).max)


@kernel
def _lost(old, value, new):
    """Return what rounding lost when new = old + value."""
    taken = new - old
    return (old - (new - taken)) + (value - taken)


@kernel
def lift(values, begins, stops, lanes, at, panes):
    """Add values[begins[i]:stops[i]] to pane at + i: first in the lanes of `lanes`, shape (2, LANES), then across."""
    sums = panes[TOTAL]
    losses = panes[REST]
    if len(begins) and stops[-1] - begins[0] == len(begins):
        part = values[begins[0] : stops[-1]]
        into = sums[at : at + len(begins)]
        over = losses[at : at + len(begins)]
        for i in range(len(part)):
            value = np.float64(part[i])
            old = into[i]
            new = old + value
            into[i] = new
            over[i] += _lost(old, value, new)
        return
    lane = lanes[0]
    missing = lanes[1]
    for i in range(len(begins)):
        part = values[begins[i] : stops[i]]
        total = sums[at + i]
        lost = losses[at + i]
        full = len(part) - len(part) % LANES
        if full:
            first = part[:LANES]
            for j in range(LANES):
                lane[j] = first[j]
                missing[j] = 0.0
            for k in range(LANES, full, LANES):
                row = part[k : k + LANES]
                for j in range(LANES):
                    value = np.float64(row[j])
                    old = lane[j]
                    new = old + value
                    lane[j] = new
                    missing[j] += _lost(old, value, new)
            # Lanes are added in pairs: 16, 8, 4, 2, 1.
            half = LANES // 2
            while half:
                for j in range(half):
                    old = lane[j]
                    value = lane[j + half]
                    new = old + value
                    lane[j] = new
                    missing[j] += _lost(old, value, new) + missing[j + half]
                half //= 2
            new = total + lane[0]
            lost += _lost(total, lane[0], new) + missing[0]
            total = new
        for j in range(full, len(part)):
            value = np.float64(part[j])
            new = total + value
            lost += _lost(total, value, new)
            total = new
        sums[at + i] = total
        losses[at + i] = lost


@kernel
def subtract(panes, heads, tails, steady, marks, kept, out):
    """Take away the panes that left the window, add those that entered: O(1) a pane, with drift."""
    sums = panes[TOTAL]
    losses = panes[REST]
    head = marks[HEAD]
    tail = marks[TAIL]
    total = kept[TOTAL]
    lost = kept[REST]
    for i in range(len(heads)):
        while head < heads[i] and head < tail:
            new = total - sums[head]
            lost += _lost(total, -sums[head], new) - losses[head]
            total = new
            head += 1
        if head < heads[i] or head == tail:
            head = tail = heads[i]
            total = lost = 0.0
        while tail < tails[i]:
            new = total + sums[tail]
            lost += _lost(total, sums[tail], new) + losses[tail]
            total = new
            tail += 1
        if not (abs(total) <= _FINITE and abs(lost) <= _FINITE):
            total = sums[head]
            lost = losses[head]
            for k in range(head + 1, tail):
                new = total + sums[k]
                lost += _lost(total, sums[k], new) + losses[k]
                total = new
        out[TOTAL, i] = total
        out[REST, i] = lost
    marks[HEAD] = head
    marks[TAIL] = tail
    kept[TOTAL] = total
    kept[REST] = lost


@kernel
def settle(found, sums):
    """Write each sum with what rounding lost; an infinite sum leaves no meaning in that."""
    totals = found[TOTAL]
    losses = found[REST]
    for i in range(len(sums)):
        sums[i] = totals[i] + (losses[i] if abs(losses[i]) <= _FINITE else 0.0)


@kernel
def _combine(total, other):
    new = total[0] + other[0]
    return new, total[1] + (_lost(total[0], other[0], new) + other[1])


@kernel
def _nothing(kept):
    return 0.0, 0.0


recompute, two_stacks, daba = techniques(TWO, _combine, _nothing)
