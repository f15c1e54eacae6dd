"""NDJSON becomes Arrow tables, piece by piece; the keys of the first lines are the columns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from oop_engine.sources.columns import TIME, Types
from oop_engine.sources.errors import TableError
from oop_engine.sources.lines import check_first, exact, overruled, raw, retyped, settled, untyped, word_for, word_of
from oop_engine.sources.nested_objects import Other, Paths, flattened, nested, others_by_line, paths_of, value_at
from oop_engine.sources.owned import owned
from oop_engine.sources.text import Piece, first_bad_line

_PLACE: Final = re.compile(r"[Rr]ow #?(\d+)")
_TWICE: Final = re.compile(r"Column\(/(.+)\) was specified twice")
_NAMED: Final = re.compile(r"Column\(/([^)/]+)")
_BLOCK: Final = 1 << 20


@attrs.frozen
class Objects:
    """NDJSON: one object a line. A key that is missing is null; keys that the first lines had not are left out.

    Where objects are flattened, each value in them is a column, and `paths` has the keys that lead to it.
    """

    schema: pa.Schema
    paths: Paths | None = None

    @classmethod
    def of(cls, first: bytes, types: Types, *, flatten: bool = False, settled: pa.Schema | None = None) -> Objects:
        """Find the columns in the first lines of a file; those alone that have types where there are no lines.

        `flatten` makes columns of the values in objects. `settled` are columns that were found before.
        """
        if settled is not None and not flatten:
            return cls(settled)
        if first.lstrip()[:1] == b"[":
            raise TableError("the file begins with [: it should hold one JSON object a line, not an array of objects")
        if _goes_on(first):
            raise TableError("the first object goes on in the next line: the file should hold one JSON object a line")
        # JSON has seconds with a fraction as a number; CSV as text, which is exact.
        seconds = {name: pa.float64() for name, word in types.items() if word == "epoch"}
        given = pa.schema(list({**raw(types), **seconds}.items()))
        found = given.empty_table()
        paths = paths_of(first, (*types, *(settled.names if settled is not None else ()))) if flatten else None
        if settled is not None:
            return cls(settled, paths)

        def read(kinds: Mapping[str, pa.DataType]) -> pa.Table:
            return _read(first, pa.schema([*given, *kinds.items()]), "infer", len(first) + 1, paths)

        if first.strip():
            try:
                found = exact(read({}), types, read)
            except pa.ArrowInvalid as error:
                raise _damage(error, 2, "") from error
        if twice := next((name for name, times in Counter(found.column_names).items() if times > 1), None):
            raise TableError(f'the first lines have "{twice}" as a key, and as a path of keys; rename one')
        fields = [pa.field(name, kind) for name, kind in _kinds(found, types).items()]
        # Text that will be a time may be in later lines only.
        known = frozenset(found.schema.names)
        fields += [pa.field(name, pa.string()) for name in types if name not in known]
        places = {key: place for place, key in enumerate(_keys(first, flatten=flatten))}
        fields.sort(key=lambda f: places.get(f.name, len(places)))
        return cls(pa.schema(fields), paths)

    def settled(self, columns: pa.Schema) -> Objects:
        """Read these columns, each as its type."""
        return Objects(columns, self.paths)

    def typed(self, kinds: Mapping[str, pa.DataType]) -> Objects:
        return Objects(retyped(self.schema, kinds), self.paths)

    def others(self, piece: Piece) -> list[Other]:
        """Return the values of flattened objects that are no columns, by their names."""
        typed = pa.schema([field for field in self.schema if not pa.types.is_null(field.type)])
        try:
            found = _read(piece.data, typed, "infer", len(piece.data) + 1, self.paths)
        except pa.ArrowInvalid:
            return others_by_line(piece, self.schema.names)
        known = frozenset(typed.names)
        others: list[Other] = []
        for name, column in zip(found.column_names, found.columns, strict=True):
            if name not in known and (lines := len(column) - column.null_count):
                first = pc.index(pc.is_valid(column), True).as_py()
                others.append(Other(name, lines, first, word_for(column.type)))
        return others

    def holds(self, piece: Piece) -> bool:
        return bool(piece.data.strip())

    def look(self, piece: Piece, columns: Sequence[str]) -> Mapping[str, pa.DataType]:
        if not self.holds(piece):
            return {}
        try:
            _read(piece.data, pa.schema([(name, pa.null()) for name in columns]), "ignore", _BLOCK, self.paths)
            return {}
        except pa.ArrowInvalid:
            pass
        try:
            found = self._inferred(piece, columns)
        except pa.ArrowInvalid:
            # Whoever reads the piece is told.
            return {}
        return {name: kind for name, kind in _kinds(found, {}).items() if not pa.types.is_null(kind)}

    def parse(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        if not self.holds(piece):
            return self.schema.empty_table().select(list(columns))
        wanted = pa.schema([self.schema.field(name) for name in columns])
        try:
            return _read(piece.data, wanted, "ignore", _BLOCK, self.paths).select(list(columns))
        except pa.ArrowInvalid:
            pass
        try:
            return _read(piece.data, wanted, "ignore", len(piece.data) + 1, self.paths).select(list(columns))
        except pa.ArrowInvalid as error:
            if not untyped(wanted):
                raise self._damage(error, piece, wanted) from error
        try:
            found = self._inferred(piece, columns)
        except pa.ArrowInvalid as error:
            raise self._damage(error, piece, wanted) from error
        check_first(found, _kinds(found.select(list(untyped(wanted))), {}), piece.line)
        return found

    def _inferred(self, piece: Piece, columns: Sequence[str]) -> pa.Table:
        """Read some columns, each as its type, or as what is in it where it has none."""
        wanted = frozenset(columns)
        typed = pa.schema([f for f in self.schema if f.name in wanted and not pa.types.is_null(f.type)])
        found = _read(piece.data, typed, "infer", len(piece.data) + 1, self.paths)
        there = frozenset(found.schema.names)
        arrays = [found.column(name) if name in there else pa.chunked_array([pa.nulls(len(found))]) for name in columns]
        return pa.table(arrays, names=list(columns))

    def _damage(self, error: Exception, piece: Piece, wanted: pa.Schema) -> TableError:
        """Say in which column and line what cannot be read is, as far as that can be found out by reading again."""

        def read(fields: Sequence[pa.Field], lines: Piece) -> object:
            return _read(lines.data, pa.schema(list(fields)), "ignore", len(lines.data) + 1, self.paths)

        def fails(fields: Sequence[pa.Field]) -> bool:
            try:
                read(fields, piece)
            except pa.ArrowInvalid:
                return True
            return False

        typed = [field for field in wanted if not pa.types.is_null(field.type)]
        if fails([]) or not (found := next((field for field in typed if fails([field])), None)):
            # No column's value is at fault, but the line.
            return _damage(error, piece.line + 1, "")
        line = first_bad_line(piece, lambda lines: read([found], lines))
        text = piece.data.split(b"\n", line - piece.line + 1)[line - piece.line]
        try:
            value = json.dumps(value_at(json.loads(text), (self.paths or {}).get(found.name, (found.name,))))
        except ValueError:
            # The object lies in several lines.
            return _damage(error, piece.line + 1, found.name)
        if _TWICE.search(str(error)):
            return _damage(error, piece.line + 1, found.name)
        return TableError(
            f'line {line}: "{found.name}" is {value}, which is no {found.type}'
            f"{overruled(found.name, word_of(value, found.type))}"
        )


def _read(data: bytes, schema: pa.Schema, others: str, block: int, paths: Paths | None) -> pa.Table:
    """Read these columns as their types; `others`, the keys that have none, are left out or read as they are.

    Several blocks are read by threads.
    """
    threads = len(data) > block
    found = arrow_json.read_json(
        pa.BufferReader(owned(data) if threads else data),
        read_options=arrow_json.ReadOptions(block_size=block, use_threads=threads),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema if paths is None else nested(schema, paths), unexpected_field_behavior=others
        ),
    )
    return found if paths is None else flattened(found)


def _kinds(found: pa.Table, types: Types) -> dict[str, pa.DataType]:
    """Return the types that columns are read as: text that is times all over as times."""
    kinds: dict[str, pa.DataType] = {}
    for field, column in zip(found.schema, found.columns, strict=True):
        kind = settled(field, types).type
        kinds[field.name] = TIME if pa.types.is_string(kind) and field.name not in types and _is_time(column) else kind
    return kinds


def _keys(first: bytes, *, flatten: bool) -> list[str]:
    """Return the keys of the first object in its own order: Arrow puts columns of a given type before others."""
    if flatten:
        return list(paths_of(first.lstrip().split(b"\n", 1)[0], ()))
    try:
        found = json.loads(first.lstrip().split(b"\n", 1)[0])
    except ValueError:
        # Arrow has read it: the order of its columns will do.
        return []
    return list(found) if isinstance(found, dict) else []


def _goes_on(first: bytes) -> bool:
    """Return whether the first line that is not blank ends within an object, and others follow."""
    line, _, others = first.lstrip().partition(b"\n")
    text = line.decode(errors="replace").rstrip()
    try:
        json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) and bool(others.strip())
    return False


def _is_time(column: pa.ChunkedArray) -> bool:
    """Return whether all text of a column is ISO 8601 date and time."""
    known = column.drop_null()
    pattern = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?$"
    return len(known) > 0 and pc.all(pc.match_substring_regex(known, pattern)).as_py()


def _damage(error: Exception, line: int, column: str) -> TableError:
    """Say where and what; `line` is that of Arrow's row 1, `column` the one at fault where it is known."""
    text = str(error)
    place = _PLACE.search(text)
    where = f"line {line + int(place.group(1)) - 1}, blank lines not counted" if place else f"at or after line {line}"
    if twice := _TWICE.search(text):
        key = twice.group(1).replace("/", ".")
        return TableError(f'{where}: an object has the key "{key}" twice; rename one, or leave it out')
    named = _NAMED.search(text)
    name = column or (named.group(1) if named else "")
    return TableError(f"{where}: {text}{overruled(name, 'text') if name else ''}")
