"""The language of the thesis parses as printed there, and whatever is no query is refused."""

from __future__ import annotations

import re
import sys
import typing as t
from importlib import resources
from subprocess import run

import attrs
import hypothesis.strategies as st
import lark
import pytest
from hypothesis import HealthCheck, given, settings
from lark.exceptions import UnexpectedInput

from oop_engine.language import LanguageError, Query, Span, parse
from oop_engine.language import syntax as s
from oop_engine.language.diagnose import diagnose
from oop_engine.language.parse import MAX_LINKS
from oop_engine.language.scan import MAX_DEPTH, RESERVED
from oop_engine.plan.durations import HOUR, MINUTE, SECOND, Duration
from operators.kernels.compile import disk_cache
from tests.examples import share

TS = s.Name(("ts",))
SRC = s.Name(("srcIP",))
COUNT = s.Call("count", (), star=True)


def ns(value: int) -> Duration:
    return Duration(value, "ns", "")


def rows(value: int) -> Duration:
    return Duration(value, "rows", "")


def window(length: Duration | s.All, slide: Duration | None = None, **more: t.Any) -> s.WindowClause:
    return s.WindowClause(range=length, slide=slide, **{"wattr": TS, **more})


def item(expr: s.Expr, alias: str | None = None) -> s.SelectItem:
    return s.SelectItem(expr, alias)


def where(text: str) -> s.Expr:
    found = parse(f"SELECT * FROM Main WHERE {text}").where
    assert found is not None
    return found


def equals(left: str, right: str) -> s.Binary:
    return s.Binary("=", s.Name(tuple(left.split("."))), s.Name(tuple(right.split("."))))


def union(*names: str, **more: t.Any) -> s.Union:
    return s.Union(tuple(s.Table(name) for name in names), **more)


# ts, seconds: the queries that differ only in their numbers
MINUTELY = window(ns(MINUTE), ns(MINUTE))
TEN_BY_ONE = window(ns(10 * MINUTE), ns(MINUTE))
ROW_WINDOW = window(rows(1000), rows(10), wattr=s.Name(("row_num",)))
MAX_LENGTH = item(s.Call("max", (s.Name(("length",)),)))
SUM_LEN = item(s.Call("sum", (s.Name(("len",)),)))

