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
