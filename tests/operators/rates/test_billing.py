"""A bill ranks all slots of its period, those without traffic as zero, whatever the order of arrival."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import sum as total
from operators.protocol import Operator
from operators.rates import billing as module
from operators.rates.billing import Billing
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate import revised
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.naive_billing import naive_billing
from tests.operators.planted import found_out

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
SLOTS = Schema.of(
    k=pa.string(), bps=pa.float64(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64(),
    progress=["window_end"],
)  # fmt: skip


@attrs.frozen
class Period:
    """Begin a period every so many ticks."""

    length: int
    origin: int

    def __call__(self, tick: int) -> int:
        return self.around(tick)[1]

    def around(self, tick: int) -> tuple[int, int]:
        begin = (tick - self.origin) // self.length * self.length + self.origin
        return begin, begin + self.length


@attrs.frozen
class Asked:
    """A bill over the slots of windows."""

    slot: SlidingWindow
    period: Period
    by: tuple[str, ...]
    sources: tuple[str, ...]
    share: float

    def operator(self) -> Operator:
        billing = Billing(
            "v", self.by, slot=self.slot, period=EdgeWindow("window_start", self.period), share=self.share,
            functions={"total": total("v")}, sources=self.sources,
        )  # fmt: skip
        return Chain([SlicingAggregate({"": self.slot}, {"v": total("v")}, self.by), billing])

    def naive(self, table: Sequence[Row]) -> list[Row]:
        def summed(members: list[Row]) -> int | None:
            there = [row["v"] for row in members if isinstance(row["v"], int)]
            return sum(there) if there else None

        slots = naive_windows(self.slot, {"v": summed}, self.by, table)
        return naive_billing(
            slots, "v", by=self.by, sources=self.sources, first=self.slot.origin - self.slot.size,
            slide=self.slot.slide, period=self.period.around, share=str(self.share),
        )  # fmt: skip


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    slide = draw(st.integers(1, 3))
    by = draw(st.sampled_from([(), ("k",)]))
    return Asked(
        SlidingWindow(
            "ts", size=draw(st.sampled_from([slide, slide + 1])), slide=slide, origin=draw(st.integers(-2, 2))
        ),
        Period(draw(st.integers(slide, 12)), draw(st.integers(-3, 3))),
        by,
        draw(st.sampled_from([(), by])),
        draw(st.sampled_from([0.5, 0.75, 0.95, 1.0])),
    )


@share(1)
@given(asked(), streams(SCHEMA, group=(), nulls=("ts", "k", "v"), tuples=10))
def test_bills_keep_the_laws_and_are_the_naive_answer(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, naive=one.naive)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        # A period is over when its last slot is, and a rate of zero is one of the slots.
        ("_end", lambda self, tick: self.period.around(tick)[1] - 1),
        ("_starting", lambda self, ticks: -(-ticks // self.slot.slide)),
    ],
)
def test_a_planted_bug_is_found(name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Billing, name, wrong)

    def check(case: tuple[Asked, Script]) -> None:
        check_operator(case[0].operator, case[1], naive=case[0].naive, laws=(3, 7, 10))

    assert found_out(check, st.tuples(asked(), streams(SCHEMA, tuples=14))) in (3, 7, 10)


def bill(table: Sequence[tuple[Any, ...]], **more: Any) -> list[Row]:
    given: dict[str, Any] = {
        "slot": SlidingWindow("ts", size=5, slide=5),
        "period": EdgeWindow("window_start", Period(100, 0)),
    } | more
    page = Page.of_rows(SLOTS, [(k, bps, start // 5, start, start + 5) for k, bps, start in table])
    return rows(drive(Billing("bps", ("k",), **given), [page, END]))


def test_of_twenty_slots_the_highest_is_left_out_and_the_next_is_billed() -> None:
    (row,) = bill([("a", float(n), 5 * n) for n in range(20)])
    assert (row["p95_bps"], row["max_bps"], row["slots"], row["empty"]) == (18.0, 19.0, 20, 0)


def test_slots_without_traffic_are_zeros_below_all_rates_and_above_negative_ones() -> None:
    (row,) = bill([("a", 9.0, 0), ("a", None, 5)])
    assert (row["p95_bps"], row["max_bps"], row["empty"]) == (0.0, 9.0, 18)
    (row,) = bill([("a", -9.0, 0)])
    assert (row["p95_bps"], row["max_bps"]) == (0.0, 0.0)
    (row,) = bill([("a", -9.0, 0), ("a", -8.0, 5)], share=0.1)
    assert row["p10_bps"] == -8.0


def test_of_a_month_of_30_days_in_5_minutes_the_highest_432_slots_are_free() -> None:
    slot, month = SlidingWindow("ts", size=300, slide=300), EdgeWindow("window_start", Period(30 * 86_400, 0))
    page = Page.of_rows(SLOTS, [("a", 1000.0 - n, n, 300 * n, 300 * n + 300) for n in range(433)])
    for many, paid in ((432, 0.0), (433, 568.0)):
        (row,) = rows(drive(Billing("bps", ("k",), slot=slot, period=month), [page.slice(0, many), END]))
        assert (row["p95_bps"], row["max_bps"], row["slots"]) == (paid, 1000.0, 8640)


def test_a_slot_in_which_no_group_of_the_source_has_traffic_is_missing() -> None:
    table = [("a", 1.0, 0), ("a", 1.0, 5), ("b", 1.0, 5), ("b", 1.0, 10)]
    assert [(r["k"], r["empty"], r["missing"]) for r in bill(table)] == [("a", 18, 17), ("b", 18, 17)]
    assert [(r["k"], r["missing"]) for r in bill(table, sources=("k",))] == [("a", 18), ("b", 18)]


def test_a_period_is_billed_as_soon_as_no_slot_of_it_can_come() -> None:
    page = Page.of_rows(SLOTS, [("a", 1.0, 19, 95, 100), ("a", 2.0, 20, 100, 105)])
    billing = Billing(
        "bps", ("k",), slot=SlidingWindow("ts", size=5, slide=5), period=EdgeWindow("window_start", Period(100, 0))
    )
    assert rows(drive(billing, [page, before("window_end", 100)])) == []
    found = drive(billing, [before("window_end", 101)])
    assert [row["max_bps"] for row in rows(found)] == [1.0]
    assert [str(each) for each in found if not isinstance(each, Page)] == ["[window_end < 200]", "[window_start < 100]"]
    assert billing.statistics()["state_tuples"] == 1


def test_of_slots_that_are_given_again_the_last_one_counts() -> None:
    schema = Schema(SLOTS.arrow.append(pa.field("revision", pa.int64())), progress=["window_end"])
    page = Page.of_rows(schema, [("a", 7.0, 0, 0, 5, 1), ("a", 3.0, 0, 0, 5, 0)])
    slot, period = SlidingWindow("ts", size=5, slide=5), EdgeWindow("window_start", Period(5, 0))
    billing = Billing("bps", ("k",), slot=slot, period=period, on_time={"first": total("bps")})
    (row,) = rows(drive(billing, [page, END]))
    assert (row["p95_bps"], row["first"]) == (7.0, 3.0)


def test_what_cannot_be_billed_is_refused_in_words() -> None:
    given: dict[str, Any] = {
        "slot": SlidingWindow("ts", size=5, slide=5), "period": EdgeWindow("window_start", Period(5, 0))
    }  # fmt: skip
    with pytest.raises(SchemaError, match='"k" has type string, and a rate is a number'):
        Billing("k", **given).output_schema(SLOTS)
    with pytest.raises(SchemaError, match="no group of the windows: k"):
        Billing("bps", ("k",), sources=("wid",), **given).output_schema(SLOTS)
    with pytest.raises(SchemaError, match="above 0 and at most 1, and is 95"):
        Billing("bps", share=95, **given)


def test_the_examples_in_its_docstrings_are_right() -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(revised).failed == 0
