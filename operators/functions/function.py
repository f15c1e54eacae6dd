"""Common parts of aggregate functions: the properties that most have, and what functions of one argument share."""

from __future__ import annotations

import attrs
import pyarrow as pa

from operators.data.schema import Schema
from operators.functions.arguments import argument, call


class Function:
    """A function whose answer depends on no order, and of which nothing is taken away, unless it says otherwise."""

    __slots__ = ()
    name = ""
    invertible = False
    commutative = True

    @property
    def arrival_order(self) -> bool:
        return False


@attrs.frozen
class OfOne(Function):
    """A function of one attribute; its result is a value of that attribute, or null, unless it says otherwise."""

    argument: str

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return the names of function and attribute, as "sum_x"."""
        return f"{self.name}_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError when there is no such attribute, or of another type."""
        return self._field(schema).with_name(name).with_nullable(True)

    def _field(self, schema: Schema) -> pa.Field:
        """Return the field of the argument; SchemaError when its type does not fit."""
        return argument(schema, self.argument, where=self._where)

    @property
    def _where(self) -> str:
        """Return the call as a query writes it."""
        return call(self.name, *self.arguments)


@attrs.frozen
class InOrder(OfOne):
    """A function of one attribute in the order of another, `by`, or of arrival where there is none."""

    by: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,) if self.by is None else (self.argument, self.by)

    @property
    def arrival_order(self) -> bool:
        return self.by is None
