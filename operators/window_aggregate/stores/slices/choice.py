"""Decide anew at each page whether slices are combined ahead of the windows, from what was seen before.

What a store costs is counted in what there was to do: calls, promises, windows, the slices of each window, new slices,
and final slices that a late tuple makes combine again. A store is given up once it has cost more than the other would
have, by as much as the change costs and a margin. So a choice that is wrong costs little, and none goes to and fro.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final, Protocol

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.slicing import layout
from operators.kernels.ticks import LIMIT

MARGIN: Final = 100_000
"""What a store may cost more than the other, besides the change: 1 ms."""
_FEW_CALLS: Final = 16
"""Calls behind which the choice is looked at, where they do not do much."""
UNSURE: Final = 1.3
"""By how much the costs may be wrong: within it, no store is taken to cost more than the other."""
_MOST_DOUBLED: Final = 6
"""How often the margin is doubled, once for each change."""


@attrs.define
class Work:
    """Count what a store had to do."""

    calls: int = 0
    """Pages, and promises that came apart from them."""
    promises: int = 0
    releases: int = 0
    """Promises that completed a window, as far as there were so many windows."""
    windows: int = 0
    parts: int = 0
    """The slices of these windows, each counted for each."""
    slices: int = 0
    """Slices that came, or went, which is as many in the long run."""
    late: int = 0
    """Slices that were final, and that are combined anew where they were combined ahead, because a tuple came late."""
    _given: int = attrs.field(init=False, default=0, repr=False)
    """The windows that were given before the last promises."""

    def heard(self, promises: int) -> None:
        """Take notice of promises, after the windows that they completed were counted."""
        self.promises += promises
        given = self.windows
        if given > self._given:
            self.releases += min(promises, given - self._given)
            self._given = given

    @property
    def enough(self) -> bool:
        """Return whether there is enough of it to ask what it costs."""
        return self.calls >= _FEW_CALLS or self.promises >= 32 or self.windows + self.parts >= 1 << 12

    def add(self, other: Work) -> None:
        """Add what was done besides."""
        self.calls += other.calls
        self.promises += other.promises
        self.releases += other.releases
        self.windows += other.windows
        self.parts += other.parts
        self.slices += other.slices
        self.late += other.late


@attrs.frozen
class Price:
    """Say what each kind of work costs, in units of 10 ns."""

    call: float
    promise: float
    release: float
    window: float
    part: float
    slice: float
    late: float

    def besides(self, other: Price) -> Price:
        """Return the sum of two prices."""
        return Price(*(one + more for one, more in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def of(self, work: Work) -> float:
        """Return what work costs."""
        return (
            self.call * work.calls
            + self.promise * work.promises
            + self.release * work.releases
            + self.window * work.windows
            + self.part * work.parts
            + self.slice * work.slices
            + self.late * work.late
        )


LAZY: Final = Price(call=5_000, promise=0, release=700, window=12, part=1.3, slice=30, late=0)
TOTALS: Final = Price(call=0, promise=6_000, release=6_000, window=10, part=0, slice=30, late=13)
TREE: Final = Price(call=0, promise=7_200, release=15_000, window=12, part=0, slice=30, late=13)
"""Costs as they were measured: of slices that are combined on demand, and ahead as running totals or as a tree."""
SESSIONS: Final = Price(call=0, promise=5_000, release=10_000, window=0, part=0, slice=5, late=0)
"""What it costs besides to combine slices ahead of which sessions are made, too."""


class Counts(Protocol):
    """A store that counts what it does."""

    work: Work


@attrs.define
class StoreChoice:
    """Decide whether slices are combined ahead of the windows, from what this run has counted."""

    ahead: Price
    """What it costs to combine them ahead."""
    eager: bool
    """Whether that is done now."""
    changes: int = 0
    _lost: float = 0.0
    """What the store has cost more than the other one would have."""
    _seen: Work = attrs.field(factory=Work)
    _span: int = 0
    """By how many ticks promises rose in the last page."""
    begun: bool = False
    """Whether any promise was heard."""

    @classmethod
    def of(cls, *, eager: bool, totals: bool, sessions: bool) -> StoreChoice:
        """Return the choice for a store: whether it combines ahead, as running totals, and makes sessions, too."""
        ahead = TOTALS if totals else TREE
        return cls(ahead.besides(SESSIONS) if sessions else ahead, eager)

    def surprised(self, span: int) -> bool:
        """Return whether to look at a page before it is taken, by how many ticks its promises rise.

        The first one shows what there is; a sudden gap may cost more than all before it, where slices are combined on
        demand.
        """
        before, self._span = self._span, span
        return not self.begun or (not self.eager and span > 2 * before)

    def count(self, store: Counts, promises: int, held: Sized, *, within: bool) -> bool:
        """Count a call and its promises, no call `within` a page; return whether the other store would cost less."""
        work = store.work
        if promises:
            work.heard(promises)
        if within:
            return False
        work.calls += 1
        if not (work.promises and work.enough):
            return False
        store.work = Work()
        return self.wrong(work, len(held))

    def ahead_of(self, bands: Int64s, ticks: Int64s, bounds: tuple[int, int], promises: int, held: Sized) -> bool:
        """Choose for a page, from its ticks and its promises between two bounds; return whether to change the store."""
        bound, last = bounds
        since = max(int(ticks.min()) if len(ticks) else last, bound)
        if not -LIMIT < since < last:
            return False
        return self.foresee(expected(bands, since, last, len(ticks), promises), len(held))

    def foresee(self, work: Work, held: int) -> bool:
        """Choose for a page, from what its promises will ask for; return whether to change the store."""
        first, self.begun = not self.begun, True
        if self._too_much(work) < self._margin + self.ahead.late * held:
            return False
        self.eager, self.changes, self._lost = not self.eager, self.changes + (not first), 0.0
        return True

    def wrong(self, work: Work, held: int) -> bool:
        """Take what was done since the last time; return whether to change, which costs the slices that are held."""
        self.begun = True
        self._seen.add(work)
        self._lost = max(0.0, self._lost + self._too_much(work))
        if self._lost < self._margin + self.ahead.late * held:
            return False
        self.eager, self.changes, self._lost = not self.eager, self.changes + 1, 0.0
        return True

    @property
    def _margin(self) -> int:
        """Return the margin: for who changed often, counts tell less than it seems."""
        return MARGIN << min(self.changes, _MOST_DOUBLED)

    def _too_much(self, work: Work) -> float:
        """Return what work costs more than by the other store, beyond what may be an error of these costs."""
        lazy, eager = LAZY.of(work), self.ahead.of(work)
        return eager - UNSURE * lazy if self.eager else lazy - UNSURE * eager

    def told(self) -> str:
        """Say which store it is, and the numbers behind it; nothing before a window was given.

        >>> choice = StoreChoice(TOTALS, eager=False)
        >>> choice.wrong(Work(calls=1, promises=1, windows=1_000, parts=300_000, slices=400), 300)
        True
        >>> print(choice.told())  # doctest: +NORMALIZE_WHITESPACE
        slices are combined ahead of the windows, chosen anew 1 time: 1,000 windows a promise were seen, 300.0 slices a
        window, and 0.0 % of slices were combined again for late tuples; that costs 4.2 ms on demand and 0.3 ms ahead
        """
        seen = self._seen
        if not seen.windows:
            return ""
        where = "ahead of the windows" if self.eager else "on demand"
        again = 100 * seen.late / max(1, seen.slices + seen.late)
        return (
            f"slices are combined {where}, chosen anew {self.changes:,} time{'s' * (self.changes != 1)}:"
            f" {seen.windows / seen.promises:,.0f} windows a promise were seen, {seen.parts / seen.windows:,.1f} slices"
            f" a window, and {again:.1f} % of slices were combined again for late tuples; that costs"
            f" {LAZY.of(seen) / 1e5:,.1f} ms on demand and {self.ahead.of(seen) / 1e5:,.1f} ms ahead"
        )


def expected(bands: Int64s, since: int, bound: int, tuples: int, promises: int) -> Work:
    """Return what promises up to a bound will ask for, where so many tuples lie evenly between a tick and the bound.

    >>> expected(np.array([[100, 10, 0, 0, 0, 0]]), 0, 1_000, 100, 4)
    Work(calls=1, promises=4, releases=4, windows=100, parts=1000, slices=100, late=0)
    """
    span = max(1, bound - since)
    sizes, slides = bands[:, layout.RANGE], bands[:, layout.SLIDE]
    slices = min(tuples, 1 + int((np.where(sizes % slides, 2, 1) * span / slides).sum()))
    windows = np.minimum(span / slides, slices * np.maximum(1, sizes / slides))
    parts = windows * np.maximum(1, slices * np.minimum(1, sizes / span))
    return Work(1, promises, int(min(promises, windows.sum())), int(windows.sum()), int(parts.sum()), slices)
