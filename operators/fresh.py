"""A plan holds prototypes: every run makes operators of its own, which remember nothing yet."""

from __future__ import annotations

import copy
from typing import Protocol, cast, runtime_checkable

import attrs

from operators.chain import Chain
from operators.protocol import Operator


@runtime_checkable
class Changing(Protocol):
    """An operator whose public fields may change while it runs."""

    def anew(self, running: Operator) -> Operator:
        """Return an operator that remembers nothing, and can be restored from the state of a running one."""
        ...


def fresh(operator: Operator, running: Operator | None = None) -> Operator:
    """Make an operator anew: an attrs class from its public fields, a chain link by link, another as a deep copy.

    It is to be restored from the state of the `running` one, if there is one.

    >>> from operators.rows.number import Number
    >>> chain = Chain([Number("a")])
    >>> made = fresh(chain)
    >>> made.operators[0].name, made.operators[0] is chain.operators[0]
    ('a', False)
    """
    if running is not None and isinstance(operator, Changing):
        return operator.anew(running)
    if isinstance(operator, Chain):
        return attrs.evolve(operator, operators=[fresh(link) for link in operator.operators])
    if attrs.has(type(operator)):
        return cast(Operator, attrs.evolve(operator))  # pyright: ignore[reportUnnecessaryCast]
    return copy.deepcopy(operator)
