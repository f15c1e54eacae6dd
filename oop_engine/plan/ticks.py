"""Amounts of time or rows become ticks: integers in the unit of the attribute they are measured on."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.durations import LARGEST, Duration, format_duration, parse_duration
from oop_engine.query_errors import LanguageError
from operators.data.durations import tick_ns, with_units
from operators.data.schema import ROW_NUM
from operators.data.steps import is_stepped_decimal, tick_number, unit_of
from operators.kernels.ticks import LIMIT

Amount: TypeAlias = "int | str | dt.timedelta | Decimal | Duration"

_SIZES = ("RANGE", "SLIDE")


def duration_of(amount: Amount, *, what: str, signed: bool = False) -> Duration:
    """Read an amount as users write it, before it is known what it is measured on; PlanError where it is none."""
    if isinstance(amount, Duration):
        return amount
    if isinstance(amount, dt.timedelta):
        ns = (amount.days * 86_400 + amount.seconds) * 1_000_000_000 + amount.microseconds * 1_000
        if ns < 0 and not signed:
            raise PlanError(f"{what} is {amount!r}: a duration cannot be negative.")
        return Duration(ns, "ns", str(amount))
    if isinstance(amount, Decimal) and amount.is_finite():
        amount = f"{amount:f}"
    if isinstance(amount, bool) or not isinstance(amount, (int, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f'{what} is {amount!r}, no amount. Write text such as "2 s" or "0.5", an integer or a timedelta.'
        )
    if isinstance(amount, int) and 0 <= amount <= LARGEST:
        return Duration(amount, "plain", str(amount))
    try:
        return parse_duration(amount, signed=signed)
    except LanguageError as error:
        # There is no query whose line and column would say which amount is meant.
        hint = f"\n  {error.hint}" if error.hint else ""
        raise PlanError(f"{what} is {amount!r}: {error.message}{hint}") from None


def positive(amount: Amount, *, what: str) -> Amount:
    """Return an amount back that is more than nothing, in whatever unit; PlanError for another."""
    if duration_of(amount, what=what, signed=True).value <= 0:
        raise PlanError(f"{what} must be more than nothing, not {amount}")
    return amount


def ticks_of(amount: Amount, field: pa.Field, *, what: str, rows: bool = False, signed: bool = False) -> int:
    """Return an amount in ticks of an attribute; PlanError when its unit does not fit the attribute.

    A bare number is in the unit of an attribute that is a number; beside a time it says no unit, and is refused. On a
    decimal it may have places behind the point, at most those that the decimal has: 0.5 on decimal(18, 2) is 50 ticks.
    `rows`: the attribute numbers tuples, as row_num does, so that "1000 rows" fits it; on any other integer attribute
    rows are not ticks, and refused. `signed`: the amount may be negative, as an origin may.
    """
    duration = duration_of(amount, what=what, signed=signed)
    tick = tick_ns(field.type)
    if duration.unit == "plain":
        if tick is not None and duration.value:
            quote = "" if isinstance(amount, Duration) else '"'
            raise PlanError(
                f'{what} is {duration.text}, but "{field.name}" is a time ({field.type}): {duration.text} of what?\n'
                f"  {with_units(_as_written(duration), field.type, quote=quote)}"
            )
        ticks = duration.number / unit_of(field.type)
        if ticks.denominator > 1:
            raise PlanError(_finer(duration, field, what))
        return int(ticks)
    if duration.unit == "rows":
        if rows or field.name == ROW_NUM:
            return duration.value
        if tick is not None:
            raise PlanError(
                f'{what} is {duration.text}, but "{field.name}" is a time ({field.type}).\n'
                "  Give a duration such as 10 seconds, or count rows with the windowing attribute row_num."
            )
        raise PlanError(
            f'{what} is {duration.text}, but "{field.name}" is a number ({field.type}) that counts no rows.\n'
            f"  Give a plain number in the unit of {field.name}{_counting(duration, field) if what in _SIZES else '.'}"
        )
    if tick is None:
        raise PlanError(
            f'{what} is {duration.text}, but "{field.name}" is a number ({field.type}), not a time.\n'
            f"  Give a plain number in the unit of {field.name}, or project it to a timestamp first.{_epoch(field)}"
        )
    if duration.value % tick:
        raise PlanError(f'{what} of {duration.text} is finer than "{field.name}" ({field.type}) can tell.')
    return duration.value // tick


def amount_of(ticks: int, kind: pa.DataType) -> int | str:
    """Write ticks of an attribute as an amount, or as a constant in an expression, that means exactly these ticks."""
    tick = tick_ns(kind)
    if tick is not None:
        return format_duration(ticks * tick)
    return tick_number(ticks, kind) if is_stepped_decimal(kind) else ticks


def ticks_text(ticks: int, kind: pa.DataType) -> str:
    """Write ticks of an attribute as text, a time with its unit.

    >>> [ticks_text(50, kind) for kind in (pa.timestamp("ms"), pa.decimal128(18, 2), pa.int64())]
    ['50 ms', '0.50', '50']
    """
    return str(amount_of(ticks, kind))


def length_of(amount: Amount, field: pa.Field, *, what: str, least: int = 1) -> int:
    """Return an amount in ticks that an operator counts with; PlanError for one that is too small or too large.

    `least` is 0 for a length that may be nothing. Other errors are those of `ticks_of`.
    """
    ticks = ticks_of(positive(amount, what=what) if least else amount, field, what=what)
    if ticks > LIMIT:
        raise PlanError(
            f'{what} is {amount}, and is at most 2**61 units of "{field.name}" ({field.type}), 73 years of nanoseconds.'
            "\n  Write less, or cast the times to coarser ones, such as timestamp[us]."
        )
    return ticks


def _as_written(duration: Duration) -> int | Decimal:
    return Decimal(str(duration)) if duration.places else duration.value


def _finer(duration: Duration, field: pa.Field, what: str) -> str:
    """Say that an amount of a number is finer than the steps in which an attribute counts."""
    name, kind = field.name, field.type
    if name == ROW_NUM:
        return f"{what} is {duration.text}, and rows are counted: write a whole number of them."
    if not is_stepped_decimal(kind):
        return (
            f'{what} is {duration.text}, but "{name}" is a whole number ({kind}).\n'
            f'  Write a whole number. Read a column with places behind the point as such, types={{"{name}":'
            f' "decimal(18, {duration.places})"}},\n  in the shell --types "{name}=decimal(18, {duration.places})".'
        )
    places = f"{kind.scale} places behind the point" if kind.scale > 0 else "no places behind the point"
    return (
        f'{what} is {duration.text}, which is finer than "{name}" counts: it has {places} ({kind}).\n'
        f"  Write a multiple of {tick_number(1, kind)}, or read {name} as a decimal with more places."
    )


def _epoch(field: pa.Field) -> str:
    """Say how a number that is a time after all is read as one; nothing of the number of a tuple."""
    name = field.name
    if name == ROW_NUM:
        return ""
    return (
        f'\n  Seconds since 1970 in a table are read as times with types={{"{name}": "epoch"}}, in the shell --types'
        f" {name}=epoch."
    )


def _counting(rows: Duration, field: pa.Field) -> str:
    """Say how rows are counted, where an amount of them stands on an attribute that does not."""
    name = field.name
    return (
        f", or count rows:\n  in the order of {name} with WA rank({name}), in Python "
        f'oop.counted({rows.value}, wattr="{name}"), or in that of arrival with WA row-num, in Python wattr="row_num".'
    )
