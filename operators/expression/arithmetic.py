"""Arithmetic is exact on integers and times: it never wraps, and what does not fit is an error that names the tuple.

Integers of any width are computed in 64 bits. `/` gives float64 and follows IEEE 754; `//` and `%` round down as in
Python, and of integers by zero give null, as there is no such integer: one tuple must not end what runs for days. A
time plus or minus a duration is a time; `ts // "10 s"` is the number of the ten seconds in which ts lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.durations import duration_ns, with_units
from operators.data.page import Page
from operators.errors import SchemaError
from operators.expression.bound import NUMBERS, Bound, Carry, Constant, Datum, Literally, Run, family
from operators.expression.comparison import limits
from operators.expression.constants import UNIT_NS
from punctuation import Value

Numbers = npt.NDArray[np.generic]

_CHECKED: dict[str, Callable[[Datum, Datum], Datum]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_UNITS = ("s", "ms", "us", "ns")


def arithmetic(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Bind `+ - * / // %`; SchemaError when the two sides have no such operation."""
    one, other = family(left.field), family(right.field)
    if "timestamp" in (one, other) or "duration" in (one, other):
        return _times(op, left, right, said)
    if not {one, other} <= NUMBERS:
        raise SchemaError(
            f'{said}: "{left.field.name}" is of type {left.type} and "{right.field.name}" of type {right.type}; '
            f"{op} is for numbers and times.{decimal_hint(left, right)}"
        )
    if op == "/" or "number" in (one, other):
        return _numbers(op, left, right, pa.float64(), said)
    kind = pa.uint64() if _unsigned(left, right) else pa.int64()
    return _numbers(op, left, right, kind, said)


def decimal_hint(*sides: Bound) -> str:
    """Say how decimals, which are only compared, are computed with; nothing where there are none."""
    for side in sides:
        if family(side.field) == "decimal":
            if side.literal is not None:
                return f"\n  Write {side.field.name} as a float or an integer."
            name = side.field.name
            return (
                f"\n  Decimals are only compared; to compute with one write cast({name}, 'float64'), "
                f'in Python p["{name}"].cast("float64").'
            )
    return ""


def negate(argument: Bound, said: str) -> Bound:
    """Bind `-x`; an unsigned integer becomes signed."""
    return _unary(argument, said, pc.negate_checked, "-")


def absolute(argument: Bound, said: str) -> Bound:
    """Bind `abs(x)`."""
    return _unary(argument, said, pc.abs_checked, "abs")


def _unary(argument: Bound, said: str, function: Callable[[Datum], Datum], op: str) -> Bound:
    name, kind = family(argument.field), argument.type
    if name not in NUMBERS and name != "duration":
        raise SchemaError(
            f'{said}: "{argument.field.name}" is of type {kind}; {op} is for numbers and durations.'
            f"{decimal_hint(argument)}"
        )
    if name == "number":
        work = result = pa.float64()
    elif name == "duration":
        work, result = pa.int64(), kind
    else:
        work = result = kind if op == "abs" and pa.types.is_unsigned_integer(kind) else pa.int64()

    def run(page: Page) -> Datum:
        found = argument.run(page)
        try:
            return function(found.cast(work)).cast(result)
        except pa.ArrowInvalid as error:
            raise OverflowError(f"{said} does not fit {work}.") from error

    constant = argument.literal
    if constant is not None and isinstance(constant.value, int | float):
        value: Constant = -constant.value if op == "-" else abs(constant.value)
        return Bound(pa.field(said, result), run, literal=Literally(value))
    return Bound(pa.field(said, result), run)


def _numbers(op: str, left: Bound, right: Bound, kind: pa.DataType, said: str) -> Bound:
    """Compute in one number type; both sides are converted to it first."""
    run = _computed(op, _as(left, kind, said), _as(right, kind, said), kind, said)
    attribute, carry = _carried(op, left, right, kind)
    return Bound(pa.field(said, kind), run, attribute=attribute, carry=carry)


def _computed(op: str, left: Run, right: Run, kind: pa.DataType, said: str) -> Run:
    if op in _CHECKED:
        function = pc.add if op == "+" else pc.subtract if op == "-" else pc.multiply
        if not pa.types.is_floating(kind):
            function = _CHECKED[op]

        def checked(page: Page) -> Datum:
            a, b = left(page), right(page)
            try:
                return function(a, b)
            except pa.ArrowInvalid as error:
                raise OverflowError(_overflow(op, a, b, kind, said)) from error

        return checked
    if op == "/":
        return lambda page: pc.divide(left(page), right(page))

    def floored(page: Page) -> Datum:
        return _floored(op, left(page), right(page), len(page), kind, said)

    return floored


