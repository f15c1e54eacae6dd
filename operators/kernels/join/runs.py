# pyright: reportMissingParameterType=false
"""Compiled store of a join's input: for each key the entries (tick, position) in the order of time.

A key with few entries has one run: entries[start : start + count] in a piece of memory of 4 to 256 rows. A key with
more has blocks of 256 rows, and a directory of them: blocks[start : start + n] = (first tick, start, count). So a late
entry moves at most 256 others, and a probe finds its first entry by binary search, however much is outside its band.
runs[k] = (start, count, capacity, blocks); without blocks start and capacity are the run's own, else the directory's.
Pieces of memory are powers of two and aligned, so what was dropped from the front is known from the start alone.

Entries wait for their end as (tick, key) in a ring of lists, one for each 2**shift ticks, those further off in one
list more. A list is a chain of chunks: waiting[32c : 32c + chunks[c, 1]], then those of chunk chunks[c, 0]. calendar
= [number of the first list, shift, entries far off, their least number, head of the free chunks, chunks ever used,
entries kept when their list was looked at, entries in lists, whatever was touched last].
What was dropped otherwise stays there until its time, and finds nothing then.

Memory is slow, so the loops touch what the next tuples need before they work on the first of them; and a call costs as
much as a tuple, so what most tuples need is written out where they need it.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel
from operators.kernels.ticks import FAR

SMALLEST = np.int64(2)
BLOCK = np.int64(8)
ROWS = np.int64(256)
CHUNK = np.int64(32)
AHEAD = np.int64(32)


@kernel
def _allocate(which, size_class, memory, free, tops):
    """Return the start of a piece of 2**size_class rows, -1 when there is no room."""
    head = free[which, size_class]
    if head >= 0:
        free[which, size_class] = memory[head, 0]
        return head
    size = np.int64(1) << size_class
    top = tops[which]
    start = (top + size - 1) & -size
    if start + size > len(memory):
        return np.int64(-1)
    while top < start:
        # What alignment skips is handed to the smaller classes.
        piece = top & -top
        small = np.int64(0)
        while (np.int64(1) << small) < piece:
            small += 1
        memory[top, 0] = free[which, small]
        free[which, small] = top
        top += piece
    tops[which] = start + size
    return start


@kernel
def _release(which, start, size, memory, free):
    """Free the piece of `size` rows that holds row `start`."""
    size_class = np.int64(0)
    while (np.int64(1) << size_class) < size:
        size_class += 1
    base = start & -np.int64(size)
    memory[base, 0] = free[which, size_class]
    free[which, size_class] = base


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
def _note(key, tick, waiting, chunks, ring, calendar):
    """Enter a tick of a key into the ring; there must be a free chunk."""
    size = np.int64(len(ring) - 1)
    number = max(tick >> calendar[1], calendar[0])
    slot = number & (size - 1)
    if number - calendar[0] >= size:
        slot = size
        calendar[2] += 1
        calendar[3] = min(calendar[3], number)
    chunk = np.int64(ring[slot])
    if chunk < 0 or chunks[chunk, 1] == CHUNK:
        fresh = calendar[4]
        if fresh >= 0:
            calendar[4] = np.int64(chunks[fresh, 0])
        else:
            fresh = calendar[5]
            calendar[5] += 1
        chunks[fresh, 0] = chunk
        chunks[fresh, 1] = 0
        ring[slot] = fresh
        chunk = fresh
    at = CHUNK * chunk + np.int64(chunks[chunk, 1])
    waiting[at, 0] = tick
    waiting[at, 1] = key
    chunks[chunk, 1] += 1
    calendar[7] += 1


@kernel
def note(keys, ticks, waiting, chunks, ring, calendar):
    """Enter ticks of keys into the ring; there must be free chunks enough."""
    for i in range(len(keys)):
        _note(np.int64(keys[i]), ticks[i], waiting, chunks, ring, calendar)


@kernel
def _touch(keys, start, stop, entries, runs):
    """Fetch the last entries of some keys, and give a number that depends on them."""
    touched = np.int64(0)
    for i in range(start, stop):
        key = np.int64(keys[i])
        if key >= 0 and runs[key, 3] == 0:
            touched ^= entries[np.int64(runs[key, 0]) + max(np.int64(runs[key, 1]) - 1, 0), 0]
    return touched


@kernel
def _shift_down(memory, start, base, count):
    for j in range(count):
        for c in range(memory.shape[1]):
            memory[base + j, c] = memory[start + j, c]


@kernel
def _larger(which, key, count, memory, runs, free, tops):
    """Make room behind a key's run, or behind its directory; False when memory is full and nothing was changed."""
    start = np.int64(runs[key, 0])
    capacity = np.int64(runs[key, 2])
    base = start & -capacity
    if 2 * (start - base) >= capacity:
        _shift_down(memory, start, base, count)
        runs[key, 0] = base
        return True
    size_class = np.int64(0)
    while (np.int64(1) << size_class) < 2 * capacity:
        size_class += 1
    found = _allocate(which, size_class, memory, free, tops)
    if found < 0:
        return False
    _shift_down(memory, start, found, count)
    _release(which, start, capacity, memory, free)
    runs[key, 0] = found
    runs[key, 2] = 2 * capacity
    return True


