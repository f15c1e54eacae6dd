"""Windows over decimals are exact, in Python and as text; amounts, promises and bounds are in the unit of values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli.naming import types_said
from oop_engine.plan.durations import parse_duration
from oop_engine.sources.columns import check_words, kind_for
from oop_engine.sources.errors import TableError
from punctuation import before
from tests import naive_decimals
from tests.examples import share

PRICE = pa.decimal128(9, 2)
SCHEMA = oop.Schema.of(price=PRICE, v="int64")

Prices = list[Decimal | None]
prices: st.SearchStrategy[Prices] = st.lists(
    st.none() | st.integers(-70, 90).map(lambda cents: Decimal(cents).scaleb(-2)), max_size=14
)
amounts = st.integers(1, 60).map(lambda cents: Decimal(cents).scaleb(-2))


def stream(values: Sequence[Decimal | None], *, promise: oop.Promise | None = None) -> Stream:
    rows = [(value, n) for n, value in enumerate(values)]
    if promise is None:
        return oop.rows(rows, SCHEMA)
    return oop.rows(iter(rows), SCHEMA, punctuate=promise)


def found(results: Stream) -> Iterator[dict[str, object]]:
    table = results.to_arrow()
    kinds = {str(table.schema.field(name).type) for name in ("window_start", "window_end")}
    assert kinds == {"decimal128(19, 2)"}
    yield from table.to_pylist()


@share(0.5)
@given(prices, amounts, amounts, st.integers(-30, 30), st.randoms(use_true_random=False))
def test_windows_that_slide_are_those_of_fractions(
    values: Prices, size: Decimal, slide: Decimal, origin: int, order: random.Random
) -> None:
    begin = Decimal(origin).scaleb(-2)
    expected = naive_decimals.sliding(values, Fraction(size), Fraction(slide), Fraction(begin))
    order.shuffle(values)
    window = stream(values).window(range=size, slide=str(slide), origin=str(begin), wattr="price")
    rows = found(window.aggregate(oop.count()))
    assert sorted((r["wid"], r["window_start"], r["window_end"], r["count"]) for r in rows) == expected  # type: ignore[type-var]


@share(0.5)
@given(prices, amounts, st.randoms(use_true_random=False))
def test_windows_from_the_beginning_and_sessions_are_those_of_fractions(
    values: Prices, amount: Decimal, order: random.Random
) -> None:
    order.shuffle(values)
    landmark = oop.query(f"SELECT count(*) [RANGE ALL, SLIDE {amount}, WATTR price] FROM S", S=stream(values))
    assert sorted(
        (r["wid"], r["window_start"], r["window_end"], r["count"]) for r in found(landmark)
    ) == naive_decimals.landmark(values, Fraction(amount), Fraction(0))
    sessions = oop.query(f"SELECT count(*) [SESSION {amount}, WA price] FROM S", S=stream(values))
    assert sorted((r["window_start"], r["window_end"], r["count"]) for r in found(sessions)) == naive_decimals.sessions(
        values, Fraction(amount)
    )


@share(0.5)
@given(prices, prices, amounts, amounts)
def test_bands_are_those_of_fractions(left: Prices, right: Prices, one: Decimal, other: Decimal) -> None:
    left, right = [[value for value in values if value is not None] for values in (left, right)]  # type: ignore[assignment]
    text = f"SELECT A.v AS a, B.v AS b FROM A [RANGE {one}, WA price], B [RANGE {other}, WA price]"
    joined = oop.query(text, A=stream(left), B=stream(right)).to_arrow().to_pylist()
    expected = naive_decimals.band(left, right, (Fraction(one), Fraction(other)))  # type: ignore[arg-type]
    assert sorted((row["a"], row["b"]) for row in joined) == expected


@share(0.5)
@given(prices, amounts)
def test_the_least_slack_of_fractions_loses_nothing(values: Prices, size: Decimal) -> None:
    highest, behind = Decimal("-Infinity"), Decimal(0)
    for value in (value for value in values if value is not None):
        highest = max(highest, value)
        behind = max(behind, highest - value)
    live = stream(values, promise=oop.slack(behind, "price"))
    result = live.window(range=size, wattr="price").aggregate(oop.count()).run()
    expected = naive_decimals.sliding(values, Fraction(size), Fraction(size), Fraction(0))
    ours = result.table.to_pylist()
    assert sorted((r["wid"], r["window_start"], r["window_end"], r["count"]) for r in ours) == expected
    assert result.statistics.late == 0


def test_a_slack_of_one_step_less_is_too_little() -> None:
    values = [Decimal("1.00"), Decimal("0.75"), Decimal("2.00")]
    for slack, late in (("0.25", 0), ("0.24", 1)):
        window = stream(values, promise=oop.slack(slack, "price")).window(range="0.01", wattr="price")
        assert window.aggregate(oop.count()).run().statistics.late == late


def test_late_tuples_are_told_in_the_unit_of_the_values() -> None:
    live = oop.rows(
        iter([(Decimal("1.00"), 1), (Decimal("0.70"), 2)]), SCHEMA, punctuate=oop.slack("0.2", "price"), late="refuse"
    )
    with pytest.raises(oop.StreamViolation, match=r"price = 0\.70\n.*\[price < 0\.80\].*it is 0\.10 behind"):
        live.window(range="0.1", wattr="price").aggregate(oop.count()).run()


def test_what_the_plan_says_is_in_the_unit_of_the_values() -> None:
    said = stream([]).window(range="0.5", slide="0.1", wattr="price").aggregate(oop.count()).explain()
    assert "[RANGE 0.50, SLIDE 0.10, WA price]" in said and "exactly, every 0.10" in said


def test_lateness_and_early_results_count_in_steps() -> None:
    values = [Decimal("0.05"), Decimal("0.31"), Decimal("0.15"), Decimal("0.90")]
    window = stream(values, promise=oop.slack(0, "price", step="0.01")).window(range="0.2", wattr="price")
    revised = window.aggregate(oop.count(), lateness="0.2").to_arrow().to_pylist()
    assert [(str(r["window_start"]), r["count"], r["revision"]) for r in revised if r["window_start"] == 0] == [
        ("0.00", 1, 0),
        ("0.00", 2, 1),
    ]
    early = stream(values[:1]).window(range="0.2", wattr="price").aggregate(oop.count(), early="0.1")
    assert [str(r["fired"]) for r in early.to_arrow().to_pylist()] == ["0.10", "0.20"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RANGE 0.005, WA price", 'finer than "price" counts: it has 2 places behind the point'),
        ("RANGE 0.5, SLIDE 0.125, WA price", "SLIDE is 0.125, which is finer"),
        ("RANGE 0.5, WA v", 'RANGE is 0.5, but "v" is a whole number'),
        ("RANGE 2 s, WA price", "is a number"),
        ("RANGE 0.5 rows", "no whole number of rows"),
        ("RANGE 0.5, WA rank(price)", "RANGE counts tuples here"),
        ("RANGE 0.5, WA ts", "0.5 of what"),
        ("RANGE 0.5, WA x", '"x" has type double'),
        ("RANGE 0.5, WA wide", "Decimals of at most 18 digits count in steps"),
        ("RANGE 99999999999999999, WA price", 'the most on "price" is 23058430092136939.52'),
    ],
)
def test_an_amount_that_does_not_fit_is_refused_in_words(text: str, message: str) -> None:
    schema = oop.Schema.of(
        price=PRICE, v="int64", x="float64", wide=pa.decimal128(30, 2), ts=pa.timestamp("ns"), row_num="int64"
    )
    with pytest.raises(oop.LanguageError) as caught:
        oop.query(f"SELECT count(*) [{text}] FROM S", S=oop.rows([], schema))
    assert message in str(caught.value)


def test_floats_are_refused_with_the_way_to_decimals() -> None:
    floats = oop.rows([(0.5,)], oop.Schema.of(x="float64"))
    with pytest.raises(oop.PlanError, match=r'types=\{"x": "decimal\(18, 2\)"\}'):
        floats.window(range="0.5", wattr="x")
    with pytest.raises(oop.PlanError, match=r"0\.5, no amount"):
        stream([]).window(range=0.5, wattr="price")  # type: ignore[arg-type]


def test_columns_of_files_are_read_as_decimals(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price,v\n0.30,1\n-0.05,2\n,3\n0.1,4\n")
    (tmp_path / "a.json").write_text('{"price": 0.30}\n{"price": "-0.05"}\n{}\n{"price": 1e-1}\n')
    floats = pa.array([0.3, -0.05, None, 0.1, float("nan"), float("inf"), -0.0])
    pq.write_table(pa.table({"price": floats}), tmp_path / "a.parquet")
    for name, absent, nothing in (("a.csv", 1, 0), ("a.json", 1, 0), ("a.parquet", 3, 1)):
        table = oop.table(tmp_path / name, types={"price": "decimal(9, 2)"})
        result = table.window(range="0.1", wattr="price").aggregate(oop.count()).run()
        counts = {str(row["window_start"]): row["count"] for row in result.table.to_pylist()}
        assert counts == {"-0.10": 1, "0.10": 1, "0.30": 1} | ({"0.00": 1} if nothing else {})
        assert result.statistics.total("without_value") == absent
    (tmp_path / "b.csv").write_text("price\n0.30\n0.305\n")
    with pytest.raises(TableError, match=r"line 3.*Rescaling Decimal value would cause data loss"):
        oop.table(tmp_path / "b.csv", types={"price": "decimal(9, 2)"}).run()


def test_types_of_decimals_are_read_as_words() -> None:
    assert kind_for("decimal(18, 2)") == pa.decimal128(18, 2) and kind_for("decimal(5)") == pa.decimal128(5, 0)
    assert types_said(("a=decimal(18, 2),b=int", "c=%H:%M")) == {"a": "decimal(18, 2)", "b": "int", "c": "%H:%M"}
    for word in ("decimal", "decimal(0)", "decimal(2, 3)", "decimal(39, 2)", "decimal(1, 2, 3)"):
        with pytest.raises(oop.SchemaError, match="is no type"):
            check_words({"price": word}, "table")


def test_amounts_have_places_behind_the_point() -> None:
    found = parse_duration("0.2500")
    assert (found.value, found.places, found.number, str(found)) == (25, 2, Fraction(1, 4), "0.25")
    assert str(parse_duration("-1.50", signed=True)) == "-1.5" and parse_duration("2.0").places == 0


def test_promises_in_a_stream_count_units_of_the_last_digit() -> None:
    def promised(bound: Any) -> list[Any]:
        pages: list[Any] = [oop.Page.of(SCHEMA, {"price": [Decimal("0.10")], "v": [1]}), before("price", bound)]
        window = oop.pages(iter(pages), SCHEMA.with_progress(["price"])).window(range="0.2", wattr="price")
        return window.aggregate(oop.count()).to_arrow().to_pylist()

    assert [row["count"] for row in promised(20)] == [1]
    for wrong in (Decimal("0.2"), 0.2, True):
        with pytest.raises(oop.SchemaError, match=r"units of its last digit, such as 50 for 0\.50"):
            promised(wrong)


def test_conditions_on_bounds_of_windows_are_left_out_of_a_run() -> None:
    values = [Decimal("0.10"), Decimal("0.35"), Decimal("0.60")]
    results = stream(values).window(range="0.2", wattr="price").aggregate(oop.count())
    run = results.start()
    run.disclaim("window_start < 0.40 and window_end in (0.40, 0.2)")
    assert {str(row["window_start"]) for page in run for row in page.rows()} >= {"0.60"}
    with pytest.raises(oop.PlanError, match="true of no tuple, or of all"):
        results.start().disclaim("window_start = 0.405")


def test_tuples_are_sorted_and_ranked_by_decimals() -> None:
    values = [Decimal("0.30"), Decimal("-0.05"), Decimal("0.10")]
    ordered = oop.query("SELECT price FROM S ORDER BY price", S=stream(values)).to_arrow()["price"].to_pylist()
    assert ordered == sorted(values)
    waited = stream(values, promise=oop.slack("0.40", "price")).reorder(slack="0.40", on="price").to_arrow()
    assert waited["price"].to_pylist() == sorted(values)
    pairs = oop.query("SELECT sum(v) AS v [RANGE 2 rows, SLIDE 2 rows, WA rank(price)] FROM S", S=stream(values))
    assert pairs.to_arrow()["v"].to_pylist()[0] == 1 + 2
    joined = stream(values).join(stream(values), range="0.2", wattr="price", least="low", greatest="high")
    assert {row["low"] <= row["high"] for row in joined.to_arrow().to_pylist()} == {True}
