"""Early results tell what is still missing, and their interval holds the final value as often as it says."""

from __future__ import annotations

import builtins
import doctest
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.early import Early
from oop_engine.errors import PlanError
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.drive import deliver
from operators.functions import avg, count, sum
from operators.protocol import Element
from operators.signals import Clock, Event
from operators.testing import streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.triggers import expected
from operators.window_aggregate.triggers.condition import AnyOf, Condition, Rows
from operators.window_aggregate.triggers.interval import IntervalAggregate
from punctuation import END, before
from tests.examples import mostly_slow, share
from tests.naive_expected import naive_expected
from tests.open_set import OPEN_SET, with_open_set
from tests.operators.triggers.test_triggers import SCHEMA, SIGNALS, Moment, moments, one_by_one

FUNCTIONS = {"n": count(), "total": sum("v"), "mean": avg("v")}


def values(members: Sequence[Row]) -> list[int]:
    return [int(str(row["v"])) for row in members]


ANSWERS = {
    "n": len,
    "total": lambda members: builtins.sum(values(members)),
    "mean": lambda members: builtins.sum(values(members)) / len(members),
}
conditions = st.one_of(
    st.builds(Rows, st.integers(1, 3)),
    st.builds(lambda rows, signal: AnyOf((Rows(rows), signal)), st.integers(1, 3), st.sampled_from(SIGNALS)),
)
windows = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 5), slide=st.integers(1, 4), origin=st.integers(-2, 2)
)


@st.composite
def signalled(draw: st.DrawFn) -> list[Moment]:
    script = draw(streams(SCHEMA, group=("k",), tuples=30, promises=("linear",)))
    elements: list[Moment] = []
    for _, element in script.steps:
        elements += draw(st.lists(st.sampled_from(SIGNALS), max_size=1))
        elements.append(_whole(element) if isinstance(element, Page) else element)
    return elements


def _whole(page: Page) -> Page:
    """Put a 1 for what has no value."""
    rows = [row | {"v": 1 if row["v"] is None else row["v"]} for row in page.plain_rows()]
    return Page.of(SCHEMA, {name: [row[name] for row in rows] for name in SCHEMA.names})


def run(
    window: SlidingWindow, condition: Condition, by: Sequence[str], elements: Sequence[Moment], *, saving: bool = False
) -> list[Row]:
    def made() -> Chain:
        fires = IntervalAggregate(window, FUNCTIONS, tuple(by), condition=condition, interval=0.5)  # type: ignore[arg-type]
        return Chain([Bucket(window), fires])

    operator, emitted = made(), list[Element]()
    for element in elements:
        fires = operator.links()[1]
        assert isinstance(fires, IntervalAggregate)
        if isinstance(element, Event | Clock):
            fires.signal(element, emitted.append)
        else:
            deliver(operator, element, emitted.append)
        if saving:
            fresh = made()
            fresh.output_schema(SCHEMA)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh
    return [row for element in emitted if isinstance(element, Page) for row in element.plain_rows()]


def sorted_rows(rows: Sequence[Row], by: Sequence[str]) -> list[Row]:
    return sorted(rows, key=lambda row: str([row[name] for name in ("wid", "firing", *by)]))


@share(0.1)
@given(windows, conditions, st.sampled_from([(), ("k",)]), signalled())
def test_every_paging_and_restore_gives_the_estimates_of_the_definition(
    window: SlidingWindow, condition: Condition, by: tuple[str, ...], elements: list[Moment]
) -> None:
    right = sorted_rows(naive_expected(window, condition, ANSWERS, by, moments(elements), interval=Fraction(1, 2)), by)
    for variant, saving in ((elements, False), (elements, True), (one_by_one(elements), False)):
        found = sorted_rows(run(window, condition, by, variant, saving=saving), by)
        assert len(found) == len(right)
        for row, wanted in zip(found, right, strict=True):
            assert row == {name: _about(value) for name, value in wanted.items()}


@pytest.mark.parametrize("by", [(), ("k",)])
def test_many_windows_have_the_intervals_of_the_definition(by: tuple[str, ...]) -> None:
    drawn = np.random.default_rng(5)
    ticks = np.arange(240) // 4
    order = np.argsort(ticks + drawn.geometric(0.4, len(ticks)), kind="stable")
    elements: list[Moment] = []
    for at in range(0, len(order), 8):
        some = ticks[order[at : at + 8]]
        elements.append(Page.of(SCHEMA, {"ts": some, "k": ["ab"[tick * tick % 7 % 2] for tick in some], "v": some % 5}))
        if at + 8 < len(order):
            elements.append(before("ts", int(ticks[order[at + 8 :]].min())))
    elements.append(END)
    window = SlidingWindow("ts", size=4, slide=2)
    naive = naive_expected(window, Rows(1), ANSWERS, by, moments(elements), interval=Fraction(1, 2))
    right, found = sorted_rows(naive, by), sorted_rows(run(window, Rows(1), by, elements), by)
    assert builtins.sum(row["n_low"] is not None for row in right if not row["final"]) > 20
    assert found == [{name: _about(value) for name, value in row.items()} for row in right]


