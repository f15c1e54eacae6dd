"""Largest keeps the n largest of each group, and what is level with the n-th, whatever the order of arrival."""

from __future__ import annotations

import doctest
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import OperatorBug, SchemaError
from operators.rows import largest as module
from operators.rows.largest import Largest
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int8(), progress=["ts", ("k", "ts")])
FLOATS = Schema.of(ts=pa.int64(), x=pa.float64(), progress=["ts"])


def size(value: object) -> tuple[int, float]:
    assert isinstance(value, int | float)
    return (1, 0.0) if math.isnan(value) else (0, value)


def naive_largest(n: int, by: Sequence[str], table: Sequence[Row]) -> list[Row]:
    """Give each tuple than which fewer than n of its group are larger."""
    there = [row for row in table if row["x"] is not None]
    return [
        row for row in there if sum(size(o["x"]) > size(row["x"]) for o in there if all(o[b] == row[b] for b in by)) < n
    ]


def settled(n: int, by: tuple[str, ...], tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
    promises = [p for p in progress[0].promises() if set(p.attributes) <= set(by)]
    return [row for row in naive_largest(n, by, tables[0]) if any(p.matches(row) for p in promises)]


@share(2.5)
@given(streams(SCHEMA, group=("k",), nulls=("ts", "k", "x")), st.sampled_from([1, 2, 5]))
def test_the_largest_of_each_group_keep_the_laws(script: Script, n: int) -> None:
    for by in (("ts",), ("k", "ts"), ()):
        check_operator(
            lambda by=by: Largest("x", n, by),
            script,
            naive=lambda table, by=by: naive_largest(n, by, table),
            settled=lambda tables, progress, by=by: settled(n, by, tables, progress),
            promised=lambda tables, progress, by=by: [
                p for p in progress[0].promises() if set(p.attributes) <= set(by)
            ],
        )


@given(streams(FLOATS))
def test_floats_keep_the_laws(script: Script) -> None:
    check_operator(lambda: Largest("x", 2, ("ts",)), script, naive=lambda table: naive_largest(2, ("ts",), table))


@share(2)
@given(streams(SCHEMA))
def test_an_operator_that_keeps_one_tuple_too_few_is_caught(script: Script) -> None:
    (table,) = script.tables()
    assume(len(naive_largest(2, ("ts",), table)) > len(naive_largest(1, ("ts",), table)))
    with pytest.raises(OperatorBug, match="law 10"):
        check_operator(lambda: Largest("x", 1, ("ts",)), script, naive=lambda t: naive_largest(2, ("ts",), t))


def test_a_group_leaves_largest_first_and_nulls_not_at_all() -> None:
    largest = Largest("x", 2, ("ts",))
    page = Page.of(SCHEMA, {"ts": [1, 2, 1, 1, 1], "k": list("abcde"), "x": [3, 9, 7, None, 5]})
    assert [(row["ts"], row["x"]) for row in rows(drive(largest, [page, before("ts", 2)]))] == [(1, 7), (1, 5)]
    assert largest.statistics()["without_value"] == 1
    assert [row["x"] for row in rows(drive(largest, [END]))] == [9]
    assert largest.statistics()["state_tuples"] == 0


def test_only_promises_on_the_groups_pass() -> None:
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(4)})
    assert [str(p) for p in drive(Largest("x", 1, ("k",)), [before("ts", 4), group_wise, END])] == ["[END]"]
    assert Largest("x", 1, ("ts", "k")).output_schema(SCHEMA).progress == SCHEMA.progress
    assert Largest("x", 1, ("k",)).output_schema(SCHEMA).progress == frozenset()


def test_what_is_held_stays_small() -> None:
    largest, random = Largest("x", 3, ("ts",)), np.random.default_rng(1)
    schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    sent: list[list[int]] = [[], []]
    for _ in range(50):
        values = random.integers(0, 10**9, 1000)
        halves = random.integers(0, 2, 1000)
        for half in (0, 1):
            sent[half] += values[halves == half].tolist()
        drive(largest, [Page.of(schema, {"ts": halves, "x": values})])
    assert largest.statistics()["peak_state_tuples"] <= 4096 + 1000
    found = rows(drive(largest, [before("ts", 1), END]))
    assert [row["x"] for row in found] == [v for half in sent for v in sorted(half, reverse=True)[:3]]


def test_what_cannot_be_ordered_is_refused() -> None:
    with pytest.raises(SchemaError, match="numbers or times say what is large"):
        Largest("k", 1).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match='Did you mean "ts"'):
        Largest("x", 1, ("tss",)).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="n is 0"):
        Largest("x", 0)


def test_the_examples_in_the_docstrings_run() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
