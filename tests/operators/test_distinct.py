"""Distinct gives each combination once, at its first arrival, and forgets what cannot come again."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data import expiry
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.rows import distinct as module
from operators.rows.distinct import Distinct
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_distinct

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int8(), progress=["ts", ("k", "ts")])


def may_come_again(attributes: tuple[str, ...], tables: object, progress: object) -> int:
    """Count the combinations that no promise on the attributes has ruled out."""
    assert isinstance(tables, list) and isinstance(progress, list)
    promises = [p for p in progress[0].promises() if set(p.attributes) <= set(attributes)]
    found: list[Row] = naive_distinct(attributes, tables[0])
    return sum(not any(p.matches(row) for p in promises) for row in found)


@share(2)
@given(streams(SCHEMA, group=("k",), nulls=("ts", "k", "x")))
def test_distinct_tuples_keep_the_laws(script: Script) -> None:
    check_operator(
        Distinct,
        script,
        naive=lambda table: naive_distinct(SCHEMA.names, table),
        settled=lambda tables, progress: naive_distinct(SCHEMA.names, tables[0]),
        promised=lambda tables, progress: list(progress[0].promises()),
        kept=lambda tables, progress: may_come_again(tuple(SCHEMA.names), tables, progress),
    )


@share(1.5)
@given(streams(SCHEMA, group=("k",)))
def test_distinct_combinations_of_some_attributes_keep_the_laws(script: Script) -> None:
    check_operator(
        lambda: Distinct(("k", "ts")),
        script,
        naive=lambda table: naive_distinct(("k", "ts"), table),
        kept=lambda tables, progress: may_come_again(("k", "ts"), tables, progress),
    )


@share(1.5)
@given(streams(Schema.of(ts=pa.timestamp("s", "UTC"), f=pa.float64(), progress=["ts"])))
def test_distinct_over_times_and_floats_keeps_the_laws(script: Script) -> None:
    check_operator(
        Distinct,
        script,
        naive=lambda table: naive_distinct(("ts", "f"), table),
        kept=lambda tables, progress: may_come_again(("ts", "f"), tables, progress),
    )


def test_only_the_promises_on_the_chosen_attributes_pass() -> None:
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(4)})
    found = drive(Distinct(("k",)), [before("ts", 4), group_wise, Punctuation({"k": Equals("a")}), END])
    assert [str(p) for p in found] == ["[k = a]", "[END]"]
    assert Distinct(("k", "ts")).output_schema(SCHEMA).progress == SCHEMA.progress
    assert Distinct(("k",)).output_schema(SCHEMA).progress == frozenset()


def test_state_empties_behind_progress_although_ids_are_used_again() -> None:
    distinct = Distinct(("ts", "k"))
    sizes: list[int] = []
    for now in range(0, 200, 2):
        page = Page.of(SCHEMA, {"ts": [now, now + 1, now], "k": ["a", "b", "a"], "x": [0, 0, 0]})
        assert len(rows(drive(distinct, [page]))) == 2
        if now % 6 == 0:
            drive(distinct, [Punctuation({"k": Equals("b"), "ts": Below(now + 2)})])
        drive(distinct, [before("ts", now - 3)])
        sizes.append(len(distinct))
    assert max(sizes) <= 6 and distinct.statistics()["peak_state_tuples"] <= 8
    drive(distinct, [END])
    assert len(distinct) == 0


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(SchemaError, match='Did you mean "ts"'):
        Distinct(("tss",)).output_schema(SCHEMA)


def test_the_examples_in_the_docstrings_run() -> None:
    for each in (module, expiry):
        result = doctest.testmod(each)
        assert result.attempted and not result.failed
