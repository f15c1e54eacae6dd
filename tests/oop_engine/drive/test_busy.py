"""The operator that keeps a live source waiting is named; not one of a file, nor one that was slow only once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import oop_engine as oop
from tests.oop_engine.drive.simulated import SCHEMA, Simulated, Slow, live


def asked(source: oop.Stream, seconds: Sequence[float]) -> str:
    """Run with an operator that takes so long for each page, a tuple a second, and return the cause and the holder."""
    slow = Slow()
    run = Simulated(source.apply(slow).window(range="100 s").aggregate(oop.count()), 1000)
    for at, took in enumerate(seconds):
        run.now = max(run.now, 1000.0 + at)
        run.spend(took)
        run.give("a", [(1000 + at, 0)])
    wait = run.why()
    return f"{wait.cause}: {wait.holder}"


@pytest.mark.parametrize(
    ("seconds", "holder"),
    [([1.0] * 20, "backpressure: Slow"), ([0.1] * 20, "behind: a"), ([0.1, 0.1, 0.1, 1.5, 1.5, 0.1], "behind: a")],
)
def test_an_operator_that_is_at_work_all_the_time_holds_a_live_source_up(seconds: list[float], holder: str) -> None:
    assert asked(live("a", oop.ordered()), seconds).startswith(holder)


def test_a_file_is_read_as_fast_as_operators_take_it() -> None:
    rows = [(1000 + at, 0) for at in range(30)]
    assert asked(oop.rows(rows, SCHEMA, name="a"), [1.0] * 20).endswith(": a")


def test_a_fast_operator_is_timed_seldom_and_its_share_is_right() -> None:
    run = Simulated(live("a", oop.ordered()).apply(Slow()).window(range="9999 s").aggregate(oop.count()), 1000)
    for at in range(1200):
        run.now += 0.003
        run.spend(0.0009)
        run.give("a", [(1000 + at // 100, 0)])
    found = run.circuit.busy.slowest(run.now)
    assert found is not None
    assert run.circuit.plan.nodes[found[0]].label.startswith("Slow") and found[1] == pytest.approx(0.9 / 3.9, abs=0.02)
