"""Counting tuples by slot; a slot of -1 skips the tuple."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.kernel import kernel


@kernel
def count_slots(slots: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add one to counts[slots[i]] for each i."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            counts[slot] += 1


@kernel
def add_counts(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Add counts[source[j]] to counts[into[j]], in order."""
    for j in range(len(into)):
        counts[into[j]] += counts[source[j]]


@kernel
def subtract_counts(into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    """Take counts[source[j]] from counts[into[j]], in order."""
    for j in range(len(into)):
        counts[into[j]] -= counts[source[j]]
