"""CSV and NDJSON are read in pieces that end with a line, so that a live stream's lines are given as they arrive.

The first piece decides the types of the columns; a later value that is of another type is an error that names its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from oop_engine.sources.capture.compression import Pieces
from oop_engine.sources.columns import TIME, WORDS, Types
from oop_engine.sources.errors import TableError

PIECE = 4 << 20
_LONGEST_LINE = 64 << 20
_PLACE = re.compile(r"[Rr]ow #?(\d+)")
_TWICE = re.compile(r"Column\(/(.+)\) was specified twice")
_COLUMN = re.compile(r"column #(\d+)|Column\(/([^)/]+)")


@attrs.frozen
class Piece:
    """Hold whole lines of a file, and the number of the first, from 1."""

    line: int
    data: bytes


def pieces(source: Pieces, *, quotes: bool) -> Iterator[Piece]:
    """Cut a source at line ends; a piece is given when it is large enough, or when the source has no more at hand.

    `quotes`: a line end between double quotes is none (CSV).
    """
    held, line, ended = bytearray(), 1, False
    while not ended:
        more = source.read(PIECE)
        ended = not more
        held += more
        if not ended and len(held) < PIECE and source.ready():
            continue
        cut = len(held) if ended else last_line_end(held, quotes=quotes)
        if cut:
            data = bytes(held[:cut])
            del held[:cut]
            yield Piece(line, data)
            line += data.count(b"\n")
        elif len(held) > _LONGEST_LINE:
            long = f"line {line} is longer than {_LONGEST_LINE >> 20} MiB"
            if quotes and b'"' in held[: held.find(b"\n")]:
                raise TableError(f'{long}: a " in it is never closed; write "" for a quote in text between quotes')
            raise TableError(f"{long}: this is not a file of lines")


def last_line_end(held: bytearray, *, quotes: bool) -> int:
    """Give the length of the whole lines held; with `quotes` a line end between double quotes is none. Linear time."""
    cut = held.rfind(b"\n") + 1
    odd = quotes and held.count(b'"', 0, cut) % 2
    while odd:
        # The last quote is open, so the line it stands in is the first that may not be cut off.
        start = held.rfind(b"\n", 0, held.rfind(b'"', 0, cut)) + 1
        odd ^= held.count(b'"', start, cut) % 2
        cut = start
    return cut


class Lines(Protocol):
    """How the lines of a file are read: its columns and their types, found in its first piece."""

    @property
    def schema(self) -> pa.Schema:
        """Give the columns as they are read, before they become those of a stream."""
        ...

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        """Read the wanted columns of a piece; TableError names the line of what cannot be read."""
        ...


@attrs.frozen
class Delimited:
    """CSV or TSV with a header line."""

    schema: pa.Schema
    delimiter: str

    @classmethod
    def of(cls, first: bytes, types: Types, delimiter: str) -> Delimited:
        """Find the columns in the first lines of a file."""
        if not first.strip():
            raise TableError("the file is empty: its first line should name the columns")
        try:
            found = arrow_csv.read_csv(
                pa.BufferReader(first),
                read_options=arrow_csv.ReadOptions(block_size=len(first) + 1, use_threads=False),
                parse_options=_csv_parse(delimiter, first),
                convert_options=_csv_convert(_raw(types), None),
            ).schema
        except pa.ArrowInvalid as error:
            raise _damage(error, 1, []) from error
        if len(set(found.names)) < len(found.names):
            twice = next(n for n in found.names if found.names.count(n) > 1)
            raise TableError(f'the first line names the column "{twice}" twice')
        fields = [_settled(field, types) for field in found]
        return cls(pa.schema(fields), delimiter)

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        header = piece.line == 1
        if not (piece.data.partition(b"\n")[2] if header else piece.data).strip():
            return self.schema.empty_table().select(list(columns))
        convert = _csv_convert({name: self.schema.field(name).type for name in columns}, columns)
        options = _csv_parse(self.delimiter, piece.data)
        block = (len(piece.data) + 1) if options.newlines_in_values else 1 << 20

        def read(block_size: int, threads: bool) -> pa.Table:
            return arrow_csv.read_csv(
                pa.BufferReader(piece.data),
                read_options=arrow_csv.ReadOptions(
                    column_names=self.schema.names, skip_rows=int(header), block_size=block_size, use_threads=threads
                ),
                parse_options=options,
                convert_options=convert,
            )

        try:
            return read(block, True)
        except pa.ArrowInvalid:
            pass
        # Once more in one block and one thread: a long line fits, and an error knows its row.
        try:
            return read(len(piece.data) + 1, False)
        except pa.ArrowInvalid as error:
            raise _damage(error, piece.line, columns) from error


@attrs.frozen
class Objects:
    """NDJSON: one object a line. A key that is missing is null; keys that the first lines had not are left out."""

    schema: pa.Schema

    @classmethod
    def of(cls, first: bytes, types: Types) -> Objects:
        """Find the columns in the first lines of a file."""
        if first.lstrip()[:1] == b"[":
            raise TableError("the file begins with [: it should hold one JSON object a line, not an array of objects")
        if _goes_on(first):
            raise TableError("the first object goes on in the next line: the file should hold one JSON object a line")
        # JSON has seconds with a fraction as a number; CSV as text, which is exact.
        seconds = {name: pa.float64() for name, word in types.items() if word == "epoch"}
        given = pa.schema(list({**_raw(types), **seconds}.items()))
        if not first.strip():
            if not given.names:
                raise TableError("the file is empty: its lines, or types=, would name the columns")
            return cls(given)
        try:
            found = arrow_json.read_json(
                pa.BufferReader(first),
                read_options=arrow_json.ReadOptions(block_size=len(first) + 1, use_threads=False),
                parse_options=arrow_json.ParseOptions(explicit_schema=given),
            )
        except pa.ArrowInvalid as error:
            raise _damage(error, 2, []) from error
        settled = [_settled(field, types) for field in found.schema]
        fields = [
            pa.field(f.name, TIME) if pa.types.is_string(f.type) and f.name not in types and _is_time(c) else f
            for f, c in zip(settled, found.columns, strict=True)
        ]
        keys = _keys(first)
        fields.sort(key=lambda f: keys.index(f.name) if f.name in keys else len(keys))
        return cls(pa.schema(fields))

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        if not piece.data.strip():
            return self.schema.empty_table().select(list(columns))
        wanted = pa.schema([self.schema.field(name) for name in columns])

        def read(block_size: int, threads: bool) -> pa.Table:
            return arrow_json.read_json(
                pa.BufferReader(piece.data),
                read_options=arrow_json.ReadOptions(block_size=block_size, use_threads=threads),
                parse_options=arrow_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
            ).select(list(columns))

        try:
            return read(1 << 20, True)
        except pa.ArrowInvalid:
            pass
        try:
            return read(len(piece.data) + 1, False)
        except pa.ArrowInvalid as error:
            raise _damage(error, piece.line + 1, columns) from error


def _keys(first: bytes) -> list[str]:
    """Give the keys of the first object in its own order: Arrow puts columns of a given type before others."""
    try:
        found = json.loads(first.lstrip().split(b"\n", 1)[0])
    except ValueError:
        # Arrow has read it: the order of its columns will do.
        return []
    return list(found) if isinstance(found, dict) else []


def _goes_on(first: bytes) -> bool:
    """Tell whether the first line that is not blank ends within an object, and others follow."""
    line, _, others = first.lstrip().partition(b"\n")
    text = line.decode(errors="replace").rstrip()
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) and bool(others.strip())
    return False


def _csv_parse(delimiter: str, data: bytes) -> arrow_csv.ParseOptions:
    return arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data)


def _csv_convert(types: Mapping[str, pa.DataType], columns: Sequence[str] | None) -> arrow_csv.ConvertOptions:
    """An empty cell is null; between quotes it is empty text. No other word is null."""
    return arrow_csv.ConvertOptions(
        column_types=dict(types),
        include_columns=None if columns is None else list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _raw(types: Types) -> Mapping[str, pa.DataType]:
    """Give the types to read for a user's words: what Arrow does not read itself is read as text or number first."""
    raw: dict[str, pa.DataType] = {}
    for name, word in types.items():
        if word == "timestamp":
            continue
        if isinstance(word, str):
            raw[name] = (
                pa.string() if word in ("ip", "epoch") else pa.int64() if word.startswith("timestamp[") else WORDS[word]
            )
        else:
            raw[name] = word
    return raw


