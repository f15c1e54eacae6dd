"""Query text says how tuples without a partner leave a join, as Python does, and what does not fit is refused."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import parse, unparse
from oop_engine.plan.graph import OperatorNode
from oop_engine.plan.window_join import WindowJoin
from operators.window_aggregate.partial_final import CompleteFlush, Flush, LazyFlush, SlowFlush

SCHEMA = oop.Schema.of(ts="int64", k="int64")
LEFT = oop.rows([(1, 7), (2, 8), (3, 9)], SCHEMA)
RIGHT = oop.rows([(2, 7), (9, 7)], SCHEMA)
JOIN = "SELECT A.ts FROM A [RANGE 3, WA ts] {kind} JOIN B [RANGE 3, WA ts] ON A.k = B.k {flush}"


def asked(kind: str, flush: str) -> oop.Stream:
    return oop.query(JOIN.format(kind=kind, flush=flush), A=LEFT, B=RIGHT)


def chosen(stream: oop.Stream) -> Flush:
    (node,) = stream.node.inputs if isinstance(stream.node, OperatorNode) else ()
    assert isinstance(node, OperatorNode) and isinstance(node.operator, WindowJoin)
    return node.operator.flush


@pytest.mark.parametrize(
    ("text", "flush"),
    [
        ("", CompleteFlush()),
        ("FLUSH complete", CompleteFlush()),
        ("FLUSH slow", SlowFlush()),
        ("flush Slow(every 3)", SlowFlush(every=3)),
        ("FLUSH slow (every 3, delay 5)", SlowFlush(every=3, delay=5)),
        ("FLUSH lazy(delay 4)", LazyFlush(delay=4)),
    ],
)
def test_a_query_says_how_tuples_without_a_partner_leave(text: str, flush: Flush) -> None:
    query = JOIN.format(kind="ANTI", flush=text)
    assert chosen(asked("ANTI", text)) == flush
    assert parse(unparse(parse(query))) == parse(query)
    assert sorted(row["ts"] for row in asked("ANTI", text).to_arrow().to_pylist()) == [2, 3]


def test_conditions_may_follow_a_flush() -> None:
    text = "FLUSH lazy WHERE A.ts > 1 ORDER BY A.ts"
    assert asked("LEFT", text).to_arrow().to_pylist() == [{"ts": 2}, {"ts": 3}]
    assert oop.query("SELECT flush FROM A", A=oop.rows([(1,)], oop.Schema.of(flush="int64"))).schema.names == ["flush"]


@pytest.mark.parametrize(
    ("kind", "flush", "column", "message"),
    [
        ("", "FLUSH slow", "FLUSH", "only tuples without a partner wait for a flush, and this join gives none"),
        ("SEMI", "FLUSH lazy", "FLUSH", "only tuples without a partner wait for a flush"),
        ("LEFT", "FLUSH slwo", "FLUSH", 'Did you mean "slow"?'),
        ("LEFT", "FLUSH lazy(every 3)", "FLUSH", "this flush has no such option"),
        ("FULL", "FLUSH slow(evry 3)", "FLUSH", 'Did you mean "every"?'),
        ("FULL", "FLUSH slow(every 1.5)", "FLUSH", "write a whole number"),
        ("RIGHT", "FLUSH", "", "expected a word, found the end of the query"),
        ("ANTI", "FLUSH slow FLUSH slow", "FLUSH slow ", 'found "FLUSH"'),
    ],
)
def test_a_flush_that_does_not_fit_is_refused_where_it_stands(kind: str, flush: str, column: str, message: str) -> None:
    with pytest.raises(oop.LanguageError) as caught:
        asked(kind, flush)
    assert message in str(caught.value)
    if column == "FLUSH":
        assert caught.value.column == JOIN.format(kind=kind, flush=flush).index("FLUSH") + 1
