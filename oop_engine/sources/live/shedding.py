"""Shed load by chance: a collector that cannot keep up keeps one of n datagrams, whose records stand for n.

So sums over `bytes * sampling` are right in expectation whatever is left out (Horvitz and Thompson), which they are not
when the kernel drops what comes at the wrong moment. Datagrams that are left out are still walked: they count for their
exporter's sequence, their templates are learnt and their clock is heard, so losses and promises are the same.

A small buffer is filled between two looks at it, though nothing is lost in the long run: that it is full tells of load
only where it is never found empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np

from oop_engine.sources.flows.sample import Sample
from operators.data.page import Bools
from operators.data.saved import read_int, read_text
from operators.protocol import State, StateValue

_EVERY: Final = 100_000_000
"""Nanoseconds after which n may change again, once it is seen what the last change did."""
_UP: Final = 2 ** (1 / 4)
_UP_WHERE_FULL: Final = 2.0
_DOWN: Final = 2 ** (1 / 8)
_DOWN_WHERE_EMPTY: Final = 2.0


@attrs.frozen(kw_only=True)
class Shedding:
    """The rule for leaving out datagrams, by how full the receive buffer is and whether it was emptied meanwhile.

    n rises where `above` of the buffer or more is filled, that is not becoming less, and the collector did not find it
    empty since it last took something out: one that does keeps up, however small the buffer is. The fuller it is, the
    more, twice where it overflows; up to `most`. n falls where the buffer was found empty or less than `below` is
    filled, fast where both is so. It changes ten times a second at most. `seed` makes the choice the same each time.
    """

    above: float = attrs.field(default=0.25, validator=[attrs.validators.ge(0), attrs.validators.le(1)])
    below: float = attrs.field(default=0.1, validator=[attrs.validators.ge(0), attrs.validators.le(1)])
    most: int = attrs.field(default=64, validator=attrs.validators.in_(range(1, 1 << 16)))
    seed: int = 0


@attrs.define(eq=False)
class Shedder:
    """Choose datagrams as the rules say. Cost: two random numbers a datagram while anything is left out, else none.

    Between two whole numbers, each datagram stands by chance for one of n or of n + 1, so that as many are kept as the
    rate says: 87 % need not be one of two.
    """

    rules: Shedding
    rate: float = attrs.field(init=False, default=1.0)
    """One of so many is kept now."""
    highest: int = attrs.field(init=False, default=1)
    shed: int = attrs.field(init=False, default=0)
    """Datagrams left out."""
    _changed: int | None = attrs.field(init=False, default=None)
    _filled: float = attrs.field(init=False, default=0.0)
    """How full the buffer was when the rate changed or could have."""
    _random: np.random.Generator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = np.random.default_rng(self.rules.seed)

    def choose(self, many: int, filled: float, now: int, *, idle: bool, spared: Bools | None = None) -> Sample | None:
        """Say which of so many datagrams are kept, None for all.

        `filled` is how much of the receive buffer is, before they are taken out; `now` in ns; `idle` whether it was
        found empty since the last call; those `spared`, of shape (many,), are kept.
        """
        if self._changed is None or abs(now - self._changed) >= _EVERY:
            self._adjust(filled, idle=idle)
            self._changed, self._filled = now, filled
        if self.rate == 1.0:
            return None
        whole = int(self.rate)
        # A share of n + 1 so large that 1 / rate of all are kept.
        larger = (1 / whole - 1 / self.rate) * whole * (whole + 1)
        rates = whole + (self._random.random(many) < larger).astype(np.int64)
        self.highest = max(self.highest, whole + (larger > 0))
        kept = self._random.integers(0, rates) == 0
        if spared is not None:
            rates, kept = np.where(spared, 1, rates), kept | spared
        self.shed += many - int(np.count_nonzero(kept))
        return Sample(kept, rates)

    def state(self) -> State:
        """Return what `restore` needs."""
        return {
            "rate": self.rate,
            "highest": self.highest,
            "shed": self.shed,
            "changed": self._changed,
            "filled": self._filled,
            "random": json.dumps(self._random.bit_generator.state),
        }

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Go on as the one whose `state` this was."""
        rate, filled = state.get("rate"), state.get("filled")
        if not isinstance(rate, float) or not isinstance(filled, float):
            raise ValueError(f"what is left out under load is saved as {rate!r} and {filled!r}")
        self.rate, self._filled = rate, filled
        self.highest, self.shed = read_int(state, "highest", least=1), read_int(state, "shed", least=0)
        self._changed = None if state.get("changed") is None else read_int(state, "changed")
        self._random.bit_generator.state = json.loads(read_text(state, "random"))

    def _adjust(self, filled: float, *, idle: bool) -> None:
        rules = self.rules
        if filled >= rules.above and filled >= self._filled and not idle:
            over = (filled - rules.above) / max(1.0 - rules.above, 1e-9)
            self.rate *= _UP * (_UP_WHERE_FULL / _UP) ** over
        elif idle or filled < rules.below:
            self.rate /= _DOWN_WHERE_EMPTY if idle and filled < rules.below else _DOWN
        self.rate = min(max(1.0, self.rate), float(rules.most))
