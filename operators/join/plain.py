"""Tuples that few probes will ask for lie plain, as they came; they are indexed once they were asked for too often.

To look at a plain page costs little a tuple, but all of it is looked at for each page of the other input that is within
its band; to index a tuple costs several looks, once. Where the other input is sparse, plain wins. (The thesis leaves
adaptive joins open, chapter 9.)
"""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.join.segments import Found, Segment
from operators.join.tuples import Tuples, joined
from operators.kernels.ticks import FOREVER

_SMALL = 2048


@attrs.define(eq=False)
class Plain:
    """A stored page without an index."""

    tuples: Tuples
    looks: int = 0
    segment: Segment = attrs.field(init=False)
    low: int = attrs.field(init=False)
    high: int = attrs.field(init=False)
    """First and last tick of all partners."""
    _live: Bools = attrs.field(init=False)
    _least: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        tuples = self.tuples
        self.segment = Segment(0, tuples.batch, tuples.ticks, tuples.matched, len(tuples))
        self._live = np.ones(len(tuples), np.bool_)
        self._least = int(tuples.ticks.min())
        self.low, self.high = int(tuples.low.min()), int(tuples.high.max())

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

    def meets(self, first: int, last: int) -> bool:
        """Return whether tuples of the other input at these ticks may have partners here."""
        return first <= self.high and last >= self.low

    def goes_with(self, other: Plain) -> bool:
        """Return whether this page and the next are small and near enough to lie as one, none having been looked at."""
        small = len(self) < 2 * len(other) and len(self) + len(other) <= _SMALL
        return small and self.looks == other.looks == 0 and self.low <= other.high and other.low <= self.high

    def joined(self, other: Plain) -> Plain:
        """Return the live tuples of this page and the next as one page."""
        return Plain(joined(self.kept(), other.kept()))

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
