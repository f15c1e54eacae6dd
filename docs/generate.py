"""Write the reference pages from the grammar, the registries and the docstrings, so that none of them goes stale.

    python docs/generate.py           write docs/reference/*.md anew
    python docs/generate.py --check   exit with 1 and name the pages that differ

A page holds no fact of its own. Types and nulls of aggregate functions are found by trying them, examples of the query
language are run over a capture in `demos`, options come from the commands, and everything else from docstrings. What
the grammar, a schema or `oop_engine.__all__` has and this file does not explain is an error.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pyarrow as pa

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.language.expressions import SCALARS
from oop_engine.plan.strategies import STRATEGIES
from oop_engine.sources.capture.schema import FURTHER_SCHEMA, PACKET_SCHEMA
from oop_engine.sources.flows.interface_counters import COUNTER_SCHEMA
from oop_engine.sources.flows.nfdump import NFDUMP_SCHEMA
from oop_engine.sources.flows.schema import FLOW_SCHEMA
from oop_engine.sources.flows.zeek import ZEEK_ALIASES
from operators.data.schema import Schema, aliases_of, ip_field, type_name
from operators.expression.scalar_functions import FUNCTIONS, OPERATORS
from operators.functions import by_name, forms

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
CAPTURE = ROOT / "demos" / "captures" / "web.pcap.gz"
TABLES = {"ports": {"port": [53, 80, 443], "name": ["dns", "http", "https"]}}
ROWS = 3
"""Rows of an example's result that are shown."""

# ---------------------------------------------------------------- the query language

Clause = tuple[str, str, str]
"""Title, what it says in plain words, and an example (empty where another clause's example shows it)."""

