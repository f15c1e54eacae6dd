"""Columns beside the partial aggregates hold what open windows have seen since they fired."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.functions.columns import StateColumns
from operators.functions.protocol import Slots
from operators.kernels.ticks import FOREVER
from operators.kernels.windows.firings import count_down
from operators.window_aggregate.triggers.condition import Seen
from operators.window_aggregate.triggers.cuts import Cuts


def _column() -> Int64s:
    return np.zeros(0, np.int64)


@attrs.define(eq=False)
class Firings(StateColumns):
    """Hold, for each slot, how often it fired, and the tuples and signals since. Cost: 56 bytes a slot.

    It lives beside the accumulators of a store, which gives out, clears and saves the slots of all of them. How many
    tuples a slot lacks until it fires follows from the rest: who knows the condition says it, with `lack`, wherever
    anything but the number of tuples has changed.
    """

    fresh: int = attrs.field(default=FOREVER)
    """How many tuples a slot lacks that has none."""

    fired: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _rows: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _all_rows: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _signals: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _all_signals: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _steps: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _lacking: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots(saved=False))

    @property
    def _columns(self) -> tuple[Int64s, ...]:
        return self.fired, self._rows, self._all_rows, self._signals, self._all_signals, self._steps

    def seen(self, slots: Slots) -> Seen:
        """Return what these slots have seen."""
        return Seen(*(column[slots] for column in self._columns[1:]))

    def new(self, slots: Slots) -> Int64s:
        """Return how many tuples each of these slots got since it fired."""
        return self._rows[slots]

    def tell(self, slots: Slots, bit: int) -> None:
        """Let slots, each named once, see a signal; one without a new tuple has nothing to fire for."""
        self._all_signals[slots] |= bit
        self._signals[slots[self._rows[slots] > 0]] |= bit

    def know(self, slots: Slots, bits: Int64s) -> None:
        """Let new slots, each named once, know what was before their first tuple: it stops triggers, and fires none."""
        self._all_signals[slots] |= bits

    def begin_again(self, slots: Slots, steps: Int64s) -> None:
        """Let slots, each named once, count from here on: they have fired, and these steps are behind."""
        self.fired[slots] += 1
        self._rows[slots] = 0
        self._signals[slots] = 0
        self._steps[slots] = steps

    def init(self, slots: Slots) -> None:
        for column in self._columns:
            column[slots] = 0
        self._lacking[slots] = self.fresh

    def lack(self, slots: Slots, lacking: Int64s) -> None:
        """Let slots, each named once, fire behind so many further tuples, one at least."""
        self._lacking[slots] = np.maximum(lacking, 1)

    def are_new(self, slots: Slots) -> Bools:
        """Return which of these slots have had no tuple."""
        return self._all_rows[slots] == 0

    def count(self, slots: Slots) -> bool:
        """Count a tuple in each of these slots, which may repeat; False, and none is counted, where one is to fire."""
        return bool(count_down(slots, self._rows, self._all_rows, self._lacking))

    def count_in(self, slot: int, tuples: int) -> bool:
        """Count tuples in one slot; False, and none is counted, where it is to fire."""
        if self._lacking[slot] <= tuples:
            return False
        self._lacking[slot] -= tuples
        self._rows[slot] += tuples
        self._all_rows[slot] += tuples
        return True

    def advance(self, slots: Slots, cuts: Cuts) -> None:
        """Let slots, each named once, see the tuples of a page, with the firings between them."""
        fired = cuts.fired > 0
        self.fired[slots] += cuts.fired
        self._rows[slots] = np.where(fired, 0, self._rows[slots]) + cuts.left
        self._all_rows[slots] += cuts.counts
        self._signals[slots[fired]] = 0
        self._steps[slots] = cuts.steps

    def update(self, slots: Slots, page: Page) -> None:
        # Tuples come with the firings between them, to `advance`.
        raise NotImplementedError

    def combine(self, into: Slots, source: Slots) -> None:
        # A window has one slot, so nothing is ever in both.
        for column in self._columns:
            column[into] += column[source]

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array(self.fired[slots])

    def free(self, slots: Slots) -> None:
        pass
