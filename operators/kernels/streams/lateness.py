"""Count by which slack tuples would be late, in cells whose edges are all numbers of two digits and zeros."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import LIMIT

Int64s = npt.NDArray[np.int64]
CELLS = 100 + 17 * 90
"""Cells that a distance can be in: one for each up to 100, then 90 for each power of ten."""


@kernel
def cell_of(distance: np.int64) -> np.int64:
    """Return the cell of a distance from 1 on; cell c ends with the distance that `edge` says."""
    scale = np.int64(1)
    base = np.int64(0)
    while base < 17 * 90 and distance > 100 * scale:
        scale *= 10
        base += 90
    return base + min((distance + (scale - 1)) // scale, 100) - 1


@kernel
def observe(
    ticks: Int64s, none: int, step: int, origin: int, highest: np.int64, slack: int, cells: Int64s,
    highs: Int64s, nows: Int64s, gaps: Int64s, lulls: Int64s,
) -> int:  # fmt: skip
    """Count each tuple, shape (n,), by the largest slack with which it would be late; return how many are with `slack`.

    With promises at origin + k * step a tuple is late once the highest value, less the slack, has passed the end of its
    step. `none` stands for no value, and for the highest value before there is any.

    Those that are not late with `slack` are counted in `lulls`, too, by the largest lull with which they would be. A
    lull promises the time, less itself, once the highest value is further behind. `nows`, shape (m,), are the times
    that the clock told last when the highest value was `highs`, which rise; `gaps` are the most by which any of them
    and of those behind it is ahead of its highest value, less a tick.
    """
    late = 0
    points = len(highs)
    for i in range(len(ticks)):
        tick = ticks[i]
        if tick == none or tick < -LIMIT:
            # Farther than any tick that counts.
            continue
        end = tick + 1 if step == 1 else tick - (tick - origin) % step + step
        if tick >= highest:
            highest = tick
        elif highest >= end and highest <= LIMIT:
            cells[cell_of(highest - end + 1)] += 1
            if highest - end >= slack:
                late += 1
                continue
        if points == 0 or tick > LIMIT:
            continue
        place = int(np.searchsorted(highs, end))
        lull = gaps[place] if place < points else np.int64(-1)
        if place > 0 and nows[place - 1] >= end:
            lull = max(lull, nows[place - 1] - end)
        if lull >= 0:
            lulls[cell_of(lull + 1)] += 1
    return late
