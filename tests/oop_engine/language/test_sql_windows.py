"""Windows, WITH and UNION ALL as SQL writes them mean what the language's own words mean."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse, unparse

SAME = {
    "SELECT k, count(*) FROM TUMBLE(TABLE M, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end, k;":
        "SELECT k, count(*) [RANGE TUMBLING 1 minute, WA ts] FROM M GROUP BY k",
    "SELECT count(*) FROM HOP(TABLE M, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '1 minute') AS h":
        "SELECT count(*) [RANGE 1 minute, SLIDE 10 s, WA ts] FROM M AS h",
    "SELECT count(*) FROM CUMULATE(M, DESCRIPTOR(ts), INTERVAL 10 SECOND, INTERVAL '1' MINUTE)":
        "SELECT count(*) [RANGE TUMBLING 1 minute, WA ts, EARLY 10 s] FROM M",
    "SELECT k, count(*) FROM session(TABLE M, DESCRIPTOR(ts), INTERVAL '30' SECOND) GROUP BY k":
        "SELECT k, count(*) [SESSION 30 s, WA ts] FROM M GROUP BY k",
    "WITH a AS (SELECT ts FROM M WHERE v > 1), b AS (SELECT ts FROM a) SELECT count(*) FROM b, a [RANGE 1 s, WA ts]":
        "SELECT count(*) FROM (SELECT ts FROM (SELECT ts FROM M WHERE v > 1) AS a) AS b, "
        "(SELECT ts FROM M WHERE v > 1) AS a [RANGE 1 s, WA ts]",
    "SELECT * FROM A UNION ALL B UNION C": "SELECT * FROM A UNION B UNION C",
    "WITH A AS (SELECT x FROM M) SELECT x FROM (A AS c) UNION ALL (SELECT x FROM A)":
        "SELECT x FROM ((SELECT x FROM M) AS c) UNION (SELECT x FROM (SELECT x FROM M) AS A)",
}  # fmt: skip


@pytest.mark.parametrize(("text", "same"), SAME.items())
def test_sql_says_what_the_language_says(text: str, same: str) -> None:
    tree = parse(text)
    assert tree == parse(same)
    assert parse(unparse(tree)) == tree


def test_a_window_of_sql_gives_the_results_of_its_brackets() -> None:
    schema = oop.Schema.of(ts="timestamp[s]", k="string")
    stream = oop.rows([(1, "a"), (70, "b"), (65, "a"), (130, "b")], schema, punctuate=oop.slack("10 s", on="ts"))
    texts = next(iter(SAME.items()))
    ours, theirs = (oop.query(text, M=stream).to_arrow().to_pylist() for text in texts)
    assert ours == theirs
    assert len(ours) == 4


def test_with_does_not_grow_without_end() -> None:
    queries = ["a0 AS (SELECT * FROM M)", *(f"a{n} AS (SELECT * FROM a{n - 1} UNION a{n - 1})" for n in range(1, 40))]
    with pytest.raises(LanguageError, match="reads more than 256 streams"):
        parse(f"WITH {', '.join(queries)} SELECT * FROM a39")


def test_a_fault_in_a_named_query_is_shown_where_it_stands() -> None:
    stream = oop.rows([(1, 2)], oop.Schema.of(ts="int64", v="int64"))
    with pytest.raises(LanguageError, match='no attribute "w"') as caught:
        oop.query("WITH a AS (SELECT w FROM M) SELECT * FROM a", M=stream)
    assert caught.value.column == 19