@kernel
def _room(key, entries, blocks, runs, free, tops):
    """Make room for one more entry of a key that has no blocks; it may have got blocks then."""
    count = np.int64(runs[key, 1])
    if runs[key, 2] == 0:
        found = _allocate(0, SMALLEST, entries, free, tops)
        if found < 0:
            return False
        runs[key, 0] = found
        runs[key, 2] = np.int64(1) << SMALLEST
        return True
    start = np.int64(runs[key, 0])
    if runs[key, 2] < ROWS or 2 * (start & (ROWS - 1)) >= ROWS:
        return _larger(0, key, count, entries, runs, free, tops)
    found = _allocate(1, SMALLEST, blocks, free, tops)
    if found < 0:
        return False
    blocks[found, 0] = entries[start, 0]
    blocks[found, 1] = start
    blocks[found, 2] = count
    runs[key, 0] = found
    runs[key, 2] = np.int64(1) << SMALLEST
    runs[key, 3] = 1
    return True


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
def _make_place(key, tick, entries, blocks, runs, free, tops):
    """Return the block that takes an entry of this tick, with room behind its last; -1 when memory is full."""
    at = _block_of(key, tick, blocks, runs)
    start = blocks[at, 1]
    count = blocks[at, 2]
    base = start & -ROWS
    if start + count < base + ROWS:
        return at
    if start > base:
        _shift_down(entries, start, base, count)
        blocks[at, 1] = base
        return at
    found = _allocate(0, BLOCK, entries, free, tops)
    if found < 0:
        return np.int64(-1)
    used = np.int64(runs[key, 3])
    capacity = np.int64(runs[key, 2])
    directory = np.int64(runs[key, 0])
    if directory + used == (directory & -capacity) + capacity:
        if not _larger(1, key, used, blocks, runs, free, tops):
            _release(0, found, ROWS, entries, free)
            return np.int64(-1)
        at += np.int64(runs[key, 0]) - directory
        directory = np.int64(runs[key, 0])
    for j in range(directory + used - 1, at, -1):
        for c in range(3):
            blocks[j + 1, c] = blocks[j, c]
    runs[key, 3] += 1
    last = at == directory + used - 1 and entries[start + count - 1, 0] <= tick
    kept = count if last else count >> 1
    blocks[at, 2] = kept
    blocks[at + 1, 1] = found
    blocks[at + 1, 2] = count - kept
    _shift_down(entries, start + kept, found, count - kept)
    blocks[at + 1, 0] = tick if last else entries[found, 0]
    return at + 1 if last or blocks[at + 1, 0] <= tick else at


@kernel
def _touch_first(keys, n, entries, runs):
    """Fetch the first entries of some keys, and give a number that depends on them."""
    touched = np.int64(0)
    for i in range(n):
        key = np.int64(keys[i])
        if runs[key, 3] == 0:
            touched ^= entries[np.int64(runs[key, 0]), 0]
    return touched


