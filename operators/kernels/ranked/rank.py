"""Compiled arrival ranks within partitions."""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel


@kernel
def ranks(ids, counts, out):
    """Write each tuple's arrival number within its partition, from 0, and count on."""
    for i in range(len(ids)):
        out[i] = counts[ids[i]]
        counts[ids[i]] += 1
