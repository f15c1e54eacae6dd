"""Admit unknown senders at a limited rate, so that forged ones leave time for the known ones.

To take in a stranger costs about a hundred times what a datagram costs otherwise. So many may come at once, and so many
a second in the long run; datagrams of further ones are counted and not read, before they cost anything. Senders that
are not allowed are reported one by one at first, and then counted together.
"""

from __future__ import annotations

from typing import Final

import attrs

from punctuation import NO_TIME

FREELY: Final = 2**62
"""More strangers than come."""
_SECOND: Final = 10**9


@attrs.define
class Budget:
    """At most `burst` at once, and `rate` a second in the long run."""

    rate: int
    burst: int
    full: int = attrs.field(init=False, default=NO_TIME)
    """When it is as at the beginning, if nothing is taken of it."""

    def left(self, now: int) -> int:
        """Return how many it has, in ns since 1970."""
        missing = max(0, self.full - now) if self.full != NO_TIME else 0
        return max(0, self.burst - -(-missing * self.rate // _SECOND))

    def take(self, now: int) -> None:
        """Take one of it."""
        self.full = max(self.full, now) + _SECOND // self.rate


@attrs.define
class Admission:
    """Limits on unknown senders: of those that may send, and of those that may not, which are only reported."""

    strangers: Budget = attrs.field(factory=lambda: Budget(200, 1024))
    refused: Budget = attrs.field(factory=lambda: Budget(1, 64))

    def state(self) -> list[int]:
        """Return what `restore` needs."""
        return [self.strangers.full, self.refused.full]

    def restore(self, saved: list[int]) -> None:
        """Go on as the one whose `state` this was."""
        self.strangers.full, self.refused.full = saved
