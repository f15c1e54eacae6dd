"""Digits in a text are not lost: a number that is no float stays what was written, wherever it is compared."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import parse, unparse
from oop_engine.language import syntax as s
from oop_engine.language.expressions import parse_expression
from oop_engine.language.parse import parse_expr
from operators.data.page import Page
from operators.data.schema import Schema

BIG = 2**53
ROWS = pa.table(
    {
        "d": pa.array([Decimal("12345678901234567.89"), Decimal("12345678901234567.88"), None]),
        "i": [BIG + 1, BIG, None],
        "f": [0.1, float(BIG), None],
    }
)
SCHEMA = Schema(ROWS.schema)
PAGE = Page(SCHEMA, ROWS.to_batches()[0])

COMPARED = {
    "d = 12345678901234567.89": [True, False, None],
    "12345678901234567.89 = d": [True, False, None],
    "d > 12345678901234567.88": [True, False, None],
    "d >= 12345678901234567.8800000000000000000001": [True, False, None],
    "d <> 12345678901234567.89": [False, True, None],
    "d > -12345678901234567.89": [True, True, None],
    "d BETWEEN 12345678901234567.885 AND 12345678901234567.89": [True, False, None],
    "d IN (12345678901234567.89, 1)": [True, False, None],
    "d NOT IN (12345678901234567.88)": [True, False, None],
    "i = 9007199254740993.0": [True, False, None],
    "i > 9007199254740992.5": [True, False, None],
    "i IN (9007199254740993.0)": [True, False, None],
    "i < -9007199254740993.0": [False, False, None],
    # Beside a float a number is the float nearest to it, which is how floats are written with 17 digits.
    "f = 0.1": [True, False, None],
    "f = 0.10000000000000001": [True, False, None],
    "f IN (0.10000000000000001, 3)": [True, False, None],
    "f BETWEEN 0.10000000000000001 AND 1": [True, False, None],
    "f < 0.10000000000000002": [True, False, None],
    "f = 9007199254740993.0": [False, True, None],
    "i * 1.00000000000000000001 > 0": [True, True, None],
    "12345678901234567.89 > 12345678901234567.88": [True, True, True],
    "i > 0." + "0" * 400 + "1": [True, True, None],
    "abs(-0.10000000000000001) = 0.1": [True, True, True],
    "sqrt(4.0000000000000000000001)": [2.0, 2.0, 2.0],
    "12345678901234567.89": [Decimal("12345678901234567.89")] * 3,
    "-12345678901234567.89": [Decimal("-12345678901234567.89")] * 3,
    "- - 12345678901234567.89": [Decimal("12345678901234567.89")] * 3,
    "0." + "3" * 90: [1 / 3] * 3,
}


@pytest.mark.parametrize(("text", "values"), COMPARED.items())
def test_a_number_is_compared_digit_by_digit(text: str, values: list[object]) -> None:
    expression = parse_expression(text, SCHEMA)
    assert expression.evaluate(PAGE).to_pylist() == values
    # Spark's workers and those of processes get it like this.
    assert pickle.loads(pickle.dumps(expression)).evaluate(PAGE).to_pylist() == values


def test_a_number_is_a_float_where_its_digits_are_those_of_one() -> None:
    assert parse_expr("0.1") == s.Literal(0.1) != s.Literal(Decimal("0.10000000000000001"))
    assert s.Literal(Decimal("0.5")) == s.Literal(0.5)
    assert parse_expr("9007199254740993.0") == s.Literal(Decimal(9007199254740993))
    assert parse_expr("1e22") == s.Literal(1e22)


def test_a_decimal_is_written_as_it_was() -> None:
    text = "SELECT a FROM M WHERE a = 12345678901234567.89 OR a > 0.12345678901234567890123"
    assert unparse(parse(text)) == text
    built = s.Binary("=", s.Name(("a",)), s.Literal(Decimal(9007199254740993)))
    assert parse_expr(unparse(_query(built)).partition("WHERE ")[2]) == built


def _query(where: s.Expr) -> s.Query:
    return s.Query(select=(s.SelectItem(s.Star(), None),), source=s.Table("M"), where=where)


def test_where_a_plain_number_is_needed_a_decimal_is_one() -> None:
    given = {"M": oop.arrow(pa.table({"ts": [1, 2, 3], "a": [1, 2, 3]}))}
    text = "SELECT quantile(a, 0.50000000000000000001) AS q, sum(a * 2.00000000000000000001) AS s FROM M"
    assert oop.query(text, given).to_arrow().to_pylist() == [{"q": 2, "s": 12.0}]
    text = "SELECT count(*) AS n [RANGE 2.000, WA ts] FROM M HAVING n > 0.99999999999999999999"
    assert oop.query(text, given).to_arrow()["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("share", ["-0.1", "-(-(-0.1))", "+1.5"])
def test_a_number_with_a_sign_is_a_number(share: str) -> None:
    given = {"M": oop.arrow(pa.table({"a": [1, 2, 3]}))}
    with pytest.raises(oop.LanguageError, match="must be a fraction between 0 and 1, and is"):
        oop.query(f"SELECT quantile(a, {share}) FROM M", given)
    assert oop.query("SELECT quantile(a, - -0.5) AS q FROM M", given).to_arrow().to_pylist() == [{"q": 2}]
