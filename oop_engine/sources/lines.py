"""Find columns and types in the first lines of a file, and report later lines that do not fit.

The first value of a column decides its type. A column of which no value was seen has the type null: it is read as
text, and a first value that is anything else is an error, since what it should be was decided without it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sources.columns import Types, kind_for
from oop_engine.sources.errors import TableError
from oop_engine.sources.text import Piece
from oop_engine.sources.text_form import is_format

_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


class Lines(Protocol):
    """The columns and types of a file of lines, found in its first piece."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns as they are read, before they become those of a stream; null where no value was seen."""
        ...

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        """Read the wanted columns of a piece; TableError names line and column of what cannot be read.

        A column without a type has that of its values in the piece: null where there are none, else text.
        """
        ...

    def look(self, piece: Piece, columns: Sequence[str]) -> Mapping[str, pa.DataType]:
        """Return the types of those columns, among some without one, that have a value in a piece."""
        ...

    def typed(self, kinds: Mapping[str, pa.DataType]) -> Lines:
        """Read columns as these types from now on."""
        ...

    def holds(self, piece: Piece) -> bool:
        """Return whether a piece has a tuple."""
        ...


def untyped(schema: pa.Schema) -> tuple[str, ...]:
    """Name the columns of which no value was seen."""
    return tuple(field.name for field in schema if pa.types.is_null(field.type))


def retyped(schema: pa.Schema, kinds: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema with other types for some of its columns."""
    return pa.schema([pa.field(f.name, kinds.get(f.name, f.type)) for f in schema])


def raw(types: Types) -> Mapping[str, pa.DataType]:
    """Return the types to read for a user's words: what Arrow does not read itself is read as text or number first."""
    found: dict[str, pa.DataType] = {}
    for name, word in types.items():
        if word == "timestamp":
            continue
        if isinstance(word, str):
            found[name] = (
                pa.string()
                if word in ("ip", "epoch") or is_format(word)
                else pa.int64()
                if word.startswith("timestamp[")
                else kind_for(word)
            )
        else:
            found[name] = word
    return found


def exact(found: pa.Table, types: Types, again: Callable[[Mapping[str, pa.DataType]], pa.Table]) -> pa.Table:
    """Return the first lines with whole numbers from 2**63 to 2**64 as uint64, where Arrow took them for floats.

    Floats would make one of two such numbers that are near, as the ids of flows may be. `again` reads the lines with
    types for some columns.
    """
    kinds: dict[str, pa.DataType] = {}
    for name, column in zip(found.column_names, found.columns, strict=True):
        if name in types or column.type != pa.float64():
            continue
        least, most = pc.min_max(column).values()
        if not least.is_valid or least.as_py() < 0 or not 2.0**63 <= most.as_py() <= 2.0**64:
            continue
        try:
            found = again({**kinds, name: pa.uint64()})
        except pa.ArrowInvalid:
            # A fraction, an exponent, or a number that is larger still.
            continue
        kinds[name] = pa.uint64()
    return found


def settled(field: pa.Field, types: Types) -> pa.Field:
    """Return the type that is read for the whole file: times to the nanosecond."""
    kind = field.type
    if pa.types.is_timestamp(kind) and types.get(field.name, "timestamp") == "timestamp":
        kind = pa.timestamp("ns", kind.tz)
    return pa.field(field.name, kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column is text, coded or not."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()


def word_for(kind: pa.DataType) -> str:
    """Return the word with which a user says a type."""
    if pa.types.is_integer(kind):
        return "uint" if kind == pa.uint64() else "int"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    if pa.types.is_boolean(kind):
        return "bool"
    return "timestamp" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else "text"


def word_of(value: str, kind: pa.DataType) -> str:
    """Return the word for the type that reads a value as well as those before it, which are of another."""
    if not pa.types.is_integer(kind) or not _NUMBER.fullmatch(value):
        return "text"
    return "uint" if kind != pa.uint64() and value.strip().isdecimal() and int(value) < 2**64 else "float"


def way_out(name: str, word: str) -> str:
    """Say how the type of a column is given."""
    return f'--types {shlex.quote(f"{name}={word}")} (in Python types={{"{name}": "{word}"}})'


def overruled(name: str, word: str) -> str:
    """Say, for a value that does not fit, what decided the type and what goes before it."""
    return f'\n  The first lines decided the type of "{name}"; {way_out(name, word)} overrules them.'


def check_first(table: pa.Table, kinds: Mapping[str, pa.DataType], line: int) -> None:
    """Refuse the first value of a column without a type that is no text.

    `kinds` are what the values of such columns are; `line` is that of the table's row 0.
    """
    for name, kind in kinds.items():
        column = table.column(name)
        if not is_text(kind) and column.null_count < len(column):
            row = pc.index(pc.is_valid(column), True).as_py()
            where = f"line {line + row}, blank lines not counted"
            raise TableError(f"{where}: {first_value(name, column[row], kind)}")


def first_value(name: str, value: pa.Scalar, kind: pa.DataType) -> str:
    """Say that the first value of a column came after its type was decided."""
    word = word_for(kind)
    also = "" if word == "text" else f"; as text: {name}=text"
    return (
        f'"{name}" is {value} here, and had no value in the part examined before, so it was taken as text.'
        f"\n  Set its type: {way_out(name, word)}{also}."
    )
