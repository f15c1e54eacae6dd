"""Promises by key: the kernel against its naive twin, at any page size, saved in between, and in an Input."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.streams.by_key import NAMED, ByKey, Slowest
from operators.streams.clamp import AGREE
from operators.streams.input import Input
from punctuation import END, NEVER, NO_TIME
from punctuation.demanded_progress import known, regrain
from tests.naive_by_key import naive_by_key

FIELDS = [pa.field("k", pa.string()), pa.field("n", pa.int64())]
SCHEMA = Schema.of(k=pa.string(), ts=pa.int64())
names = st.sampled_from(["a", "a", "b", "b", "c", None])
times = st.one_of(st.integers(0, 60), st.integers(0, 60), st.sampled_from([400, 410, NO_TIME, NO_TIME + 1, NEVER]))
#: Keys take turns, or one of them has a long run, so that others fall idle and jumps are believed.
spells = st.one_of(
    st.lists(st.tuples(names, times), max_size=8),
    st.tuples(names, st.integers(0, 900), st.integers(1, AGREE + 6), st.integers(0, 9)).map(
        lambda r: [(r[0], r[1] + i * r[3]) for i in range(r[2])]
    ),
)
scripts = st.lists(spells, max_size=8).map(lambda parts: [pair for part in parts for pair in part])
cuts = st.lists(st.integers(0, 90), max_size=5)
jumps = st.sampled_from([None, 20, 150])


def parts_of(script, cut):
    edges = sorted({0, len(script), *(c for c in cut if c <= len(script))})
    return [script[a:b] for a, b in pairwise(edges)]


def taken(read, script):
    """Hand tuples of (key, value) over; the key is two attributes that say the same."""
    keys = [pa.array([k for k, _ in script], pa.string()), pa.array([None if k is None else ord(k) for k, _ in script])]
    positions, bounds = read.observe_keys(
        np.array([v for _, v in script], np.int64), FIELDS, [keys[0], keys[1].cast("int64")]
    )
    return list(zip(positions.tolist(), bounds.tolist(), strict=True))


def made(slack=3, idle=20, step=None, **others):
    return ByKey("ts", ("k", "n"), slack=slack, idle=idle, step=step, **others)


@given(scripts, cuts, st.integers(0, 9), st.integers(1, 70), st.sampled_from([1, 7]), jumps)
def test_promises_by_key_are_their_naive_twin_at_any_page_size(script, cut, slack, idle, step, jump):
    read, found, start = made(slack, idle, step, jump=jump), [], 0
    for part in parts_of(script, cut):
        found += [(start + position, bound) for position, bound in taken(read, part)]
        start += len(part)
    assert found == naive_by_key(script, slack, idle, step, jump)


@given(scripts, cuts, st.integers(1, 70), jumps, st.sampled_from([0, 1000, 90_000, 400_000]))
def test_slack_that_is_learnt_is_that_of_its_naive_twin_at_any_page_size(script, cut, idle, jump, per_million):
    read, found, start = made(0, idle, jump=jump, late_per_million=per_million), [], 0
    for part in parts_of(script, cut):
        found += [(start + position, bound) for position, bound in taken(read, part)]
        start += len(part)
        saved, read = read.state(), made(0, idle, jump=jump, late_per_million=per_million)
        read.restore(saved)
    assert found == naive_by_key(script, 0, idle, 1, jump, per_million)


@pytest.mark.parametrize("per_million", [1000, 10_000, 100_000])
def test_slack_that_is_learnt_leaves_the_share_late_that_was_asked_for_and_hardly_fewer(per_million):
    luck = np.random.default_rng(3)
    late = {"a": 500, "b": 40}
    script = [
        (key, 20 * i - int(luck.exponential(most)) + (10**6 if key == "b" else 0))
        for i in range(8_000) for key, most in late.items()
    ]  # fmt: skip
    read = ByKey("ts", ("k",), slack=0, idle=9000, late_per_million=per_million)
    keys = [pa.array([k for k, _ in script])]
    read.observe_keys(np.array([v for _, v in script], np.int64), FIELDS[:1], keys)
    assert read.learnt_slack is not None
    for key, most in late.items():
        values = np.array([v for k, v in script if k == key])
        ids = read._index.find([pa.array([key])])
        slack = int(read._learnt[ids[0] + 1, 0])
        behind = np.maximum.accumulate(values) - values
        assert per_million / 4 <= (behind > slack).mean() * 1e6 <= per_million
        assert slack < 12 * most


@given(scripts, cuts, st.integers(1, 70), jumps)
def test_what_was_saved_goes_on_as_if_it_had_not(script, cut, idle, jump):
    whole, read = made(idle=idle, jump=jump), made(idle=idle, jump=jump)
    for part in parts_of(script, cut):
        assert taken(read, part) == taken(whole, part)
        saved = json.loads(json.dumps(read.state()))
        read = made(idle=idle, jump=jump)
        read.restore(saved)
        assert (read.live, read.ahead, read.known(), read.slowest()) == (
            whole.live, whole.ahead, whole.known(), whole.slowest()
        )  # fmt: skip


@given(st.permutations(["a"] * 30 + ["b"] * 30 + ["c"] * 30), st.integers(0, 3), st.integers(20, 60))
def test_keys_in_any_order_lose_nothing_that_is_in_order_within_its_key_and_no_key_is_silent(order, slack, idle):
    """However far the keys' clocks are apart, in each stretch without one of them less than `idle` passes."""
    clocks = {"a": 0, "b": 1000, "c": -(10**6)}
    script = []
    for turn in range(0, len(order), 9):
        for key in dict.fromkeys([*order[turn : turn + 9], "a", "b", "c"]):
            script.append((key, clocks[key]))
            clocks[key] += 1 + turn % 2
    read = Input((ByKey("ts", ("k",), slack=slack, idle=idle),))
    found = rows(drive(read, [Page.of_rows(SCHEMA, script), END]))
    assert len(found) == len(script)
    assert read.statistics()["late"] == 0
    assert read.behind_by_key() == {}


