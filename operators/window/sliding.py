"""Sliding windows and their special cases: tumbling windows, windows with gaps, windows over arrival numbers.

The thesis prints Eq. 5.3 and 5.6 with ceilings; they contradict Eq. 5.2 away from slide boundaries, and its own worked
example. The floor is right, on negative values too.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from operators.data.distinct import distinct
from operators.data.page import Int64s
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows.window import sliding_wids
from operators.pace import Pace
from operators.window.protocol import MadeOf, check_ticks


@attrs.frozen
class SlidingWindow:
    """Windows of length `size` every `slide` ticks: window w covers [origin + (w+1)slide - size, origin + (w+1)slide).

    Tumbling when slide = size; with slide > size the ticks in between are in no window. `partial=False` leaves out the
    windows that begin before the origin (thesis 5.1.1, the first rows of its table). Source: Eq. 5.1 to 5.3.

    >>> w = SlidingWindow("ts", size=10, slide=5)
    >>> w.extent(3), [r.tolist() for r in w.wids(np.array([12, 15]))]
    ((10, 20), [[2, 3], [4, 5]])
    """

    made_of: ClassVar[MadeOf] = MadeOf.STEPS | MadeOf.SLICES
    wattr: str
    size: int = attrs.field(kw_only=True)
    slide: int = attrs.field(kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)
    partial: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks(self.wattr, RANGE=self.size, SLIDE=self.slide, origin=self.origin)

    @property
    def promise_pace(self) -> Pace:
        return Pace(self.slide, self.origin)

    @property
    def context(self) -> str:
        return "CF"

    @property
    def least(self) -> int:
        """Return the smallest window-id that is emitted."""
        return BEFORE_ALL if self.partial else -(-self.size // self.slide) - 1

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        first = np.empty(len(values), np.int64)
        last = np.empty(len(values), np.int64)
        sliding_wids(values, self.size, self.slide, self.origin, self.least, first, last)
        return first, last

    def extent(self, wid: int) -> tuple[int, int]:
        end = self.origin + (wid + 1) * self.slide
        return end - self.size, end

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        end = self.origin + (wids + 1) * self.slide
        return end - self.size, end

    def windows(self, values: Int64s) -> Int64s:
        first, last = self.wids(values)
        return _union(first, last)

    def complete(self, bound: int) -> int:
        return (bound - self.origin) // self.slide


@attrs.frozen
class LandmarkWindow:
    """Windows that all begin with the stream (RANGE ALL); window w ends at origin + (w+1)slide.

    Source: Eq. 5.7 to 5.9 with the floor; which windows exist is bounded by the data: the last is the first one that
    has every tuple.
    """

    made_of: ClassVar[MadeOf] = MadeOf.STEPS
    wattr: str
    slide: int = attrs.field(kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks(self.wattr, SLIDE=self.slide, origin=self.origin)

    @property
    def promise_pace(self) -> Pace:
        return Pace(self.slide, self.origin)

    @property
    def context(self) -> str:
        return "CF"

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        return (values - self.origin) // self.slide, np.full(len(values), FOREVER)

    def extent(self, wid: int) -> tuple[int, int]:
        return -FOREVER, self.origin + (wid + 1) * self.slide

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        return np.full(len(wids), -FOREVER), self.origin + (wids + 1) * self.slide

    def windows(self, values: Int64s) -> Int64s:
        if len(values) == 0:
            return np.empty(0, np.int64)
        first = self.wids(values)[0]
        return np.arange(first.min(), first.max() + 1)

    def complete(self, bound: int) -> int:
        return (bound - self.origin) // self.slide


@attrs.frozen
class PartitionedWindow:
    """Row windows counted separately in each partition (PA): the arrival rank within the partition is the attribute.

    Bucket keeps the counts, so the class is FCF. With RANGE ALL a partition's last window is the first one that has all
    its own rows. Source: Eq. 5.4 to 5.6, ranks from 0 as for unpartitioned rows.
    """

    made_of: ClassVar[MadeOf] = MadeOf.STEPS
    rows: SlidingWindow | LandmarkWindow
    partition: tuple[str, ...]

    @property
    def wattr(self) -> str:
        return self.rows.wattr

    @property
    def context(self) -> str:
        return "FCF"

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        return self.rows.wids(values)

    def extent(self, wid: int) -> tuple[int, int]:
        return self.rows.extent(wid)

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        return self.rows.extents(wids)

    def windows(self, values: Int64s) -> Int64s:
        return self.rows.windows(values)

    def complete(self, bound: int) -> int:
        return self.rows.complete(bound)


def tumbling(wattr: str, size: int, *, origin: int = 0) -> SlidingWindow:
    """Make windows of `size` ticks that neither overlap nor leave gaps."""
    return SlidingWindow(wattr, size=size, slide=size, origin=origin)


def _union(first: Int64s, last: Int64s) -> Int64s:
    ranges = np.unique(np.stack((first, last), axis=1)[first < last], axis=0)
    if len(ranges) == 0:
        return np.empty(0, np.int64)
    return distinct(np.concatenate([np.arange(a, b) for a, b in ranges]))
