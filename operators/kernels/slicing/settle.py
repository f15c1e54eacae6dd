# pyright: reportMissingParameterType=false
"""Compiled slice manager, behind the promise: what no window needs is dropped, edges that no window needs vanish.

Columns are those of the stream slicer.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *
from operators.kernels.slicing.place import chain, unchain, unlink
from operators.kernels.ticks import FAR

DEAD = -FAR - 1
"""The `until` of a cell that no context-free window needs and that has been gone through."""


@kernel
def give_back(slots, links, ledger):
    """Chain slots that are in no chain any more as free, the first of them on top."""
    for i in range(len(slots) - 1, -1, -1):
        links[slots[i], OLDER] = ledger[FREE]
        ledger[FREE] = slots[i]


@kernel
def drop_totals(base, totals, number, links, ledger, out):
    """Drop the running totals before that of slice `number - 1`, and `base`, if there is one (>= 0).

    Their slots are listed in `out`, and free. Returns how many there are.
    """
    n = np.int64(0)
    if base >= 0:
        out[n] = base
        n += 1
    for i in range(number - 1):
        out[n] = totals[i]
        n += 1
    give_back(out[:n], links, ledger)
    return n


@kernel
def stock(slots, links, ledger):
    """Chain slots that are nobody's, and initialised, as those of which slices are made, the first of them on top."""
    for i in range(len(slots) - 1, -1, -1):
        links[slots[i], OLDER] = ledger[STOCK]
        ledger[STOCK] = slots[i]


@kernel
def unstock(links, ledger):
    """Chain what is left of these as free."""
    while ledger[STOCK] >= 0:
        slot = ledger[STOCK]
        ledger[STOCK] = links[slot, OLDER]
        links[slot, OLDER] = ledger[FREE]
        ledger[FREE] = slot


@kernel
def drop_oldest(bound, memory, gone):
    """Drop the cells that end at or before a bound, each with its one slice, if any, of the one group that there is.

    The slots dropped are listed in `gone`, to be initialised: slices to come are made of them. Returns (slots dropped,
    cells gone: the first places of `order` that are to be given up).
    """
    cells, order, links = memory[OF_CELLS], memory[OF_ORDER], memory[OF_LINKS]
    chains, ledger = memory[OF_CHAINS], memory[OF_LEDGER]
    dropped = np.int64(0)
    k = np.int64(0)
    while k < ledger[CELLS] and cells[order[k, NUMBER], END] <= bound:
        c = order[k, NUMBER]
        if cells[c, SIZE] > 0:
            gone[dropped] = cells[c, HEAD]
            dropped += 1
            cells[c, SIZE] = 0
        cells[c, HEAD] = ledger[CELLS_FREE]
        ledger[CELLS_FREE] = c
        k += 1
    ledger[CELLS] -= k
    ledger[SLICES] -= dropped
    if dropped > 0:
        oldest = links[gone[dropped - 1], NEWER]
        chains[0, OLDEST] = oldest
        if oldest >= 0:
            links[oldest, OLDER] = -1
        else:
            chains[0, NEWEST] = -1
            chains[0, IN_CELL] = -1
    stock(gone[:dropped], links, ledger)
    return dropped, k


