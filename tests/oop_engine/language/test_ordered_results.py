"""ORDER BY and LIMIT give the first results of each window, whatever the order of arrival."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.errors import SchemaError
from oop_engine.language import parse, unparse

ROWS = [(ts, f"h{n % 5}", (n * 7) % 4) for n, ts in enumerate([1, 3, 12, 5, 11, 2, 14, 7, 19, 8, 15, 21])]
TOP = "SELECT k, sum(v) AS b [RANGE 10, WA ts] FROM M GROUP BY k ORDER BY b DESC, k LIMIT 2"


def stream(rows: list[tuple[int, str, int]]) -> oop.Stream:
    schema = oop.Schema.of(ts="int64", k="string", v="int64")
    return oop.rows(rows, schema, punctuate=oop.slack(20, on="ts"))


def expected() -> list[tuple[object, ...]]:
    sums: dict[int, dict[str, int]] = {}
    for ts, k, v in ROWS:
        group = sums.setdefault(ts // 10, {})
        group[k] = group.get(k, 0) + v
    found: list[tuple[object, ...]] = []
    for wid, group in sorted(sums.items()):
        found += [(k, b, wid) for k, b in sorted(group.items(), key=lambda pair: (-pair[1], pair[0]))[:2]]
    return found


def results(found: oop.Stream) -> list[tuple[object, ...]]:
    return [(row["k"], row["b"], row["wid"]) for row in found.to_arrow().to_pylist()]


@pytest.mark.parametrize("by", ["b DESC, k", "sum(v) DESC, k ASC", "2 DESC, 1"])
def test_the_first_of_each_window_are_the_same_in_any_order_of_arrival(by: str) -> None:
    for seed in range(5):
        rows = list(ROWS)
        random.Random(seed).shuffle(rows)
        text = TOP.replace("b DESC, k", by)
        assert results(oop.query(text, M=stream(rows))) == expected()


def test_python_says_the_same() -> None:
    windows = stream(ROWS).window(range=10, wattr="ts").aggregate(b=oop.sum("v"), by="k")
    assert [row[1:] for row in results(windows.top(2, "b"))] == [row[1:] for row in expected()]
    ranked = windows.ranked(["b", "k"], 2, within=["wid", "window_start", "window_end"], descending=["b"])
    assert results(ranked) == expected()
    assert "order by b descending, k, first 2 of each wid" in ranked.explain()
    with pytest.raises(SchemaError, match='Did you mean "b"'):
        windows.top(2, "bb")


def test_a_query_without_windows_is_ordered_at_its_end() -> None:
    table = pa.table({"a": [3, 1, None, 2], "s": ["x", "y", "z", "x"]})
    found = oop.query("SELECT a, s FROM M ORDER BY s DESC, a", M=oop.arrow(table)).to_arrow().to_pylist()
    assert [(row["a"], row["s"]) for row in found] == [(None, "z"), (1, "y"), (2, "x"), (3, "x")]
    found = oop.query("SELECT DISTINCT s FROM M ORDER BY s LIMIT 1;", M=oop.arrow(table)).to_arrow().to_pylist()
    assert found == [{"s": "x"}]


def test_windows_stand_over_what_is_ordered() -> None:
    text = f"SELECT sum(b) AS all_of_them [RANGE 20, WA window_end] FROM ({TOP}) AS tops"
    found = oop.query(text, M=stream(ROWS)).to_arrow().to_pylist()
    assert sum(row["all_of_them"] for row in found) == sum(row[1] for row in expected())  # pyright: ignore


def test_percentiles_are_quantiles() -> None:
    text = "SELECT p50(v), p95(v + 1) AS most [RANGE 10, WA ts] FROM M GROUP BY k HAVING p50(v) > 0"
    same = "SELECT quantile(v, 0.5) AS p50_v, quantile(v + 1, 0.95) AS most [RANGE 10, WA ts] FROM M GROUP BY k"
    found = oop.query(text, M=stream(ROWS)).to_arrow().to_pylist()
    assert found == oop.query(f"{same} HAVING p50_v > 0", M=stream(ROWS)).to_arrow().to_pylist()
    assert found
    assert list(found[0])[:2] == ["p50_v", "most"]
    with pytest.raises(oop.LanguageError, match=r"Write p95\(x\); it is quantile\(x, 0.95\)"):
        oop.query("SELECT p95(v, 2) FROM M", M=stream(ROWS))
    with pytest.raises(oop.LanguageError, match='no function "p0"'):
        oop.query("SELECT p0(v) FROM M", M=stream(ROWS))


def test_the_text_comes_back() -> None:
    tree = parse(TOP)
    assert parse(unparse(tree)) == tree
    assert unparse(tree).endswith("ORDER BY b DESC, k LIMIT 2")
