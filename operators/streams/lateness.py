"""Know how many tuples any other slack or lull would have made late: counts that are kept while a stream is read.

They are exact for every slack and lull of two digits with zeros behind them, such as 20 s or 1.5 s, while few tuples
were read. Beyond 65,536 the first of every 64 tuples of a page are counted, so that it costs next to nothing.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s
from operators.kernels.streams import lateness as kernels
from operators.kernels.ticks import BEFORE_ALL, LIMIT
from punctuation import NO_TIME

_ALL: Final = 65_536
"""Tuples of which every one is counted."""
_ONE_IN: Final = 64
_MOMENTS: Final = 1024
"""Moments of the clock that are kept, one for each highest value that a tuple can still be behind."""
_EMPTY: Final = np.empty(0, np.int64)


@attrs.define(eq=False)
class Silences(memory.Stateful):
    """Keep what the clock said while the highest value of a stream stood still, as far as a slack reaches back.

    >>> silences = Silences()
    >>> silences.note(105, 100)
    >>> silences.note(130, 100)
    >>> silences.note(131, 120)
    >>> silences.moments(step=1, slack=50)[1:]
    (array([130, 131]), array([29, 10]))
    """

    complete: bool = attrs.field(init=False, default=True, metadata=memory.flag())
    """Whether none was left out."""
    _highs: Int64s = attrs.field(init=False, factory=lambda: _EMPTY, metadata=memory.array())
    _nows: Int64s = attrs.field(init=False, factory=lambda: _EMPTY, metadata=memory.array(length="_highs"))
    _made: tuple[Int64s, Int64s, Int64s] | None = attrs.field(init=False, default=None)

    def note(self, now: int, highest: int) -> None:
        """Note what the clock says, and the highest value so far, NO_TIME before there is one."""
        self._made = None
        last = int(self._nows[-1]) if len(self._nows) else now
        if len(self._highs) and int(self._highs[-1]) >= highest:
            self._nows = np.append(self._nows[:-1], max(last, now))
            return
        if len(self._highs) == _MOMENTS:
            self.complete = False
            self._highs, self._nows = self._highs[_MOMENTS // 2 :], self._nows[_MOMENTS // 2 :]
        self._highs, self._nows = np.append(self._highs, highest), np.append(self._nows, max(last, now))

    def longest(self, bound: int) -> int:
        """Return the longest lull with which a bound would have been promised by now, less than 0 for none."""
        return int((self._nows - np.maximum(self._highs + 1, bound)).max(initial=-1))

    def moments(self, step: int, slack: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the highest values, the times, and the most by which these or later ones are ahead, shape (m,) each.

        What no tuple can meet that is in time with a slack is let go.
        """
        if self._made is None:
            highs, nows = self._highs, self._nows
            least = max(int(highs[-1]) - min(slack + step, LIMIT), BEFORE_ALL) if len(highs) else BEFORE_ALL
            first = max(int(np.searchsorted(highs, least)) - 1, 0)
            self._highs, self._nows = highs, nows = highs[first:], nows[first:]
            ahead = np.where(highs == NO_TIME, -1, nows - 1 - np.where(highs == NO_TIME, 0, highs))
            self._made = highs, nows, np.maximum.accumulate(ahead[::-1])[::-1]
        return self._made


