"""Results go to a table of a SQLite or DuckDB database: as a whole at the end, or, in a job, at each checkpoint."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

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
    """Results as a table of a database file, which is made if need be; other tables in it stay as they are.

    With `key`, a result replaces the one before it that has the same values in these columns, and one with sign -1
    takes it away. Without, each result is a further row.
    """

    scheme: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    path: Path
    table: str = TABLE
    key: tuple[str, ...] = ()
    keep: bool = attrs.field(default=False, kw_only=True)
    """Whether results are there as they come, also where the run fails."""

    @classmethod
    def named(cls, text: str, *, keep: bool = False) -> Self:
        """Read SCHEME:///PATH?table=NAME&key=A,B; SinkError for one that has other parts, or no path."""
        parts, before = urlsplit(text), f"{cls.scheme}:///"
        options = parse_qs(parts.query, keep_blank_values=True)
        path = unquote(text[len(before) :].partition("?")[0])
        unknown = [name for name in options if name not in ("table", "key")]
        if not text.lower().startswith(before) or not path or unknown or parts.fragment:
            seen = f'"{unknown[0]}" is no option of it' if unknown else "it names no file"
            raise SinkError(
                f'"{text}": {seen}.\n  Write {before}results{cls.suffixes[0]}?table=hosts&key=srcIP,window_start; an'
                " absolute path has a fourth slash."
            )
        table, key = options.get("table", [TABLE])[-1], options.get("key", [""])[-1]
        return cls(Path(path), table, tuple(name for name in key.split(",") if name), keep=keep)

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

        with claimed(self.path):
            table = self.table_of(schema)
            table.begin(table.fresh())
            try:
                yield Growing(table) if self.keep else table
            except BaseException:
                table.drop() if not self.keep else table.commit()
                raise
            else:
                table.commit()
            finally:
                table.close()

    def _database(self) -> Database:
        raise NotImplementedError


@attrs.frozen
class SqliteSink(DatabaseSink):
    """Results as a table of a SQLite database; see `DatabaseSink`."""

    scheme = "sqlite"
    suffixes = (".sqlite", ".sqlite3")

    def _database(self) -> Database:
        # Start-up: few runs write to a database.
        from oop_engine.sinks.dialect_sqlite import Sqlite

        return Sqlite(self.path)


@attrs.frozen
class DuckdbSink(DatabaseSink):
    """Results as a table of a DuckDB database; see `DatabaseSink`."""

    scheme = "duckdb"
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


KINDS: Final[tuple[type[DatabaseSink], ...]] = (SqliteSink, DuckdbSink)
