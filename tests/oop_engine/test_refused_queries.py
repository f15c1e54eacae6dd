"""Queries as people write them who know another language: each is refused, with words that tell them what to write."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oop_engine as oop
from operators.data.address import parse_ip
from operators.data.schema import ip_field

TABLE = pa.table(
    {
        "ts": pa.array([1, 2, 3, 12], pa.timestamp("s", "UTC")),
        "a": pa.array([1, 2, None, 3], pa.int64()),
        "s": ["x", "y", None, "z"],
        "length": pa.array([1, 2, 3, 4], pa.int32()),
        "f": [1.0, 2, 3, 4],
        "k": [True, False, None, True],
        "o": [{"n": 1}, {"n": 2}, None, {"n": None}],
    }
)
PACKETS = pa.table(
    [
        pa.array([1], pa.timestamp("s", "UTC")),
        pa.array([parse_ip("10.0.0.1")], pa.binary(16)),
        pa.array([6], pa.uint8()),
    ],
    schema=pa.schema([("ts", pa.timestamp("s", "UTC")), ip_field("srcIP"), ("proto", pa.uint8())]),
)
SCALARS = "Functions of one tuple's values are abs, cast, ceil, coalesce, contains,"
IN_FROM = "A query stands in FROM alone"
JOINS = "Write FROM A AS a JOIN B AS b ON a.x = b.x AND a.ts BETWEEN b.ts - INTERVAL"
COMMENT = "A comment begins with two hyphens"
WINDOW = "[RANGE 1 minute, WA ts]"
TUMBLING = "SELECT ... [RANGE TUMBLING 1 minute, WA ts] FROM ..."
SLIDING = "SELECT ... [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM ..."

REFUSED = {
    "select": ["expected an expression", "the end of the query"],
    "selct a from M": ["Did you mean SELECT?"],
    "select a form M": ["Did you mean FROM?"],
    "select a frm M": ["Did you mean FROM?"],
    "select a, from M": ["expected an expression"],
    "select a from": ["expected a name"],
    "select a from X": ['there is no stream "X"', '"M", "P"'],
    "select a from M where": ["expected an expression"],
    "select a from M where b = 1": ['there is no attribute "b"', "Known are"],
    "select a as b from M where b > 1": ['"b" names a column of the result', "Write a in its place."],
    "select sum(a) as b from M where b > 1": ['"b" names a column of the result', "after HAVING"],
    "select a from M order by b": ["b is no column of the result", "Known are"],
    "select a from M order by s": ["s is no column of the result"],
    "select a from M order by abs(a)": ["Select it, too: SELECT ..., abs(a) AS x ... ORDER BY x."],
    "select a from M order by 2": ["there is no column 2", "Columns are a."],
    "select a from M order by 0": ["there is no column 0"],
    "select a from M order by a nulls first": ["Nulls come last."],
    "select a from M order a": ["Write ORDER BY last"],
    "select a from M limit 5": ["LIMIT does not say which results come first", "Write ORDER BY before it"],
    "select a from M order by a limit 0": ["LIMIT is a number of results from 1"],
    "select a from M order by a limit 5 offset 5": ["There is no OFFSET"],
    "select a from M order by a limit 5, 5": ["There is no OFFSET"],
    "select a from M fetch first 5 rows only": ["Write ORDER BY x DESC LIMIT 10."],
    "select top 5 a from M": ["Write ORDER BY x DESC LIMIT 5"],
    "select s, count(*) [session 1 s, wa ts] from M group by s order by 2": ["each group has sessions of its own"],
    "select s, count(*) [range 2 s, wa ts, early 1 s] from M group by s order by 2": ["EARLY gives results before"],
    "select a from M group a": ["Did you mean GROUP BY?"],
    "select a, count(*) from M": ['"a" is neither grouped', "Add a to GROUP BY"],
    "select a, count(*) from M group by s": ['"a" is neither grouped'],
    "select count(*) from M where count(*) > 1": ["over many tuples", "HAVING"],
    "select count(*) from M having a > 1": ['"a" is neither grouped'],
    "select sum(count(*)) from M": ["an aggregate of aggregates", "FROM ( ... )"],
    "select max(sum(a)) from M group by s": ["an aggregate of aggregates"],
    "select a from M group by count(*)": ["a group is found before anything is aggregated"],
    "select count(*) from M group by 1": ["makes no groups", "Group by attributes"],
    "select a+1 as b, count(*) from M group by 2": ["makes no groups"],
    "select count(*) from M group by all": ['no attribute "all"'],
    "select case when a > 1 then 1 else 'x' end as x from M": ["integer and text have no type in common"],
    "select if(a > 1, 1, 0) as x from M": ["Write CASE WHEN length > 100 THEN 1 ELSE 0 END"],
    "select case a then 2 end as x from M": ["WHEN", "Write CASE WHEN"],
    "select case when a then 1 end as x from M": ["WHEN takes a condition", "Compare it"],
    "select a from M where a like 'x%'": ["here stands text", "Write cast(a, 'string')."],
    "select a from M where s regexp 'x'": ["Write x LIKE 'a%', or regexp_matches"],
    "select a from M where s ilike s": ["the pattern is a text in quotes"],
    "select a from M where a == 1": ['one "="'],
    "select a from M where a := 1": ['one "="'],
    "select a from M where a = NULL": ["Write a IS NULL."],
    "select a from M where a <> null": ["Write a IS NOT NULL."],
    "select a from M where a in ()": ["at least one constant"],
    "select a from M where a in (select a from M)": [IN_FROM, "SEMI JOIN (SELECT"],
    "select a from M where exists (select a from M)": [IN_FROM, "ANTI JOIN is for NOT"],
    "select a from M where a = (select max(a) from M)": [IN_FROM],
    "select (select max(a) from M) as x from M": [IN_FROM],
    "select a from M where s = 1": ["Write text in quotes."],
    "select a from M where a = 'x'": ["Write a number without quotes."],
    "select a from M where k > true": ["truth values have no order"],
    "select a from M where a": ["WHERE takes a condition", "Compare it"],
    "select a from M where a and k": ["and, or, not take truth values"],
    "select a from M where k and k and a and k": ["and, or, not take truth values", "Compare it"],
    "select a from M where not a": ["and, or, not take truth values"],
    "select a + s as x from M": ["+ is for numbers and times"],
    "select a || 'x' as y from M": ["|| is for text", "Write cast(a, 'string')."],
    "select a::int from M": ["Write cast(a, 'int64')."],
    "select a::double from M": ["Write cast(a, 'float64')."],
    "select cast(a as double) from M": ["Write cast(a, 'float64')."],
    "select cast(a + 1 as text) from M": ["Write cast(a + 1, 'string')."],
    "select cast(a, 'double') as x from M": ["Write 'float64'."],
    "select cast(a, 'INT64') as x from M": ["Write 'int64'."],
    "select cast(a, float64) as x from M": ["cast(price, 'float64')"],
    "select lower(a) as x from M": ["here stands text", "Write cast(a, 'string')."],
    "select strlen(s) as x from M": ['no function "strlen"', "Write length(x)", SCALARS],
    "select nvl(a, 0) as x from M": ['no function "nvl"', "Write coalesce(x, 0)", SCALARS],
    "select a from M where ifnull(a, 0) = 0": ['no function "ifnull"', "coalesce", SCALARS],
    "select foo(a) from M": ['no function "foo"', SCALARS, '"count", "sum"', "oop.user_aggregate"],
    "select a from M where foo(a) > 1": ['no function "foo"', SCALARS],
    "select date_trunc('hour', ts) as h from M": ['ts // "1 hour"', SCALARS],
    "select cuont(*) from M": ['Did you mean "count"?'],
    "select a from M where ts > now()": ["does not ask what time it is"],
    "select count(*) from M having count(*)": ["HAVING takes a condition"],
    "select count(distinct) from M": ["expected an expression"],
    "select sum(distinct a) from M": ["count(distinct a)", "SELECT sum(a) FROM (SELECT DISTINCT a FROM ...)"],
    "select sum(*) from M": ["Write sum(x)."],
    "select sum() from M": ["sum takes an argument"],
    "select count(M.*) from M": ["expected a name"],
    "select sum(s) from M": ["Cast it"],
    "select avg(ts) from M": ["Write min(ts) or max(ts)"],
    "select quantile(a, f) as x from M": ["a number is needed there", "quantile(x, 0.95)"],
    "select quantile(a, -0.1) from M": ["a fraction between 0 and 1, and is -0.1"],
    "select top_k(a, 0) as x from M": ["how many values are listed"],
    "select round(a, 2) as x from M": ["round takes one argument", "a half the even one", "round(x * 100) / 100"],
    "select count(*) [range 5 mintues, wa ts] from M": ['Did you mean "minutes"?'],
    "select count(*) [range 5 minutes slide 1 minute wa ts] from M": ['expected "," or "]"'],
    "select count(*) [range 5 minutes, slide 1 minute, wa tss] from M": ['Did you mean "ts"?'],
    "select count(*) [range 5 minutes, wa f] from M": ["needs an attribute with an order in steps"],
    "select count(*) [range 5 minutes, wa a] from M": ["not a time", "Give a plain number"],
    "select count(*) [range 5 rows, wa ts] from M": ["row_num"],
    "select count(*) [range -5 s, wa ts] from M": ["expected a number, TUMBLING or ALL"],
    "select count(*) [range 0 s, wa ts] from M": ["RANGE must be more than 0."],
    "select count(*) [range 5.5 rows] from M": ["no whole number of rows"],
    "select count(*) [range 0.5 s, wa ts] from M": ["finer than"],
    "select count(*) [range 5 months, wa ts] from M": ["no fixed length"],
    "select count(*) [range 999999999999 days, wa ts] from M": ["the most is 292 years", "73 years"],
    "select count(*) [range 5 s, range 6 s, wa ts] from M": ["RANGE twice"],
    "select count(*) [slide 5 s, wa ts] from M": ["has no RANGE"],
    "select count(*) [range 5 s, wa ts, pa] from M": ["expected a name"],
    "select count(*) [range tumbling 5 s, slide 5 s, wa ts] from M": ["a TUMBLING window moves by its RANGE"],
    "select count(*) [session 5 s, slide 5 s, wa ts] from M": ["has no SLIDE"],
    "select count(*) [range 5 s, sattr ts] from M": ["SATTR but no RATTR"],
    'select count(*) [range 5 s, wa ts, origin "noon"] from M': ["not a time", "ISO 8601"],
    "select count(*) [range 5 s, wa ts, closed] from M": ["inputs of a join"],
    "select count(*) [range 5 s, wa ts from M": ["never closed"],
    "select count(*) range 5 s, wa ts] from M": ["closes nothing"],
    "select count(*) from M [range 5 s, wa ts] [range 5 s]": ["expected JOIN, WHERE"],
    "select count(*) [range 5 s, wa ts] from M [range 5 s, wa ts]": ["a second window"],
    "select sum(a) from M where a > 1 [range 5 s, wa ts]": ["A window stands before WHERE"],
    "select sum(a) from M group by s [range 5 s, wa ts]": ["A window stands before WHERE"],
    "select s, sum(a) from M having sum(a) > 1 group by s": ["GROUP BY stands before HAVING"],
    "select s, sum(a) from M group by s where a > 1": ["WHERE stands before GROUP BY"],
    "select a from M where s = 'abc": ["never ends"],
    'select a from M where s = "abc': ["never ends"],
    "select `a from M": ["never ends"],
    "select `` from M": ["cannot be empty"],
    "select a from M where (a > 1": ["never closed"],
    "select a from M where a > 1)": ["closes nothing"],
    "select a from M where a >": ["expected an expression"],
    "select a from M where a > > 1": ["expected an expression"],
    "select a from M where a between 1": ["AND"],
    "select a from M where a between 1 or 2": ["AND"],
    "select a from M where a between 2 and 'x'": ["Write a number without quotes."],
    "select a from M; select a from M": ["expected the end of the query"],
    "select a from M as": ["expected a name"],
    "select a from M as select": ["write `select`"],
    "select X.a from M": ['there is no stream "X"', '"M"'],
    "select X.* from M": ['there is no stream "X"', '"M"'],
    "select M.a.b from M": ["has no parts"],
    "select M.zz from M": ['there is no attribute "zz"'],
    "select * from M, M": ["has no window", "Write M [RANGE 1 minute, WA ts]"],
    "select * from M, P": ["has no window"],
    "select * from M join P on M.a = P.a": ["M has no window", "ON a.ts BETWEEN b.ts - INTERVAL"],
    "select * from M cross join P": [JOINS],
    "select * from M union all select * from M": ["SELECT ... FROM (SELECT ...) UNION (SELECT ...)"],
    "select * from M union distinct M": ["UNION keeps duplicates", "SELECT DISTINCT"],
    "select * from M union select * from M": ["UNION stands between sources", "(SELECT ...) UNION (SELECT ...)"],
    "select a from M union P": ["has other attributes"],
    "select a from (select a from M": ["never closed"],
    "select a from (select * from M) [range 5 s] where q = 1": ['no attribute "q"'],
    "select a from M where a = 99999999999999999999": ["too large"],
    "select a from M where a = 1e999": ["too large"],
    "select a from M where a > 1.5.2": ["An IP address stands in quotes"],
    "select a from M where a = 0x10": ["decimal digits"],
    "select a from M where a > 1_000": ["decimal digits"],
    "select a from M where 1 < a < 3": ["BETWEEN 1 AND 3"],
    'select a from M where ts > "2026-13-01"': ["not a time"],
    'select a from M where ts > "yesterday"': ["ISO 8601"],
    'select a from M where s in "10.0.0.0/8"': ["only an IP address is in a network"],
    'select srcIP from P where srcIP in "10.0.0.0/33"': ["is no network"],
    'select srcIP from P where srcIP in network "10.0.0.1/8"': ["10.0.0.0/8"],
    'select srcIP from P where srcIP = "10.0.0.256"': ["is no IP address"],
    "select srcIP from P where srcIP in ('10.0.0.1/8', '10.0.0.1')": ["no network", "did you mean 10.0.0.0/8"],
    "select srcIP from P where srcIP = '10.0.0.0/8'": ["is a network", "Write x IN '10.0.0.0/8'"],
    "select srcIP from P where srcIP = 10.0.0.1": ["An IP address stands in quotes"],
    "select srcIP from P where srcIP = fe80::1": ["An IP address stands in quotes"],
    "select srcIP from P where srcIP > 5": ["Write an address as text"],
    "select sum(srcIP) from P": ["Count its values"],
    "select srcip from P": ['Did you mean "srcIP"?'],
    "select srcIP, count(*) from P group by srcip": ['Did you mean "srcIP"?'],
    'select "a" from M': ['"a" in quotes is text; write a or `a`.'],
    'select a "b" from M': ["AS b"],
    "select a b from M": ["A name is given with AS: AS b."],
    "select count(*) n from M": ["A name is given with AS: AS n."],
    "select a from M m": ["A name is given with AS: AS m."],
    "select a /* c */ from M": [COMMENT],
    "/* c */ select a from M": [COMMENT],
    "select a # c": [COMMENT],
    "select a from M – comment": [COMMENT],
    "select a from M where a is 5": ["IS goes with NULL only"],
    "select a from M where k is true": ["x for IS TRUE"],
    "select a from M where k is not false": ["x for IS TRUE"],
    "select a from M where a not 5": ["NOT stands before a condition"],
    'select floor(ts / "5 s") as x from M': ['ts // "10 s"'],
    'select ts / "5 s" as x from M': ['ts // "10 s"'],
    "select a % s as x from M": ["% is for numbers and times"],
    "select s // 2 as x from M": ["// is for numbers and times"],
    "select -s as x from M": ["- is for numbers and durations"],
    "select abs(s) as x from M": ["abs is for numbers and durations"],
    "select count(*) over (partition by s) from M": [WINDOW],
    "select count(*) filter (where a > 1) from M": ["sum(length > 100)", "WHERE"],
    "with recursive x as (select a from M) select a from x": ["without RECURSIVE"],
    "select a from x with x as (select a from M)": ["WITH stands before all else"],
    "with x as (select a from M), x as (select a from M) select a from x": ['WITH names "x" twice'],
    "select count(*) from hop(M, descriptor(ts), interval '1' minute)": ["Write HOP(TABLE t, DESCRIPTOR(ts), INTERVAL"],
    "select count(*) from tumble(M, descriptor(ts), interval '1' mnute)": ['Did you mean "minute"?'],
    "select count(*) from tumble(M, descriptor(ts), interval '0' minute)": ["a window must be longer than 0"],
    "insert into M values (1)": ["A query begins with SELECT"],
    "explain select a from M": ["oop-engine explain"],
    "select a from M where a = $1": ["no parameters"],
    "select a from M where a = ?": ["no parameters"],
    "select a from M where k && k": ["Write AND"],
    "select a from M where a & 1": ["WHERE takes a condition"],
    "select a from M where k & 1 = 1": ["& is for integers", "AND and OR"],
    "select a from M where a && k": ["Write AND"],
    "select a from M where !k": ["Write NOT."],
    "select ａ from M": ["there is no attribute"],
    "select a from M where a = “x”": ["Quotes are straight"],
    "select a from M where s = 'x' 'y'": ["expected an operator"],
    "select count(*) from tumble(M, ts, interval '1' minute)": ["expected DESCRIPTOR"],
    "select count(*) from table(tumble(table M, descriptor(ts), interval '1' minute))": [TUMBLING],
    "select count(*) from M group by tumble(ts, '1 minute')": [TUMBLING],
    "select tumble_start(ts, interval '1' minute) from M": ["Results have window_start and window_end", TUMBLING],
    "select hop_end(ts, '1 minute', '5 minutes') as x from M": ["Results have window_start and window_end", SLIDING],
    "select count(*) from M group by hop(ts, interval '1' minute, interval '5' minute)": [SLIDING],
    "select count(*) from M group by hop(ts, '1 minute', '5 minutes')": [SLIDING],
    "select window(ts, '1 minute'), count(*) from M": [TUMBLING],
    "select a, count(*) from M group by window(ts, '1 minute'), a": [TUMBLING],
    "select count(*) from M group by session_window(ts, '1 minute')": ["[SESSION 1 minute, WA ts]"],
    "select a from M where ts > '1970-01-02' - interval '2 days'": ["- is for numbers and times"],
    "select count(*) [range interval '1' minute, wa ts] from M": ["without INTERVAL and without quotes: RANGE 1 min"],
    "select count(*) [range 1h30, wa ts] from M": ["expected a unit"],
    "select count(*) [range '1 minute', wa ts] from M": ["A duration in a window stands without quotes: 1 minute."],
    "select count(*) [range 1 s, slide '1 s', wa ts] from M": ["A duration in a window stands without quotes: 1 s."],
    "select count(*) [range PT1M, wa ts] from M": ["A duration is numbers with units: 1 minute, 90 s, 1h30m."],
    "select count(*) [range 00:01:00, wa ts] from M": ["A duration is numbers with units"],
    "select a, count(*) [range 1 minute, wa ts] from M group by a emit changes": ["EARLY 10 s"],
    "select count(*) [range 1 minute, wa ts] from M emit final": ["Results are given as their windows are complete"],
    "select x.a from M x join P y on x.ts = y.ts": ["AS x", JOINS],
    "select srcIP from P where srcIP like '10.%'": ["Write srcIP IN '10.0.0.0/8'"],
    "select P.srcIP from P where P.srcIP not like '192.168.%'": ["Write srcIP IN '192.168.0.0/16'"],
    "select srcIP from P where srcIP = '10.*'": ["what begins so is a network", "Write x IN '10.0.0.0/8'"],
    "select srcIP from P where srcIP like '300.%'": ["Write srcIP IN '10.0.0.0/8'"],
    "select srcIP from P where srcIP like '10%'": ["Write srcIP IN '10.0.0.0/8'"],
    "select srcIP from P where srcIP = '10%'": ["is no IP address; write one like"],
    "select srcIP from P where proto = 'tpc'": ["or a name", 'Did you mean "tcp"?'],
    "select srcIP from P where proto in ('UPD', 'tcp')": ["or a name", 'Did you mean "udp"?'],
    "select srcIP from P where proto = 'quic'": ["Write a number without quotes, or a name."],
    "select quantile(a, 95) from M": [
        "must be a fraction between 0 and 1, and is 95",
        "the 95th percentile write 0.95",
    ],
    "select a from M where a > '2026-11-21'": ['types={"a": "epoch"}', "--types a=epoch"],
    "select count(*) [range 1 minute, wa a] from M": ['types={"a": "epoch"}', "--types a=epoch"],
    "select o.n from M": ['"o" is an attribute that holds an object', "--flatten (in Python flatten=True): o.n is"],
    "select M.o.n from M": ['pc.struct_field(p.column("o"), ["n"])'],
    "select a from M where o.n = 1": ['"o" is an attribute that holds an object'],
    "select a.n from M": ['the attribute "a" (int64) has no parts', "Write a."],
    "select M.a from M [range 1 s], P [range 1 s] where o.n = 1": ['"o" is an attribute that holds an object'],
    "select a from M having a > 1": ["HAVING is about groups", "after WHERE"],
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items())
def test_a_wrong_query_is_refused_with_words_that_help(text: str, words: list[str]) -> None:
    with pytest.raises(oop.LanguageError) as caught:
        oop.query(text, {"M": oop.arrow(TABLE), "P": oop.arrow(PACKETS)})
    told = str(caught.value)
    assert [word for word in words if word not in told] == []
    assert caught.value.line == 1 and caught.value.column
    assert "IP address stands in quotes" not in told or "IP address" in "".join(words)


def test_what_the_hints_say_of_python_runs() -> None:
    stream = oop.arrow(TABLE)
    assert stream.filter(lambda p: pc.match_like(p.column("s"), "x%")).to_arrow().num_rows == 1
    assert stream.filter(lambda p: p["a"].isin([1, 3])).to_arrow().num_rows == 2
    columns = {
        "lower": lambda p: pc.utf8_upper(p.column("s")),
        "filled": lambda p: pc.fill_null(p.column("a"), 0),
        "hour": lambda p: pc.hour(p.column("ts")),
        "o_n": lambda p: pc.struct_field(p.column("o"), ["n"]),
    }
    found = stream.derive(**columns).to_arrow()
    assert found["lower"].to_pylist() == ["X", "Y", None, "Z"]
    assert found["filled"].to_pylist() == [1, 2, 0, 3]
    assert found["hour"].to_pylist() == [0, 0, 0, 0]
    assert found["o_n"].to_pylist() == [1, 2, None, None]
    assert oop.arrow(PACKETS).filter("srcIP in '10.0.0.0/8' and proto = 6").to_arrow().num_rows == 1


def test_what_the_hints_say_of_queries_runs() -> None:
    def result(text: str) -> list[dict[str, object]]:
        return oop.query(text, M=oop.arrow(TABLE)).to_arrow().to_pylist()

    assert result("select sum(length > 2) as n from M") == [{"n": 2}]
    assert result("select cast(length > 2, 'int64') as n from M where length = 3") == [{"n": 1}]
    assert result("select sum(a) as n from (select distinct a from M union M)") == [{"n": 6}]
    assert result('select ts // "5 s" as n from M where a = 3') == [{"n": 2}]
    assert result('select ts - ts % "5 s" = "1970-01-01T00:00:10Z" as n from M where a = 3') == [{"n": True}]
    assert result("select round(-2.5) as low, round(3.5) as high, round(f * 100) / 100 as x from M where a = 1") == [
        {"low": -2.0, "high": 4.0, "x": 1.0}
    ]
