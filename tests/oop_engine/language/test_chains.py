"""Many operators may stand in a row: a chain is no nesting, however it is read, written, checked and computed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse, unparse
from oop_engine.language.expressions import parse_expression
from oop_engine.language.parse import MAX_LINKS
from operators.data.schema import Schema

SCHEMA = Schema(pa.schema([("a", pa.int64()), ("s", pa.string())]))
TABLE = pa.table({"ts": range(300), "a": range(300)})


def deep(levels: int, text: str) -> list[dict[str, object]]:
    """Run a query from as deep in the stack as a notebook or a test runner may be."""
    if levels:
        return deep(levels - 1, text)
    given = {"M": oop.arrow(TABLE), "B": oop.arrow(TABLE)}
    return oop.query(text, given).to_arrow().to_pylist()


AND = " AND ".join(f"a <> {i}" for i in range(MAX_LINKS + 1))
OR = " OR ".join(f"a = {i}" for i in range(MAX_LINKS + 1))
SUM = " + ".join(["a"] * (MAX_LINKS + 1))
JOIN = "FROM M [RANGE 1, WA ts], B [RANGE 1, WA ts] WHERE M.ts = B.ts"


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        f"SELECT count(*) AS n FROM M WHERE {AND}": [{"n": 300 - 257}],
        f"SELECT count(*) AS n FROM M WHERE {OR}": [{"n": 257}],
        f"SELECT count(*) AS n FROM M WHERE NOT ({OR})": [{"n": 300 - 257}],
        f"SELECT {SUM} AS x FROM M WHERE a = 2": [{"x": 514}],
        f"SELECT sum({SUM}) AS x FROM M WHERE a < 2": [{"x": 257}],
        f"SELECT a, count(*) AS n FROM M GROUP BY a HAVING {AND} AND a > 298": None,
        f"SELECT {SUM} AS x, count(*) AS n FROM M WHERE a = 1 GROUP BY {SUM}": [{"x": 257, "n": 1}],
        f"SELECT count(*) AS n {JOIN} AND {AND.replace('a', 'M.a')}": None,
        f"SELECT count(*) AS n {JOIN} AND ({OR.replace('a', 'B.a')})": [{"n": 257}],
    }.items(),
)
def test_a_long_chain_is_read_and_computed(text: str, expected: list[dict[str, object]] | None) -> None:
    if expected is None:
        with pytest.raises(LanguageError, match=f"more than {MAX_LINKS} operators stand in a row"):
            deep(200, text)
    else:
        assert deep(200, text) == expected
        assert parse(unparse(parse(text))) == parse(text)


def test_what_does_not_fit_in_a_chain_is_shown_where_it_stands() -> None:
    text = " + ".join(["a"] * 60) + " + s + a"
    with pytest.raises(LanguageError) as caught:
        parse_expression(text, SCHEMA)
    assert "+ is for numbers and times" in caught.value.message
    text = " AND ".join(["a > 1"] * 60) + " AND s = 1 AND a > 2"
    with pytest.raises(LanguageError) as caught:
        parse_expression(text, SCHEMA)
    assert caught.value.column == text.index("s = 1") + 1


def test_the_right_side_of_a_chain_need_not_be_defined_where_the_left_decides() -> None:
    text = "a <> 1 AND a > 0 AND 9223372036854775807 + a < 0 OR a = 1"
    page = oop.arrow(pa.table({"a": [0, 1]})).filter(text.replace("a > 0", "a < 0"))
    assert page.to_arrow()["a"].to_pylist() == [1]
