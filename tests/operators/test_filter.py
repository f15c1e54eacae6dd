"""Filter keeps what is true, copies nothing it need not, and lets every promise through."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.expression import Column
from operators.rows import filter as module
from operators.rows.filter import Filter
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_filter

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])
PREDICATE = (Column("x") > 0) & (Column("k") != "b")


@share(1.5)
@given(streams(SCHEMA, group=("k",)))
def test_filter_keeps_the_laws(script: Script) -> None:
    check_operator(
        lambda: Filter(PREDICATE),
        script,
        naive=lambda table: naive_filter(PREDICATE, table, SCHEMA),
        settled=lambda tables, progress: naive_filter(PREDICATE, tables[0], SCHEMA),
        promised=lambda tables, progress: list(progress[0].promises()),
    )


def test_null_is_not_true() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "a", "a"], "x": [None, 1, -1]})
    assert [row["ts"] for row in rows(drive(Filter(Column("x") > 0), [page]))] == [2]


def test_a_page_of_which_all_is_kept_is_passed_on_itself_and_an_empty_one_not_at_all() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "x": [1, 1]})
    assert drive(Filter(Column("x") > 0), [page]) == [page]
    assert drive(Filter(Column("x") > 1), [page]) == []


def test_every_promise_passes() -> None:
    promises = [before("ts", 3), Punctuation({"k": Equals("a"), "ts": Below(9)}), END]
    assert drive(Filter(PREDICATE), promises) == promises


def test_a_predicate_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(SchemaError, match="a filter takes a truth value"):
        Filter(Column("x") + 1).output_schema(SCHEMA)
    with pytest.raises(TypeError, match="Expression"):
        Filter(lambda p: p["x"] > 1)  # type: ignore[arg-type]


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
