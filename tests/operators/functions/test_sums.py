"""Sums and averages of whole numbers are exact to the last bit, and say so when they do not fit."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import Accumulator, AggregateFunction, sums, totals
from operators.functions.columns import frozen
from operators.functions.protocol import Slots
from operators.functions.sums import WholeTotals
from operators.kernels.functions import sums as kernels

LARGEST = (1 << 63) - 1
SMALLEST = -(1 << 63)


@pytest.fixture(params=[1 << 14, 0], ids=["few slots", "many slots"], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let every sum be that of one of few slots, and of one of many."""
    for module in (sums, totals):
        monkeypatch.setattr(module, "FEW", request.param)
    return int(request.param)


def filled(function: AggregateFunction, kind: pa.DataType, values: list[object], slots: list[int]) -> Accumulator:
    schema = Schema.of(x=kind)
    accumulator = function.accumulator(schema)
    accumulator.reserve(max(slots) + 1)
    accumulator.init(np.arange(max(slots) + 1, dtype=np.int32))
    accumulator.update(np.array(slots, np.int32), Page.of(schema, {"x": pa.array(values, kind)}))
    return accumulator


def answer(function: AggregateFunction, kind: pa.DataType, values: list[object]) -> object:
    result = filled(function, kind, values, [0] * len(values)).finalize(np.zeros(1, np.int32))
    return (result.view(pa.int64()) if pa.types.is_duration(kind) else result).to_pylist()[0]


@pytest.mark.parametrize("values", [[LARGEST, 1, -1], [SMALLEST, -1, 1], [LARGEST, SMALLEST], [LARGEST], [SMALLEST]])
def test_a_sum_that_leaves_64_bits_on_its_way_and_comes_back_is_right(values: list[object]) -> None:
    assert answer(fn.sum("x"), pa.int64(), values) == sum(values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [LARGEST, 1]),
        (pa.int64(), [SMALLEST, -1]),
        (pa.int64(), [LARGEST] * 9),
        (pa.uint64(), [1 << 63]),
        (pa.uint64(), [(1 << 64) - 1] * 3),
        (pa.duration("ns"), [LARGEST, LARGEST]),
    ],
)
def test_a_sum_that_does_not_fit_names_the_attribute_the_total_and_the_slot(
    kind: pa.DataType, values: list[object]
) -> None:
    accumulator = filled(fn.sum("x"), kind, [0, *values], [0, *[2] * len(values)])
    assert accumulator.finalize(np.zeros(1, np.int32)).null_count == 0
    with pytest.raises(AggregateOverflow, match=rf"sum\(x\).* {sum(values)},") as caught:
        accumulator.finalize(np.array([0, 2], np.int32))
    assert caught.value.slot == 2


def test_a_sum_may_overflow_by_combining_and_still_averages_right() -> None:
    for function, wanted in ((fn.sum("x"), None), (fn.avg("x"), float(LARGEST))):
        accumulator = filled(function, pa.int64(), [LARGEST, LARGEST], [0, 1])
        accumulator.combine(np.array([0], np.int32), np.array([1], np.int32))
        if wanted is None:
            with pytest.raises(AggregateOverflow):
                accumulator.finalize(np.zeros(1, np.int32))
        else:
            assert accumulator.finalize(np.zeros(1, np.int32)).to_pylist() == [wanted]


def test_an_average_of_whole_numbers_is_rounded_once() -> None:
    values = [(1 << 53) + 1, (1 << 53) + 3, (1 << 54) + 7, 1]
    assert answer(fn.avg("x"), pa.int64(), values) == sum(values) / len(values)
    values = [13677081339546651, 7564420048340502, 17576887774031500, 14044344784040882, 9595568737543469]
    assert float(sum(values)) / len(values) != sum(values) / len(values)
    assert answer(fn.avg("x"), pa.int64(), values) == sum(values) / len(values)
    assert answer(fn.avg("x"), pa.uint64(), [(1 << 64) - 1, (1 << 64) - 3]) == (2 * (1 << 64) - 4) / 2


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([1, 2], 2), ([2, 3], 2), ([-1, -2], -2), ([0, -1], 0), ([1, 1, 2], 1), ([LARGEST] * 2, LARGEST)],
)
def test_an_average_of_durations_is_the_nearest_tick_ties_to_even(values: list[object], wanted: int) -> None:
    assert answer(fn.avg("x"), pa.duration("us"), values) == wanted


