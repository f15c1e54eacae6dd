"""Conditions joined by `and` or `or` have the truth of three-valued logic, in whatever order they are computed."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Column, Expression, Literal, Opaque
from operators.expression.bound import Datum
from operators.expression.junction import Junction, Part
from operators.expression.tree import Call, Logical

SCHEMA = Schema.of(a=pa.int64(), b=pa.int64(), t=pa.string())
Row = tuple[int | None, int | None, str | None]
Truth = bool | None
NUMBERS = st.one_of(st.none(), st.integers(0, 6))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([None, "", "x", "ax", "xa", "y"])), max_size=40)

A, B, T = Column("a"), Column("b"), Column("t")


def given_both(function: Callable[[int, int], bool], one: int | None, other: int | None) -> Truth:
    return None if one is None or other is None else function(one, other)


LEAVES: list[tuple[Expression, Callable[[Row], Truth]]] = [
    (A > 3, lambda r: None if r[0] is None else r[0] > 3),
    (A == B, lambda r: given_both(lambda a, b: a == b, r[0], r[1])),
    (B.is_null(), lambda r: r[1] is None),
    (A.isin([0, 1, 5]), lambda r: None if r[0] is None else r[0] in (0, 1, 5)),
    (~B.isin([2, 3]), lambda r: None if r[1] is None else r[1] not in (2, 3)),
    (Call("like", (T, Literal("%x%"))), lambda r: None if r[2] is None else "x" in r[2]),
    (Call("regexp_matches", (T, Literal("^[xy]"))), lambda r: None if r[2] is None else bool(re.match("[xy]", r[2]))),
    (Call("starts_with", (T, Literal("a"))), lambda r: None if r[2] is None else r[2].startswith("a")),
    (A.between(1, 4), lambda r: None if r[0] is None else 1 <= r[0] <= 4),
    (Literal(True), lambda r: True),
]


def joined(op: str, truths: Sequence[Truth]) -> Truth:
    """Join truths as SQL does."""
    decides = op == "or"
    if decides in truths:
        return decides
    return None if None in truths else not decides


Node = tuple[Expression, Callable[[Row], Truth]]


def chain(op: str, nodes: Sequence[Node]) -> Node:
    whole = nodes[0][0]
    for expression, _ in nodes[1:]:
        whole = Logical(op, whole, expression)
    return whole, lambda row: joined(op, [truth(row) for _, truth in nodes])


TREES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.builds(chain, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
    max_leaves=8,
)


@given(tree=TREES, pages=st.lists(ROWS, min_size=1, max_size=4))
def test_truth_is_that_of_each_row_whatever_was_seen_before(tree: Node, pages: list[list[Row]]) -> None:
    expression, truth = tree
    bound = expression.bind(SCHEMA)
    for rows in pages:
        assert bound.evaluate(Page.of_rows(SCHEMA, rows)).to_pylist() == [truth(row) for row in rows]


@given(rows=ROWS, op=st.sampled_from(["and", "or"]))
def test_what_is_written_first_guards_what_is_not_defined(rows: list[Row], op: str) -> None:
    """A product that does not fit is an error unless a condition before it decides, also one that takes long."""
    fits = A.isin([0, 1]) if op == "and" else ~A.isin([0, 1])
    whole = Logical(op, Logical(op, Call("like", (T, Literal("%x%"))), fits), A * 2**62 > 1).bind(SCHEMA)

    def truth(row: Row) -> Truth:
        a, _, t = row
        text, fit = None if t is None else "x" in t, None if a is None else (a < 2) == (op == "and")
        known = joined(op, [text, fit])
        return known if a is None or a > 1 else joined(op, [known, a == 1])

    page = Page.of_rows(SCHEMA, rows)
    assert whole.evaluate(page).to_pylist() == [truth(row) for row in rows]


def test_a_product_that_nothing_guards_is_an_error() -> None:
    whole = (Call("like", (T, Literal("x%"))) & (A * 2**62 > 1)).bind(SCHEMA)
    assert whole.evaluate(Page.of_rows(SCHEMA, [(3, 1, "y"), (1, 1, "x")])).to_pylist() == [False, True]
    with pytest.raises(ArithmeticError):
        whole.evaluate(Page.of_rows(SCHEMA, [(3, 1, "x")]))


def counting(asked: list[int], keeps: int) -> Callable[[Page], Datum]:
    """Return a condition that holds for every `keeps`-th value of a, and notes how many tuples it is asked about."""

    def run(page: Page) -> Datum:
        asked.append(len(page))
        return pa.array([value % keeps == 0 for value in page.column("a").to_pylist()])

    return run


def test_a_dear_condition_is_asked_about_open_tuples_alone_and_the_one_that_decides_most_first() -> None:
    cheap, wide, narrow = list[int](), list[int](), list[int]()
    parts = [Part(counting(wide, 2), ("a",), 20.0), Part(counting(narrow, 50), ("a",), 20.0)]
    run = Junction.run([Part(counting(cheap, 4), ("a",), 1.0), *parts], conjunction=True, movable=True)
    page = Page.of(Schema.of(a=pa.int64()), {"a": np.arange(1_000)})
    for _ in range(3):
        found = run(page)
        assert isinstance(found, pa.Array) and found.to_pylist() == [i % 100 == 0 for i in range(1_000)]
    assert cheap == [1_000] * 3
    # Every fourth tuple is open; all of them are even, and every 25th of them is a multiple of 50.
    assert wide == [250, 10, 10] and narrow == [250] * 3
    Junction.run(parts, conjunction=True, movable=False)(page)
    assert wide[3:] == [1_000] and narrow[3:] == [500], "they stay in the order in which they are written"


def test_a_condition_that_most_tuples_are_open_for_is_asked_about_all() -> None:
    first, second = list[int](), list[int]()
    parts = [Part(counting(first, 1), ("a",), 1.0), Part(counting(second, 3), ("a",), 20.0)]
    run = Junction.run(parts, conjunction=True, movable=True)
    found = run(Page.of(Schema.of(a=pa.int64()), {"a": np.arange(9)}))
    assert isinstance(found, pa.Array) and found.to_pylist() == [i % 3 == 0 for i in range(9)]
    assert (first, second) == ([9], [9])


def test_what_is_no_truth_value_is_refused_wherever_it_stands() -> None:
    with pytest.raises(SchemaError, match='"t" is of type string; and, or, not take truth values'):
        ((A > 3) & (B > 2) & T).bind(SCHEMA)


def test_a_function_of_pages_is_asked_about_all_tuples() -> None:
    asked: list[int] = []

    def even(page: Page) -> list[bool]:
        asked.append(len(page))
        return [a is not None and a % 2 == 0 for a in page.column("a").to_pylist()]

    whole = (Call("like", (T, Literal("x%"))) & Opaque(even, result=pa.bool_())).bind(SCHEMA)
    page = Page.of_rows(SCHEMA, [(i, 0, "x" if i == 4 else "y") for i in range(9)])
    assert whole.evaluate(page).to_pylist() == [i == 4 for i in range(9)] and asked[-1] == 9


def test_a_chain_may_be_long() -> None:
    among = functools.reduce(operator.or_, [number == A for number in range(3_000)])
    assert (among & (B > 2)).bind(SCHEMA).evaluate(Page.of_rows(SCHEMA, [(7, 3, ""), (-7, 3, "")])).to_pylist() == [
        True, False,
    ]  # fmt: skip
