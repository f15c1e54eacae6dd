"""Of the versions of a key, the one that was valid at a time is found by binary search."""

from __future__ import annotations

from numpy import bool_, int32, int64
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel


@kernel
def find_versions(
    keys: NDArray[int32],
    times: NDArray[int64],
    timed: NDArray[bool_],
    firsts: NDArray[int32],
    since: NDArray[int64],
    rows: NDArray[int32],
    found: NDArray[int32],
) -> None:
    """Write the row of the last version of each key that begins at or before its time, -1 for none.

    Versions firsts[k] to firsts[k + 1] are those of key k, in the order of their beginnings `since`. `timed` says which
    tuples have a time; it is empty where all have.
    """
    for i in range(len(keys)):
        key = keys[i]
        found[i] = -1
        if key < 0 or (len(timed) and not timed[i]):
            continue
        least, most = firsts[key] - 1, firsts[key + 1] - 1
        while least < most:
            middle = (least + most + 1) >> 1
            if since[middle] <= times[i]:
                least = middle
            else:
                most = middle - 1
        if least >= firsts[key]:
            found[i] = rows[least]
