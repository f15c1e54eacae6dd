# pyright: reportMissingParameterType=false
"""Compiled bookkeeping of positions: which segment holds each, and the pairs put together segment by segment."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel


@kernel
def locate(positions, bases, cells, shift, which, counts):
    """Write to which[i] the last segment that begins at or before positions[i], and count the positions of each.

    `bases`, shape (segments,), rises; cells[c] is the segment of position bases[0] + (c << shift).
    """
    last = len(bases) - 1
    first = bases[0]
    for i in range(len(positions)):
        at = np.int64(cells[(positions[i] - first) >> shift])
        while at < last and positions[i] >= bases[at + 1]:
            at += 1
        which[i] = at
        counts[at] += 1


@kernel
def arrange(which, places, order):
    """Write the numbers of the positions, those of the first segment first; places[s] is where segment s begins.

    places[s] is left where segment s ends.
    """
    for i in range(len(which)):
        at = places[which[i]]
        order[at] = i
        places[which[i]] = at + 1
