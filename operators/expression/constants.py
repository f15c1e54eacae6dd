"""A constant meets an attribute exactly: times, durations, addresses and fractions never lose a digit on the way.

What an attribute of integers (or of times, which are integers of some unit) is compared with is kept as an exact
rational number, so that `ts < "10:00:00.5"` is right on an attribute of whole seconds too.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from operators.data.durations import duration_ns, with_units
from operators.errors import SchemaError, did_you_mean
from operators.expression.bound import Constant, family
from operators.expression.names import known_names, number_named

Exact = int | Fraction | float
"""A rational number, or a float that is infinite or not a number."""

_DIGITS = 400
"""More digits than a float64 or a decimal has before or after the point."""

UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_SIZES = (
    ("seconds", 10**9, 10**11),
    ("milliseconds", 10**6, 10**14),
    ("microseconds", 10**3, 10**17),
    ("nanoseconds", 1, math.inf),
)
"""Units, their nanoseconds, and the number from which on a time since 1970 is none of them, but finer."""
_TIMES = {"timestamp": "time"}
_EXAMPLES = {"date": 'a date, e.g. "2026-11-21"', "time of day": 'a time, e.g. "10:00:00"'}
_PREFIX = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,2})\.[%*](?:\.[%*])*")
"""Octets that end with a dot: "1%" also begins 10.0.0.7 and 192.0.2.1, which are in no network together."""
_FRACTION = re.compile(r"(:\d\d)[.,](\d+)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def plain(value: object) -> Constant:
    """Return a constant as a plain value, converting numpy scalars, dates, durations and addresses; TypeError else."""
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.timedelta64):
        return f"{int(value.astype('m8[ns]').astype(np.int64))} ns"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        return value if value.is_finite() else float(value)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"{value // datetime.timedelta(microseconds=1)} us"
    if isinstance(value, ipaddress.IPv4Address | ipaddress.IPv6Address):
        return str(value)
    raise TypeError(
        f"a constant in an expression is a number, text, bytes, True, False or a time, not {value!r} "
        f"of type {type(value).__name__}"
    )


def instant_ns(text: str) -> int:
    """Read an ISO 8601 time as exact nanoseconds since the epoch, UTC where no zone is given; SchemaError else."""
    digits = ""

    def keep(match: re.Match[str]) -> str:
        nonlocal digits
        digits = match[2]
        return match[1]

    try:
        moment = datetime.datetime.fromisoformat(_FRACTION.sub(keep, text.strip(), count=1))
    except ValueError as error:
        raise SchemaError(f'"{text}" is not a time.\n  Write ISO 8601, e.g. "2026-11-21T10:00:00Z".') from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    if digits[9:].strip("0"):
        raise SchemaError(f'"{text}" is finer than a nanosecond, the finest unit of a time.')
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000 + int(digits[:9].ljust(9, "0") or 0)


def instant_text(ns: int) -> str:
    """Write nanoseconds since the epoch as ISO 8601 in UTC; OverflowError beyond the years 1 to 9999.

    >>> instant_text(1_367_526_045_500_000_000)
    '2013-05-02T20:20:45.5Z'
    """
    whole, rest = divmod(ns, 10**9)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=whole)
    return f"{moment.isoformat()}{f'.{rest:09d}'.rstrip('0') if rest else ''}Z"


def written(value: int | float | Decimal) -> Exact:
    """Return the number that a constant writes: 0.1 is a tenth, as a decimal is, and not the float nearest to that.

    One of more digits before or after the point than any attribute has becomes an infinity, or a tiny number.
    """
    if isinstance(value, float):
        return Fraction(repr(value)) if math.isfinite(value) else value
    if isinstance(value, int) or abs(value.adjusted()) <= _DIGITS or not value:
        return Fraction(value)
    sign = -1 if value.is_signed() else 1
    return sign * math.inf if value.adjusted() > 0 else Fraction(sign, 10**_DIGITS)


def exact(value: Constant, field: pa.Field, said: str) -> Exact:
    """Return a constant in the units of an integer, decimal or time field; SchemaError when the two do not compare."""
    name, kind = family(field), field.type
    if name == "decimal" and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = written(value)
        return number if isinstance(number, float) else number * 10**kind.scale
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and pa.types.is_temporal(kind):
        if value and math.isfinite(value):
            raise of_what(value, field, said)
        if not value:
            return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if name == "integer" and isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else value
    if name == "integer" and isinstance(value, Decimal):
        return written(value)
    if isinstance(value, str):
        if name == "integer" and (number := number_named(field.name, value)) is not None:
            return number
        if name == "timestamp":
            return Fraction(instant_ns(value), UNIT_NS[kind.unit])
        if name == "duration":
            return duration_ns(value) / UNIT_NS[kind.unit]
        if name == "date" and _DAY.fullmatch(value.strip()):
            return Fraction(instant_ns(value), 86400 * 10**9 if pa.types.is_date32(kind) else 10**6)
        if name == "time of day":
            return Fraction(instant_ns(f"1970-01-01T{value.strip()}"), UNIT_NS[kind.unit])
    raise mismatch(value, field, said)


def network_of(pattern: str) -> str:
    """Return the network that a pattern such as "10.%" or "192.168.*" means; empty where it means none."""
    found = _PREFIX.fullmatch(pattern.strip())
    octets = found[1].split(".") if found else []
    if not octets or any(int(octet) > 255 for octet in octets):
        return ""
    return f"{'.'.join([*octets, *['0'] * (4 - len(octets))])}/{8 * len(octets)}"


def mismatch(value: Constant, field: pa.Field, said: str) -> SchemaError:
    """Make the error for a constant that does not compare with a field, naming both types and what to write."""
    name = family(field)
    write = {
        "text": "text in quotes",
        "IP address": 'an address as text, e.g. "10.0.0.1"',
        "timestamp": 'ISO 8601 text, e.g. "2026-11-21T10:00:00Z"',
        "duration": 'a duration, e.g. "2 s"',
        **_EXAMPLES,
        "truth value": "True or False",
        "bytes": "bytes",
        "integer": "a number without quotes",
        "number": "a number without quotes",
        "decimal": "a number without quotes",
    }.get(name, "a value of that type")
    if name == "integer" and isinstance(value, str):
        if (names := known_names(field.name)) and (near := did_you_mean(value.strip().lower(), names)):
            write += f", or a name. {near.removesuffix('.')}"
        elif _DAY.match(value.strip()):
            write += (
                f'.\n  If it counts seconds since 1970, read it as a time: types={{"{field.name}": "epoch"}}, in the'
                f" shell --types {field.name}=epoch"
            )
    return SchemaError(
        f'{said}: "{field.name}" is {_article(name)} ({field.type}) and does not go with {shown(value)}, '
        f"which is {_article(kind_of(value))}.\n  Write {write}."
    )


def of_what(value: int | float | Decimal, field: pa.Field, said: str) -> SchemaError:
    """Make the error for a bare number that meets a time: it does not say its unit, so it asks "60 of what?"."""
    name, kind = family(field), field.type
    problem = f'{said}: "{field.name}" is {_article(_TIMES.get(name, name))} ({kind}): {value} of what?'
    if name == "duration":
        return SchemaError(f"{problem}\n  {with_units(value, kind)}")
    if name == "timestamp":
        unit, moment = _moment(value)
        ticks = f"cast({field.name}, 'int64')"
        ways = f'"{moment}" if these are {unit} since 1970' if moment else 'ISO 8601 text, e.g. "2026-11-21T10:00:00Z"'
        return SchemaError(
            f"{problem}\n  Write {ways}; {ticks} counts {_NAMES[kind.unit]} since 1970 and goes with bare numbers."
        )
    return SchemaError(f"{problem}\n  Write {_EXAMPLES[name]}.")


def _moment(value: int | float | Decimal) -> tuple[str, str]:
    """Guess by its size in which unit a number counts since 1970, and give the time; no time where there is none."""
    size = abs(value)
    name, scale = next((n, ns) for n, ns, most in _SIZES if size < most)
    try:
        return name, instant_text(int(Fraction(value) * scale))
    except (OverflowError, ValueError):
        return name, ""


def kind_of(value: Constant) -> str:
    """Name in words the type of a constant."""
    if value is None:
        return "null"
    names = {bool: "truth value", int: "integer", float: "number", Decimal: "decimal", str: "text", bytes: "bytes"}
    return names[type(value)]


def shown(value: Constant) -> str:
    """Write a constant as a user would."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quote = "'" if '"' in value and "'" not in value else '"'
        return quote + value.replace(quote, quote * 2) + quote
    if isinstance(value, Decimal):
        return str(value)
    return f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value)


def type_of(value: Constant) -> pa.DataType:
    """Return the Arrow type of a constant that stands alone, the null type for a number that no type holds."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return pa.uint64() if 0 <= value < 2**64 else pa.null()
    if isinstance(value, Decimal):
        try:
            return pa.scalar(value).type
        except pa.ArrowInvalid:
            return pa.null()
    return {
        type(None): pa.null(),
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
    }[type(value)]


def _article(name: str) -> str:
    return name if name in ("text", "bytes", "null") else f"{'an' if name[0] in 'aeiouI' else 'a'} {name}"
