"""A value over columns, as a user writes it, becomes an expression over a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeAlias

import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Expression, as_expression, trace

Computed: TypeAlias = "Expression | str | int | float | bool | Callable[..., object]"
"""A value over columns: an expression, text such as "length * 8", or a function of the columns that is called once."""


def expression_of(value: Computed, schema: Schema, where: str, result: pa.DataType | None = None) -> Expression:
    """Return a value over the columns of a schema as an expression; SchemaError, naming the call, where it is none.

    `result` is the type that a function of arrays gives, if that is known.
    """
    if isinstance(value, str):
        # Start-up: only conditions given as text need the parser.
        from oop_engine.language.expressions import parse_expression

        return parse_expression(value, schema)
    if isinstance(value, Expression) or not callable(value):
        expression = as_expression(value)
    else:
        traced = _traced(value, schema, where, result)
        if isinstance(traced, Mapping):
            raise SchemaError(f"{where}: the function gave a mapping, and one value a tuple is wanted.")
        expression = traced
    expression.bind(schema)
    return expression


def _traced(
    function: Callable[..., object], schema: Schema, where: str, result: pa.DataType | None
) -> Expression | Mapping[str, Expression]:
    try:
        return trace(function, schema, where=where, result=result)
    except SchemaError as error:
        cause = error.__cause__
        if not isinstance(cause, AttributeError) or not isinstance(cause.obj, Page):
            raise
        near = get_close_matches(str(cause.name), schema.names, 1, 0.55)
        if not near:
            raise
        raise SchemaError(
            f"{where}: .{cause.name} is no attribute of Python's on a stream; columns stand in brackets.\n"
            f'  Write p["{near[0]}"] for p.{cause.name}.'
        ) from error
