# pyright: reportMissingParameterType=false
"""Compiled store of a join's input: for each key the entries (tick, position) in the order of time.

A key with few entries has one run of them in a piece of memory of 4 to 256 rows. A key with more has blocks of 256
rows, and a directory of them. So a late entry moves at most 256 others, and a probe finds its first entry by binary
search, however much is outside its band. Pieces of memory are powers of two and aligned, so what was dropped from the
front is known from the start alone.

Entries wait for their end in a ring of lists, one for each 2**SHIFT ticks, those further off in one list more. A list
is a chain of chunks of `waiting`. What was dropped otherwise stays there until its time, and finds nothing then.

Memory is slow, so the loops touch what the next tuples need before they work on the first of them; and a call costs as
much as a tuple, so what most tuples need is written out where they need it.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel
from operators.kernels.join.layout import *
from operators.kernels.ticks import FAR


@kernel
def _allocate(which, size_class, memory, free, tops):
    """Return the start of a piece of 2**size_class rows, -1 when there is no room."""
    head = free[which, size_class]
    if head >= 0:
        free[which, size_class] = memory[head, LINK]
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
        memory[top, LINK] = free[which, small]
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
    memory[base, LINK] = free[which, size_class]
    free[which, size_class] = base


@kernel
def first_from(entries, start, stop, tick):
    """Return the first row from start on, before stop, whose tick is not below `tick`."""
    while stop - start > 8:
        middle = (start + stop) >> 1
        if entries[middle, TICK] < tick:
            start = middle + 1
        else:
            stop = middle
    while start < stop and entries[start, TICK] < tick:
        start += 1
    return start


@kernel
def _note(key, tick, waiting, chunks, ring, calendar):
    """Enter a tick of a key into the ring; there must be a free chunk."""
    size = np.int64(len(ring) - 1)
    number = max(tick >> calendar[SHIFT], calendar[FIRST])
    slot = number & (size - 1)
    if number - calendar[FIRST] >= size:
        slot = size
        calendar[DISTANT] += 1
        calendar[NEAREST] = min(calendar[NEAREST], number)
    chunk = np.int64(ring[slot])
    if chunk < 0 or chunks[chunk, FILLED] == CHUNK:
        fresh = calendar[SPARE]
        if fresh >= 0:
            calendar[SPARE] = np.int64(chunks[fresh, FOLLOWING])
        else:
            fresh = calendar[EVER]
            calendar[EVER] += 1
        chunks[fresh, FOLLOWING] = chunk
        chunks[fresh, FILLED] = 0
        ring[slot] = fresh
        chunk = fresh
    at = CHUNK * chunk + np.int64(chunks[chunk, FILLED])
    waiting[at, ENDS] = tick
    waiting[at, KEY] = key
    chunks[chunk, FILLED] += 1
    calendar[LISTED] += 1


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
        if key >= 0 and runs[key, BLOCKS] == 0:
            touched ^= entries[np.int64(runs[key, START]) + max(np.int64(runs[key, COUNT]) - 1, 0), TICK]
    return touched


@kernel
def _shift_down(memory, start, base, count):
    for j in range(count):
        for c in range(memory.shape[1]):
            memory[base + j, c] = memory[start + j, c]


@kernel
def _larger(which, key, count, memory, runs, free, tops):
    """Make room behind a key's run, or behind its directory; False when memory is full and nothing was changed."""
    start = np.int64(runs[key, START])
    capacity = np.int64(runs[key, CAPACITY])
    base = start & -capacity
    if 2 * (start - base) >= capacity:
        _shift_down(memory, start, base, count)
        runs[key, START] = base
        return True
    size_class = np.int64(0)
    while (np.int64(1) << size_class) < 2 * capacity:
        size_class += 1
    found = _allocate(which, size_class, memory, free, tops)
    if found < 0:
        return False
    _shift_down(memory, start, found, count)
    _release(which, start, capacity, memory, free)
    runs[key, START] = found
    runs[key, CAPACITY] = 2 * capacity
    return True


@kernel
def _room(key, entries, blocks, runs, free, tops):
    """Make room for one more entry of a key that has no blocks; it may have got blocks then."""
    count = np.int64(runs[key, COUNT])
    if runs[key, CAPACITY] == 0:
        found = _allocate(OF_ENTRIES, SMALLEST, entries, free, tops)
        if found < 0:
            return False
        runs[key, START] = found
        runs[key, CAPACITY] = np.int64(1) << SMALLEST
        return True
    start = np.int64(runs[key, START])
    if runs[key, CAPACITY] < ROWS or 2 * (start & (ROWS - 1)) >= ROWS:
        return _larger(OF_ENTRIES, key, count, entries, runs, free, tops)
    found = _allocate(OF_BLOCKS, SMALLEST, blocks, free, tops)
    if found < 0:
        return False
    blocks[found, BEGINS] = entries[start, TICK]
    blocks[found, AT] = start
    blocks[found, HOLDS] = count
    runs[key, START] = found
    runs[key, CAPACITY] = np.int64(1) << SMALLEST
    runs[key, BLOCKS] = 1
    return True


