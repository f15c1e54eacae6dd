"""Decimals count in units of their last digit: ticks are exact, and so are the values that are made of them again."""

from __future__ import annotations

import doctest
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data import steps as module
from operators.data.page import Page, Row, plain_values, tick_column
from operators.data.schema import Schema
from operators.data.steps import decimal_ticks, from_ticks, in_steps, tick_number, unit_of
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import count
from operators.join import Band, OAJoin
from operators.rows.distinct import Distinct
from operators.streams.named_groups import constants
from operators.streams.reorder import Reorder
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, SlidingWindow, tumbling
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Equals, Punctuation, before
from tests import naive_windows
from tests.examples import share
from tests.naive_join import band, naive_join
from tests.operators.slicing.mixes import FUNCTIONS, Mix, mixes, naive

PRICE = pa.decimal128(9, 2)
SCHEMA = Schema.of(ts=PRICE, k=pa.decimal128(5, 1), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
KINDS = [pa.decimal128(18, 0), pa.decimal128(18, 18), pa.decimal128(18, -3), pa.decimal128(7, 2), pa.decimal128(1, 1)]


def test_doctests() -> None:
    assert doctest.testmod(module).failed == 0


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_ticks_are_values_divided_by_the_unit(kind: pa.DataType, data: st.DataObject) -> None:
    most = 10**kind.precision - 1
    ticks = data.draw(st.lists(st.none() | st.integers(-most, most), max_size=12))
    values = [None if tick is None else Decimal(tick).scaleb(-kind.scale) for tick in ticks]
    start = data.draw(st.integers(0, len(values)))
    column = pa.array(values, kind)[start:]
    assert [None if v is None else Fraction(v) / unit_of(kind) for v in values[start:]] == ticks[start:]
    assert decimal_ticks(column).to_pylist() == plain_values(column) == ticks[start:]
    made = from_ticks(pa.array(ticks[start:], pa.int64()), kind)
    assert made.equals(column)
    texts = [tick_number(tick, kind) for tick in ticks if tick is not None]
    assert texts == [f"{value:f}" for value in values if value is not None]


def test_more_than_int64_becomes_the_largest_and_the_least_of_it() -> None:
    kind = pa.decimal128(19, 1)
    found = decimal_ticks(pa.array([Decimal(10) ** 18 * 9 / 10, Decimal(-(10**18)) + 1, Decimal(3)], kind))
    assert found.to_pylist() == [9 * 10**18, -(2**63), 30]


def test_wide_decimals_do_not_count() -> None:
    assert not in_steps(pa.decimal128(20, 2)) and not in_steps(pa.decimal256(9, 2))
    with pytest.raises(SchemaError, match='attribute "x" has type decimal128'):
        Page.of(Schema.of(x=pa.decimal128(38, 2)), {"x": [Decimal(1)]}).ticks("x")


def test_columns_of_ticks_are_null_beyond_a_limit() -> None:
    found = tick_column(np.array([-5, 2**61, 7]), pa.decimal128(19, 2), beyond=2**61)
    assert found.to_pylist() == [Decimal("-0.05"), None, Decimal("0.07")]


def test_promises_hold_decimals_as_ticks() -> None:
    page = Page.of(Schema.of(p=PRICE), {"p": [Decimal("0.30"), None, Decimal("-1")]})
    assert page.matching(before("p", 30)).tolist() == [False, False, True]
    assert page.matching(Punctuation({"p": Equals(30)})).tolist() == [True, False, False]
    assert constants([30, -100], PRICE).to_pylist() == [Decimal("0.30"), Decimal("-1.00")]  # type: ignore[union-attr]
    assert constants([10**9], PRICE) is None
    assert constants(["0.3"], PRICE) is None


def test_windows_end_behind_the_largest_value_of_the_type() -> None:
    schema = Schema.of(p=pa.decimal128(3, 2), progress=["p"])
    page = Page.of(schema, {"p": [Decimal("9.99")]})
    (row,) = rows(drive(SlicingAggregate({"w": tumbling("p", 100)}, {"n": count()}), [page, END]))
    assert (row["window_start"], row["window_end"]) == (900, 1000)


@share(0.2)
@given(mixes, st.sampled_from([(), ("k",)]), streams(SCHEMA, group=("k",), tuples=10, nulls=("v", "k")))
def test_slices_of_decimals_keep_the_laws(mix: Mix, by: tuple[str, ...], script: Script) -> None:
    check_operator(lambda: SlicingAggregate(mix, FUNCTIONS, by), script, naive=lambda table: naive(mix, by, table))


@share(0.2)
@given(
    st.builds(SlidingWindow, st.just("ts"), size=st.integers(1, 5), slide=st.integers(1, 5)),
    streams(SCHEMA, group=("k",), tuples=10, nulls=("v",)),
)
def test_window_ids_of_decimals_keep_the_laws(window: SlidingWindow, script: Script) -> None:
    def answer(table: list[Row]) -> list[Row]:
        found = naive_windows.sliding(table, "ts", size=window.size, slide=window.slide)
        return [{"n": len(inside), "wid": w, "window_start": b, "window_end": e} for w, b, e, inside in found]

    check_operator(lambda: Chain([Bucket(window), WindowAggregate(window, {"n": count()})]), script, naive=answer)


@share(0.2)
@given(streams(SCHEMA, nulls=("k", "ts"), group=("k",)))
def test_decimals_are_sorted(script: Script) -> None:
    check_operator(lambda: Reorder("ts", slack_time=40), script, naive=lambda table: table)


@share(0.2)
@given(streams(SCHEMA, group=("k",), nulls=("v",)))
def test_combinations_with_decimals_are_let_go_of(script: Script) -> None:
    def answer(table: list[Row]) -> list[Row]:
        return [{"ts": ts, "k": k} for ts, k in dict.fromkeys((row["ts"], row["k"]) for row in table)]

    check_operator(lambda: Distinct(("ts", "k")), script, naive=answer)


LEFT = Schema.of(s=PRICE, k=pa.string(), progress=["s", ("k", "s")])
RIGHT = Schema.of(t=pa.decimal128(19, 2), k=pa.string(), progress=["t", ("k", "t")])


@share(0.2)
@given(st.sampled_from(["inner", "full", "anti"]), streams([LEFT, RIGHT], wattr=("s", "t"), group=("k",), tuples=6))
def test_bands_of_decimals_join(kind: str, script: Script) -> None:
    def answer(*tables: list[Row]) -> list[Row]:
        return naive_join(
            *tables, meets=band(3, 2), times=("s", "t"), on=[("k", "k")], kind=kind, names={"k": "right_k"},
            columns=(LEFT.names, RIGHT.names),
        )  # fmt: skip

    window = Band("s", "t", left=3, right=2)
    check_operator(lambda: OAJoin(window, (("k", "k"),), kind=kind), script, naive=answer)  # type: ignore[arg-type]


def test_decimals_of_other_places_do_not_join() -> None:
    other = Schema.of(t=pa.decimal128(9, 3), k=pa.string())
    with pytest.raises(SchemaError, match="Windows need one unit"):
        OAJoin(Band("s", "t", left=3, right=2), (("k", "k"),)).output_schema(LEFT, other)


def test_windows_that_begin_with_the_stream_and_sessions_have_decimals_as_bounds() -> None:
    page = Page.of(Schema.of(p=PRICE, progress=["p"]), {"p": [Decimal("0.10"), Decimal("0.24"), Decimal("0.40")]})
    landmark = LandmarkWindow("p", slide=25)
    found = rows(drive(Chain([Bucket(landmark), WindowAggregate(landmark, {"n": count()})]), [page, END]))
    assert [(row["window_start"], row["window_end"], row["n"]) for row in found] == [(None, 25, 2), (None, 50, 3)]
    sessions = SlicingAggregate({"s": SessionWindow("p", gap=15)}, {"n": count()})
    made = drive(sessions, [page, END])[0]
    assert isinstance(made, Page)
    assert made.batch.column("window_end").to_pylist() == [Decimal("0.39"), Decimal("0.55")]
