"""Compiled window arithmetic: from values of the windowing attribute to ranges of window-ids."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import LIMIT

STRETCH, SPREAD = np.int64(256), np.int64(1 << 50)
"""Values that are looked at together, and how far apart they may be to be divided as floating-point numbers."""


@kernel
def sliding_wids(values, size, slide, origin, least, first, last):
    """Write the range [first, last) of window-ids of each value (Eq. 5.3 with floor); ids below `least` are left out.

    Of values that are near to one another, distances to a start of a slide are divided, by a multiplication that is at
    most one off. No branch depends on a value, so several are computed at once, in whatever order they are.
    """
    shift = size // slide
    inverse = 1.0 / np.float64(slide)
    for begin in range(0, len(values), STRETCH):
        stop = min(begin + STRETCH, np.int64(len(values)))
        low, high = _extremes(values, begin, stop)
        if low <= -LIMIT or high >= LIMIT or high - low >= SPREAD:
            for i in range(begin, stop):
                first[i] = max((values[i] - origin) // slide, least)
                last[i] = (values[i] - origin + size) // slide
            continue
        wid = (low - origin) // slide
        base = origin + wid * slide
        for i in range(begin, stop):
            quotient = wid + _quotient(values[np.uint64(i)] - base, slide, inverse)
            first[np.uint64(i)] = max(quotient, least)
            last[np.uint64(i)] = quotient + shift
        if shift * slide != size:
            wid = (low - origin + size) // slide
            base = origin + wid * slide - size
            for i in range(begin, stop):
                last[np.uint64(i)] = wid + _quotient(values[np.uint64(i)] - base, slide, inverse)


@kernel
def extremes(values, ends):
    """Write the least and the greatest of values, at least one, to the two places of `ends`."""
    low, high = values[0], values[0]
    for i in range(len(values)):
        low = min(low, values[np.uint64(i)])
        high = max(high, values[np.uint64(i)])
    ends[0], ends[1] = low, high


@kernel
def _extremes(values, start, stop):
    low, high = values[start], values[start]
    for i in range(start, stop):
        low = min(low, values[np.uint64(i)])
        high = max(high, values[np.uint64(i)])
    return low, high


@kernel
def _quotient(distance, slide, inverse):
    """Return distance // slide, which is at most SPREAD."""
    quotient = np.int64(np.float64(distance) * inverse)
    rest = distance - quotient * slide
    return quotient + np.int64(rest >= slide) - np.int64(rest < 0)


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
    for begin in range(0, len(values), STRETCH):
        stop = min(begin + STRETCH, np.int64(len(values)))
        if not checked and _usual(values, limit, bound, first, last, begin, stop):
            continue
        for i in range(begin, stop):
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


@kernel
def _usual(values, limit, bound, first, last, start, stop):
    """Return whether values[start:stop] are all in windows of which none is released."""
    low, high = _extremes(values, start, stop)
    empty, least = 0, first[start]
    for i in range(start, stop):
        least = min(least, first[np.uint64(i)])
        empty += first[np.uint64(i)] >= last[np.uint64(i)]
    return -limit < low and high < limit and bound <= least and empty == 0