def _floored(op: str, a: Datum, b: Datum, length: int, kind: pa.DataType, said: str) -> Datum:
    """Divide rounding down, or give the rest: numpy has both with Python's signs, Arrow has neither.

    An integer by zero is null, as in SQLite, MySQL and DuckDB; a float follows IEEE 754.
    """
    valid = np.logical_and(_present(a), _present(b))
    dividend, divisor = _filled(a), _filled(b)
    with np.errstate(all="ignore"):
        if not pa.types.is_floating(kind):
            valid = valid & (divisor != 0)
            if pa.types.is_signed_integer(kind) and np.any(valid & (divisor == -1) & (dividend == -(2**63))):
                raise OverflowError(f"{said}: -2**63 {op} -1 does not fit {kind}.")
            divisor = np.where(divisor == 0, divisor.dtype.type(1), divisor)
        result = np.floor_divide(dividend, divisor) if op == "//" else np.mod(dividend, divisor)
    return pa.array(np.broadcast_to(result, length), kind, mask=~np.broadcast_to(valid, length))


def _carried(op: str, left: Bound, right: Bound, kind: pa.DataType) -> tuple[str | None, Carry | None]:
    """Say how a bound on an attribute moves through `x + c`, `x - c`, `x * c`, `x / c`, `x // c` with c > 0."""
    argument, constant = left, right.literal
    if left.literal is not None and op in ("+", "*"):
        argument, constant = right, left.literal
    inner = argument.carry
    if inner is None or constant is None or not isinstance(constant.value, int | float) or op == "%":
        return None, None
    by = constant.value
    if not math.isfinite(by) or (op in ("*", "/", "//") and by <= 0):
        return None, None
    floating = bool(pa.types.is_floating(kind))
    if floating and op == "//":
        return None, None

    def carry(bound: Value) -> Value | None:
        moved = inner(bound)
        if not isinstance(moved, int | float):
            return None
        return _move(op, float(moved), float(by)) if floating else _fitting(_move(op, moved, by), kind)

    return argument.attribute, carry


def _move(op: str, bound: int | float, by: int | float) -> int | float | None:
    result = (
        bound + by
        if op == "+"
        else bound - by
        if op == "-"
        else bound * by
        if op == "*"
        else bound / by
        if op == "/"
        else bound // by
    )
    return result if math.isfinite(result) else None


def _fitting(bound: int | float | None, kind: pa.DataType) -> int | float | None:
    low, high = limits(kind)
    return bound if bound is not None and low <= bound <= high else None


