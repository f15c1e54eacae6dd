"""Sums and counts by slot: whole numbers exactly in 128 bits, floating numbers with the rounding error carried along.

A row of a whole sum is (low limb, high limb, number of values): the sum is high * 2^64 + low as unsigned. A row of a
floating sum is (sum, what rounding lost, number of values). A slot of -1 skips the tuple.

Tuples in order meet one slot for long, so that each addition would wait for the one before to be stored: where slots
come in runs, a run is added up first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel

LOW, HIGH, NUMBER = np.uint64(0), np.uint64(1), np.uint64(2)
"""Columns of a row of a whole sum."""
LANES, LANE = 4, 64
"""Sums of few slots are made in so many lanes, of so many slots: an addition to one that was just written waits."""
SIGNED = np.int64(-1)
UNSIGNED = np.int64(0)
BLOCK = 64
"""Slots that are combined together, and that are looked at together where a run of one may end."""
_SHORT = 24
"""Runs that are shorter than this on average are not worth looking for."""


@kernel
def _in_runs(slots):
    """Return whether slots come in runs."""
    changes = 0
    before = slots[: max(len(slots) - 1, 0)]
    after = slots[1:]
    for i in range(len(after)):
        changes += after[i] != before[i]
    return changes * _SHORT < len(slots)


@kernel
def _run(slots, start):
    """Return where the run of one slot ends that begins at a place."""
    slot = slots[start]
    stop = start + 1
    # Block by block without a branch a slot.
    while stop + BLOCK <= len(slots):
        block = slots[stop : stop + BLOCK]
        others = 0
        for i in range(BLOCK):
            others += block[i] != slot
        if others:
            break
        stop += BLOCK
    while stop < len(slots) and slots[stop] == slot:
        stop += 1
    return stop


@kernel
def clear(slots: npt.NDArray[np.int32], sums: npt.NDArray[np.generic]) -> None:
    """Write 0 to all columns of the rows."""
    for i in range(len(slots)):
        for column in range(sums.shape[1]):
            sums[slots[i], column] = 0


@kernel
def read_whole(
    slots: npt.NDArray[np.int32],
    sums: npt.NDArray[np.int64],
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
) -> None:
    """Write low limb, high limb and number of values of each slot."""
    for i in range(len(slots)):
        low[i], high[i], number[i] = sums[slots[i], 0], sums[slots[i], 1], sums[slots[i], 2]


@kernel
def read_sums(
    slots: npt.NDArray[np.int32], sums: npt.NDArray[np.int64], low: npt.NDArray[np.int64], there: npt.NDArray[np.bool_]
) -> tuple[bool, np.int64]:
    """Write the low limb of each slot and whether it has a value; gives whether all have.

    And the first one whose sum does not fit 64 bits, or -1.
    """
    full = True
    wide = np.int64(-1)
    for i in range(len(slots)):
        slot = slots[i]
        low[i] = sums[slot, 0]
        there[i] = sums[slot, 2] > 0
        full &= sums[slot, 2] > 0
        if sums[slot, 1] != low[i] >> np.int64(63) and wide < 0:
            wide = np.int64(i)
    return full, wide


@kernel
def _put(lower, upper, number, row):
    """Add so many values to a sum, of which the lower and the upper halves, of 32 bits, are added up."""
    part = np.uint64(upper << np.int64(32))
    total = part + np.uint64(lower)
    high = (upper >> np.int64(32)) + np.int64(total < part)
    low = np.uint64(row[0]) + total
    row[0] = np.int64(low)
    row[1] += high + np.int64(low < total)
    row[2] += number


@kernel
def _add_run(values, signed, row):
    """Add values to one sum: the halves of all on their own, in lanes, then the carries."""
    half = np.int64(32)
    lower = np.int64((1 << 32) - 1)
    low_halves, high_halves = np.int64(0), np.int64(0)
    for i in range(len(values)):
        low_halves += values[i] & lower
        high_halves += values[i] >> half
    if signed == UNSIGNED:
        # What was taken for a sign is worth 2^64.
        over = np.int64(0)
        for i in range(len(values)):
            over -= values[i] >> np.int64(63)
        row[1] += over
    _put(low_halves, high_halves, len(values), row)


@kernel
def _add_in_lanes(slots, values, least, lanes, sums):
    """Add signed values to sums of few slots, from `least` on, by turns in lanes of their own, and these at the end."""
    half = np.int64(32)
    lower = np.int64((1 << 32) - 1)
    lanes[:] = 0
    n = len(slots)
    for start in range(0, n - n % LANES, LANES):
        for lane in range(LANES):
            i = np.uint64(start + lane)
            place, value = np.uint64(slots[i] - least), values[i]
            lanes[lane, place, LOW] += value & lower
            lanes[lane, place, HIGH] += value >> half
            lanes[lane, place, NUMBER] += 1
    for i in range(n - n % LANES, n):
        place, value = np.uint64(slots[i] - least), values[i]
        lanes[0, place, LOW] += value & lower
        lanes[0, place, HIGH] += value >> half
        lanes[0, place, NUMBER] += 1
    for place in range(max(-least, 0), LANE):
        lows, highs, number = np.int64(0), np.int64(0), np.int64(0)
        for lane in range(LANES):
            lows += lanes[lane, place, LOW]
            highs += lanes[lane, place, HIGH]
            number += lanes[lane, place, NUMBER]
        if number > 0:
            _put(lows, highs, number, sums[least + place])


@kernel
def add_whole(
    slots: npt.NDArray[np.int32],
    values: npt.NDArray[np.int64],
    signed: np.int64,
    sums: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.int64],
) -> None:
    """Add values[i] to sums[slots[i]]; `signed` is UNSIGNED when the values are the bits of unsigned numbers.

    `lanes` is room to work in, shape (LANES, LANE, 3).
    """
    if _in_runs(slots):
        start = 0
        while start < len(slots):
            stop = _run(slots, start)
            if slots[start] >= 0:
                _add_run(values[start:stop], signed, sums[slots[start]])
            start = stop
        return
    if signed == SIGNED and len(slots) >= LANES * LANE:
        least, most = slots[0], slots[0]
        for i in range(len(slots)):
            least = min(least, slots[i])
            most = max(most, slots[i])
        if most - least < LANE:
            _add_in_lanes(slots, values, np.int64(least), lanes, sums)
            return
    for i in range(len(slots)):
        slot = slots[np.uint64(i)]
        if slot >= 0:
            # An index that is cast to uint64 spares the loop the case of a negative one.
            row, value = np.uint64(slot), values[np.uint64(i)]
            low = np.uint64(sums[row, LOW]) + np.uint64(value)
            sums[row, LOW] = np.int64(low)
            # The high limb takes the sign of the value, and the carry when the low limb wrapped.
            sums[row, HIGH] += ((value >> np.int64(63)) & signed) + np.int64(low < np.uint64(value))
            sums[row, NUMBER] += 1


@kernel
def step_whole(slots, values, signed, sums, lanes, results, into, source, gone, low, number):
    """Add values as `add_whole` does, combine into empty `results` and read them, then clear `gone`, all in one call.

    Writes low limb and number of values of each result; gives whether all of them have a value, and fit 64 bits.
    """
    if len(slots) > 0:
        add_whole(slots, values, signed, sums, lanes)
    clear(results, sums)
    combine_whole(into, source, sums)
    plain = True
    for j in range(len(results)):
        row = results[j]
        low[j], number[j] = sums[row, 0], sums[row, 2]
        plain &= number[j] > 0 and sums[row, 1] == low[j] >> np.int64(63)
    clear(gone, sums)
    return plain


@kernel
def _combine_whole(to, of, sums):
    """Add one row to another."""
    addend = np.uint64(sums[of, 0])
    low = np.uint64(sums[to, 0]) + addend
    high = sums[of, 1] + np.int64(low < addend)
    sums[to, 0] = np.int64(low)
    sums[to, 1] += high
    sums[to, 2] += sums[of, 2]


@kernel
def combine_whole(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]) -> None:
    """Add sums[source[j]] to sums[into[j]], in order."""
    for j in range(len(into)):
        _combine_whole(into[j], source[j], sums)


@kernel
def combine_whole_blocks(
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]
) -> None:
    """Add the rows of block source[j] to those of block into[j], in order."""
    for j in range(len(into)):
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        for i in range(BLOCK):
            _combine_whole(to + i, of + i, sums)


@kernel
def subtract_whole(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]) -> None:
    """Take sums[source[j]] from sums[into[j]], in order; what was added before leaves no trace."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        low = np.uint64(sums[to, 0])
        taken = np.uint64(sums[of, 0])
        high = sums[of, 1] + np.int64(low < taken)
        sums[to, 0] = np.int64(low - taken)
        sums[to, 1] -= high
        sums[to, 2] -= sums[of, 2]


