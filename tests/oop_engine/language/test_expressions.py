"""An expression in text is the expression in Python, and what does not fit is shown where it stands."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oop_engine.language import LanguageError
from oop_engine.language.expressions import attribute_of, is_aggregate, parse_expression
from oop_engine.language.parse import parse_expr
from oop_engine.language.syntax import Binary, Literal, Name
from oop_engine.span import Span
from operators.data.address import parse_ip
from operators.data.page import Page
from operators.data.schema import Schema, ip_field

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("s", tz="UTC")),
            ip_field("srcIP"),
            pa.field("length", pa.int32()),
            pa.field("ratio", pa.float64()),
            pa.field("link", pa.string()),
        ]
    )
)
PAGE = Page.of_rows(
    SCHEMA,
    [
        (100, parse_ip("10.0.0.1"), 64, 0.5, "a"),
        (200, parse_ip("192.168.0.1"), 1500, -2.0, "b"),
        (300, None, None, None, None),
    ],
)

VALUES = {
    "length * 2 - -1": [129, 3001, None],
    "len": [64, 1500, None],
    "-length / 4": [-16.0, -375.0, None],
    "length % 100 = 0": [False, True, None],
    "abs(ratio)": [0.5, 2.0, None],
    "floor(length / 100)": [0.0, 15.0, None],
    "round(ratio + 2)": [2.0, 0.0, None],
    "link <> 'a' AND length > 100": [False, True, None],
    "NOT link = 'a' OR length < 100": [True, True, None],
    "length BETWEEN 64 AND 100": [True, False, None],
    "length NOT BETWEEN 64 AND 100": [False, True, None],
    "length IN (1500, -1)": [False, True, None],
    "length NOT IN (1500, -1)": [True, False, None],
    "length IN (1500, 128 * ratio)": [True, True, None],
    "srcIP = '10.0.0.1'": [True, False, None],
    "srcIP IN '10.0.0.0/8'": [True, False, None],
    "srcIP NOT IN NETWORK '10.0.0.0/8'": [False, True, None],
    "link IS NULL": [False, False, True],
    "link IS NOT NULL": [True, True, False],
    "ts >= '1970-01-01T00:03:20Z'": [False, True, True],
    "ts - '100 s' < ts": [True, True, True],
    "length // 100": [0, 15, None],
    "-length // 100": [-1, -15, None],
    "length // 0": [None, None, None],
    "length // 100 * 100 + length % 100 = length": [True, True, None],
    "ts // '2 minutes'": [0, 1, 2],
    "(ts - '10 s') // '1 minute'": [1, 3, 4],
    "ts % '1 minute' = '40 s'": [True, False, False],
    "+length": [64, 1500, None],
    "length - + + 4": [60, 1496, None],
    "round(-2.5)": [-2.0, -2.0, -2.0],
    "1.5": [1.5, 1.5, 1.5],
    "TRUE": [True, True, True],
}


@pytest.mark.parametrize(("text", "values"), VALUES.items())
def test_text_computes_what_it_says(text: str, values: list[object]) -> None:
    assert parse_expression(text, SCHEMA).evaluate(PAGE).to_pylist() == values


REFUSED = {
    "lenght > 1": ("lenght", 'there is no attribute "lenght" here.', 'Did you mean "length"?'),
    "1 + srcip": ("srcip", 'there is no attribute "srcip" here.', 'Did you mean "srcIP"?'),
    "length > 1 AND link > 1": ("link > 1", '"link" is text (string) and does not go with 1', "Write text in quotes."),
    "length = 'x' OR link = 'a'": ("length = 'x'", '"length" is an integer (int32) and does not go with "x"', ""),
    "(length + link) * 2": ("length + link", "+ is for numbers and times", ""),
    "length AND TRUE": ("length AND TRUE", '"length" is of type int32', "Compare it with something first."),
    "link = NULL": ("link = NULL", "nothing compares with NULL.", "Write link IS NULL."),
    "NULL <> len": ("NULL <> len", "nothing compares with NULL.", "Write length IS NOT NULL."),
    "srcIP = '10.0.0'": ("srcIP = '10.0.0'", '"10.0.0" is no IP address', ""),
    "srcIP IN '10.0.0.0/33'": ("'10.0.0.0/33'", '"10.0.0.0/33" is no network', ""),
    "length IN '10.0.0.0/8'": ("length IN '10.0.0.0/8'", "only an IP address is in a network", ""),
    "ts > 'noon'": ("ts > 'noon'", '"noon" is not a time.', "Write ISO 8601"),
    "length + count(*)": ("count(*)", "count is computed over many tuples", "Aggregates stand in the SELECT list"),
    "argmax(link, ts) = 'a'": ("argmax(link, ts)", "argmax is computed over many tuples", ""),
    "flor(ratio)": ("flor(ratio)", 'there is no function "flor" of one tuple\'s values.', 'Did you mean "floor"?'),
    "abs(length, 1)": ("abs(length, 1)", "abs takes one argument", ""),
    "sqrt(link)": ("sqrt(link)", '"link" is of type string', ""),
    "Main.length > 1": ("Main.length", 'there is no stream "Main" here.', "Write length."),
    "a.b.length": ("a.b.length", '"a.b.length" has 3 parts', ""),
    "length >": ("", "expected an expression, found the end of the expression.", ""),
    "length > 1, 2": (",", "expected", ""),
    "": ("", "the expression is empty.", "Write for example length > 100"),
    "SELECT a FROM b": ("SELECT", "expected an expression", ""),
}


@pytest.mark.parametrize(("text", "refusal"), REFUSED.items())
def test_what_does_not_fit_is_shown_where_it_stands(text: str, refusal: tuple[str, str, str]) -> None:
    piece, message, hint = refusal
    with pytest.raises(LanguageError) as caught:
        parse_expression(text, SCHEMA)
    assert message in caught.value.message
    assert hint in caught.value.hint
    if piece:
        assert caught.value.column == text.index(piece) + 1
        assert f"\n  {' ' * text.index(piece)}{'^' * len(piece)}" in str(caught.value)


def test_the_tree_of_an_expression_has_its_spans() -> None:
    found = parse_expr("a * 2")
    assert found == Binary("*", Name(("a",)), Literal(2))
    assert found.span == Span(1, 1, 6)


def test_a_qualified_name_belongs_to_a_stream_in_any_case() -> None:
    name = Name(("MAIN", "len"))
    assert attribute_of(name, SCHEMA, "MAIN.len", streams=("Main",)) == "length"
    with pytest.raises(LanguageError, match='no stream "MAIN"'):
        attribute_of(name, SCHEMA, "MAIN.len", streams=("Other",))


def test_aggregates_are_told_from_functions_of_one_tuple() -> None:
    assert all(is_aggregate(name) for name in ("count", "sum", "argmin", "mean", "count_distinct"))
    assert not any(is_aggregate(name) for name in ("abs", "floor", "cuont"))
