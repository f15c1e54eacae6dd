"""Techniques that Scotty is compared with, a tuple at a time: buckets, a sorted buffer of tuples, a tree over tuples.

Each sums `values` over tumbling windows of several sizes that begin at 0. Tuples come in any order; behind tuple
stops[i] - 1 no tuple is before bounds[i], and windows that end there are answered: found[w, wid] is the sum over window
wid of sizes[w], from the first on, as far as there is room. Behind the last tuple all are.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import inlined_kernel, making_kernel


@making_kernel
def buckets(ts, values, stops, bounds, sizes, found):
    """Keep a partial aggregate for each window, and add each tuple to one window of every size."""
    held = np.zeros(found.shape, np.int64)
    done = np.zeros(len(sizes), np.int64)
    at = 0
    for i in range(len(stops)):
        while at < stops[i]:
            for w in range(len(sizes)):
                held[w, ts[at] // sizes[w]] += values[at]
            at += 1
        for w in range(len(sizes)):
            while done[w] < found.shape[1] and (done[w] + 1) * sizes[w] <= bounds[i]:
                found[w, done[w]] = held[w, done[w]]
                done[w] += 1


@inlined_kernel
def put_in_order(times, kept, head, tail, time, value):
    """Put a tuple among those in times[head:tail], behind all whose time is not greater."""
    j = tail
    while j > head and times[j - 1] > time:
        times[j] = times[j - 1]
        kept[j] = kept[j - 1]
        j -= 1
    times[j] = time
    kept[j] = value


@making_kernel
def buffer(ts, values, stops, bounds, sizes, found):
    """Keep tuples in the order of their times, and add up each window when it ends."""
    times = np.empty(len(ts), np.int64)
    kept = np.empty(len(ts), np.int64)
    done = np.zeros(len(sizes), np.int64)
    head = 0
    tail = 0
    for i in range(len(stops)):
        while tail < stops[i]:
            put_in_order(times, kept, head, tail, ts[tail], values[tail])
            tail += 1
        oldest = bounds[i]
        for w in range(len(sizes)):
            size = sizes[w]
            while done[w] < found.shape[1] and (done[w] + 1) * size <= bounds[i]:
                low = head + np.searchsorted(times[head:tail], done[w] * size)
                high = head + np.searchsorted(times[head:tail], (done[w] + 1) * size)
                total = 0
                for j in range(low, high):
                    total += kept[j]
                found[w, done[w]] = total
                done[w] += 1
            oldest = min(oldest, done[w] * size)
        head += np.searchsorted(times[head:tail], oldest)


@making_kernel
def tree(ts, values, stops, bounds, sizes, found, room):
    """Keep an aggregate tree (FlatFAT) over tuples in the order of their times; a window is a few of its nodes.

    `room` is the number of leaves, a power of two, at least twice as many as the tuples of the longest window and of
    the disorder. A tuple that comes late moves all younger leaves, and their part of the tree is computed again.
    """
    times = np.empty(room, np.int64)
    nodes = np.zeros(2 * room, np.int64)
    done = np.zeros(len(sizes), np.int64)
    at = 0
    head = 0
    tail = 0
    for i in range(len(stops)):
        while at < stops[i]:
            if tail == room:
                times[: tail - head] = times[head:tail].copy()
                nodes[room : room + tail - head] = nodes[room + head : room + tail].copy()
                nodes[room + tail - head :] = 0
                for j in range(room - 1, 0, -1):
                    nodes[j] = nodes[2 * j] + nodes[2 * j + 1]
                tail -= head
                head = 0
            time = ts[at]
            j = tail
            while j > head and times[j - 1] > time:
                times[j] = times[j - 1]
                nodes[room + j] = nodes[room + j - 1]
                j -= 1
            times[j] = time
            nodes[room + j] = values[at]
            low = (room + j) >> 1
            high = (room + tail) >> 1
            while low > 0:
                for k in range(low, high + 1):
                    nodes[k] = nodes[2 * k] + nodes[2 * k + 1]
                low >>= 1
                high >>= 1
            at += 1
            tail += 1
        oldest = bounds[i]
        for w in range(len(sizes)):
            size = sizes[w]
            while done[w] < found.shape[1] and (done[w] + 1) * size <= bounds[i]:
                low = room + head + np.searchsorted(times[head:tail], done[w] * size)
                high = room + head + np.searchsorted(times[head:tail], (done[w] + 1) * size)
                total = 0
                while low < high:
                    if low & 1:
                        total += nodes[low]
                        low += 1
                    if high & 1:
                        high -= 1
                        total += nodes[high]
                    low >>= 1
                    high >>= 1
                found[w, done[w]] = total
                done[w] += 1
            oldest = min(oldest, done[w] * size)
        head += np.searchsorted(times[head:tail], oldest)


@making_kernel
def counted_buffer(ts, values, stops, bounds, size, slide, found):
    """Keep tuples in the order of their times, and add up each window of `size` tuples when its last one is final.

    Window w has the tuples with ranks (w + 1) * slide - size <= rank < (w + 1) * slide, ties by arrival; found[w] is
    its sum, from the first on, as far as there is room. Behind the last tuple all are final.
    """
    times = np.empty(len(ts), np.int64)
    kept = np.empty(len(ts), np.int64)
    done = 0
    tail = 0
    for i in range(len(stops)):
        while tail < stops[i]:
            put_in_order(times, kept, 0, tail, ts[tail], values[tail])
            tail += 1
        final = np.searchsorted(times[:tail], bounds[i])
        while done < len(found) and (done + 1) * slide <= final:
            total = 0
            for j in range(max(0, (done + 1) * slide - size), (done + 1) * slide):
                total += kept[j]
            found[done] = total
            done += 1
