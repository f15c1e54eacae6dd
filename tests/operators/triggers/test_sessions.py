"""Sessions fire behind the tuple, the signal or the promise that makes their condition hold, once they are certain."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.data.schema import Schema
from operators.drive import deliver, drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, first, last, median
from operators.functions import sum as total
from operators.kernels.ranked.layout import AGGREGATE, ALL_ROWS, BEGIN, PARTITION
from operators.protocol import Element, Promises
from operators.signals import Clock, Event, Signal
from operators.testing import Script, check_operator, streams
from operators.testing.laws import ALL_LAWS
from operators.window.session import SessionWindow
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.triggers import sessions
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Condition, Rows, Then, Until
from operators.window_aggregate.triggers.promised import At, Every, Lull, Promised
from operators.window_aggregate.triggers.sessions import TriggeredSessions
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_triggered_sessions import naive_triggered_sessions
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FLUSH,
    FUNCTIONS,
    SCHEMA,
    Moment,
    bag,
    combined,
    groups,
    hear,
    leaves,
    moments,
    one_by_one,
    run,
    signalled,
    ticks,
)


@attrs.frozen
class Asked:
    """Sessions, their condition and groups, and what is made of their results."""

    gap: int
    condition: Condition
    by: tuple[str, ...]
    discards: bool

    def operator(self) -> TriggeredSessions:
        window = SessionWindow("ts", gap=self.gap)
        return TriggeredSessions(window, FUNCTIONS, self.by, condition=self.condition, discards=self.discards)

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        return naive_triggered_sessions(self.gap, self.condition, ANSWERS, self.by, moments, discard=self.discards)


of_ticks = st.one_of(
    st.integers(1, 4).map(lambda ticks: Lull(ticks, ticks)),
    st.integers(1, 6).map(lambda ticks: Every(ticks, ticks)),
    st.integers(1, 8).map(lambda ticks: At(ticks, ticks)),
)
asked = st.builds(Asked, st.integers(1, 5), combined(st.one_of(leaves, of_ticks)), groups, st.booleans())


def test_the_example() -> None:
    assert doctest.testmod(sessions).failed == 0


@share(1)
@given(asked, signalled())
def test_sessions_fire_as_by_definition_in_pages_of_any_size_and_saved_anywhere(
    one: Asked, elements: list[Moment]
) -> None:
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


@share(0.5)
@given(asked, streams(SCHEMA, group=("k",), tuples=12))
def test_sessions_that_fire_keep_the_laws(one: Asked, script: Script) -> None:
    # More promises make sessions certain earlier, and those fire then.
    check_operator(one.operator, script, laws=ALL_LAWS - {7, 10}, order_matters=True)


@share(0.5)
@given(asked, signalled())
def test_what_sessions_give_converges_to_the_answer_without_triggers(one: Asked, elements: list[Moment]) -> None:
    names, found = (*one.by, "wid", "window_start"), run(one, elements, saving=False)
    whole = run(attrs.evolve(one, condition=Event("never"), discards=False), elements, saving=False)
    # The id of an early result is that of a session in the end.
    assert {str([row[name] for name in names]) for row in found} <= {str([row[n] for n in names]) for row in whole}
    if one.discards:
        totals: Counter[str] = Counter()
        for row in found:
            totals[str([row[name] for name in names])] += int(row["n"])  # type: ignore[arg-type]
        assert totals == {str([row[name] for name in names]): row["n"] for row in whole}
    else:
        assert bag([{**row, "firing": 0} for row in found if row["final"]]) == bag(whole)


@share(0.5)
@given(asked.filter(lambda one: not one.discards), signalled())
def test_what_sessions_take_back_adds_up_at_each_moment(one: Asked, elements: list[Moment]) -> None:
    operator, refine = one.operator(), Refine(one.by)
    standing: Counter[str] = Counter()
    newest: dict[str, str] = {}
    names, values = (*one.by, "wid"), (*FUNCTIONS,)
    promised: list[Punctuation] = []

    def take(element: Element) -> None:
        made: list[Element] = []
        if isinstance(element, Page):
            newest.update({str([r[n] for n in names]): str([r[n] for n in values]) for r in element.plain_rows()})
        deliver(refine, element, made.append)
        for change in made:
            if isinstance(change, Page):
                assert not any(change.matching(promise).any() for promise in promised)
                for row in change.plain_rows():
                    standing[str([row[n] for n in names]) + str([row[n] for n in values])] += int(row["sign"])  # type: ignore[arg-type]
            else:
                promised.append(change)

    for element in elements:
        if isinstance(element, Event | Clock):
            hear(operator, element, take)
        else:
            deliver(operator, element, take)
        assert +standing == Counter(key + value for key, value in newest.items())
        assert min(standing.values(), default=0) >= 0
    assert refine.statistics()["state_tuples"] == 0


def fired(one: Condition, elements: Sequence[Moment], *, discards: bool = False) -> list[tuple[object, ...]]:
    found = run(Asked(5, one, (), discards), elements, saving=False)
    return [(row["n"], row["wid"], row["window_end"], row["final"], row["firing"]) for row in found]


def test_a_session_whose_begin_is_not_promised_waits_and_fires_on_the_promise() -> None:
    assert fired(Rows(2), [ticks(7, 3, 5), before("ts", 2), before("ts", 3), END]) == [
        (3, 3, 12, False, 0), (3, 3, 12, True, 1)
    ]  # fmt: skip


def test_a_session_that_joins_brings_its_tuples_at_once_and_has_never_fired() -> None:
    given = [before("ts", 0), ticks(0), ticks(6, 7), ticks(3), END]
    assert fired(Rows(1), given) == [(1, 0, 5, False, 0), (4, 0, 12, False, 1), (4, 0, 12, True, 2)]
    assert fired(Rows(3), given, discards=True) == [(4, 0, 12, False, 0)]
    # It held at three tuples and does not at four, which is how many the session has next.
    assert fired(Until(Rows(3), Rows(4)), given) == [(4, 0, 12, True, 0)]


def test_steps_are_taken_one_by_one() -> None:
    given = [before("ts", 0), ticks(0, 1, 2, 3, 4, 5), END]
    assert fired(Then(Rows(1), Rows(3)), given) == [
        (1, 0, 5, False, 0), (4, 0, 8, False, 1), (6, 0, 10, True, 2)
    ]  # fmt: skip


def test_a_session_hears_signals_once_it_is_certain() -> None:
    both = AllOf((Rows(2), FLUSH))
    assert fired(FLUSH, [ticks(4), FLUSH, before("ts", 4), FLUSH, FLUSH, END]) == [
        (1, 4, 9, False, 0), (1, 4, 9, True, 1)
    ]  # fmt: skip
    assert fired(both, [before("ts", 0), ticks(0), FLUSH, ticks(1), END])[0] == (2, 0, 6, False, 0)


def test_a_lull_fires_a_session_behind_the_promise_that_shows_it() -> None:
    lull, given = Lull(3, 3), [ticks(0, 1), before("ts", 3), before("ts", 4), before("ts", 5), ticks(5), END]
    assert fired(lull, given) == [(2, 0, 6, False, 0), (3, 0, 10, True, 1)]
    assert fired(AllOf((lull, Rows(3))), [*given[:-1], before("ts", 8), END]) == [
        (3, 0, 10, False, 0),
        (3, 0, 10, True, 1),
    ]
    # A tuple that has come has ended the lull, though all before it is promised only then.
    assert fired(lull, [ticks(0, 4), before("ts", 4), END]) == [(2, 0, 9, True, 0)]
    assert fired(Until(Rows(1), lull), [ticks(0), before("ts", 4), ticks(4), END]) == [(2, 0, 9, True, 0)]


def test_a_session_fires_behind_the_promise_that_reaches_a_tick_behind_its_begin() -> None:
    given = [ticks(2, 5), before("ts", 4), before("ts", 6), ticks(7), before("ts", 9), before("ts", 11), END]
    # The promise at 9 passes one more tick, at 8; the one at 11 none, and at 10 it has nothing new.
    assert fired(Every(3, 3), given) == [(2, 2, 10, False, 0), (3, 2, 12, False, 1), (3, 2, 12, True, 2)]
    assert fired(At(4, 4), given) == [(2, 2, 10, False, 0), (3, 2, 12, True, 1)]
    # It becomes certain by the promise that passes its tick, and does not fire for the one that ends it.
    assert fired(At(4, 4), [ticks(2), before("ts", 6), END]) == [(1, 2, 7, False, 0), (1, 2, 7, True, 1)]
    assert fired(At(4, 4), [ticks(2), before("ts", 7), END]) == [(1, 2, 7, True, 0)]
    assert fired(AllOf((Every(3, 3), Rows(3))), given) == [(3, 2, 12, False, 0), (3, 2, 12, True, 1)]


def test_many_firings_in_one_page_are_those_of_pages_of_one_tuple() -> None:
    page = ticks(*np.random.default_rng(3).permutation(np.arange(500) * 2).tolist())
    for one in (AnyOf((Rows(1), FLUSH)), Then(Rows(7), Rows(50))):
        given: list[Moment] = [before("ts", 0), page, END]
        assert fired(one, given) == fired(one, one_by_one(given))


def test_results_stay_as_they_were_given_when_more_sessions_fire_in_the_same_page() -> None:
    operator, found = TriggeredSessions(SessionWindow("ts", gap=5), {"n": count()}, condition=Rows(1)), list[Element]()
    schema = Schema.of(ts="int64", progress=["ts"])
    operator.output_schema(schema)
    n = 3000
    page, promised = Page.of(schema, {"ts": list(range(n))}), np.arange(n)
    operator.process_with(page, Promises("ts", promised + 1, promised), found.append)
    given = [(row["wid"], row["n"], row["window_end"], row["firing"]) for row in rows(found)]
    assert given == [(0, i + 1, i + 5, i) for i in range(n)]


def test_what_is_promised_of_results() -> None:
    given = [before("ts", 3), ticks(3), before("ts", 5), ticks(6), before("ts", 7)]
    given.append(Punctuation({"k": Equals("a"), "ts": Below(8)}))
    said = [str(one) for one in punctuations(drive(Asked(5, Rows(1), ("k",), False).operator(), given))]
    assert said == [
        "[wid < 3]", "[window_start < 3]", "[window_end < 4]",
        "[window_end < 6]",
        # The result at 6 told that the session ends at 11.
        "[window_end < 8]",
    ]  # fmt: skip


def test_open_sessions_are_listed_and_what_completes_them() -> None:
    operator = Asked(5, Rows(1), ("k",), True).operator()
    assert len(operator.open_windows()) == 0
    with pytest.raises(LookupError, match="open_windows"):
        operator.closed_by(3)
    drive(operator, [before("ts", 3), ticks(3, 5)])
    assert [(row["wid"], row["window_end"]) for row in rows([operator.open_windows()])] == [(3, 10)]
    assert operator.closed_by(3) == before("ts", 10)
    assert operator.statistics()["early_results"] == 2


def test_late_tuples_are_counted_and_leave_sessions_alone() -> None:
    operator = Asked(5, Rows(9), (), False).operator()
    found = rows(drive(operator, [ticks(6), before("ts", 6), ticks(5, 7), END]))
    assert [row["n"] for row in found] == [2]
    assert operator.statistics()["late"] == 1


def test_what_cannot_fire_is_refused_with_its_reasons() -> None:
    window = SessionWindow("ts", gap=5)
    with pytest.raises(SchemaError, match="not at promises"):
        TriggeredSessions(window, {"n": count()}, condition=Promised(("k",), (("k", Equals("a")),)))
    with pytest.raises(SchemaError, match='"firing" is the name'):
        TriggeredSessions(window, {"firing": count()}, condition=Rows(1)).output_schema(SCHEMA)


def test_a_damaged_state_is_refused() -> None:
    operator = Asked(5, Rows(9), ("k",), False).operator()
    drive(operator, [before("ts", 0), ticks(0, 9)])
    for row, value in ((BEGIN, 99), (PARTITION, -1), (AGGREGATE, 7), (ALL_ROWS, 0)):
        state = decode_state(encode_state(operator.state()))
        (name,) = [name for name in state if name.endswith("sessions.sessions")]
        damaged = np.array(state[name])
        damaged[row, 0] = value
        with pytest.raises(ValueError, match="the saved state holds"):
            restore(Asked(5, Rows(9), ("k",), False).operator(), {**state, name: damaged})


def test_functions_of_all_kinds_have_what_came_before_each_firing() -> None:
    functions = {"one": first("v"), "other": last("v"), "middle": median("v"), "total": total("v")}
    operator = TriggeredSessions(SessionWindow("ts", gap=5), functions, condition=Rows(2))
    page = Page.of(SCHEMA, {"ts": [3, 9, 4, 7], "k": ["a"] * 4, "v": [1, 2, 3, 4]})
    found = [tuple(row[name] for name in functions) for row in rows(drive(operator, [before("ts", 3), page, END]))]
    assert found == [(1, 3, 1, 4), (1, 4, 2, 10), (1, 4, 2, 10)]