TENS = "[RANGE TUMBLING 10 s, WA ts]"
CLAUSES: Mapping[str, Clause] = {
    "query": (
        "SELECT ... FROM ...",
        "A query reads one or more streams and yields a stream. WHERE, GROUP BY and HAVING are optional, in this "
        "order; a semicolon may end the text. Keywords may be written in any case. `--` begins a comment.",
        "SELECT ts, srcIP, length FROM Main WHERE length > 1400",
    ),
    "select_list": ("Items of the result", "Attributes, computed values and aggregates, separated by commas.", ""),
    "star": ("*", "All attributes of the input.", "SELECT * FROM Main WHERE proto = 1"),
    "star_of": ("M.*", "All attributes of one input.", "SELECT M.* FROM Main AS M WHERE M.proto = 1"),
    "item": (
        "expr AS name",
        "A computed value with a name. Without AS, an aggregate is named after its function and argument.",
        "SELECT ts, length * 8 AS bits FROM Main",
    ),
    "source": (
        "FROM A, B",
        "One stream, or two that are joined. Each input of a join has a window of its own, or all share one. "
        "WHERE holds the equalities.",
        "SELECT A.srcIP, count(*) AS answers [RANGE TUMBLING 10 s, WA A.ts] FROM Main AS A [RANGE 1 s, WA ts], "
        "Main AS B [RANGE 1 s, WA ts] WHERE A.srcIP = B.destIP AND A.srcPort = B.destPort AND A.flags = 2 AND "
        "B.flags = 18 GROUP BY A.srcIP",
    ),
    "joins": (
        "FROM A JOIN B ON condition",
        "A join with its conditions after ON. ON may say how far apart two times are, which makes the windows of two "
        "inputs that have none. LEFT, RIGHT and FULL JOIN add each tuple without a partner, beside nulls; SEMI JOIN "
        "and ANTI JOIN give the tuples of A with, and without, a partner, and nothing of B. MANY TO ONE JOIN states "
        "that a tuple of A has at most one partner, so that it is not kept once it met that; ONE TO MANY and ONE TO "
        "ONE alike, and LEFT MANY TO ONE JOIN. What breaks the statement is counted. These join two inputs; "
        "WHERE is about their results. A window over the result may be over the lesser or greater time: "
        "WA least(A.ts, B.ts).",
        "SELECT S.ts, S.srcIP FROM (SELECT * FROM Main WHERE flags = 2) AS S ANTI JOIN (SELECT * FROM Main WHERE "
        "flags = 18) AS R ON S.srcIP = R.destIP AND S.srcPort = R.destPort AND R.ts BETWEEN S.ts AND S.ts + "
        "INTERVAL '1' SECOND",
    ),
    "flush": (
        "FLUSH slow(every 160, delay 2)",
        "How tuples without a partner leave a LEFT, RIGHT, FULL or ANTI JOIN, once it is certain that they have none: "
        "`complete`, all at once; `slow`, one for every so many tuples that come; `lazy`, as late as may be. The last "
        "two are at most `delay` windows late. In Python: `join(..., flush=\"slow\", every=160, delay=2)`.",
        "SELECT S.ts, S.srcIP FROM (SELECT * FROM Main WHERE flags = 2) AS S ANTI JOIN (SELECT * FROM Main WHERE "
        "flags = 18) AS R ON S.srcIP = R.destIP AND S.srcPort = R.destPort AND R.ts BETWEEN S.ts AND S.ts + "
        "INTERVAL '1' SECOND FLUSH slow(every 10)",
    ),
    "union": (
        "A UNION B, A UNION ALL B",
        "Unite streams of one schema without waiting for order (thesis: Union-Meld). The result promises what all "
        "inputs promise.",
        f"SELECT count(*) {TENS} FROM Main UNION Main",
    ),
    "table": ("FROM name", "A stream by its name: `--stream NAME=PATH`, or `oop.query(text, {name: ...})`.", ""),
    "file": (
        "FROM 'capture.pcap'",
        "A file, or several by a pattern such as 'captures/*.pcap', read as `oop.read` does: captures, flow exports, "
        "Zeek logs and tables, told by suffix and content. A format may stand before it: 'netflow:exports.pcap'. Its "
        "name up to the first dot stands before attributes, as in capture.srcIP, unless AS gives another.",
        f"SELECT srcIP, count(*) {TENS} FROM 'demos/captures/web.pcap.gz' GROUP BY srcIP",
    ),
    "subquery": (
        "FROM (SELECT ...) AS name",
        "A query over the result of a query. A window aggregate in brackets promises its `wid` and window bounds, so "
        "that windows can be put over windows.",
        "SELECT max(packets) AS busiest [RANGE TUMBLING 1 minute, WA window_end] FROM (SELECT srcIP, count(*) AS "
        f"packets {TENS} FROM Main GROUP BY srcIP) AS per_source",
    ),
    "grouped": ("FROM (A)", "Brackets around an input change nothing; they make a UNION of joins readable.", ""),
    "where": ("WHERE condition", "Keep the tuples for which the condition is true; null counts as not true.",
              f"SELECT count(*) {TENS} FROM Main WHERE destPort = 80 AND length > 100"),
    "group_by": (
        "GROUP BY a, expr AS b",
        "One result a group and window. A computed group needs a name. `time_bucket(INTERVAL '10 seconds', ts)`, "
        "`date_bin` alike and `date_trunc('minute', ts)` make no group but a tumbling window, and stand for its "
        "window_start; a third argument of the first two says where windows begin. Weeks of date_trunc "
        "begin on Monday; it has months, quarters and years, too, and a time zone as a third argument.",
        f"SELECT kind, count(*) {TENS} FROM Main GROUP BY srcPort // 1024 AS kind",
    ),
    "timestamp": (
        "TIMESTAMP '2013-05-02 20:20:40'",
        "A point in time, in UTC unless it says a zone. Text beside a time is read as one, too.",
        "SELECT time_bucket(INTERVAL '5 seconds', ts) AS start, rate(length) FROM Main "
        "WHERE ts >= TIMESTAMP '2013-05-02 20:20:40' GROUP BY start",
    ),
    "amount": (
        "ts - INTERVAL '2' SECOND",
        "A duration beside a time; it may be negative. `ts - '2 s'` means the same. A bare number says no unit, and is "
        "refused beside a time.",
        f"SELECT count(*) {TENS} FROM Main WHERE ts - INTERVAL '1' MINUTE < TIMESTAMP '2013-05-02 20:19:40'",
    ),
    "having": (
        "HAVING condition",
        "Keep the results for which the condition is true. It may use aggregates that are not selected.",
        f"SELECT srcIP, count(*) {TENS} FROM Main GROUP BY srcIP HAVING sum(length) > 1000000",
    ),
    "ctes": (
        "WITH name AS (SELECT ...) SELECT ... FROM name",
        "Name queries before the one that reads them. Each may read those before it. A trigger has a name, too: "
        "`WITH often AS TRIGGER (1 ROW THEN 1000 ROWS) SELECT ... EARLY WHEN often OR CLOCK 5 s`.",
        f"WITH web AS (SELECT * FROM Main WHERE srcPort = 'http') SELECT count(*) {TENS} FROM web",
    ),
    "windowed": (
        "FROM TUMBLE(TABLE name, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
        "The windows of SQL and Flink: `TUMBLE`; `HOP` with its slide before its size; `CUMULATE` with its step before "
        "its size, which is EARLY; `SESSION` with its gap. GROUP BY may name window_start and window_end.",
        "SELECT srcIP, count(*) FROM TUMBLE(TABLE Main, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
        "GROUP BY window_start, window_end, srcIP",
    ),
    "held": (
        "INTERVAL 95 %",
        "Behind EARLY WHEN: early results have estimates of their final values, `count_expected`, and intervals from "
        "`count_low` to `count_high` that hold them in 95 of 100 windows. `arrived` is the share of the tuples that "
        "have come.",
        "SELECT count(*) [RANGE TUMBLING 10 s, WA ts, EARLY WHEN 1000 ROWS INTERVAL 95 %] FROM Main",
    ),
    "interval": ("INTERVAL '10' SECOND", "A duration: a number and a unit, also as one text, '10 seconds'.", ""),
    "alert": (
        "ALERT name WHEN condition FOR n WINDOWS CLEAR BELOW x",
        "Follow the results of the windows, group by group: the alert opens when the condition is true of n windows in "
        "a row, 1 without FOR, and closes when it is not. With CLEAR it closes below `x`, above it (`CLEAR ABOVE x`), "
        "or on a condition of its own (`CLEAR WHEN ...`). Conditions are over columns of the result, as they are named "
        "or written. In Python: `stream.alert(...)`. See [alerts](../alerts.md).",
        "SELECT srcIP, sum(length) [RANGE 1 s, WA ts] FROM Main GROUP BY srcIP "
        "ALERT heavy WHEN sum(length) > 200 KB FOR 2 WINDOWS CLEAR BELOW 5 KB",
    ),
    "bill": (
        "BILL rate, sum(bytes) AS bytes PER month IN \"Europe/Berlin\" AT 0.95",
        "Rank the results of the windows, the slots, over a period: day, week, month, quarter, year of a time zone, or "
        "a length such as 30 days. Results are the groups, the percentile of the nearest rank and the maximum, over "
        "all slots of the period: those without a result are zeros. Behind the rate stand further aggregates over "
        "columns of the results. AT is the share, 0.95 if left out. In Python: "
        "`stream.billing(...)`. See [rates](../rates.md).",
        "SELECT srcIP, rate(length * 8) AS bps [RANGE 1 s, WA ts] FROM Main GROUP BY srcIP BILL bps PER 1 minute",
    ),
    "deduped": (
        "FROM name DEDUP BY exporter MARK twice",
        "Leave out flow records of flows that another observer tells of, within each value of the attributes behind "
        "BY; several stand in brackets. With MARK, a new attribute is true for them. In Python: `stream.dedup(...)`. "
        "See [rates](../rates.md).",
        "",
    ),
    "clear_below": ("CLEAR BELOW x", "Close the alert when what WHEN compares is less than `x`.", ""),
    "clear_above": ("CLEAR ABOVE x", "Close the alert when what WHEN compares is more than `x`.", ""),
    "clear_when": ("CLEAR WHEN condition", "Close the alert when a condition of its own is true.", ""),
    "size": (
        "500 MB",
        "A number of bytes: KB, MB, GB and TB are powers of 1000, and KiB, MiB, GiB and TiB of 1024.",
        "SELECT length FROM Main WHERE length > 1.3 KB",
    ),
    "order_by": (
        "ORDER BY a DESC, b",
        "Put the results of each window into an order: by columns of the result, as they are named or written, or by "
        "their numbers. ASC, the smallest first, is the default. Nulls come last, and all other columns decide between "
        "equals. Without a window, all results come at the end of the stream. In Python: `stream.ranked(...)`.",
        "",
    ),
    "limit": (
        "LIMIT n, LIMIT n WITHIN a, b",
        "Keep the first n results of each window; WITHIN columns of the result, of each of their values in it. In "
        "Python: `stream.top(10, by=\"bytes\", within=...)`.",
        f"SELECT srcIP, sum(length) AS bytes {TENS} FROM Main GROUP BY srcIP ORDER BY bytes DESC LIMIT 1",
    ),
    "lookups": ("FROM A LOOKUP ...", "Several LOOKUPs stand one after the other, behind FROM and before WHERE.", ""),
    "lookup": (
        "LOOKUP table AS name ON a = name.column",
        "Add the columns of a table to each tuple; `name.column` means one of them. Tables are given as "
        "`--table NAME=FILE`, or by the path of a file in quotes. In a column of networks, the longest one that holds "
        "the address counts. Tuples that find no row have null; INNER LOOKUP drops and counts them. `VALID FROM "
        "name.since AT ts` takes the row that was valid at the tuple's time. A stream is a table that changes: see "
        "WAIT. More in [lookups](../lookup.md).",
        f"SELECT ports.name, count(*) {TENS} FROM Main LOOKUP ports ON srcPort = ports.port GROUP BY ports.name",
    ),
    "wait_for_rows": (
        "LOOKUP stream AS name ON a = name.column WAIT",
        "Look up in a stream of rows, each of which is valid from its ts, or its VALID FROM, to that of the next "
        "row of its key. With WAIT a tuple leaves when that stream has promised its time, without it at once, "
        "with `sign` 1; a row that changes it later takes it back, with `sign` -1, and gives it anew.",
        "SELECT ts, m.length AS before FROM Main LOOKUP Main AS m ON srcIP = m.destIP WAIT WHERE flags = 2",
    ),
    "revise": (
        "LOOKUP stream AS name ON a = name.column REVISE 10 minutes",
        "Keep tuples for late rows until the stream that is looked up is so far ahead; later rows are counted as late.",
        "SELECT ts, m.length AS before, sign FROM Main LOOKUP Main AS m ON srcIP = m.destIP REVISE 9 s WHERE flags = 2",
    ),
    "window": (
        "[ ... ]",
        "A window stands in brackets after the SELECT list, or after an input in FROM. Its parameters are separated "
        "by commas.",
        "",
    ),
    "windows": (
        "[ ... ] AS a, [ ... ] AS b",
        "Several windows beside one another. Results bear the name of theirs in the column `window`. EARLY, LATENESS, "
        "CONSISTENT and STRATEGY hold for all of them, and are written in one. In Python: "
        "`stream.windows(a=..., b=...)`.",
        "SELECT count(*) [RANGE 5 s, WA ts] AS short, [SESSION 1 s, WA ts] AS burst FROM Main",
    ),
    "range": (
        "RANGE 10 s",
        "How long a window is: time, a number of rows, or units of the windowing attribute. Without SLIDE, windows are "
        "tumbling: each begins where the last one ends. `RANGE TUMBLING` says so in words.",
        "SELECT count(*) [RANGE 10 s, SLIDE 5 s, WA ts] FROM Main",
    ),
    "range_all": (
        "RANGE ALL",
        "Landmark windows: all begin with the stream, and each is longer than the last by SLIDE.",
        "SELECT count(*) [RANGE ALL, SLIDE 10 s, WA ts] FROM Main",
    ),
    "session": (
        "SESSION 10 s",
        "Session windows: a gap of at least this much between neighbouring tuples separates two sessions.",
        "SELECT srcIP, count(*) [SESSION 10 s, WA ts] FROM Main WHERE srcPort = 80 GROUP BY srcIP",
    ),
    "slide": (
        "SLIDE 5 s",
        "How far apart windows begin. A SLIDE longer than RANGE leaves gaps, and tuples in them count nowhere.",
        "SELECT count(*) [RANGE 10 s, SLIDE 5 s, WA ts] FROM Main",
    ),
    "wattr": (
        "WA ts",
        "The windowing attribute: a time or a whole number. `WA row-num` counts tuples in the order of arrival, "
        "`WA rank(ts)` in the order of an attribute.",
        "SELECT count(*), min(ts) AS first [RANGE 2000 rows, SLIDE 2000 rows, WA row-num] FROM Main",
    ),
    "rattr": (
        "RATTR ts",
        "The attribute RANGE is measured on, where SLIDE is measured on another (SATTR).",
        "SELECT count(*) [RANGE 10 s, RATTR ts, SLIDE 1000 rows, SATTR row-num] FROM Main",
    ),
    "sattr": (
        "SATTR row-num",
        "The attribute SLIDE is measured on: `row-num`, the order of arrival, or `rank(ts)`, the order of ts. With "
        "SLIDE 1 every tuple ends a window.",
        "SELECT count(*) [RANGE 10 s, RATTR ts, SLIDE 1000 rows, SATTR rank(ts)] FROM Main",
    ),
    "partition": (
        "PA srcIP",
        "Count rows for each value of these attributes on their own (partition attributes).",
        "SELECT srcIP, count(*), max(ts) AS until [RANGE 500 rows, SLIDE 500 rows, WA row-num, PA srcIP] FROM Main "
        "GROUP BY srcIP",
    ),
    "origin": ("ORIGIN 2 s", "Where windows begin: so much after zero (1970 for times). Default 0.",
               "SELECT count(*) [RANGE TUMBLING 10 s, WA ts, ORIGIN 2 s] FROM Main"),
    "origin_string": ('ORIGIN "2013-05-02"', "Where windows begin, as a time.",
                      'SELECT count(*) [RANGE TUMBLING 10 s, WA ts, ORIGIN "2013-05-02T20:20:35Z"] FROM Main'),
    "no_partial": (
        "NO PARTIAL",
        "Leave out windows that begin before the origin.",
        "SELECT count(*) [RANGE 10 s, SLIDE 5 s, WA ts, NO PARTIAL] FROM Main",
    ),
    "closed": (
        "CLOSED",
        "On an input of a join: a tuple exactly RANGE away still matches.",
        "SELECT A.ts, B.ts AS answered FROM Main AS A [RANGE 1 s, WA ts, CLOSED], Main AS B [RANGE 1 s, WA ts, "
        "CLOSED] WHERE A.srcIP = B.destIP AND A.srcPort = B.destPort AND A.flags = 2 AND B.flags = 18",
    ),
    "early": (
        "EARLY 5 s ACCUMULATE | DISCARD | RETRACT",
        "Results before a window is complete, one each time so much more of it has passed. ACCUMULATE (the default) "
        "repeats the whole so far, DISCARD says what is new, RETRACT takes the previous result back first.",
        "SELECT count(*) [RANGE TUMBLING 20 s, WA ts, EARLY 10 s DISCARD] FROM Main",
    ),
    "early_at": (
        "EARLY AT 50 % AND 5 s",
        "Results at these shares of a window, or so long after it began. How often may stand before: EARLY 5 s AT 1 s.",
        "SELECT count(*) [RANGE TUMBLING 20 s, WA ts, EARLY AT 90 %] FROM Main",
    ),
    "early_when": (
        "EARLY WHEN 1000 ROWS OR EVENT 'flush'",
        "Results as tuples, signals and promises come: after so many rows of a window and group, at an event that "
        "`running.fire` or a tuple of a stream fires (EVENT 'flush' FROM Control), CLOCK 5 s by a clock, LULL 2 s when "
        "a session has had nothing for so long, EVERY 5 s and AT 90 % in event time, PROMISE srcPort = 80 at a "
        "promise on such tuples. AND, OR, THEN and UNTIL combine them; DISCARD and RETRACT stand behind.",
        "SELECT count(*) [RANGE TUMBLING 20 s, WA ts, EARLY WHEN 1 ROW THEN 1000 ROWS DISCARD] FROM Main",
    ),
    "lateness": (
        "LATENESS 30 s ACCUMULATE | DISCARD | RETRACT",
        "A tuple that is late by at most this changes a window that has been given. The window is given again, with "
        "`revision` 1, 2, ...; the last one holds. DISCARD gives what came late by itself, so that all results of a "
        "window add up; RETRACT takes the previous result back first. The word holds for EARLY, too, and stands behind "
        "either.",
        "SELECT count(*) [RANGE TUMBLING 10 s, WA ts, LATENESS 30 s RETRACT] FROM Main",
    ),
    "consistent": (
        "CONSISTENT",
        "A tuple that is late for some of its windows counts in none of them. By default it counts in those that are "
        "still open.",
        "SELECT count(*) [RANGE 10 s, SLIDE 5 s, WA ts, CONSISTENT] FROM Main",
    ),
    "empty": (
        "EMPTY",
        "Give windows without a tuple, too, between the first and the last that have one; without GROUP BY only.",
        "SELECT count(*) [RANGE TUMBLING 1 s, WA ts, EMPTY] FROM Main",
    ),
    "strategy": (
        "STRATEGY panes",
        "How to compute. It changes time and memory, and never the answer: one of "
        + ", ".join(STRATEGIES)
        + ". Options stand in brackets, as `two_level(size 1024, flush slow)`; see `oop.strategy`.",
        "SELECT count(*) [RANGE 10 s, SLIDE 5 s, WA ts, STRATEGY panes] FROM Main",
    ),
    "band": (
        "BAND 3 s FROM '2013-05-02T20:20:38Z'",
        "A single window of this length, from a time, or from so much after the zero of the attribute.",
        "SELECT count(*) [BAND 3 s FROM '2013-05-02T20:20:38Z', WA ts] FROM Main",
    ),
    "marked": (
        "MARKED BY attribute",
        "Windows from each marked tuple to the next. A tuple is marked if the attribute is neither null, false nor 0.",
        "SELECT count(*) [MARKED BY syn, WA ts] FROM (SELECT ts, flags = 2 AS syn FROM Main)",
    ),
    "when_true": (
        "WHEN condition [UNTIL condition | UNTIL NEXT] [WITHIN 10 minutes]",
        "Windows that conditions begin and end: each run of tuples for which the condition is true. With UNTIL, from "
        "the first tuple for which it is true to the first later one for which the other is; the window has both. With "
        "UNTIL NEXT, to the next one for which it is true, which begins the next window. WITHIN says how long a window "
        "lasts at most. Tuples of one time count together. PA gives each group windows of its own. In Python: "
        "`oop.when(...)`.",
        "SELECT count(*) [WHEN flags HAS 'SYN' UNTIL flags HAS 'FIN' WITHIN 10 s, WA ts, PA (srcIP, srcPort)] "
        "FROM Main WHERE destPort = 80",
    ),
    "calendar": (
        "CALENDAR month IN 'Europe/Berlin'",
        "Days, weeks, months, quarters or years of a time zone (UTC if none is named), as long as each of them is. In "
        "GROUP BY: `date_trunc('day', ts, 'Europe/Berlin')`. In Python: `oop.calendar(...)`.",
        "SELECT count(*) [CALENDAR day IN 'Europe/Berlin', WA ts] FROM Main",
    ),
    "no_idle": (
        "NO IDLE",
        "Of windows of the last rows, leave out those that hold the same tuples as the one before.",
        "SELECT count(*), max(length) [RANGE 100 rows, SLIDE 1 s, WA ts, NO IDLE] FROM Main",
    ),
    "spread": (
        "FROM Flows SPREAD bytes, packets OVER ts, end_ts BY 10 s",
        "Spread amounts, such as the bytes of a flow, over the panes between its start and its end; so windows count "
        "bytes when they were sent, not when their record came in. Whole amounts add up exactly. Without OVER the "
        "times are ts and end_ts. In Python: `stream.spread(...)`.",
        "SELECT sum(bytes) [RANGE TUMBLING 10 s, WA ts] FROM (SELECT ts, ts + '20 s' AS until, length AS bytes FROM "
        "Main) SPREAD bytes OVER ts, until BY 10 s",
    ),
    "numbered": (
        "FROM A NUMBER AS n",
        "Number the tuples from 0, in the order in which they arrive at this place. `row-num` numbers them where the "
        "query begins, before WHERE.",
        "SELECT n, ts, length FROM (SELECT * FROM Main WHERE flags = 2) NUMBER AS n",
    ),
    "duration": (
        "Durations",
        "A number and a unit: ns, us, ms, s, min, hour, day, week or rows. A bare number is in units of the "
        "attribute, for attributes that are no times.",
        "",
    ),
    "binary": ("a + b, a = b, a AND b", "Arithmetic, comparison and logic, as below.", ""),
    "unary": ("-a, NOT a", "", ""),
    "positive": ("+a", "", ""),
    "between": ("a BETWEEN b AND c", "Both ends included.",
                f"SELECT count(*) {TENS} FROM Main WHERE length BETWEEN 40 AND 60"),
    "in_list": ("a IN (b, c)", "Equal to one of them.",
                f"SELECT count(*) {TENS} FROM Main WHERE destPort IN (80, 443)"),
    "like": (
        "a LIKE 'x%', a ILIKE 'x%', flags HAS 'SYN'",
        "In a pattern % stands for any text, _ for one character; a backslash takes their meaning away. ILIKE ignores "
        "case. HAS asks for flags of TCP, 'SYN+ACK' for both. NOT stands before each.",
        f"SELECT count(*) {TENS} FROM Main WHERE flags HAS 'SYN' AND NOT flags HAS 'ACK'",
    ),
    "case": (
        "CASE WHEN a THEN b ELSE c END",
        "The value of the first condition that is true, else that after ELSE, or null. Values beside others are not "
        "computed. CASE a WHEN 1 THEN b END compares a.",
        f"SELECT kind, count(*) {TENS} FROM Main "
        "GROUP BY CASE WHEN proto = 'tcp' THEN 'tcp' WHEN destPort = 'dns' THEN 'dns' ELSE 'other' END AS kind",
    ),
    "when": ("WHEN a THEN b", "One branch of CASE.", ""),
    "in_network": (
        'ip IN "10.0.0.0/8"',
        "An address in a network. A list may hold networks and addresses: ip IN ('10.0.0.0/8', '192.0.2.1').",
        f'SELECT count(*) {TENS} FROM Main WHERE srcIP IN "10.0.0.0/8"',
    ),
    "is_null": ("a IS NULL, a IS NOT NULL", "", f"SELECT count(*) {TENS} FROM Main WHERE vlan IS NULL"),
    "constant": (
        "Constants",
        'Whole numbers, decimals, floats (1e6), texts in "double" or \'single\' quotes, TRUE, FALSE and NULL. A text '
        "beside a time or an address is read as one.",
        f'SELECT count(*) {TENS} FROM Main WHERE ts >= "2013-05-02T20:20:40Z"',
    ),
    "call": ("f(a), f(DISTINCT a)",
             "A function; see the page of functions. `p95(x)` is quantile(x, 0.95), and p1 to p99 alike. `rate(x)` is "
             "sum(x) a second of the window's RANGE, also where fewer seconds hold tuples; `rate(*)` is tuples a "
             "second, and `rate(max(x) - min(x))` divides what stands there.",
             f"SELECT count(DISTINCT srcIP) AS sources {TENS} FROM Main"),
    "call_star": ("count(*)", "Count tuples.", ""),
    "name": ("Names", "Attributes, in any case where that is not ambiguous; `A.ts` says of which input. Names with "
             "other characters stand in back-quotes: `` `id.orig_h` ``.", ""),
}  # fmt: skip
STRUCTURE = frozenset(
    {"start", "alone", "select_item", "sources", "trailing", "from_item", "member", "group_item", "parameter", "named",
     "window_item", "step", "moment", "share", "option", "clear", "deduped_by", "rows", "billed", "until", "until_next",
     "expr", "or_expr", "and_expr", "not_expr", "order_item", "predicate", "bits", "sum", "product", "sign", "atom",
     "ident", "trigger", "fires", "fires_all", "firing", "fires_rows", "fires_event", "fires_clock", "fires_every",
     "fires_at", "fires_lull", "fires_promise", "fires_named", "named_trigger", "events",
     "fires_any",
     "fires_both", "fires_then", "fires_until"}
)  # fmt: skip
"""Rules that only hold others together."""


