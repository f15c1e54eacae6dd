"""Assign keys to buckets, order the tuples of each bucket, and name the buckets for Spark."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import numpy as np

from operators.data.page import Int32s
from operators.kernels.compile.kernel import kernel, making_kernel

_EVEN = 6720
_TRIED = 1 << 16
_SEED = np.uint64(0x2545F4914F6CDD1D)


@kernel
def _mixed(h):
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@kernel
def bucket_of(words, width, buckets, found):
    """Write the bucket of each key words[i, :]; words from `width` on say what is null, and none of them is as zero."""
    many = np.uint64(buckets)
    for i in range(len(words)):
        h = _SEED
        for w in range(width):
            h = _mixed(h ^ words[i, w]) + _SEED
        for w in range(width, words.shape[1]):
            if words[i, w] != np.uint64(0):
                h = _mixed(h ^ words[i, w] ^ np.uint64(w)) + _SEED
        found[i] = np.int32(((h >> np.uint64(32)) * many) >> np.uint64(32))


@making_kernel
def together(buckets, starts, order):
    """Write the order that sorts tuples by bucket, stable; starts[b] is where bucket b begins, starts[-1] the end."""
    for i in range(len(buckets)):
        starts[buckets[i] + 1] += 1
    for b in range(1, len(starts)):
        starts[b] += starts[b - 1]
    free = starts.copy()
    for i in range(len(buckets)):
        b = buckets[i]
        order[free[b]] = i
        free[b] += 1


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
