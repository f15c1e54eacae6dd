"""Punctuators against definitions written tuple by tuple, at any page size; what they promise is true."""

from __future__ import annotations

import json
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punctuation import (
    NEVER,
    NO_TIME,
    BlockEnd,
    Embedded,
    Heartbeat,
    Ordered,
    Punctuator,
    Schedule,
    Scheduled,
    Slack,
    SuffixMinimum,
    TupleSlack,
    low_watermarks,
    schedule,
)
from punctuation.largest import running_largest

values_lists = st.lists(st.one_of(st.integers(-20, 40), st.just(NO_TIME)), max_size=40)
paces = st.fixed_dictionaries(
    {
        "every": st.one_of(st.none(), st.integers(1, 7)),
        "step": st.one_of(st.none(), st.integers(1, 9)),
        "origin": st.integers(-5, 5),
    }
)
cuts = st.lists(st.integers(0, 40), max_size=6)


def pages(values, cut):
    array = np.array(values, np.int64)
    edges = sorted({0, len(values), *(c for c in cut if c <= len(values))})
    return [array[a:b] for a, b in pairwise(edges)]


def observed(punctuator, parts):
    """Collect promises as (global position, bound)."""
    said, start = [], 0
    for part in parts:
        positions, bounds = punctuator.observe(part)
        assert positions.dtype == bounds.dtype == np.int64
        assert all(0 <= p < len(part) for p in positions.tolist())
        said += [(start + p, b) for p, b in zip(positions.tolist(), bounds.tolist(), strict=True)]
        start += len(part)
    return said


def paced(bounds, every, step, origin):
    """What is said of a bound after each tuple (None: nothing is known), by the definition of the granularity."""
    said, last = [], None
    for i, bound in enumerate(bounds):
        if bound is None or (every and (i + 1) % every):
            continue
        if step:
            bound = origin + (bound - origin) // step * step
        if last is None or bound > last:
            said.append((i, bound))
            last = bound
    return said


def highest(values, shift):
    bounds, best = [], None
    for v in values:
        if v != NO_TIME:
            best = v if best is None else max(best, v)
        bounds.append(None if best is None else best + shift)
    return bounds


def naive_tuple_slack(values, n, displacement):
    bounds = []
    for i in range(len(values)):
        seen = values[: i + 1]
        if displacement == "position":
            known = [v for v in seen[: max(0, len(seen) - n)] if v != NO_TIME]
            bounds.append(max(known) if known else None)
        else:
            known = sorted((v for v in seen if v != NO_TIME), reverse=True)
            bounds.append(known[n] if len(known) > n else None)
    return bounds


@settings(deadline=None)
@given(values_lists, paces, cuts)
def test_ordered_promises_the_last_value(values, pace, cut):
    assert observed(Ordered("ts", **pace), pages(values, cut)) == paced(highest(values, 0), **pace)
    assert observed(Ordered("ts", strictly=True, **pace), pages(values, cut)) == paced(highest(values, 1), **pace)


@settings(deadline=None)
@given(values_lists, st.integers(0, 9), paces, cuts)
def test_slack_promises_the_highest_value_less_the_slack(values, slack, pace, cut):
    assert observed(Slack("ts", slack, **pace), pages(values, cut)) == paced(highest(values, -slack), **pace)


@settings(deadline=None)
@given(values_lists, st.integers(0, 6), st.sampled_from(["position", "larger"]), paces, cuts)
def test_tuple_slack_follows_both_readings_of_semantics_row_34(values, n, displacement, pace, cut):
    expected = paced(naive_tuple_slack(values, n, displacement), **pace)
    assert observed(TupleSlack("ts", n, displacement=displacement, **pace), pages(values, cut)) == expected


@settings(deadline=None)
@given(values_lists, st.integers(1, 9), st.integers(-9, 9), paces, cuts)
def test_block_end_promises_the_start_of_the_block_in_progress(values, length, begin, pace, cut):
    bounds = [None if b is None else begin + (b - begin) // length * length for b in highest(values, 0)]
    assert observed(BlockEnd("ts", length=length, begin=begin, **pace), pages(values, cut)) == paced(bounds, **pace)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-20, 40), st.integers(0, 3)), max_size=40), paces, cuts)
def test_numbered_blocks_promise_the_highest_value_before_the_block(rows, pace, cut):
    punctuator = BlockEnd("ts", block="block", **pace)
    said, start = [], 0
    for part in pages([i for i in range(len(rows))], cut):
        values = np.array([rows[i][0] for i in part], np.int64)
        numbers = np.array([rows[i][1] for i in part], np.int64)
        positions, bounds = punctuator.observe_blocks(values, numbers)
        said += [(start + p, b) for p, b in zip(positions.tolist(), bounds.tolist(), strict=True)]
        start += len(part)
    bounds, known = [], None
    for i, (_, number) in enumerate(rows):
        if i and number != rows[i - 1][1]:
            known = max(v for v, _ in rows[:i])
        bounds.append(known)
    assert said == paced(bounds, **pace)


