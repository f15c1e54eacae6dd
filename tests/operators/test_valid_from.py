"""Rows that are valid from their own time progress as their stream does, and never behind it."""

from __future__ import annotations

import doctest

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.protocol import Element
from operators.rows import valid_from as module
from operators.rows.valid_from import ValidFrom
from operators.testing import Script, check_operator, streams
from punctuation import END, Punctuation, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), since=pa.int64(), name=pa.int64(), progress=["ts"])
ARRIVALS = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.none() | st.integers(0, 20)), st.tuples(st.just("promise"), st.integers(1, 20))
    )
)


def made() -> ValidFrom:
    operator = ValidFrom("since", "ts")
    operator.output_schema(SCHEMA)
    return operator


def row(since: int | None, name: int) -> Page:
    return Page.of(SCHEMA, {"ts": [None], "since": [since], "name": [name]})


@given(ARRIVALS)
def test_a_row_is_valid_from_its_time_or_from_the_promise_that_came_before(
    arrivals: list[tuple[str, int | None]],
) -> None:
    elements: list[Element] = []
    expected: list[int | None] = []
    promises: list[Punctuation] = []
    bound = 0
    for name, (what, value) in enumerate(arrivals):
        if what == "promise":
            assert value is not None
            elements.append(before("ts", value))
            if value > bound:
                promises.append(before("since", value))
            bound = max(bound, value)
        else:
            elements.append(row(value, name))
            expected.append(value if not bound else max(bound, -1 if value is None else value))
    found = drive(made(), elements)
    assert [r["since"] for r in rows(found)] == expected
    assert [p for p in found if isinstance(p, Punctuation)] == promises


@share(1)
@given(streams([SCHEMA], wattr=("ts",), tuples=8))
def test_its_promises_are_true_and_come_after_a_restore_too(script: Script) -> None:
    # A row that comes behind a promise is moved, so what comes out depends on when it came.
    check_operator(made, script, laws={1, 2, 3, 5, 8, 9})


def test_the_end_is_said_once() -> None:
    assert drive(made(), [before("ts", 3), END, END]) == [before("since", 3), END]


def test_times_of_two_units_are_refused() -> None:
    with pytest.raises(SchemaError, match="has both in one unit"):
        ValidFrom("since", "ts").output_schema(Schema.of(ts=pa.timestamp("s"), since=pa.int64(), progress=["ts"]))


def test_the_examples_in_docstrings_run() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
