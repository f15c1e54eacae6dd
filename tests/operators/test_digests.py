"""Digests are equal for equal rows, whatever stands beside them, and differ for others."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from operators.data.digests import digests

PAIRS = [
    (pa.int64(), 1, 2),
    (pa.float64(), 0.5, 0.25),
    (pa.bool_(), True, False),
    (pa.string(), "a", ""),
    (pa.large_string(), "a", "b"),
    (pa.binary(), b"a", b"b"),
    (pa.binary(16), b"a" * 16, b"b" * 16),
    (pa.decimal128(20, 2), Decimal("1.25"), Decimal("1.26")),
    (pa.timestamp("ns"), datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)),
    (pa.dictionary(pa.int32(), pa.string()), "a", "b"),
    (pa.list_(pa.int64()), [1, 2], [2, 1]),
    (pa.list_(pa.int64()), [0], [0, 0]),
    (pa.list_(pa.int64()), [], [None]),
    (pa.list_(pa.list_(pa.string())), [["a"], []], [[], ["a"]]),
    (pa.list_(pa.int8(), 2), [1, 2], [2, 2]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": "x"}, {"a": 1, "b": None}),
    (pa.list_(pa.struct([("a", pa.int64())])), [{"a": 1}], [{"a": 2}]),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 2)]),
]


@pytest.mark.parametrize(("kind", "one", "other"), PAIRS)
def test_equal_values_have_equal_digests_and_others_have_not(kind: pa.DataType, one: object, other: object) -> None:
    column = pa.array([one, other, None, one], kind)
    found = digests([column], 4).tolist()
    assert found[0] == found[3] and len(set(found)) == 3
    alone = [int(digests([column.slice(i, 1)], 1)[0]) for i in range(4)]
    assert alone == found


def test_a_digest_is_of_all_columns_in_their_order() -> None:
    one, other = pa.array([1, 2]), pa.array([2, 1])
    first, second = digests([one, other], 2).tolist()
    assert first != second and digests([other, one], 2).tolist() == [second, first]
    assert digests([], 2).tolist() == [0, 0]


def test_nan_is_one_value() -> None:
    first, second = digests([pa.array([float("nan"), -float("nan")])], 2).tolist()
    assert first == second
