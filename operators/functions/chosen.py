"""first, last, argmin and argmax choose a value of any type from one tuple a group.

first and last go by arrival and depend on it, under every strategy: what arrived is what is meant, not what has the
least time. For the value at the least or greatest time, whatever the arrival order, write argmin(x, ts) or
argmax(x, ts).
"""

from __future__ import annotations

from typing import Literal

import attrs
import pyarrow as pa

from operators.data.schema import Schema
from operators.functions.arguments import argument, call, refuse
from operators.functions.choice import Choice
from operators.functions.order import is_ordered
from operators.functions.protocol import Accumulator


@attrs.frozen
class First:
    """Find the value, not null, that arrived first; any type. Cost: 28 bytes a slot and a value log."""

    argument: str
    name: str = attrs.field(default="first", init=False, repr=False)
    invertible: bool = attrs.field(default=False, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=True, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return "first_x"."""
        return f"first_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError when there is no such attribute."""
        return argument(schema, self.argument, where=call(self.name, self.argument)).with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Choice(argument(schema, self.argument, where=call(self.name, self.argument)), None, descending=False)


@attrs.frozen
class Last:
    """Find the value, not null, that arrived last; any type. Cost: 28 bytes a slot and a value log."""

    argument: str
    name: str = attrs.field(default="last", init=False, repr=False)
    invertible: bool = attrs.field(default=False, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=True, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return "last_x"."""
        return f"last_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError when there is no such attribute."""
        return argument(schema, self.argument, where=call(self.name, self.argument)).with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Choice(argument(schema, self.argument, where=call(self.name, self.argument)), None, descending=True)


@attrs.frozen
class ArgMin:
    """Find the value, maybe null, of the tuple with the least `by`; tuples without `by` are skipped.

    Of several such tuples the smallest value is given, null only when all are; of values without an order (lists,
    structs) the one that arrived first. NaN counts as the least `by`, as for min. Cost: 28 bytes a slot, value logs.
    """

    value: str
    by: str
    name: Literal["argmin"] = attrs.field(default="argmin", init=False, repr=False)
    invertible: bool = attrs.field(default=False, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.value, self.by)

    def output_name(self) -> str:
        """Return "argmin_x_y"."""
        return f"argmin_{self.value}_{self.by}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the value's type; SchemaError when `by` has no order."""
        return _pair(schema, self.value, self.by, self.name)[0].with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        value, by = _pair(schema, self.value, self.by, self.name)
        return Choice(value, by, descending=False)


@attrs.frozen
class ArgMax:
    """Find the value, maybe null, of the tuple with the greatest `by`; of several the smallest, as `ArgMin` does."""

    value: str
    by: str
    name: Literal["argmax"] = attrs.field(default="argmax", init=False, repr=False)
    invertible: bool = attrs.field(default=False, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.value, self.by)

    def output_name(self) -> str:
        """Return "argmax_x_y"."""
        return f"argmax_{self.value}_{self.by}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the value's type; SchemaError when `by` has no order."""
        return _pair(schema, self.value, self.by, self.name)[0].with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        value, by = _pair(schema, self.value, self.by, self.name)
        return Choice(value, by, descending=True)


def _pair(schema: Schema, value: str, by: str, of: Literal["argmin", "argmax"]) -> tuple[pa.Field, pa.Field]:
    where = call(of, value, by)
    order = argument(schema, by, where=where)
    if not is_ordered(order.type):
        raise refuse(where, order, "its values have no order", f"Write {of}(x, y) with a y that has one, as a time.")
    return argument(schema, value, where=where), order
