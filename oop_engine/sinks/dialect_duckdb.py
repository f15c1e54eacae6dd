"""A database of DuckDB: columns go in through Arrow with the types that DuckDB has for them.

DuckDB lets one process at a time open a file that is written. So the file is open for a transaction alone: other
processes can read it between two, and a run waits while they do. DuckDB does not make a file in one step, and cannot
open one that was begun; so a new file is made elsewhere, and gets its name when it is whole.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import attrs
import duckdb
import pyarrow as pa

from oop_engine.sinks.claim import claim
from oop_engine.sinks.dialect import PART, PATIENCE, DatabaseFile, quoted
from oop_engine.sinks.errors import SinkError
from operators.data.page import Page
from operators.data.readable import address_text, in_seconds
from operators.data.schema import Schema

_GIVEN: Final = "oop_engine_given"
_PAUSE: Final = 0.05
"""Seconds until a file is opened again that another process has open."""


@attrs.define(eq=False)
class Duckdb(DatabaseFile):
    """A DuckDB file; see `dialect.Database`."""

    name: ClassVar[str] = "DuckDB"
    scheme: ClassVar[str] = "duckdb"
    failures: ClassVar[tuple[type[Exception], ...]] = (duckdb.Error, OSError)

    _connected: duckdb.DuckDBPyConnection | None = attrs.field(init=False, default=None)

    @contextmanager
    def transaction(self) -> Generator[None, None, None]:
        if not self.path.exists():
            self._make()
        self._connected = self._opened()
        try:
            self._connected.execute("BEGIN")
            yield
            self._connected.execute("COMMIT")
        finally:
            # What is not committed is taken back.
            self.close()

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._open.execute(query, values).fetchall()

    def is_there(self, name: str) -> bool:
        query = "SELECT 1 FROM information_schema.tables WHERE table_catalog = current_database()"
        return bool(self.execute(query + " AND table_schema = 'main' AND lower(table_name) = lower(?)", (name,)))

    def create(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        for field in schema.arrow:
            try:
                self._run(f"SELECT * FROM {_GIVEN}", pa.table({"a": _column(pa.nulls(0, field.type), field)}))
            except duckdb.NotImplementedException as error:
                raise SinkError(
                    f'DuckDB has no type for the column "{field.name}", which is {field.type}.\n'
                    "  Compute text or a number from it, or write to .parquet."
                ) from error
        empty = pa.RecordBatch.from_pylist([], schema.arrow)
        self._run(f"CREATE TABLE {quoted(name)} AS SELECT * FROM {_GIVEN}", _columns(schema, empty))

    def insert(self, name: str, pages: Sequence[tuple[int, Page]]) -> None:
        tables = [
            _columns(page.schema, page.batch).append_column(PART, pa.repeat(pa.scalar(part, pa.int64()), len(page)))
            for part, page in pages
        ]
        self._run(f"INSERT INTO {quoted(name)} SELECT * FROM {_GIVEN}", pa.concat_tables(tables))

    def remove(self, name: str, key: Sequence[str], gone: str, values: Sequence[object]) -> None:
        same = " AND ".join(
            f"{quoted(name)}.{quoted(column)} IS NOT DISTINCT FROM {_GIVEN}.{quoted(column)}" for column in key
        )
        self.execute(f"DELETE FROM {quoted(name)} USING ({gone}) AS {_GIVEN} WHERE {same}", values)

    @property
    def _open(self) -> duckdb.DuckDBPyConnection:
        assert self._connected is not None
        return self._connected

    def _run(self, query: str, given: pa.Table) -> None:
        """Run a query that reads a table of Arrow."""
        self._open.register(_GIVEN, given)
        try:
            self._open.execute(query)
        finally:
            self._open.unregister(_GIVEN)

    def _make(self) -> None:
        """Make the file, or leave that to the run that was faster."""
        with TemporaryDirectory() as folder:
            made = Path(folder, "made.duckdb")
            duckdb.connect(made).close()
            claim(self.path, made.read_bytes())

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """Open the file, and wait for processes that read it."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return duckdb.connect(self.path)
            except duckdb.IOException as error:
                # DuckDB has no class of errors for that.
                if "lock" not in str(error).replace(str(self.path), "") or time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE)


def _columns(schema: Schema, batch: pa.RecordBatch) -> pa.Table:
    """Return the columns of a batch as DuckDB takes them, without a step a row."""
    columns = [_column(batch.column(i), field) for i, field in enumerate(schema.arrow)]
    return pa.Table.from_arrays(columns, names=list(schema.names))


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column in a type that DuckDB has: addresses and wide decimals as text, durations as seconds."""
    array = address_text(array, field)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_duration(array.type):
        # An interval of DuckDB has no nanoseconds.
        return in_seconds(array)
    if pa.types.is_float16(array.type):
        return array.cast(pa.float32())
    if pa.types.is_null(array.type) or pa.types.is_decimal256(array.type):
        return array.cast(pa.string())
    return array
