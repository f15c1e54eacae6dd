"""Comparisons bind to compiled functions; a null on either side gives null (SQL's three-valued logic).

Numbers compare exactly whatever their types, as Python compares them: an integer beyond 2**53 is not rounded to meet a
float. A float constant that meets a decimal means the digits that were written, so that `d = 0.1` holds for 0.10.
Fixed-size binaries, and so IP addresses, compare byte by byte, which is network order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Page
from operators.errors import SchemaError
from operators.expression import mixed
from operators.expression.bound import COMPARED, WHOLE, Bound, Constant, Datum, Run, family
from operators.expression.constants import Exact, exact, mismatch, network_of

_FUNCTIONS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def truth(run: Run, said: str) -> Bound:
    """Make a bound expression whose result is a truth value."""
    return Bound(pa.field(said, pa.bool_()), run)


def compare(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Bind a comparison; SchemaError when the two sides are of different families."""
    if left.literal is not None and right.literal is None:
        return compare(FLIPPED[op], right, left, said)
    left, right = _usual(left), _usual(right)
    if right.literal is not None:
        return truth(_withconstant_of(op, left, right.literal.value, said), said)
    return truth(_with_column(op, left, right, said), said)


def is_in(argument: Bound, values: Sequence[Constant], said: str) -> Bound:
    """Bind membership in a list; null where the argument is null, or not in a list that contains null."""
    argument = _usual(argument)
    kind = pa.float64() if pa.types.is_floating(argument.type) else _ints(argument.type)
    wanted: list[Constant] = []
    for value in values:
        constant = None if value is None else constant_of(value, argument.field, said)
        if constant is not None:
            wanted.append(constant.cast(kind).as_py())
    if pa.types.is_floating(kind):
        wanted = [w for v in wanted if v == v for w in ((0.0, -0.0) if v == 0 else (v,))]
    listed = pa.array(wanted, kind)
    unknown = pa.scalar(None, pa.bool_())
    miss = unknown if None in values else pa.scalar(False)

    def run(page: Page) -> Datum:
        found = argument.run(page)
        hit = pc.is_in(found if found.type == kind else found.cast(kind), value_set=listed, skip_nulls=True)
        return pc.if_else(pc.is_valid(found), pc.if_else(hit, pa.scalar(True), miss), unknown)

    return truth(run, said)


def in_network(argument: Bound, network: str, said: str) -> Bound:
    """Bind membership of an IP address in a network such as "10.0.0.0/8"; SchemaError for anything else."""
    # Start-up: few queries compare addresses, and their kernels take a while to load.
    from operators.data.address import parse_network

    if family(argument.field) != "IP address":
        raise SchemaError(
            f'{said}: "{argument.field.name}" is of type {argument.type}; only an IP address is in a network.'
        )
    try:
        first, last = parse_network(network)
    except ValueError as error:
        raise SchemaError(f"{said}: {error}") from error
    holds = _between(argument, first, last)
    least, most = parse_network("0.0.0.0/0")
    if (first, last) == (least, most) or not first <= least <= most <= last:
        return truth(holds, said)
    # Networks of IPv6 hold no address of IPv4, which is stored among theirs.
    mapped = _between(argument, least, most)
    return truth(lambda page: pc.and_not(holds(page), mapped(page)), said)


def _between(argument: Bound, first: bytes, last: bytes) -> Run:
    """Return whether addresses lie in a range, ends included."""
    low, high = pa.scalar(first, argument.type), pa.scalar(last, argument.type)

    def run(page: Page) -> Datum:
        found = argument.run(page)
        return pc.and_(pc.greater_equal(found, low), pc.less_equal(found, high))

    return run


def _withconstant_of(op: str, argument: Bound, value: Constant, said: str) -> Run:
    if value is None:
        raise SchemaError(f"{said}: nothing compares with null, the answer is always null.\n  Write is_null() instead.")
    if family(argument.field) == "truth value" and op not in ("=", "!="):
        raise SchemaError(f"{said}: truth values have no order; compare them with = or !=.")
    name = family(argument.field)
    if name in WHOLE or name == "decimal":
        return _with_exact(op, argument, exact(value, argument.field, said))
    if name == "number" and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _with_float(op, argument, value)
    constant = constant_of(value, argument.field, said)
    function = _FUNCTIONS[op]
    return lambda page: function(argument.run(page), constant)


def _with_exact(op: str, argument: Bound, value: Exact) -> Run:
    """Compare what counts in steps with a rational number of them: round it to the side that keeps the answer."""
    low, high = limits(argument.type)
    if isinstance(value, float):
        if math.isnan(value):
            return _always(op == "!=", argument)
        bound: int = high + 1 if value > 0 else low - 1
    elif isinstance(value, Fraction) and value.denominator != 1:
        if op in ("=", "!="):
            return _always(op == "!=", argument)
        bound = math.ceil(value) if op in ("<", ">=") else math.floor(value)
    else:
        bound = int(value)
    if bound > high:
        return _always(op in ("<", "<=", "!="), argument)
    if bound < low:
        return _always(op in (">", ">=", "!="), argument)
    constant, function = _steps(bound, argument.type), _FUNCTIONS[op]
    return lambda page: function(argument.run(page), constant)


def _with_float(op: str, argument: Bound, value: int | Decimal) -> Run:
    """Compare floats with a number that may be none of them: the nearest one stands for it, on its side."""
    near = _float(value)
    if near != value:
        if op in ("=", "!="):
            return _always(op == "!=", argument)
        above = near > value
        op = {"<": "<", ">": ">="}[op[0]] if above else {"<": "<=", ">": ">"}[op[0]]
    constant, function = pa.scalar(near, pa.float64()), _FUNCTIONS[op]
    return lambda page: function(argument.run(page), constant)


