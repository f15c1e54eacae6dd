"""count(distinct x) is exact: each value has one id in all slots, and a slot's set is a chain of ids.

A slot costs what it holds: combining walks the source's members, freeing the slot's own, and a value is forgotten when
the last slot that holds it is freed.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page
from operators.data.saved import ROOM
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import argument, plain, refuse
from operators.functions.columns import StateColumns, frozen, grown, present
from operators.functions.function import Function
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.functions.members import EMPTY, PAIRS, add_members, combine_members, free_members, listed, rehash

LEAST = 64


def _some(arguments: object, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    if not value:
        raise SchemaError("count(distinct) names no attribute.\n  Write count(distinct x), or count(*) for all tuples.")


@attrs.frozen(init=False)
class CountDistinct(Function):
    """Count the different values of an attribute, or combinations of several; int64, zero when there is none.

    Tuples with a null among them are skipped. NaN is one value, -0.0 is 0.0. Cost: 12 bytes a slot, 24 to 48 a member
    of a slot, and one key a value.
    """

    arguments: tuple[str, ...] = attrs.field(validator=_some)
    name = "count_distinct"

    def __init__(self, *arguments: str) -> None:
        self.__attrs_init__(arguments)  # pyright: ignore[reportAttributeAccessIssue]

    def output_name(self) -> str:
        """Return "count_distinct_x"."""
        return "_".join((self.name, *self.arguments))

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return an int64 field that is never null; SchemaError when values of a type cannot be told apart."""
        KeyIndex(self._fields(schema))
        return pa.field(name, pa.int64(), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Members(self._fields(schema))

    def _fields(self, schema: Schema) -> list[pa.Field]:
        where = f"count(distinct {', '.join(self.arguments)})"
        fields = [argument(schema, name, where=where) for name in self.arguments]
        for field in fields:
            if pa.types.is_nested(field.type):
                why = "equal values of it cannot be found"
                raise refuse(where, field, why, "Project it to numbers, times, text, binary or addresses before.")
        return [comparable(field) for field in fields]


@attrs.define
class Pairs(memory.Stateful):
    """The sets of slots as they are saved: slots[i] has members[i]."""

    capacity: int = attrs.field(default=0, metadata=memory.integer(least=0, most=ROOM - 1))
    slots: Slots = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array(least=0, below="capacity"))
    members: Slots = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array(least=0, length="slots"))


