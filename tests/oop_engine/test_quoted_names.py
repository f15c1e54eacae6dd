"""A name in double quotes is text here: where that could only be a slip, the query is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oop_engine as oop
from operators.data.address import parse_ip
from operators.data.schema import ip_field

PACKETS = pa.table(
    {
        "ts": pa.array([1, 2, 3]),
        "srcIP": pa.array([parse_ip(f"10.0.0.{i}") for i in (5, 6, 6)], pa.binary(16)),
        "length": pa.array([60, 70, 80]),
        "host": pa.array(["host", "b", None]),
        "two words": pa.array([1, 2, 3]),
    },
    schema=pa.schema(
        [
            ("ts", pa.int64()),
            ip_field("srcIP"),
            ("length", pa.int64()),
            ("host", pa.string()),
            ("two words", pa.int64()),
        ]
    ),
)
JOIN = "FROM A [RANGE 5, WA ts], B [RANGE 5, WA ts] WHERE A.ts = B.ts"


def result(text: str) -> list[dict[str, object]]:
    return oop.query(text, {name: oop.arrow(PACKETS) for name in ("M", "A", "B")}).to_arrow().to_pylist()


REFUSED = {
    """SELECT count(*) FROM M WHERE "srcIP" = '10.0.0.6'""": ('"srcIP"', "srcIP or `srcIP`"),
    """SELECT count(*) FROM M WHERE '10.0.0.6' = "srcIP" AND length > 1""": ('"srcIP"', "srcIP or `srcIP`"),
    """SELECT count(*) FROM M WHERE NOT ("srcIP" <> '10.0.0.6')""": ('"srcIP"', "srcIP or `srcIP`"),
    "SELECT count(*) FROM M WHERE \"SRCIP\" IN ('10.0.0.6', '10.0.0.5')": ('"SRCIP"', "srcIP or `srcIP`"),
    "SELECT count(*) FROM M WHERE \"host\" BETWEEN 'a' AND 'c'": ('"host"', "host or `host`"),
    'SELECT count(*) FROM M WHERE "host" IS NULL': ('"host"', "host or `host`"),
    """SELECT count(*) FROM M WHERE "srcIP" IN '10.0.0.0/8'""": ('"srcIP"', "srcIP or `srcIP`"),
    """SELECT count(*) FROM M WHERE "M.srcIP" = '10.0.0.6'""": ('"M.srcIP"', "M.srcIP or `M`.`srcIP`"),
    'SELECT count(*) FROM M WHERE "length" > 65': ('"length"', "length or `length`"),
    'SELECT count(*) FROM M WHERE "two words" = 1': ('"two words"', "`two words`"),
    'SELECT count(*) FROM M WHERE length = 60 + "length"': ('"length"', "length or `length`"),
    'SELECT count(*) FROM M WHERE "len"': ('"len"', "len or `len`"),
    'SELECT count(DISTINCT "srcIP") FROM M': ('"srcIP"', "srcIP or `srcIP`"),
    "SELECT count(DISTINCT 'srcIP') FROM M": ("'srcIP'", "srcIP or `srcIP`"),
    "SELECT sum(\"len\" = 'x') FROM M": ('"len"', "len or `len`"),
    'SELECT argmax(host, "length") FROM M': ('"length"', "length or `length`"),
    'SELECT "host" FROM M': ('"host"', "host or `host`"),
    "SELECT 'host' FROM M": ("'host'", "host or `host`"),
    'SELECT "host" AS h FROM M': ('"host"', "host or `host`"),
    'SELECT abs("length") FROM M': ('"length"', "length or `length`"),
    "SELECT cast(\"length\", 'int64') AS x FROM M": ('"length"', "length or `length`"),
    'SELECT count(*) FROM M GROUP BY "srcIP"': ('"srcIP"', "srcIP or `srcIP`"),
    'SELECT length // 10 AS tens, count(*) FROM M GROUP BY "tens"': ('"tens"', "tens or `tens`"),
    'SELECT host, count(*) AS n FROM M GROUP BY host HAVING "n" > 1': ('"n"', "n or `n`"),
    f"SELECT A.ts {JOIN} AND \"A.host\" = 'b'": ('"A.host"', "A.host or `A`.`host`"),
    f'SELECT "length" {JOIN}': ('"length"', "length or `length`"),
    'SELECT n FROM (SELECT count("host") AS n FROM M)': ('"host"', "host or `host`"),
}


@pytest.mark.parametrize(("text", "refusal"), REFUSED.items())
def test_the_name_of_an_attribute_in_quotes_is_refused_where_text_makes_no_sense(
    text: str, refusal: tuple[str, str]
) -> None:
    piece, write = refusal
    with pytest.raises(oop.LanguageError) as caught:
        result(text)
    assert caught.value.message == f'"{piece[1:-1]}" in quotes is text; write {write}.'
    assert caught.value.column == text.index(piece) + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "SELECT ts FROM M WHERE host = 'host'": [{"ts": 1}],
        'SELECT ts FROM M WHERE "host" = host': [{"ts": 1}],
        "SELECT ts FROM M WHERE host IN ('host', 'x')": [{"ts": 1}],
        "SELECT ts FROM M WHERE host BETWEEN \"host\" AND 'length'": [{"ts": 1}],
        "SELECT ts FROM M WHERE 'x' = 'x' AND ts = 3": [{"ts": 3}],
        "SELECT 'host' AS kind, ts FROM M WHERE ts = 1": [{"kind": "host", "ts": 1}],
        'SELECT "x" AS y, ts FROM M WHERE ts = 1': [{"y": "x", "ts": 1}],
        "SELECT count(*) AS n FROM M WHERE srcIP = '10.0.0.6'": [{"n": 2}],
        "SELECT cast(host, 'string') AS x FROM M WHERE ts = 2": [{"x": "b"}],
    }.items(),
)
def test_text_beside_an_attribute_is_text(text: str, expected: list[dict[str, object]]) -> None:
    assert result(text) == expected


def test_an_expression_of_its_own_is_looked_at_too() -> None:
    with pytest.raises(oop.LanguageError, match='"srcIP" in quotes is text; write srcIP or `srcIP`'):
        oop.arrow(PACKETS).filter("\"srcIP\" = '10.0.0.6'")
    assert oop.arrow(PACKETS).filter("host = 'host'").to_arrow().num_rows == 1


def test_what_does_not_fit_says_that_a_name_in_quotes_is_text() -> None:
    with pytest.raises(oop.LanguageError) as caught:
        result('SELECT ts FROM M WHERE length > "ts"')
    assert "does not go with" in caught.value.message
    assert caught.value.hint == '"ts" in quotes is text; write ts or `ts`.'


@pytest.mark.parametrize(
    ("text", "hint"),
    {
        'SELECT M."ts" FROM M': "as a name write ts.",
        'SELECT ts AS "x" FROM M': "as a name write x.",
        'SELECT ts "x y" FROM M': "without quotes: AS `x y`.",
        'SELECT count(*) [RANGE 5, WA "ts"] FROM M': "as a name write ts.",
    }.items(),
)
def test_where_the_grammar_wants_a_name_quotes_are_explained(text: str, hint: str) -> None:
    with pytest.raises(oop.LanguageError) as caught:
        result(text)
    assert hint in caught.value.hint
