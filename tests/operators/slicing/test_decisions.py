"""Every leaf of the three decision trees, and what they say of whole workloads."""

from __future__ import annotations

import pytest

from operators.functions import AggregateFunction, count, first, max, sum
from operators.window import SlidingWindow, tumbling
from operators.window.delimited import DelimitedWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.strategy import (
    Context,
    Measure,
    keeps_tuples,
    splits,
    splits_any,
    waits,
)
from tests.operators.slicing.test_user_windows import Trail

KEEPS: list[tuple[bool, bool, Context, Measure, bool]] = [
    # in order, commutative, class, measure -> keep tuples (Fig 4)
    (True, True, "CF", "time", False),
    (True, False, "CF", "time", False),
    (True, True, "CF", "count", False),
    (True, True, "session", "time", False),
    (True, True, "FCF", "time", False),
    (True, False, "FCF", "count", False),
    (True, True, "FCA", "time", True),
    (False, False, "CF", "time", True),
    (False, False, "session", "time", True),
    (False, True, "FCF", "time", True),
    (False, True, "FCA", "time", True),
    (False, True, "CF", "count", True),
    (False, True, "CF", "time", False),
    (False, True, "session", "time", False),
]


@pytest.mark.parametrize(("in_order", "commutative", "context", "measure", "kept"), KEEPS)
def test_which_workloads_keep_tuples(
    in_order: bool, commutative: bool, context: Context, measure: Measure, kept: bool
) -> None:
    decision = keeps_tuples(in_order=in_order, commutative=commutative, context=context, measure=measure)
    assert bool(decision) is kept and decision.why


@pytest.mark.parametrize(
    ("in_order", "context", "split"),
    [
        (True, "CF", False),
        (True, "session", False),
        (True, "FCF", False),
        (True, "FCA", True),
        (False, "CF", False),
        (False, "session", False),
        (False, "FCF", True),
        (False, "FCA", True),
    ],
)
def test_which_windows_split_slices(in_order: bool, context: Context, split: bool) -> None:
    decision = splits(in_order=in_order, context=context)
    assert bool(decision) is split and decision.why


@pytest.mark.parametrize(
    ("functions", "contexts", "in_order", "waiting"),
    [
        ([count(), sum("v")], ["CF", "session"], False, False),
        ([count(), Trail()], ["CF"], False, True),
        ([count(), Trail()], ["CF"], True, False),
        # What is defined by the order of arrival needs no other order.
        ([first("v"), max("v")], ["CF"], False, False),
        ([count()], ["CF", "FCF"], False, True),
        ([count()], ["CF", "FCF"], True, False),
        ([count()], ["CF", "FCA"], True, True),
    ],
)
def test_a_workload_waits_when_one_of_its_parts_must(
    functions: list[AggregateFunction], contexts: list[Context], in_order: bool, waiting: bool
) -> None:
    assert bool(waits(functions, contexts, in_order=in_order)) is waiting


@pytest.mark.parametrize(
    ("contexts", "in_order", "split"),
    [(["CF", "session"], False, False), (["CF", "FCF"], False, True), (["CF", "FCF"], True, False), ([], False, False)],
)
def test_slices_that_windows_of_several_classes_share_are_split_if_one_needs_it(
    contexts: list[Context], in_order: bool, split: bool
) -> None:
    decision = splits_any(contexts, in_order=in_order)
    assert bool(decision) is split and decision.why


@pytest.mark.parametrize(
    ("operator", "ahead", "why"),
    [
        (SlicingAggregate({"w": SlidingWindow("ts", size=1000, slide=1)}, {"n": count()}), True, "about 1000 slices"),
        (SlicingAggregate({"w": SlidingWindow("ts", size=9, slide=1)}, {"n": count()}), False, "about 9 slices"),
        (SlicingAggregate({"w": SlidingWindow("ts", size=1000, slide=1)}, {"n": count()}, ["k"]), False, "groups"),
        (SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, ["k"], store="eager"), True, "asked for"),
        (SlicingAggregate({"w": DelimitedWindow("ts", "m")}, {"n": count()}), False, "only tuples show"),
        (SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, lateness=2), False, "may change"),
        (SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, store="eager"), True, "asked for"),
    ],
)
def test_slices_are_combined_ahead_where_windows_have_many(operator: SlicingAggregate, ahead: bool, why: str) -> None:
    assert bool(operator.combines_ahead) is ahead
    assert why in operator.combines_ahead.why
