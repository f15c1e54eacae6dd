"""A page shows its columns as arrays without copying them, times as integers, and nulls by a mask."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from operators.data.page import Page, concatenate
from operators.data.schema import Schema, ip_field
from operators.errors import SchemaError
from punctuation import Below, Equals, OneOf, Punctuation

ADDRESS = bytes(10) + b"\xff\xff\x0a\x00\x00\x00"
SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("ms", "UTC")),
            ip_field("srcIP"),
            pa.field("length", pa.int32()),
            pa.field("host", pa.string()),
        ]
    ),
    progress=["ts"],
)
PAGE = Page.of(
    SCHEMA,
    {"ts": [5, None, 7], "srcIP": [ADDRESS, None, ADDRESS], "length": [1, 2, None], "host": ["a\nb", None, "c"]},
)


def test_times_are_ticks_and_nulls_are_masked() -> None:
    assert PAGE.ticks("ts")[[0, 2]].tolist() == [5, 7]
    assert PAGE.valid("ts").tolist() == [True, False, True]  # type: ignore[union-attr]
    assert PAGE.slice(2, 3).valid("ts") is None


def test_columns_are_read_only() -> None:
    whole = Page.of(Schema.of(x=pa.int64()), {"x": [1, 2]})
    with pytest.raises(ValueError, match="read-only"):
        whole["x"][0] = 5  # type: ignore[index]


def test_aliases_of_the_thesis_name_attributes() -> None:
    assert PAGE["len"].tolist()[:2] == [1, 2]
    with pytest.raises(SchemaError, match='Did you mean "length"'):
        PAGE["lenght"]


def test_a_null_matches_the_wildcard_only() -> None:
    assert PAGE.matching(Punctuation({"ts": Below(6)})).tolist() == [True, False, False]
    assert PAGE.matching(Punctuation({"srcIP": Equals(ADDRESS)})).tolist() == [True, False, True]
    assert PAGE.matching(Punctuation({"srcIP": OneOf({ADDRESS, bytes(16)}), "host": Equals("c")})).tolist() == [
        False,
        False,
        True,
    ]
    assert PAGE.matching(Punctuation({})).all()


def test_a_page_prints_as_a_table_with_addresses() -> None:
    shown = repr(PAGE)
    assert shown.splitlines()[0] == "page of 3 tuples"
    assert "10.0.0.0" in shown
    assert "a\nb" not in shown.splitlines()[1]


def test_a_long_page_says_how_much_is_not_shown() -> None:
    page = Page.of(Schema.of(x=pa.int64()), {"x": range(15)})
    assert repr(page).endswith("... 5 more")


def test_a_tuple_is_described_on_one_line_of_bounded_length() -> None:
    assert PAGE.describe(0).startswith("ts = 1970-01-01T00:00:00.005Z, srcIP = 10.0.0.0, length = 1, host = a\\nb")
    long = Page.of(Schema.of(t=pa.string()), {"t": ["x" * 1000]})
    assert len(long.describe(0)) == 200


def test_parts_are_views_and_join_again() -> None:
    parts = [PAGE.slice(0, 1), PAGE.slice(1, 1), PAGE.slice(1, 3)]
    assert concatenate(SCHEMA, parts).rows() == PAGE.rows()
    assert len(concatenate(SCHEMA, [])) == 0


def test_offsets_of_sliced_arrays_are_honoured() -> None:
    page = PAGE.slice(1, 3)
    assert page["srcIP"].tolist()[1] == ADDRESS.rstrip(b"\0")
    assert page.ticks("ts")[1] == 7


def test_dates_count_days() -> None:
    page = Page.of(Schema.of(d=pa.date32()), {"d": [dt.date(1970, 1, 3)]})
    assert page.ticks("d").tolist() == [2]
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        Page.of(Schema.of(x=pa.float64()), {"x": [1.5]}).ticks("x")


def test_text_is_an_array_of_objects() -> None:
    assert PAGE["host"].dtype == object
    assert np.asarray(PAGE["host"])[2] == "c"
