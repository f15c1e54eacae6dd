"""Polars, DuckDB and pandas read results as people do: addresses as text at any depth, times as times."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import oop_engine as oop
from operators.data.page import Page

MINUTE = datetime(2026, 1, 1, tzinfo=UTC)
HOST, FAR = "10.0.0.1", "2001:db8::1"
SCHEMA = oop.Schema(
    pa.schema([pa.field("ts", pa.timestamp("ns", "UTC")), *oop.Schema.of(host="ip", peer="ip").arrow]),
)
ROWS = [(MINUTE, HOST, FAR), (MINUTE, HOST, FAR), (MINUTE, HOST, "10.0.0.9")]
TALKS = (
    "SELECT host, top_k(peer, 1) AS top, max(peer) AS last, count(*) AS n, window_start"
    " [RANGE 1 minute, WA ts] FROM M GROUP BY host"
)
WANTED = {"host": HOST, "top": [{"value": FAR, "count": 2}], "last": FAR, "n": 3, "window_start": MINUTE}


def results(shape: str) -> object:
    """Return the results as a table, as an outcome, or as the page that a function is given."""
    talks = oop.query(TALKS, M=oop.rows(ROWS, SCHEMA))
    if shape == "table":
        return talks.to_arrow()
    if shape == "outcome":
        return talks.run()
    pages: list[Page] = []
    talks.to(pages.append).run()
    return pages[0]


def read(library: str, found: object) -> list[dict[str, object]]:
    """Have a library read results, and return its rows."""
    if library == "duckdb":
        return duckdb.sql("SELECT * FROM found").to_arrow_table().to_pylist()
    if library == "polars":
        polars = pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
        return polars.DataFrame(found).to_dicts()
    return pd.DataFrame(pa.table(found).to_pandas()).to_dict("records")


@pytest.mark.parametrize("shape", ["table", "outcome", "page"])
@pytest.mark.parametrize("library", ["polars", "duckdb", "pandas"])
def test_addresses_are_text_also_in_lists_and_times_are_times(library: str, shape: str) -> None:
    (row,) = read(library, results(shape))
    assert {name: row[name] if name != "top" else list(row[name]) for name in WANTED} == WANTED


def test_rows_of_a_page_are_values_of_json_as_people_read_them() -> None:
    page = results("page")
    assert isinstance(page, Page)
    assert {name: page.rows()[0][name] for name in WANTED} == {**WANTED, "window_start": "2026-01-01T00:00:00Z"}
