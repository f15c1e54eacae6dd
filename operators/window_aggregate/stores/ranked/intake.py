"""The part that windows in the order of an attribute share: tuples come in and wait, and slots are freed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s, Page
from operators.data.saved import bounded
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction, Slots
from operators.kernels.ticks import LIMIT
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.stores.ranked.waiting import NOTHING, Bytes, Final, Owners, Said, Waiting


@attrs.define(eq=False)
class Intake(memory.Stateful):
    """Take tuples in, those below what is promised of their partition left out and counted."""

    wattr: str
    partitions: Partitions = attrs.field(metadata=memory.part())
    functions: Mapping[str, AggregateFunction]
    counts: dict[str, int]
    """Tuples left out, because they are `late` or `without_value`."""
    pool: Pool = attrs.field(init=False, metadata=memory.part())
    waiting: Waiting = attrs.field(init=False, metadata=memory.part())
    owners: Owners | None = attrs.field(init=False, default=None, metadata=memory.part())
    said: Said | None = attrs.field(init=False, default=None)
    """What predicates say of tuples, where the windows ask; whose window it is saves it."""

    def bind(self, schema: Schema) -> None:
        """Become ready for tuples of a schema."""
        self.partitions.bind(schema)
        self.pool = Pool([function.accumulator(schema) for function in self.functions.values()])
        self.waiting = Waiting(self.pool, self.partitions)
        self.owners = None if self.partitions.same else Owners()

    def take(self, page: Page, bits: Bytes = NOTHING) -> Int64s:
        """Let the tuples of a page wait; gives the values of those that are not left out.

        `bits`: what predicates say of each of them.
        """
        partitions = self.partitions
        page, values, parts, bits = in_time(page, self.wattr, partitions, self.counts, bits)
        if len(page) == 0:
            return values
        groups = partitions.members(page, parts)
        self.waiting.ensure(partitions.capacity)
        slots = self.waiting.add(page, values, parts)
        if self.owners is not None:
            self.owners.add(slots, groups)
        if self.said is not None:
            self.said.add(slots, bits)
        return values

    def final(self, parts: Int32s, bound: int) -> Final:
        """Take out the tuples of partitions below a bound, in order."""
        return self.waiting.release(parts, bound)

    def drop(self, slots: Slots) -> Int32s:
        """Return slots back and forget groups that have none left; gives partitions left without a group."""
        parts = np.empty(0, np.int32)
        if self.owners is not None and len(slots):
            parts = self.partitions.free_groups(self.owners.drop(slots))
        self.pool.give(slots)
        return parts

    @property
    def nulls(self) -> int:
        """Return how many tuples each aggregate skipped so far because an argument was null."""
        return sum(accumulator.nulls for accumulator in self.pool.accumulators)

    def _after_restoring(self) -> None:
        self.waiting.ensure(self.partitions.capacity)
        if self.owners is not None:
            bounded(self.owners.groups, "owners.of", below=self.partitions.capacity)
            self.owners.ensure(self.pool.capacity, self.partitions.capacity)


def in_time(
    page: Page,
    wattr: str,
    partitions: Partitions,
    counts: dict[str, int],
    bits: Bytes = NOTHING,
    *,
    lateness: int = 0,
) -> tuple[Page, Int64s, Int32s, Bytes]:
    """Return the tuples that are neither late nor without a value, with their values, partitions and bits.

    `counts`: the others are counted there, as `late` or `without_value`.
    `lateness`: tuples are in time so far below what is promised of all partitions; then none is ahead of the others.
    """
    values, valid = page.ticks(wattr), page.valid(wattr)
    least = max(-LIMIT + 1, partitions.bound - lateness)
    if len(page) and (valid is not None or int(values.min()) < least or int(values.max()) >= LIMIT):
        usable = (values > -LIMIT) & (values < LIMIT)
        if valid is not None:
            usable &= valid
        kept = usable & (values >= least)
        counts["without_value"] += int((~usable).sum())
        counts["late"] += int((usable & ~kept).sum())
        page, values, bits = page.select(kept), values[kept], bits[kept] if len(bits) else bits
    if len(page) == 0:
        return page, values, np.empty(0, np.int32), bits
    parts = partitions.parts(page)
    if lateness or partitions.most <= partitions.bound:
        return page, values, parts, bits
    late = values < partitions.limits(parts)
    if late.any():
        counts["late"] += int(late.sum())
        page, values, parts = page.select(~late), values[~late], parts[~late]
        bits = bits[~late] if len(bits) else bits
    return page, values, parts, bits