@settings(deadline=None)
@given(values_lists, paces, cuts, st.sampled_from([1, 3, schedule._TOGETHER]), st.sampled_from([1, 2, 1024]))
def test_a_schedule_is_the_low_watermark_at_any_granularity(values, pace, cut, together, block):
    collected = SuffixMinimum(step=pace["step"] or 3, origin=pace["origin"])
    sizes = {"_TOGETHER": together, "_BLOCK": block, "_WORTH": block}
    with patch.multiple(schedule, **sizes):
        for part in pages(values, cut):
            collected.feed(part)
    finished = collected.finish()
    assert collected.count == len(values)
    step, origin = pace["step"] or 3, pace["origin"]
    follows = low_watermarks(np.array(values, np.int64)).tolist()
    truth = [None if v == NEVER else v for v in follows]
    exact = paced(truth, None, step, origin)
    # What is true before the first tuple (its step) is not worth saying.
    first = min((v for v in values if v != NO_TIME), default=None)
    if exact and exact[0][1] <= origin + (first - origin) // step * step:
        exact = exact[1:]
    assert list(zip(finished.positions.tolist(), finished.bounds.tolist(), strict=True)) == exact
    said = observed(Scheduled("ts", finished, **pace), pages(values, cut))
    known = dict(exact)
    bounds, last = [], None
    for i in range(len(values)):
        last = known.get(i, last)
        bounds.append(last)
    assert said == paced(bounds, **pace)


def test_the_blockwise_schedule_is_exact_at_the_ends_of_its_blocks():
    random = np.random.default_rng(3)
    values = np.arange(10_000) + random.integers(0, 900, 10_000)
    values[random.integers(0, 10_000, 300)] = NO_TIME
    whole, cut = SuffixMinimum(), SuffixMinimum()
    whole.feed(values)
    for start in range(0, len(values), 777):
        part = values[start : start + 777]
        cut.feed(np.where(part == NO_TIME, 5, part), valid=part != NO_TIME)
    schedule, again = whole.finish(), cut.finish()
    np.testing.assert_array_equal(schedule.positions, again.positions)
    np.testing.assert_array_equal(schedule.bounds, again.bounds)
    assert len(schedule) == 9
    np.testing.assert_array_equal(low_watermarks(values)[schedule.positions], schedule.bounds)


@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 2048, 2049])
def test_the_blockwise_schedule_never_promises_what_follows(length):
    values = np.arange(length, dtype=np.int64)
    for size in (1, 1000, 1024, 5000):
        collected = SuffixMinimum()
        for start in range(0, length, size):
            collected.feed(values[start : start + size])
        schedule = collected.finish()
        assert schedule.positions.tolist() == [p for p in range(1023, length - 1, 1024)]
        assert schedule.bounds.tolist() == [p + 1 for p in range(1023, length - 1, 1024)]


def test_a_schedule_keeps_an_entry_a_step_not_a_tuple():
    collected = SuffixMinimum(step=1000)
    for start in range(0, 600_000, 50_000):
        collected.feed(np.arange(start, start + 50_000) // 2)
    assert len(collected.finish()) == 299


@settings(deadline=None)
@given(values_lists)
def test_low_watermarks_are_the_least_of_the_suffix(values):
    expected = [min((v for v in values[i + 1 :] if v != NO_TIME), default=NEVER) for i in range(len(values))]
    assert low_watermarks(np.array(values, np.int64)).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.randoms(use_true_random=False), paces, cuts)
def test_every_promise_is_true_when_the_disorder_is_within_the_allowance(values, random, pace, cut):
    random.shuffle(values)
    array = np.array(values, np.int64)
    lwm = low_watermarks(array)
    lag = int((np.maximum.accumulate(array) - array).max())
    ahead = max(max((i - j for j, w in enumerate(values[:i]) if w > v), default=0) for i, v in enumerate(values))
    larger = max(sum(w > v for w in values[:i]) for i, v in enumerate(values))
    collected = SuffixMinimum(step=pace["step"], origin=pace["origin"])
    collected.feed(array)
    for punctuator in (
        Slack("ts", lag, **pace),
        TupleSlack("ts", ahead, **pace),
        TupleSlack("ts", larger, displacement="larger", **pace),
        Scheduled("ts", collected.finish(), **pace),
    ):
        for position, bound in observed(punctuator, pages(values, cut)):
            assert bound <= lwm[position], punctuator


