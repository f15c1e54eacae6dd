"""A join that shows what it holds, and one that decides by numbers that were drawn."""

from __future__ import annotations

import attrs

from operators.data import memory
from operators.join import OAJoin
from operators.join.plain import Plain
from operators.join.policy import Policy
from operators.join.side import Side
from operators.join.tuples import Tuples


@attrs.define(eq=False)
class ShownJoin(OAJoin):
    """Join as always, and show the tuples held."""

    @property
    def left(self) -> Side:
        """Return the left tuples."""
        return self._memory.sides[0]


@attrs.define(eq=False)
class Drawn(Policy):
    """Decide by numbers that come one after another, over and over again."""

    numbers: tuple[bool, ...] = attrs.field(default=(True,), kw_only=True)
    _asked: int = attrs.field(default=0, init=False, metadata=memory.integer())

    def plain(self, tuples: Tuples, port: int) -> bool:
        return self._next()

    def worn(self, page: Plain, port: int) -> bool:
        return self._next()

    def _next(self) -> bool:
        self._asked += 1
        # A promise of keys takes the patience away: from then on all must be indexed.
        return self.patience > 0 and self.numbers[self._asked % len(self.numbers)]


@attrs.define(eq=False)
class DecidingJoin(OAJoin):
    """Join as always, but decide what lies plain by numbers alone."""

    numbers: tuple[bool, ...] = attrs.field(default=(True,), kw_only=True)

    def _policy(self, patience: int) -> Policy:
        return Drawn(patience, numbers=self.numbers)
