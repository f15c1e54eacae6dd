"""How windows are made of slices is chosen anew as a stream changes: at any release, without a change of the answer."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page
from operators.drive import drive, rows
from operators.functions import count, max, sum
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window import store as slots
from operators.window_aggregate.stores.per_window import vector_store
from operators.window_aggregate.stores.per_window.running import Running
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.vector_store import VectorStore
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.strategy import WRONG, Carrying, carries_over, leaves_vectors, subtractable
from punctuation import END, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.test_vector_store import filled
from tests.operators.test_window_strategies import ANSWERS, ANY, SCHEMA, SUBTRACTABLE, sliding


@contextmanager
def at_random(seed: int, *, vectors: bool) -> Generator[list[tuple[str, str]]]:
    """Let chance choose at each release; yields the changes: from what to what windows are made."""
    drawn, changes = random.Random(seed), list[tuple[str, str]]()

    def chosen(accumulators: Any, *, carried: Carrying | None = None, **_: object) -> Carrying | None:
        technique: Carrying = "differential" if subtractable(accumulators) and drawn.random() < 0.7 else "two_stacks"
        found = None if drawn.random() < 0.5 else carried or technique
        if found != carried:
            changes.append((carried or "combine", found or "combine"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "carries_over", chosen)
        patch.setattr(slots, "PARTS_A_WINDOW", 0)
        patch.setattr(vector_store, "carries_over", chosen)
        if vectors:
            patch.setattr(SliceStore, "filled", lambda self, groups: filled(self, groups) and drawn.random() < 0.5)
            patch.setattr(VectorStore, "wasteful", property(lambda _: drawn.random() < 0.5))
        yield changes


def chained(window: SlidingWindow, functions: dict[str, AggregateFunction], *by: str) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, functions, by)])


@share(1)
@given(
    window=sliding,
    by=st.sampled_from([(), ("k",)]),
    functions=st.sampled_from([SUBTRACTABLE, ANY]),
    script=streams(SCHEMA, group=("k",), tuples=14),
    seed=st.integers(0, 2**32 - 1),
)
def test_changes_at_any_release_keep_the_laws(
    window: SlidingWindow, by: tuple[str, ...], functions: dict[str, AggregateFunction], script: Script, seed: int
) -> None:
    answers = {name: ANSWERS[name] for name in functions}
    with at_random(seed, vectors=bool(by)):
        check_operator(
            lambda: chained(window, functions, *by),
            script,
            naive=lambda table: naive_windows(window, answers, by, table),
        )


def _streamed(seed: int) -> tuple[SlidingWindow, list[Element]]:
    """Make a stream of late tuples and of groups that come and go, with a promise behind each page."""
    rng = np.random.default_rng(seed)
    window = SlidingWindow("ts", size=int(rng.integers(3, 20)), slide=int(rng.integers(1, 4)))
    script: list[Element] = []
    for bound in range(0, 90, 3):
        ts, low = rng.integers(bound - 6, bound + 12, 40), 8 * (bound // 30)
        keys = [f"{k}" for k in rng.integers(low, low + 12, 40)]
        script += [Page.of(SCHEMA, {"ts": ts, "k": keys, "v": rng.integers(-9, 9, 40)}), before("ts", bound)]
    return window, [*script, END]


@pytest.mark.parametrize("functions", [SUBTRACTABLE, ANY])
def test_all_changes_occur_and_what_is_saved_between_them_goes_on(functions: dict[str, AggregateFunction]) -> None:
    occurred = set[tuple[str, str]]()
    for seed in range(6):
        window, script = _streamed(seed)
        expected = sorted(map(repr, rows(drive(by_panes(window, functions), script))))
        with at_random(seed, vectors=seed % 3 == 0 and functions is SUBTRACTABLE) as changes:
            operator, found = chained(window, functions, "k"), list[Any]()
            for number, element in enumerate(script):
                found += rows(drive(operator, [element]))
                if number % 7 == seed % 7:
                    state, operator = operator.state(), chained(window, functions, "k")
                    operator.restore(state)
        assert sorted(map(repr, found)) == expected
        assert operator.statistics()["state_tuples"] == operator.statistics()["carried"] == 0
        occurred |= set(changes)
    ways = {"two_stacks"} | ({"differential"} if functions is SUBTRACTABLE else set[str]())
    assert occurred == {("combine", way) for way in ways} | {(way, "combine") for way in ways}


def by_panes(window: SlidingWindow, functions: dict[str, AggregateFunction]) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, functions, ("k",), strategy="panes")])


@pytest.mark.parametrize(
    ("function", "way"), [(sum("v"), "vectors"), (sum("ts"), "differential"), (max("v"), "two_stacks")]
)
def test_what_a_burst_made_worth_it_ends_and_comes_back_with_it(function: AggregateFunction, way: str) -> None:
    window, many = SlidingWindow("ts", size=64, slide=1), 2000 if way != "differential" else 1000
    operator = WindowAggregate(window, {"x": function}, ("k",))
    chain, kinds = Chain([Bucket(window), operator]), list[str]()
    for step in range(400):
        keys = np.arange(many if 20 <= step % 200 < 100 else 3)
        page = {"ts": np.full(len(keys), step), "k": keys.astype(str), "v": keys}
        drive(chain, [Page.of(SCHEMA, page), before("ts", step + 1)])
        store = operator._store
        if isinstance(store, SliceStore):
            kinds.append("combine" if store._running is None else store._running.technique)
        else:
            kinds.append("vectors")
    changes = [kind for kind, one in zip(kinds, [None, *kinds], strict=False) if kind != one]
    if way == "vectors":
        # Until most of a burst is in the window, slots are carried over.
        changes = [kind for kind in changes if kind != "differential"]
    assert changes == ["combine", way, "combine", way, "combine"]


def test_a_choice_stands_until_it_is_wrong_by_the_factor_that_is_stated() -> None:
    sums = [count().accumulator(SCHEMA)]
    begins = next(parts for parts in range(0, 60_000, 100) if carries_over(sums, windows=1, parts=parts, slots=0))
    carried: Carrying = "differential"
    stays = [p for p in range(0, 60_000, 100) if carries_over(sums, windows=1, parts=p, slots=0, carried=carried)]
    assert abs(begins - WRONG * stays[0]) < 100 * (WRONG + 1)
    shape = {"groups": 2000, "slices": 10, "width": 24, "beside": 50}
    left = [parts for parts in range(0, 20_000, 10) if leaves_vectors(parts=parts, **shape)]
    assert 0 < left[-1] < 2000 * 10 * 0.44 / WRONG
    assert not leaves_vectors(parts=0, **{**shape, "slices": 0})


def test_slices_that_hold_suffixes_and_are_combined_anew_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Running.release

    def ends_at_once(self: Running, released: int, bound: int) -> Any:
        if self.ending:
            self._end(released)
        else:
            yield from plain(self, released, bound)

    monkeypatch.setattr(Running, "release", ends_at_once)
    with pytest.raises(AssertionError):
        test_all_changes_occur_and_what_is_saved_between_them_goes_on(ANY)
