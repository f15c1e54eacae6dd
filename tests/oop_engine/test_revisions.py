"""Results that late tuples revise, as a user meets them: what is given again, and what a filter makes of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

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


def test_late_tuples_change_a_band_alone_as_they_do_beside_other_windows() -> None:
    found = revised(oop.band(2, 20), oop.count(), oop.max("x")).run().table.to_pylist()
    assert [(row["count"], row["max_x"], row["revision"]) for row in found] == [(1, 1, 0), (2, 2, 1)]
    rows = oop.rows([(0, 5), (8, 1), (30, 1), (4, 2), (40, 9)], SCHEMA, slack=0)
    text = "SELECT count(*), max(x) [BAND 20 FROM 2, WA ts, LATENESS 100] FROM S"
    assert oop.query(text, S=rows).run().table.to_pylist() == found
    assert "a band is a single window" in rows.window(oop.band(2, 20)).aggregate(oop.count()).explain()


@pytest.mark.parametrize("window", [oop.band(2, 20), oop.edges(lambda t: t // 10 * 10 + 10)])
def test_what_comes_late_to_windows_of_fixed_ends_is_a_result_of_its_own_where_they_fire_early(
    window: oop.WindowOf,
) -> None:
    rows = oop.rows([(0, 5), (8, 1), (40, 1), (4, 2)], SCHEMA, slack=0)
    with pytest.raises(oop.PlanError, match=r"is a result of its own\n  where such windows fire early"):
        rows.window(window).aggregate(oop.count(), lateness=100, refine="discard")
    early = oop.early(when=oop.Trigger.rows(1000), refine="discard")
    found = rows.window(window).aggregate(oop.count(), lateness=100, early=early).run().table.to_pylist()
    first = [(row["count"], row["revision"]) for row in found if row["window_start"] in (0, 2)]
    assert first[-1] == (1, 1) and len(first) == 2


def test_explain_tells_what_revises() -> None:
    text = " ".join(revised(oop.session(5), oop.count()).explain().replace("│", " ").split())
    assert "windows that late tuples change are given again; the last revision holds" in text
    assert "a session that is no more is given with null aggregates and a null window_end" in text
    text = revised(oop.tumbling(5), oop.count()).explain()
    assert "revisions:" in text and "session" not in text
