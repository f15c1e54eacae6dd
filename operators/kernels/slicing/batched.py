# pyright: reportMissingParameterType=false
"""Compiled road of a page with the promises in it: place tuples, complete windows, drop slices, all in one call.

It is for streams without groups whose windows are answered from slices alone. What is to be done with aggregates is
listed for the caller, who does it behind the call, in this order: add each tuple to its slot, combine `unions`, combine
`into` and `source`, read the results, initialise what is `gone`. That is the same as doing it promise by promise: a
slice in a window that a promise completes is final, so no tuple behind the promise is added to it, but for late ones,
before which a call ends; and no slot that was given up is used again before it does.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing import place as slicer
from operators.kernels.slicing import release as releasing
from operators.kernels.slicing import sessions as lasting
from operators.kernels.slicing import settle as settling
from operators.kernels.ticks import FAR

TUPLE, PROMISE, RESULTS, PAIRS, GONE, CELLS_GONE, NEXT, PEAK = 0, 1, 2, 3, 4, 5, 6, 7
HEARD, BEGUN, BASE, UNIONS, BEHIND, EARLIEST, SPANNED, MARKS = 8, 9, 10, 11, 12, 13, 14, 15
"""Places of `marks`: tuples placed and promises heard so far, lengths of the lists, first places of `order` that are to
be given up, the least end of the bands' windows that are not given, and the most slices held; the bound now, the least
begin of these windows, the slot of the first result, the length of `unions`, the first tuple that may be behind the
bound, or -1, the first tick that a session window still needs, how many slices the windows have that were listed, each
counted for each; and how many places there are."""
UNKNOWN = -FAR
"""The first tick of sessions where it was not looked for."""
APPENDED, FREED, GRIDDED, STARVED, BUSY = PAIRS, BASE, HEARD, BEGUN, PROMISE
"""What some places are for where there are running totals: lengths of the lists, what `release` gives besides, and how
many results are of sessions."""
WINDOW, ROWS = slicer.STOPS, 6
"""Rows of `found`: where nothing asks for the last slice of a window, its place has the window of each result; and how
many rows there are."""
DONE, LATE, ROOM, MORE = 0, -6, -7, -8
"""Why a call ends, besides those of the slicer: all is done, tuples came behind the bound, a list has no room, what the
promise completes is not all found."""


@kernel
def advance(ticks, valid, slots, positions, promised, marks, memory, windows, ahead, live, lists):
    """Place tuples, and hear `promised[j]` behind the first `positions[j]` of them; gives why it ended.

    It goes on where `marks` says, so it is called again when its caller has done what is missing. The slots of results
    are those behind all that were ever made. `lists` are results, the group of each, pairs, and slots that are dropped.
    """
    ledger, dues = memory[slicer.OF_LEDGER], memory[slicer.OF_DUES]
    sessions, bands = windows[slicer.OF_SESSIONS], windows[slicer.OF_BANDS]
    found, members, pairs_of, dropped_of = lists
    into, source, over, gone = pairs_of[0], pairs_of[1], dropped_of[0], dropped_of[1]
    nothing, seen = marks[:0], over[:1]
    i, j, why = marks[TUPLE], marks[PROMISE], np.int64(DONE)
    r, p, g = np.int64(0), np.int64(0), np.int64(0)
    # How many cells have a slice; -1 where they are to be listed anew.
    m = np.int64(-1)
    cells_gone = np.int64(0)
    ledger[slicer.MERGED], marks[BEHIND], marks[SPANNED] = 0, -1, 0
    while True:
        stop = positions[j] if j < len(positions) else np.int64(len(ticks))
        if i < stop:
            if p + g > 0 and least(ticks, valid, i, stop) < ledger[slicer.BOUND]:
                # They may still change slices of which results are listed that were complete before they came.
                why = np.int64(LATE)
                break
            ledger[slicer.BOTTOM] = FAR
            begun = i
            i, why = slicer.place_single(ticks[:stop], valid[:stop], memory, windows, slots, i)
            if ledger[slicer.BOTTOM] < ledger[slicer.BOUND]:
                marks[BEHIND] = begun
                why = np.int64(LATE) if why == DONE else why
            if why != DONE:
                break
        if j == len(positions):
            break
        bound = promised[j]
        passed = bound >= marks[NEXT]
        if not passed and (ledger[slicer.DUES] == 0 or dues[0, 0] > bound):
            ledger[slicer.BOUND] = bound
            j += 1
            continue
        held = ledger[slicer.SLICES]
        marks[PEAK] = max(marks[PEAK], held)
        # Each session window may have a session of every slice; joining takes a pair a slice.
        most = held * len(sessions)
        spare = len(into) - p - most - held
        room = min(len(members) - r - most, spare // max(held, 1))
        if room <= 0:
            why = np.int64(ROOM)
            break
        begin, end = FAR, FAR
        if passed:
            if m < 0:
                m = releasing.occupied(memory, live)
            begins = live[slicer.START, :m]
            count, begin, end = releasing.complete(
                bands, ahead, bound, begins, (gone[:0], nothing), 0, nothing, found, r, room
            )
            behind = r + count
            spans = found[slicer.OPENS, r:behind], found[slicer.CLOSES, r:behind], found[slicer.STARTS, r:behind]
            _, _, pairs = releasing.cover(
                spans, 0, live, m, memory, seen, found[WINDOW, r:behind], members[r:], into[p:], source[p:]
            )
            p = _number(into, p, pairs, ledger[slicer.MADE] + r)
            r = behind
            if count == room:
                # There was room for windows of all slices that are held; these had fewer, so that there may be more.
                continue
        else:
            begin, end = releasing.unfinished(bands, bound)
        n_over = np.int64(0)
        if most > 0:
            listed = (
                over, found[slicer.PLACE, r:], members[r:], found[slicer.OPENS, r:], found[slicer.CLOSES, r:], into[p:],
                source[p:],
            )  # fmt: skip
            results, pairs, n_over, _ = lasting.complete_sessions(bound, bound, memory, sessions, most, listed)
            for q in range(r, r + results):
                which = found[slicer.PLACE, q]
                found[slicer.PLACE, q] = sessions[which, slicer.WHICH]
                found[slicer.WID, q] = found[slicer.OPENS, q]
                found[slicer.CLOSES, q] += sessions[which, slicer.GAP]
            p = _number(into, p, pairs, ledger[slicer.MADE] + r)
            r += results
        ledger[slicer.BOUND], ledger[slicer.LOW], marks[NEXT] = bound, begin, end
        g += settling.drop_over(over[:n_over], begin, memory, gone[g:])
        dropped, pairs, given_up = settling.settle(bound, begin, True, False, memory, gone[g:], into[p:], source[p:])
        g += dropped
        for q in range(p, p + pairs):
            gone[g] = source[q]
            g += 1
        p += pairs
        marks[SPANNED] -= pairs
        memory = slicer.with_order(memory, memory[slicer.OF_ORDER][given_up:])
        cells_gone += given_up
        m = np.int64(-1)
        j += 1
    # Their slots are initialised before the next call, which makes slices of them.
    settling.stock(gone[:g], memory[slicer.OF_LINKS], ledger)
    marks[TUPLE], marks[PROMISE], marks[RESULTS], marks[PAIRS] = i, j, r, p
    marks[GONE], marks[CELLS_GONE] = g, cells_gone
    marks[SPANNED] += p
    marks[HEARD], marks[BEGUN] = ledger[slicer.BOUND], ledger[slicer.LOW]
    marks[BASE], marks[UNIONS] = ledger[slicer.MADE], ledger[slicer.MERGED]
    marks[EARLIEST] = UNKNOWN
    if len(sessions) > 0:
        marks[EARLIEST] = lasting.earliest(memory)
    return why


@kernel
def advance_summed(ticks, valid, slots, bound, room, marks, memory, windows, ahead, grid, queue, lists):
    """Do as `advance` does for one promise, or, without `room`, for none, where windows are differences of totals.

    `queue` is that of `release`, and moves on. The caller adds each tuple to its slot, makes the totals of what is
    appended, takes the results as differences of `ends`, and clears the slots that are dropped. There is `room` for the
    results of bands; behind these come those of sessions. `lists` are results, their totals, room for sessions, what is
    appended, and what is dropped: slices, and totals.
    """
    ledger, dues, links = memory[slicer.OF_LEDGER], memory[slicer.OF_DUES], memory[slicer.OF_LINKS]
    sessions, bands = windows[slicer.OF_SESSIONS], windows[slicer.OF_BANDS]
    rows, queued, _ = queue
    found, ends, listed, appended, dropped_of = lists
    members, into, source, over = listed[0], listed[1], listed[2], listed[3]
    gone, freed = dropped_of[0], dropped_of[1]
    ledger[slicer.MERGED] = 0
    for mark in (RESULTS, APPENDED, GONE, FREED, CELLS_GONE, BUSY, UNIONS, SPANNED):
        marks[mark] = 0
    marks[BEHIND] = -1
    i, why = marks[TUPLE], np.int64(DONE)
    if i < len(ticks):
        ledger[slicer.BOTTOM] = FAR
        marks[TUPLE], why = slicer.place_single(ticks, valid, memory, windows, slots, i)
        if ledger[slicer.BOTTOM] < ledger[slicer.BOUND]:
            marks[BEHIND] = i
            why = np.int64(LATE) if why == DONE else why
        marks[UNIONS] = ledger[slicer.MERGED]
        if why != DONE:
            return why
    if room == 0:
        marks[EARLIEST] = UNKNOWN
        return why
    passed = bound >= marks[NEXT]
    if not passed and (ledger[slicer.DUES] == 0 or dues[0, 0] > bound):
        ledger[slicer.BOUND] = bound
        marks[EARLIEST] = UNKNOWN
        return why
    held = ledger[slicer.SLICES]
    marks[PEAK] = max(marks[PEAK], held)
    start, stop = queued[slicer.QUEUE_START], queued[slicer.QUEUE_STOP]
    base = queued[slicer.BASE_TOTAL]
    more = held - (stop - start)
    most = held * len(sessions)
    if stop + more > rows.shape[1] or more > appended.shape[1] or room + most > found.shape[1]:
        return np.int64(ROOM)
    if passed:
        n, gridded, starved, count, begin, end = releasing.release(
            bound, True, memory, grid, queue, bands, ahead, appended, room, found, ends
        )
    else:
        n, gridded, starved = releasing.append(
            bound, True, memory, grid, rows, start, stop, appended[slicer.APPENDED_SLOT],
            appended[slicer.APPENDED_TOTAL],
        )  # fmt: skip
        count = np.int64(0)
        begin, end = releasing.unfinished(bands, bound)
    marks[APPENDED], marks[RESULTS] = n, max(count, 0)
    for q in range(count):
        marks[SPANNED] += found[slicer.STOPS, q] - found[slicer.STARTS, q]
    marks[GRIDDED], marks[STARVED] = gridded, starved
    if starved or not gridded or count == room:
        return np.int64(MORE)
    stop += n
    n_over = np.int64(0)
    if most > 0:
        listing = (
            over, found[slicer.PLACE, count:], members, found[slicer.OPENS, count:], found[slicer.CLOSES, count:], into,
            source,
        )  # fmt: skip
        results, _, n_over, _ = lasting.complete_sessions(bound, bound, memory, sessions, most, listing)
        keys = rows[releasing.KEY, start:stop]
        for q in range(count, count + results):
            which, first, last = found[slicer.PLACE, q], found[slicer.OPENS, q], found[slicer.CLOSES, q]
            found[slicer.PLACE, q], found[slicer.WID, q] = sessions[which, slicer.WHICH], first
            found[slicer.CLOSES, q] = last + sessions[which, slicer.GAP]
            low, high = releasing.between(first, last + 1, keys, grid)
            found[slicer.STARTS, q], found[slicer.STOPS, q] = low, high
            marks[SPANNED] += high - low
            ends[0, q] = rows[releasing.TOTAL, start + high - 1]
            ends[1, q] = rows[releasing.TOTAL, start + low - 1] if low > 0 else base
        marks[BUSY] = results
    ledger[slicer.BOUND], ledger[slicer.LOW], marks[NEXT] = bound, begin, end
    if len(sessions) == 0:
        dropped, marks[CELLS_GONE] = settling.drop_oldest(min(bound, begin), memory, gone)
    else:
        dropped = settling.drop_over(over[:n_over], begin, memory, gone)
        m, _, marks[CELLS_GONE] = settling.settle(bound, begin, False, False, memory, gone[dropped:], into, source)
        dropped += m
        settling.stock(gone[:dropped], links, ledger)
    marks[GONE] = dropped
    if dropped > 0 and stop > start:
        # What is dropped are the oldest in the queue, but for slices that came late.
        oldest = memory[slicer.OF_CHAINS][0, slicer.OLDEST]
        if dropped < stop - start:
            queued[slicer.DIRTY] = np.int64(rows[releasing.SLOT, start + dropped] != oldest)
        else:
            for k in range(start, stop):
                queued[slicer.DIRTY] |= np.int64(rows[releasing.SLOT, k] == oldest)
        if queued[slicer.DIRTY] == 0:
            d = min(dropped, stop - start)
            listed = rows[releasing.TOTAL, start:stop]
            marks[FREED] = settling.drop_totals(base, listed, d, links, ledger, freed)
            queued[slicer.BASE_TOTAL] = listed[d - 1]
            queued[slicer.BEFORE] += d
            grid[1][releasing.GONE] += d
            start += d
    queued[slicer.QUEUE_START], queued[slicer.QUEUE_STOP] = start, stop
    marks[EARLIEST] = UNKNOWN
    if len(sessions) > 0:
        marks[EARLIEST] = lasting.earliest(memory)
    return why


@kernel
def least(ticks, valid, start, stop):
    """Return the least of these ticks."""
    least = FAR
    for i in range(start, stop):
        if len(valid) == 0 or valid[i]:
            least = min(least, ticks[i])
    return least


@kernel
def _number(into, start, pairs, base):
    """Let so many pairs from `start` on go to the slots from `base` on; gives where the next ones go."""
    for q in range(start, start + pairs):
        into[q] += base
    return start + pairs
