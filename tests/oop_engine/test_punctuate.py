"""What a user says of a stream's progress becomes the punctuator that says it, as finely as the plan needs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import Promise
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.streams.by_key import ByKey
from operators.streams.input import Input
from punctuation import before
from punctuation.punctuators import BlockEnd, Embedded, Heartbeat, Ordered, Punctuator, Slack, TupleSlack

SCHEMA = Schema.of(ts=pa.timestamp("ms", tz="UTC"), n=pa.int64(), block=pa.int64(), mark=pa.bool_(), k=pa.string())


@pytest.mark.parametrize(
    ("promise", "made", "says"),
    [
        (oop.ordered(), Ordered("ts", step=60, origin=7, jump=3_600_000), "ordered on ts"),
        (oop.ordered("n", every=5), Ordered("n", every=5), "ordered on n"),
        (oop.ordered("n", every=5, step=3), Ordered("n", every=5, step=3), "ordered on n"),
        (oop.ordered(step="2s", lull="1 minute"), Ordered("ts", step=2000, lull=60_000, jump=300_000), "ordered on ts"),
        (oop.every("1s"), Ordered("ts", step=1000, jump=3_600_000), "ordered on ts"),
        (oop.every(4, on="n"), Ordered("n", step=4), "ordered on n"),
        (oop.slack("2s"), Slack("ts", 2000, step=60, origin=7, jump=3_600_000), "slack 2s on ts"),
        (oop.slack(3, on="n", step=2), Slack("n", 3, step=2), "slack 3 on n"),
        (oop.slack("1s", every=9, lull="5s"), Slack("ts", 1000, every=9, lull=5000, jump=300_000), "slack 1s on ts"),
        (oop.tuple_slack(100), TupleSlack("ts", 100, step=60, origin=7, jump=3_600_000), "slack of 100 tuples on ts"),
        (oop.blocks(length=64, on="n"), BlockEnd("n", length=64, step=60, origin=7), "block end, blocks of 64 on n"),
        (
            oop.blocks(length="1s"),
            BlockEnd("ts", length=1000, step=60, origin=7, jump=3_600_000),
            "block end, blocks of 1s on ts",
        ),
        (
            oop.blocks(block="block"),
            BlockEnd("ts", block="block", step=60, origin=7, jump=3_600_000),
            "block end on ts",
        ),
        (oop.ordered(jump="1 day"), Ordered("ts", step=60, origin=7, jump=86_400_000), "ordered, jump 1 day on ts"),
        (oop.slack("2s", jump=None), Slack("ts", 2000, step=60, origin=7), "slack 2s, any jump on ts"),
        (oop.slack(3, on="n", jump=9), Slack("n", 3, step=60, origin=7, jump=9), "slack 3, jump 9 on n"),
        (
            oop.by_key("k", "2s"),
            ByKey("ts", ("k",), slack=2000, idle=60_000, step=60, origin=7, jump=3_600_000),
            "slack 2s by k, idle after 1 minute on ts",
        ),
        (
            oop.by_key(("k", "block"), "auto", "n", idle=5, step=3, late_share="1 %"),
            ByKey("n", ("k", "block"), slack=0, idle=5, step=3, late_per_million=10_000),
            "slack for 1 % late by k, block, idle after 5 on n",
        ),
        (oop.embedded("mark"), Embedded("ts", marker="mark"), "embedded, marked by mark on ts"),
        (
            oop.embedded("mark", group=("k",)),
            Embedded("ts", marker="mark", group=("k",)),
            "embedded, marked by mark on ts",
        ),
        (
            oop.heartbeat({"a": ("1s", "2s"), "b": ("5 ms", "6 ms")}),
            Heartbeat("ts", {"a": (1000, 2000), "b": (5, 6)}, step=60, origin=7),
            "heartbeat on ts",
        ),
    ],
)
def test_a_promise_becomes_its_punctuator_with_the_pace_of_the_plan(
    promise: Promise, made: Punctuator, says: str
) -> None:
    """The plan's pace, here every 60 from 7, is used unless the user said one."""
    assert repr(promise.punctuator(SCHEMA, 60, 7)) == repr(made)
    assert str(promise) == says


@pytest.mark.parametrize(
    ("promise", "attributes"),
    [
        (oop.slack("2s"), ("ts",)),
        (oop.embedded("mark", group=("k", "n")), ("k", "n", "ts")),
    ],
)
def test_a_promise_names_its_attributes(promise: Promise, attributes: Sequence[str]) -> None:
    assert promise.attributes == attributes


def test_a_step_must_be_one() -> None:
    with pytest.raises(oop.PlanError, match="a step of 0 on ts is no step; it must be positive"):
        oop.every(0).punctuator(SCHEMA, None, 0)


def test_amounts_must_fit_the_attribute() -> None:
    with pytest.raises(oop.PlanError, match=r'slack is 2 s, but "n" is a number'):
        oop.slack("2s", on="n").punctuator(SCHEMA, None, 0)
    with pytest.raises(oop.PlanError, match=r'lull is 2 s, but "n" is a number'):
        oop.ordered("n", lull="2s").punctuator(SCHEMA, None, 0)
    with pytest.raises(oop.PlanError, match=r'delay is 2 rows, but "ts" is a time'):
        oop.heartbeat({"a": ("1s", "2 rows")}).punctuator(SCHEMA, None, 0)


def test_promises_made_end_to_end_release_windows_while_the_stream_goes_on() -> None:
    """The window ends at 10; each promise lets it go at another tuple."""
    data = [{"n": n, "block": n // 5, "mark": False} for n in (1, 4, 8, 6, 12, 11, 16, 22, 25)]
    schema = pa.schema([("n", pa.int64()), ("block", pa.int64()), ("mark", pa.bool_())])
    released: dict[str, int] = {}
    for promise in (
        oop.slack(2, on="n"),
        oop.slack(6, on="n"),
        oop.tuple_slack(2, on="n"),
        oop.blocks(length=5, on="n"),
        oop.blocks("n", block="block"),
    ):
        stream = oop.rows(data, schema, punctuate=promise).window(range=10, wattr="n").aggregate(oop.count())
        driver = Run(Plan((stream.node,)), 1)
        for _, element in driver:
            if isinstance(element, Page):
                assert element.rows()[0]["count"] == 4
                released[f"{promise.how}{len(released)}"] = driver.circuit.meters[0].tuples_in
                break
    assert list(released.values()) == [5, 7, 7, 5, 7]


@pytest.mark.parametrize(("jump", "behind"), [("auto", 15), ("7 days", 0), (None, 0)])
def test_tuples_that_are_a_day_apart_are_believed_at_once_where_the_promise_allows_for_it(
    jump: str | None, behind: int
) -> None:
    schema, day = Schema.of(ts=pa.timestamp("s", tz="UTC"), progress=["ts"]), 86_400
    operator = Input([oop.ordered(jump=jump).punctuator(schema, day, 0)], name="readings")
    for number in range(40):
        heard: list[Element] = []
        operator.process(Page.of(schema, {"ts": [number * day]}), heard.append)
        if number > 20:
            assert [element for element in heard if not isinstance(element, Page)] == [
                before("ts", (number - behind) * day)
            ]
