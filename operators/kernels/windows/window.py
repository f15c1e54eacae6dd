"""Compiled window arithmetic: from values of the windowing attribute to ranges of window-ids."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel


@kernel
def sliding_wids(values, size, slide, origin, least, first, last):
    """Write the range [first, last) of window-ids of each value (Eq. 5.3 with floor); ids below `least` are left out.

    Neighbours mostly fall into one slide, so the two divisions are made only when a value leaves the last one's slice.
    """
    low = np.int64(1)
    high = np.int64(0)
    a = np.int64(0)
    b = np.int64(0)
    for i in range(len(values)):
        t = values[i] - origin
        if t < low or t >= high:
            a = t // slide
            b = (t + size) // slide
            # Every value of [low, high) has these two quotients.
            low = max(a * slide, b * slide - size)
            high = min((a + 1) * slide, (b + 1) * slide - size)
        first[i] = max(a, least)
        last[i] = b


@kernel
def clip(values, valid, limit, bound, first, last):
    """Take away what is released (window-ids below `bound`) and say what became of each tuple.

    Returns (late, partly late, in no window, without a usable value); tuples that are in no open window get an empty
    range.
    """
    late = 0
    partly = 0
    gap = 0
    unusable = 0
    checked = len(valid) > 0
    for i in range(len(values)):
        if (checked and not valid[i]) or values[i] >= limit or values[i] <= -limit:
            first[i] = 0
            last[i] = 0
            unusable += 1
        elif first[i] >= last[i]:
            gap += 1
        elif first[i] < bound:
            if last[i] <= bound:
                late += 1
                last[i] = first[i]
            else:
                partly += 1
                first[i] = bound
    return late, partly, gap, unusable
