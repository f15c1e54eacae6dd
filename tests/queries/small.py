"""Small streams whose every value is a corner case, and how rows of any engine are written to be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

import pyarrow as pa

import oop_engine as oop
from operators.data.schema import ip_field
from operators.expression.constants import instant_text

SECOND = 1_000_000_000
START = 1_795_255_200 * SECOND
"""2026-11-21T10:00:00Z."""
_TIME = pa.timestamp("ns", tz="UTC")
SCHEMA = pa.schema(
    [
        *(pa.field("n", pa.int64()), pa.field("ts", _TIME), pa.field("until", _TIME), pa.field("k", pa.string())),
        *(pa.field("v", pa.int64()), pa.field("f", pa.float64()), ip_field("ip"), pa.field("port", pa.uint16())),
        *(pa.field("proto", pa.uint8()), pa.field("flags", pa.uint8()), pa.field("ok", pa.bool_())),
    ]
)
_ROWS = (
    # n, ts, until: seconds after START.
    (0, 5, 25, "a", 10, 1.5, "10.0.0.1", 80, 6, 2, True),
    (1, 3, 4, "B", -3, -0.5, "10.0.1.2", 443, 6, 18, False),
    (2, 12, 72, "a", 10, float("nan"), "192.0.2.7", 53, 17, 0, None),
    (3, 61, 61, None, 7, 2.5, "2001:db8::1", 53, 17, 0, True),
    (4, 30, 95, "ab%", None, None, None, 80, 6, 16, True),
    (5, 64, 70, "b_c", 0, 0.0, "10.0.0.1", 8080, 6, 24, False),
    (6, 59, 130, "a", 4, 1e9, "10.0.0.9", 443, 6, 17, True),
    (7, 121, 125, "", 9007199254740993, 0.1, "10.9.9.9", 65535, 17, 0, None),
    (8, 180, 181, "\u00c4rger", -8, -2.5, "::", 0, 1, 0, False),
    (9, None, None, "B", 5, 3.25, "192.0.2.200", 22, 6, 4, True),
    (10, 182, 200, "a", 6, float("inf"), "10.0.0.1", 80, 6, 1, True),
    (11, 305, 306, "it's", 1, 0.5, "198.51.100.4", 123, 17, 0, False),
)
_LATER = (
    (0, 8, 9, "a", 1, 1.0, "10.0.0.1", 80, 6, 2, True),
    (1, 65, 66, "b_c", 2, 2.0, "10.0.0.1", 80, 6, 2, True),
    (2, 2, 3, "a", 3, 3.0, "10.0.0.1", 80, 6, 2, False),
    (3, 181, 190, None, 4, 4.0, None, 80, 6, 2, True),
    (4, 190, 191, "a", 5, 5.0, "10.0.0.9", 443, 6, 16, None),
    (5, 330, 331, "z", 6, 6.0, "::", 53, 17, 0, True),
)
ROWS = {"T": _ROWS, "U": _LATER, "E": ()}
"""T has nulls, NaN and text of all kinds; U is to be joined with it; E is empty."""


def _columns(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in SCHEMA]
    for place in (1, 2):
        columns[place] = [START + second * SECOND if isinstance(second, int) else None for second in columns[place]]
    return columns


def small_streams() -> dict[str, oop.Stream]:
    """Return the streams by name; the rows are in the order of arrival."""
    tuples = {name: [tuple(row) for row in zip(*_columns(rows), strict=True)] for name, rows in ROWS.items()}
    return {name: oop.rows(rows, SCHEMA) for name, rows in tuples.items()}


def duckdb_tables() -> dict[str, pa.Table]:
    """Return the tables as DuckDB reads them: addresses are text, times are of no zone."""
    tables: dict[str, pa.Table] = {}
    for name, rows in ROWS.items():
        fields, arrays = list[pa.Field](), list[pa.Array]()
        for field, column in zip(SCHEMA, _columns(rows), strict=True):
            kind = pa.timestamp("us") if field.type == _TIME else pa.string() if field.name == "ip" else field.type
            arrays.append(pa.array(column, _TIME).cast(kind) if field.type == _TIME else pa.array(column, kind))
            fields.append(pa.field(field.name, kind))
        tables[name] = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return tables


def written(table: pa.Table) -> list[str]:
    """Write each row as a line, in the order of these; times as ISO 8601, durations in seconds, numbers in full."""
    columns = [list(_texts(column)) for column in table.columns]
    return sorted(" | ".join(row) for row in zip(*columns, strict=True))


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        for ns in column.cast(pa.timestamp("ns", tz=kind.tz)).cast(pa.int64()).to_pylist():
            yield "null" if ns is None else instant_text(ns)
    elif pa.types.is_duration(kind):
        for ns in column.cast(pa.duration("ns")).cast(pa.int64()).to_pylist():
            yield "null" if ns is None else f"{_text(ns / SECOND)} s"
    else:
        yield from map(_text, column.to_pylist())


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, Decimal):
        value = int(value) if value == int(value) else float(value)
    if isinstance(value, float):
        rounded = value if math.isnan(value) or math.isinf(value) else float(f"{value:.10g}")
        return repr(rounded + 0.0)
    return f"'{value}'" if isinstance(value, str) else str(value)
