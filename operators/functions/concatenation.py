"""concat joins texts in the order of an attribute, or of arrival; the order is kept beside them, so any may combine.

Without `by` the answer depends on the order of arrival; with it, as with a time stamp, it is the same in any disorder.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.saved import bounded
from operators.data.schema import Schema
from operators.functions.arguments import argument, plain, refuse
from operators.functions.arrival import ARRIVAL
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import InOrder
from operators.functions.log import ValueLog, logs
from operators.functions.order import is_bytes, is_keyed, keys, ranks
from operators.functions.protocol import Accumulator, Slots
from operators.functions.runs import Runs

SLACK = 1024
"""Texts that may lie dead in a log before it is worth going over."""


@attrs.frozen
class Concat(InOrder):
    """Join the texts of an attribute in the order of `by`, or of arrival, a separator between them; null without any.

    Texts at one place of `by` come in their own order. Tuples with a null in either are skipped. Cost: all texts of
    the slot once, and 16 to 64 bytes each.
    """

    separator: str = attrs.field(default="", kw_only=True)
    name = "concat"
    invertible = True

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError for what is neither text nor binary."""
        field, _ = self._fields(schema)
        return pa.field(name, field.type)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        field, by = self._fields(schema)
        return Sequences(field, by, self.separator)

    def _fields(self, schema: Schema) -> tuple[pa.Field, pa.Field | None]:
        where, field = self._where, self._field(schema)
        if not is_bytes(field.type) or pa.types.is_fixed_size_binary(field.type):
            raise refuse(where, field, "text or binary is needed", "Cast it to a string before.")
        if self.by is None:
            return field, None
        by = argument(schema, self.by, where=where)
        if not is_keyed(by.type):
            raise refuse(where, by, "numbers or times say what comes first", "Order by a time stamp or a number.")
        return field, by


@attrs.define(eq=False)
class Sequences(StateColumns):
    """Hold texts in a log, one for all slots, and a bag of positions in it a slot."""

    value_bytes: ClassVar[int] = 37
    """Bytes of a value, copies of it in results included."""

    field: pa.Field
    by: pa.Field | None
    separator: str
    by_position: ClassVar[bool] = True
    """Equal texts are told apart: only what was combined or updated there can be subtracted, not one like it."""
    _runs: Runs = attrs.field(factory=Runs, init=False, metadata=memory.part(slotted=True))
    _texts: ValueLog = attrs.field(init=False)
    _logs: tuple[ValueLog] = attrs.field(init=False, metadata=logs("texts"))
    """The texts alone."""
    _places: Int64s = attrs.field(
        factory=lambda: np.zeros(0, np.int64),
        init=False,
        metadata=memory.array(of=lambda own: own._places[: len(own._texts)]),
    )
    """The key by which each text is put in order; none when there is no `by` and texts lie in the order of arrival."""

    def __attrs_post_init__(self) -> None:
        self._texts = ValueLog(self.field.type)
        self._logs = (self._texts,)

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def update(self, slots: Slots, page: Page) -> None:
        valid = page.valid(self.field.name)
        if self.by is not None:
            there = page.valid(self.by.name)
            valid = there if valid is None else valid if there is None else valid & there
        slots, skipped = present(slots, valid)
        self.nulls += skipped
        kept = slots >= 0
        start = self._texts.append(plain(page, self.field.name).filter(pa.array(kept)))
        stop = len(self._texts)
        by = self.by.name if self.by is not None else ARRIVAL if ARRIVAL in page.schema else None
        if by is not None:
            if stop > len(self._places):
                # Texts without a place came before any tuple had to wait.
                places = np.arange(-start, max(stop, 2 * len(self._places)) - start)
                known = min(start, len(self._places))
                places[:known] = self._places[:known]
                self._places = places
            self._places[start:stop] = keys(plain(page, by))[kept]
        self._runs.add(frozen(slots[kept]), frozen(np.arange(start, stop)))

    def combine(self, into: Slots, source: Slots) -> None:
        self._runs.combine(into, source)

    def subtract(self, into: Slots, source: Slots) -> None:
        self._runs.subtract(into, source)

    def finalize(self, slots: Slots) -> pa.Array:
        found: list[pa.Array] = [pa.array([], self.field.type)]
        for merged in self._runs.merged(slots):
            used = int(merged.offsets[-1])
            counts = merged.counts[:used]
            positions = np.repeat(merged.keys[:used], counts)
            owners = np.repeat(np.repeat(np.arange(len(merged.offsets) - 1), np.diff(merged.offsets)), counts)
            if self.by is not None:
                texts = ranks(self._texts.take(positions))
                positions = positions[np.lexsort((texts, self._places[positions], owners))]
            elif len(self._places):
                positions = positions[np.lexsort((self._places[positions], owners))]
            numbers = np.bincount(owners, minlength=len(merged.offsets) - 1)
            found.append(self._joined(self._texts.take(positions), numbers.astype(np.int64)))
        return pa.concat_arrays(found)

    def free(self, slots: Slots) -> None:
        self._runs.free(slots)
        if self._runs.entries == 0:
            self._texts.become(pa.array([], self.field.type))
            self._places = np.zeros(0, np.int64)
        elif len(self._texts) > 2 * self._runs.entries + SLACK:
            alive = self._runs.marked(len(self._texts))
            self._runs.rename(np.cumsum(alive) - 1)
            self._texts.become(self._texts.settled().filter(pa.array(alive)))
            if len(self._places):
                self._places = self._places[: len(alive)][alive]

    def _joined(self, texts: pa.Array, numbers: Int64s) -> pa.Array:
        """Join each slot's texts, which lie one behind the other."""
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(numbers))).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), texts)
        kind = self.field.type
        between = (
            self.separator.encode() if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else self.separator
        )
        joined = pc.call_function("binary_join", [lists, pa.scalar(between, kind)])
        absent = pa.array(numbers == 0)
        return pc.call_function("if_else", [absent, pa.scalar(None, kind), joined])

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if len(self._places):
            bounded(self._places, "places", least=None, below=None, length=len(self._texts))
        bounded(self._runs.keys(), "runs.keys", below=len(self._texts))
