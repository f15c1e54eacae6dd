"""`stream.alert` follows the windows that it stands behind, and refuses what it cannot follow in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import oop_engine as oop
from oop_engine.errors import PlanError

SCHEMA = oop.Schema.of(ts="int64", k="string", v="int64")
WINDOW = ("wid", "window_start", "window_end")
TABLE = [(0, "a", 5), (3, "a", 5), (11, "a", 9), (12, "b", 1), (25, "b", 9), (31, "a", 1)]


def stream() -> oop.Stream:
    return oop.rows(TABLE, SCHEMA)


def test_groups_keep_their_alert_under_another_name_and_behind_a_filter() -> None:
    results = stream().window(range=10).aggregate(oop.sum("v"), by="k")
    renamed = results.filter("sum_v > 1").project(*WINDOW, "sum_v", host="k")
    rows = renamed.alert("much", lambda r: r["sum_v"] >= 9).to_arrow().to_pylist()
    assert sorted((row["host"], row["event"], row["window_end"]) for row in rows) == [
        ("a", "close", 30), ("a", "open", 10), ("a", "update", 20), ("b", "close", 40), ("b", "open", 30),
    ]  # fmt: skip


def test_a_late_tuple_revises_what_the_alert_is_over() -> None:
    late = oop.rows([(1, "a", 5), (12, "a", 5), (2, "a", 5), (40, "a", 0)], SCHEMA, punctuate=oop.ordered("ts"))
    windows = late.window(range=10).aggregate(oop.sum("v"), by="k", lateness=10)
    rows = windows.alert("much", "sum_v >= 10").to_arrow().to_pylist()
    assert [(row["event"], row["sum_v"], row["revision"]) for row in rows] == [("open", 10, 1), ("close", 5, 0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s, "the stream has no results of windows"),
        (lambda s: s.window(oop.counted(5)).aggregate(oop.count()), "not a fixed time apart"),
        (lambda s: s.window(range=10).aggregate(oop.count()).top(1, "count"), "stands between the windows"),
        (
            lambda s: s.window(range=10).aggregate(oop.count(), by="k").project("count", *WINDOW),
            "no longer say of which k they are.*\n.*Select k, too",
        ),
        (
            lambda s: s.window(range=10).aggregate(oop.count(), early=oop.early(5, refine="discard")),
            "DISCARD.*\n.*accumulate",
        ),
        (
            lambda s: s.window(range=10).aggregate(oop.count(), early=oop.early(5, refine="retract")),
            "stands between the windows",
        ),
    ],
)  # fmt: skip
def test_what_it_cannot_follow_is_refused(make: Callable[[oop.Stream], oop.Stream], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make(stream()).alert("many", "count > 1" if message[:10] != "the stream" else "v > 1")
