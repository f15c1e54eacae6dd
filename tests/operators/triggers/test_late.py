"""Early, final and late results of a window are one row of numbers, and the last one is over all that came in time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.errors import SchemaError
from operators.functions import max as max_of
from operators.protocol import Element
from operators.signals import Clock, Event, Signal
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import AnyOf, Condition, Rows
from operators.window_aggregate.triggers.controlled import ControlledAggregate
from operators.window_aggregate.triggers.promised import At
from punctuation import END, Punctuation, before
from tests.examples import share
from tests.naive_triggers import naive_triggers
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FUNCTIONS,
    PROMISES,
    SCHEMA,
    SIGNALS,
    Moment,
    bag,
    combined,
    groups,
    leaves,
    moments,
    of_promises,
    one_by_one,
    run,
    windows,
)

FEW = ("most",)
"""A late tuple leaves the greatest value as it is more often than not."""


@attrs.frozen
class Asked:
    """A window that late tuples change, its condition and groups, and what is made of its results."""

    window: SlidingWindow
    condition: Condition
    by: tuple[str, ...]
    discards: bool
    lateness: int
    names: tuple[str, ...]

    def operator(self) -> TriggeredAggregate:
        return TriggeredAggregate(
            self.window,
            {name: FUNCTIONS[name] for name in self.names},
            self.by,
            condition=self.condition,
            discards=self.discards,  # type: ignore[arg-type]
            tagged=False,
            lateness=self.lateness,
        )

    def naive(self, given: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        answers = {name: ANSWERS[name] for name in self.names}
        return naive_triggers(
            self.window, self.condition, answers, self.by, given, discard=self.discards, lateness=self.lateness
        )


conditions = combined(st.one_of(leaves, of_promises, st.sampled_from(PROMISES)))
asked = st.builds(
    Asked,
    windows,
    st.one_of(conditions, st.builds(Rows, st.integers(1, 3))),
    groups,
    st.booleans(),
    st.integers(1, 9),
    st.sampled_from([tuple(FUNCTIONS), FEW]),
)


@st.composite
def late_streams(draw: st.DrawFn) -> list[Moment]:
    """Draw tuples in any order, promises that they break, and signals."""
    tuples = st.tuples(st.integers(-4, 24), st.sampled_from("ab"), st.integers(0, 3))
    steps = draw(
        st.lists(
            st.one_of(
                st.lists(tuples, min_size=1, max_size=9),
                st.integers(-3, 24),
                st.sampled_from(SIGNALS),
            ),
            max_size=14,
        )
    )
    found: list[Moment] = []
    for step in steps:
        if isinstance(step, list):
            found.append(Page.of_rows(SCHEMA, step))
        elif isinstance(step, int):
            found.append(before("ts", step))
        elif isinstance(step, Event | Clock):
            found.append(step)
    return [*found, END]


@share(0.3)
@given(asked, late_streams())
def test_late_tuples_change_what_was_given_as_the_definition_says(one: Asked, elements: list[Moment]) -> None:
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


@share(0.5)
@given(asked.map(lambda one: attrs.evolve(one, discards=False, names=tuple(FUNCTIONS))), late_streams())
def test_what_stands_at_each_promise_is_over_all_tuples_that_were_let_in(one: Asked, elements: list[Moment]) -> None:
    operator, refine, reached = one.operator(), Refine(one.by), -(10**6)
    schema = operator.output_schema(SCHEMA)
    refine.output_schema(schema)
    standing: dict[str, int] = {}
    members: dict[tuple[int, object], list[Row]] = {}

    def take(element: Element) -> None:
        made: list[Element] = []
        deliver(refine, element, made.append)
        for row in rows(made):
            key = str([row[name] for name in (*one.by, "wid", *one.names)])
            standing[key] = standing.get(key, 0) + int(row["sign"])  # type: ignore[arg-type]
            assert standing[key] in (0, 1)

    for element in elements:
        if isinstance(element, Event | Clock):
            operator.signal(element, take)
            continue
        deliver(operator, element, take)
        if isinstance(element, Page):
            for row in element.plain_rows():
                ts = int(row["ts"])  # type: ignore[arg-type]
                for wid in range(-40, 40):
                    start, stop = one.window.extent(wid)
                    if start <= ts < stop and stop > reached - one.lateness:
                        members.setdefault((wid, row["k"] if one.by else None), []).append(row)
            continue
        reached = 10**6 if element.is_end else max(reached, int(element.bound("ts")))  # type: ignore[arg-type]
        over = {(wid, k): of for (wid, k), of in members.items() if one.window.extent(wid)[1] <= reached}
        right = {
            str([*([k] if one.by else []), wid, *(ANSWERS[name](of) for name in one.names)])
            for (wid, k), of in over.items()
        }
        found = {key for key, times in standing.items() if times}
        # What is not over yet may stand, too, as it was when it fired last.
        assert right <= found
        if element.is_end:
            assert right == found
    assert refine.statistics()["state_tuples"] == 0


@share(0.5)
@given(asked.map(lambda one: attrs.evolve(one, discards=True, names=("n",))), late_streams())
def test_what_is_new_adds_up_to_all_tuples_that_were_let_in(one: Asked, elements: list[Moment]) -> None:
    found: dict[str, int] = {}
    for row in run(one, elements, saving=False):
        key = str([row[name] for name in (*one.by, "wid")])
        found[key] = found.get(key, 0) + int(row["n"])  # type: ignore[arg-type]
    whole = attrs.evolve(one, discards=False, condition=Event("never"))
    newest = {str([row[name] for name in (*one.by, "wid")]): row["n"] for row in run(whole, elements, saving=False)}
    assert found == newest


def given_of(one: Condition, elements: Sequence[Moment], **options: bool) -> list[tuple[object, ...]]:
    question = Asked(SlidingWindow("ts", size=10, slide=10), one, (), options.get("discards", False), 20, ("n",))
    told = ("n", "final", "firing", "revision")
    return [tuple(row[name] for name in told) for row in run(question, elements, saving=False)]


def ticks(*times: int) -> Page:
    return Page.of(SCHEMA, {"ts": times, "k": ["a"] * len(times), "v": [1] * len(times)})


LATE = [ticks(1, 2, 3), before("ts", 10), ticks(4, 12, 5), before("ts", 11), ticks(6), END]


def test_early_final_and_late_results_have_one_numbering() -> None:
    assert given_of(Rows(2), LATE) == [
        (2, False, 0, 0),
        (3, True, 1, 0),
        (5, True, 2, 1),
        (6, True, 3, 2),
        (1, True, 0, 0),
    ]
    assert given_of(Rows(2), LATE, discards=True) == [
        (2, False, 0, 0),
        (1, True, 1, 0),
        (2, True, 2, 1),
        (1, True, 3, 2),
        (1, True, 0, 0),
    ]


def test_a_window_that_is_over_hears_no_signal_and_no_promise() -> None:
    flush = Event("flush")
    elements = [ticks(1), before("ts", 10), ticks(2, 11), flush, before("ts", 15), END]
    found = given_of(AnyOf((flush, At(5, 5))), elements)
    assert found == [(1, True, 0, 0), (1, False, 0, 0), (2, True, 1, 1), (1, True, 1, 0)]


def test_what_came_too_late_is_counted_and_a_lateness_named_that_would_have_done() -> None:
    operator = TriggeredAggregate(
        SlidingWindow("ts", size=10, slide=10), FUNCTIONS, condition=Rows(9), tagged=False, lateness=10
    )
    for element in (ticks(31), before("ts", 30), ticks(12, 21, 9)):
        deliver(operator, element, lambda element: None)
    counts = operator.statistics()
    assert (counts["late"], counts["late_for_some"], counts["late_results"]) == (2, 0, 0)
    assert operator.enough() == (30, 2)
    deliver(operator, END, lambda element: None)
    counts = operator.statistics()
    assert (counts["late"], counts["late_results"], counts["state_tuples"]) == (2, 0, 0)


def test_promises_wait_for_the_lateness_and_open_windows_are_those_that_are_not_over() -> None:
    operator = TriggeredAggregate(
        SlidingWindow("ts", size=10, slide=10), FUNCTIONS, condition=Rows(9), tagged=False, lateness=10
    )
    emitted: list[Element] = []
    for element in (ticks(1, 11), before("ts", 10)):
        deliver(operator, element, emitted.append)
    assert [row["wid"] for row in operator.open_windows().rows()] == [1]
    assert operator.closed_by(1) == before("ts", 20)
    deliver(operator, before("ts", 20), emitted.append)
    promises = [element for element in emitted if isinstance(element, Punctuation)]
    assert before("window_end", 11) not in promises
    assert max(promise.bound("window_end") or 0 for promise in promises) == 20


def test_events_of_a_stream_and_a_bucket_in_front() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    with pytest.raises(SchemaError, match="tagged=False"):
        TriggeredAggregate(window, FUNCTIONS, condition=Rows(1), lateness=5)
    fires = ControlledAggregate(window, {"most": max_of("v")}, condition=Event("flush"), tagged=False, lateness=20)
    control = Schema.of(event=pa.string(), window_start=pa.int64())
    fires.output_schema(SCHEMA, control)
    emitted: list[Element] = []
    fires.process(ticks(1), emitted.append)
    fires.punctuate(before("ts", 10), emitted.append)
    fires.process(ticks(2, 12), emitted.append)
    fires.process(Page.of(control, {"event": ["flush"], "window_start": [None]}), emitted.append, port=1)
    assert [(row["window_start"], row["final"]) for row in rows(emitted)] == [(0, True), (10, False)]
    assert Bucket(window).counts["late"] == 0
