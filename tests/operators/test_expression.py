"""Expressions mean what they mean on one tuple, they are checked at assembly, and a user's function is called once."""

from __future__ import annotations

import datetime
import doctest
import ipaddress
import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.errors import SchemaError
from operators.expression import Column, Expression, Literal, Logical, Opaque, Tracer, trace, tracing, tree
from operators.page import Page, Row, Scalar
from operators.schema import Schema, ip_field
from operators.testing.streams import cells
from tests.naive import naive_expression

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("s", "UTC")),
            pa.field("length", pa.int32()),
            pa.field("big", pa.int64()),
            pa.field("u", pa.uint64()),
            pa.field("f", pa.float64()),
            pa.field("k", pa.string()),
            pa.field("b", pa.bool_()),
            pa.field("gap", pa.duration("ms")),
            ip_field("srcIP"),
        ]
    )
)
C = Column


def page_of(**columns: list[object]) -> Page:
    """Make a page of SCHEMA; attributes that are not named are null."""
    length = len(next(iter(columns.values())))
    return Page.of(SCHEMA, {name: columns.get(name, [None] * length) for name in SCHEMA.names})


def values(expression: Expression, **columns: list[object]) -> list[Scalar]:
    """Evaluate an expression on a page of SCHEMA, times as integers."""
    page = page_of(**columns)
    found = expression.evaluate(page)
    assert len(found) == len(page) and found.type == expression.type(SCHEMA)
    return (found.view(pa.int64()) if pa.types.is_temporal(found.type) else found).to_pylist()


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Expression:
    """Draw an expression that gives a number."""
    leaf = depth == 0 or draw(st.booleans())
    if leaf:
        return draw(
            st.sampled_from([C("length"), C("big"), C("f"), C("len")])
            | st.builds(Literal, st.integers(-3, 3) | st.sampled_from([2**62, -(2**63), 0.5, 2.0]))
        )
    one, other = draw(numbers(depth - 1)), draw(numbers(depth - 1))
    if isinstance(one, Literal):
        one = C("big")
    operation: Callable[[Expression, Expression], Expression] = draw(
        st.sampled_from(
            [
                lambda a, b: a + b,
                lambda a, b: b - a,
                lambda a, b: a * b,
                lambda a, b: a / b,
                lambda a, b: b // a,
                lambda a, b: a // b,
                lambda a, b: a % b,
                lambda a, b: -a,
                lambda a, b: abs(a),
            ]
        )
    )
    return operation(one, other)


@st.composite
def truths(draw: st.DrawFn, depth: int = 2) -> Expression:
    """Draw an expression that gives a truth value."""
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    if depth == 0 or draw(st.booleans()):
        address = st.sampled_from(["10.0.0.1", "10.0.0.2", "192.168.1.0", "::1", "9.9.9.9"])
        moment = st.sampled_from(["1970-01-01T00:00:01Z", "1970-01-01T00:00:01.5", "1970-01-01T01:00:02+01:00"])
        return draw(
            st.builds(lambda a, b: tree.Comparison(op, a, b), numbers(1), numbers(0))
            | st.builds(lambda a: tree.Comparison(op, C("srcIP"), Literal(a)), address)
            | st.builds(lambda a: tree.Comparison(op, Literal(a), C("ts")), moment)
            | st.builds(lambda a: tree.Comparison(op, C("ts"), Literal(a)), st.integers(-1, 3))
            | st.builds(lambda a: tree.Comparison(op, C("k"), Literal(a)), st.sampled_from(["", "a", "b", "c"]))
            | st.builds(lambda a: C("srcIP").isin(a), st.lists(address | st.none(), max_size=2))
            | st.builds(lambda a: C("k").isin(a), st.lists(st.sampled_from(["a", "", None]), max_size=2))
            | st.builds(
                lambda a: C("length").isin(a), st.lists(st.sampled_from([0, 1, 2.0, 2.5, 2**40, None]), max_size=3)
            )
            | st.builds(lambda a: C("f").isin(a), st.lists(st.sampled_from([0, 1.5, math.nan, -0.0]), max_size=3))
            | st.builds(lambda a: C("srcIP").in_network(a), st.sampled_from(["10.0.0.0/31", "::/0", "192.168.0.0/16"]))
            | st.builds(lambda a, b: C("big").between(a, b), st.integers(-2, 2), st.integers(-2, 2))
            | st.sampled_from([C("b"), C("f").is_null(), C("b") == True, C("b") != C("b")])  # noqa: E712
        )
    one, other = draw(truths(depth - 1)), draw(truths(depth - 1))
    return draw(st.sampled_from([one & other, one | other, ~one, Logical("or", other, ~one)]))


