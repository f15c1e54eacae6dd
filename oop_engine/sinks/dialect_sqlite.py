"""A database of SQLite: values are those of NDJSON, and a connection stays open, which readers share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from oop_engine.sinks.dialect import PATIENCE, DatabaseFile, listed, quoted
from operators.data.page import Page
from operators.data.readable import python_values
from operators.data.schema import Schema
from operators.kernels.ticks import BEFORE_ALL, FOREVER


@attrs.define(eq=False)
class Sqlite(DatabaseFile):
    """A SQLite file; see `dialect.Database`."""

    name: ClassVar[str] = "SQLite"
    scheme: ClassVar[str] = "sqlite"
    failures: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    _connected: sqlite3.Connection | None = attrs.field(init=False, default=None)

    @contextmanager
    def transaction(self) -> Generator[None, None, None]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._open().execute(query, values).fetchall()

    def is_there(self, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(?)"
        return bool(self.execute(query, (name,)))

    def create(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        columns = ", ".join(f"{quoted(field.name)} {_type(field.type)}" for field in schema.arrow)
        self.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        if key:
            self.execute(f"CREATE INDEX {quoted(f'{name}_key')} ON {quoted(name)} ({listed(key)})")

    def insert(self, name: str, pages: Sequence[tuple[int, Page]]) -> None:
        for part, page in pages:
            places = ", ".join("?" * (1 + len(page.schema.names)))
            self._open().executemany(f"INSERT INTO {quoted(name)} VALUES ({places})", _rows(page, part))

    def remove(self, name: str, key: Sequence[str], gone: str, values: Sequence[object]) -> None:
        same = " AND ".join(f"{quoted(column)} IS ?" for column in key)
        self._open().executemany(f"DELETE FROM {quoted(name)} WHERE {same}", self.execute(gone, values))

    def _open(self) -> sqlite3.Connection:
        if self._connected is None:
            self._connected = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=PATIENCE
            )
            self._connected.execute("PRAGMA synchronous = FULL")
        return self._connected


def _rows(page: Page, part: int) -> Iterator[tuple[object, ...]]:
    """Yield the tuples of a page as SQLite takes them: those of NDJSON, nested ones as JSON."""
    columns = [
        [_value(value) for value in python_values(page.batch.column(i), field)]
        for i, field in enumerate(page.schema.arrow)
    ]
    return zip(*columns, [part] * len(page), strict=True)


def _value(value: object) -> object:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=str)
    if isinstance(value, int) and not BEFORE_ALL <= value <= FOREVER:
        return str(value)
    return value


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
        return "INTEGER"
    if pa.types.is_floating(kind) or pa.types.is_duration(kind):
        return "REAL"
    # Without a type SQLite leaves a number that INTEGER cannot hold as it is given, as text.
    return "" if pa.types.is_uint64(kind) else "TEXT"
