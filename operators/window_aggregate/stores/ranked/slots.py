"""A pool hands out the slots of several accumulators together, and adds up ranges of slots without an inverse."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s, Page
from operators.data.saved import ROOM
from operators.functions.columns import grown
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.ranked import ranked as kernels

NONE: Slots = np.empty(0, np.int32)
_LEAST = 16

Found = tuple[Int32s, Slots, Int64s, Int64s, Int64s]
"""Results: group, slot, window-id, beginning and end of each."""


@attrs.define(eq=False)
class Pool(memory.Stateful):
    """Hold slots; 4 bytes each besides the accumulators."""

    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    _made: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, most=ROOM))
    _spare: Slots = attrs.field(
        init=False,
        factory=lambda: np.empty(_LEAST, np.int32),
        metadata=memory.array(below="_made", apart=True, of=lambda pool: pool._spare[: pool._spared]),
    )
    _spared: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        for accumulator in self.accumulators:
            accumulator.reserve(_LEAST)

    def __len__(self) -> int:
        """Return the number of slots in use."""
        return self._made - self._spared

    @property
    def capacity(self) -> int:
        """Return one more than the largest slot there is room for."""
        return len(self._spare)

    @property
    def made(self) -> int:
        """Return one more than the largest slot that was ever in use."""
        return self._made

    def take(self, count: int) -> Slots:
        """Return slots that hold the identity."""
        again = min(count, self._spared)
        slots = np.empty(count, np.int32)
        slots[:again] = self._spare[self._spared - again : self._spared]
        slots[again:] = np.arange(self._made, self._made + count - again)
        self._spared -= again
        self._made += count - again
        if self._made > len(self._spare):
            size = max(self._made, 2 * len(self._spare))
            self._spare = grown(self._spare, size)
            for accumulator in self.accumulators:
                accumulator.reserve(size)
        for accumulator in self.accumulators:
            accumulator.init(slots)
        return slots

    def give(self, slots: Slots) -> None:
        """Take back slots, each in use and named once."""
        if len(slots) == 0:
            return
        for accumulator in self.accumulators:
            accumulator.free(slots)
        self._spare[self._spared : self._spared + len(slots)] = slots
        self._spared += len(slots)

    def update(self, slots: Slots, page: Page) -> None:
        """Add each tuple to its slot."""
        for accumulator in self.accumulators:
            accumulator.update(slots, page)

    def combine(self, into: Slots, source: Slots) -> None:
        """Set into[k] to into[k] (+) source[k], for each k in order."""
        if len(into):
            for accumulator in self.accumulators:
                accumulator.combine(into, source)

    def add_ranges(self, slots: Slots, lows: Int64s, highs: Int64s, targets: Slots) -> None:
        """Add slots[lows[q]], ..., slots[highs[q] - 1] to targets[q]; ranges only rise. Uses the slots up.

        Cost: at most three combinations a slot and two a range, in the order of the slots.
        """
        pairs = 3 * len(slots) + 2 * len(targets)
        into, source = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
        n = kernels.sweep(lows, highs, targets, slots, into, source)
        self.combine(into[:n], source[:n])

    def sums(self, slots: Slots, lows: Int64s, highs: Int64s) -> tuple[Slots, Slots]:
        """Return a slot for each range with the sum of its slots, and the slots to give back afterwards.

        Ranges only rise within what they have in common, none is empty, and the slots stay as they are.
        """
        lengths = highs - lows
        total = int(lengths.sum())
        if total == len(lengths):
            return slots[lows], NONE
        targets = self.take(len(lengths))
        if total <= 3 * (len(slots) + len(targets)):
            into, source = np.empty(total, np.int32), np.empty(total, np.int32)
            kernels.listed(lows, highs, targets, slots, into, source)
            self.combine(into, source)
            return targets, targets
        copies = self.take(len(slots))
        self.combine(copies, slots)
        self.add_ranges(copies, lows, highs, targets)
        self.give(copies)
        return targets, targets

    def _after_restoring(self) -> None:
        self._spared = len(self._spare)
        self._spare = grown(self._spare, max(self._made, _LEAST))
        for accumulator in self.accumulators:
            accumulator.reserve(self.capacity)
