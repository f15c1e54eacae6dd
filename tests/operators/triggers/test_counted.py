"""Windows of n tuples fire with the tuples whose rank is final: in order by rows, at once by signals."""

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
from operators.functions import count, sum
from operators.functions.protocol import Slots
from operators.signals import Event, Signal
from operators.testing import Script, check_operator, streams
from operators.window.counted import CountWindow
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.triggers import counted, fired_ranks
from operators.window_aggregate.triggers.condition import AllOf, Condition, Rows, Then
from operators.window_aggregate.triggers.counted import TriggeredCounts
from operators.window_aggregate.triggers.fired_ranks import ALL_ROWS, GROUP, SLOT, slice_tuples
from operators.window_aggregate.triggers.promised import Every
from punctuation import END, Between, Punctuation, before
from tests.examples import share
from tests.naive_triggered_ranks import naive_triggered_ranks
from tests.operators.ranked.cases import Mode, modes
from tests.operators.ranked.cases import counted as windows
from tests.operators.test_ordered import DIGITS
from tests.operators.test_ordered import digits as joined
from tests.operators.triggers.laws import converges, fires_by_definition
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FLUSH,
    FUNCTIONS,
    SCHEMA,
    Moment,
    combined,
    conditions,
    run,
    signalled,
)


@attrs.frozen
class Asked:
    """Windows of rows, their condition and groups, and what is made of their results."""

    window: CountWindow
    condition: Condition
    mode: Mode
    discards: bool

    @property
    def by(self) -> tuple[str, ...]:
        return self.mode[0]

    def operator(self) -> TriggeredCounts:
        by, partition = self.mode
        return TriggeredCounts(
            self.window, FUNCTIONS, by, partition=partition, condition=self.condition, discards=self.discards
        )

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        by, partition = self.mode
        return naive_triggered_ranks(
            self.window, self.condition, ANSWERS, by, moments, partition=partition, discard=self.discards
        )


asked = st.builds(Asked, windows, conditions, modes, st.booleans())
by_rows = st.builds(Asked, windows, combined(st.builds(Rows, st.integers(1, 4))), modes, st.booleans())


def test_the_example() -> None:
    assert doctest.testmod(counted).failed == 0


@share(0.5)
@given(asked, signalled())
def test_windows_fire_as_by_definition_in_pages_of_any_size_and_saved_anywhere(
    one: Asked, elements: list[Moment]
) -> None:
    fires_by_definition(one, elements)


@share(0.25)
@given(by_rows, streams(SCHEMA, group=("k",), tuples=12))
def test_by_rows_every_paging_and_promise_gives_the_same(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, naive=one.naive, order_matters=True)


@share(0.25)
@given(asked, signalled())
def test_what_they_give_converges_to_the_answer_without_triggers(one: Asked, elements: list[Moment]) -> None:
    plain = attrs.evolve(one, condition=Event("never"), discards=False)
    # A partition that is over and comes back counts from 0 again.
    converges(one, plain, elements, (*one.by, "wid"), discards=one.discards)


WINDOW = CountWindow("ts", size=4, slide=4)


def operator(one: Condition, *, discards: bool = False) -> TriggeredCounts:
    return TriggeredCounts(WINDOW, FUNCTIONS, ("k",), condition=one, discards=discards)


def ticks(*times: int) -> Page:
    return Page.of(SCHEMA, {"ts": times, "k": ["a"] * len(times), "v": [3] * len(times)})


def fired(one: Condition, elements: Sequence[Moment], *, discards: bool = False) -> list[tuple[object, ...]]:
    found = run(Asked(WINDOW, one, (("k",), None), discards), elements, saving=True)
    return [(row["n"], row["wid"], row["window_end"], row["final"], row["firing"]) for row in found]


def test_a_window_fires_between_two_tuples_in_their_order() -> None:
    given = [ticks(5, 3, 4, 9, 8, 7), before("ts", 5), before("ts", 9), END]
    assert fired(Rows(2), given) == [
        (2, 0, 4, False, 0), (4, 0, 4, False, 1), (4, 0, 4, True, 2), (2, 1, 8, False, 0), (2, 1, 8, True, 1)
    ]  # fmt: skip
    assert fired(Rows(3), given, discards=True) == [(3, 0, 4, False, 0), (1, 0, 4, True, 1), (2, 1, 8, True, 0)]
    assert fired(Then(Rows(1), Rows(2)), given)[:2] == [(1, 0, 4, False, 0), (3, 0, 4, False, 1)]


