"""A session that meets the condition of an alert opens and closes it, whatever the order of arrival."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given

from operators.alerts import sessions as module
from operators.alerts.sessions import SessionAlerts
from operators.data.page import Row
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Column
from operators.testing import Script, check_operator, streams
from tests.examples import share

RESULTS = Schema.of(
    k=pa.string(), n=pa.int8(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64(), progress=["window_end"]
)


def naive(table: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    for row in table:
        if isinstance(row["n"], int) and row["n"] > 1:
            told: Row = {"alert": "scan", "since": row["window_start"], "windows": 1}
            found += [{**told, "event": "open", **row}, {**told, "event": "close", **row, "n": None}]
    return found


@share(1)
@given(streams(RESULTS, wattr="window_end", nulls=("k", "n")))
def test_alerts_of_sessions_keep_the_laws_and_are_the_naive_answer(script: Script) -> None:
    check_operator(lambda: SessionAlerts("scan", Column("n") > 1, ("k",)), script, naive=naive)


def test_sessions_that_are_given_again_are_refused() -> None:
    schema = Schema(RESULTS.arrow.append(pa.field("revision", pa.int64())))
    with pytest.raises(SchemaError, match="a session that was told of is over"):
        SessionAlerts("scan", Column("n") > 1).output_schema(schema)


def test_the_examples_in_its_docstrings_are_right() -> None:
    assert doctest.testmod(module).failed == 0