def tables() -> st.SearchStrategy[list[Row]]:
    """Draw a few tuples of SCHEMA with nulls."""
    return st.lists(
        st.fixed_dictionaries({f.name: st.sampled_from([None, *cells(f)]) for f in SCHEMA.arrow}), max_size=4
    )


@settings(deadline=None, max_examples=100)
@given(truths() | numbers(), tables())
def test_an_expression_means_on_a_page_what_it_means_on_each_tuple(expression: Expression, table: list[Row]) -> None:
    page = Page.of_rows(SCHEMA, [[row[name] for name in SCHEMA.names] for row in table])
    fault: type[Exception] | None = None
    wanted: list[Scalar] = []
    try:
        wanted = [naive_expression(expression, row, SCHEMA) for row in table]
    except ArithmeticError as error:
        fault = type(error)
    try:
        found = expression.evaluate(page).to_pylist()
    except ArithmeticError:
        assert fault is not None, expression
        return
    assert fault is None, f"{expression} should have been refused: {fault}"
    assert [repr(v) for v in found] == [repr(v) for v in wanted], str(expression)


def test_comparisons_with_a_null_are_null_and_logic_is_three_valued() -> None:
    assert values(C("length") > 4, length=[5, None, 3]) == [True, None, False]
    assert values((C("length") > 4) | (C("f") > 0), length=[None, None], f=[1.0, -1.0]) == [True, None]
    assert values((C("length") > 4) & (C("f") > 0), length=[None, None], f=[1.0, -1.0]) == [None, False]
    assert values(~(C("length") > 4), length=[5, None]) == [False, None]


def test_an_integer_compares_exactly_with_fractions_and_with_what_it_cannot_hold() -> None:
    column: list[object] = [2, 3, None]
    assert values(C("length") < 2.5, length=column) == [True, False, None]
    assert values(C("length") >= 2.5, length=column) == [False, True, None]
    assert values(C("length") == 2.5, length=column) == [False, False, None]
    assert values(C("length") < 10**30, length=column) == [True, True, None]
    assert values(C("length") > -math.inf, length=column) == [True, True, None]
    assert values(C("length") != math.nan, length=column) == [True, True, None]
    assert values(C("big") < 2**53 + 1.0, big=[2**53 + 1, 2**53]) == [False, False]
    assert values(C("u") > C("big"), u=[2**64 - 1, 0], big=[-1, -1]) == [True, True]


def test_addresses_compare_in_network_order() -> None:
    addresses = ("::ffff:10.0.0.1", "::ffff:200.0.0.0", "2001:db8::")
    source: list[object] = [ipaddress.ip_address(a).packed for a in addresses]
    assert values(C("srcIP") == "10.0.0.1", srcIP=source) == [True, False, False]
    assert values(C("srcIP") < "128.0.0.0", srcIP=source) == [True, False, False]
    assert values(C("srcIP").in_network("2001::/16"), srcIP=source) == [False, False, True]
    assert values(C("srcIP") == ipaddress.ip_address("200.0.0.0"), srcIP=source) == [False, True, False]