@kernel
def insert(keys, ticks, positions, start, entries, blocks, runs, free, tops, waiting, chunks, ring, calendar):
    """Enter entries (ticks[i], positions[i]) under keys[i] from i = start on; gives the number done.

    Fewer than all are done when memory is full; shapes (n,) each.
    """
    size = np.int64(len(ring) - 1)
    ready = np.int64(start)
    touched = np.int64(0)
    for i in range(start, len(keys)):
        if i == ready:
            ready = min(i + AHEAD, len(keys))
            touched ^= _touch(keys, i, ready, entries, runs)
        key = np.int64(keys[i])
        tick = ticks[i]
        block = np.int64(0)
        if calendar[4] < 0 and calendar[5] >= len(chunks):
            return i
        if runs[key, 3] == 0:
            capacity = np.int64(runs[key, 2])
            behind = np.int64(runs[key, 0]) + np.int64(runs[key, 1])
            if capacity == 0 and free[0, SMALLEST] >= 0:
                runs[key, 0] = free[0, SMALLEST]
                runs[key, 2] = np.int64(1) << SMALLEST
                free[0, SMALLEST] = entries[free[0, SMALLEST], 0]
            elif (capacity == 0 or behind == (np.int64(runs[key, 0]) & -capacity) + capacity) and not _room(
                key, entries, blocks, runs, free, tops
            ):
                return i
        if runs[key, 3] == 0:
            first = np.int64(runs[key, 0])
            at = first + np.int64(runs[key, 1])
        else:
            block = _make_place(key, tick, entries, blocks, runs, free, tops)
            if block < 0:
                return i
            first = blocks[block, 1]
            at = first + blocks[block, 2]
        while at > first and entries[at - 1, 0] > tick:
            entries[at, 0] = entries[at - 1, 0]
            entries[at, 1] = entries[at - 1, 1]
            at -= 1
        entries[at, 0] = tick
        entries[at, 1] = positions[i]
        if runs[key, 3] > 0:
            blocks[block, 2] += 1
            if at == first:
                blocks[block, 0] = tick
        runs[key, 1] += 1
        number = tick >> calendar[1]
        slot = number & (size - 1)
        chunk = np.int64(-1)
        if number >= calendar[0] and number - calendar[0] < size:
            chunk = np.int64(ring[slot])
        if chunk >= 0 and chunks[chunk, 1] < CHUNK:
            at = CHUNK * chunk + np.int64(chunks[chunk, 1])
            waiting[at, 0] = tick
            waiting[at, 1] = key
            chunks[chunk, 1] += 1
            calendar[7] += 1
        else:
            _note(key, tick, waiting, chunks, ring, calendar)
    calendar[8] = touched
    return len(keys)


@kernel
def _shrink(key, entries, runs, free, tops):
    """Move a key's run to a piece of a quarter of the size, if there is one."""
    capacity = np.int64(runs[key, 2])
    size_class = SMALLEST
    while (np.int64(4) << size_class) < capacity:
        size_class += 1
    found = _allocate(0, size_class, entries, free, tops)
    if found >= 0:
        _shift_down(entries, np.int64(runs[key, 0]), found, np.int64(runs[key, 1]))
        _release(0, np.int64(runs[key, 0]), capacity, entries, free)
        runs[key, 0] = found
        runs[key, 2] = capacity >> 2


@kernel
def _drop_blocks(key, bound, entries, blocks, runs, free, gone, n):
    """Take out the entries below a bound of a key that has blocks, list their positions, and give the new n."""
    before = n
    block = np.int64(runs[key, 0])
    end = block + np.int64(runs[key, 3])
    while block < end:
        start = blocks[block, 1]
        stop = start + blocks[block, 2]
        at = start
        while at < stop and entries[at, 0] < bound:
            gone[n] = entries[at, 1]
            n += 1
            at += 1
        if at < stop:
            blocks[block, 0] = entries[at, 0]
            blocks[block, 1] = at
            blocks[block, 2] = stop - at
            break
        _release(0, start, ROWS, entries, free)
        block += 1
    runs[key, 1] -= n - before
    if end - block > 1:
        runs[key, 0] = block
        runs[key, 3] = end - block
        return n
    _release(1, np.int64(runs[key, 0]), np.int64(runs[key, 2]), blocks, free)
    runs[key, 3] = 0
    runs[key, 0] = blocks[block, 1] if block < end else 0
    runs[key, 2] = ROWS if block < end else 0
    return n


@kernel
def _drop(keys, bounds, waits, start, stop, entries, blocks, runs, free, tops, gone, emptied, counts):
    """Take out the entries of keys[i] below bounds[i], or below bounds[0] when it `waits` for that one.

    Lists what `purge` lists from counts = [positions, keys] on.
    """
    n = counts[0]
    for i in range(start, stop):
        key = np.int64(keys[i])
        if runs[key, 1] == 0:
            continue
        bound = bounds[0] if waits else bounds[i]
        if runs[key, 3] > 0:
            n = _drop_blocks(key, bound, entries, blocks, runs, free, gone, n)
        else:
            at = np.int64(runs[key, 0])
            last = at + np.int64(runs[key, 1])
            capacity = np.int64(runs[key, 2])
            while at < last and entries[at, 0] < bound:
                gone[n] = entries[at, 1]
                n += 1
                at += 1
            if at < last:
                runs[key, 0] = at
                runs[key, 1] = last - at
                if capacity >= 32 and 8 * (last - at) <= capacity:
                    _shrink(key, entries, runs, free, tops)
            elif capacity == np.int64(1) << SMALLEST:
                runs[key, 0] = np.int64(runs[key, 0]) & -capacity
                runs[key, 1] = 0
            else:
                base = np.int64(runs[key, 0]) & -capacity
                size_class = SMALLEST
                while (np.int64(1) << size_class) < capacity:
                    size_class += 1
                entries[base, 0] = free[0, size_class]
                free[0, size_class] = base
                runs[key, 0] = 0
                runs[key, 1] = 0
                runs[key, 2] = 0
        if runs[key, 1] == 0:
            emptied[counts[1]] = key
            counts[1] += 1
    counts[0] = n


