"""Number counts arrivals, at any page size, and promises what it has counted."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, punctuations
from operators.errors import SchemaError
from operators.rows import number as module
from operators.rows.number import Number
from operators.testing import Script, check_operator, streams
from punctuation import Punctuation, before
from tests.examples import share
from tests.naive import naive_number

SCHEMA = Schema.of(ts=pa.int64(), x=pa.int32(), progress=["ts"])


@share(1.5)
@given(streams(SCHEMA))
def test_number_keeps_the_laws_of_what_is_defined_by_arrival(script: Script) -> None:
    def promised(tables: object, progress: object) -> list[Punctuation]:
        assert isinstance(tables, list) and isinstance(progress, list)
        return [before("n", len(tables[0])), *progress[0].promises()] if tables[0] else []

    check_operator(
        lambda: Number("n"),
        script,
        naive=lambda table: naive_number("n", table),
        order_matters=True,
        settled=lambda tables, progress: naive_number("n", tables[0]),
        promised=promised,
    )


def test_the_next_number_is_promised_after_each_page_and_not_after_an_empty_one() -> None:
    pages = [Page.of(SCHEMA, {"ts": [5] * n, "x": [0] * n}) for n in (2, 0, 1)]
    assert [str(p) for p in punctuations(drive(Number(), pages))] == ["[row_num < 2]", "[row_num < 3]"]


def test_the_output_is_punctuated_on_the_number() -> None:
    assert Number().output_schema(SCHEMA).progress == {frozenset({"ts"}), frozenset({"row_num"})}


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(SchemaError, match='already has an attribute "ts"'):
        Number("ts").output_schema(SCHEMA)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
