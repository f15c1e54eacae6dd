# pyright: reportMissingParameterType=false
"""Compiled stream slicer: edges cut time into cells, and each tuple finds its cell and, in it, its slice.

A cell [begin, end) lies between two consecutive edges of context-free windows. A slice is a maximal run of tuples of
one group in one cell whose distances are below the smallest session gap; without sessions it is all of them. Cells
stand in `cells` by number and in `order` by time; slices stand in `links` (and `times`, when there are sessions) by
slot, doubly chained by group in order of time and by cell in no order.

The columns are named in `layout`; `bands` are the context-free windows, `edges` the edges of these up to some horizon
in order of time, `nexts` the first edge beyond it of each of their two sequences, `sessions` the gaps, `ledger` what
holds for all tuples of a call and what is counted.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *
from operators.kernels.ticks import FAR, LIMIT

FULL = -3
ASK = -4
SPENT = -5
STRETCH, STEP = np.int64(256), np.int64(32)
"""Tuples that are looked at together, where it may pay."""


@kernel
def rise(heap, i, tick, ref):
    """Put an entry in the place i, or above it where larger ones are."""
    while i > 0:
        parent = (i - 1) // 2
        if heap[parent, 0] <= tick:
            break
        heap[i, 0] = heap[parent, 0]
        heap[i, 1] = heap[parent, 1]
        i = parent
    heap[i, 0] = tick
    heap[i, 1] = ref


@kernel
def _until(tick, bands):
    """Return the end of the last window that begins at a tick, -FAR when none does."""
    until = -FAR
    if tick <= -FAR:
        return until
    for i in range(len(bands)):
        size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
        w = (tick - origin + size) // slide - 1
        if origin + (w + 1) * slide - size == tick and bands[i, LEAST] <= w <= bands[i, MOST]:
            until = max(until, tick + size)
    return until


@kernel
def cut(t, bands):
    """Return the cell around a tick by division: begin, end, until, and whether a window covers it."""
    begin = -FAR
    end = FAR
    covered = False
    for i in range(len(bands)):
        size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
        least, most = bands[i, LEAST], bands[i, MOST]
        # The last window that begins at or before t, and the one after it.
        w = (t - origin + size) // slide - 1
        if min(w, most) >= least:
            begin = max(begin, origin + (min(w, most) + 1) * slide - size)
        if max(w + 1, least) <= most:
            end = min(end, origin + (max(w + 1, least) + 1) * slide - size)
        # The last window that ends at or before t, and the one after it.
        w = (t - origin) // slide - 1
        if min(w, most) >= least:
            begin = max(begin, origin + (min(w, most) + 1) * slide)
        w = max(w + 1, least)
        if w <= most:
            stop = origin + (w + 1) * slide
            end = min(end, stop)
            if stop - size <= t:
                covered = True
    return begin, end, _until(begin, bands), covered


@kernel
def _list(bands, nexts, edges, ledger):
    """List the edges of the next stretch of time in order, each once; none when there is none at all.

    They are dealt to equal parts of the stretch and put in order there: some steps an edge, however many windows.
    """
    ledger[EDGE] = 0
    ledger[EDGES] = 0
    first = FAR
    for i in range(len(nexts)):
        first = min(first, nexts[i])
    if first >= FAR:
        return
    stop = first + ledger[DEPTH]
    shift = np.int64(0)
    while (ledger[DEPTH] >> shift) + 2 > edges.shape[1]:
        shift += 1
    parts = (ledger[DEPTH] >> shift) + 2
    for part in range(parts):
        edges[PART, part] = 0
    n = np.int64(0)
    for i in range(len(nexts)):
        tick = nexts[i]
        if tick >= stop:
            continue
        starts = i % 2 == 0
        size, slide, most = bands[i // 2, RANGE], bands[i // 2, SLIDE], bands[i // 2, MOST]
        last = FAR
        if most < LIMIT:
            last = bands[i // 2, ORIGIN] + (most + 1) * slide - (size if starts else 0)
        while tick < stop and tick <= last:
            edges[FOUND, n] = tick
            edges[THEN, n] = tick + size if starts else -FAR
            edges[PART, ((tick - first) >> shift) + 1] += 1
            n += 1
            tick += slide
        nexts[i] = tick if tick <= last else FAR
    for part in range(1, parts):
        edges[PART, part] += edges[PART, part - 1]
    for i in range(n):
        part = (edges[FOUND, i] - first) >> shift
        at = edges[PART, part]
        edges[PART, part] += 1
        edges[TICK, at] = edges[FOUND, i]
        edges[LASTS, at] = edges[THEN, i]
    # Within a part they are in no order yet.
    m = np.int64(0)
    for i in range(n):
        tick, lasts = edges[TICK, i], edges[LASTS, i]
        j = m
        while j > 0 and edges[TICK, j - 1] > tick:
            j -= 1
        if j > 0 and edges[TICK, j - 1] == tick:
            edges[LASTS, j - 1] = max(edges[LASTS, j - 1], lasts)
            continue
        for k in range(m, j, -1):
            edges[TICK, k] = edges[TICK, k - 1]
            edges[LASTS, k] = edges[LASTS, k - 1]
        edges[TICK, j] = tick
        edges[LASTS, j] = lasts
        m += 1
    ledger[EDGES] = m


@kernel
def _aim(t, bands, nexts, edges, ledger):
    """List the edges after t."""
    for i in range(len(bands)):
        size, slide, origin = bands[i, RANGE], bands[i, SLIDE], bands[i, ORIGIN]
        w = max((t - origin + size) // slide, bands[i, LEAST])
        nexts[2 * i] = origin + (w + 1) * slide - size if w <= bands[i, MOST] else FAR
        w = max((t - origin) // slide, bands[i, LEAST])
        # Where every end is the start of another window, the starts alone are the edges.
        ends = w <= bands[i, MOST] and (size % slide != 0 or bands[i, MOST] < LIMIT)
        nexts[2 * i + 1] = origin + (w + 1) * slide if ends else FAR
    _list(bands, nexts, edges, ledger)


@kernel
def _edge(edges, ledger):
    """Return the next edge of those listed, FAR when there is none."""
    return edges[TICK, ledger[EDGE]] if ledger[EDGE] < ledger[EDGES] else FAR


@kernel
def _cross(bands, nexts, edges, ledger):
    """Go on to the edge after the next one; gives until when windows last that begin at the one that is crossed."""
    until = edges[LASTS, ledger[EDGE]]
    ledger[EDGE] += 1
    if ledger[EDGE] == ledger[EDGES]:
        _list(bands, nexts, edges, ledger)
    return until


@kernel
def _add_cell(at, begin, end, until, nobody, cells, order, ledger):
    """Enter a cell at a position of the order, which has room."""
    if at > 0 and cells[order[at - 1, NUMBER], END] > begin:
        # An edge that only a removed window had still ends a cell.
        begin = cells[order[at - 1, NUMBER], END]
        until = -FAR
    if at < ledger[CELLS]:
        end = min(end, order[at, START])
    c = ledger[CELLS_FREE]
    if c >= 0:
        ledger[CELLS_FREE] = cells[c, HEAD]
    else:
        c = ledger[CELLS_MADE]
        ledger[CELLS_MADE] += 1
    cells[c, BEGIN] = begin
    cells[c, END] = end
    cells[c, UNTIL] = until
    cells[c, HEAD] = NOBODY if nobody else -1
    cells[c, SIZE] = 0
    for k in range(ledger[CELLS], at, -1):
        order[k, START] = order[k - 1, START]
        order[k, NUMBER] = order[k - 1, NUMBER]
    order[at, START] = begin
    order[at, NUMBER] = c
    ledger[CELLS] += 1


@kernel
def position(t, order, n):
    """Return the last of the first n places whose begin is at or before a tick, -1 when there is none."""
    low = np.int64(0)
    high = np.int64(n)
    while low < high:
        middle = (low + high) // 2
        if order[middle, START] <= t:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def with_order(memory, order):
    """Return the memory with another table of places."""
    return (
        memory[OF_CELLS], order, memory[OF_LINKS], memory[OF_TIMES], memory[OF_CHAINS], memory[OF_BOUNDS],
        memory[OF_DUES], memory[OF_LEDGER], memory[OF_UNIONS], memory[OF_TABLE],
    )  # fmt: skip


@kernel
def insert_cell(t, begin, end, until, nobody, cells, order, ledger):
    """Enter a cell around a tick that was cut elsewhere, as far as the cells that are known leave room.

    These may be narrower, where a window was removed since.
    """
    _add_cell(position(t, order, ledger[CELLS]) + 1, begin, end, until, nobody, cells, order, ledger)


@kernel
def _reach(t, cells, order, ledger, windows):
    """Return the position of the cell that a tick is in, cut when it is new; FULL without room, ASK to be told."""
    bands, nexts, edges = windows[OF_BANDS], windows[OF_NEXTS], windows[OF_EDGES]
    n = ledger[CELLS]
    k = n - 1 if n > 0 and order[n - 1, START] <= t else position(t, order, n)
    if k >= 0 and t < cells[order[k, NUMBER], END]:
        return k
    if n >= len(order) or (ledger[CELLS_FREE] < 0 and ledger[CELLS_MADE] >= len(cells)):
        return np.int64(FULL)
    if ledger[ASKED] != 0:
        return np.int64(ASK)
    if ledger[EDGES] > 0 and t >= _edge(edges, ledger) and ledger[GAPPY] == 0:
        # Walk on from edge to edge and enter the cells on the way, unless they are too many.
        for _ in range(2 * len(bands) + 16):
            begin = _edge(edges, ledger)
            until = _cross(bands, nexts, edges, ledger)
            end = _edge(edges, ledger)
            _add_cell(ledger[CELLS], begin, end, until, False, cells, order, ledger)
            if t < end:
                return ledger[CELLS] - 1
            if ledger[CELLS] >= len(order) or (ledger[CELLS_FREE] < 0 and ledger[CELLS_MADE] >= len(cells)):
                return np.int64(FULL)
    ahead = ledger[EDGES] < 0 or t >= _edge(edges, ledger)
    begin, end, until, covered = cut(t, bands)
    if ahead:
        # Cells that are known lie before the next edge listed, so that cells are appended when it is crossed.
        _aim(t if n == 0 else max(t, cells[order[n - 1, NUMBER], END] - 1), bands, nexts, edges, ledger)
    at = position(t, order, ledger[CELLS]) + 1
    _add_cell(at, begin, end, until, ledger[GAPPY] != 0 and not covered, cells, order, ledger)
    return at


@kernel
def unlink(slot, cells, links, chains):
    """Take a slice out of the chains of its group and of its cell."""
    g = links[slot, GROUP]
    older, newer = links[slot, OLDER], links[slot, NEWER]
    if older >= 0:
        links[older, NEWER] = newer
    else:
        chains[g, OLDEST] = newer
    if newer >= 0:
        links[newer, OLDER] = older
    else:
        chains[g, NEWEST] = older
        chains[g, IN_CELL] = links[older, CELL] if older >= 0 else -1
    unchain(slot, cells, links)


@kernel
def unchain(slot, cells, links):
    """Take a slice out of the chain of its cell."""
    c = links[slot, CELL]
    following, before = links[slot, NEXT], links[slot, PREVIOUS]
    if following >= 0:
        links[following, PREVIOUS] = before
    if before >= 0:
        links[before, NEXT] = following
    else:
        cells[c, HEAD] = following
    cells[c, SIZE] -= 1


@kernel
def _released(t, g, before, after, times, sessions, bounds, ledger):
    """Return the bits of the session windows to which a tick of a group comes too late, or does not count."""
    bound = max(ledger[BOUND], bounds[g, OWN])
    if t >= bound and t >= ledger[JOINED]:
        return np.int64(0)
    bits = np.int64(0)
    for j in range(len(sessions)):
        gap, bit = sessions[j, GAP], sessions[j, BIT]
        if t < sessions[j, SINCE]:
            bits |= bit
        elif t + gap <= bound:
            # A session of its own would be over; an open session next to it may still take it.
            open_before = before >= 0 and t - times[before, LAST] < gap and (times[before, DONE] & bit) == 0
            open_after = after >= 0 and times[after, FIRST] - t < gap and (times[after, DONE] & bit) == 0
            if not (open_before or open_after):
                bits |= bit
    return bits


@kernel
def _make(g, links, ledger):
    """Return a slot of the stock to a slice of a group; SPENT when there is none."""
    slot = ledger[STOCK]
    if slot < 0:
        return np.int64(SPENT)
    ledger[STOCK] = links[slot, OLDER]
    ledger[SLICES] += 1
    links[slot, GROUP] = g
    return slot


@kernel
def _append(g, c, cells, links, chains, ledger):
    """Make the newest slice of a group, in an empty cell; SPENT without a slot for it."""
    slot = _make(g, links, ledger)
    if slot == SPENT:
        return slot
    before = chains[g, NEWEST]
    links[slot, OLDER] = before
    links[slot, NEWER] = -1
    if before >= 0:
        links[before, NEWER] = slot
    else:
        chains[g, OLDEST] = slot
    chains[g, NEWEST] = slot
    chains[g, IN_CELL] = c
    links[slot, CELL] = c
    links[slot, NEXT] = -1
    links[slot, PREVIOUS] = -1
    cells[c, HEAD] = slot
    cells[c, SIZE] = 1
    return slot


@kernel
def _covers(t, bands):
    """Return whether a context-free window covers a tick."""
    for i in range(len(bands)):
        w = max((t - bands[i, ORIGIN]) // bands[i, SLIDE], bands[i, LEAST])
        if w <= bands[i, MOST] and bands[i, ORIGIN] + (w + 1) * bands[i, SLIDE] - bands[i, RANGE] <= t:
            return True
    return False


@kernel
def _place(t, g, k, memory, windows):
    """Return the slice for a tick of a group in the cell at position k: one there is, a merged or a new one.

    -1 when the tuple is too late or in no window, SPENT without a slot for a new one. Cases 1.1 to 3 are those of the
    paper's Fig 9, within one cell: a distance equal to the gap separates.
    """
    cells, order, links, times = memory[OF_CELLS], memory[OF_ORDER], memory[OF_LINKS], memory[OF_TIMES]
    chains, bounds, ledger = memory[OF_CHAINS], memory[OF_BOUNDS], memory[OF_LEDGER]
    c = order[k, NUMBER]
    near = ledger[NEAR]
    after = np.int64(-1)
    if ledger[SINGLE] != 0:
        # All slices are of one group, so the cell before leads to its slices without a walk along the group.
        j = k
        while j >= 0 and cells[order[j, NUMBER], HEAD] < 0:
            j -= 1
        before = np.int64(cells[order[j, NUMBER], HEAD]) if j >= 0 else np.int64(-1)
        while before >= 0 and links[before, NEWER] >= 0 and links[links[before, NEWER], CELL] == order[j, NUMBER]:
            before = np.int64(links[before, NEWER])
        after = np.int64(links[before, NEWER]) if before >= 0 else np.int64(chains[g, OLDEST])
    else:
        before = np.int64(chains[g, NEWEST])
        while before >= 0 and links[before, CELL] != c and cells[links[before, CELL], BEGIN] > t:
            after = before
            before = np.int64(links[before, OLDER])
    if near > 0:
        while before >= 0 and links[before, CELL] == c and times[before, FIRST] > t:
            after = before
            before = np.int64(links[before, OLDER])
    here = before >= 0 and links[before, CELL] == c
    bits = np.int64(0)
    if near > 0:
        bits = _released(t, g, before, after, times, windows[OF_SESSIONS], bounds, ledger)
    if t < ledger[BOUND] and t < ledger[LOW] and bits == ledger[ALL]:
        # What is in no window is too late for none.
        ledger[NOWHERE if cells[c, HEAD] == NOBODY else LATE] += 1
        return np.int64(-1)
    if near == 0:
        if here:
            return before
    else:
        if here and t <= times[before, LAST]:
            return before  # Case 1.1
        joins_before = here and t - times[before, LAST] < near and times[before, DONE] == bits
        joins_after = (
            after >= 0 and links[after, CELL] == c and times[after, FIRST] - t < near and times[after, DONE] == bits
        )
        if joins_before and joins_after:  # Case 2
            times[before, LAST] = times[after, LAST]
            unlink(after, cells, links, chains)
            memory[OF_UNIONS][ledger[MERGED], INTO] = before
            memory[OF_UNIONS][ledger[MERGED], SOURCE] = after
            ledger[MERGED] += 1
            ledger[SLICES] -= 1
            return before
        if joins_before:  # Case 1.2
            times[before, LAST] = t
            return before
        if joins_after:  # Case 1.3
            times[after, FIRST] = t
            return after
    alone = near > 0 and bits == ledger[ALL] and ledger[ASKED] == 0
    if cells[c, HEAD] == NOBODY or (alone and not _covers(t, windows[OF_BANDS])):
        ledger[NOWHERE] += 1
        return np.int64(-1)
    slot = _make(g, links, ledger)
    if slot == SPENT:
        return slot
    links[slot, CELL] = c
    links[slot, OLDER] = before
    links[slot, NEWER] = after
    if before >= 0:
        links[before, NEWER] = slot
    else:
        chains[g, OLDEST] = slot
    if after >= 0:
        links[after, OLDER] = slot
    else:
        chains[g, NEWEST] = slot
        chains[g, IN_CELL] = c
    chain(slot, c, cells, links)
    if near > 0:  # Case 3
        times[slot, FIRST] = t
        times[slot, LAST] = t
        times[slot, DONE] = bits
        if bits != ledger[ALL] and t + near < bounds[g, DUE]:
            bounds[g, DUE] = t + near
            rise(memory[OF_DUES], ledger[DUES], bounds[g, DUE], g)
            ledger[DUES] += 1
    return slot


@kernel
def chain(slot, c, cells, links):
    """Put a slice at the head of its cell."""
    following = max(cells[c, HEAD], -1)
    links[slot, CELL] = c
    links[slot, NEXT] = following
    links[slot, PREVIOUS] = -1
    if following >= 0:
        links[following, PREVIOUS] = slot
    cells[c, HEAD] = slot
    cells[c, SIZE] += 1


@kernel
def _span(ticks, valid, start, quanta, ledger):
    """Return (least tick, shift) such that (tick - least) >> shift < quanta for all ticks; shift -1 if none is."""
    least = LIMIT
    most = -LIMIT
    if len(valid) == 0:
        for i in range(start, len(ticks)):
            least = min(least, ticks[i])
            most = max(most, ticks[i])
    else:
        for i in range(start, len(ticks)):
            if valid[i]:
                least = min(least, ticks[i])
                most = max(most, ticks[i])
    ledger[BOTTOM] = min(ledger[BOTTOM], least)
    if least <= -LIMIT or most >= LIMIT:
        for i in range(start, len(ticks)):
            if (len(valid) == 0 or valid[i]) and -LIMIT < ticks[i] < LIMIT:
                ledger[TOP] = max(ledger[TOP], ticks[i])
        return least, np.int64(-1)
    ledger[TOP] = max(ledger[TOP], most)
    shift = np.int64(0)
    while (most - least) >> shift >= quanta:
        shift += 1
    return least, shift if len(ticks) - start >= 64 else np.int64(-1)


@kernel
def _remember(table, base, shift, low, high, what):
    """Enter what is known of the ticks [low, high) for the quanta that lie in them as a whole."""
    start = max(low - base + (np.int64(1) << shift) - 1, np.int64(0)) >> shift
    stop = min(max(high - base, np.int64(0)) >> shift, np.int64(len(table)))
    for q in range(start, stop):
        table[q] = what


@kernel
def _within(ticks, start, stop, low, high):
    """Return whether ticks[start:stop] are in [low, high)."""
    least, most = ticks[start], ticks[start]
    for i in range(start, stop):
        least = min(least, ticks[i])
        most = max(most, ticks[i])
    return low <= least and most < high


@kernel
def _remembered(ticks, start, stop, base, shift, table, slots):
    """Write the slices that are remembered for ticks[start:stop]; gives whether there is one for each.

    An index that is cast to uint64 spares the loop the case of a negative one.
    """
    lowest = np.int32(0)
    for i in range(start, stop):
        known = table[np.uint64((ticks[np.uint64(i)] - base) >> shift)]
        slots[np.uint64(i)] = known
        lowest = min(lowest, known)
    return lowest >= 0


@kernel
def _known(ticks, start, stop, base, shift, table, times, slots):
    """Put ticks[start:stop] into the slices that are remembered for them; False when there is one without.

    Where the least and the greatest tick have widened their slices, all others lie within theirs, as a rule: to look
    costs less than to widen for each tick, which would wait for the tick before it to be written.
    """
    if not _remembered(ticks, start, stop, base, shift, table, slots):
        return False
    least, most = ticks[start], ticks[start]
    for i in range(start, stop):
        least = min(least, ticks[np.uint64(i)])
        most = max(most, ticks[np.uint64(i)])
    for t in (least, most):
        slot = table[(t - base) >> shift]
        times[slot, FIRST] = min(times[slot, FIRST], t)
        times[slot, LAST] = max(times[slot, LAST], t)
    beyond = 0
    for i in range(start, stop):
        t, known = ticks[np.uint64(i)], np.uint64(slots[np.uint64(i)])
        beyond += t < times[known, np.uint64(FIRST)]
        beyond += t > times[known, np.uint64(LAST)]
    if beyond:
        for i in range(start, stop):
            times[slots[i], FIRST] = min(times[slots[i], FIRST], ticks[i])
            times[slots[i], LAST] = max(times[slots[i], LAST], ticks[i])
    return True


@kernel
def rising(ticks, start):
    """Return whether ticks from `start` on never fall, in stretches, so that what is out of order is soon found."""
    last = np.int64(len(ticks)) - 1
    i = np.int64(start)
    while i < last:
        stop = min(i + STRETCH, last)
        before, after = ticks[i:stop], ticks[i + 1 : stop + 1]
        falls = False
        for j in range(len(before)):
            falls |= after[j] < before[j]
        if falls:
            return False
        i = stop
    return True


@kernel
def first_from(ticks, i, tick):
    """Return the first place from i on, of ticks that never fall, with `tick` or a later one.

    It is looked for around where it would be were they evenly spread: a few steps where they nearly are.
    """
    n = np.int64(len(ticks))
    if i >= n or ticks[n - 1] < tick:
        return n
    if ticks[i] >= tick:
        return np.int64(i)
    # What is at `low` is before the tick, and what is at `high` is not.
    low, high = np.int64(i), n - 1
    share = np.float64(tick - ticks[low]) / np.float64(ticks[high] - ticks[low])
    middle = low + max(np.int64(1), np.int64(share * np.float64(high - low)))
    for _ in range(2):
        if ticks[middle] < tick:
            middle += 1
        elif ticks[middle - 1] >= tick:
            middle -= 1
        else:
            return middle
    step = np.int64(2)
    if ticks[middle] < tick:
        low = middle
        while low + step < high and ticks[low + step] < tick:
            low += step
            step *= 2
        high = min(low + step, high)
    else:
        high = middle
        while high - step > low and ticks[high - step] >= tick:
            high -= step
            step *= 2
        low = max(high - step, low)
    while high - low > 1:
        middle = (low + high) >> 1
        if ticks[middle] < tick:
            low = middle
        else:
            high = middle
    return high


@kernel
def _place_rising(ticks, memory, windows, slots, start):
    """Do as `place_single` does for usable ticks that never fall, without sessions: a cell has them side by side."""
    cells, order, links = memory[OF_CELLS], memory[OF_ORDER], memory[OF_LINKS]
    chains, ledger = memory[OF_CHAINS], memory[OF_LEDGER]
    n = np.int64(len(ticks))
    ledger[BOTTOM] = min(ledger[BOTTOM], ticks[start])
    ledger[TOP] = max(ledger[TOP], ticks[n - 1])
    floor = ledger[BOUND]
    i = np.int64(start)
    while i < n:
        t = ticks[i]
        k = _reach(t, cells, order, ledger, windows)
        if k < 0:
            return i, k
        c = order[k, NUMBER]
        slot = np.int64(cells[c, HEAD])
        if slot < 0 or t < floor:
            if slot == -1 and t >= floor and k == ledger[CELLS] - 1:
                slot = _append(np.int64(0), c, cells, links, chains, ledger)
            else:
                slot = _place(t, np.int64(0), k, memory, windows)
            if slot == SPENT:
                return i, slot
        stop = first_from(ticks, i + 1, cells[c, END]) if slot >= 0 else i + 1
        slots[i:stop] = slot
        i = stop
    return i, np.int64(0)


@kernel
def place_single(ticks, valid, memory, windows, slots, start):
    """Write the slot of each tuple from `start` on, all of one group; -1 for what is in no open window.

    Stops early without room for a cell (FULL) or a slot for a slice (SPENT), or when a cell is to be told (ASK); gives
    the number of tuples done, and why.
    What the ticks of a quantum of time have in common is remembered in `table`, so most tuples cost one look-up there.
    """
    cells, order, links, times = memory[OF_CELLS], memory[OF_ORDER], memory[OF_LINKS], memory[OF_TIMES]
    chains, ledger, table = memory[OF_CHAINS], memory[OF_LEDGER], memory[OF_TABLE]
    n = np.int64(len(ticks))
    near = ledger[NEAR]
    checked = len(valid) > 0
    usable = not checked and start < n and ticks[start] > -LIMIT and ticks[n - 1] < LIMIT
    if near == 0 and usable and rising(ticks, start):
        return _place_rising(ticks, memory, windows, slots, start)
    floor = max(ledger[BOUND], ledger[JOINED]) if near > 0 else ledger[BOUND]
    base, shift = _span(ticks, valid, start, len(table), ledger)
    quick = shift >= 0
    if quick:
        table[:] = -1
    low, high, slot = np.int64(0), np.int64(0), np.int64(-1)
    i = start
    again = np.int64(start)
    while i < n:
        if near == 0 and i >= again and not checked:
            # Mostly in order, a stretch of tuples is in one slice, which its extremes tell; if not, look later again.
            begin = i
            while n - i >= STRETCH and low < high and _within(ticks, i, i + STRETCH, low, high):
                slots[i : i + STRETCH] = slot
                i += STRETCH
            while n - i >= STEP and low < high and _within(ticks, i, i + STEP, low, high):
                slots[i : i + STEP] = slot
                i += STEP
            if i == begin:
                again = i + STRETCH
                while quick and n - i >= STRETCH and _remembered(ticks, i, i + STRETCH, base, shift, table, slots):
                    i += STRETCH
        if quick and near == 0:
            stop = min(n, again) if not checked else n
            while i < stop and not (checked and not valid[i]):
                known = table[(ticks[i] - base) >> shift]
                if known == -1:
                    break
                slots[i] = known
                i += 1
            if i == stop and i < n:
                continue
        elif quick:
            if i >= again and not checked:
                begin = i
                while n - i >= STRETCH and _known(ticks, i, i + STRETCH, base, shift, table, times, slots):
                    i += STRETCH
                if i == begin:
                    again = i + STRETCH
            stop = min(n, again) if again > i else n
            while i < stop and not (checked and not valid[i]):
                t = ticks[i]
                known = table[(t - base) >> shift]
                if known < 0:
                    break
                # Written in any case: whether a tuple is late is too hard to guess.
                times[known, FIRST] = min(times[known, FIRST], t)
                times[known, LAST] = max(times[known, LAST], t)
                slots[i] = known
                i += 1
            if i == stop and i < n:
                continue
        if i == n:
            break
        t = ticks[i]
        if (checked and not valid[i]) or t >= LIMIT or t <= -LIMIT:
            ledger[UNUSABLE] += 1
            slots[i] = -1
        elif low <= t < high:
            if near > 0:
                times[slot, FIRST] = min(times[slot, FIRST], t)
                times[slot, LAST] = max(times[slot, LAST], t)
            slots[i] = slot
        else:
            k = _reach(t, cells, order, ledger, windows)
            if k < 0:
                return i, k
            before = ledger[SLICES]
            merged = ledger[MERGED]
            c = order[k, NUMBER]
            if near == 0 and cells[c, HEAD] >= 0 and t >= floor:
                slot = cells[c, HEAD]
            elif near == 0 and cells[c, HEAD] == -1 and t >= floor and k == ledger[CELLS] - 1:
                slot = _append(np.int64(0), c, cells, links, chains, ledger)
            else:
                slot = _place(t, np.int64(0), k, memory, windows)
            if slot == SPENT:
                return i, slot
            slots[i] = slot
            low, high = t, t
            if slot >= 0 and near == 0:
                low, high = max(cells[c, BEGIN], floor), cells[c, END]
            elif slot >= 0:
                alone = cells[c, SIZE] == 1
                if quick and (ledger[MERGED] != merged or (not alone and ledger[SLICES] != before)):
                    # What was remembered of a slice may reach too far now that it has a neighbour, or is another.
                    table[:] = -1
                if times[slot, DONE] == 0:
                    low, high = times[slot, FIRST], times[slot, LAST] + 1
                    # It may grow on a side where the cell has no other slice, with which it might have to merge.
                    older, newer = links[slot, OLDER], links[slot, NEWER]
                    if older < 0 or links[older, CELL] != c:
                        low = max(cells[c, BEGIN], low - near + 1)
                    if newer < 0 or links[newer, CELL] != c:
                        high = min(cells[c, END], high - 1 + near)
                    low = max(low, floor)
            if quick and low < high:
                _remember(table, base, shift, low, high, slot)
        i += 1
        if near == 0 and not checked:
            stop = min(n, i + STEP)
            while i < stop and low <= ticks[i] < high:
                slots[i] = slot
                i += 1
    return i, np.int64(0)


@kernel
def place_grouped(ticks, valid, groups, memory, windows, slots, start):
    """Do as `place_single` does with a group for each tuple; `table` remembers cells."""
    cells, order, times, chains = memory[OF_CELLS], memory[OF_ORDER], memory[OF_TIMES], memory[OF_CHAINS]
    bounds, ledger, table = memory[OF_BOUNDS], memory[OF_LEDGER], memory[OF_TABLE]
    n = np.int64(len(ticks))
    near = ledger[NEAR]
    checked = len(valid) > 0
    floor = max(ledger[BOUND], ledger[JOINED])
    base, shift = _span(ticks, valid, start, len(table), ledger)
    quick = shift >= 0
    if quick:
        table[:] = -1
    low, high, c = np.int64(0), np.int64(0), np.int64(-1)
    for i in range(start, n):
        t = ticks[i]
        if (checked and not valid[i]) or t >= LIMIT or t <= -LIMIT:
            ledger[UNUSABLE] += 1
            slots[i] = -1
            continue
        g = groups[i]
        if t < low or t >= high:
            known = np.int64(-1)
            if quick:
                known = np.int64(table[(t - base) >> shift])
            if known >= 0:
                c = known
            else:
                k = _reach(t, cells, order, ledger, windows)
                if k < 0:
                    return np.int64(i), k
                c = np.int64(order[k, NUMBER])
                if quick:
                    _remember(table, base, shift, cells[c, BEGIN], cells[c, END], c)
            low, high = cells[c, BEGIN], cells[c, END]
        if chains[g, IN_CELL] == c:
            slot = chains[g, NEWEST]
            if near == 0:
                slots[i] = slot
                continue
            inside = t >= times[slot, FIRST] and t - times[slot, LAST] < near
            if inside and times[slot, DONE] == 0 and t >= floor and t >= bounds[g, OWN]:
                times[slot, LAST] = max(times[slot, LAST], t)
                slots[i] = slot
                continue
        k = position(t, order, ledger[CELLS])
        made = _place(t, np.int64(g), k, memory, windows)
        if made == SPENT:
            return np.int64(i), made
        slots[i] = made
    return np.int64(n), np.int64(0)


@kernel
def recut(end, bands, cells, order, ledger):
    """Fit the cells to other windows, no new one of which begins up to the largest tick; its cell ends at `end`.

    Cells after the largest tick and those of nobody are empty and vanish. The others get the end of the last window
    that begins with each.
    """
    top = ledger[TOP]
    kept = np.int64(0)
    for k in range(ledger[CELLS]):
        c = order[k, NUMBER]
        if cells[c, BEGIN] > top or cells[c, HEAD] == NOBODY:
            cells[c, HEAD] = ledger[CELLS_FREE]
            ledger[CELLS_FREE] = c
            continue
        if cells[c, END] > top:
            cells[c, END] = end
        cells[c, UNTIL] = _until(cells[c, BEGIN], bands)
        order[kept, START] = order[k, START]
        order[kept, NUMBER] = c
        kept += 1
    ledger[CELLS] = kept
    ledger[EDGES] = -1
