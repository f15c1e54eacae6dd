"""A database of a PostgreSQL server: rows go in by COPY, with the types that PostgreSQL has for them.

One run at a time writes a table: its session holds an advisory lock on the name. A server ends the session of a process
that was killed, so the next run waits for that. A session that is lost ends the run, which goes on when it is started
again: what the server committed is known by the number of the part.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, LiteralString, cast

import attrs
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors
from pyarrow import csv

from oop_engine.sinks.dialect import PART, PATIENCE, listed, quoted
from oop_engine.sinks.errors import SinkError, WriteFailed
from operators.data.page import Page
from operators.data.readable import address_text, in_seconds, is_address, text_of
from operators.data.schema import Schema

_LONGEST: Final = 63
"""Bytes of a name; PostgreSQL cuts longer ones."""
_LOCK: Final = "hashtextextended('oop_engine ' || current_schema() || '.' || ?, 0)"
_MARK: Final = re.compile(r'"(?:[^"]|"")*"|\?')
_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_MICROSECONDS: Final = {"s": -1_000_000, "ms": -1_000, "us": 1, "ns": 1_000}
"""What ticks are divided by, or multiplied with where it is negative."""
_FIRST, _LAST = (int(np.datetime64(day, "us").astype(np.int64)) for day in ("0001-01-01", "10000-01-01"))


@attrs.define(eq=False)
class Postgresql:
    """A database of a PostgreSQL server; see `dialect.Database`."""

    name: ClassVar[str] = "PostgreSQL"
    tells_capitals: ClassVar[bool] = True
    row: ClassVar[str] = "oop_engine_row"
    row_type: ClassVar[str] = "BIGINT GENERATED ALWAYS AS IDENTITY"
    failures: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    uri: str
    place: str
    table: str
    """The table that this session alone writes."""
    _connected: psycopg.Connection | None = attrs.field(init=False, default=None)

    @property
    def where(self) -> str:
        return self.place

    def check(self) -> None:
        return None

    def is_made(self) -> bool:
        return True

    @contextmanager
    def transaction(self) -> Generator[None, None, None]:
        try:
            with self._open().transaction():
                yield
        finally:
            if self._connected is not None and self._connected.broken:
                self.close()

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return _execute(self._open(), query, values)

    def is_there(self, name: str) -> bool:
        query = "SELECT 1 FROM pg_class WHERE relname = ? AND relnamespace = current_schema()::regnamespace"
        return bool(self.execute(query, (name,)))

    def create(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        for given in (f"{self.table}_staged", *schema.names):
            if len(given.encode()) > _LONGEST:
                raise SinkError(
                    f'PostgreSQL has no names of more than {_LONGEST} bytes, and "{given}" is longer.\n'
                    "  Name the table, or the column, otherwise."
                )
        # Two runs that make the table of all jobs at the same moment would fail.
        self.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", ("",))
        columns = ", ".join(f"{quoted(field.name)} {_type(field, field.name)}" for field in schema.arrow)
        self.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        if key:
            self.execute(f"CREATE INDEX ON {quoted(name)} ({listed(key)})")

    def insert(self, name: str, pages: Sequence[tuple[int, Page]]) -> None:
        columns = listed((*pages[0][1].schema.names, PART))
        query = f"COPY {quoted(name)} ({columns}) FROM STDIN (FORMAT csv)"
        with self._open().cursor() as cursor, cursor.copy(_safe(query)) as copy:
            for part, page in pages:
                copy.write(_lines(page, part))

    def remove(self, name: str, key: Sequence[str], gone: str, values: Sequence[object]) -> None:
        def rows(column: str) -> tuple[str, str]:
            return f"{quoted(name)}.{quoted(column)}", f"given.{quoted(column)}"

        # An index finds what is equal, and not what is null; keys with a null are few.
        equal = " AND ".join(" = ".join(rows(column)) for column in key)
        self.execute(f"DELETE FROM {quoted(name)} USING ({gone}) AS given WHERE {equal}", values)
        some = " OR ".join(f"given.{quoted(column)} IS NULL" for column in key)
        same = " AND ".join(" IS NOT DISTINCT FROM ".join(rows(column)) for column in key)
        self.execute(f"DELETE FROM {quoted(name)} USING ({gone}) AS given WHERE ({some}) AND {same}", values)

    def _open(self) -> psycopg.Connection:
        """Open a session, and have it write the table alone; WriteFailed where another still does after a while."""
        if self._connected is not None:
            return self._connected
        connection = psycopg.connect(
            self.uri, autocommit=True, client_encoding="UTF8", fallback_application_name="oop-engine"
        )
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            # A part counts when it is on the disk of the server.
            durable = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting(?) = 'off'"
            _execute(connection, durable, ("synchronous_commit",))
            _execute(connection, f"SET lock_timeout = '{PATIENCE:g}s'")
            _execute(connection, f"SELECT pg_advisory_lock({_LOCK})", (self.table,))
            _execute(connection, "RESET lock_timeout")
        except errors.LockNotAvailable:
            connection.close()
            raise WriteFailed(
                f'"{self.place}": another run writes the table "{self.table}".\n'
                "  End that one first, or name another table: one run would replace the results of the other."
            ) from None
        except BaseException:
            connection.close()
            raise
        self._connected = connection
        return connection


def _execute(connection: psycopg.Connection, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Run a query with values for its question marks, and return the rows that it finds."""
    text = _MARK.sub(lambda found: "%s" if found[0] == "?" else found[0], query.replace("%", "%%")) if values else query
    cursor = connection.execute(_safe(text), values or None)
    return cursor.fetchall() if cursor.description is not None else []


