"""Windows of predicates fire with what is final of them: in order by rows and ticks, at once by signals."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.expression import Column
from operators.functions import count, first, median
from operators.signals import Event, Signal
from operators.testing import Script, check_operator, streams
from operators.testing.laws import ALL_LAWS
from operators.window.predicate import PredicateWindow
from operators.window_aggregate.triggers import predicates
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Condition, Rows, Then, Until
from operators.window_aggregate.triggers.fired_cuts import ALL_ROWS, LAST
from operators.window_aggregate.triggers.predicates import TriggeredPredicates
from operators.window_aggregate.triggers.promised import At, Every
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_triggered_predicates import naive_triggered_predicates
from tests.operators.ranked.cases import Mode, modes
from tests.operators.ranked.test_predicate import Case, cases
from tests.operators.test_ordered import DIGITS
from tests.operators.test_ordered import digits as joined
from tests.operators.triggers import laws
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FLUSH,
    FUNCTIONS,
    PROMISES,
    SCHEMA,
    SIGNALS,
    Moment,
    combined,
    run,
    signalled,
)

on_ticks = st.one_of(
    st.integers(1, 4).map(lambda ticks: Every(ticks, ticks)), st.integers(1, 4).map(lambda ticks: At(ticks, ticks))
)
alone = st.one_of(on_ticks, st.builds(AnyOf, st.lists(on_ticks, min_size=1, max_size=3).map(tuple)))
leaves = st.one_of(st.builds(Rows, st.integers(1, 4)), st.sampled_from(SIGNALS), on_ticks)


@attrs.frozen
class Asked:
    """A window of predicates, its condition and groups, and what is made of its results."""

    case: Case
    condition: Condition
    mode: Mode
    discards: bool

    @property
    def by(self) -> tuple[str, ...]:
        return self.mode[0]

    def operator(self) -> TriggeredPredicates:
        by, partition = self.mode
        return TriggeredPredicates(
            self.case.window, FUNCTIONS, by, partition=partition, condition=self.condition, discards=self.discards
        )

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        by, partition = self.mode
        return naive_triggered_predicates(
            self.case.rule, self.condition, ANSWERS, by, moments, partition=partition, discard=self.discards
        )


@st.composite
def given_at_the_end(draw: st.DrawFn) -> Case:
    case = draw(cases())
    return Case(attrs.evolve(case.window, unfinished=True), attrs.evolve(case.rule, unfinished=True))


asked = st.builds(Asked, given_at_the_end(), st.one_of(alone, combined(leaves)), modes, st.booleans())
by_rows = st.builds(
    Asked, given_at_the_end(), combined(st.builds(Rows, st.integers(1, 4))), modes, st.booleans()
)  # fmt: skip


def test_the_example() -> None:
    assert doctest.testmod(predicates).failed == 0


@share(0.5)
@given(asked, signalled())
def test_windows_fire_as_by_definition_in_pages_of_any_size_and_saved_anywhere(
    one: Asked, elements: list[Moment]
) -> None:
    laws.fires_by_definition(one, elements)


@share(0.25)
@given(by_rows, streams(SCHEMA, group=("k",), tuples=12))
def test_by_rows_every_paging_and_promise_gives_the_same(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, naive=one.naive, order_matters=True)


@share(0.25)
@given(asked, streams(SCHEMA, group=("k",), tuples=12))
def test_windows_that_fire_keep_the_laws(one: Asked, script: Script) -> None:
    # More promises reach more ticks, and a window that is open at the end fires at those that are reached.
    check_operator(one.operator, script, laws=ALL_LAWS - {7, 10}, order_matters=True)


@share(0.25)
@given(asked, signalled())
def test_what_they_give_converges_to_the_answer_without_triggers(one: Asked, elements: list[Moment]) -> None:
    plain = attrs.evolve(one, condition=Event("never"), discards=False)
    laws.converges(one, plain, elements, (*one.mode[0], "wid"), discards=one.discards)


@share(0.25)
@given(asked.filter(lambda one: not one.discards), signalled())
def test_what_they_take_back_adds_up_at_each_moment(one: Asked, elements: list[Moment]) -> None:
    laws.adds_up(one, one.mode[0], elements)


HIGH = PredicateWindow("ts", Column("v") > 2, runs=True)


def operator(one: Condition, *, by: tuple[str, ...] = (), discards: bool = False) -> TriggeredPredicates:
    return TriggeredPredicates(HIGH, FUNCTIONS, by, condition=one, discards=discards)


def values(*pairs: tuple[int, int]) -> Page:
    return Page.of(SCHEMA, {"ts": [t for t, _ in pairs], "k": ["a"] * len(pairs), "v": [v for _, v in pairs]})


def fired(one: Condition, elements: Sequence[Moment], *, discards: bool = False) -> list[tuple[object, ...]]:
    @attrs.frozen
    class Asking:
        def operator(self) -> TriggeredPredicates:
            return operator(one, discards=discards)

        def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
            raise NotImplementedError

    found = run(Asking(), elements, saving=True)
    return [(row["n"], row["wid"], row["window_end"], row["fired"], row["final"], row["firing"]) for row in found]


def test_a_window_fires_between_two_tuples_in_their_order() -> None:
    given = [values((5, 9), (3, 9), (4, 9), (7, 0), (6, 9)), before("ts", 5), END]
    assert fired(Rows(2), given) == [
        (2, 3, 5, None, False, 0), (4, 3, 7, None, False, 1), (4, 3, 7, 7, True, 2)
    ]  # fmt: skip
    assert fired(Rows(3), given, discards=True) == [(3, 3, 6, None, False, 0), (1, 3, 7, 7, True, 1)]
    assert fired(Then(Rows(1), Until(Rows(2), Rows(3))), given) == [
        (1, 3, 4, None, False, 0), (4, 3, 7, 7, True, 1)
    ]  # fmt: skip


def test_on_ticks_alone_a_result_is_over_the_tuples_before() -> None:
    given = [values((0, 9), (4, 9), (5, 9), (11, 9), (30, 0)), before("ts", 3), before("ts", 31)]
    # At 10 it has what it had at 5 and one more; nothing new comes between 15 and 30.
    assert fired(AnyOf((Every(5, 5), At(2, 2))), given) == [
        (1, 0, 1, 2, False, 0), (2, 0, 5, 5, False, 1), (3, 0, 6, 10, False, 2), (4, 0, 12, 15, False, 3),
        (4, 0, 30, 30, True, 4),
    ]  # fmt: skip


def test_a_window_hears_of_no_tick_before_it_begins() -> None:
    # What is promised of no partition yet is no tick that was reached.
    given = [values((4, 9), (5, 9), (6, 9)), before("ts", 6), before("ts", 9), END]
    assert fired(Until(Rows(2), Every(3, 3)), given) == [(2, 4, 6, None, False, 0), (3, 4, 7, 7, True, 1)]


def test_signals_fire_what_is_final() -> None:
    given = [values((0, 9), (4, 9)), FLUSH, before("ts", 3), FLUSH, FLUSH, before("ts", 6), FLUSH, END]
    assert fired(FLUSH, given) == [
        (1, 0, 1, None, False, 0), (2, 0, 5, None, False, 1), (2, 0, 5, 5, True, 2)
    ]  # fmt: skip
    assert fired(FLUSH, given, discards=True) == [(1, 0, 1, None, False, 0), (1, 0, 5, None, False, 1)]
    assert fired(AllOf((Rows(1), Every(2, 2))), given)[0] == (1, 0, 1, None, False, 0)


def test_what_is_promised_of_results() -> None:
    given = [values((3, 9), (6, 9)), before("ts", 5), FLUSH, before("ts", 7)]
    given.append(Punctuation({"k": Equals("a"), "ts": Below(9)}))
    said = [str(one) for one in punctuations(drive(operator(Rows(1), by=("k",)), [g for g in given if g is not FLUSH]))]
    assert said == [
        "[wid < 3]", "[window_start < 3]", "[window_end < 4]",
        "[window_end < 7]",
    ]  # fmt: skip


def test_open_windows_are_listed_though_they_have_nothing_new() -> None:
    one = operator(Rows(1), by=("k",), discards=True)
    drive(one, [values((3, 9), (4, 9)), before("ts", 9)])
    assert [(row["wid"], row["window_end"]) for row in rows([one.open_windows()])] == [(3, 5)]
    assert one.statistics()["early_results"] == 2


def test_what_cannot_fire_is_refused_with_its_reasons() -> None:
    with pytest.raises(SchemaError, match="what it gave before would stand"):
        TriggeredPredicates(attrs.evolve(HIGH, unfinished=False), FUNCTIONS, condition=Rows(1))
    with pytest.raises(SchemaError, match="promises make their tuples final"):
        operator(PROMISES[0])
    with pytest.raises(SchemaError, match='"firing" is the name'):
        TriggeredPredicates(HIGH, {"firing": count()}, condition=Rows(1)).output_schema(SCHEMA)


def test_many_firings_at_one_promise_keep_the_order_of_functions() -> None:
    functions = {"one": first("v"), "middle": median("v"), "digits": DIGITS}
    one = TriggeredPredicates(HIGH, functions, condition=Rows(2))
    found = rows(drive(one, [values((5, 7), (1, 3), (3, 5), (2, 4), (4, 6)), END]))
    right = [joined([{"v": value} for value in range(3, last)]) for last in (5, 7, 8)]
    assert [row["digits"] for row in found] == right
    assert [row["middle"] for row in found] == [3, 4, 5]


def test_a_damaged_state_is_refused() -> None:
    whole = operator(Rows(9), by=("k",))
    drive(whole, [values((0, 9), (2, 9)), before("ts", 2)])
    state = decode_state(encode_state(whole.state()))
    (name,) = [name for name in state if name.endswith("cuts.seen")]
    for row, value in ((ALL_ROWS, 0), (LAST, -5)):
        damaged = np.array(state[name])
        damaged[row, 0] = value
        with pytest.raises(ValueError, match="an open window that has no tuple"):
            restore(operator(Rows(9), by=("k",)), {**state, name: damaged})
    with pytest.raises(ValueError, match="without what its trigger has seen"):
        restore(operator(Rows(9), by=("k",)), {**state, name: np.array(state[name])[:, :0]})