def test_position_slack_is_about_larger_values_ahead_not_about_the_sorted_place():
    values = np.array([2, 0, 3, 1])
    assert all(abs(i - place) <= 2 for i, place in enumerate(np.argsort(np.argsort(values))))
    assert observed(TupleSlack("ts", 2), [values])[0] == (2, 2), "1 follows"
    assert all(b <= low_watermarks(values)[p] for p, b in observed(TupleSlack("ts", 3), [values]))


@settings(deadline=None)
@given(st.lists(st.integers(-50, 50), max_size=30), st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_running_largest_is_a_heap_of_k(before, values):
    for k in (1, 2, 5):
        kept = np.sort(np.array(before + [NO_TIME] * k))[-k:]
        found, after = running_largest(kept, np.array(values))
        expected = [
            sorted([*before, *values[: i + 1], *([NO_TIME] * k)], reverse=True)[k - 1] for i in range(len(values))
        ]
        assert found.tolist() == expected
        assert after.tolist() == sorted([*before, *values, *([NO_TIME] * k)])[-k:]


def every_kind() -> list[Punctuator]:
    schedule = Schedule(np.array([2, 5, 9]), np.array([1, 4, 8]))
    return [
        Ordered("ts", every=3),
        Slack("ts", 4, step=5),
        TupleSlack("ts", 3, lull=2),
        TupleSlack("ts", 3, displacement="larger", every=2),
        BlockEnd("ts", length=6),
        Scheduled("ts", schedule, every=4),
        Heartbeat("ts", {"Main1": (1, 2)}),
        Embedded("ts", marker="mark"),
    ]


@pytest.mark.parametrize("kind", range(8))
def test_memory_survives_saving_as_json(kind):
    values = np.array([3, 1, 9, 4, 12, 11, 15, 2, 20, 19, 25, 21])
    for cut in range(len(values) + 1):
        whole, first, second = (every_kind()[kind] for _ in range(3))
        positions, bounds = whole.observe(values)
        head = first.observe(values[:cut])
        second.restore(json.loads(json.dumps(first.state())))
        tail = second.observe(values[cut:])
        assert np.append(head[0], tail[0] + cut).tolist() == positions.tolist()
        assert np.append(head[1], tail[1]).tolist() == bounds.tolist()
        assert whole.elapse(40) == second.elapse(40)
        assert isinstance(whole, Punctuator)


@pytest.mark.parametrize("kind", range(8))
def test_foreign_memory_is_refused(kind):
    with pytest.raises((ValueError, TypeError)):
        every_kind()[kind].restore([1, 2, 3, 4, 5, 6, 7])


def test_a_lull_promises_by_the_clock_but_never_falls_back():
    punctuator = Slack("ts", 2, lull=10)
    assert punctuator.observe(np.array([100]))[1].tolist() == [98]
    assert punctuator.elapse(110) is None, "the data is not more than the lull behind"
    assert punctuator.elapse(111) == 101
    assert punctuator.elapse(111) is None, "said once"
    assert punctuator.elapse(105) is None, "a clock that is set back changes nothing"
    assert punctuator.observe(np.array([102, 103, 104]))[1].tolist() == [102]
    assert Slack("ts", 50, lull=10).elapse(30) == 20, "a source silent from the start does not block either"
    assert Slack("ts", 2).elapse(10**6) is None
    slow = Ordered("ts", every=10, lull=5)
    slow.observe(np.array([7, 50]))
    assert slow.elapse(60) == 55
    rounded = Ordered("ts", step=10, lull=5)
    rounded.observe(np.array([7]))
    assert rounded.elapse(28) == 20


def test_a_heartbeat_is_the_least_over_its_sources():
    punctuator = Heartbeat("ts", {"Main1": (1, 20), "Main2": (5, 2), "Control": (0, 0)}, step=10)
    assert punctuator.observe(np.arange(5))[0].tolist() == []
    assert punctuator.elapse(121) == 100
    assert punctuator.elapse(129) is None
    assert punctuator.elapse(131) == 110


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Slack("ts", -1), "slack"),
        (lambda: Ordered("ts", every=0), "every"),
        (lambda: Ordered("ts", step=0), "step"),
        (lambda: SuffixMinimum(step=0), "step"),
        (lambda: BlockEnd("ts"), "length"),
        (lambda: BlockEnd("ts", length=1, block="b"), "length"),
        (lambda: Heartbeat("ts", {}), "source"),
        (lambda: TupleSlack("ts", 1, displacement="late"), "displacement"),
    ],
)
def test_parameters_that_mean_nothing_are_refused_with_their_name(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def test_bounds_stay_within_int64():
    least, most = NO_TIME, NEVER
    assert Slack("ts", 10).observe(np.array([least + 3, least + 30]))[1].tolist() == [least + 20]
    assert Ordered("ts", strictly=True).observe(np.array([most - 1, most]))[1].tolist() == [most]
    assert Ordered("ts", step=10).observe(np.array([least + 1]))[1].tolist() == []
