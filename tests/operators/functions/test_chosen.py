"""What first, last, argmin and argmax choose, how ties are broken, and that the log of values does not outgrow them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError
from operators.functions import Accumulator, AggregateFunction

LISTS = Schema.of(x=pa.list_(pa.int64()), y=pa.int64())
TEXTS = Schema.of(x=pa.string(), y=pa.float64())


def prepared(function: AggregateFunction, schema: Schema, capacity: int) -> Accumulator:
    accumulator = function.accumulator(schema)
    accumulator.reserve(capacity)
    accumulator.init(np.arange(capacity, dtype=np.int32))
    return accumulator


def answer(function: AggregateFunction, schema: Schema, rows: list[tuple[object, object]]) -> object:
    accumulator = prepared(function, schema, 1)
    for row in rows:
        accumulator.update(np.zeros(1, np.int32), Page.of_rows(schema, [row]))
    one_page = prepared(function, schema, 1)
    one_page.update(np.zeros(len(rows), np.int32), Page.of_rows(schema, rows))
    results = [a.finalize(np.zeros(1, np.int32)).to_pylist()[0] for a in (accumulator, one_page)]
    assert results[0] == results[1]
    return results[0]


def test_first_and_last_skip_nulls() -> None:
    rows = [(None, 1), ([1], 2), ([2], 3), (None, 4)]
    assert answer(fn.first("x"), LISTS, rows) == [1]
    assert answer(fn.last("x"), LISTS, rows) == [2]


def test_combining_goes_by_arrival_and_not_by_slot() -> None:
    for function, wanted in ((fn.first("x"), "early"), (fn.last("x"), "late")):
        for into, source in ((0, 1), (1, 0)):
            accumulator = prepared(function, TEXTS, 2)
            accumulator.update(np.array([1, 0], np.int32), Page.of_rows(TEXTS, [("early", 0.0), ("late", 0.0)]))
            accumulator.combine(np.array([into], np.int32), np.array([source], np.int32))
            assert accumulator.finalize(np.array([into], np.int32)).to_pylist() == [wanted]


def test_of_equal_tuples_the_smaller_value_is_chosen_and_null_last() -> None:
    rows = [(None, 1.0), ("b", 1.0), ("a", 1.0), ("c", 0.5), ("0", None), ("d", 0.5)]
    assert answer(fn.argmax("x", "y"), TEXTS, rows) == "a"
    assert answer(fn.argmin("x", "y"), TEXTS, rows) == "c"
    assert answer(fn.argmax("x", "y"), TEXTS, [("a", 1.0), (None, 2.0)]) is None


def test_of_equal_tuples_whose_values_have_no_order_the_one_that_arrived_first_is_chosen() -> None:
    assert answer(fn.argmin("x", "y"), LISTS, [([2], 1), ([1], 1), (None, 1)]) == [2]


def test_of_equal_tuples_in_several_slots_the_one_that_arrived_first_is_chosen() -> None:
    accumulator = prepared(fn.argmin("x", "y"), LISTS, 4)
    rows = [([3], 9), ([2], 1), ([1], 1), ([0], 1)]
    accumulator.update(np.array([0, 1, 2, 3], np.int32), Page.of_rows(LISTS, rows))
    accumulator.combine(np.array([0, 3], np.int32), np.array([2, 0], np.int32))
    assert accumulator.finalize(np.array([0, 3], np.int32)).to_pylist() == [[1], [1]]
    accumulator.combine(np.array([0], np.int32), np.array([1], np.int32))
    assert accumulator.finalize(np.array([0], np.int32)).to_pylist() == [[2]]


def test_the_largest_number_is_chosen_before_null() -> None:
    schema = Schema.of(x=pa.int64(), y=pa.int64())
    largest = (1 << 63) - 1
    for rows in ([(None, 1), (largest, 1)], [(largest, 1), (None, 1)]):
        assert answer(fn.argmin("x", "y"), schema, rows) == largest
        accumulator = prepared(fn.argmax("x", "y"), schema, 2)
        accumulator.update(np.array([0, 1], np.int32), Page.of_rows(schema, rows))
        accumulator.combine(np.array([0], np.int32), np.array([1], np.int32))
        assert accumulator.finalize(np.array([0], np.int32)).to_pylist() == [largest]


def test_nan_is_the_least_and_the_greatest() -> None:
    rows = [("a", 1.0), ("nan", math.nan), ("b", -math.inf), ("c", math.inf)]
    assert answer(fn.argmin("x", "y"), TEXTS, rows) == "nan"
    assert answer(fn.argmax("x", "y"), TEXTS, rows) == "nan"


def test_what_has_no_order_is_refused_as_by() -> None:
    with pytest.raises(SchemaError, match=r'argmin\(y, x\): "x" has type list<.*>; its values have no order'):
        fn.argmin("y", "x").accumulator(LISTS)
    with pytest.raises(SchemaError, match=r"min\(x\).*\n  Write first\(x\)"):
        fn.min("x").output_field(LISTS, "least")


def test_addresses_stay_addresses(ip_schema: Schema) -> None:
    for function in (
        fn.min("ip"),
        fn.max("ip"),
        fn.first("ip"),
        fn.last("ip"),
        fn.argmin("ip", "ts"),
        fn.argmax("ip", "ts"),
    ):
        assert is_ip(function.output_field(ip_schema, "who"))
        assert function.output_field(ip_schema, "who").name == "who"


@pytest.fixture
def ip_schema() -> Schema:
    from operators.data.schema import ip_field

    return Schema(pa.schema([ip_field("ip"), pa.field("ts", pa.timestamp("us"), nullable=False)]))


@pytest.mark.parametrize("function", [fn.last("x"), fn.argmax("x", "y"), fn.max("x")], ids=lambda f: f.name)
def test_the_log_holds_little_more_than_what_is_chosen(function: AggregateFunction) -> None:
    accumulator = prepared(function, TEXTS, 8)
    slots = np.arange(8, dtype=np.int32)
    start = accumulator.nbytes
    for number in range(1200):
        accumulator.update(slots, Page.of_rows(TEXTS, [(f"{number:06}" * 4, float(number))] * 8))
    # 9600 values of some 40 bytes each passed through; 1024 may lie dead.
    assert accumulator.nbytes < start + 1200 * 48
    assert accumulator.finalize(slots).to_pylist() == ["001199" * 4] * 8
    accumulator.free(slots)
    accumulator.free(slots)
    assert accumulator.nbytes == start
    assert accumulator.finalize(slots).null_count == 8


def test_slots_that_share_a_choice_outlive_each_other() -> None:
    accumulator = prepared(fn.last("x"), TEXTS, 3)
    accumulator.update(np.zeros(1, np.int32), Page.of_rows(TEXTS, [("kept", 0.0)]))
    accumulator.combine(np.array([1, 2, 2], np.int32), np.array([0, 1, 0], np.int32))
    accumulator.free(np.array([0], np.int32))
    for number in range(2000):
        accumulator.update(np.zeros(1, np.int32), Page.of_rows(TEXTS, [(str(number), 0.0)]))
    assert accumulator.finalize(np.arange(3, dtype=np.int32)).to_pylist() == ["1999", "kept", "kept"]
