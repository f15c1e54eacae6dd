"""A page that comes with its promises gives what it gives piece by piece, late tuples included."""

from __future__ import annotations

import builtins
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.drive import drive, punctuations, rows
from operators.errors import OperatorBug
from operators.functions import AggregateFunction, avg, count, max, sum
from operators.protocol import Element, Emit, Promises
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow, tumbling
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices import SlicingAggregate, aggregate
from punctuation import END, before
from tests.operators.slicing.mixes import SCHEMA, Mix, bands, mixed, mixes, must_be_out, naive, operator, slidings

PLAIN: dict[str, AggregateFunction] = {"n": count(), "total": sum("v"), "mean": avg("v")}
ticks = st.lists(st.integers(-3, 25), max_size=12)
batches = st.lists(st.tuples(ticks, st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), max_size=3)), max_size=4)
"""Ticks of pages, and where promises stand in each, with how much further each is than the one before."""


def page_of(ticks: list[int], keys: str = "a") -> Page:
    values = [t * t if t % 7 else None for t in ticks]
    return Page.of(SCHEMA, {"ts": ticks, "k": [keys[t % len(keys)] for t in ticks], "v": values})


def bound_before(drawn: list[tuple[list[int], list[tuple[int, int]]]]) -> int:
    """Give the bound of the last promise, or where they begin."""
    return -5 + builtins.sum(step for _, promises in drawn for _, step in promises)


def handed_over(
    made: SlicingAggregate, drawn: list[tuple[list[int], list[tuple[int, int]]]], bound: int = -5
) -> list[Element]:
    """Give what an operator emits for pages with their promises."""
    emitted: list[Element] = []
    for page, promises in drawn:
        positions = sorted(min(position, len(page)) for position, _ in promises)
        bounds: list[int] = []
        for _, step in promises:
            bounds.append(bound := bound + step)
        made.process_with(
            page_of(page, "abc"),
            Promises("ts", np.array(positions, np.int64), np.array(bounds, np.int64)),
            emitted.append,
        )
    return emitted


class OneByOne(SlicingAggregate):
    """Take promises apart from their page."""

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        for element in promises.one_by_one(page):
            if isinstance(element, Page):
                self.process(element, emit)
            else:
                self.punctuate(element, emit)


class Hasty(SlicingAggregate):
    """Hear the promises before the tuples that they follow."""

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        hasty = Promises(promises.attribute, np.zeros_like(promises.positions), promises.bounds)
        super().process_with(page, hasty, emit, port)


@given(mixes, streams(SCHEMA, tuples=12))
def test_promises_may_come_with_their_page(mix: Mix, script: Script) -> None:
    check_operator(
        lambda: operator(mix),
        script,
        naive=lambda table: naive(mix, (), table),
        settled=lambda tables, progress: must_be_out(mix, (), tables[0], progress[0]),
        laws={1, 2, 3, 6, 10},
    )


@pytest.mark.parametrize("store", ["lazy", "eager"])
@given(mixes, batches)
def test_late_tuples_are_judged_by_the_promises_before_them(
    store: Literal["lazy", "eager"], mix: Mix, drawn: list[tuple[list[int], list[tuple[int, int]]]]
) -> None:
    functions = dict(PLAIN) if store == "eager" else PLAIN | {"most": max("v")}
    made = SlicingAggregate(mix, functions, store=store)  # type: ignore[arg-type]
    apart = OneByOne(mix, functions, store=store)  # type: ignore[arg-type]
    one = handed_over(made, drawn)
    with patch.object(aggregate, "batched", return_value=None):
        other = handed_over(apart, drawn)
    key = lambda row: str(sorted(row.items()))  # noqa: E731
    assert sorted(rows(one), key=key) == sorted(rows(other), key=key)
    if not any(isinstance(window, FixedBandWindow) for window in mix.values()):
        # Of windows that are all over, nothing is promised any more.
        assert punctuations(one)[-1:] == punctuations(other)[-1:]
    told, told_apart = made.statistics(), apart.statistics()
    for name in ("late", "in_no_window", "late_for_some", "results", "windows", "slices", "state_tuples"):
        assert told[name] == told_apart[name], name


def test_a_law_tells_who_hears_promises_too_early() -> None:
    script = Script.of(SCHEMA, [page_of([1, 2]), before("ts", 10), END])
    with pytest.raises(OperatorBug, match="law 6"):
        check_operator(lambda: Hasty({"w": tumbling("ts", 5)}, {"n": count()}), script)
    check_operator(lambda: SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}), script)


@pytest.mark.parametrize(("session", "store"), [(False, "lazy"), (True, "lazy"), (False, "eager")])
def test_more_results_than_are_listed_at_a_time(session: bool, store: Literal["lazy", "eager"]) -> None:
    windows: dict[str, SlidingWindow | SessionWindow] = {"one": tumbling("ts", 1), "three": tumbling("ts", 3)}
    if session:
        windows["busy"] = SessionWindow("ts", gap=2)
    spread = list(range(0, 9000, 3))
    with patch.object(aggregate, "batched", return_value=None):
        expected = drive(SlicingAggregate(windows, PLAIN), [page_of(spread), before("ts", 8000)])
    made, emitted = SlicingAggregate(windows, PLAIN, store=store), list[Element]()
    made.process_with(page_of(spread), Promises("ts", np.array([len(spread)]), np.array([8000])), emitted.append)
    key = lambda row: (row["window"], row["wid"])  # noqa: E731
    assert len(rows(emitted)) > 5000
    assert sorted(rows(emitted), key=key) == sorted(rows(expected), key=key)


