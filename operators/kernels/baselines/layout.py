"""Names of the columns and places in the tables of a mixed store, for its kernels and its owners.

`operators.kernels.baselines.adaptive` says how the tables go together.
"""

from __future__ import annotations

OF_GROUPS, OF_VOLUMES, OF_HIGH, OF_TUPLES, OF_SPANS, OF_PARTS, OF_PART_WIDS = 0, 1, 2, 3, 4, 5, 6
OF_LEAVING, OF_PART_TABLE, OF_FREE, OF_WINDOWS, OF_WIDS, OF_WINDOW_TABLE, OF_COUNTERS = 7, 8, 9, 10, 11, 12, 13
"""Places of `memory`: the arrays named here, the highest tick of each source, rows of `parts` that are free."""
UNIT, BASE, RATE = 0, 1, 2
"""Places of `rule`, by which a group switches: tup * SLIDE * RANGE, and what `threshold` multiplies."""
EAGER, PARTS, TUPLES, NEWEST, TOUCHED = 0, 1, 2, 3, 4
"""Columns of `groups`: eager or lazy, partial aggregates, tuples in B, the newest of these, met in this call."""
GROUP, OLDER, BESIDE, SOURCE = 0, 1, 2, 3
"""Columns of `tuples`: the group (-1 when gone), the group's tuple before, the bin's tuple before, the source."""
OWNER, NEXT, BEFORE = 0, 1, 2
"""Columns of `parts`: the group, and the neighbours in the window's chain."""
CHAIN, SIZE, BIN = 0, 1, 2
"""Columns of `windows`: the first partial aggregate, how many there are, the newest tuple of the bin."""
MADE, HELD, LIVE, EVER, FREE, OPEN, ENTRIES, PEAK, WEIGHT, TO_EAGER, TO_LAZY, SCANNED = range(12)
"""Counters: positions of B used, tuples in B, partial aggregates, rows of `parts` ever used and free, open windows,
groups, most objects at once and what they weighed at most, switches to eager and to lazy, tuples replayed.
"""
FRESH, REPLAYS, UPDATES, STOWED, NEED, PAIRS = range(12, 18)
"""More counters: what a call listed, and the partial aggregates and updates that the tuple it stopped at may need."""
COUNTERS = 18
