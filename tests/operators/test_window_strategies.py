"""However windows are made of their slices, the answer is that of `extent()`, and planted bugs are caught."""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import avg, count, max, min, sum
from operators.functions.protocol import AggregateFunction
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window import running
from operators.window_aggregate.stores.per_window.running import Running
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from punctuation import END, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.planted import found_out

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
SUBTRACTABLE: dict[str, AggregateFunction] = {"n": count(), "total": sum("v"), "mean": avg("v")}
ANY = {**SUBTRACTABLE, "most": max("v"), "least": min("v")}
STRATEGIES: tuple[Strategy, ...] = ("wid", "panes", "differential", "two_stacks")


def of_values(function: Callable[[list[int]], object]) -> Callable[[list[Row]], object]:
    def answer(members: list[Row]) -> object:
        values = [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]
        return function(values) if values else None

    return answer


ANSWERS: dict[str, Callable[[list[Row]], object]] = {
    "n": len,
    "total": of_values(builtins.sum),
    "mean": of_values(lambda values: builtins.sum(values) / len(values)),
    "most": of_values(builtins.max),
    "least": of_values(builtins.min),
}
sliding = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 12), slide=st.integers(1, 4), origin=st.integers(-2, 2)
)


def functions(strategy: Strategy) -> Mapping[str, AggregateFunction]:
    return SUBTRACTABLE if strategy == "differential" else ANY


def chained(window: SlidingWindow, by: tuple[str, ...], strategy: Strategy) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, functions(strategy), by, strategy=strategy)])


def check(window: SlidingWindow, by: tuple[str, ...], strategy: Strategy, script: Script, **more: Any) -> None:
    answers = {name: ANSWERS[name] for name in functions(strategy)}
    naive = lambda table: naive_windows(window, answers, by, table)  # noqa: E731
    check_operator(lambda: chained(window, by, strategy), script, naive=naive, **more)