def test_a_floating_sum_keeps_what_rounding_would_lose() -> None:
    assert answer(fn.sum("x"), pa.float64(), [1e16, 1.0, 1.0, -1e16]) == 2.0
    assert answer(fn.sum("x"), pa.float64(), [0.1] * 10) == 1.0
    assert answer(fn.avg("x"), pa.float64(), [1e16, 1.0, 3.0, -1e16]) == 1.0


def test_infinities_and_nan_propagate_through_a_sum() -> None:
    assert answer(fn.sum("x"), pa.float64(), [math.inf, 1.0]) == math.inf
    assert math.isnan(answer(fn.sum("x"), pa.float64(), [math.inf, -math.inf]))
    assert math.isnan(answer(fn.avg("x"), pa.float64(), [1.0, math.nan]))


def test_a_sum_of_truth_values_counts_the_true_ones() -> None:
    assert answer(fn.sum("x"), pa.bool_(), [True, False, None, True]) == 2


@pytest.mark.parametrize("function", [fn.sum("ts"), fn.avg("ts")])
def test_points_in_time_are_not_added(function: AggregateFunction) -> None:
    schema = Schema.of(ts=pa.timestamp("us"))
    with pytest.raises(SchemaError, match=r"points in time do not add up.\n  Write min\(ts\) or max\(ts\)"):
        function.output_field(schema, "y")
    with pytest.raises(SchemaError):
        function.accumulator(schema)


@pytest.mark.parametrize("function", [fn.sum("x"), fn.avg("x"), fn.variance("x"), fn.stddev("x")])
@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.int64()), pa.binary(16), pa.decimal128(9, 2)])
def test_what_is_not_a_number_is_refused_by_name_and_type(function: AggregateFunction, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=rf'^{function.name}\(x\): "x" has type '):
        function.accumulator(Schema.of(x=kind))


def totals_of(accumulator: Accumulator, slots: list[int]) -> list[object]:
    return accumulator.finalize(np.array(slots, np.int32)).to_pylist()


edges = st.sampled_from(
    [0, 1, -1, 999, (1 << 32) - 1, -(1 << 32), (1 << 43) - 1, -(1 << 43), 1 << 43, LARGEST, SMALLEST]
)


@given(
    st.lists(st.tuples(st.integers(0, 2), edges, st.sampled_from([1, 1, 1, 70])), max_size=12),
    st.lists(
        st.tuples(st.sampled_from(["combine", "subtract", "total", "free", "save"]), *[st.integers(0, 2)] * 2),
        max_size=6,
    ),
)
def test_sums_of_any_size_are_exact_through_all_verbs(
    added: list[tuple[int, int, int]], verbs: list[tuple[str, int, int]]
) -> None:
    schema = Schema.of(x=pa.int64())
    accumulator: WholeTotals = fn.sum("x").accumulator(schema)  # type: ignore[assignment]
    accumulator.reserve(3)
    accumulator.init(np.arange(3, dtype=np.int32))
    slots = [slot for slot, _, times in added for _ in range(times)]
    values = [value for _, value, times in added for _ in range(times)]
    accumulator.update(np.array(slots, np.int32), Page.of(schema, {"x": pa.array(values, pa.int64())}))
    held = [[value for at, value in zip(slots, values, strict=True) if at == slot] for slot in range(3)]
    for verb, a, b in verbs:
        into, source = np.array([a], np.int32), np.array([b], np.int32)
        if verb == "combine":
            accumulator.combine(into, source)
            held[a] = held[a] + held[b]
        elif verb == "subtract":
            accumulator.combine(into, source)
            accumulator.subtract(into, source)
            held[a] = held[a] if a != b else []
        elif verb == "total" and a != b:
            c = 3 - a - b
            accumulator.accumulate(into, source, c)
            held[a] = held[c] + held[b]
            accumulator.difference(source, into, np.array([c], np.int32))
        elif verb == "free":
            accumulator.free(into)
            accumulator.init(into)
            held[a] = []
        else:
            state, accumulator = accumulator.state(), fn.sum("x").accumulator(schema)  # type: ignore[assignment]
            accumulator.restore(state)
    for slot in range(3):
        averages = accumulator.answer("avg", np.array([slot], np.int32)).to_pylist()
        assert averages == [sum(held[slot]) / len(held[slot]) if held[slot] else None]
        if held[slot] and SMALLEST <= sum(held[slot]) <= LARGEST:
            assert totals_of(accumulator, [slot]) == [sum(held[slot])]


