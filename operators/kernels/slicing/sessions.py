# pyright: reportMissingParameterType=false
"""Compiled window manager of sessions: which of them a bound completes or settles, by group.

Columns are those of the stream slicer; `dues` is a heap of (deadline, group). `lists` are filled: slices that are done
with; for each session its window, group, first and last tick; the pairs of what it is combined from, as in `release`.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *
from operators.kernels.slicing.place import rise
from operators.kernels.ticks import FAR


@kernel
def _sessions(g, bound, settled, memory, sessions, fill, results, pairs, n_over, lists):
    """List the sessions of a group that a bound completes, oldest first; without `fill` only counts.

    Those that no tuple may change any more, with their end at or before `settled`, are done with. One that begins less
    than a gap after the first tick that counts may be part of a longer one, and is not listed. Returns (results, pairs,
    slices that no session window needs any more, the next bound that may complete or settle one).
    """
    links, times, chains = memory[OF_LINKS], memory[OF_TIMES], memory[OF_CHAINS]
    all_bits = memory[OF_LEDGER][ALL]
    over, which, groups, firsts, lasts, into, source = lists
    due = FAR
    for j in range(len(sessions)):
        gap, bit = sessions[j, GAP], sessions[j, BIT]
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] & bit:
                slot = np.int64(links[slot, NEWER])
                continue
            last = slot
            length = np.int64(1)
            while True:
                newer = np.int64(links[last, NEWER])
                # What is done for this window already (out of order, after its bound) does not link sessions.
                if newer < 0 or times[newer, FIRST] - times[last, LAST] >= gap or times[newer, DONE] & bit:
                    break
                last = newer
                length += 1
            end = times[last, LAST] + gap
            following = np.int64(links[last, NEWER])
            if end > bound:
                due = min(due, end)
                break
            if end > settled:
                due = min(due, end + (bound - settled))
            if fill:
                whole = times[slot, FIRST] >= sessions[j, SINCE] + (gap - 1)
                if whole:
                    which[results] = j
                    groups[results] = g
                    firsts[results] = times[slot, FIRST]
                    lasts[results] = times[last, LAST]
                one = slot
                for _ in range(length):
                    if whole:
                        into[pairs] = results
                        source[pairs] = one
                        pairs += 1
                    if end <= settled:
                        times[one, DONE] |= bit
                        if times[one, DONE] == all_bits:
                            over[n_over] = one
                            n_over += 1
                    one = np.int64(links[one, NEWER])
                results += np.int64(whole)
            else:
                pairs += length
                results += 1
            slot = following
    return results, pairs, n_over, due


@kernel
def _sink(dues, n):
    """Let the first of n entries sink to its place: the smaller child rises all the way, then the entry from below."""
    if n <= 0:
        return
    tick = dues[0, 0]
    g = dues[0, 1]
    i = np.int64(0)
    child = np.int64(1)
    while child + 1 < n:
        child += np.int64(dues[child + 1, 0] < dues[child, 0])
        dues[i, 0] = dues[child, 0]
        dues[i, 1] = dues[child, 1]
        i = child
        child = 2 * i + 1
    if child < n:
        dues[i, 0] = dues[child, 0]
        dues[i, 1] = dues[child, 1]
        i = child
    rise(dues, i, tick, g)


@kernel
def complete_sessions(bound, settled, memory, sessions, most, lists):
    """List the sessions that a bound completes, of the groups whose deadline it passes.

    `most` is how many pairs there may be in all; with less room than that they are counted first. Returns (results,
    pairs, slices done with, whether all is done); results = -pairs needed when not one group fits.
    """
    bounds, dues, ledger = memory[OF_BOUNDS], memory[OF_DUES], memory[OF_LEDGER]
    over, which, _, _, _, into, _ = lists
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    n_dues = ledger[DUES]
    while n_dues > 0 and dues[0, 0] <= bound:
        g = dues[0, 1]
        if bounds[g, DUE] != dues[0, 0]:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
            _sink(dues, n_dues)
            continue
        if most > len(which):
            more, needed, _, _ = _sessions(g, bound, settled, memory, sessions, False, none, none, none, lists)
            if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
                ledger[DUES] = n_dues
                return results if results > 0 else -max(more, needed), pairs, n_over, False
        results, pairs, n_over, tick = _sessions(
            g, bound, settled, memory, sessions, True, results, pairs, n_over, lists
        )
        bounds[g, DUE] = tick
        if tick < FAR:
            dues[0, 0] = tick
        else:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
        _sink(dues, n_dues)
    ledger[DUES] = n_dues
    return results, pairs, n_over, True


@kernel
def sessions_of(chosen, at, bound, memory, sessions, lists):
    """List the sessions of single groups that a promise on these completes, from `at` on, as far as there is room.

    Returns (groups done, results, pairs, slices done with); results = -pairs needed when not even one group fits.
    """
    over, which, _, _, _, into, _ = lists
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    for i in range(at, len(chosen)):
        g = chosen[i]
        more, needed, _, _ = _sessions(g, bound, bound, memory, sessions, False, none, none, none, lists)
        if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
            return np.int64(i), results if i > at else -max(more, needed), pairs, n_over
        results, pairs, n_over, _ = _sessions(g, bound, bound, memory, sessions, True, results, pairs, n_over, lists)
    return np.int64(len(chosen)), results, pairs, n_over


@kernel
def earliest(memory):
    """Return the first tick of the slices that a session window still needs, over all groups."""
    links, times, chains = memory[OF_LINKS], memory[OF_TIMES], memory[OF_CHAINS]
    all_bits = memory[OF_LEDGER][ALL]
    first = FAR
    for g in range(len(chains)):
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] != all_bits:
                first = min(first, times[slot, FIRST])
                break
            slot = np.int64(links[slot, NEWER])
    return first


@kernel
def begun(memory, firsts):
    """Write the first tick that a session window still needs of each group."""
    links, times, chains = memory[OF_LINKS], memory[OF_TIMES], memory[OF_CHAINS]
    all_bits = memory[OF_LEDGER][ALL]
    for g in range(len(chains)):
        firsts[g] = FAR
        slot = np.int64(chains[g, OLDEST])
        while slot >= 0:
            if times[slot, DONE] != all_bits:
                firsts[g] = times[slot, FIRST]
                break
            slot = np.int64(links[slot, NEWER])


@kernel
def hasten(groups, tick, bounds, dues, n):
    """Let these groups be looked at when a bound reaches a tick; gives the number of deadlines then."""
    for i in range(len(groups)):
        g = np.int64(groups[i])
        if bounds[g, DUE] > tick:
            bounds[g, DUE] = tick
            rise(dues, n, tick, g)
            n += 1
    return n
