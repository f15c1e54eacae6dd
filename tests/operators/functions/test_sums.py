"""Sums and averages of whole numbers are exact to the last bit, and say so when they do not fit."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from operators import functions as fn
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import Accumulator, AggregateFunction
from operators.page import Page
from operators.schema import Schema

LARGEST = (1 << 63) - 1
SMALLEST = -(1 << 63)


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
