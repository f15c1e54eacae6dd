"""A slot's bag of int64 keys is a chain of references to runs: sorted distinct keys with running counts, often shared.

Run r is keys[start : start + length] with counts[i] = how many values of the run have key keys[start + i] or less.
A row of `links` says how often a run counts in a slot's bag, once as a rule, -1 when it was taken away. `heads` and
`sizes` are the chain of a slot and how many references it has. `layout` names the columns, and the places of `tally`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel, making_kernel
from operators.kernels.functions.layout import *

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Integer: TypeAlias = "int | np.int64"

MANY = 2048
"""References of a slot after which the small ones are merged; to search as many runs is cheaper than to merge them."""
AT_ONCE = 64
"""Runs of a slot that are merged at once at most when the log is written."""
LONG = 4096
"""Entries up to which a slot's runs of one size are merged as soon as there are two."""
FEW = 40
"""Keys up to which insertion sorts faster than digits do."""


@kernel
def log_keys(
    slots: Int32s,
    keys: Int64s,
    start: Integer,
    log_slots: Int32s,
    log_values: Int64s,
    waiting: Int32s,
    touched: Int32s,
    tally: Int64s,
) -> Integer:
    """Enter the tuples from `start` on in the log until it is full; gives the first that found no room."""
    logged, found = tally[LOGGED], tally[TOUCHED]
    i = start
    while i < len(slots) and logged < len(log_slots):
        slot = slots[i]
        if slot >= 0:
            if waiting[slot] == 0:
                touched[found] = slot
                found += 1
            waiting[slot] += 1
            log_slots[logged] = slot
            log_values[logged] = keys[i]
            logged += 1
        i += 1
    tally[LOGGED], tally[TOUCHED] = logged, found
    return i


@making_kernel
def sort_keys(keys: Int64s, begin: Integer, end: Integer, scratch: Int64s) -> None:
    """Sort keys[begin:end]: few by insertion, many by the bytes in which they differ."""
    if end - begin <= FEW:
        for i in range(begin + 1, end):
            key = keys[i]
            j = i
            while j > begin and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    differing = np.int64(0)
    ordered = True
    for i in range(begin + 1, end):
        differing |= keys[i] ^ keys[begin]
        if keys[i] < keys[i - 1]:
            ordered = False
    if ordered:
        return
    places = np.empty(256, np.int64)
    moved = False
    for byte in range(8):
        shift = np.int64(8 * byte)
        if (differing >> shift) & np.int64(255) == 0:
            continue
        # The sign of the highest byte counts the other way round.
        turn = np.int64(128 if byte == 7 else 0)
        places[:] = 0
        for i in range(begin, end):
            key = scratch[i] if moved else keys[i]
            places[((key >> shift) & np.int64(255)) ^ turn] += 1
        place = np.int64(begin)
        for digit in range(256):
            number = places[digit]
            places[digit] = place
            place += number
        if moved:
            for i in range(begin, end):
                digit_of = ((scratch[i] >> shift) & np.int64(255)) ^ turn
                keys[places[digit_of]] = scratch[i]
                places[digit_of] += 1
        else:
            for i in range(begin, end):
                digit_of = ((keys[i] >> shift) & np.int64(255)) ^ turn
                scratch[places[digit_of]] = keys[i]
                places[digit_of] += 1
        moved = not moved
    if moved:
        keys[begin:end] = scratch[begin:end]


@kernel
def attach(
    slot: Integer,
    run: Integer,
    times: Integer,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    tally: Int64s,
) -> None:
    """Let a slot refer to a run; room for the link is the caller's affair."""
    link = tally[FREE_LINK]
    if link > 0:
        tally[FREE_LINK] = links[link - 1, AFTER]
    else:
        tally[LINKS] += 1
        link = tally[LINKS]
    links[link - 1, RUN] = run
    links[link - 1, TIMES] = times
    links[link - 1, AFTER] = heads[slot]
    heads[slot] = link
    sizes[slot] += 1
    runs[run, HOLDERS] += 1


