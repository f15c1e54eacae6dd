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
ROWS = 5
"""Rows of the windows that are listed: those of `found` as far as their first cells; of `found` there are four."""
DONE, LATE, ROOM, BLOCKS = batched.DONE, batched.LATE, batched.ROOM, -9
"""Why a call ends, besides those of the slicer: as for `batched`, or there is no block for a group of a new slice."""


@kernel
def advance_grouped(
    ticks, valid, groups, placed, positions, promised, marks, memory, windows, ahead, vectors_of, lists
):  # fmt: skip
    """Place tuples, and hear `promised[j]` behind the first `positions[j]` of them; gives why it ended.

    It goes on where `marks` says, as `batched.advance` does. The blocks of results are those behind all others. For
    each tuple `placed` takes the slice, the slot, and slots that are new. `lists` are room for cells and for windows,
    results, their groups and slots, pairs of blocks, slices that are dropped and pairs of joined ones, and blocks that
    are dropped.
    """
    ledger, cells = memory[slicer.OF_LEDGER], memory[slicer.OF_CELLS]
    vectors, bits, left, spare, counts = vectors_of
    live, due, found, results_of, pairs_of, slices_of, gone = lists
    slices, slots, fresh = placed[0], placed[1], placed[2]
    members, made, into, source = results_of[0], results_of[1], pairs_of[0], pairs_of[1]
    over, joined = slices_of[0], slices_of[1:]
    nothing = marks[:0]
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
            i, why = slicer.place_single(ticks[:stop], valid[:stop], memory, windows, slices, i)
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
        m = releasing.occupied(memory, live)
        begins = live[slicer.START, :m]
        if marks[LISTED] < 0:
            marks[PEAK] = max(marks[PEAK], counts[vectoring.MEMBERS])
            marks[AT] = marks[LISTED] = due.shape[1]
        while marks[AT] < marks[LISTED] or marks[LISTED] == due.shape[1]:
            if marks[AT] == marks[LISTED]:
                marks[AT] = 0
                marks[LISTED], marks[FOLLOWING], marks[ENDING] = releasing.complete(
                    windows[slicer.OF_BANDS], ahead, bound, begins, (gone[:0], nothing), 0, nothing, due, 0,
                    due.shape[1],
                )  # fmt: skip
                continue
            window = due[:, marks[AT]]
            start, last = window[slicer.STARTS], window[slicer.STARTS]
            while last < m and begins[last] < window[slicer.CLOSES]:
                last += 1
            room = vectors.shape[1]
            full = 64 * (block - len(bits) + room) > len(members)
            if full or p + room * (last - start) > len(into):
                why = np.int64(ROOM)
                break
            first = r
            r, p, block = _list(
                live[slicer.NUMBER, start:last], cells, vectors, bits, r, p, block, members, made, into, source
            )
            for q in range(first, r):
                for row in range(slicer.STARTS):
                    found[row, q] = window[row]
            marks[AT] += 1
        if why != DONE:
            break
        # Each slice may be joined to the one before it.
        if p + vectors.shape[1] * ledger[slicer.SLICES] > len(into):
            why = np.int64(ROOM)
            break
        begin, end = marks[FOLLOWING], marks[ENDING]
        ledger[slicer.BOUND], ledger[slicer.LOW], marks[NEXT], marks[LISTED] = bound, begin, end, -1
        dropped, pairs, given_up = settling.settle(bound, begin, True, False, memory, over, joined[0], joined[1])
        for q in range(dropped):
            g = _clear(vectors[over[q]], bits, left, counts, gone, g)
        for q in range(pairs):
            p, g = _join(vectors[joined[0, q]], vectors[joined[1, q]], bits, counts, into, source, gone, p, g)
        settling.stock(over[:dropped], memory[slicer.OF_LINKS], ledger)
        settling.stock(joined[1, :pairs], memory[slicer.OF_LINKS], ledger)
        memory = slicer.with_order(memory, memory[slicer.OF_ORDER][given_up:])
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
