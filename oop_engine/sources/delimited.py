"""CSV and TSV become Arrow tables, piece by piece; the header line names the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.csv as arrow_csv

from oop_engine.sources.columns import Types
from oop_engine.sources.errors import TableError
from oop_engine.sources.lines import check_first, exact, overruled, raw, retyped, settled, untyped, word_of
from oop_engine.sources.owned import owned
from oop_engine.sources.text import Piece

_ROW: Final = re.compile(r"[Rr]ow #?(\d+):? ?")
_COLUMN: Final = re.compile(r"In CSV column #(\d+): ")
_VALUE: Final = re.compile(r"invalid value '(.*)'", re.DOTALL)
_BLOCK: Final = 1 << 20


@attrs.frozen
class Delimited:
    """CSV or TSV with a header line."""

    schema: pa.Schema
    delimiter: str
    decimal: str = "."

    @classmethod
    def of(cls, first: bytes, types: Types, delimiter: str, decimal: str = ".") -> Delimited:
        """Find the columns in the first lines of a file."""
        if not first.strip():
            raise TableError("the file is empty: its first line should name the columns")

        def read(kinds: Mapping[str, pa.DataType]) -> pa.Table:
            return arrow_csv.read_csv(
                pa.BufferReader(first),
                read_options=arrow_csv.ReadOptions(block_size=len(first) + 1, use_threads=False),
                parse_options=_parsing(delimiter, first),
                convert_options=_converting({**raw(types), **kinds}, None, decimal),
            )

        try:
            found = exact(read({}), types, read).schema
        except pa.ArrowInvalid as error:
            raise _damage(error, 1, []) from error
        twice = next((name for name, times in Counter(found.names).items() if times > 1), None)
        if twice is not None:
            raise TableError(f'the first line names the column "{twice}" twice')
        return cls(pa.schema([settled(field, types) for field in found]), delimiter, decimal)

    def typed(self, kinds: Mapping[str, pa.DataType]) -> Delimited:
        return Delimited(retyped(self.schema, kinds), self.delimiter, self.decimal)

    def holds(self, piece: Piece) -> bool:
        return bool((piece.data.partition(b"\n")[2] if piece.line == 1 else piece.data).strip())

    def look(self, piece: Piece, columns: Sequence[str]) -> Mapping[str, pa.DataType]:
        if not self.holds(piece):
            return {}
        try:
            found = self._read(piece, columns, _BLOCK).schema
        except pa.ArrowInvalid:
            # Whoever reads the piece is told.
            return {}
        return {f.name: settled(f, {}).type for f in found if not pa.types.is_null(f.type)}

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        if not self.holds(piece):
            return self.schema.empty_table().select(list(columns))
        try:
            found = self._read(piece, columns, _BLOCK)
        except pa.ArrowInvalid:
            # Once more in one block and one thread: a long line fits, and an error knows its row.
            try:
                found = self._read(piece, columns, len(piece.data) + 1)
            except pa.ArrowInvalid as error:
                raise _damage(error, piece.line, self.schema) from error
        kinds = {name: found.schema.field(name).type for name in untyped(self.schema) if name in columns}
        check_first(found, kinds, piece.line + int(piece.line == 1))
        return found

    def _read(self, piece: Piece, columns: Sequence[str], block: int) -> pa.Table:
        """Read some columns, each as its type, or as what is in it where it has none; several blocks by threads."""
        wanted = frozenset(columns)
        kinds = {f.name: f.type for f in self.schema if f.name in wanted and not pa.types.is_null(f.type)}
        options, threads = _parsing(self.delimiter, piece.data), len(piece.data) > block
        if options.newlines_in_values:
            block = len(piece.data) + 1
        return arrow_csv.read_csv(
            pa.BufferReader(owned(piece.data) if threads else piece.data),
            read_options=arrow_csv.ReadOptions(
                column_names=self.schema.names, skip_rows=int(piece.line == 1), block_size=block, use_threads=threads
            ),
            parse_options=options,
            convert_options=_converting(kinds, columns, self.decimal),
        )


def _parsing(delimiter: str, data: bytes) -> arrow_csv.ParseOptions:
    return arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data)


def _converting(
    types: Mapping[str, pa.DataType], columns: Sequence[str] | None, decimal: str
) -> arrow_csv.ConvertOptions:
    """Read an empty cell as null, and between quotes as empty text. No other word is null."""
    return arrow_csv.ConvertOptions(
        column_types=dict(types),
        include_columns=None if columns is None else list(columns),
        null_values=[""],
        decimal_point=decimal,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _damage(error: Exception, line: int, schema: pa.Schema | Sequence[pa.Field]) -> TableError:
    """Say where and what, and which type would read it; `line` is that of Arrow's row 1.

    Arrow counts the columns of the file, whichever of them are read.
    """
    text = str(error)
    place, column, value = _ROW.search(text), _COLUMN.search(text), _VALUE.search(text)
    where = f"line {line + int(place.group(1)) - 1}, blank lines not counted" if place else f"at or after line {line}"
    number = int(column.group(1)) if column else -1
    if not 0 <= number < len(schema):
        return TableError(f"{where}: {text}")
    field = schema[number]
    said = _ROW.sub("", _COLUMN.sub("", text))
    return TableError(
        f'{where}: "{field.name}": {said}'
        f"{overruled(field.name, word_of(value.group(1), field.type) if value else 'text')}"
    )