@kernel
def let_go(link: Integer, runs: Int64s, links: Int32s, tally: Int64s) -> None:
    """Take back a link, plus one, that is in no chain any more, and its run when nothing else holds it."""
    run = links[link - 1, RUN]
    runs[run, HOLDERS] -= 1
    if runs[run, HOLDERS] == 0:
        tally[HELD] -= runs[run, LENGTH]
        runs[run, START] = tally[FREE_RUN]
        tally[FREE_RUN] = run + 1
    links[link - 1, AFTER] = tally[FREE_LINK]
    tally[FREE_LINK] = link


@kernel
def new_run(length: Integer, runs: Int64s, tally: Int64s) -> int:
    """Return the number of a run of the `length` entries that were just written behind all others."""
    run = tally[FREE_RUN]
    if run > 0:
        tally[FREE_RUN] = runs[run - 1, START]
    else:
        tally[RUNS] += 1
        run = tally[RUNS]
    runs[run - 1, START] = tally[USED]
    runs[run - 1, LENGTH] = length
    runs[run - 1, HOLDERS] = 0
    tally[USED] += length
    tally[HELD] += length
    return run - 1


@kernel
def group_log(
    log_slots: Int32s,
    log_values: Int64s,
    waiting: Int32s,
    touched: Int32s,
    grouped: Int64s,
    ends: Int64s,
    tally: Int64s,
) -> None:
    """Write the keys in the log slot by slot: those of touched[t] end at ends[t], where those of the next begin."""
    place = np.int64(0)
    for t in range(tally[TOUCHED]):
        number = waiting[touched[t]]
        waiting[touched[t]] = place
        place += number
    for i in range(tally[LOGGED]):
        slot = log_slots[i]
        grouped[waiting[slot]] = log_values[i]
        waiting[slot] += 1
    for t in range(tally[TOUCHED]):
        ends[t] = waiting[touched[t]]
        waiting[touched[t]] = 0


