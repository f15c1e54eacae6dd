"""`extent()` defines, `wids()` implements: the two agree for every specification, everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.window import FOREVER, LandmarkWindow, PartitionedWindow, SlidingWindow, Window, tumbling

sliding = st.builds(
    SlidingWindow,
    st.just("ts"),
    size=st.integers(1, 12),
    slide=st.integers(1, 7),
    origin=st.integers(-9, 9),
    partial=st.booleans(),
)
landmark = st.builds(LandmarkWindow, st.just("ts"), slide=st.integers(1, 7), origin=st.integers(-9, 9))
partitioned = st.builds(PartitionedWindow, sliding | landmark, st.just(("k",)))
windows = st.one_of(sliding, landmark, partitioned)
values = st.lists(st.integers(-40, 40), min_size=1, max_size=20).map(lambda v: np.array(v, np.int64))


@given(windows, values)
def test_a_tuple_is_in_the_extent_of_exactly_the_windows_that_wids_names(window: Window, ticks: np.ndarray) -> None:
    first, last = window.wids(ticks)
    rows = window.rows if isinstance(window, PartitionedWindow) else window
    for wid in range(-60, 60):
        begin, end = window.extent(wid)
        left_out = isinstance(rows, SlidingWindow) and not rows.partial and begin < rows.origin
        inside = (begin <= ticks) & (ticks < end) & (not left_out)
        np.testing.assert_array_equal(inside, (first <= wid) & (wid < last))


@given(windows, st.integers(-40, 40))
def test_complete_names_exactly_the_windows_that_no_later_value_is_in(window: Window, bound: int) -> None:
    complete = window.complete(bound)
    assert window.extent(complete - 1)[1] <= bound < window.extent(complete)[1]


@given(windows, values)
def test_windows_are_those_with_a_tuple(window: Window, ticks: np.ndarray) -> None:
    found = window.windows(ticks).tolist()
    first, last = window.wids(ticks)
    horizon = int(first.max()) + 1 if (last == FOREVER).any() else int(last.max())
    wanted = [w for w in range(int(first.min()), horizon) if ((first <= w) & (w < last)).any()]
    assert found == wanted


@given(sliding, values)
def test_extents_of_many_windows_are_those_of_each(window: SlidingWindow, wids: np.ndarray) -> None:
    begin, end = window.extents(wids)
    assert list(zip(begin.tolist(), end.tolist(), strict=True)) == [window.extent(w) for w in wids.tolist()]


def test_the_worked_example_of_the_thesis_gives_windows_0_to_9() -> None:
    # Section 5.1.1: RANGE 10 minutes, SLIDE 1 minute, a tuple five seconds after the start.
    first, last = SlidingWindow("ts", size=600, slide=60).wids(np.array([5]))
    assert (first.tolist(), last.tolist()) == ([0], [10])


def test_a_tuple_between_windows_with_gaps_is_in_none() -> None:
    first, last = SlidingWindow("ts", size=2, slide=5).wids(np.array([7]))
    assert first[0] >= last[0]


def test_tumbling_windows_start_at_the_origin_whatever_comes_first() -> None:
    first, last = tumbling("ts", 10, origin=3).wids(np.array([2, 3, 12, 13]))
    assert first.tolist() == [-1, 0, 0, 1]
    assert (last - first).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("size", "slide"), [(0, 1), (1, 0), (-5, 1)])
def test_a_window_of_no_length_is_refused(size: int, slide: int) -> None:
    with pytest.raises(ValueError, match="at least one tick"):
        SlidingWindow("ts", size=size, slide=slide)


def test_the_class_of_a_window_is_derived() -> None:
    rows = SlidingWindow("row_num", size=2, slide=1)
    assert (rows.context, PartitionedWindow(rows, ("k",)).context) == ("CF", "FCF")
