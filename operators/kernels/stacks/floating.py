"""The floating sum of every window of panes with what rounding lost, by four techniques.

A sum is (sum, what rounding lost), added by Knuth's two-sum, so that the two together carry some 100 bits. Without
subtraction the error of a window depends on its own values alone. `subtract` also carries the error of the values that
were taken away: after much larger values the last bits of a sum are theirs (it drifts), and after an infinite or
undefined one the window is added up anew. Panes, marks, heads and tails are as in `least`.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *

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
def recompute(panes, heads, tails, steady, marks, kept, out):
    """Add up every pane of every window."""
    sums = panes[TOTAL]
    losses = panes[REST]
    for i in range(len(heads)):
        total = sums[heads[i]]
        lost = losses[heads[i]]
        for k in range(heads[i] + 1, tails[i]):
            new = total + sums[k]
            lost += _lost(total, sums[k], new) + losses[k]
            total = new
        out[TOTAL, i] = total
        out[REST, i] = lost


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
def two_stacks(panes, heads, tails, steady, marks, kept, out):
    """Hold sums from each pane to the flip in the front stack; as `least.two_stacks`."""
    sums = panes[TOTAL]
    losses = panes[REST]
    flip = marks[FLIP]
    tail = marks[TAIL]
    total = kept[TOTAL]
    lost = kept[REST]
    i = 0
    while i < len(heads):
        head = heads[i]
        stop = tails[i]
        if head >= flip:
            part, over = sums[head:stop][::-1], losses[head:stop][::-1]
            total = 0.0
            lost = 0.0
            for k in range(len(part)):
                value = part[k]
                new = total + value
                lost += _lost(total, value, new) + over[k]
                total = new
                part[k] = total
                over[k] = lost
            flip = stop
            tail = stop
            total = 0.0
            lost = 0.0
        while tail < stop:
            new = total + sums[tail]
            lost += _lost(total, sums[tail], new) + losses[tail]
            total = new
            tail += 1
        new = sums[head] + total
        out[TOTAL, i] = new
        out[REST, i] = _lost(sums[head], total, new) + losses[head] + lost
        i += 1
        if steady:
            more = min(len(heads) - i, flip - head - 1)
            front, front_lost = sums[head + 1 : head + 1 + more], losses[head + 1 : head + 1 + more]
            entering, entering_lost = sums[tail : tail + more], losses[tail : tail + more]
            into, into_lost = out[TOTAL, i : i + more], out[REST, i : i + more]
            for j in range(len(into)):
                value = entering[j]
                new = total + value
                lost += _lost(total, value, new) + entering_lost[j]
                total = new
                new = front[j] + total
                into[j] = new
                into_lost[j] = _lost(front[j], total, new) + front_lost[j] + lost
            tail += more
            i += more
    marks[FLIP] = flip
    marks[TAIL] = tail
    kept[TOTAL] = total
    kept[REST] = lost


@kernel
def daba(panes, heads, tails, steady, marks, kept, out):
    """Flip a little at every step; as `least.daba`. kept is (sum of [back, tail), sum of [right, back))."""
    sums = panes[TOTAL]
    losses = panes[REST]
    head, left, right = marks[HEAD], marks[LEFT], marks[RIGHT]
    accumulated, back, tail = marks[ACCUMULATED], marks[BACK], marks[END]
    total, lost, middle, missing = kept[TOTAL], kept[REST], kept[MIDDLE_TOTAL], kept[MIDDLE_REST]
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                head += 1
            else:
                new = total + sums[tail]
                lost += _lost(total, sums[tail], new) + losses[tail]
                total = new
                tail += 1
            if head == back:
                left = right = accumulated = back = tail
                total = 0.0
                lost = 0.0
                continue
            if left == back:
                left = head
                accumulated = back = tail
                middle = total
                missing = lost
                total = 0.0
                lost = 0.0
            if left == right:
                left += 1
                right += 1
                accumulated += 1
            else:
                new = sums[left] + middle
                losses[left] += _lost(sums[left], middle, new) + missing
                sums[left] = new
                left += 1
                if accumulated < back:
                    addend = sums[accumulated]
                    new = sums[accumulated - 1] + addend
                    losses[accumulated - 1] += _lost(sums[accumulated - 1], addend, new) + losses[accumulated]
                    sums[accumulated - 1] = new
                accumulated -= 1
        new = sums[head] + total
        out[TOTAL, i] = new
        out[REST, i] = _lost(sums[head], total, new) + losses[head] + lost
    marks[HEAD], marks[LEFT], marks[RIGHT] = head, left, right
    marks[ACCUMULATED], marks[BACK], marks[END] = accumulated, back, tail
    kept[TOTAL], kept[REST], kept[MIDDLE_TOTAL], kept[MIDDLE_REST] = total, lost, middle, missing


@kernel
def settle(found, sums):
    """Write each sum with what rounding lost; an infinite sum leaves no meaning in that."""
    totals = found[TOTAL]
    losses = found[REST]
    for i in range(len(sums)):
        sums[i] = totals[i] + (losses[i] if abs(losses[i]) <= _FINITE else 0.0)
