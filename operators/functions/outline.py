"""M4 and minmax describe a curve by few of its values: first, last, least, greatest; the extremes with their counts.

M4 (Jugel et al., PVLDB 2014) is all that a line drawn through the tuples of a pixel column shows of them.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.functions.arguments import argument, floating, is_floating, plain, refuse
from operators.functions.arrival import arrivals
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import InOrder, OfOne
from operators.functions.order import is_keyed, keys, unkeyed
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.functions.outline import add_counted, add_outline, combine_counted, combine_outlines


@attrs.frozen
class M4(InOrder):
    """Find the least, greatest, first and last value of an attribute, as a struct; null when there is none.

    First and last by the attribute `by`, of several tuples at one place the one with the smaller value; by arrival, on
    which the answer then depends, when there is no `by`. Tuples with a null in either are skipped; NaN is the least and
    the greatest of all. Cost: 49 bytes a slot.
    """

    name = "m4"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a struct of min, max, first and last; SchemaError for what is neither number nor time."""
        kind = _keyed(schema, self.argument, self._where).type
        if self.by is not None:
            _keyed(schema, self.by, self._where)
        return pa.field(name, _struct(min=kind, max=kind, first=kind, last=kind))

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        by = None if self.by is None else _keyed(schema, self.by, self._where).name
        field = _keyed(schema, self.argument, self._where)
        return Outlines(field.name, field.type, by)


@attrs.frozen
class MinMax(OfOne):
    """Find the least and the greatest value of an attribute, and how many tuples have each, as a struct.

    Null when there is no value. NaN is the least and the greatest of all, -0.0 is 0.0. Cost: 32 bytes a slot.
    """

    name = "minmax"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a struct of min, min_count, max, max_count; SchemaError for what is neither number nor time."""
        kind = _keyed(schema, self.argument, self._where).type
        return pa.field(name, _struct(min=kind, min_count=pa.int64(), max=kind, max_count=pa.int64()))

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        field = _keyed(schema, self.argument, self._where)
        return CountedExtremes(field.name, field.type)


@attrs.define(eq=False)
class Outlines(StateColumns):
    """Hold four values and two places a slot."""

    argument: str
    kind: pa.DataType
    by: str | None
    _arrived: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=1 << 62))
    _rows: Int64s = attrs.field(factory=lambda: np.zeros((0, 6), np.int64), init=False, metadata=memory.slots())
    _seen: Bools = attrs.field(factory=lambda: np.zeros(0, np.bool_), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._seen[slots] = False

    def update(self, slots: Slots, page: Page) -> None:
        valid = page.valid(self.argument)
        if self.by is None:
            first = arrivals(page, self._arrived)
            last = frozen(~first)
        else:
            there = page.valid(self.by)
            valid = there if valid is None else valid if there is None else valid & there
            place = plain(page, self.by)
            first, last = keys(place), keys(place, descending=True)
        slots, skipped = present(slots, valid)
        self.nulls += skipped
        self._arrived += len(page)
        column = plain(page, self.argument)
        add_outline(slots, keys(column), keys(column, descending=True), first, last, self._rows, self._seen)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_outlines(frozen(into), frozen(source), self._rows, self._seen)

    def finalize(self, slots: Slots) -> pa.Array:
        least, most, _, first, _, last = self._rows[slots].T
        there = self._seen[slots]
        found = [
            unkeyed(least, there, self.kind),
            unkeyed(most, there, self.kind, descending=True),
            unkeyed(first, there, self.kind),
            unkeyed(last, there, self.kind),
        ]
        return pa.StructArray.from_arrays(found, ["min", "max", "first", "last"], mask=pa.array(~there))

    def free(self, slots: Slots) -> None:
        pass


@attrs.define(eq=False)
class CountedExtremes(StateColumns):
    """Hold two keys and two counts a slot."""

    argument: str
    kind: pa.DataType
    _rows: Int64s = attrs.field(factory=lambda: np.zeros((0, 4), np.int64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._rows[slots] = 0

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        column = plain(page, self.argument)
        if is_floating(column.type):
            # Adding zero makes 0.0 of -0.0.
            column = pa.array(floating(column) + 0.0)
        add_counted(slots, keys(column), keys(column, descending=True), self._rows)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_counted(frozen(into), frozen(source), self._rows)

    def finalize(self, slots: Slots) -> pa.Array:
        least, of_least, most, of_most = self._rows[slots].T
        there = of_least > 0
        found = [
            unkeyed(least, there, self.kind),
            pa.array(of_least, mask=~there),
            unkeyed(most, there, self.kind, descending=True),
            pa.array(of_most, mask=~there),
        ]
        return pa.StructArray.from_arrays(found, ["min", "min_count", "max", "max_count"], mask=pa.array(~there))

    def free(self, slots: Slots) -> None:
        pass


def _struct(**kinds: pa.DataType) -> pa.StructType:
    return pa.struct([pa.field(name, kind) for name, kind in kinds.items()])


def _keyed(schema: Schema, name: str, where: str) -> pa.Field:
    field = argument(schema, name, where=where)
    if not is_keyed(field.type):
        raise refuse(where, field, "numbers or times are needed", f"Write min({name}) or argmin({name}, y) for others.")
    return field
