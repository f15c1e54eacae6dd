"""Panes lie one after the other in one room that all columns share; a window is a range of panes.

A pane is a run of tuples in the same windows, so its tuples never leave one by one. The room is a ring that never
wraps: panes move to its beginning when its end is reached, and it grows before they take up two thirds of it, so that
a pane moves twice on average and every window is contiguous.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s
from operators.data.saved import bounded
from operators.kernels.stacks import panes as kernels
from operators.kernels.ticks import BEFORE_ALL
from operators.window import SlidingWindow

_LEAST_ROOM = 64


class Column(Protocol):
    """A column beside the panes: entry k belongs to pane k."""

    def move(self, low: int, high: int, capacity: int) -> None:
        """Bring panes low <= k < high to the beginning, in a room for `capacity` panes."""
        ...


@attrs.frozen(eq=False)
class Cut:
    """Panes cut from a page: pane `at + i` has the tuples begins[i] <= j < stops[i]; `fresh` is the first new one."""

    begins: Int64s
    stops: Int64s
    at: int
    fresh: int
    end: int
    """The first tuple that was not cut."""
    in_no_window: int
    """Tuples that were cut but are in no window."""


@attrs.frozen(eq=False)
class Spans:
    """Windows with their panes: window wids[i] has the panes heads[i] <= k < tails[i], at least one."""

    wids: Int64s
    heads: Int64s
    tails: Int64s
    steady: bool
    """Whether both ends move by one pane a window."""


@attrs.define(eq=False)
class Panes(memory.Stateful):
    """Hold the units of the panes that are in a window still to come. Cost: 8 bytes a pane."""

    window: SlidingWindow
    low: int = attrs.field(init=False, default=0)
    """The first pane held."""
    high: int = attrs.field(init=False, default=0)
    """The pane after the last one."""
    _columns: list[Column] = attrs.field(init=False, factory=list)
    _units: Int64s = attrs.field(
        init=False,
        factory=lambda: np.empty(_LEAST_ROOM, np.int64),
        metadata=memory.array(of=lambda panes: panes._units[: panes.high]),
    )
    _marks: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(2, np.int64), metadata=memory.array(length="_marks")
    )

    def __len__(self) -> int:
        """Return the number of panes held."""
        return self.high - self.low

    @property
    def capacity(self) -> int:
        """Return how many panes there is room for."""
        return len(self._units)

    @property
    def horizon(self) -> int:
        """Return the window after the last one that a pane is in."""
        if self.low == self.high:
            return BEFORE_ALL
        unit = int(self._units[self.high - 1])
        return (unit >> 1) + (unit & 1) + self.window.size // self.window.slide

    def admit(self, column: Column) -> None:
        """Let a column lie beside the panes from now on."""
        column.move(0, 0, len(self._units))
        self._columns.append(column)

    def cut(self, values: Int64s, start: int, most: int) -> Cut:
        """Cut values in order, from `start` on, into at most so many panes, and make room for them."""
        window = self.window
        t = int(values[start]) - window.origin
        most = min(most, len(values) - start, 2 * ((int(values[-1]) - int(values[start])) // window.slide + 2))
        self._make_room(most)
        fresh = self.high
        # A page that begins within the last pane adds to it.
        unit = t // window.slide + (t + window.size) // window.slide - window.size // window.slide
        at = fresh - 1 if fresh > self.low and int(self._units[fresh - 1]) == unit else fresh
        begins, stops = np.empty(most, np.int64), np.empty(most, np.int64)
        made, end, gap = kernels.cut(
            values, start, window.size, window.slide, window.origin, begins, stops, self._units[at : at + most]
        )
        made = int(made)
        self.high = at + made
        return Cut(begins[:made], stops[:made], at, fresh, int(end), int(gap))

    def spans(self, wid: int, stop: int, most: int) -> tuple[Spans, int]:
        """Return the windows wid <= w < stop that have a pane, at most so many, and the next window to look at."""
        window = self.window
        if len(self):
            wid = max(wid, int(self._units[self.low]) >> 1)
        most = min(most, max(stop - wid, 0)) if len(self) else 0
        wids, heads, tails = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
        if most == 0:
            return Spans(wids, heads, tails, False), stop
        units = self._units[: self.high]
        n, wid, steady = kernels.spans(units, window.size, window.slide, wid, stop, self._marks, wids, heads, tails)
        return Spans(wids[:n], heads[:n], tails[:n], bool(steady)), int(wid)

    def open(self, wid: int, most: int) -> Int64s:
        """Return the windows from `wid` on that have a pane, at most so many, and go on from where it was."""
        marks, found, stop = self._marks.copy(), np.empty(0, np.int64), self.horizon
        while len(self) and wid < stop and len(found) < most:
            # A call may end where windows begin to have gaps.
            spans, wid = self.spans(wid, stop, most - len(found))
            found = np.concatenate((found, spans.wids))
        self._marks[:] = marks
        return found

    def drop(self, wid: int) -> bool:
        """Forget the panes that are in no window from `wid` on; False when there are none."""
        if len(self) == 0:
            return False
        per = self.window.size // self.window.slide
        low = int(kernels.passed(self._units[: self.high], per, wid, max(self.low, int(self._marks[0]))))
        if low == self.low:
            return False
        self.low = low
        self._marks[:] = np.maximum(self._marks, low)
        return True

    def _make_room(self, more: int) -> None:
        capacity = len(self._units)
        if self.high + more <= capacity:
            return
        held = len(self)
        self._move(2 * held + more if held + held // 2 + more > capacity else capacity)

    def _move(self, capacity: int) -> None:
        """Bring all panes to the beginning of the room, or of a larger one."""
        low, high = self.low, self.high
        for column in self._columns:
            column.move(low, high, capacity)
        self._units = moved(self._units, low, high, capacity)
        self._marks -= low
        self.low, self.high = 0, high - low

    def marked(self, marks: Int64s) -> Int64s:
        """Return saved marks of a technique; those before the first pane are of no meaning."""
        return np.maximum(bounded(marks, "marks", least=None, below=len(self) + 1), 0)

    def _before_saving(self) -> None:
        self._move(self.capacity)

    def _after_restoring(self) -> None:
        units, self._units = self._units, np.empty(_LEAST_ROOM, np.int64)
        self._make_room(len(units))
        self.low, self.high = 0, len(units)
        self._units[: len(units)] = units
        self._marks = self.marked(self._marks)


def moved(array: Int64s, low: int, high: int, capacity: int) -> Int64s:
    """Return entries low <= k < high at the beginning of an array of `capacity` entries, the same one where it fits."""
    if capacity == len(array):
        array[: high - low] = array[low:high]
        return array
    larger = np.empty(capacity, array.dtype)
    larger[: high - low] = array[low:high]
    return larger
