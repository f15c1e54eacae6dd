"""Windows between edges fire by their window-ids, and late tuples change them, as the list of their edges says."""

from __future__ import annotations

import doctest
from bisect import bisect_right
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Row
from operators.drive import drive, rows
from operators.kernels.ticks import FOREVER, LIMIT
from operators.signals import Signal
from operators.window import edges
from operators.window.edges import NumberedEdges
from operators.window.user import EdgeWindow
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import Condition, Rows
from operators.window_aggregate.triggers.promised import Every
from punctuation import END, Punctuation, before
from tests.examples import share
from tests.naive_triggers import naive_triggers
from tests.operators.triggers.test_late import conditions, late_streams
from tests.operators.triggers.test_triggers import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Moment,
    bag,
    groups,
    moments,
    one_by_one,
    run,
)
from tests.operators.triggers.test_triggers import ticks as page_of

NEVER = 1000
"""The end, in the definition, of a window that ends with the stream."""


@attrs.frozen
class Listed:
    """The next of some edges; behind the last there is none."""

    edges: tuple[int, ...]

    def __call__(self, tick: int) -> int:
        at = bisect_right(self.edges, tick)
        return self.edges[at] if at < len(self.edges) else LIMIT


@attrs.frozen
class Naive:
    """Windows between edges by definition: each begins at one of them, and has no other in it; the last has no end."""

    edges: tuple[int, ...]
    never: int = NEVER
    wattr: str = "ts"

    def extent(self, wid: int) -> tuple[int, int]:
        return (
            (wid, min((edge for edge in self.edges if edge > wid), default=self.never))
            if wid in self.edges
            else (wid, wid)
        )


@attrs.frozen
class Asked:
    """Edges, a condition and groups, what is made of results, and how late a tuple may be."""

    edges: tuple[int, ...]
    condition: Condition
    by: tuple[str, ...]
    discards: bool
    lateness: int

    def operator(self) -> TriggeredAggregate:
        window = NumberedEdges(EdgeWindow("ts", Listed(self.edges)))
        options = {"discards": self.discards, "lateness": self.lateness}
        return TriggeredAggregate(window, FUNCTIONS, self.by, condition=self.condition, tagged=False, **options)  # type: ignore[arg-type]

    def naive(self, given: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        options = {"discard": self.discards, "lateness": self.lateness}
        found = naive_triggers(Naive(self.edges), self.condition, ANSWERS, self.by, given, **options)  # type: ignore[arg-type]
        open_ = {"window_end": None, "fired": None}
        return [row | (open_ if row["window_end"] == NEVER else {}) for row in found]


listed = st.sets(st.integers(-8, 40), min_size=2, max_size=10).map(lambda some: tuple(sorted(some)))
asked = st.builds(Asked, listed, conditions, groups, st.booleans(), st.sampled_from([0, 1, 6]))


def test_the_example() -> None:
    assert doctest.testmod(edges).failed == 0


@given(listed, st.lists(st.integers(-12, 45)))
def test_the_window_of_a_tick_is_the_one_whose_extent_has_it(some: tuple[int, ...], values: list[int]) -> None:
    window, naive = NumberedEdges(EdgeWindow("ts", Listed(some))), Naive(some, FOREVER)
    first, last = window.wids(np.array(values, np.int64))
    for value, low, high in zip(values, first.tolist(), last.tolist(), strict=True):
        right = [wid for wid in some if naive.extent(wid)[0] <= value < naive.extent(wid)[1]]
        assert list(range(low, high)) == right
    for wid in range(-12, 45):
        assert window.extent(wid) == naive.extent(wid)
        assert [column.tolist() for column in window.extents(np.array([wid, some[0]]))] == [
            list(pair) for pair in zip(naive.extent(wid), naive.extent(some[0]), strict=True)
        ]
    for bound in range(-12, 45):
        over = {wid for wid in some[:-1] if naive.extent(wid)[1] <= bound}
        assert over == {wid for wid in some[:-1] if wid < window.complete(bound)}


@share(0.5)
@given(asked, late_streams())
def test_they_fire_and_are_given_again_as_the_definition_says(one: Asked, elements: list[Moment]) -> None:
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


def test_a_window_behind_the_last_edge_ends_with_the_stream() -> None:
    one = Asked((0, 10), Rows(2), (), False, 0)
    found = run(one, [page_of(3, 11, 12, -4), before("ts", 10), END], saving=True)
    assert [(row["wid"], row["window_end"], row["n"], row["final"]) for row in found] == [
        (10, None, 2, False), (0, 10, 1, True), (10, None, 2, True)
    ]  # fmt: skip


@pytest.mark.parametrize("lateness", [0, 6])
def test_a_window_that_ends_with_the_stream_is_taken_back_like_others(lateness: int) -> None:
    fires = Asked((0, 10), Rows(1), (), False, lateness).operator()
    chain = Chain([fires, Refine()])
    chain.output_schema(SCHEMA)
    found = rows(drive(chain, [page_of(3, 11, 12), before("ts", 10), END]))
    assert [(row["wid"], row["n"], row["final"], row["sign"]) for row in found] == [
        (0, 1, False, 1), (10, 1, False, 1), (10, 1, False, -1), (10, 2, False, 1),
        (0, 1, False, -1), (0, 1, True, 1), (10, 2, False, -1), (10, 2, True, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("tick", [-LIMIT, LIMIT, -FOREVER, FOREVER])
def test_ticks_and_promises_out_of_range_are_of_no_window_of_others(tick: int) -> None:
    window = NumberedEdges(EdgeWindow("ts", Listed((0, 10))))
    assert window.extent(tick) == (tick, tick)
    low, high = window.wids(np.array([tick, 3]))
    assert (low[1], high[1]) == (0, 1)
    assert window.complete(max(-2 * LIMIT, min(tick, 2 * LIMIT))) == (10 if tick > 0 else max(-2 * LIMIT, tick))


def test_an_edge_is_asked_for_once_a_window() -> None:
    calls: list[int] = []

    def next_edge(tick: int) -> int:
        calls.append(tick)
        return tick // 1000 * 1000 + 1000

    window = NumberedEdges(EdgeWindow("ts", next_edge))
    window.wids(np.array([5]))
    before_many = len(calls)
    first, _ = window.wids(np.arange(100_000) % 2000)
    assert set(first.tolist()) == {0, 1000}
    assert len(calls) - before_many < 100
    asked_so_far = len(calls)
    window.extents(np.repeat(np.array([0, 1000]), 1000))
    assert len(calls) == asked_so_far


def test_on_event_time_alone_they_fire_behind_the_promise_that_reaches_a_tick() -> None:
    one = Asked((0, 7, 40), Every(3, 3), (), False, 0)
    found = run(one, [page_of(1, 8), before("ts", 3), before("ts", 10), END], saving=False)
    assert [(row["wid"], row["n"], row["final"]) for row in found] == [
        (0, 1, False), (0, 1, True), (7, 1, False), (7, 1, True)
    ]  # fmt: skip
