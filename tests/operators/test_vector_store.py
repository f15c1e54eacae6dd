"""Groups in vectors are answered as those in slots: the answer is that of `extent()`, and a saved store goes on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import AggregateFunction, avg, count, count_distinct, max, sum
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.vector_store import VectorStore
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from operators.window_aggregate.stores.slices import vectors
from punctuation import END, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.test_window_strategies import ANSWERS, SUBTRACTABLE, sliding

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])


def filled(store: SliceStore, groups: int) -> bool:
    """Stand in for the method: groups need be neither many nor in most slices."""
    running = store._running
    return groups > 0 and not store._chained and (running is None or running.technique == "differential")


@contextmanager
def at_once(*, small: int = vectors.SMALL) -> Generator[None]:
    """Let stores be of vectors as soon as anything is released; they are wasteful from so many bytes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SliceStore, "filled", filled)
        patch.setattr(vectors, "SMALL", small)
        yield


def chained(window: SlidingWindow, strategy: Strategy, functions: dict[str, AggregateFunction]) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, functions, ("k",), strategy=strategy)])


strategies: st.SearchStrategy[Strategy] = st.sampled_from(["auto", "panes", "differential"])


@share(1)
@given(
    strategy=strategies,
    small=st.sampled_from([vectors.SMALL, -(1 << 30)]),
    window=sliding,
    script=streams(SCHEMA, group=("k",), tuples=14),
)
def test_vectors_give_the_naive_answer(strategy: Strategy, small: int, window: SlidingWindow, script: Script) -> None:
    answers = {name: ANSWERS[name] for name in SUBTRACTABLE}
    with at_once(small=small):
        check_operator(
            lambda: chained(window, strategy, SUBTRACTABLE),
            script,
            naive=lambda table: naive_windows(window, answers, ("k",), table),
        )


@share(1)
@given(window=sliding, script=streams(SCHEMA, group=("k",), tuples=14))
def test_vectors_of_what_cannot_be_subtracted_give_the_naive_answer(window: SlidingWindow, script: Script) -> None:
    answers = {"most": ANSWERS["most"], "kinds": lambda members: len({r["v"] for r in members} - {None})}
    with at_once():
        check_operator(
            lambda: chained(window, "panes", {"most": max("v"), "kinds": count_distinct("v")}),
            script,
            naive=lambda table: naive_windows(window, answers, ("k",), table),
        )


@share(1)
@given(strategy=strategies, seed=st.integers(0, 2**32 - 1))
def test_groups_come_and_go_as_in_slots(strategy: Strategy, seed: int) -> None:
    """Late tuples, groups that pause, ids that are given to others, and a saved store in between."""
    rng = np.random.default_rng(seed)
    window = SlidingWindow("ts", size=int(rng.integers(3, 20)), slide=int(rng.integers(1, 4)))
    script: list[Any] = []
    for bound in range(0, 60, 3):
        ts, low = rng.integers(bound - 6, bound + 12, 40), 30 * (bound // 20)
        keys = [f"{k}" for k in rng.integers(low, low + 90, 40)]
        script += [Page.of(SCHEMA, {"ts": ts, "k": keys, "v": rng.integers(-9, 9, 40)}), before("ts", bound)]
    saved = int(rng.integers(0, len(script)))

    def found(strategy: Strategy) -> list[str]:
        operator = chained(window, strategy, SUBTRACTABLE)
        first = rows(drive(operator, script[:saved]))
        state, operator = operator.state(), chained(window, strategy, SUBTRACTABLE)
        operator.restore(state)
        return sorted(map(repr, first + rows(drive(operator, [*script[saved:], END]))))

    expected = found("two_stacks")
    with at_once():
        assert found(strategy) == expected


def test_many_groups_are_put_in_vectors_and_few_are_not() -> None:
    def stored(groups: int, share: float, *functions: AggregateFunction) -> object:
        rng, window = np.random.default_rng(1), SlidingWindow("ts", size=8, slide=1)
        operator = WindowAggregate(window, {f"a{i}": f for i, f in enumerate(functions)}, ("v",))
        n = int(groups * share)
        keys = np.concatenate([rng.choice(groups, n, replace=False) for _ in range(20)])
        page = Page.of(SCHEMA, {"ts": np.repeat(np.arange(20), n), "k": ["a"] * len(keys), "v": keys})
        drive(Chain([Bucket(window), operator]), [page, before("ts", 15)])
        return type(operator._store)

    assert stored(2000, 0.9, count(), sum("ts")) is VectorStore
    assert stored(2000, 0.02, count(), sum("ts")) is SliceStore
    assert stored(500, 0.9, count()) is SliceStore
    assert stored(2000, 0.9, count(), max("ts")) is SliceStore, "two stacks have slots"


def test_vectors_that_thin_out_become_slots_and_stay_so() -> None:
    rng, window, n = np.random.default_rng(1), SlidingWindow("ts", size=400, slide=10), 10_000
    operator = WindowAggregate(window, {"n": count(), "mean": avg("ts")}, ("v",))
    chain, kinds, found = Chain([Bucket(window), operator]), list[type](), 0
    for step in range(60):
        keys = np.arange(n) if step < 3 else rng.choice(n, n // 40, replace=False)
        page = Page.of(SCHEMA, {"ts": np.full(len(keys), 10 * step), "k": ["a"] * len(keys), "v": keys})
        found += len(rows(drive(chain, [page, before("ts", 10 * step + 10)])))
        kinds.append(type(operator._store))
    found += len(rows(drive(chain, [END])))
    changes = [kind for kind, one in zip(kinds, [None, *kinds], strict=False) if kind is not one]
    assert changes == [VectorStore, SliceStore]
    assert operator.statistics()["results"] == found
