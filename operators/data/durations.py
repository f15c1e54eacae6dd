"""A duration as text is numbers with units, such as "2 s", "1h30m" or "1 hour 30 minutes"; it is exact."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

import attrs
import pyarrow as pa

from operators.errors import SchemaError, did_you_mean

_SECOND: Final = 10**9
TIME_UNITS: Final[dict[str, int]] = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * _SECOND),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600 * _SECOND),
    **dict.fromkeys(("d", "day", "days"), 86_400 * _SECOND),
    **dict.fromkeys(("week", "weeks"), 7 * 86_400 * _SECOND),
}
"""Nanoseconds of each unit of time, by its names in lower case."""

_NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_UNIT: Final = r"(?!e[0-9])[^\W\d]+"
_SHAPE: Final = re.compile(rf"\s*(?P<sign>-?)\s*(?P<parts>{_NUMBER}(?:\s*{_UNIT}(?:\s*{_NUMBER}\s*{_UNIT})*)?)\s*")
_PART: Final = re.compile(rf"({_NUMBER})\s*({_UNIT})?")
_DIGITS: Final = 60
"""More digits than any duration has."""
_MANY: Final = 1_000_000
"""A bare number of at least so many ticks that are finer than a second was hardly meant as seconds."""


def tick_ns(kind: pa.DataType) -> int | None:
    """Return the nanoseconds of one tick of a time type, None for a number."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return TIME_UNITS[kind.unit]
    if pa.types.is_date32(kind):
        return 86_400_000_000_000
    return 1_000_000 if pa.types.is_date64(kind) else None


@attrs.frozen
class Part:
    """One number of a duration and its unit, each as written, and the offsets of both in the text."""

    number: str
    number_at: int
    unit: str | None
    unit_at: int


def parts_of(text: str) -> tuple[bool, list[Part]] | None:
    """Split a duration into its numbers and units, and tell whether it is negative; None for what is no duration.

    Only a single part can be without a unit. Whether units are known is for the caller to see.
    """
    found = _SHAPE.fullmatch(text)
    if found is None:
        return None
    parts = [
        Part(part[1], part.start(1), part[2], part.start(2))
        for part in _PART.finditer(text, found.start("parts"), found.end("parts"))
    ]
    return bool(found["sign"]), parts


def exact(number: str) -> Fraction | None:
    """Return the number that digits write; None for one with more digits than any duration has.

    A text of 100,000 digits must not become an integer.

    >>> exact("06.40"), exact("9" * 1000)
    (Fraction(32, 5), None)
    """
    whole, _, fraction = number.partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if max(len(whole), len(fraction)) > _DIGITS:
        return None
    return Fraction(int(whole + fraction or "0"), 10 ** len(fraction))


def duration_ns(text: str) -> Fraction:
    """Read a duration such as "2 s", "500ms" or "1h30m" as exact nanoseconds; SchemaError when it is none."""
    found = parts_of(text)
    if found is None or any(part.unit is None for part in found[1]):
        raise SchemaError(f'"{text}" is not a duration.\n  Write a number and a unit, e.g. "2 s" or "10 minutes".')
    negative, parts = found
    total = Fraction(0)
    for part in parts:
        unit = str(part.unit)
        if unit.lower() not in TIME_UNITS:
            hint = did_you_mean(unit.lower(), TIME_UNITS)
            raise SchemaError(f'"{text}" is not a duration: unknown unit "{unit}".\n  {hint}')
        amount = exact(part.number)
        if amount is None:
            raise SchemaError(f'"{text[:30]}..." is too long a duration.')
        total += amount * TIME_UNITS[unit.lower()]
    return -total if negative else total


def with_units(value: int | float | Decimal, kind: pa.DataType, *, quote: str = '"') -> str:
    """Say what may be written for a bare number that meets a time of a type: with a second's unit, and with the tick's.

    >>> with_units(60, pa.timestamp("ns"))
    'Write "60 s", or "60 ns" for ticks of this attribute.'
    """
    unit = "days" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    ticks = f"{quote}{value} {unit}{quote}"
    if not isinstance(value, int):
        return f"Write {quote}{value} s{quote}."
    if unit in ("s", "days") or abs(value) >= _MANY:
        return f"Write {ticks}."
    return f"Write {quote}{value} s{quote}, or {ticks} for ticks of this attribute."