@pytest.mark.parametrize("few", [0], ids=["many slots"], indirect=True)
def test_a_sum_is_a_word_until_it_outgrows_it_and_gives_its_row_back(few: int) -> None:
    accumulator = filled(fn.sum("x"), pa.int64(), [7] * 1000, list(range(1000)))
    assert accumulator.nbytes == 8000
    large = Page.of(Schema.of(x=pa.int64()), {"x": pa.array([1 << 50], pa.int64())})
    for _ in range(100):
        accumulator.update(np.array([3], np.int32), large)
        assert totals_of(accumulator, [3, 4]) in ([7 + (1 << 50), 7], [1 << 50, 7])
        accumulator.free(np.array([3], np.int32))
        accumulator.init(np.array([3], np.int32))
    assert accumulator.nbytes < 8200


def test_sums_become_words_when_there_are_many_slots(few: int) -> None:
    accumulator = filled(fn.sum("x"), pa.int64(), [LARGEST, 5], [0, 1])
    accumulator.reserve(few + 100)
    assert totals_of(accumulator, [0, 1, few + 99]) == [LARGEST, 5, None]
    assert accumulator.nbytes < 8 * (few + 100) + 200


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
@pytest.mark.parametrize("least", [0, -5, 1 << 31, (1 << 63) - 200])
def test_stretches_of_one_slot_add_up_as_single_values_do(kind: pa.DataType, least: int) -> None:
    values: list[object] = [max(least, 0) if kind == pa.uint64() else least] * 200 + list(range(50, 200))
    slots = [0] * 200 + [1] * 100 + [0, 1] * 25
    accumulator = filled(fn.avg("x"), kind, values, slots)
    for slot in (0, 1):
        own = [value for at, value in zip(slots, values, strict=True) if at == slot]
        assert totals_of(accumulator, [slot]) == [sum(own) / len(own)]  # type: ignore[call-overload]


def test_more_values_than_a_word_can_count_are_counted() -> None:
    schema = Schema.of(x=pa.int64())
    accumulator = filled(fn.avg("x"), pa.int64(), [1, 1], [0, 1])
    page = Page.of(schema, {"x": np.ones(1 << 19, np.int64)})
    for _ in range(3):
        accumulator.update(np.zeros(1 << 19, np.int32), page)
        accumulator.update(np.ones(1 << 19, np.int32), page)
    accumulator.combine(np.array([0], np.int32), np.array([1], np.int32))
    assert totals_of(accumulator, [0]) == [1.0]
    assert accumulator.state()["sums"][0].tolist() == [3 * (1 << 20) + 2, 0, 3 * (1 << 20) + 2]  # type: ignore[index,union-attr]


def add_whole(slots: Slots, values: Int64s, sums: Int64s, *, signed: bool) -> None:
    lanes = np.full((kernels.LANES, kernels.LANE, 3), 99)
    kernels.add_whole(frozen(slots), frozen(values), kernels.SIGNED if signed else kernels.UNSIGNED, sums, lanes)