def _settled(field: pa.Field, types: Types) -> pa.Field:
    """Give the type that is read for the whole file: times to the nanosecond, text where nothing was seen."""
    kind = field.type
    if pa.types.is_null(kind):
        kind = pa.string()
    elif pa.types.is_timestamp(kind) and field.name not in _raw(types):
        kind = pa.timestamp("ns", kind.tz)
    return pa.field(field.name, kind)


def _is_time(column: pa.ChunkedArray) -> bool:
    """Tell whether all text of a column is ISO 8601 date and time."""
    known = column.drop_null()
    pattern = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?$"
    return len(known) > 0 and pc.all(pc.match_substring_regex(known, pattern)).as_py()


def _damage(error: Exception, line: int, columns: Sequence[str]) -> TableError:
    """Say where and what, and which types would read it; `line` is that of Arrow's row 1."""
    text = str(error)
    place = _PLACE.search(text)
    where = f"line {line + int(place.group(1)) - 1}, blank lines not counted" if place else f"at or after line {line}"
    column = _COLUMN.search(text)
    if twice := _TWICE.search(text):
        key = twice.group(1).replace("/", ".")
        return TableError(f'{where}: an object has the key "{key}" twice; rename one, or leave it out')
    hint = ""
    if column:
        name = column.group(2) or (columns[int(column.group(1))] if int(column.group(1)) < len(columns) else "")
        hint = (
            f'\n  The first lines decided the type of "{name}"; types={{"{name}": "text"}} (or "float") overrules them.'
        )
    return TableError(f"{where}: {text}{hint}")
