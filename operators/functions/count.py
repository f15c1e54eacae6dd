"""count(*) counts tuples, count(x) those in which x is not null; no tuple counts zero."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions.arguments import argument, call, whole
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import Function
from operators.functions.protocol import Accumulator, Slots, Step, stepwise
from operators.kernels.functions.partials import merge_counts
from operators.kernels.functions.sums import (
    BLOCK,
    add_count_blocks,
    add_counts,
    count_slots,
    read_counts,
    step_counts,
    subtract_count_blocks,
    subtract_counts,
)


@attrs.frozen
class Count(Function):
    """Count tuples, or those with a value of one attribute; int64.

    Cost: 8 bytes a slot; beside a sum of whole numbers none, before a value is null.
    """

    argument: str | None
    name = "count"
    invertible = True

    @property
    def arguments(self) -> tuple[str, ...]:
        return () if self.argument is None else (self.argument,)

    def output_name(self) -> str:
        """Return "count" or "count_x"."""
        return "count" if self.argument is None else f"count_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return an int64 field that is never null; SchemaError when there is no such attribute."""
        if self.argument is not None:
            argument(schema, self.argument, where=call("count", self.argument))
        return pa.field(name, pa.int64(), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        if self.argument is None:
            return Counts(None)
        return Counts(argument(schema, self.argument, where=call("count", self.argument)).name)


@attrs.define(eq=False)
class Counts(StateColumns):
    """Hold one count a slot."""

    argument: str | None
    partial: str | None = None
    """An attribute of counts that were made before and are added up; then `argument` is not looked at."""
    _counts: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())

    @classmethod
    def of(cls, counts: Int64s, nulls: int) -> Counts:
        """Take over the counts of tuples, and how many were skipped."""
        self = cls(None)
        self._counts, self.nulls = counts, nulls
        return self

    def all(self) -> Int64s:
        """Return the counts of all slots."""
        return self._counts

    def init(self, slots: Slots) -> None:
        self._counts[slots] = 0

    def update(self, slots: Slots, page: Page) -> None:
        if self.partial is not None:
            merge_counts(frozen(slots), whole(page.column(self.partial)), self._counts)
            return
        valid = None if self.argument is None else page.valid(self.argument)
        slots, skipped = present(slots, valid)
        self.nulls += skipped
        count_slots(slots, self._counts)

    def step(self, slots: Slots, page: Page | None, step: Step) -> Int64s | None:
        if page is not None and (self.argument is not None or self.partial is not None):
            return stepwise(self, slots, page, step)
        found = np.empty(len(step.results), np.int64)
        step_counts(slots, self._counts, step.results, step.into, step.source, step.gone, found)
        return found

    def combine(self, into: Slots, source: Slots) -> None:
        add_counts(frozen(into), frozen(source), self._counts)

    def clear_blocks(self, blocks: Slots) -> None:
        self._counts.reshape(-1, BLOCK)[blocks] = 0

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        add_count_blocks(frozen(into), frozen(source), self._counts)

    def subtract_blocks(self, into: Slots, source: Slots) -> None:
        subtract_count_blocks(frozen(into), frozen(source), self._counts)

    def subtract(self, into: Slots, source: Slots) -> None:
        subtract_counts(frozen(into), frozen(source), self._counts)

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        self._counts[into] = np.cumsum(self._counts[source])
        if before >= 0:
            self._counts[into] += self._counts[before]

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        # Of nothing, the last count is taken, and then none.
        self._counts[into] = self.between(later, earlier)

    def between(self, later: Slots, earlier: Slots) -> Int64s:
        return self._counts[later] - np.where(earlier >= 0, self._counts[earlier], 0)

    def bits(self, slots: Slots) -> Int64s:
        return self._counts.take(slots)

    def finalize(self, slots: Slots) -> pa.Array:
        found = np.empty(len(slots), np.int64)
        read_counts(frozen(slots), self._counts, found)
        return pa.array(found)

    def free(self, slots: Slots) -> None:
        pass