def _with_column(op: str, left: Bound, right: Bound, said: str) -> Run:
    one, other = family(left.field), family(right.field)
    function = _FUNCTIONS[op]
    if one != other and not {one, other} <= COMPARED:
        hint = ""
        if {one, other} == {"timestamp", "integer"}:
            time = left if one == "timestamp" else right
            hint = f"\n  An integer says no unit; cast({time.field.name}, 'int64') counts {time.type.unit} since 1970."
        raise SchemaError(
            f'{said}: "{left.field.name}" is of type {left.type} and "{right.field.name}" of type {right.type}; '
            f"{one} and {other} do not compare.{hint}"
        )
    if one == "truth value" and op not in ("=", "!="):
        raise SchemaError(f"{said}: truth values have no order; compare them with = or !=.")
    if one != other and {one, other} <= COMPARED and "number" in (one, other):
        if one == "number":
            return _with_column(FLIPPED[op], right, left, said)
        if one == "decimal":
            return mixed.decimals_with_floats(op, left, right)
        return mixed.integers_with_floats(op, left, right, function)
    if "decimal" in (one, other) and left.type != right.type:
        return mixed.decimals_with_wholes(left, right, function, said)
    if one == other == "integer" and (left.type == pa.uint64()) != (right.type == pa.uint64()):
        wide = pa.decimal128(20)
        return lambda page: function(left.run(page).cast(wide), right.run(page).cast(wide))
    if one == other == "timestamp" and (left.type.tz is None) != (right.type.tz is None):
        return lambda page: function(_utc(left.run(page)), _utc(right.run(page)))
    return lambda page: function(left.run(page), right.run(page))


def constant_of(value: Constant, field: pa.Field, said: str) -> pa.Scalar | None:
    """Return a constant in the type of a field; None when no value of that type equals it."""
    name, kind = family(field), field.type
    if name in WHOLE or name == "decimal":
        number = exact(value, field, said)
        low, high = limits(kind)
        if isinstance(number, float) or number != int(number) or not low <= number <= high:
            return None
        return _steps(int(number), kind)
    if name == "number" and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        near = _float(value)
        return None if near != value and near == near else pa.scalar(near, pa.float64())
    if name == "truth value" and isinstance(value, bool):
        return pa.scalar(value)
    if name == "text" and isinstance(value, str):
        return pa.scalar(value, kind)
    if name == "IP address" and isinstance(value, str | bytes):
        return pa.scalar(_address(value, said), kind)
    if name == "bytes" and isinstance(value, bytes):
        if pa.types.is_fixed_size_binary(kind) and len(value) != kind.byte_width:
            raise SchemaError(f'{said}: "{field.name}" holds {kind.byte_width} bytes, the constant has {len(value)}.')
        return pa.scalar(value, kind)
    raise mismatch(value, field, said)


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of an integer or time type, in steps of the last digit of a decimal."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits: int = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _always(answer: bool, argument: Bound) -> Run:
    """Return one answer for every tuple that has a value, null for the others."""
    unknown, known = pa.scalar(None, pa.bool_()), pa.scalar(answer)
    return lambda page: pc.if_else(pc.is_valid(argument.run(page)), known, unknown)


def _address(value: str | bytes, said: str) -> bytes:
    if isinstance(value, bytes):
        if len(value) != 16:
            raise SchemaError(f"{said}: an IP address as bytes has 16 of them, not {len(value)}; or write it as text.")
        return value
    # Start-up: few queries compare addresses, and their kernels take a while to load.
    from operators.data.address import parse_ip

    try:
        return parse_ip(value)
    except ValueError as error:
        raise SchemaError(f"{said}: {_no_address(value, error)}") from error


def _no_address(value: str, error: ValueError) -> str:
    # Start-up: few queries compare addresses, and their kernels take a while to load.
    from operators.data.address import parse_network

    if network := network_of(value):
        return (
            f'"{value}" is no IP address; what begins so is a network.\n'
            f'  Write x IN \'{network}\', without =, in Python p["x"].in_network("{network}").'
        )
    try:
        parse_network(value)
    except ValueError:
        return str(error)
    return (
        f'"{value}" is a network, and here stand addresses.\n'
        f'  Write x IN \'{value}\', without = or parentheses, in Python p["x"].in_network("{value}").'
    )


def _steps(number: int, kind: pa.DataType) -> pa.Scalar:
    """Return an integer in a type, or as many steps of the last digit of a decimal."""
    if not pa.types.is_decimal(kind):
        return pa.scalar(number, kind)
    digits = tuple(int(digit) for digit in str(abs(number)))
    return pa.scalar(Decimal((int(number < 0), digits, -kind.scale)), kind)


def _usual(bound: Bound) -> Bound:
    """Return decimals in a type that Arrow compares, those of few bits and of a negative scale in a wider one."""
    kind = bound.type
    if bound.literal is not None or not pa.types.is_decimal(kind) or (kind.bit_width >= 128 and kind.scale >= 0):
        return bound
    digits, scale = kind.precision + max(0, -kind.scale), max(0, kind.scale)
    if digits > 76:
        raise SchemaError(f'"{bound.field.name}" is of type {kind}, which has too many digits to be compared.')
    wide = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    return Bound(bound.field.with_type(wide), lambda page: bound.run(page).cast(wide))


def _float(value: int | float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _utc(found: Datum) -> Datum:
    return found if found.type.tz is not None else pc.assume_timezone(found, "UTC")


def _ints(kind: pa.DataType) -> pa.DataType:
    """Return the integer type behind a time type, another type itself."""
    if not pa.types.is_temporal(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()