@given(
    st.lists(st.tuples(st.integers(-1, 80), edges), min_size=2, max_size=8),
    st.sampled_from([1, 255, 256, 259, 2000]),
    st.booleans(),
    st.integers(0, 9),
)
def test_slots_in_no_order_add_up_as_tuple_by_tuple(
    given: list[tuple[int, int]], n: int, signed: bool, seed: int
) -> None:
    chosen = np.random.default_rng(seed).integers(0, len(given), n)
    slots = np.array([slot for slot, _ in given], np.int32)[chosen]
    values = np.array([value for _, value in given], np.int64)[chosen] ^ np.arange(n) % 7
    before = [3, -1, 2]
    sums = np.tile(np.array(before), (81, 1))
    add_whole(slots, values, sums, signed=signed)
    for slot in range(81):
        of = values[slots == slot].tolist()
        low, high, number = sums[slot].tolist()
        held = (before[1] << 64) + before[0]
        assert (high << 64) + (low % (1 << 64)) == held + sum(v if signed else v % (1 << 64) for v in of)
        assert number == before[2] + len(of)


@given(
    st.lists(st.tuples(st.integers(-1, 2), edges, st.sampled_from([1, 30, 64, 65, 200])), max_size=6),
    st.booleans(),
)
def test_slots_in_runs_add_up_as_tuple_by_tuple(added: list[tuple[int, int, int]], signed: bool) -> None:
    slots = np.array([slot for slot, _, times in added for _ in range(times)], np.int32)
    # Values of a run differ, so that none may be taken for another.
    values = np.array([value for _, value, times in added for _ in range(times)], np.int64) ^ np.arange(len(slots)) % 7
    sums, floats, counts = np.zeros((3, 3), np.int64), np.zeros((3, 3)), np.zeros(3, np.int64)
    add_whole(slots, values, sums, signed=signed)
    kernels.count_slots(frozen(slots), counts)
    kernels.add_floating(frozen(slots), frozen(values.astype(np.float64)), floats)
    single = np.zeros((3, 3))
    for slot, value in zip(slots, values.astype(np.float64), strict=True):
        kernels.add_floating(np.array([slot], np.int32), np.array([value]), single)
    for slot in range(3):
        of = values[slots == slot].tolist()
        low, high, number = sums[slot].tolist()
        assert (high << 64) + (low % (1 << 64)) == sum(v if signed else v % (1 << 64) for v in of)
        assert number == counts[slot] == floats[slot, 2] == len(of)
    assert floats.tobytes() == single.tobytes()


magnitudes = st.floats(1, 2).flatmap(lambda x: st.integers(-60, 60).map(lambda e: math.ldexp(x, e)))
signed_numbers = st.builds(lambda x, negative: -x if negative else x, magnitudes, st.booleans())


@given(st.lists(signed_numbers, min_size=1, max_size=60), st.randoms(use_true_random=False), st.integers(1, 5))
def test_a_floating_sum_is_as_near_as_its_docstring_says_in_any_order_and_slices(
    drawn: list[float], random: Random, slices: int
) -> None:
    # With the same numbers taken away again, what is left cancels almost completely.
    values = drawn + [-x for x in drawn[: len(drawn) // 2]]
    random.shuffle(values)
    slots = [random.randrange(slices) for _ in values]
    accumulator = filled(fn.sum("x"), pa.float64(), list(values), [*slots[:-1], slices])
    order = list(range(1, slices + 1))
    random.shuffle(order)
    accumulator.combine(np.zeros(slices, np.int32), np.array(order, np.int32))
    (found,) = accumulator.finalize(np.zeros(1, np.int32)).to_pylist()
    true = math.fsum(values)
    off = math.ulp(true) / 2 + (len(values) * 1.2e-16) ** 2 * math.fsum(map(abs, values))
    # fsum is rounded itself.
    assert abs(found - true) <= off + math.ulp(true) / 2


def test_a_floating_sum_that_leaves_its_range_on_the_way_is_infinite() -> None:
    assert answer(fn.sum("x"), pa.float64(), [1e308, -1e308, 1e308]) == 1e308
    assert answer(fn.sum("x"), pa.float64(), [1e308, 1e308, -1e308]) == math.inf
