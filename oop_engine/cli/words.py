"""Numbers and times as the terminal shows them: counts with commas, bytes and rates rounded, times in UTC."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from oop_engine.plan.durations import SECOND, format_duration
from oop_engine.plan.ticks import tick_ns
from operators.data.steps import tick_number

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with what it counts: "1 tuple", "12,345 tuples"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def bytes_text(number: float) -> str:
    """Return bytes in the unit people would take."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def rate_text(rate: float) -> str:
    """Return a rate in tuples a second as text."""
    for unit in ("", " k", " M"):
        if rate < 1000:
            return f"{rate:.0f}{unit} tuples/s" if not unit or rate >= 100 else f"{rate:.1f}{unit} tuples/s"
        rate /= 1000
    return f"{rate:.1f} G tuples/s"


def time_text(ticks: int, kind: pa.DataType) -> str:
    """Return a value of a progressing attribute: times in UTC, cut to the millisecond; anything else as a number."""
    tick = tick_ns(kind)
    if tick is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return tick_number(ticks, kind)
    try:
        moment = _EPOCH + dt.timedelta(microseconds=ticks * tick // 1000)
    except OverflowError:
        return str(ticks)
    shown = moment.strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown}.{moment.microsecond // 1000:03d}" if moment.microsecond >= 1000 else shown


def lag_text(ticks: int, kind: pa.DataType) -> str:
    """Return a distance on a progressing attribute, times cut to the millisecond."""
    tick = tick_ns(kind)
    if tick is None:
        return tick_number(ticks, kind)
    ns = max(0, ticks * tick)
    if ns >= SECOND:
        seconds = ns / SECOND
        for length, unit in ((3600, "h"), (60, "min")):
            if seconds >= 2 * length:
                return f"{seconds / length:.1f} {unit}"
        return f"{seconds:.1f} s"
    return format_duration(ns // 1_000_000 * 1_000_000)
