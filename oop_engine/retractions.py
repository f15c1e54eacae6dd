"""Which streams take back or replace tuples that they gave, and which operators would count such tuples twice.

Early results with RETRACT are given again with `sign` -1, windows with a lateness are given again as revisions, and the
changes of a relation are insertions and deletions. Filters, projections, melds and sinks pass these on as they are. An
aggregate, a join or a DISTINCT takes every tuple for a new one, so it is refused when the plan is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from oop_engine.errors import PlanError
from oop_engine.window_join import WindowJoin
from operators.bucket import Bucket
from operators.chain import Chain
from operators.distinct import Distinct
from operators.early.firing import FINAL
from operators.early.refine import Refine
from operators.expression import Column, Comparison, Expression, Literal, Logical
from operators.filter import Filter
from operators.guard import Guard
from operators.join import OAJoin, OPIBJoin, OPOBJoin, WidJoin
from operators.merge import Merge
from operators.negative.aggregate import SignedAggregate
from operators.negative.expire import Expire
from operators.negative.join import SignedJoin
from operators.number import Number
from operators.protocol import OneByOne, Operator
from operators.reorder import Reorder
from operators.schema import Schema
from operators.slicing.aggregate import SlicingAggregate
from operators.slicing.results import REVISION
from operators.two_level.low import LowAggregate

_SIGNED = (SignedAggregate, SignedJoin)
"""They add up signed tuples."""
_JOINS = (WindowJoin, OAJoin, WidJoin, OPOBJoin, OPIBJoin)
_AS_IT_IS = (Bucket, Guard, Merge, Number, Reorder)
"""They keep every attribute of a tuple under its name."""


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


_EARLY = Retracted(
    'the input takes early results back (refine="retract", RETRACT): a tuple with sign -1 would be added, not'
    " taken away",
    'Write DISCARD (refine="discard"), whose results add up; or keep the final results: WHERE final, in Python'
    ' .filter("final").',
    frozenset((FINAL,)),
    True,
)
_LATE = Retracted(
    "the input gives windows again when late tuples change them (lateness=...): each revision would count as a result",
    'Keep the first results, .filter("revision = 0"); or leave lateness out and give the source so much more slack.',
    frozenset((REVISION,)),
    0,
)
_CHANGES = Retracted(
    "the input has insertions and deletions: a tuple with sign -1 would be added, not taken away",
    "Put a SignedAggregate or a SignedJoin behind it.",
)


def after(operator: Operator, inputs: Sequence[tuple[Schema, Retracted | None]], label: str) -> Retracted | None:
    """Tell whether an operator over such inputs gives tuples that take back others; PlanError when it cannot have them.

    What a user's own operator makes of them is its own affair, unless it takes each tuple by itself.
    """
    found = next((retracted for _, retracted in inputs if retracted is not None), None)
    if found is not None and not isinstance(operator, _SIGNED) and _combines(operator):
        raise PlanError(f"{label}: {found.why}.\n  {found.way}")
    match operator:
        case Refine():
            return _EARLY
        case SlicingAggregate() if operator.lateness:
            return _LATE
        case Expire() | SignedJoin():
            return _CHANGES
        case Filter() if found is not None and _keeps(operator.predicate, found, inputs[0][0]):
            return None
        case OneByOne() if found is not None:
            schemas = [schema for schema, _ in inputs]
            names = operator.output_schema(*schemas).names
            kept = frozenset(name for name in names if operator.comes_from(name, *schemas) in found.standing)
            return attrs.evolve(found, standing=kept)
        case _:
            return found if isinstance(operator, _AS_IT_IS) else None


def _combines(operator: Operator) -> bool:
    """Tell whether an operator makes its results of several tuples."""
    if isinstance(operator, Chain):
        return any(map(_combines, operator.operators))
    return isinstance(operator, (Distinct, Expire, LowAggregate, *_JOINS)) or hasattr(operator, "functions")


def _keeps(predicate: Expression, found: Retracted, schema: Schema) -> bool:
    """Tell whether only tuples that stand pass a condition over a schema."""
    if isinstance(predicate, Logical) and predicate.op == "and":
        return any(_keeps(side, found, schema) for side in (predicate.left, predicate.right))
    one: Expression = predicate
    other: Expression = Literal(True)
    if isinstance(predicate, Comparison) and predicate.op == "=":
        one, other = predicate.left, predicate.right
        if isinstance(one, Literal):
            one, other = other, one
    if not isinstance(one, Column) or not isinstance(other, Literal):
        return False
    same = type(other.value) is type(found.value) and other.value == found.value
    return same and schema.resolve(one.name, where="filter") in found.standing
