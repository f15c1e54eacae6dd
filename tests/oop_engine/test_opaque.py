"""Functions that cannot be recorded see all that they may read, wherever they stand in a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream

TABLE = pa.table({"ts": [1, 2, 3, 11], "length": [5, 2000, 1500, 7], "k": ["a", "b", "a", "b"]})
LONG = [False, True, True, False]


def large(page: Any) -> Any:
    return np.where(page["length"] > 1000, 1, 0)


def is_large(page: Any) -> Any:
    return np.where(page["length"] > 1000, True, False)


def counted(stream: Stream) -> list[int]:
    return [row["n"] for row in stream.window(10, wattr="ts").aggregate(n=oop.sum("x")).run().table.to_pylist()]


@pytest.mark.parametrize(
    "plan",
    [
        lambda s: s.derive(x=large),
        lambda s: s.derive(x=large).project("ts", "x"),
        lambda s: s.project("ts", x=large),
        lambda s: s.derive(y=large).derive(x=lambda p: p["y"] + 0).project("ts", "x"),
    ],
)
def test_what_a_function_reads_is_not_left_out_before_it(plan: Callable[[Stream], Stream]) -> None:
    assert counted(plan(oop.arrow(TABLE))) == [2, 0]


def test_a_filter_that_needs_arrays_reads_what_nobody_else_does() -> None:
    kept = oop.arrow(TABLE).filter(is_large).window(10, wattr="ts").aggregate(n=oop.count())
    assert [row["n"] for row in kept.run().table.to_pylist()] == [2]


def test_a_join_may_be_bound_to_a_function_that_needs_arrays() -> None:
    left, right = oop.arrow(TABLE), oop.arrow(TABLE)
    joined = left.join(right, "k", range=(10, 10), where=is_large)
    plain = left.join(right, "k", range=(10, 10), where="length > 1000")
    assert len(joined.run().table) == len(plain.run().table) > 0
