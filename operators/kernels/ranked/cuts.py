# pyright: reportMissingParameterType=false
"""Compiled cuts: which windows predicates make of the tuples of each partition, and the aggregates of these.

Tuples come by partition, those of one partition in the order of their tick. The windows of a partition are numbered in
a row, from firsts[j] on; the first of them is the one that was open before, if there was one.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ticks import BEFORE_ALL, FOREVER


@kernel
def cut(parts, ends, ticks, bits, bound, over, rule, within, opened, numbers, firsts, windows):
    """Write the window of each tuple, -1 for none, and where the windows begin and end; returns how many there are.

    Those of parts[j] are firsts[j] <= w < firsts[j + 1]. Windows that are open at `bound` are kept in `opened`, unless
    the partitions are over. A `within` of 0 means none.
    """
    made = 0
    for j in range(len(parts)):
        p = parts[j]
        firsts[j] = made
        begin = opened[BEGIN][p]
        last = opened[LAST][p]
        if begin != FOREVER:
            windows[BEGIN, made] = begin
            windows[END, made] = FOREVER
            made += 1
        i = ends[j - 1] if j > 0 else 0
        while i < ends[j]:
            tick = ticks[i]
            stop = i
            seen = 0
            while stop < ends[j] and ticks[stop] == tick:
                seen |= bits[stop]
                stop += 1
            enters = seen & ENTERS != 0
            if begin != FOREVER and within > 0 and begin + within <= tick:
                windows[END, made - 1] = begin + within
                begin = FOREVER
            if begin != FOREVER and ((rule == RUNS and not enters) or (rule == FROM_EACH and enters)):
                windows[END, made - 1] = tick
                begin = FOREVER
            ends_here = begin != FOREVER and rule == BETWEEN and seen & LEAVES != 0
            if begin == FOREVER and enters:
                begin = tick
                windows[BEGIN, made] = tick
                windows[END, made] = FOREVER
                made += 1
            for k in range(i, stop):
                inside = begin != FOREVER and (rule != RUNS or bits[k] & ENTERS != 0)
                numbers[k] = made - 1 if inside else -1
            if begin != FOREVER:
                last = tick
            if ends_here:
                windows[END, made - 1] = tick + 1
                begin = FOREVER
            i = stop
        if begin != FOREVER and within > 0 and begin + within <= bound:
            windows[END, made - 1] = begin + within
            begin = FOREVER
        if begin != FOREVER and over != GOES_ON:
            windows[END, made - 1] = last + 1 if over == GIVEN else BEFORE_ALL
            begin = FOREVER
        opened[BEGIN][p] = begin
        opened[LAST][p] = FOREVER if begin == FOREVER else last
    firsts[len(parts)] = made
    return made


@kernel
def _number(begin, first, stop, windows):
    """Return which of the windows first <= w < stop begins at a tick."""
    low = first
    high = stop - 1
    while low < high:
        middle = (low + high) // 2
        if windows[BEGIN, middle] < begin:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def fold(groups, ends, numbers, slots, firsts, windows, held, candidates, places, pairs, results, bounds):
    """Combine the tuples of each group and window; lists the aggregates of windows that have ended.

    `held` has the aggregates of open windows by group: the window's begin, FOREVER for none, and a slot. Groups that
    may have an aggregate of a window that has ended, and no tuple behind it, are `candidates`; candidate i is of the
    partition at places[i]. Returns (combinations, aggregates listed); the slots that these leave are free.
    """
    combined = 0
    given = 0
    for j in range(len(ends)):
        for i in range(ends[j - 1] if j > 0 else 0, ends[j]):
            w = numbers[i]
            if w < 0:
                continue
            g = groups[i]
            begin = windows[BEGIN, w]
            if held[BEGIN][g] == begin:
                pairs[INTO, combined] = held[SLOT][g]
                pairs[SOURCE, combined] = slots[i]
                combined += 1
                continue
            if held[BEGIN][g] != FOREVER:
                results[OWNER, given] = g
                results[SLOT, given] = held[SLOT][g]
                bounds[BEGIN, given] = held[BEGIN][g]
                bounds[END, given] = windows[END, _number(held[BEGIN][g], firsts[j], firsts[j + 1], windows)]
                given += 1
            held[BEGIN][g] = begin
            held[SLOT][g] = slots[i]
    for i in range(len(candidates)):
        g = candidates[i]
        if held[BEGIN][g] == FOREVER:
            continue
        j = places[i]
        end = windows[END, _number(held[BEGIN][g], firsts[j], firsts[j + 1], windows)]
        if end == FOREVER:
            continue
        results[OWNER, given] = g
        results[SLOT, given] = held[SLOT][g]
        bounds[BEGIN, given] = held[BEGIN][g]
        bounds[END, given] = end
        given += 1
        held[BEGIN][g] = FOREVER
        held[SLOT][g] = -1
    return combined, given
