"""The types of a file's columns: times in UTC, plain text, addresses of 16 bytes; a user's `types` overrule them.

The words: "timestamp" (ISO 8601 text, or a date), "timestamp[s]", "[ms]", "[us]", "[ns]" (integers since 1970),
"epoch" (seconds since 1970 with a fraction, read exactly from text), "ip", "int", "uint" (less than 2**64), "float",
"decimal(18, 2)" (so many digits, so many of them behind the point), "text", "bool"; a format of strptime, such as
"%m/%d/%Y %H:%M", for times that are written so; an Arrow type is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sources.text_form import check_format, is_format, parse_times
from operators.data.page import Int64s, Page
from operators.data.schema import IP_METADATA, IP_TYPE, Schema, is_ip
from operators.errors import SchemaError, did_you_mean
from punctuation.schedule import NO_TIME

Types: TypeAlias = "Mapping[str, str | pa.DataType]"

TIME = pa.timestamp("ns", "UTC")
_EPOCH = pa.decimal128(28, 9)
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)")
_DIGITS: Final = 38
WORDS: Mapping[str, pa.DataType] = {
    "timestamp": TIME,
    "timestamp[s]": pa.timestamp("s", "UTC"),
    "timestamp[ms]": pa.timestamp("ms", "UTC"),
    "timestamp[us]": pa.timestamp("us", "UTC"),
    "timestamp[ns]": TIME,
    "epoch": TIME,
    "ip": IP_TYPE,
    "int": pa.int64(),
    "uint": pa.uint64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
}


def check_words(types: Types, where: str) -> None:
    """Check that the words for types are known; SchemaError when not."""
    for name, word in types.items():
        if isinstance(word, str) and is_format(word):
            check_format(word)
        elif isinstance(word, str) and word.startswith("decimal"):
            decimal_type(word, f'{where}: "{name}"')
        elif isinstance(word, str) and word not in WORDS:
            raise SchemaError(f'{where}: "{word}" is no type for "{name}".\n  {did_you_mean(word, WORDS)}')


def check_columns(names: Iterable[str], schema: pa.Schema, where: str) -> None:
    """Check that there are such columns; SchemaError when not."""
    known = frozenset(schema.names)
    for name in names:
        if name not in known:
            raise SchemaError(f'{where}: there is no column "{name}".\n  {did_you_mean(name, schema.names)}')


def stream_field(field: pa.Field, word: str | pa.DataType | None = None) -> pa.Field:
    """Return the field of a stream for a field of a file."""
    if word == "ip" or (word is None and is_ip(field)):
        return pa.field(field.name, IP_TYPE, metadata=IP_METADATA)
    if word is not None:
        return pa.field(field.name, kind_for(word))
    return pa.field(field.name, _stream_type(field.type), metadata=field.metadata)


def kind_for(word: str | pa.DataType) -> pa.DataType:
    """Return the type that a word stands for."""
    if not isinstance(word, str):
        return word
    if word.startswith("decimal"):
        return decimal_type(word, "types")
    return TIME if is_format(word) else WORDS[word]


def decimal_type(word: str, where: str) -> pa.DataType:
    """Return the type of decimals that a word stands for; SchemaError, which tells `where`, when it stands for none.

    >>> decimal_type("decimal(12, 2)", "example")
    Decimal128Type(decimal128(12, 2))
    """
    found = _DECIMAL.fullmatch(word.strip())
    digits, places = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if not 1 <= digits <= _DIGITS or places > digits:
        raise SchemaError(
            f'{where}: "{word}" is no type.\n  Write "decimal(18, 2)" for numbers of at most 18 digits, two of them'
            f" behind the point; there are at most {_DIGITS} digits."
        )
    return pa.decimal128(digits, places)


def _stream_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _stream_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_large_string(kind) or kind == pa.string_view() or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    return kind


def stream_schema(schema: pa.Schema, types: Types) -> pa.Schema:
    """Return the schema of a stream for the schema of a file; the file's own metadata are left behind."""
    return pa.schema([stream_field(field, types.get(field.name)) for field in schema])


def convert(array: pa.Array, field: pa.Field, word: str | pa.DataType | None) -> pa.Array:
    """Return a column as the stream has it; ArrowInvalid or ValueError naming a value that is none of that type."""
    kind = array.type
    if kind == field.type and word != "epoch":
        return array
    if pa.types.is_dictionary(kind):
        values = convert(array.dictionary, field, word)
        return values.take(array.indices)
    if is_ip(field) and not pa.types.is_fixed_size_binary(kind):
        # Start-up: few columns hold addresses as text.
        from oop_engine.sources.addresses import parse_addresses

        return parse_addresses(array.cast(pa.string()))
    if word == "epoch":
        return _epoch(array).view(field.type)
    if isinstance(word, str) and is_format(word):
        return parse_times(array.cast(pa.string()), word)
    if isinstance(word, str) and word.startswith("timestamp[") and pa.types.is_integer(kind):
        return array.cast(pa.int64()).view(field.type)
    if pa.types.is_timestamp(field.type) and pa.types.is_string(kind):
        return _times(array, field.type)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(field.type) and kind.unit == field.type.unit:
        # Times of any zone, and of none, are counted in UTC: nothing is to be written anew.
        return array.view(field.type)
    if pa.types.is_decimal(field.type) and pa.types.is_floating(kind):
        # What is no number is no decimal: windows count such tuples as without a value.
        array = pc.if_else(pc.is_finite(array), array, pa.scalar(None, kind))
    return array.cast(field.type)


def _epoch(array: pa.Array) -> pa.Array:
    """Read seconds with a fraction as nanoseconds: a decimal with nine places is stored as just that integer.

    A double holds times of today to a few hundred nanoseconds, so it is taken to the microsecond.
    """
    if pa.types.is_floating(array.type):
        return pc.multiply_checked(pc.round(pc.multiply(array, 1e6)).cast(pa.int64()), 1000)
    exact = array.cast(_EPOCH)
    words = np.frombuffer(exact.buffers()[1], np.int64)[2 * exact.offset : 2 * (exact.offset + len(exact))]
    low, high = words[0::2], words[1::2]
    absent = ~np.asarray(pc.is_valid(exact).to_numpy(zero_copy_only=False))
    beyond = (high != low >> 63) & ~absent
    if beyond.any():
        raise ValueError(f"{exact[int(beyond.argmax())].as_py()} seconds since 1970 is beyond the year 2262")
    return pa.array(low, mask=absent)


def _times(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read ISO 8601 text; what has no zone is taken as UTC."""
    zoned = pc.match_substring_regex(array, r"(?:[Zz]|[+-]\d\d:?\d\d|[+-]\d\d)$")
    timed = pc.match_substring(array, ":")
    zoned = pc.and_(zoned, timed)
    if pc.all(zoned).as_py() is not False:
        return array.cast(kind)
    plain = pc.if_else(zoned, pa.scalar(None, pa.string()), array).cast(pa.timestamp(kind.unit)).cast(kind)
    return pc.coalesce(plain, pc.if_else(zoned, array, pa.scalar(None, pa.string())).cast(kind))


def ticks(batch: pa.RecordBatch, column: str) -> Int64s:
    """Return an integer or time column as int64, shape (n,), NO_TIME where it is null."""
    page = Page(Schema(batch.schema), batch)
    values, valid = page.ticks(column), page.valid(column)
    return values if valid is None else np.where(valid, values, NO_TIME)
