"""count(distinct x) is exact, and forgets a value when the last slot that holds it is freed."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError

SCHEMA = Schema.of(x=pa.float64(), y=pa.string())


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_nan_is_one_value_and_both_zeros_are_one() -> None:
    accumulator = fn.count_distinct("x").accumulator(SCHEMA)
    accumulator.reserve(1)
    accumulator.init(slots(0))
    rows = [(v, "") for v in (0.0, -0.0, math.nan, -math.nan, None, 1.0)]
    accumulator.update(np.zeros(6, np.int32), Page.of_rows(SCHEMA, rows))
    assert accumulator.finalize(slots(0)).to_pylist() == [3]
    assert accumulator.nulls == 1


def test_combinations_are_counted_and_tuples_with_a_null_skipped() -> None:
    accumulator = fn.count_distinct("x", "y").accumulator(SCHEMA)
    accumulator.reserve(1)
    accumulator.init(slots(0))
    rows = [(1.0, "a"), (1.0, "b"), (2.0, "a"), (1.0, "a"), (None, "a"), (1.0, None), (None, None)]
    accumulator.update(np.zeros(len(rows), np.int32), Page.of_rows(SCHEMA, rows))
    assert accumulator.finalize(slots(0)).to_pylist() == [3]
    assert accumulator.nulls == 3


def test_memory_follows_what_the_slots_hold_and_not_what_has_passed() -> None:
    schema = Schema.of(x=pa.int64())
    accumulator = fn.count_distinct("x").accumulator(schema)
    accumulator.reserve(3)
    sizes: list[int] = []
    for number in range(60):
        # Three slots in turn as a sliding window reuses them: fill one, combine two, free the oldest.
        accumulator.init(slots(number % 3))
        values = np.arange(number * 500, number * 500 + 1000)
        accumulator.update(np.full(1000, number % 3, np.int32), Page.of(schema, {"x": values}))
        assert accumulator.finalize(slots(number % 3)).to_pylist() == [1000]
        if number >= 2:
            accumulator.combine(slots((number - 2) % 3), slots((number - 1) % 3))
            assert accumulator.finalize(slots((number - 2) % 3)).to_pylist() == [1500]
            accumulator.free(slots((number - 2) % 3))
        sizes.append(accumulator.nbytes)
    assert sizes[-1] <= max(sizes[:6])
    accumulator.free(slots(0, 1, 2, 0))
    assert accumulator.nbytes < sizes[0] / 4
    assert accumulator.finalize(slots(0, 1, 2)).to_pylist() == [0, 0, 0]


def test_combining_grows_the_sets_as_it_goes() -> None:
    schema = Schema.of(x=pa.int64())
    accumulator = fn.count_distinct("x").accumulator(schema)
    accumulator.reserve(40)
    accumulator.init(np.arange(40, dtype=np.int32))
    accumulator.update(np.arange(40, dtype=np.int32).repeat(10), Page.of(schema, {"x": np.arange(400)}))
    accumulator.combine(np.arange(1, 40, dtype=np.int32), np.arange(39, dtype=np.int32))
    assert accumulator.finalize(np.arange(40, dtype=np.int32)).to_pylist() == list(range(10, 410, 10))


def test_tuples_of_no_slot_leave_nothing_behind() -> None:
    schema = Schema.of(x=pa.int64())
    accumulator = fn.count_distinct("x").accumulator(schema)
    accumulator.reserve(1)
    start = accumulator.nbytes
    accumulator.update(np.full(5000, -1, np.int32), Page.of(schema, {"x": np.arange(5000)}))
    assert accumulator.nbytes == start


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(SchemaError, match=r'count\(distinct x\): "x" has type list'):
        fn.count_distinct("x").output_field(Schema.of(x=pa.list_(pa.int64())), "n")
    with pytest.raises(SchemaError, match="names no attribute"):
        fn.count_distinct()