@pytest.mark.parametrize("strategy", STRATEGIES)
@share(1)
@given(window=sliding, by=st.sampled_from([(), ("k",)]), script=streams(SCHEMA, group=("k",), tuples=14))
def test_every_strategy_gives_the_naive_answer(
    strategy: Strategy, window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    check(window, by, strategy, script)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("by", [(), ("k",)])
def test_late_tuples_count_in_open_windows_alone(strategy: Strategy, by: tuple[str, ...]) -> None:
    """Slices of late tuples leave before older slices do, so they cannot stand in the stacks."""
    rng = np.random.default_rng(3)
    window = SlidingWindow("ts", size=9, slide=1)
    script: list[Any] = []
    for bound in range(0, 60, 2):
        ts = rng.integers(bound - 8, bound + 12, 9)
        script += [
            Page.of(SCHEMA, {"ts": ts, "k": [f"{k}" for k in rng.integers(0, 4, 9)], "v": rng.integers(-9, 9, 9)}),
            before("ts", bound),
        ]
    script.append(END)

    def answers(strategy: Strategy) -> list[tuple[object, ...]]:
        found = rows(drive(chained(window, by, strategy), script))
        return sorted(tuple(row[name] for name in (*by, "wid", "n", "total", "mean")) for row in found)

    assert len(answers("panes")) > 50
    assert answers(strategy) == answers("panes")


@pytest.mark.parametrize("strategy", ["differential", "two_stacks"])
def test_nothing_is_carried_past_the_end(strategy: Strategy) -> None:
    window = SlidingWindow("ts", size=10, slide=1)
    operator = WindowAggregate(window, functions(strategy), ("k",), strategy=strategy)
    chain = Chain([Bucket(window), operator])
    page = Page.of(SCHEMA, {"ts": range(100), "k": [f"{i % 7}" for i in range(100)], "v": range(100)})
    drive(chain, [page, before("ts", 85)])
    assert operator.statistics()["carried"] > 0
    drive(chain, [before("ts", 200)])
    assert (operator.statistics()["carried"], operator.statistics()["state_tuples"]) == (0, 0)


@pytest.mark.parametrize("strategy", ["differential", "two_stacks"])
@pytest.mark.parametrize("by", [(), ("k",)])
def test_windows_of_few_results_leave_together_as_panes_give_them(
    strategy: Strategy, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two results are few here, and five leave at a time: windows of one, two and more results meet in every way.
    monkeypatch.setattr(running, "_FEW", 2)
    monkeypatch.setattr(running, "_COPIES", 5)
    drawn = random.Random(3)
    window = SlidingWindow("ts", size=7, slide=2)
    ticks = [(t, "abcd"[drawn.randrange(1 + t // 8 % 4)], drawn.randint(0, 9)) for t in range(90) if t % 31 < 24]
    pages = [Page.of_rows(SCHEMA, [list(row) for row in ticks[at : at + 40]]) for at in range(0, len(ticks), 40)]
    elements = [pages[0], before("ts", 30), *pages[1:], END]

    def found(strategy: Strategy) -> tuple[list[Row], int]:
        emitted = drive(Chain([Bucket(window), WindowAggregate(window, SUBTRACTABLE, by, strategy=strategy)]), elements)
        return rows(emitted), builtins.sum(isinstance(element, Page) for element in emitted)

    (carried, several), (combined, _) = found(strategy), found("panes")
    assert sorted(map(repr, carried)) == sorted(map(repr, combined))
    assert [row["wid"] for row in carried] == sorted(row["wid"] for row in combined)  # type: ignore[type-var]
    assert several < len({row["wid"] for row in carried})
    monkeypatch.undo()
    assert found(strategy)[0] == carried and found(strategy)[1] == 2


def test_auto_carries_over_many_groups_and_combines_few() -> None:
    def carried(groups: int, *more: AggregateFunction, step: int = 45) -> int:
        window = SlidingWindow("ts", size=40, slide=1)
        chosen = {"n": count()} | {f"m{i}": function for i, function in enumerate(more)}
        operator = WindowAggregate(window, chosen, ("v",))
        ts = np.repeat(np.arange(50), groups)
        page = Page.of(SCHEMA, {"ts": ts, "k": ["a"] * len(ts), "v": np.tile(np.arange(groups), 50)})
        drive(Chain([Bucket(window), operator]), [page, *(before("ts", bound) for bound in range(step, 46, step))])
        return operator.statistics()["carried"]

    assert (carried(10), carried(1000)) == (0, 1000)
    assert carried(1000, step=1) == 1000
    assert carried(1000, max("v")) > 0


def test_a_float_sum_cannot_be_subtracted_and_a_landmark_cannot_be_carried() -> None:
    schema = Schema.of(ts=pa.int64(), x=pa.float64(), progress=["ts"])
    window, landmark = SlidingWindow("ts", size=4, slide=2), LandmarkWindow("ts", slide=2)
    with pytest.raises(SchemaError, match=r'total \(sum\) cannot be subtracted exactly.*\n.*"two_stacks"'):
        Chain([Bucket(window), WindowAggregate(window, {"total": sum("x")}, strategy="differential")]).output_schema(
            schema
        )
    with pytest.raises(SchemaError, match="RANGE ALL never let go"):
        Chain([Bucket(landmark), WindowAggregate(landmark, {"n": count()}, strategy="two_stacks")]).output_schema(
            schema
        )
    with pytest.raises(ValueError, match="strategy"):
        WindowAggregate(window, {"n": count()}, strategy="stack")  # type: ignore[arg-type]


def _never_subtracts(self: Running, numbers: Any) -> None:
    del self, numbers


def _flips_young_into_old(self: Running, numbers: Any) -> Any:
    return PLAIN_LINK(self, numbers[::-1])


def _leaves_a_tick_late(self: Running, wid: int) -> None:
    PLAIN_LEAVE(self, wid - 1)


PLAIN_LINK, PLAIN_LEAVE = Running._link, Running._leave


@pytest.mark.parametrize(
    ("strategy", "method", "bug"),
    [
        ("differential", "_subtract", _never_subtracts),
        ("two_stacks", "_link", _flips_young_into_old),
        ("two_stacks", "_leave", _leaves_a_tick_late),
        ("differential", "_leave", _leaves_a_tick_late),
    ],
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy, method: str, bug: Callable[..., Any]
) -> None:
    monkeypatch.setattr(running.Running, method, bug)

    def tried(case: tuple[SlidingWindow, Script]) -> None:
        check(case[0], ("k",), strategy, case[1], laws={10})

    assert found_out(tried, st.tuples(sliding, streams(SCHEMA, group=("k",), tuples=14))) == 10


@pytest.mark.parametrize(("size", "slide", "panes", "moved"), [(60, 1, 60, 1), (60, 5, 12, 1), (64, 24, 5, 2)])
def test_a_window_that_is_carried_over_costs_what_leaves_and_what_enters(
    size: int, slide: int, panes: int, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count aggregates that are combined or subtracted: 2 G s/g a window and G for its results, not P G (Eq. 6.2).

    Panes are slices here, so `moved`, s/g, is how many a slide has, and 64 by 24 has 5 in place of 8.
    """
    groups, windows = 7, 40
    window, pane = SlidingWindow("ts", size=size, slide=slide), gcd(size, slide)
    ticks = np.repeat(np.arange(0, size + slide * windows, pane), groups)
    keys = [str(at % groups) for at in range(len(ticks))]
    page = Page.of(SCHEMA, {"ts": ticks, "k": keys, "v": np.ones(len(ticks), np.int64)})
    made_of, counts, compared = list[int](), dict[Strategy, float](), STRATEGIES[1:3]
    sums: Any = type(sum("v").accumulator(SCHEMA))
    for verb in (sums.combine, sums.subtract):

        def counting(own: Any, into: Any, source: Any, verb: Any = verb) -> None:
            made_of.append(len(into))
            verb(own, into, source)

        monkeypatch.setattr(sums, verb.__name__, counting)
    for strategy in compared:
        aggregate = WindowAggregate(window, {"total": sum("v")}, ("k",), strategy=strategy)
        chain = Chain([Bucket(window), aggregate])
        drive(chain, [page, before("ts", size)])
        made_of.clear()
        found = [rows(drive(chain, [before("ts", size + slide * number)])) for number in range(1, windows + 1)]
        assert all(len(each) == groups for each in found)
        assert all(row["total"] == size // pane for each in found for row in each)
        counts[strategy] = float(np.sum(made_of)) / windows
    assert 0 < counts["differential"] <= groups * (2 * moved + 1)
    assert counts["panes"] >= groups * (panes - 1)
