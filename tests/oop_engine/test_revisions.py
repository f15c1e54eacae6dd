"""Results that late tuples revise, as a user meets them: what is given again, and what a filter makes of it."""

from __future__ import annotations

import pyarrow as pa

import oop_engine as oop
from operators.functions import AggregateFunction

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int64())])


def revised(window: oop.WindowOf, *functions: AggregateFunction) -> oop.Stream:
    rows = iter([(0, 5), (8, 1), (30, 1), (4, 2), (40, 9)])
    return oop.rows(rows, SCHEMA, slack=0).window(window).aggregate(*functions, lateness=100)


def test_a_window_that_a_late_tuple_leaves_as_it_was_is_given_once() -> None:
    found = revised(oop.tumbling(10), oop.max("x")).run().table.to_pylist()
    assert [(row["wid"], row["max_x"], row["revision"]) for row in found] == [(0, 5, 0), (3, 1, 0), (4, 9, 0)]


def test_a_session_that_is_no_more_is_taken_back_and_a_filter_leaves_that_out() -> None:
    last = {}
    for row in revised(oop.session(5), oop.count()).run().table.to_pylist():
        last[row["wid"]] = row["count"]
    assert last == {0: 3, 8: None, 30: 1, 40: 1}
    passed = revised(oop.session(5), oop.count()).filter("count > 0").run().table.to_pylist()
    assert [(row["wid"], row["count"]) for row in passed] == [(0, 1), (8, 1), (0, 3), (30, 1), (40, 1)]


def test_explain_tells_what_revises() -> None:
    text = " ".join(revised(oop.session(5), oop.count()).explain().replace("│", " ").split())
    assert "windows that late tuples change are given again; the last revision holds" in text
    assert "a session that is no more is given with null aggregates and a null window_end" in text
    text = revised(oop.tumbling(5), oop.count()).explain()
    assert "revisions:" in text and "session" not in text
