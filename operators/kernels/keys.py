"""Compiled hash tables from keys of machine words, or of bytes, to dense recycled ids.

Open addressing with linear probing. A table entry holds the upper half of the hash and the id (-1: empty), so that a
probe rarely touches the keys themselves, and deletion can shift entries back without hashing again.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.kernel import kernel

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@kernel
def _mix(h):  # type: ignore[no-untyped-def]
    h = h ^ (h >> np.uint64(30))
    h = h * np.uint64(0xBF58476D1CE4E5B9)
    h = h ^ (h >> np.uint64(27))
    h = h * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def assign(words, keys, table, counters, free, ids, fresh, start):  # type: ignore[no-untyped-def]
    """Write the id of each key words[i, :] from i = start on, making ids for new keys; stops when a table is full.

    counters = [live ids, ids ever made, free ids]. Returns the number of keys done; fresh[i] says that i made its key.
    """
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    room = len(table) // 2
    previous = -1
    for i in range(start, len(words)):
        if previous >= 0:
            same = True
            for w in range(width):
                if words[i, w] != words[i - 1, w]:
                    same = False
                    break
            if same:
                ids[i] = previous
                fresh[i] = False
                continue
        h = np.uint64(0x9E3779B97F4A7C15)
        for w in range(width):
            h = _mix(h ^ words[i, w])
        tag = h >> _HALF
        place = tag & mask
        found = -1
        while True:
            entry = table[place]
            if entry == EMPTY:
                break
            if entry >> _HALF == tag:
                candidate = np.int64(entry & _LOW)
                same = True
                for w in range(width):
                    if keys[candidate, w] != words[i, w]:
                        same = False
                        break
                if same:
                    found = candidate
                    break
            place = (place + np.uint64(1)) & mask
        fresh[i] = found < 0
        if found < 0:
            if counters[0] >= room or (counters[2] == 0 and counters[1] >= len(keys)):
                return i
            if counters[2] > 0:
                counters[2] -= 1
                found = np.int64(free[counters[2]])
            else:
                found = counters[1]
                counters[1] += 1
            counters[0] += 1
            for w in range(width):
                keys[found, w] = words[i, w]
            table[place] = (tag << _HALF) | np.uint64(found)
        ids[i] = found
        previous = found
    return len(words)


@kernel
def assign_single(words, keys, table, counters, free, ids, fresh, start):  # type: ignore[no-untyped-def]
    """As `assign` for keys of one word, words and keys of shape (n,)."""
    mask = np.uint64(len(table) - 1)
    room = len(table) // 2
    for i in range(start, len(words)):
        word = words[i]
        tag = _mix(np.uint64(0x9E3779B97F4A7C15) ^ word) >> _HALF
        place = tag & mask
        found = -1
        while True:
            entry = table[place]
            if entry == EMPTY:
                break
            if entry >> _HALF == tag:
                candidate = np.int64(entry & _LOW)
                if keys[candidate] == word:
                    found = candidate
                    break
            place = (place + np.uint64(1)) & mask
        fresh[i] = found < 0
        if found < 0:
            if counters[0] >= room or (counters[2] == 0 and counters[1] >= len(keys)):
                return i
            if counters[2] > 0:
                counters[2] -= 1
                found = np.int64(free[counters[2]])
            else:
                found = counters[1]
                counters[1] += 1
            counters[0] += 1
            keys[found] = word
            table[place] = (tag << _HALF) | np.uint64(found)
        ids[i] = found
    return len(words)


@kernel
def find(words, keys, table, ids):  # type: ignore[no-untyped-def]
    """Write the id of each key words[i, :], or -1 where there is none."""
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    for i in range(len(words)):
        h = np.uint64(0x9E3779B97F4A7C15)
        for w in range(width):
            h = _mix(h ^ words[i, w])
        tag = h >> _HALF
        place = tag & mask
        ids[i] = -1
        while True:
            entry = table[place]
            if entry == EMPTY:
                break
            if entry >> _HALF == tag:
                candidate = np.int64(entry & _LOW)
                same = True
                for w in range(width):
                    if keys[candidate, w] != words[i, w]:
                        same = False
                        break
                if same:
                    ids[i] = candidate
                    break
            place = (place + np.uint64(1)) & mask


@kernel
def remove(gone, keys, table, counters, free):  # type: ignore[no-untyped-def]
    """Forget the keys of these ids, each live; their ids go to the free list."""
    width = keys.shape[1]
    mask = np.uint64(len(table) - 1)
    for i in range(len(gone)):
        wanted = np.uint64(gone[i])
        h = np.uint64(0x9E3779B97F4A7C15)
        for w in range(width):
            h = _mix(h ^ keys[gone[i], w])
        place = (h >> _HALF) & mask
        while table[place] & _LOW != wanted or table[place] == EMPTY:
            place = (place + np.uint64(1)) & mask
        hole = place
        probe = place
        while True:
            probe = (probe + np.uint64(1)) & mask
            entry = table[probe]
            if entry == EMPTY:
                break
            home = (entry >> _HALF) & mask
            # The entry may fill the hole only if its home is not between the hole and itself.
            if ((probe - home) & mask) >= ((probe - hole) & mask):
                table[hole] = entry
                hole = probe
        table[hole] = EMPTY
        free[counters[2]] = gone[i]
        counters[2] += 1
        counters[0] -= 1


@kernel
def rehash(live, keys, table):  # type: ignore[no-untyped-def]
    """Enter the keys of these ids into an empty table."""
    width = keys.shape[1]
    mask = np.uint64(len(table) - 1)
    for i in range(len(live)):
        h = np.uint64(0x9E3779B97F4A7C15)
        for w in range(width):
            h = _mix(h ^ keys[live[i], w])
        tag = h >> _HALF
        place = tag & mask
        while table[place] != EMPTY:
            place = (place + np.uint64(1)) & mask
        table[place] = (tag << _HALF) | np.uint64(live[i])


@kernel
def occupied(table, ids):  # type: ignore[no-untyped-def]
    """Write the ids that a table holds, in table order, and give their number."""
    n = 0
    for i in range(len(table)):
        if table[i] != EMPTY:
            ids[n] = np.int64(table[i] & _LOW)
            n += 1
    return n


@kernel
def digest(offsets, data, first, words):  # type: ignore[no-untyped-def]
    """Write a 128-bit hash of each byte string data[offsets[i] : offsets[i + 1]] to words[i, first : first + 2]."""
    for i in range(len(offsets) - 1):
        a = np.uint64(0x243F6A8885A308D3)
        b = np.uint64(0x13198A2E03707344)
        stop = offsets[i + 1]
        at = offsets[i]
        length = np.uint64(stop - at)
        while at < stop:
            chunk = np.uint64(0)
            shift = np.uint64(0)
            n = min(np.int64(8), np.int64(stop - at))
            for k in range(n):
                chunk |= np.uint64(data[at + k]) << shift
                shift += np.uint64(8)
            a = _mix(a ^ chunk)
            b = _mix((b + chunk) * np.uint64(0x9FB21C651E98DF25) + np.uint64(1))
            at += n
        words[i, first] = _mix(a ^ length)
        words[i, first + 1] = _mix(b + length)


@kernel
def keep(offsets, data, rows, ids, heap, used, start, length):  # type: ignore[no-untyped-def]
    """Append the byte strings of these rows to the heap, as those of these ids; returns how much is used then."""
    for j in range(len(rows)):
        at = offsets[rows[j]]
        n = offsets[rows[j] + 1] - at
        start[ids[j]] = used
        length[ids[j]] = n
        for k in range(n):
            heap[used + k] = data[at + k]
        used += n
    return used


@kernel
def differing(offsets, data, ids, heap, start, length, differs):  # type: ignore[no-untyped-def]
    """Mark the rows whose bytes are not those of their id (two strings with one digest); returns how many."""
    n = 0
    for i in range(len(ids)):
        if ids[i] < 0:
            continue
        at = offsets[i]
        size = offsets[i + 1] - at
        same = size == length[ids[i]]
        if same:
            base = start[ids[i]]
            for k in range(size):
                if data[at + k] != heap[base + k]:
                    same = False
                    break
        if not same:
            differs[i] = True
            n += 1
    return n


@kernel
def gather(ids, heap, start, length, offsets, data):  # type: ignore[no-untyped-def]
    """Write the byte strings of these ids one after the other, with their offsets."""
    at = 0
    for j in range(len(ids)):
        offsets[j] = at
        base = start[ids[j]]
        for k in range(length[ids[j]]):
            data[at + k] = heap[base + k]
        at += length[ids[j]]
    offsets[len(ids)] = at