THESIS = {
    "Q1-1": (
        "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP",
        Query(select=(item(SRC), item(COUNT)), window=TEN_BY_ONE, source=s.Table("M"), group_by=(SRC,)),
    ),
    "Q1-2": (
        "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2",
        Query(select=(item(COUNT),), window=MINUTELY, source=union("Control", "Main1", "Main2")),
    ),
    "Q2-1": (
        """SELECT	srcIP, ts, count (*)
        FROM	Main1
        WHERE	srcIP = "202.101.0.0" or srcIP = "202.101.0.1"
        GROUP BY	srcIP, ts""",
        Query(
            select=(item(SRC), item(TS), item(COUNT)),
            source=s.Table("Main1"),
            where=s.Binary(
                "or",
                s.Binary("=", SRC, s.Literal("202.101.0.0")),
                s.Binary("=", SRC, s.Literal("202.101.0.1")),
            ),
            group_by=(SRC, TS),
        ),
    ),
    "Q3-1": (
        """SELECT *
        FROM Main1 [WA ts, RANGE 3 min],
        Main2 [WA ts, RANGE 2 min]
        WHERE Main1.srcIP = Main2.destIP;""",
        Query(
            select=(s.SelectItem(s.Star(), None),),
            source=s.Join(
                (
                    s.Table("Main1", window=window(ns(3 * MINUTE))),
                    s.Table("Main2", window=window(ns(2 * MINUTE))),
                )
            ),
            where=equals("Main1.srcIP", "Main2.destIP"),
        ),
    ),
    "Q5-1": (
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] From Main Group By srcIP",
        Query(select=(item(SRC), item(COUNT)), window=TEN_BY_ONE, source=s.Table("Main"), group_by=(SRC,)),
    ),
    "Q5-2": (
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP] FROM Main",
        Query(
            select=(item(SRC), MAX_LENGTH),
            window=attrs.evolve(ROW_WINDOW, partition=(SRC,)),
            source=s.Table("Main"),
        ),
    ),
    "Q5-3": (
        "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num] FROM Main GROUP-BY srcIP",
        Query(select=(item(SRC), MAX_LENGTH), window=ROW_WINDOW, source=s.Table("Main"), group_by=(SRC,)),
    ),
    "Q5-4": (
        "SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 minute, WA ts]\n\nFROM Main1 GROUP BY srcIP",
        Query(
            select=(item(SRC), item(COUNT)),
            window=window(s.All(), ns(MINUTE)),
            source=s.Table("Main1"),
            group_by=(SRC,),
        ),
    ),
    "Q5-5": (
        "SELECT max(length)\n\n[RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] FROM Main",
        Query(
            select=(MAX_LENGTH,),
            window=window(ns(5 * MINUTE), rows(1), wattr=None, rattr=TS, sattr=s.Name(("row_num",))),
            source=s.Table("Main"),
        ),
    ),
    "Q5-6": (
        "SELECT count(*)\n\n[RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] FROM Main",
        Query(
            select=(item(COUNT),),
            window=window(ns(5 * MINUTE), rows(5), wattr=None, rattr=TS, sattr=s.Call("rank", (TS,))),
            source=s.Table("Main"),
        ),
    ),
    "Q5-7": (
        """SELECT Main1.srcIP, Main2.ts FROM Main1, Main2

        [RANGE TUMBLING 5 minutes, WA ts], WHERE Main1.srcIP = Main2.destIP""",
        Query(
            select=(item(s.Name(("Main1", "srcIP"))), item(s.Name(("Main2", "ts")))),
            source=s.Join((s.Table("Main1"), s.Table("Main2")), window=window(ns(5 * MINUTE), tumbling=True)),
            where=equals("Main1.srcIP", "Main2.destIP"),
        ),
    ),
    "Q5-8": (
        """SELECT Main2.ts FROM Main1 [RANGE 3 minutes, WA ts], Main2 [RANGE 2 minutes, WA ts]
        WHERE Main1.srcIP = Main2.destIP""",
        Query(
            select=(item(s.Name(("Main2", "ts"))),),
            source=s.Join(
                (
                    s.Table("Main1", window=window(ns(3 * MINUTE))),
                    s.Table("Main2", window=window(ns(2 * MINUTE))),
                )
            ),
            where=equals("Main1.srcIP", "Main2.destIP"),
        ),
    ),
    "Q6-2": (
        "SELECT max(length) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM Main",
        Query(select=(MAX_LENGTH,), window=window(ns(4 * MINUTE), ns(MINUTE)), source=s.Table("Main")),
    ),
    "Q6-3": (
        "SELECT count(*) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM packets GROUP BY srcIP",
        Query(
            select=(item(COUNT),),
            window=window(ns(4 * MINUTE), ns(MINUTE)),
            source=s.Table("packets"),
            group_by=(SRC,),
        ),
    ),
    "Q6-5": (
        "SELECT srcIP, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM M1 GROUP BY srcIP",
        Query(
            select=(item(SRC), item(COUNT)),
            window=window(ns(5 * MINUTE), ns(MINUTE)),
            source=s.Table("M1"),
            group_by=(SRC,),
        ),
    ),
    "Q6-6": (
        "SELECT srcIP, sum(len) [RANGE 10 seconds, SLIDE 1 second, WA ts] FROM packets GROUPBY srcIP",
        Query(
            select=(item(SRC), SUM_LEN),
            window=window(ns(10 * SECOND), ns(SECOND)),
            source=s.Table("packets"),
            group_by=(SRC,),
        ),
    ),
    "Q6-7": (
        "SELECT srcIP, sum(len) [RANGE 1 second, SLIDE 1 second, WA ts] FROM Main GROUP-BY srcIP",
        Query(
            select=(item(SRC), SUM_LEN),
            window=window(ns(SECOND), ns(SECOND)),
            source=s.Table("Main"),
            group_by=(SRC,),
        ),
    ),
    "Q6-8": (
        """SELECT count(*)
        [RANGE 10 sec, SLIDE 1 sec, WA ts]
        FROM (Main2 ∪ (Main1 ∪ Control))
        GROUP-BY srcIP""",
        Query(
            select=(item(COUNT),),
            window=window(ns(10 * SECOND), ns(SECOND)),
            source=s.Union((s.Table("Main2"), union("Main1", "Control"))),
            group_by=(SRC,),
        ),
    ),
    # Printed with "RANGE n" and n varied from 1 to 9 seconds; "M1.destIP and M2.srcIP" is as printed.
    "Q7-2": (
        """SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts] FROM M1 [RANGE 9 s, WA ts],
        M2 [RANGE 9 s, WA ts] WHERE M1.srcIP = M2.destIP and M1.destIP and M2.srcIP""",
        Query(
            select=(item(COUNT),),
            window=window(ns(MINUTE), ns(MINUTE), wattr=s.Name(("M1", "ts"))),
            source=s.Join(
                (
                    s.Table("M1", window=window(ns(9 * SECOND))),
                    s.Table("M2", window=window(ns(9 * SECOND))),
                )
            ),
            where=s.Binary(
                "and",
                s.Binary("and", equals("M1.srcIP", "M2.destIP"), s.Name(("M1", "destIP"))),
                s.Name(("M2", "srcIP")),
            ),
        ),
    ),
    "Q8-1": (
        """SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts]
        FROM Main GROUP BY srcIP, destIP""",
        Query(
            select=(item(SRC), item(s.Name(("destIP",))), item(COUNT)),
            window=MINUTELY,
            source=s.Table("Main"),
            group_by=(SRC, s.Name(("destIP",))),
        ),
    ),
    "Q8-2": (
        """SELECT	srcIP, destIP, count(*)
            [RANGE 1 minute, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2
        GROUP BY	srcIP, destIP""",
        Query(
            select=(item(SRC), item(s.Name(("destIP",))), item(COUNT)),
            window=MINUTELY,
            source=union("M1", "M2"),
            group_by=(SRC, s.Name(("destIP",))),
        ),
    ),
    "Q8-3": (
        """SELECT	M1.srcIP, M1.ts
        FROM	A UNION B as M1, C UNION D as M2
            [RANGE TUMBLING 10 seconds, WA ts],
        WHERE	M1.srcIP = M2.destIP and M1.srcPort = M2.destPort""",
        Query(
            select=(item(s.Name(("M1", "srcIP"))), item(s.Name(("M1", "ts")))),
            source=s.Join(
                (union("A", "B", alias="M1"), union("C", "D", alias="M2")),
                window=window(ns(10 * SECOND), tumbling=True),
            ),
            where=s.Binary("and", equals("M1.srcIP", "M2.destIP"), equals("M1.srcPort", "M2.destPort")),
        ),
    ),
    "Q8-4": (
        """SELECT	M1.srcIP
        FROM	M1, M2 Union C as M3
            [RANGE TUMBLING 1 minute, WA ts]
        WHERE	M1.srcIP = M3.destIP""",
        Query(
            select=(item(s.Name(("M1", "srcIP"))),),
            source=s.Join(
                (s.Table("M1"), union("M2", "C", alias="M3")),
                window=window(ns(MINUTE), tumbling=True),
            ),
            where=equals("M1.srcIP", "M3.destIP"),
        ),
    ),
    "Q8-5": (
        """SELECT	count(*)
            [RANGE 5 minutes, SLIDE 1 minute, WA ts]
        FROM	M1 UNION M2 UNION C""",
        Query(
            select=(item(COUNT),),
            window=window(ns(5 * MINUTE), ns(MINUTE)),
            source=union("M1", "M2", "C"),
        ),
    ),
}


