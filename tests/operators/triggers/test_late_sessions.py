"""Sessions fire, end, go on and join when tuples come late, and in the end what stands is over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.saved import restore
from operators.drive import deliver, drive, rows
from operators.errors import SchemaError
from operators.protocol import Element
from operators.signals import Clock, Event, Signal
from operators.window.session import SessionWindow
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.triggers.condition import Condition, Rows
from operators.window_aggregate.triggers.sessions import TriggeredSessions
from punctuation import END, Equals, Punctuation, before
from tests.examples import share
from tests.naive_late_sessions import naive_late_sessions
from tests.operators.triggers.test_late import FEW, late_streams
from tests.operators.triggers.test_sessions import of_ticks
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FLUSH,
    FUNCTIONS,
    Moment,
    bag,
    combined,
    groups,
    leaves,
    moments,
    one_by_one,
    run,
    ticks,
)


@attrs.frozen
class Asked:
    """Sessions that late tuples change, their condition and groups."""

    gap: int
    condition: Condition
    by: tuple[str, ...]
    lateness: int
    names: tuple[str, ...] = tuple(FUNCTIONS)

    def operator(self) -> TriggeredSessions:
        functions = {name: FUNCTIONS[name] for name in self.names}
        window = SessionWindow("ts", gap=self.gap)
        return TriggeredSessions(window, functions, self.by, condition=self.condition, lateness=self.lateness)

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        answers = {name: ANSWERS[name] for name in self.names}
        return naive_late_sessions(self.gap, self.condition, answers, self.by, moments, lateness=self.lateness)


conditions = combined(st.one_of(leaves, of_ticks))
asked = st.builds(
    Asked,
    st.integers(1, 6),
    st.one_of(conditions, st.builds(Rows, st.integers(1, 3))),
    groups,
    st.integers(1, 12),
    st.sampled_from([tuple(FUNCTIONS), FEW]),
)


@share(1)
@given(asked, late_streams())
def test_late_tuples_change_sessions_as_the_definition_says(one: Asked, elements: list[Moment]) -> None:
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


@share(0.5)
@given(asked, late_streams())
def test_what_stands_is_the_newest_of_each_session_there_is_and_no_promise_is_broken(
    one: Asked, elements: list[Moment]
) -> None:
    operator, refine, promised = one.operator(), Refine(one.by), list[Punctuation]()
    standing: dict[str, int] = {}
    newest: dict[str, str] = {}
    names = (*one.by, "wid", *one.names, "window_end")

    def take(element: Element) -> None:
        made: list[Element] = []
        if isinstance(element, Page):
            assert not any(element.matching(promise).any() for promise in promised)
            for row in element.plain_rows():
                key = str([row[name] for name in (*one.by, "wid")])
                newest[key] = str([row[name] for name in names])
                if row["window_end"] is None:
                    del newest[key]
        deliver(refine, element, made.append)
        for change in made:
            if isinstance(change, Punctuation):
                promised.append(change)
                continue
            assert isinstance(change, Page)
            assert not any(change.matching(promise).any() for promise in promised)
            for row in change.plain_rows():
                key = str([row[name] for name in names])
                standing[key] = standing.get(key, 0) + int(row["sign"])  # type: ignore[arg-type]
                assert standing[key] in (0, 1)

    for element in elements:
        if isinstance(element, Event | Clock):
            operator.signal(element, take)
        else:
            deliver(operator, element, take)
        assert {key for key, times in standing.items() if times} == set(newest.values())
    assert refine.statistics()["state_tuples"] == 0


@share(0.5)
@given(asked.map(lambda one: attrs.evolve(one, names=tuple(FUNCTIONS))), late_streams())
def test_the_last_results_are_those_of_sessions_without_a_trigger(one: Asked, elements: list[Moment]) -> None:
    reached, timely = -(10**6), list[Element]()
    for element in elements:
        if isinstance(element, Page):
            # Where a tuple is late, sessions without a trigger ask for those around it that are not settled.
            element = element.select(element.ticks("ts") >= reached - one.lateness)
        elif isinstance(element, Event | Clock):
            continue
        elif not element.is_end:
            reached = max(reached, int(element.bound("ts")))  # type: ignore[arg-type]
        timely.append(element)
    plain = SlicingAggregate({"": SessionWindow("ts", gap=one.gap)}, FUNCTIONS, one.by, lateness=one.lateness)
    names = (*one.by, "wid", "window_end", *FUNCTIONS)

    def standing(found: Sequence[Element]) -> set[str]:
        last: dict[str, Row] = {}
        for row in rows(found):
            last[str([row[name] for name in (*one.by, "wid")])] = row
        return {str([row[name] for name in names]) for row in last.values() if row["window_end"] is not None}

    emitted: list[Element] = []
    operator = one.operator()
    for element in elements:
        if isinstance(element, Event | Clock):
            operator.signal(element, emitted.append)
        else:
            deliver(operator, element, emitted.append)
    assert standing(emitted) == standing(drive(plain, timely))


def given_of(elements: Sequence[Moment], one: Condition) -> list[tuple[object, ...]]:
    found = run(Asked(5, one, (), 20, ("n",)), elements, saving=False)
    return [tuple(row[name] for name in ("wid", "n", "window_end", "final", "firing", "revision")) for row in found]


def test_a_late_tuple_that_joins_two_sessions_takes_the_later_one_back_at_once() -> None:
    both = [ticks(3), ticks(11), before("ts", 16), ticks(7), before("ts", 17), END]
    assert given_of(both, Rows(9)) == [
        (3, 1, 8, True, 0, 0), (11, 1, 16, True, 0, 0), (11, None, None, True, 1, 1), (3, 3, 16, True, 1, 1)
    ]  # fmt: skip


def test_a_late_tuple_opens_a_session_that_was_over_and_takes_in_one_that_fired() -> None:
    given = [ticks(3, 11, 12), before("ts", 11), ticks(7), before("ts", 13), END]
    assert given_of(given, Rows(2)) == [
        (3, 1, 8, True, 0, 0),
        (11, 2, 17, False, 0, 0),
        # What was only given early is not final when it is taken back.
        (11, None, None, False, 1, 0),
        (3, 4, 17, False, 1, 1),
        (3, 4, 17, True, 2, 1),
    ]


def test_a_session_that_gets_an_earlier_begin_is_a_new_one_of_which_all_tuples_are_new() -> None:
    given = [ticks(6, 7), before("ts", 6), ticks(8), ticks(4), END]
    assert given_of(given, Rows(3)) == [
        (6, 3, 13, False, 0, 0), (6, None, None, False, 1, 0), (4, 4, 13, False, 0, 0), (4, 4, 13, True, 1, 0)
    ]  # fmt: skip
    # It had heard the signal, and as a new one it has not.
    flushed = [ticks(6), before("ts", 6), FLUSH, ticks(4), FLUSH, END]
    assert [row[:5] for row in given_of(flushed, FLUSH)] == [
        (6, 1, 11, False, 0), (6, None, None, False, 1), (4, 2, 11, False, 0), (4, 2, 11, True, 1)
    ]  # fmt: skip


def test_a_session_that_is_over_hears_nothing_and_counts_again_once_it_was_given() -> None:
    over = [ticks(3), before("ts", 9), ticks(3), FLUSH, before("ts", 9), before("ts", 9)]
    twice = [(3, 1, 8, True, 0, 0), (3, 2, 8, True, 1, 1)]
    assert given_of([*over, END], FLUSH) == twice
    # The last tuple opens it again.
    assert given_of([*over, ticks(6), FLUSH, END], FLUSH) == [*twice, (3, 3, 11, False, 2, 2), (3, 3, 11, True, 3, 2)]
    assert given_of([*over, ticks(4), ticks(6), END], Rows(2)) == [
        *twice,
        (3, 4, 11, False, 2, 2),
        (3, 4, 11, True, 3, 2),
    ]


def test_what_comes_later_than_the_lateness_is_counted_and_changes_nothing() -> None:
    operator = Asked(5, Rows(9), (), 4).operator()
    found = rows(drive(operator, [ticks(6), before("ts", 11), ticks(6, 7), before("ts", 11), END]))
    assert [(row["n"], row["revision"]) for row in found] == [(1, 0), (2, 1)]
    counts = operator.statistics()
    assert (counts["late"], counts["late_results"], counts["state_tuples"]) == (1, 1, 0)


def test_promises_wait_for_the_lateness_and_open_sessions_are_those_that_are_not_over() -> None:
    operator, emitted = Asked(5, Rows(9), ("k",), 10).operator(), list[Element]()
    for element in (ticks(1, 11), before("ts", 10), Punctuation({"k": Equals("a")})):
        deliver(operator, element, emitted.append)
    assert [row["wid"] for row in operator.open_windows().rows()] == [11]
    assert operator.closed_by(11) == before("ts", 16)
    promises = [element for element in emitted if isinstance(element, Punctuation)]
    assert {str(promise) for promise in promises} == {"[wid < 0]", "[window_start < 0]", "[window_end < 1]"}
    deliver(operator, before("ts", 17), emitted.append)
    assert str(emitted[-1]) == "[window_end < 8]"
    assert len(operator.open_windows()) == 0


def test_a_state_from_before_there_was_a_lateness_is_read() -> None:
    window = SessionWindow("ts", gap=5)
    operator, again = (TriggeredSessions(window, FUNCTIONS, condition=Rows(2)) for _ in range(2))
    deliver(operator, before("ts", 0), lambda element: None)
    deliver(operator, ticks(1, 2, 3), lambda element: None)
    older = {name: value for name, value in operator.state().items() if name != "count.late_results"}
    restore(again, {**older, "version": 1})
    assert rows(drive(again, [ticks(4), END])) == rows(drive(operator, [ticks(4), END]))


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(SchemaError, match="no result of its own"):
        TriggeredSessions(SessionWindow("ts", gap=5), FUNCTIONS, condition=Rows(1), lateness=3, discards=True)
