"""Windows that are delimited from outside: one fixed stretch of ticks, or the ticks of marked tuples."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import ClassVar

import attrs
import numpy as np

from operators.data.page import Int64s, Row
from operators.kernels.ticks import FAR
from operators.pace import Pace
from operators.window.protocol import MadeOf, check_ticks


@attrs.frozen
class FixedBandWindow:
    """One window, [start, start + size), with window-id 0. Source: the fixed-band windows of Scotty, section 9.2.

    >>> FixedBandWindow("ts", start=10, size=5).extent(0)
    (10, 15)
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    start: int = attrs.field(kw_only=True)
    size: int = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks(self.wattr, SIZE=self.size, origin=self.start)

    @property
    def promise_pace(self) -> Pace:
        return Pace(self.size, self.start % self.size)

    @property
    def context(self) -> str:
        return "CF"

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        inside = (values >= self.start) & (values < self.start + self.size)
        return np.zeros(len(values), np.int64), inside.astype(np.int64)

    def extent(self, wid: int) -> tuple[int, int]:
        return (self.start, self.start + self.size) if wid == 0 else (self.start, self.start)

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        return np.full(len(wids), self.start), np.where(wids == 0, self.start + self.size, self.start)

    def windows(self, values: Int64s) -> Int64s:
        return np.zeros(int(self.wids(values)[1].any()), np.int64)

    def complete(self, bound: int) -> int:
        return int(bound >= self.start + self.size)


@attrs.frozen
class DelimitedWindow:
    """Windows between the ticks of marked tuples, those where a truth value or number `mark` is neither null nor 0.

    A marked tuple begins the next window, with its tick as the window-id; tuples of one tick are in one window. Tuples
    before the first mark or after the last are in no window. Marks count for all groups. All edges before a tick are
    known once all tuples before it are: FCF. Source: punctuation-based windows in Scotty, section 4.4.
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    mark: str

    @property
    def context(self) -> str:
        return "FCF"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.mark,)

    def make(self) -> Marks:
        """Make the context that remembers the marks."""
        return Marks(self.mark)


@attrs.define(eq=False)
class Marks:
    """Remember the last marks in order of time."""

    mark: str
    _marks: list[int] = attrs.field(init=False, factory=list)

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        """Take the next tuple in order of time; its tick is an edge when it is marked."""
        if row[self.mark] and (not self._marks or self._marks[-1] != tick):
            self._marks.append(tick)
            return (tick,)
        return ()

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        """Return the windows between the marks so far."""
        found = list(pairwise(self._marks))
        del self._marks[:-1]
        return found

    def unfinished(self) -> int:
        """Return the first mark that may begin a window; before there is one, nothing begins."""
        return self._marks[0] if self._marks else FAR

    def state(self) -> str:
        return json.dumps(self._marks)

    def restore(self, state: str) -> None:
        self._marks = json.loads(state)
