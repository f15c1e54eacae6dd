"""Slices are minimal: as many as there are distinct edges of windows between tuples, and sessions add their gaps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.drive import drive
from operators.functions import count
from operators.functions import max as greatest
from operators.window import SlidingWindow
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import before
from tests.operators.slicing.mixes import SCHEMA, bands_alone

TICKS = range(40)
Band = SlidingWindow | FixedBandWindow


def extents(window: Band) -> list[tuple[int, int]]:
    """List the windows that meet the ticks, from their definition."""
    if isinstance(window, FixedBandWindow):
        return [(window.start, window.start + window.size)]
    found = [window.extent(wid) for wid in range(-60, 60) if wid >= window.least]
    return [(begin, end) for begin, end in found if end > 0 and begin < len(TICKS)]


def edges(windows: list[Band]) -> list[int]:
    """List the distinct edges, and the two ends of the ticks."""
    inner = {edge for window in windows for extent in extents(window) for edge in extent if 0 < edge < len(TICKS)}
    return [0, *sorted(inner), len(TICKS)]


def covered(tick: int, windows: list[Band]) -> bool:
    return any(begin <= tick < end for window in windows for begin, end in extents(window))


def held(operator: SlicingAggregate, ticks: list[int], keys: list[str]) -> dict[str, int]:
    drive(operator, [Page.of(SCHEMA, {"ts": ticks, "k": keys, "v": ticks})])
    return operator.statistics()


@pytest.mark.parametrize("by", [(), ("k",)])
@given(bands_alone, st.randoms(use_true_random=False))
def test_there_are_as_many_slices_as_stretches_between_edges(
    by: tuple[str, ...], mix: dict[str, Band], luck: np.random.RandomState
) -> None:
    windows = list(mix.values())
    ticks = [tick for tick in TICKS for _ in "ab"]
    luck.shuffle(ticks)  # type: ignore[arg-type]
    operator = SlicingAggregate(mix, {"n": count()}, by)
    told = held(operator, ticks, ["a"] * len(ticks))
    stretches = [(low, high) for low, high in pairwise(edges(windows)) if covered(low, windows)]
    assert told["slices"] == told["cells"] == len(stretches)


@given(bands_alone)
def test_behind_a_promise_slices_are_those_between_begins_of_open_windows(mix: dict[str, Band]) -> None:
    """Ends of windows that are over, and begins that no open window has, tell nothing apart any more (lazy store)."""
    windows = list(mix.values())
    operator = SlicingAggregate(mix, {"n": count()}, store="lazy")
    held(operator, list(TICKS), ["a"] * len(TICKS))
    bound = 30
    drive(operator, [before("ts", bound)])
    begins = {begin for window in windows for begin, end in extents(window) if end > bound}
    apart = {edge for edge in edges(windows) if edge >= bound} | {begin for begin in begins if begin < bound}
    first = min(begins, default=len(TICKS))
    stretches = [
        (low, high) for low, high in pairwise(sorted({*apart, max(0, first), bound, len(TICKS)}))
        if low >= max(0, first) and high > low and any(covered(tick, windows) for tick in range(low, high))
    ]  # fmt: skip
    # The slice that the bound is in may begin before it.
    assert operator.statistics()["slices"] <= len(stretches)


@given(st.lists(st.integers(0, 39), min_size=1, max_size=30), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_sessions_share_the_slices_of_the_smallest_gap(ticks: list[int], gaps: list[int]) -> None:
    windows = {f"w{place}": SessionWindow("ts", gap=gap) for place, gap in enumerate(gaps)}
    told = held(SlicingAggregate(windows, {"n": count()}), ticks, ["a"] * len(ticks))
    rising = sorted(set(ticks))
    assert told["slices"] == 1 + sum(two - one >= min(gaps) for one, two in pairwise(rising))


@pytest.mark.parametrize("by", [("k",), ()])
def test_a_thousand_windows_take_each_tuple_once_into_the_slices_of_one(
    by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: the tuples that are added, the slices, and the aggregates that are combined for a result."""
    calls = dict.fromkeys(("update", "combine"), 0)
    verbs: Any = type(greatest("v").accumulator(SCHEMA))
    for verb in calls:
        plain = getattr(verbs, verb)

        def counting(own: Any, slots: Any, other: Any, verb: str = verb, plain: Any = plain) -> None:
            calls[verb] += len(slots)
            plain(own, slots, other)

        monkeypatch.setattr(verbs, verb, counting)
    ticks = np.arange(1_000)
    values = (ticks * 7919) % 10_007
    page = Page.of(SCHEMA, {"ts": ticks, "k": ["a"] * len(ticks), "v": values})
    slices: list[int] = []
    for many in (1, 1_000):
        calls.update(update=0)
        mix = {f"w{place}": SlidingWindow("ts", size=10 * (place + 1), slide=10) for place in range(many)}
        operator = SlicingAggregate(mix, {"m": greatest("v")}, by)
        drive(operator, [page])
        slices.append(operator.statistics()["slices"])
        assert calls["update"] == len(ticks)
    assert slices == [100, 100]
    if by:
        return
    calls.update(combine=0)
    found = [element for element in drive(operator, [before("ts", 300)]) if isinstance(element, Page)]
    ends = np.concatenate([element.ticks("window_end") for element in found])
    starts = np.concatenate([element.ticks("window_start") for element in found])
    assert len(ends) == 30 * 1_000 and ends.max() == 300
    assert calls["combine"] <= 10 * len(ends), "in a tree over 100 slices, of which a window has up to 30"
    answers = np.concatenate([element.ticks("m") for element in found])
    for place in range(0, len(ends), 997):
        assert answers[place] == values[max(0, int(starts[place])) : int(ends[place])].max()
