"""An expensive condition is one that is worth asking about few tuples only: cheap conditions beside it decide first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import tracing
from operators.expression.bound import Bound, family
from operators.expression.tree import Expression, Literal, Logical, Not, nodes

WORKERS: Final = 4
MOST: Final = 256


def are_workers(told: object) -> bool:
    """Return whether a value is a number of threads."""
    return isinstance(told, int) and not isinstance(told, bool) and 1 <= told <= MOST


@attrs.frozen(eq=False, str=False)
class Expensive(Expression):
    """Mark a condition whose computation takes long; its value is that of the condition.

    >>> from operators.expression import Column
    >>> str((Column("port") == 53) | Expensive(Column("name").isin(["a"])))
    'port = 53 or expensive(name in ("a"))'
    """

    condition: Expression
    workers: int | None = None
    """How many calls of it are made at the same time, if that is said."""

    def __attrs_post_init__(self) -> None:
        told: object = self.workers
        if told is not None and not are_workers(told):
            raise SchemaError(f"{self}: the workers are a whole number from 1 to {MOST}, and not {told!r}.")

    def bind(self, schema: Schema) -> Bound:
        bound = self.condition.bind(schema)
        if family(bound.field) != "truth value":
            raise SchemaError(
                f"{self}: {self.condition} is of type {bound.type}, and an expensive condition is true or false.\n"
                "  Compare it with something, e.g. expensive(score(page) > 0.5)."
            )
        return Bound(bound.field.with_name(str(self)), bound.run)

    def __str__(self) -> str:
        return f"expensive({self.condition})"


def marks(expression: Expression) -> Iterator[Expensive]:
    """Yield the parts of an expression that are marked as expensive."""
    for part in nodes(expression):
        if isinstance(part, Expensive):
            yield part


def marked(expression: Expression) -> bool:
    """Return whether a part of an expression is marked as expensive."""
    return next(marks(expression), None) is not None


def workers_of(expression: Expression) -> int:
    """Return how many calls are made at the same time: as many as a mark says, the most of several."""
    return max((mark.workers for mark in marks(expression) if mark.workers is not None), default=WORKERS)


def mark(condition: Expression, workers: int | None = None) -> Expression:
    """Mark a condition as expensive: the functions of pages in it, if it has some, or else all of it.

    >>> from operators.expression import Column, Opaque
    >>> def known(page): ...
    >>> str(mark((Column("port") == 53) | Opaque(known))), str(mark(Column("port") == 53))
    ('port = 53 or expensive(known(page))', 'expensive(port = 53)')
    """
    return _marked(condition, workers) if _calls(condition) else Expensive(condition, workers)


def _marked(condition: Expression, workers: int | None) -> Expression:
    links: list[Logical] = []
    while isinstance(condition, Logical):
        links.append(condition)
        condition = condition.left
    if isinstance(condition, Not):
        condition = Not(_marked(condition.argument, workers))
    elif _calls(condition):
        condition = Expensive(condition, workers)
    for link in reversed(links):
        condition = Logical(link.op, condition, _marked(link.right, workers))
    return condition


def _calls(expression: Expression) -> bool:
    return any(isinstance(part, tracing.Opaque) for part in nodes(expression))


def limits(predicate: Expression) -> tuple[Expression, Expression]:
    """Return two cheap conditions: where the first is true, so is the predicate; where the second is not, neither is.

    Between them only the expensive parts decide. SchemaError where such a part stands elsewhere than under and, or,
    not.

    >>> from operators.expression import Column
    >>> least, most = limits((Column("x") > 1) & ~Expensive(Column("y") > 2))
    >>> str(least), str(most)
    ('x > 1 and not true', 'x > 1 and not false')
    """
    return _with(predicate, False), _with(predicate, True)


def _with(predicate: Expression, value: bool) -> Expression:
    """Return the predicate with the value in the place of expensive parts that makes it most, or least, often true."""
    links: list[Logical] = []
    while isinstance(predicate, Logical):
        links.append(predicate)
        predicate = predicate.left
    if isinstance(predicate, Expensive):
        made: Expression = Literal(value)
    elif isinstance(predicate, Not):
        made = Not(_with(predicate.argument, not value))
    elif marked(predicate):
        raise SchemaError(
            f"{predicate}: only and, or, not may stand around an expensive condition, so that cheap ones can decide"
            " without it.\n  Write the whole comparison inside: expensive(...)."
        )
    else:
        made = predicate
    for link in reversed(links):
        made = Logical(link.op, made, _with(link.right, value))
    return made
