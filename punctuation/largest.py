"""The k-th largest value seen so far, after every tuple, without a step a tuple."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]


def running_largest(kept: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the k-th largest value seen after each of `values`, shape (n,), and the k largest in the end.

    `kept`, shape (k,), are the k largest before, the least int64 where there were fewer. A wavelet matrix answers all
    n prefixes at once, a bit of the rank a pass: O((n + k) log(n + k)) instead of a heap operation a tuple.
    """
    k = len(kept)
    sequence = np.concatenate([kept, values])
    ordered = np.sort(sequence)
    ranks = np.searchsorted(ordered, sequence)
    # For the prefix [0, end) the k-th largest is sought; (low, high) follows it down the matrix.
    low = np.zeros(len(values), np.int64)
    high = np.arange(k + 1, len(sequence) + 1)
    wanted = np.full(len(values), k, np.int64)
    found = np.zeros(len(values), np.int64)
    for bit in reversed(range(max(1, len(sequence).bit_length()))):
        ones = (ranks >> bit) & 1
        ones_before = np.concatenate([[0], np.cumsum(ones)])
        zeros = len(ranks) - int(ones_before[-1])
        low_ones, high_ones = ones_before[low], ones_before[high]
        into_ones = high_ones - low_ones >= wanted
        found += into_ones.astype(np.int64) << bit
        wanted -= np.where(into_ones, 0, high_ones - low_ones)
        low = np.where(into_ones, zeros + low_ones, low - low_ones)
        high = np.where(into_ones, zeros + high_ones, high - high_ones)
        ranks = np.concatenate([ranks[ones == 0], ranks[ones == 1]])
    return ordered[found], ordered[len(ordered) - k :]