@pytest.mark.parametrize("number", THESIS)
def test_a_query_of_the_thesis_parses_as_printed(number: str) -> None:
    text, tree = THESIS[number]
    assert parse(text) == tree
    assert parse(text).text == text


def test_keywords_are_case_insensitive_and_attributes_are_not() -> None:
    lower = parse("select srcip [range 1 MINUTE, slide 1 Minute, wa ROW_NUM] from m group by srcip;")
    assert lower.group_by == (s.Name(("srcip",)),)
    assert lower.window == window(ns(MINUTE), ns(MINUTE), wattr=s.Name(("row_num",)))
    assert parse("SELECT arrival-ts, Arrival_TS, `row-num` FROM m").select == (
        item(s.Name(("arrival_ts",))),
        item(s.Name(("arrival_ts",))),
        item(s.Name(("row-num",))),
    )


def test_a_window_after_a_single_source_is_the_querys() -> None:
    after_select = parse("SELECT count(*) [RANGE 1 minute, WA ts] FROM A UNION B")
    assert parse("SELECT count(*) FROM A UNION B [RANGE 1 minute, WA ts]") == after_select
    assert after_select.source == union("A", "B")


def test_the_last_inputs_sliding_window_is_not_the_joins() -> None:
    source = parse("SELECT * FROM A, B [RANGE 1 minute, WA ts]").source
    assert source == s.Join((s.Table("A"), s.Table("B", window=window(ns(MINUTE)))))