@kernel
def settle(settled, low, join, ahead, memory, gone, into, source):
    """Drop and join what is before a bound; lists the slots dropped in `gone`, and those joined in `into`, `source`.

    No tuple before `settled` changes anything, and no open context-free window begins before `low`. A cell joins the
    one before it when no open window begins between them: the fewest slices that still tell the windows apart. So does
    the cell that the bound lies in, if `ahead` and there are no sessions and no cells cut elsewhere: then tuples to
    come are added to what they would be joined to. Returns (slots dropped, slots joined, cells gone: so many first
    places of `order` are to be given up).
    """
    cells, order, links, times = memory[OF_CELLS], memory[OF_ORDER], memory[OF_LINKS], memory[OF_TIMES]
    chains, ledger = memory[OF_CHAINS], memory[OF_LEDGER]
    n_gone, pairs = np.int64(0), np.int64(0)
    n = ledger[CELLS]
    near, all_bits = ledger[NEAR], ledger[ALL]
    early = ahead and join and near == 0 and ledger[ASKED] == 0
    kept = np.int64(0)
    stop = n
    for k in range(n):
        c = np.int64(order[k, NUMBER])
        final = cells[c, END] <= settled
        begun = early and not final and cells[c, BEGIN] <= settled and cells[c, HEAD] != NOBODY
        if not (final or begun) or not (join or cells[c, END] <= low):
            # All that follows stays as it is.
            stop = k
            break
        dead = final and cells[c, END] <= low
        if dead and cells[c, UNTIL] != DEAD:
            slot = np.int64(cells[c, HEAD])
            while slot >= 0:
                following = np.int64(links[slot, NEXT])
                if near == 0 or times[slot, DONE] == all_bits:
                    unlink(slot, cells, links, chains)
                    gone[n_gone] = slot
                    n_gone += 1
                slot = following
            cells[c, UNTIL] = DEAD
        vanishes = dead and cells[c, SIZE] == 0
        if not vanishes and join and kept > 0 and cells[c, UNTIL] <= settled:
            p = np.int64(order[kept - 1, NUMBER])
            follows = cells[p, END] == cells[c, BEGIN]
            if follows and begun:
                # Tuples to come must not be lost with what no window needs or covers.
                follows = cells[p, UNTIL] != DEAD and cells[p, HEAD] != NOBODY
            if follows or (dead and cells[p, UNTIL] == DEAD):
                slot = np.int64(cells[c, HEAD])
                while slot >= 0:
                    following = np.int64(links[slot, NEXT])
                    older = np.int64(links[slot, OLDER])
                    g = links[slot, GROUP]
                    if (
                        older >= 0
                        and links[older, CELL] == p
                        and (
                            near == 0
                            or (
                                times[slot, FIRST] - times[older, LAST] < near
                                and times[slot, DONE] == times[older, DONE]
                            )
                        )
                    ):
                        if near > 0:
                            times[older, LAST] = times[slot, LAST]
                        unlink(slot, cells, links, chains)
                        into[pairs] = older
                        source[pairs] = slot
                        pairs += 1
                    else:
                        unchain(slot, cells, links)
                        chain(slot, p, cells, links)
                        if chains[g, NEWEST] == slot:
                            chains[g, IN_CELL] = p
                    slot = following
                cells[p, END] = cells[c, END]
                vanishes = True
        if vanishes:
            cells[c, HEAD] = ledger[CELLS_FREE]
            ledger[CELLS_FREE] = c
        else:
            order[kept, START] = order[k, START]
            order[kept, NUMBER] = c
            kept += 1
    # What is kept moves up to what stays, so that the places given up are the first ones.
    moved = stop - kept
    for k in range(stop - 1, moved - 1, -1):
        order[k, START] = order[k - moved, START]
        order[k, NUMBER] = order[k - moved, NUMBER]
    ledger[CELLS] = n - moved
    ledger[SLICES] -= n_gone + pairs
    return n_gone, pairs, moved


@kernel
def drop_over(over, low, memory, gone):
    """Drop the slices that no session needs any more unless a context-free window does; gives how many were."""
    cells, links, chains, ledger = memory[OF_CELLS], memory[OF_LINKS], memory[OF_CHAINS], memory[OF_LEDGER]
    n = np.int64(0)
    for i in range(len(over)):
        slot = over[i]
        if cells[links[slot, CELL], UNTIL] == DEAD or cells[links[slot, CELL], END] <= low:
            unlink(slot, cells, links, chains)
            gone[n] = slot
            n += 1
    ledger[SLICES] -= n
    return n


@kernel
def drop_groups(which, low, memory, gone):
    """Drop the slices of single groups that lie before `low`, where none of their windows is open, and in no session.

    Returns how many were, listed in `gone`.
    """
    cells, links, times = memory[OF_CELLS], memory[OF_LINKS], memory[OF_TIMES]
    chains, ledger = memory[OF_CHAINS], memory[OF_LEDGER]
    n = np.int64(0)
    for i in range(len(which)):
        slot = np.int64(chains[which[i], OLDEST])
        while slot >= 0 and cells[links[slot, CELL], END] <= low:
            following = np.int64(links[slot, NEWER])
            if ledger[NEAR] == 0 or times[slot, DONE] == ledger[ALL]:
                unlink(slot, cells, links, chains)
                gone[n] = slot
                n += 1
            slot = following
    ledger[SLICES] -= n
    return n


@kernel
def idle(gone, links, chains, out):
    """List the groups of dropped slices that have none left, each once; gives how many there are."""
    n = np.int64(0)
    for i in range(len(gone)):
        g = links[gone[i], GROUP]
        if chains[g, NEWEST] < 0 and chains[g, IN_CELL] != NOBODY:
            chains[g, IN_CELL] = NOBODY
            out[n] = g
            n += 1
    for i in range(n):
        chains[out[i], IN_CELL] = -1
    return n


@kernel
def members(cells, order, n, links, out):
    """List the slices held, cell by cell; gives how many there are."""
    m = np.int64(0)
    for k in range(n):
        slot = np.int64(cells[order[k, NUMBER], HEAD])
        while slot >= 0:
            out[m] = slot
            m += 1
            slot = np.int64(links[slot, NEXT])
    return m
