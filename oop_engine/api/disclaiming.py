"""A condition on attributes, as users write it, becomes the punctuation that matches the same tuples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.drive.circuit import Circuit
from oop_engine.errors import PlanError
from oop_engine.sources.promised import checked_promise
from operators.data.address import parse_network
from operators.data.schema import Schema
from operators.data.steps import is_stepped_decimal
from operators.expression import Expression
from operators.expression.bound import WHOLE, Constant, family
from operators.expression.comparison import FLIPPED, constant_of
from operators.expression.constants import exact
from operators.expression.tree import Between, Column, Comparison, InNetwork, IsIn, Literal, Logical
from punctuation import ANY, Below, Equals, Pattern, Punctuation, Range, Value, intersect, one_of


def punctuation_of(condition: Punctuation | Computed, schema: Schema, where: str) -> Punctuation:
    """Return the punctuation that matches the tuples for which a condition is true.

    - `condition`: comparisons of attributes with constants, joined by `and`, as text or a function of the tuple; or a
      punctuation, which is given back.
    - `schema`: that of the stream.
    - `where`: names the call in errors.

    PlanError for any other condition.

    >>> schema = Schema.of(ts="timestamp[s]", srcIP="string")
    >>> print(punctuation_of("ts < '1970-01-01T00:01' and srcIP in ('a', 'b')", schema, "disclaim"))
    [srcIP in {'a', 'b'}, ts < 60]
    """
    if isinstance(condition, Punctuation):
        return condition
    expression = expression_of(condition, schema, where)
    return Punctuation(_joined(expression, [_pattern(part, schema, where) for part in _conjuncts(expression)], where))


def patterns_of(conditions: Iterable[str], schema: Schema, where: str) -> dict[str, Pattern]:
    """Return the attributes that conditions are on, with the values for which all are true; PlanError as above.

    - `conditions`: each as above, or an attribute, which stands for all of its values.
    - `schema`, `where`: as above.

    >>> patterns_of(["srcIP", "k = 3"], Schema.of(k="int64", srcIP="string"), "Trigger.promise")
    {'srcIP': Any(), 'k': Equals(value=3)}
    """
    found: list[tuple[str, Pattern]] = []
    for condition in conditions:
        for part in _conjuncts(expression_of(condition, schema, where)):
            whole = isinstance(part, Column)
            found.append((schema.resolve(part.name, where=where), ANY) if whole else _pattern(part, schema, where))
    return _joined(" and ".join(conditions), found, where)


def _joined(expression: object, found: Sequence[tuple[str, Pattern]], where: str) -> dict[str, Pattern]:
    """Return one pattern for each attribute; PlanError where there is none."""
    patterns: dict[str, Pattern] = {}
    for name, pattern in found:
        both = intersect(patterns[name], pattern) if name in patterns else pattern
        if both is None:
            raise PlanError(f"{where}: {expression} is true of no tuple: nothing is both on {name}.")
        patterns[name] = both
    return patterns


def disclaim(circuit: Circuit, output: int, unwanted: Punctuation | Computed) -> Punctuation:
    """Have a run leave out the results of an output that match a condition; return it as a punctuation."""
    schema = circuit.plan.outputs[output].schema
    found = checked_promise(punctuation_of(unwanted, schema, "disclaim"), schema, schema.names, "disclaim")
    assert found is not None
    circuit.disclaim(output, found)
    return found


def _conjuncts(expression: Expression) -> list[Expression]:
    if isinstance(expression, Logical) and expression.op == "and":
        return [*_conjuncts(expression.left), *_conjuncts(expression.right)]
    if isinstance(expression, Between):
        argument = expression.argument
        return [Comparison(">=", argument, expression.low), Comparison("<=", argument, expression.high)]
    return [expression]


def _pattern(part: Expression, schema: Schema, where: str) -> tuple[str, Pattern]:
    """Return the attribute that a comparison is about, and the values for which it is true."""
    match part:
        case Comparison(op=op, left=Column(name=name), right=Literal(value=value)) if op != "!=":
            pass
        case Comparison(op=op, left=Literal(value=value), right=Column(name=name)) if op != "!=":
            op = FLIPPED[op]
        case IsIn(argument=Column(name=name), values=values) if None not in values:
            name = schema.resolve(name, where=where)
            return name, one_of(_value(value, schema, name, part, where) for value in values)
        case InNetwork(argument=Column(name=name), network=network):
            return schema.resolve(name, where=where), Range(*parse_network(network))
        case _:
            raise PlanError(
                f"{where}: {part} is no comparison of an attribute with a constant.\n"
                "  Join such by \"and\", as in \"window_start < '2026-11-27T12:00' and srcIP = '10.0.0.1'\"."
            )
    name = schema.resolve(name, where=where)
    field = schema.arrow.field(name)
    if family(field) not in WHOLE and not is_stepped_decimal(field.type):
        constant = _value(value, schema, name, part, where)
        return name, _ranged(op, constant)
    number = exact(value, field, str(part))
    if isinstance(number, float) or (op == "=" and Fraction(number).denominator != 1):
        raise PlanError(f"{where}: {part} is true of no tuple, or of all: {name} is whole, {field.type}.")
    least, above = math.ceil(number), math.floor(number) + 1
    return name, {"<": Below(least), "<=": Below(above), ">": Range(above), ">=": Range(least)}.get(op, Equals(least))


def _ranged(op: str, value: Value) -> Pattern:
    if op == "=":
        return Equals(value)
    return Range(None, value, high_open=op == "<") if op in ("<", "<=") else Range(value, low_open=op == ">")


def _value(value: Constant, schema: Schema, name: str, part: Expression, where: str) -> Value:
    field = schema.arrow.field(name)
    if is_stepped_decimal(field.type) and Fraction(ticks := exact(value, field, str(part))).denominator == 1:
        return int(ticks)
    found = None if family(field) == "decimal" else constant_of(value, field, str(part))
    if found is None:
        raise PlanError(f"{where}: {part} compares {name} with what no {field.type} is, or with a decimal.")
    if family(field) in WHOLE:
        return int(exact(value, field, str(part)))
    plain: Value = found.as_py()
    return plain
