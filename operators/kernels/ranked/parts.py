"""Compiled firings of windows of rows and of predicates: where they lie, and which slots what they have is made of."""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FOREVER


@kernel
def next_firing(begin, tick, steps, repeats):
    """Return the first tick behind one at which a window that begins at `begin` fires, FOREVER for none.

    It fires so many `steps` behind its begin, each a number of ticks, and again and again where it `repeats`.
    """
    found = FOREVER
    for k in range(len(steps)):
        step = steps[k]
        if repeats[k]:
            found = min(found, begin + ((tick - begin) // step + 1) * step)
        elif begin + step > tick:
            found = min(found, begin + step)
    return found


@kernel
def fire_on_ticks(windows, ticks, steps, repeats, fired, listed):
    """List the ticks at which windows fire that have something new; return how many there are.

    `windows` are, of each: its begin, the tick up to which it fired, the tuples since it fired last, its new tuples,
    and the tick up to which it is due. `ticks` are those of the new tuples, window by window, in their order.
    `fired[w]` is how often the window w fires. `listed` has a row for: behind how many of the new tuples, and when.
    """
    begins, reached, pending, counts, until = windows
    n = at = 0
    for w in range(len(begins)):
        fired[w] = 0
        new = pending[w] > 0
        due = next_firing(begins[w], max(reached[w], begins[w]), steps, repeats) if new else begins[w]
        for j in range(counts[w] + 1):
            over = j == counts[w]
            tick = until[w] if over else ticks[at + j]
            if new and due <= until[w] and (over or tick >= due):
                listed[0, n] = j
                listed[1, n] = due
                n += 1
                fired[w] += 1
            if not over and (not new or tick >= due):
                due = next_firing(begins[w], tick, steps, repeats)
            new = True
        at += counts[w]
    return n


@kernel
def runs(numbers, starts):
    """List where numbers begin that differ from those before them; return how many of these places there are."""
    n = 0
    for i in range(len(numbers)):
        if i == 0 or numbers[i] != numbers[i - 1]:
            starts[n] = i
            n += 1
    return n


@kernel
def rank_runs(ids, ranked, size, found):
    """Count tuples on within their partitions, and list those that follow each other in a window of `size` of them.

    `found` has a row for each of: partition, window, how many. Returns how many there are; where they do not ascend,
    it counts nothing and returns -1.
    """
    n = i = 0
    while i < len(ids):
        part = ids[i]
        window = ranked[part] // size
        stop = min(len(ids), i + (window + 1) * size - ranked[part])
        j = i + 1
        while j < stop and ids[j] == part:
            j += 1
        if n > 0 and part < found[0, n - 1]:
            for k in range(n):
                ranked[found[0, k]] -= found[2, k]
            return -1
        found[0, n] = part
        found[1, n] = window
        found[2, n] = j - i
        ranked[part] += j - i
        n += 1
        i = j
    return n


@kernel
def pair_parts(of, slots, windows, made, rest, discards, into, source):
    """Write which slot takes up which, in their order, and return how many pairs there are: `into[k]` and `source[k]`.

    - `of`: the window of each tuple, ascending; `slots`: the slot of each tuple.
    - `windows`: how often each fires, behind how many of its tuples each of all firings lies, window by window,
      whether each window had something before, and the slot that has it.
    - `made`: the slot of each firing, which holds nothing; `rest`: the slot of what is behind the last firing, which is
      that of before where a window that had something does not fire, and otherwise holds nothing.
    - `discards`: 1 where a firing has only what came since the one before it.

    There are at most as many pairs as tuples and twice the firings.
    """
    fired, ends, held, before = windows
    n = i = firing = 0
    for w in range(len(fired)):
        begin, taken = i, -1
        if held[w]:
            taken = before[w]
        for _ in range(fired[w]):
            if taken >= 0:
                into[n] = made[firing]
                source[n] = taken
                n += 1
            while i < begin + ends[firing]:
                into[n] = made[firing]
                source[n] = slots[i]
                n += 1
                i += 1
            taken = -1 if discards else made[firing]
            firing += 1
        if fired[w] > 0 and taken >= 0:
            into[n] = rest[w]
            source[n] = taken
            n += 1
        while i < len(of) and of[i] == w:
            into[n] = rest[w]
            source[n] = slots[i]
            n += 1
            i += 1
    return n