@kernel
def accumulate_whole(
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], before: int, sums: npt.NDArray[np.int64]
) -> None:
    """Write to sums[into[j]] the total of sums[before] (-1 for nothing), sums[source[0]], ..., sums[source[j]]."""
    low, high, number = np.uint64(0), np.int64(0), np.int64(0)
    if before >= 0:
        low, high, number = np.uint64(sums[before, 0]), sums[before, 1], sums[before, 2]
    for j in range(len(into)):
        of, to = source[j], into[j]
        addend = np.uint64(sums[of, 0])
        low += addend
        high += sums[of, 1] + np.int64(low < addend)
        number += sums[of, 2]
        sums[to, 0], sums[to, 1], sums[to, 2] = np.int64(low), high, number


@kernel
def difference_whole(
    into: npt.NDArray[np.int32],
    later: npt.NDArray[np.int32],
    earlier: npt.NDArray[np.int32],
    sums: npt.NDArray[np.int64],
) -> None:
    """Write to sums[into[j]] what is left of sums[later[j]] without sums[earlier[j]], -1 for nothing."""
    for j in range(len(into)):
        to, of, out = into[j], later[j], earlier[j]
        low, high, number = np.uint64(sums[of, 0]), sums[of, 1], sums[of, 2]
        if out >= 0:
            taken = np.uint64(sums[out, 0])
            high -= sums[out, 1] + np.int64(low < taken)
            low -= taken
            number -= sums[out, 2]
        sums[to, 0], sums[to, 1], sums[to, 2] = np.int64(low), high, number


