"""Values as text: addresses as addresses, times in ISO 8601 with Z, a fraction only where it is not zero."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.schema import is_ip

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def text_of(array: pa.Array, field: pa.Field) -> pa.Array:
    """Give a column as text, shape (n,), null where it is null; bytes as hexadecimal, durations in seconds."""
    kind = array.type
    if is_ip(field) and kind == pa.binary(16):
        from operators.address import format_ip

        return format_ip(array)
    if pa.types.is_dictionary(kind):
        return text_of(array.dictionary_decode(), pa.field(field.name, kind.value_type, metadata=field.metadata))
    if pa.types.is_timestamp(kind):
        return _times(array)
    if pa.types.is_duration(kind):
        seconds, fraction = _split(array.view(pa.int64()), _PER_SECOND[kind.unit], floor=False)
        return pc.binary_join_element_wise(seconds, fraction, "")
    if pa.types.is_nested(kind):
        return pa.array([None if v is None else json.dumps(v, default=str) for v in array.to_pylist()], pa.string())
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())
    return array.cast(pa.string())


def is_text(field: pa.Field) -> bool:
    """Tell whether a column is written as free text: anything that someone else may have chosen."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    return bool(text or pa.types.is_nested(kind))


def is_number(field: pa.Field) -> bool:
    """Tell whether a column's text is a number."""
    kind = field.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_duration(kind)
    )


def _times(array: pa.Array) -> pa.Array:
    """Write timestamps in UTC. Few distinct seconds occur in a page, so each is written once."""
    per_second = _PER_SECOND[array.type.unit]
    ticks = array.view(pa.int64())
    present = ticks.fill_null(0).to_numpy()
    encoded = pa.array(present // per_second).dictionary_encode()
    written = np.datetime_as_string(encoded.dictionary.to_numpy().astype("datetime64[s]"))
    seconds = pa.array(written.astype(str), pa.string()).take(encoded.indices)
    _, fraction = _split(pa.array(present), per_second, floor=True)
    texts = pc.binary_join_element_wise(seconds, fraction, "Z", "")
    return texts if array.null_count == 0 else pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string()))


def _split(ticks: pa.Array, per_second: int, *, floor: bool) -> tuple[pa.Array, pa.Array]:
    """Give whole seconds and the fraction as text, the latter with its point, or empty."""
    valid = pc.is_valid(ticks)
    values = ticks.fill_null(0).to_numpy()
    size = values if floor else np.abs(values)
    seconds = pa.array(size // per_second).cast(pa.string())
    if not floor:
        seconds = pc.binary_join_element_wise(pa.array(np.where(values < 0, "-", ""), pa.string()), seconds, "")
        seconds = pc.if_else(valid, seconds, pa.scalar(None, pa.string()))
    rest = size % per_second
    if not rest.any():
        return seconds, pa.scalar("")
    digits = pc.utf8_slice_codeunits(pa.array(rest + per_second).cast(pa.string()), 1)
    trimmed = pc.utf8_rtrim(digits, "0")
    pointed = pc.binary_join_element_wise(".", trimmed, "")
    return seconds, pc.if_else(pa.array(rest != 0), pointed, pa.scalar(""))
