"""The exact 128-bit sum of every window of panes, by four techniques that agree.

A sum is (low limb, high limb), that is high * 2^64 + low as unsigned; panes, marks, heads and tails are as in
`least`. No sum of fewer than 2^63 tuples wraps.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *

_HALF = np.int64(0xFFFFFFFF)
_ONE = np.uint64(1)


@kernel
def _carry(low, addend):
    """Return as 1 or 0 whether a low limb wrapped when `addend` was added."""
    return np.int64(np.uint64(low) < np.uint64(addend))


@kernel
def lift(values, begins, stops, signed, at, panes):
    """Add values[begins[i]:stops[i]] to pane at + i; `signed` is 0 when the values are bits of unsigned numbers.

    Halves of 32 bits are added up apart, so that the loop needs no carry; a pane of a page is shorter than 2^31.
    """
    lows = panes[TOTAL]
    highs = panes[REST]
    if len(begins) and stops[-1] - begins[0] == len(begins):
        part = values[begins[0] : stops[-1]]
        into = lows[at : at + len(begins)]
        over = highs[at : at + len(begins)]
        for i in range(len(part)):
            value = np.int64(part[i])
            total = into[i] + value
            into[i] = total
            over[i] += ((value >> np.int64(63)) & signed) + _carry(total, value)
        return
    for i in range(len(begins)):
        low = np.int64(0)
        high = np.int64(0)
        # An index that cannot be negative needs no check, and the loop becomes wide instructions.
        j, stop = np.uint64(begins[i]), np.uint64(stops[i])
        while j < stop:
            value = np.int64(values[j])
            low += value & _HALF
            # The sign goes with the upper half, unless there is none.
            high += value >> np.int64(32) if signed else (value >> np.int64(32)) & _HALF
            j += _ONE
        upper = high << np.int64(32)
        total = low + upper
        carried = (high >> np.int64(32)) + _carry(total, upper)
        low = lows[at + i] + total
        lows[at + i] = low
        highs[at + i] += carried + _carry(low, total)


@kernel
def recompute(panes, heads, tails, steady, marks, kept, out):
    """Add up every pane of every window."""
    lows = panes[TOTAL]
    highs = panes[REST]
    for i in range(len(heads)):
        low = np.int64(0)
        high = np.int64(0)
        for k in range(heads[i], tails[i]):
            low += lows[k]
            high += highs[k] + _carry(low, lows[k])
        out[TOTAL, i] = low
        out[REST, i] = high


@kernel
def subtract(panes, heads, tails, steady, marks, kept, out):
    """Take away the panes that left the window, add those that entered: O(1) a pane, exactly."""
    lows = panes[TOTAL]
    highs = panes[REST]
    head = marks[HEAD]
    tail = marks[TAIL]
    low = kept[TOTAL]
    high = kept[REST]
    i = 0
    while i < len(heads):
        while tail < tails[i]:
            low += lows[tail]
            high += highs[tail] + _carry(low, lows[tail])
            tail += 1
        while head < heads[i]:
            high -= highs[head] + _carry(low, lows[head])
            low -= lows[head]
            head += 1
        out[TOTAL, i] = low
        out[REST, i] = high
        i += 1
        if steady:
            more = len(heads) - i
            entering, entering_high = lows[tail : tail + more], highs[tail : tail + more]
            leaving, leaving_high = lows[head : head + more], highs[head : head + more]
            into, into_high = out[TOTAL, i : i + more], out[REST, i : i + more]
            for j in range(len(into)):
                low += entering[j]
                high += entering_high[j] + _carry(low, entering[j])
                high -= leaving_high[j] + _carry(low, leaving[j])
                low -= leaving[j]
                into[j] = low
                into_high[j] = high
            head += more
            tail += more
            i += more
    marks[HEAD] = head
    marks[TAIL] = tail
    kept[TOTAL] = low
    kept[REST] = high


@kernel
def two_stacks(panes, heads, tails, steady, marks, kept, out):
    """Hold sums from each pane to the flip in the front stack; as `least.two_stacks`."""
    lows = panes[TOTAL]
    highs = panes[REST]
    flip = marks[FLIP]
    tail = marks[TAIL]
    low = kept[TOTAL]
    high = kept[REST]
    i = 0
    while i < len(heads):
        head = heads[i]
        stop = tails[i]
        if head >= flip:
            part, over = lows[head:stop][::-1], highs[head:stop][::-1]
            low = np.int64(0)
            high = np.int64(0)
            for k in range(len(part)):
                low += part[k]
                high += over[k] + _carry(low, part[k])
                part[k] = low
                over[k] = high
            flip = stop
            tail = stop
            low = np.int64(0)
            high = np.int64(0)
        while tail < stop:
            low += lows[tail]
            high += highs[tail] + _carry(low, lows[tail])
            tail += 1
        total = lows[head] + low
        out[TOTAL, i] = total
        out[REST, i] = highs[head] + high + _carry(total, low)
        i += 1
        if steady:
            more = min(len(heads) - i, flip - head - 1)
            front, front_high = lows[head + 1 : head + 1 + more], highs[head + 1 : head + 1 + more]
            entering, entering_high = lows[tail : tail + more], highs[tail : tail + more]
            into, into_high = out[TOTAL, i : i + more], out[REST, i : i + more]
            for j in range(len(into)):
                low += entering[j]
                high += entering_high[j] + _carry(low, entering[j])
                total = front[j] + low
                into[j] = total
                into_high[j] = front_high[j] + high + _carry(total, low)
            tail += more
            i += more
    marks[FLIP] = flip
    marks[TAIL] = tail
    kept[TOTAL] = low
    kept[REST] = high


@kernel
def daba(panes, heads, tails, steady, marks, kept, out):
    """Flip a little at every step; as `least.daba`. kept is (sum of [back, tail), sum of [right, back))."""
    lows = panes[TOTAL]
    highs = panes[REST]
    head, left, right = marks[HEAD], marks[LEFT], marks[RIGHT]
    accumulated, back, tail = marks[ACCUMULATED], marks[BACK], marks[END]
    low, high, middle_low, middle_high = kept[TOTAL], kept[REST], kept[MIDDLE_TOTAL], kept[MIDDLE_REST]
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                head += 1
            else:
                low += lows[tail]
                high += highs[tail] + _carry(low, lows[tail])
                tail += 1
            if head == back:
                left = right = accumulated = back = tail
                low = np.int64(0)
                high = np.int64(0)
                continue
            if left == back:
                left = head
                accumulated = back = tail
                middle_low = low
                middle_high = high
                low = np.int64(0)
                high = np.int64(0)
            if left == right:
                left += 1
                right += 1
                accumulated += 1
            else:
                lows[left] += middle_low
                highs[left] += middle_high + _carry(lows[left], middle_low)
                left += 1
                if accumulated < back:
                    addend = lows[accumulated]
                    lows[accumulated - 1] += addend
                    highs[accumulated - 1] += highs[accumulated] + _carry(lows[accumulated - 1], addend)
                accumulated -= 1
        total = lows[head] + low
        out[TOTAL, i] = total
        out[REST, i] = highs[head] + high + _carry(total, low)
    marks[HEAD], marks[LEFT], marks[RIGHT] = head, left, right
    marks[ACCUMULATED], marks[BACK], marks[END] = accumulated, back, tail
    kept[TOTAL], kept[REST], kept[MIDDLE_TOTAL], kept[MIDDLE_REST] = low, high, middle_low, middle_high


@kernel
def within(out, limit):
    """Return whether every sum fits 64 bits and has at most the magnitude `limit`."""
    beyond = False
    lows = out[TOTAL]
    highs = out[REST]
    for i in range(len(lows)):
        beyond |= (highs[i] != lows[i] >> np.int64(63)) | (lows[i] > limit) | (lows[i] < -limit - 1)
    return not beyond
