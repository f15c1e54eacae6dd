"""Weighted sums by slot: of whole numbers exactly, of floating ones with the rounding of their sums carried along.

A row of whole mass is (sum of products in three limbs, sum of weights in two, number of values), limbs as in `sums`; a
row of floating mass is (sum of products, what rounding lost, sum of weights, what rounding lost, number of values). A
slot of -1 skips the tuple.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
HALF = np.uint64(0xFFFFFFFF)


@kernel
def add_limbs(
    mass: Int64s, slot: np.int64, p0: np.uint64, p1: np.uint64, p2: np.int64, w0: np.uint64, w1: np.int64
) -> None:
    """Add a product and a weight, in limbs, to a row."""
    low = np.uint64(mass[slot, 0]) + p0
    carry = np.uint64(low < p0)
    middle = np.uint64(mass[slot, 1]) + p1
    over = np.int64(middle < p1)
    middle_carried = middle + carry
    over += np.int64(middle_carried < carry)
    mass[slot, 0] = np.int64(low)
    mass[slot, 1] = np.int64(middle_carried)
    mass[slot, 2] += p2 + over
    weight = np.uint64(mass[slot, 3]) + w0
    mass[slot, 3] = np.int64(weight)
    mass[slot, 4] += w1 + np.int64(weight < w0)


@kernel
def add_whole_mass(
    slots: Int32s, values: Int64s, value_sign: np.int64, weights: Int64s, weight_sign: np.int64, mass: Int64s
) -> None:
    """Add values[i] weighing weights[i] to mass[slots[i]]; a sign is 0 when the numbers are bits of unsigned ones."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            one, two = np.uint64(values[i]), np.uint64(weights[i])
            one_sign = (values[i] >> np.int64(63)) & value_sign
            two_sign = (weights[i] >> np.int64(63)) & weight_sign
            half = np.uint64(32)
            low = (one & HALF) * (two & HALF)
            left = (one & HALF) * (two >> half)
            right = (one >> half) * (two & HALF)
            middle = (low >> half) + (left & HALF) + (right & HALF)
            p0 = (low & HALF) | (middle << half)
            p1 = (one >> half) * (two >> half) + (left >> half) + (right >> half) + (middle >> half)
            # The product of the bits as unsigned numbers is too large by what the signs stand for.
            p1 -= (two & np.uint64(one_sign)) + (one & np.uint64(two_sign))
            p2 = (np.int64(p1) >> np.int64(63)) & (value_sign | weight_sign)
            add_limbs(mass, np.int64(slot), p0, p1, p2, two, two_sign)
            mass[slot, 5] += 1


@kernel
def combine_whole_mass(into: Int32s, source: Int32s, mass: Int64s) -> None:
    """Add mass[source[j]] to mass[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        number = mass[of, 5]
        add_limbs(
            mass, np.int64(to), np.uint64(mass[of, 0]), np.uint64(mass[of, 1]), mass[of, 2], np.uint64(mass[of, 3]),
            mass[of, 4],
        )  # fmt: skip
        mass[to, 5] += number


@kernel
def subtract_whole_mass(into: Int32s, source: Int32s, mass: Int64s) -> None:
    """Take mass[source[j]] from mass[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        low, middle, weight = np.uint64(mass[of, 0]), np.uint64(mass[of, 1]), np.uint64(mass[of, 3])
        # A number is taken away by adding its complement and one.
        one = np.uint64(1)
        p0 = ~low + one
        carry = np.uint64(low == np.uint64(0))
        p1 = ~middle + carry
        p2 = ~mass[of, 2] + np.int64(carry == one and middle == np.uint64(0))
        w0 = ~weight + one
        w1 = ~mass[of, 4] + np.int64(weight == np.uint64(0))
        number = mass[of, 5]
        add_limbs(mass, np.int64(to), p0, p1, p2, w0, w1)
        mass[to, 5] -= number


@kernel
def add_floating_mass(slots: Int32s, products: Float64s, weights: Float64s, mass: Float64s) -> None:
    """Add products[i] and weights[i] to mass[slots[i]] by Knuth's two-sum."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            for k in (0, 2):
                value = products[i] if k == 0 else weights[i]
                old = mass[slot, k]
                new = old + value
                taken = new - old
                mass[slot, k] = new
                mass[slot, k + 1] += (old - (new - taken)) + (value - taken)
            mass[slot, 4] += 1.0


@kernel
def combine_floating_mass(into: Int32s, source: Int32s, mass: Float64s) -> None:
    """Add mass[source[j]] to mass[into[j]], in order, by Knuth's two-sum."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        for k in (0, 2):
            value, lost = mass[of, k], mass[of, k + 1]
            old = mass[to, k]
            new = old + value
            taken = new - old
            mass[to, k] = new
            mass[to, k + 1] += ((old - (new - taken)) + (value - taken)) + lost
        mass[to, 4] += mass[of, 4]
