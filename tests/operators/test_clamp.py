"""How far one tuple moves a promise: the clamp against its naive twin at any page size, and an Input that has one."""

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
from operators.streams.clamp import AGREE, Clamp
from operators.streams.input import Input
from punctuation import END, NEVER, NO_TIME, BlockEnd, Ordered, Punctuator, Slack, TupleSlack
from tests.naive_clamp import naive_believed

SCHEMA = Schema.of(ts=pa.int64())
near = st.integers(0, 30)
far = st.sampled_from([100, 110, 1000, -500, NEVER, NO_TIME + 1, NO_TIME])
#: Runs of values that belong together, so that some are long enough to be believed.
runs = st.lists(
    st.one_of(
        st.lists(st.one_of(near, near, near, far), max_size=6),
        st.tuples(st.sampled_from([50, 120, 5000]), st.integers(1, AGREE + 4)).map(
            lambda r: [r[0] + i for i in range(r[1])]
        ),
    ),
    max_size=8,
).map(lambda parts: [value for part in parts for value in part])
cuts = st.lists(st.integers(0, 80), max_size=6)


def parts_of(values, cut):
    edges = sorted({0, len(values), *(c for c in cut if c <= len(values))})
    return [np.array(values[a:b], np.int64) for a, b in pairwise(edges)]


def raised(values):
    """What values make of the highest so far: where nothing is in doubt, only that is the same."""
    return np.maximum.accumulate(np.array([NO_TIME, *values]))[1:].tolist()


@given(runs, st.integers(0, 12), cuts, st.one_of(st.none(), st.integers(0, 200)))
def test_a_clamp_is_its_naive_twin_at_any_page_size(values, jump, cut, limit):
    clamp = Clamp(jump)
    if limit is not None:
        clamp.elapse(limit - jump)
    found = [v for part in parts_of(values, cut) for v in clamp.believed(part).tolist()]
    assert found == naive_believed(values, jump, limit)


@given(runs, st.integers(0, 12), cuts)
def test_a_clamp_that_was_saved_goes_on_as_if_it_had_not(values, jump, cut):
    whole, clamp = Clamp(jump), Clamp(jump)
    for part in parts_of(values, cut):
        saved = json.loads(json.dumps(clamp.state()))
        clamp = Clamp(jump)
        clamp.restore(saved)
        assert clamp.believed(part).tolist() == whole.believed(part).tolist()
        assert clamp.ahead == whole.ahead


@pytest.mark.parametrize(
    "saved", [None, [], [[0] * 6, [0] * 63], [[0, 0, 64, 0, 0, 0], [0] * 64], [[0, 0, -1, 0, 0, 0], [0] * 64]]
)
def test_what_no_clamp_saved_is_refused(saved):
    with pytest.raises(ValueError, match="saved clamp"):
        Clamp(5).restore(saved)


def test_one_outlier_is_never_believed_and_counted_once():
    clamp = Clamp(10)
    values = [*range(50), 10**6, *range(50, 500)]
    assert max(clamp.believed(np.array(values)).tolist()) == 499
    assert clamp.ahead == 1
    clamp.believed(np.array([500, 10**6]))
    assert clamp.ahead == 1  # others may follow the last one
    clamp.believed(np.array([501]))
    assert clamp.ahead == 2


def test_a_gap_is_believed_when_enough_tuples_lie_past_it_and_none_of_them_counts_as_ahead():
    clamp = Clamp(10)
    found = clamp.believed(np.array([*range(50), *range(1000, 1100)])).tolist()
    assert raised(found)[50 + AGREE - 2] == 49
    assert raised(found)[50 + AGREE - 1] == 1010  # the least of them, and what is at most 10 above it
    assert raised(found)[50 + AGREE :] == list(range(1000 + AGREE, 1100))
    assert max(found) == 1099
    assert clamp.ahead == 0


def test_a_straggler_from_before_a_gap_only_delays_it():
    clamp = Clamp(10)
    found = clamp.believed(np.array([*range(50), *range(1000, 1009), 45, *range(1009, 1100)])).tolist()
    assert max(found[: 60 + AGREE - 1]) == 49
    assert max(found) == 1099
    assert clamp.ahead == 0


