"""Days, weeks, months and years of a time zone, as edges of windows: they have no fixed length.

A day of a zone has 23 or 25 hours when clocks change, so its windows are found date by date.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from operators.data.durations import tick_ns
from operators.errors import did_you_mean
from operators.kernels.ticks import LIMIT

CalendarUnit: TypeAlias = Literal["day", "week", "month", "quarter", "year"]
UNITS: Final[tuple[CalendarUnit, ...]] = get_args(CalendarUnit)
_SECOND: Final = 1_000_000_000
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_FIRST: Final = -62_000_000_000
"""Seconds to the first edge, in the year 5."""
_LAST: Final = 253_000_000_000
"""Seconds beyond which there is no edge, in the year 9987."""


@attrs.frozen
class NextDate:
    """Find the tick at which the next day, week, month, quarter or year begins in a zone.

    `tick` is the length of a tick in nanoseconds; what calls itself a week begins on Monday.

    >>> NextDate("month", "UTC", 1_000_000_000)(1_367_526_045)
    1370044800
    """

    unit: CalendarUnit
    zone: str
    tick: int

    def __call__(self, tick: int) -> int:
        """Return the first edge after a tick."""
        seconds = int(tick) * self.tick // _SECOND
        if seconds >= _LAST:
            return 4 * LIMIT
        zone = ZoneInfo(self.zone)
        date = self._next(dt.datetime.fromtimestamp(max(seconds, _FIRST), zone).date())
        while (edge := self._begin(date, zone)) <= seconds:
            # Zones that crossed the date line had a date twice.
            date = self._next(date)
        return edge * _SECOND // self.tick

    def __str__(self) -> str:
        return f"CALENDAR {self.unit}" + ("" if self.zone == "UTC" else f' IN "{self.zone}"')

    def _next(self, date: dt.date) -> dt.date:
        if self.unit == "day":
            return date + dt.timedelta(days=1)
        if self.unit == "week":
            return date + dt.timedelta(days=7 - date.weekday())
        months = _MONTHS[self.unit]
        number = (date.year * 12 + date.month - 1) // months * months + months
        return dt.date(number // 12, number % 12 + 1, 1)

    @staticmethod
    def _begin(date: dt.date, zone: ZoneInfo) -> int:
        """Return when a date begins; where clocks skip midnight, that is when they do."""
        return int(dt.datetime(date.year, date.month, date.day, tzinfo=zone).timestamp())


def next_date(unit: str, zone: str, field: pa.Field) -> NextDate:
    """Return the edges of a calendar on an attribute; PlanError for an unknown unit or zone, or another attribute.

    - `unit`: one of `UNITS`.
    - `zone`: the name of a time zone.
    - `field`: the windowing attribute, a time of seconds or finer.
    """
    check_calendar(unit, zone)
    tick = tick_ns(field.type)
    if tick is None or tick > _SECOND:
        raise PlanError(
            f'a calendar needs times, and "{field.name}" has type {field.type}.\n'
            "  Cast it: stream.derive(at=\"cast(ts, 'timestamp[s]')\")."
        )
    return NextDate(_unit(unit), zone, tick)


def check_calendar(unit: str, zone: str) -> None:
    """Check that there are such a unit and zone; PlanError, with near names, where not."""
    _unit(unit)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = did_you_mean(zone, sorted(available_timezones()))
        raise PlanError(f'there is no time zone "{zone}".\n  {near}') from error


def _unit(unit: str) -> CalendarUnit:
    for known in UNITS:
        if unit.lower() in (known, f"{known}s"):
            return known
    raise PlanError(f'a calendar has {", ".join(UNITS)}, and no "{unit}".')
