"""Promise by n tuples of slack: the (n+1)-th largest value so far, kept as the root of a heap of the n+1 largest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel


@kernel
def tuple_slack(
    ticks: npt.NDArray[np.int64],
    heap: npt.NDArray[np.int64],
    size: int,
    floor: int,
    limits: npt.NDArray[np.int64],
) -> int:
    """Write for each tick, shape (n,), the bound that held before it; give how full the heap is afterwards.

    `heap`, shape (slack + 1,), is a binary heap with its least value first, of which `size` values count; it takes each
    tick that is not below its bound. `floor` is a bound promised otherwise.
    """
    capacity = len(heap)
    for i in range(len(ticks)):
        tick = ticks[i]
        limit = floor
        if size == capacity and heap[0] > limit:
            limit = heap[0]
        limits[i] = limit
        if tick < limit:
            continue
        if size < capacity:
            at = size
            size += 1
            while at > 0 and heap[(at - 1) // 2] > tick:
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = tick
        elif tick > heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= capacity:
                    break
                if child + 1 < capacity and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= tick:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = tick
    return size
