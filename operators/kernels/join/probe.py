# pyright: reportMissingParameterType=false
"""Compiled looks at the store of a join's input that change nothing: probes, least ticks, all entries."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.join.layout import *
from operators.kernels.join.runs import block_of, first_from
from operators.kernels.ticks import FOREVER


@kernel
def _touch(keys, start, stop, entries, runs):
    """Fetch the last entries of some keys, and give a number that depends on them."""
    touched = np.int64(0)
    for i in range(start, stop):
        key = np.int64(keys[i])
        if key >= 0 and runs[key, BLOCKS] == 0:
            touched ^= entries[max(np.int64(runs[key, START]) + np.int64(runs[key, COUNT]) - 1, 0), TICK]
    return touched


@kernel
def probe(keys, low, high, limit, cursor, entries, blocks, runs, rows, positions):
    """Write the pairs of tuple i with the entries of keys[i] whose tick is in [low[i], high[i]]; gives their number.

    At most `limit` pairs a tuple; a key of -1 has no entries. It stops when `rows` is full and goes on from `cursor` at
    the next call; all is done when cursor[TUPLE] = len(keys).
    """
    n = 0
    room = len(rows)
    i = cursor[TUPLE]
    given = cursor[GIVEN]
    ready = i
    touched = np.int64(0)
    while i < len(keys):
        if i == ready:
            ready = min(i + AHEAD, len(keys))
            touched ^= _touch(keys, i, ready, entries, runs)
        key = np.int64(keys[i])
        if key >= 0 and runs[key, COUNT] > 0:
            if runs[key, BLOCKS] == 0:
                start = np.int64(runs[key, START])
                stop = start + np.int64(runs[key, COUNT])
                at = start
                if stop - start > 16:
                    at = first_from(entries, start, stop, low[i])
                while at < stop and entries[at, TICK] < low[i]:
                    at += 1
                at += given
                while at < stop and entries[at, TICK] <= high[i] and given < limit:
                    if n == room:
                        cursor[TUPLE] = i
                        cursor[GIVEN] = given
                        return n
                    rows[n] = i
                    positions[n] = entries[at, POSITION]
                    n += 1
                    at += 1
                    given += 1
            else:
                block = block_of(key, low[i] - 1, blocks, runs)
                end = np.int64(runs[key, START]) + np.int64(runs[key, BLOCKS])
                start = blocks[block, AT]
                at = first_from(entries, start, start + blocks[block, HOLDS], low[i])
                behind = given
                more = True
                while more and block < end:
                    stop = blocks[block, AT] + blocks[block, HOLDS]
                    if stop - at <= behind:
                        behind -= stop - at
                    else:
                        at += behind
                        behind = np.int64(0)
                        while at < stop:
                            if entries[at, TICK] > high[i] or given >= limit:
                                more = False
                                break
                            if n == room:
                                cursor[TUPLE] = i
                                cursor[GIVEN] = given
                                return n
                            rows[n] = i
                            positions[n] = entries[at, POSITION]
                            n += 1
                            at += 1
                            given += 1
                    block += 1
                    if block < end:
                        at = blocks[block, AT]
        i += 1
        given = np.int64(0)
    cursor[TUPLE] = i
    cursor[GIVEN] = 0
    cursor[LAST_TOUCHED] = touched
    return n


@kernel
def dump(entries, blocks, runs, keys, ticks, positions):
    """Write all entries, key by key in the order of time, and give their number."""
    n = 0
    for key in range(len(runs)):
        if runs[key, COUNT] == 0:
            continue
        first = np.int64(runs[key, START])
        pieces = max(np.int64(runs[key, BLOCKS]), 1)
        for piece in range(pieces):
            start = first if runs[key, BLOCKS] == 0 else blocks[first + piece, AT]
            count = np.int64(runs[key, COUNT]) if runs[key, BLOCKS] == 0 else blocks[first + piece, HOLDS]
            for at in range(start, start + count):
                keys[n] = key
                ticks[n] = entries[at, TICK]
                positions[n] = entries[at, POSITION]
                n += 1
    return n


@kernel
def least(keys, entries, blocks, runs, ticks):
    """Write the least tick of each key, the greatest of all integers for one without entries."""
    for i in range(len(keys)):
        key = np.int64(keys[i])
        first = np.int64(runs[key, START])
        ticks[i] = FOREVER
        if runs[key, COUNT] > 0:
            ticks[i] = entries[first, TICK] if runs[key, BLOCKS] == 0 else blocks[first, BEGINS]


@kernel
def least_of_all(entries, blocks, runs, waiting, chunks, ring, calendar):
    """Return the least tick of all, or a bound below it when many share its list; without any, the greatest integer."""
    size = np.int64(len(ring) - 1)
    looked = 0
    for step in range(size):
        chunk = np.int64(ring[(calendar[FIRST] + step) & (size - 1)])
        found = FOREVER
        while chunk >= 0:
            for i in range(CHUNK * chunk, CHUNK * chunk + np.int64(chunks[chunk, FILLED])):
                key = waiting[i, KEY]
                if runs[key, COUNT] > 0:
                    first = np.int64(runs[key, START])
                    tick = entries[first, TICK] if runs[key, BLOCKS] == 0 else blocks[first, BEGINS]
                    # The entry itself may have been dropped before its time.
                    if tick <= waiting[i, ENDS]:
                        found = min(found, tick)
                looked += 1
            if looked > 256:
                return (calendar[FIRST] + step) << calendar[SHIFT] if step > 0 else -FOREVER
            chunk = np.int64(chunks[chunk, FOLLOWING])
        if found < FOREVER:
            return found
    return calendar[NEAREST] << calendar[SHIFT] if calendar[DISTANT] > 0 else FOREVER
