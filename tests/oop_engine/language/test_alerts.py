"""ALERT means `stream.alert`, over the columns of the result."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import parse, unparse
from oop_engine.language import syntax as s
from oop_engine.query_errors import LanguageError

SCHEMA = oop.Schema.of(ts="int64", k="string", v="int64")
ROWS = [(1, "a", 9), (12, "a", 9), (13, "b", 9), (22, "a", 5), (31, "a", 1), (45, "a", 9)]
SUMS = "SELECT k, sum(v) [RANGE 10, WA ts] FROM M GROUP BY k"
SEEN = [("open", "a", 20, 2), ("update", "a", 30, 3), ("close", "a", 40, 3)]


def events(found: oop.Stream) -> list[tuple[object, ...]]:
    return [(row["event"], row["k"], row["window_end"], row["windows"]) for row in found.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    "said", ["sum(v) > 8 FOR 2 WINDOWS CLEAR BELOW 5", "sum_v >= 9 FOR 2 WINDOWS CLEAR WHEN NOT sum(v) > 4"]
)
def test_text_and_python_say_the_same(said: str) -> None:
    stream = oop.rows(ROWS, SCHEMA)
    sums = stream.window(range=10).aggregate(oop.sum("v"), by="k")
    assert events(sums.alert("much", "sum_v > 8", clear="sum_v < 5", windows=2)) == SEEN
    assert events(oop.query(f"{SUMS} ALERT much WHEN {said}", M=stream)) == SEEN


def test_a_text_that_is_written_anew_says_the_same() -> None:
    tree = parse(f"{SUMS} HAVING k <> 'b' ALERT `my alert` WHEN sum(v) > 0.5 GB FOR 3 WINDOWS CLEAR BELOW 1 KiB")
    assert tree.alert == s.Alert(
        "my alert",
        s.Binary(">", s.Call("sum", (s.Name(("v",)),)), s.Literal(500_000_000)),
        windows=3,
        clear=s.Binary("<", s.Call("sum", (s.Name(("v",)),)), s.Literal(1024)),
    )
    assert parse(unparse(tree)) == tree


SESSIONS = "SELECT k, count(*) [SESSION 5, WA ts] FROM M GROUP BY k ALERT much WHEN count > 8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{SUMS} ALERT much WHEN max(v) > 8", r"max\(v\) is no column.*[\s\S]*Select it, too"),
        ("SELECT count(*) FROM M ALERT much WHEN count > 8", "ALERT follows the results of windows"),
        (f"{SUMS} ALERT much WHEN sum(v) = 8 CLEAR BELOW 5", "need a WHEN that compares"),
        (f"{SUMS} ALERT much WHEN sum(v) > 8 FOR 0 WINDOWS", "FOR is a number of windows from 1"),
        (f"{SUMS} ALERT much WHEN sum(v)", "WHEN takes a condition"),
        (f"{SUMS} ALERT much WHEN sum(v) > 8 CLEAR WHEN sum(v)", "CLEAR takes a condition"),
        (f"{SUMS} ALERT much WHEN sum(v) > 8 ORDER BY k", "does not go with ORDER BY"),
        (f"{SUMS} ALERT much WHEN sum(v) > 0.0001 KB", "a size is a whole number of bytes"),
        (f"{SESSIONS} FOR 2 WINDOWS", "no session follows another at once"),
        (f"{SESSIONS} CLEAR BELOW 3", "no session follows another at once"),
    ],
)
def test_what_does_not_go_is_refused_where_it_stands(text: str, said: str) -> None:
    with pytest.raises(LanguageError, match=said):
        oop.query(text, M=oop.rows(ROWS, SCHEMA))
