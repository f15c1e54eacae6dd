"""Feedback punctuation flows upstream: what nobody wants of a result need not be read, sent on, or computed.

A user or an operator disclaims the tuples that match a punctuation (assumed feedback, as NiagaraST calls it). Facts of
the operators say what each needs of its inputs then. Every tuple that is not disclaimed comes as it would have come; of
those that are, none comes any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Final, TypeAlias

import attrs
import numpy as np

from oop_engine.plan.graph import OperatorNode, Plan
from operators.data.page import Bools, Page
from operators.plan_facts import disclaimed, links
from punctuation import Punctuation, least

Edge: TypeAlias = tuple[int, int]
"""The place of a reader and its port, or -1 - the number of an output and 0."""
_MOST: Final = 32
"""Punctuations that are kept of an edge at most; each costs a look at every page there."""


@attrs.define(eq=False)
class Feedback:
    """Hold what is disclaimed of each stream of a running plan, and leave it out.

    >>> feedback = Feedback(Plan(()))
    >>> feedback.disclaimed
    False
    """

    plan: Plan
    left_out: Counter[int] = attrs.field(init=False, factory=Counter)
    """How many tuples were left out behind each place."""
    _said: dict[Edge, tuple[Punctuation, ...]] = attrs.field(init=False, factory=dict)
    """What was disclaimed of an edge itself."""
    _unwanted: dict[Edge, tuple[Punctuation, ...]] = attrs.field(init=False, factory=dict)
    """That, and what the reader does not need because of what is disclaimed behind it."""
    _of_all: dict[int, tuple[Punctuation, ...]] = attrs.field(init=False, factory=dict)
    """What no reader of a place wants."""

    @property
    def disclaimed(self) -> bool:
        """Return whether anything is."""
        return bool(self._said)

    def disclaim(self, edge: Edge, unwanted: Punctuation) -> bool:
        """Leave out from now on what matches a punctuation on an edge, and all that is computed for nothing else.

        Return whether that is more than was left out before.
        """
        before = self._said.get(edge, ())
        self._said[edge] = _with(before, unwanted)
        if self._said[edge] == before:
            return False
        self._spread()
        return True

    def unwanted(self, place: int) -> tuple[Punctuation, ...]:
        """Return what no reader of a place wants."""
        return self._of_all.get(place, ())

    def kept(self, place: int, page: Page) -> Bools | None:
        """Return which tuples of a page that leaves a place anybody wants, shape (n,); None where all are wanted."""
        return self._kept(place, self._of_all.get(place, ()), page)

    def kept_by(self, number: int, place: int, page: Page) -> Bools | None:
        """Return which of them an output wants."""
        return self._kept(place, self._said.get((-1 - number, 0), ()), page)

    def over(self, place: int, promised: dict[str, int | float | str]) -> bool:
        """Return whether no tuple to come of a place is wanted, where so much was promised of it."""
        return any(_covers(unwanted, promised) for unwanted in self._of_all.get(place, ()))

    def _kept(self, place: int, unwanted: Sequence[Punctuation], page: Page) -> Bools | None:
        matched = [page.matching(one) for one in unwanted if all(name in page.schema for name in one.attributes)]
        if not matched:
            return None
        out = np.logical_or.reduce(matched)
        many = int(np.count_nonzero(out))
        self.left_out[place] += many
        return ~out if many else None

    def _spread(self) -> None:
        """Say anew of every edge what is not wanted there."""
        consumers, outputs = self.plan.consumers(), self.plan.output_numbers()
        self._unwanted, self._of_all = dict(self._said), {}
        for place in reversed(range(len(self.plan.nodes))):
            edges: list[Edge] = [*consumers[place], *((-1 - number, 0) for number in outputs.get(place, []))]
            unwanted = _of_all([self._unwanted.get(edge, ()) for edge in edges])
            if not unwanted:
                continue
            self._of_all[place] = unwanted
            node = self.plan.nodes[place]
            if isinstance(node, OperatorNode):
                for one in unwanted:
                    for port, back in enumerate(_upstream(node, one)):
                        if back is not None:
                            self._unwanted[place, port] = _with(self._unwanted.get((place, port), ()), back)


def _upstream(node: OperatorNode, unwanted: Punctuation) -> list[Punctuation | None]:
    """Return which tuples of each input a node does not need."""
    first, *others = links(node.operator)
    inputs = [[upstream.schema for upstream in node.inputs]]
    for operator in (first, *others)[:-1]:
        inputs.append([operator.output_schema(*inputs[-1])])
    found: list[Punctuation | None] = [unwanted]
    for operator, schemas in zip((*reversed(others), first), reversed(inputs), strict=True):
        (one,) = found
        if one is None:
            return [None] * len(node.inputs)
        found = disclaimed(operator, one, schemas)
    return found


def _with(several: tuple[Punctuation, ...], one: Punctuation) -> tuple[Punctuation, ...]:
    """Add a punctuation to others, unless one of them has all of it; leave out those of which it has all."""
    if any(other.implies(one) for other in several):
        return several
    return (*(other for other in several if not one.implies(other)), one)[-_MOST:]


def _of_all(edges: Sequence[tuple[Punctuation, ...]]) -> tuple[Punctuation, ...]:
    """Return what is disclaimed of every edge."""
    if not edges:
        return ()
    found, *others = edges
    for other in others:
        common: tuple[Punctuation, ...] = ()
        for one, two in product(found, other):
            if (both := one.meet(two)) is not None:
                common = _with(common, both)
        found = common
    return found


def _covers(unwanted: Punctuation, promised: dict[str, int | float | str]) -> bool:
    """Return whether all tuples that are still to come match a punctuation."""
    for name, pattern in unwanted.patterns:
        bound, since = promised.get(name), least(pattern)
        if since is None or not isinstance(bound, int) or bound < since:
            return False
    return True
