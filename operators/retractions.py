"""Streams some of whose tuples take back or replace others, and what operators make of such tuples.

There are three ways in which results change, each with attributes that tell it:

* signs: a tuple with `sign` -1 takes back one that was given with sign 1 and is equal to it otherwise;
* firings: an early result is replaced by the next one of its window, until one is `final`;
* revisions: a window that late tuples change is given again, with the next `revision`.

What a plan knows of a stream is a `Retracted`. Each operator says what it makes of such a stream:

* one that takes each tuple by itself passes changes on, as long as what it computes is the same for both signs;
* a join of signed streams pairs the changes, and multiplies their signs;
* all others refuse changes, and a plan then puts in front what makes of them the tuples that stand (`settles`): these
  leave when a promise says that nothing changes them any more, and that is when results behind them are due anyway.

Where that cannot be, because an operator before has lost what tells the changes, the plan is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from operators import expression
from operators.data.schema import Schema
from operators.expression import Column, Comparison, Expression, Logical
from operators.plan_facts import Computes, passes_where
from operators.protocol import OneByOne, Operator
from operators.protocol_checks import fits

SIGN: Final = "sign"
"""The attribute that is -1 where a tuple takes back an earlier one, and 1 elsewhere."""


Change: TypeAlias = Literal["signs", "firings", "revisions"]


@attrs.frozen
class Settles:
    """Name the change in a stream and the attributes by which the tuples that stand are found."""

    change: Change
    names: frozenset[str]
    """The attributes that it takes; they are in the stream under these names, with their values as they were."""
    by: tuple[str, ...] = ()
    """The groups of results, where revisions replace each other."""
    apart: str | None = None
    """The attribute that tells replaced results from others: in what has it among its keys they never meet."""


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
    settles: Settles | None = None
    """How the tuples that stand are found; None where nothing can."""

    @property
    def signed(self) -> bool:
        """Return whether tuples are taken back by their sign."""
        return self.settles is not None and self.settles.change == "signs"

    @property
    def replaced(self) -> bool:
        """Return whether results are replaced by later ones of their window and group, firings or revisions."""
        return self.settles is not None and self.settles.change != "signs"


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
    return passed_on(operator, found, inputs)


def passed_on(operator: OneByOne, found: Retracted, inputs: Sequence[Schema]) -> Retracted:
    """Say what of a stream takes back others behind an operator that takes each tuple by itself."""
    names = operator.output_schema(*inputs).names
    kept = frozenset(name for name in names if operator.comes_from(name, *inputs) in found.standing)
    found = attrs.evolve(found, standing=kept)
    if (settles := found.settles) is None:
        return found
    lost = [name for name in settles.names if name not in names or operator.comes_from(name, *inputs) != name]
    if lost:
        listed = ", ".join(sorted(lost))
        way = f"Keep {listed} as it is up to here: it tells what was taken back.\n  Or: {found.way}"
        return attrs.evolve(found, settles=None, way=way)
    if settles.change == "firings":
        return found
    predicate, schema = passes_where(operator), inputs[0]
    made = [operator.computed(name) for name in names if name != SIGN] if fits(operator, Computes) else []
    read = [expression.reads(schema, where="plan") for expression in (predicate, *made) if expression is not None]
    if settles.change == "signs":
        computed = any(SIGN in names for names in read)
        way = f"What is computed with sign is not the same in what is taken back.\n  {found.way}"
    else:
        computed = not (made or (predicate is not None and read[0] <= settles.names))
        way = f"Put it in front of what chooses results by values, which a later revision changes.\n  {found.way}"
    return attrs.evolve(found, settles=None, way=way) if computed else found


def refused(self: object, found: Retracted | None, *inputs: Schema) -> Retracting:
    """Refuse tuples that take back others: the method of operators that make their results of several tuples."""
    return None if found is None else "refused"


def as_it_is(self: object, found: Retracted | None, *inputs: Schema) -> Retracting:
    """Pass all tuples on: the method of operators that keep every attribute under its name."""
    return found


SIGNS: Final = Settles("signs", frozenset((SIGN,)))
"""Equal tuples with opposite signs cancel each other."""


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
