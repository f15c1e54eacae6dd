"""A count beside a sum of whole numbers is that sum's number of values, and the few tuples without one.

The sum knows how many values it has, as it is null without any. So the count remembers nothing of its own, until a
tuple comes whose value is null: such tuples it counts by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.functions.count import Counts
from operators.functions.protocol import RunningTotals, Slots, Step, stepwise, summed

if TYPE_CHECKING:
    from operators.functions.sums import WholeTotals


@attrs.define(eq=False)
class TotalCounts(memory.Stateful):
    """Count the tuples of each slot, or those with a value, by a sum's number of values.

    If it `leads`, it comes before the sum, and tells the memory of both all that it is told.
    """

    totals: WholeTotals
    of_tuples: bool
    leads: bool
    _without: Counts | None = attrs.field(init=False, default=None)
    """The tuples without a value, if there was one."""
    _told: list[WholeTotals | Counts] = attrs.field(init=False)
    """What is to be told what this is told."""
    _capacity: int = attrs.field(init=False, default=0)
    _kept: Counts | None = attrs.field(init=False, default=None)
    """All counts, as a state has them, until the sum has what its own has."""
    _form: None = attrs.field(
        init=False,
        default=None,
        metadata=memory.form(lambda: Counts(None), "_become", lambda own: own._counts()),
    )
    """It is saved as a count of its own, so that what is computed beside it may change."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of both where it leads."""
        return (self.totals.nbytes if self.leads else 0) + (0 if self._without is None else self._without.nbytes)

    @property
    def nulls(self) -> int:
        """Return what a count of values has skipped; one of tuples skips none."""
        return 0 if self.of_tuples else self.totals.nulls

    def __attrs_post_init__(self) -> None:
        self._told = [self.totals] if self.leads else []

    def reserve(self, capacity: int) -> None:
        self._capacity = max(self._capacity, capacity)
        for one in self._told:
            one.reserve(capacity)

    def init(self, slots: Slots) -> None:
        for one in self._told:
            one.init(slots)

    def update(self, slots: Slots, page: Page) -> None:
        if self.leads:
            self.totals.update(slots, page)
        valid = page.valid(self.totals.argument) if self.of_tuples else None
        if valid is None:
            return
        if self._without is None:
            self._without = self._counting(Counts(None))
        self._without.update(np.where(valid, np.int32(-1), slots), page)

    def _counting(self, without: Counts) -> Counts:
        """Have tuples without a value counted from now on."""
        without.reserve(self._capacity)
        self._told.append(without)
        return without

    def step(self, slots: Slots, page: Page | None, step: Step) -> Int64s | None:
        if not self.leads or self._without is not None or not self.totals.steps(page):
            return stepwise(self, slots, page, step)
        found = self.totals.stepped(slots, page, step)
        return None if found is None else found[1]

    def run_totals(self, slots: Slots, page: Page | None, running: RunningTotals) -> Int64s | None:
        if not self.leads or self._without is not None or not self.totals.steps(page):
            return summed(self, self, slots, page, running)
        found = self.totals.ran(slots, page, running)
        return None if found is None else found[1]

    def combine(self, into: Slots, source: Slots) -> None:
        for one in self._told:
            one.combine(into, source)

    def clear_blocks(self, blocks: Slots) -> None:
        for one in self._told:
            one.clear_blocks(blocks)

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        for one in self._told:
            one.combine_blocks(into, source)

    def subtract(self, into: Slots, source: Slots) -> None:
        for one in self._told:
            one.subtract(into, source)

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        for one in self._told:
            one.accumulate(into, source, before)

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        for one in self._told:
            one.difference(into, later, earlier)

    def between(self, later: Slots, earlier: Slots) -> Int64s:
        return self.bits(later) - np.where(earlier >= 0, self.bits(np.maximum(earlier, 0)), 0)

    def bits(self, slots: Slots) -> Int64s:
        number = self.totals.numbers(slots)
        return number if self._without is None else number + self._without.bits(slots)

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array(self.bits(slots))

    def free(self, slots: Slots) -> None:
        for one in self._told:
            one.free(slots)

    def _counts(self) -> Counts:
        return Counts.of(self.bits(np.arange(self._capacity, dtype=np.int32)), self.nulls)

    def _become(self, kept: Counts) -> None:
        self._kept = kept
        if not self.leads:
            self.settle()

    def settle(self) -> None:
        """Take what is left of counts of a state without the values that the sum has; ValueError where that is none."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        counts, numbers = kept.all(), self.totals.all()[:, 2]
        self._capacity = len(counts)
        left = counts - numbers if len(counts) == len(numbers) else np.full(1, -1)
        if (left < 0).any() or (left.any() and not self.of_tuples):
            raise ValueError(f"the saved counts do not fit the number of values in sum({self.totals.argument})")
        if left.any():
            self._without = self._counting(Counts.of(left, 0))
