"""A bag holds every value of a slot with how often it came, so that any question about them is answered exactly.

Numbers and times are held by their own order, anything else under an id that one index gives it in all slots.
Accumulators that ask different questions of the same attribute share one bag.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Protocol

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page
from operators.functions.arguments import is_floating, plain
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.distinct import comparable, comparable_column
from operators.functions.order import FIRST, is_keyed, keys, ranks, unkeyed, unsigned_zero
from operators.functions.protocol import Accumulator, Slots
from operators.functions.runs import Merged, Runs
from operators.functions.sharing import view

SLACK = 1024
"""Values that may lie forgotten in an index before it is worth going over."""


class Question(Protocol):
    """A question to the bags of some slots; a frozen value."""

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return one result per slot."""
        ...


@attrs.define(eq=False)
class Bag(StateColumns):
    """Hold the values of one attribute; NaN is one value, -0.0 is 0.0."""

    value_bytes: ClassVar[int] = 37
    """Bytes of a value, copies of it in results included."""

    field: pa.Field
    question: Question
    runs: Runs = attrs.field(factory=Runs, init=False, metadata=memory.part(slotted=True))
    _index: KeyIndex | None = attrs.field(init=False, metadata=memory.part())

    def __attrs_post_init__(self) -> None:
        self._index = None if is_keyed(self.field.type) else KeyIndex([comparable(self.field)])

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.field.name))
        self.nulls += skipped
        column = plain(page, self.field.name)
        if self._index is None:
            found = unsigned_zero(keys(column), column.type)
        else:
            column = comparable_column(column)
            if len(slots) and int(slots.min()) < 0:
                # A value that no slot takes is not worth an id.
                kept = slots >= 0
                column, slots = column.filter(pa.array(kept)), frozen(slots[kept])
            found = frozen(self._index.assign([column]).astype(np.int64))
        self.runs.add(slots, found)

    def combine(self, into: Slots, source: Slots) -> None:
        self.runs.combine(into, source)

    def subtract(self, into: Slots, source: Slots) -> None:
        self.runs.subtract(into, source)

    def finalize(self, slots: Slots) -> pa.Array:
        return self.question.answer(self, slots)

    def free(self, slots: Slots) -> None:
        self.runs.free(slots)
        if self._index is not None and len(self._index) > (2 * self.runs.entries + SLACK if self.runs.entries else 0):
            self._sweep(self._index)

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._index is not None:
            self._index.check_live(self.runs.keys(), "runs.keys")

    def view_of(self, owner: Accumulator) -> Accumulator | None:
        """Return an accumulator that asks its question of another bag of the same attribute."""
        if not isinstance(owner, Bag) or not owner.field.equals(self.field):
            return None
        return view(owner, partial(self.question.answer, owner))

    def values(self, held: Int64s, there: Bools) -> pa.Array:
        """Return the values that keys of this bag stand for, null where nothing is there."""
        kind = self.field.type
        if self._index is None:
            return unkeyed(held, there, kind)
        found = self._index.keys(held[there].astype(np.int32))[0]
        if found.type != kind:
            found = found.view(kind)
        places = np.cumsum(there) - 1
        return found.take(pa.array(places, mask=~there))

    def order(self, merged: Merged) -> Int64s:
        """Return numbers that are ordered as the values of merged keys are."""
        used = merged.keys[: int(merged.offsets[-1])]
        if self._index is None:
            return frozen(used)
        distinct, inverse = np.unique(used, return_inverse=True)
        return frozen(ranks(self.values(distinct, np.ones(len(distinct), np.bool_)))[inverse])

    def totals(self, slots: Slots) -> tuple[Int64s, Bools]:
        """Return how many values each slot has, and whether NaN is among them."""
        totals, of_least = self.runs.totals(slots, FIRST)
        return totals, (of_least > 0) if is_floating(self.field.type) else np.zeros(len(slots), np.bool_)

    def _sweep(self, index: KeyIndex) -> None:
        """Forget the values that are in no bag."""
        live = index.live()
        index.free(live[~self.runs.marked(index.capacity)[live]])