def rules() -> set[str]:
    """Return the names of the grammar's rules and of the aliases of their alternatives.

    A rule whose name begins with _ has no place in a tree: it only holds others together.
    """
    text = (ROOT / "oop_engine" / "language" / "grammar.lark").read_text(encoding="utf-8")
    named = set(re.findall(r"^\??([a-z][a-z_]*):", text, re.M))
    return named | set(re.findall(r"->\s*([a-z_]+)", text))


def language() -> Iterator[str]:
    """Yield the page of the query language."""
    unexplained = rules() - set(CLAUSES) - STRUCTURE
    unknown = set(CLAUSES) | STRUCTURE
    if unexplained or unknown - rules():
        raise SystemExit(f"grammar and reference differ: {sorted(unexplained)} {sorted(unknown - rules())}")
    yield "# The query language\n"
    yield (
        'A query is text: `oop-engine query TEXT --stream Main=FILE`, or `oop.query(TEXT, {"Main": stream})` in '
        "Python. Examples below run over `demos/captures/web.pcap.gz`; at most three rows of each result are shown.\n"
    )
    for title, says, example in CLAUSES.values():
        yield f"## {title}\n"
        if says:
            yield f"{says}\n"
        if example:
            yield f"```sql\n{example}\n```\n"
            yield f"```text\n{answered(example)}\n```\n"
    yield "## Operators\n"
    yield "From loose to tight: `OR`, `AND`, `NOT`, comparison (`= != <> < <= > >=`, BETWEEN, IN, LIKE, HAS, IS NULL), "
    yield "`|| & | << >>`, `+ -`, `* / // %`, sign. `a // b` is the whole number below a / b, exactly; `/` gives a "
    yield "float. `&`, `|`, `<<` and `>>` are for the bits of integers, `a || b` is the text of a, then that of b.\n"
    yield "## Functions of one tuple's values\n"
    yield (
        ", ".join(f"`{name}`" for name in sorted(SCALARS - OPERATORS))
        + ". `round` gives the nearest whole number as a float, and "
    )
    yield "of two equally near ones the even one. `cast(x, 'float64')` takes the name of an Arrow type.\n"
    yield "| function | example |\n| --- | --- |\n" + "".join(
        f"| `{name}` | `{function.example}` |\n"
        for name, function in sorted(FUNCTIONS.items())
        if name not in OPERATORS
    )
    yield (
        "`substr` counts from 1. `coalesce` gives the first value that is not null, `nullif(a, b)` null where a = b; "
        "`least` and `greatest` leave nulls out. `network(ip, 24)` gives the first address of the network: the prefix "
        "of IPv4, and third that of IPv6, 64 unless said. Patterns of `regexp_matches` are RE2's and match anywhere. "
        'In Python the same text does it: `stream.derive(net="network(srcIP, 24)")`.\n'
    )
    yield "Other functions are computed in Python: `stream.derive(y=lambda p: ...)`.\n"


