# pyright: reportMissingParameterType=false
"""Compiled bins: a group's partial aggregate of (x - RANGE, x] as a step function of x (thesis Fig 6-5 to 6-7).

A bin is an entry (id, slot) of a group's queue, see `kernels.ranked`: slot holds the aggregate of (x - RANGE, x] for
every x from the bin's id up to that of the next. It changes at the values of tuples (start bins) and RANGE behind them
(end bins); one bin serves for both where they coincide. bases[g] is the slot for x before the first bin, the thesis'
init bin: -1 when nothing is in reach there.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ticks import FOREVER


@kernel
def distinct(order, ends, values, weights, numbers, run_values, run_weights, run_ends):
    """Number the distinct values of each queue's tuples, which `order` lists by queue and value.

    An empty `order` stands for 0, 1, 2, ...; an empty `weights` for ones. numbers[t] is the number of tuple t's value,
    run_weights the sum of its tuples' weights, run_ends[j] where queue j's numbers end. Returns how many there are.
    """
    runs = 0
    i = 0
    straight = len(order) == 0
    for j in range(len(ends)):
        first = True
        while i < ends[j]:
            t = np.int64(i) if straight else np.int64(order[i])
            value = values[t]
            if first or value != run_values[runs - 1]:
                run_values[runs] = value
                run_weights[runs] = 0
                runs += 1
                first = False
            run_weights[runs - 1] += weights[t] if len(weights) > 0 else 1
            numbers[t] = runs - 1
            i += 1
        run_ends[j] = runs
    return runs


@kernel
def enter(groups, ends, values, limits, size, tables, bases, fresh, drafts, pairs, targets, ranges):
    """Enter the bins of each group's distinct values and list what is to be combined; values rise within a group.

    First the pairs are to be combined: a new bin, and the bin or the base that held before at its place. Then
    targets[q] is to take up the values in range q. A value below its group's limit is late: it starts no bin, but
    counts in what is behind the limit. New slots are taken from `fresh`, in order; `drafts` is scratch.
    Returns (new slots, pairs, targets).
    """
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items = tables[KEYS], tables[ITEMS]
    ids, seeds = drafts[ID], drafts[SEED]
    made = 0
    seeded = 0
    asked = 0
    for j in range(len(groups)):
        g = groups[j]
        begin = ends[j - 1] if j > 0 else 0
        end = ends[j]
        if begin == end:
            continue
        first = begin
        while first < end and values[first] < limits[j]:
            first += 1
        start = places[g, START]
        stop = start + places[g, SIZE]
        # The new ids are those of two rising lists, the values and what is RANGE behind each; the larger the later.
        i = first
        k = begin
        p = start
        high = stop
        least = values[begin] + size if first == end else min(values[first], values[begin] + size)
        while p < high:
            middle = (p + high) // 2
            if keys[middle] <= least:
                p = middle + 1
            else:
                high = middle
        count = 0
        while k < end:
            x = values[k] + size
            if i < end and values[i] <= x:
                if values[i] == x:
                    k += 1
                x = values[i]
                i += 1
            else:
                k += 1
            while p < stop and keys[p] <= x:
                p += 1
            if p > start and keys[p - 1] == x:
                continue
            ids[count] = x
            seeds[count] = items[p - 1] if p > start else bases[g]
            count += 1
        old = stop - 1
        at = old + count
        for c in range(count - 1, -1, -1):
            while old >= start and keys[old] > ids[c]:
                keys[at] = keys[old]
                items[at] = items[old]
                old -= 1
                at -= 1
            slot = fresh[made]
            made += 1
            keys[at] = ids[c]
            items[at] = slot
            at -= 1
            if seeds[c] >= 0:
                pairs[INTO, seeded] = slot
                pairs[SOURCE, seeded] = seeds[c]
                seeded += 1
        places[g, SIZE] += count
        counters[ENTRIES] += count
        heads[g] = keys[start]
        stop = start + places[g, SIZE]
        if first > begin:
            if bases[g] < 0:
                bases[g] = fresh[made]
                made += 1
            targets[asked] = bases[g]
            ranges[LOW, asked] = begin
            ranges[HIGH, asked] = first
            asked += 1
        p = start
        high = stop
        while p < high:
            middle = (p + high) // 2
            if keys[middle] < values[begin]:
                p = middle + 1
            else:
                high = middle
        low = begin
        upto = begin
        while p < stop and keys[p] < values[end - 1] + size:
            while upto < end and values[upto] <= keys[p]:
                upto += 1
            while values[low] <= keys[p] - size:
                low += 1
            if low < upto:
                targets[asked] = items[p]
                ranges[LOW, asked] = low
                ranges[HIGH, asked] = upto
                asked += 1
            p += 1
    return made, seeded, asked


@kernel
def multiples(parts, ends, weights, ranks, every, times):
    """Write how many multiples of `every` are among the ranks of each value's tuples, counting on in ranks[part]."""
    i = 0
    for j in range(len(parts)):
        rank = ranks[parts[j]]
        while i < ends[j]:
            times[i] = (rank + weights[i]) // every - rank // every
            rank += weights[i]
            i += 1
        ranks[parts[j]] = rank


@kernel
def read(groups, segments, ends, wids, tables, bases, cursor, rows, owners, slots):
    """Read each group's step function at the windows wids[ends[s - 1]], ..., wids[ends[s] - 1] of its segment s.

    Result n is window rows[n] of group owners[n], in slots[n]; where a group has nothing there is none. Goes on at
    `cursor` until a column is full. Returns how many results there are.
    """
    places, keys, items = tables[PLACES], tables[KEYS], tables[ITEMS]
    n = 0
    for i in range(cursor[QUEUE], len(groups)):
        g = groups[i]
        s = segments[i]
        d = ends[s - 1] if s > 0 else 0
        d = max(d, cursor[WINDOW])
        start = places[g, START]
        stop = start + places[g, SIZE]
        p = start
        while d < ends[s]:
            while p < stop and keys[p] <= wids[d]:
                p += 1
            slot = items[p - 1] if p > start else bases[g]
            if slot >= 0:
                if n == len(rows):
                    cursor[QUEUE] = i
                    cursor[WINDOW] = d
                    return n
                rows[n] = d
                owners[n] = g
                slots[n] = slot
                n += 1
            d += 1
        cursor[WINDOW] = 0
    cursor[QUEUE] = len(groups)
    return n


@kernel
def purge(groups, counts, tables, bases, gone, idle):
    """Drop the first counts[j] bins of each group; the last of them becomes the base, unless no bin is left.

    Lists the slots that are free then and the groups without bins; returns how many of each.
    """
    places, heads, counters = tables[PLACES], tables[HEADS], tables[COUNTERS]
    keys, items = tables[KEYS], tables[ITEMS]
    freed = 0
    left = 0
    for j in range(len(groups)):
        g = groups[j]
        n = counts[j]
        if n == 0:
            continue
        if bases[g] >= 0:
            gone[freed] = bases[g]
            freed += 1
        start = places[g, START]
        for i in range(start, start + n - 1):
            gone[freed] = items[i]
            freed += 1
        bases[g] = items[start + n - 1]
        places[g, START] += n
        places[g, SIZE] -= n
        counters[ENTRIES] -= n
        if places[g, SIZE] == 0:
            # What is behind the last end bin has no tuple in reach.
            gone[freed] = bases[g]
            freed += 1
            bases[g] = -1
            heads[g] = FOREVER
            idle[left] = g
            left += 1
        else:
            heads[g] = keys[places[g, START]]
    return freed, left
