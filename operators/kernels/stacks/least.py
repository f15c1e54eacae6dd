"""The least key of every window of panes, by four techniques that agree; the greatest is the least complement.

Panes lie one after the other in `panes[0]`; window i is the range heads[i] <= k < tails[i], never empty, and neither
end ever moves back. What a technique remembers between calls is where it stands (`marks`, places in `panes`) and a few
keys (`kept`). `steady` says that both ends move by one pane a window; then inner loops run over whole stretches.

Keys are int32 or int64; of floating numbers they are the bits, turned so that keys are ordered as the
numbers are, -0.0 before 0.0, and NaN has the smallest key in either direction.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *

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
def recompute(panes, heads, tails, steady, marks, kept, out):
    """Look at every pane of every window: O(panes of a window) a window, nothing remembered."""
    least = panes[LEAST]
    found = out[LEAST]
    for i in range(len(heads)):
        part = least[heads[i] : tails[i]]
        lowest = part[0]
        for k in range(len(part)):
            lowest = min(lowest, part[k])
        found[i] = lowest


@kernel
def subtract(panes, heads, tails, steady, marks, kept, out):
    """Keep the least of the window before; look at the whole window only when that least has left it.

    O(1) a pane while the least stays, O(panes of a window) a window when it never does.
    """
    least = panes[LEAST]
    found = out[LEAST]
    head = marks[HEAD]
    tail = marks[TAIL]
    lowest = kept[LEAST]
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
    kept[LEAST] = lowest


@kernel
def two_stacks(panes, heads, tails, steady, marks, kept, out):
    """Hold the least from each pane to the flip in the front stack, and the least of what came later in one key.

    A flip turns panes into the front stack where they lie. O(1) a pane on average, O(panes of a window) at a flip.
    Panes from the flip to the tail are in the running key.
    """
    least = panes[LEAST]
    found = out[LEAST]
    flip = marks[FLIP]
    tail = marks[TAIL]
    running = kept[LEAST]
    i = 0
    while i < len(heads):
        head = heads[i]
        stop = tails[i]
        if head >= flip:
            part = least[head:stop][::-1]
            running = kept[LARGEST]
            for k in range(len(part)):
                running = min(running, part[k])
                part[k] = running
            flip = stop
            tail = stop
            running = kept[LARGEST]
        while tail < stop:
            running = min(running, least[tail])
            tail += 1
        found[i] = min(least[head], running)
        i += 1
        if steady:
            more = min(len(heads) - i, flip - head - 1)
            front = least[head + 1 : head + 1 + more]
            entering = least[tail : tail + more]
            into = found[i : i + more]
            for j in range(len(into)):
                running = min(running, entering[j])
                into[j] = min(front[j], running)
            tail += more
            i += more
    marks[FLIP] = flip
    marks[TAIL] = tail
    kept[LEAST] = running


@kernel
def daba(panes, heads, tails, steady, marks, kept, out):
    """Flip a little at every step: the de-amortised banker's aggregator, in place; no pane ever costs more than O(1).

    Panes of [head, left) hold the least up to
    `back`, of [left, right) up to `right`, of [right, accumulated) their own, of [accumulated, back) up to `back`, of
    [back, tail) their own. `kept` has the least of [back, tail) and of [right, back).
    """
    least = panes[LEAST]
    found = out[LEAST]
    head, left, right = marks[HEAD], marks[LEFT], marks[RIGHT]
    accumulated, back, tail = marks[ACCUMULATED], marks[BACK], marks[END]
    running, largest, middle = kept[LEAST], kept[LARGEST], kept[MIDDLE]
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                head += 1
            else:
                running = min(running, least[tail])
                tail += 1
            if head == back:
                left = right = accumulated = back = tail
                running = largest
                continue
            if left == back:
                left = head
                accumulated = back = tail
                middle = running
                running = largest
            if left == right:
                left += 1
                right += 1
                accumulated += 1
            else:
                least[left] = min(least[left], middle)
                left += 1
                if accumulated < back:
                    least[accumulated - 1] = min(least[accumulated - 1], least[accumulated])
                accumulated -= 1
        found[i] = min(least[head], running)
    marks[HEAD], marks[LEFT], marks[RIGHT] = head, left, right
    marks[ACCUMULATED], marks[BACK], marks[END] = accumulated, back, tail
    kept[LEAST] = running
    kept[MIDDLE] = middle
