"""Mean and sum of squared distances from it, by slot: one value at a time by Welford, two slots by Chan et al.

A row is (number of values, mean, sum of squared distances). A slot of -1 skips the tuple. Where a distance is beyond
float64 the mean is made of its parts, and the sum of squares, which is beyond it too, is infinite.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel


@kernel
def add_moments(
    slots: npt.NDArray[np.int32], values: npt.NDArray[np.float64], moments: npt.NDArray[np.float64]
) -> None:
    """Add values[i] to moments[slots[i]]."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            value = values[i]
            number = moments[slot, 0] + 1.0
            distance = value - moments[slot, 1]
            mean = moments[slot, 1] + distance / number
            squares = distance * (value - mean)
            if np.isinf(distance) and np.isfinite(value) and np.isfinite(moments[slot, 1]):
                mean = moments[slot, 1] * ((number - 1.0) / number) + value / number
                squares = np.inf
            moments[slot, 0] = number
            moments[slot, 1] = mean
            moments[slot, 2] += squares


@kernel
def combine_moments(
    into: npt.NDArray[np.int32], source: npt.NDArray[np.int32], moments: npt.NDArray[np.float64]
) -> None:
    """Add moments[source[j]] to moments[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        added = moments[of, 0]
        if added > 0.0:
            held = moments[to, 0]
            number = held + added
            distance = moments[of, 1] - moments[to, 1]
            mean = moments[to, 1] + distance * (added / number)
            squares = distance * distance * (held * added / number)
            if np.isinf(distance) and np.isfinite(moments[of, 1]) and np.isfinite(moments[to, 1]):
                mean = moments[to, 1] * (held / number) + moments[of, 1] * (added / number)
                squares = np.inf
            moments[to, 2] += moments[of, 2] + squares
            moments[to, 0] = number
            moments[to, 1] = mean
