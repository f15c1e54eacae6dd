# pyright: reportMissingParameterType=false
"""Compiled walk along chains that nobody has checked yet."""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel


@kernel
def reach(heads, after, reached):
    """Mark what chains reach; False where one leaves the places, or comes to one that is marked."""
    for head in heads:
        i = head
        while i >= 0:
            if i >= len(after) or reached[i]:
                return False
            reached[i] = True
            i = after[i]
    return True
