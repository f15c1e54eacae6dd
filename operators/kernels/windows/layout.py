"""Names of the places in the tables of aggregates per window, and of the tables of fixed size before them.

`operators.kernels.windows.slots`, `running` and `low_table` say how the tables go together.
"""

from __future__ import annotations

OF_ROW_OF, OF_ROWS, OF_PAIRS, OF_TABLE, OF_COUNTERS, OF_FREE = 0, 1, 2, 3, 4, 5
OF_BY_SLICE, OF_LINKS, OF_SIZES, OF_HELD, OF_BY_GROUP, OF_KIN = 6, 7, 8, 9, 10, 11
"""Places of `memory`, the tables of slots."""
HELD, MADE, SPARE, FRESH = 0, 1, 2, 3
"""Places of `counters`: slots that are held, that were ever made, that are free, and new ones of a call."""
FRONT, BACK, BESIDE, FOLLOWING = 0, 1, 2, 3
"""Places of `stacks`: the aggregate of each group in either stack, its chain beside them, and what follows a slot."""
ROWS, STARTS, COUNTS, FREE, NUMBERS = 0, 1, 2, 3, 4
"""Places of the tables of a low table: its rows, of each slice the first window-id and its rows, free ids, numbers."""
EVERY, IN_ORDER, PROBES = 0, 1, 2
"""Places of its rule: tuples between two rows that leave slowly, whether old rows go first, places looked at."""
LIVE, UNUSED, OLD_BELOW, OLD_LEFT, OLD_AT, DUE_BELOW, DUE_LEFT, DUE_AT, SINCE = 0, 1, 2, 3, 4, 5, 6, 7, 8
COLLIDED, SLOWLY, IN_TIME, AT_ONCE, KEPT = 9, 10, 11, 12, 13
"""Places of `numbers`, which is what a low table remembers between calls.

How many rows it has and how many ids are unused; below which window-id rows are old, how many are, the next place to
look at, and the same of rows that are due; tuples since a row left slowly. Then how many rows left because another
needed the place, one after the other, just before they were due, all at once; and how many places there are.
"""
WID, FOLLOWER, OWNER, NEW, WHOLE = 0, 1, 2, 3, 4
"""Rows of `begun`, a column for each window of a group that never lets go of a tuple: its window-id, the next window of
the group, -1 for none, the group, -1 where there is no window, the slot that has what is new since it fired, and the
one that has all, which is the same unless results are what is new.
"""
TUPLES, ALL_TUPLES, LACKING, SIGNALS, ALL_SIGNALS, STEPS, FIRINGS = 5, 6, 7, 8, 9, 10, 11
"""More of these rows: what a trigger has seen of it, how many tuples it lacks until it fires, and how often it has."""
BEGUN_ROWS = 12
DISCARDS, REPEATS, TELLS, LACKS = 0, 1, 2, 3
"""Places of `rule`: 1 where results are what is new; where a window that has fired is as a new one; where Python is to
be asked about new windows; and how many tuples a new one lacks.
"""
INTO, SOURCE, SPENT, ASKS = 0, 1, 2, 3
"""Rows of `pairs`: the slot that takes up another, that other, slots that are then of no use, and windows to ask about.
"""
GROUP, SLOT, WINDOW, NUMBER = 0, 1, 2, 3
"""Rows of `found`: the group of each firing, the slot that has its result, the window, and which firing of it it is."""
TUPLE, TAKEN, AIMED, COMBINED, LEFT, LISTED, SPARED, ASKED, NEEDED = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Places of `cursor`: how many tuples are in, the slots used, the updates, pairs, slots left behind and firings listed,
the spare columns of `begun`, the windows to ask about, and so many windows as the next tuple is in, where there was no
room for it, else 0.
"""
KIND, OPERAND, FIRST, SECOND = 0, 1, 2, 3
"""Rows of `nodes`, a column for each part of a condition: its kind, its number or bit, and what it is made of."""
AFTER, AFTER_ALL, HEARD, EVER_HEARD, EITHER, BOTH, STEP, STOPPED = 0, 1, 2, 3, 4, 5, 6, 7
"""Kinds of nodes: so many tuples, or a signal, since the last firing or since the first tuple; one or both of two; one
until the window has fired for it, then another; one while another has not held.
"""
BEHIND, RESULT, FIRING, HAD, SLICE, PLACE = 0, 1, 2, 3, 4, 5
"""Rows of what slices fire: the tuple that each firing lies behind, the slot of its result, which firing of its window
it is, the tuples that the window has had, the number of the slice, and the place of the window among those of it.
"""