def test_the_windows_of_a_joins_inputs_may_be_closed() -> None:
    source = parse("SELECT * FROM A [RANGE 1 minute, WA ts, CLOSED], B [closed, RANGE 1 minute, WA ts]").source
    closed = s.WindowClause(range=ns(MINUTE), wattr=TS, closed=True)
    assert source == s.Join((s.Table("A", window=closed), s.Table("B", window=closed)))


def test_windows_may_give_results_early() -> None:
    clause = s.WindowClause(range=ns(MINUTE), wattr=TS, early=Duration(10 * SECOND, "ns", "10 s"))
    for text, refine in (
        ("early 10 s", "accumulate"),
        ("EARLY 10 s RETRACT", "retract"),
        ("EARLY 10 s discard", "discard"),
    ):
        window = parse(f"SELECT max(x) [RANGE 1 minute, {text}, WA ts] FROM M").window
        assert window == attrs.evolve(clause, refine=refine)
    # They are words of windows alone.
    assert parse("SELECT early, retract FROM discard").select[0] == s.SelectItem(s.Name(("early",)), None)


def test_every_window_parameter_is_kept() -> None:
    clause = parse("SELECT a [NO PARTIAL, ORIGIN -5 s, PA (x, M.y), WA ts, SLIDE 2, RANGE 3] FROM M").window
    assert clause == s.WindowClause(
        range=Duration(3, "plain", ""),
        slide=Duration(2, "plain", ""),
        wattr=TS,
        partition=(s.Name(("x",)), s.Name(("M", "y"))),
        origin=ns(-5 * SECOND),
        partial=False,
    )
    stamped = parse("SELECT a [RANGE 1 hour, WA ts, ORIGIN '2026-01-01T00:00:00Z'] FROM M").window
    assert stamped == window(ns(HOUR), origin=s.Literal("2026-01-01T00:00:00Z"))


def test_a_sub_query_is_a_source_with_a_name_and_its_spans_point_into_the_whole_text() -> None:
    text = "SELECT max(n) [RANGE 1 hour, WA ts] FROM (SELECT count(*) AS n FROM Main) AS x"
    source = parse(text).source
    assert isinstance(source, s.SubQuery)
    assert (source.alias, source.query.select) == ("x", (item(COUNT, "n"),))
    assert source.query.text == text
    inner = source.query.source.span
    assert text[inner.column - 1 : inner.end_column - 1] == "Main"


def test_select_items_are_expressions_with_names() -> None:
    query = parse("SELECT DISTINCT *, argmin(len, ts) AS first, count(DISTINCT srcIP), -len % 2 FROM M")
    assert query.distinct
    assert query.select == (
        s.SelectItem(s.Star(), None),
        item(s.Call("argmin", (s.Name(("len",)), TS)), "first"),
        item(s.Call("count", (SRC,), distinct=True)),
        item(s.Binary("%", s.Unary("-", s.Name(("len",))), s.Literal(2))),
    )


def test_group_by_takes_names_and_expressions_and_having_follows() -> None:
    query = parse("SELECT count(*) AS n FROM M GROUP BY srcIP, ts / 60 AS tb HAVING n > 10")
    assert query.group_by == (SRC, item(s.Binary("/", TS, s.Literal(60)), "tb"))
    assert query.having == s.Binary(">", s.Name(("n",)), s.Literal(10))


