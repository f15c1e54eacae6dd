"""A page whose ticks never fall is placed a cell at a time; its slices are those of the same page in another order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import count, sum
from operators.kernels.slicing import place as kernels
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before

SCHEMA = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
FAR = 2**61


@st.composite
def windows(draw: st.DrawFn) -> dict[str, SlidingWindow]:
    """Draw windows that overlap, tumble or leave gaps, some of which begin after the stream."""
    found: dict[str, SlidingWindow] = {}
    for k in range(draw(st.integers(1, 4))):
        size, slide = draw(st.integers(1, 400)), draw(st.integers(1, 400))
        origin, partial = draw(st.integers(-50, 300)), draw(st.booleans())
        found[f"w{k}"] = SlidingWindow("ts", size=size, slide=slide, origin=origin, partial=partial)
    return found


@st.composite
def ticks(draw: st.DrawFn) -> list[list[int]]:
    """Draw pages of ticks in order: single ones, many alike, some out of range, pages that go back behind others."""
    pages: list[list[int]] = []
    for _ in range(draw(st.integers(1, 4))):
        n, top = draw(st.sampled_from([1, 2, 9, 700])), draw(st.sampled_from([1, 30, 5000]))
        low = draw(st.integers(-100, 600))
        page = np.sort(np.random.default_rng(draw(st.integers(0, 99))).integers(low, low + top, n)).tolist()
        pages.append(page + [FAR] * draw(st.sampled_from([0, 0, 0, 1])))
    return pages


@given(windows(), ticks(), st.lists(st.integers(-50, 900), max_size=3), st.sampled_from(["lazy", "eager"]))
def test_order_within_a_page_changes_no_answer_and_no_count(
    used: dict[str, SlidingWindow], pages: list[list[int]], bounds: list[int], store: str
) -> None:
    answers: list[object] = []
    for step in (1, -1):
        operator = SlicingAggregate(used, {"n": count(), "total": sum("v")}, store=store, named=True)  # type: ignore[arg-type]
        script: list[Element] = []
        for k, page in enumerate(pages):
            columns = {"ts": np.array(page)[::step], "v": np.arange(len(page))[::step]}
            script.append(Page.of(SCHEMA, columns))
            script += [before("ts", bound) for bound in sorted(bounds)[k : k + 1]]
        found = [element for given in script for element in drive(operator, [given])]
        lost = {name: operator.statistics()[name] for name in ("late", "in_no_window", "without_value")}
        found += drive(operator, [END])
        answers.append((sorted(rows(found), key=repr), lost))
    assert answers[0] == answers[1]


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=600),
    st.integers(0, 600),
    st.integers(-1, 42),
    st.sampled_from([1, 5, 11]),
)
def test_the_first_place_from_a_tick_on_is_found(values: list[int], start: int, tick: int, power: int) -> None:
    ordered, start, tick = np.sort(values) ** power, min(start, len(values)), tick**power
    expected = max(start, int(np.searchsorted(ordered, tick)))
    assert kernels.first_from(ordered, start, tick) == expected


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 600])
def test_one_fall_anywhere_is_seen(n: int) -> None:
    for fall in range(1, n, 17):
        values = np.arange(n)
        values[fall] = values[fall - 1] - 1
        assert not kernels.rising(values, 0)
        assert kernels.rising(values, fall)
    assert kernels.rising(np.zeros(n, np.int64), 0)
