"""The store of slices is chosen anew from what was seen, and no answer depends on when it changes."""

from __future__ import annotations

import builtins
from collections.abc import Mapping

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.drive import rows
from operators.functions import AggregateFunction, approx_count_distinct, avg, count, max, sum
from operators.protocol import Element, Promises
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.slices.choice import LAZY, MARGIN, TOTALS, TREE, Price, StoreChoice, Work
from operators.window_aggregate.stores.slices.windows import Spec
from punctuation import END
from tests.examples import share
from tests.operators.slicing.mixes import FUNCTIONS, SCHEMA, Mix, changing, mixes, must_be_out, naive
from tests.operators.slicing.test_batched import batches, bound_before, handed_over, page_of

SUMS: dict[str, AggregateFunction] = {"n": count(), "total": sum("v"), "mean": avg("v")}
OTHERS: dict[str, AggregateFunction] = SUMS | {"most": max("v")}
functions = st.sampled_from([SUMS, OTHERS, {"most": max("v")}])
often = st.integers(1, 3)


@share(1)
@given(mixes, often, streams(SCHEMA, tuples=12, promises=("linear", "general")))
def test_no_answer_depends_on_when_the_store_changes(mix: Mix, every: int, script: Script) -> None:
    check_operator(
        lambda: changing(mix, FUNCTIONS, every=every),
        script,
        naive=lambda table: naive(mix, (), table),
        settled=lambda tables, progress: must_be_out(mix, (), tables[0], progress[0]),
    )


@given(mixes, functions, often, st.booleans(), batches)
def test_late_tuples_change_the_same_results_whatever_the_store_is(
    mix: Mix,
    functions: Mapping[str, AggregateFunction],
    every: int,
    saving: bool,
    drawn: list[tuple[list[int], list[tuple[int, int]]]],
) -> None:
    made, fixed = changing(mix, functions, every=every), changing(mix, functions, every=0)
    one, other = list[Element](), list[Element]()
    for place in range(len(drawn)):
        if saving:
            state = decode_state(encode_state(made.state()))
            made = changing(mix, functions, every=every)
            made.restore(state)
        one += handed_over(made, drawn[place : place + 1], bound_before(drawn[:place]))
        other += handed_over(fixed, drawn[place : place + 1], bound_before(drawn[:place]))
    made.punctuate(END, one.append)
    fixed.punctuate(END, other.append)
    key = lambda row: str(sorted(row.items()))  # noqa: E731
    assert sorted(rows(one), key=key) == sorted(rows(other), key=key)
    told, told_apart = made.statistics(), fixed.statistics()
    for name in ("late", "in_no_window", "late_for_some", "results", "windows"):
        assert told[name] == told_apart[name], name


def sparse(pages: int, tuples: int, since: int = 0) -> list[tuple[Page, Promises]]:
    """Return pages of tuples that are 10 ticks apart, with a promise behind each."""
    found: list[tuple[Page, Promises]] = []
    for at in range(pages):
        ticks = list(range(since + at * 10 * tuples, since + (at + 1) * 10 * tuples, 10))
        found.append((page_of(ticks), Promises("ts", np.array([tuples]), np.array([ticks[-1]]))))
    return found


def dense(pages: int, promises: int, since: int = 0) -> list[tuple[Page, Promises]]:
    """Return pages of a tuple a tick, with a promise behind each, and nothing else but promises."""
    found: list[tuple[Page, Promises]] = []
    for at in range(pages):
        ticks = list(range(since + at * promises, since + (at + 1) * promises))
        positions = np.arange(1, promises + 1)
        found.append((page_of(ticks), Promises("ts", positions, np.array(ticks))))
    return found


def taken(operator: SlicingAggregate, pages: list[tuple[Page, Promises]], *, end: bool = True) -> list[Element]:
    emitted: list[Element] = []
    for page, promises in pages:
        operator.process_with(page, promises, emitted.append)
    if end:
        operator.punctuate(END, emitted.append)
    return emitted


LONG: Mapping[str, Spec] = {"w": SlidingWindow("ts", size=1_500, slide=10)}
SHORT: Mapping[str, Spec] = {"w": SlidingWindow("ts", size=6, slide=3)}


@pytest.mark.parametrize("functions", [SUMS, OTHERS], ids=["totals", "tree"])
def test_the_first_page_shows_that_windows_have_many_slices(functions: Mapping[str, AggregateFunction]) -> None:
    operator = SlicingAggregate(LONG, functions)
    assert not operator.combines_ahead
    found = taken(operator, sparse(2, 2_000))
    assert operator.choice().startswith("slices are combined ahead of the windows, chosen anew 0 times: ")
    assert "2,000 windows a promise were seen, 147.2 slices a window" in operator.choice()
    assert rows(found) == rows(taken(SlicingAggregate(LONG, functions, store="lazy"), sparse(2, 2_000)))


