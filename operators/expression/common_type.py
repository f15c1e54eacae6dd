"""Values of several branches, such as those of CASE and coalesce, meet in one type, which constants fit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from operators.errors import SchemaError
from operators.expression.bound import NUMBERS, Bound, Run, family
from operators.expression.comparison import constant_of

_ADVICE = "Give all of them one type, as cast(x, 'float64') or cast(x, 'string') do."


def united(bounds: Sequence[Bound], said: str) -> tuple[pa.Field, list[Run]]:
    """Return the field that all values fit, and what computes each of them in its type.

    Integers of several types meet in int64, integers and floats in float64. A constant takes the type of what stands
    beside it: "10.0.0.1" beside addresses is one. SchemaError where the types have nothing in common.
    """
    columns = [bound for bound in bounds if bound.literal is None]
    field = _of_columns(columns, said) if columns else _of_constants(bounds, said)
    field = _widened(field, [b for b in bounds if b.literal is not None])
    return field.with_name(said), [_in_type(bound, field, said) for bound in bounds]


def _of_columns(columns: Sequence[Bound], said: str) -> pa.Field:
    first, *others = columns
    field = first.field.with_nullable(True)
    for other in others:
        names = {family(field), family(other.field)}
        if field.type == other.type and len(names) == 1:
            continue
        kind = None
        if names == {"integer"} and not pa.types.is_uint64(field.type) and not pa.types.is_uint64(other.type):
            kind = pa.int64()
        elif names <= NUMBERS and "number" in names:
            kind = pa.float64()
        elif names == {"text"}:
            kind = pa.large_string()
        if kind is None:
            raise SchemaError(
                f'{said}: "{first.field.name}" is of type {first.type} and "{other.field.name}" of type {other.type}; '
                f"here stands one type.\n  {_ADVICE}"
            )
        field = pa.field(said, kind)
    return field


def _of_constants(bounds: Sequence[Bound], said: str) -> pa.Field:
    kinds = [bound.type for bound in bounds if not pa.types.is_null(bound.type)]
    if not kinds:
        raise SchemaError(f"{said}: every value is null, and so there is no type.\n  Name one column or constant.")
    names = {family(pa.field("", kind)) for kind in kinds}
    if len(names) == 1:
        return pa.field(said, kinds[0] if len(set(kinds)) == 1 else pa.float64())
    if names <= NUMBERS | {"decimal"}:
        return pa.field(said, pa.float64())
    raise SchemaError(f"{said}: {' and '.join(sorted(names))} have no type in common.\n  {_ADVICE}")


def _widened(field: pa.Field, constants: Sequence[Bound]) -> pa.Field:
    """Return a wider type where a number that stands beside integers is none of them."""
    if family(field) != "integer":
        return field
    for bound in constants:
        value = bound.literal.value if bound.literal is not None else None
        if isinstance(value, float | Decimal):
            return pa.field(field.name, pa.float64())
        if isinstance(value, int) and not isinstance(value, bool) and constant_of(value, field, "") is None:
            field = pa.field(field.name, pa.int64() if -(2**63) <= value < 2**63 else pa.float64())
    return field


def _in_type(bound: Bound, field: pa.Field, said: str) -> Run:
    kind = field.type
    if bound.literal is not None:
        value = bound.literal.value
        constant = pa.scalar(None, kind) if value is None else constant_of(value, field, said)
        if constant is None and isinstance(value, int | float | Decimal) and pa.types.is_floating(kind):
            constant = pa.scalar(float(value), kind)
        if constant is None:
            raise SchemaError(f"{said}: the constant {bound.field.name} does not fit {kind}.\n  {_ADVICE}")
        constant = constant.cast(kind)
        return lambda page: constant
    if bound.type == kind:
        return bound.run
    return lambda page: pc.cast(bound.run(page), kind, safe=False)
