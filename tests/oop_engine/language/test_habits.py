"""Who writes a query as another language has it is told how this one says it: habits.txt has texts and their hints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import LanguageError
from operators.data.schema import ip_field

LINES = Path(__file__).with_name("habits.txt").read_text(encoding="utf-8").splitlines()
HABITS = dict(zip(LINES[::2], (line.strip() for line in LINES[1::2]), strict=True))
COLUMNS = {
    "ts": pa.array([1], pa.timestamp("s")),
    "end_ts": pa.array([1], pa.timestamp("s")),
    "bytes": pa.array([1]),
    "k": pa.array(["a"]),
    "srcPort": pa.array([1]),
    "flags": pa.array([1], pa.uint8()),
    "proto": pa.array([1], pa.uint8()),
    "seq": pa.array([1]),
}


@pytest.fixture(scope="module")
def flows() -> oop.Stream:
    """Return a stream with the attributes that the habits name."""
    fields = [pa.field(name, column.type) for name, column in COLUMNS.items()]
    address = ip_field("srcIP")
    arrays = [*COLUMNS.values(), pa.array([b"\0" * 16], address.type)]
    return oop.arrow(pa.Table.from_arrays(arrays, schema=pa.schema([*fields, address])))


def test_there_are_a_hundred_of_them() -> None:
    assert len(HABITS) >= 100
    assert all(HABITS.values())


@pytest.mark.parametrize("text", HABITS)
def test_a_habit_gets_its_hint(text: str, flows: oop.Stream) -> None:
    with pytest.raises(LanguageError) as caught:
        oop.query(text, M=flows)
    assert HABITS[text] in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM M WHERE ts > 1367526045",
        "SELECT k FROM M WHERE 1367526045 < ts",
        "SELECT k FROM M WHERE ts BETWEEN 1 AND 1367526050",
        "SELECT k FROM M WHERE ts IN (5)",
        "SELECT k FROM M WHERE end_ts - ts > 60",
        "SELECT ts + 60 AS x FROM M",
        "SELECT ts - 60 AS x FROM M",
        "SELECT ts % 60 AS x FROM M",
        "SELECT ts // 60 AS x FROM M",
        "SELECT ts + INTERVAL 60 AS x FROM M",
        "SELECT ts + INTERVAL '60' AS x FROM M",
        "SELECT least(ts, 60) AS x FROM M",
        "SELECT CASE ts WHEN 60 THEN 1 END AS x FROM M",
        "SELECT max(ts) AS m [RANGE 1 minute, WA ts] FROM M HAVING max(ts) > 60",
        "SELECT count(*) [RANGE 60, WA ts] FROM M",
        "SELECT count(*) [RANGE TUMBLING 60, WA ts] FROM M",
        "SELECT count(*) [RANGE 1 minute, SLIDE 10, WA ts] FROM M",
        "SELECT count(*) [RANGE 1 minute, WA ts, ORIGIN 5] FROM M",
        "SELECT count(*) [RANGE 1 minute, WA ts, LATENESS 5] FROM M",
        "SELECT count(*) [RANGE 1 minute, WA ts, EARLY 5] FROM M",
        "SELECT count(*) [RANGE 1 minute, WA ts, EARLY AT 5] FROM M",
        "SELECT count(*) [RANGE 1 minute, WA ts] AS a, [RANGE 60, WA ts] AS b FROM M",
        "SELECT count(*) [SESSION 30, WA ts] FROM M",
        "SELECT count(*) [BAND 5 FROM 7, WA ts] FROM M",
        "SELECT sum(bytes) [RANGE 9 s, WA ts] FROM M SPREAD bytes OVER ts, end_ts BY 10",
        "SELECT count(*) FROM M GROUP BY time_bucket(60, ts)",
        "SELECT count(*) FROM M GROUP BY time_bucket('60', ts)",
        "SELECT count(*) FROM TUMBLE(TABLE M, DESCRIPTOR(ts), 60)",
        "SELECT count(*) FROM TUMBLE(TABLE M, DESCRIPTOR(ts), INTERVAL '60')",
        "SELECT a.k FROM M AS a JOIN M AS b ON a.k = b.k AND a.ts BETWEEN b.ts - 5 AND b.ts + 5",
        "SELECT a.k FROM M AS a [RANGE 5, WA ts], M AS b [RANGE 5 s, WA ts] WHERE a.k = b.k",
        "SELECT k FROM M LOOKUP M AS u ON k = u.k REVISE 5",
    ],
)
def test_a_bare_number_beside_a_time_is_asked_of_what(text: str, flows: oop.Stream) -> None:
    with pytest.raises(LanguageError, match=r"\d of what\?") as caught:
        oop.query(text, M=flows)
    assert caught.value.line == 1
