"""Compiled hash tables from keys of machine words, or of bytes, to dense recycled ids.

Open addressing with linear probing, at most half full. A table holds ids alone (-1: empty), four bytes each, so that
much of it stays in the cache; ids are made in order of first appearance, so the keys that are seen most stand together.
Keys of one word stand beside their ids as well, `beside` of shape (len(table),), so that a search looks nowhere else;
`beside` is empty where keys have more. In a table by value, the place of a key of one word is the key itself, less
another. Of some keys at a time, the places to look at are asked for from memory before
the first is looked at, since a table is larger than the nearest cache as soon as there are 50,000 keys or so.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.compile.prefetch import prefetch

EMPTY = np.int32(-1)
SEED = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
AHEAD = 64
"""Keys whose places are asked for at a time."""
NEAR = 1 << 15
"""Places that a near cache holds."""


@kernel
def _mix(h):
    h = h ^ (h >> np.uint64(30))
    h = h * np.uint64(0xBF58476D1CE4E5B9)
    h = h ^ (h >> np.uint64(27))
    h = h * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def assign(words, keys, table, counters, free, ids, fresh, start, places):
    """Write the id of each key words[i, :] from i = start on, making ids for new keys; stops when a table is full.

    counters = [live ids, ids ever made, free ids]; `places` has room for AHEAD of them. Returns the number of keys
    done; fresh[i] says that i made its key.
    """
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    # Counting in memory would make each step wait for the store of the last one.
    live, made, spare = counters[0], counters[1], counters[2]
    room = np.int64(len(table) // 2)
    i, n = np.int64(start), np.int64(len(words))
    while i < n:
        first, stop = i, min(i + AHEAD, n)
        for j in range(first, stop):
            h = SEED
            for w in range(width):
                h = _mix(h ^ words[j, w])
            place = (h >> _HALF) & mask
            places[j - first] = place
            prefetch(table, place)
        for j in range(first, stop):
            prefetch(keys, max(np.int64(table[places[j - first]]), np.int64(0)) * keys.shape[1])
        while i < stop:
            place = places[i - first]
            while True:
                found = table[place]
                if found < 0:
                    break
                same = True
                for w in range(width):
                    if keys[found, w] != words[i, w]:
                        same = False
                        break
                if same:
                    break
                place = (place + np.uint64(1)) & mask
            fresh[i] = found < 0
            if found < 0:
                if live >= room or (spare == 0 and made >= len(keys)):
                    counters[0], counters[1], counters[2] = live, made, spare
                    return i
                if spare > 0:
                    spare -= 1
                    found = free[spare]
                else:
                    found = np.int32(made)
                    made += 1
                live += 1
                for w in range(width):
                    keys[found, w] = words[i, w]
                table[place] = found
            ids[i] = found
            i += 1
    counters[0], counters[1], counters[2] = live, made, spare
    return n


@kernel
def assign_single(words, keys, table, beside, counters, free, ids, fresh, start, places):
    """Write the id of each key of one word, words and keys of shape (n,), as `keys.assign` does for several words."""
    mask = np.uint64(len(table) - 1)
    live, made, spare = counters[0], counters[1], counters[2]
    room = np.int64(len(table) // 2)
    far = len(table) > NEAR
    i, n = np.int64(start), np.int64(len(words))
    while i < n:
        first, stop = i, min(i + AHEAD, n)
        for j in range(first, stop if far else first):
            place = (_mix(SEED ^ words[j]) >> _HALF) & mask
            places[j - first] = place
            prefetch(table, place)
            prefetch(beside, place)
        while i < stop:
            word = words[i]
            place = places[i - first] if far else (_mix(SEED ^ word) >> _HALF) & mask
            while True:
                found = np.int64(table[place])
                if found < 0 or beside[place] == word:
                    break
                place = (place + np.uint64(1)) & mask
            fresh[i] = found < 0
            if found < 0:
                if live >= room or (spare == 0 and made >= len(keys)):
                    counters[0], counters[1], counters[2] = live, made, spare
                    return i
                if spare > 0:
                    spare -= 1
                    found = np.int64(free[spare])
                else:
                    found = made
                    made += 1
                live += 1
                keys[found] = word
                table[place] = found
                beside[place] = word
            ids[i] = found
            i += 1
    counters[0], counters[1], counters[2] = live, made, spare
    return n


@kernel
def assign_near(words, keys, table, low, counters, free, ids, fresh, start):
    """Write the id of each key of one word as `assign_single` does, where key w has the place w - low of the table.

    It stops at a key that has no place, too.
    """
    live, made, spare = counters[0], counters[1], counters[2]
    places, n = np.uint64(len(table)), np.int64(len(words))
    far = len(table) > NEAR
    i = np.int64(start)
    asked = i
    while i < n:
        stop = min(i + AHEAD, n) if far else n
        while far and asked < min(stop + AHEAD, n):
            prefetch(table, min(words[np.uint64(asked)] - low, places - np.uint64(1)))
            asked += 1
        i = _known(words[:stop], table, low, ids, fresh, i)
        while i < stop and words[i] - low < places:
            if spare > 0:
                spare -= 1
                found = np.int64(free[spare])
            elif made < len(keys):
                found = made
                made += 1
            else:
                counters[0], counters[1], counters[2] = live, made, spare
                return i
            live += 1
            keys[found] = words[i]
            table[words[i] - low] = found
            ids[i], fresh[i] = found, True
            i = _known(words[:stop], table, low, ids, fresh, i + 1)
        if i < stop:
            break
    counters[0], counters[1], counters[2] = live, made, spare
    return i


@kernel
def _known(words, table, low, ids, fresh, start):
    """Write ids from `start` on as far as keys have a place and an id; gives how far that is.

    An index that is cast to uint64 spares the loop the case of a negative one.
    """
    places, n = np.uint64(len(table)), np.int64(len(words))
    i = start
    while i < n:
        place = words[np.uint64(i)] - low
        if place >= places:
            break
        found = table[place]
        if found < 0:
            break
        ids[np.uint64(i)], fresh[np.uint64(i)] = found, False
        i += 1
    return i


@kernel
def remove_near(gone, keys, table, low, counters, free):
    """Forget the keys of these ids as `remove` does, where key w has the place w - low of the table; keys (n,)."""
    places, n, found = np.uint64(len(table)), np.int64(len(gone)), np.int64(counters[2])
    asked = np.int64(0)
    for i in range(n):
        while asked < min(i + AHEAD, n):
            if 0 <= gone[asked] < len(keys):
                prefetch(table, min(keys[gone[asked]] - low, places - np.uint64(1)))
            asked += 1
        if gone[i] < 0 or gone[i] >= len(keys):
            continue
        place = keys[gone[i]] - low
        if place < places and table[place] == gone[i]:
            table[place] = EMPTY
            free[found] = gone[i]
            found += 1
    counters[0] -= found - counters[2]
    counters[2] = found


@kernel
def find(words, keys, table, ids):
    """Write the id of each key words[i, :], or -1 where there is none."""
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    for i in range(len(words)):
        h = SEED
        for w in range(width):
            h = _mix(h ^ words[i, w])
        place = (h >> _HALF) & mask
        while True:
            found = table[place]
            if found < 0:
                break
            same = True
            for w in range(width):
                if keys[found, w] != words[i, w]:
                    same = False
                    break
            if same:
                break
            place = (place + np.uint64(1)) & mask
        ids[i] = found


@kernel
def remove(gone, keys, table, beside, counters, free):
    """Forget the keys of these ids, each live; their ids go to the free list. Of what is not live nothing is done."""
    width = keys.shape[1]
    mask = np.uint64(len(table) - 1)
    found = 0
    for i in range(len(gone)):
        if gone[i] < 0 or gone[i] >= len(keys):
            continue
        h = SEED
        for w in range(width):
            h = _mix(h ^ keys[gone[i], w])
        hole = (h >> _HALF) & mask
        while table[hole] != gone[i] and table[hole] >= 0:
            hole = (hole + np.uint64(1)) & mask
        if table[hole] < 0:
            continue
        probe = hole
        while True:
            probe = (probe + np.uint64(1)) & mask
            entry = table[probe]
            if entry < 0:
                break
            h = SEED
            for w in range(width):
                h = _mix(h ^ keys[entry, w])
            home = (h >> _HALF) & mask
            # The entry may fill the hole only if its home is not between the hole and itself.
            if ((probe - home) & mask) >= ((probe - hole) & mask):
                table[hole] = entry
                if len(beside) > 0:
                    beside[hole] = beside[probe]
                hole = probe
        table[hole] = EMPTY
        free[counters[2] + found] = gone[i]
        found += 1
    counters[2] += found
    counters[0] -= found


@kernel
def rehash(live, keys, table, beside):
    """Enter the keys of these ids into an empty table."""
    width = keys.shape[1]
    mask = np.uint64(len(table) - 1)
    for i in range(len(live)):
        h = SEED
        for w in range(width):
            h = _mix(h ^ keys[live[i], w])
        place = (h >> _HALF) & mask
        while table[place] >= 0:
            place = (place + np.uint64(1)) & mask
        table[place] = live[i]
        if len(beside) > 0:
            beside[place] = keys[live[i], 0]


@kernel
def occupied(table, ids):
    """Write the ids that a table holds, in table order, and give their number."""
    n = 0
    for i in range(len(table)):
        if table[i] >= 0:
            ids[n] = table[i]
            n += 1
    return n


@kernel
def digest(offsets, data, first, words):
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
def keep(offsets, data, rows, ids, heap, used, start, length):
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
def differing(offsets, data, ids, heap, start, length, differs):
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
def gather(ids, heap, start, length, offsets, data):
    """Write the byte strings of these ids one after the other, with their offsets."""
    at = 0
    for j in range(len(ids)):
        offsets[j] = at
        base = start[ids[j]]
        for k in range(length[ids[j]]):
            data[at + k] = heap[base + k]
        at += length[ids[j]]
    offsets[len(ids)] = at
