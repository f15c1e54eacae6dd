"""Periods over which is billed: months and other dates of a time zone, or times of one length."""

from __future__ import annotations

import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.dates import UNITS, check_calendar, next_date
from oop_engine.plan.ticks import Amount, ticks_of
from operators.rates.periods import NextPeriod
from operators.window.user import EdgeWindow
from operators.window_aggregate.results import START


def period_of(per: Amount, zone: str, origin: Amount, field: pa.Field, slide: int) -> EdgeWindow:
    """Return the periods of results; PlanError where they are shorter than a slot, or none of a calendar.

    - `per`: "month" and the other units of a calendar, or the length of a period, as "30 days".
    - `zone`: the time zone of the calendar.
    - `origin`: where a period of a length begins; others follow, and go before, without a gap.
    - `field`: the attribute in which the slots begin.
    - `slide`: how many ticks the slots are apart.

    >>> field = pa.field("window_start", pa.timestamp("s", "UTC"))
    >>> period_of("month", "UTC", 0, field, 300).around(1_367_526_045)[:2]
    (1367366400, 1370044800)
    """
    if isinstance(per, str) and per.strip().lower().rstrip("s") in UNITS:
        if origin:
            raise PlanError(f'billing(per="{per}"): a calendar has its own begin; leave origin out.')
        check_calendar(per.strip(), zone)
        return EdgeWindow(START, next_date(per.strip(), zone, field))
    if zone != "UTC":
        raise PlanError(
            f'billing(zone="{zone}"): a time zone is for a calendar, and {per} is as long everywhere.\n'
            f"  Write per= one of {', '.join(UNITS)}, or leave zone out."
        )
    length = ticks_of(per, field, what="per")
    if length < slide:
        raise PlanError(
            f"billing(per={per!r}): a period is shorter than a slot.\n  Bill a longer time, or less per slot."
        )
    return EdgeWindow(START, NextPeriod(length, ticks_of(origin, field, what="origin", signed=True)))
