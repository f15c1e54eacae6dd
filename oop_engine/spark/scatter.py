"""Name the buckets of a keyed stage for Spark, whose shuffle goes by its own hash of the names."""

from __future__ import annotations

import numpy as np

from operators.data.page import Int32s

_EVEN = 6720
_TRIED = 1 << 16


def labels(count: int) -> list[int]:
    """Return a number for each of so many buckets: by Spark's hash of them, a shuffle spreads them one by one.

    They are the same whatever the number of partitions, so state that Spark keeps under them is found again; even
    they are for numbers of partitions that divide 6720: all up to 8, 10, 12, 14 to 16, 20, 24, 28, 30, 32, ...
    """
    found: list[int] = []
    at = 0
    while len(found) < count:
        numbers = np.arange(at, at + _TRIED, dtype=np.int64)
        places = spark_hash(numbers.astype(np.int32)).astype(np.int64) % _EVEN
        by_place = {int(place): int(number) for number, place in zip(numbers[::-1], places[::-1], strict=True)}
        while len(found) < count and (number := by_place.get(len(found) % _EVEN)) is not None and number not in found:
            found.append(number)
        at += _TRIED
    return found


def spark_hash(numbers: Int32s) -> Int32s:
    """Return what hash(int) of Spark gives, shape (n,): Murmur3 of one word, seed 42."""
    with np.errstate(over="ignore"):
        k = numbers.view(np.uint32) * np.uint32(0xCC9E2D51)
        k = ((k << np.uint32(15)) | (k >> np.uint32(17))) * np.uint32(0x1B873593)
        h = np.uint32(42) ^ k
        h = ((h << np.uint32(13)) | (h >> np.uint32(19))) * np.uint32(5) + np.uint32(0xE6546B64)
        h = h ^ np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (h ^ (h >> np.uint32(16))).view(np.int32)
