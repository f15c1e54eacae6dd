"""Variance and standard deviation stay right where the textbook formula cancels."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions import AggregateFunction

TWO = np.arange(2, dtype=np.int32)


def answers(function: AggregateFunction, kind: pa.DataType, values: list[object], slots: list[int]) -> list[object]:
    """Give the result of slot 0, and of slots 0 and 1 combined."""
    schema = Schema.of(x=kind)
    accumulator = function.accumulator(schema)
    accumulator.reserve(2)
    accumulator.init(TWO)
    accumulator.update(np.array(slots, np.int32), Page.of(schema, {"x": pa.array(values, kind)}))
    before = accumulator.finalize(TWO[:1])
    accumulator.combine(TWO[:1], TWO[1:])
    both = [before, accumulator.finalize(TWO[:1])]
    return [(r.view(pa.int64()) if pa.types.is_duration(kind) else r).to_pylist()[0] for r in both]


def test_a_small_spread_about_a_large_mean_is_not_lost() -> None:
    values = [1e9 + v for v in (4.0, 7.0, 13.0, 16.0)]
    assert answers(fn.variance("x"), pa.float64(), values, [0, 0, 1, 1]) == [4.5, 30.0]
    assert answers(fn.variance("x", ddof=0), pa.float64(), values, [0, 0, 1, 1]) == [2.25, 22.5]


def test_too_few_values_give_null() -> None:
    assert answers(fn.variance("x"), pa.int64(), [5, None, 7], [0, 0, 1]) == [None, 2.0]
    assert answers(fn.stddev("x", ddof=0), pa.int64(), [5, 7], [0, 1]) == [0.0, 1.0]
    assert answers(fn.stddev("x"), pa.int64(), [None], [0]) == [None, None]


def test_the_deviation_of_durations_is_a_duration_and_their_variance_is_refused() -> None:
    assert answers(fn.stddev("x", ddof=0), pa.duration("s"), [10, 20, 30], [0, 0, 1]) == [5, 8]
    with pytest.raises(SchemaError, match=r"squared units.\n  Write stddev\(x\)"):
        fn.variance("x").output_field(Schema.of(x=pa.duration("s")), "y")


def test_only_the_two_usual_denominators_are_taken() -> None:
    with pytest.raises(ValueError, match="ddof"):
        fn.variance("x", ddof=2)


@pytest.mark.parametrize("function", [fn.variance("x"), fn.stddev("x", ddof=0)])
def test_a_spread_beyond_float64_is_infinite_in_every_order_and_says_nothing(function: AggregateFunction) -> None:
    for values in permutations([1e308, -1e308, 5.0]):
        for slots in product((0, 1), repeat=3):
            if sum(slots) > 0:
                # Warnings are errors here; slot 0 alone may have too few values.
                assert answers(function, pa.float64(), list(values), list(slots))[1] == float("inf")
    assert answers(function, pa.float64(), [1e200, -1e200, 1e200], [0, 0, 1]) == [float("inf")] * 2


def test_infinite_values_have_no_variance() -> None:
    for values in ([float("inf"), 1.0, 2.0], [1e308, float("-inf"), -1e308]):
        assert all(np.isnan(answers(fn.variance("x"), pa.float64(), list(values), [0, 0, 1])))  # type: ignore[arg-type]
