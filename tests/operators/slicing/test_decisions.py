"""Every leaf of the three decision trees, and what they say of whole workloads."""

from __future__ import annotations

import pytest

from operators.functions import AggregateFunction, count, first, max, sum
from operators.slicing.decisions import Context, Measure, Removal, keeps_tuples, removes, splits, waits
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
    ("in_order", "measure", "newest", "invertible", "removal"),
    [
        (True, "time", False, False, "never"),
        (True, "count", False, True, "never"),
        (False, "time", False, True, "never"),
        (False, "count", True, False, "add alone"),
        (False, "count", False, True, "invert"),
        (False, "count", False, False, "recompute"),
    ],
)
def test_how_tuples_are_removed(
    in_order: bool, measure: Measure, newest: bool, invertible: bool, removal: Removal
) -> None:
    assert removes(in_order=in_order, measure=measure, newest=newest, invertible=invertible) == removal


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
