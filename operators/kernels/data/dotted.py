"""Dotted quads are read straight from a text column's bytes."""

from __future__ import annotations

from numpy import bool_, int32, uint8
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel


@kernel
def read_dotted(
    offsets: NDArray[int32], text: NDArray[uint8], addresses: NDArray[uint8], other: NDArray[bool_]
) -> None:
    """Write the 16 bytes of each IPv4 text into `addresses`, shape (16 n,); mark in `other`, shape (n,), what is none.

    `offsets`, shape (n + 1,), int32, cut `text`, uint8. Leading zeros and anything but d.d.d.d are not read here.
    """
    for i in range(len(other)):
        place, end = offsets[i], offsets[i + 1]
        digits, dots, value = 0, 0, 0
        good = end - place <= 15
        while good and place < end:
            byte = int(text[place])
            place += 1
            if 48 <= byte <= 57:
                digits += 1
                value = value * 10 + (byte - 48)
                good = value <= 255 and digits <= 3 and not (digits > 1 and value < 10)
            elif byte == 46 and digits > 0 and dots < 3:
                addresses[16 * i + 12 + dots] = value
                dots += 1
                digits, value = 0, 0
            else:
                good = False
        if good and dots == 3 and digits > 0:
            addresses[16 * i + 10] = 255
            addresses[16 * i + 11] = 255
            addresses[16 * i + 15] = value
        else:
            other[i] = True
