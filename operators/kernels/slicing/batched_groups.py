# pyright: reportMissingParameterType=false
"""Compiled road of a page with the promises in it, for slices that are vectors of few groups: see `batched`.

The caller does behind the call what is listed here: add each tuple to its slot, combine the blocks `into` and `source`
in order, read the results, clear their blocks and those that are `gone`, which are used again in a later call only.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing import batched
from operators.kernels.slicing import place as slicer
from operators.kernels.slicing import release as releasing
from operators.kernels.slicing import settle as settling
from operators.kernels.slicing import vectors as vectoring
from operators.kernels.ticks import FAR

TUPLE, PROMISE, RESULTS, PAIRS, GONE, CELLS_GONE, NEXT, PEAK = 0, 1, 2, 3, 4, 5, 6, 7
HEARD, BEGUN, BEHIND, LOCATED, MADE, AT, LISTED, FOLLOWING, ENDING, MARKS = 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
"""Places of `marks`: tuples placed and promises heard so far, lengths of the lists, first places of `order` that are to
be given up, the least end of the windows that are not given, and the most groups held in slices; the bound now, the
least begin of these windows, the first tuple that may be behind the bound, or -1; tuples whose slot is known, blocks of
results; of the windows that a promise completes the next one to be listed, and how many were found (-1: none was looked
for), the least begin and the least end of those that follow; and how many places there are."""
PLACE, WID, OPEN, CLOSE, FIRST, ROWS = 0, 1, 2, 3, 4, 5
"""Rows of `windows`, and the first four of `found`: place of the window, window-id, begin, end, and its first cell."""
DONE, LATE, ROOM, BLOCKS = batched.DONE, batched.LATE, batched.ROOM, -9
"""Why a call ends, besides those of the slicer: as for `batched`, or there is no block for a group of a new slice."""


@kernel
def advance_grouped(
    ticks, valid, groups, positions, promised, marks, cells, order, nexts, edges, bands, links, times, sessions, chains,
    bounds, dues, ledger, unions, table, slices, banded, upcoming, ahead, grid, scale, live, begins, vectors, bits,
    left, spare, counts, slots, fresh, windows, found, members, made, into, source, over, joined, gone, nothing,
):  # fmt: skip
    """Place tuples, and hear `promised[j]` behind the first `positions[j]` of them; gives why it ended.

    It goes on where `marks` says, as `batched.advance` does. The blocks of results are those behind all others.
    """
    i, j, why = marks[TUPLE], marks[PROMISE], np.int64(DONE)
    r, p, g = np.int64(0), np.int64(0), np.int64(0)
    block = np.int64(len(bits))
    cells_gone = np.int64(0)
    ledger[slicer.MERGED], marks[BEHIND] = 0, -1
    while True:
        stop = positions[j] if j < len(positions) else np.int64(len(ticks))
        if i < stop and marks[LISTED] < 0:
            if p + g > 0 and batched.least(ticks, valid, i, stop) < ledger[slicer.BOUND]:
                # They may still change slices of which results are listed that were complete before they came.
                why = np.int64(LATE)
                break
            ledger[slicer.BOTTOM] = FAR
            begun = i
            i, why = slicer.place_single(
                ticks[:stop], valid[:stop], cells, order, nexts, edges, bands, links, times, sessions, chains, bounds,
                dues, ledger, unions, table, slices, i,
            )  # fmt: skip
            if ledger[slicer.BOTTOM] < ledger[slicer.BOUND]:
                marks[BEHIND] = begun
                why = np.int64(LATE) if why == DONE else why
        if marks[LOCATED] < i:
            marks[LOCATED], _ = vectoring.locate(
                slices[:i], groups[:i], vectors, bits, spare, counts, slots, fresh, marks[LOCATED]
            )
            if marks[LOCATED] < i:
                why = np.int64(BLOCKS)
        if why != DONE or j == len(positions):
            break
        bound = promised[j]
        if marks[LISTED] < 0 and bound < marks[NEXT]:
            ledger[slicer.BOUND] = bound
            j += 1
            continue
        m = releasing.occupied(cells, order, ledger[slicer.CELLS], live, begins)
        if marks[LISTED] < 0:
            marks[PEAK] = max(marks[PEAK], counts[vectoring.MEMBERS])
            marks[AT] = marks[LISTED] = windows.shape[1]
        while marks[AT] < marks[LISTED] or marks[LISTED] == windows.shape[1]:
            if marks[AT] == marks[LISTED]:
                marks[AT] = 0
                marks[LISTED], marks[FOLLOWING], marks[ENDING] = releasing.complete(
                    bands, banded, upcoming, ahead, bound, begins, m, grid, scale, 0, nothing, windows[PLACE],
                    windows[WID], windows[OPEN], windows[CLOSE], windows[FIRST], nothing,
                )  # fmt: skip
                continue
            window = windows[:, marks[AT]]
            last = window[FIRST]
            while last < m and begins[last] < window[CLOSE]:
                last += 1
            room = vectors.shape[1]
            full = 64 * (block - len(bits) + room) > len(members)
            if full or p + room * (last - window[FIRST]) > len(into):
                why = np.int64(ROOM)
                break
            first = r
            r, p, block = _list(
                live[window[FIRST] : last], cells, vectors, bits, r, p, block, members, made, into, source
            )
            for q in range(first, r):
                found[PLACE, q], found[WID, q] = window[PLACE], window[WID]
                found[OPEN, q], found[CLOSE, q] = window[OPEN], window[CLOSE]
            marks[AT] += 1
        if why != DONE:
            break
        # Each slice may be joined to the one before it.
        if p + vectors.shape[1] * ledger[slicer.SLICES] > len(into):
            why = np.int64(ROOM)
            break
        begin, end = marks[FOLLOWING], marks[ENDING]
        ledger[slicer.BOUND], ledger[slicer.LOW], marks[NEXT], marks[LISTED] = bound, begin, end, -1
        dropped, pairs, given_up = settling.settle(
            bound, begin, True, cells, order, links, times, chains, ledger, over, joined[0], joined[1]
        )
        for q in range(dropped):
            g = _clear(vectors[over[q]], bits, left, counts, gone, g)
        for q in range(pairs):
            p, g = _join(vectors[joined[0, q]], vectors[joined[1, q]], bits, counts, into, source, gone, p, g)
        settling.stock(over[:dropped], links, ledger)
        settling.stock(joined[1, :pairs], links, ledger)
        order = order[given_up:]
        cells_gone += given_up
        j += 1
    for q in range(g):
        spare[counts[vectoring.SPARES]] = gone[q]
        counts[vectoring.SPARES] += 1
    marks[TUPLE], marks[PROMISE], marks[RESULTS], marks[PAIRS] = i, j, r, p
    marks[GONE], marks[CELLS_GONE] = g, cells_gone
    marks[HEARD], marks[BEGUN] = ledger[slicer.BOUND], ledger[slicer.LOW]
    marks[MADE] = block - len(bits)
    return why


@kernel
def _list(live, cells, vectors, bits, r, p, made_block, members, made, into, source):
    """List the groups that these cells have, from result r on, in new blocks, and what these are combined from.

    Gives how many results, pairs and blocks there are then.
    """
    for k in range(vectors.shape[1]):
        present = np.uint64(0)
        for c in live:
            block = vectors[cells[c, slicer.HEAD], k]
            if block >= 0:
                present |= bits[block]
                into[p], source[p] = made_block, block
                p += 1
        if present == np.uint64(0):
            continue
        for j in range(64):
            # Written in any case: which groups there are is too hard to guess.
            members[r], made[r] = 64 * k + j, 64 * made_block + j
            r += np.int64((present >> np.uint64(j)) & np.uint64(1))
        made_block += 1
    return r, p, made_block


@kernel
def _clear(row, bits, left, counts, gone, g):
    """Empty a vector: its blocks are listed from gone[g] on, its groups are marked; gives how many are listed then."""
    for k in range(len(row)):
        if row[k] >= 0:
            held = bits[row[k]]
            left[k] |= held
            counts[vectoring.MEMBERS] -= vectoring.count(held)
            gone[g] = row[k]
            g += 1
            row[k] = -1
    return g


@kernel
def _join(row, other, bits, counts, into, source, gone, p, g):
    """Add one vector to another, and empty it; gives how many pairs and blocks are listed then."""
    for k in range(len(row)):
        block, to = np.int64(other[k]), np.int64(row[k])
        other[k] = -1
        if block < 0:
            continue
        if to < 0:
            row[k] = block
            continue
        held = bits[block]
        counts[vectoring.MEMBERS] -= vectoring.count(held & bits[to])
        bits[to] |= held
        into[p], source[p] = to, block
        p += 1
        gone[g] = block
        g += 1
    return p, g
