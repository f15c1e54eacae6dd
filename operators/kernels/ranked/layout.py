"""Names of the columns and places in the tables of queues, for their kernels and their owners.

`places`, `heads`, `spare`, `counters`, `keys` and `items` are the memory of queues; `operators.kernels.ranked.ranked`
says how they go together. `cursor` is where a listing goes on whose columns were full.
"""

from __future__ import annotations

BASE, ROOM, START, SIZE = 0, 1, 2, 3
"""Columns of `places`, by queue: where its room begins in the arena, how large it is, its first entry, how many."""
LEAST_LEVEL = 2
"""The power of two that the smallest room has entries."""
USED, ENTRIES = 0, 1
"""Places of `counters`: entries of the arena ever used, and entries that count."""
QUEUE, WINDOW = 0, 1
"""Places of `cursor`: which of the queues asked for is next, and which window of it."""