def answered(text: str) -> str:
    """Run an example and return the header and the first rows of its result, as its CSV file has them."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "result.csv"
        oop.query(text, {"Main": oop.pcap(str(CAPTURE))}, tables=TABLES).to(file).run()
        lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join([*lines[: 1 + ROWS], *(["..."] if len(lines) > 1 + ROWS else [])])


# ---------------------------------------------------------------- functions

KINDS: Mapping[str, pa.Field] = {
    "int64": pa.field("x", pa.int64()),
    "uint16": pa.field("x", pa.uint16()),
    "float64": pa.field("x", pa.float64()),
    "decimal(10,2)": pa.field("x", pa.decimal128(10, 2)),
    "bool": pa.field("x", pa.bool_()),
    "string": pa.field("x", pa.string()),
    "timestamp": pa.field("x", pa.timestamp("ns", "UTC")),
    "address": ip_field("x"),
}
"""The types of a first argument that the table of functions tells of."""
VALUES: Mapping[str, object] = {
    "int64": 1, "uint16": 1, "float64": 1.0, "decimal(10,2)": "1.00", "bool": True, "string": "a", "timestamp": 1,
    "address": b"\0" * 16,
}  # fmt: skip


def functions() -> Iterator[str]:
    """Yield the page of aggregate functions: calls, what they compute, types, nulls, properties."""
    yield "# Aggregate functions\n"
    yield (
        'Each is a function of query text, `SELECT sum(length)`, and of Python, `oop.sum("length")`. In the table of '
        "types a dash says that the function refuses this type. *Invertible*: partial results can be taken away again, "
        "so that windows share slices by subtraction. *Commutative*: the order of tuples does not matter; the others "
        "see tuples in order of the windowing attribute, or of arrival where that is said.\n"
    )
    for name, form in forms().items():
        made = getattr(oop, name)
        yield f"## {name}\n"
        yield f"`{form}`\n"
        yield f"{documented(made)}\n"
        yield f"In Python: `oop.{name}{inspect.signature(made)}`\n".replace("'", "").replace(
            " -> AggregateFunction", ""
        )
        yield from types(name, form)


def types(name: str, form: str) -> Iterator[str]:
    """Yield the types of the results, and the results of nulls."""
    arguments = call(form)
    found: dict[str, str] = {}
    for kind, field in KINDS.items():
        schema = schema_of(field)
        try:
            function = by_name(name, arguments)
            found[kind] = type_name(function.output_field(schema, "y"))
        except oop.SchemaError:
            found[kind] = "—"
    function = by_name(name, arguments)
    yield "| " + " | ".join(["x is", *found]) + " |"
    yield "|" + "---|" * (1 + len(found))
    yield "| " + " | ".join(["result", *found.values()]) + " |\n"
    facts = [
        "invertible for whole numbers" if function.invertible else "not invertible",
        "commutative" if function.commutative else "not commutative",
        *(["depends on the order of arrival"] if function.arrival_order else []),
    ]
    yield f"Properties: {', '.join(facts)}. {nulls(name, arguments, found)}\n"


def call(form: str) -> list[str | float]:
    """Return the arguments of a call as `by_name` takes them."""
    inside = re.search(r"\((.*?)\)", form)
    assert inside is not None
    words = [word.strip().removeprefix("distinct ") for word in inside.group(1).split(",")]
    if words == ["*"]:
        words = ["x"]
    return [float(w) if re.fullmatch(r"[\d.]+", w) and "." in w else int(w) if w.isdigit() else w for w in words]


def schema_of(field: pa.Field) -> Schema:
    """Return a schema with x, and what else a call may name."""
    others = [pa.field("y", pa.int64()), pa.field("w", pa.int64()), pa.field("ts", pa.timestamp("ns", "UTC"))]
    return Schema(pa.schema([field, *others]), progress=[frozenset({"ts"})])


def nulls(name: str, arguments: Sequence[str | float], found: Mapping[str, str]) -> str:
    """Describe the results of windows in which x is null, found by computing two."""
    kind = next(kind for kind, type_ in found.items() if type_ != "\N{EM DASH}")
    schema = schema_of(KINDS[kind]).arrow
    told: list[str] = []
    for what, values in (("where every x is null", [None, None]), ("where one of two is", [VALUES[kind], None])):
        columns = [pa.array(values if n == "x" else [1, 1], schema.field(n).type) for n in schema.names]
        table = pa.Table.from_arrays(columns, schema=schema)
        result = oop.arrow(table).window("1 s", wattr="ts").aggregate(y=by_name(name, arguments)).to_arrow()
        cell = result.column("y")[0].as_py()
        told.append(f"{what}, {'null' if cell is None else f'`{cell}`'}")
    what = "kept, and come last" if name == "collect" else "skipped"
    return f"Nulls are {what}: {'; '.join(told)} (x of type {kind}, the other 1)."


# ---------------------------------------------------------------- attributes

PACKETS: Mapping[str, str] = {
    "ts": "When the packet was captured; null where the file has no time, or one that 64 bits of nanoseconds lack.",
    "srcIP": "Source address; IPv4 and IPv6 in one column. Null for frames without an IP header.",
    "destIP": "Destination address.",
    "srcPort": "Source port of TCP, UDP, SCTP; of ICMP the type.",
    "destPort": "Destination port; of ICMP the code.",
    "proto": "IP protocol number: 1 ICMP, 6 TCP, 17 UDP.",
    "length": "Bytes on the wire.",
    "flags": "TCP flags as a number: 1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK; 18 is SYN and ACK.",
    "caplen": "Bytes that the capture kept.",
    "ip_length": "Bytes of the IP packet, its header included.",
    "payload_length": "Bytes behind the transport header.",
    "ttl": "Time to live, or hop limit.",
    "vlan": "The outer VLAN.",
    "fragment": "Offset of a fragment in bytes; null for whole packets.",
    "interface": "Number of the capturing interface, from 0 through the whole file.",
    "status": "0 decoded to the transport header, 1 IP only, 2 not IP or a link type that is not decoded, 3 cut before "
    "the headers end.",
    "seq": "Sequence number of TCP; it begins anew after 4,294,967,295.",
    "ack": "Acknowledgement number of TCP: the sequence number that is expected next. Without the flag ACK it tells "
    "nothing.",
    "tcp_window": "Window of TCP as it is sent, not scaled.",
    "mss": "Largest segment that the sender of a SYN takes, among its options; null for other packets.",
}
FURTHER: Mapping[str, str] = {
    "srcMAC": "Hardware address of the sender, as text: 00:1b:21:3c:9d:f8. Of Ethernet, 802.11, FDDI, and Linux cooked "
    "captures, which lack that of the receiver.",
    "destMAC": "Hardware address of the receiver.",
    "ethertype": "EtherType behind all VLAN tags: 2048 IPv4, 2054 ARP, 34525 IPv6, 34887 MPLS. Null where the frame "
    "has a length instead.",
    "inner_vlan": "The second VLAN tag, that of the customer in 802.1ad; `vlan` is the first.",
    "vlan_count": "How many VLAN tags the frame has.",
    "mpls_label": "The MPLS label on top of the stack.",
    "mpls_bottom": "The MPLS label below all others, as of a VPN; that on top where there is one.",
    "mpls_count": "How many MPLS labels the frame has.",
    "dns_query": "Name of the first question of a message of DNS, mDNS or LLMNR (ports 53, 5353, 5355), in the case in "
    "which it was sent. The root is `.`; null where the message has no question, or a damaged or cut one.",
    "dns_type": "Type that is asked for: 1 A, 28 AAAA, 12 PTR, 16 TXT, 65 HTTPS.",
    "dns_response": "Whether the message is an answer.",
    "dns_rcode": "Code of an answer: 0 no error, 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED; null for queries.",
    "dns_id": "Number by which an answer belongs to its query.",
    "tls_sni": "Name of the server that a client of TLS asks for (SNI), on any port of TCP; not of QUIC.",
    "http_host": "Header Host of a request of HTTP/1, on any port.",
    "rtp_type": "Type of the payload of RTP: 0 PCMU, 8 PCMA, 96 to 127 as agreed on. Of every datagram whose header "
    "may be one of RTP, so choose calls by port or type; null for RTCP and others.",
    "rtp_seq": "Sequence number of RTP; it begins anew after 65,535.",
    "rtp_ts": "Timestamp of RTP, in ticks of the payload's clock.",
    "rtp_ssrc": "Source of the stream (SSRC).",
    "tunnel": "Kind of the outermost tunnel that holds an IP packet: gre, vxlan, geneve, gtp-u, ip-in-ip; null outside "
    "of tunnels.",
    "tunnel_id": "Its number: the VNI of VXLAN and Geneve, the TEID of GTP-U, the key of GRE, the call of PPTP; null "
    "where it has none.",
    "outer_srcIP": "Where the outermost tunnel begins: the source address on the wire.",
    "outer_destIP": "Where the outermost tunnel ends.",
}
FLOWS: Mapping[str, str] = {
    "ts": "First packet of the flow.",
    "end_ts": "Last packet of the flow.",
    "srcIP": "Source address.",
    "destIP": "Destination address.",
    "srcPort": "Source port.",
    "destPort": "Destination port.",
    "proto": "IP protocol number.",
    "bytes": "Bytes as exported; times `sampling` they estimate the traffic.",
    "packets": "Packets as exported; 1 for sFlow.",
    "flags": "All TCP flags seen.",
    "tos": "Type of service.",
    "in_if": "Index of the incoming interface.",
    "out_if": "Index of the outgoing interface.",
    "src_as": "Autonomous system of the source.",
    "dest_as": "Autonomous system of the destination.",
    "src_mask": "Prefix length of the source's route.",
    "dest_mask": "Prefix length of the destination's route.",
    "next_hop": "Next router.",
    "vlan": "VLAN.",
    "end_reason": "1 idle, 2 active timeout, 3 end seen, 4 forced, 5 lack of resources.",
    "direction": "0 ingress, 1 egress.",
    "rev_bytes": "Bytes of the other direction of a biflow.",
    "rev_packets": "Packets of the other direction.",
    "rev_flags": "TCP flags of the other direction.",
    "sampling": "One of how many packets is counted, as announced; 1 where nobody says.",
    "exporter": "Who sent the record: the datagram's source address; of sFlow the agent as it says itself.",
    "exporter_port": "The datagram's source port; 0 where a file does not tell.",
    "domain": "Observation domain (v9: source id; v5: engine type and id; sFlow: sub-agent).",
    "version": "1, 5, 7, 9, 10 (IPFIX) or 105 (sFlow 5).",
    "export_ts": "The exporter's clock when it sent; null for sFlow.",
    "arrival_ts": "Our clock when the datagram came.",
}

COUNTERS: Mapping[str, str] = {
    "ts": "When the datagram came; null in files of datagrams.",
    "exporter": "The agent, as it says itself.",
    "domain": "Its sub-agent.",
    "sequence": "Number of the sample.",
    "uptime": "The agent's uptime in ms.",
    "if_index": "Index of the interface.",
    "if_type": "Its type as IANA numbers it: 6 Ethernet.",
    "if_speed": "Its speed in bits/s.",
    "if_direction": "1 full duplex, 2 half duplex, 3 in, 4 out, 0 unknown.",
    "if_status": "1 switched on, 2 up, 3 both.",
    "in_bytes": "Bytes that came in.",
    "in_unicast": "Packets to one receiver that came in.",
    "in_multicast": "Packets to several.",
    "in_broadcast": "Packets to all.",
    "in_discards": "Packets that were dropped though they were right.",
    "in_errors": "Packets with errors.",
    "in_unknown": "Packets of unknown protocols.",
    "out_bytes": "Bytes that went out.",
    "out_unicast": "Packets to one receiver that went out.",
    "out_multicast": "Packets to several.",
    "out_broadcast": "Packets to all.",
    "out_discards": "Packets that were dropped though they were right.",
    "out_errors": "Packets that could not be sent.",
    "promiscuous": "1 where the interface takes packets for others, 2 where it does not.",
}


def attributes() -> Iterator[str]:
    """Yield the page of the attributes of packets, flow records and logs."""
    yield "# Attributes\n"
    yield "An attribute that its source does not have is null. Names are found in any case and by their aliases.\n"
    yield "## Packets\n"
    yield "`oop.pcap`, `oop.interface`, and every capture on the command line.\n"
    yield from columns(PACKET_SCHEMA, PACKETS)
    yield "### Further attributes\n"
    yield (
        "These are decoded only where a query names them; `*` leaves them out. In Python they are asked for:\n"
        '`oop.pcap("m.pcap", columns=["srcMAC"])`.\n'
    )
    yield from columns(FURTHER_SCHEMA, FURTHER)
    yield (
        "Names have at most 255 bytes; longer ones are null. They are read from one packet alone, so what a client sent"
        " in pieces, or a snaplen cut, is null too. Any byte that is not printable ASCII, a blank, a backslash, and a"
        " dot within a label of DNS are shown as `\\ddd`, three decimal digits.\n"
    )
    yield "### Packets in tunnels\n"
    yield (
        "With `--inner`, in Python `inner=True`, attributes from IP on (addresses, ports, `proto`, `flags`, names "
        "and others) are those of the innermost packet, as in Zeek's `conn.log`. tshark shows the headers of all "
        "layers. `length`, `caplen`, `vlan`, hardware addresses and labels stay those of the frame on the wire. "
        "Opened are GRE (also of NVGRE, ERSPAN and PPTP), VXLAN (UDP to port 4789 or 8472), Geneve (6081), GTP-U "
        "(2152), and IP in IP, at most four deep. Where a tunnel holds no IP packet, or the capture lacks its "
        "header, attributes stay those of the packet outside. `tunnel`, `tunnel_id` and the outer addresses are "
        "there with and without `--inner`.\n"
    )
    yield "## Flow records\n"
    yield "`oop.netflow` and `netflow:PATH`: NetFlow v1, v5, v7 and v9, IPFIX, sFlow 5.\n"
    yield from columns(FLOW_SCHEMA, FLOWS)
    yield "`lost` and `received`, where they are named, count from the first datagram of an exporter's session: what"
    yield "its sequence says never came, and what came before this record. Both are flow records of v5 and IPFIX, and"
    yield "datagrams of v9 and sFlow.\n"
    yield "Every other element has IANA's name, as `postNATSourceIPv4Address`, or its number, as `6871/40`.\n"
    yield "## Interface counters\n"
    yield (
        "`oop.sflow_counters` and `sflow_counters:PATH`: the generic counters of sFlow 5. They count from when an agent"
        " began; those of 32 bits begin anew after 4,294,967,295. What an agent does not count is null.\n"
    )
    yield from columns(COUNTER_SCHEMA, COUNTERS)
    yield "## nfdump's CSV\n"
    yield f"`oop.nfdump` has of these: {', '.join(f'`{n}`' for n in NFDUMP_SCHEMA.names)}.\n"
    yield "## Zeek logs\n"
    yield "`oop.zeek` keeps Zeek's columns; those that flow records have too are found by both names:\n"
    yield "| Zeek | attribute |\n|---|---|"
    yield "\n".join(f"| `{theirs}` | `{ours}` |" for theirs, ours in ZEEK_ALIASES.items()) + "\n"
    yield "## Tables\n"
    yield "CSV, NDJSON, Parquet and Arrow have the columns they have. `--types ts=epoch` reads a column otherwise.\n"


def columns(schema: pa.Schema, says: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of the columns of a schema."""
    if set(says) != set(schema.names):
        raise SystemExit(f"schema and reference differ: {sorted(set(says) ^ set(schema.names))}")
    yield "| attribute | type | what it is | other names |\n|---|---|---|---|"
    for field in schema:
        others = ", ".join(f"`{alias}`" for alias in aliases_of(field))
        yield f"| `{field.name}` | {type_name(field)} | {says[field.name]} | {others} |"
    yield ""


