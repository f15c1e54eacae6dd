"""Names of the columns and places in the tables of a join's store, for its kernels and its owner.

`runs`, `entries`, `blocks`, `free` and `tops` are the memory of keys, `calendar`, `ring`, `chunks` and `waiting` that
of the entries' ends; `operators.kernels.join.runs` says how they go together.
"""

from __future__ import annotations

import numpy as np

SMALLEST, BLOCK = np.int64(2), np.int64(8)
"""Powers of two: the rows of the smallest piece of memory, and those of a block."""
ROWS = np.int64(256)
"""Rows of a block of entries."""
CHUNK = np.int64(32)
"""Rows of `waiting` in a chunk."""
AHEAD = np.int64(32)
"""How many tuples ahead memory is touched."""
START, COUNT, CAPACITY, BLOCKS = 0, 1, 2, 3
"""Columns of `runs`, by key: its run or directory of blocks, entries, rows of that piece of memory, blocks, if any."""
TICK, POSITION = 0, 1
"""Columns of `entries`."""
BEGINS, AT, HOLDS = 0, 1, 2
"""Columns of `blocks`: the tick of the first entry, its row in `entries`, how many there are."""
OF_ENTRIES, OF_BLOCKS = 0, 1
"""Rows of `free` and places of `tops`: first free piece of each power of two, and the rows ever used."""
LINK = 0
"""The column of the first row of a free piece that has the next one."""
ENDS, KEY = 0, 1
"""Columns of `waiting`: the tick of an entry, and its key."""
FOLLOWING, FILLED = 0, 1
"""Columns of `chunks`: the next chunk of the list, and the rows used."""
FIRST, SHIFT, DISTANT, NEAREST, SPARE, EVER, KEPT, LISTED, TOUCHED = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Places of `calendar`.

The number of the first list, the bits of a list's ticks, entries far off and the least list number of those, the first
free chunk, chunks ever used, entries kept when their list was looked at, entries in lists, whatever was touched last.
"""
PLACES = 9
"""Places that there are."""
DROPPED, EMPTIED = 0, 1
"""Places of `counts`: entries that a call took out, and keys left without."""
TUPLE, GIVEN, LAST_TOUCHED = 0, 1, 2
"""Places of `cursor`: the tuple that a probe goes on from, pairs of it given already, whatever was touched last."""
