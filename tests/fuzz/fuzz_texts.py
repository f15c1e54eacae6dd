"""Makes query texts of the language's words: each is a plan whose text means the same, or is refused in words.

    python -m tests.fuzz.fuzz_texts 5 4000     for 5 seeds, 4000 texts each
    python -m tests.fuzz.fuzz_texts 5 4000 7   for seeds 7 to 11

A third are queries made clause by clause, a third queries that make sense with words changed, doubled, swapped or left
out; the others follow the grammar alone, or are words in a row. Prints a text that ends otherwise than with a
LanguageError or PlanError, and how it ended.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter

import pyarrow as pa

import oop_engine as oop
from oop_engine.language import parse, unparse
from oop_engine.language.scan import scan
from tests.fuzz.grammar_texts import text_of_clauses, text_of_grammar

SCHEMA = oop.Schema.of(
    ts="timestamp[s]", end_ts="timestamp[s]", v="int64", f="float64", k="string", flags="uint16", ok="bool"
)
WINDOWS = (
    "[RANGE 10 s, SLIDE 5 s, WA ts]",
    "[RANGE TUMBLING 1 minute, WA ts, EARLY 10 s RETRACT]",
    "[RANGE 1 minute, WA ts, EARLY WHEN 1 ROW THEN (5 ROWS OR EVENT 'e') UNTIL CLOCK 5 s DISCARD]",
    "[SESSION 3 s, WA ts]",
    "[RANGE 100 rows, SLIDE 10 rows, WA row-num, PA k]",
    "[RANGE ALL, SLIDE 1 min, WA ts]",
    "[RANGE 9 s, RATTR ts, SLIDE 3 rows, SATTR rank(ts)]",
    "[RANGE 9 s, WA ts, ORIGIN '1970-01-01', NO PARTIAL]",
)
SEEDS = (
    "SELECT time_bucket(INTERVAL '1 minute', ts) AS m, k, rate(v) FROM M GROUP BY m, k HAVING rate(v) > 1 ORDER BY m",
    "SELECT date_trunc('week', ts) AS w, rate(*) FROM M WHERE ts > TIMESTAMP '2013-05-02 20:20:45' GROUP BY w",
    "SELECT a.ts, b.v FROM M AS a LEFT JOIN N AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts",
    "SELECT a.ts FROM M AS a SEMI JOIN N AS b ON a.k = b.k AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 2 SECOND",
    "SELECT count(*) [RANGE 1 s, WA least(a.ts, b.ts)] FROM M AS a [RANGE 2 s, WA ts] JOIN N AS b [RANGE 2 s, WA ts] "
    "ON a.k = b.k AND a.v < b.v JOIN M AS c [RANGE 2 s, WA ts] ON c.k = b.k",
    "SELECT CASE WHEN v > 1 THEN 'a' WHEN k LIKE 'x%' THEN k ELSE upper(k) || 'z' END AS c, v & 3 | 4 << 1 FROM M",
    "SELECT k, sum(v) AS s, p95(f), count(DISTINCT k) FROM TUMBLE(TABLE M, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP "
    "BY window_start, window_end, k ORDER BY s DESC, k LIMIT 3",
    "WITH x AS (SELECT * FROM M UNION ALL N), y AS (SELECT ts, k FROM x) SELECT DISTINCT k FROM y",
    "SELECT * FROM M WHERE flags HAS 'SYN+ACK' AND NOT k ILIKE '_b%' OR k IS NOT NULL AND v IN (1, 2) AND ok",
    "SELECT coalesce(k, 'none'), nullif(v, 0), regexp_matches(k, '^a.*'), cast(v, 'string') FROM M WHERE v // 2 = 1",
    "SELECT t.name, u.k AS x, count(*) FROM M [RANGE TUMBLING 10 s, WA ts] INNER LOOKUP t ON v = t.v LOOKUP u AS u ON "
    "M.k = u.k AND v = u.v VALID FROM u.since AT end_ts WHERE t.name LIKE 'o%' GROUP BY t.name, u.k ORDER BY t.name "
    "LIMIT 2",
    "SELECT a.v, n.k FROM M AS a LOOKUP N AS n ON a.k = n.k VALID FROM n.ts AT end_ts WAIT ORDER BY n.k LIMIT 2 "
    "WITHIN v",
    "SELECT v, n.f, sign FROM M INNER LOOKUP N AS n ON M.k = n.k REVISE 10 s WHERE sign = 1",
    "SELECT i.name, k FROM M LOOKUP interfaces AS i ON v = i.index AND k = i.exporter VALID FROM i.since WAIT",
    "SELECT *, t.*, t.v FROM (SELECT ts, v FROM M) AS q LOOKUP t ON q.v = t.v WHERE row_num > 1",
    *(f"SELECT k, count(*), max(ts) - min(ts) AS d {window} FROM M GROUP BY k" for window in WINDOWS),
)
_SPACED = """
    SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT UNION ALL AS ON JOIN LEFT RIGHT FULL OUTER SEMI ANTI
    AND OR NOT IN IS NULL BETWEEN LIKE ILIKE HAS CASE WHEN THEN ELSE END TRUE FALSE WITH TUMBLE HOP CUMULATE
    SESSION TABLE DESCRIPTOR INTERVAL TIMESTAMP NETWORK RANGE TUMBLING SLIDE WA RATTR SATTR PA ORIGIN NO
    PARTIAL CLOSED EARLY DISCARD RETRACT ASC DESC M N a b c k v f ts end_ts flags ok wid window_start row-num
    arrival-ts rank count sum max avg rate time_bucket date_trunc date_bin least greatest coalesce substr
    network length cast p99 top_k concat 0 1 2 60 -1 1.5 1e9 18446744073709551615 10 s minute rows 'x' `k`
    LOOKUP VALID AT INNER WAIT REVISE WITHIN t u t.v t.name u.since interfaces i.name
    ( ) [ ] , . ; * + - / // % = <> < <= > >= || & | << >> '10.0.0.0/8' '2013-05-02' 'minute' a.ts b.ts