def cut_pages(script, size):
    return [Page.of_rows(SCHEMA, script[i : i + size]) for i in range(0, len(script), size)]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_key_ahead_makes_no_tuple_of_another_late(size):
    script = [pair for i in range(200) for pair in (("ahead", 95 + i), ("behind", i))]
    keyed, alone = Input((ByKey("ts", ("k",), slack=35, idle=60),)), Input((ByKey("ts", ("k",), slack=35, idle=5),))
    assert len(rows(drive(keyed, [*cut_pages(script, size), END]))) == len(script)
    assert (keyed.statistics()["late"], keyed.statistics()["keys"]) == (0, 2)
    found = drive(alone, [*cut_pages(script, size), END])
    assert max(p.bound("ts") for p in punctuations(found) if not p.is_end) == 199 - 35


def test_a_silent_key_holds_nothing_back_after_idle_and_is_new_when_it_comes_back():
    read = ByKey("ts", ("k", "n"), slack=0, idle=16)
    assert taken(read, [("a", 0), ("b", 0), ("a", 8), ("b", 8), ("a", 16), ("b", 17)]) == [(5, 16)]
    assert read.slowest() == Slowest("k = a, n = 97", 16, 1)
    assert taken(read, [("b", 25), ("b", 33)]) == []
    assert taken(read, [("b", 34), ("b", 42)]) == [(0, 34), (1, 42)]
    assert read.live == 1
    assert taken(read, [("a", 20)]) == []
    assert (read.live, read.slowest()) == (2, Slowest("k = a, n = 97", 20, 22))
    assert known(read) == 20


def test_a_sparse_key_that_leaps_on_makes_no_other_idle():
    read = made(slack=0, idle=16, jump=None)
    taken(read, [("a", t) for t in range(40)] + [("b", 39)])
    taken(read, [("a", 40), ("b", 4000)])
    assert read.slowest() == Slowest("k = a, n = 97", 40, 3960)


def test_tuples_of_a_new_key_behind_the_promise_are_late_and_counted_by_key():
    script = [("a", t) for t in range(50)] + [("new", 10), ("new", 48), ("new", 11), ("a", 50)]
    for size in (1, 3, 100):
        read = Input((ByKey("ts", ("k",), slack=5, idle=16),))
        drive(read, [*cut_pages(script, size), END])
        assert read.statistics()["late"] == 2
        assert read.behind_by_key() == {"k = new": 2}


def test_keys_beyond_those_that_are_named_are_counted_together():
    script = [("a", t) for t in range(50)] + [(f"new {i}", 0) for i in range(NAMED + 7)]
    read = Input((ByKey("ts", ("k",), slack=5, idle=16),))
    drive(read, [*cut_pages(script, 300), END])
    assert len(read.behind_by_key()) == NAMED + 1
    assert read.behind_by_key()["others"] == 7
    assert sum(read.behind_by_key().values()) == read.statistics()["late"] == NAMED + 7


def test_one_wrong_time_moves_no_promise_of_its_key_and_is_counted():
    script = [pair for t in range(60) for pair in (("a", t), ("b", t))]
    script[70:70] = [("a", 10**9)]
    read, loose = (
        Input((ByKey("ts", ("k",), slack=2, idle=16, jump=50),)),
        Input((ByKey("ts", ("k",), slack=2, idle=16),)),
    )
    drive(read, [*cut_pages(script, 7), END])
    drive(loose, [*cut_pages(script, 7), END])
    assert (read.statistics()["late"], read.statistics()["ahead"]) == (0, 1)
    assert "ahead" not in loose.statistics()


def test_by_the_clock_silent_keys_and_silent_streams_hold_nothing_back():
    read = made(slack=0, idle=20, lull=5)
    assert read.elapse(1000) is None
    assert taken(read, [("a", 990), ("b", 970)]) == []
    assert read.elapse(1010) is None  # others may come that were not heard as yet
    assert taken(read, [("a", 1009)]) == []
    assert read.elapse(1021) == 1009  # b is silent since 1000
    assert read.elapse(1030) is None
    assert read.elapse(1031) == 1026  # all are
    assert made(slack=0, idle=20).elapse(10**9) is None


def test_keys_are_forgotten_when_they_are_idle():
    read = made(idle=16, jump=None)
    for start in range(0, 30_000, 100):
        taken(read, [(chr(97 + start // 100 % 999), start + i) for i in range(100)])
    assert read.live <= 2
    assert len(read._keys) == 16


def test_more_finely_from_now_on():
    read = made(slack=0, idle=16, step=100)
    assert taken(read, [("a", t) for t in range(90)]) == [(17, 0)]
    assert regrain(read, 10, 5)
    assert taken(read, [("a", 90)]) == [(0, 85)]


def test_values_without_keys_and_attributes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="hand the keys of the values to observe_keys"):
        made().observe(np.array([1]))
    with pytest.raises(SchemaError, match="exporter"):
        Input((ByKey("ts", ("exporter",), slack=1, idle=5),)).output_schema(SCHEMA)


@pytest.mark.parametrize("forged", [None, [], "", "zz", "00"])
def test_what_was_never_saved_is_refused(forged):
    with pytest.raises(ValueError, match=r"saved|hexadecimal"):
        made().restore(forged)
