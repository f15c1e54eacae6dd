"""What was combined can be taken away again, bit for bit, by accumulators that say so, and by no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import Accumulator, AggregateFunction, Subtractable, accumulators
from operators.functions.totalling import Stepwise, totalling
from operators.functions.user import UserAggregate
from tests.examples import share
from tests.operators.functions.cases import DOMAIN, Case, cases, plain, same

SLOTS = 4
EVERY = np.arange(SLOTS, dtype=np.int32)


def _schema(case: Case) -> Schema:
    return Schema(pa.schema([DOMAIN[d][0].with_name(n) for d, n in zip(case.domains, "xy", strict=False)]))


def _held(accumulator: Accumulator) -> dict[str, object]:
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in accumulator.state().items()}


def _subtractable(case: Case) -> bool:
    """Say whether values can be taken away again; a user's function is not compiled only to know that."""
    if isinstance(case.function, UserAggregate):
        return case.function.invert is not None
    return isinstance(case.function.accumulator(_schema(case)), Subtractable)


SUBTRACTABLE = [case for case in cases() if _subtractable(case)]
NAMES = sorted({case.function.name for case in SUBTRACTABLE})


def test_what_is_exact_can_be_taken_away_and_what_is_rounded_cannot() -> None:
    whole, floating = Schema.of(x=pa.int64()), Schema.of(x=pa.float64())
    for function in (fn.count(), fn.count("x"), fn.sum("x"), fn.avg("x")):
        assert isinstance(function.accumulator(whole), Subtractable)
    for function in (fn.sum("x"), fn.avg("x"), fn.variance("x")):
        assert not isinstance(function.accumulator(floating), Subtractable)
    for function in (fn.min("x"), fn.max("x"), fn.first("x"), fn.count_distinct("x"), fn.variance("x")):
        assert not isinstance(function.accumulator(whole), Subtractable)
    assert isinstance(fn.sum("x").accumulator(Schema.of(x=pa.bool_())), Subtractable)
    assert isinstance(fn.avg("x").accumulator(Schema.of(x=pa.duration("ms"))), Subtractable)
    assert isinstance(fn.count("x").accumulator(floating), Subtractable)


@pytest.mark.parametrize("name", NAMES)
@share(1)
@given(data=st.data())
def test_combining_and_subtracting_leaves_the_same_bits(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in SUBTRACTABLE if case.function.name == name]))
    schema = _schema(case)
    accumulator, held = _updated(case, schema, data)
    before = _held(accumulator)
    pair = st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1)).filter(lambda p: p[0] != p[1])
    pairs = data.draw(st.lists(pair, min_size=1, max_size=6))
    into, source = (np.array(side, np.int32) for side in zip(*pairs, strict=True))
    assert isinstance(accumulator, Subtractable)
    accumulator.combine(into, source)
    # Undone in the reverse order, each step finds its source as it was then.
    accumulator.subtract(into[::-1], source[::-1])
    assert _held(accumulator) == before
    found, wanted = plain(accumulator.finalize(EVERY)), [case.naive(rows) for rows in held]
    assert all(same(case, f, w) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", NAMES)
@share(1)
@given(data=st.data())
def test_a_running_window_is_that_of_its_own_slices(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in SUBTRACTABLE if case.function.name == name]))
    accumulator, held = _updated(case, _schema(case), data)
    assert isinstance(accumulator, Subtractable)
    # Slot 0 becomes the window of slots 0, 1 and 2; then 1 leaves and 3 enters, in one call each, `into` repeating.
    accumulator.combine(np.array([0, 0], np.int32), np.array([1, 2], np.int32))
    accumulator.combine(np.array([0], np.int32), np.array([3], np.int32))
    accumulator.subtract(np.array([0, 0], np.int32), np.array([1, 2], np.int32))
    (found,) = plain(accumulator.finalize(EVERY[:1]))
    assert same(case, found, case.naive([*held[0], *held[3]]))
    accumulator.subtract(EVERY, EVERY)
    empty = case.function.accumulator(_schema(case))
    empty.reserve(SLOTS)
    empty.init(EVERY)
    assert plain(accumulator.finalize(EVERY)) == plain(empty.finalize(EVERY))


