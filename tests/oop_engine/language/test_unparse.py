"""Canonical text parses back to the tree it was made from."""

from __future__ import annotations

import typing as t
from decimal import Decimal

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from oop_engine.language import Duration, Query, parse, unparse, unparse_expression
from oop_engine.language import syntax as s
from oop_engine.language.build import SHARED_BY_ALL
from oop_engine.plan.durations import LARGEST, MINUTE
from tests.examples import share

WORDS = [
    "ts",
    "srcIP",
    "row_num",
    "arrival_ts",
    "ROW_NUM",
    "row-num",
    "from",
    "Select",
    "range",
    "network",
    "case",
    "When",
    "end",
    "like",
    "lookup",
    "valid",
    "at",
    "wait",
    "revise",
    "within",
]
IDENTIFIERS = st.one_of(st.sampled_from(WORDS), st.text(min_size=1, max_size=5))
NAMES = st.lists(IDENTIFIERS, min_size=1, max_size=3).map(lambda parts: s.Name(tuple(parts)))
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.floats(0, allow_infinity=False, allow_nan=False).map(abs),
    st.decimals(0, 10**30, allow_nan=False, places=9),
    st.text(max_size=8),
).map(s.Literal)
STRINGS = st.text(max_size=8).map(s.Literal)
FUNCTIONS = st.sampled_from(["count", "sum", "argmin", "min", "range"])
OPERATORS = st.sampled_from(t.get_args(s.BinaryOperator))


def _larger(expr: st.SearchStrategy[t.Any]) -> st.SearchStrategy[t.Any]:
    args = st.lists(expr, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(s.Unary, st.sampled_from(["-", "not"]), expr),
        st.builds(s.Binary, OPERATORS, expr, expr),
        st.builds(s.Between, expr, expr, expr, negated=st.booleans()),
        st.builds(s.InList, expr, args, negated=st.booleans()),
        st.builds(s.InNetwork, expr, STRINGS, negated=st.booleans()),
        st.builds(s.IsNull, expr, negated=st.booleans()),
        st.builds(s.Call, st.sampled_from(["like", "ilike", "has"]), st.tuples(expr, expr)),
        st.builds(s.Call, st.just("case"), st.lists(expr, min_size=2, max_size=5).map(tuple)),
        st.builds(s.Call, FUNCTIONS, args, distinct=st.booleans()),
        st.builds(s.Call, FUNCTIONS, st.just(()), star=st.just(True)),
    )


EXPRESSIONS: st.SearchStrategy[t.Any] = st.recursive(st.one_of(NAMES, LITERALS), _larger, max_leaves=8)
ALIASES = st.none() | IDENTIFIERS


def durations(least: int = 1) -> st.SearchStrategy[Duration]:
    units = st.sampled_from(["ns", "rows", "plain"])
    values = st.one_of(st.integers(least, LARGEST), st.integers(1, 100).map(lambda count: count * MINUTE))
    return st.builds(Duration, values, units, st.just(""))


STEPS: st.SearchStrategy[s.Step] = st.one_of(
    st.builds(s.Numbered, IDENTIFIERS),
    st.builds(s.Deduped, st.lists(NAMES, max_size=2).map(tuple), ALIASES),
    st.builds(
        s.Spread,
        st.lists(NAMES, min_size=1, max_size=2).map(tuple),
        durations(),
        st.none() | st.tuples(NAMES, NAMES),
    ),
)
REACHES = st.one_of(
    st.builds(s.Band, durations(), durations(-LARGEST) | STRINGS),
    st.builds(s.Marked, NAMES),
    st.builds(s.When, EXPRESSIONS, st.none() | EXPRESSIONS, within=st.none() | durations()),
    st.builds(s.When, EXPRESSIONS, next=st.just(True), within=st.none() | durations()),
    st.builds(s.Calendar, st.sampled_from(["day", "month"]), st.sampled_from(["UTC", "Europe/Berlin", 'a"b'])),
)
WORD = st.sampled_from(["panes", "slicing", "auto", "store", "lazy"])
FLUSHES = st.builds(
    s.Flush, WORD.map(str.lower), st.lists(st.tuples(WORD, WORD | st.integers(0, 99)), max_size=2).map(tuple)
)
STRATEGIES = st.builds(s.Strategy, WORD, st.lists(st.tuples(WORD, WORD | st.integers(0, 99)), max_size=2).map(tuple))
MOMENTS = durations() | st.sampled_from([50, 99, 12.5, 0.1]).map(s.Literal)
SHARED = st.fixed_dictionaries(
    {"consistent": st.booleans(), "empty": st.booleans(), "lateness": st.none() | durations(),
     "strategy": st.none() | STRATEGIES}
)  # fmt: skip
REFINEMENTS = st.sampled_from(["accumulate", "discard", "retract"])
AT = st.lists(MOMENTS, min_size=1, max_size=2).map(tuple)
FIRING = st.one_of(
    st.fixed_dictionaries({"early": durations(), "refine": REFINEMENTS}),
    st.fixed_dictionaries({"early": st.none() | durations(), "at": AT, "refine": REFINEMENTS}),
)


