"""Follow the results of each group in the order of time, and write what becomes of its alert.

A row of `memory` is what is known of a group between calls, and a row of `events` is one event; the names below are
their columns. `BEFORE_ALL` stands where there is no window.
"""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import BEFORE_ALL

PROVISIONAL, OPEN, UPDATE, CLOSE, WITHDRAWN = range(5)
"""Kinds of events."""

RUN, IS_OPEN, SINCE, COUNT, LAST_WID, LAST_START, LAST_END, DOUBT, DOUBT_SINCE, DOUBT_START, DOUBT_END, DOUBT_COUNT = (
    range(12)
)
"""Columns of `memory`: windows in the run, whether the alert is open, where the run began, windows of the alert, the
last complete window of the run, and the window for which there is a provisional alert."""
MEMORY = 12

ROW, GROUP, KIND, WID, START, END, BEGAN, WINDOWS = range(8)
"""Columns of `events`: the result that causes it, or -1 for a window without one, its group and kind, its window, where
the run of windows began, and how many they are."""
EVENTS = 8


@kernel
def _withdraw(g, memory, events, n):
    """Withdraw the provisional alert of a group, whose window had no result; return how many events there are."""
    events[n, ROW], events[n, GROUP], events[n, KIND], events[n, WID] = -1, g, WITHDRAWN, memory[g, DOUBT]
    events[n, START], events[n, END] = memory[g, DOUBT_START], memory[g, DOUBT_END]
    events[n, BEGAN], events[n, WINDOWS] = memory[g, DOUBT_SINCE], memory[g, DOUBT_COUNT]
    memory[g, DOUBT] = BEFORE_ALL
    return n + 1


@kernel
def _end(g, slide, memory, events, n):
    """End the run of a group at a window without a result, and close its alert; return how many events there are."""
    if memory[g, IS_OPEN] > 0:
        wid = memory[g, LAST_WID] + 1
        events[n, ROW], events[n, GROUP], events[n, KIND], events[n, WID] = -1, g, CLOSE, wid
        events[n, START], events[n, END] = memory[g, LAST_START] + slide, memory[g, LAST_END] + slide
        events[n, BEGAN], events[n, WINDOWS] = memory[g, SINCE], memory[g, COUNT]
        n += 1
    memory[g, RUN], memory[g, IS_OPEN], memory[g, COUNT] = 0, 0, 0
    return n


@kernel
def follow(groups, windows, judged, needed, slide, bound, memory, events):
    """Write the events of results, which are in the order of groups and then of time; return how many they are.

    `windows`: number, start, when it is known, and end of each result's. `judged`: whether it is complete, meets the
    condition, and ends an alert. `bound`: windows that end before it and have no result are without one. There is room
    for three events a result and two a group.
    """
    wids, starts, times, ends = windows
    final, hot, calm = judged
    n = 0
    for i in range(len(groups)):
        g, w, t = groups[i], wids[i], times[i]
        # A window that should have been complete by now, and is not this one, had no result.
        if memory[g, DOUBT] != BEFORE_ALL and memory[g, DOUBT_END] <= t and not (final[i] and w == memory[g, DOUBT]):
            n = _withdraw(g, memory, events, n)
        if memory[g, RUN] > 0 and memory[g, LAST_END] + slide <= t and not (final[i] and w == memory[g, LAST_WID] + 1):
            n = _end(g, slide, memory, events, n)
        kind = -1
        began, count = starts[i], memory[g, RUN]
        if not final[i]:
            follows = memory[g, RUN] > 0 and w == memory[g, LAST_WID] + 1
            run = memory[g, RUN] if follows else 0
            if hot[i] and memory[g, IS_OPEN] == 0 and memory[g, DOUBT] == BEFORE_ALL and run + 1 >= needed:
                kind = PROVISIONAL
                began = memory[g, SINCE] if follows else starts[i]
                count = run + 1
                memory[g, DOUBT], memory[g, DOUBT_SINCE], memory[g, DOUBT_COUNT] = w, began, count
                memory[g, DOUBT_START], memory[g, DOUBT_END] = starts[i], ends[i]
        else:
            if memory[g, IS_OPEN] > 0:
                began, count = memory[g, SINCE], memory[g, COUNT]
                if calm[i]:
                    kind = CLOSE
                    memory[g, RUN], memory[g, IS_OPEN], memory[g, COUNT] = 0, 0, 0
                else:
                    kind = UPDATE
                    count += 1
                    memory[g, RUN] += 1
                    memory[g, COUNT] = count
            elif hot[i]:
                if memory[g, RUN] == 0:
                    memory[g, SINCE] = starts[i]
                memory[g, RUN] += 1
                began, count = memory[g, SINCE], memory[g, RUN]
                if count >= needed:
                    kind = OPEN
                    memory[g, IS_OPEN], memory[g, COUNT] = 1, count
                    memory[g, DOUBT] = BEFORE_ALL
            else:
                memory[g, RUN] = 0
            memory[g, LAST_WID], memory[g, LAST_START], memory[g, LAST_END] = w, starts[i], t
            if memory[g, DOUBT] != BEFORE_ALL and w >= memory[g, DOUBT]:
                kind, began, count = WITHDRAWN, memory[g, DOUBT_SINCE], memory[g, DOUBT_COUNT]
                memory[g, DOUBT] = BEFORE_ALL
        if kind >= 0:
            events[n, ROW], events[n, GROUP], events[n, KIND], events[n, WID] = i, g, kind, w
            events[n, START], events[n, END], events[n, BEGAN], events[n, WINDOWS] = starts[i], ends[i], began, count
            n += 1
    for g in range(len(memory)):
        if memory[g, DOUBT] != BEFORE_ALL and memory[g, DOUBT_END] < bound:
            n = _withdraw(g, memory, events, n)
        if memory[g, RUN] > 0 and memory[g, LAST_END] + slide < bound:
            n = _end(g, slide, memory, events, n)
    return n