A, B, C = (s.Name((name,)) for name in "abc")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", s.Binary("+", A, s.Binary("*", B, C))),
        ("a - b - c", s.Binary("-", s.Binary("-", A, B), C)),
        ("a - (b - c)", s.Binary("-", A, s.Binary("-", B, C))),
        ("-a * b", s.Binary("*", s.Unary("-", A), B)),
        ("a - -1", s.Binary("-", A, s.Unary("-", s.Literal(1)))),
        ("a or b and c", s.Binary("or", A, s.Binary("and", B, C))),
        ("not a = b and c", s.Binary("and", s.Unary("not", s.Binary("=", A, B)), C)),
        ("a != b", s.Binary("<>", A, B)),
        ("a <> b", s.Binary("<>", A, B)),
        ("a <= b + 1", s.Binary("<=", A, s.Binary("+", B, s.Literal(1)))),
        ("a between 1 and 2 and b", s.Binary("and", s.Between(A, s.Literal(1), s.Literal(2)), B)),
        ("a not between b and c", s.Between(A, B, C, negated=True)),
        ("a in (1, 2.5, 'x')", s.InList(A, (s.Literal(1), s.Literal(2.5), s.Literal("x")))),
        ("a not in (b)", s.InList(A, (B,), negated=True)),
        ('a in "10.0.0.0/8"', s.InNetwork(A, s.Literal("10.0.0.0/8"))),
        ("a not in network '::1/128'", s.InNetwork(A, s.Literal("::1/128"), negated=True)),
        ("a is null or b is not null", s.Binary("or", s.IsNull(A), s.IsNull(B, negated=True))),
        ("a = TRUE", s.Binary("=", A, s.Literal(True))),
        ("a = 1e3", s.Binary("=", A, s.Literal(1000.0))),
        ("a = .5", s.Binary("=", A, s.Literal(0.5))),
        ("a = 18446744073709551615", s.Binary("=", A, s.Literal(2**64 - 1))),
        ("a = 'it''s'", s.Binary("=", A, s.Literal("it's"))),
        ('a = "say ""x"" -- not a comment"', s.Binary("=", A, s.Literal('say "x" -- not a comment'))),
        ("`from`.`a``b` = b", s.Binary("=", s.Name(("from", "a`b")), B)),
        ("a -- what\n = b -- that", s.Binary("=", A, B)),
        ("range = slide", s.Binary("=", s.Name(("range",)), s.Name(("slide",)))),
        ("fromage = selection", s.Binary("=", s.Name(("fromage",)), s.Name(("selection",)))),
    ],
)
def test_expressions_group_as_in_sql(text: str, tree: s.Expr) -> None:
    assert where(text) == tree


def test_constants_of_different_types_differ() -> None:
    assert s.Literal(1) != s.Literal(True)
    assert s.Literal(1) != s.Literal(1.0)
    assert len({s.Literal(1), s.Literal(1.0), s.Literal(True), s.Literal(1)}) == 3


def test_spans_point_at_the_text_of_their_nodes() -> None:
    text = 'SELECT a,\n  max(Main.len) AS m [RANGE 10 min, WA ts]\nFROM Main WHERE x + 1 > 2 AND y IN "::/0"'
    lines = text.split("\n")
    query = parse(text)

    def covered(node: t.Any) -> str:
        assert isinstance(node.span, Span)
        return lines[node.span.line - 1][node.span.column - 1 : node.span.end_column - 1]

    select = query.select[1]
    assert covered(select) == "max(Main.len) AS m"
    assert covered(select.expr) == "max(Main.len)"
    assert isinstance(select.expr, s.Call)
    assert covered(select.expr.args[0]) == "Main.len"
    assert query.window is not None
    assert covered(query.window) == "[RANGE 10 min, WA ts]"
    assert covered(query.window.range) == "10 min"
    assert covered(query.source) == "Main"
    assert isinstance(query.where, s.Binary)
    assert covered(query.where.l) == "x + 1 > 2"
    assert isinstance(query.where.r, s.InNetwork)
    assert covered(query.where.r.network) == '"::/0"'
    assert covered(query) == "SELECT a,"


