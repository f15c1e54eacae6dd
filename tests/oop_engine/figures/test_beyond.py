"""The figures of later papers: their answers are those of a loop, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

import numpy as np
import pytest

import oop_engine as oop
from oop_engine.figures.beyond import bulk, queries
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
        {"series": name, x: place, "rate": rate, "results": rate}
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
    for change in ({LAZY: [9.0, 2.0]}, {EAGER: [9.0, 2.0]}, {BUCKETS: [9.0, 0.95]}, {BUCKETS: [0.2, 0.1]}):
        assert outcome(queries.QUERIES, "queries", [1, 1000], {**good, **change}) == "does not hold"


def test_promises_by_key_lose_nothing_where_one_promise_does() -> None:
    def counted(promise: Promise) -> dict[tuple[int, int], int]:
        return Sent.of(600, 10, 20).results(promise, 50)[0]

    sent, expected = Sent.of(600, 10, 20), dict[tuple[int, int], int]()
    for who, ts in zip(sent.who.tolist(), sent.ts.tolist(), strict=True):
        key = who, (ts // WINDOW + 1) * WINDOW
        expected[key] = expected.get(key, 0) + 1
    assert counted(oop.by_key("who", slack=2 * SECOND, idle=30 * SECOND)) == expected
    assert counted(oop.slack(22 * SECOND)) == expected
    assert sum(counted(oop.slack(2 * SECOND)).values()) < 300


def test_keyed_promises() -> None:
    def judged(lost: list[float], keyed: float, latency: float) -> str:
        values = {ONE: (lost, 1.0), WIDE: ([0.0, 0.0], 3.0), KEYED: ([0.0, keyed], latency)}
        rows = [
            {"series": name, "ahead": ahead, "lost": own[at], "latency": wait}
            for name, (own, wait) in values.items()
            for at, ahead in enumerate((0, 90))
        ]
        return KEYED_PROMISES.judge(Measured.of(rows)).outcome

    assert judged([0.0, 80.0], 0.0, 3.1) == "holds"
    assert judged([0.0, 5.0], 0.0, 3.1) == judged([0.0, 80.0], 0.1, 3.1) == judged([0.0, 80.0], 0.0, 3.9)
    assert judged([0.0, 5.0], 0.0, 3.1) == "does not hold"