def test_promises_on_other_attributes_go_the_slow_road() -> None:
    made, emitted = SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, by=["k"]), list[Element]()
    made.process_with(page_of([1, 2, 7]), Promises("ts", np.array([2, 3]), np.array([5, 6])), emitted.append)
    assert [row["n"] for row in rows(emitted)] == [2]
    made.process_with(page_of([8]), Promises("v", np.array([0]), np.array([3])), emitted.append)
    assert made.statistics()["slices"] == 1


@pytest.mark.parametrize("saved", [False, True])
@given(st.lists(st.one_of(slidings, bands), min_size=1, max_size=4).map(mixed), batches)
def test_groups_may_come_with_their_promises(
    saved: bool, mix: Mix, drawn: list[tuple[list[int], list[tuple[int, int]]]]
) -> None:
    functions: dict[str, AggregateFunction] = {**PLAIN, "most": max("v")}
    made, apart = SlicingAggregate(mix, functions, ("k",)), OneByOne(mix, functions, ("k",))  # type: ignore[arg-type]
    one, other = list[Element](), list[Element]()
    for place in range(len(drawn)):
        if saved:
            state = decode_state(encode_state(made.state()))
            made = SlicingAggregate(mix, functions, ("k",))  # type: ignore[arg-type]
            made.restore(state)
        one += handed_over(made, drawn[place : place + 1], bound_before(drawn[:place]))
        with patch.object(aggregate, "batched", return_value=None):
            other += handed_over(apart, drawn[place : place + 1], bound_before(drawn[:place]))
    key = lambda row: str(sorted(row.items()))  # noqa: E731
    assert sorted(rows(one), key=key) == sorted(rows(other), key=key)
    told, told_apart = made.statistics(), apart.statistics()
    for name in ("late", "in_no_window", "late_for_some", "results", "slices", "groups", "cells"):
        assert told[name] == told_apart[name], name


def test_more_results_of_groups_than_are_listed_at_a_time() -> None:
    windows = {"one": tumbling("ts", 1), "three": SlidingWindow("ts", size=9, slide=3)}
    functions = dict(PLAIN) | {"most": max("v")}
    rng = np.random.default_rng(3)
    ticks, keys = np.arange(6000) // 4, rng.integers(0, 200, 6000)
    page = Page.of(SCHEMA, {"ts": ticks, "k": [str(k) for k in keys], "v": keys - 50})
    made, emitted = SlicingAggregate(windows, functions, ("k",)), list[Element]()
    made.process_with(page, Promises("ts", np.array([3000, 6000]), np.array([700, 1400])), emitted.append)
    with patch.object(aggregate, "batched", return_value=None):
        apart = drive(
            SlicingAggregate(windows, functions, ("k",)),
            [page.slice(0, 3000), before("ts", 700), page.slice(3000, 6000), before("ts", 1400)],
        )
    key = lambda row: (row["window"], row["wid"], row["k"])  # noqa: E731
    assert len(rows(emitted)) > 5000
    assert sorted(rows(emitted), key=key) == sorted(rows(apart), key=key)


@pytest.mark.parametrize("session", [False, True])
def test_windows_of_few_slices_are_given_many_at_a_time_however_many_slices_are_held(session: bool) -> None:
    windows: dict[str, SlidingWindow | SessionWindow] = {"w": SlidingWindow("ts", size=30, slide=5)}
    if session:
        windows["busy"] = SessionWindow("ts", gap=4)
    spread = list(range(0, 80_000, 10))
    made, emitted = SlicingAggregate(windows, PLAIN, store="lazy"), list[Element]()
    for until, part in ((40_000, spread[:4_000]), (80_000, spread[4_000:])):
        made.process_with(page_of(part), Promises("ts", np.array([len(part)]), np.array([until])), emitted.append)
    with patch.object(aggregate, "batched", return_value=None):
        expected = drive(
            SlicingAggregate(windows, PLAIN),
            [page_of(spread[:4_000]), before("ts", 40_000), page_of(spread[4_000:]), before("ts", 80_000)],
        )
    key = lambda row: (row["window"] if session else "w", row["wid"])  # noqa: E731
    assert sorted(rows(emitted), key=key) == sorted(rows(expected), key=key)
    assert len(rows(emitted)) > 15_000
    pages = [len(element) for element in emitted if isinstance(element, Page)]
    assert len(pages) < 30, "of 3 slices a window and 4,000 slices held, one call finds more than 65 windows"


def test_lists_stay_short_for_many_windows_and_are_counted() -> None:
    # Each of 400 windows that end together has up to 2,000 slices: 800,000 pairs, and twice that in edges.
    windows = {f"w{i}": SlidingWindow("ts", size=2_000 + i, slide=3_000, origin=i - 400) for i in range(400)}
    made = SlicingAggregate({**windows, "ticks": tumbling("ts", 1)}, {"n": count()}, store="lazy")
    drive(made, [page_of(list(range(2_500)))])
    before_that = made.statistics()["state_bytes"]
    found = drive(made, [before("ts", 3_001)])
    assert len(rows(found)) > 2_500
    room = made.statistics()["peak_state_bytes"] - before_that
    assert 1 << 20 <= room <= 4 << 20, "pairs are listed, some at a time"


def test_lists_become_short_again() -> None:
    windows = {f"w{i}": SlidingWindow("ts", size=500, slide=500) for i in range(240)}
    made = SlicingAggregate({**windows, "ticks": tumbling("ts", 1)}, {"n": count()}, store="lazy")
    drive(made, [page_of(list(range(1_000))), before("ts", 1_000)])
    large = made.statistics()["state_bytes"]
    for tick in range(1_000, 1_200):
        drive(made, [page_of([tick]), before("ts", tick)])
    small = made.statistics()["state_bytes"]
    assert small < large / 2, (small, large)
    drive(made, [page_of(list(range(1_200, 2_000))), before("ts", 2_000)])
    assert made.statistics()["results"] == 240 * 4 + 2_000
