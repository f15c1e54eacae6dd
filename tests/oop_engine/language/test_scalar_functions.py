"""Functions of one tuple's values compute what they say, and what DuckDB computes where both have them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, unparse_expression
from oop_engine.language.expressions import parse_expression
from oop_engine.language.parse import parse_expr
from operators.data.address import format_ip, parse_ip
from operators.data.page import Page
from operators.data.schema import Schema, ip_field, is_ip
from operators.expression import Call, Column, Literal

SCHEMA = Schema(
    pa.schema(
        [
            ip_field("srcIP"),
            pa.field("proto", pa.uint8()),
            pa.field("flags", pa.uint8()),
            pa.field("destPort", pa.uint16()),
            pa.field("host", pa.string()),
            pa.field("v", pa.int64()),
            pa.field("w", pa.int64()),
            pa.field("r", pa.float64()),
        ]
    )
)
ROWS = [
    (parse_ip("10.1.2.3"), 6, 18, 443, "www.Example.org", 12, 5, 0.5),
    (parse_ip("2001:db8:1:2:3::7"), 17, 2, 53, " a_b\n100% ", 3, 0, -2.0),
    (parse_ip("192.0.2.1"), 1, 0, 0, "", -7, 2, 0.0),
    (None,) * 8,
]
PAGE = Page.of_rows(SCHEMA, ROWS)

ALSO_IN_DUCKDB: dict[str, list[object]] = {
    "lower(host)": ["www.example.org", " a_b\n100% ", "", None],
    "upper(host)": ["WWW.EXAMPLE.ORG", " A_B\n100% ", "", None],
    "length(host)": [15, 10, 0, None],
    "substr(host, 2)": ["ww.Example.org", "a_b\n100% ", "", None],
    "substr(host, 1, 3)": ["www", " a_", "", None],
    "trim(host)": ["www.Example.org", "a_b\n100%", "", None],
    "replace(host, 'w', 'vv')": ["vvvvvv.Example.org", " a_b\n100% ", "", None],
    "starts_with(host, 'www.')": [True, False, False, None],
    "ends_with(host, '.org')": [True, False, False, None],
    "contains(host, '%')": [False, True, False, None],
    "host LIKE 'www.%'": [True, False, False, None],
    "host LIKE '%100%'": [False, True, False, None],
    "host LIKE ''": [False, False, True, None],
    "host LIKE 'www_Example_org'": [True, False, False, None],
    "host LIKE '.*'": [False, False, False, None],
    "host ILIKE 'WWW.example.%'": [True, False, False, None],
    "host NOT LIKE '%e%'": [False, True, True, None],
    "regexp_matches(host, '^w+[.]E')": [True, False, False, None],
    "host || '/' || host": ["www.Example.org/www.Example.org", " a_b\n100% / a_b\n100% ", "/", None],
    "coalesce(v, 0)": [12, 3, -7, 0],
    "coalesce(r, v, 1.5)": [0.5, -2.0, 0.0, 1.5],
    "coalesce(NULL, host, '-')": ["www.Example.org", " a_b\n100% ", "", "-"],
    "nullif(v, 3)": [12, None, -7, None],
    "nullif(v, w)": [12, 3, -7, None],
    "least(v, w)": [5, 0, -7, None],
    "greatest(v, w, 4)": [12, 4, 4, 4],
    "CASE WHEN v > 10 THEN 'big' WHEN v > 0 THEN 'small' ELSE 'none' END": ["big", "small", "none", "none"],
    "CASE v WHEN 12 THEN 1 WHEN 3 THEN 2 END": [1, 2, None, None],
    "CASE WHEN w <> 0 THEN v // w ELSE -1 END": [2, -1, -4, -1],
    "CASE WHEN v > 0 THEN r ELSE w END": [0.5, -2.0, 2.0, None],
    "v & 5": [4, 1, 1, None],
    "v & w = 4": [True, False, False, None],
    "v | 16": [28, 19, -7, None],
    "abs(v) << 3": [96, 24, 56, None],
    "abs(v) >> 1": [6, 1, 3, None],
    "v + 1 & 7": [5, 4, 2, None],
}
OURS: dict[str, list[object]] = {
    "host LIKE '%100\\%_'": [False, True, False, None],
    "proto = 'tcp'": [True, False, False, None],
    "proto IN ('UDP', 'icmp')": [False, True, True, None],
    "proto BETWEEN 'icmp' AND 'tcp'": [True, False, True, None],
    "destPort = 'https'": [True, False, False, None],
    "flags = 'ack+syn'": [True, False, False, None],
    "flags HAS 'SYN'": [True, True, False, None],
    "flags HAS 'SYN+ACK'": [True, False, False, None],
    "flags NOT HAS 'ACK'": [False, True, True, None],
    "srcIP IN ('10.0.0.0/8', '192.0.2.1')": [True, False, True, None],
    "srcIP IN ('2001:db8::/32')": [False, True, False, None],
    "srcIP NOT IN ('10.0.0.0/8', '2001:db8::/32')": [False, False, True, None],
    "srcIP IN ('10.0.0.0/8', NULL)": [True, None, None, None],
    "coalesce(proto, 300)": [6, 17, 1, 300],
    "coalesce(proto, -1)": [6, 17, 1, -1],
    "network(srcIP, 24) IN ('10.1.2.0', '192.0.2.0')": [True, False, True, None],
}


@pytest.mark.parametrize(("text", "values"), [*ALSO_IN_DUCKDB.items(), *OURS.items()])
def test_a_function_computes_what_it_says_and_its_text_comes_back(text: str, values: list[object]) -> None:
    expression = parse_expression(text, SCHEMA)
    assert expression.evaluate(PAGE).to_pylist() == values
    one_by_one = [expression.evaluate(Page.of_rows(SCHEMA, [row])).to_pylist()[0] for row in ROWS]
    assert one_by_one == values
    assert expression.evaluate(Page.of_rows(SCHEMA, [])).type == expression.type(SCHEMA)
    tree = parse_expr(text)
    assert parse_expr(unparse_expression(tree)) == tree


def test_duckdb_computes_the_same() -> None:
    duckdb = pytest.importorskip("duckdb", reason="compares with DuckDB, an extra: pip install 'oop-engine[bench]'")
    table = pa.Table.from_batches([PAGE.batch])
    connection = duckdb.connect()
    connection.register("t", table)
    differ = {}
    for text, values in ALSO_IN_DUCKDB.items():
        found = [row[0] for row in connection.execute(f"SELECT {text} FROM t").fetchall()]
        if found != values:
            differ[text] = (found, values)
    # DuckDB divides integers towards zero, and we as Python does.
    assert set(differ) == {"CASE WHEN w <> 0 THEN v // w ELSE -1 END"}


def test_a_network_is_an_address_of_its_own() -> None:
    found = parse_expression("network(srcIP, 16, 48)", SCHEMA)
    assert is_ip(found.field(SCHEMA))
    assert format_ip(found.evaluate(PAGE)).to_pylist() == ["10.1.0.0", "2001:db8:1::", "192.0.0.0", None]
    part = Page(SCHEMA, PAGE.batch.slice(1, 2))
    assert format_ip(found.evaluate(part)).to_pylist() == ["2001:db8:1::", "192.0.0.0"]


def test_python_says_what_text_says() -> None:
    assert parse_expression("lower(host)", SCHEMA).equals(Call("lower", (Column("host"),)))
    liked = Call("like", (Column("host"), Literal("a%")))
    assert parse_expression("host LIKE 'a%'", SCHEMA).equals(liked)
    assert str(~liked | (Column("v") > 1)) == 'not host like "a%" or v > 1'
    stream = oop.arrow(pa.table({"ts": [1, 2, 3], "host": ["a.org", "b.org", None]}))
    derived = stream.derive(end="CASE WHEN host LIKE 'a%' THEN 1 ELSE 0 END").to_arrow()
    assert derived["end"].to_pylist() == [1, 0, 0]


def test_bits_that_a_shift_would_lose_are_an_error() -> None:
    with pytest.raises(OverflowError, match="v << 62 does not fit int64"):
        parse_expression("v << 62", SCHEMA).evaluate(PAGE)


REFUSED = {
    "lower(v)": "Write cast(v, 'string').",
    "substr(host, 0)": "the first character is 1",
    "substr(host, v)": "not v.",
    "regexp_matches(host, '(')": '"(" is no regular expression',
    "host LIKE host": "the pattern is a text in quotes",
    "srcIP LIKE '10.1.%'": "Write srcIP IN '10.1.0.0/16'",
    "flags HAS 'SNY'": 'Did you mean "SYN"?',
    "r HAS 'SYN'": "flags are a whole number",
    "proto = 'tpc'": 'Did you mean "tcp"?',
    "network(srcIP, 64)": "that of IPv6 stands third",
    "network(v, 8)": "only an IP address has a network",
    "srcIP IN ('10.0.0.1/8', '10.0.0.1')": "did you mean 10.0.0.0/8",
    "coalesce(host, 0)": "Write text in quotes.",
    "coalesce(host, v)": "here stands one type",
    "coalesce(NULL)": "every value is null",
    "nullif(1, v)": "the first argument of nullif is a column",
    "nullif(v)": "nullif takes 2 arguments, as in nullif(length, 0).",
    "CASE WHEN v THEN 1 END": "WHEN takes a condition",
    "CASE WHEN v = 1 THEN 1 ELSE 'x' END": "have no type in common",
    "r & 1 = 1": "& is for integers",
    "v << w": "bits are shifted by a constant from 0 to 63",
    "v || host": "|| is for text",
    "greatest(v > 1, w > 1)": "truth values have no order",
}


@pytest.mark.parametrize(("text", "says"), REFUSED.items())
def test_what_a_function_does_not_take_is_said_with_the_way_out(text: str, says: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_expression(text, SCHEMA)
    assert says in str(caught.value)