def test_a_store_is_left_once_it_has_cost_more_for_long() -> None:
    # 160 promises of which one in three completes a window of two slices, then few promises and windows of 150 slices.
    both = {**LONG, "short": SHORT["w"]}
    pages = dense(8, 160) + sparse(4, 2_000, since=1_300) + dense(60, 160, since=81_300)
    operator, seen = SlicingAggregate(both, SUMS), list[str]()
    emitted: list[Element] = []
    for page, promises in pages:
        operator.process_with(page, promises, emitted.append)
        seen.append(operator.choice().partition(",")[0])
    operator.punctuate(END, emitted.append)
    fixed = taken(SlicingAggregate(both, SUMS, store="lazy"), pages)
    key = lambda row: (row["window"], row["wid"])  # noqa: E731
    assert sorted(rows(emitted), key=key) == sorted(rows(fixed), key=key)
    changes = [one for one, other in zip(seen, ["", *seen], strict=False) if one != other]
    assert [change.partition("combined ")[2] for change in changes] == [
        "on demand",
        "ahead of the windows",
        "on demand",
    ]


def test_a_sudden_gap_is_seen_before_its_page_is_taken() -> None:
    both = {**LONG, "short": SHORT["w"]}
    operator = SlicingAggregate(both, SUMS)
    pages = dense(3, 160) + sparse(1, 2_000, since=500)
    taken(operator, pages[:3], end=False)
    assert operator.choice().startswith("slices are combined on demand, chosen anew 0 times")
    operator.process_with(*pages[3], list[Element]().append)
    assert operator.choice().startswith("slices are combined ahead of the windows, chosen anew 1 time: ")


def test_a_restored_run_goes_on_with_the_store_it_had() -> None:
    operator = SlicingAggregate(LONG, SUMS)
    first = taken(operator, sparse(1, 2_000), end=False)
    state = decode_state(encode_state(operator.state()))
    restored = SlicingAggregate(LONG, SUMS)
    restored.restore(state)
    more = sparse(2, 2_000, since=20_000)
    found = first + taken(restored, more)
    assert restored.choice().startswith("slices are combined ahead")
    assert rows(found) == rows(taken(SlicingAggregate(LONG, SUMS, store="lazy"), sparse(1, 2_000) + more))


@pytest.mark.parametrize(
    "operator",
    [
        SlicingAggregate(LONG, SUMS, store="lazy"),
        SlicingAggregate(LONG, SUMS, store="eager"),
        SlicingAggregate(LONG, SUMS, lateness=5),
        SlicingAggregate(LONG, SUMS, ("k",)),
        SlicingAggregate(LONG, {"kinds": approx_count_distinct("v")}),
        SlicingAggregate({"w": EdgeWindow("ts", lambda t: t + 10 - t % 10)}, SUMS),
        SlicingAggregate({**LONG, "own": EdgeWindow("ts", lambda t: t + 10 - t % 10)}, SUMS),
    ],
    ids=["lazy", "eager", "lateness", "groups", "estimates", "edges", "mixed"],
)
def test_nothing_is_chosen_where_there_is_one_way(operator: SlicingAggregate) -> None:
    taken(operator, sparse(1, 100), end=False)
    assert operator.choice() == ""


def test_a_choice_that_changed_often_needs_more_to_change_again() -> None:
    choice_of, changes = StoreChoice(TOTALS, eager=False), list[int]()
    many, few = Work(1, 1, 1, 100, 50_000, 100), Work(1, 8, 8, 8, 8, 8)
    for _ in range(4_000):
        choice_of.wrong(few if choice_of.eager else many, 100)
        changes.append(choice_of.changes)
    steps = np.diff(np.flatnonzero(np.diff(changes)))
    assert len(steps) > 6
    assert steps[-2] > 4 * steps[0], steps


works = st.builds(
    Work,
    calls=st.integers(1, 20),
    promises=st.integers(1, 2_000),
    releases=st.integers(0, 2_000),
    windows=st.integers(1, 5_000),
    parts=st.integers(1, 500_000),
    slices=st.integers(0, 5_000),
    late=st.integers(0, 5_000),
)


@given(works, st.integers(1, 200), st.sampled_from([TOTALS, TREE]), st.booleans(), st.integers(0, 10_000))
def test_a_steady_stream_costs_no_more_than_the_better_store_but_for_one_change(
    work: Work, pages: int, ahead: Price, eager: bool, held: int
) -> None:
    """Within 30 % of it, whatever was chosen first; and what is said of the choice has the cost of both."""
    choice_of, cost, change = StoreChoice(ahead, eager=eager), 0.0, ahead.late * held
    both = {False: LAZY.of(work), True: ahead.of(work)}
    for _ in range(pages):
        cost += both[choice_of.eager]
        cost += change if choice_of.wrong(attrs.evolve(work), held) else 0
    best = pages * builtins.min(both.values())
    assert cost <= 1.3 * best + MARGIN + 2 * change + builtins.max(both.values())
    assert choice_of.changes <= 1
    costs = f"{pages * both[False] / 1e5:,.1f} ms on demand and {pages * both[True] / 1e5:,.1f} ms ahead"
    assert choice_of.told().endswith(costs)
