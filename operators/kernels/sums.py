"""Sums by slot: whole numbers exactly in 128 bits, floating numbers with the rounding error carried along.

A row of a whole sum is (low limb, high limb, number of values): the sum is high * 2^64 + low as unsigned. A row of a
floating sum is (sum, what rounding lost, number of values). A slot of -1 skips the tuple.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.kernel import kernel

SIGNED = np.int64(-1)
UNSIGNED = np.int64(0)


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
    """Write the low limb of each slot and whether it has a value; gives what `judge` does."""
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
def judge(
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
    there: npt.NDArray[np.bool_],
) -> tuple[bool, np.int64]:
    """Write which sums have a value; gives whether all have, and the first that does not fit 64 bits, or -1."""
    full = True
    wide = np.int64(-1)
    for i in range(len(low)):
        there[i] = number[i] > 0
        full &= number[i] > 0
        if high[i] != low[i] >> np.int64(63) and wide < 0:
            wide = np.int64(i)
    return full, wide


@kernel
def add_whole(
    slots: npt.NDArray[np.int32], values: npt.NDArray[np.int64], signed: np.int64, sums: npt.NDArray[np.int64]
) -> None:
    """Add values[i] to sums[slots[i]]; `signed` is UNSIGNED when the values are the bits of unsigned numbers."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            value = values[i]
            low = np.uint64(sums[slot, 0]) + np.uint64(value)
            sums[slot, 0] = np.int64(low)
            # The high limb takes the sign of the value, and the carry when the low limb wrapped.
            sums[slot, 1] += ((value >> np.int64(63)) & signed) + np.int64(low < np.uint64(value))
            sums[slot, 2] += 1


@kernel
def combine_whole(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.int64]) -> None:
    """Add sums[source[j]] to sums[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        addend = np.uint64(sums[of, 0])
        low = np.uint64(sums[to, 0]) + addend
        high = sums[of, 1] + np.int64(low < addend)
        sums[to, 0] = np.int64(low)
        sums[to, 1] += high
        sums[to, 2] += sums[of, 2]


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
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], before: np.int64, sums: npt.NDArray[np.int64]
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
def add_floating(slots: npt.NDArray[np.int32], values: npt.NDArray[np.float64], sums: npt.NDArray[np.float64]) -> None:
    """Add values[i] to sums[slots[i]] by Knuth's two-sum."""
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
def combine_floating(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], sums: npt.NDArray[np.float64]) -> None:
    """Add sums[source[j]] to sums[into[j]], in order, by Knuth's two-sum."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        value = sums[of, 0]
        lost = sums[of, 1]
        number = sums[of, 2]
        old = sums[to, 0]
        new = old + value
        taken = new - old
        sums[to, 0] = new
        sums[to, 1] += ((old - (new - taken)) + (value - taken)) + lost
        sums[to, 2] += number
