"""Windows that are over stay open to late tuples for a while: how often each was given, and what it was last."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.digests import Words
from operators.data.page import Bools, Int64s, Page
from operators.functions.columns import StateColumns
from operators.functions.protocol import Slots


@attrs.define(eq=False)
class Finals(StateColumns):
    """Hold, for each slot, whether its window is over, how often it was given since, and what. Cost: 16 bytes a slot.

    It lives beside the accumulators of a store, as `Firings` does.
    """

    _turns: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    """0 where a window is not over, or else one more than the times that it was given."""
    _digests: Words = attrs.field(factory=lambda: np.zeros(0, np.uint64), init=False, metadata=memory.slots())
    """The digest of the aggregates that were given last."""

    def over(self, slots: Slots) -> Bools:
        """Return which of these windows are over."""
        return self._turns[slots] > 0

    def end(self, slots: Slots) -> None:
        """Let these windows be over, each named once, that were not."""
        self._turns[slots] = 1

    def revisions(self, slots: Slots) -> Int64s:
        """Return how often each of these windows was given since it was over."""
        found: Int64s = self._turns[slots] - 1
        return found

    def changed(self, slots: Slots, digests: Words) -> Bools:
        """Return which of these windows are not as they were given last, or were not given."""
        changed: Bools = (self._turns[slots] == 1) | (self._digests[slots] != digests)
        return changed

    def give(self, slots: Slots, digests: Words) -> None:
        """Note that these windows, each named once, are given so."""
        self._turns[slots] += 1
        self._digests[slots] = digests

    def init(self, slots: Slots) -> None:
        self._turns[slots] = 0
        self._digests[slots] = 0

    def update(self, slots: Slots, page: Page) -> None:
        # Tuples change nothing here.
        raise NotImplementedError

    def combine(self, into: Slots, source: Slots) -> None:
        # A window has one slot, so nothing is ever in both.
        raise NotImplementedError

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array(self._turns[slots])

    def free(self, slots: Slots) -> None:
        pass
