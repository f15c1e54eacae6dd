"""Session windows: tuples of a group belong together while their distances stay below a gap."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from operators.data.distinct import distinct
from operators.data.page import Bools, Int64s
from operators.pace import Pace, within
from operators.window.protocol import MadeOf, check_ticks


@attrs.frozen
class SessionWindow:
    """Maximal runs of a group's tuples with distances below `gap`; a distance equal to the gap separates.

    A session begins with its first tick, which is its window-id, and ends `gap` after its last one. Once all tuples
    before t are known, so are all sessions that end by t: the class is FCF. Source: Scotty, sections 2 and 6, and
    Algorithm 1, line 4.

    >>> [ticks.tolist() for ticks in SessionWindow("ts", gap=5).sessions(np.array([11, 1, 5]))]
    [[1, 11], [10, 16]]
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    gap: int = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks(self.wattr, GAP=self.gap)

    @property
    def promise_pace(self) -> Pace:
        return within(self.gap)

    @property
    def context(self) -> str:
        return "FCF"

    def sessions(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Return begin and end of the sessions that these values of one group form, in order of time."""
        ticks = distinct(values)
        if len(ticks) == 0:
            return ticks, ticks
        apart = np.diff(ticks) >= self.gap
        first = np.concatenate((ticks[:1], ticks[1:][apart]))
        last = np.concatenate((ticks[:-1][apart], ticks[-1:]))
        return first, last + self.gap

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Return for each of these values of one group its window-id, as a range [first, last) of that one id."""
        begins = self.sessions(values)[0]
        own = begins[np.searchsorted(begins, values, side="right") - 1] if len(values) else begins
        return own, own + 1

    def extent(self, wid: int, values: Int64s) -> Bools:
        """Return which of these values of one group, shape (n,), are in a session; none where there is no such one."""
        begins, ends = self.sessions(values)
        end = ends[begins == wid].max(initial=wid)
        return np.asarray((wid <= values) & (values < end))

    def windows(self, values: Int64s) -> Int64s:
        """Return the window-ids of these values of one group, ascending."""
        return self.sessions(values)[0]
