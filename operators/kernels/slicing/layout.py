"""Names of the columns and places in the tables of the stream slicer, for all of its kernels and operators.

`memory` has the tables of slices, `windows` those of the windows that they are cut for. `ledger` has what holds for
all tuples of a call, and what is counted.
"""

from __future__ import annotations

OF_CELLS, OF_ORDER, OF_LINKS, OF_TIMES, OF_CHAINS, OF_BOUNDS, OF_DUES, OF_LEDGER, OF_UNIONS, OF_TABLE = range(10)
"""Places of `memory`: the tables named below, and what is remembered of parts of time while tuples are placed."""
OF_BANDS, OF_SESSIONS, OF_NEXTS, OF_EDGES = 0, 1, 2, 3
"""Places of `windows`: these tables, and the first edge behind those listed of each sequence of edges, two a band."""
BEGIN, END, UNTIL, HEAD, SIZE = 0, 1, 2, 3, 4
"""Columns of `cells`: its ticks, the end of the last window that begins with it, its first slice, how many it has."""
NOBODY = -2
"""The head of a cell that no window covers; -1 is that of an empty one."""
GROUP, CELL, OLDER, NEWER, NEXT, PREVIOUS = 0, 1, 2, 3, 4, 5
"""Columns of `links`: the neighbours of a slice in its group, and in its cell. OLDER chains what is free, too."""
FIRST, LAST, DONE = 0, 1, 2
"""Columns of `times`: the first and last tick, and the bits of the session windows that have no use for the slice."""
NEWEST, IN_CELL, OLDEST = 0, 1, 2
"""Columns of `chains`, by group: its newest slice, the cell of that, its oldest slice."""
OWN, DUE = 0, 1
"""Columns of `bounds`, by group: up to where it was promised alone, and its deadline."""
START, NUMBER = 0, 1
"""Columns of `order`: the begin of a cell, and which one it is."""
RANGE, SLIDE, ORIGIN, LEAST, MOST, OWNER = 0, 1, 2, 3, 4, 5
"""Columns of `bands`: window w covers [origin + (w+1)slide - range, origin + (w+1)slide) for least <= w <= most.

OWNER is the place of the window among all that share the slices.
"""
TICK, LASTS, FOUND, THEN, PART = 0, 1, 2, 3, 4
"""Rows of `edges`: where each is, the end of the last window that begins there, and room to put them in order."""
GAP, SINCE, BIT, WHICH = 0, 1, 2, 3
"""Columns of `sessions`: distances from the gap on separate, ticks before `since` do not count, the bit in DONE.

WHICH is the place of the window among all that share the slices.
"""
BOUND, LOW, NEAR, ALL, GAPPY, ASKED, JOINED, SINGLE = 0, 1, 2, 3, 4, 5, 6, 7
"""Places of `ledger` for what holds.

What was promised, below what no context-free window is open, the smallest gap (0 without sessions), all session bits,
whether ticks may be in no window, whether cells are cut elsewhere, from which tick all sessions count, no groups.
"""
CELLS, CELLS_MADE, CELLS_FREE, SLICES, MADE, FREE = 8, 9, 10, 11, 12, 13
"""Places of `ledger` for cells in order, ever made and first free, and for slices held, ever made and first free."""
STOCK, MERGED, LATE, NOWHERE, UNUSABLE, EDGES, DUES, TOP, BOTTOM = 14, 15, 16, 17, 18, 19, 20, 21, 22
"""Places of `ledger` for the first free slot of those that are initialised, of which slices are made, and for counts.

Slices merged in this call; tuples too late, in no window, without a tick; edges that are listed (-1: to be
looked for); deadlines; the largest tick ever; the least one of this call.
"""
EDGE, DEPTH, ENTRIES = 23, 24, 25
"""Places of `ledger` for the next edge of those listed, the ticks that a list spans, and how many places there are."""
INTO, SOURCE = 0, 1
"""Columns of `unions`: the slices that others were merged into in a call, and those others."""
NEXT_END, NEXT_BEGIN, NEXT_WID = 0, 1, 2
"""Rows of `ahead`: end and begin of the next window of each band, -FAR where they are not known, and its window-id."""
PLACE, WID, OPENS, CLOSES, STARTS, STOPS = 0, 1, 2, 3, 4, 5
"""Rows of `found`: the place of a window, its window-id, begin, end, first slice, and the first slice behind it."""
QUEUE_START, QUEUE_STOP, BASE_TOTAL, BEFORE, DIRTY, QUEUED = 0, 1, 2, 3, 4, 5
"""Places of `queued`: rows of the queue, the slot of the total before it, how many slices were given up before it, and
whether it has to be made anew; and how many places there are."""
APPENDED_SLOT, APPENDED_TOTAL = 0, 1
"""Rows of `appended`: slices that are new in the queue, and the slots of their running totals."""
KEY, SLOT, TOTAL = 0, 1, 2
"""Rows of the queue of final slices: a tick that stands for each, its slot, that of the running total up to it."""