@pytest.mark.parametrize("name", NAMES)
@share(1)
@given(data=st.data())
def test_a_window_is_the_difference_of_two_running_totals(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in SUBTRACTABLE if case.function.name == name]))
    accumulator, held = _updated(case, _schema(case), data, in_order=True)
    accumulator.reserve(4 * SLOTS)
    totals = totalling(accumulator)
    assert totals is not None
    # Running totals in two parts; what is written was used before.
    into, cut = EVERY + SLOTS, data.draw(st.integers(1, SLOTS))
    for used in (into, into + SLOTS):
        accumulator.init(used)
        accumulator.combine(used, EVERY)
    totals.accumulate(into[:cut], EVERY[:cut], -1)
    totals.accumulate(into[cut:], EVERY[cut:], int(into[cut - 1]))
    begins = data.draw(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS))
    ends = [data.draw(st.integers(begin + 1, SLOTS)) for begin in begins]
    earlier = np.array([into[begin - 1] if begin else -1 for begin in begins], np.int32)
    windows, later = into[: len(begins)] + SLOTS, into[np.array(ends) - 1]
    totals.difference(windows, later, earlier)
    wanted = [
        case.naive([row for rows in held[begin:end] for row in rows]) for begin, end in zip(begins, ends, strict=True)
    ]
    given = accumulator.finalize(windows)
    assert all(same(case, f, w) for f, w in zip(plain(given), wanted, strict=True))
    if (bits := totals.between(later, earlier)) is not None:
        assert given.null_count == 0
        assert bits.tolist() == given.view(pa.int64()).to_pylist()


def test_differences_are_given_without_slots_where_all_are_plain_numbers() -> None:
    schema, slots = Schema.of(x=pa.int64()), np.arange(3, dtype=np.int32)
    both, none = np.array([1, 2], np.int32), np.array([0, -1], np.int32)
    for last, plain_for in (
        (5, ["count", "sum", "avg"]),
        (None, ["count"]),  # The one difference has no value.
        (2**53, ["count", "sum"]),  # A quotient of floats would not be that of the whole numbers.
        (2**63 - 1, ["count"]),  # With 7 that is more than 64 bits hold.
    ):
        made = accumulators([fn.count(), fn.sum("x"), fn.avg("x")], schema)
        for accumulator in made:
            accumulator.reserve(6)
            accumulator.init(slots)
            accumulator.update(slots, Page.of(schema, {"x": pa.array([1, last, 7], pa.int64())}))
            found = totalling(accumulator)
            assert found is not None
            found.accumulate(slots + 3, slots, -1)
        given = {}
        for name, accumulator in zip(["count", "sum", "avg"], made, strict=True):
            found = totalling(accumulator)
            assert found is not None
            bits = found.between(both + 3, np.where(none < 0, none, none + 3).astype(np.int32))
            if bits is not None:
                given[name] = bits.tolist()
        assert list(given) == plain_for
        assert given["count"] == [1, 3]
        if last == 5:
            assert given["sum"] == [5, 13]
            assert given["avg"] == np.array([5.0, 13 / 3]).view(np.int64).tolist()


def test_verbs_of_running_totals_are_those_of_the_fewest_steps() -> None:
    whole = Schema.of(x=pa.int64())
    for function in (fn.count(), fn.sum("x"), fn.avg("x")):
        accumulator = function.accumulator(whole)
        assert totalling(accumulator) is accumulator
    assert isinstance(totalling(fn.median("x").accumulator(whole)), Stepwise)
    assert totalling(fn.max("x").accumulator(whole)) is None


def _updated(
    case: Case, schema: Schema, data: st.DataObject, *, in_order: bool = False
) -> tuple[Accumulator, list[list[tuple[object, ...]]]]:
    row = st.tuples(*(st.sampled_from([None, *DOMAIN[d][1]]) for d in case.domains))
    rows = data.draw(st.lists(st.tuples(st.integers(0, SLOTS - 1), row), max_size=10))
    if in_order:
        rows.sort(key=lambda one: one[0])
    function: AggregateFunction = case.function
    accumulator = function.accumulator(schema)
    accumulator.reserve(SLOTS)
    accumulator.init(EVERY)
    columns = {f.name: pa.array([values[i] for _, values in rows], f.type) for i, f in enumerate(schema.arrow)}
    page = Page.of(schema, columns)
    accumulator.update(np.array([slot for slot, _ in rows], np.int32), page)
    held: list[list[tuple[object, ...]]] = [[] for _ in EVERY]
    kept = list(zip(*(plain(page.column(f.name)) for f in schema.arrow), strict=True))
    for (slot, _), values in zip(rows, kept, strict=True):
        held[slot].append(values)
    return accumulator, held
