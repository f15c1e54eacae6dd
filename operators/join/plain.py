"""Tuples that few probes will ask for lie plain, as they came; they are indexed once they were asked for too often.

To look at a plain page costs little a tuple, but all of it is looked at for each page of the other input; to index a
tuple costs several looks, once. Where the other input is sparse, plain wins. (The thesis leaves adaptive joins open,
chapter 9.)
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Bools, Int64s
from operators.join.segments import Found, Segment
from operators.join.tuples import Tuples
from operators.kernels.ticks import FOREVER

_PAGES = 256


@attrs.define(eq=False)
class Plain:
    """A stored page without an index."""

    tuples: Tuples
    looks: int = 0
    segment: Segment = attrs.field(init=False)
    _live: Bools = attrs.field(init=False)
    _least: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        tuples = self.tuples
        self.segment = Segment(0, tuples.batch, tuples.ticks, tuples.matched, len(tuples))
        self._live = np.ones(len(tuples), np.bool_)
        self._least = int(tuples.ticks.min())

    def __len__(self) -> int:
        """Return the number of live tuples."""
        return self.segment.live

    @property
    def least(self) -> int:
        """Return the least tick of a live tuple, FOREVER when there is none."""
        return self._least

    @property
    def rows(self) -> Int64s:
        """Return the rows of the live tuples."""
        return np.flatnonzero(self._live)

    def kept(self) -> Tuples:
        """Return the live tuples."""
        return self.tuples if self._live.all() else self.tuples.select(self._live)

    def lives(self, rows: Int64s) -> Bools:
        """Return which of these rows are live."""
        return self._live[rows]

    def purge(self, bound: int) -> Found | None:
        """Drop the tuples below a bound, and give them."""
        if bound <= self._least:
            return None
        return self.drop(np.flatnonzero(self._live & (self.segment.ticks < bound)))

    def drop(self, rows: Int64s) -> Found | None:
        """Drop live tuples by their rows, each named once, and give them."""
        if len(rows) == 0:
            return None
        self._live[rows] = False
        self.segment.live -= len(rows)
        ticks = self.segment.ticks[self._live]
        self._least = int(ticks.min()) if len(ticks) else FOREVER
        return Found([(self.segment, rows)], None)


@attrs.define(eq=False)
class Policy(memory.Stateful):
    """Decide for each arriving page whether it is worth an index, from what came lately on both ports."""

    patience: int = attrs.field(metadata=memory.integer())
    """How many looks at a plain tuple cost as much as to index it; 0: index at once."""
    _seen: list[float] = attrs.field(factory=lambda: [0.0] * 4, init=False, metadata=memory.numbers())
    """Pages seen of each port, and tuples, those of long ago for less."""

    def saw(self, port: int, tuples: int) -> None:
        """Take note of a page."""
        seen = self._seen
        seen[port] += 1
        seen[2 + port] += tuples
        if seen[0] + seen[1] > _PAGES:
            self._seen = [n / 2 for n in seen]

    def plain(self, port: int, held: int) -> bool:
        """Return whether the page just seen on a port should lie plain, `held` tuples of that port being stored.

        While it is stored there come about (pages of the other port per tuple) * held looks at it; besides, each page
        of the other port is indexed for the looks alone.
        """
        if self.patience == 0:
            return False
        pages, tuples, other = self._seen[:2], self._seen[2:], 1 - port
        page = tuples[port] / pages[port]
        looks = pages[other] / pages[port] * max(1.0, held / page)
        return looks / self.patience + tuples[other] / tuples[port] < 1.0

    def worn(self, pages: Sequence[Plain]) -> list[Plain]:
        """Return the plain pages that were looked at so often that they should be indexed."""
        return [page for page in pages if page.looks >= self.patience]