@kernel
def block_of(key, tick, blocks, runs):
    """Return the last block that begins at or before a tick, the first one when none does."""
    low = np.int64(runs[key, START])
    high = low + np.int64(runs[key, BLOCKS]) - 1
    if blocks[high, BEGINS] <= tick:
        return high
    while low < high:
        middle = (low + high + 1) >> 1
        if blocks[middle, BEGINS] <= tick:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _make_place(key, tick, entries, blocks, runs, free, tops):
    """Return the block that takes an entry of this tick, with room behind its last; -1 when memory is full."""
    at = block_of(key, tick, blocks, runs)
    start = blocks[at, AT]
    count = blocks[at, HOLDS]
    base = start & -ROWS
    if start + count < base + ROWS:
        return at
    if start > base:
        _shift_down(entries, start, base, count)
        blocks[at, AT] = base
        return at
    found = _allocate(OF_ENTRIES, BLOCK, entries, free, tops)
    if found < 0:
        return np.int64(-1)
    used = np.int64(runs[key, BLOCKS])
    capacity = np.int64(runs[key, CAPACITY])
    directory = np.int64(runs[key, START])
    if directory + used == (directory & -capacity) + capacity:
        if not _larger(OF_BLOCKS, key, used, blocks, runs, free, tops):
            _release(OF_ENTRIES, found, ROWS, entries, free)
            return np.int64(-1)
        at += np.int64(runs[key, START]) - directory
        directory = np.int64(runs[key, START])
    for j in range(directory + used - 1, at, -1):
        for c in range(3):
            blocks[j + 1, c] = blocks[j, c]
    runs[key, BLOCKS] += 1
    last = at == directory + used - 1 and entries[start + count - 1, TICK] <= tick
    kept = count if last else count >> 1
    blocks[at, HOLDS] = kept
    blocks[at + 1, AT] = found
    blocks[at + 1, HOLDS] = count - kept
    _shift_down(entries, start + kept, found, count - kept)
    blocks[at + 1, BEGINS] = tick if last else entries[found, TICK]
    return at + 1 if last or blocks[at + 1, BEGINS] <= tick else at


@kernel
def _touch_first(keys, n, entries, runs):
    """Fetch the first entries of some keys, and give a number that depends on them."""
    touched = np.int64(0)
    for i in range(n):
        key = np.int64(keys[i])
        if runs[key, BLOCKS] == 0:
            touched ^= entries[np.int64(runs[key, START]), TICK]
    return touched


@kernel
def insert(keys, ticks, positions, start, memory, ends):
    """Enter entries (ticks[i], positions[i]) under keys[i] from i = start on; gives the number done.

    Fewer than all are done when memory is full; shapes (n,) each.
    """
    entries, blocks, runs, free, tops = memory
    waiting, chunks, ring, calendar = ends
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
        if calendar[SPARE] < 0 and calendar[EVER] >= len(chunks):
            return i
        if runs[key, BLOCKS] == 0:
            capacity = np.int64(runs[key, CAPACITY])
            behind = np.int64(runs[key, START]) + np.int64(runs[key, COUNT])
            if capacity == 0 and free[OF_ENTRIES, SMALLEST] >= 0:
                runs[key, START] = free[OF_ENTRIES, SMALLEST]
                runs[key, CAPACITY] = np.int64(1) << SMALLEST
                free[OF_ENTRIES, SMALLEST] = entries[free[OF_ENTRIES, SMALLEST], LINK]
            elif (capacity == 0 or behind == (np.int64(runs[key, START]) & -capacity) + capacity) and not _room(
                key, entries, blocks, runs, free, tops
            ):
                return i
        if runs[key, BLOCKS] == 0:
            first = np.int64(runs[key, START])
            at = first + np.int64(runs[key, COUNT])
        else:
            block = _make_place(key, tick, entries, blocks, runs, free, tops)
            if block < 0:
                return i
            first = blocks[block, AT]
            at = first + blocks[block, HOLDS]
        while at > first and entries[at - 1, TICK] > tick:
            entries[at, TICK] = entries[at - 1, TICK]
            entries[at, POSITION] = entries[at - 1, POSITION]
            at -= 1
        entries[at, TICK] = tick
        entries[at, POSITION] = positions[i]
        if runs[key, BLOCKS] > 0:
            blocks[block, HOLDS] += 1
            if at == first:
                blocks[block, BEGINS] = tick
        runs[key, COUNT] += 1
        number = tick >> calendar[SHIFT]
        slot = number & (size - 1)
        chunk = np.int64(-1)
        if number >= calendar[FIRST] and number - calendar[FIRST] < size:
            chunk = np.int64(ring[slot])
        if chunk >= 0 and chunks[chunk, FILLED] < CHUNK:
            at = CHUNK * chunk + np.int64(chunks[chunk, FILLED])
            waiting[at, ENDS] = tick
            waiting[at, KEY] = key
            chunks[chunk, FILLED] += 1
            calendar[LISTED] += 1
        else:
            _note(key, tick, waiting, chunks, ring, calendar)
    calendar[TOUCHED] = touched
    return len(keys)


