"""BILL and DEDUP in text mean what `stream.billing` and `stream.dedup` do."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse
from oop_engine.language.unparse import unparse

FLOWS = oop.Schema.of(ts="timestamp[s]", end_ts="timestamp[s]", exporter="string", k="int64", bytes="int64")
KEYS = dict.fromkeys(("srcIP", "destIP", "srcPort", "destPort", "proto"), "1")
RATES = "SELECT k, sum(bytes) AS b [RANGE 5 s, WA ts] FROM F GROUP BY k"


def stream() -> oop.Stream:
    rows = [(0, 9, "r2", 1, 100), (0, 9, "r1", 1, 100), (12, 12, "r2", 1, 70), (64, 64, "r1", 2, 5)]
    return oop.rows(rows, FLOWS).derive(**KEYS)


def test_bill_is_what_billing_gives() -> None:
    found = oop.query(f"{RATES} BILL b PER 1 minute AT 0.9", F=stream()).to_arrow().to_pylist()
    windows = stream().window(range="5 s").aggregate(b=oop.sum("bytes"), by="k")
    assert found == windows.billing("b", per="1 minute", share=0.9).to_arrow().to_pylist()
    assert [(row["k"], row["p90_b"], row["max_b"], row["empty"]) for row in found] == [(1, 70, 200, 10), (2, 0, 5, 11)]


def test_aggregates_over_the_slots_stand_behind_the_rate() -> None:
    text = (
        "SELECT k, sum(bytes) AS b, count(*) AS n [RANGE 5 s, WA ts] FROM F GROUP BY k BILL b, sum(n) AS flows, max(n)"
    )
    found = oop.query(f"{text} PER 1 minute", F=stream()).to_arrow().to_pylist()
    assert [(row["k"], row["flows"], row["max_n"]) for row in found] == [(1, 3, 2), (2, 1, 1)]


def test_dedup_leaves_out_or_marks_what_another_observer_tells_of() -> None:
    assert oop.query("SELECT sum(bytes) FROM F DEDUP", F=stream()).to_arrow().to_pylist() == [{"sum_bytes": 175}]
    (row,) = oop.query("SELECT sum(twice) AS n FROM F DEDUP BY (k) MARK twice", F=stream()).to_arrow().to_pylist()
    assert row == {"n": 1}
    kept = oop.query("SELECT sum(bytes) FROM F DEDUP BY exporter", F=stream()).to_arrow().to_pylist()
    assert kept == [{"sum_bytes": 275}]


@pytest.mark.parametrize(
    "text",
    [
        f"{RATES} BILL b PER month IN 'Europe/Berlin'",
        f"{RATES} BILL b PER INTERVAL '30' DAY AT 0.9",
        f"{RATES} BILL b, sum(b) AS total, quantile(b, 0.5) PER month",
        "SELECT mark, per, bill FROM F DEDUP BY (exporter, k) MARK twice SPREAD bytes BY 5 s",
    ],
)
def test_what_is_written_back_means_the_same(text: str) -> None:
    assert parse(unparse(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT k, sum(bytes) AS b FROM F GROUP BY k BILL b PER month", "BILL ranks the results of windows"),
        (f"{RATES} BILL c PER month", 'no attribute "c"'),
        (f"{RATES} BILL b, b AS c PER month", "b is no aggregate over columns"),
        (f"{RATES} BILL b, sum(b + 1) PER month", "no column of the results"),
        (f"{RATES} BILL b, sum(c) AS d PER month", 'no attribute "c"'),
        (f"{RATES} BILL b PER fortnight", '"fortnight" is no duration'),
        (f"{RATES} BILL b PER 1 s", "shorter than a slot"),
        (f"{RATES} BILL b PER month AT 95", "AT is a share above 0"),
        (f"{RATES} BILL b PER month ORDER BY k", "BILL goes with no ORDER BY"),
        (f"{RATES} BILL b PER month IN 'Europe/Berlim'", "Europe/Berlin"),
    ],
)
def test_what_cannot_be_billed_is_refused_where_it_stands(text: str, says: str) -> None:
    with pytest.raises(LanguageError, match=says):
        oop.query(text, F=stream())
