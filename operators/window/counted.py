"""Windows that the tuples themselves define: which there are, or what is in them, depends on other tuples (class FCA).

`windows(values)` gives the window-ids, `extent(wid, values)` tells which tuples a window has, `wids(values)` gives for
each tuple a range that holds its windows: it is in those of `windows(values)` that lie in the range, and in no others.
`values` are the windowing attribute of all tuples in the order of arrival, by which ties are told apart. Lengths of
time are ticks of the attribute, as in `operators.window.protocol`.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias

import attrs
import numpy as np

from operators.data.distinct import distinct
from operators.data.page import Bools, Int64s
from operators.kernels.ticks import FOREVER
from operators.pace import Pace, within
from operators.window.protocol import MadeOf, check_ticks


class OrderedWindow(Protocol):
    """The specification of windows that tuples define, in the order of an attribute."""

    @property
    def wattr(self) -> str:
        """Return the attribute that orders the tuples (the thesis' RATTR)."""
        ...

    @property
    def context(self) -> str:
        """Return the class of thesis 6.1.2: "FCA"."""
        ...


class CountedWindow(OrderedWindow, Protocol):
    """One whose windows the values of that attribute tell."""

    def windows(self, values: Int64s) -> Int64s:
        """Return the window-ids, ascending."""
        ...

    def extent(self, wid: int, values: Int64s) -> Bools:
        """Return which tuples, shape (n,), a window has."""
        ...

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Return for each tuple a range [first, last): it is in the windows that lie in it."""
        ...


@attrs.frozen
class _Sliding:
    """Windows of `size` ticks, whose id is the value at which they end; which there are, tuples tell."""

    made_of: ClassVar[MadeOf] = MadeOf.RANKS
    wattr: str
    size: int = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks(self.wattr, RANGE=self.size)

    @property
    def promise_pace(self) -> Pace:
        return within(self.size)

    @property
    def context(self) -> str:
        return "FCA"

    def extent(self, wid: int, values: Int64s) -> Bools:
        return (wid - self.size < values) & (values <= wid)

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        return values, values + self.size

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        """Return the values [begin, end) that windows cover, shape (n,)."""
        return wids - self.size + 1, wids + 1


@attrs.frozen
class SlideByTuple(_Sliding):
    """A window of `size` ticks ends at each tuple: window w has the tuples with w - size < wattr <= w.

    The window-id is the value at which it ends, so tuples of one value share a window; `each` gives a row for each of
    them. Source: Eq. 5.10 to 5.12, docs/semantics.md row 11.

    >>> window = SlideByTuple("ts", size=10)
    >>> values = np.array([5, 12, 15])
    >>> window.windows(values).tolist(), window.extent(12, values).tolist(), [r.tolist() for r in window.wids(values)]
    ([5, 12, 15], [True, True, False], [[5, 12, 15], [15, 22, 25]])
    """

    each: bool = attrs.field(default=False, kw_only=True)

    def windows(self, values: Int64s) -> Int64s:
        return distinct(values)


@attrs.frozen
class SlideByRows(_Sliding):
    """A window of `size` ticks ends at every `rows`-th tuple to arrive; as `SlideByTuple` in all else.

    Tuples are counted where the window stands, or by the attribute `number` that was given to them before (from 0, as
    `Number` does), so that a filter in between makes no difference. Source: Eq. 5.13 to 5.15.

    >>> SlideByRows("ts", size=10, rows=2).windows(np.array([5, 12, 9, 3])).tolist()
    [3, 12]
    """

    rows: int = attrs.field(kw_only=True)
    number: str | None = attrs.field(default=None, kw_only=True)
    each: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_ticks("rows", SLIDE=self.rows)

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.number is None else (self.number,)

    def windows(self, values: Int64s, numbers: Int64s | None = None) -> Int64s:
        """Return the window-ids, ascending; `numbers` are the tuples' arrival numbers if not 0, 1, 2, ..."""
        numbers = np.arange(len(values)) if numbers is None else numbers
        return distinct(values[(numbers + 1) % self.rows == 0])


@attrs.frozen
class SlideByRank(_Sliding):
    """A window of `size` ticks ends at every `rows`-th tuple in the order of wattr; as `SlideByTuple` in all else.

    Ranks begin with 1, ties by arrival. It is what sorting first would give, without sorting. Source: Eq. 5.16 to 5.18.

    >>> SlideByRank("ts", size=10, rows=2).windows(np.array([5, 12, 9, 3])).tolist()
    [5, 12]
    """

    rows: int = attrs.field(kw_only=True)
    each: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_ticks("rows", SLIDE=self.rows)

    def windows(self, values: Int64s) -> Int64s:
        return distinct(np.sort(values)[self.rows - 1 :: self.rows])


@attrs.frozen
class CountWindow:
    """Windows of `size` tuples every `slide` tuples, in the order of wattr whatever the order of arrival.

    Ranks begin with 0, ties by arrival: window w has the ranks (w + 1)slide - size <= rank < (w + 1)slide, so the
    window-id is an ordinal. Windows that begin before rank 0 are given unless `partial=False`; at the end so are those
    that are not full. Source: Eq. 5.4 with rank(wattr) for row-num; count measure of the TODS paper, section 4.3.

    >>> window = CountWindow("ts", size=3, slide=2)
    >>> values = np.array([5, 12, 9, 3])
    >>> window.windows(values).tolist(), window.extent(1, values).tolist()
    ([0, 1, 2], [True, True, True, False])
    """

    made_of: ClassVar[MadeOf] = MadeOf.RANKS
    wattr: str
    size: int = attrs.field(kw_only=True)
    slide: int = attrs.field(kw_only=True)
    partial: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks("tuples", RANGE=self.size, SLIDE=self.slide)

    @property
    def context(self) -> str:
        return "FCA"

    @property
    def least(self) -> int:
        """Return the smallest window-id that is emitted."""
        return 0 if self.partial else max(0, -(-self.size // self.slide) - 1)

    def windows(self, values: Int64s) -> Int64s:
        first, last = self.wids(np.sort(values))
        found = [np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return distinct(np.concatenate([np.empty(0, np.int64), *found]))

    def extent(self, wid: int, values: Int64s) -> Bools:
        rank = ranks(values)
        return ((wid + 1) * self.slide - self.size <= rank) & (rank < (wid + 1) * self.slide)

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        rank = ranks(values)
        return np.maximum(rank // self.slide, self.least), (rank + self.size) // self.slide

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        """Return the ranks [begin, end) that windows cover, shape (n,)."""
        end = (wids + 1) * self.slide
        return end - self.size, end


@attrs.frozen
class LastTuples:
    """The last `size` tuples before each multiple of `slide` ticks: window w ends at origin + (w + 1)slide.

    Where it begins, only the tuples tell (ties in wattr by arrival). The first window is the first one with a tuple,
    the last the first one that has all tuples of the stream (as for `LandmarkWindow`); in between, windows in which a
    group has nothing new are given too, unless `idle=False`. Source: multi-measure windows, TODS paper, section 4.4.

    >>> window = LastTuples("ts", size=2, slide=5)
    >>> values = np.array([1, 4, 3, 17])
    >>> window.windows(values).tolist(), window.extent(2, values).tolist()
    ([0, 1, 2, 3], [False, True, True, False])
    """

    made_of: ClassVar[MadeOf] = MadeOf.RANKS
    wattr: str
    size: int = attrs.field(kw_only=True)
    slide: int = attrs.field(kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)
    idle: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_ticks("tuples", RANGE=self.size)
        check_ticks(self.wattr, SLIDE=self.slide, origin=self.origin)

    @property
    def promise_pace(self) -> Pace:
        return Pace(self.slide, self.origin)

    @property
    def context(self) -> str:
        return "FCA"

    def windows(self, values: Int64s) -> Int64s:
        found = distinct((values - self.origin) // self.slide)
        return np.arange(found[0], found[-1] + 1) if self.idle and len(found) else found

    def extent(self, wid: int, values: Int64s) -> Bools:
        before = values < self.end(wid)
        return before & (ranks(values) >= int(before.sum()) - self.size)

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        first = (values - self.origin) // self.slide
        # A tuple is pushed out by the one that is `size` ranks behind it, in the windows that have that one.
        after = ranks(values) + self.size
        last = np.append(np.sort(first), np.full(1, FOREVER))[np.minimum(after, len(values))]
        return first, last

    def end(self, wid: int) -> int:
        """Return where a window ends."""
        return self.origin + (wid + 1) * self.slide

    def complete(self, bound: int) -> int:
        """Return w such that exactly the windows with wid < w are complete once no later value is below `bound`."""
        return (bound - self.origin) // self.slide


SlideWindow: TypeAlias = SlideByTuple | SlideByRows | SlideByRank
"""The FCA windows of the thesis: RANGE and SLIDE are on different attributes."""


def ranks(values: Int64s) -> Int64s:
    """Return each tuple's place in the order of its value, ties by arrival, from 0; shape (n,)."""
    found = np.empty(len(values), np.int64)
    found[np.argsort(values, kind="stable")] = np.arange(len(values))
    return found
