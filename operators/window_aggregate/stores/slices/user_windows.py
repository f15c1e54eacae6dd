"""Windows that say for single ticks where their edges are: those of them are left out that do not count yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from operators.kernels.ticks import FAR
from operators.window.user import Around, AskedWindow, Extent


@attrs.frozen
class CountingFrom:
    """Leave out the windows that begin before a tick: an added one counts from there on.

    Cost: one more question a cell, whether a window that counts covers it.

    >>> from operators.window.user import ExtentWindow
    >>> shifts = {1: (0, 8), 2: (6, 14), 7: (20, 22)}
    >>> window = CountingFrom(ExtentWindow("ts", shifts.__getitem__, shifts), since=5)
    >>> window.around(2), window.around(7), list(window.complete(0, 50, [(0, 30)]))
    ((0, 6, -4611686018427387904, False), (6, 8, 14, True), [])
    >>> list(window.complete(0, 50, [(0, 6), (6, 8)])), window.unfinished(0)
    ([(2, 6, 14)], 5)
    """

    window: AskedWindow
    since: int

    @property
    def wattr(self) -> str:
        return self.window.wattr

    @property
    def context(self) -> str:
        return self.window.context

    def around(self, tick: int) -> Around:
        """Return the edges around a tick, all of them, and what there is of windows that count."""
        low, high, until, covered = self.window.around(tick)
        covered = covered and any(True for _ in self.complete(tick, FAR, [(tick, tick + 1)]))
        return low, high, until if low >= self.since else -FAR, covered

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[Extent]:
        """Yield the windows as the window does, but for those that begin before."""
        for wid, begin, end in self.window.complete(after, bound, spans):
            if begin >= self.since:
                yield wid, begin, end

    def unfinished(self, bound: int) -> int:
        """Return the least begin of the windows that end after a bound, or a tick before it."""
        return max(self.window.unfinished(bound), self.since)
