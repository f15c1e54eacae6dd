"""Check promises that stand in a stream: they name its attributes, with constants of their types."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from numbers import Real
from typing import Final

import pyarrow as pa

from operators.data.schema import Schema
from operators.data.steps import is_stepped_decimal
from operators.errors import SchemaError, did_you_mean
from operators.expression.bound import family
from punctuation import Equals, OneOf, Pattern, Punctuation, Range, Value

_TAKES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("integer", "number", "timestamp", "duration", "date", "time of day"), (Real,)),
    "text": (str,),
    "bytes": (bytes,),
    "IP address": (bytes,),
    "truth value": (bool,),
    "decimal": (int,),
}
_WRITE: Final[dict[str, str]] = {
    **dict.fromkeys(("integer", "number"), "a number"),
    **dict.fromkeys(("timestamp", "duration", "date", "time of day"), "an integer that counts its ticks"),
    "text": "text in quotes",
    "bytes": "bytes",
    "IP address": 'its 16 bytes, operators.data.address.parse_ip("10.0.0.1")',
    "truth value": "True or False",
    "decimal": "an integer that counts units of its last digit, such as 50 for 0.50",
}


def checked_promise(promise: Punctuation, schema: Schema, read: Collection[str], name: str) -> Punctuation | None:
    """Return a promise of the stream `name`, as it holds for the attributes that are `read`.

    None where it is about one that is not: without that it would claim more than was promised, as in a projection.
    SchemaError for an attribute that the stream does not have, and for a constant that is not of its type.
    """
    for attribute, pattern in promise.patterns:
        if attribute not in schema:
            raise SchemaError(
                f'{name}: the promise {promise} is about "{attribute}", which the stream does not have.\n'
                f"  {did_you_mean(attribute, schema.names)}"
            )
        field = schema.arrow.field(attribute)
        kind = family(field)
        # Wide decimals are not counted in ticks: of them promises hold the values.
        takes = _TAKES.get(kind, (object,)) if kind != "decimal" or is_stepped_decimal(field.type) else (object,)
        for value in _values(pattern):
            if not isinstance(value, takes) or (isinstance(value, bool) and bool not in takes and object not in takes):
                raise _mismatch(promise, field, value, name)
    return promise if all(attribute in read for attribute, _ in promise.patterns) else None


def _values(pattern: Pattern) -> Iterator[Value]:
    match pattern:
        case Equals():
            yield pattern.value
        case Range():
            yield from (end for end in (pattern.low, pattern.high) if end is not None)
        case OneOf():
            yield from pattern.values
        case _:
            return


def _mismatch(promise: Punctuation, field: pa.Field, value: Value, name: str) -> SchemaError:
    kind = family(field)
    return SchemaError(
        f'{name}: the promise {promise} compares "{field.name}" ({field.type}) with {value!r}, which is of another'
        f" type.\n  Write {_WRITE[kind]}."
    )
