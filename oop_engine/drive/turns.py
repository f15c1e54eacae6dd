"""Choose how many tuples of a source go through a plan before another source has its turn.

A join, a merge, and a window over a union hold state for as long as one of their sources is behind the others; so
sources that meet take turns. A turn costs as much as some hundred tuples and more in a join, so turns are no smaller
than they must be, and grow where next to nothing is held. A source that meets no other has no turns.

Joins of files ran 1.2 to 1.4 times as fast with turns, and promises, of 16,384 tuples as with pages of 262,144 and a
promise for 4,096; with 8,192 they took about as long as with these, and half was held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from oop_engine.plan.graph import Plan
from operators.plan_facts import passes_on

TURN: Final = 16_384
"""Tuples of a turn. For so many a source makes one promise at most: a hand-over costs as much as thousands."""
_UNITED: Final = 4 * TURN
"""Tuples of a turn where sources only unite: what waits for another are groups of windows, which are fewer."""
_LITTLE: Final = 8
"""What is held is little where it is less than such a part of a turn."""


@attrs.define
class Turns:
    """Say how many tuples a source may give now, from what the operators hold."""

    meeting: frozenset[int]
    """Places of the sources that meet another."""
    least: int
    _size: int = attrs.field(init=False)
    _most: int = attrs.field(default=0, init=False)
    _given: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._size = self.least

    @classmethod
    def of(cls, plan: Plan) -> Turns:
        """Find the sources that meet."""
        joined, united = set[int](), set[int]()
        for place, node in plan.operators.items():
            if len(node.inputs) > 1 and len(found := above(plan, place)) > 1:
                (united if passes_on(node.operator) else joined).update(found)
        return cls(frozenset(joined | united), TURN if joined else _UNITED)

    def rows(self, place: int, most: int, left: int, held: Callable[[], int]) -> int:
        """Return the tuples of the next page of a source, at most `most`, where its chunk has so many left.

        `held` tells what operators hold. It costs much, so it is not asked where the rest is no longer than a turn.
        """
        if place not in self.meeting or min(most, left) <= self.least:
            return most
        self._most = max(self._most, held())
        self._given += 1
        if self._given == 2 * len(self.meeting):
            self._size = min(2 * self._size, most) if self._most * _LITTLE < self._size else self.least
            self._most = self._given = 0
        return min(self._size, most)


def above(plan: Plan, place: int) -> list[int]:
    """Return the places of the sources that reach a node, each once."""
    reached = {place: None}
    waiting = [place]
    while waiting:
        inputs = dict.fromkeys(plan.inputs[waiting.pop()])
        waiting += [at for at in inputs if at not in reached]
        reached.update(inputs)
    return [at for at in reached if at in plan.sources]
