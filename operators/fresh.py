"""A plan holds prototypes: every run makes operators of its own, which remember nothing yet."""

from __future__ import annotations

import copy
from typing import cast

import attrs

from operators.chain import Chain
from operators.protocol import Operator


def fresh(operator: Operator) -> Operator:
    """Make an operator anew: an attrs class from its public fields, a chain link by link, another as a deep copy.

    >>> from operators.rows.number import Number
    >>> chain = Chain([Number("a")])
    >>> made = fresh(chain)
    >>> made.operators[0].name, made.operators[0] is chain.operators[0]
    ('a', False)
    """
    if isinstance(operator, Chain):
        return attrs.evolve(operator, operators=[fresh(link) for link in operator.operators])
    if attrs.has(type(operator)):
        return cast(Operator, attrs.evolve(operator))  # pyright: ignore[reportUnnecessaryCast]
    return copy.deepcopy(operator)
