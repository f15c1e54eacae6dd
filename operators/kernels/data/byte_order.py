"""Read unsigned numbers from bytes: 16, 32 or 64 bits, the highest byte first (`be`) or the lowest (`le`).

The caller has seen to it that the bytes are there. Each becomes one load, with a swap of its bytes where they lie in
the other order. Numbers of 16 and 32 bits are int64, those of 64 bits uint64.
"""

from __future__ import annotations

from typing import TypeAlias

from numpy import int64, integer, uint8, uint64
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel

Whole: TypeAlias = "int | int64"
"""A whole number: NumPy's where a kernel runs as Python."""


@kernel
def u16_be(data: NDArray[uint8], at: Whole) -> int64:
    """Read 2 bytes in network order."""
    return int64(data[uint64(at)]) << 8 | int64(data[uint64(at + 1)])


@kernel
def u16_le(data: NDArray[uint8], at: Whole) -> int64:
    """Read 2 bytes, the lowest first."""
    return int64(data[uint64(at)]) | int64(data[uint64(at + 1)]) << 8


@kernel
def u32_be(data: NDArray[uint8], at: Whole) -> int64:
    """Read 4 bytes in network order."""
    return (
        int64(data[uint64(at)]) << 24
        | int64(data[uint64(at + 1)]) << 16
        | int64(data[uint64(at + 2)]) << 8
        | int64(data[uint64(at + 3)])
    )


@kernel
def u32_le(data: NDArray[uint8], at: Whole) -> int64:
    """Read 4 bytes, the lowest first."""
    return (
        int64(data[uint64(at)])
        | int64(data[uint64(at + 1)]) << 8
        | int64(data[uint64(at + 2)]) << 16
        | int64(data[uint64(at + 3)]) << 24
    )


@kernel
def u32(data: NDArray[uint8], at: Whole, big: bool) -> int64:
    """Read 4 bytes, the lowest first, or with `big` the highest."""
    return u32_be(data, at) if big else u32_le(data, at)


@kernel
def u64_be(data: NDArray[uint8], at: Whole) -> uint64:
    """Read 8 bytes in network order."""
    return uint64(u32_be(data, at)) << uint64(32) | uint64(u32_be(data, at + 4))


@kernel
def u64_le(data: NDArray[uint8], at: Whole) -> uint64:
    """Read 8 bytes, the lowest first, as a little-endian machine has them in memory."""
    return uint64(u32_le(data, at)) | uint64(u32_le(data, at + 4)) << uint64(32)


def each_be(data: NDArray[uint8], at: NDArray[integer], size: int) -> NDArray[int64]:
    """Read numbers of `size` bytes in network order at many places, shape (n,); `at` has shape (n,) too."""
    found = data[at].astype(int64)
    for k in range(1, size):
        found = found << 8 | data[at + k]
    return found
