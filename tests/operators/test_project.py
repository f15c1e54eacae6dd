"""Project keeps, renames and computes attributes, and says of its output no more than was promised."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema, ip_field, is_ip
from operators.drive import drive, punctuations
from operators.errors import SchemaError
from operators.expression import Column, Expression
from operators.rows import project as module
from operators.rows.project import Project
from operators.testing import Script, check_operator, streams
from punctuation import END, AtMost, Below, Between, Equals, Punctuation, Range, before
from tests.examples import share
from tests.naive import naive_project

SCHEMA = Schema(
    pa.schema([pa.field("ts", pa.int64()), pa.field("k", pa.string()), pa.field("x", pa.int32()), ip_field("srcIP")]),
    progress=["ts", ("k", "ts")],
)
C = Column
COLUMNS: dict[str, Expression] = {
    "start": C("ts"),
    "again": C("ts"),
    "k": C("k"),
    "half": C("ts") // 2,
    "later": 3 + C("ts") * 2 - 1,
    "falls": -C("ts"),
    "mixed": C("ts") + C("x"),
}


def images(columns: dict[str, Expression], *promises: Punctuation) -> list[str]:
    """Give the promises that a projection makes of these."""
    project = Project(columns)
    project.output_schema(SCHEMA)
    return [str(p) for p in punctuations(drive(project, promises))]


@share(1.5)
@given(streams(SCHEMA, group=("k",)))
def test_project_keeps_the_laws(script: Script) -> None:
    check_operator(lambda: Project(COLUMNS), script, naive=lambda table: naive_project(COLUMNS, table, SCHEMA))


@given(streams(SCHEMA, promises=("linear",), nulls=("x", "ts")))
def test_a_rising_function_is_promised_as_far_as_its_attribute_was(script: Script) -> None:
    def promised(tables: object, progress: object) -> list[Punctuation]:
        bound = script_progress(progress)
        return [] if bound is None else [before("half", bound // 2), before("start", bound), before("again", bound)]

    check_operator(lambda: Project(COLUMNS), script, promised=promised)


def script_progress(progress: object) -> int | None:
    assert isinstance(progress, list)
    bound = progress[0].bound("ts")
    return bound if isinstance(bound, int) else None


def test_a_promise_is_made_under_each_name_of_its_attribute() -> None:
    assert images({"a": C("ts"), "b": C("ts")}, before("ts", 4)) == ["[a < 4]", "[b < 4]"]


def test_a_promise_on_an_attribute_that_is_gone_is_dropped_not_generalised() -> None:
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(4)})
    assert images({"ts": C("ts")}, group_wise) == []
    assert images({"k": C("k")}, group_wise, before("ts", 9), END) == ["[END]"]
    assert images({"ts": C("ts"), "key": C("k")}, group_wise) == ["[key = a, ts < 4]"]


@pytest.mark.parametrize(
    ("expression", "promise"),
    [
        (C("ts") // 10, "[y < 2]"),
        (C("ts") + 5, "[y < 30]"),
        (5 + C("ts"), "[y < 30]"),
        (C("ts") - 5, "[y < 20]"),
        (C("ts") * 2, "[y < 50]"),
        ((C("ts") + 5) // 10, "[y < 3]"),
        (C("ts") / 2, "[y < 12.5]"),
        (C("ts") + 0.5, "[y < 25.5]"),
    ],
)
def test_a_rising_function_carries_the_bound(expression: Expression, promise: str) -> None:
    assert images({"y": expression}, before("ts", 25)) == [promise]


@pytest.mark.parametrize(
    "expression",
    [C("ts") * -1, C("ts") * 0, 5 - C("ts"), C("ts") % 10, -C("ts"), abs(C("ts")), C("ts") // -2, C("ts") * C("ts")],
)
def test_what_does_not_rise_carries_nothing(expression: Expression) -> None:
    assert images({"y": expression}, before("ts", 25)) == []


def test_other_patterns_and_bounds_that_do_not_fit_carry_nothing_through_a_function() -> None:
    y: dict[str, Expression] = {"y": C("ts") * 4}
    assert images(y, Punctuation({"ts": Equals(3)}), Punctuation({"ts": Between(1, 3)})) == []
    assert images(y, Punctuation({"ts": Range(3, None)}), before("ts", 2**62)) == []
    assert images(y, Punctuation({"ts": AtMost(3)}), before("ts", 2.5)) == ["[y < 16]", "[y < 12]"]


def test_times_carry_their_bounds_in_ticks() -> None:
    schema = Schema.of(ts=pa.timestamp("ms", "UTC"), progress=["ts"])
    project = Project({"bucket": C("ts") // "10 s", "due": C("ts") + "1 s"})
    assert project.output_schema(schema).progress == {frozenset({"bucket"}), frozenset({"due"})}
    found = punctuations(drive(project, [before("ts", 25_000)]))
    assert [str(p) for p in found] == ["[bucket < 2]", "[due < 26000]"]


def test_the_output_schema_names_what_will_be_promised() -> None:
    output = Project({"a": C("ts"), "b": C("ts"), "key": C("k"), "y": C("ts") // 2}).output_schema(SCHEMA)
    assert output.progress == {frozenset(p) for p in ("a", "b", "y", ("key", "a"), ("key", "b"))}
    assert Project({"key": C("k")}).output_schema(SCHEMA).progress == frozenset()


def test_a_kept_address_stays_an_address_and_is_not_copied() -> None:
    project = Project({"source": C("srcIP")})
    assert is_ip(project.output_schema(SCHEMA).field("source"))
    page = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "x": [1], "srcIP": [bytes(16)]})
    (out,) = drive(project, [page])
    assert isinstance(out, Page)
    assert out.column("source").buffers()[1].address == page.column("srcIP").buffers()[1].address


def test_an_alias_of_the_thesis_means_its_attribute() -> None:
    schema = Schema.of(length=pa.int32(), progress=["length"])
    project = Project({"size": C("len")})
    assert project.output_schema(schema).progress == {frozenset({"size"})}
    assert [str(p) for p in punctuations(drive(project, [before("length", 3)]))] == ["[size < 3]"]


def test_a_projection_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match='Did you mean "ts"'):
        Project({"a": C("tss")}).output_schema(SCHEMA)
    with pytest.raises(ValueError, match="at least one attribute"):
        Project({})


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
