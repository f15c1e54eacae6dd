"""Amounts become ticks of the attribute they are measured on, exactly, or are refused in words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.errors import PlanError
from oop_engine.language import parse_duration
from oop_engine.plan.ticks import Amount, tick_ns, ticks_of

DAY = 86_400


@pytest.mark.parametrize(
    ("kind", "ns"),
    [
        (pa.timestamp("s"), 10**9),
        (pa.timestamp("ms", tz="UTC"), 10**6),
        (pa.timestamp("us"), 10**3),
        (pa.timestamp("ns", tz="Europe/Paris"), 1),
        (pa.duration("ms"), 10**6),
        (pa.time32("s"), 10**9),
        (pa.time64("ns"), 1),
        (pa.date32(), DAY * 10**9),
        (pa.date64(), 10**6),
        (pa.int64(), None),
        (pa.uint16(), None),
    ],
)
def test_the_length_of_a_tick(kind: pa.DataType, ns: int | None) -> None:
    assert tick_ns(kind) == ns


@pytest.mark.parametrize(
    ("amount", "kind", "ticks"),
    [
        ("2s", pa.timestamp("ns"), 2 * 10**9),
        ("2s", pa.timestamp("s"), 2),
        ("1.5 s", pa.timestamp("ms"), 1500),
        ("10 minutes", pa.timestamp("us"), 600 * 10**6),
        ("2 days", pa.date32(), 2),
        ("1 day", pa.date64(), DAY * 1000),
        (dt.timedelta(minutes=1, milliseconds=5), pa.timestamp("ms"), 60_005),
        (dt.timedelta(days=1, microseconds=1), pa.timestamp("ns"), DAY * 10**9 + 1000),
        (parse_duration("3 ms"), pa.timestamp("us"), 3000),
        ("7 ns", pa.timestamp("ns"), 7),
        ("1h30m", pa.timestamp("s"), 5400),
        (0, pa.timestamp("ns"), 0),
        ("7", pa.int64(), 7),
        (0, pa.int64(), 0),
    ],
)
def test_amounts_in_ticks(amount: Amount, kind: pa.DataType, ticks: int) -> None:
    assert ticks_of(amount, pa.field("ts", kind), what="RANGE") == ticks


@pytest.mark.parametrize(
    ("amount", "kind", "text"),
    [
        ("2 s", pa.int64(), 'RANGE is 2 s, but "ts" is a number (int64), not a time.\n'
         "  Give a plain number in the unit of ts, or project it to a timestamp first.\n"
         '  Seconds since 1970 in a table are read as times with types={"ts": "epoch"}, in the shell --types'
         " ts=epoch."),
        (60, pa.timestamp("ns"), 'RANGE is 60, but "ts" is a time (timestamp[ns]): 60 of what?\n'
         '  Write "60 s", or "60 ns" for ticks of this attribute.'),
        ("60", pa.timestamp("us"), 'RANGE is 60, but "ts" is a time (timestamp[us]): 60 of what?\n'
         '  Write "60 s", or "60 us" for ticks of this attribute.'),
        (60, pa.duration("s"), 'RANGE is 60, but "ts" is a time (duration[s]): 60 of what?\n  Write "60 s".'),
        (60, pa.time64("us"), 'RANGE is 60, but "ts" is a time (time64[us]): 60 of what?\n'
         '  Write "60 s", or "60 us" for ticks of this attribute.'),
        (7, pa.date32(), 'RANGE is 7, but "ts" is a time (date32[day]): 7 of what?\n  Write "7 days".'),
        (6 * 10**10, pa.timestamp("ns"), 'RANGE is 60000000000, but "ts" is a time (timestamp[ns]): '
         '60000000000 of what?\n  Write "60000000000 ns".'),
        ("5 rows", pa.timestamp("s"), 'RANGE is 5 rows, but "ts" is a time (timestamp[s]).\n'
         "  Give a duration such as 10 seconds, or count rows with the windowing attribute row_num."),
        ("5 rows", pa.int64(), 'RANGE is 5 rows, but "ts" is a number (int64) that counts no rows.\n'
         "  Give a plain number in the unit of ts, or count rows:\n"
         '  in the order of ts with WA rank(ts), in Python oop.counted(5, wattr="ts"), '
         'or in that of arrival with WA row-num, in Python wattr="row_num".'),
        ("1.5 s", pa.timestamp("s"), 'RANGE of 1.5 s is finer than "ts" (timestamp[s]) can tell.'),
        ("1 s", pa.date32(), 'RANGE of 1 s is finer than "ts" (date32[day]) can tell.'),
        (dt.timedelta(0, 0, 1), pa.date32(), 'RANGE of 0:00:00.000001 is finer than "ts" (date32[day]) can tell.'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(amount: Amount, kind: pa.DataType, text: str) -> None:
    with pytest.raises(PlanError) as caught:
        ticks_of(amount, pa.field("ts", kind), what="RANGE")
    assert str(caught.value) == text


def test_only_what_may_be_negative_is() -> None:
    field = pa.field("ts", pa.int64())
    assert ticks_of(-3, field, what="ORIGIN", signed=True) == -3
    assert ticks_of("-2 s", pa.field("ts", pa.timestamp("ms")), what="ORIGIN", signed=True) == -2000
    with pytest.raises(PlanError, match="RANGE is -3: a duration cannot be negative"):
        ticks_of(-3, field, what="RANGE")
    with pytest.raises(PlanError, match=r"slack is .*timedelta.*: a duration cannot be negative"):
        ticks_of(dt.timedelta(seconds=-1), pa.field("ts", pa.timestamp("ms")), what="slack")


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda s: s.window(range="10 s", slide="-1 s"), "SLIDE must be more than nothing, not -1 s"),
        (lambda s: s.window(range="10 s", slide="ten"), """SLIDE is 'ten': "ten" is no duration; write for example"""),
        (lambda s: s.window(range="1 mnt"), "RANGE is '1 mnt': expected a unit such as .*\n  Did you mean"),
        (lambda s: s.window("1 s").aggregate(oop.count(), lateness="1 mnt"), "lateness is '1 mnt': expected a unit"),
        (lambda s: s.window("1 s").aggregate(oop.count(), lateness=True), "lateness is True, no amount"),
        (lambda s: oop.from_source(s.node.source, slack="-2s"), "slack is '-2s': a duration cannot be negative"),
        (lambda s: s.reorder(slack="2 x"), "slack is '2 x': expected a unit"),
        (lambda s: oop.session("10 sx"), "the gap of a session is '10 sx': expected a unit"),
        (lambda s: s.join(s, range=("1 s", "-1 s")), "range of the right input is '-1 s': a duration"),
    ],
)
def test_an_amount_that_is_none_is_told_by_its_parameter(build: Callable[[oop.Stream], object], text: str) -> None:
    stream = oop.rows([], pa.schema([("ts", pa.timestamp("ns"))]))
    with pytest.raises(PlanError, match=text):
        build(stream)


def test_other_amounts_than_those_of_windows_are_told_what_they_are_in() -> None:
    with pytest.raises(PlanError, match=r"slack is 2 rows(.|\n)*Give a plain number in the unit of ts\.$"):
        ticks_of("2 rows", pa.field("ts", pa.int64()), what="slack")


def test_rows_count_an_attribute_that_numbers_tuples_whatever_its_type() -> None:
    assert ticks_of("1000 rows", pa.field("row_num", pa.int64()), what="RANGE", rows=True) == 1000
    assert ticks_of("1000 rows", pa.field("row_num", pa.int64()), what="the gap of a session") == 1000
    assert ticks_of("1000 rows", pa.field("seq", pa.uint16()), what="RANGE", rows=True) == 1000