@attrs.define(eq=False)
class Lateness(memory.Stateful):
    """Count the tuples of a stream by the slack with which they would be late, and by the lull.

    `step` and `origin` are those of its promises. A count is of tuples that are late for their first window at least.

    >>> lateness = Lateness(step=10)
    >>> lateness.observe(np.array([4, 17, 9, 36, 15, 38]), 38)
    >>> [lateness.late(slack) for slack in (0, 7, 8, 16, 17)], lateness.counted
    ([2, 2, 1, 1, 0], 6)
    >>> lateness.enough()
    17

    With a slack of 10 the tuple 15 is late. After the clock said 60, another of 39 is with a lull up to 20.

    >>> lateness = Lateness(step=10)
    >>> lateness.observe(np.array([4, 17, 9, 36, 15, 38]), 38, slack=10)
    >>> lateness.elapse(60)
    >>> lateness.observe(np.array([39]), 39, slack=10)
    >>> [lateness.late_after(lull) for lull in (15, 20, 21)]
    [2, 2, 1]
    """

    step: int = attrs.field(default=1, metadata=memory.integer(least=1))
    origin: int = attrs.field(default=0, metadata=memory.integer())
    counted: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """The tuples that were looked at."""
    read: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """All tuples."""
    before: int = attrs.field(init=False, default=NO_TIME, metadata=memory.integer())
    """The highest value up to the values that were read last."""
    silences: Silences | None = attrs.field(
        init=False, default=None, metadata=memory.part(lacking=lambda own: Silences())
    )
    """What the clock said, where it was told."""
    cells: Int64s = attrs.field(
        init=False, repr=False, factory=lambda: np.zeros(kernels.CELLS, np.int64),
        metadata=memory.sparse("late with", name="slacks", fill=0, places="cells", least=0),
    )  # fmt: skip
    """How many tuples are late up to which slack, by the cells of `kernels.streams.lateness`."""
    _late: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """The tuples that were late with the slack that the stream has."""
    _highest: int = attrs.field(init=False, default=NO_TIME, metadata=memory.integer())
    _lulls: Int64s = attrs.field(
        init=False, repr=False, factory=lambda: np.zeros(kernels.CELLS, np.int64),
        metadata=memory.sparse("late after", name="lulls", fill=0, places="_lulls", least=0),
    )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Return 0: counts of a fixed size are no state that a stream makes grow."""
        return 0

    def look(self, many: int) -> int:
        """Count so many tuples as read, and return how many of them, the first ones, are looked at."""
        looked = share(many, self.counted)
        self.read += many
        self.counted += looked
        return looked

    def observe(self, values: Int64s, highest: int, slack: int = 0) -> None:
        """Read the next values, shape (n,), NO_TIME where there is none; `highest` is the largest up to them.

        `slack` is that of the stream, 0 where it is in order.
        """
        looked = values[: self.look(len(values))]
        if len(looked):
            silences = self.silences
            moments = (_EMPTY, _EMPTY, _EMPTY) if silences is None else silences.moments(self.step, slack)
            self._late += kernels.observe(
                looked, NO_TIME, self.step, self.origin, np.int64(self._highest), slack, self.cells, *moments,
                self._lulls,
            )  # fmt: skip
        self.before, self._highest = self._highest, highest

    def elapse(self, now: int) -> None:
        """Take the clock, in ticks of the values: a lull would promise by it."""
        if self.silences is None:
            self.silences = Silences()
        self.silences.note(now, self._highest)

    @property
    def highest(self) -> int | None:
        """Return the highest value that was read, None before there is one."""
        return None if self._highest == NO_TIME else self._highest

    def late(self, slack: int) -> int:
        """Return how many of the `counted` tuples are late with a slack, which is rounded to two digits, down."""
        return int(self.cells[0 if slack < 1 else _cell(rounded(slack)) + 1 :].sum())

    def late_after(self, lull: int) -> int:
        """Return how many of them are late with a lull, rounded so, and the slack that the stream has."""
        return self._late + int(self._lulls[0 if lull < 1 else _cell(rounded(lull)) + 1 :].sum())

    def enough(self) -> int:
        """Return a slack of two digits with which none of them would be late."""
        found = np.flatnonzero(self.cells)
        return edge(int(found[-1])) if len(found) else 0


def share(many: int, counted: int) -> int:
    """Return how many of so many tuples are looked at, where so many were before.

    >>> share(1000, 0), share(1000, 65_536)
    (1000, 15)
    """
    return many if counted < _ALL else many // _ONE_IN


def rounded(slack: int) -> int:
    """Return a slack with two digits and zeros behind them, rounded down.

    >>> rounded(7), rounded(1999), rounded(-3)
    (7, 1900, 0)
    """
    scale = 1
    while slack > 100 * scale:
        scale *= 10
    return max(slack, 0) // scale * scale


def edge(cell: int) -> int:
    """Return the largest distance of a cell.

    >>> [edge(cell) for cell in (0, 99, 100, 189, 190)]
    [1, 100, 110, 1000, 1100]
    """
    powers = max(cell - 10, 0) // 90
    return (cell - 90 * powers + 1) * 10**powers


def _cell(distance: int) -> int:
    return int(kernels.cell_of(np.int64(distance)))
