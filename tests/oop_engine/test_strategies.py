"""One property for all strategies: whatever computes a window, over whatever stream, it gives what `extent()` says."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.physical import STRATEGIES, Wanted, steps
from operators.chain import Chain
from operators.functions import avg, count, max, median, sum
from operators.functions.protocol import AggregateFunction
from operators.page import Row
from operators.schema import Schema
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from tests.naive_aggregate import naive_windows

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: dict[str, AggregateFunction] = {
    "n": count(), "total": sum("v"), "mean": avg("v"), "most": max("v"), "middle": median("v"),
}  # fmt: skip
sliding = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 9), slide=st.integers(1, 4), origin=st.integers(-2, 2)
)


def of_values(function: Callable[[list[int]], object]) -> Callable[[list[Row]], object]:
    def answer(members: list[Row]) -> object:
        values = sorted(int(row["v"]) for row in members if row["v"] is not None)  # type: ignore[arg-type]
        return function(values) if values else None

    return answer


ANSWERS: dict[str, Callable[[list[Row]], object]] = {
    "n": len,
    "total": of_values(builtins.sum),
    "mean": of_values(lambda values: builtins.sum(values) / len(values)),
    "most": of_values(lambda values: values[-1]),
    "middle": of_values(lambda values: values[(len(values) - 1) // 2]),
}
SUBTRACTABLE = ("n", "total", "mean", "middle")
IN_PARTS = ("n", "total", "mean", "most")


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "stacks"])
@given(
    window=sliding,
    by=st.sampled_from([(), ("k",)]),
    script=streams(SCHEMA, group=("k",), tuples=12, nulls=("v",)),
)
def test_every_strategy_gives_the_naive_answer(
    strategy: str, window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    names = {"differential": SUBTRACTABLE, "two_level": IN_PARTS}.get(strategy, tuple(FUNCTIONS))
    functions = {name: FUNCTIONS[name] for name in names}
    by = by or ("k",) if strategy.startswith("adaptive") else by
    wanted = Wanted(windows={"": window}, functions=functions, by=by, strategy=strategy)
    check_operator(
        lambda: Chain([step.operator for step in steps(wanted, SCHEMA)]),
        script,
        naive=lambda table: naive_windows(window, {name: ANSWERS[name] for name in names}, by, table),
    )