@kernel
def between_whole(
    later: npt.NDArray[np.int32],
    earlier: npt.NDArray[np.int32],
    sums: npt.NDArray[np.int64],
    low: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
) -> bool:
    """Write the low limb and the number of values of what is left of sums[later[j]] without sums[earlier[j]].

    Gives whether all of them have a value, and fit 64 bits.
    """
    plain = True
    for j in range(len(later)):
        of, out = later[j], earlier[j]
        rest, high, values = np.uint64(sums[of, 0]), sums[of, 1], sums[of, 2]
        if out >= 0:
            taken = np.uint64(sums[out, 0])
            high -= sums[out, 1] + np.int64(rest < taken)
            rest -= taken
            values -= sums[out, 2]
        low[j], number[j] = np.int64(rest), values
        plain &= values > 0 and high == low[j] >> np.int64(63)
    return plain


@kernel
def run_whole(slots, values, signed, sums, lanes, slices, totals, before, later, earlier, gone, low, number):
    """Do what `add_whole`, `accumulate_whole` and `between_whole` do, and if that gives True clear `gone`."""
    if len(slots) > 0:
        add_whole(slots, values, signed, sums, lanes)
    accumulate_whole(totals, slices, before, sums)
    plain = between_whole(later, earlier, sums, low, number)
    if plain:
        clear(gone, sums)
    return plain


