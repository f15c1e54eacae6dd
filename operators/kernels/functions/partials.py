"""Partial aggregates that come in columns are added to those of slots; a slot of -1 skips the tuple.

The rows are those of the kernels that made them: (low limb, high limb, number) of a whole sum, (sum, rounding lost,
number) of a floating one, (number, mean, squared distances) of moments.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel


@kernel
def merge_counts(slots: npt.NDArray[np.int32], values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
    """Add values[i] to counts[slots[i]]."""
    for i in range(len(slots)):
        if slots[i] >= 0:
            counts[slots[i]] += values[i]


@kernel
def merge_whole(slots, low, high, number, sums):
    """Add the 128-bit sum (low[i], high[i]) of number[i] values to sums[slots[i]]."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            addend = np.uint64(low[i])
            total = np.uint64(sums[slot, 0]) + addend
            sums[slot, 0] = np.int64(total)
            sums[slot, 1] += high[i] + np.int64(total < addend)
            sums[slot, 2] += number[i]


@kernel
def merge_floating(slots, values, lost, number, sums):
    """Add values[i], and what rounding lost of it, to sums[slots[i]] by Knuth's two-sum."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            value = values[i]
            old = sums[slot, 0]
            new = old + value
            taken = new - old
            sums[slot, 0] = new
            sums[slot, 1] += ((old - (new - taken)) + (value - taken)) + lost[i]
            sums[slot, 2] += number[i]


@kernel
def merge_moments(slots, number, mean, squares, moments):
    """Add the moments of number[i] values to moments[slots[i]], as Chan et al. do."""
    for i in range(len(slots)):
        slot = slots[i]
        added = number[i]
        if slot >= 0 and added > 0.0:
            held = moments[slot, 0]
            whole = held + added
            distance = mean[i] - moments[slot, 1]
            moments[slot, 0] = whole
            moments[slot, 1] += distance * (added / whole)
            moments[slot, 2] += squares[i] + distance * distance * (held * added / whole)
