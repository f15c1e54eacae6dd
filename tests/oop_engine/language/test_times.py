"""Times in texts: TIMESTAMP and INTERVAL, windows that GROUP BY makes, rates, and numbers that say no unit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse, unparse

SCHEMA = oop.Schema.of(ts="timestamp[s]", until="timestamp[s]", v="int64", k="string")
ROWS = [(1, 2, 5, "a"), (70, 71, 6, "b"), (75, 77, 16, "b"), (130, 131, 7, None)]
MINUTES = "[RANGE TUMBLING 1 minute, WA ts]"


def stream() -> oop.Stream:
    """Return four rows over three minutes."""
    return oop.rows(ROWS, SCHEMA, punctuate=oop.slack("10 s", on="ts"))


def answer(text: str) -> list[tuple[object, ...]]:
    """Return the rows of a result."""
    tree = parse(text)
    assert parse(unparse(tree)) == tree
    return [tuple(row.values()) for row in oop.query(text, M=stream()).to_arrow().to_pylist()]


SAME = {
    "SELECT time_bucket(INTERVAL '1 minute', ts) AS m, k, sum(v) FROM M GROUP BY m, k":
        f"SELECT window_start AS m, k, sum(v) {MINUTES} FROM M GROUP BY k",
    "SELECT k, sum(v), start FROM M GROUP BY k, date_trunc('minute', ts) AS start":
        f"SELECT k, sum(v), window_start AS start {MINUTES} FROM M GROUP BY k",
    "SELECT date_bin('1 min', ts) AS m, count(*) FROM M GROUP BY m HAVING m > TIMESTAMP '1970-01-01' ORDER BY m":
        f"SELECT window_start AS m, count(*) {MINUTES} FROM M HAVING window_start > '1970-01-01' ORDER BY m",
    "SELECT date_trunc('week', ts) AS w, count(*) FROM M GROUP BY w":
        "SELECT window_start AS w, count(*) [RANGE TUMBLING 7 days, WA ts, ORIGIN '1970-01-05'] FROM M",
    "SELECT time_bucket('1 minute', M.ts, TIMESTAMP '1970-01-01 00:00:10') AS m, count(*) FROM M GROUP BY m":
        "SELECT window_start AS m, count(*) [RANGE TUMBLING 1 minute, WA ts, ORIGIN 10 s] FROM M",
    "SELECT time_bucket('1 minute', a.ts) AS m, count(*) FROM M AS a [RANGE 3 s], M AS b [RANGE 3 s] WHERE a.k = b.k "
    "GROUP BY m":
        "SELECT window_start AS m, count(*) [RANGE TUMBLING 1 minute, WA a.ts] FROM M AS a [RANGE 3 s], "
        "M AS b [RANGE 3 s] WHERE a.k = b.k",
    f"SELECT k, rate(v), rate(*), rate(max(v) - min(v)) {MINUTES} FROM M GROUP BY k HAVING rate(v) > 0.1":
        f"SELECT k, sum(v) / 60, count(*) / 60, (max(v) - min(v)) / 60 {MINUTES} FROM M GROUP BY k HAVING sum(v) > 6",
    "SELECT rate(v) [RANGE 500 ms, WA t] FROM (SELECT cast(ts, 'timestamp[ms]') AS t, v FROM M)":
        "SELECT sum(v) * 2.0 [RANGE 500 ms, WA t] FROM (SELECT cast(ts, 'timestamp[ms]') AS t, v FROM M)",
    "SELECT v FROM M WHERE ts BETWEEN TIMESTAMP '1970-01-01 00:01:10' AND until - INTERVAL '2' SECOND":
        "SELECT v FROM M WHERE ts >= '1970-01-01T00:01:10Z' AND ts <= until - '2 s'",
    "SELECT v FROM M WHERE ts - until < INTERVAL '-1' SECOND OR ts IN (TIMESTAMP '1970-01-01 01:00:01+01:00')":
        "SELECT v FROM M WHERE ts - until < '-1 s' OR ts = '1970-01-01T00:00:01Z'",
}  # fmt: skip


@pytest.mark.parametrize(("text", "same"), SAME.items())
def test_other_ways_to_say_a_time_mean_the_same(text: str, same: str) -> None:
    found = answer(text)
    assert found
    assert found == answer(same)


def test_a_timestamp_alone_is_a_time() -> None:
    moment = dt.datetime(2013, 5, 2, 20, 20, 45, tzinfo=dt.UTC)
    text = (
        "SELECT TIMESTAMP '2013-05-02 20:20:45' AS a, TIMESTAMP '2013-05-02T20:20:44.5' + INTERVAL '500 ms' AS b, "
        "CASE WHEN v > 6 THEN TIMESTAMP '2013-05-02 20:20:45Z' END AS c FROM M WHERE v = 7"
    )
    assert answer(text) == [(moment, moment, moment)]
    text = (
        "SELECT greatest(ts, TIMESTAMP '1970-01-01 00:01:11') AS x, ts - TIMESTAMP '1970-01-01' AS y FROM M WHERE v = 6"
    )
    assert answer(text) == [(dt.datetime(1970, 1, 1, 0, 1, 11), dt.timedelta(seconds=70))]


def test_an_attribute_of_the_name_is_meant_before_a_window() -> None:
    with pytest.raises(LanguageError, match='there is no function "date_trunc"'):
        answer("SELECT date_trunc('minute', ts) AS ts, count(*) FROM M GROUP BY ts")


def test_words_of_times_stay_names() -> None:
    assert answer("SELECT timestamp, interval FROM (SELECT v AS timestamp, k AS interval FROM M WHERE v = 5)") == [
        (5, "a")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT v FROM M WHERE ts > TIMESTAMP 'yesterday'", '"yesterday" is not a time.'),
        ("SELECT v FROM M WHERE ts > INTERVAL '1 month'", '"month" has no fixed length'),
        ("SELECT v FROM M WHERE ts > INTERVAL '3' ROWS", "INTERVAL is a time, and 3 rows is none."),
        ("SELECT INTERVAL '1' SECOND AS x FROM M", "an INTERVAL stands beside a time"),
        ("SELECT v FROM M WHERE k = TIMESTAMP '1970-01-01'", "k is text, and TIMESTAMP"),
        ("SELECT v FROM M WHERE k IN ('a', TIMESTAMP '1970-01-01')", "k is text, and TIMESTAMP"),
        ("SELECT v FROM M WHERE v = TIMESTAMP '1970-01-01'", "does not go with"),
        ("SELECT count(*) FROM M GROUP BY date_trunc('decade', ts)", 'not "decade"'),
        ("SELECT count(*) FROM M GROUP BY time_bucket(60, ts)", "time_bucket: 60 of what"),
        ("SELECT count(*) FROM M GROUP BY time_bucket('0 s', ts)", "a window must be longer than 0."),
        ("SELECT count(*) FROM M GROUP BY time_bucket('1 parsec', ts)", "expected a unit"),
        ("SELECT count(*) FROM M GROUP BY time_bucket('1 s', ts), time_bucket('2 s', ts)", "makes a second window"),
        (f"SELECT count(*) {MINUTES} FROM M GROUP BY time_bucket('1 s', ts)", "makes a second window"),
        ("SELECT rate(v) FROM M", "rate is per second of a window, and here is none."),
        ("SELECT rate(v) [SESSION 9 s, WA ts] FROM M", "whose RANGE is a time"),
        ("SELECT rate(v) [RANGE 9 rows, WA row-num] FROM M", "whose RANGE is a time"),
        ("SELECT rate(v) [RANGE ALL, SLIDE 9 s, WA ts] FROM M", "whose RANGE is a time"),
        ("SELECT rate(v) [RANGE 9 s, WA ts, EARLY 3 s] FROM M", "gives one result"),
        ("SELECT rate(v, k) [RANGE 9 s, WA ts] FROM M", "rate takes one argument"),
        ("SELECT count(*) FROM HOP(TABLE M, DESCRIPTOR(ts), INTERVAL '0' SECOND, INTERVAL '1' SECOND)", "longer than"),
    ],
)
def test_what_is_no_time_is_refused(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        answer(text)
    assert message in caught.value.message


BARE = [
    "SELECT v FROM M WHERE ts > 1367526045",
    "SELECT v FROM M WHERE 60 < ts",
    "SELECT v FROM M WHERE ts BETWEEN 1 AND 60",
    "SELECT v FROM M WHERE ts IN (1, 60)",
    "SELECT v FROM M WHERE until - ts > 60",
    "SELECT ts + 60 AS x FROM M",
    "SELECT ts % 60 AS x FROM M",
    "SELECT ts // 60 AS x FROM M",
    "SELECT least(ts, 60) AS x FROM M",
    "SELECT CASE WHEN v > 1 THEN ts ELSE 60 END AS x FROM M",
    "SELECT max(ts) - min(ts) > 60 AS x FROM M",
    "SELECT count(*) [RANGE 60, WA ts] FROM M",
    "SELECT count(*) [RANGE 60 s, SLIDE 30, WA ts] FROM M",
    "SELECT count(*) [RANGE 60 s, WA ts, ORIGIN 30] FROM M",
    "SELECT count(*) [RANGE 60 s, WA ts, EARLY 30] FROM M",
    "SELECT count(*) [SESSION 60, WA ts] FROM M",
    f"SELECT count(*) {MINUTES} FROM M HAVING window_start > 60",
    "SELECT a.ts FROM M AS a [RANGE 60, WA ts], M AS b [RANGE 60, WA ts] WHERE a.k = b.k",
    "SELECT a.ts FROM M AS a [RANGE 60 s], M AS b [RANGE 60 s] WHERE a.k = b.k AND a.ts - b.ts < 5",
]


@pytest.mark.parametrize("text", BARE)
def test_a_bare_number_beside_a_time_is_asked_of_what(text: str) -> None:
    with pytest.raises(LanguageError, match=r"\d of what\?"):
        answer(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.window(60),
        lambda m: m.window("60 s", slide=30),
        lambda m: m.window("60 s", origin=30),
        lambda m: m.window(oop.session(60)),
        lambda m: m.window("60 s").aggregate(oop.count(), lateness=60),
        lambda m: m.window("60 s").aggregate(oop.count(), early=60),
        lambda m: m.filter("ts > 60"),
        lambda m: m.filter(lambda p: p["ts"] > 60),
        lambda m: m.join(m, "k", range=60),
        lambda m: m.join(m, "k", tumbling=60),
        lambda m: m.spread("v", end="until", step=60),
        lambda m: m.reorder(slack=60),
        lambda _: oop.rows(ROWS, SCHEMA, punctuate=oop.slack(60, on="ts")),
    ],
)
def test_a_bare_number_in_python_is_asked_of_what(make: Callable[[oop.Stream], object]) -> None:
    with pytest.raises((oop.PlanError, oop.SchemaError, LanguageError), match=r"60 of what\?|30 of what\?"):
        make(stream())
