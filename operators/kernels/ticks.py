"""Ticks that stand for no time: before all, after all, and far away; and how far a tick may be from 0.

Ticks are int64 everywhere. These are the only names for the numbers at its ends, for kernels and operators alike.
"""

from __future__ import annotations

from typing import Final

BEFORE_ALL: Final = -(2**63)
"""The bound of a stream that has promised nothing, and the greatest tick of no tuple."""

FOREVER: Final = 2**63 - 1
"""The bound of a stream that has ended, the end of a range without an end, and the least tick of no tuple."""

FAR: Final = 2**62
"""Farther than any tick that counts; -FAR is as far back. Sums of a tick, a range and it do not wrap."""

LIMIT: Final = 2**61
"""Windowing attributes at or beyond this magnitude are out of range: arithmetic on them could wrap.

So are longer ranges and slides, and origins further out.
"""
