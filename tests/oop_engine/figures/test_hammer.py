"""The figures of Hammer Slide: their series agree with loops, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.figures.figure import Figure, Measured
from oop_engine.figures.hammer import bursts, parts, sliding
from oop_engine.figures.hammer.replay import OVER_PANES, PLAIN, Replay, Windows, integers, same
from oop_engine.figures.hammer.sliding import EVICT, FAST_EVICT, FAST_TWO, SCAN, TWO

TECHNIQUES = ("recompute", "subtract", "two_stacks", "daba", "scan")


@given(
    st.lists(st.integers(-3, 3), min_size=30, max_size=80), st.integers(1, 12), st.integers(1, 12), st.integers(1, 40)
)
def test_all_forms_give_what_a_loop_gives(numbers: list[int], size: int, slide: int, page: int) -> None:
    slide = min(size, slide)
    windows = Windows.of(np.array(numbers, np.int32), size, slide)
    ends = range(slide, len(numbers) + 1, slide)
    parts_ = [numbers[end - size : end] for end in ends if end >= size]
    for what, naive in (("min", min), ("sum", sum)):
        plain = [*TECHNIQUES, *(["minimal"] if what == "min" else [])]
        over = [*TECHNIQUES[:4], *(["runs"] if what == "min" else [])]
        found = same(windows, plain, [Replay(t, what, size, slide, page) for t in over], what)
        assert found.tolist() == [naive(part) for part in parts_]


def test_windows_of_time_with_gaps_are_those_of_a_loop() -> None:
    ts, values = bursts.bursts(140, 60), integers(10_000, 50)
    second, values = 1_000_000, values[: len(ts)]
    for slide in (1, 8, 64):
        ends = [end for end in range(64, 139, slide) if end % slide == 0]
        expected = [int(values[(ts >= (end - 64) * second) & (ts < end * second)].sum()) for end in ends]
        for technique in OVER_PANES.values():
            replay = Replay(technique, "sum", 64 * second, slide * second, page=97)
            wids = np.array([end // slide - 1 for end in ends])
            assert bursts.answers(replay, ts, values, wids) == expected


def test_an_answer_that_differs_is_named() -> None:
    windows = Windows.of(integers(100), 10, 1)
    with pytest.raises(oop.PlanError, match="give different answers"):
        same(windows, ["scan"], [Replay("two_stacks", "sum", 9, 1)], "min")


def outcome(figure: Figure, x: str, y: str, **series: Mapping[Any, float]) -> str:
    rows = [{"series": name, x: at, y: value} for name, values in series.items() for at, value in values.items()]
    return figure.judge(Measured.of(rows)).outcome


def curves(**by: list[float]) -> dict[str, list[float]]:
    names = {"scan": SCAN, "evict": EVICT, "two": TWO, "fast_evict": FAST_EVICT, "fast": FAST_TWO}
    return {names[name]: values for name, values in by.items()}


def over(figure: Figure, x: str, places: list[float], values: dict[str, list[float]]) -> str:
    return outcome(figure, x, "rate", **{name: dict(zip(places, own, strict=True)) for name, own in values.items()})


def test_throughput_by_slide() -> None:
    plain = curves(scan=[4, 90, 900], evict=[90, 90, 90], two=[80, 45, 90])
    good = {**plain, **curves(fast_evict=[95, 400, 900], fast=[99, 500, 880])}
    for figure in (sliding.FIG_6, sliding.FIG_7):
        assert over(figure, "slide", [1, 64, 1024], good) == "holds"
        assert over(figure, "slide", [1, 64, 1024], {**good, FAST_TWO: [99, 300, 880]}) == "does not hold"
        assert over(figure, "slide", [1, 64, 1024], {**good, FAST_TWO: [99, 500, 700]}) == "does not hold"
        assert over(figure, "slide", [1, 64, 1024], {**good, TWO: [80, 490, 300]}) == "does not hold"


def test_throughput_by_window() -> None:
    plain = curves(scan=[100, 10, 0.1], evict=[90, 40, 2], two=[80, 70, 60])
    assert over(sliding.FIG_4A, "window", [8, 1024, 32768], plain) == "holds"
    assert over(sliding.FIG_4A, "window", [8, 1024, 32768], {**plain, TWO: [80, 40, 20]}) == "does not hold"
    assert over(sliding.FIG_4A, "window", [8, 1024, 32768], {**plain, EVICT: [90, 88, 85]}) == "does not hold"
    good = {**plain, **curves(fast_evict=[100, 60, 5], fast=[100, 110, 90])}
    for figure in (sliding.FIG_9, sliding.FIG_10):
        assert over(figure, "window", [8, 1024, 32768], good) == "holds"
        assert over(figure, "window", [8, 1024, 32768], {**good, FAST_TWO: [100, 110, 30]}) == "does not hold"
        assert over(figure, "window", [8, 1024, 32768], {**good, SCAN: [100, 10, 5]}) == "does not hold"
    assert over(sliding.FIG_10, "window", [8, 1024, 32768], {**good, FAST_EVICT: [100, 40, 5]}) == "does not hold"


def test_throughput_by_recomputation() -> None:
    good = curves(evict=[90, 9, 1], two=[80, 60, 70], fast_evict=[90, 40, 10], fast=[99, 90, 95])
    assert over(sliding.FIG_8, "share", [0.1, 10, 100], good) == "holds"
    assert over(sliding.FIG_8, "share", [0.1, 10, 100], {**good, TWO: [80, 60, 20]}) == "does not hold"
    assert over(sliding.FIG_8, "share", [0.1, 10, 100], {**good, FAST_EVICT: [90, 80, 70]}) == "does not hold"


def test_throughput_by_bursts() -> None:
    good = curves(scan=[9, 90], evict=[50, 50], two=[50, 52], fast_evict=[90, 100], fast=[90, 100])
    assert over(bursts.FIG_11, "slide", [1, 64], good) == "holds"
    assert over(bursts.FIG_11, "slide", [1, 64], {**good, SCAN: [9, 200]}) == "does not hold"
    assert over(bursts.FIG_11, "slide", [1, 64], {**good, FAST_EVICT: [55, 100]}) == "does not hold"
    assert over(bursts.FIG_11, "slide", [1, 64], {**good, TWO: [20, 52]}) == "does not hold"


def test_bandwidth_and_parts_of_the_time() -> None:
    assert outcome(parts.FIG_1, "slide", "share", **{SCAN: {1: 0.05, 1024: 21}}) == "holds"
    assert outcome(parts.FIG_1, "slide", "share", **{SCAN: {1: 0.5, 1024: 21}}) == "does not hold"
    assert outcome(parts.FIG_1, "slide", "share", **{SCAN: {1: 0.05, 1024: 60}}) == "does not hold"
    sliding_ = dict.fromkeys(PLAIN, 3.0)
    assert outcome(parts.FIG_4B, "form", "share", **{parts.READING: sliding_}) == "holds"
    assert outcome(parts.FIG_4B, "form", "share", **{parts.READING: {**sliding_, TWO: 60.0}}) == "does not hold"
    tumbling = {SCAN: 50.0, FAST_EVICT: 40.0, FAST_TWO: 30.0, EVICT: 4.0, TWO: 5.0}
    assert outcome(parts.FIG_12, "form", "share", **{parts.READING: tumbling}) == "holds"
    assert outcome(parts.FIG_12, "form", "share", **{parts.READING: {**tumbling, FAST_TWO: 9.0}}) == "does not hold"
    assert outcome(parts.FIG_12, "form", "share", **{parts.READING: {**tumbling, TWO: 40.0}}) == "does not hold"


def test_each_optimisation_is_judged() -> None:
    names = (parts.RING, parts.MINIMAL, parts.BULK, parts.PLAIN_FRONT, parts.RUNS)

    def bars(*spent: float) -> str:
        return outcome(parts.FIG_BARS, "form", "nanoseconds", min=dict(zip(names, spent, strict=True)))

    assert bars(5, 4, 1, 3, 3.4) == "holds"
    assert bars(4, 5, 1, 3, 3.4) == bars(5, 4, 4.5, 3, 3.4) == bars(5, 4, 1, 3, 2.9) == "does not hold"
    assert bars(5, 4, 1, 3, 4.4) == "does not hold"
