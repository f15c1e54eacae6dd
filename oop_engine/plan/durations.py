"""A duration is an exact integer: nanoseconds of time, rows, or units of the windowing attribute."""

from __future__ import annotations

import difflib
import typing as t
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import attrs

from oop_engine.query_errors import LanguageError
from oop_engine.span import NOWHERE, Span
from operators.data.durations import TIME_UNITS, exact, parts_of
from operators.kernels.ticks import FOREVER

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

LARGEST = FOREVER
"""The largest duration: attributes hold 64-bit integers; in nanoseconds it is 292 years, of which windows use 73."""

ROW_UNITS: t.Final = frozenset({"row", "rows", "tuple", "tuples"})
UNITS_IN_WORDS = "ns, us, ms, s, min, hour, day, week or rows"

Unit = t.Literal["ns", "rows", "plain"]


@attrs.frozen
class Duration:
    """Say how far a window reaches or moves.

    `value` is exact: nanoseconds when `unit` is "ns", a number of tuples when "rows", and a number of the
    windowing attribute's own units when "plain". A plain amount may have `places` behind the point: 0.25 is 25 with two
    of them. `text` is how it was written; it takes no part in equality.

    >>> parse_duration("0.250").number, str(parse_duration("0.250"))
    (Fraction(1, 4), '0.25')
    """

    value: int = attrs.field(validator=attrs.validators.instance_of(int))
    unit: Unit = attrs.field(validator=attrs.validators.in_(("ns", "rows", "plain")))
    text: str = attrs.field(eq=False)
    places: int = attrs.field(default=0, kw_only=True)
    span: Span = attrs.field(default=NOWHERE, kw_only=True, eq=False, repr=False)

    @property
    def number(self) -> Fraction:
        """Return the amount in its unit."""
        return Fraction(self.value, 10**self.places)

    def __str__(self) -> str:
        """Write the duration in canonical form, e.g. "10 minutes", "1 row", "64", "0.5"."""
        if self.unit == "ns":
            return format_duration(self.value)
        if self.unit == "rows":
            return f"{self.value} row" if self.value == 1 else f"{self.value} rows"
        return f"{Decimal(self.value).scaleb(-self.places):f}"


@attrs.frozen
class Word:
    """A word of a text and where it stands."""

    text: str
    span: Span


def parse_duration(text: str | int, *, signed: bool = False) -> Duration:
    """Read a duration such as "10 minutes", "2s", "6.4 s", "1h30m", "1000 rows", or a bare number of units.

    Times become whole nanoseconds, exactly. Raises LanguageError for what is no duration, an unknown unit,
    a fraction of a nanosecond or of a row, and a negative duration unless `signed`.
    """
    text = str(text)
    found = parts_of(text)
    whole = _span(text, 0, len(text))
    if found is None:
        message = f'"{text}" is no duration; write for example 10 minutes, 500 ms, 1000 rows.'
        raise LanguageError.at(whole, message, text)
    negative, parts = found
    if negative and not signed:
        raise LanguageError.at(whole, f'a duration cannot be negative, found "{text.strip()}".', text)
    words: list[tuple[Word, Word | None]] = []
    for part in parts:
        number = Word(part.number, _span(text, part.number_at, part.number_at + len(part.number)))
        unit = part.unit and Word(part.unit, _span(text, part.unit_at, part.unit_at + len(part.unit)))
        words.append((number, unit or None))
    measured = measure(words, text)
    return attrs.evolve(measured, value=-measured.value, text=text.strip()) if negative else measured