# ---------------------------------------------------------------- commands


def commands_page() -> Iterator[str]:
    """Yield the page of every option of every command, as `--help` shows them."""
    yield "# Commands\n"
    yield "What `--help` prints for each command.\n"
    yield from command("oop-engine", commands)


def command(path: str, shown: click.Command) -> Iterator[str]:
    """Yield the help of a command, and of those below it."""
    context = click.Context(shown, info_name=path, max_content_width=100, terminal_width=100)
    yield f"## {path}\n\n```text\n{shown.get_help(context)}\n```\n"
    if isinstance(shown, click.Group):
        for name in shown.list_commands(context):
            below = shown.get_command(context, name)
            assert below is not None
            yield from command(f"{path} {name}", below)


# ---------------------------------------------------------------- Python


def python() -> Iterator[str]:
    """Yield the page of the Python API: every public name, with its signature and docstring."""
    yield "# Python\n"
    yield (
        "The public names of `oop_engine`; names that begin with an underscore are private. Examples follow "
        "`import oop_engine as oop`, and read the files of `demos`.\n"
    )
    everything = {name: getattr(oop, name) for name in sorted(oop.__all__, key=str.lower)}
    groups: dict[str, dict[str, object]] = {"Functions": {}, "Classes": {}, "Errors": {}}
    for name, given in everything.items():
        is_class = inspect.isclass(given)
        error = is_class and issubclass(given, Exception)
        groups["Errors" if error else "Classes" if is_class else "Functions"][name] = given
    for title, members in groups.items():
        yield f"## {title}\n"
        for name, given in members.items():
            yield from entry(f"oop.{name}", given)
    yield "## Ready queries\n"
    for name in oop.queries.__all__:
        yield from entry(f"oop.queries.{name}", getattr(oop.queries, name))
    yield "## On Spark\n"
    for name in oop.spark.__all__:
        yield from entry(f"oop.spark.{name}", getattr(oop.spark, name))


