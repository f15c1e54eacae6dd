"""Results of a job in a table of a database: staged in another table, and moved over when they were committed.

Results between two checkpoints are a part, which has a number. A part is staged before its checkpoint is committed, and
moved after that, in one transaction with its number, which says how far the table is. So a run that goes on moves what
was committed and not moved, once, and removes what is staged of no commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import attrs

from oop_engine.sinks.dialect import PART, Database, listed, quoted
from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.kept import AGAIN, Kept, number
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.protocol import Element
from operators.retractions import SIGN

META: Final = "oop_engine_results"
_HELD: Final = 1 << 17
"""Results that wait to be staged, at most."""
_SECONDS: Final = 1.0


@attrs.define(eq=False)
class Table:
    """A table of a database, whose rows are those of committed parts. Calls may come from any thread."""

    database: Database
    schema: Schema = attrs.field(repr=False)
    name: str
    key: tuple[str, ...]
    _pages: list[tuple[int, Page]] = attrs.field(init=False, factory=list)
    _held: int = attrs.field(init=False, default=0)
    _part: int = attrs.field(init=False, default=1)
    """The part that is taken now."""
    _rows: int = attrs.field(init=False, default=0)
    _writing: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __attrs_post_init__(self) -> None:
        for column in self.key:
            if column not in self.schema:
                raise SinkError(
                    f'the key "{column}" is no column of the results. {did_you_mean(column, self.schema.names)}'
                )
        names = [name.lower() for name in self.schema.names]
        if len(set(names)) < len(names) and not self.database.tells_capitals:
            raise SinkError(
                f"{self.database.name} does not tell capitals from small letters, and two columns differ in nothing"
                " else."
            )

    @property
    def place(self) -> str:
        return self.database.place

    def fresh(self) -> Kept:
        self.database.check()
        with self._transaction():
            if self.database.is_there(self.name) and not self._is_unused():
                raise SinkError(
                    f'"{self._where}" has a table "{self.name}" already, which this run did not write.\n'
                    f"  Drop it, or name another: {self.database.uri}?table=NAME."
                )
        return {"path": self.place, "epoch": 0, "rows": 0, "part": 0, "table": self.name}

    def begin(self, kept: Kept) -> None:
        if kept.get("table") != self.name:
            raise SinkError(f'the results of this job are in the table "{kept.get("table")}"; name that one again.')
        part = number(kept, "part")
        with self._transaction():
            there = self.database.is_there(self.name)
            if part and not there:
                raise SinkError(f'"{self._where}" lacks the table "{self.name}", which had results.\n  {AGAIN}')
            if self._moved()[0] > part:
                raise SinkError(
                    f'"{self._where}" has results in "{self.name}" that this job does not know of.\n  {AGAIN}'
                )
            if not part:
                self._create()
            self.database.execute(f"DELETE FROM {self._staged} WHERE {PART} > ?", (part,))
        self.publish(kept)
        self._part, self._rows = part + 1, number(kept, "rows")

    def overtaken(self, kept: Kept) -> bool:
        if not self.database.is_made():
            return False
        with self._transaction():
            return self._moved()[0] > number(kept, "part")

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
            return {"path": self.place, "epoch": epoch, "rows": self._rows, "part": part, "table": self.name}

    def take_back(self, kept: Kept) -> None:
        """Do nothing: each part is moved with those before it."""

    def sync(self, kept: Kept) -> None:
        self._stage(number(kept, "part"))

    def publish(self, kept: Kept) -> None:
        part = number(kept, "part")
        with self._transaction():
            reached, rows = self._moved()
            if reached >= part:
                return
            query = f"SELECT count(*) FROM {self._staged} WHERE {PART} <= ?"
            if rows + self.database.execute(query, (part,))[0][0] != number(kept, "rows"):
                raise SinkError(f'"{self._where}" lacks results of "{self.name}" that were committed.\n  {AGAIN}')
            row = self.database.row
            chosen = f"SELECT {listed(self.schema.names)} FROM {self._staged} WHERE {PART} <= ?"
            if self.key:
                keys = listed(self.key)
                gone = f"SELECT DISTINCT {keys} FROM {self._staged} WHERE {PART} <= ?"
                self.database.remove(self.name, self.key, gone, (part,))
                chosen += (
                    f" AND {row} IN (SELECT max({row}) FROM {self._staged} WHERE {PART} <= {part} GROUP BY {keys})"
                )
                chosen += f" AND {quoted(SIGN)} <> -1" if SIGN in self.schema else ""
            self.database.execute(f"INSERT INTO {quoted(self.name)} {chosen} ORDER BY {row}", (part,))
            self.database.execute(f"DELETE FROM {self._staged} WHERE {PART} <= ?", (part,))
            self.database.execute(
                f"UPDATE {META} SET part = ?, rows = ? WHERE name = ?", (part, kept["rows"], self.name)
            )

    def drop(self) -> None:
        """Remove the table, and what is staged."""
        with self._transaction():
            for table in (quoted(self.name), self._staged):
                self.database.execute(f"DROP TABLE IF EXISTS {table}")
            self.database.execute(f"DELETE FROM {META} WHERE name = ?", (self.name,))

    def close(self) -> None:
        """Close the database."""
        with self._writing:
            self.database.close()

    @property
    def _where(self) -> str:
        """Return the place as messages name it."""
        return self.database.where

    @property
    def _staged(self) -> str:
        return quoted(f"{self.name}_staged")

    def _stage(self, part: int) -> None:
        """Write what was taken of parts up to this one."""
        with self._writing:
            pages = [(of, page) for of, page in self._pages if of <= part]
            if pages:
                with self._transaction():
                    self.database.insert(f"{self.name}_staged", pages)
            self._pages = [(of, page) for of, page in self._pages if of > part]
            self._held = sum(len(page) for _, page in self._pages)

    def _create(self) -> None:
        """Make the tables, in place of those that a run left before it committed anything."""
        table, meta = quoted(self.name), f"{META} (name TEXT PRIMARY KEY, part BIGINT, rows BIGINT)"
        for left in (table, self._staged):
            self.database.execute(f"DROP TABLE IF EXISTS {left}")
        self.database.create(self.name, self.schema, self.key)
        self.database.create(f"{self.name}_staged", self.schema)
        self.database.execute(f"ALTER TABLE {self._staged} ADD COLUMN {PART} BIGINT")
        if self.database.row_type:
            self.database.execute(f"ALTER TABLE {self._staged} ADD COLUMN {self.database.row} {self.database.row_type}")
        self.database.execute(f"CREATE TABLE IF NOT EXISTS {meta}")
        self.database.execute(
            f"INSERT INTO {META} VALUES (?, 0, 0) ON CONFLICT (name) DO UPDATE SET part = 0, rows = 0", (self.name,)
        )

    def _is_unused(self) -> bool:
        """Return whether a run that was killed made the table, and never moved a row there."""
        return self.database.is_there(f"{self.name}_staged") and self._moved()[0] == 0

    def _moved(self) -> tuple[int, int]:
        """Return the last part that was moved, and how many rows there were up to it."""
        if not self.database.is_there(META):
            return 0, 0
        found = self.database.execute(f"SELECT part, rows FROM {META} WHERE name = ?", (self.name,))
        return found[0] if found else (0, 0)

    @contextmanager
    def _transaction(self) -> Generator[None, None, None]:
        """Enter a transaction of the database; WriteFailed with the file."""
        with self._writing:
            try:
                with self.database.transaction():
                    yield
            except self.database.failures as error:
                seen = " ".join(str(error).split()).rstrip(".?")
                raise WriteFailed(
                    f'"{self._where}": {seen}.\n  Nothing of the last part was written: put that right, and run the'
                    " same again."
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
