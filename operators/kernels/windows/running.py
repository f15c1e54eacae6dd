"""Compiled bookkeeping of aggregates that are carried from one window to the next, a vector of groups at a time.

Chains of slots are those of `slices`: by_slice heads, links[s, 0] follows. A `detached` group is answered alone.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.windows.layout import *

_LOW = np.uint64(0xFFFFFFFF)


@kernel
def slots_of(numbers, by_slice, links, pairs, detached, slots, groups):
    """List the slots of these slices and their groups, but for detached groups; gives their number."""
    n = 0
    for k in range(len(numbers)):
        slot = np.int64(by_slice[numbers[k]])
        while slot >= 0:
            g = np.int64(pairs[slot] & _LOW)
            if not detached[g]:
                slots[n] = slot
                groups[n] = g
                n += 1
            slot = np.int64(links[slot, 0])
    return n


@kernel
def activate(groups, active, known, actives):
    """List the groups that are not known as active yet; returns the number of active groups."""
    for i in range(len(groups)):
        g = groups[i]
        if not known[g]:
            known[g] = True
            active[actives] = g
            actives += 1
    return actives


@kernel
def enter(groups, held, members, lacking):
    """Count each group's slots; list groups that hold no aggregate yet, for which held is -2 until they do."""
    n = 0
    for i in range(len(groups)):
        g = groups[i]
        members[g] += 1
        if held[g] == -1:
            held[g] = -2
            lacking[n] = g
            n += 1
    return n


@kernel
def leave(groups, slots, held, members, into, source, gone):
    """Take these slots out of the counts; list what to subtract, and the aggregates of groups that are left empty.

    Returns (number of subtractions, number of freed aggregates).
    """
    for i in range(len(groups)):
        members[groups[i]] -= 1
    n = 0
    freed = 0
    for i in range(len(groups)):
        g = groups[i]
        if members[g] > 0:
            into[n] = held[g]
            source[n] = slots[i]
            n += 1
        elif held[g] >= 0:
            gone[freed] = held[g]
            freed += 1
            held[g] = -1
    return n, freed


@kernel
def flip(numbers, by_slice, links, pairs, detached, front, following, last, into, source):
    """List how slots become suffixes: each takes in the next younger slot of its group; `numbers` go from old to young.

    front[g] becomes the oldest slot; following[slot] is the one that was taken in. last[g] is -1 for every group.
    Returns the number of combinations, in the order in which they are to be made.
    """
    n = 0
    for k in range(len(numbers) - 1, -1, -1):
        slot = np.int64(by_slice[numbers[k]])
        while slot >= 0:
            g = np.int64(pairs[slot] & _LOW)
            younger = last[g]
            following[slot] = younger
            if younger >= 0:
                into[n] = slot
                source[n] = younger
                n += 1
            last[g] = slot
            if not detached[g]:
                front[g] = slot
            slot = np.int64(links[slot, 0])
    for k in range(len(numbers)):
        slot = np.int64(by_slice[numbers[k]])
        while slot >= 0:
            last[np.int64(pairs[slot] & _LOW)] = -1
            slot = np.int64(links[slot, 0])
    return n


@kernel
def evict(numbers, by_slice, links, pairs, front, following):
    """Let each group's suffix begin after these slices, the oldest ones, from old to young."""
    for k in range(len(numbers)):
        slot = np.int64(by_slice[numbers[k]])
        while slot >= 0:
            g = np.int64(pairs[slot] & _LOW)
            if front[g] == slot:
                front[g] = following[slot]
            slot = np.int64(links[slot, 0])


@kernel
def chain_beside(numbers, by_slice, links, pairs, detached, beside, following, active, known, actives):
    """Chain the slots of slices that stand outside the stacks by group; returns the number of active groups."""
    for k in range(len(numbers)):
        slot = np.int64(by_slice[numbers[k]])
        while slot >= 0:
            g = np.int64(pairs[slot] & _LOW)
            if not detached[g]:
                following[slot] = beside[g]
                beside[g] = slot
                if not known[g]:
                    known[g] = True
                    active[actives] = g
                    actives += 1
            slot = np.int64(links[slot, 0])
    return actives


@kernel
def gather(window, own, stacks, active, known, actives, base, groups, slots, into, source):
    """List the groups of a window with the slot of each one's aggregate, and forget the groups that have none.

    A group with one part is answered by it, others by a slot from `base` on, into which to combine its parts, old
    before young. Chains beside the stacks are used up. Returns (active groups, results, slots used, combinations).
    """
    front, back, beside, following = stacks[FRONT], stacks[BACK], stacks[BESIDE], stacks[FOLLOWING]
    kept = 0
    n = 0
    made = 0
    parts = 0
    for i in range(actives):
        g = active[i]
        a = front[g]
        b = back[g]
        x = np.int64(beside[g])
        if a < 0 and b < 0 and x < 0:
            known[g] = False
            continue
        active[kept] = g
        kept += 1
        beside[g] = -1
        if own[g] > window:
            continue
        groups[n] = g
        if x < 0 and (a < 0 or b < 0):
            slots[n] = max(a, b)
        elif a < 0 and b < 0 and following[x] < 0:
            slots[n] = x
        else:
            target = base + made
            made += 1
            slots[n] = target
            if a >= 0:
                into[parts] = target
                source[parts] = a
                parts += 1
            if b >= 0:
                into[parts] = target
                source[parts] = b
                parts += 1
            while x >= 0:
                into[parts] = target
                source[parts] = x
                parts += 1
                x = np.int64(following[x])
        n += 1
    return kept, n, made, parts
