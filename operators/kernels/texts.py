# pyright: reportMissingParameterType=false
"""Compiled look-up of short texts by number, written as an Arrow string column is laid out."""

from __future__ import annotations

from operators.kernels.kernel import kernel


@kernel
def take(places, offsets, letters, found_offsets, found):  # type: ignore[no-untyped-def]
    """Write text places[i], letters[offsets[p]:offsets[p + 1]], one after the other; gives the number of letters."""
    size = 0
    found_offsets[0] = 0
    for i in range(len(places)):
        for at in range(offsets[places[i]], offsets[places[i] + 1]):
            found[size] = letters[at]
            size += 1
        found_offsets[i + 1] = size
    return size