def _about(value: object) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True) if isinstance(value, float) else value


def late(kind: str) -> oop.Stream:
    """Draw a stream whose tuples are late, each by itself, all of a stretch together, or thrice as late in the end."""
    drawn = np.random.default_rng(1)
    ts = np.cumsum(drawn.exponential(50, 8_000)).astype(np.int64)
    lateness = drawn.exponential(1_000, int(ts.max()) // 200 + 1)[ts // 200]
    if kind != "bursts":
        lateness = drawn.exponential(1_000, len(ts))
    if kind == "drift":
        lateness *= 1 + 2 * (ts > ts.max() // 2)
    order = np.argsort(ts + lateness, kind="stable")
    table = pa.table({"ts": ts[order], "x": drawn.integers(0, 100, len(ts))[order]})
    return oop.arrow(table, punctuate=oop.slack(36_000))


@attrs.define
class Held:
    """What early results with an interval for 95 % were like."""

    windows: dict[str, list[bool]]
    """Of each value, which windows held it at all firings."""
    widths: list[float]
    nearer: list[float]
    """How much further from the final count the estimate was than what had come."""

    @classmethod
    def of(cls, windows: oop.Windowed, value: str, rows: int) -> Held:
        early = oop.early(when=oop.Trigger.rows(rows), interval=0.95)
        results = windows.aggregate(oop.count(), total=oop.sum(value), early=early).start(page_rows=100)
        found: list[dict[str, Any]] = [dict(row) for page in results for row in page.plain_rows()]
        final = {row["wid"]: row for row in found if row["final"]}
        held, firings = cls({}, [], []), [row for row in found if not row["final"] and row["count_low"] is not None]
        for name in ("count", "total"):
            inside: dict[object, bool] = {}
            for row in firings:
                true, wid = final[row["wid"]][name], row["wid"]
                inside[wid] = inside.get(wid, True) and row[f"{name}_low"] <= true <= row[f"{name}_high"]
            held.windows[name] = [*inside.values()]
        for row in firings:
            true = final[row["wid"]]["count"]
            held.nearer.append(abs(row["count_expected"] - true) - abs(row["count"] - true))
            held.widths.append((row["count_high"] - row["count_low"]) / true)
        return held

    def check(self, least: int) -> None:
        for windows in self.windows.values():
            assert len(windows) > least
            # Of so many windows, 95 in 100 less three standard deviations.
            assert np.mean(windows) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(windows))


@pytest.mark.parametrize("kind", mostly_slow(["alone", "bursts", "drift"], but=["alone"]))
def test_the_interval_holds_the_final_value_of_95_in_100_windows_at_all_their_firings(kind: str) -> None:
    held = Held.of(late(kind).window(range=500 if kind == "drift" else 4_000), "x", rows=1)
    held.check(600 if kind == "drift" else 30)
    if kind != "drift":
        assert np.mean(held.nearer) < 0
        assert np.median(held.widths) < 1


@with_open_set
@pytest.mark.slow
@pytest.mark.parametrize("time", ["ts", "end_ts"])
def test_so_it_does_of_flows_that_routers_export_late(time: str) -> None:
    flows = oop.netflow(OPEN_SET / "own/flows1.pcap")
    Held.of(flows.window(range="1 s", wattr=time), "bytes", rows=10).check(900)


def test_a_result_says_how_much_has_arrived_and_a_final_one_is_its_own_estimate() -> None:
    stream = oop.rows([(t,) for t in (1, 4, 12, 3, 25)], oop.Schema.of(ts="int64"), punctuate=oop.slack(15))
    early = oop.early(when=oop.Trigger.rows(1), interval=0.95, refine="retract")
    rows = stream.window(range=10).aggregate(oop.count(), early=early).to_arrow().to_pylist()
    assert next(row["arrived"] for row in rows if not row["final"]) is None
    assert {(row["arrived"], row["count_expected"] == row["count"]) for row in rows if row["final"]} == {(1.0, True)}


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda w: w.aggregate(oop.count(), early=oop.early("2 s", interval=0.9)), "results on event time"),
        (lambda w: w.aggregate(oop.count(), early=_early(interval=95)), "between 0 and 1"),
        (lambda w: w.aggregate(oop.count(), early=_early(refine="discard")), "Leave one of them out"),
        (lambda w: w.aggregate(oop.max("x"), early=_early()), "counts, sums and means of numbers have an"),
        (lambda w: w.aggregate(count_low=oop.max("x"), count=oop.count(), early=_early()), '"count_low" is the name'),
    ],
)
def test_what_cannot_be_is_refused(made: Callable[[oop.Windowed], object], says: str) -> None:
    table = pa.table({"ts": [1], "x": [2]})
    with pytest.raises((PlanError, ValueError), match=says):
        made(oop.arrow(table).window(range=10))


def _early(interval: float = 0.95, **more: Any) -> Early:
    return oop.early(when=oop.Trigger.rows(1), interval=interval, **more)


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(expected).failed == 0
