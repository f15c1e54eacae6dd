"""first, last, argmin and argmax choose a value of any type from one tuple a group.

first and last go by arrival and depend on it, under every strategy: what arrived is what is meant, not what has the
least time. For the value at the least or greatest time, whatever the arrival order, write argmin(x, ts) or
argmax(x, ts).
"""

from __future__ import annotations

import attrs
import pyarrow as pa

from operators.data.schema import Schema
from operators.functions.arguments import argument, call, refuse
from operators.functions.choice import Choice
from operators.functions.function import Function, OfOne
from operators.functions.order import is_ordered
from operators.functions.protocol import Accumulator


class _Arriving(OfOne):
    """A function whose answer depends on the order of arrival."""

    __slots__ = ()

    @property
    def arrival_order(self) -> bool:
        return True


@attrs.frozen
class First(_Arriving):
    """Find the value, not null, that arrived first; any type. Cost: 28 bytes a slot and a value log."""

    name = "first"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Choice(self._field(schema), None, descending=False)


@attrs.frozen
class Last(_Arriving):
    """Find the value, not null, that arrived last; any type. Cost: 28 bytes a slot and a value log."""

    name = "last"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Choice(self._field(schema), None, descending=True)


@attrs.frozen
class _ChosenBy(Function):
    """A function that chooses the value of one tuple by another attribute."""

    value: str
    by: str

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.value, self.by)

    def output_name(self) -> str:
        """Return "argmin_x_y" or "argmax_x_y"."""
        return f"{self.name}_{self.value}_{self.by}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the value's type; SchemaError when `by` has no order."""
        return self._pair(schema)[0].with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Choice(*self._pair(schema), descending=self.name == "argmax")

    def _pair(self, schema: Schema) -> tuple[pa.Field, pa.Field]:
        where = call(self.name, self.value, self.by)
        order = argument(schema, self.by, where=where)
        if not is_ordered(order.type):
            instead = f"Write {self.name}(x, y) with a y that has one, as a time."
            raise refuse(where, order, "its values have no order", instead)
        return argument(schema, self.value, where=where), order


@attrs.frozen
class ArgMin(_ChosenBy):
    """Find the value, maybe null, of the tuple with the least `by`; tuples without `by` are skipped.

    Of several such tuples the smallest value is given, null only when all are; of values without an order (lists,
    structs) the one that arrived first. NaN counts as the least `by`, as for min. Cost: 28 bytes a slot, value logs.
    """

    name = "argmin"


@attrs.frozen
class ArgMax(_ChosenBy):
    """Find the value, maybe null, of the tuple with the greatest `by`; of several the smallest, as `ArgMin` does."""

    name = "argmax"
