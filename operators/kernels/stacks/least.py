"""The least key of every window of panes, by four techniques that agree; the greatest is the least complement.

Panes, marks, heads and tails are as in `techniques`.

Keys are int32 or int64; of floating numbers they are the bits, turned so that keys are ordered as the
numbers are, -0.0 before 0.0, and NaN has the smallest key in either direction.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *
from operators.kernels.stacks.techniques import ONE, techniques

_ONE = np.uint64(1)


@kernel
def lift_whole(values, begins, stops, turn, at, panes):
    """Lower panes[LEAST, at + i] to the least of values[begins[i]:stops[i]], each key xored with `turn`."""
    least = panes[LEAST]
    if len(begins) and stops[-1] - begins[0] == len(begins):
        part = values[begins[0] : stops[-1]]
        into = least[at : at + len(begins)]
        for i in range(len(part)):
            into[i] = min(into[i], part[i] ^ turn)
        return
    into = least[at : at + len(begins)]
    for i in range(len(into)):
        found = into[i]
        # An index that cannot be negative needs no check, and the loop becomes wide instructions.
        j, stop = np.uint64(begins[i]), np.uint64(stops[i])
        while j < stop:
            found = min(found, values[j] ^ turn)
            j += _ONE
        into[i] = found


@kernel
def lift_floating(bits, begins, stops, layout, at, panes):
    """Lift floating numbers by their bits, as `lift_whole` does whole ones; keys are made by `layout`."""
    least = panes[LEAST]
    largest, smallest, infinite, shift, turn = layout[TOP], layout[BOTTOM], layout[INFINITE], layout[SIGN], layout[TURN]
    if len(begins) and stops[-1] - begins[0] == len(begins):
        part = bits[begins[0] : stops[-1]]
        into = least[at : at + len(begins)]
        for i in range(len(part)):
            word = part[i]
            key = (word ^ ((word >> shift) & largest)) ^ turn
            into[i] = min(into[i], smallest if (word & largest) > infinite else key)
        return
    into = least[at : at + len(begins)]
    for i in range(len(into)):
        found = into[i]
        j, stop = np.uint64(begins[i]), np.uint64(stops[i])
        while j < stop:
            word = bits[j]
            key = (word ^ ((word >> shift) & largest)) ^ turn
            found = min(found, smallest if (word & largest) > infinite else key)
            j += _ONE
        into[i] = found


@kernel
def unkey(found, layout, bits):
    """Write the bits of the floating numbers that have these keys; the smallest key is that of NaN."""
    largest, smallest, infinite, shift, turn = layout[TOP], layout[BOTTOM], layout[INFINITE], layout[SIGN], layout[TURN]
    undefined = infinite | (infinite >> 1)
    for i in range(len(found)):
        key = found[i] ^ turn
        bits[i] = undefined if found[i] == smallest else key ^ ((key >> shift) & largest)


@kernel
def subtract(panes, heads, tails, steady, marks, kept, out):
    """Keep the least of the window before; look at the whole window only when that least has left it.

    O(1) a pane while the least stays, O(panes of a window) a window when it never does.
    """
    least = panes[LEAST]
    found = out[LEAST]
    head = marks[HEAD]
    tail = marks[TAIL]
    lowest = kept[RUNNING]
    i = 0
    while i < len(heads):
        gone = False
        while head < heads[i]:
            gone |= head < tail and least[head] == lowest
            head += 1
        if gone or tail <= head:
            part = least[head : tails[i]]
            lowest = part[0]
            for k in range(len(part)):
                lowest = min(lowest, part[k])
            tail = tails[i]
        else:
            while tail < tails[i]:
                lowest = min(lowest, least[tail])
                tail += 1
        found[i] = lowest
        i += 1
        if steady:
            more = len(heads) - i
            leaving = least[head : head + more]
            entering = least[tail : tail + more]
            into = found[i : i + more]
            j = 0
            while j < len(into) and leaving[j] != lowest:
                lowest = min(lowest, entering[j])
                into[j] = lowest
                j += 1
            head += j
            tail += j
            i += j
    marks[HEAD] = head
    marks[TAIL] = tail
    kept[RUNNING] = lowest


@kernel
def _combine(key, other):
    return (min(key[0], other[0]),)


@kernel
def _nothing(kept):
    return (kept[LARGEST],)


recompute, two_stacks, daba = techniques(ONE, _combine, _nothing)
