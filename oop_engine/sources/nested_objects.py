"""Objects within objects of NDJSON become columns: the value at the keys a and b is the column a.b."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs
import pyarrow as pa

from oop_engine.sources.text import Piece

Paths: TypeAlias = Mapping[str, tuple[str, ...]]
"""The keys that lead to the value of a column, by its name."""
_MOST_KEYS: Final = 100_000
"""Values of the first lines whose paths are looked up, at most."""


@attrs.frozen
class Other:
    """A value that is no column: in how many lines, in which row of the piece first, and the word for its type."""

    name: str
    lines: int
    row: int
    word: str


def paths_of(lines: bytes, names: Iterable[str]) -> Paths:
    """Return the paths of the values in lines of NDJSON; of `names` that no line has, dots part the keys.

    >>> paths_of(b'{"a": {"b": 1}, "c.d": 2}', ["e.f"])
    {'a.b': ('a', 'b'), 'c.d': ('c.d',), 'e.f': ('e', 'f')}
    """
    found: dict[str, tuple[str, ...]] = {}
    looked = 0
    for line in lines.splitlines():
        if looked > _MOST_KEYS:
            break
        for path, _ in _values(_object(line)):
            looked += 1
            found.setdefault(".".join(path), path)
    return {**found, **{name: tuple(name.split(".")) for name in names if name not in found}}


def nested(schema: pa.Schema, paths: Paths) -> pa.Schema:
    """Return the schema of the objects that hold these columns.

    >>> nested(pa.schema([("a.b", pa.int64())]), {"a.b": ("a", "b")}).field("a").type
    StructType(struct<b: int64>)
    """
    tree: dict[str, object] = {}
    for field in schema:
        *outer, last = paths.get(field.name) or field.name.split(".")
        place = tree
        for key in outer:
            inner = place.get(key)
            if not isinstance(inner, dict):
                # What was null in the first lines may be an object in others.
                inner = place[key] = {}
            place = cast("dict[str, object]", inner)
        if not (last in place and pa.types.is_null(field.type)):
            place[last] = field.type
    return pa.schema([(key, _type(value)) for key, value in tree.items()])


def flattened(table: pa.Table) -> pa.Table:
    """Return a table with a column for each value of its objects."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def value_at(value: object, path: Sequence[str]) -> object:
    """Return what stands in an object behind these keys; None where nothing does."""
    for key in path:
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return value


def others_by_line(piece: Piece, columns: Iterable[str]) -> list[Other]:
    """Return the values that are no columns, line by line: for those that no type reads together."""
    known, found = frozenset(columns), dict[str, Other]()
    for row, line in enumerate(line for line in piece.data.split(b"\n") if line.strip()):
        for path, value in _values(_object(line)):
            if (name := ".".join(path)) not in known and value is not None:
                other = found.get(name) or Other(name, 0, row, "text")
                found[name] = attrs.evolve(other, lines=other.lines + 1)
    return list(found.values())


def _type(value: object) -> pa.DataType:
    if isinstance(value, dict):
        return pa.struct([(key, _type(inner)) for key, inner in cast("dict[str, object]", value).items()])
    return value


def _object(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        # Arrow, which reads the line, says what is wrong with it.
        return None


def _values(value: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    if not isinstance(value, dict):
        return [(path, value)] if path else []
    inner = cast("dict[str, object]", value)
    return [found for key, item in inner.items() for found in _values(item, (*path, key))]
