"""A measure of disorder tells what sorting a stream and looking at every tuple would tell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Int64s
from operators.streams.disorder import Measure, lengths_of
from punctuation import NO_TIME
from punctuation.punctuators import BlockEnd

LENGTHS = (1, 3, 10)
EDGE = st.sampled_from([-(2**63) + 1, -(2**62), 2**62, 2**63 - 1])
TICKS = st.lists(st.one_of(st.integers(-20, 20), st.integers(-5000, 5000), EDGE, st.just(NO_TIME)), max_size=60)
QUANTILES = (0.0, 0.3, 0.5, 0.9, 1.0)


def measured(ticks: list[int], cuts: list[int], samples: int = 0) -> Measure:
    measure = Measure(LENGTHS, samples=samples)
    ends = sorted({0, len(ticks), *(cut % (len(ticks) + 1) for cut in cuts)})
    for start, stop in zip(ends, [*ends[1:], len(ticks)], strict=True):
        measure.observe(np.array(ticks[start:stop], np.int64))
    return measure


def distances(ticks: list[int]) -> list[int]:
    """Give how far each value is behind the largest up to it."""
    there = [t for t in ticks if t != NO_TIME]
    return [max(there[: i + 1]) - t for i, t in enumerate(there)]


def pieces(ticks: list[int]) -> list[int]:
    """Give the sizes of the fewest pieces of which each is not below those before it."""
    found, size = [], 0
    for i in range(len(ticks)):
        size += 1
        if max(ticks[: i + 1]) <= min(ticks[i + 1 :], default=max(ticks)):
            found.append(size)
            size = 0
    return found


def near(found: int, exact: int) -> bool:
    """Tell whether a distance is the exact one or up to a thousandth more."""
    return exact <= found <= exact + exact // 1000


@given(TICKS, st.lists(st.integers(0, 60), max_size=4))
def test_counts_and_distances_are_those_of_every_tuple_looked_at(ticks: list[int], cuts: list[int]) -> None:
    measure, behind = measured(ticks, cuts), distances(ticks)
    late = sorted(d for d in behind if d)
    assert (measure.seen, measure.nulls, measure.late) == (len(behind), ticks.count(NO_TIME), len(late))
    assert measure.most == max(behind, default=0)
    if late:
        assert behind[measure.most_at] == measure.most == max(late)
        for q in QUANTILES:
            exact = late[max(int(np.ceil(q * len(late))), 1) - 1]
            assert near(measure.quantile(q) or 0, exact)
    else:
        assert measure.quantile(0.5) is None
    there = [t for t in ticks if t != NO_TIME]
    assert measure.extent == ((min(there), max(there)) if there else None)


@given(TICKS, st.sampled_from([0.0, 0.1, 0.4, 0.9]))
def test_no_more_than_the_share_is_beyond_a_slack_and_less_slack_would_not_do(ticks: list[int], share: float) -> None:
    measure, behind = measured(ticks, []), distances(ticks)
    slack = measure.slack(share)
    allowed = int(share * len(behind))
    assert sum(d > slack for d in behind) <= measure.beyond(slack) <= allowed
    exact = next((d for d in [0, *sorted(behind)] if sum(e > d for e in behind) <= allowed), 0)
    assert near(slack, exact)


@given(TICKS, st.integers(0, 200))
def test_what_may_be_beyond_a_slack_is_counted(ticks: list[int], slack: int) -> None:
    measure, behind = measured(ticks, []), distances(ticks)
    assert measure.beyond(slack) >= sum(d > slack for d in behind)
    assert slack > 2000 or measure.beyond(slack) == sum(d > slack for d in behind)


@given(st.lists(st.integers(-50, 50), max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_the_promise_of_blocks_is_broken_as_often_as_the_punctuator_says(ticks: list[int], cuts: list[int]) -> None:
    broken = measured(ticks, cuts).broken()
    for length in LENGTHS:
        punctuator, bound, late = BlockEnd("ts", length=length), None, 0
        for tick in ticks:
            late += bound is not None and tick < bound
            _, bounds = punctuator.observe(np.array([tick], np.int64))
            bound = int(bounds[-1]) if len(bounds) else bound
        assert broken[length] == late


@given(st.lists(st.integers(-30, 30), max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_blocks_are_the_fewest_ascending_pieces(ticks: list[int], cuts: list[int]) -> None:
    shaped, sizes = measured(ticks, cuts).shape(), pieces(ticks)
    several = [size for size in sizes if size > 1]
    assert (shaped.blocks, shaped.in_blocks, shaped.largest) == (len(several), sum(several), max(several, default=0))
    assert shaped.beyond == 0


@given(st.lists(st.integers(-30, 30), max_size=60))
def test_the_largest_rise_is_found_and_what_came_back_from_it(ticks: list[int]) -> None:
    jump, at, behind = measured(ticks, [7]).jump
    rises = [(ticks[i] - max(ticks[:i]), i) for i in range(1, len(ticks)) if ticks[i] > max(ticks[:i])]
    if not rises:
        assert jump == 0
        return
    assert jump == max(rise for rise, _ in rises)
    assert at == min(i for rise, i in rises if rise == jump)
    assert behind == sum(max(ticks[: i + 1]) - ticks[i] > jump // 2 for i in range(at + 1, len(ticks)))


@given(TICKS, st.lists(st.integers(0, 60), max_size=4), st.integers(1, 9))
def test_points_are_tuples_of_the_stream_and_the_furthest_behind_is_one(
    ticks: list[int], cuts: list[int], samples: int
) -> None:
    measure, behind = measured(ticks, cuts, 2 * samples), distances(ticks)
    there = [t for t in ticks if t != NO_TIME]
    points = measure.points()
    for point in points:
        assert point.value == there[point.place]
        assert point.behind % 2**64 == behind[point.place]
    assert bool(points) == bool(there)
    assert measure.most in [point.behind % 2**64 for point in points] or not measure.most
    assert len(points) <= 2 * samples + 1024


def blocks(random: np.random.Generator, sizes: list[int]) -> Int64s:
    ends = np.cumsum([0, *sizes])
    return np.concatenate([random.permutation(np.arange(a, b)) for a, b in pairwise(ends)])


def test_shapes_are_told_apart() -> None:
    random = np.random.default_rng(7)
    order = np.arange(10_000)
    band = order[np.argsort(order + random.integers(0, 300, len(order)), kind="stable")]
    sparse = order[np.argsort(order + np.where(random.random(len(order)) < 0.01, 50, 0), kind="stable")]
    shapes = [("in order", order), ("band", band), ("band", sparse), ("block-sorted", blocks(random, [500] * 20))]
    shapes += [("block-sorted", blocks(random, [200, 900, 400, 30, 700])), ("band", blocks(random, [5000, 40]))]
    for shape, values in shapes:
        measure = Measure(LENGTHS)
        measure.observe(values)
        assert measure.shape().shape == shape


def test_blocks_that_are_not_remembered_are_settled_and_a_value_below_them_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operators.streams.disorder.STACK", 8)
    values = [v for k in range(40) for v in (10 * k + 1, 10 * k)]
    measure = Measure()
    measure.observe(np.array(values))
    assert (measure.shape().blocks, measure.shape().in_blocks, measure.shape().beyond) == (40, 80, 0)
    measure.observe(np.array([5]))
    assert measure.shape().beyond == 1
    assert measure.most == 386


def test_a_value_from_the_future_leaves_all_others_behind() -> None:
    measure = Measure()
    measure.observe(np.array([1, 2, 3, 1000, 4, 5, 6]))
    assert measure.jump == (997, 3, 3)
    lull = Measure()
    lull.observe(np.array([1, 2, 3, 1000, 1001, 999]))
    assert lull.jump == (997, 3, 0)


def test_many_points_are_thinned_and_stay_in_order() -> None:
    measure = Measure(samples=64)
    values = np.arange(100_000)
    values[70_000] = 5
    for start in range(0, len(values), 999):
        measure.observe(values[start : start + 999])
    points = measure.points()
    assert 32 <= len(points) <= 66
    assert (70_000, 5, 69_994) in [(p.place, p.value, p.behind) for p in points]
    gaps = np.diff([p.place for p in points if not p.behind])
    assert len(set(gaps.tolist())) <= 2


def test_lengths_are_those_of_clocks() -> None:
    assert lengths_of(1)[:4] == (1, 2, 5, 10)
    assert lengths_of(10**9)[0] == 10**6
    assert lengths_of(None)[:5] == (1, 2, 5, 10, 20)
