"""Rows of one width are packed to rows of their own lengths."""

from __future__ import annotations

from numpy import int64, uint8
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel


@kernel
def pack_rows(rows: NDArray[uint8], lengths: NDArray[int64], packed: NDArray[uint8]) -> None:
    """Write the first `lengths[i]` bytes of each row, shape (n, w), one after another; `packed` has just that room."""
    place = 0
    for i in range(len(lengths)):
        length = lengths[i]
        for j in range(length):
            packed[place + j] = rows[i, j]
        place += length
