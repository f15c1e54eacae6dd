"""`extent()` defines, `wids()` and `windows()` follow, for windows that other tuples define too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.drive import drive
from operators.errors import SchemaError
from operators.functions import count
from operators.window.counted import CountedWindow, CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.ranked import (
    CountAggregate,
    LastAggregate,
    RankedWindow,
    SlideAggregate,
    ranked_aggregate,
)
from punctuation import END, OneOf, Punctuation, before
from tests.operators.ranked.cases import SCHEMA, by_rank, by_rows, by_tuple, counted, last

sessions = st.builds(SessionWindow, st.just("ts"), gap=st.integers(1, 7))
windows = st.one_of(by_tuple, by_rows, by_rank, counted, last, sessions)
values = st.lists(st.integers(-9, 20), max_size=14).map(lambda found: np.array(found, np.int64))


@given(windows, values)
def test_a_tuple_is_in_the_extent_of_exactly_the_windows_in_its_range(
    window: CountedWindow, ticks: npt.NDArray[np.int64]
) -> None:
    first, last = window.wids(ticks)
    wids = window.windows(ticks)
    assert (np.diff(wids) > 0).all()
    for wid in wids.tolist():
        np.testing.assert_array_equal(window.extent(wid, ticks), (first <= wid) & (wid < last))


@given(windows, values)
def test_every_window_has_a_tuple(window: CountedWindow, ticks: npt.NDArray[np.int64]) -> None:
    assert all(window.extent(wid, ticks).any() for wid in window.windows(ticks).tolist())


@given(counted, values)
def test_count_windows_have_so_many_tuples_in_order(window: CountWindow, ticks: npt.NDArray[np.int64]) -> None:
    ordered = np.sort(ticks)
    for wid in window.windows(ticks).tolist():
        begin, end = ((wid + 1) * window.slide - window.size, (wid + 1) * window.slide)
        inside = window.extent(wid, ticks)
        assert np.sort(ticks[inside]).tolist() == ordered[max(0, begin) : end].tolist()
        assert window.partial or begin >= 0


def test_definitions_by_hand() -> None:
    ticks = np.array([5, 1, 9, 5, 7])
    assert SlideByTuple("ts", size=4).windows(ticks).tolist() == [1, 5, 7, 9]
    # Every second to arrive: 1 and the later 5. In order 1, 5, 5, 7, 9: the first 5 and 7.
    assert SlideByRows("ts", size=4, rows=2).windows(ticks).tolist() == [1, 5]
    assert SlideByRank("ts", size=4, rows=2).windows(ticks).tolist() == [5, 7]
    assert SlideByTuple("ts", size=4).extent(7, ticks).tolist() == [True, False, False, True, True]
    # Of the two fives the first to arrive comes first.
    assert CountWindow("ts", size=2, slide=2).extent(0, ticks).tolist() == [True, True, False, False, False]
    assert LastTuples("ts", size=2, slide=6).extent(0, ticks).tolist() == [True, False, False, True, False]
    assert LastTuples("ts", size=2, slide=2, idle=False).windows(np.array([1, 9])).tolist() == [0, 4]
    assert all(window("ts").context == "FCA" for window in (lambda a: SlideByTuple(a, size=1),))


@pytest.mark.parametrize("size", [0, -1, 1.5, 2**62])
def test_windows_of_no_length_are_refused(size: int) -> None:
    with pytest.raises(SchemaError, match="RANGE must be"):
        SlideByRank("ts", size=size, rows=1)
    with pytest.raises(SchemaError, match="SLIDE must be"):
        SlideByRows("ts", size=1, rows=size)
    with pytest.raises(SchemaError, match="RANGE must be"):
        CountWindow("ts", size=size, slide=1)
    with pytest.raises(SchemaError, match="SLIDE must be"):
        LastTuples("ts", size=1, slide=size)


def test_each_specification_has_its_operator() -> None:
    functions = {"n": count()}
    found = [
        ranked_aggregate(window, functions, ["k"], partition=[])
        for window in (
            SlideByTuple("ts", size=1),
            SlideByRows("ts", size=1, rows=2),
            SlideByRank("ts", size=1, rows=2),
            CountWindow("ts", size=1, slide=1),
            LastTuples("ts", size=1, slide=1),
        )
    ]
    assert [type(operator) for operator in found] == [SlideAggregate] * 3 + [CountAggregate, LastAggregate]
    assert {operator.partition for operator in found} == {()}


@pytest.mark.parametrize(
    "window",
    [
        SlideByTuple("ts", size=4),
        SlideByRank("ts", size=4, rows=1),
        CountWindow("ts", size=1, slide=1),
        LastTuples("ts", size=1, slide=1, idle=False),
    ],
    ids=lambda window: type(window).__name__,
)
def test_many_groups_leave_nothing_behind_once_they_are_over(window: RankedWindow) -> None:
    operator = ranked_aggregate(window, {"n": count()}, ["k"])
    keys = np.arange(2_000)
    results = 0
    for ts in range(4):
        tuples = Page.of(SCHEMA, {"ts": np.full(2_000, ts), "k": keys.astype(str), "v": keys})
        out = drive(operator, [tuples, before("ts", ts + 1)])
        results += sum(len(element) for element in out if isinstance(element, Page))
    drive(operator, [Punctuation({"k": OneOf(keys.astype(str).tolist())})])
    assert (results, operator.statistics()["groups"], operator.statistics()["state_tuples"]) == (8_000, 0, 0)
    assert not [e for e in drive(operator, [END]) if isinstance(e, Page)]
