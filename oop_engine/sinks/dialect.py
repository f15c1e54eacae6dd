"""A table of results speaks to all kinds of databases alike: `Database` holds what they do each in their own way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from operators.data.page import Page
from operators.data.schema import Schema

PATIENCE: Final = 30.0
"""Seconds for which a reader may keep a part from being written."""


class Database(Protocol):
    """A database file. All but `close` and `transaction` are called in a transaction."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    failures: ClassVar[tuple[type[Exception], ...]]
    """What is raised where the file cannot be written, or is no database."""

    @property
    def path(self) -> Path:
        """Return the file."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Enter a transaction, which is durable in the end, and taken back by an exception."""
        ...

    def close(self) -> None:
        """Close the file, if it is open."""
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


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Return names as SQL lists them."""
    return ", ".join(map(quoted, names))
