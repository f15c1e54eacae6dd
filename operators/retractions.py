"""Streams some of whose tuples take back or replace others, and what operators make of such tuples.

Early results with RETRACT are given again with `sign` -1, windows with a lateness are given again as revisions, and the
changes of a relation are insertions and deletions. Filters, projections, melds and sinks pass these on as they are. An
aggregate, a join or a DISTINCT takes every tuple for a new one, so it must not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from operators import expression
from operators.data.schema import Schema
from operators.expression import Column, Comparison, Expression, Logical
from operators.protocol import OneByOne, Operator
from operators.protocol_checks import fits

SIGN: Final = "sign"
"""The attribute that is -1 where a tuple takes back an earlier one, and 1 elsewhere."""


@attrs.frozen
class Retracted:
    """A stream some of whose tuples take back or replace others."""

    why: str
    way: str
    """What to write instead."""
    standing: frozenset[str] = frozenset()
    """What the attribute is called by which the tuples that stand are told."""
    value: bool | int | None = None
    """Its value in those."""


Retracting: TypeAlias = "Retracted | Literal['refused', 'unsaid'] | None"
"""What of an output takes back other tuples; "refused" where an operator would count such tuples of its input twice."""


@runtime_checkable
class TakesRetractions(Protocol):
    """An operator that says what it makes of tuples which take back others, or gives such tuples itself."""

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        """Say what of its output takes back other tuples, where of its inputs `found` does; or "refused"."""
        ...


def retracted(operator: Operator, found: Retracted | None, inputs: Sequence[Schema]) -> Retracting:
    """Say what of an operator's output takes back other tuples; "unsaid" where it does not say what it makes of them.

    One that takes each tuple by itself passes them on, with the attributes that it keeps.
    """
    if fits(operator, TakesRetractions):
        return operator.retracted(found, *inputs)
    if found is None or not isinstance(operator, OneByOne):
        return None if found is None else "unsaid"
    names = operator.output_schema(*inputs).names
    kept = frozenset(name for name in names if operator.comes_from(name, *inputs) in found.standing)
    return attrs.evolve(found, standing=kept)


def refused(self: object, found: Retracted | None, *inputs: Schema) -> Retracting:
    """Refuse tuples that take back others: the method of operators that make their results of several tuples."""
    return None if found is None else "refused"


def as_it_is(self: object, found: Retracted | None, *inputs: Schema) -> Retracting:
    """Pass all tuples on: the method of operators that keep every attribute under its name."""
    return found


def stands(predicate: Expression, found: Retracted, schema: Schema) -> bool:
    """Return whether only tuples that stand pass a condition over a schema."""
    if isinstance(predicate, Logical) and predicate.op == "and":
        return any(stands(side, found, schema) for side in (predicate.left, predicate.right))
    one: Expression = predicate
    other: Expression = expression.Literal(True)
    if isinstance(predicate, Comparison) and predicate.op == "=":
        one, other = predicate.left, predicate.right
        if isinstance(one, expression.Literal):
            one, other = other, one
    if not isinstance(one, Column) or not isinstance(other, expression.Literal):
        return False
    same = type(other.value) is type(found.value) and other.value == found.value
    return same and schema.resolve(one.name, where="filter") in found.standing
