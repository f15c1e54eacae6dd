"""Tuples in order are cut into panes, runs that lie in the same windows; every window is a range of panes.

A pane is known by its unit, 2 * first + odd: it is in the windows first <= w < first + odd + per, where first is
unit >> 1, odd is unit & 1 and per is size // slide. Units rise along the stream. When the size is a multiple of the
slide every unit is even; otherwise a slide has two panes, one on each side of the beginning of a window.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *
from operators.kernels.ticks import BEFORE_ALL

_SHORT = 64
"""Slides below it are worth a look at every tuple, to find panes without looking for their ends."""


@kernel
def first_below(values, least):
    """Find the first value that is below `least` or below the value before it; -1 when there is none."""
    if len(values) == 0:
        return -1
    if values[0] < least:
        return 0
    falls = False
    before = values[: len(values) - 1]
    after = values[1:]
    for i in range(len(after)):
        falls |= after[i] < before[i]
    if falls:
        for i in range(len(after)):
            if after[i] < before[i]:
                return i + 1
    return -1


@kernel
def cut(values, start, size, slide, origin, begins, stops, units):
    """Cut the values from `start` on, which never fall, into panes [begins[i], stops[i]) of these units.

    Stops when the room for panes is used up. Returns (panes, first value not cut, values in no window). The end of a
    pane is looked for where it is if every tick has one tuple, then in doubling steps.
    """
    n = len(values)
    per = size // slide
    if slide < _SHORT and size % slide == 0 and n > start:
        m = min(n - start, (len(units) - 1) * slide + 1)
        part = values[start : start + m]
        again = False
        before = part[: max(m - 1, 0)]
        after = part[1:]
        for j in range(len(after)):
            again |= after[j] == before[j]
        if slide == 1 and not again:
            # Where no tick has two tuples, every tuple is a pane.
            for j in range(m):
                begins[j] = start + j
                stops[j] = start + j + 1
                units[j] = 2 * (part[j] - origin)
            return m, start + m, 0
        if m and not again and part[-1] - part[0] == m - 1:
            # Where every tick has one, panes are arithmetic.
            unit = (part[0] - origin) // slide
            ahead = part[0] - origin - unit * slide
            made = (m + ahead - 1) // slide + 1
            for j in range(made):
                begins[j] = start + j * slide - ahead
                stops[j] = start + (j + 1) * slide - ahead
                units[j] = 2 * (unit + j)
            begins[0] = start
            stops[made - 1] = start + m
            return made, start + m, 0
    panes = 0
    gap = 0
    i = start
    first = 0
    last = 0
    next_first = BEFORE_ALL
    next_last = BEFORE_ALL
    while i < n and panes < len(units):
        t = values[i] - origin
        if t >= next_first:
            first = first + 1 if i > start and t < next_first + slide else t // slide
            next_first = (first + 1) * slide
        if t >= next_last:
            last = last + 1 if i > start and t < next_last + slide else (t + size) // slide
            next_last = (last + 1) * slide - size
        # The pane ends at `high`, in values: where the first or the last window of its tuples changes.
        high = min(next_first, next_last) + origin
        stop = i + 1
        if stop < n and values[stop] < high:
            guess = min(i + (high - values[i]), n)
            if values[guess - 1] < high and (guess == n or values[guess] >= high):
                stop = guess
            else:
                step = 1
                while stop + step < n and values[stop + step] < high:
                    stop += step
                    step *= 2
                # values[stop] < high, and stop + step is at or after the end of the pane.
                above = min(stop + step, n)
                while above - stop > 1:
                    middle = (stop + above) >> 1
                    if values[middle] < high:
                        stop = middle
                    else:
                        above = middle
                stop = above
        if first < last:
            begins[panes] = i
            stops[panes] = stop
            units[panes] = first + last - per
            panes += 1
        else:
            gap += stop - i
        i = stop
    return panes, i, gap


@kernel
def spans(units, size, slide, wid, stop, marks, wids, heads, tails):
    """Write the windows wid <= w < stop that have a pane, each with its panes [head, tail), as many as there is room.

    `marks` is (head, tail) of the window before, and is moved on. Returns (windows, next window to look at, steady):
    steady when both ends move by one pane a window.
    """
    per = size // slide
    head = marks[HEAD]
    tail = marks[TAIL]
    n = 0
    w = wid
    if size % slide == 0 and head < len(units):
        first = units[head] >> 1
        m = min(stop - w, len(wids), first + len(units) - head - w)
        # Units without gaps, windows with all their panes: where these lie is arithmetic.
        if m > 0 and w - first >= per - 1 and units[-1] - units[head] == 2 * (len(units) - 1 - head):
            start = head + w - per + 1 - first
            for i in range(m):
                wids[i] = w + i
                heads[i] = start + i
                tails[i] = start + per + i
            marks[HEAD] = heads[m - 1]
            marks[TAIL] = tails[m - 1]
            return m, w + m, True
    while w < stop and n < len(wids):
        while head < len(units) and (units[head] >> 1) + (units[head] & 1) + per <= w:
            head += 1
        if head == len(units):
            w = stop
            break
        first = units[head] >> 1
        if first > w:
            w = first
            if w >= stop:
                w = stop
                break
        if tail < head:
            tail = head
        while tail < len(units) and units[tail] >> 1 <= w:
            tail += 1
        wids[n] = w
        heads[n] = head
        tails[n] = tail
        n += 1
        w += 1
    marks[HEAD] = head
    marks[TAIL] = tail
    return n, w, False


@kernel
def passed(units, per, wid, start):
    """Find the first pane from `start` on that is in window `wid` or in a later one."""
    head = start
    while head < len(units) and (units[head] >> 1) + (units[head] & 1) + per <= wid:
        head += 1
    return head


@kernel
def bounds(wids, size, slide, origin, begins, ends):
    """Write the extents of windows."""
    for i in range(len(wids)):
        end = origin + (wids[i] + 1) * slide
        begins[i] = end - size
        ends[i] = end


@kernel
def count(begins, stops, valid, at, before):
    """Add values to panes: before[k] is the number of values before pane k, and before[end] that of all.

    Pane `at` may have values already, in which case before[at + 1] says so; those after it are new. Without `valid`
    (length 0) every tuple has a value.
    """
    total = before[at + 1] if len(begins) else 0
    for i in range(len(begins)):
        if len(valid):
            number = 0
            part = valid[begins[i] : stops[i]]
            for j in range(len(part)):
                number += part[j]
            total += number
        else:
            total += stops[i] - begins[i]
        before[at + i + 1] = total


@kernel
def counted(before, heads, tails, found):
    """Write the number of values of each window."""
    for i in range(len(heads)):
        found[i] = before[tails[i]] - before[heads[i]]
