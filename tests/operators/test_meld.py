"""Meld passes tuples at once and promises only what every input promised."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.streams import meld as module
from operators.streams.meld import Meld
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_union

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])


@share(1.5)
@given(streams(SCHEMA, group=("k",), ports=2))
def test_meld_of_two_keeps_the_laws(script: Script) -> None:
    check_operator(lambda: Meld(2), script, naive=naive_union, settled=lambda tables, progress: naive_union(*tables))


@share(1.5)
@given(streams(SCHEMA, ports=3, promises=("linear",), tuples=6))
def test_meld_of_three_keeps_the_laws_and_promises_the_least_bound_at_once(script: Script) -> None:
    def promised(tables: object, progress: object) -> list[Punctuation]:
        assert isinstance(progress, list)
        live = [p for p in progress if not p.ended]
        bounds = [p.bound("ts") for p in live]
        return [END] if not live else [] if None in bounds else [before("ts", min(bounds))]

    check_operator(lambda: Meld(3), script, naive=naive_union, promised=promised)


def test_meld_promises_only_what_every_input_promised() -> None:
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(9)})
    script = [(0, before("ts", 5)), (1, group_wise), (1, before("ts", 3)), (0, END), (1, END)]
    assert [str(p) for p in drive(Meld(2), script)] == ["[k = a, ts < 5]", "[ts < 3]", "[k = a, ts < 9]", "[END]"]


def test_a_promise_that_is_already_implied_is_not_repeated() -> None:
    script = [(0, before("ts", 20)), *((1, before("ts", v)) for v in (20, 21, 22))]
    assert [str(p) for p in drive(Meld(2), script)] == ["[ts < 20]"]


def test_an_input_that_ended_promises_everything() -> None:
    script = [(0, before("ts", 5)), (1, END), (0, before("ts", 7))]
    assert [str(p) for p in drive(Meld(2), script)] == ["[ts < 5]", "[ts < 7]"]


def test_the_output_is_punctuated_on_what_every_input_is() -> None:
    other = SCHEMA.with_progress(["ts", "x"])
    assert Meld(2).output_schema(SCHEMA, other).progress == {frozenset({"ts"})}


def test_inputs_that_differ_are_refused_naming_the_attribute_and_both_types() -> None:
    other = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.float32())
    with pytest.raises(SchemaError, match='attribute "x" is int32 in input 0 and float in input 1'):
        Meld(2).output_schema(SCHEMA, other)
    with pytest.raises(SchemaError, match="input 1 has other attributes"):
        Meld(2).output_schema(SCHEMA, Schema.of(ts=pa.int64()))
    plain, address = Schema.of(a=pa.binary(16)), Schema(pa.schema([ip_field("a")]))
    with pytest.raises(SchemaError, match="an IP address in input 1"):
        Meld(2).output_schema(plain, address)
    with pytest.raises(SchemaError, match="meld of 2 inputs was given 1"):
        Meld(2).output_schema(SCHEMA)


def test_pages_leave_with_the_schema_of_the_union_whatever_notes_an_input_carries() -> None:
    noted = Schema(SCHEMA.arrow.with_metadata({"pandas": "noise"}), progress=["ts"])
    meld = Meld(2)
    output = meld.output_schema(SCHEMA, noted)
    page = Page.of(noted, {"ts": [1], "k": ["a"], "x": [2]})
    (out,) = drive(meld, [(1, page)])
    assert isinstance(out, Page) and out.schema is output and rows([out]) == page.rows()


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