@attrs.define(eq=False)
class Members(StateColumns):
    """Hold a set of value ids a slot."""

    value_bytes: ClassVar[int] = 67
    """Bytes of a value, copies of it in results included."""

    bounded: ClassVar[bool] = False
    """A slot has no fixed size (thesis 6.2.2.2): an aggregate that is carried along would grow with what it holds."""
    fields: list[pa.Field]
    _index: KeyIndex = attrs.field(init=False, metadata=memory.part())
    _table: Int64s = attrs.field(factory=lambda: np.full(2 * LEAST, EMPTY), init=False, metadata=memory.rebuilt())
    _heads: Slots = attrs.field(factory=lambda: np.zeros(0, np.int32), init=False, metadata=memory.slots(saved=False))
    _counts: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots(saved=False))
    _members: npt.NDArray[np.int32] = attrs.field(
        factory=lambda: np.zeros(LEAST, np.int32), init=False, metadata=memory.rebuilt()
    )
    _after: npt.NDArray[np.int32] = attrs.field(
        factory=lambda: np.zeros(LEAST, np.int32), init=False, metadata=memory.rebuilt()
    )
    _holders: npt.NDArray[np.int32] = attrs.field(
        factory=lambda: np.zeros(LEAST, np.int32), init=False, metadata=memory.rebuilt()
    )
    _tally: Int64s = attrs.field(factory=lambda: np.zeros(3, np.int64), init=False)
    _form: None = attrs.field(init=False, default=None, metadata=memory.form(Pairs, "_become", lambda own: own.pairs()))

    def __attrs_post_init__(self) -> None:
        self._index = KeyIndex(self.fields)

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def update(self, slots: Slots, page: Page) -> None:
        valid: Bools | None = None
        for field in self.fields:
            there = page.valid(field.name)
            valid = there if valid is None else valid if there is None else valid & there
        slots, skipped = present(slots, valid)
        self.nulls += skipped
        columns = [comparable_column(plain(page, field.name)) for field in self.fields]
        if len(slots) and int(slots.min()) < 0:
            # A value that no slot takes must not be given an id that no slot would ever free.
            kept = slots >= 0
            columns = [column.filter(pa.array(kept)) for column in columns]
            slots = frozen(slots[kept])
        if len(slots) == 0:
            return
        ids = self._index.assign(columns)
        self._holders = _doubled(self._holders, int(ids.max()) + 1)
        self._make_room(len(ids))
        add_members(slots, frozen(ids), *self._sets())

    def combine(self, into: Slots, source: Slots) -> None:
        into, source = frozen(into), frozen(source)
        done = 0
        while True:
            done = int(combine_members(into, source, done, *self._sets()))
            if done == len(into):
                return
            self._make_room(int(self._counts[source[done]]))

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array(self._counts[slots])

    def free(self, slots: Slots) -> None:
        total = int(self._counts[slots].sum())
        if total == 0:
            return
        released = np.empty(total, np.int32)
        found = int(free_members(frozen(slots), *self._sets(), released))
        self._index.free(released[:found])
        if self._tally[PAIRS] == 0:
            self._empty(LEAST)

    def _sets(
        self,
    ) -> tuple[Int64s, Slots, Int64s, npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32], Int64s]:
        """Return the arrays of all sets in the order in which the kernels take them."""
        return self._table, self._heads, self._counts, self._members, self._after, self._holders, self._tally

    def _make_room(self, more: int) -> None:
        pairs = int(self._tally[PAIRS]) + more
        self._members, self._after = _doubled(self._members, pairs), _doubled(self._after, pairs)
        if 2 * pairs > len(self._table):
            table = np.full(2 << (2 * pairs - 1).bit_length(), EMPTY)
            rehash(self._table, table)
            self._table = table

    def _empty(self, size: int) -> None:
        """Free the room of sets that were larger once."""
        self._table = np.full(2 * size, EMPTY)
        self._members, self._after = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self._holders = np.zeros(size, np.int32)
        self._tally = np.zeros(3, np.int64)

    def pairs(self) -> Pairs:
        """Return what each slot has."""
        held = np.flatnonzero(self._counts).astype(np.int32)
        owners, members = np.empty(int(self._tally[PAIRS]), np.int32), np.empty(int(self._tally[PAIRS]), np.int32)
        listed(frozen(held), self._heads, self._members, self._after, owners, members)
        return Pairs(len(self._heads), owners, members)

    def _become(self, pairs: Pairs) -> None:
        owners, members = pairs.slots, pairs.members
        self._index.check_live(members, "members")
        self._heads, self._counts = np.zeros(pairs.capacity, np.int32), np.zeros(pairs.capacity, np.int64)
        self._empty(LEAST)
        if len(owners):
            self._holders = _doubled(self._holders, int(members.max()) + 1)
            self._make_room(len(owners))
            add_members(frozen(owners), frozen(members), *self._sets())


def _doubled(column: npt.NDArray[np.int32], needed: int) -> npt.NDArray[np.int32]:
    return column if needed <= len(column) else grown(column, max(needed, 2 * len(column)))


def comparable(field: pa.Field) -> pa.Field:
    """Return the field under which equal values are equal bytes; only decimals need another than their own."""
    if pa.types.is_decimal(field.type):
        return field.with_type(pa.binary(field.type.byte_width))
    return field


def comparable_column(column: pa.Array) -> pa.Array:
    """Return a column as `comparable` has its field."""
    return column.view(pa.binary(column.type.byte_width)) if pa.types.is_decimal(column.type) else column