@kernel
def _shrink(key, entries, runs, free, tops):
    """Move a key's run to a piece of a quarter of the size, if there is one."""
    capacity = np.int64(runs[key, CAPACITY])
    size_class = SMALLEST
    while (np.int64(4) << size_class) < capacity:
        size_class += 1
    found = _allocate(OF_ENTRIES, size_class, entries, free, tops)
    if found >= 0:
        _shift_down(entries, np.int64(runs[key, START]), found, np.int64(runs[key, COUNT]))
        _release(OF_ENTRIES, np.int64(runs[key, START]), capacity, entries, free)
        runs[key, START] = found
        runs[key, CAPACITY] = capacity >> 2


@kernel
def _drop_blocks(key, bound, entries, blocks, runs, free, gone, n):
    """Take out the entries below a bound of a key that has blocks, list their positions, and give the new n."""
    before = n
    block = np.int64(runs[key, START])
    end = block + np.int64(runs[key, BLOCKS])
    while block < end:
        start = blocks[block, AT]
        stop = start + blocks[block, HOLDS]
        at = start
        while at < stop and entries[at, TICK] < bound:
            gone[n] = entries[at, POSITION]
            n += 1
            at += 1
        if at < stop:
            blocks[block, BEGINS] = entries[at, TICK]
            blocks[block, AT] = at
            blocks[block, HOLDS] = stop - at
            break
        _release(OF_ENTRIES, start, ROWS, entries, free)
        block += 1
    runs[key, COUNT] -= n - before
    if end - block > 1:
        runs[key, START] = block
        runs[key, BLOCKS] = end - block
        return n
    _release(OF_BLOCKS, np.int64(runs[key, START]), np.int64(runs[key, CAPACITY]), blocks, free)
    runs[key, BLOCKS] = 0
    runs[key, START] = blocks[block, AT] if block < end else 0
    runs[key, CAPACITY] = ROWS if block < end else 0
    return n


@kernel
def _drop(keys, bounds, waits, start, stop, memory, gone, emptied, counts):
    """Take out the entries of keys[i] below bounds[i], or below bounds[0] when it `waits` for that one.

    Lists what `purge` lists from counts = [positions, keys] on.
    """
    entries, blocks, runs, free, tops = memory
    n = counts[DROPPED]
    for i in range(start, stop):
        key = np.int64(keys[i])
        if runs[key, COUNT] == 0:
            continue
        bound = bounds[0] if waits else bounds[i]
        if runs[key, BLOCKS] > 0:
            n = _drop_blocks(key, bound, entries, blocks, runs, free, gone, n)
        else:
            at = np.int64(runs[key, START])
            last = at + np.int64(runs[key, COUNT])
            capacity = np.int64(runs[key, CAPACITY])
            while at < last and entries[at, TICK] < bound:
                gone[n] = entries[at, POSITION]
                n += 1
                at += 1
            if at < last:
                runs[key, START] = at
                runs[key, COUNT] = last - at
                if capacity >= 32 and 8 * (last - at) <= capacity:
                    _shrink(key, entries, runs, free, tops)
            elif capacity == np.int64(1) << SMALLEST:
                runs[key, START] = np.int64(runs[key, START]) & -capacity
                runs[key, COUNT] = 0
            else:
                base = np.int64(runs[key, START]) & -capacity
                size_class = SMALLEST
                while (np.int64(1) << size_class) < capacity:
                    size_class += 1
                entries[base, LINK] = free[OF_ENTRIES, size_class]
                free[OF_ENTRIES, size_class] = base
                runs[key, START] = 0
                runs[key, COUNT] = 0
                runs[key, CAPACITY] = 0
        if runs[key, COUNT] == 0:
            emptied[counts[EMPTIED]] = key
            counts[EMPTIED] += 1
    counts[DROPPED] = n


