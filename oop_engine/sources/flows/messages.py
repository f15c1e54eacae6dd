"""Cut messages of IPFIX out of the bytes of a connection, by the length that each of them says."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy import int64, uint8
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import Whole, u16_be

MOST: Final = 1 << 16
"""More than the bytes of any message."""
LEAST: Final = 16
"""Bytes of a header."""
_VERSION: Final = 10


@kernel
def _cut(data: NDArray[uint8], at: Whole, end: Whole, found: NDArray[int64]) -> tuple[Whole, bool]:
    """Write where messages begin, and where the last ends; return how many there are, and whether what is behind them
    begins none.
    """
    many = int64(0)
    found[0] = at
    while at + 4 <= end:
        length = u16_be(data, at + 2)
        if u16_be(data, at) != _VERSION or length < LEAST:
            return many, True
        if at + length > end:
            break
        at += length
        many += 1
        found[many] = at
    return many, False


def cut(data: NDArray[np.uint8], at: int, end: int) -> tuple[NDArray[np.int64], bool]:
    """Return where the whole messages in data[at:end] begin, and where the last ends; and whether damage is behind it.

    Shape (messages + 1,). What is not damaged may go on behind the end. Cost: O(messages).
    """
    found = np.empty((end - at) // LEAST + 1, np.int64)
    many, damaged = _cut(data, at, end, found)
    return found[: int(many) + 1].copy(), bool(damaged)