@st.composite
def windows(draw: st.DrawFn, *, tumbling: bool | None = None, closed: bool = True) -> s.WindowClause:
    tumbling = draw(st.booleans()) if tumbling is None else tumbling
    length = draw(durations()) if tumbling else draw(st.one_of(durations(), st.just(s.All())))
    more: dict[str, t.Any] = {}
    if not tumbling and draw(st.booleans()):
        return s.WindowClause(range=draw(REACHES), wattr=draw(st.none() | NAMES), **draw(SHARED))
    if draw(st.booleans()):
        more["wattr"] = draw(st.none() | NAMES)
    else:
        more["rattr"] = draw(NAMES)
        more["sattr"] = draw(NAMES | st.builds(s.Call, st.just("rank"), NAMES.map(lambda name: (name,))))
    return s.WindowClause(
        range=length,
        tumbling=tumbling,
        slide=None if tumbling else draw(st.none() | durations()),
        partition=tuple(draw(st.lists(NAMES, max_size=2))),
        origin=draw(st.none() | durations(-LARGEST) | STRINGS),
        partial=draw(st.booleans()),
        closed=closed and draw(st.booleans()),
        idle=draw(st.booleans()),
        **more,
        **draw(SHARED),
        **draw(st.just({}) | FIRING),
    )


@st.composite
def several(draw: st.DrawFn) -> tuple[s.WindowClause, ...]:
    """Return windows beside one another; the first has what holds for all."""
    names = draw(st.lists(IDENTIFIERS, min_size=1, max_size=3, unique=True))
    clauses = [draw(windows(closed=False)) for _ in names]
    usual = {field: getattr(attrs.fields(s.WindowClause), field).default for field in SHARED_BY_ALL}
    first, *others = [attrs.evolve(w, name=name, partition=()) for w, name in zip(clauses, names, strict=True)]
    return first, *(attrs.evolve(other, **usual) for other in others)


@st.composite
def sources(draw: st.DrawFn, depth: int, *, window: bool = True) -> s.Table | s.Union | s.SubQuery:
    windowed = st.none() | windows() if window else st.none()
    steps = tuple(draw(st.lists(STEPS, max_size=2)))
    more: dict[str, t.Any] = {"alias": draw(ALIASES), "window": draw(windowed), "steps": steps}
    kind = draw(st.sampled_from(["table", "union", "query"])) if depth else "table"
    if kind == "union":
        items = draw(st.lists(sources(depth - 1), min_size=2, max_size=3))
        return s.Union(tuple(items), **more)
    if kind == "query":
        return s.SubQuery(draw(queries(depth - 1)), **more)
    return s.Table(draw(IDENTIFIERS), **more)


@st.composite
def joins(draw: st.DrawFn, depth: int) -> s.Join:
    if draw(st.booleans()):
        items = draw(st.lists(sources(depth, window=False), min_size=2, max_size=3))
        return s.Join(tuple(items), window=draw(windows(tumbling=True)))
    # A tumbling window after the last input alone would be the whole join's, so the first has one here.
    first = draw(sources(depth, window=False))
    first = type(first)(**{**_fields(first), "window": draw(windows())})
    others = draw(st.lists(sources(depth), min_size=1, max_size=2))
    if len(others) == 1 and draw(st.booleans()):
        kind: t.Any = draw(st.sampled_from(["inner", "left", "right", "full", "anti"]))
        stated = draw(st.sampled_from(["many to many", "many to one", "one to many", "one to one"]))
        options: t.Any = {"flush": draw(st.none() | FLUSHES), "cardinality": stated}
        return s.Join((first, *others), kind=kind, on=draw(EXPRESSIONS), **options)
    return s.Join((first, *others))


