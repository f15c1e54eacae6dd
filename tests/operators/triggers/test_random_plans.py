"""Random plans give what their definitions give: WHERE, windows that fire early or that predicates make, refinement.

A plan is drawn from all of them, and is tried in all orders of arrival that its definition allows, in pages of several
sizes, with promises at several places, and saved and restored. 20,000 are tried by night, or as many as `PLANS` says:

    PLANS=5000 python -m pytest tests/operators/triggers/test_random_plans.py -o faulthandler_timeout=0
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.drive import deliver
from operators.expression import Expression
from operators.protocol import Element, Emit, Operator
from operators.rows.filter import Filter
from operators.signals import Clock, Event, HearsSignals, Signal
from operators.testing import Script, check_operator, streams
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from operators.window_aggregate.triggers.condition import Rows
from punctuation import Punctuation
from tests import examples
from tests.naive_predicate import Says, naive_predicate
from tests.operators.early import test_early as on_event_time
from tests.operators.planted import found_out
from tests.operators.ranked import test_predicate as of_predicates
from tests.operators.triggers import test_counted as of_ranks
from tests.operators.triggers import test_edges as of_edges
from tests.operators.triggers import test_landmark as of_landmarks
from tests.operators.triggers import test_predicates as fired_predicates
from tests.operators.triggers import test_sessions as of_sessions
from tests.operators.triggers import test_triggers as by_triggers
from tests.operators.triggers.test_triggers import SCHEMA, Moment

PLANS = settings(max_examples=int(os.environ.get("PLANS", examples.chosen.plans)))
Chosen = tuple[Expression, Says]
edged = of_edges.asked.filter(lambda one: one.lateness == 0)
chosen: st.SearchStrategy[Chosen | None] = st.none() | st.sampled_from(of_predicates.SAID)
scripts = streams(SCHEMA, group=("k",), tuples=12)


@attrs.frozen
class Plan:
    """What a plan is made of, and its answer by definition."""

    made: Callable[[], Operator] = attrs.field(repr=False)
    answer: Callable[[Sequence[Row]], list[Row]] = attrs.field(repr=False)
    where: Chosen | None
    said: object
    ordered: bool = False
    """Whether results depend on the order of arrival."""

    def operator(self) -> Operator:
        return self.made() if self.where is None else Chain([Filter(self.where[0]), self.made()])

    def naive(self, table: Sequence[Row]) -> list[Row]:
        return self.answer([row for row in table if self.where is None or self.where[1](row)])

    def check(self, script: Script) -> None:
        check_operator(self.operator, script, naive=self.naive, order_matters=self.ordered)


def taken_back(by: Sequence[str], found: Sequence[Row]) -> list[Row]:
    """Give each result of a trigger after the one of its window that stood, but those that change nothing."""
    stands: dict[tuple[object, ...], Row] = {}
    given: list[Row] = []
    for row in sorted(found, key=lambda row: int(str(row["firing"]))):
        window = tuple(row[name] for name in (*by, "wid"))
        before = stands.get(window)
        if before is not None:
            if not row["final"] and all(row[name] == before[name] for name in (*by_triggers.FUNCTIONS, "window_end")):
                continue
            given.append({**before, "sign": -1})
        given.append({**row, "sign": 1})
        stands[window] = row
    return given


@attrs.frozen
class Triggered:
    """A window of some kind that fires by a trigger, with its results refined."""

    asked: (
        by_triggers.Asked
        | of_edges.Asked
        | of_sessions.Asked
        | of_landmarks.Asked
        | fired_predicates.Asked
        | of_ranks.Asked
    )
    retracts: bool

    def operator(self) -> Chain:
        fires = self.asked.operator()
        links = fires.links() if isinstance(fires, Chain) else [fires]
        return Chain([*links, *([Refine(self.asked.by)] if self.retracts else [])])

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        found = self.asked.naive(moments)
        return taken_back(self.asked.by, found) if self.retracts else found


@st.composite
def triggered(draw: st.DrawFn, *, with_promises: bool = False) -> Triggered:
    # More promises let sessions fire more often, and ticks, so their answer is not of tuples alone.
    kinds = [by_triggers.asked, of_landmarks.asked, fired_predicates.by_rows, of_ranks.by_rows]
    if with_promises:
        kinds = [
            by_triggers.asked,
            edged,
            of_sessions.asked,
            of_landmarks.hearing,
            fired_predicates.asked,
            of_ranks.asked,
        ]
    asked = draw(draw(st.sampled_from(kinds)))
    return Triggered(asked, not asked.discards and draw(st.booleans()))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    where, kind = draw(chosen), draw(st.sampled_from(["trigger", "event time", "predicate"]))
    if kind == "trigger":
        by_trigger = draw(triggered())
        return Plan(by_trigger.operator, by_trigger.naive, where, by_trigger, ordered=True)
    if kind == "event time":
        early = draw(on_event_time.asked(draw(st.sampled_from(["accumulate", "discard", "retract"]))))
        return Plan(early.operator, early.naive, where, early)
    case, (by, partition) = draw(of_predicates.cases()), draw(of_predicates.modes)
    return Plan(
        lambda: PredicateAggregate(case.window, of_predicates.FUNCTIONS, by, partition=partition),
        lambda table: naive_predicate(case.rule, of_predicates.ANSWERS, by, table, partition=partition),
        where,
        (case, by, partition),
    )


@PLANS
@given(plans(), scripts)
def test_random_plans_give_the_naive_answer(plan: Plan, script: Script) -> None:
    plan.check(script)


@PLANS
@given(triggered(with_promises=True), chosen, by_triggers.signalled())
def test_random_plans_with_signals_give_the_naive_answer(
    plan: Triggered, where: Chosen | None, elements: list[Moment]
) -> None:
    kept = [_where(element, where) for element in elements]
    right = by_triggers.bag(plan.naive(by_triggers.moments(kept)))
    one_by_one = by_triggers.one_by_one(kept)
    for variant, saving in ((kept, False), (kept, True), (one_by_one, True)):
        assert by_triggers.bag(run(plan, variant, saving=saving)) == right


def run(plan: Triggered, elements: Sequence[Moment], *, saving: bool) -> list[Row]:
    operator, emitted = plan.operator(), list[Element]()
    for element in elements:
        if isinstance(element, Event | Clock):
            links = operator.links()
            (place,) = [place for place, link in enumerate(links) if isinstance(link, HearsSignals)]
            fires, behind = links[place], links[place + 1 :]
            assert isinstance(fires, HearsSignals)
            fires.signal(element, lambda e, to=behind: _deliver(to, e, emitted.append))
        else:
            deliver(operator, element, emitted.append)
        if saving:
            fresh = plan.operator()
            fresh.output_schema(SCHEMA)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh
    assert operator.statistics()["state_tuples"] == 0
    return [row for element in emitted if isinstance(element, Page) for row in element.plain_rows()]


def _deliver(operators: Sequence[Operator], element: Element, emit: Emit) -> None:
    if operators:
        deliver(operators[0], element, emit)
    else:
        emit(element)


def _where(element: Moment, where: Chosen | None) -> Moment:
    if where is None or not isinstance(element, Page):
        return element
    return Page.of(
        SCHEMA, {name: [row[name] for row in element.plain_rows() if where[1](row)] for name in SCHEMA.names}
    )


def test_a_plan_that_does_not_do_what_it_says_is_found_out() -> None:
    two, three = (
        Triggered(by_triggers.Asked(by_triggers.WINDOW, Rows(rows), (), False), retracts=True) for rows in (2, 3)
    )
    said, kept = of_predicates.SAID[0], of_predicates.SAID[1]
    late = Plan(three.operator, two.naive, None, two, ordered=True)
    other = Plan(two.operator, lambda table: two.naive([row for row in table if kept[1](row)]), said, two, ordered=True)
    assert found_out(late.check, scripts) == found_out(other.check, scripts) == 10
