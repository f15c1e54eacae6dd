"""Results go to a table of a SQLite, DuckDB or PostgreSQL database: at the end, or, in a job, at each checkpoint."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import attrs

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.files import claimed
from oop_engine.sinks.protocol import Deliver
from operators.data.schema import Schema

if TYPE_CHECKING:
    from oop_engine.sinks.committed_table import Table
    from oop_engine.sinks.dialect import Database

TABLE: Final = "results"


@attrs.frozen
class DatabaseSink:
    """Results as a table of a database; other tables in it stay as they are.

    With `key`, a result replaces the one before it that has the same values in these columns, and one with sign -1
    takes it away. Without, each result is a further row.
    """

    schemes: ClassVar[tuple[str, ...]]
    """What a URI of such a database begins with."""

    where: Path | str
    table: str = TABLE
    key: tuple[str, ...] = ()
    keep: bool = attrs.field(default=False, kw_only=True)
    """Whether results are there as they come, also where the run fails."""

    @classmethod
    def named(cls, text: str, *, keep: bool = False) -> Self:
        """Read a URI of such a database with ?table=NAME&key=A,B; SinkError for one that has other parts."""
        raise NotImplementedError

    def table_of(self, schema: Schema) -> Table:
        """Return the table for results of a schema; SinkError for a key that they do not have."""
        # Start-up: few runs write to a database.
        from oop_engine.sinks.committed_table import Table

        return Table(self._database(), schema, self.table, self.key)

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to a new table; where the run fails it is removed, unless results are to be kept."""
        # Start-up: few runs write to a database.
        from oop_engine.sinks.committed_table import Growing

        with self._claimed(), closing(self.table_of(schema)) as table:
            table.begin(table.fresh())
            try:
                yield Growing(table) if self.keep else table
            except BaseException:
                table.drop() if not self.keep else table.commit()
                raise
            else:
                table.commit()

    def _database(self) -> Database:
        raise NotImplementedError

    def _claimed(self) -> AbstractContextManager[None]:
        """Keep other runs out, where opening the database does not."""
        return nullcontext()


@attrs.frozen
class FileDatabaseSink(DatabaseSink):
    """Results as a table of a database in a file, which is made if need be; see `DatabaseSink`."""

    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def named(cls, text: str, *, keep: bool = False) -> Self:
        """Read SCHEME:///PATH?table=NAME&key=A,B; SinkError for one that has other parts, or no path."""
        parts, before = urlsplit(text), f"{cls.schemes[0]}:///"
        table, key, others = _options(parts.query)
        path = unquote(text[len(before) :].partition("?")[0])
        if not text.lower().startswith(before) or not path or others or parts.fragment:
            seen = f'"{others[0][0]}" is no option of it' if others else "it names no file"
            raise SinkError(
                f'"{text}": {seen}.\n  Write {before}results{cls.suffixes[0]}?table=hosts&key=srcIP,window_start; an'
                " absolute path has a fourth slash."
            )
        return cls(Path(path), table, key, keep=keep)

    @property
    def path(self) -> Path:
        """Return the file."""
        return Path(self.where)

    def _claimed(self) -> AbstractContextManager[None]:
        return claimed(self.path)


@attrs.frozen
class SqliteSink(FileDatabaseSink):
    """Results as a table of a SQLite database; see `DatabaseSink`."""

    schemes = ("sqlite",)
    suffixes = (".sqlite", ".sqlite3")

    def _database(self) -> Database:
        # Start-up: few runs write to a database.
        from oop_engine.sinks.dialect_sqlite import Sqlite

        return Sqlite(self.path)


@attrs.frozen
class DuckdbSink(FileDatabaseSink):
    """Results as a table of a DuckDB database; see `DatabaseSink`."""

    schemes = ("duckdb",)
    suffixes = (".duckdb",)

    def _database(self) -> Database:
        try:
            # Optional: DuckDB is an extra, and few runs write to a database.
            from oop_engine.sinks.dialect_duckdb import Duckdb
        except ModuleNotFoundError as error:
            if error.name != "duckdb":
                raise
            raise SinkError(
                f'"{self.path}": the package duckdb is not installed.\n'
                "  Run pip install 'oop-engine[duckdb]', or write to .sqlite, which needs no package."
            ) from error
        return Duckdb(self.path)


@attrs.frozen
class PostgresqlSink(DatabaseSink):
    """Results as a table of a database of a PostgreSQL server; see `DatabaseSink`.

    `where` is a URI of libpq without a password. The server gets that from PGPASSWORD, from ~/.pgpass or from a service
    file, so it is in no command line, message or checkpoint.
    """

    schemes = ("postgresql", "postgres")

    @classmethod
    def named(cls, text: str, *, keep: bool = False) -> Self:
        """Read postgresql://USER@HOST:PORT/DATABASE?table=NAME&key=A,B; other options are those of libpq.

        SinkError for one that names no database, or has a password.
        """
        parts = urlsplit(text)
        table, key, others = _options(parts.query)
        user, at, host = parts.netloc.rpartition("@")
        user, colon, _ = user.partition(":")
        if colon or any("password" in name.lower() for name, _ in others):
            raise SinkError(
                f'"{parts.scheme}://{user}@{host}{parts.path}" has a password, which others could read in the list of'
                " processes.\n  Leave it out, and set PGPASSWORD or write it to ~/.pgpass, which only you can read."
            )
        if not text.lower().startswith(f"{parts.scheme}://") or not parts.path.strip("/") or parts.fragment:
            raise SinkError(
                f'"{text}": it names no database.\n'
                "  Write postgresql://user@host/database?table=hosts&key=srcIP,window_start; without a host it is the"
                " server of this machine: postgresql:///database?table=hosts."
            )
        query = f"?{urlencode(others, quote_via=quote)}" if others else ""
        return cls(f"postgresql://{user}{at}{host}{parts.path}{query}", table, key, keep=keep)

    @property
    def named_table(self) -> str:
        """Return the database and the table in one text, without the user and options."""
        return f"{place_of(str(self.where))}?table={self.table}"

    def _database(self) -> Database:
        try:
            # Optional: psycopg is an extra, and few runs write to a database.
            from oop_engine.sinks.dialect_postgresql import Postgresql
        except ImportError as error:
            # psycopg raises it also where it is there, and the library of PostgreSQL is not.
            if error.name not in ("psycopg", None):
                raise
            raise SinkError(
                f'"{place_of(str(self.where))}": the package psycopg is not installed, or lacks the library libpq.\n'
                "  Run pip install 'oop-engine[postgresql]', or write to .sqlite, which needs no package."
            ) from error
        return Postgresql(str(self.where), place_of(str(self.where)), self.table)


def place_of(uri: str) -> str:
    """Return a URI of a server's database without the user and options.

    >>> place_of("postgresql://me@db.example:5433/flows?sslmode=require")
    'postgresql://db.example:5433/flows'
    """
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _options(query: str) -> tuple[str, tuple[str, ...], list[tuple[str, str]]]:
    """Return the table and the key that the query of a URI names, and all others."""
    options = parse_qsl(query, keep_blank_values=True)
    found = dict(options)
    key = tuple(name for name in found.get("key", "").split(",") if name)
    return found.get("table", TABLE), key, [option for option in options if option[0] not in ("table", "key")]


KINDS: Final[tuple[type[DatabaseSink], ...]] = (SqliteSink, DuckdbSink, PostgresqlSink)
