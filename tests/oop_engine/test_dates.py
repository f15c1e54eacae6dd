"""A calendar's edges are the dates of a time zone: clocks that change, dates that are skipped, far times."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.plan.dates import UNITS, NextDate
from operators.kernels.ticks import LIMIT

HOUR = 3600
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Asia/Kathmandu")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", UNITS)
def test_an_edge_is_the_first_second_of_a_date(zone: str, unit: str) -> None:
    following, edge = NextDate(unit, zone, 10**9), 1_300_000_000
    edges = [edge := following(edge) for _ in range(400 if unit == "day" else 12)]
    for begin, end in pairwise(edges):
        assert {following(t) for t in (begin, begin + 1, begin + HOUR, end - HOUR, end - 1)} == {end}
        last, first = (dt.datetime.fromtimestamp(t, ZoneInfo(zone)).date() for t in (end - 1, end))
        assert last < first
        assert unit != "week" or first.weekday() == 0
        assert unit not in ("month", "quarter", "year") or first.day == 1


def test_a_day_has_as_many_hours_as_its_clocks_show() -> None:
    following, edge = NextDate("day", "Europe/Berlin", 10**6), 1_679_000_000_000
    edges = [edge := following(edge) for _ in range(260)]
    assert {(end - begin) // (HOUR * 1000) for begin, end in pairwise(edges)} == {23, 24, 25}


@pytest.mark.parametrize("tick", [1, 10**3, 10**6, 10**9])
def test_edges_rise_as_far_as_windows_go(tick: int) -> None:
    following = NextDate("month", "Europe/Berlin", tick)
    for at in (-LIMIT, -1, 0, LIMIT - 1):
        assert following(at) > at


def test_explain_names_the_calendar() -> None:
    stream = oop.rows([(0,)], oop.Schema.of(ts=pa.timestamp("s", "UTC")))
    windows = stream.window(oop.calendar("months", zone="Europe/Berlin")).aggregate(oop.count())
    assert '[CALENDAR month IN "Europe/Berlin", WA ts]' in windows.explain()


@pytest.mark.parametrize(
    ("unit", "zone", "told"),
    [
        ("fortnight", "UTC", "a calendar has day, week, month, quarter, year"),
        ("day", "Europe/Berln", 'Did you mean "Europe/Berlin"?'),
        ("day", "../etc", 'no time zone "../etc"'),
    ],
)
def test_a_calendar_that_there_is_not_is_refused(unit: str, zone: str, told: str) -> None:
    with pytest.raises(oop.PlanError) as caught:
        oop.calendar(unit, zone=zone)
    assert told in str(caught.value)


@pytest.mark.parametrize("kind", [pa.int64(), pa.date32()])
def test_a_calendar_needs_times(kind: pa.DataType) -> None:
    stream = oop.arrow(pa.table({"ts": pa.array([0], pa.int32()).cast(kind)}))
    with pytest.raises(oop.PlanError, match="a calendar needs times"):
        stream.window(oop.calendar("day"))