def _fields(source: s.Table | s.Union | s.SubQuery) -> dict[str, t.Any]:
    names = {s.Table: "name", s.Union: "items", s.SubQuery: "query"}
    return {name: getattr(source, name) for name in (names[type(source)], "alias", "steps")}


@st.composite
def lookups(draw: st.DrawFn) -> s.Lookup:
    valid_from, wait = draw(st.none() | NAMES), draw(st.booleans())
    return s.Lookup(
        draw(IDENTIFIERS),
        draw(EXPRESSIONS),
        alias=draw(ALIASES),
        path=draw(st.booleans()),
        required=draw(st.booleans()),
        valid_from=valid_from,
        at=None if valid_from is None else draw(st.none() | NAMES),
        wait=wait,
        revise=None if wait else draw(st.none() | durations()),
    )


@st.composite
def queries(draw: st.DrawFn, depth: int = 1) -> Query:
    stars = (st.none() | IDENTIFIERS).map(lambda stream: s.SelectItem(s.Star(stream=stream), None))
    items = st.one_of(stars, st.builds(s.SelectItem, EXPRESSIONS, ALIASES))
    window, *beside = draw(st.just((None,)) | windows(closed=False).map(lambda one: (one,)) | several())
    grouped = st.builds(s.SelectItem, EXPRESSIONS, ALIASES).map(_plain_name)
    limit = draw(st.none() | st.integers(1, 999_999_999).map(s.Literal))
    return Query(
        select=tuple(draw(st.lists(items, min_size=1, max_size=3))),
        window=window,
        beside=tuple(beside),
        source=draw(st.one_of(sources(depth, window=False), joins(depth))),
        lookups=tuple(draw(st.lists(lookups(), max_size=2))),
        where=draw(st.none() | EXPRESSIONS),
        group_by=tuple(draw(st.lists(grouped, max_size=2))),
        having=draw(st.none() | EXPRESSIONS),
        distinct=draw(st.booleans()),
        order=tuple(draw(st.lists(st.builds(s.OrderItem, EXPRESSIONS, descending=st.booleans()), max_size=2))),
        limit=limit,
        within=() if limit is None else tuple(draw(st.lists(NAMES, max_size=2))),
    )


def _plain_name(item: s.SelectItem) -> s.Name | s.SelectItem:
    return item.expr if isinstance(item.expr, s.Name) and item.alias is None else item


@settings(share(10), suppress_health_check=list(HealthCheck))
@given(queries())
def test_parsing_canonical_text_gives_the_tree_back(tree: Query) -> None:
    text = unparse(tree)
    assert parse(text) == tree
    assert unparse(parse(text)) == text


@settings(share(15), suppress_health_check=list(HealthCheck))
@given(EXPRESSIONS)
def test_expressions_keep_their_grouping(expr: t.Any) -> None:
    assert parse(f"SELECT * FROM M WHERE {unparse_expression(expr)}").where == expr


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("select srcip,count( * )[slide 60 s,range 600s,wattr ROW-NUM]from M group-by srcip;",
         "SELECT srcip, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA row_num] FROM M GROUP BY srcip"),
        ("SELECT a FROM (A UNION (B union C)) AS x, `D e` [RANGE TUMBLING 1500 ms, WA ts],  WHERE a='x'",
         'SELECT a FROM A UNION (B UNION C) AS x, `D e` [RANGE TUMBLING 1.5 s, WA ts] WHERE a = "x"'),
        ("SELECT ((a)) + (b * c) - (-(-1)) FROM M", "SELECT a + b * c - -(-1) FROM M"),
        ("SELECT a FROM M WHERE (not (a)) and (b != 1) or ((c) in NETWORK '::/0')",
         'SELECT a FROM M WHERE NOT a AND b <> 1 OR c IN "::/0"'),
        ("SELECT m . *, +a, a//(+b %c) FROM M", "SELECT m.*, a, a // (b % c) FROM M"),
        ("SELECT 12345678901234567.890, 0.10 FROM M", "SELECT 12345678901234567.890, 0.1 FROM M"),
    ],
)  # fmt: skip
def test_text_is_canonical(written: str, canonical: str) -> None:
    assert unparse(parse(written)) == canonical
    assert parse(canonical) == parse(written)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1, -0.5, Decimal("Infinity"), Decimal("-0.1")])
def test_a_constant_no_text_says_is_refused(value: float | Decimal) -> None:
    with pytest.raises(ValueError, match="no query text says the constant"):
        unparse_expression(s.Literal(value))


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="empty name"):
        unparse_expression(s.Name(("",)))
