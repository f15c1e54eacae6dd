"""Every function that can be split has columns of partial values, and a function that makes its result of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import pyarrow as pa

from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions import max, min
from operators.functions.count import Count, Counts
from operators.functions.extremes import Max, Min
from operators.functions.moments import Moments, Stddev, Variance
from operators.functions.protocol import Accumulator, AggregateFunction
from operators.functions.sums import Avg, Sum
from operators.functions.user import UserAggregate
from operators.window_aggregate.partial_final.triples import Part, merging, totals

Columns = tuple[AggregateFunction, ...]
ALL: Final = "*"
TUPLES: Final = "*:count"
"""The partial column that counts the tuples of each partial aggregate."""


@attrs.frozen
class Split:
    """The partial columns of one function, and what adds them up."""

    columns: Columns
    merged: AggregateFunction


def split_function(function: AggregateFunction) -> Split:
    """Split a function; SchemaError, in a sentence, when the table has no parts that its result is made of.

    >>> from operators.functions import count
    >>> split_function(count())
    Split(columns=(Count(argument=None),), merged=MergedCount(column='*:count'))
    """
    match function:
        case Count(argument):
            return Split((function,), MergedCount(_column(argument or ALL, "count")))
        case Min(argument):
            return Split((function,), min(_column(argument, "min")))
        case Max(argument):
            return Split((function,), max(_column(argument, "max")))
        case Sum(argument) | Avg(argument):
            return Split(_parts(argument, moments=False), MergedTriples(function, *_names(argument, moments=False)))
        case Variance(argument) | Stddev(argument):
            return Split(_parts(argument, moments=True), MergedTriples(function, *_names(argument, moments=True)))
        case _:
            why = "it needs more than counts, sums, extremes and moments"
            if isinstance(function, UserAggregate):
                why = "the table does not know the state of a user's function"
            elif function.arrival_order:
                why = "its answer depends on the order in which tuples arrived"
            raise SchemaError(
                f"{function.output_name()}: {function.name} cannot be made of the parts that a low-level table holds:"
                f" {why}.\n"
                "  Aggregate the window by itself; count, sum, avg, min, max, variance and stddev are made of parts."
            )


def partials(functions: Mapping[str, AggregateFunction]) -> dict[str, AggregateFunction]:
    """Return the partial columns that results need, by name, each once.

    >>> from operators.functions import avg, count, sum
    >>> list(partials({"n": count(), "total": sum("length"), "mean": avg("length")}))
    ['*:count', 'length:sum', 'length:rest', 'length:number']
    """
    found: dict[str, AggregateFunction] = {}
    for function in functions.values():
        for column in split_function(function).columns:
            found[_name(column)] = column
    return found


def merged(functions: Mapping[str, AggregateFunction]) -> dict[str, AggregateFunction]:
    """Return what makes each result, over the columns that `partials` names."""
    return {name: split_function(function).merged for name, function in functions.items()}


@attrs.frozen
class MergedCount:
    """Add up partial counts; int64, never null."""

    column: str
    name: str = attrs.field(default="count", init=False, repr=False)
    invertible: bool = attrs.field(default=True, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.column,)

    def output_name(self) -> str:
        """Return "count", or "count_x"."""
        argument = self.column.rpartition(":")[0]
        return "count" if argument == ALL else f"count_{argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return an int64 field that is never null; SchemaError when the partial counts are not there."""
        schema.field(self.column, where="roll-up")
        return pa.field(name, pa.int64(), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Counts(None, partial=self.column)


@attrs.frozen
class MergedTriples:
    """Compute a sum, an average, a variance or a deviation of its partial columns."""

    function: Sum | Avg | Variance | Stddev
    first: str
    second: str
    third: str
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def invertible(self) -> bool:
        return self.function.invertible

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.first, self.second, self.third)

    def output_name(self) -> str:
        """Return the name that the function gives."""
        return self.function.output_name()

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return the field that the function gives over the argument; SchemaError when a partial column is missing."""
        kind = schema.field(self.first, where="roll-up").type
        for column in self.arguments:
            schema.field(column, where="roll-up")
        return self.function.output_field(Schema(pa.schema([pa.field(self.function.argument, kind)])), name)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        function = self.function
        columns = (self.first, self.second, self.third)
        if isinstance(function, Sum | Avg):
            return merging(columns, schema, totals(function.argument, function.of))
        return merging(columns, schema, lambda kind: Moments(function.argument, kind, function.name, function.ddof))


def _parts(argument: str, *, moments: bool) -> Columns:
    return tuple(Part(argument, moments, part) for part in range(3))


def _names(argument: str, *, moments: bool) -> tuple[str, str, str]:
    first, second, third = (Part(argument, moments, part).output_name() for part in range(3))
    return first, second, third


def _name(column: AggregateFunction) -> str:
    if isinstance(column, Part):
        return column.output_name()
    return _column(column.arguments[0] if column.arguments else ALL, column.name)


def _column(argument: str, what: str) -> str:
    return f"{argument}:{what}"