def test_times_compare_with_text_and_ticks_and_move_by_durations() -> None:
    ts: list[object] = [0, 1, 7, None]
    assert values(C("ts") < "1970-01-01T00:00:00.5Z", ts=ts) == [True, False, False, None]
    assert values(C("ts") == datetime.datetime(1970, 1, 1, 0, 0, 7, tzinfo=datetime.UTC), ts=ts) == [
        False,
        False,
        True,
        None,
    ]
    assert values(C("ts") >= 1, ts=ts) == [False, True, True, None]
    assert values(C("ts") + "5 s", ts=ts) == [5, 6, 12, None]
    assert values("1 minute" + C("ts"), ts=ts) == [60, 61, 67, None]
    assert values(C("ts") // "5 s", ts=ts) == [0, 0, 1, None]
    assert values(C("ts") % "5 s", ts=ts) == [0, 1, 2, None]
    assert values(C("ts") - C("ts"), ts=ts) == [0, 0, 0, None]
    assert values(C("ts") + C("gap"), ts=[1], gap=[2500]) == [3500]
    assert (C("ts") + C("gap")).type(SCHEMA) == pa.timestamp("ms", "UTC")
    assert values(C("gap") * 3, gap=[2]) == [6] and values(C("gap") / "1 ms", gap=[2]) == [2.0]


def test_what_does_not_fit_64_bits_is_refused_naming_the_tuple() -> None:
    with pytest.raises(OverflowError, match=r"big \* 2 does not fit int64: tuple 1 of the page has \d+ \* 2"):
        (C("big") * 2).evaluate(page_of(big=[1, 2**62]))
    with pytest.raises(ZeroDivisionError, match="big % length: division by zero in tuple 1"):
        (C("big") % C("length")).evaluate(page_of(big=[1, 2], length=[1, 0]))
    assert values(C("big") // C("length"), big=[1, None], length=[None, 0]) == [None, None]
    assert values(C("length") + 1, length=[2**31 - 1]) == [2**31]
    assert values(C("u") + 1, u=[2**63]) == [2**63 + 1]
    with pytest.raises(OverflowError):
        (-C("big")).evaluate(page_of(big=[-(2**63)]))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (C("lenght") > 1, 'has no attribute "lenght"(.|\n)*Did you mean "length"'),
        (C("k") > 100, '"k" is text .string. and does not go with 100, which is an integer(.|\n)*text in quotes'),
        (C("length") == "100", '"length" is an integer .int32. and does not go with "100"(.|\n)*without quotes'),
        (C("srcIP") == 7, "an address as text"),
        (C("srcIP") == "10.0.0.300", "10.0.0.300"),
        (C("srcIP").in_network("10.0.0.0/99"), "10.0.0.0/99"),
        (C("length").in_network("10.0.0.0/8"), "only an IP address is in a network"),
        (C("ts") < "noon", '"noon" is not a time(.|\n)*ISO 8601'),
        (C("ts") < 1.5, "does not go with 1.5"),
        (C("ts") + "5 parsecs", 'unknown unit "parsecs"'),
        (C("ts") + "5 ms", "finer than that"),
        (C("ts") * 2, "these have no \\*"),
        (C("ts") < C("k"), "timestamp and text do not compare"),
        (C("k") + 1, "\\+ is for numbers and times"),
        (C("length") & C("b"), "take truth values"),
        (C("length") == None, "is_null"),  # noqa: E711
        (C("b") < True, "truth values have no order"),
        (-C("k"), "- is for numbers"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_at_assembly(expression: Expression, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        expression.bind(SCHEMA)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((C("len") > 100) & ~(C("k") == "a"), 'len > 100 and not k = "a"'),
        ((C("b") | C("b")) & C("b"), "(b or b) and b"),
        (C("a b") - (C("x") - 1), "`a b` - (x - 1)"),
        (-(C("x") + 1) * 2, "-(x + 1) * 2"),
        (abs(C("x")).between(1, C("y") // 2), "abs(x) between 1 and y // 2"),
        (C("x").isin([1, "a", None]), 'x in (1, "a", null)'),
        (C("x").in_network("10.0.0.0/8"), 'x in "10.0.0.0/8"'),
        (C("x") == 'say "hi"', "x = 'say \"hi\"'"),
        (10 - C("x").is_null(), "10 - (x is null)"),
        (np.sqrt(C("x")), "sqrt(x)"),
    ],
)
def test_an_expression_prints_as_a_user_would_write_it(expression: Expression, text: str) -> None:
    assert str(expression) == text


def test_equality_of_trees_is_a_method_because_the_sign_builds_a_comparison() -> None:
    assert (C("x") + 1 > 2).equals(C("x") + 1 > 2)
    assert not (C("x") + 1 > 2).equals(C("x") + 1 > 2.0)
    assert (C("len") + C("big")).reads(SCHEMA, where="test") == {"length", "big"}
    assert isinstance(C("x") == 1, Expression) and len({C("x"), C("x")}) == 2


def test_a_function_of_columns_is_called_once_and_recorded() -> None:
    calls: list[object] = []

    def of_columns(p: Tracer) -> object:
        calls.append(p)
        return (p["len"] * 8 > 1000) & np.logical_not(p["srcIP"] == "10.0.0.1") & (np.int64(3) < p["big"])

    expression = trace(of_columns, SCHEMA)
    assert isinstance(expression, Expression)
    assert str(expression) == 'length * 8 > 1000 and not srcIP = "10.0.0.1" and 3 < big'
    page = page_of(length=[1000], big=[9], srcIP=[bytes(16)])
    assert [expression.evaluate(page).to_pylist() for _ in range(3)] == [[True]] * 3
    assert len(calls) == 1


def test_a_function_may_give_several_named_columns_and_constants() -> None:
    named = trace(lambda p: {"bits": p["len"] * 8, "one": 1}, SCHEMA)
    assert isinstance(named, dict) and {name: str(e) for name, e in named.items()} == {"bits": "length * 8", "one": "1"}


def test_numpys_functions_are_recorded_and_null_stays_null() -> None:
    expression = trace(lambda p: np.hypot(p["length"], p["f"]), SCHEMA)
    assert isinstance(expression, tracing.Ufunc)
    assert values(expression, length=[3, None, 3], f=[4.0, 4.0, None]) == [5.0, None, None]
    with pytest.raises(SchemaError, match="numpy's functions here take numbers"):
        trace(lambda p: np.sqrt(p["k"]), SCHEMA)


def test_and_or_and_chained_comparisons_say_what_to_write() -> None:
    for function in (lambda p: p["len"] > 3 and p["k"] == "a", lambda p: not p["b"], lambda p: 1 < p["len"] < 3):
        with pytest.raises(TypeError, match=r"Write & \| ~ instead of and, or, not"):
            trace(function, SCHEMA)


def test_an_unknown_attribute_in_a_function_is_refused_at_once() -> None:
    with pytest.raises(SchemaError, match='Did you mean "srcIP"'):
        trace(lambda p: p["scrIP"] == "10.0.0.1", SCHEMA)


def test_what_cannot_be_recorded_is_called_once_a_page_with_the_page() -> None:
    pages: list[int] = []

    def needs_arrays(page: Page) -> object:
        lengths = np.asarray(page["length"])
        pages.append(len(lengths))
        return np.where(lengths > 2, 1, 0)

    expression = trace(needs_arrays, SCHEMA)
    assert isinstance(expression, Opaque) and expression.type(SCHEMA) == pa.int64()
    pages.clear()
    bound = expression.bind(SCHEMA)
    assert [bound.evaluate(page_of(length=[1, 2, 3, 4])).to_pylist() for _ in range(2)] == [[0, 0, 1, 1]] * 2
    assert pages == [0, 4, 4]


def test_an_opaque_function_must_give_one_value_a_tuple() -> None:
    with pytest.raises(SchemaError, match="gave 1 values for a page of 0 tuples"):
        trace(lambda p: np.array([np.asarray(p["length"]).sum()]), SCHEMA)
    with pytest.raises(SchemaError, match="fails on an empty page: ValueError"):
        trace(lambda p: np.asarray(p["length"]) - np.asarray(p["length"]).max(), SCHEMA)
    with pytest.raises(SchemaError, match="gave int64 for a page"):
        trace(lambda p: np.asarray(p["length"]).sum(), SCHEMA)
    stated = Opaque(lambda page: np.asarray(page["length"])[:1], result=pa.int32())
    with pytest.raises(SchemaError, match="gave 1 values for a page of 3 tuples"):
        stated.evaluate(page_of(length=[1, 2, 3]))


def test_a_constant_is_something_that_can_be_compared() -> None:
    with pytest.raises(TypeError, match="not \\[1\\]"):
        C("x") == [1]  # noqa: B015
    with pytest.raises(TypeError, match="isin takes a list"):
        C("k").isin("abc")


def test_dictionary_encoded_text_is_text() -> None:
    schema = Schema.of(k=pa.dictionary(pa.int32(), pa.string()))
    page = Page.of(schema, {"k": pa.array(["a", "b", None]).dictionary_encode()})
    assert (C("k") == "a").evaluate(page).to_pylist() == [True, False, None]


def test_the_examples_in_the_docstrings_run() -> None:
    for module in (tree, tracing):
        result = doctest.testmod(module)
        assert result.attempted and not result.failed


def test_a_function_that_needs_arrays_reads_all_there_is_and_gives_null_for_null() -> None:
    schema = Schema.of(x=pa.int64(), y=pa.float64(), z=pa.int64())
    page = Page.of(schema, {"x": [1, None, 3], "y": [1.0, 2.0, None], "z": [None, 5, 6]})
    halved = Opaque(lambda p: p["x"].astype("float64") / 2)
    assert halved.reads(schema, where="test") == {"x", "y", "z"}
    assert (halved + 1).reads(schema, where="test") == {"x", "y", "z"}
    assert halved.evaluate(page).to_pylist() == [0.5, None, 1.5]
    assert Opaque(lambda p: p["x"] + p.ticks("z")).evaluate(page).to_pylist() == [None, None, 9]
    assert Opaque(lambda p: np.where(p["y"] > 1, "a", "b")).evaluate(page).to_pylist() == ["b", "a", None]
    asked = Opaque(lambda p: np.where(p.valid("x"), p["x"], -1))
    assert asked.evaluate(page).to_pylist() == [1, -1, 3]
    assert Opaque(lambda p: p.column("x").fill_null(7)).evaluate(page).to_pylist() == [1, 7, 3]


def test_the_right_side_counts_only_where_the_left_one_does_not_decide() -> None:
    schema = Schema.of(a=pa.int64(), v=pa.int64())
    page = Page.of(schema, {"a": [0, 2, 4, None, 0], "v": [4, 4, 6, 1, 0]})
    divides = C("v") % C("a") == 0
    assert ((C("a") != 0) & divides).evaluate(page).to_pylist() == [False, True, False, None, False]
    assert ((C("a") == 0) | divides).evaluate(page).to_pylist() == [True, True, False, None, True]
    assert ((C("v") > 99) & (C("v") % 0 == 0)).evaluate(page).to_pylist() == [False] * 5
    with pytest.raises(ZeroDivisionError, match="v % a: division by zero"):
        ((C("v") > 0) & divides).evaluate(page)
