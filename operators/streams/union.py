"""The schema of a union is that of its inputs, which must agree."""

from __future__ import annotations

import pyarrow as pa

from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError


def united(inputs: tuple[Schema, ...], ports: int, where: str) -> Schema:
    """Return the schema of a union; SchemaError naming the input, the attribute and both types when they differ."""
    if len(inputs) != ports:
        raise SchemaError(f"{where} of {ports} inputs was given {len(inputs)}.")
    first = inputs[0]
    for port, schema in enumerate(inputs[1:], 1):
        if schema.names != first.names:
            raise SchemaError(
                f"{where}: input {port} has other attributes than input 0.\n"
                f"  input 0: {', '.join(first.names)}\n  input {port}: {', '.join(schema.names)}\n"
                "  Project them to the same attributes in the same order first."
            )
        for mine, its in zip(first.arrow, schema.arrow, strict=True):
            if mine.type != its.type or is_ip(mine) != is_ip(its):
                raise SchemaError(
                    f'{where}: attribute "{mine.name}" is {_kind(mine)} in input 0 and {_kind(its)} in input {port}.\n'
                    "  Give both the same type first."
                )
    return Schema(first.arrow, progress=frozenset.intersection(*(schema.progress for schema in inputs)))


def _kind(field: pa.Field) -> str:
    return "an IP address" if is_ip(field) else str(field.type)
