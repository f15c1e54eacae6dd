# pyright: reportMissingParameterType=false
"""Compiled multisets: sorted rows (owner, key) with how often each is there, changed by sorted rows with a sign."""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel


@kernel
def merge(owners, keys, counts, new_owners, new_keys, signs, out_owners, out_keys, out_counts):
    """Write the rows of a multiset after a change; both are sorted by owner, then key. Gives the number of rows.

    A row leaves when its count is 0. Returns -1 when a row would be taken away more often than it is there.
    """
    n = 0
    i = 0
    j = 0
    while i < len(owners) or j < len(new_owners):
        mine = j >= len(new_owners)
        if not mine and i < len(owners):
            mine = owners[i] < new_owners[j] or (owners[i] == new_owners[j] and keys[i] <= new_keys[j])
        owner = owners[i] if mine else new_owners[j]
        key = keys[i] if mine else new_keys[j]
        count = counts[i] if mine else np.int64(0)
        if mine:
            i += 1
        while j < len(new_owners) and new_owners[j] == owner and new_keys[j] == key:
            count += signs[j]
            j += 1
        if count < 0:
            return -1
        if count > 0:
            out_owners[n] = owner
            out_keys[n] = key
            out_counts[n] = count
            n += 1
    return n


@kernel
def heads(owners, first):
    """Write for each owner the place of its first row; first[o] is -1 for all owners at the start."""
    for i in range(len(owners) - 1, -1, -1):
        first[owners[i]] = i