def measure(parts: Sequence[tuple[Word, Word | None]], text: str) -> Duration:
    """Make the duration that numbers and their units, words of the query `text`, write together.

    Raises LanguageError, pointing at the word, for an unknown unit, too fine a fraction, more than `LARGEST`.
    """
    measured = [_measured(number, unit, text) for number, unit in parts]
    first, *others = measured
    if not others:
        return first
    for part in measured:
        if part.unit != "ns":
            message = f"{part.text} is no time, and parts of one duration are times, as in 1 hour 30 minutes."
            raise LanguageError.at(part.span, message, text)
    value, last = sum(part.value for part in measured), measured[-1].span
    written = " ".join(part.text for part in measured)
    if value > LARGEST:
        raise LanguageError.at(first.span, f"{_shortened(written)} is too much; the most is 292 years.", text)
    span = attrs.evolve(first.span, end_column=last.end_column) if last.line == first.span.line else first.span
    return Duration(value, "ns", written, span=span)


def _measured(number: Word, unit: Word | None, text: str) -> Duration:
    written = number.text if unit is None else f"{number.text} {unit.text}"
    kind, scale = ("plain", 1) if unit is None else _unit(unit, text)
    amount = exact(number.text)
    places = 0
    if kind == "plain" and amount is not None:
        while (amount * scale).denominator > 1:
            places, scale = places + 1, scale * 10
    if (amount is None and "." in number.text) or (amount is not None and (amount * scale).denominator > 1):
        raise LanguageError.at(number.span, _too_fine(written, kind), text)
    if amount is not None and amount * scale <= LARGEST:
        span = Span(number.span.line, number.span.column, number.span.end_column)
        if unit is not None and unit.span.line == span.line:
            span = attrs.evolve(span, end_column=unit.span.end_column)
        return Duration(int(amount * scale), kind, written, places=places, span=span)
    limit, hint = f"{LARGEST}", ""
    if kind == "ns":
        limit, hint = "292 years", "In a window on times in nanoseconds it is 73 years."
    raise LanguageError.at(number.span, f"{_shortened(written)} is too much; the most is {limit}.", text, hint=hint)


def format_duration(ns: int) -> str:
    """Write a time of `ns` nanoseconds exactly, as people do: "10 minutes", "1 hour", "6.4 s", "500 ms"."""
    if ns < 0:
        return "-" + format_duration(-ns)
    if ns == 0:
        return "0 s"
    for size, one in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if ns % size == 0:
            count = ns // size
            return f"{count} {one}" if count == 1 else f"{count} {one}s"
    for size, unit in ((SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us"), (1, "ns")):
        if ns >= size:
            count, rest = divmod(ns, size)
            places = str(rest).zfill(len(str(size)) - 1).rstrip("0") if rest else ""
            return f"{count}.{places} {unit}" if places else f"{count} {unit}"
    raise AssertionError("a positive whole number is at least 1")


def _unit(unit: Word, text: str) -> tuple[Unit, int]:
    name = unit.text.lower()
    if name in ROW_UNITS:
        return "rows", 1
    if name in TIME_UNITS:
        return "ns", TIME_UNITS[name]
    if name in ("month", "months", "year", "years"):
        message = f'"{unit.text}" has no fixed length; write days.'
        hint = 'Windows of months are [CALENDAR month, WA ts], in Python oop.calendar("month").'
        raise LanguageError.at(unit.span, message, text, hint=hint)
    close = difflib.get_close_matches(name, [*TIME_UNITS, *sorted(ROW_UNITS)], n=1)
    hint = f'Did you mean "{close[0]}"?' if close else ""
    message = f'expected a unit such as {UNITS_IN_WORDS}, found "{unit.text}".'
    raise LanguageError.at(unit.span, message, text, hint=hint)


def _too_fine(written: str, kind: Unit) -> str:
    written = _shortened(written)
    if kind == "ns":
        return f"{written} is no whole number of nanoseconds; nothing finer is measured."
    return f"{written} is no whole number of rows." if kind == "rows" else f"{written} has too many digits."


def _shortened(written: str) -> str:
    return written if len(written) <= 30 else f"{written[:27]}..."


def _span(text: str, start: int, end: int) -> Span:
    line_start = text.rfind("\n", 0, start) + 1
    column = start - line_start + 1
    return Span(text.count("\n", 0, start) + 1, column, column + len(text[start:end].partition("\n")[0]))
