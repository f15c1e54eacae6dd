"""The textbook forms of the techniques, a tuple at a time: the kernels over panes are measured against them.

Window i is the tuples heads[i] <= j < tails[i], never empty, neither end moves back. Tuples pass through a ring of
`room` values (at least the longest window), or through two stacks of (value, aggregate). `*_least` takes whole or
floating numbers without NaN; `*_sum` adds in the type of `found`: sums of 32-bit values do not wrap in int64.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel


@making_kernel
def scan_least(values, heads, tails, room, found):
    """Look at every tuple of every window where it lies, with the wide instructions of the machine."""
    for i in range(len(heads)):
        part = values[heads[i] : tails[i]]
        least = part[0]
        for value in part:
            least = min(least, value)
        found[i] = least


@making_kernel
def scan_sum(values, heads, tails, room, found):
    """Look at every tuple of every window where it lies, with the wide instructions of the machine."""
    for i in range(len(heads)):
        total = found[i] - found[i]
        for value in values[heads[i] : tails[i]]:
            total += value
        found[i] = total


@making_kernel
def recompute_least(values, heads, tails, room, found):
    """Look at every tuple of every window."""
    ring = np.empty(room, values.dtype)
    tail = 0
    for i in range(len(heads)):
        while tail < tails[i]:
            ring[tail % room] = values[tail]
            tail += 1
        least = ring[heads[i] % room]
        for j in range(heads[i], tails[i]):
            least = min(least, ring[j % room])
        found[i] = least


@making_kernel
def recompute_sum(values, heads, tails, room, found):
    """Look at every tuple of every window."""
    ring = np.empty(room, found.dtype)
    tail = 0
    for i in range(len(heads)):
        while tail < tails[i]:
            ring[tail % room] = values[tail]
            tail += 1
        total = found[i] - found[i]
        for j in range(heads[i], tails[i]):
            total += ring[j % room]
        found[i] = total


@making_kernel
def subtract_least(values, heads, tails, room, found):
    """Keep the least; look at the whole window again when it leaves."""
    ring = np.empty(room, values.dtype)
    head = 0
    tail = 0
    least = values[0]
    for i in range(len(heads)):
        gone = False
        while head < heads[i]:
            gone |= head < tail and ring[head % room] == least
            head += 1
        gone |= tail <= head
        while tail < tails[i]:
            ring[tail % room] = values[tail]
            if not gone:
                least = min(least, values[tail])
            tail += 1
        if gone:
            least = ring[head % room]
            for j in range(head, tail):
                least = min(least, ring[j % room])
        found[i] = least


@making_kernel
def subtract_sum(values, heads, tails, room, found):
    """Add what enters, take away what leaves."""
    ring = np.empty(room, found.dtype)
    total = found[0] - found[0]
    head = 0
    tail = 0
    for i in range(len(heads)):
        while head < heads[i]:
            if head < tail:
                total -= ring[head % room]
            head += 1
        tail = max(tail, head)
        while tail < tails[i]:
            ring[tail % room] = values[tail]
            total += ring[tail % room]
            tail += 1
        found[i] = total


@making_kernel
def two_stacks_least(values, heads, tails, room, found):
    """Push on the back stack, pop from the front stack, pour the one into the other when the front stack is empty."""
    front_value, front = np.empty(room, values.dtype), np.empty(room, values.dtype)
    back_value, back = np.empty(room, values.dtype), np.empty(room, values.dtype)
    fronts = 0
    backs = 0
    head = 0
    tail = 0
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                if fronts == 0:
                    while backs:
                        backs -= 1
                        value = back_value[backs]
                        front_value[fronts] = value
                        front[fronts] = min(value, front[fronts - 1]) if fronts else value
                        fronts += 1
                fronts -= 1
                head += 1
            else:
                value = values[tail]
                back_value[backs] = value
                back[backs] = min(value, back[backs - 1]) if backs else value
                backs += 1
                tail += 1
        if fronts and backs:
            found[i] = min(front[fronts - 1], back[backs - 1])
        else:
            found[i] = front[fronts - 1] if fronts else back[backs - 1]


@making_kernel
def two_stacks_sum(values, heads, tails, room, found):
    """Do as `two_stacks_least` does."""
    front_value, front = np.empty(room, found.dtype), np.empty(room, found.dtype)
    back_value, back = np.empty(room, found.dtype), np.empty(room, found.dtype)
    fronts = 0
    backs = 0
    head = 0
    tail = 0
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                if fronts == 0:
                    while backs:
                        backs -= 1
                        value = back_value[backs]
                        front_value[fronts] = value
                        front[fronts] = value + front[fronts - 1] if fronts else value
                        fronts += 1
                fronts -= 1
                head += 1
            else:
                back_value[backs] = values[tail]
                back[backs] = back_value[backs] + back[backs - 1] if backs else back_value[backs]
                backs += 1
                tail += 1
        if fronts and backs:
            found[i] = front[fronts - 1] + back[backs - 1]
        else:
            found[i] = front[fronts - 1] if fronts else back[backs - 1]


@making_kernel
def minimal_least(values, heads, tails, room, found):
    """Keep only what is read: values of the back stack and one running least; of the front stack the least by window.

    Hammer Slide, section 3.2 (2): one aggregate a slide is enough, because all tuples of a slide leave together.
    """
    ring = np.empty(room, values.dtype)
    front = np.empty(room, values.dtype)
    place = 0
    flip = 0
    first = 0
    last = -1
    tail = 0
    running = values[0]
    for i in range(len(heads)):
        head = heads[i]
        tail = max(tail, head)
        while tail < tails[i]:
            value = values[tail]
            ring[place] = value
            running = min(running, value) if tail > flip else value
            tail += 1
            place = place + 1 if place + 1 < room else 0
        if i > last:
            last = i
            while last + 1 < len(heads) and last + 1 - i < room and heads[last + 1] < tail:
                last += 1
            first = i
            flip = tail
            j = tail - 1
            spot = place - 1 if place > 0 else room - 1
            least = ring[spot]
            for k in range(last, i - 1, -1):
                while j >= heads[k]:
                    least = min(least, ring[spot])
                    j -= 1
                    spot = spot - 1 if spot > 0 else room - 1
                front[k - first] = least
        found[i] = min(front[i - first], running) if tail > flip else front[i - first]


@making_kernel
def daba_least(values, heads, tails, room, found):
    """Keep values and aggregates in two rings, and flip a little with every tuple that enters or leaves."""
    ring, held = np.empty(room, values.dtype), np.empty(room, values.dtype)
    head, left, right, accumulated, back, tail = 0, 0, 0, 0, 0, 0
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                head += 1
            else:
                value = values[tail]
                ring[tail % room] = value
                held[tail % room] = min(value, held[(tail - 1) % room]) if tail > back else value
                tail += 1
            if head == back:
                left = right = accumulated = back = tail
                continue
            if left == back:
                left = head
                accumulated = back = tail
            if left == right:
                left += 1
                right += 1
                accumulated += 1
            else:
                # Of [right, accumulated) the last holds the aggregate, of [accumulated, back) the first.
                last = (accumulated - 1) % room
                middle = held[last]
                if accumulated < back:
                    middle = min(middle, held[accumulated % room])
                    held[last] = min(ring[last], held[accumulated % room])
                else:
                    held[last] = ring[last]
                held[left % room] = min(held[left % room], middle)
                left += 1
                accumulated -= 1
        front = held[head % room]
        found[i] = min(front, held[(tail - 1) % room]) if back < tail else front


@making_kernel
def daba_sum(values, heads, tails, room, found):
    """Do as `daba_least` does."""
    ring, held = np.empty(room, found.dtype), np.empty(room, found.dtype)
    head, left, right, accumulated, back, tail = 0, 0, 0, 0, 0, 0
    for i in range(len(heads)):
        while tail < tails[i] or head < heads[i]:
            if head < heads[i] and head < tail:
                head += 1
            else:
                ring[tail % room] = values[tail]
                value = ring[tail % room]
                held[tail % room] = value + held[(tail - 1) % room] if tail > back else value
                tail += 1
            if head == back:
                left = right = accumulated = back = tail
                continue
            if left == back:
                left = head
                accumulated = back = tail
            if left == right:
                left += 1
                right += 1
                accumulated += 1
            else:
                # Of [right, accumulated) the last holds the aggregate, of [accumulated, back) the first.
                last = (accumulated - 1) % room
                middle = held[last]
                if accumulated < back:
                    middle = middle + held[accumulated % room]
                    held[last] = ring[last] + held[accumulated % room]
                else:
                    held[last] = ring[last]
                held[left % room] = held[left % room] + middle
                left += 1
                accumulated -= 1
        front = held[head % room]
        found[i] = front + held[(tail - 1) % room] if back < tail else front


@kernel
def two_stacks_runs(panes, heads, tails, marks, kept, keys, ends, out):
    """Hold the front stack in runs (RLE): one entry for each change of the least, instead of one a pane.

    The least from a pane to the flip never falls on the way to younger panes, so equal neighbours are runs. The memory
    of the front is the number of runs; every pop has to compare a place. Hammer Slide, section 3.2 (4), found it
    slower, and it is here to be measured; panes, heads, tails, marks and kept are as in the engine's kernel of the
    least. Run r of the front is keys[r], up to pane ends[r]; there are marks[2] of them, and the oldest is the last.
    `keys` and `ends` have room for the runs of the longest window.
    """
    least = panes[0]
    found = out[0]
    flip = marks[0]
    tail = marks[1]
    runs = marks[2]
    running = kept[0]
    for i in range(len(heads)):
        head = heads[i]
        stop = tails[i]
        if head >= flip:
            keys[0] = least[stop - 1]
            ends[0] = stop
            runs = 1
            for k in range(stop - 2, head - 1, -1):
                if least[k] < keys[runs - 1]:
                    keys[runs] = least[k]
                    ends[runs] = k + 1
                    runs += 1
            flip = stop
            tail = stop
            running = kept[1]
        while ends[runs - 1] <= head:
            runs -= 1
        while tail < stop:
            running = min(running, least[tail])
            tail += 1
        found[i] = min(keys[runs - 1], running)
    marks[0] = flip
    marks[1] = tail
    marks[2] = runs
    kept[0] = running
