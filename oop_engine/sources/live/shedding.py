"""A collector that cannot keep up keeps one of n datagrams, by chance, and its records say that they stand for n.

So sums over `bytes * sampling` are right in expectation whatever is left out (Horvitz and Thompson), which they are not
when the kernel drops what comes at the wrong moment. What is left out is still walked: it counts for its exporter's
sequence, its templates are learnt and its clock is heard, so losses and promises are the same.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from oop_engine.sources.flows.sample import Sample

_STEEP: Final = 3
"""How many times more n doubles where the buffer is full than where it is filled to `above`."""


@attrs.frozen(kw_only=True)
class Shedding:
    """When how much is left out, seen each time that datagrams are taken out of the receive buffer.

    Where `above` of it or more is filled, n doubles; the fuller it is, the more often, four times where it overflows;
    up to `most`. It halves where less than `below` is filled. `seed` makes the choice the same each time.
    """

    above: float = attrs.field(default=0.25, validator=[attrs.validators.ge(0), attrs.validators.le(1)])
    below: float = attrs.field(default=0.1, validator=[attrs.validators.ge(0), attrs.validators.le(1)])
    most: int = attrs.field(default=64, validator=attrs.validators.in_(range(1, 1 << 16)))
    seed: int = 0


@attrs.define(eq=False)
class Shedder:
    """Choose datagrams as the rules say. Cost: a random number a datagram while anything is left out, else none."""

    rules: Shedding
    rate: int = attrs.field(init=False, default=1)
    """One of so many is kept now."""
    highest: int = attrs.field(init=False, default=1)
    shed: int = attrs.field(init=False, default=0)
    """Datagrams left out."""
    _random: np.random.Generator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = np.random.default_rng(self.rules.seed)

    def choose(self, many: int, filled: float) -> Sample | None:
        """Say which of so many datagrams are kept, when so much of the receive buffer is filled; None for all."""
        if filled >= self.rules.above:
            over = (filled - self.rules.above) / max(1.0 - self.rules.above, 1e-9)
            self.rate = min(self.rate << 1 + int(_STEEP * over), self.rules.most)
        elif filled < self.rules.below:
            self.rate = max(1, self.rate // 2)
        if self.rate == 1:
            return None
        self.highest = max(self.highest, self.rate)
        kept = self._random.integers(0, self.rate, many) == 0
        self.shed += many - int(np.count_nonzero(kept))
        return Sample(kept, self.rate)
