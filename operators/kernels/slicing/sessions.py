# pyright: reportMissingParameterType=false
"""Compiled window manager of sessions: which of them a bound completes or settles, by group.

Lists are those of `slicing_release`, columns those of the stream slicer; `dues` is a heap of (deadline, group).
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *
from operators.kernels.ticks import FAR


@kernel
def _sessions(
    g, bound, settled, links, times, sessions, all_bits, chains, fill, results, pairs, over, n_over, which, groups,
    firsts, lasts, into, source,
):  # fmt: skip
    """List the sessions of a group that a bound completes, oldest first; without `fill` only counts.

    Those that no tuple may change any more, with their end at or before `settled`, are done with. One that begins less
    than a gap after the first tick that counts may be part of a longer one, and is not listed. Returns (results, pairs,
    slices that no session window needs any more, the next bound that may complete or settle one).
    """
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
    _rise(dues, i, tick, g)


@kernel
def _rise(dues, i, tick, g):
    """Put an entry in the place i, or above it where larger ones are."""
    while i > 0:
        parent = (i - 1) // 2
        if dues[parent, 0] <= tick:
            break
        dues[i, 0] = dues[parent, 0]
        dues[i, 1] = dues[parent, 1]
        i = parent
    dues[i, 0] = tick
    dues[i, 1] = g


@kernel
def complete_sessions(
    bound,
    settled,
    links,
    times,
    sessions,
    all_bits,
    chains,
    bounds,
    dues,
    n_dues,
    most,
    over,
    which,
    groups,
    firsts,
    lasts,
    into,
    source,
):
    """List the sessions that a bound completes, of the groups whose deadline it passes.

    `most` is how many pairs there may be in all; with less room than that they are counted first. Returns (deadlines
    left, results, pairs, slices done with, whether all is done); results = -pairs needed when not one group fits.
    """
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    while n_dues > 0 and dues[0, 0] <= bound:
        g = dues[0, 1]
        if bounds[g, DUE] != dues[0, 0]:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
            _sink(dues, n_dues)
            continue
        if most > len(which):
            more, needed, _, _ = _sessions(
                g, bound, settled, links, times, sessions, all_bits, chains, False, none, none, over, none, which,
                groups, firsts, lasts, into, source,
            )  # fmt: skip
            if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
                if results == 0:
                    return n_dues, -max(more, needed), pairs, n_over, False
                return n_dues, results, pairs, n_over, False
        results, pairs, n_over, tick = _sessions(
            g, bound, settled, links, times, sessions, all_bits, chains, True, results, pairs, over, n_over, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
        bounds[g, DUE] = tick
        if tick < FAR:
            dues[0, 0] = tick
        else:
            n_dues -= 1
            dues[0, 0] = dues[n_dues, 0]
            dues[0, 1] = dues[n_dues, 1]
        _sink(dues, n_dues)
    return n_dues, results, pairs, n_over, True


@kernel
def sessions_of(
    chosen, at, bound, links, times, sessions, all_bits, chains, over, which, groups, firsts, lasts, into, source
):
    """List the sessions of single groups that a promise on these completes, from `at` on, as far as there is room.

    Returns (groups done, results, pairs, slices done with); results = -pairs needed when not even one group fits.
    """
    results, pairs, n_over = np.int64(0), np.int64(0), np.int64(0)
    none = np.int64(0)
    for i in range(at, len(chosen)):
        g = chosen[i]
        more, needed, _, _ = _sessions(
            g, bound, bound, links, times, sessions, all_bits, chains, False, none, none, over, none, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
        if results + more > len(which) or pairs + needed > len(into) or n_over + needed > len(over):
            return np.int64(i), results if i > at else -max(more, needed), pairs, n_over
        results, pairs, n_over, _ = _sessions(
            g, bound, bound, links, times, sessions, all_bits, chains, True, results, pairs, over, n_over, which,
            groups, firsts, lasts, into, source,
        )  # fmt: skip
    return np.int64(len(chosen)), results, pairs, n_over


@kernel
def earliest(links, times, all_bits, chains):
    """Return the first tick of the slices that a session window still needs, over all groups."""
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
def begun(links, times, all_bits, chains, firsts):
    """Write the first tick that a session window still needs of each group."""
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
            _rise(dues, n, tick, g)
            n += 1
    return n
