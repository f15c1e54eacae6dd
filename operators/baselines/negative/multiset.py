"""Aggregates that are exact under insertions and deletions, for many groups at once.

Counts, whole sums and averages undo what they added. A minimum cannot: it keeps its values, sorted, with how often each
is there, so that the next one is at hand when the least is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM
from operators.data.schema import Schema
from operators.errors import OperatorBug, SchemaError
from operators.functions.arguments import argument, plain
from operators.functions.order import is_keyed, keys, unkeyed
from operators.functions.protocol import Accumulator, AggregateFunction, Slots, Subtractable
from operators.kernels.baselines.negative import heads, merge
from operators.protocol import State, StateValue


class Signed(Protocol):
    """An aggregate of each group over tuples that come and go."""

    @property
    def nulls(self) -> int:
        """Return how many tuples were skipped because an argument was null."""
        ...

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held."""
        ...

    def start(self, groups: Int32s, capacity: int) -> None:
        """Begin these groups with no tuple; `capacity` is above every group id."""
        ...

    def change(self, groups: Int32s, signs: Int64s, page: Page) -> None:
        """Add the tuples whose sign is 1 to their groups and take away those whose sign is -1, shape (n,)."""
        ...

    def finalize(self, groups: Int32s) -> pa.Array:
        """Return one result a group."""
        ...

    def stop(self, groups: Int32s) -> None:
        """Forget these groups, which have no tuple left."""
        ...

    def state(self) -> State:
        """Return all that is remembered."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the aggregate whose `state` this was."""
        ...


def signed(function: AggregateFunction, schema: Schema) -> Signed:
    """Make the signed form of a function; SchemaError when it cannot be exact."""
    accumulator = function.accumulator(schema)
    # What tells equal tuples apart cannot take one away for another.
    if isinstance(accumulator, Subtractable) and not getattr(accumulator, "by_position", False):
        return Inverted(accumulator)
    call = f"{function.name}({', '.join(function.arguments)})"
    if function.name in ("min", "max"):
        field = argument(schema, function.arguments[0], where=call)
        if is_keyed(field.type):
            return Multiset(field.name, field.type, function.name == "max")
        raise SchemaError(
            f'{call}: "{field.name}" has type {field.type}; under negative tuples a minimum or maximum is of numbers, '
            "truth values or times.\n  Use a WindowAggregate, which needs no negative tuples."
        )
    raise SchemaError(
        f"{call}: what a tuple added to it cannot be taken away again exactly.\n"
        "  Negative tuples go with count, avg and sum of whole numbers, min and max. Use a WindowAggregate for others."
    )


@attrs.define(eq=False)
class Inverted(memory.Stateful):
    """Add tuples to an accumulator's slots, one a group, and subtract what deleted tuples add up to."""

    accumulator: Accumulator = attrs.field(metadata=memory.part(name="held"))
    nulls: int = attrs.field(default=0, init=False, metadata=memory.integer())
    _capacity: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=ROOM))

    def start(self, groups: Int32s, capacity: int) -> None:
        if capacity > self._capacity:
            self._capacity = max(capacity, 2 * self._capacity, 16)
            self.accumulator.reserve(self._capacity)
        self.accumulator.init(groups)

    def change(self, groups: Int32s, signs: Int64s, page: Page) -> None:
        before = self.accumulator.nulls
        self.accumulator.update(np.where(signs > 0, groups, np.int32(-1)), page)
        self.nulls += self.accumulator.nulls - before
        gone = signs < 0
        if not gone.any():
            return
        assert isinstance(self.accumulator, Subtractable)
        # What is deleted is added up in slots behind those of the groups, which need them for this call only.
        into, which = np.unique(groups[gone], return_inverse=True)
        spare = np.arange(self._capacity, self._capacity + len(into), dtype=np.int32)
        self.accumulator.reserve(self._capacity + len(into))
        self.accumulator.init(spare)
        slots = np.full(len(groups), -1, np.int32)
        slots[gone] = spare[which]
        self.accumulator.update(slots, page)
        self.accumulator.subtract(into, spare)
        self.accumulator.free(spare)

    def finalize(self, groups: Int32s) -> pa.Array:
        return self.accumulator.finalize(groups)

    def stop(self, groups: Int32s) -> None:
        self.accumulator.free(groups)

    def _after_restoring(self) -> None:
        self.accumulator.reserve(self._capacity)


@attrs.define(eq=False)
class Multiset(memory.Stateful):
    """Hold the keys of each group's values in order, 20 bytes a different one; a change costs O(keys held)."""

    argument: str
    kind: pa.DataType
    descending: bool
    nulls: int = attrs.field(default=0, init=False, metadata=memory.integer())
    _capacity: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=ROOM))
    _owners: Int32s = attrs.field(
        factory=lambda: np.empty(0, np.int32), init=False, metadata=memory.array(least=0, below="_capacity")
    )
    _keys: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), init=False, metadata=memory.array(length="_owners")
    )
    _counts: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), init=False, metadata=memory.array(length="_owners")
    )

    def start(self, groups: Int32s, capacity: int) -> None:
        self._capacity = max(capacity, self._capacity)

    def change(self, groups: Int32s, signs: Int64s, page: Page) -> None:
        changed = keys(plain(page, self.argument), descending=self.descending)
        valid: Bools | None = page.valid(self.argument)
        if valid is not None:
            self.nulls += int(np.count_nonzero(~valid & (signs > 0)))
            groups, signs, changed = groups[valid], signs[valid], changed[valid]
        order = np.lexsort((changed, groups))
        size = len(self._owners) + len(order)
        owners, values, counts = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
        change = (groups[order], changed[order], signs[order])
        n = int(merge(self._owners, self._keys, self._counts, *change, owners, values, counts))
        if n < 0:
            raise OperatorBug(f"{self.argument}: a value was deleted that had not been inserted")
        self._owners, self._keys, self._counts = owners[:n].copy(), values[:n].copy(), counts[:n].copy()

    def finalize(self, groups: Slots) -> pa.Array:
        first = np.full(self._capacity, -1, np.int64)
        heads(self._owners, first)
        there = first[groups] >= 0
        least = np.zeros(len(groups), np.int64)
        least[there] = self._keys[first[groups][there]]
        return unkeyed(least, there, self.kind, descending=self.descending)

    def stop(self, groups: Int32s) -> None:
        """Do nothing: of a group without tuples nothing is held."""
