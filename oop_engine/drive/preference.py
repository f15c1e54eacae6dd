"""A preference is an order among sources that have something to give: desired feedback, which changes no result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from operators.errors import did_you_mean

IN_A_ROW: Final = 64
"""Chunks of preferred live sources behind which one of another that waits is taken: nobody else has what it heard."""


@attrs.define(eq=False)
class Preference:
    """Choose the source to read next: one that is preferred, and among equals the one that is furthest behind.

    - `behind`: a number for each place of a source, lowest for the one that is to be read next.

    >>> preference = Preference({3: 10, 5: 4}.__getitem__)
    >>> preference.next_of([3, 5])
    5
    """

    behind: Callable[[int], int]
    _ranks: dict[int, int] = attrs.field(init=False, factory=dict)
    _in_a_row: int = attrs.field(init=False, default=0)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._ranks)

    def ask(self, ranks: dict[int, int]) -> None:
        """Prefer sources from now on, those of the lowest rank most, and none but these."""
        self._ranks = ranks

    def next_of(self, places: Iterable[int]) -> int:
        """Return which of some sources is to be read next."""
        return min(places, key=lambda place: (self._rank(place), self.behind(place), place))

    def next_heard(self, places: Sequence[int]) -> int:
        """Return which of some sources, in the order in which they gave something, is to be taken next.

        Behind IN_A_ROW others that were preferred to it, one that waits has its turn.
        """
        first = min(places, key=self._rank)
        if self._rank(first) == self._rank(places[0]):
            self._in_a_row = 0
            return places[0]
        self._in_a_row += 1
        if self._in_a_row <= IN_A_ROW:
            return first
        self._in_a_row = 0
        return places[0]

    def before(self, places: Iterable[int]) -> list[int]:
        """Return the sources that are preferred to all of these."""
        best = min(map(self._rank, places))
        return [place for place, rank in self._ranks.items() if rank < best]

    def _rank(self, place: int) -> int:
        return self._ranks.get(place, len(self._ranks))


def ranks_of(plan: Plan, names: Sequence[str]) -> dict[int, int]:
    """Return the ranks of the sources that bear names, in their order; PlanError for a name that none bears."""
    known = list(dict.fromkeys(node.label for node in plan.sources.values()))
    for name in names:
        if name not in known:
            raise PlanError(f'prefer("{name}"): no source of this run has that name.\n  {did_you_mean(name, known)}')
    return {place: names.index(node.label) for place, node in plan.sources.items() if node.label in names}
