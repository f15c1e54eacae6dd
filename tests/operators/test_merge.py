"""Merge gives one ordered stream, holds what order needs and no more, whatever the order within its inputs."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.streams import merge as module
from operators.streams.merge import Merge
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share
from tests.naive import naive_union

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])


def bound(progress: object) -> float:
    """Give the bound that every input has promised on ts."""
    assert isinstance(progress, list)
    live: list[Progress] = [p for p in progress if not p.ended]
    bounds = [p.bound("ts") for p in live]
    found = [float(b) for b in bounds if isinstance(b, int)]
    return float("-inf") if len(found) < len(bounds) else min(found, default=float("inf"))


def below(tables: object, limit: float) -> list[Row]:
    """Give the tuples below a bound, and those without ts."""
    assert isinstance(tables, list)
    found: list[Row] = []
    for row in naive_union(*tables):
        ts = row["ts"]
        if not isinstance(ts, int) or ts < limit:
            found.append(row)
    return found


@share(2)
@given(streams(SCHEMA, group=("k",), ports=2, nulls=("k", "x", "ts")))
def test_merge_keeps_the_laws_and_is_prompt(script: Script) -> None:
    check_operator(
        lambda: Merge(2, "ts"),
        script,
        naive=naive_union,
        settled=lambda tables, progress: below(tables, bound(progress)),
        kept=lambda tables, progress: sum(map(len, tables)) - len(below(tables, bound(progress))),
    )


@share(1.5)
@given(streams(SCHEMA, group=("k",), ports=3, tuples=6))
def test_the_output_is_in_order_ties_by_port_and_then_by_arrival(script: Script) -> None:
    numbered = [(port, row["ts"], i) for port, table in enumerate(script.tables()) for i, row in enumerate(table)]
    tables = script.tables()
    wanted = [tables[port][i] for port, _, i in sorted(numbered, key=lambda t: (t[1], t[0], t[2]))]
    assert rows(drive(Merge(3, "ts"), script)) == wanted


def test_merge_holds_the_skew_between_its_inputs() -> None:
    merge = Merge(2, "ts")
    page = Page.of(SCHEMA, {"ts": list(range(100)), "k": ["a"] * 100, "x": [0] * 100})
    drive(merge, [(0, page), (0, before("ts", 100)), (1, before("ts", 60))])
    statistics = merge.statistics()
    assert (statistics["state_tuples"], statistics["peak_state_tuples"]) == (40, 100) and statistics["state_bytes"] > 0


def test_a_promise_waits_for_the_tuples_that_it_speaks_of() -> None:
    page = Page.of(SCHEMA, {"ts": [5], "k": ["a"], "x": [0]})
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(9)})
    promises = [(0, group_wise), (1, group_wise), (0, before("ts", 6)), (1, before("ts", 7)), (0, END), (1, END)]
    script = [(0, page), *promises]
    shown = [f"page of {len(e)}" if isinstance(e, Page) else str(e) for e in drive(Merge(2, "ts"), script)]
    assert shown == ["page of 1", "[k = a, ts < 9]", "[ts < 6]", "[ts < 7]", "[END]"]


def test_an_attribute_may_go_by_another_name_and_the_public_field_keeps_it() -> None:
    schema = Schema.of(length=pa.int64(), progress=["length"])
    merge = Merge(1, "len")
    assert merge.output_schema(schema) == schema
    assert merge.attribute == "len", "what an operator works out it remembers in underscore fields"
    script = [(0, Page.of(schema, {"length": [5, 3]})), (0, before("length", 5)), (0, END)]
    assert rows(drive(merge, script)) == [{"length": 3}, {"length": 5}]


def test_an_attribute_without_order_is_refused() -> None:
    with pytest.raises(SchemaError, match='"k" has type string'):
        Merge(2, "k").output_schema(SCHEMA, SCHEMA)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
