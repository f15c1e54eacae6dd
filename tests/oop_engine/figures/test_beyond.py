"""The figures of later papers: their answers are those of a loop, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

import numpy as np
import pytest

import oop_engine as oop
from oop_engine.figures.beyond import bulk, cores, quality, queries, speculation, sustained
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
    for change in ({LAZY: [9.0, 2.0]}, {EAGER: [9.0, 2.0]}, {BUCKETS: [9.0, 0.95]}, {BUCKETS: [0.2, 0.1]}):
        assert outcome(queries.QUERIES, "queries", [1, 1000], {**good, **change}) == "does not hold"
    assert outcome(queries.MEMORY, "queries", [1, 1000], {LAZY: [9e3, 290.0], EAGER: [9e3, 300.0]}) == "holds"
    assert outcome(queries.MEMORY, "queries", [1, 1000], {LAZY: [9.0, 290.0], EAGER: [9.0, 310.0]}) == "does not hold"


def test_sums_of_a_steady_stream_are_those_of_a_loop() -> None:
    stream = sustained.Steady.of(500)
    pages = [stream.page(number)[0] for number in range(150)]
    ts, values = (np.concatenate([np.asarray(page[name]) for page in pages]) for name in ("ts", "v"))
    windows = [(1_200_000_000, 2_000_000_001), (-5, 0), (2_999_999_999, 7_000_000_000), (0, 3_000_000_000)]
    sums = stream.sums(*(np.array(ends) for ends in zip(*windows, strict=True)), 150)
    assert sums.tolist() == [int(values[(ts >= begin) & (ts < end)].sum()) for begin, end in windows]


def test_a_fast_stream() -> None:
    def judged(rate: float, nbytes: float) -> str:
        rows = [{"series": sustained.SERIES, "windows": n, "rate": rate, "bytes": 9e3 / n * nbytes} for n in (30, 9000)]
        return sustained.SUSTAINED.judge(Measured.of(rows)).outcome

    assert judged(5.1, 299) == "holds"
    assert judged(4.9, 299) == judged(5.1, 301) == "does not hold"


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


def test_early_results_are_those_of_a_loop() -> None:
    query = speculation.Joined.of(600, 40)
    load, second, slack = query.load, quality.SECOND, 12 * quality.SECOND
    early, final = query.results(slack, early=True), query.results(slack)
    for end in range(11 * second, 14 * second, second):
        inside = (load.ts >= end - second) & (load.ts < end)
        for result in early[speculation.PAIRS][end]:
            come = inside & (load.arrivals <= result.came)
            ours, theirs = (query.key[come & (query.side == side)] for side in (0, 1))
            assert result.n == sum(int(np.count_nonzero(theirs == key)) for key in ours.tolist())
        for output, side in ((speculation.LEFT, 0), (speculation.RIGHT, 1)):
            for result in early[output][end]:
                come = inside & (load.arrivals <= result.came) & (query.side == side)
                assert result.n == np.count_nonzero(come) <= result.expected
            assert [early[output][end][-1].n] == [each.n for each in final[output][end]]


def test_what_is_expected_is_as_old_as_the_moment_that_is_asked_for() -> None:
    query, end = speculation.Joined.of(600, 40), 8 * quality.SECOND
    result = speculation.Result(end, 10, 12.0)
    asked = [query.fresh(result, end + round(wait * quality.SECOND), end) for wait in (0.1, 0.5, 2)]
    assert asked == sorted(asked, reverse=True) and 10 < asked[-1] < 11 < asked[0]


def test_results_at_one_latency_are_compared() -> None:
    def output(*results: tuple[int, int, float]) -> dict[int, list[speculation.Result]]:
        return {0: [speculation.Result(quality.SECOND * came, n, expected) for came, n, expected in results]}

    query = speculation.Joined.of(600, 40)
    true = output((1, 6, 9.0), (4, 9, 9.0), (9, 10, 10.0))
    soon = [output((1, 20, 50.0), (4, 70, 90.0), (9, 100, 100.0)), true, true]
    rows = speculation.compared(query, [output((3, 40, 40.0)), output((3, 8, 8.0)), output((3, 8, 8.0))], soon, [0])
    found = {row["series"]: (row["count"], row["pairs"], row["latency"], row["age"]) for row in rows}
    assert found == {
        speculation.WAIT: (pytest.approx(20), pytest.approx(60), 3, 2),
        speculation.EARLY: (pytest.approx(40), pytest.approx(80), 3, 2),
        speculation.OWN: (pytest.approx(10), pytest.approx(50), 3, 2),
        speculation.INPUTS: (None, pytest.approx(55), 3, 2),
    }


def test_compensation_is_better_than_waiting_at_each_latency_or_is_not() -> None:
    def judged(**errors: list[float]) -> str:
        waits = [20.0, 1.0]
        names = {speculation.WAIT: waits, speculation.OWN: errors.get("own", [9.0, 0.9])}
        names |= {speculation.INPUTS: errors.get("inputs", [5.0, 0.5])}
        rows = [
            {"series": name, "latency": at, "count": own[at], "pairs": own[at], "age": 0.0, "fresh": 1.0}
            for name, own in names.items()
            for at in (0, 1)
        ]
        return speculation.PECJ.judge(Measured.of(rows)).outcome

    assert judged() == "holds"
    assert judged(own=[9.0, 1.0]) == judged(inputs=[5.0, 1.1]) == judged(own=[21.0, 0.9]) == "does not hold"


def test_queries_of_lightsaber_give_what_a_loop_gives() -> None:
    n = 2_000
    found = {name: query.to_arrow().to_pylist() for name, query in cores.queries(n).items()}
    random = np.random.default_rng(1)
    category, _, _, cpu = (random.integers(0, most, n).tolist() for most in (8, 1_000, 9, 1_000))
    # All tuples are of the first second, so each window of a minute has them all.
    totals = {name: sum(v for k, v in zip(category, cpu, strict=True) if k == name) for name in range(8)}
    assert sorted((row["category"], row["result"]) for row in found["CM1"]) == sorted([*totals.items()] * 60)
    assert len(found["SG1"]) == 3_600 and len({row["result"] for row in found["SG1"]}) == 1
    assert found["LRB"] and all(row["result"] < 40 for row in found["LRB"])
    assert 500 < sum(row["result"] for row in found["YSB"]) < 800 and len(found["YSB"]) == 100


def test_cores_add_to_the_rate_or_do_not() -> None:
    def judged(two: float, cpu: float = 30.0, busy: float = 1.0, count: int = 2) -> str:
        own = [("1 thread", 1, 10.0), ("2 threads", 2, two)]
        rows = [
            {"series": s, "query": "CM1", "rate": r, "threads": t, "busy": t * busy, "cpu": cpu, "cores": count}
            for s, t, r in own
        ]
        rows.append({**rows[0], "series": cores.PUBLISHED, "cpu": None, "busy": None})
        return cores.LIGHTSABER.judge(Measured.of(rows)).outcome

    assert judged(8.0) == "holds"
    assert judged(6.9) == judged(8.0, cpu=29.0) == judged(8.0, cpu=29.0, busy=0.5) == "does not hold"
    assert judged(6.9, busy=0.5) == judged(6.9, count=1) == "not comparable"