def entry(name: str, given: object) -> Iterator[str]:
    """Yield a function, or a class with its public methods."""
    yield f"### {name}\n"
    if inspect.isclass(given):
        yield f"{documented(given)}\n"
        if not issubclass(given, Exception):
            for method, member in inspect.getmembers(given):
                if method.startswith("_"):
                    continue
                target = member.fget if isinstance(member, property) else member
                if not inspect.isroutine(target) or not inspect.getdoc(target):
                    continue
                called = method if isinstance(member, property) else f"{method}{signature(target)}"
                yield f"#### `{name.rpartition('.')[2]}.{called}`\n"
                yield f"{documented(target)}\n"
        return
    yield f"```python\n{name}{signature(given)}\n```\n"
    yield f"{documented(given)}\n"


def documented(given: object) -> str:
    """Return a docstring as Markdown: examples of the interpreter become blocks of code."""
    text = inspect.getdoc(given) or ""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        code = line.startswith((">>>", "... ")) or (inside and bool(line.strip()))
        if code != inside:
            lines.append("```python" if code else "```")
        inside = code
        lines.append(line)
    return "\n".join([*lines, *(["```"] if inside else [])])


def signature(given: object) -> str:
    """Return how a function is called, without the quotes and folders of its annotations."""
    assert callable(given)
    text = str(inspect.signature(given)).replace("'", '"')
    text = re.sub(r"<factory>|<[^<>]*(<lambda>)?[^<>]* at 0x[0-9a-f]+>", "...", text)
    text = re.sub(r'(: |-> )"([^"]*)"', r"\1\2", text)
    return re.sub(r"(self, |self)(?=[^)]*\))", "", text, count=1) if text.startswith("(self") else text


# ----------------------------------------------------------------

WRITERS: Mapping[str, Callable[[], Iterator[str]]] = {
    "query-language.md": language,
    "functions.md": functions,
    "attributes.md": attributes,
    "commands.md": commands_page,
    "python.md": python,
}
HEAD = "<!-- Written by docs/generate.py; edit what it reads, not this page. -->\n"


def pages() -> dict[str, str]:
    """Make all pages, by file name."""
    return {name: "\n".join([HEAD, *write()]).rstrip() + "\n" for name, write in WRITERS.items()}


def main() -> None:
    """Write the pages, or with --check compare them."""
    made = pages()
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in made.items() if (PAGES / name).read_text(encoding="utf-8") != text]
        raise SystemExit(f"stale: {', '.join(stale)}; run python docs/generate.py" if stale else 0)
    PAGES.mkdir(exist_ok=True)
    for name, text in made.items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
