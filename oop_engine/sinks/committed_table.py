"""Results of a job in a table of a SQLite database: staged in another table, and moved over when they were committed.

Results between two checkpoints are a part, which has a number. A part is staged before its checkpoint is committed, and
moved after that, in one transaction with its number, which says how far the table is. So a run that goes on moves what
was committed and not moved, once, and removes what is staged of no commit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.kept import AGAIN, Kept, number
from operators.data.page import Page
from operators.data.readable import python_values
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import Element
from operators.retractions import SIGN

META: Final = "oop_engine_results"
_PART: Final = "oop_engine_part"
_HELD: Final = 1 << 17
"""Results that wait to be staged, at most."""
_SECONDS: Final = 1.0
_PATIENCE: Final = 30.0
"""Seconds for which a reader may keep a part from being written."""


@attrs.define(eq=False)
class Table:
    """A table of a database, whose rows are those of committed parts. Calls may come from any thread."""

    path: Path
    schema: Schema = attrs.field(repr=False)
    name: str
    key: tuple[str, ...]
    _pages: list[tuple[int, Page]] = attrs.field(init=False, factory=list)
    _held: int = attrs.field(init=False, default=0)
    _part: int = attrs.field(init=False, default=1)
    """The part that is taken now."""
    _rows: int = attrs.field(init=False, default=0)
    _connected: sqlite3.Connection | None = attrs.field(init=False, default=None)
    _writing: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __attrs_post_init__(self) -> None:
        for column in self.key:
            if column not in self.schema:
                raise SinkError(
                    f'the key "{column}" is no column of the results. {did_you_mean(column, self.schema.names)}'
                )
        names = [name.lower() for name in self.schema.names]
        if len(set(names)) < len(names):
            raise SinkError("SQLite does not tell capitals from small letters, and two columns differ in nothing else.")

    def fresh(self) -> Kept:
        if self.path.is_dir():
            raise SinkError(f'"{self.path}" is a folder; name a file in it.')
        with self._transaction() as database:
            if self._is_there(database, self.name) and not self._is_unused(database):
                raise SinkError(
                    f'"{self.path}" has a table "{self.name}" already, which this run did not write.\n'
                    f"  Drop it, or name another: sqlite:///{self.path}?table=NAME."
                )
        return {"path": os.path.abspath(self.path), "epoch": 0, "rows": 0, "part": 0, "table": self.name}

    def begin(self, kept: Kept) -> None:
        if kept.get("table") != self.name:
            raise SinkError(f'the results of this job are in the table "{kept.get("table")}"; name that one again.')
        part = number(kept, "part")
        with self._transaction() as database:
            there = self._is_there(database, self.name)
            if part and not there:
                raise SinkError(f'"{self.path}" lacks the table "{self.name}", which had results.\n  {AGAIN}')
            if self._moved(database)[0] > part:
                raise SinkError(
                    f'"{self.path}" has results in "{self.name}" that this job does not know of.\n  {AGAIN}'
                )
            if not part:
                self._create(database)
            database.execute(f"DELETE FROM {self._staged} WHERE {_PART} > ?", (part,))
        self.publish(kept)
        self._part, self._rows = part + 1, number(kept, "rows")

    def overtaken(self, kept: Kept) -> bool:
        if not self.path.is_file():
            return False
        with self._transaction() as database:
            return self._moved(database)[0] > number(kept, "part")

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page) and len(element):
            with self._writing:
                self._pages.append((self._part, element))
                self._rows += len(element)
                self._held += len(element)
                if self._held >= _HELD:
                    self._stage(self._part)

    def commit(self) -> None:
        """Show all that was taken."""
        kept = self.cut(0, ended=False)
        self.sync(kept)
        self.publish(kept)

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        with self._writing:
            part, self._part = self._part, self._part + 1
            path = os.path.abspath(self.path)
            return {"path": path, "epoch": epoch, "rows": self._rows, "part": part, "table": self.name}

    def sync(self, kept: Kept) -> None:
        self._stage(number(kept, "part"))

    def publish(self, kept: Kept) -> None:
        part = number(kept, "part")
        with self._transaction() as database:
            reached, rows = self._moved(database)
            if reached >= part:
                return
            query = f"SELECT count(*) FROM {self._staged} WHERE {_PART} <= ?"
            if rows + database.execute(query, (part,)).fetchone()[0] != number(kept, "rows"):
                raise SinkError(f'"{self.path}" lacks results of "{self.name}" that were committed.\n  {AGAIN}')
            chosen = f"SELECT {_listed(self.schema.names)} FROM {self._staged} WHERE {_PART} <= ?"
            if self.key:
                keys = _listed(self.key)
                gone = database.execute(f"SELECT DISTINCT {keys} FROM {self._staged} WHERE {_PART} <= ?", (part,))
                same = " AND ".join(f"{_quoted(name)} IS ?" for name in self.key)
                database.executemany(f"DELETE FROM {_quoted(self.name)} WHERE {same}", gone.fetchall())
                chosen += (
                    f" AND rowid IN (SELECT max(rowid) FROM {self._staged} WHERE {_PART} <= {part} GROUP BY {keys})"
                )
                chosen += f" AND {_quoted(SIGN)} <> -1" if SIGN in self.schema else ""
            database.execute(f"INSERT INTO {_quoted(self.name)} {chosen} ORDER BY rowid", (part,))
            database.execute(f"DELETE FROM {self._staged} WHERE {_PART} <= ?", (part,))
            database.execute(f"UPDATE {META} SET part = ?, rows = ? WHERE name = ?", (part, kept["rows"], self.name))

    def drop(self) -> None:
        """Remove the table, and what is staged."""
        with self._transaction() as database:
            for table in (_quoted(self.name), self._staged):
                database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"DELETE FROM {META} WHERE name = ?", (self.name,))

    def close(self) -> None:
        """Close the database."""
        with self._writing:
            if self._connected is not None:
                self._connected.close()
                self._connected = None

    @property
    def _staged(self) -> str:
        return _quoted(f"{self.name}_staged")

    def _stage(self, part: int) -> None:
        """Write what was taken of parts up to this one."""
        with self._writing:
            pages = [(of, page) for of, page in self._pages if of <= part]
            if pages:
                places = ", ".join("?" * (1 + len(self.schema.names)))
                with self._transaction() as database:
                    for of, page in pages:
                        database.executemany(f"INSERT INTO {self._staged} VALUES ({places})", _rows(page, of))
            self._pages = [(of, page) for of, page in self._pages if of > part]
            self._held = sum(len(page) for _, page in self._pages)

    def _create(self, database: sqlite3.Connection) -> None:
        """Make the tables, in place of those that a run left before it committed anything."""
        table, meta = _quoted(self.name), f"{META} (name TEXT PRIMARY KEY, part INTEGER, rows INTEGER)"
        columns = ", ".join(f"{_quoted(field.name)} {_type(field.type)}" for field in self.schema.arrow)
        for left in (table, self._staged):
            database.execute(f"DROP TABLE IF EXISTS {left}")
        database.execute(f"CREATE TABLE {table} ({columns})")
        database.execute(f"CREATE TABLE {self._staged} ({columns}, {_PART} INTEGER)")
        if self.key:
            database.execute(f"CREATE INDEX {_quoted(f'{self.name}_key')} ON {table} ({_listed(self.key)})")
        database.execute(f"CREATE TABLE IF NOT EXISTS {meta}")
        database.execute(f"INSERT OR REPLACE INTO {META} VALUES (?, 0, 0)", (self.name,))

    def _is_unused(self, database: sqlite3.Connection) -> bool:
        """Return whether a run that was killed made the table, and never moved a row there."""
        return self._is_there(database, f"{self.name}_staged") and self._moved(database)[0] == 0

    def _moved(self, database: sqlite3.Connection) -> tuple[int, int]:
        """Return the last part that was moved, and how many rows there were up to it."""
        if not self._is_there(database, META):
            return 0, 0
        found = database.execute(f"SELECT part, rows FROM {META} WHERE name = ?", (self.name,)).fetchone()
        return (0, 0) if found is None else (int(found[0]), int(found[1]))

    @staticmethod
    def _is_there(database: sqlite3.Connection, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(?)"
        return database.execute(query, (name,)).fetchone() is not None

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield the database in a transaction, which is durable in the end; WriteFailed with the file."""
        with self._writing:
            try:
                if self._connected is None:
                    self._connected = sqlite3.connect(
                        self.path, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
                    )
                    self._connected.execute("PRAGMA synchronous = FULL")
                self._connected.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connected
                except BaseException:
                    if self._connected.in_transaction:
                        self._connected.execute("ROLLBACK")
                    raise
                self._connected.execute("COMMIT")
            except sqlite3.Error as error:
                raise WriteFailed(
                    f'"{self.path}": {error}.\n  Nothing of the last part was written: put that right, and run the same'
                    " again."
                ) from error


@attrs.define(eq=False)
class Growing:
    """Show what a table takes about once a second."""

    table: Table
    held: bool = attrs.field(init=False, default=False)
    _shown: float = attrs.field(init=False, factory=time.monotonic)

    def __call__(self, element: Element, /) -> None:
        self.table(element)
        self.held |= isinstance(element, Page) and len(element) > 0
        if self.held and time.monotonic() - self._shown >= _SECONDS:
            self.table.commit()
            self.held, self._shown = False, time.monotonic()


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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))
