"""Addresses and times in results read as such wherever they go, in lists and structs and where they are derived."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.sinks import TerminalSink

SCHEMA = pa.schema([("ts", pa.timestamp("ns", "UTC")), oop.ip_field("srcIP"), oop.ip_field("destIP"), ("n", "int64")])
ROWS = [(0, "10.0.0.1", "10.0.0.2", 1), (10**9, "10.0.0.1", "::1", 2), (2 * 10**9, "10.0.0.3", "::1", 3)]
TOP = [{"value": "10.0.0.1", "count": 2}, {"value": "10.0.0.3", "count": 1}]
FUNCTIONS = {
    "top": oop.top_k("srcIP", 2),
    "heavy": oop.heavy_hitters("srcIP", 0.1),
    "approx": oop.approx_heavy_hitters("srcIP", 0.1),
}


def results() -> oop.Stream:
    return (
        oop.rows(ROWS, SCHEMA)
        .window("1 minute")
        .aggregate(**FUNCTIONS, span=oop.minmax("ts"), usual=oop.mode("destIP"))
    )


def test_rows_of_a_page_are_json() -> None:
    [page] = list(results())
    [row] = json.loads(json.dumps(page.rows()))
    assert [row[name] for name in FUNCTIONS] == [TOP, TOP, TOP]
    assert row["usual"] == "::1"
    assert row["span"] == {
        "min": "1970-01-01T00:00:00Z",
        "min_count": 1,
        "max": "1970-01-01T00:00:02Z",
        "max_count": 1,
    }
    assert row["window_end"] == "1970-01-01T00:01:00Z"


def test_the_rows_of_a_page_are_the_lines_of_ndjson(tmp_path: Path) -> None:
    results().to(tmp_path / "out.ndjson").run()
    lines = (tmp_path / "out.ndjson").read_text().splitlines()
    assert [json.loads(line) for line in lines] == next(iter(results())).rows()


def test_csv_has_addresses_in_its_lists(tmp_path: Path) -> None:
    results().project("top").to(tmp_path / "out.csv").run()
    assert json.loads(pyarrow.csv.read_csv(tmp_path / "out.csv").column("top")[0].as_py()) == TOP


def test_parquet_and_arrow_tables_have_addresses_in_their_lists(tmp_path: Path) -> None:
    results().to(tmp_path / "out.parquet").run()
    assert pq.read_table(tmp_path / "out.parquet").column("top").to_pylist() == [TOP]
    assert results().to_arrow().column("top").to_pylist() == [TOP]
    assert oop.table(tmp_path / "out.parquet").project("top", "usual").to_arrow().column("top").to_pylist() == [TOP]


def test_a_terminal_and_a_printed_page_show_addresses_in_lists() -> None:
    out = io.StringIO()
    results().project("top").to(TerminalSink(out)).run()
    assert "10.0.0.1 ×2, 10.0.0.3 ×1" in out.getvalue()
    assert '"10.0.0.1", "count": 2' in repr(next(iter(results().project("top"))))


@pytest.mark.parametrize(
    "peer",
    [
        lambda p: np.where(p["n"] > 1, p["srcIP"], p["destIP"]),
        lambda p: pc.if_else(pa.array(p["n"] > 1), p.column("srcIP"), p.column("destIP")),
        lambda p: p.column("destIP"),
    ],
)
def test_what_a_function_chooses_of_addresses_is_an_address(peer: Callable[[Any], Any]) -> None:
    derived = oop.rows(ROWS, SCHEMA).derive(peer=peer).run().table.column("peer").to_pylist()
    assert derived[0] == "10.0.0.2"
    assert derived[1:] in (["10.0.0.1", "10.0.0.3"], ["::1", "::1"])


def test_bytes_that_a_function_makes_of_no_address_stay_bytes() -> None:
    table = oop.rows(ROWS, SCHEMA).derive(raw=lambda p: np.full(len(p["n"]), b"x" * 16)).run().table
    assert table.column("raw").to_pylist() == [b"x" * 16] * 3
