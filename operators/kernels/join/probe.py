# pyright: reportMissingParameterType=false
"""Compiled looks at the store of a join's input that change nothing: probes, least ticks, all entries.

How entries lie in memory is told in `join_runs`; the searches are written here again because a compiled function may
call only those of its own file.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FOREVER

CHUNK = np.int64(32)
AHEAD = np.int64(32)


@kernel
def _first(entries, start, stop, tick):
    """Return the first row from start on, before stop, whose tick is not below `tick`."""
    while stop - start > 8:
        middle = (start + stop) >> 1
        if entries[middle, 0] < tick:
            start = middle + 1
        else:
            stop = middle
    while start < stop and entries[start, 0] < tick:
        start += 1
    return start


@kernel
def _touch(keys, start, stop, entries, runs):
    """Fetch the last entries of some keys, and give a number that depends on them."""
    touched = np.int64(0)
    for i in range(start, stop):
        key = np.int64(keys[i])
        if key >= 0 and runs[key, 3] == 0:
            touched ^= entries[max(np.int64(runs[key, 0]) + np.int64(runs[key, 1]) - 1, 0), 0]
    return touched


@kernel
def _block_of(key, tick, blocks, runs):
    """Return the last block that begins at or before a tick, the first one when none does."""
    low = np.int64(runs[key, 0])
    high = low + np.int64(runs[key, 3]) - 1
    if blocks[high, 0] <= tick:
        return high
    while low < high:
        middle = (low + high + 1) >> 1
        if blocks[middle, 0] <= tick:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def probe(keys, low, high, limit, cursor, entries, blocks, runs, rows, positions):
    """Write the pairs of tuple i with the entries of keys[i] whose tick is in [low[i], high[i]]; gives their number.

    At most `limit` pairs a tuple; a key of -1 has no entries. It stops when `rows` is full and goes on from cursor =
    [tuple, pairs of it already given] at the next call; all is done when cursor[0] = len(keys).
    """
    n = 0
    room = len(rows)
    i = cursor[0]
    given = cursor[1]
    ready = i
    touched = np.int64(0)
    while i < len(keys):
        if i == ready:
            ready = min(i + AHEAD, len(keys))
            touched ^= _touch(keys, i, ready, entries, runs)
        key = np.int64(keys[i])
        if key >= 0 and runs[key, 1] > 0:
            if runs[key, 3] == 0:
                start = np.int64(runs[key, 0])
                stop = start + np.int64(runs[key, 1])
                at = start
                if stop - start > 16:
                    at = _first(entries, start, stop, low[i])
                while at < stop and entries[at, 0] < low[i]:
                    at += 1
                at += given
                while at < stop and entries[at, 0] <= high[i] and given < limit:
                    if n == room:
                        cursor[0] = i
                        cursor[1] = given
                        return n
                    rows[n] = i
                    positions[n] = entries[at, 1]
                    n += 1
                    at += 1
                    given += 1
            else:
                block = _block_of(key, low[i] - 1, blocks, runs)
                end = np.int64(runs[key, 0]) + np.int64(runs[key, 3])
                start = blocks[block, 1]
                at = _first(entries, start, start + blocks[block, 2], low[i])
                behind = given
                more = True
                while more and block < end:
                    stop = blocks[block, 1] + blocks[block, 2]
                    if stop - at <= behind:
                        behind -= stop - at
                    else:
                        at += behind
                        behind = np.int64(0)
                        while at < stop:
                            if entries[at, 0] > high[i] or given >= limit:
                                more = False
                                break
                            if n == room:
                                cursor[0] = i
                                cursor[1] = given
                                return n
                            rows[n] = i
                            positions[n] = entries[at, 1]
                            n += 1
                            at += 1
                            given += 1
                    block += 1
                    if block < end:
                        at = blocks[block, 1]
        i += 1
        given = np.int64(0)
    cursor[0] = i
    cursor[1] = 0
    cursor[2] = touched
    return n


@kernel
def dump(entries, blocks, runs, keys, ticks, positions):
    """Write all entries, key by key in the order of time, and give their number."""
    n = 0
    for key in range(len(runs)):
        if runs[key, 1] == 0:
            continue
        first = np.int64(runs[key, 0])
        pieces = max(np.int64(runs[key, 3]), 1)
        for piece in range(pieces):
            start = first if runs[key, 3] == 0 else blocks[first + piece, 1]
            count = np.int64(runs[key, 1]) if runs[key, 3] == 0 else blocks[first + piece, 2]
            for at in range(start, start + count):
                keys[n] = key
                ticks[n] = entries[at, 0]
                positions[n] = entries[at, 1]
                n += 1
    return n


@kernel
def least(keys, entries, blocks, runs, ticks):
    """Write the least tick of each key, the greatest of all integers for one without entries."""
    for i in range(len(keys)):
        key = np.int64(keys[i])
        first = np.int64(runs[key, 0])
        ticks[i] = FOREVER
        if runs[key, 1] > 0:
            ticks[i] = entries[first, 0] if runs[key, 3] == 0 else blocks[first, 0]


@kernel
def least_of_all(entries, blocks, runs, waiting, chunks, ring, calendar):
    """Return the least tick of all, or a bound below it when many share its list; without any, the greatest integer."""
    size = np.int64(len(ring) - 1)
    looked = 0
    for step in range(size):
        chunk = np.int64(ring[(calendar[0] + step) & (size - 1)])
        found = FOREVER
        while chunk >= 0:
            for i in range(CHUNK * chunk, CHUNK * chunk + np.int64(chunks[chunk, 1])):
                key = waiting[i, 1]
                if runs[key, 1] > 0:
                    first = np.int64(runs[key, 0])
                    tick = entries[first, 0] if runs[key, 3] == 0 else blocks[first, 0]
                    # The entry itself may have been dropped before its time.
                    if tick <= waiting[i, 0]:
                        found = min(found, tick)
                looked += 1
            if looked > 256:
                return (calendar[0] + step) << calendar[1] if step > 0 else -FOREVER
            chunk = np.int64(chunks[chunk, 0])
        if found < FOREVER:
            return found
    return calendar[3] << calendar[1] if calendar[2] > 0 else FOREVER