def _safe(query: str) -> LiteralString:
    """Return a query whose names went through `quoted`, as psycopg wants it told."""
    return cast(LiteralString, query)


def _lines(page: Page, part: int) -> bytes:
    """Return the tuples of a page as CSV for COPY, in which null has no quotes."""
    columns = [_column(page.batch.column(i), field) for i, field in enumerate(page.schema.arrow)]
    table = pa.Table.from_arrays(
        [*columns, pa.repeat(pa.scalar(str(part)), len(page))], names=[str(i) for i in range(len(columns) + 1)]
    )
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return sink.getvalue().to_pybytes()


def _type(field: pa.Field, name: str) -> str:
    """Return the type of a column; SinkError where PostgreSQL has none."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        return _type(field.with_type(kind.value_type), name)
    if is_address(field):
        return "inet"
    if _is_array(kind):
        return f"{_type(kind.value_field, name)}[]"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})" if 0 <= kind.scale <= kind.precision else "numeric"
    found = next((type_ for is_one, type_ in _TYPES if is_one(kind)), None)
    if found is None:
        raise SinkError(
            f'PostgreSQL has no type for the column "{name}", which is {kind}.\n'
            "  Compute text or a number from it, or write to .parquet."
        )
    return found


_TYPES: Final = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: kind in (pa.int8(), pa.int16(), pa.uint8()), "smallint"),
    (lambda kind: kind in (pa.int32(), pa.uint16()), "integer"),
    (lambda kind: kind in (pa.int64(), pa.uint32()), "bigint"),
    (pa.types.is_uint64, "numeric(20, 0)"),
    (lambda kind: kind in (pa.float16(), pa.float32()), "real"),
    (lambda kind: pa.types.is_float64(kind) or pa.types.is_duration(kind), "double precision"),
    (pa.types.is_timestamp, "timestamptz"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null()), "text"),
    (
        lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(kind),
        "bytea",
    ),
    (pa.types.is_nested, "jsonb"),
)
"""The types of columns, but for addresses, arrays and decimals."""


def _is_array(kind: pa.DataType) -> bool:
    """Return whether a list is an array of PostgreSQL: lists in lists may differ in length, and arrays may not."""
    lists = (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
        pa.types.is_large_list_view,
    )  # fmt: skip
    return any(is_one(kind) for is_one in lists) and not pa.types.is_nested(kind.value_type)


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as the text that PostgreSQL reads its type from, null where it is null."""
    if isinstance(array, pa.DictionaryArray):
        return _column(array.dictionary_decode(), field.with_type(array.type.value_type))
    kind = array.type
    if _is_array(kind):
        return _array(array, field)
    if is_address(field):
        return address_text(array, field)
    if pa.types.is_timestamp(kind):
        return _times(array)
    if pa.types.is_duration(kind):
        return in_seconds(array).cast(pa.string())
    if pa.types.is_nested(kind):
        texts = text_of(array, field).to_pylist()
        return pa.array([None if v is None else _NUL.sub(r"\1\\ufffd", v) for v in texts], pa.string())
    text = text_of(array.cast(pa.float32()) if pa.types.is_float16(kind) else array, field)
    if _type(field, field.name) == "bytea":
        return pc.binary_join_element_wise("\\x", text, "")
    if _type(field, field.name) == "text":
        # PostgreSQL has no text with such a character.
        return pc.replace_substring(text.cast(pa.string()), "\x00", "\ufffd")
    return text.cast(pa.string())


def _array(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return lists as PostgreSQL writes arrays, with each element in quotes."""
    inner = field.type.value_field
    elements = _column(array.flatten(), inner)
    for special in ("\\", '"'):
        elements = pc.replace_substring(elements, special, f"\\{special}")
    elements = pc.binary_join_element_wise('"', elements, '"', "").fill_null("NULL")
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(), out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements), ",")
    texts = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def _times(array: pa.Array) -> pa.Array:
    """Return times as text, rounded down to microseconds; outside of the years 1 to 9999 they are infinite."""
    ticks, factor = array.view(pa.int64()).fill_null(0).to_numpy(), _MICROSECONDS[array.type.unit]
    # A product must not overflow; what is clipped is infinite anyway.
    clipped = np.clip(ticks, _FIRST // -factor - 1, _LAST // -factor + 1) if factor < 0 else ticks
    times = clipped * -factor if factor < 0 else ticks // factor
    inside = np.clip(times, _FIRST, _LAST - 1)
    texts = text_of(pa.array(inside, pa.timestamp("us")), pa.field("", pa.timestamp("us")))
    texts = pc.if_else(pa.array(times < _FIRST), "-infinity", texts)
    texts = pc.if_else(pa.array(times >= _LAST), "infinity", texts)
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))
