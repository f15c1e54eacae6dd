"""Count how far values are behind the largest before them, in cells that are narrow where distances are short.

A distance below 2048 has a cell of its own; above, each power of two is cut into 1024 cells, so a cell's bounds are
within a thousandth of each other. Distances are unsigned: they fit whatever the values are.

Stack of blocks: the fewest pieces that a stream falls into so that every value of a piece is at least those of all the
pieces before it; a block on the stack is its largest value and its number of values. A late value unites the blocks
that it is below; what is too old to be on the stack is settled, and a value below it is told as beyond.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import BEFORE_ALL

Int64s = npt.NDArray[np.int64]
CELLS = 2048 + 53 * 1024

(
    SEEN, NULLS, HIGHEST, LOWEST, LATE, MOST, MOST_AT, JUMP, JUMP_AT, BEHIND, DEPTH, SETTLED, PIECES, BLOCKS, BLOCKED,
    LARGEST, BEYOND, KEPT, STRIDE, WIDTH,
) = range(20)  # fmt: skip
"""What `state` holds; MOST and JUMP are unsigned bits.

SEEN values and NULLS; MOST behind is the value at place MOST_AT. JUMP is the largest rise of the largest value, at
JUMP_AT, and BEHIND the values after it that were behind by more than half of it. DEPTH blocks are on the stack, SETTLED
is the largest value of those that are not any more: PIECES of them, BLOCKS of two values or more, with BLOCKED values
together and LARGEST in one; BEYOND values were below SETTLED. KEPT samples, one in STRIDE; WIDTH places to a slice.
"""


@kernel
def cell_of(distance: np.uint64) -> np.int64:
    """Return the cell of a distance."""
    if distance < np.uint64(2048):
        return np.int64(distance)
    shift = 0
    rest = distance >> np.uint64(11)
    if rest >= np.uint64(1 << 32):
        rest >>= np.uint64(32)
        shift += 32
    if rest >= np.uint64(1 << 16):
        rest >>= np.uint64(16)
        shift += 16
    if rest >= np.uint64(1 << 8):
        rest >>= np.uint64(8)
        shift += 8
    if rest >= np.uint64(1 << 4):
        rest >>= np.uint64(4)
        shift += 4
    if rest >= np.uint64(1 << 2):
        rest >>= np.uint64(2)
        shift += 2
    if rest >= np.uint64(1 << 1):
        shift += 1
    shift += 1
    return np.int64(1024 * shift) + np.int64(distance >> np.uint64(shift))


@kernel
def start_of(tick: np.int64, length: np.int64) -> np.int64:
    """Return where the block of a tick begins, the least there is where that does not fit."""
    start = tick // length * length
    return start if start <= tick else np.int64(BEFORE_ALL)


@kernel
def observe(
    ticks: Int64s,
    none: int,
    state: Int64s,
    cells: Int64s,
    lengths: Int64s,
    bounds: Int64s,
    broken: Int64s,
) -> None:
    """Count how far each value is behind; `none` stands for no value.

    broken[k] counts the values that would break the promise of blocks of lengths[k], which is that what is below the
    start of the block in progress, bounds[k], does not come any more.
    """
    highest = state[HIGHEST]
    seen = state[SEEN]
    for i in range(len(ticks)):
        tick = ticks[i]
        if tick == none:
            state[NULLS] += 1
            continue
        if seen == 0:
            highest = tick
            state[LOWEST] = tick
            for k in range(len(lengths)):
                bounds[k] = start_of(tick, lengths[k])
        place = seen
        seen += 1
        if tick >= highest:
            if tick > highest:
                rise = np.uint64(tick) - np.uint64(highest)
                if rise > np.uint64(state[JUMP]):
                    state[JUMP] = np.int64(rise)
                    state[JUMP_AT] = place
                    state[BEHIND] = 0
                for k in range(len(lengths)):
                    if np.uint64(tick) - np.uint64(bounds[k]) >= np.uint64(lengths[k]):
                        bounds[k] = start_of(tick, lengths[k])
                highest = tick
            continue
        distance = np.uint64(highest) - np.uint64(tick)
        cells[cell_of(distance)] += 1
        state[LATE] += 1
        if distance > np.uint64(state[MOST]):
            state[MOST] = np.int64(distance)
            state[MOST_AT] = place
        if distance > np.uint64(state[JUMP]) >> np.uint64(1):
            state[BEHIND] += 1
        if tick < state[LOWEST]:
            state[LOWEST] = tick
        for k in range(len(lengths)):
            if tick < bounds[k]:
                broken[k] += 1
    state[HIGHEST] = highest
    state[SEEN] = seen


@kernel
def settle(state: Int64s, sizes: Int64s, first: int, last: int) -> None:
    """Count the blocks first <= b < last of the stack among those that are settled."""
    for b in range(first, last):
        size = sizes[b]
        state[PIECES] += 1
        if size > 1:
            state[BLOCKS] += 1
            state[BLOCKED] += size
            state[LARGEST] = max(state[LARGEST], size)


@kernel
def unite(ticks: Int64s, none: int, state: Int64s, tops: Int64s, sizes: Int64s) -> None:
    """Put values on the stack of blocks; when it is full its lower half is settled."""
    depth = state[DEPTH]
    for i in range(len(ticks)):
        tick = ticks[i]
        if tick == none:
            continue
        top = tick
        size = np.int64(1)
        while depth > 0 and tops[depth - 1] > tick:
            depth -= 1
            top = max(top, tops[depth])
            size += sizes[depth]
        if depth == 0 and state[PIECES] > 0 and state[SETTLED] > tick:
            state[BEYOND] += 1
        if depth == len(tops):
            half = depth // 2
            settle(state, sizes, 0, half)
            state[SETTLED] = tops[half - 1]
            for b in range(half, depth):
                tops[b - half] = tops[b]
                sizes[b - half] = sizes[b]
            depth -= half
        tops[depth] = top
        sizes[depth] = size
        depth += 1
    state[DEPTH] = depth


@kernel
def sample(
    ticks: Int64s,
    places: Int64s,
    marks: Int64s,
    none: int,
    state: Int64s,
    before: np.int64,
    seen: int,
    samples: Int64s,
    slices: Int64s,
) -> None:
    """Keep a sample of the values and, of each slice of them, the one that is furthest behind.

    A row of both is place, value, distance behind, mark; a slice without a late value has distance 0. Of the samples
    every second is left out when there is no more room; of the slices two become one. `before` is the largest value,
    and `seen` the number of values, before the first.
    """
    highest = before
    kept = state[KEPT]
    stride = state[STRIDE]
    width = state[WIDTH]
    for i in range(len(ticks)):
        tick = ticks[i]
        if tick == none:
            continue
        if seen == 0 or tick > highest:
            highest = tick
        distance = np.int64(np.uint64(highest) - np.uint64(tick))
        if seen % stride == 0:
            if kept == len(samples):
                for k in range(kept // 2):
                    for c in range(4):
                        samples[k, c] = samples[2 * k, c]
                kept //= 2
                stride *= 2
            if seen % stride == 0:
                samples[kept, 0] = places[i]
                samples[kept, 1] = tick
                samples[kept, 2] = distance
                samples[kept, 3] = marks[i]
                kept += 1
        s = seen // width
        if s == len(slices):
            for k in range(len(slices) // 2):
                one = 2 * k
                if np.uint64(slices[one + 1, 2]) > np.uint64(slices[one, 2]):
                    one += 1
                for c in range(4):
                    slices[k, c] = slices[one, c]
            for k in range(len(slices) // 2, len(slices)):
                slices[k, 2] = 0
            width *= 2
            s = seen // width
        if np.uint64(distance) > np.uint64(slices[s, 2]):
            slices[s, 0] = places[i]
            slices[s, 1] = tick
            slices[s, 2] = distance
            slices[s, 3] = marks[i]
        seen += 1
    state[KEPT] = kept
    state[STRIDE] = stride
    state[WIDTH] = width