def test_the_grammar_and_the_scanner_reserve_the_same_words() -> None:
    grammar = resources.files("oop_engine.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    match = re.search(r"^NAME\S* /\(\?!\(\?:(.*?)\)", grammar, re.MULTILINE)
    assert match is not None
    assert frozenset(match[1].split("|")) == RESERVED


def test_importing_the_language_does_not_load_the_grammars_library() -> None:
    code = "import sys, oop_engine.language; sys.exit('lark' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0


# Whatever is no query


def refusal(text: str) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    return caught.value


def test_depth_is_limited_whatever_makes_it() -> None:
    deepest = MAX_DEPTH - 1
    assert where("not " * deepest + "a")
    assert where("a + " * MAX_LINKS + "a")
    assert where("a and " * MAX_LINKS + "a")
    assert where("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == A
    for text in (
        "not " * MAX_DEPTH + "a",
        "not " * 20_000 + "a",
        "a + (" * 63 + "a + a" + ")" * 63,
    ):
        assert "64 levels deep" in refusal(f"SELECT * FROM Main WHERE {text}").message
    for text in (
        "a + " * (MAX_LINKS + 1) + "a",
        "a or " * 10_000 + "a",
        "(" + "a * " * 200 + "a)" + " + a" * 100,
    ):
        told = refusal(f"SELECT * FROM Main WHERE {text}")
        assert told.message == "more than 256 operators stand in a row here." and "IN (a, b, ...)" in told.hint
    for text in (
        "(" * 10_000 + "a" + ")" * 10_000,
        "(" * 10_000,
        "f(" * 10_000 + "a" + ")" * 10_000,
    ):
        assert "64 brackets" in refusal(f"SELECT * FROM Main WHERE {text}").message
    nested = "(SELECT a FROM " * 70 + "M" + ")" * 70
    assert "64 brackets" in refusal(f"SELECT a FROM {nested}").message


def test_length_is_limited() -> None:
    text = "SELECT a FROM M WHERE a = 1"
    assert parse(text + " " * (100_000 - len(text)))
    told = refusal(text + " " * 100_000)
    assert told.message == "the query has 100027 characters; at most 100000 are read."
    assert told.line == 0 and ".isin(values)" in told.hint


_PIECES = """SELECT FROM WHERE GROUP BY GROUP-BY HAVING UNION AS AND OR NOT BETWEEN IN IS NULL NETWORK RANGE
SLIDE WA RATTR SATTR PA ORIGIN NO PARTIAL TUMBLING ALL DISTINCT row-num arrival-ts count(*) sum(len) srcIP ts
Main 10 1.5 .5 1e400 minutes rows s 9999999999999999999999 ( ) [ ] , ; . * + - / % = <> != == < -- ∪ " ' `
'x' "10.0.0.0/8" `a` é ſelect ٣ @ # $ \\"""
PIECES = [*_PIECES.split(), "\n", "\t", "\x00", "\ud800", "\u2028"]

SOUND = [text for text, _ in THESIS.values()]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a query of the thesis with a few places cut out, doubled or overwritten."""
    text = draw(st.sampled_from(SOUND))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        put = draw(st.sampled_from(["", text[start:end] * 2, *PIECES]))
        text = text[:start] + put + text[end:]
    return text


ANY_TEXT = st.one_of(
    mutated(),
    mutated(),
    st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join),
    st.text(max_size=60),
)


@settings(share(150), suppress_health_check=list(HealthCheck))
@given(ANY_TEXT)
def test_any_text_is_a_query_or_a_language_error_that_points_into_it(text: str) -> None:
    try:
        query = parse(text)
    except LanguageError as error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert not re.search(r"\b_[A-Z]|__ANON|INTEGER|QUOTED|\$END", error.message.partition("found")[0])
        # The message may be long, but the text shown under it may not.
        assert all(len(line) <= 78 for line in str(error).split("\n")[1:3])
    else:
        assert isinstance(query, Query)


def test_a_lark_that_loads_no_tables_computes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list[bytes]()
    monkeypatch.setattr(disk_cache, "recall", lambda name, key: None)
    monkeypatch.setattr(disk_cache, "remember", lambda name, key, data: kept.append(data))
    monkeypatch.delattr(lark.Lark, "load")
    grammar_of = t.cast(t.Any, sys.modules["oop_engine.language.parse"])._grammar.__wrapped__
    assert grammar_of("alone").parse("length > 100")
    assert kept == []


def test_a_grammar_that_was_kept_reads_and_refuses_as_one_that_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar_of = t.cast(t.Any, sys.modules["oop_engine.language.parse"])._grammar.__wrapped__
    kept = dict[tuple[str, str], bytes]()
    monkeypatch.setattr(disk_cache, "recall", lambda name, key: kept.get((name, key)))
    monkeypatch.setattr(disk_cache, "remember", lambda name, key, data: kept.update({(name, key): data}))
    for rule, good, bad in (
        ("start", "SELECT a, count(*) [RANGE 1 s, WA ts] FROM M WHERE a > 2", "SELECT a b c FROM"),
        ("alone", "length * 8 > 1000 AND NOT a IS NULL", "length * > 1"),
    ):
        made, loaded = grammar_of(rule), grammar_of(rule)
        assert len(kept) == 1
        kept.clear()
        assert loaded.parse(good) == made.parse(good)
        said = list[str]()
        for grammar in (made, loaded):
            with pytest.raises(UnexpectedInput) as refused:
                grammar.parse(bad)
            said.append(str(diagnose(grammar, refused.value, bad, what="query")))
        assert said[0] == said[1]