@kernel
def _add_floating_run(values, row):
    """Add values to one sum, in order, as `add_floating` does."""
    old, lost = row[0], row[1]
    for i in range(len(values)):
        value = values[i]
        new = old + value
        taken = new - old
        lost += (old - (new - taken)) + (value - taken)
        old = new
    row[0], row[1] = old, lost
    row[2] += len(values)


@kernel
def add_floating(slots: npt.NDArray[np.int32], values: npt.NDArray[np.float64], sums: npt.NDArray[np.float64]) -> None:
    """Add values[i] to sums[slots[i]] by Knuth's two-sum."""
    if _in_runs(slots):
        start = 0
        while start < len(slots):
            stop = _run(slots, start)
            if slots[start] >= 0:
                _add_floating_run(values[start:stop], sums[slots[start]])
            start = stop
        return
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            value = values[i]
            old = sums[slot, 0]
            new = old + value
            taken = new - old
            sums[slot, 0] = new
            sums[slot, 1] += (old - (new - taken)) + (value - taken)
            sums[slot, 2] += 1.0


@kernel
def _combine_floating(to, of, sums):
    """Add one row to another by Knuth's two-sum."""
    value = sums[of, 0]
    lost = sums[of, 1]
    number = sums[of, 2]
    old = sums[to, 0]
    new = old + value
    taken = new - old
    sums[to, 0] = new
    sums[to, 1] += ((old - (new - taken)) + (value - taken)) + lost
    sums[to, 2] += number


@kernel
def combine_floating(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.float64]) -> None:
    """Add sums[source[j]] to sums[into[j]], in order."""
    for j in range(len(into)):
        _combine_floating(into[j], source[j], sums)


@kernel
def combine_floating_blocks(
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.float64]
) -> None:
    """Add the rows of block source[j] that have a value to those of block into[j], in order."""
    for j in range(len(into)):
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        for i in range(BLOCK):
            if sums[of + i, 2] > 0:
                _combine_floating(to + i, of + i, sums)


@kernel
def count_slots(slots: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add one to counts[slots[i]] for each i."""
    if _in_runs(slots):
        start = 0
        while start < len(slots):
            stop = _run(slots, start)
            if slots[start] >= 0:
                counts[slots[start]] += stop - start
            start = stop
        return
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            counts[slot] += 1


@kernel
def read_counts(slots: npt.NDArray[np.int32], counts: npt.NDArray[np.int64], found: npt.NDArray[np.int64]) -> None:
    """Write the count of each slot."""
    for i in range(len(slots)):
        found[np.uint64(i)] = counts[np.uint64(slots[np.uint64(i)])]


@kernel
def step_counts(slots, counts, results, into, source, gone, found):
    """Count slots as `count_slots` does, combine into empty `results` and read them, then clear `gone`, in one call."""
    count_slots(slots, counts)
    for j in range(len(results)):
        counts[results[j]] = 0
    add_counts(into, source, counts)
    for j in range(len(results)):
        found[j] = counts[results[j]]
    for j in range(len(gone)):
        counts[gone[j]] = 0


@kernel
def add_counts(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add counts[source[j]] to counts[into[j]], in order."""
    for j in range(len(into)):
        counts[into[j]] += counts[source[j]]


@kernel
def add_count_blocks(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add the counts of block source[j] to those of block into[j], in order."""
    for j in range(len(into)):
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        sums, more = counts[to : to + BLOCK], counts[of : of + BLOCK]
        for i in range(BLOCK):
            sums[i] += more[i]


@kernel
def subtract_count_blocks(
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]
) -> None:
    """Take the counts of block source[j] from those of block into[j], in order."""
    for j in range(len(into)):
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        sums, less = counts[to : to + BLOCK], counts[of : of + BLOCK]
        for i in range(BLOCK):
            sums[i] -= less[i]


@kernel
def subtract_counts(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Take counts[source[j]] from counts[into[j]], in order."""
    for j in range(len(into)):
        counts[into[j]] -= counts[source[j]]
