"""Know how many tuples any other slack would have made late: counts that are kept while a stream is read.

They are exact for every slack of two digits with zeros behind them, such as 20 s or 1.5 s, while few tuples were read.
Beyond 65,536 the first of every 64 tuples of a page are counted, so that it costs next to nothing.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.streams import lateness as kernels
from punctuation import NO_TIME

_ALL: Final = 65_536
"""Tuples of which every one is counted."""
_ONE_IN: Final = 64


@attrs.define(eq=False)
class Lateness:
    """Count the tuples of a stream by the slack with which they would be late.

    `step` and `origin` are those of its promises. A count is of tuples that are late for their first window at least.

    >>> lateness = Lateness(step=10)
    >>> lateness.observe(np.array([4, 17, 9, 36, 15, 38]), 38)
    >>> [lateness.late(slack) for slack in (0, 7, 8, 16, 17)], lateness.counted
    ([2, 2, 1, 1, 0], 6)
    >>> lateness.enough()
    17
    """

    step: int = 1
    origin: int = 0
    counted: int = attrs.field(init=False, default=0)
    """The tuples that were looked at."""
    read: int = attrs.field(init=False, default=0)
    """All tuples."""
    before: int = attrs.field(init=False, default=NO_TIME)
    """The highest value up to the values that were read last."""
    _highest: int = attrs.field(init=False, default=NO_TIME)
    _cells: Int64s = attrs.field(init=False, repr=False, factory=lambda: np.zeros(kernels.CELLS, np.int64))

    def observe(self, values: Int64s, highest: int) -> None:
        """Read the next values, shape (n,), NO_TIME where there is none; `highest` is the largest up to them."""
        self.read += len(values)
        looked = values if self.counted < _ALL else values[: len(values) // _ONE_IN]
        self.counted += len(looked)
        if len(looked):
            kernels.observe(looked, NO_TIME, self.step, self.origin, np.int64(self._highest), self._cells)
        self.before, self._highest = self._highest, highest

    def late(self, slack: int) -> int:
        """Return how many of the `counted` tuples are late with a slack, which is rounded to two digits, down."""
        return int(self._cells[0 if slack < 1 else _cell(rounded(slack)) + 1 :].sum())

    def enough(self) -> int:
        """Return a slack of two digits with which none of them would be late."""
        found = np.flatnonzero(self._cells)
        return edge(int(found[-1])) if len(found) else 0


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
