"""The figures of later papers: their answers are those of a loop, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

import numpy as np
import pytest

import oop_engine as oop
from oop_engine.figures.beyond import bulk, quality, queries
from oop_engine.figures.beyond.bulk import FREE, ORDERED, Bulk
from oop_engine.figures.beyond.keyed import KEYED, KEYED_PROMISES, ONE, SECOND, WIDE, WINDOW, Sent
from oop_engine.figures.figure import Figure, Measured
from oop_engine.figures.scotty.workload import BUCKETS, EAGER, LAZY
from oop_engine.plan.punctuate import Promise
from operators import functions as fn
from operators.data.page import Page


@pytest.mark.parametrize("distance", [0, 5, 10, 23, 60])
def test_blocks_come_late_and_promises_are_true(distance: int) -> None:
    load = Bulk.of(97, 5, distance, 20)
    seen: list[int] = []
    for page, promises in load.elements():
        assert isinstance(page, Page)
        seen += page["ts"].tolist()
        # Nothing that is still to come is before the promise, and the next tuple in time is what it waits for.
        rest = sorted(set(range(97)) - set(seen))
        assert promises.bounds.tolist() == [rest[0] if rest else 97]
    assert sorted(seen) == list(range(97)) and len(load.elements()) == 20
    late = np.maximum.accumulate(seen) - np.array(seen)
    assert late.max() <= distance + 2 * load.block
    assert distance < 5 or late.max() >= distance - load.block


@pytest.mark.parametrize("distance", [0, 27])
def test_windows_are_those_of_a_loop(distance: int) -> None:
    load = Bulk.of(93, 5, distance, 20)
    windows = {w: load.values[max(0, end - 20) : end] for w, end in enumerate(range(5, 93 + 20, 5)) if end - 20 < 93}
    changed = {w: int(np.count_nonzero(np.diff(own))) for w, own in windows.items()}
    assert load.loop(ordered=True) == load.answers(bulk.changes(interpreted=True), "eager") == changed
    totals = {w: int(own.sum()) for w, own in windows.items()}
    assert load.loop(ordered=False) == load.answers(fn.sum("v"), "eager") == load.answers(fn.sum("v"), "lazy") == totals


def outcome(figure: Figure, x: str, places: list[int], by: dict[str, list[float]]) -> str:
    rows = [
        {
            "series": name,
            x: place,
            "rate": rate,
            "results": rate,
            "longer": 2 * rate,
            "block": 9.0,
            "bytes": rate,
            "slices": 7,
        }
        for name, rates in by.items()
        for place, rate in zip(places, rates, strict=True)
    ]
    return figure.judge(Measured.of(rows)).outcome


def test_late_blocks() -> None:
    good = {ORDERED: [30.0, 25.0, 20.0], FREE: [90.0, 80.0, 70.0]}
    assert outcome(bulk.BULK, "distance", [1_000, 100_000, 1_000_000], good) == "holds"
    for change in ({ORDERED: [30.0, 19.0, 18.0]}, {ORDERED: [50.0, 25.0, 20.0]}, {FREE: [90.0, 80.0, 40.0]}):
        assert outcome(bulk.BULK, "distance", [1_000, 100_000, 1_000_000], {**good, **change}) == "does not hold"


def test_many_queries() -> None:
    good = {LAZY: [9.0, 5.0], EAGER: [8.0, 6.0], BUCKETS: [9.0, 0.1]}
    assert outcome(queries.QUERIES, "queries", [1, 1000], good) == "holds"
    slow = {LAZY: [9.0, 4.0], EAGER: [8.0, 4.9]}
    for change in ({LAZY: [9.0, 2.0]}, {EAGER: [9.0, 2.0]}, {BUCKETS: [9.0, 0.95]}, {BUCKETS: [0.2, 0.1]}, slow):
        assert outcome(queries.QUERIES, "queries", [1, 1000], {**good, **change}) == "does not hold"
    assert outcome(queries.MEMORY, "queries", [1, 1000], {LAZY: [9e3, 290.0], EAGER: [9e3, 300.0]}) == "holds"
    assert outcome(queries.MEMORY, "queries", [1, 1000], {LAZY: [9.0, 290.0], EAGER: [9.0, 310.0]}) == "does not hold"


def test_promises_by_key_lose_nothing_where_one_promise_does() -> None:
    def counted(promise: Promise) -> dict[tuple[int, int], int]:
        return Sent.of(600, 10, 20).results(promise, 50).counts

    sent, expected = Sent.of(600, 10, 20), dict[tuple[int, int], int]()
    for who, ts in zip(sent.who.tolist(), sent.ts.tolist(), strict=True):
        key = who, (ts // WINDOW + 1) * WINDOW
        expected[key] = expected.get(key, 0) + 1
    assert counted(oop.by_key("who", slack=2 * SECOND, idle=30 * SECOND)) == expected
    assert counted(oop.slack(22 * SECOND)) == expected
    assert sum(counted(oop.slack(2 * SECOND)).values()) < 300


def test_keyed_promises() -> None:
    def judged(lost: list[float], keyed: float, latency: float, held: int = 22) -> str:
        values = {ONE: (lost, 1.0, 9), WIDE: ([0.0, 0.0], 3.0, 20), KEYED: ([0.0, keyed], latency, held)}
        rows = [
            {"series": name, "ahead": ahead, "lost": own[at], "latency": wait, "held": most, "later": most}
            for name, (own, wait, most) in values.items()
            for at, ahead in enumerate((0, 90))
        ]
        return KEYED_PROMISES.judge(Measured.of(rows)).outcome

    assert judged([0.0, 80.0], 0.0, 3.1) == "holds"
    assert judged([0.0, 5.0], 0.0, 3.1) == judged([0.0, 80.0], 0.1, 3.1) == judged([0.0, 80.0], 0.0, 3.9)
    assert judged([0.0, 5.0], 0.0, 3.1) == judged([0.0, 80.0], 0.0, 3.1, 23) == "does not hold"


def test_a_slack_loses_the_tuples_that_a_loop_finds_late() -> None:
    load = quality.Delayed.of(400, 20)
    slack, page, top, bound, lost = quality.SECOND // 2, 4, -(10**18), -(10**18), 0
    for start in range(0, 400, page):
        for ts in load.ts[start : start + page].tolist():
            # A tuple is lost if its window of 1 s was complete when it came.
            lost += (ts // quality.SECOND + 1) * quality.SECOND <= bound
            top = max(top, ts)
            bound = max(bound, top - slack)
    found, latency = load.lost_and_latency(oop.slack(slack), page)
    assert found == pytest.approx(lost / 4) and 0 < lost < 200 and 0.5 <= latency < 3
    for share in (0.0, 0.01, 0.1):
        least = load.least_slack(share)
        assert load.lost_and_latency(oop.slack(least), page)[0] <= 100 * share + 1e-9
        assert load.lost_and_latency(oop.slack(least - 1), page)[0] > 100 * share


def test_slack_that_is_learnt() -> None:
    def judged(lost: float, latency: float, least: float = 1.0) -> str:
        fixed = {"series": quality.FIXED, "lost": 0.0, "latency": 9.0, "wanted": 0.0, "least": 9.0, "equal": 9.0}
        own = {"lost": lost, "latency": latency, "wanted": 2.0, "least": least, "equal": max(least, 1.0)}
        return quality.QUALITY.judge(Measured.of([fixed, {"series": quality.LEARNT, **own}])).outcome

    assert judged(1.5, 1.1) == judged(2.0, 1.0) == "holds"
    assert judged(2.5, 1.0) == judged(1.5, 1.2) == judged(1.5, 1.1, least=0.9) == "does not hold"
    assert judged(0.0, 9.0, least=9.0) == "does not hold"
