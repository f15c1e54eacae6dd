"""Assign keys to parts, and order the tuples of each part."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel, making_kernel

_SEED = np.uint64(0x2545F4914F6CDD1D)


@kernel
def _mixed(h):
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@kernel
def part_of(words, width, parts, found):
    """Write the part of each key words[i, :]; words from `width` on say what is null, and none of them is as zero."""
    many = np.uint64(parts)
    for i in range(len(words)):
        h = _SEED
        for w in range(width):
            h = _mixed(h ^ words[i, w]) + _SEED
        for w in range(width, words.shape[1]):
            if words[i, w] != np.uint64(0):
                h = _mixed(h ^ words[i, w] ^ np.uint64(w)) + _SEED
        found[i] = np.int32(((h >> np.uint64(32)) * many) >> np.uint64(32))


@making_kernel
def part_order(parts, starts, order):
    """Write the order that sorts tuples by part, stable; starts[p] is where part p begins, starts[-1] the end."""
    for i in range(len(parts)):
        starts[parts[i] + 1] += 1
    for p in range(1, len(starts)):
        starts[p] += starts[p - 1]
    free = starts.copy()
    for i in range(len(parts)):
        p = parts[i]
        order[free[p]] = i
        free[p] += 1
