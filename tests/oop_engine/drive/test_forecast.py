"""A forecast is met within one pane where sources go on as they did, whoever makes their promises and however."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import oop_engine as oop
from oop_engine.drive.why import Wait
from oop_engine.plan.punctuate import Promise
from operators.data.readable import tick_text
from tests.oop_engine.drive.simulated import SCHEMA, SECOND, Arrival, Simulated, live

PANE = 10
BEGIN = 1000
PROMISES = {
    "ordered": oop.ordered(),
    "slack": oop.slack("7 s"),
    "slack with a step": oop.slack("7 s", step="5 s"),
    "every": oop.every("4 s"),
    "places": oop.tuple_slack(5),
    "by key": oop.by_key("k", slack="3 s", idle="60 s"),
}


def arrivals(name: str, gap: int, delay: float, until: int = BEGIN + 120) -> list[Arrival]:
    """Return tuples whose times go on as the clock does, each `delay` seconds late."""
    return [(at + delay, name, [(at, at % 2)]) for at in range(BEGIN, until, gap)]


def met(run: Simulated, came: Sequence[Arrival], tick: float | None = None, since: float = 0.0) -> int:
    """Feed a run, ask at every fifth step, and count forecasts that were met within one pane; fail at any other."""
    asked: list[tuple[int, Wait]] = []
    for step, now in enumerate(run.feed(sorted(came), tick=tick)):
        if step % 5 or now < since:
            continue
        wait = run.why()
        if wait.forecast is not None and wait.forecast.at is not None and wait.window is not None:
            asked.append((wait.forecast.at, wait))
    ends: dict[str, float] = {}
    for moment, page in run.released:
        for end in page.ticks("window_end").tolist():
            ends.setdefault(tick_text(end, "s"), moment)
    tried = 0
    for at, wait in asked:
        assert wait.window is not None
        moment = ends.get(str(wait.window["window_end"]))
        if moment is not None:
            assert abs(at / SECOND - moment) <= PANE, (wait, moment)
            tried += 1
    return tried


@pytest.mark.parametrize("name", PROMISES)
def test_a_forecast_is_met_within_a_pane(name: str) -> None:
    counted = live("a", PROMISES[name]).window(range=f"{PANE} s").aggregate(oop.count())
    assert met(Simulated(counted, BEGIN), arrivals("a", 1, 0.0)) > 5


def two(one: Promise, other: Promise) -> list[oop.Stream]:
    return [live("a", one), live("b", other)]


PLANS = {
    "a meld": oop.meld(*two(oop.ordered(), oop.slack("7 s"))).window(range="10 s").aggregate(oop.count(), by="k"),
    "a join": (
        live("a", oop.ordered())
        .join(live("b", oop.ordered()), on="k", range="5 s")
        .window(range="10 s")
        .aggregate(oop.count())
    ),
    "windows of windows": (
        oop.meld(*two(oop.ordered(), oop.slack("3 s")))
        .window(range="5 s")
        .aggregate(oop.count(), by="k")
        .window(range="10 s", wattr="window_start")
        .aggregate(oop.sum("count"))
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_window_waits_for_the_slowest_of_all_sources(name: str) -> None:
    # One link is 25 s behind the other, and gives a tuple only every third second.
    came = arrivals("a", 1, 0.0) + arrivals("b", 3, 25.0)
    assert met(Simulated(PLANS[name], BEGIN), came) > 8


def test_promises_of_the_clock_are_foreseen() -> None:
    promise = oop.slack("2 s", lull="15 s")
    counted = live("a", promise).window(range=f"{PANE} s").aggregate(oop.count())
    run = Simulated(counted, BEGIN)
    # It falls silent, and one tuple comes much later.
    came = [*arrivals("a", 1, 0.0, BEGIN + 24), (BEGIN + 60.0, "a", [(BEGIN + 60, 0)])]
    assert met(run, came, tick=1.0, since=BEGIN + 28) == 3
    beat = live("a", oop.heartbeat({"a": ("1 s", "3 s")})).window(range=f"{PANE} s").aggregate(oop.count())
    assert met(Simulated(beat, BEGIN), arrivals("a", 1, 0.0, BEGIN + 50), tick=1.0) > 5


def test_the_tuples_of_a_file_are_counted_exactly() -> None:
    times = [BEGIN + at for at in (1, 25, 12, 26, 15, 41, 30, 55, 62, 61, 90)]
    counted = oop.rows([(at, 0) for at in times], SCHEMA, name="a").window(range="10 s").aggregate(oop.count())
    run, asked = Simulated(counted, BEGIN), dict[str, int]()
    for number, at in enumerate(times):
        run.give("a", [(at, 0)])
        wait = run.why()
        if wait.forecast is not None and wait.window is not None and wait.forecast.tuples is not None:
            complete = asked.setdefault(str(wait.window["window_end"]), number + wait.forecast.tuples)
            assert complete == number + wait.forecast.tuples
    assert len(asked) >= 4


def test_nothing_is_foreseen_of_a_source_that_is_silent() -> None:
    run = Simulated(PLANS["a meld"], BEGIN)
    for _ in run.feed(sorted(arrivals("a", 1, 0.0, BEGIN + 40) + arrivals("b", 1, 0.0, BEGIN + 20))):
        pass
    wait = run.why()
    assert (wait.cause, wait.holder, wait.forecast) == ("silent", "b", None)
