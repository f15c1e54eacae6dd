"""Assign keys to parts, and order the tuples of each part."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel

_SEED = np.uint64(0x2545F4914F6CDD1D)
_FEW = 6


@kernel
def _mixed(h):
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@kernel
def part_of(words, width, parts, seed, found):
    """Write the part of each key words[i, :]; words from `width` on say what is null, and none of them is as zero."""
    many = np.uint64(parts)
    for i in range(len(words)):
        h = _SEED ^ np.uint64(seed)
        for w in range(width):
            h = _mixed(h ^ words[i, w]) + _SEED
        for w in range(width, words.shape[1]):
            if words[i, w] != np.uint64(0):
                h = _mixed(h ^ words[i, w] ^ np.uint64(w)) + _SEED
        found[i] = np.int32(((h >> np.uint64(32)) * many) >> np.uint64(32))


@making_kernel
def part_order(parts, starts, order):
    """Write the order that sorts tuples by part, stable; starts[p] is where part p begins, starts[-1] the end.

    `order` has one place more than there are tuples. A few parts are looked for one after another: to count in memory
    makes each tuple wait for the one before.
    """
    n = len(parts)
    if len(starts) <= _FEW:
        at = 0
        for p in range(len(starts) - 1):
            starts[p] = at
            for i in range(n):
                order[at] = i
                at += parts[i] == p
        starts[-1] = at
        return
    for i in range(n):
        starts[parts[i] + 1] += 1
    for p in range(1, len(starts)):
        starts[p] += starts[p - 1]
    free = starts.copy()
    for i in range(n):
        p = parts[i]
        order[free[p]] = i
        free[p] += 1


@kernel
def gather(values, order, found):
    """Write the values at some places, one after another."""
    for i in range(len(order)):
        found[i] = values[order[i]]


@kernel
def gather_pairs(values, order, found):
    """Write the values of two words each, shape (n, 2), at some places."""
    for i in range(len(order)):
        found[i, 0] = values[order[i], 0]
        found[i, 1] = values[order[i], 1]
