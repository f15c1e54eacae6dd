# pyright: reportMissingParameterType=false
"""Compiled bookkeeping of when windows began: disjoint, rising stretches of window-ids and a value for each."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import BEFORE_ALL


@kernel
def begin(first, last, start, low, begun, count):
    """Note for each range [first, last), from tuple `start` on, that the windows in it not begun yet begin at `low`.

    begun[i] = (first, last, value). Returns (tuples done, stretches); fewer than all when there may be too little room.
    """
    hit = np.int64(-1)
    for i in range(start, len(first)):
        a = first[i]
        b = last[i]
        if hit >= 0 and begun[hit, 0] <= a and b <= begun[hit, 1]:
            continue
        # The stretches that end at or before a, from the last one back: new windows mostly come at the end.
        at = np.int64(count)
        while at > 0 and begun[at - 1, 1] > a:
            at -= 1
        while a < b:
            if at < count and begun[at, 0] <= a:
                hit = at
                a = begun[at, 1]
                at += 1
                continue
            stop = min(b, begun[at, 0]) if at < count else b
            if at > 0 and begun[at - 1, 1] == a and begun[at - 1, 2] == low:
                begun[at - 1, 1] = stop
                hit = at - 1
            else:
                if count >= len(begun):
                    return i, count
                for j in range(count, at, -1):
                    for k in range(3):
                        begun[j, k] = begun[j - 1, k]
                begun[at, 0] = a
                begun[at, 1] = stop
                begun[at, 2] = low
                count += 1
                hit = at
                at += 1
            a = stop
    return len(first), count


@kernel
def finish(bound, begun, count):
    """Take out the windows below `bound`; returns (value of the last of them, or BEFORE_ALL; stretches left)."""
    value = BEFORE_ALL
    gone = 0
    while gone < count and begun[gone, 0] < bound:
        value = begun[gone, 2]
        if begun[gone, 1] > bound:
            begun[gone, 0] = bound
            break
        gone += 1
    for j in range(gone, count):
        for k in range(3):
            begun[j - gone, k] = begun[j, k]
    return value, count - gone
