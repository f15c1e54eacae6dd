"""The exact 128-bit sum of every window of panes, by four techniques that agree.

A sum is (low limb, high limb), that is high * 2^64 + low as unsigned; panes, marks, heads and tails are as in
`techniques`. No sum of fewer than 2^63 tuples wraps.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *
from operators.kernels.stacks.techniques import TWO, techniques

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
def within(out, limit):
    """Return whether every sum fits 64 bits and has at most the magnitude `limit`."""
    beyond = False
    lows = out[TOTAL]
    highs = out[REST]
    for i in range(len(lows)):
        beyond |= (highs[i] != lows[i] >> np.int64(63)) | (lows[i] > limit) | (lows[i] < -limit - 1)
    return not beyond


@kernel
def _combine(total, other):
    low = total[0] + other[0]
    return low, total[1] + other[1] + _carry(low, other[0])


@kernel
def _nothing(kept):
    return np.int64(0), np.int64(0)


recompute, two_stacks, daba = techniques(TWO, _combine, _nothing)
