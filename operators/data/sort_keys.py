"""Columns are sorted as what Arrow can sort: dictionaries as their values, and what has no order as what it says."""

from __future__ import annotations

import pyarrow as pa


def sortable(kind: pa.DataType) -> bool:
    """Return whether the values of a type have an order."""
    return not pa.types.is_nested(kind.value_type if pa.types.is_dictionary(kind) else kind)


def sort_key(column: pa.Array) -> pa.Array:
    """Return values that sort as a column does; lists and their like, which have no order, as what they say."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return sort_key(column.dictionary_decode())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if sortable(kind):
        return column
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
