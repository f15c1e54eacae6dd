"""Thousands of windows share slices, and each of them takes little memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.functions import sum
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from operators.window_aggregate.stores.slices.windows import Spec
from punctuation import before

SCHEMA = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
MANY = 20_000
WANTED = 300


def pages(last: int, tuples: int) -> list[Element]:
    ts = np.linspace(0, last, tuples).astype(np.int64)
    found: list[Element] = []
    for part in np.array_split(ts, 8):
        found += [Page.of(SCHEMA, {"ts": part, "v": part % 7}), before("ts", int(part[-1]))]
    return found


def fed(operator: SlicingAggregate, elements: list[Element]) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            found.extend(tuple(row.values()) for row in element.plain_rows())

    for element in elements:
        if isinstance(element, Page):
            operator.process(element, emit)
        else:
            operator.punctuate(element, emit)
    return found


@pytest.mark.parametrize("slide", [1, 2])
def test_a_window_of_many_takes_no_more_than_is_wanted(slide: int) -> None:
    windows: dict[str, Spec] = {
        f"w{i}": SlidingWindow("ts", size=slide * (10_000 + i), slide=10_000 + i) for i in range(MANY)
    }
    operator = SlicingAggregate(windows, {"total": sum("v")})
    assert operator.combines_ahead
    assert fed(operator, pages(10_100, 1_000))
    held = operator.statistics()
    assert max(held["state_bytes"], held["peak_state_bytes"]) <= WANTED * MANY


def test_windows_that_come_and_go_are_saved_with_how_far_each_is() -> None:
    windows: dict[str, Spec] = {f"w{i}": SlidingWindow("ts", size=3 + i % 5, slide=2 + i % 3) for i in range(60)}
    windows |= {f"s{i}": SessionWindow("ts", gap=2 + i) for i in range(3)}
    elements = pages(99, 60)
    operator, restored = (SlicingAggregate(windows, {"total": sum("v")}) for _ in range(2))
    fed(operator, elements[:6])
    for name in ("w7", "s1", "w30"):
        operator.remove(name)
    operator.add("late", SlidingWindow("ts", size=4, slide=4))
    operator.add("busy", SessionWindow("ts", gap=3))
    fed(operator, elements[6:8])
    restored.output_schema(SCHEMA)
    restored.restore(decode_state(encode_state(operator.state())))
    assert list(restored.windows) == list(operator.windows)
    operator.remove("w0")
    restored.remove("w0")
    assert sorted(fed(restored, elements[8:])) == sorted(fed(operator, elements[8:]))
