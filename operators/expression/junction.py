"""Conditions that are joined by `and` or `or` are computed as cheaply as what was seen of them allows.

A condition that takes long, such as a pattern of text, is computed last, and for the tuples alone of which those
before it do not decide, if they are few. Of several such conditions the one comes first that decides most for what it
costs: how much each has left open is counted page by page. Results do not depend on it, in three-valued logic either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.expression.bound import Datum, Run

FEW: Final = 0.75
"""A condition is computed for the open tuples alone if they are at most this share: to pick them out costs, too."""
_REMEMBERED: Final = 1 << 20
"""Tuples after which what was seen counts half."""


@attrs.define(eq=False)
class Part:
    """A condition of a junction, and what was seen of it.

    - `run`: gives its truth for a page.
    - `names`: the attributes that it reads.
    - `cost`: how long it takes, about, as multiples of a comparison of numbers.
    """

    run: Run
    names: tuple[str, ...]
    cost: float
    _schema: Schema | None = attrs.field(init=False, default=None)
    _asked: float = attrs.field(init=False, default=1.0)
    _open: float = attrs.field(init=False, default=0.5)

    @property
    def rank(self) -> float:
        """Return what it costs to decide one tuple by it."""
        return self.cost * self._asked / max(self._asked - self._open, 1e-9)

    def of(self, page: Page, places: Int64s) -> Page:
        """Return some tuples of a page, with the attributes that this reads."""
        names = self.names or page.schema.names[:1]
        if self._schema is None:
            self._schema = Schema(pa.schema([page.schema.field(name) for name in names]))
        return Page(self._schema, page.batch.select(list(names)).take(pa.array(places)))

    def learn(self, asked: int, still: int) -> None:
        """Take in that so many tuples were asked about, and how many of them are still open."""
        if self._asked > _REMEMBERED:
            self._asked, self._open = self._asked / 2, self._open / 2
        self._asked, self._open = self._asked + asked, self._open + still


@attrs.frozen(eq=False)
class Junction:
    """Join conditions, each of which need not be defined where those that are written before it decide.

    - `parts`: the conditions, in the order in which they are written.
    - `conjunction`: `and`, rather than `or`.
    - `movable`: none of them can fail, so that they may be computed in any order.
    """

    parts: Sequence[Part]
    conjunction: bool
    movable: bool

    @classmethod
    def run(cls, parts: Sequence[Part], *, conjunction: bool, movable: bool) -> Run:
        """Return what computes a junction of at least two conditions for pages."""
        return cls(parts, conjunction, movable)._run

    def _run(self, page: Page) -> Datum:
        first, *others = self._in_order()
        found, places = first.run(page), None
        wider: list[tuple[pa.Array, pa.Array]] = []
        known: pa.Array | None = None
        for part in others:
            asked = 0
            if part.cost > 1 and isinstance(found, pa.Array):
                undecided: pa.Array = self._undecided(found) if known is None else known
                asked = undecided.true_count
                if asked == 0:
                    break
                if asked <= FEW * len(found):
                    wider.append((found, undecided))
                    found = found.filter(undecided) if found.null_count else None
                    chosen = np.flatnonzero(undecided.to_numpy(zero_copy_only=False))
                    places = chosen if places is None else places[chosen]
            found = self._joined(part, page if places is None else part.of(page, places), found)
            known = None
            if asked and isinstance(found, pa.Array):
                still: pa.Array = self._undecided(found)
                part.learn(asked, still.true_count)
                known = still
        for outer, mask in reversed(wider):
            found = pc.replace_with_mask(outer, mask, found)
        return found

    def _in_order(self) -> Sequence[Part]:
        if not self.movable or all(part.cost <= 1 for part in self.parts):
            return self.parts
        # Sorting leaves the cheap ones, which have one rank, as they are written.
        return sorted(self.parts, key=lambda part: 0.0 if part.cost <= 1 else part.rank)

    def _joined(self, part: Part, page: Page, found: Datum | None) -> Datum:
        """Join a condition to what was found of the tuples of a page; None where that decides nothing for any."""
        function: Callable[..., Datum] = pc.and_kleene if self.conjunction else pc.or_kleene
        if found is None:
            return part.run(page)
        try:
            return function(found, part.run(page))
        except ArithmeticError:
            # It need not be defined where what was found decides.
            left = pa.repeat(found, len(page)) if isinstance(found, pa.Scalar) else found
            mask = self._undecided(left)
            places = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            return pc.replace_with_mask(left, mask, function(left.filter(mask), part.run(part.of(page, places))))

    def _undecided(self, found: pa.Array) -> pa.Array:
        """Return of which tuples the truth so far does not decide."""
        still = found if self.conjunction else pc.invert(found)
        return pc.fill_null(still, True) if still.null_count else still