def test_sparse_tuples_trail_and_none_of_them_counts_as_ahead():
    clamp = Clamp(10)
    found = raised(clamp.believed(np.arange(0, 100_000, 1000)).tolist())
    assert found[30:40] == [1000 * (i - AGREE + 1) for i in range(30, 40)]
    assert clamp.ahead == 0


def test_the_first_tuple_may_be_the_outlier():
    clamp = Clamp(10)
    assert raised(clamp.believed(np.array([10**6, 3, 4, 9])).tolist()) == [NO_TIME, 3, 4, 9]
    assert clamp.ahead == 1


def test_by_the_clock_a_gap_is_believed_at_once_and_no_number_of_tuples_is_beyond_it():
    clamp = Clamp(10)
    clamp.elapse(50)
    assert clamp.believed(np.array([3, 60, *[61] * (3 * AGREE), 5])).tolist() == [3, 60, *[NO_TIME] * (3 * AGREE), 5]
    clamp.elapse(51)
    assert clamp.believed(np.array([61])).tolist() == [61]


PUNCTUATORS = {
    "slack": lambda jump: Slack("ts", 4, step=5, jump=jump),
    "ordered": lambda jump: Ordered("ts", jump=jump),
    "tuples": lambda jump: TupleSlack("ts", 3, jump=jump),
    "larger": lambda jump: TupleSlack("ts", 0, displacement="larger", jump=jump),
    "blocks": lambda jump: BlockEnd("ts", length=10, jump=jump),
}


def cut_pages(values, size):
    return [Page.of(SCHEMA, {"ts": values[i : i + size]}) for i in range(0, len(values), size)]


@pytest.mark.parametrize("kind", PUNCTUATORS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_outlier_makes_no_honest_tuple_late(kind, size):
    make = PUNCTUATORS[kind]
    values = [*range(200), 10**9, *range(200, 400)]
    read = Input((make(50),))
    found = rows(drive(read, [*cut_pages(values, size), END]))
    assert sorted(row["ts"] for row in found) == sorted(values)
    assert (read.statistics()["late"], read.statistics()["ahead"]) == (0, 1)
    loose = Input((make(None),))
    drive(loose, [*cut_pages(values, size), END])
    assert loose.statistics()["late"] >= 190
    assert "ahead" not in loose.statistics()


@given(runs, st.sampled_from(sorted(PUNCTUATORS)), st.integers(0, 12), st.sampled_from([1, 2, 5, 100]))
def test_with_a_jump_promises_are_true_late_tuples_fewer_and_pages_do_not_matter(values, kind, jump, size):
    values = [value for value in values if value > NO_TIME]
    make: Punctuator = PUNCTUATORS[kind](jump)
    read, loose, single = Input((make,)), Input((PUNCTUATORS[kind](None),)), Input((PUNCTUATORS[kind](jump),))
    found = drive(read, [*cut_pages(values, size), END])
    alone = drive(single, [*cut_pages(values, 1), END])
    drive(loose, [*cut_pages(values, size), END])
    assert rows(found) == rows(alone)
    assert punctuations(found) == punctuations(alone)
    bound = NO_TIME
    for element in found:
        if isinstance(element, Page):
            assert min(element["ts"].tolist()) >= bound
        elif not element.is_end:
            bound = element.bound("ts")
    assert read.statistics()["late"] <= loose.statistics()["late"]
    assert {**read.statistics(), "promises": 0} == {**single.statistics(), "promises": 0}


def test_an_input_saves_its_clamps():
    values = [*range(60), 10**9, *range(60, 70)]
    read = Input((Slack("ts", 4, jump=50),))
    drive(read, cut_pages(values, 100))
    again = Input((Slack("ts", 4, jump=50),))
    again.restore(read.state())
    rest = cut_pages(list(range(70, 200)), 100)
    assert list(map(str, drive(again, rest))) == list(map(str, drive(read, rest)))
    assert again.statistics() == read.statistics()


@pytest.mark.parametrize("forged", [None, "7", 2**63, 1.5, [1]])
def test_a_clamp_is_not_restored_from_what_is_no_number_of_64_bits(forged):
    memory, recent = Clamp(50).state()
    for state in ([[forged, *memory[1:]], recent], [memory, [*recent[:-1], forged]]):
        with pytest.raises(ValueError, match="a saved clamp has numbers of 64 bits, not"):
            Clamp(50).restore(state)
