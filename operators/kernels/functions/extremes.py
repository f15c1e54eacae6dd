"""The least key by slot, of one or two words; the greatest is the least complement. A slot of -1 skips the tuple."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel
from operators.kernels.functions.sums import BLOCK

LARGEST = np.int64(np.iinfo(np.int64).max)
SMALLEST = np.int64(np.iinfo(np.int64).min)


@kernel
def order_floating(
    values: npt.NDArray[np.float64], bits: npt.NDArray[np.int64], turn: np.int64, keys: npt.NDArray[np.int64]
) -> None:
    """Write keys that are ordered as the values are, -0.0 before 0.0; reversed when `turn` is -1 and not 0.

    `bits` are the same numbers seen as int64. NaN gets the smallest key in either direction.
    """
    for i in range(len(values)):
        word = bits[i]
        key = (word ^ ((word >> np.int64(63)) & LARGEST)) ^ turn
        keys[i] = key if values[i] == values[i] else SMALLEST


@kernel
def keep_least(
    slots: npt.NDArray[np.int32], keys: npt.NDArray[np.int64], least: npt.NDArray[np.int64], seen: npt.NDArray[np.bool_]
) -> None:
    """Lower least[slots[i]] to keys[i] and mark the slot as seen; an unseen slot holds the largest int64."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            key = keys[i]
            if key < least[slot]:
                least[slot] = key
            seen[slot] = True


@kernel
def combine_least(
    into: npt.NDArray[np.int32],
    source: npt.NDArray[np.int32],
    least: npt.NDArray[np.int64],
    seen: npt.NDArray[np.bool_],
) -> None:
    """Lower least[into[j]] to least[source[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        if seen[of]:
            if least[of] < least[to]:
                least[to] = least[of]
            seen[to] = True


@kernel
def combine_least_blocks(
    into: npt.NDArray[np.int32],
    source: npt.NDArray[np.int32],
    least: npt.NDArray[np.int64],
    seen: npt.NDArray[np.bool_],
) -> None:
    """Lower the least of block into[j] to those of block source[j], in order; where nothing was seen it is LAST."""
    for j in range(len(into)):
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        lowest, other, had, has = least[to : to + BLOCK], least[of : of + BLOCK], seen[to : to + BLOCK], seen[of:]
        for i in range(BLOCK):
            lowest[i] = min(lowest[i], other[i])
            had[i] |= has[i]


@kernel
def keep_least_pair(
    slots: npt.NDArray[np.int32], keys: npt.NDArray[np.int64], least: npt.NDArray[np.int64], seen: npt.NDArray[np.bool_]
) -> None:
    """Lower least[slots[i]] to keys[i] and mark the slot; keys and least are rows of two words, the first decides."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            high, low = keys[i, 0], keys[i, 1]
            if high < least[slot, 0] or (high == least[slot, 0] and low < least[slot, 1]) or not seen[slot]:
                least[slot, 0] = high
                least[slot, 1] = low
            seen[slot] = True


@kernel
def combine_least_pair(
    into: npt.NDArray[np.int32],
    source: npt.NDArray[np.int32],
    least: npt.NDArray[np.int64],
    seen: npt.NDArray[np.bool_],
) -> None:
    """Lower least[into[j]] to least[source[j]], in order; rows of two words, the first decides."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        if seen[of]:
            high, low = least[of, 0], least[of, 1]
            if high < least[to, 0] or (high == least[to, 0] and low < least[to, 1]) or not seen[to]:
                least[to, 0] = high
                least[to, 1] = low
            seen[to] = True