def test_signals_fire_what_is_final() -> None:
    given = [ticks(1, 2), FLUSH, before("ts", 2), FLUSH, FLUSH, before("ts", 3), FLUSH, END]
    assert fired(FLUSH, given) == [(1, 0, 4, False, 0), (2, 0, 4, False, 1), (2, 0, 4, True, 2)]
    assert fired(AllOf((FLUSH, Rows(2))), given, discards=True) == [(2, 0, 4, False, 0)]


def test_tuples_are_taken_a_bounded_number_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ticks(*np.random.default_rng(1).permutation(60).tolist())
    right = fired(Rows(3), [page, END])
    monkeypatch.setattr(fired_ranks, "_EXPANDED", 10)
    assert sorted(map(str, fired(Rows(3), [page, END]))) == sorted(map(str, right))


def test_what_is_promised_and_what_is_open() -> None:
    one = operator(Rows(1))
    said = [str(promise) for promise in punctuations(drive(one, [ticks(1, 2, 3, 4, 5), before("ts", 6)]))]
    assert said == ["[k = a, wid < 1]"]
    assert [(row["wid"], row["window_end"]) for row in rows([one.open_windows()])] == [(1, 8)]
    assert one.statistics()["early_results"] == 5


def test_functions_that_depend_on_the_order_have_it() -> None:
    one = TriggeredCounts(WINDOW, {"digits": DIGITS}, condition=Rows(2))
    page = Page.of(SCHEMA, {"ts": [4, 1, 3, 2], "k": ["a"] * 4, "v": [4, 1, 3, 2]})
    right = [joined([{"v": value} for value in range(1, last)]) for last in (3, 5, 5)]
    assert [row["digits"] for row in rows(drive(one, [page, END]))] == right


def test_what_cannot_fire_is_refused_with_its_reasons() -> None:
    with pytest.raises(SchemaError, match="windows of rows have no ticks"):
        operator(Every(4, 4))
    with pytest.raises(SchemaError, match='"firing" is the name'):
        TriggeredCounts(WINDOW, {"firing": count()}, condition=Rows(1)).output_schema(SCHEMA)


def test_a_damaged_state_is_refused() -> None:
    whole = operator(Rows(9))
    drive(whole, [ticks(0, 1, 2, 3, 4), before("ts", 9)])
    state = decode_state(encode_state(whole.state()))
    for row, value in ((GROUP, 40), (SLOT, 90), (ALL_ROWS, 0)):
        damaged = np.array(state["slices.open"])
        damaged[row, 0] = value
        with pytest.raises(ValueError, match="the saved state holds"):
            restore(operator(Rows(9)), {**state, "slices.open": damaged})


def test_a_promise_on_a_range_of_groups_completes_their_windows_before_a_signal() -> None:
    one = Asked(CountWindow("ts", size=2, slide=1), Event("flush"), (("v", "k"), None), discards=False)
    over = Punctuation({"v": Between(3, 4)})
    fires_by_definition(one, [ticks(0, 0), before("ts", 1), ticks(1), over, FLUSH, END])


@st.composite
def fired_windows(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[tuple[int, int]]]:
    """Return how many tuples there are, ranges of them that are windows, and firings: a window, and behind how many."""
    tuples = draw(st.integers(1, 12))
    lows = draw(st.lists(st.integers(0, tuples - 1), min_size=1, max_size=5).map(sorted))
    windows = [(low, draw(st.integers(low + 1, tuples))) for low in lows]
    firings = [
        (window, behind)
        for window, (low, high) in enumerate(windows)
        for behind in sorted(draw(st.sets(st.integers(1, high - low), max_size=3)))
    ]
    return tuples, windows, firings


@given(fired_windows())
def test_slices_hold_what_their_tuples_do_and_no_firing_is_within_one(
    case: tuple[int, list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    tuples, windows, firings = case
    pool = Pool([sum("v").accumulator(SCHEMA)])
    slots = pool.take(tuples)
    each = 1 << np.arange(tuples)
    pool.update(slots, Page.of(SCHEMA, {"ts": range(tuples), "k": ["a"] * tuples, "v": each}))
    lows, highs = np.array(windows).T
    which, behind = np.array(firings, np.int64).reshape(-1, 2).T
    sliced = slice_tuples(pool, slots, lows, highs - lows, which, behind)
    found = np.split(sliced.slots, np.cumsum(sliced.counts)[:-1])

    def held(slots: Slots) -> int:
        return int(pool.accumulators[0].finalize(slots).to_numpy().sum())

    assert [held(some) for some in found] == [each[low:high].sum() for low, high in windows]
    for window, rows_behind, slices in zip(which, behind, sliced.ends, strict=True):
        assert held(found[window][:slices]) == each[lows[window] : lows[window] + rows_behind].sum()
