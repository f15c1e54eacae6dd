"""Reorder sorts within its slack, and what is late is the same at any page size."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.kernels.streams.slack import tuple_slack
from operators.protocol import Element
from operators.streams import reorder as module
from operators.streams.reorder import Reorder
from operators.testing import Script, check_operator, streams
from punctuation import END, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_slack

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
SLACKS = st.fixed_dictionaries({"time": st.integers(0, 4)}) | st.fixed_dictionaries({"tuples": st.integers(0, 4)})
VALUES = st.lists(st.integers(-4, 9), max_size=14)


def reorder(
    slack: dict[str, int], mode: Literal["consistent", "generous"] = "consistent", step: int | None = None
) -> Reorder:
    return Reorder("ts", slack_time=slack.get("time"), slack_tuples=slack.get("tuples"), mode=mode, step=step)


def pages(values: list[int], size: int) -> list[Element]:
    """Give values as pages, each tuple with its place as k."""
    return [
        Page.of(SCHEMA, {"ts": values[i : i + size], "k": [str(n) for n in range(i, min(i + size, len(values)))]})
        for i in range(0, len(values), size)
    ]


@share(1.5)
@given(streams(SCHEMA, nulls=("k", "ts"), group=("k",)), st.sampled_from([{"time": 40}, {"tuples": 12}, {}]))
def test_reorder_keeps_the_laws_where_the_slack_suffices(script: Script, slack: dict[str, int]) -> None:
    check_operator(lambda: reorder(slack), script, naive=lambda table: table)


@share(1.5)
@given(streams(SCHEMA, nulls=("k",), group=("k",)), SLACKS)
def test_reorder_keeps_all_laws_but_4_and_6_where_tuples_are_late(script: Script, slack: dict[str, int]) -> None:
    check_operator(lambda: reorder(slack), script, order_matters=True)


@settings(deadline=None)
@given(VALUES, SLACKS, st.integers(1, 15))
def test_the_output_is_sorted_and_has_all_that_is_in_time(values: list[int], slack: dict[str, int], size: int) -> None:
    sort = reorder(slack)
    found = rows(drive(sort, [*pages(values, size), END]))
    in_time = [(v, i) for i, (v, b) in enumerate(zip(values, naive_slack(values, **slack), strict=True)) if v >= b]
    assert [(row["ts"], row["k"]) for row in found] == [(v, str(i)) for v, i in sorted(in_time)]
    assert sort.statistics()["late"] == len(values) - len(in_time)


@settings(deadline=None)
@given(VALUES, SLACKS, st.integers(1, 15), st.sampled_from([1, 3]))
def test_generous_passes_late_tuples_right_behind_the_promise_they_break(
    values: list[int], slack: dict[str, int], size: int, step: int
) -> None:
    sort = reorder(slack, "generous", step if step > 1 else None)
    bounds = naive_slack(values, **slack)
    promised, behind = -(2**63), {}
    for element in drive(sort, [*pages(values, size), END]):
        if isinstance(element, Punctuation):
            bound = element.bound("ts")
            promised = bound if isinstance(bound, int) else promised
            continue
        for row in element.rows():
            behind[int(str(row["k"]))] = promised
    assert len(behind) == len(values)
    late = [i for i, (v, b) in enumerate(zip(values, bounds, strict=True)) if v < b]
    assert [behind[i] for i in late] == [bounds[i] // step * step for i in late]
    # Late is what a window behind it then refuses.
    counts = sort.statistics()
    assert counts["behind"] == len(late) and "late" not in counts


@settings(deadline=None)
@given(VALUES, SLACKS)
def test_reorder_holds_only_what_is_above_its_bound(values: list[int], slack: dict[str, int]) -> None:
    sort = reorder(slack)
    for n, page in enumerate(pages(values, 1), 1):
        drive(sort, [page])
        after = naive_slack([*values[:n], 0], **slack)[-1]
        in_time = [v for v, b in zip(values[:n], naive_slack(values[:n], **slack), strict=True) if v >= b]
        assert sort.statistics()["state_tuples"] == sum(v > after for v in in_time)


@settings(deadline=None)
@given(VALUES, st.integers(0, 4), st.integers(-5, 5))
def test_the_heap_of_largest_values_agrees_with_sorting(values: list[int], slack: int, floor: int) -> None:
    heap, limits = np.zeros(slack + 1, np.int64), np.empty(len(values), np.int64)
    kept: list[int] = []
    wanted: list[int] = []
    for value in values:
        wanted.append(max(floor, sorted(kept)[-slack - 1]) if len(kept) > slack else floor)
        if value >= wanted[-1]:
            kept.append(value)
    filled = tuple_slack(np.array(values, np.int64), heap, 0, floor, limits)
    assert limits.tolist() == wanted
    assert sorted(heap[:filled].tolist()) == sorted(kept)[-slack - 1 :]


def test_position_and_value_slack_differ_where_the_design_says() -> None:
    """Three tuples are ahead of the 1 but only one is larger than it when it comes: one tuple of slack is enough."""
    found: list[Row] = rows(drive(Reorder("ts", slack_tuples=1), [*pages([0, 0, 0, 5, 1], 2), END]))
    assert [row["ts"] for row in found] == [0, 0, 0, 1, 5]


def test_a_promise_of_the_input_lets_tuples_out_and_makes_them_late() -> None:
    sort = Reorder("ts", slack_time=100)
    found = drive(sort, [*pages([5, 3], 2), before("ts", 4), *pages([2, 9], 2)])
    assert [row["ts"] for row in rows(found)] == [3] and sort.statistics()["late"] == 1
    assert [str(p) for p in punctuations(found)][-1] == "[ts < 4]"


def test_other_promises_wait_for_the_tuples_that_they_speak_of() -> None:
    done = Punctuation({"k": Equals("0")})
    found = drive(Reorder("ts", slack_time=2), [*pages([5], 1), done, before("ts", 5), END])
    assert [str(e) for e in found if isinstance(e, Punctuation)] == ["[ts < 3]", "[k = 0]", "[ts < 5]", "[END]"]


def test_extreme_times_do_not_wrap() -> None:
    least, most = -(2**63), 2**63 - 1
    found = rows(drive(Reorder("ts", slack_time=10), [*pages([least, most - 1, most], 3), END]))
    assert [row["ts"] for row in found] == [least, most - 1, most]


def test_the_output_progresses_on_the_attribute_when_there_is_a_slack() -> None:
    bare = SCHEMA.with_progress([])
    assert Reorder("ts", slack_time=1).output_schema(bare).progressing("ts")
    assert not Reorder("ts").output_schema(bare).progressing("ts")


def test_an_attribute_may_go_by_another_name_and_the_public_field_keeps_it() -> None:
    schema = Schema.of(length=pa.int64())
    sort = Reorder("len", slack_time=1)
    assert sort.output_schema(schema).progressing("length")
    assert sort.attribute == "len", "what an operator works out it remembers in underscore fields"
    assert rows(drive(sort, [Page.of(schema, {"length": [2, 1, 9]}), END])) == [{"length": n} for n in (1, 2, 9)]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Reorder("ts", slack_time=1, slack_tuples=1)
    makers: list[Callable[[], Reorder]] = [
        lambda: Reorder("ts", slack_time=-1),
        lambda: Reorder("ts", mode="lenient"),  # type: ignore[arg-type]
    ]
    for make in makers:
        with pytest.raises(ValueError, match=r"slack_time|mode"):
            make()
    with pytest.raises(SchemaError, match='"k" has type string'):
        Reorder("k").output_schema(SCHEMA)
    with pytest.raises(ValueError, match=r'should have \d+ rows in "largest"'):
        Reorder("ts", slack_tuples=3).restore(Reorder("ts", slack_tuples=2).state())


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
