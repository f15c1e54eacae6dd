"""Expressions mean what they mean on one tuple, they are checked at assembly, and a user's function is called once."""

from __future__ import annotations

import datetime
import doctest
import ipaddress
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.data.page import Page, Row, Scalar
from operators.data.schema import Schema, ip_field
from operators.errors import SchemaError
from operators.expression import Column, Expression, Literal, Logical, Opaque, Tracer, trace, tracing, tree
from operators.expression.constants import network_of
from operators.testing.streams import cells
from tests.examples import share
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
            | st.builds(lambda: tree.Comparison(op, C("ts"), Literal(0)))
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


@share(6)
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


def test_a_number_beside_a_column_asks_for_bits() -> None:
    assert values(C("length") & 6, length=[7, 1, None]) == [6, 0, None]
    assert values(6 | C("length"), length=[1, 8, None]) == [7, 14, None]
    assert values((C("length") & 12) >> 2 << 1, length=[4, 8]) == [2, 4]
    assert str((C("length") & 1 == 1) & C("b")) == "length & 1 = 1 and b"


def test_networks_of_version_6_hold_no_address_of_version_4() -> None:
    source: list[object] = [ipaddress.ip_address(a).packed for a in ("::ffff:10.0.0.1", "::", "2001:db8::")]
    assert values(C("srcIP").in_network("::/0"), srcIP=source) == [False, True, True]
    assert values(C("srcIP").in_network("::/1"), srcIP=[*source, None]) == [False, True, True, None]
    assert values(C("srcIP").in_network("0.0.0.0/0"), srcIP=source) == [True, False, False]
    assert values(C("srcIP").in_network("::ffff:0:0/96"), srcIP=source) == [True, False, False]


def test_addresses_compare_in_network_order() -> None:
    addresses = ("::ffff:10.0.0.1", "::ffff:200.0.0.0", "2001:db8::")
    source: list[object] = [ipaddress.ip_address(a).packed for a in addresses]
    assert values(C("srcIP") == "10.0.0.1", srcIP=source) == [True, False, False]
    assert values(C("srcIP") < "128.0.0.0", srcIP=source) == [True, False, False]
    assert values(C("srcIP").in_network("2001::/16"), srcIP=source) == [False, False, True]
    assert values(C("srcIP") == ipaddress.ip_address("200.0.0.0"), srcIP=source) == [False, True, False]


