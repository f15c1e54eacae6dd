"""Windows of RANGE ALL fire behind the tuple, the signal or the promise that makes their condition hold."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, count_distinct, first, last, median
from operators.functions import sum as total
from operators.kernels.windows.layout import ALL_TUPLES, NEW, OWNER, WID
from operators.signals import Event, Signal
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.triggers import landmark
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Condition, Rows, Then, Until
from operators.window_aggregate.triggers.landmark import TriggeredLandmark
from operators.window_aggregate.triggers.promised import At, Every
from punctuation import END, Punctuation, before
from tests.examples import share
from tests.naive_triggered_landmarks import naive_triggered_landmarks
from tests.operators.test_ordered import DIGITS
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
    conditions,
    groups,
    one_by_one,
    run,
    signalled,
    ticks,
)

moments_of_windows = st.one_of(
    st.integers(1, 4).map(lambda ticks: Every(ticks, ticks)), st.integers(1, 4).map(lambda ticks: At(ticks, ticks))
)
windows = st.builds(LandmarkWindow, st.just("ts"), slide=st.integers(1, 7), origin=st.integers(-2, 2))


@attrs.frozen
class Asked:
    """A window that begins with the stream, its condition and groups, and what is made of its results."""

    window: LandmarkWindow
    condition: Condition
    by: tuple[str, ...]
    discards: bool

    def operator(self) -> Chain:
        fires = TriggeredLandmark(
            self.window, FUNCTIONS, self.by, condition=self.condition, discards=self.discards
        )  # fmt: skip
        return Chain([Bucket(self.window, hands_on=True), fires])

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        return naive_triggered_landmarks(
            self.window, self.condition, ANSWERS, self.by, moments, discard=self.discards
        )  # fmt: skip


asked = st.builds(Asked, windows, conditions, groups, st.booleans())
leaves = st.one_of(st.builds(Rows, st.integers(1, 4)), st.sampled_from(SIGNALS), moments_of_windows)
hearing = st.builds(Asked, windows, combined(leaves), groups, st.booleans())


def test_the_example() -> None:
    assert doctest.testmod(landmark).failed == 0


@share(0.5)
@given(st.one_of(asked, hearing), signalled())
def test_windows_of_all_fire_as_by_definition_in_pages_of_any_size_and_saved_anywhere(
    one: Asked, elements: list[Moment]
) -> None:
    laws.fires_by_definition(one, elements)


@share(0.25)
@given(asked, streams(SCHEMA, group=("k",), tuples=12))
def test_every_paging_and_punctuation_gives_the_naive_answer(one: Asked, script: Script) -> None:
    # A promise leaves a window without what comes late, and then others begin.
    check_operator(one.operator, script, naive=one.naive, order_matters=True)


@share(0.25)
@given(asked, signalled())
def test_what_they_give_converges_to_the_answer_without_triggers(one: Asked, elements: list[Moment]) -> None:
    plain = attrs.evolve(one, condition=Event("never"), discards=False)
    laws.converges(one, plain, elements, (*one.by, "wid"), discards=one.discards)
    untriggered = Chain([Bucket(one.window), WindowAggregate(one.window, {"n": count()}, one.by)])
    untold = [element for element in elements if not isinstance(element, Signal)]
    names = (*one.by, "n", "wid", "window_end")
    right = sorted(str([row[name] for name in names]) for row in rows(drive(untriggered, untold)))
    assert sorted(str([row[name] for name in names]) for row in run(plain, elements, saving=False)) == right


@share(0.25)
@given(hearing.filter(lambda one: not one.discards), signalled())
def test_what_they_take_back_adds_up_at_each_moment(one: Asked, elements: list[Moment]) -> None:
    laws.adds_up(one, one.by, elements)


WINDOW = LandmarkWindow("ts", slide=10)


def fired(one: Condition, elements: Sequence[Moment], *, discards: bool = False) -> list[tuple[object, ...]]:
    found = run(Asked(WINDOW, one, (), discards), elements, saving=False)
    return [(row["n"], row["window_end"], row["final"], row["firing"]) for row in found]


def test_a_window_counts_from_its_first_tuple_and_has_what_came_before() -> None:
    given = [ticks(1, 2, 3), before("ts", 10), ticks(11, 12), before("ts", 20), END]
    assert fired(Rows(2), given) == [(2, 10, False, 0), (3, 10, True, 1), (5, 20, False, 0), (5, 20, True, 1)]
    assert fired(Rows(2), given, discards=True) == [
        (2, 10, False, 0), (1, 10, True, 1), (5, 20, False, 0)
    ]  # fmt: skip


def test_a_tuple_counts_for_all_windows_that_have_begun_and_have_it() -> None:
    given = [ticks(1, 11, 2), END]
    assert fired(Rows(2), given) == [
        (2, 10, False, 0), (3, 20, False, 0), (2, 10, True, 1), (3, 20, True, 1)
    ]  # fmt: skip


def test_a_window_that_no_tuple_begins_has_a_final_result_alone() -> None:
    given = [ticks(1), FLUSH, before("ts", 10), ticks(35), FLUSH, FLUSH, END]
    assert fired(FLUSH, given) == [
        (1, 10, False, 0), (1, 10, True, 1), (2, 40, False, 0), (1, 20, True, 0), (1, 30, True, 0), (2, 40, True, 1)
    ]  # fmt: skip


def test_ticks_count_from_where_the_window_before_ends() -> None:
    given = [ticks(1, 9), before("ts", 4), ticks(12), before("ts", 12), before("ts", 15), END]
    assert fired(Every(4, 4), given) == [
        (2, 10, False, 0), (2, 10, True, 1), (3, 20, False, 0), (3, 20, True, 1)
    ]  # fmt: skip
    # Of the ticks before its first tuple a window has heard what stops it.
    assert fired(Until(Rows(1), At(4, 4)), [before("ts", 5), ticks(6, 12), END]) == [
        (2, 20, False, 0), (1, 10, True, 0), (2, 20, True, 1)
    ]  # fmt: skip


def test_many_firings_in_one_page_are_those_of_pages_of_one_tuple() -> None:
    page = ticks(*np.random.default_rng(3).permutation(np.arange(100) // 2).tolist())
    for one in (AnyOf((Rows(1), FLUSH)), Then(Rows(7), Rows(50)), AllOf((Rows(3), Rows(5)))):
        for discards in (False, True):
            assert fired(one, [page, END], discards=discards) == fired(one, one_by_one([page, END]), discards=discards)


def test_what_is_promised_of_results() -> None:
    operator = Asked(WINDOW, Rows(1), ("k",), False).operator()
    said = [str(one) for one in punctuations(drive(operator, [ticks(3), before("ts", 25), ticks(31)]))]
    assert said == ["[wid < 1]", "[window_end < 20]", "[wid < 2]", "[window_end < 30]"]
    (_, fires) = operator.links()
    assert [(row["wid"], row["window_end"]) for row in rows([fires.open_windows()])] == [(2, 30), (3, 40)]
    assert fires.statistics()["early_results"] == 2


def test_what_cannot_fire_is_refused_with_its_reasons() -> None:
    with pytest.raises(SchemaError, match="windows of RANGE ALL have all times"):
        TriggeredLandmark(WINDOW, {"n": count()}, condition=PROMISES[0])
    with pytest.raises(SchemaError, match=r"joined .* is not commutative"):
        TriggeredLandmark(WINDOW, {"joined": DIGITS}, condition=Rows(1))
    with pytest.raises(SchemaError, match='"firing" is the name'):
        TriggeredLandmark(WINDOW, {"firing": count()}, condition=Rows(1)).results_schema(SCHEMA)


def test_functions_of_all_kinds_have_what_came_before_each_firing() -> None:
    functions = {"one": first("v"), "other": last("v"), "middle": median("v"), "kinds": count_distinct("v")}
    fires = TriggeredLandmark(WINDOW, functions | {"total": total("v")}, condition=Rows(2))
    page = Page.of(SCHEMA, {"ts": [3, 9, 14, 7], "k": ["a"] * 4, "v": [1, 2, 3, 4]})
    found = rows(drive(Chain([Bucket(WINDOW), fires]), [page, END]))
    assert [tuple(row[name] for name in (*functions, "total", "window_end")) for row in found] == [
        (1, 2, 1, 2, 3, 10), (1, 4, 2, 4, 10, 20), (1, 4, 2, 3, 7, 10), (1, 4, 2, 4, 10, 20)
    ]  # fmt: skip


def test_a_damaged_state_is_refused() -> None:
    def fires() -> TriggeredLandmark:
        return TriggeredLandmark(WINDOW, FUNCTIONS, ("k",), condition=Rows(9))

    whole = fires()
    drive(Chain([Bucket(WINDOW), whole]), [ticks(0, 19)])
    for row, column, value in ((WID, 1, -9), (OWNER, 0, -1), (NEW, 0, 70), (ALL_TUPLES, 0, 0)):
        state = decode_state(encode_state(whole.state()))
        (name,) = [name for name in state if name.endswith("store.windows")]
        damaged = np.array(state[name])
        damaged[row, column] = value
        with pytest.raises(ValueError, match="the saved state holds"):
            restore(fires(), {**state, name: damaged})
