"""Windows of all kinds give what they have so far, in a run as in the definition, in text as in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language.parse import parse
from oop_engine.language.unparse import unparse
from operators.window import LandmarkWindow
from operators.window.counted import CountWindow
from operators.window.user import ExtentWindow
from operators.window_aggregate.triggers.condition import Condition
from operators.window_aggregate.triggers.promised import Every
from tests.naive_predicate import Rule
from tests.naive_triggered_landmarks import naive_triggered_landmarks
from tests.naive_triggered_predicates import naive_triggered_predicates
from tests.naive_triggered_ranks import naive_triggered_ranks
from tests.oop_engine.test_trigger import AGGREGATES, ANSWERS, FLUSH, ROWS, SCHEMA, bag

IN_ORDER = sorted(ROWS, key=lambda row: int(str(row["ts"])))


def stream() -> oop.Stream:
    return oop.rows(iter([tuple(row.values()) for row in IN_ORDER]), SCHEMA, punctuate=oop.ordered("ts", step=1))


def moments() -> list[Any]:
    # In order, a tuple says that none before it follows.
    return [moment for row in IN_ORDER for moment in (row, row["ts"])]


def landmarks(condition: Condition, **options: bool) -> list[dict[str, object]]:
    window = LandmarkWindow("ts", slide=10)
    return naive_triggered_landmarks(window, condition, ANSWERS, ["k"], moments(), **options)  # type: ignore[arg-type, return-value]


def over_three(condition: Condition, **options: bool) -> list[dict[str, object]]:
    rule = Rule(lambda row: int(str(row["x"])) > 3, runs=True)
    return naive_triggered_predicates(rule, condition, ANSWERS, ["k"], moments(), **options)  # type: ignore[arg-type, return-value]


def ranked(condition: Condition, **options: bool) -> list[dict[str, object]]:
    window = CountWindow("ts", size=6, slide=6)
    return naive_triggered_ranks(window, condition, ANSWERS, ["k"], moments(), **options)  # type: ignore[arg-type, return-value]


KINDS = [
    (lambda s: s.window(range="ALL", slide=10), "RANGE ALL, SLIDE 10, WA ts", landmarks),
    (lambda s: s.window(oop.when("x > 3", by="k")), "WHEN x > 3, WA ts, PA k", over_three),
    (lambda s: s.window(oop.counted(6), partition="k"), "RANGE 6 rows, SLIDE 6 rows, WA rank(ts), PA k", ranked),
]


@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
@pytest.mark.parametrize(("window", "text", "naive"), KINDS, ids=["landmark", "when", "rank"])
def test_they_fire_by_rows_as_the_definition_says_in_text_and_python(
    window: Callable[[oop.Stream], Any], text: str, naive: Callable[..., list[dict[str, object]]], refine: str
) -> None:
    trigger = oop.Trigger.rows(1).then(oop.Trigger.rows(3))
    early = oop.early(when=trigger, refine=refine)  # type: ignore[arg-type]
    python = window(stream()).aggregate(by="k", early=early, **AGGREGATES)
    asked = f"SELECT k, count(*) AS n, max(x) AS most [{text}, EARLY WHEN 1 ROW THEN 3 ROWS {refine}] FROM S GROUP BY k"
    assert parse(unparse(parse(asked))) == parse(asked)
    found = oop.query(asked, S=stream()).to_arrow().to_pylist()
    # Pages make no difference.
    assert bag([row for page in python.start(page_rows=3) for row in page.rows()]) == bag(found)
    right = naive(trigger.condition, discard=refine == "discard")
    assert len([row for row in right if not row["final"]]) > 6
    if refine != "retract":
        assert bag(found) == bag(right)
    else:
        standing: Counter[str] = Counter()
        for row in found:
            standing[str([row[name] for name in ("k", "wid", *ANSWERS)])] += row["sign"]
        final = [row for row in right if row["final"]]
        assert +standing == Counter(str([row[name] for name in ("k", "wid", *ANSWERS)]) for row in final)


@pytest.mark.parametrize(("window", "text", "naive"), KINDS[:2], ids=["landmark", "when"])
def test_they_fire_on_event_time(
    window: Callable[[oop.Stream], Any], text: str, naive: Callable[..., list[dict[str, object]]]
) -> None:
    python = window(stream()).aggregate(by="k", early=4, **AGGREGATES)
    query = oop.query(f"SELECT k, count(*) AS n, max(x) AS most [{text}, EARLY 4] FROM S GROUP BY k", S=stream())
    # A promise in a page stands behind its tuple, so that all of them are heard.
    found = [row for page in python.start(page_rows=1) for row in page.rows()]
    assert bag([row for page in query.start(page_rows=1) for row in page.rows()]) == bag(found)
    assert bag(found) == bag(naive(Every(4, 4)))
    assert any(not row["final"] for row in found)


@pytest.mark.parametrize("window", [oop.sliding("ALL", 10), oop.when("x > 3"), oop.band(0, 30), oop.counted(4)])
def test_they_fire_at_events_and_what_reads_them_counts_each_window_once(window: oop.WindowOf) -> None:
    running = stream().window(window).aggregate(oop.count(), early=FLUSH).start(page_rows=1)
    first: list[dict[str, object]] = []
    for page in running:
        first += [row for row in page.rows() if not row["final"]]
        if not running._run.ended:
            running.fire("flush")
    results = stream().window(window).aggregate(oop.count(), early=oop.Trigger.rows(2))
    plain = stream().window(window).aggregate(oop.count())
    totals = [one.aggregate(oop.sum("count"), oop.count()).to_arrow().to_pylist() for one in (results, plain)]
    assert totals[0] == totals[1]


def sevens(tick: int) -> int:
    return tick // 7 * 7 + 7


TUMBLING = oop.tumbling(7)


@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
def test_windows_between_edges_fire_as_tumbling_ones_that_have_these_edges(refine: str, lateness: int) -> None:
    """Late tuples, too: all tuples are in the order in which they were written, with half of the slack they need."""
    trigger = oop.Trigger.rows(2) | oop.Trigger.every(3)

    def results(window: oop.WindowOf) -> list[dict[str, object]]:
        given = oop.rows(iter([tuple(row.values()) for row in ROWS]), SCHEMA, punctuate=oop.slack(4, on="ts"))
        early = oop.early(when=trigger, refine=refine)  # type: ignore[arg-type]
        running = given.window(window).aggregate(by="k", early=early, lateness=lateness, **AGGREGATES)
        return [{**row, "wid": 0} for page in running.start(page_rows=1) for row in page.rows()]

    found = results(oop.edges(sevens))
    assert bag(found) == bag(results(TUMBLING))
    assert any(not row["final"] for row in found)
    if refine != "discard":
        assert any(row.get("revision") for row in found) == bool(lateness)


def test_a_calendar_fires_in_text_as_in_python() -> None:
    times = [(day * 86_400,) for day in (0, 1, 2, 30, 31, 33)]
    schema = oop.Schema.of(ts=pa.timestamp("s", "UTC"))
    days = oop.rows(times, schema)
    often = [(minute * 60,) for minute in range(0, 1600, 20)]
    live = [oop.rows(iter(often), schema, punctuate=oop.slack("1 s", on="ts")) for _ in range(2)]
    each = oop.query("SELECT count(*) [CALENDAR day, WA ts, EARLY 5 hours] FROM D", D=live[0]).start(page_rows=1)
    every = live[1].window(oop.calendar("day")).aggregate(oop.count(), early="5 hours").start(page_rows=1)
    told = [row for page in each for row in page.rows()]
    assert told == [row for page in every for row in page.rows()]
    assert any(not row["final"] for row in told)
    found = oop.query("SELECT count(*) [CALENDAR month, WA ts, EARLY WHEN 2 ROWS, LATENESS 1 day] FROM D", D=days)
    python = days.window(oop.calendar("month")).aggregate(oop.count(), early=oop.Trigger.rows(2), lateness="1 day")
    rows = python.to_arrow().to_pylist()
    assert found.to_arrow().to_pylist() == rows
    assert Counter((row["count"], row["final"]) for row in rows) == Counter(
        [(2, False), (4, False), (4, True), (2, False), (2, True)]
    )
    assert "CALENDAR month" in python.explain()


@pytest.mark.parametrize("window", [oop.band(0, 30), lambda: oop.own(Thirds())], ids=["band", "own"])
def test_bands_and_windows_of_your_own_are_given_again_when_late_tuples_change_them(window: Any) -> None:
    given = oop.rows([(1,), (40,), (5,), (60,)], oop.Schema.of(ts="int64"), punctuate=oop.ordered("ts", step=1))
    asked = window() if callable(window) else window
    results = given.window(asked).aggregate(oop.count(), early=oop.Trigger.rows(9), lateness=40)
    found = [row for page in results.start(page_rows=1) for row in page.rows() if row["window_start"] <= 5]
    assert any(row["revision"] == 1 and row["final"] for row in found)


class Thirds:
    """Windows of 7 ticks at every third, by their window-ids alone."""

    wattr = "ts"
    context = "CF"

    def wids(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (values - 7) // 3 + 1, values // 3 + 1

    def extent(self, wid: int) -> tuple[int, int]:
        return wid * 3, wid * 3 + 7

    def extents(self, wids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return wids * 3, wids * 3 + 7

    def windows(self, values: np.ndarray) -> np.ndarray:
        first, last = self.wids(values)
        return np.unique(np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)]))

    def complete(self, bound: int) -> int:
        return -(-(bound - 6) // 3)


def test_windows_of_your_own_that_have_window_ids_fire_on_event_time() -> None:
    trigger = oop.Trigger.every(2) | oop.Trigger.rows(3)

    def results(window: oop.WindowOf) -> list[dict[str, object]]:
        running = stream().window(window).aggregate(oop.count(), by="k", early=trigger).start(page_rows=1)
        return [{**row, "wid": 0} for page in running for row in page.rows()]

    own = results(oop.own(Thirds()))
    assert bag(own) == bag(results(oop.sliding(7, 3, origin=7)))
    assert any(not row["final"] for row in own)


def refused(window: oop.WindowOf | None = None, **options: Any) -> Callable[[oop.Stream], object]:
    early = options.pop("early", oop.Trigger.rows(2))
    if window is None:
        return lambda s: s.window(**options).aggregate(oop.count(), early=early)
    return lambda s: s.window(window).aggregate(oop.count(), early=early, **options)


WHEN = oop.when("x > 3")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (refused(oop.slide_by_tuple(5)), "each is known with its last tuple"),
        (refused(oop.latest(5, every=5)), "Let it slide more often"),
        (refused(oop.marked("x")), "WHEN flag UNTIL NEXT"),
        (refused(oop.own(ExtentWindow("ts", lambda wid: (0, 9), [0]))), "a tuple alone does not tell its window-ids"),
        (refused(oop.edges(sevens), early=oop.early(at=0.5)), "how long .* lasts is not known"),
        (refused(oop.edges(sevens), early=oop.early(when=FLUSH, interval=0.9)), "Leave interval out"),
        (refused(range="ALL", slide=5, wattr="row_num", partition="k"), "rows of each partition end them"),
        (refused(WHEN, early=oop.Trigger.promise("ts < 9")), "promises make its tuples final"),
        (refused(WHEN, early=oop.early(at=0.5)), "how long .* lasts is not known"),
        (refused(WHEN, early=oop.early(when=FLUSH, interval=0.9)), "Leave interval out"),
        (refused(WHEN, lateness=5), "Leave lateness out"),
        (refused(WHEN, strategy="wid"), "Leave strategy out"),
        (refused(range="ALL", slide=5, early=oop.Trigger.promise("ts < 9")), "it has all times"),
        (refused(range="ALL", slide=5, early=9), "each of which begins where the one before it ends"),
        (refused(range="ALL", slide=5, early=oop.early(when=FLUSH, events=stream())), "fire events by running.fire"),
        (refused(oop.counted(5), early=3), "measured in rows"),
        (refused(oop.counted(5), early=oop.Trigger.promise("ts < 9")), "promises make its tuples final"),
        (refused(range="3 rows", wattr="row_num", partition="k", early=oop.Trigger.every(3)), "measured in rows"),
        (
            lambda s: s.windows(a=oop.tumbling(9), b=oop.sliding("ALL", 9)).aggregate(oop.count(), early=3),
            "Aggregate it by itself",
        ),
    ],
)
def test_what_cannot_fire_is_refused_with_its_reasons(made: Callable[[oop.Stream], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(stream())


def test_explain_says_what_fires_and_with_what() -> None:
    def said(window: oop.WindowOf) -> str:
        return " ".join(stream().window(window).aggregate(oop.count(), early=FLUSH).explain().split())

    assert "fires from the first tuple on that no window before it has" in said(oop.sliding("ALL", 10))
    assert "what a window has so far are the tuples whose order is certain" in said(WHEN)
