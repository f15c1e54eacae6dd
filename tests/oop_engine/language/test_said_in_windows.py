"""What the brackets of a window say beside RANGE and SLIDE reaches the plan, and what does not fit is pointed at."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse, unparse

SCHEMA = oop.Schema.of(ts="int64", v="int64")


@pytest.fixture(scope="module")
def streams() -> dict[str, oop.Stream]:
    """Return a stream with a late tuple, and flows that last."""
    late = oop.rows([(1, 5), (12, 2), (25, 7), (3, 9), (40, 2)], SCHEMA, slack=5)
    flows = oop.rows([(0, 20, 300), (5, 5, 7)], oop.Schema.of(ts="int64", end_ts="int64", bytes="int64"))
    return {"M": late, "F": flows}


def test_a_late_tuple_changes_a_window_that_was_given(streams: dict[str, oop.Stream]) -> None:
    table = oop.query("SELECT sum(v) AS s [RANGE 10, WA ts, LATENESS 30] FROM M", streams).to_arrow()
    first = [(row["s"], row["revision"]) for row in table.to_pylist() if row["wid"] == 0]
    assert first == [(5, 0), (14, 1)]


def test_a_late_tuple_is_lost_without_lateness(streams: dict[str, oop.Stream]) -> None:
    outcome = oop.query("SELECT sum(v) AS s [RANGE 10, WA ts] FROM M", streams).run()
    assert outcome.statistics.late == 1


@pytest.mark.parametrize("strategy", ["panes", "buffer", "slicing(store lazy)", "two_level(size 16, flush slow)"])
def test_a_strategy_is_shown_by_explain_and_changes_no_answer(strategy: str, streams: dict[str, oop.Stream]) -> None:
    text = "SELECT v, sum(v) AS s [RANGE 10, SLIDE 5, WA ts{}] FROM M GROUP BY v"
    usual, asked = (oop.query(text.format(more), streams) for more in ("", f", STRATEGY {strategy}"))
    assert asked.explain() != usual.explain()
    assert sorted(map(str, asked.to_arrow().to_pylist())) == sorted(map(str, usual.to_arrow().to_pylist()))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELECT count(*) [RANGE 9, WA ts, STRATEGY wide] FROM M", "STRATEGY wide", "there is no such strategy"),
        (
            "SELECT count(*) [RANGE 9, WA ts, STRATEGY panes(size 3)] FROM M",
            "STRATEGY panes",
            "there is no such option",
        ),
        ("SELECT count(*) [SESSION 9, WA ts, EMPTY] FROM M", "[SESSION 9, WA ts, EMPTY]", "empty=True"),
        ("SELECT count(*) [SESSION 9, WA ts, CONSISTENT] FROM M", "[SESSION 9, WA ts, CONSISTENT]", "consistent"),
        ("SELECT count(*) [RANGE 9, WA ts, EARLY AT 12] FROM M", "12", "is not between the begin and the end"),
        ("SELECT count(*) [RANGE 9, WA ts, NO IDLE] FROM M", "[RANGE 9, WA ts, NO IDLE]", "NO IDLE is of windows"),
        ("SELECT count(*) [BAND 9 FROM '2026-01-01', WA ts] FROM M", "'2026-01-01'", "FROM is a time, but"),
        ("SELECT rate(v) [RANGE 9, WA ts] AS a, [RANGE 7, WA ts] AS b FROM M", "rate(v)", "here are several"),
        ("SELECT count(*) AS n [RANGE 9, WA ts, LATENESS 3] FROM M ORDER BY n", "n", "LATENESS gives results again"),
        ("SELECT v FROM F SPREAD bites BY 10", "bites", 'no attribute "bites"'),
        ("SELECT v FROM F SPREAD bytes BY 10 s", "10 s", "BY is 10 s"),
        ("SELECT v FROM F NUMBER AS ts", "NUMBER AS ts", "ts"),
        (
            "SELECT v FROM M AS a [RANGE 9, WA ts, EMPTY], M AS b [RANGE 9]",
            "[RANGE 9, WA ts, EMPTY]",
            "has no EMPTY",
        ),
    ],
)
def test_what_does_not_fit_is_pointed_at(text: str, place: str, message: str, streams: dict[str, oop.Stream]) -> None:
    with pytest.raises(LanguageError) as caught:
        oop.query(text, streams)
    assert message in caught.value.message
    assert text[caught.value.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ("[RANGE 9] AS a, [RANGE 9] AS a", 'two windows are called "a"'),
        ("[RANGE 9], [RANGE 9] AS a", "windows beside one another have names"),
        ("[RANGE 9, PA k] AS a, [RANGE 9] AS b", "PA is of a query with one window"),
        ("[RANGE 9, LATENESS 3] AS a, [RANGE 9, LATENESS 4] AS b", "LATENESS holds for all windows"),
        ("[BAND 9 FROM 3, SLIDE 2]", "a window of BAND has no SLIDE"),
        ("[MARKED BY k, EARLY 3]", "a window of MARKED BY has no EARLY"),
        ("[WHEN k = 'a' UNTIL NEXT, SLIDE 3]", "a window of WHEN has no SLIDE"),
        ("[BAND 0 FROM 3]", "BAND must be more than 0"),
        ("[RANGE 9, LATENESS 0]", "LATENESS must be more than 0"),
        ("[RANGE 9, EARLY AT 100 %]", "between 0 % and 100 %"),
        ("[RANGE 9, EARLY WHEN 1 ROW INTERVAL 100 %]", "between 0 % and 100 % of windows"),
        ("[RANGE 9, EMPTY, EMPTY]", "this window has EMPTY twice"),
        ("[SESSION 9, SLIDE 3, EARLY AT 3]", "it has no SLIDE"),
    ],
)
def test_what_windows_cannot_say_is_refused(windows: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(f"SELECT count(*) {windows} FROM M")
    assert message in caught.value.message


def test_what_holds_for_all_windows_stands_with_the_first() -> None:
    tree = parse("SELECT count(*) [RANGE 9] AS a, [RANGE 7, EARLY AT 50 %, CONSISTENT] AS b FROM M")
    assert unparse(tree) == "SELECT count(*) [RANGE 9, EARLY AT 50 %, CONSISTENT] AS a, [RANGE 7] AS b FROM M"


def test_a_query_in_with_is_spread_and_numbered(streams: dict[str, oop.Stream]) -> None:
    text = "WITH g AS (SELECT * FROM F) SELECT n, bytes FROM g SPREAD bytes BY 10 NUMBER AS n AS h WHERE h.n > 0"
    assert oop.query(text, streams).to_arrow().to_pylist() == [{"n": 1, "bytes": 150}, {"n": 2, "bytes": 7}]


def test_members_of_a_union_are_spread_by_themselves(streams: dict[str, oop.Stream]) -> None:
    text = "SELECT bytes FROM (F SPREAD bytes BY 10) UNION F"
    assert sorted(oop.query(text, streams).to_arrow()["bytes"].to_pylist()) == [7, 7, 150, 150, 300]
    assert unparse(parse(text)) == text
