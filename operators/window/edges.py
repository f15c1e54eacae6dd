"""Windows between edges are told by a tick alone: the id of each is its begin, and ids in between are of no window."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.distinct import distinct
from operators.data.page import Int64s
from operators.kernels.ticks import FOREVER, LIMIT
from operators.window.user import EdgeWindow

_MOST = 4096
"""So many windows at most are remembered with their ends."""


@attrs.frozen
class NumberedEdges:
    """Windows between consecutive edges, as months are, by their window-ids: what triggers need to fire them.

    The id of a window is its begin, so not all ids are of a window: `extent` of another one is empty. A tick before the
    first edge is in none. A window whose end is out of range ends with the stream.
    Cost: one question to the function of edges for each window that has a tick, and a sort of the ticks.

    >>> window = NumberedEdges(EdgeWindow("ts", lambda tick: tick // 10 * 10 + 10))
    >>> [wids.tolist() for wids in window.wids(np.array([7, 12, 3]))]
    [[0, 10, 0], [1, 11, 1]]
    >>> window.extent(10), window.extent(11), window.complete(19)
    ((10, 20), (11, 11), 10)
    """

    edges: EdgeWindow
    _ends: dict[int, int] = attrs.field(init=False, repr=False, eq=False, factory=dict)
    """The ends of windows by their begins, as far as they were asked for."""

    @property
    def wattr(self) -> str:
        return self.edges.wattr

    @property
    def context(self) -> str:
        return self.edges.context

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        ticks = distinct(np.clip(values, 1 - LIMIT, LIMIT - 1))
        if len(ticks) == 0:
            return values, values
        at, starts, begins, inside = 0, list[int](), list[int](), list[bool]()
        while at < len(ticks):
            begin, end, there = self._around(int(ticks[at]))
            starts.append(int(ticks[at]))
            begins.append(begin)
            inside.append(there)
            at = int(np.searchsorted(ticks, end))
        places = np.maximum(np.searchsorted(starts, values, side="right") - 1, 0)
        first: Int64s = np.array(begins, np.int64)[places]
        return first, first + np.array(inside, np.int64)[places]

    def extent(self, wid: int) -> tuple[int, int]:
        if (end := self._ends.get(wid)) is None:
            if abs(wid) >= LIMIT or int(self.edges.next_edge(wid - 1)) != wid:
                return wid, wid
            end = self._remember(wid, int(self.edges.next_edge(wid)))
        return wid, end

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        known = distinct(wids)
        ends = np.array([self.extent(wid)[1] for wid in known.tolist()], np.int64)
        return wids, ends[np.searchsorted(known, wids)]

    def windows(self, values: Int64s) -> Int64s:
        first, last = self.wids(values)
        return distinct(first[first < last])

    def complete(self, bound: int) -> int:
        return bound if bound <= -LIMIT else self._around(min(bound, LIMIT - 1))[0]

    def _around(self, tick: int) -> tuple[int, int, bool]:
        """Return begin and end of the window that a tick is in, and True; before the first edge, that edge twice."""
        begin, end, _, there = self.edges.around(tick)
        if not there:
            return end, end, False
        return begin, self._remember(begin, end), True

    def _remember(self, begin: int, end: int) -> int:
        """Keep the end of a window, and return it as results have it."""
        if len(self._ends) >= _MOST:
            self._ends.clear()
        self._ends[begin] = end if end < LIMIT else FOREVER
        return self._ends[begin]