@making_kernel
def write_runs(
    touched: Int32s,
    ends: Int64s,
    grouped: Int64s,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> None:
    """Make a run of the grouped keys of each slot, sorted or not, and empty the log; there is room for all of them."""
    scratch = np.empty(len(grouped), np.int64)
    begin = np.int64(0)
    for t in range(tally[TOUCHED]):
        end = ends[t]
        sort_keys(grouped, begin, end, scratch)
        at = tally[USED]
        length = np.int64(0)
        for i in range(begin, end):
            if length == 0 or keys[at + length - 1] != grouped[i]:
                keys[at + length] = grouped[i]
                length += 1
            counts[at + length - 1] = i - begin + 1
        run = new_run(length, runs, tally)
        attach(np.int64(touched[t]), run, np.int64(1), heads, sizes, runs, links, tally)
        begin = end
    tally[LOGGED], tally[TOUCHED] = 0, 0


@kernel
def merge_parts(
    bounds: Int64s, keys: Int64s, counts: Int64s, spare_keys: Int64s, spare_counts: Int64s
) -> tuple[int, bool]:
    """Merge sorted parts keys[bounds[p] : bounds[p + 1]] with plain counts, pair by pair.

    Equal keys become one, and none when their counts add up to zero. Gives how many entries are left and whether they
    lie in the spare arrays; `bounds` is used up.
    """
    parts = len(bounds) - 1
    spare = False
    while parts > 1:
        written = np.int64(0)
        out = 0
        for p in range(0, parts, 2):
            a, end_a = bounds[p], bounds[p + 1]
            b = end_a
            end_b = bounds[p + 2] if p + 1 < parts else end_a
            bounds[out] = written
            out += 1
            of_keys, of_counts = (spare_keys, spare_counts) if spare else (keys, counts)
            to_keys, to_counts = (keys, counts) if spare else (spare_keys, spare_counts)
            while a < end_a and b < end_b:
                one, two = of_keys[a], of_keys[b]
                # Without a branch, for which side comes next cannot be foreseen.
                left, right = np.int64(one <= two), np.int64(two <= one)
                number = of_counts[a] * left + of_counts[b] * right
                to_keys[written] = min(one, two)
                to_counts[written] = number
                written += np.int64(number != 0)
                a += left
                b += right
            while a < end_a:
                to_keys[written] = of_keys[a]
                to_counts[written] = of_counts[a]
                written += 1
                a += 1
            while b < end_b:
                to_keys[written] = of_keys[b]
                to_counts[written] = of_counts[b]
                written += 1
                b += 1
        bounds[out] = written
        parts = out
        spare = not spare
    return bounds[1], spare


@kernel
def unfold(
    link: Integer,
    at: Integer,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    out_keys: Int64s,
    out_counts: Int64s,
) -> Integer:
    """Write the entries of a link's run from `at` on, each with its own count times `times`; gives where they end."""
    run, times = links[link - 1, RUN], np.int64(links[link - 1, TIMES])
    start = runs[run, START]
    below = np.int64(0)
    for i in range(start, start + runs[run, LENGTH]):
        out_keys[at] = keys[i]
        out_counts[at] = (counts[i] - below) * times
        below = counts[i]
        at += 1
    return at


@making_kernel
def merge_all(
    chosen: Int32s, total: Integer, at: Integer, runs: Int64s, links: Int32s, keys: Int64s, counts: Int64s
) -> Integer:
    """Merge the runs of the chosen links, `total` entries, into the pool from `at` on; gives how many are left."""
    found_keys, found_counts = np.empty(total, np.int64), np.empty(total, np.int64)
    spare_keys, spare_counts = np.empty(total, np.int64), np.empty(total, np.int64)
    bounds = np.zeros(len(chosen) + 1, np.int64)
    for k in range(len(chosen)):
        bounds[k + 1] = unfold(np.int64(chosen[k]), bounds[k], runs, links, keys, counts, found_keys, found_counts)
    length, spare = merge_parts(bounds, found_keys, found_counts, spare_keys, spare_counts)
    if spare:
        found_keys, found_counts = spare_keys, spare_counts
    running = np.int64(0)
    for i in range(length):
        running += found_counts[i]
        keys[at + i] = found_keys[i]
        counts[at + i] = running
    return length


@kernel
def merge_two(
    one: Integer, two: Integer, at: Integer, runs: Int64s, links: Int32s, keys: Int64s, counts: Int64s
) -> Integer:
    """Do as `merge_all` for two links, without room of its own; running counts add up as they are."""
    times_a, times_b = np.int64(links[one - 1, TIMES]), np.int64(links[two - 1, TIMES])
    a, b = runs[links[one - 1, RUN], START], runs[links[two - 1, RUN], START]
    end_a, end_b = a + runs[links[one - 1, RUN], LENGTH], b + runs[links[two - 1, RUN], LENGTH]
    below_a, below_b, running = np.int64(0), np.int64(0), np.int64(0)
    written = np.int64(at)
    while a < end_a or b < end_b:
        left = a < end_a and (b >= end_b or keys[a] <= keys[b])
        right = b < end_b and (a >= end_a or keys[b] <= keys[a])
        key = keys[a] if left else keys[b]
        if left:
            below_a = counts[a] * times_a
            a += 1
        if right:
            below_b = counts[b] * times_b
            b += 1
        # A key whose counts cancel leaves the sum as it was, and is not written.
        if below_a + below_b != running:
            running = below_a + below_b
            keys[written] = key
            counts[written] = running
            written += 1
    return written - at


@kernel
def merge_links(
    slot: Integer,
    chosen: Int32s,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> bool:
    """Replace the chosen links of a slot, in the order of its chain, by one to a new run; False without room for it."""
    total = np.int64(0)
    for k in range(len(chosen)):
        total += runs[links[chosen[k] - 1, RUN], LENGTH]
    no_run = tally[FREE_RUN] == 0 and tally[RUNS] == len(runs)
    if tally[USED] + total > len(keys) or no_run:
        tally[LACKING] = total
        return False
    if len(chosen) == 2:
        length = merge_two(np.int64(chosen[0]), np.int64(chosen[1]), tally[USED], runs, links, keys, counts)
    else:
        length = merge_all(chosen, total, tally[USED], runs, links, keys, counts)
    before, link, k = np.int64(0), np.int64(heads[slot]), np.int64(0)
    while k < len(chosen):
        following = np.int64(links[link - 1, AFTER])
        if link == chosen[k]:
            if before == 0:
                heads[slot] = following
            else:
                links[before - 1, AFTER] = following
            sizes[slot] -= 1
            let_go(link, runs, links, tally)
            k += 1
        else:
            before = link
        link = following
    if length > 0:
        attach(np.int64(slot), new_run(length, runs, tally), np.int64(1), heads, sizes, runs, links, tally)
    return True


@making_kernel
def settle(
    slots: Int32s,
    start: Integer,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> int:
    """Merge a slot's newest run with those before it that are not twice as long; gives the first slot without room.

    So a slot has few runs, each entry was merged as often as the logarithm of their number.
    """
    room = np.empty(AT_ONCE, np.int32)
    for j in range(start, len(slots)):
        slot = slots[j]
        total = np.int64(0)
        number = 0
        link = np.int64(heads[slot])
        while link > 0:
            length = runs[links[link - 1, RUN], LENGTH]
            if number == AT_ONCE or (number > 0 and length >= 2 * total):
                break
            room[number] = link
            total += length
            number += 1
            link = np.int64(links[link - 1, AFTER])
        # Merging costs most where there is most, so long runs wait until there are several.
        if number > (1 if total < LONG else 3) and not merge_links(
            np.int64(slot), room[:number], heads, sizes, runs, links, keys, counts, tally
        ):
            return j
    return len(slots)


@making_kernel
def shrink(
    slot: Integer,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> bool:
    """Merge all references of a slot but those to runs that are as long as all shorter ones together."""
    number = sizes[slot]
    chain, lengths = np.empty(number, np.int32), np.empty(number, np.int64)
    link = np.int64(heads[slot])
    for k in range(number):
        chain[k] = link
        lengths[k] = runs[links[link - 1, RUN], LENGTH]
        link = np.int64(links[link - 1, AFTER])
    ranked = np.sort(lengths)
    rest = ranked.sum()
    top = number - 1
    while top > 0 and ranked[top] >= rest - ranked[top]:
        rest -= ranked[top]
        top -= 1
    if top == 0:
        top = number - 1
    chosen = np.empty(number, np.int32)
    taken = 0
    for k in range(number):
        if lengths[k] <= ranked[top]:
            chosen[taken] = chain[k]
            taken += 1
    return merge_links(slot, chosen[:taken], heads, sizes, runs, links, keys, counts, tally)


@kernel
def combine_bags(
    into: Int32s,
    source: Int32s,
    start: Integer,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> int:
    """Let into[j] refer to all runs of source[j] too, from j = start on; stop at, and give, the first without room."""
    for j in range(start, len(into)):
        to, of = into[j], source[j]
        if tally[LINKS] + sizes[of] + 1 > len(links):
            return j
        long = sizes[to] > 1 and sizes[to] + sizes[of] > MANY
        if long and not shrink(np.int64(to), heads, sizes, runs, links, keys, counts, tally):
            return j
        link = np.int64(heads[of])
        while link > 0:
            attach(
                np.int64(to),
                np.int64(links[link - 1, RUN]),
                np.int64(links[link - 1, TIMES]),
                heads,
                sizes,
                runs,
                links,
                tally,
            )
            link = np.int64(links[link - 1, AFTER])
    return len(into)


@kernel
def subtract_bags(
    into: Int32s,
    source: Int32s,
    start: Integer,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    tally: Int64s,
) -> int:
    """Take the runs of source[j] from into[j] in the way of `combine_bags`; a run that is there only goes again."""
    for j in range(start, len(into)):
        to, of = into[j], source[j]
        if tally[LINKS] + sizes[of] + 1 > len(links):
            return j
        if to == of:
            drop_links(np.int64(to), heads, sizes, runs, links, tally)
            continue
        long = sizes[to] > 1 and sizes[to] + sizes[of] > MANY
        if long and not shrink(np.int64(to), heads, sizes, runs, links, keys, counts, tally):
            return j
        link = np.int64(heads[of])
        while link > 0:
            run, times = links[link - 1, RUN], links[link - 1, TIMES]
            before, there = np.int64(0), np.int64(heads[to])
            while there > 0 and not (links[there - 1, RUN] == run and links[there - 1, TIMES] == times):
                before = there
                there = np.int64(links[there - 1, AFTER])
            if there == 0:
                attach(np.int64(to), np.int64(run), -np.int64(times), heads, sizes, runs, links, tally)
            else:
                if before == 0:
                    heads[to] = links[there - 1, AFTER]
                else:
                    links[before - 1, AFTER] = links[there - 1, AFTER]
                sizes[to] -= 1
                let_go(there, runs, links, tally)
            link = np.int64(links[link - 1, AFTER])
    return len(into)


@kernel
def drop_links(slot: Integer, heads: Int32s, sizes: Int32s, runs: Int64s, links: Int32s, tally: Int64s) -> None:
    """Let a slot refer to nothing."""
    link = np.int64(heads[slot])
    while link > 0:
        following = np.int64(links[link - 1, AFTER])
        let_go(link, runs, links, tally)
        link = following
    heads[slot] = 0
    sizes[slot] = 0


@kernel
def drop_bags(slots: Int32s, heads: Int32s, sizes: Int32s, runs: Int64s, links: Int32s, tally: Int64s) -> None:
    """Let these slots refer to nothing."""
    for j in range(len(slots)):
        if heads[slots[j]] > 0:
            drop_links(np.int64(slots[j]), heads, sizes, runs, links, tally)


@making_kernel
def move_runs(runs: Int64s, keys: Int64s, counts: Int64s, new_keys: Int64s, new_counts: Int64s, tally: Int64s) -> None:
    """Copy the runs that are held, one behind the other, to a new pool."""
    at = np.int64(0)
    for run in range(tally[RUNS]):
        if runs[run, HOLDERS] > 0:
            start, length = runs[run, START], runs[run, LENGTH]
            new_keys[at : at + length] = keys[start : start + length]
            new_counts[at : at + length] = counts[start : start + length]
            runs[run, START] = at
            at += length
    tally[USED] = at


@making_kernel
def gather(
    slots: Int32s,
    start: Integer,
    heads: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    offsets: Int64s,
    out_keys: Int64s,
    out_counts: Int64s,
) -> int:
    """Write the entries of slots[start:] in order with plain counts, offsets[j] to offsets[j + 1]; stop without room.

    Gives the first slot that found none.
    """
    at = np.int64(0)
    for j in range(start, len(slots)):
        total = np.int64(0)
        parts = 0
        link = np.int64(heads[slots[j]])
        while link > 0:
            total += runs[links[link - 1, RUN], LENGTH]
            parts += 1
            link = np.int64(links[link - 1, AFTER])
        if at + total > len(out_keys):
            return j
        offsets[j] = at
        if parts == 1:
            at = unfold(np.int64(heads[slots[j]]), at, runs, links, keys, counts, out_keys, out_counts)
        elif parts > 1:
            bounds = np.zeros(parts + 1, np.int64)
            found_keys, found_counts = np.empty(total, np.int64), np.empty(total, np.int64)
            link = np.int64(heads[slots[j]])
            for k in range(parts):
                bounds[k + 1] = unfold(link, bounds[k], runs, links, keys, counts, found_keys, found_counts)
                link = np.int64(links[link - 1, AFTER])
            here_keys, here_counts = out_keys[at : at + total], out_counts[at : at + total]
            length, spare = merge_parts(bounds, found_keys, found_counts, here_keys, here_counts)
            if not spare:
                here_keys[:length] = found_keys[:length]
                here_counts[:length] = found_counts[:length]
            at += length
        offsets[j + 1] = at
    return len(slots)
