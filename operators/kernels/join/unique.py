# pyright: reportMissingParameterType=false
"""Compiled check that a key is one: which tuples come too near an earlier tuple of the same key."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel


@kernel
def too_near(ids, earlier, later, ticks, distance, least, most, near):
    """Write to near[i] whether a tuple before tuple i has its key, and is in its cell or at most `distance` ticks away.

    `ids`, `earlier` and `later` number the cell of each tuple and those beside it, -1 for one that nobody is in; a cell
    knows the `least` and the `most` of its ticks, and is empty while the least is above the most. Both are updated.
    """
    for i in range(len(ids)):
        at, tick = ids[i], ticks[i]
        found = least[at] <= most[at]
        if not found and earlier[i] >= 0:
            before = earlier[i]
            found = least[before] <= most[before] and tick - most[before] <= distance
        if not found and later[i] >= 0:
            after = later[i]
            found = least[after] <= most[after] and least[after] - tick <= distance
        near[i] = found
        least[at] = min(np.int64(least[at]), np.int64(tick))
        most[at] = max(np.int64(most[at]), np.int64(tick))