@making_kernel
def purge(bounds, counts, gone, emptied, entries, blocks, runs, free, tops, waiting, chunks, ring, calendar):
    """Take out all entries below bounds[0]; lists their positions and the keys that have none left.

    counts = [positions, keys]. Cost: entries taken out, those that share a list with the bound, and lists between the
    bounds. There must be a free chunk, and where entries far off come near one for each list and each 32 of them.
    """
    touched = np.int64(0)
    due = np.empty(CHUNK, np.int64)
    size = np.int64(len(ring) - 1)
    bound = bounds[0]
    number = bound >> calendar[1]
    first = calendar[0]
    calendar[0] = max(first, number)
    lists = min(max(number - first, 0) + 1, size)
    far = calendar[2] > 0 and number >= calendar[3]
    for step in range(lists + 1):
        slot = (first + step) & (size - 1)
        if calendar[7] == 0 or (step == lists and not far):
            break
        if step == lists:
            slot = size
            calendar[2] = 0
            calendar[3] = FAR
        chunk = np.int64(ring[slot])
        ring[slot] = -1
        while chunk >= 0:
            start = CHUNK * chunk
            n = np.int64(0)
            calendar[7] -= np.int64(chunks[chunk, 1])
            for i in range(start, start + np.int64(chunks[chunk, 1])):
                if waiting[i, 0] < bound:
                    due[n] = waiting[i, 1]
                    touched ^= np.int64(runs[due[n], 0])
                    n += 1
                else:
                    _note(waiting[i, 1], waiting[i, 0], waiting, chunks, ring, calendar)
                    calendar[6] += 1
            if n > 0:
                touched ^= _touch_first(due, n, entries, runs)
                _drop(due, bounds, True, 0, n, entries, blocks, runs, free, tops, gone, emptied, counts)
            following = np.int64(chunks[chunk, 0])
            chunks[chunk, 0] = calendar[4]
            calendar[4] = chunk
            chunk = following
    calendar[8] = touched


@kernel
def purge_keys(keys, bounds, counts, gone, emptied, entries, blocks, runs, free, tops):
    """Take out the entries of keys[i] below bounds[i]; lists and counts what `purge` does. Keys are distinct."""
    _drop(keys, bounds, False, 0, len(keys), entries, blocks, runs, free, tops, gone, emptied, counts)


@kernel
def strike(keys, ticks, positions, entries, blocks, runs, free):
    """Take out single entries, each of which is there."""
    for i in range(len(keys)):
        key = np.int64(keys[i])
        if runs[key, 3] == 0:
            start = np.int64(runs[key, 0])
            stop = start + np.int64(runs[key, 1])
            at = _first(entries, start, stop, ticks[i])
            while entries[at, 1] != positions[i]:
                at += 1
            for j in range(at, stop - 1):
                entries[j, 0] = entries[j + 1, 0]
                entries[j, 1] = entries[j + 1, 1]
            if stop - start == 1:
                capacity = np.int64(runs[key, 2])
                if capacity == np.int64(1) << SMALLEST:
                    runs[key, 0] = start & -capacity
                else:
                    _release(0, start, capacity, entries, free)
                    runs[key, 0] = 0
                    runs[key, 2] = 0
        else:
            block = _block_of(key, ticks[i] - 1, blocks, runs)
            start = blocks[block, 1]
            at = _first(entries, start, start + blocks[block, 2], ticks[i])
            while True:
                stop = blocks[block, 1] + blocks[block, 2]
                while at < stop and entries[at, 1] != positions[i]:
                    at += 1
                if at < stop:
                    break
                block += 1
                at = blocks[block, 1]
            for j in range(at, stop - 1):
                entries[j, 0] = entries[j + 1, 0]
                entries[j, 1] = entries[j + 1, 1]
            blocks[block, 2] -= 1
            blocks[block, 0] = entries[blocks[block, 1], 0]
            if blocks[block, 2] == 0:
                _release(0, blocks[block, 1], ROWS, entries, free)
                end = np.int64(runs[key, 0]) + np.int64(runs[key, 3])
                for j in range(block, end - 1):
                    for c in range(3):
                        blocks[j, c] = blocks[j + 1, c]
                runs[key, 3] -= 1
                if runs[key, 3] <= 1:
                    directory = np.int64(runs[key, 0])
                    runs[key, 0] = blocks[directory, 1] if runs[key, 3] == 1 else 0
                    _release(1, directory, np.int64(runs[key, 2]), blocks, free)
                    runs[key, 2] = ROWS if runs[key, 3] == 1 else 0
                    runs[key, 3] = 0
        runs[key, 1] -= 1
