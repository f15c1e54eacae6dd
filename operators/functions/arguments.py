"""An argument reaches a kernel as int64 or float64, whatever its Arrow type; where it is null, anything may stand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import INT64, Int64s, Page
from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError
from operators.functions.columns import frozen

Float64s = npt.NDArray[np.float64]


def call(of: str, *arguments: str) -> str:
    """Return a function and its arguments as a query writes them."""
    return f"{of}({', '.join(arguments)})"


def argument(schema: Schema, name: str, *, where: str) -> pa.Field:
    """Return the field of an argument with its plain type; SchemaError, naming the call, when there is none."""
    field = schema.field(name, where=where)
    return field.with_type(plain_type(field.type))


def refuse(where: str, field: pa.Field, why: str, instead: str) -> SchemaError:
    """Make the error that a call cannot take an argument of this type."""
    kind = "ip" if is_ip(field) else field.type
    return SchemaError(f'{where}: "{field.name}" has type {kind}; {why}.\n  {instead}')


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column has once a dictionary is looked up and a view is laid out."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


_LAID_OUT = frozenset(kind.id for kind in (pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.binary_view()))


def plain(page: Page, name: str) -> pa.Array:
    """Return a column of a page in its plain type."""
    column = page.column(name)
    if column.type.id not in _LAID_OUT:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = plain_type(column.type)
    return column if column.type == kind else column.cast(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Return whether values add up exactly: integers, truth values, durations."""
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_duration(kind))


def is_point_in_time(kind: pa.DataType) -> bool:
    """Return whether values are times that can be ordered and subtracted, but not added."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and not pa.types.is_interval(kind))


def is_floating(kind: pa.DataType) -> bool:
    """Return whether values are floating numbers."""
    return bool(pa.types.is_floating(kind))


def whole(column: pa.Array) -> Int64s:
    """Return integers, truth values or times as int64, shape (n,); unsigned 64-bit numbers keep their bits."""
    kind = column.type
    if kind == INT64:
        if column.null_count == 0:
            return column.to_numpy()
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(kind) or pa.types.is_uint64(kind):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    values = (column.fill_null(0) if column.null_count else column).to_numpy()
    return frozen(values.astype(np.int64, copy=False))


def floating(column: pa.Array) -> Float64s:
    """Return numbers, truth values or durations as float64, shape (n,), rounded where they have more than 53 bits."""
    if pa.types.is_duration(column.type):
        column = column.view(pa.int64())
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return frozen((column.fill_null(0.0) if column.null_count else column).to_numpy())


def result(values: npt.NDArray[np.generic], there: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Make the result column of a type from int64 or float64 values, null where nothing was there."""
    absent = None if there.all() else ~there
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array(values.astype(np.int32), mask=absent).view(kind)
    column = pa.array(values, mask=absent)
    if pa.types.is_temporal(kind) or pa.types.is_uint64(kind):
        return column.view(kind)
    return column if column.type == kind else column.cast(kind, safe=False)
