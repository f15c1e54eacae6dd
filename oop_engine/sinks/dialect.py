"""A table of results speaks to all kinds of databases alike: `Database` holds what they do each in their own way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import attrs

from oop_engine.sinks.errors import SinkError
from operators.data.page import Page
from operators.data.schema import Schema

PART: Final = "oop_engine_part"
"""The column with the part that a row belongs to, of rows that wait to be committed."""
PATIENCE: Final = 30.0
"""Seconds for which a reader may keep a part from being written."""


class Database(Protocol):
    """A database. Those that take or return rows or tables are called in a transaction."""

    name: ClassVar[str]
    tells_capitals: ClassVar[bool]
    """Whether names that differ in capitals alone are two."""
    row: ClassVar[str]
    """The column that numbers the rows of a table in the order in which they came."""
    row_type: ClassVar[str]
    """The type of this column where a table lacks it; empty where every table has it."""
    failures: ClassVar[tuple[type[Exception], ...]]
    """What is raised where the database cannot be written, or is none."""

    @property
    def place(self) -> str:
        """Return where the database is, the same whatever folder the run is in."""
        ...

    @property
    def where(self) -> str:
        """Return where it is, as messages say it."""
        ...

    @property
    def uri(self) -> str:
        """Return it as `Stream.to` takes it, without a table."""
        ...

    def check(self) -> None:
        """Check that there can be a database in that place; SinkError where there cannot."""
        ...

    def is_made(self) -> bool:
        """Return whether there is something in that place."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Enter a transaction, which is durable in the end, and taken back by an exception."""
        ...

    def close(self) -> None:
        """Close the database, if it is open."""
        ...

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query with values for its question marks, and return the rows that it finds."""
        ...

    def is_there(self, name: str) -> bool:
        """Return whether there is a table or view of that name."""
        ...

    def create(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        """Make a table for tuples of a schema, whose rows `remove` looks up by a key."""
        ...

    def insert(self, name: str, pages: Sequence[tuple[int, Page]]) -> None:
        """Write the tuples of pages in their order, each with the number of its part as the last column."""
        ...

    def remove(self, name: str, key: Sequence[str], gone: str, values: Sequence[object]) -> None:
        """Remove the rows that have a key which a query finds; null is a key like others."""
        ...


@attrs.define(eq=False)
class DatabaseFile:
    """The file of a database, of a kind that keeps each database in one."""

    scheme: ClassVar[str]
    tells_capitals: ClassVar[bool] = False
    row: ClassVar[str] = "rowid"
    row_type: ClassVar[str] = ""

    path: Path

    @property
    def place(self) -> str:
        return os.path.abspath(self.path)

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def uri(self) -> str:
        return f"{self.scheme}:///{self.path}"

    def check(self) -> None:
        if self.path.is_dir():
            raise SinkError(f'"{self.path}" is a folder; name a file in it.')

    def is_made(self) -> bool:
        return self.path.is_file()


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Return names as SQL lists them."""
    return ", ".join(map(quoted, names))