@making_kernel
def purge(bounds, counts, gone, emptied, memory, ends):
    """Take out all entries below bounds[0]; lists their positions and the keys that have none left.

    counts = [positions, keys]. Cost: entries taken out, those that share a list with the bound, and lists between the
    bounds. There must be a free chunk, and where entries far off come near one for each list and each 32 of them.
    """
    entries, _, runs, _, _ = memory
    waiting, chunks, ring, calendar = ends
    touched = np.int64(0)
    due = np.empty(CHUNK, np.int64)
    size = np.int64(len(ring) - 1)
    bound = bounds[0]
    number = bound >> calendar[SHIFT]
    first = calendar[FIRST]
    calendar[FIRST] = max(first, number)
    lists = min(max(number - first, 0) + 1, size)
    far = calendar[DISTANT] > 0 and number >= calendar[NEAREST]
    for step in range(lists + 1):
        slot = (first + step) & (size - 1)
        if calendar[LISTED] == 0 or (step == lists and not far):
            break
        if step == lists:
            slot = size
            calendar[DISTANT] = 0
            calendar[NEAREST] = FAR
        chunk = np.int64(ring[slot])
        ring[slot] = -1
        while chunk >= 0:
            start = CHUNK * chunk
            n = np.int64(0)
            calendar[LISTED] -= np.int64(chunks[chunk, FILLED])
            for i in range(start, start + np.int64(chunks[chunk, FILLED])):
                if waiting[i, ENDS] < bound:
                    due[n] = waiting[i, KEY]
                    touched ^= np.int64(runs[due[n], START])
                    n += 1
                else:
                    _note(waiting[i, KEY], waiting[i, ENDS], waiting, chunks, ring, calendar)
                    calendar[KEPT] += 1
            if n > 0:
                touched ^= _touch_first(due, n, entries, runs)
                _drop(due, bounds, True, 0, n, memory, gone, emptied, counts)
            following = np.int64(chunks[chunk, FOLLOWING])
            chunks[chunk, FOLLOWING] = calendar[SPARE]
            calendar[SPARE] = chunk
            chunk = following
    calendar[TOUCHED] = touched


@kernel
def purge_keys(keys, bounds, counts, gone, emptied, memory):
    """Take out the entries of keys[i] below bounds[i]; lists and counts what `purge` does. Keys are distinct."""
    _drop(keys, bounds, False, 0, len(keys), memory, gone, emptied, counts)


@kernel
def strike(keys, ticks, positions, entries, blocks, runs, free):
    """Take out single entries, each of which is there."""
    for i in range(len(keys)):
        key = np.int64(keys[i])
        if runs[key, BLOCKS] == 0:
            start = np.int64(runs[key, START])
            stop = start + np.int64(runs[key, COUNT])
            at = first_from(entries, start, stop, ticks[i])
            while entries[at, POSITION] != positions[i]:
                at += 1
            for j in range(at, stop - 1):
                entries[j, TICK] = entries[j + 1, TICK]
                entries[j, POSITION] = entries[j + 1, POSITION]
            if stop - start == 1:
                capacity = np.int64(runs[key, CAPACITY])
                if capacity == np.int64(1) << SMALLEST:
                    runs[key, START] = start & -capacity
                else:
                    _release(OF_ENTRIES, start, capacity, entries, free)
                    runs[key, START] = 0
                    runs[key, CAPACITY] = 0
        else:
            block = block_of(key, ticks[i] - 1, blocks, runs)
            start = blocks[block, AT]
            at = first_from(entries, start, start + blocks[block, HOLDS], ticks[i])
            while True:
                stop = blocks[block, AT] + blocks[block, HOLDS]
                while at < stop and entries[at, POSITION] != positions[i]:
                    at += 1
                if at < stop:
                    break
                block += 1
                at = blocks[block, AT]
            for j in range(at, stop - 1):
                entries[j, TICK] = entries[j + 1, TICK]
                entries[j, POSITION] = entries[j + 1, POSITION]
            blocks[block, HOLDS] -= 1
            blocks[block, BEGINS] = entries[blocks[block, AT], TICK]
            if blocks[block, HOLDS] == 0:
                _release(OF_ENTRIES, blocks[block, AT], ROWS, entries, free)
                end = np.int64(runs[key, START]) + np.int64(runs[key, BLOCKS])
                for j in range(block, end - 1):
                    for c in range(3):
                        blocks[j, c] = blocks[j + 1, c]
                runs[key, BLOCKS] -= 1
                if runs[key, BLOCKS] <= 1:
                    directory = np.int64(runs[key, START])
                    runs[key, START] = blocks[directory, AT] if runs[key, BLOCKS] == 1 else 0
                    _release(OF_BLOCKS, directory, np.int64(runs[key, CAPACITY]), blocks, free)
                    runs[key, CAPACITY] = ROWS if runs[key, BLOCKS] == 1 else 0
                    runs[key, BLOCKS] = 0
        runs[key, COUNT] -= 1