def test_times_compare_with_text_and_move_by_durations() -> None:
    ts: list[object] = [0, 1, 7, None]
    assert values(C("ts") < "1970-01-01T00:00:00.5Z", ts=ts) == [True, False, False, None]
    assert values(C("ts") == datetime.datetime(1970, 1, 1, 0, 0, 7, tzinfo=datetime.UTC), ts=ts) == [
        False,
        False,
        True,
        None,
    ]
    assert values(C("ts") >= 0, ts=ts) == [True, True, True, None]
    assert values(C("ts").cast("int64") >= 1, ts=ts) == [False, True, True, None]
    assert values(C("ts") + "5 s", ts=ts) == [5, 6, 12, None]
    assert values("1 minute" + C("ts"), ts=ts) == [60, 61, 67, None]
    assert values(C("ts") // "5 s", ts=ts) == [0, 0, 1, None]
    assert values(C("ts") % "5 s", ts=ts) == [0, 1, 2, None]
    assert values(C("ts") - C("ts"), ts=ts) == [0, 0, 0, None]
    assert values(C("ts") + C("gap"), ts=[1], gap=[2500]) == [3500]
    assert (C("ts") + C("gap")).type(SCHEMA) == pa.timestamp("ms", "UTC")
    assert values(C("gap") * 3, gap=[2]) == [6] and values(C("gap") / "1 ms", gap=[2]) == [2.0]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (C("ts") > 1367526045, '1367526045 of what(.|\n)*Write "2013-05-02T20:20:45Z" if these are seconds since 1970'),
        (C("ts") > 1367526045123, '"2013-05-02T20:20:45.123Z" if these are milliseconds since 1970; cast'),
        (C("ts") > 1367526045123456789, '"2013-05-02T20:20:45.123456789Z" if these are nanoseconds'),
        (C("ts") > 2**63, 'Write "2262-04-11T23:47:16.854775808Z" if'),
        (C("ts") > 10**30, 'Write ISO 8601 text, e.g. "2026-11-21T10:00:00Z"; cast'),
        (C("ts").isin([5]), 'is a time (.|\n)*5 of what(.|\n)*"1970-01-01T00:00:05Z"'),
        (C("ts").between("1970-01-01", 7), "7 of what"),
        (C("ts") > C("length"), "timestamp and integer do not compare(.|\n)*cast\\(ts, 'int64'\\) counts s since 1970"),
        (C("gap") > 60, 'gap > 60: "gap" is a duration (.|\n)*60 of what(.|\n)*Write "60 s", or "60 ms" for ticks'),
        (C("gap") > 60_000_000, 'Write "60000000 ms".'),
        (C("gap") < 0.5, 'Write "0.5 s".'),
        (C("gap") / 2, '2 of what(.|\n)*Write gap // 2 to divide it, gap / "1 s" for'),
        (C("gap") % 60, '60 of what(.|\n)*"60 ms"'),
        (C("ts") + 60, '60 of what(.|\n)*Write "60 s"'),
        (C("ts") // 60, '60 of what(.|\n)*Write "60 s"'),
        (60 + C("ts"), '60 of what(.|\n)*Write "60 s"'),
    ],
)
def test_a_bare_number_beside_a_time_is_asked_for_its_unit(expression: Expression, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        expression.bind(SCHEMA)


@pytest.mark.parametrize(
    ("pattern", "network"),
    [("10.%", "10.0.0.0/8"), ("192.168.*", "192.168.0.0/16"), ("10.1.2.%", "10.1.2.0/24"), ("10.%.%", "10.0.0.0/8"),
     ("10%", ""), ("192.16%", ""), ("300.%", ""), ("%.6", ""), ("10.0.0.6", ""), ("", "")],
)  # fmt: skip
def test_a_pattern_means_a_network_where_whole_octets_stand_before_its_wildcard(pattern: str, network: str) -> None:
    assert network_of(pattern) == network


def test_a_duration_in_an_expression_has_parts_and_weeks() -> None:
    assert values(C("gap") < "1h30m", gap=[5_399_999, 5_400_000]) == [True, False]
    assert values(C("gap") < "1 week", gap=[7 * 86_400_000 - 1, 7 * 86_400_000]) == [True, False]
    with pytest.raises(SchemaError, match="too long a duration"):
        (C("gap") < f"{'9' * 5000} s").bind(SCHEMA)


def test_what_does_not_fit_64_bits_is_refused_naming_the_tuple() -> None:
    with pytest.raises(OverflowError, match=r"big \* 2 does not fit int64: tuple 1 of the page has \d+ \* 2"):
        (C("big") * 2).evaluate(page_of(big=[1, 2**62]))
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
        (C("ts") < 1.5, '1.5 of what\\?(.|\n)*"1970-01-01T00:00:01.5Z" if these are seconds'),
        (C("ts") < math.inf, "does not go with inf"),
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


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda p: [1, 2], r"derive\(x=...\): the function gave \[1, 2\] of type list, no value of each tuple"),
        (lambda p: (p["length"], p["f"]), r"of type tuple[^$]*Write one function for each column: derive\(a="),
        (lambda p: object(), r"of type object, no value of each tuple[^$]*Compute with columns"),
        (lambda p: [v > 100 for v in p["length"]], r"gave an empty list for an empty page[^$]*p\[\"x\"\] > 100"),
    ],
)
def test_a_function_that_gives_a_list_is_told_how_to_give_a_column(function: Callable[..., object], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        trace(function, SCHEMA, where="derive(x=...)")
    listed = Opaque(lambda page: [v > 1 for v in page["length"]], result=pa.bool_())
    assert listed.evaluate(page_of(length=[1, 2])).to_pylist() == [False, True]
    assert listed.evaluate(page_of(length=[])).to_pylist() == []


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
    fits = C("v") * C("a") * 2**60 > 0
    assert ((C("v") * C("a") <= 1) & fits).evaluate(page).to_pylist() == [False, False, False, None, False]
    with pytest.raises(OverflowError, match="does not fit int64"):
        ((C("v") > 0) & fits).evaluate(page)


def test_an_integer_divided_by_zero_is_null_and_the_run_goes_on() -> None:
    big: list[object] = [1, 2, -7, None]
    assert values(C("big") % C("length"), big=big, length=[0, 2, 0, 0]) == [None, 0, None, None]
    assert values(C("big") // C("length"), big=big, length=[0, 2, 0, 0]) == [None, 1, None, None]
    assert values(C("big") // 0, big=big) == [None] * 4 == values(C("u") % 0, u=[1, 2, 3, None])
    assert values(C("gap") // C("gap"), gap=[0, 5]) == [None, 1] and values(C("gap") // C("length"), gap=[5]) == [None]
    assert values(C("big") / C("length"), big=big, length=[0, 2, 0, 0]) == [math.inf, 1.0, -math.inf, None]
    assert str(values(C("f") // C("length"), f=[1.0, -1.0, 0.0], length=[0, 0, 0])) == "[inf, -inf, nan]"


WHOLE = [0, 1, -1, 2**24 + 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63)]
WIDE = {"int8": [0, -128, 127], "int32": [0, 2**24 + 1, -(2**31)], "int64": WHOLE, "uint64": [0, 2**63, 2**64 - 1]}
FLOATS = [0.0, -0.0, 0.5, -1.0, 2.0**24, 2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**62, 2.0**63, -(2.0**63), 2.0**64]
SIGNS = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def exactly(op: str, one: object, other: object) -> bool | None:
    """Compare as Python does, which is exact whatever the types; null with anything is null."""
    if one is None or other is None:
        return None
    if (isinstance(one, float) and not math.isfinite(one)) or (isinstance(other, float) and not math.isfinite(other)):
        return bool(getattr(float(one), SIGNS[op])(float(other)))  # type: ignore[arg-type]
    return bool(getattr(Fraction(one), SIGNS[op])(Fraction(other)))  # type: ignore[arg-type]


def checked(kinds: tuple[pa.DataType, pa.DataType], lefts: list[object], rights: list[object]) -> None:
    """Compare two columns and each with constants, by all six operators and both ways round."""
    schema = Schema.of(a=kinds[0], b=kinds[1])
    page = Page.of(schema, {"a": lefts, "b": rights})
    lefts, rights = page.column("a").to_pylist(), page.column("b").to_pylist()
    for op in SIGNS:
        for one, other, ones, others in (("a", "b", lefts, rights), ("b", "a", rights, lefts)):
            found = tree.Comparison(op, C(one), C(other)).evaluate(page).to_pylist()
            assert found == [exactly(op, x, y) for x, y in zip(ones, others, strict=True)], (op, ones, others)
            part = tree.Comparison(op, C(one), C(other)).evaluate(page.take(np.arange(len(ones) // 2, len(ones))))
            assert part.to_pylist() == found[len(ones) // 2 :]


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(WIDE)), st.sampled_from([pa.float64(), pa.float32(), pa.float16()]))
def test_integers_and_floats_compare_exactly(data: st.DataObject, name: str, kind: pa.DataType) -> None:
    width = {"int8": 7, "int32": 31, "int64": 63, "uint64": 64}[name]
    wholes = st.sampled_from(WIDE[name]) | st.integers(0 if name == "uint64" else -(2**width), 2**width - 1)
    near = wholes.map(float) | wholes.map(lambda n: math.nextafter(n, math.inf)) | st.floats()
    pairs = data.draw(st.lists(st.tuples(st.none() | wholes, st.none() | near | st.sampled_from(FLOATS)), max_size=9))
    with np.errstate(over="ignore"):
        floats = [None if f is None else kind.to_pandas_dtype()(f) for _, f in pairs]
    checked((pa.type_for_alias(name), kind), [n for n, _ in pairs], floats)


def test_an_integer_beyond_2_to_the_53rd_neither_meets_a_float_by_rounding_nor_ends_the_run() -> None:
    big: list[object] = [2**53 + 1, 2**53 + 1, 2**63 - 1, 5, None]
    floats: list[object] = [2.0**53, 2.0**53 + 2, 2.0**63, math.nan, 1.0]
    assert values(C("big") > C("f"), big=big, f=floats) == [True, False, False, False, None]
    assert values(C("big") == C("f"), big=big, f=floats) == [False, False, False, False, None]
    assert values(C("f") > C("u"), u=[2**64 - 1, 2**63 + 1], f=[2.0**64, 2.0**63]) == [True, False]
    assert values(C("f") == 2**53 + 1, f=[2.0**53]) == [False] == values(C("f").isin([2**53 + 1]), f=[2.0**53])
    assert values(C("f") < 2**53 + 1, f=[2.0**53, 2.0**53 + 2]) == [True, False]
    assert values(C("f") >= 2**53 + 1, f=[2.0**53, 2.0**53 + 2]) == [False, True]
    assert values(C("f") < 10**400, f=[1e308, math.inf]) == [True, False]


@st.composite
def decimals(draw: st.DrawFn, kind: pa.DataType) -> Decimal:
    """Draw a decimal of a type."""
    number = draw(st.sampled_from([0, 1, -1, 10, 15]) | st.integers(1 - 10**kind.precision, 10**kind.precision - 1))
    return Decimal((int(number < 0), tuple(map(int, str(abs(number) % 10**kind.precision))), -kind.scale))


DECIMALS = [
    pa.decimal128(10, 2),
    pa.decimal128(38, 20),
    pa.decimal128(6, -2),
    pa.decimal32(7, 3),
    pa.decimal64(18, 0),
    pa.decimal256(50, 30),
]


@settings(deadline=None)
@given(st.data(), st.sampled_from(DECIMALS))
def test_decimals_compare_exactly_with_floats_integers_and_decimals(data: st.DataObject, kind: pa.DataType) -> None:
    numbers = data.draw(st.lists(st.none() | decimals(kind), max_size=6))
    other = data.draw(st.sampled_from([pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.int8(), *DECIMALS]))
    near = st.sampled_from([0.1, 0.25, -0.01, 5e-324, 1e300, math.inf, -math.inf, math.nan]) | st.floats()
    near |= st.sampled_from([float(n) for n in numbers if n is not None] or [0.0])
    if pa.types.is_floating(other):
        with np.errstate(over="ignore"):
            partners = [other.to_pandas_dtype()(data.draw(near)) for _ in numbers]
    elif pa.types.is_decimal(other):
        partners = [data.draw(decimals(other)) for _ in numbers]
    else:
        low = -(2 ** (other.bit_width - 1)) if pa.types.is_signed_integer(other) else 0
        partners = [data.draw(st.integers(low, low + 2**other.bit_width - 1)) for _ in numbers]
    checked((kind, other), numbers, partners)


@settings(deadline=None)
@given(st.data(), st.sampled_from(DECIMALS), st.sampled_from(sorted(SIGNS)))
def test_a_decimal_compares_with_a_constant_as_it_was_written(data: st.DataObject, kind: pa.DataType, op: str) -> None:
    numbers: list[object] = list(data.draw(st.lists(st.none() | decimals(kind), max_size=6)))
    near = st.sampled_from([n for n in numbers if n is not None] or [Decimal(0)])
    constant = data.draw(near | near.map(float) | st.integers() | st.floats() | st.decimals(allow_nan=False))
    page = Page.of(Schema.of(d=kind), {"d": numbers})
    written = Fraction(repr(constant)) if isinstance(constant, float) and math.isfinite(constant) else constant
    written = float(written) if isinstance(written, Decimal) and not written.is_finite() else written
    assert tree.Comparison(op, C("d"), Literal(constant)).evaluate(page).to_pylist() == [
        exactly(op, n, written) for n in page.column("d").to_pylist()
    ]
    listed = C("d").isin([constant, 3, math.nan]).evaluate(page).to_pylist()
    assert listed == [None if n is None else n in (written, 3) for n in page.column("d").to_pylist()]


@settings(deadline=None)
@given(st.floats() | st.sampled_from(FLOATS), st.integers() | st.decimals(allow_nan=False, allow_infinity=False))
def test_a_float_compares_exactly_with_any_constant(number: float, constant: int | Decimal) -> None:
    for op in SIGNS:
        wanted = exactly(op, number, constant)
        assert values(tree.Comparison(op, C("f"), Literal(constant)), f=[number]) == [wanted], (op, number, constant)


def test_decimals_are_compared_and_what_else_is_asked_of_them_says_what_to_write() -> None:
    schema = Schema.of(d=pa.decimal128(10, 2), n=pa.int64(), wide=pa.decimal256(76, 0))
    page = Page.of(schema, {"d": [Decimal("0.10"), Decimal("2.00"), None], "n": [0, 2, 3], "wide": [1, 2, 3]})
    assert (C("d") == 0.1).evaluate(page).to_pylist() == [True, False, None]
    assert (C("d") == Decimal("0.1")).evaluate(page).to_pylist() == [True, False, None]
    assert (Decimal("1e999999999") > C("d")).evaluate(page).to_pylist() == [True, True, None]
    assert (C("d") > Decimal("-1e-999999999")).evaluate(page).to_pylist() == [True, True, None]
    assert (C("n") < Decimal("2.5")).evaluate(page).to_pylist() == [True, True, False]
    assert C("d").between(1, 2).evaluate(page).to_pylist() == [False, True, None]
    assert str(C("d") > Decimal("1.50")) == "d > 1.50"
    assert str(trace(lambda p: p["d"] > Decimal(1), schema)) == "d > 1"
    for expression in (C("d") * 2, C("n") + C("d"), -C("d"), abs(C("d")), np.sqrt(C("d"))):
        with pytest.raises(SchemaError, match=r'write cast\(d, \'float64\'\), in Python p\["d"\]\.cast\("float64"\)'):
            expression.bind(schema)
    with pytest.raises(SchemaError, match=r"Write 1\.5 as a float or an integer"):
        (C("n") * Decimal("1.5")).bind(schema)
    with pytest.raises(SchemaError, match="no type holds both"):
        (C("d") < C("wide")).bind(schema)
    with pytest.raises(SchemaError, match=r'is a decimal .* and does not go with "1"(.|\n)*without quotes'):
        (C("d") < "1").bind(schema)