"""
TABLES = {
    "t": {"v": [5, 6], "name": ["one", "two"]},
    "u": {"k": ["a", "b", "a"], "v": [5, 6, 5], "since": pa.array([0, 1, 60], pa.timestamp("s")), "ts": [1, 2, 3]},
}
WORDS = (
    *_SPACED.split(),
    *("'1 s'", '"k"', "INTERVAL '1' SECOND", "TIMESTAMP '2013-05-02 20:20:45'", "LEFT JOIN", "GROUP BY", "ORDER BY"),
    *WINDOWS,
)


def text_of(random_: random.Random) -> str:
    """Return a text: a query, one with some words changed, what the grammar derives, or words in a row."""
    kind = random_.random()
    if kind < 0.15:
        return " ".join(random_.choices(WORDS, k=random_.randint(1, 25)))
    if kind < 0.25:
        return text_of_grammar(random_)
    if kind < 0.55:
        return text_of_clauses(random_)
    text = random_.choice(SEEDS) if kind < 0.9 else text_of_clauses(random_)
    return _changed([lexeme.text for lexeme in scan(text)], random_)


def _changed(words: list[str], random_: random.Random) -> str:
    """Return words with some of them changed, doubled, swapped or left out."""
    for _ in range(random_.randint(0, 4)):
        place = random_.randrange(len(words))
        match random_.randrange(5):
            case 0:
                words[place] = random_.choice(WORDS)
            case 1:
                words.insert(place, random_.choice(WORDS))
            case 2 if len(words) > 1:
                del words[place]
            case 3:
                other = random_.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            case _:
                begin = random_.randrange(len(words))
                words[place:place] = words[begin : begin + random_.randint(1, 6)]
    return " ".join(words)


def streams_of() -> dict[str, oop.Stream]:
    """Return the streams that the texts are about."""
    rows = [(1, 2, 5, 1.5, "a", 2, True), (70, 75, 6, None, None, 18, False), (130, 131, None, 0.5, "b", None, None)]
    return {name: oop.rows(rows, SCHEMA, punctuate=oop.slack("10 s", on="ts")) for name in ("M", "N")}


def tried(text: str, streams: dict[str, oop.Stream], *, run: bool) -> str:
    """Return how a text ended; anything but a result or an error of the query is raised."""
    try:
        tree = parse(text)
        assert parse(unparse(tree)) == tree, f"another tree: {unparse(tree)}"
        stream = oop.query(text, streams, tables=TABLES)
        stream.explain()
        if run:
            stream.to_arrow()
    except (oop.LanguageError, oop.PlanError) as error:
        return type(error).__name__
    except OverflowError as error:
        if "does not fit" in str(error):
            return "does not fit"
        raise
    return "result"


def main(seeds: int, texts: int, first: int = 0) -> None:
    """Try so many texts for each seed; ends with an error if one of them did."""
    streams = streams_of()
    counts: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        random_ = random.Random(seed)
        for number in range(texts):
            text = text_of(random_)
            try:
                counts[tried(text, streams, run=number % 50 == 0)] += 1
            except Exception:  # every other end is a finding
                counts["FINDING"] += 1
                print(f"--- seed {seed}, text {number}: {text}\n{traceback.format_exc(limit=-3)}", flush=True)
        print(f"seed {seed}: {dict(counts)}", flush=True)
    raise SystemExit(bool(counts["FINDING"]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
