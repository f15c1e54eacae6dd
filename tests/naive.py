"""Every operator has a naive twin here: one tuple at a time, plain Python, written from the definition alone."""

from __future__ import annotations

import datetime
import ipaddress
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from operators.data.page import Row, Scalar
from operators.data.schema import Schema, is_ip
from operators.expression import (
    Between,
    Binary,
    Column,
    Comparison,
    Expression,
    InNetwork,
    IsIn,
    IsNull,
    Literal,
    Logical,
    Not,
    Ufunc,
    Unary,
)

TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def naive_expression(expression: Expression, row: Row, schema: Schema) -> Scalar:
    """Evaluate an expression on one tuple, times as integers; OverflowError as documented."""

    def value(part: Expression) -> Scalar:
        return naive_expression(part, row, schema)

    match expression:
        case Column(name):
            return row[schema.resolve(name, where="naive")]
        case Literal(constant):
            return constant
        case Unary(op, argument):
            operand = value(argument)
            return None if operand is None else naive_fit(-operand if op == "-" else abs(operand))
        case Binary(op, left, right):
            return naive_arithmetic(op, value(left), value(right))
        case Comparison(op, left, right):
            one, other = value(left), value(right)
            if isinstance(right, Literal):
                other = naive_constant(other, left, schema)
            elif isinstance(left, Literal):
                one = naive_constant(one, right, schema)
            return naive_comparison(op, one, other)
        case Logical(op, left, right):
            sides = (value(left), value(right))
            decisive = op == "or"
            return decisive if decisive in sides else None if None in sides else not decisive
        case Not(argument):
            operand = value(argument)
            return None if operand is None else not operand
        case Between(argument, low, high):
            both = Logical("and", Comparison(">=", argument, low), Comparison("<=", argument, high))
            return naive_expression(both, row, schema)
        case IsIn(argument, values):
            operand = value(argument)
            if operand is None:
                return None
            if any(v is not None and operand == naive_constant(v, argument, schema) for v in values):
                return True
            return None if None in values else False
        case InNetwork(argument, network):
            operand = value(argument)
            if operand is None:
                return None
            address, given = ipaddress.IPv6Address(ipaddress.ip_address(operand).packed), naive_network(network)
            # A network of version 6 holds no address of version 4, though these are written as ::ffff:a.
            return address in given and (address.ipv4_mapped is None or given.prefixlen >= 96)
        case IsNull(argument):
            return value(argument) is None
        case Ufunc(function, arguments):
            operands = [value(argument) for argument in arguments]
            with np.errstate(all="ignore"):
                return None if None in operands else function(*operands).item()
        case _:
            raise AssertionError(f"no naive twin for {type(expression).__name__}")


def naive_comparison(op: str, one: Scalar, other: Scalar) -> bool | None:
    """Compare two values; null gives null."""
    if one is None or other is None:
        return None
    return {
        "=": one == other,
        "!=": one != other,
        "<": op == "<" and one < other,
        "<=": op == "<=" and one <= other,
        ">": op == ">" and one > other,
        ">=": op == ">=" and one >= other,
    }[op]


def naive_arithmetic(op: str, one: Scalar, other: Scalar) -> Scalar:
    """Compute with Python's integers, which never overflow, and check afterwards; floats follow IEEE 754."""
    if one is None or other is None:
        return None
    if op == "/" or isinstance(one, float) or isinstance(other, float):
        function = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod}
        with np.errstate(all="ignore"):
            return float(function[op](np.float64(one), np.float64(other)))
    if op in ("//", "%"):
        if other == 0:
            return None
        return naive_fit(one // other if op == "//" else one % other)
    return naive_fit(one + other if op == "+" else one - other if op == "-" else one * other)


def naive_fit(value: int | float) -> int | float:
    """Give a number that fits 64 bits; OverflowError for an integer that does not."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise OverflowError(value)
    return value


def naive_constant(value: Scalar, against: Expression, schema: Schema) -> Scalar | Fraction:
    """Give a constant in the units of what it is compared with."""
    if not isinstance(value, str) or not isinstance(against, Column):
        return value
    field = schema.field(against.name)
    if is_ip(field):
        address = ipaddress.ip_address(value)
        return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed
    if pa.types.is_timestamp(field.type):
        moment = datetime.datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        return Fraction(round(moment.timestamp() * 10**6) * 1000, TICKS[field.type.unit])
    return value


def naive_network(text: str) -> ipaddress.IPv6Network:
    """Give a network as one of IPv6, where an IPv4 address a is ::ffff:a."""
    network = ipaddress.ip_network(text, strict=False)
    if network.version == 6:
        return network
    packed = bytes(10) + b"\xff\xff" + network.network_address.packed
    return ipaddress.IPv6Network((packed, 96 + network.prefixlen))


def naive_filter(predicate: Expression, table: Sequence[Row], schema: Schema) -> list[Row]:
    """Keep the tuples for which a predicate is true."""
    return [row for row in table if naive_expression(predicate, row, schema) is True]


def naive_project(columns: Mapping[str, Expression], table: Sequence[Row], schema: Schema) -> list[Row]:
    """Compute new attributes for every tuple."""
    return [{name: naive_expression(e, row, schema) for name, e in columns.items()} for row in table]


def naive_apply(columns: Mapping[str, Expression], table: Sequence[Row], schema: Schema) -> list[Row]:
    """Add computed attributes to every tuple."""
    return [{**row, **new} for row, new in zip(table, naive_project(columns, table, schema), strict=True)]


def naive_distinct(attributes: Sequence[str], table: Sequence[Row]) -> list[Row]:
    """Give every combination of values once; not-a-number is one value, and zero has no sign."""
    found: dict[tuple[object, ...], Row] = {}
    for row in table:
        chosen = {name: row[name] for name in attributes}
        found.setdefault(tuple(naive_identity(value) for value in chosen.values()), chosen)
    return list(found.values())


def naive_identity(value: Scalar) -> object:
    """Give what makes two values the same value."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def naive_union(*tables: Sequence[Row]) -> list[Row]:
    """Give all tuples of all inputs."""
    return [row for table in tables for row in table]


def naive_number(name: str, table: Sequence[Row]) -> list[Row]:
    """Append the arrival number."""
    return [{**row, name: i} for i, row in enumerate(table)]


def naive_slack(values: Sequence[int], *, time: int | None = None, tuples: int | None = None) -> list[int]:
    """Give for each value the bound that a sort with slack had promised before it arrived, -2**63 for none.

    Time: the greatest value so far less the slack. Tuples: the (n+1)-th largest value so far, late ones left out.
    """
    bounds: list[int] = []
    seen: list[int] = []
    bound = -(2**63)
    for value in values:
        bounds.append(bound)
        if value < bound:
            continue
        seen.append(value)
        if time is not None:
            bound = max(seen) - time
        elif tuples is not None and len(seen) > tuples:
            bound = sorted(seen)[-tuples - 1]
    return bounds
