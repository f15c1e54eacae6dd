"""A join can be defined by windows: two tuples meet when they are in windows that a relation, the widjoin, pairs.

Thesis 5.2.2, Eq. 5.19 to 5.22. The union of 5.19 is one of sets, so a pair that shares several windows is one result.
5.21 and 5.22 read: a left tuple meets the windows floor(l/UNIT) .. floor((l+R_L)/UNIT)-1, a right one likewise with its
own range (docs/semantics.md rows 23 and 24).
"""

from __future__ import annotations

from typing import Protocol

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.errors import SchemaError
from operators.kernels.ticks import LIMIT
from operators.window import SlidingWindow


class WidRelation(Protocol):
    """The window-ids of the right input that go with those of the left.

    The intervals that `rights` and `lefts` give must not move back while their arguments rise.
    """

    def rights(self, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
        """Return the least interval [from, until) of all right windows that go with left windows [first, last)."""
        ...

    def lefts(self, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
        """Return the least interval [from, until) of all left windows that go with right windows [first, last)."""
        ...

    def related(self, left: tuple[Int64s, Int64s], right: tuple[Int64s, Int64s]) -> Bools | None:
        """Return which windows of two intervals go together; None when overlapping intervals always do."""
        ...


@attrs.frozen
class Steps:
    """Left window w goes with the right windows w + step, for each of some steps.

    `Steps(0)` is Eq. 5.20, the same window on both sides; `Steps(-1)` pairs each left window with the right window
    before it; `Steps(-1, 0, 1)` with its neighbours too.
    """

    steps: tuple[int, ...]

    def __init__(self, *steps: int) -> None:
        if not steps:
            raise ValueError("a relation of no step joins nothing; name one, e.g. Steps(0) for the same window")
        self.__attrs_init__(tuple(sorted(set(steps))))  # pyright: ignore[reportAttributeAccessIssue]

    def rights(self, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
        return first + self.steps[0], last + self.steps[-1]

    def lefts(self, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
        return first - self.steps[-1], last - self.steps[0]

    def related(self, left: tuple[Int64s, Int64s], right: tuple[Int64s, Int64s]) -> Bools | None:
        if self.steps[-1] - self.steps[0] == len(self.steps) - 1:
            return None
        found = np.zeros(len(left[0]), np.bool_)
        for step in self.steps:
            found |= (left[0] + step < right[1]) & (right[0] < left[1] + step)
        return found


@attrs.frozen
class WidJoin:
    """Two tuples meet when a window of the left one and a window of the right one are related.

    With slide 1 on both sides and the same window related it is `Band` of the two ranges; with tumbling windows of one
    size it is `SameWindow`. Windows with gaps (slide above the range) leave tuples out that are in none.

    >>> before = WidJoin(SlidingWindow("ts", size=5, slide=5), SlidingWindow("ts", size=5, slide=5), Steps(-1))
    >>> [v.tolist() for v in before.partners(np.array([7]), 0)]
    [[0], [4]]
    """

    left: SlidingWindow
    right: SlidingWindow
    relation: WidRelation = attrs.field(factory=lambda: Steps(0))

    def __attrs_post_init__(self) -> None:
        for window in (self.left, self.right):
            if not window.partial:
                raise SchemaError("a join has no partial windows to leave out; leave out partial=False")

    @property
    def attributes(self) -> tuple[str, str]:
        return self.left.wattr, self.right.wattr

    @property
    def span(self) -> int:
        low, high = self.partners(np.zeros(1, np.int64), 0)
        return max(1, int(high[0] - low[0]) + 1) + self.left.size

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        own, other = self._sides(port)
        first, last = own.wids(ticks)
        begin, end = self._across(first, last, port)
        low, high = other.extents(begin)[0], other.extents(end - 1)[1] - 1
        alone = (first >= last) | (begin >= end)
        return np.where(alone, 0, low), np.where(alone, -1, high)

    def settled(self, bound: int, port: int) -> int:
        own, other = self._sides(port)
        open_wid = np.array([other.complete(bound)])
        least = self._across(open_wid, open_wid + 1, 1 - port)[0]
        return own.extent(int(least[0]))[0]

    def reach(self, bound: int, port: int) -> int:
        own, other = self._sides(port)
        # The windows that a tick at the bound or below can be in end with the one that begins last at or below it.
        latest = np.array([(max(-LIMIT, min(bound, LIMIT)) + own.size - own.origin) // own.slide - 1])
        return other.extent(int(self._across(latest, latest + 1, port)[1][0]) - 1)[1] - 1

    def exact(self, left: Int64s, right: Int64s) -> Bools | None:
        return self.relation.related(self.left.wids(left), self.right.wids(right))

    def _sides(self, port: int) -> tuple[SlidingWindow, SlidingWindow]:
        return (self.left, self.right) if port == 0 else (self.right, self.left)

    def _across(self, first: Int64s, last: Int64s, port: int) -> tuple[Int64s, Int64s]:
        return self.relation.rights(first, last) if port == 0 else self.relation.lefts(first, last)
