"""Turns values into what a person reads: every output, message and picture asks here, so that all say the same.

Addresses are text, alone and at any depth of lists, structs and maps. Times are ISO 8601 with Z, a fraction only where
it is not zero. Arrow and Parquet have times of their own, so there only addresses change (`address_text`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.printable import printable
from operators.data.schema import IP_TYPE, is_ip
from operators.data.steps import is_stepped_decimal

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNPRINTABLE: Final = r"[\p{C}\p{Zl}\p{Zp}]"
"""What may steer a terminal or reorder its text: control characters, formatting marks, separators of lines."""
_Leaf: TypeAlias = Callable[[pa.Array, pa.Field], pa.Array]


def text_of(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as text, shape (n,), null where it is null.

    Bytes are hexadecimal, durations seconds, and lists, structs and maps JSON.
    """
    kind = array.type
    if is_ip(field) and kind == IP_TYPE:
        return _format_ip(array)
    if pa.types.is_dictionary(kind):
        return text_of(array.dictionary_decode(), field.with_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return _times(array)
    if pa.types.is_duration(kind):
        seconds, fraction = _split(array.view(pa.int64()), _PER_SECOND[kind.unit])
        return pc.binary_join_element_wise(seconds, fraction, "")
    if pa.types.is_nested(kind):
        found = _rebuilt(array, field, _json).to_pylist()
        return pa.array([None if v is None else json.dumps(v, default=str) for v in found], pa.string())
    if _is_bytes(kind):
        return _hexadecimal(array)
    return array.cast(pa.string())


def tick_text(tick: object, unit: str | None) -> str:
    """Return a value of a progressing attribute as text.

    A time where it has a `unit` of `written_unit`, "s" to "ns"; a decimal where that is "e-2"; else as it is.

    >>> tick_text(90_000, "ms"), tick_text(90_000, "e-2"), tick_text(90_000, None)
    ('1970-01-01T00:01:30Z', '900.00', '90000')
    """
    if unit is None or not isinstance(tick, int):
        return str(tick)
    if unit.startswith("e"):
        return f"{Decimal(tick).scaleb(int(unit[1:])):f}"
    # An array of one would take a hundred times as long.
    per_second = _PER_SECOND[unit]
    seconds, rest = divmod(tick, per_second)
    fraction = f".{per_second + rest}".replace(".1", ".", 1).rstrip("0") if rest else ""
    return f"{np.datetime64(seconds, 's')}{fraction}Z"


def written_unit(kind: pa.DataType) -> str | None:
    """Return the unit with which `tick_text` writes values of a type: None for what is written as it is.

    >>> written_unit(pa.timestamp("ms")), written_unit(pa.decimal128(18, 2)), written_unit(pa.int64())
    ('ms', 'e-2', None)
    """
    if is_stepped_decimal(kind):
        return f"e{-kind.scale}"
    return kind.unit if pa.types.is_timestamp(kind) else None


def python_values(array: pa.Array, field: pa.Field) -> list[object]:
    """Return a column as Python values that `json.dumps` takes, None where it is null.

    They are the values of NDJSON: numbers, text and truth values as they are; addresses, times, dates, bytes and
    decimals as text; durations in seconds. Unlike JSON, NaN and infinity stay what they are.
    """
    return _rebuilt(array, field, _plain).to_pylist()


def address_text(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column with its addresses, at any depth, as text, and all else as it was; see `address_text_field`."""
    return _rebuilt(array, field, _address) if _has_address(field) else array


def address_text_field(field: pa.Field) -> pa.Field:
    """Return the field of what `address_text` gives; of addresses in lists, structs and maps the mark is lost."""
    if not _has_address(field):
        return field
    return field.with_type(address_text(pa.nulls(0, field.type), field).type)


def is_address(field: pa.Field) -> bool:
    """Return whether a column is one of addresses that are kept as bytes."""
    return is_ip(field) and field.type == IP_TYPE


def in_seconds(array: pa.Array) -> pa.Array:
    """Return durations as float64 seconds, null where they are null."""
    ticks = array.view(pa.int64()).cast(pa.float64(), safe=False)
    return pc.divide(ticks, float(_PER_SECOND[array.type.unit]))


def is_text(field: pa.Field) -> bool:
    """Return whether a column is written as free text: anything that someone else may have chosen."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    return bool(text or pa.types.is_nested(kind))


def is_number(field: pa.Field) -> bool:
    """Return whether a column's text is a number."""
    kind = field.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_duration(kind)
    )


def printable_texts(texts: pa.Array) -> pa.Array:
    """Return a column of text as `printable` writes it; only columns that have such characters are looked at."""
    if not pc.any(pc.match_substring_regex(texts, _UNPRINTABLE)).as_py():
        return texts
    encoded = texts.dictionary_encode()
    return pa.array([printable(text) for text in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _rebuilt(array: pa.Array, field: pa.Field, leaf: _Leaf) -> pa.Array:
    """Return an array whose leaves went through a function that may change their types; lists keep their lengths."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = _rebuilt(array.dictionary, field.with_type(kind.value_type), leaf)
        return pa.DictionaryArray.from_arrays(array.indices, values)
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [field.type.field(i) for i in range(kind.num_fields)]
        parts = [_rebuilt(array.field(i), inner, leaf) for i, inner in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=_retyped(fields, parts), mask=array.is_null())
    if pa.types.is_map(kind):
        fields, first, last = [field.type.key_field, field.type.item_field], array.offsets[0], array.offsets[-1]
        inside = slice(first.as_py(), last.as_py())
        parts = [
            _rebuilt(part[inside], inner, leaf) for part, inner in zip((array.keys, array.items), fields, strict=True)
        ]
        kind = pa.map_(*_retyped(fields, parts))
        return pa.MapArray.from_arrays(pc.subtract(array.offsets, first), *parts, type=kind, mask=array.is_null())
    if not _is_list(kind):
        return leaf(array, field)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    lists, of = (pa.LargeListArray, pa.large_list) if large else (pa.ListArray, pa.list_)
    offsets = np.zeros(len(array) + 1, np.int64 if large else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    fields = [field.type.value_field]
    parts = [_rebuilt(array.flatten(), fields[0], leaf)]
    kind = of(_retyped(fields, parts)[0])
    return lists.from_arrays(pa.array(offsets), parts[0], type=kind, mask=array.is_null())


def _retyped(fields: list[pa.Field], parts: list[pa.Array]) -> list[pa.Field]:
    """Return the fields of parts; one whose type changed is marked as what it was no more."""
    return [
        field if part.type == field.type else field.with_type(part.type).remove_metadata()
        for field, part in zip(fields, parts, strict=True)
    ]


def _address(array: pa.Array, field: pa.Field) -> pa.Array:
    return _format_ip(array) if is_ip(field) and array.type == IP_TYPE else array


def _plain(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a leaf as a type whose Python values JSON has."""
    kind = array.type
    if pa.types.is_duration(kind):
        return in_seconds(array)
    if (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)) or pa.types.is_decimal(kind) or _is_bytes(kind):
        return text_of(array, field)
    return array


def _json(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a leaf as `_plain` does, and what JSON has no number for as null."""
    array = _plain(array, field)
    if pa.types.is_floating(array.type):
        return pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
    return array


def _has_address(field: pa.Field) -> bool:
    """Return whether a field holds addresses as bytes, itself or in what it is made of."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        return _has_address(field.with_type(kind.value_type))
    if pa.types.is_nested(kind):
        return any(_has_address(kind.field(i)) for i in range(kind.num_fields))
    return is_address(field)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _hexadecimal(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())


def _format_ip(array: pa.Array) -> pa.Array:
    if len(array) == 0:
        return pa.array([], pa.string())
    # Start-up: what writes no address is spared the kernels.
    from operators.data.address import format_ip

    return format_ip(array)


def _times(array: pa.Array) -> pa.Array:
    """Write timestamps in UTC. Few distinct seconds occur in a page, so each is written once."""
    per_second = _PER_SECOND[array.type.unit]
    ticks = array.view(pa.int64())
    present = ticks.fill_null(0).to_numpy()
    encoded = pa.array(present // per_second).dictionary_encode()
    written = np.datetime_as_string(encoded.dictionary.to_numpy().astype("datetime64[s]"))
    seconds = pa.array(written.astype(str), pa.string()).take(encoded.indices)
    fraction = _fraction(present % per_second, per_second)
    texts = pc.binary_join_element_wise(seconds, fraction, "Z", "")
    return texts if array.null_count == 0 else pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string()))


def _split(ticks: pa.Array, per_second: int) -> tuple[pa.Array, pa.Array]:
    """Return whole seconds, towards zero, and the fraction as text, the latter with its point, or empty."""
    values = ticks.fill_null(0).to_numpy()
    size = np.abs(values)
    seconds = pa.array(size // per_second).cast(pa.string())
    seconds = pc.binary_join_element_wise(pa.array(np.where(values < 0, "-", ""), pa.string()), seconds, "")
    seconds = pc.if_else(pc.is_valid(ticks), seconds, pa.scalar(None, pa.string()))
    return seconds, _fraction(size % per_second, per_second)


def _fraction(rest: npt.NDArray[np.int64], per_second: int) -> pa.Array:
    """Return parts of a second as text with its point; empty where there are none."""
    if not rest.any():
        return pa.scalar("")
    digits = pc.utf8_slice_codeunits(pa.array(rest + per_second).cast(pa.string()), 1)
    pointed = pc.binary_join_element_wise(".", pc.ascii_rtrim(digits, "0"), "")
    return pointed if rest.all() else pc.if_else(pa.array(rest != 0), pointed, pa.scalar(""))
