"""Dotted quads are read straight from a text column's bytes."""

from __future__ import annotations

from numpy import bool_, int32, uint8
from numpy.typing import NDArray

from operators.kernels.compile.kernel import inlined_kernel, kernel


@inlined_kernel
def quad(text, place, end):
    """Return the 32 bits of the d.d.d.d that begins at a place of a text, -1 for what is none, and the place behind it.

    It ends at `end` or at the first byte that is neither a digit nor a dot. Leading zeros are not read.
    """
    digits, dots, value, found = 0, 0, 0, 0
    while place < end:
        byte = int(text[place])
        if 48 <= byte <= 57:
            digits += 1
            value = value * 10 + (byte - 48)
            if value > 255 or digits > 3 or (digits > 1 and value < 10):
                return -1, place
        elif byte == 46:
            if digits == 0 or dots == 3:
                return -1, place
            found = found << 8 | value
            dots += 1
            digits, value = 0, 0
        else:
            break
        place += 1
    return (found << 8 | value if dots == 3 and digits > 0 else -1), place


@kernel
def read_dotted(
    offsets: NDArray[int32], text: NDArray[uint8], addresses: NDArray[uint8], other: NDArray[bool_]
) -> None:
    """Write the 16 bytes of each IPv4 text into `addresses`, shape (16 n,); mark in `other`, shape (n,), what is none.

    `offsets`, shape (n + 1,), int32, cut `text`, uint8. Leading zeros and anything but d.d.d.d are not read here.
    """
    for i in range(len(other)):
        address, behind = quad(text, offsets[i], offsets[i + 1])
        if address < 0 or behind < offsets[i + 1]:
            other[i] = True
            continue
        addresses[16 * i + 10] = 255
        addresses[16 * i + 11] = 255
        for j in range(4):
            addresses[16 * i + 12 + j] = address >> (24 - 8 * j) & 255
