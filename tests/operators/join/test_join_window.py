"""The intervals, boundaries and reaches of join windows are those of their definition, tick by tick."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.errors import SchemaError
from operators.join import Band, JoinWindow, Steps, WidJoin, widjoin
from operators.join import window as module
from operators.window import SlidingWindow
from tests.examples import share
from tests.naive_join import Meets, band, related
from tests.operators.join.joining import WINDOWS, sliding

TICKS = range(-25, 26)


def pairs(window: JoinWindow, port: int) -> set[tuple[int, int]]:
    """Give all pairs (tick of the port, tick of the other) by the window's intervals and its exact check."""
    ticks = np.array(TICKS)
    low, high = window.partners(ticks, port)
    found: list[tuple[int, int]] = []
    for tick, first, last in zip(TICKS, low.tolist(), high.tolist(), strict=True):
        found += [(tick, other) for other in range(max(first, TICKS[0]), min(last, TICKS[-1]) + 1)]
    one, other = (np.array([pair[i] for pair in found], np.int64) for i in (0, 1))
    exact = window.exact(one, other) if port == 0 else window.exact(other, one)
    return {pair for i, pair in enumerate(found) if exact is None or exact[i]}


def inside(tick: int, window: JoinWindow, port: int) -> bool:
    """Tell whether a tick is in a window at all, where windows have gaps."""
    if isinstance(window, WidJoin):
        first, last = (window.left, window.right)[port].wids(np.array([tick]))
        return bool(first[0] < last[0])
    return True


@pytest.mark.parametrize("name", WINDOWS)
def test_both_sides_see_the_pairs_of_the_definition(name: str) -> None:
    window, meets = WINDOWS[name]
    wanted = {(one, other) for one in TICKS for other in TICKS if meets(one, other)}
    assert {p for p in pairs(window, 0) if inside(p[1], window, 1)} == wanted
    assert {(b, a) for a, b in pairs(window, 1) if inside(b, window, 0)} == wanted


def boundary(window: JoinWindow, meets: Meets, port: int, bound: int) -> None:
    """Check `settled` and `reach` of one port at one bound against all ticks near it."""

    def go_together(own: int, other: int) -> bool:
        return meets(own, other) if port == 0 else meets(other, own)

    near = range(bound - 14, bound + 15)
    open_ticks = [own for own in near if any(go_together(own, other) for other in range(bound, bound + 28))]
    assert [own for own in near if own >= window.settled(bound, port) and inside(own, window, port)] == [
        own for own in near if own >= min(open_ticks) and inside(own, window, port)
    ]
    reached = [other for other in near if any(go_together(own, other) for own in range(bound - 14, bound + 1))]
    assert window.reach(bound, port) >= max(reached)
    assert window.reach(bound, port) == max(reached) or isinstance(window, WidJoin)


@pytest.mark.parametrize("name", WINDOWS)
def test_boundaries_are_exact(name: str) -> None:
    window, meets = WINDOWS[name]
    for port in (0, 1):
        for bound in (-7, -3, -1, 0, 1, 2, 5):
            boundary(window, meets, port, bound)


@share(2.5)
@given(
    left=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    right=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    steps=st.sets(st.integers(-2, 2), min_size=1),
    bound=st.integers(-9, 9),
)
def test_any_relation_of_any_windows_is_that_of_the_definition(
    left: tuple[int, int], right: tuple[int, int], steps: set[int], bound: int
) -> None:
    window = WidJoin(sliding("s", *left), sliding("t", *right), Steps(*steps))
    meets = related(left, right, lambda i, j: j - i in steps)
    ticks = range(bound - 6, bound + 7)
    low, high = window.partners(np.array(ticks), 0)
    for own, first, last in zip(ticks, low.tolist(), high.tolist(), strict=True):
        for other in ticks:
            one, two = np.array([own]), np.array([other])
            exact = window.exact(one, two)
            found = first <= other <= last and inside(other, window, 1) and (exact is None or bool(exact[0]))
            assert found == meets(own, other)


@share(1.5)
@given(left=st.integers(1, 6), right=st.integers(1, 6))
def test_windows_that_slide_by_one_make_the_open_band(left: int, right: int) -> None:
    by_windows = WidJoin(sliding("s", left, 1), sliding("t", right, 1))
    ticks = np.array(TICKS)
    wanted = Band("s", "t", left=left, right=right)
    for port in (0, 1):
        for mine, its in zip(by_windows.partners(ticks, port), wanted.partners(ticks, port), strict=True):
            assert mine.tolist() == its.tolist()
        assert [by_windows.settled(b, port) for b in TICKS] == [wanted.settled(b, port) for b in TICKS]


def test_range_says_how_long_a_tuple_of_that_input_stays() -> None:
    """Q5-8: the Main1 packet follows the Main2 packet within 2 minutes, Main2 follows Main1 within 3 (row 22)."""
    window, meets = Band("ts", "ts", left=3, right=2), band(3, 2)
    assert [v.tolist() for v in window.partners(np.array([10]), 0)] == [[9], [12]]
    assert meets(10, 12) and not meets(10, 13) and meets(10, 9) and not meets(10, 8)


def test_a_relation_of_ones_own_joins_minutes_with_the_hour_they_are_in() -> None:
    class Within:
        """Left window w goes with right window w // 6."""

        def rights(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return first // 6, (last - 1) // 6 + 1

        def lefts(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return first * 6, last * 6

        def related(self, left: object, right: object) -> None:
            return None

    window = WidJoin(sliding("s", 10, 10), sliding("t", 60, 60), Within())
    assert [v.tolist() for v in window.partners(np.array([75, -1]), 0)] == [[60, -60], [119, -1]]
    assert [v.tolist() for v in window.partners(np.array([75]), 1)] == [[60], [119]]
    assert window.settled(100, 0) == 60 and window.settled(100, 1) == 60 and window.reach(75, 0) == 119


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="a relation of no step joins nothing"):
        Steps()
    with pytest.raises(SchemaError, match="no partial windows to leave out"):
        WidJoin(SlidingWindow("s", size=3, slide=1, partial=False), sliding("t", 3, 1))


def test_the_examples_in_the_docstrings_run() -> None:
    for each in (module, widjoin):
        result = doctest.testmod(each)
        assert result.attempted and not result.failed
