"""Compiled rule of how far one value may move a promise: what jumps too far ahead waits until others lie past it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import BEFORE_ALL, FOREVER

HIGHEST, FIRST, PLACE, WAITING, RUN, AHEAD, FIELDS = 0, 1, 2, 3, 4, 5, 6
"""Fields of the memory: the highest value believed, the first value while it is alone, the place in `recent`, how many
values there wait, how many came in a row and wait, and how many were left behind."""


@kernel
def believe(
    values: npt.NDArray[np.int64],
    jump: int,
    limit: int,
    agree: int,
    recent: npt.NDArray[np.int64],
    memory: npt.NDArray[np.int64],
    believed: npt.NDArray[np.int64],
) -> None:
    """Write for each value, shape (n,), the value that it makes believed; the least int64 where it says nothing.

    `limit` is the highest value that a clock allows, the least int64 without a clock: then a value may be `jump` above
    the highest believed, and `agree` values in a row that are further make the least of them believed. `recent`, a
    ring, has the last values that were too far, the least int64 for others.
    """
    highest = memory[HIGHEST]
    first = memory[FIRST]
    place = memory[PLACE]
    waiting = memory[WAITING]
    run = memory[RUN]
    ahead = memory[AHEAD]
    clocked = limit != BEFORE_ALL
    top = np.int64(limit)
    for i in range(len(values)):
        value = values[i]
        told = BEFORE_ALL
        if value != BEFORE_ALL:
            if not clocked:
                if highest == BEFORE_ALL:
                    # Nothing tells whether one value alone is right; of two, the lower one is safe.
                    if first == BEFORE_ALL:
                        first = value
                    else:
                        highest = min(first, value)
                        if first - jump <= highest or first < BEFORE_ALL + jump:
                            highest = max(first, highest)
                        told = highest
                top = BEFORE_ALL
                if highest != BEFORE_ALL:
                    top = highest + jump if highest <= FOREVER - jump else FOREVER
            left = recent[place]
            if left != BEFORE_ALL:
                waiting -= 1
                if left > top:
                    ahead += 1
            if value <= top:
                recent[place] = BEFORE_ALL
                run = np.int64(0)
                highest = max(highest, value)
                told = max(told, value)
            else:
                recent[place] = value
                waiting += 1
                run += 1
            place += 1
            if place == len(recent):
                place = np.int64(0)
            if not clocked and run >= agree and highest != BEFORE_ALL:
                least = FOREVER
                for back in range(1, agree + 1):
                    least = min(least, recent[place - back])
                top = least + jump if least <= FOREVER - jump else FOREVER
                highest = max(highest, least)
                for back in range(1, agree + 1):
                    if recent[place - back] <= top:
                        highest = max(highest, recent[place - back])
                told = highest
        believed[i] = told
    memory[HIGHEST] = highest
    memory[FIRST] = first
    memory[PLACE] = place
    memory[WAITING] = waiting
    memory[RUN] = run
    memory[AHEAD] = ahead
