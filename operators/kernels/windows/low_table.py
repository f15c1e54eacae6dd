# pyright: reportMissingParameterType=false
"""A table of fixed size holds a partial aggregate a slot: direct-mapped, short probing, what does not fit pushes out.

A row of the table is a word of (slice number, id of the partial aggregate), -1 where there is none, and the words of
the key; rows pushed out are copied to `gone` as they were. Slices are numbered: `starts` has the first window-id of
each, `counts` how many rows of the table belong to it. `numbers` is the table's memory between calls.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel
from operators.kernels.ticks import FOREVER
from operators.kernels.windows.layout import *

REACH = 1024
"""Slots that one step of a slow flush looks at, at most, for a row to push out."""
_ROOM = 3
_AHEAD = 64
_ID_BITS = np.int64(32)
_ID = np.int64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SEED = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _mix(h):
    h = h ^ (h >> np.uint64(30))
    h = h * np.uint64(0xBF58476D1CE4E5B9)
    h = h ^ (h >> np.uint64(27))
    h = h * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def _push_out(place, reason, table, gone, n):
    rows, starts, counts, numbers = table[ROWS], table[STARTS], table[COUNTS], table[NUMBERS]
    for w in range(rows.shape[1]):
        gone[n, w] = rows[place, w]
    which = rows[place, 0] >> _ID_BITS
    rows[place, 0] = -1
    counts[which] -= 1
    numbers[LIVE] -= 1
    numbers[reason] += 1
    if starts[which] < numbers[OLD_BELOW]:
        numbers[OLD_LEFT] -= 1
    if starts[which] < numbers[DUE_BELOW]:
        numbers[DUE_LEFT] -= 1


@kernel
def _all_old(table, gone, n):
    """Push out the old rows, from the place of the slow flush on; gives how many are out, fewer when `gone` is full."""
    rows, starts, numbers = table[ROWS], table[STARTS], table[NUMBERS]
    at = numbers[OLD_AT]
    while numbers[OLD_LEFT] > 0 and n < len(gone) - _ROOM:
        if rows[at, 0] >= 0 and starts[rows[at, 0] >> _ID_BITS] < numbers[OLD_BELOW]:
            _push_out(at, AT_ONCE, table, gone, n)
            n += 1
        at += 1
        if at == len(rows):
            at = 0
    numbers[OLD_AT] = at
    return n


@making_kernel
def enter(words, slices, hashed, table, gone, n, ids, start, rule):
    """Write the id of the partial aggregate of each tuple from i = start on, pushing out what must make room.

    words[i, :] is the tuple's key, of which the first `hashed` words choose the place, slices[i] its slice. Of the
    places within `probes` an empty one is taken first, then that of the oldest row. With `every` > 0 one old row, of a
    slice that starts below numbers[OLD_BELOW], leaves each so many tuples; a row of a slice below numbers[DUE_BELOW]
    leaves when a sweep finds it, which looks at as many slots as there are tuples. With `in_order` a tuple whose slice
    starts later than all others makes those old, once what was old has left; and no row that is not old leaves before
    all that are.
    Returns (the number of tuples done, the number of rows in `gone`); stops early when `gone` has no room.
    """
    rows, starts, counts, free, numbers = table[ROWS], table[STARTS], table[COUNTS], table[FREE], table[NUMBERS]
    every, in_order, probes = rule[EVERY], rule[IN_ORDER], rule[PROBES]
    size = len(rows)
    width = words.shape[1]
    homes = np.empty(_AHEAD, np.int64)
    ahead = start
    held_there = np.empty(_AHEAD, np.int64)
    # Counts are kept in registers, and rows pushed out here: by `_push_out`, which counts in memory, a tuple takes a
    # twentieth longer, and up to a fifth where many are pushed out.
    live, spare, collided, since = numbers[LIVE], numbers[UNUSED], numbers[COLLIDED], numbers[SINCE]
    old_below, old_left, slowly = numbers[OLD_BELOW], numbers[OLD_LEFT], numbers[SLOWLY]
    due_below, due_left, in_time = numbers[DUE_BELOW], numbers[DUE_LEFT], numbers[IN_TIME]
    full = len(gone) - _ROOM
    done = len(words)
    for i in range(start, len(words)):
        if i == ahead:
            # Places are worked out and looked at a few tuples ahead, so that their rows come into the cache together.
            ahead = min(i + _AHEAD, len(words))
            for j in range(i, ahead):
                h = _SEED ^ np.uint64(starts[slices[j]])
                for w in range(hashed):
                    h = _mix(h) ^ np.uint64(words[j, w])
                place = np.int64(((_mix(h) >> _HALF) * np.uint64(size)) >> _HALF)
                homes[j & (_AHEAD - 1)] = place
                held_there[j & (_AHEAD - 1)] = rows[place, 0]
            at = numbers[DUE_AT]
            for _ in range(min(ahead - i, size)):
                if due_left == 0 or n > full:
                    break
                held = rows[at, 0]
                if held >= 0 and starts[held >> _ID_BITS] < due_below:
                    for w in range(width + 1):
                        gone[n, w] = rows[at, w]
                    n += 1
                    rows[at, 0] = -1
                    counts[held >> _ID_BITS] -= 1
                    live -= 1
                    due_left -= 1
                    old_left -= starts[held >> _ID_BITS] < old_below
                    in_time += 1
                at += 1
                if at == size:
                    at = 0
            numbers[DUE_AT] = at
        if n > full:
            done = i
            break
        which = slices[i]
        begin = starts[which]
        if in_order and begin > old_below:
            numbers[LIVE], numbers[OLD_LEFT], numbers[DUE_LEFT] = live, old_left, due_left
            n = _all_old(table, gone, n)
            live, old_left, due_left = numbers[LIVE], numbers[OLD_LEFT], numbers[DUE_LEFT]
            if old_left > 0:
                done = i
                break
            numbers[OLD_BELOW] = old_below = begin
            old_left = live
            numbers[OLD_AT] = 0
        if every > 0 and old_left > 0:
            since += 1
            if since >= every:
                since = 0
                at = numbers[OLD_AT]
                before = n
                for _ in range(min(REACH, size)):
                    held = rows[at, 0]
                    if held >= 0 and starts[held >> _ID_BITS] < old_below:
                        for w in range(width + 1):
                            gone[n, w] = rows[at, w]
                        n += 1
                        rows[at, 0] = -1
                        counts[held >> _ID_BITS] -= 1
                        live -= 1
                        old_left -= 1
                        due_left -= starts[held >> _ID_BITS] < due_below
                        slowly += 1
                    at += 1
                    if at == size:
                        at = 0
                    if n > before:
                        break
                numbers[OLD_AT] = at
        place = homes[i & (_AHEAD - 1)]
        empty = -1
        oldest = place
        least = FOREVER
        found = np.int64(-1)
        for _ in range(probes):
            held = rows[place, 0]
            if held < 0:
                if empty < 0:
                    empty = place
            else:
                its = held >> _ID_BITS
                if its == which:
                    same = True
                    for w in range(width):
                        if rows[place, 1 + w] != words[i, w]:
                            same = False
                            break
                    if same:
                        found = held & _ID
                        break
                if starts[its] < least:
                    least = starts[its]
                    oldest = place
            place += 1
            if place == size:
                place = 0
        if found < 0:
            if empty < 0:
                if in_order and old_left > 0 and least >= old_below:
                    numbers[LIVE], numbers[OLD_LEFT], numbers[DUE_LEFT] = live, old_left, due_left
                    n = _all_old(table, gone, n)
                    live, old_left, due_left = numbers[LIVE], numbers[OLD_LEFT], numbers[DUE_LEFT]
                    if old_left > 0 or n > full:
                        done = i
                        break
                for w in range(width + 1):
                    gone[n, w] = rows[oldest, w]
                n += 1
                counts[rows[oldest, 0] >> _ID_BITS] -= 1
                live -= 1
                collided += 1
                old_left -= least < old_below
                due_left -= least < due_below
                empty = oldest
            spare -= 1
            found = np.int64(free[spare])
            rows[empty, 0] = (np.int64(which) << _ID_BITS) | found
            for w in range(width):
                rows[empty, 1 + w] = words[i, w]
            counts[which] += 1
            live += 1
            old_left += begin < old_below
            due_left += begin < due_below
        ids[i] = found
    numbers[LIVE], numbers[UNUSED], numbers[COLLIDED], numbers[SINCE] = live, spare, collided, since
    numbers[OLD_LEFT], numbers[DUE_LEFT], numbers[SLOWLY], numbers[IN_TIME] = old_left, due_left, slowly, in_time
    return done, n


@kernel
def push_below(bound, place, table, gone, n):
    """Push out the rows from a place on whose slices start below a bound; gives (next place, rows in `gone`)."""
    rows, starts = table[ROWS], table[STARTS]
    for at in range(place, len(rows)):
        if n == len(gone):
            return at, n
        if rows[at, 0] >= 0 and starts[rows[at, 0] >> _ID_BITS] < bound:
            _push_out(at, AT_ONCE, table, gone, n)
            n += 1
    return len(rows), n


@kernel
def push_marked(marked, place, table, gone, n):
    """Push out the rows at these places, from the place-th on; gives (next one, rows in `gone`)."""
    for j in range(place, len(marked)):
        if n == len(gone):
            return j, n
        _push_out(marked[j], AT_ONCE, table, gone, n)
        n += 1
    return len(marked), n
