"""A value becomes one of another type; what does not fit it is an error, and times become coarser by rounding down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Page
from operators.data.schema import is_ip
from operators.errors import SchemaError, did_you_mean
from operators.expression.bound import Bound, Carry, Datum
from punctuation import Value

_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_PLAIN: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
NAMES: Final = (
    *_PLAIN, "string", "bool", *(f"timestamp[{u}]" for u in _NS), *(f"duration[{u}]" for u in _NS), "date32",
)  # fmt: skip
"""Types that a value may be cast to. A timestamp keeps its time zone, and is in UTC where it had none."""
OTHERWISE: Final = {
    **dict.fromkeys(("double", "float", "float8", "real8", "number", "numeric", "decimal"), "float64"),
    **dict.fromkeys(("real", "float4", "single"), "float32"),
    **dict.fromkeys(("int", "integer", "bigint", "long", "int8", "signed"), "int64"),
    **dict.fromkeys(("smallint", "int2", "short"), "int16"),
    **dict.fromkeys(("int4", "mediumint"), "int32"),
    **dict.fromkeys(("tinyint", "byte"), "int8"),
    **dict.fromkeys(("unsigned", "ubigint", "uint"), "uint64"),
    **dict.fromkeys(("text", "varchar", "char", "str", "utf8"), "string"),
    **dict.fromkeys(("boolean", "logical"), "bool"),
    **dict.fromkeys(("timestamp", "datetime", "timestamptz"), "timestamp[us]"),
    **dict.fromkeys(("interval", "duration"), "duration[us]"),
    "date": "date32",
}
"""What other languages call types; int8 is one of ours, of eight bits."""


def cast(argument: Bound, name: str, said: str) -> Bound:
    """Bind `cast(x, "name")`; SchemaError where there is no such type, or nothing of it can be made of the argument."""
    if name not in NAMES:
        ours = OTHERWISE.get(name.lower(), name.lower())
        hint = f"Write '{ours}'." if ours in NAMES else did_you_mean(name, NAMES)
        raise SchemaError(f'{said}: there is no type "{name}" to cast to.\n  {hint}')
    kind = pa.type_for_alias(name)
    old = argument.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit, (old.tz if pa.types.is_timestamp(old) else None) or "UTC")
    if is_ip(argument.field):
        raise SchemaError(f'{said}: "{argument.field.name}" is an IP address, which becomes nothing else.')
    floor = _floor(old, kind)

    def run(page: Page) -> Datum:
        found = argument.run(page)
        try:
            return floor(found).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise OverflowError(f"{said}: {error}") from error

    try:
        floor(pa.nulls(0, old)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f'{said}: "{argument.field.name}" is of type {old}, of which no {name} is made.') from error
    carry = _carried(argument, kind)
    return Bound(pa.field(said, kind), run, attribute=argument.attribute if carry else None, carry=carry)


def _floor(old: pa.DataType, kind: pa.DataType) -> Callable[[Datum], Datum]:
    """Return what rounds times down to a coarser unit."""
    if pa.types.is_timestamp(old) and pa.types.is_date32(kind):
        return lambda found: pc.floor_temporal(found, unit="day")
    coarser = pa.types.is_timestamp(old) and pa.types.is_timestamp(kind) and _NS[kind.unit] > _NS[old.unit]
    if not coarser:
        return lambda found: found
    unit = {"s": "second", "ms": "millisecond", "us": "microsecond"}[kind.unit]
    return lambda found: pc.floor_temporal(found, unit=unit)


def _carried(argument: Bound, kind: pa.DataType) -> Carry | None:
    """Return what the result is at least, where it rises with its attribute: whole numbers and points in time do."""
    inner, old = argument.carry, argument.type
    whole = pa.types.is_integer(old) or pa.types.is_timestamp(old)
    if inner is None or not whole or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        return None
    up, down = 1, 1
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(kind):
        up, down = max(1, _NS[old.unit] // _NS[kind.unit]), max(1, _NS[kind.unit] // _NS[old.unit])

    def carry(bound: Value) -> Value | None:
        found = inner(bound)
        return found * up // down if isinstance(found, int) else None

    return carry