def _times(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Compute with times as integers of one unit."""
    if op == "+" and family(left.field) != "timestamp" and family(right.field) == "timestamp":
        return _times(op, right, left, said)
    if op == "*" and family(left.field) == "integer":
        return _times(op, right, left, said)
    one, other, kind = family(left.field), family(right.field), left.type
    scaled = one == "duration" and other == "integer" and op in ("*", "//")
    if right.literal is not None and not scaled and _result(op, one, "duration", kind, kind) is not None:
        right, other = _as_duration(right.literal.value, left.field, op, said), "duration"
    elif left.literal is not None and other == "duration":
        left, one = _as_duration(left.literal.value, right.field, op, said), "duration"
        kind = right.type
    result = _result(op, one, other, left.type, right.type)
    if result is None:
        raise SchemaError(
            f'{said}: "{left.field.name}" is of type {left.type} and "{right.field.name}" of type {right.type}; '
            f'these have no {op}.\n  A time goes with a duration, e.g. ts + "5 s", ts // "10 s".'
        )
    unit = kind.unit if scaled else _finer(left.type.unit, right.type.unit)
    a = _ticks(left, unit, said)
    b = right.run if scaled and right.literal is not None else _ticks(right, unit, said)
    run = _computed(op, a, b, pa.float64() if op == "/" else pa.int64(), said)
    if op == "/":
        run = _computed(op, _cast(a, pa.float64()), _cast(b, pa.float64()), pa.float64(), said)
    attribute, carry = _carried(op, left, right, pa.int64()) if unit == kind.unit and op != "/" else (None, None)
    return Bound(pa.field(said, result), _cast(run, result), attribute=attribute, carry=carry)


def _result(op: str, one: str, other: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of an operation on times, None when there is no such operation."""
    if (one, other) == ("timestamp", "duration") and op in ("+", "-"):
        return pa.timestamp(_finer(left.unit, right.unit), left.tz)
    if (one, other) == ("timestamp", "timestamp") and op == "-":
        return pa.duration(_finer(left.unit, right.unit))
    if one in ("timestamp", "duration") and other == "duration":
        if op == "//":
            return pa.int64()
        if op == "%" or (one == "duration" and op in ("+", "-")):
            return pa.duration(_finer(left.unit, right.unit))
        return pa.float64() if op == "/" and one == "duration" else None
    if (one, other) == ("duration", "integer") and op in ("*", "//"):
        return left
    return None


def _as_duration(value: Constant, field: pa.Field, op: str, said: str) -> Bound:
    """Make a constant a duration in the unit of a time; SchemaError when it is none or does not come out even."""
    unit = field.type.unit
    if isinstance(value, str):
        ticks = duration_ns(value) / UNIT_NS[unit]
    elif isinstance(value, int) and not value and not isinstance(value, bool):
        ticks = Fraction(0)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if op == "/":
            divided = f"{field.name} // {value} to divide it, " if isinstance(value, int) else ""
            hint = f'  Write {divided}{field.name} / "1 s" for seconds as a number.'
        else:
            hint = f"  {with_units(value, field.type)}"
        raise SchemaError(f'{said}: "{field.name}" is a time ({field.type}): {value} of what?\n{hint}')
    else:
        raise SchemaError(f'{said}: {value!r} is not a duration.\n  Write e.g. "5 s".')
    if ticks.denominator != 1:
        raise SchemaError(f'{said}: the attribute counts whole {unit}, "{value}" is finer than that.')
    low, high = limits(pa.int64())
    if not low <= ticks <= high:
        raise SchemaError(f"{said}: {value} does not fit 64 bits in {unit}.")
    constant = pa.scalar(int(ticks), pa.duration(unit))
    return Bound(pa.field(str(value), pa.duration(unit)), lambda page: constant, literal=Literally(int(ticks)))


def _ticks(argument: Bound, unit: str, said: str) -> Run:
    """Return a time as int64 of a unit, which is the argument's own or a finer one."""
    kind = argument.type
    if not pa.types.is_temporal(kind):
        return _cast(argument.run, pa.int64())
    finer = pa.duration(unit) if pa.types.is_duration(kind) else pa.timestamp(unit, kind.tz)

    def run(page: Page) -> Datum:
        found = argument.run(page)
        try:
            return (found if kind.unit == unit else found.cast(finer)).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise OverflowError(f"{said}: {argument.field.name} does not fit 64 bits in {unit}.") from error

    return run


def _as(argument: Bound, kind: pa.DataType, said: str) -> Run:
    """Convert a number to the type that is computed in; an integer that does not fit is an error, a float rounds."""
    if argument.literal is not None and isinstance(argument.literal.value, int | float):
        value = argument.literal.value
        if not pa.types.is_floating(kind):
            low, high = limits(kind)
            if not low <= value <= high:
                raise SchemaError(f"{said}: {value} does not fit {kind}.")
        constant = pa.scalar(float(value) if pa.types.is_floating(kind) else value, kind)
        return lambda page: constant
    if argument.type == kind:
        return argument.run

    def run(page: Page) -> Datum:
        found = argument.run(page)
        if pa.types.is_floating(kind):
            return pc.cast(found, kind, safe=False)
        try:
            return found.cast(kind)
        except pa.ArrowInvalid as error:
            raise OverflowError(f'{said}: a value of "{argument.field.name}" does not fit {kind}.') from error

    return run


def _cast(run: Run, kind: pa.DataType) -> Run:
    return lambda page: found if (found := run(page)).type == kind else pc.cast(found, kind, safe=False)


def _unsigned(left: Bound, right: Bound) -> bool:
    """Return whether integers are computed in uint64: one side has that type and the other is not signed."""
    if pa.uint64() not in (left.type, right.type):
        return False
    return all(
        pa.types.is_unsigned_integer(side.type)
        or (side.literal is not None and isinstance(side.literal.value, int) and side.literal.value >= 0)
        for side in (left, right)
    )


def _finer(one: str, other: str) -> str:
    return max(one, other, key=_UNITS.index)


def _present(found: Datum) -> Numbers:
    if isinstance(found, pa.Scalar):
        return np.bool_(found.is_valid)  # pyright: ignore[reportReturnType]
    return np.asarray(pc.is_valid(found).to_numpy(zero_copy_only=False))


def _filled(found: Datum) -> Numbers:
    """Return numbers as numpy sees them; what stands where there is none is 0."""
    if isinstance(found, pa.Scalar):
        return np.asarray(found.as_py() if found.is_valid else 0, found.type.to_pandas_dtype())
    return np.asarray((found.fill_null(0) if found.null_count else found).to_numpy(zero_copy_only=False))


def _overflow(op: str, a: Datum, b: Datum, kind: pa.DataType, said: str) -> str:
    """Find the first tuple whose result does not fit; runs only once an error is certain."""
    low, high = limits(kind)
    length = max([len(x) for x in (a, b) if not isinstance(x, pa.Scalar)], default=1)
    lefts, rights = ([x.as_py()] * length if isinstance(x, pa.Scalar) else x.to_pylist() for x in (a, b))
    for i, (x, y) in enumerate(zip(lefts, rights, strict=True)):
        if x is None or y is None:
            continue
        result = _move(op, x, y)
        if result is None or not low <= result <= high:
            return f"{said} does not fit {kind}: tuple {i} of the page has {x} {op} {y}."
    return f"{said} does not fit {kind}."
