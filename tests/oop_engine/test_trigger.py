"""Windows give what they have so far as triggers say, in a run as in the definition."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.errors import PlanError
from oop_engine.language.parse import parse
from oop_engine.language.unparse import unparse
from operators.window import SlidingWindow
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Rows, Then
from operators.window_aggregate.triggers.promised import Every, Lull, Promised
from punctuation import Below
from tests.naive_late_sessions import naive_late_sessions
from tests.naive_triggered_sessions import naive_triggered_sessions
from tests.naive_triggers import naive_triggers

ROWS = [{"ts": t, "k": "ab"[t % 3 == 0], "x": t * 7 % 11} for t in (*range(0, 40, 2), 3, 3, 17, 90)]
ANSWERS = {"n": len, "most": lambda rows: max(row["x"] for row in rows)}
AGGREGATES = {"n": oop.count(), "most": oop.max("x")}
SCHEMA = oop.Schema.of(ts="int64", k="string", x="int64", progress=["ts"])
FLUSH = oop.Trigger.event("flush")


def shuffled(seed: int) -> list[dict[str, object]]:
    return random.Random(seed).sample(ROWS, len(ROWS))


def bag(rows: Sequence[dict[str, object]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


def late_free(rows: list[dict[str, object]]) -> oop.Stream:
    return oop.arrow(pa.Table.from_pylist(rows))


@pytest.mark.parametrize("refine", ["accumulate", "discard"])
def test_a_run_gives_the_naive_answer(refine: str) -> None:
    window = SlidingWindow("ts", size=10, slide=5)
    rows = shuffled(1)
    early = oop.early(when=oop.Trigger.rows(2), refine=refine)  # type: ignore[arg-type]
    found = late_free(rows).window(range=10, slide=5).aggregate(by="k", early=early, **AGGREGATES).to_arrow()
    right = naive_triggers(window, Rows(2), ANSWERS, ["k"], rows, discard=refine == "discard")
    assert bag(found.to_pylist()) == bag(right)


LATE = [(1, 5), (2, 1), (3, 1), (12, 1), (4, 9), (5, 1), (25, 1), (6, 1), (41, 0)]


def late() -> oop.Stream:
    return oop.rows(LATE, oop.Schema.of(ts="int64", v="int64"), punctuate=oop.slack(0))


def test_late_tuples_change_windows_that_fire_and_what_reads_them_counts_each_once() -> None:
    early = oop.Trigger.rows(2)
    given = late().window(range=10).aggregate(n=oop.count(), early=early, lateness=20)
    found = given.project("wid", "n", "final", "firing", "revision").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found if row["wid"] == 0] == [
        (0, 2, False, 0, 0),
        (0, 3, True, 1, 0),
        (0, 5, True, 2, 1),
        (0, 6, True, 3, 2),
    ]
    text = "SELECT count(*) AS n [RANGE 10, WA ts, EARLY WHEN 2 ROWS, LATENESS 20] FROM T"
    assert oop.query(text, T=late()).to_arrow().to_pylist() == given.to_arrow().to_pylist()
    signed = late().window(range=10).aggregate(n=oop.count(), early=early, lateness=20, refine="retract")
    for changing in (given, signed):
        behind = changing.window(range=40, wattr="window_end").aggregate(oop.sum("n"), windows=oop.count())
        assert [(row["sum_n"], row["windows"]) for row in behind.to_arrow().to_pylist()] == [(8, 3), (1, 1)]
    several = late().windows(a=oop.tumbling(10), b=oop.tumbling(20))
    both = several.aggregate(n=oop.count(), early=early, lateness=20, refine="retract")
    behind = both.window(range=80, wattr="window_end").aggregate(oop.sum("n"), by="window").to_arrow().to_pylist()
    assert {row["window"]: row["sum_n"] for row in behind} == {"a": 9, "b": 9}
    with pytest.raises(oop.PlanError, match="Take the former result back"):
        several.aggregate(n=oop.count(), early=early, lateness=20).window(range=80, wattr="window_end").aggregate(
            oop.sum("n")
        )


def test_one_trigger_serves_several_windows_and_what_reads_them_counts_each_once() -> None:
    windows = {"short": oop.tumbling(6), "long": oop.sliding(20, 10)}
    rows = shuffled(2)
    results = late_free(rows).windows(**windows).aggregate(by="k", early=oop.Trigger.rows(3), **AGGREGATES)
    right: list[dict[str, object]] = []
    for name, window in (
        ("short", SlidingWindow("ts", size=6, slide=6)),
        ("long", SlidingWindow("ts", size=20, slide=10)),
    ):
        right += [{**row, "window": name} for row in naive_triggers(window, Rows(3), ANSWERS, ["k"], rows)]
    assert bag(results.to_arrow().to_pylist()) == bag(right)
    names = ["k", "n", "most", "window", "wid", "window_start", "window_end", "fired", "final", "firing"]
    assert results.schema.names == names
    signed = late_free(rows).windows(**windows).aggregate(
        by="k", early=oop.early(when=oop.Trigger.rows(3), refine="retract"), **AGGREGATES
    )  # fmt: skip
    plain = late_free(rows).windows(**windows).aggregate(by="k", **AGGREGATES)
    for stream in (results, signed):
        totals = stream.aggregate(oop.sum("n"), oop.count(), by="window").to_arrow().to_pylist()
        assert bag(totals) == bag(plain.aggregate(oop.sum("n"), oop.count(), by="window").to_arrow().to_pylist())


def talks(stream: oop.Stream, early: oop.Trigger, **options: Any) -> oop.Stream:
    return stream.window(oop.session(5)).aggregate(oop.count(), early=early, **options)


@pytest.mark.parametrize("refine", ["accumulate", "retract"])
def test_late_tuples_change_sessions_that_fire_as_the_definition_says_in_text_and_python(refine: str) -> None:
    """Most tuples come in time by a slack of 4; a few are up to 20 late, and the last one later than that."""
    times = [0, 3, 9, 12, 6, 22, 15, 40, 24, 41, 44, 35, 60, 30]
    given = [(time, "ab"[time % 3 == 0], time * 7 % 11) for time in times]
    moments: list[Any] = []
    for place, (ts, k, x) in enumerate(given):
        moments += [{"ts": ts, "k": k, "x": x}, max(times[: place + 1]) - 4]
    naive = naive_late_sessions(6, AnyOf((Rows(2), Lull(4, 4))), ANSWERS, ["k"], moments, lateness=20)
    assert any(row["window_end"] is None for row in naive) and any(row["revision"] for row in naive)

    def stream() -> oop.Stream:
        return oop.rows(iter(given), SCHEMA, punctuate=oop.slack(4, on="ts"))

    early = oop.early(when=oop.Trigger.rows(2) | oop.Trigger.lull(4), refine=refine)  # type: ignore[arg-type]
    python = stream().window(oop.session(6)).aggregate(by="k", early=early, lateness=20, **AGGREGATES)
    text = f"[SESSION 6, WA ts, EARLY WHEN 2 ROWS OR LULL 4 {refine}, LATENESS 20]"
    query = oop.query(f"SELECT k, count(*) AS n, max(x) AS most {text} FROM S GROUP BY k", S=stream())
    found = [row for page in python.start(page_rows=1) for row in page.rows()]
    assert bag([row for page in query.start(page_rows=1) for row in page.rows()]) == bag(found)
    if refine == "accumulate":
        assert bag(found) == bag(naive)
        return
    standing: Counter[str] = Counter()
    for row in found:
        standing[str([row[name] for name in ("k", "wid", "window_end", *ANSWERS)])] += row["sign"]
    last = {(row["k"], row["wid"]): row for row in sorted(naive, key=lambda row: row["firing"])}  # type: ignore[arg-type, return-value]
    right = [row for row in last.values() if row["window_end"] is not None]
    assert +standing == Counter(str([row[name] for name in ("k", "wid", "window_end", *ANSWERS)]) for row in right)


def test_sessions_that_late_tuples_change_stand_behind_what_lets_these_through() -> None:
    def made(lateness: str) -> oop.Stream:
        schema = oop.Schema.of(ts=pa.timestamp("s"))
        stream = oop.rows(iter([(0,), (5,)]), schema, punctuate=oop.slack("1 s", on="ts"))
        sessions = stream.distinct().window(oop.session("5 s"))
        return sessions.aggregate(oop.count(), early=oop.Trigger.rows(2), lateness=lateness)

    assert "revision" not in made("0 s").schema
    with pytest.raises(oop.PlanError, match="late tuples are left out before it"):
        made("9 s")


def test_sessions_fire_on_event_time_with_others_and_with_a_lateness_in_text_and_python() -> None:
    times = [0, 3, 9, 12, 6, 22, 15, 40, 24, 41, 44, 35, 60, 30]
    moments: list[Any] = []
    for place, ts in enumerate(times):
        moments += [{"ts": ts, "k": "a", "x": ts * 7 % 11}, max(times[: place + 1]) - 4]

    def stream() -> oop.Stream:
        given = [(ts, "a", ts * 7 % 11) for ts in times]
        return oop.rows(iter(given), SCHEMA, punctuate=oop.slack(4, on="ts")).window(oop.session(8))

    def rows_of(made: oop.Stream) -> list[dict[str, object]]:
        return [row for page in made.start(page_rows=1) for row in page.rows()]

    def text(asked: str) -> oop.Stream:
        given = [(ts, "a", ts * 7 % 11) for ts in times]
        data = oop.rows(iter(given), SCHEMA, punctuate=oop.slack(4, on="ts"))
        what = f"SELECT k, count(*) AS n, max(x) AS most [SESSION 8, WA ts, {asked}] FROM S GROUP BY k"
        return oop.query(what, S=data)

    late = rows_of(stream().aggregate(by="k", early=3, lateness=20, **AGGREGATES))
    assert bag(late) == bag(naive_late_sessions(8, Every(3, 3), ANSWERS, ["k"], moments, lateness=20))
    assert bag(rows_of(text("EARLY 3, LATENESS 20"))) == bag(late)
    assert any(not row["final"] for row in late) and any(row["revision"] for row in late)
    both = rows_of(stream().aggregate(by="k", early=oop.Trigger.every(3) & oop.Trigger.rows(2), **AGGREGATES))
    in_time = [one for place, one in enumerate(moments) if place % 2 or one["ts"] >= max(times[: place // 2 + 1]) - 4]
    right = naive_triggered_sessions(8, AllOf((Every(3, 3), Rows(2))), ANSWERS, ["k"], in_time)
    assert bag(both) == bag(right)
    assert bag(rows_of(text("EARLY WHEN EVERY 3 AND 2 ROWS"))) == bag(both)
    assert any(not row["final"] for row in both)


@pytest.mark.parametrize("refine", ["accumulate", "retract"])
def test_what_reads_sessions_that_late_tuples_change_counts_each_once(refine: str) -> None:
    def stream() -> oop.Stream:
        given = [(time, "a", 1) for time in (0, 3, 9, 12, 6, 22, 15, 40, 24)]
        return oop.rows(iter(given), SCHEMA, punctuate=oop.slack(4, on="ts"))

    early = oop.early(when=oop.Trigger.rows(2), refine=refine)  # type: ignore[arg-type]
    fires = stream().window(oop.session(6)).aggregate(n=oop.count(), by="k", early=early, lateness=20)
    plain = stream().window(oop.session(6)).aggregate(n=oop.count(), by="k", lateness=20)
    totals = [one.aggregate(oop.sum("n"), oop.count()).to_arrow().to_pylist() for one in (fires, plain)]
    assert totals[0] == totals[1] == [{"sum_n": 9, "count": 3}]


@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
def test_sessions_fire_by_triggers_as_the_definition_says_in_text_and_python(refine: str) -> None:
    trigger = oop.Trigger.rows(1).then(oop.Trigger.rows(3) | oop.Trigger.lull(4))
    condition, rows = Then(Rows(1), AnyOf((Rows(3), Lull(4, 4)))), sorted(ROWS, key=lambda row: row["ts"])

    def stream() -> oop.Stream:
        return oop.rows(iter([tuple(row.values()) for row in rows]), SCHEMA, punctuate=oop.ordered("ts", step=1))

    moments: list[dict[str, object] | int] = []
    for row in rows:
        moments += [row, row["ts"]]  # type: ignore[list-item]
    naive = naive_triggered_sessions(6, condition, ANSWERS, ["k"], moments, discard=refine == "discard")
    early = oop.early(when=trigger, refine=refine)  # type: ignore[arg-type]
    python = stream().window(oop.session(6)).aggregate(by="k", early=early, **AGGREGATES)
    found = python.to_arrow().to_pylist()
    text = (
        f"SELECT k, count(*) AS n, max(x) AS most [SESSION 6, WA ts, EARLY WHEN 1 ROW THEN 3 ROWS OR LULL 4 {refine}]"
    )
    query = oop.query(f"{text} FROM S GROUP BY k", S=stream())
    # Pages make no difference.
    assert bag([row for page in query.start(page_rows=3) for row in page.rows()]) == bag(found)
    if refine != "retract":
        assert bag(found) == bag(naive) and len(naive) > 8
    else:
        standing: Counter[str] = Counter()
        for row in found:
            standing[str([row[name] for name in ("k", "wid", *ANSWERS)])] += row["sign"]
        final = [row for row in naive if row["final"]]
        assert +standing == Counter(str([row[name] for name in ("k", "wid", *ANSWERS)]) for row in final)


@pytest.mark.parametrize("size", [1, 4, None])
def test_event_time_and_promises_fire_as_the_definition_says_whatever_the_pages(size: int | None) -> None:
    window, rows = SlidingWindow("ts", size=10, slide=5), sorted(shuffled(5), key=lambda row: row["ts"])
    trigger = (oop.Trigger.every(3) & oop.Trigger.rows(2)) | oop.Trigger.promise("ts < 20")
    options = {} if size is None else {"page_rows": size}
    stream = oop.rows(iter([tuple(row.values()) for row in rows]), SCHEMA, punctuate=oop.ordered("ts", step=1))
    running = stream.window(range=10, slide=5).aggregate(by="k", early=trigger, **AGGREGATES).start(**options)
    found = [row for page in running for row in page.rows()]
    moments: list[dict[str, object] | int] = []
    for row in rows:
        # In order, a tuple says that none before it follows.
        moments += [row, row["ts"]]  # type: ignore[list-item]
    condition = AnyOf((AllOf((Every(3, 3), Rows(2))), Promised(("ts < 20",), (("ts", Below(20)),))))
    assert bag(found) == bag(naive_triggers(window, condition, ANSWERS, ["k"], moments))
    assert len(found) > len({(row["k"], row["wid"]) for row in found}) + 3


def test_a_stream_of_events_fires_the_groups_that_it_names() -> None:
    def results() -> oop.Stream:
        given = [(t, "ab"[t % 2], 1) for t in range(20)]
        told = [(3, "flush", "a", None), (8, "flush", None, 0), (15, "unheard", None, None), (99, "flush", None, None)]
        schema = oop.Schema.of(ts="int64", event="string", k="string", window_start="int64")
        events = oop.rows(iter(told), schema, punctuate=oop.ordered("ts"))
        early = oop.early(when=FLUSH, events=events)
        data = oop.rows(iter(given), SCHEMA, punctuate=oop.ordered("ts", step=1))
        return data.window(range=10).aggregate(oop.count(), by="k", early=early)

    running = results().start(page_rows=1)
    found = [(row["window_start"], row["k"]) for p in running for row in p.rows() if not row["final"]]
    # The source is read next that has promised least, so an event comes before tuples of its time, but in its turn.
    first, second, third = found[:1], found[1:3], found[3:]
    assert (first, sorted(second), sorted(third)) == ([(0, "a")], [(0, "a"), (0, "b")], [(10, "a"), (10, "b")])
    assert running.statistics.total("unheard_events") == 1
    final = results().filter("final").to_arrow().select(["window_start", "k", "count"]).to_pylist()
    assert bag(final) == bag([{"window_start": s, "k": k, "count": 5} for s in (0, 10) for k in "ab"])


CONTROL = oop.Schema.of(ts="int64", event="string", k="string")


@pytest.mark.parametrize("events", ["E", "(SELECT ts, event, k FROM E WHERE ts > 4)", "C"])
def test_in_text_a_stream_of_events_has_a_name(events: str) -> None:
    def streams() -> dict[str, oop.Stream]:
        given = [(t, "ab"[t % 2], 1) for t in range(20)]
        told = [(3, "flush", "a"), (8, "flush", None), (99, "flush", None)]
        return {
            "S": oop.rows(iter(given), SCHEMA, punctuate=oop.ordered("ts", step=1)),
            "E": oop.rows(iter(told), CONTROL, punctuate=oop.ordered("ts")),
        }

    def ran(stream: oop.Stream) -> Counter[str]:
        return bag([row for page in stream.start(page_rows=1) for row in page.rows()])

    named = "WITH C AS (SELECT ts, event, k FROM E WHERE ts > 4) " if events == "C" else ""
    text = (
        f"{named}SELECT k, count(*) [RANGE 10, WA ts, EARLY WHEN EVENT 'flush' FROM {events} DISCARD] FROM S GROUP BY k"
    )
    assert parse(unparse(parse(text))) == parse(text)
    some = streams()
    control = some["E"] if events == "E" else some["E"].filter("ts > 4").project("ts", "event", "k")
    early = oop.early(when=FLUSH, events=control, refine="discard")
    python = some["S"].window(range=10).aggregate(oop.count(), by="k", early=early)
    found = ran(oop.query(text, streams()))
    assert found == ran(python) and len(found) > 4


def test_events_in_text_are_refused_where_nothing_hears_them_or_none_is_called_so() -> None:
    for asked, says in (
        ("RANGE 9, WA ts, EARLY WHEN 2 ROWS FROM E", "no part of the trigger hears an event"),
        ("RANGE 9, WA ts, EARLY WHEN EVENT 'f' FROM Q", 'there is no stream "Q"'),
        ("SESSION 9, WA ts, EARLY WHEN EVENT 'f' FROM E", "fire events by running.fire"),
    ):
        events = oop.rows([(3, "flush", "a")], CONTROL)
        with pytest.raises(oop.LanguageError, match=says):
            oop.query(f"SELECT count(*) [{asked}] FROM S", S=late_free(ROWS), E=events)


def ticks(*times: int) -> oop.Page:
    return oop.Page.of(SCHEMA, {"ts": times, "k": ["a"] * len(times), "x": [1] * len(times)})


def test_an_event_comes_behind_the_tuples_that_were_taken_in() -> None:
    pages = [ticks(1), ticks(2, 3), ticks(4), ticks(30)]
    stream = oop.pages(iter(pages), SCHEMA)
    trigger = oop.Trigger.rows(1).then(FLUSH)
    running = stream.window(range=10).aggregate(oop.count(), early=trigger).start()
    found: list[tuple[object, ...]] = []
    for page in running:
        for row in page.rows():
            found.append((row["window_start"], row["count"], row["final"]))
            if found[-1] == (0, 1, False):
                running.fire("flush")  # nothing is new
    # The first page of results comes of the first tuple; of the others nobody asked before the end.
    assert found == [(0, 1, False), (30, 1, False), (0, 4, True), (30, 1, True)]


@pytest.mark.parametrize(("window", "begins"), [(oop.tumbling(10), (0, 10, 20)), (oop.session(4), (1, 12, 25))])
def test_whoever_takes_a_result_may_fire_an_event_by_it(window: oop.WindowOf, begins: Sequence[int]) -> None:
    stream = oop.rows(iter([(t,) for t in (1, 2, 12, 13, 25)]), oop.Schema.of(ts="int64"), punctuate=oop.slack(0))
    running = stream.window(window).aggregate(oop.count(), early=FLUSH).start(page_rows=1)
    found: list[tuple[object, ...]] = []
    for page in running:
        for row in page.rows():
            found.append((row["window_start"], row["count"], row["final"]))
            if row["final"] and not running._run.ended:
                running.fire("flush")
    told = [(0, 2, True), (1, 1, False), (1, 2, True), (2, 1, False), (2, 1, True)]
    assert found == [(begins[number], n, final) for number, n, final in told]


def test_a_clock_fires_what_is_new_at_its_ticks() -> None:
    # What the clock shows when so many tuples were taken in.
    shown = [0.0, 0.5, 1.5, 1.9, 4.0]
    rows = oop.arrow(pa.table({"ts": [1, 2, 3, 4]}))
    running = rows.window(range=10).aggregate(oop.count(), early=oop.Trigger.clock("1 s")).start(page_rows=1)
    circuit = running._run.circuit
    circuit.clock = lambda: shown[running.statistics.tuples]
    found = [(row["count"], row["final"]) for page in running for row in page.rows()]
    assert found == [(2, False), (4, False), (4, True)]


def aggregated(stream: oop.Stream, trigger: oop.Trigger | oop.Early) -> oop.Stream:
    return stream.window(range=20).aggregate(oop.count(), early=trigger)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda s: oop.Trigger.rows(0), "a whole number from 1 on"),
        (lambda s: oop.Trigger.rows(1.5), "a whole number from 1 on"),
        (lambda s: oop.Trigger.event(""), "the name of the event"),
        (lambda s: oop.Trigger.clock(5), "needs a unit of time"),
        (lambda s: oop.Trigger.clock("0 s"), "more than nothing"),
        (lambda s: FLUSH.until(FLUSH.then(FLUSH)), "no trigger that can stop another"),
        (lambda s: oop.Trigger.every(0), "more than nothing"),
        (lambda s: oop.Trigger.at(1.5), "between 0 and 1"),
        (lambda s: oop.Trigger.promise(" "), "write the attribute that is promised"),
        (
            lambda s: s.window(range=20).aggregate(oop.count(), early=oop.early(20, when=FLUSH)),
            "every 20 is not between",
        ),
        (lambda s: oop.early(when=oop.Trigger.rows(1), events=s), "no part of the trigger hears an event"),
        (lambda s: aggregated(s, oop.early(when=FLUSH, events=s)), "event"),
        (lambda s: aggregated(s, oop.Trigger.promise("k = 'a'")), "no promise of the stream is on k"),
        (lambda s: aggregated(s, oop.Trigger.promise("ts + 1 = 2")), "no comparison of an attribute"),
        (lambda s: talks(s, FLUSH | oop.Trigger.at(0.5)), "how long .* lasts is not known"),
        (lambda s: talks(s, oop.Trigger.promise("ts < 9")), "rows, ticks, lulls, events and a clock fire sessions"),
        (lambda s: talks(s, oop.Trigger.lull(5)), "a lull that is shorter than the gap"),
        (lambda s: oop.Trigger.lull(0), "more than nothing"),
        (lambda s: aggregated(s, oop.Trigger.lull(3)), "lulls are of sessions"),
        (lambda s: talks(s, oop.early(when=FLUSH, events=aggregated(s, FLUSH))), "Leave events out; fire events by"),
        (lambda s: talks(s, oop.early(when=FLUSH, interval=0.9)), "Leave interval out"),
        (lambda s: talks(s, oop.early(when=FLUSH, refine="discard"), lateness=5), "no result of its own"),
        (lambda s: talks(s, FLUSH, strategy="wid"), "Leave strategy out"),
        (lambda s: s.window(oop.latest(5, every=5)).aggregate(oop.count(), early=FLUSH), r"running.partial\(\)"),
        (
            lambda s: s.window(range=20).aggregate(oop.count(), early=oop.early(when=FLUSH, interval=0.9), lateness=5),
            "an interval is for the value of a window",
        ),
        (
            lambda s: s.window(range=20, consistent=True).aggregate(oop.count(), early=FLUSH, lateness=5),
            "leaves it out of all",
        ),
        (
            lambda s: s.window(range=5, wattr="row_num", partition="k").aggregate(oop.count(), early=FLUSH, lateness=5),
            "cannot be revised",
        ),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=FLUSH, strategy="panes"), "Leave strategy out"),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=FLUSH, empty=True), "Leave empty out"),
        (lambda s: s.window(range=20).aggregate(firing=oop.count(), early=FLUSH), '"firing" is the name'),
        (
            lambda s: aggregated(s, oop.early(when=FLUSH, refine="discard")).alert("a", "n > 1"),
            "what is new alone",
        ),
    ],
)
def test_what_cannot_be_is_refused(made: Callable[[oop.Stream], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(late_free(shuffled(0)))


def test_an_event_that_nobody_hears_is_refused_with_those_that_are_heard() -> None:
    running = late_free(ROWS).window(range=10).aggregate(oop.count(), early=FLUSH | oop.Trigger.rows(1)).start()
    with pytest.raises(PlanError, match="has not begun"):
        running.fire("flush")
    next(running)
    with pytest.raises(PlanError, match=r'fire\("flsh"\): the windows of this run fire at events flush'):
        running.fire("flsh")
    list(running)
    with pytest.raises(PlanError, match="the run has ended"):
        running.fire("flush")


@pytest.mark.parametrize(("trigger", "shared"), [(FLUSH, False), (oop.Trigger.clock("50 ms"), False), (FLUSH, True)])
def test_windows_fire_while_a_source_waits(trigger: oop.Trigger, shared: bool) -> None:
    given, fired = list[tuple[object, ...]](), threading.Event()

    def read() -> Iterator[oop.Page]:
        yield ticks(1)
        fired.wait(60)
        yield ticks(2)

    results = oop.pages(read(), SCHEMA).window(range=10).aggregate(oop.count(), early=trigger)
    if shared:
        # Behind a place that two read, operators have an inbox of their own.
        results = results.filter("count > 0").meld(results.filter("count > 100"))

    def take(page: oop.Page) -> None:
        given.extend((row["count"], row["final"]) for row in page.rows())
        fired.set()

    with results.to(take).start() as started:
        while trigger is FLUSH and not fired.is_set():
            started.fire("flush")
        started.wait(60)
    assert given[0] == (1, False)
    assert given[-1] == (2, True)


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("3 ROWS", oop.Trigger.rows(3)),
        ("1 row then 2 rows", oop.Trigger.rows(1).then(oop.Trigger.rows(2))),
        ("EVERY 3 OR 4 ROWS", oop.Trigger.every(3) | oop.Trigger.rows(4)),
        ("2 ROWS UNTIL AT 50 %", oop.Trigger.rows(2).until(oop.Trigger.at(0.5))),
        ("PROMISE ts < 20 AND 2 ROWS", oop.Trigger.promise("ts < 20") & oop.Trigger.rows(2)),
        ("PROMISE (ts AND ts < 20) OR 3 ROWS", oop.Trigger.promise("ts", "ts < 20") | oop.Trigger.rows(3)),
        ("EVERY 3 OR AT 90 %", oop.Trigger.every(3) | oop.Trigger.at(0.9)),
        ("2 ROWS UNTIL 5 ROWS OR EVENT 'flush'", oop.Trigger.rows(2).until(oop.Trigger.rows(5) | FLUSH)),
        (
            "EVENT 'flush' AND 2 ROWS OR (CLOCK 5 s THEN 3 ROWS)",
            (FLUSH & oop.Trigger.rows(2)) | oop.Trigger.clock("5 s").then(oop.Trigger.rows(3)),
        ),
    ],
)
def test_text_means_what_python_means(text: str, trigger: oop.Trigger) -> None:
    rows = shuffled(3)
    window = f"[RANGE 10, SLIDE 5, WA ts, EARLY WHEN {text} RETRACT]"
    asked = f"SELECT k, count(*) AS n, max(x) AS most {window} FROM S GROUP BY k"
    from_text = oop.query(asked, S=late_free(rows))
    python = late_free(rows).window(range=10, slide=5).aggregate(
        by="k", early=oop.early(when=trigger, refine="retract"), **AGGREGATES
    )  # fmt: skip
    assert from_text.explain() == python.explain()
    assert bag(from_text.to_arrow().to_pylist()) == bag(python.to_arrow().to_pylist())
    assert parse(unparse(parse(asked))) == parse(asked)


def test_a_trigger_has_a_name_in_text_and_serves_several_windows() -> None:
    one = "SELECT count(*) AS n [RANGE 10, WA ts, EARLY WHEN {}] FROM S"
    both = f"SELECT n FROM ({one}) UNION ({one})"
    named = "WITH often AS TRIGGER (1 ROW THEN 3 ROWS), more AS TRIGGER (often OR EVENT 'flush') "
    written = "((1 ROW THEN 3 ROWS) OR EVENT 'flush') UNTIL 9 ROWS"
    text = named + both.format("more UNTIL 9 ROWS", "more UNTIL 9 ROWS")
    assert parse(text) == parse(both.format(written, written))
    assert parse(unparse(parse(text))) == parse(text)
    assert oop.query(text, S=late_free(ROWS)).to_arrow().num_rows > 20
    for wrong, says in (
        ("WITH a AS TRIGGER (3 ROWS), a AS TRIGGER (4 ROWS) " + one.format("a"), 'names "a" twice'),
        (one.format("never"), 'no trigger is called "never"; WITH names none'),
        (named + one.format("oftn"), "those of WITH are often, more"),
    ):
        with pytest.raises(oop.LanguageError, match=says):
            parse(wrong)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 ROWS", "from 1 to"),
        ("EVENT ''", "an event has a name"),
        ("CLOCK 5 rows", "a clock ticks after a time"),
        ("1 ROW UNTIL (1 ROW THEN 2 ROWS)", "no trigger that can stop another"),
        ("5 s", "expected"),
    ],
)
def test_in_text_what_cannot_be_is_shown_where_it_stands(text: str, says: str) -> None:
    asked = f"SELECT count(*) [RANGE 20, WA ts, EARLY WHEN {text}] FROM S"
    with pytest.raises(oop.LanguageError, match=says) as caught:
        oop.query(asked, S=late_free(ROWS))
    assert caught.value.column > asked.index("EARLY")


def test_explain_says_when_windows_fire() -> None:
    trigger = FLUSH | oop.Trigger.clock("5 s")
    text = late_free(ROWS).window(range=10).aggregate(oop.count(), early=trigger).explain()
    assert "windows give what they have so far on 'flush' or every 5 s by the clock" in " ".join(text.split())
