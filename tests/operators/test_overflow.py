"""A live run has null where a value does not fit its type, and counts it; any other run ends with an error."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import AggregateOverflow
from operators.expression import Column
from operators.functions import AggregateFunction, avg, count, sum
from operators.overflow import overflows
from operators.protocol import Operator
from operators.rows.apply import Apply
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.rows.project import Project
from operators.window import SlidingWindow, tumbling
from operators.window.counted import CountWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.partial_final import two_level
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.stacks import StackAggregate
from punctuation import END

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
TEN = tumbling("ts", 10)
FUNCTIONS: dict[str, AggregateFunction] = {"n": count(), "total": sum("v"), "mean": avg("v")}


def levels() -> list[Operator]:
    both = two_level(TEN, FUNCTIONS, ("k",), schema=SCHEMA, size=2)
    return [both.low, both.high]


GROUPED: dict[str, Callable[[], Operator]] = {
    "panes": lambda: Chain([Bucket(TEN), WindowAggregate(TEN, FUNCTIONS, ("k",))]),
    "slicing": lambda: SlicingAggregate({"w": TEN}, FUNCTIONS, ("k",)),
    "buffer": lambda: Chain([Bucket(TEN), BufferAggregate(TEN, FUNCTIONS, ("k",))]),
    "adaptive": lambda: Chain([Bucket(TEN), AdaptiveAggregate(TEN, FUNCTIONS, ("k",))]),
    "negative": lambda: Chain([Bucket(TEN), Expire(), SignedAggregate(TEN, FUNCTIONS, ("k",))]),
    "two levels": lambda: Chain([Bucket(TEN), *levels()]),
}
values = st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
tuples = st.lists(st.tuples(st.integers(0, 29), st.integers(0, 2), values), min_size=1, max_size=12)


def forgive(operator: Operator) -> Callable[[], int]:
    """Let an operator go on, and give what counts the values that are null for it."""
    found = list(overflows(operator))
    assert found
    for overflow in found:
        overflow.forgiving = True
    return lambda: builtins.sum(overflow.count for overflow in found)


def page_of(table: list[tuple[int, int, int]]) -> Page:
    return Page.of_rows(SCHEMA, table)


def fitting(total: int) -> int | None:
    return total if -(2**63) <= total < 2**63 else None


@pytest.mark.parametrize("name", GROUPED)
@given(table=tuples)
def test_results_that_do_not_fit_are_null_and_counted_and_the_others_right(
    name: str, table: list[tuple[int, int, int]]
) -> None:
    expected = {}
    for ts, k, _ in table:
        held = [v for t, key, v in table if (t // 10, key) == (ts // 10, k)]
        expected[ts // 10, k] = (len(held), fitting(builtins.sum(held)), builtins.sum(held) / len(held))
    wrong = [key for key, (_, total, _) in expected.items() if total is None]
    operator = GROUPED[name]()
    counted = forgive(operator)
    found = rows(drive(operator, [page_of(table), END]))
    assert {(r["wid"], r["k"]): (r["n"], r["total"], r["mean"]) for r in found} == expected
    assert counted() == len(wrong)
    if wrong:
        with pytest.raises(AggregateOverflow, match=r"aggregate total of window \d+, k = \d+: sum\(v\): "):
            drive(GROUPED[name](), [page_of(table), END])


SLIDING = SlidingWindow("ts", size=4, slide=2)
UNGROUPED: dict[str, Callable[[], Operator]] = {
    "stacks": lambda: StackAggregate(SLIDING, FUNCTIONS),
    "slicing, eager": lambda: SlicingAggregate({"w": SLIDING}, FUNCTIONS, store="eager"),
    "panes": lambda: Chain([Bucket(SLIDING), WindowAggregate(SLIDING, FUNCTIONS)]),
    "counted": lambda: CountAggregate(CountWindow("ts", size=4, slide=2), FUNCTIONS),
}


@pytest.mark.parametrize("name", UNGROUPED)
@given(st.lists(values, min_size=1, max_size=20))
def test_without_groups_as_well(name: str, column: list[int]) -> None:
    table = [(ts, 0, v) for ts, v in enumerate(column)]
    operator = UNGROUPED[name]()
    counted = forgive(operator)
    found = rows(drive(operator, [page_of(table), END]))
    totals = [(r["n"], r["total"]) for r in found]
    extents = [column[builtins.max(0, begin) : begin + 4] for begin in range(-2, len(column), 2)]
    assert totals == [(len(held), fitting(builtins.sum(held))) for held in extents if held]
    assert counted() == builtins.sum(fitting(builtins.sum(held)) is None for held in extents)


@given(tuples)
def test_aggregates_without_windows_as_well(table: list[tuple[int, int, int]]) -> None:
    operator = GroupAggregate({"total": sum("v")}, ("k",))
    counted = forgive(operator)
    found = {r["k"]: r["total"] for r in rows(drive(operator, [page_of(table), END]))}
    expected = {k: fitting(builtins.sum(v for _, key, v in table if key == k)) for _, k, _ in table}
    assert found == expected
    assert counted() == list(expected.values()).count(None)


@given(tuples)
def test_values_that_do_not_fit_are_null_in_projections_and_filters(table: list[tuple[int, int, int]]) -> None:
    doubled = Column("v") * 2
    right = [fitting(2 * v) for _, _, v in table]
    for operator in (Project({"double": doubled}), Apply({"double": doubled})):
        counted = forgive(operator)
        assert [r["double"] for r in rows(drive(operator, [page_of(table)]))] == right
        assert counted() == right.count(None)
    chosen = Filter(doubled > 0)
    counted = forgive(chosen)
    assert [r["v"] for r in rows(drive(chosen, [page_of(table)]))] == [v for _, _, v in table if 0 < 2 * v < 2**63]
    assert counted() == right.count(None)
    if None in right:
        with pytest.raises(OverflowError, match="does not fit int64"):
            drive(Project({"double": doubled}), [page_of(table)])


class Own(Number):
    """An operator of a user's own, which calls something else so."""

    overflow = "to the left"


def test_what_others_call_overflow_is_theirs() -> None:
    assert list(overflows(Own())) == []
    assert len(list(overflows(Chain([Own(), Project({"v": Column("v")})])))) == 1
