"""Periods of one length: the next begins where one ends."""

from __future__ import annotations

import attrs


@attrs.frozen
class NextPeriod:
    """Find the tick at which the next of periods of one length begins.

    >>> NextPeriod(30, 5)(34), NextPeriod(30, 5)(35)
    (35, 65)
    """

    length: int
    origin: int

    def __call__(self, tick: int) -> int:
        """Return the first edge after a tick."""
        return self.origin + ((tick - self.origin) // self.length + 1) * self.length

    def __str__(self) -> str:
        return f"{self.length} ticks"
