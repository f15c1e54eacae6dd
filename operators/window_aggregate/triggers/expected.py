"""Estimates of what windows that fired early will have in the end, from the lateness of tuples seen so far.

The share of a window that has arrived follows from the lateness of all tuples: one with time t that is late by d comes
when the highest time seen is t + d. What such estimates were wrong by in windows that are over gives the interval. How
often it did not hold what it was to hold widens it (quantile tracking: Angelopoulos, Candes and Tibshirani, 2023).
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.kernels.streams import lateness as kernels
from operators.kernels.ticks import BEFORE_ALL
from operators.streams.lateness import edge
from operators.window_aggregate.store import Released
from punctuation import NO_TIME

Float64s: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
SCORES: Final = 1024
"""The errors of so many windows are remembered, the newest ones."""
MOST: Final = 65_536
"""So many estimates of open windows are remembered, the newest ones; the others are given, and not learnt from."""
RATE: Final = 0.1
"""A window that an interval did not hold widens the next ones by this share of their width, as in that paper."""
_EDGES: Final = np.concatenate(([0.0], [float(edge(cell)) for cell in range(kernels.CELLS)]))
_NONE: Final = np.empty(0, np.int64)


def _zeros() -> Int64s:
    return np.zeros(kernels.CELLS, np.int64)


@attrs.define(eq=False)
class Expected(memory.Stateful):
    """Estimate final values of windows, shape (n,) each, and learn from those that are over.

    It estimates from what was known at the last promise, so that pages make no difference. `interval` is the share of
    windows whose final value is to lie in the interval, `values` how many values a window has.

    >>> expected = Expected(0.5, values=1)
    >>> expected.observe(np.array([3, 5, 4, 9, 7, 12]))
    >>> expected.settle()
    >>> expected.arrived(np.array([12, 20, 4]), np.array([0, 0, 0]), np.array([10, 10, 10])).round(3).tolist()
    [0.875, 0.875, 0.4]
    """

    interval: float
    values: int
    highest: int = attrs.field(init=False, default=NO_TIME, metadata=memory.integer())
    """The highest time seen."""
    forgotten: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """Estimates of open windows that were too many to be remembered."""
    _seen: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    _cells: Int64s = attrs.field(init=False, repr=False, factory=_zeros, metadata=memory.array(least=0))
    """How many tuples are late, by the cells of `kernels.streams.lateness`."""
    _known: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    _known_cells: Int64s = attrs.field(init=False, repr=False, factory=_zeros, metadata=memory.array(least=0))
    """The same at the last promise."""
    _wids: Int64s = attrs.field(init=False, factory=lambda: _NONE, metadata=memory.array())
    _groups: Int64s = attrs.field(init=False, factory=lambda: _NONE, metadata=memory.array(least=0, length="_wids"))
    _estimates: Float64s = attrs.field(init=False, factory=lambda: np.empty(0), metadata=memory.array())
    """Of each remembered estimate a row: the values, how wrong they are by chance, and the bounds that were given."""
    _scores: Float64s = attrs.field(init=False, factory=lambda: np.empty(0), metadata=memory.array())
    """How wrong the estimates of a window that is over were at least and at most, in units of that, a row for each."""
    _shifts: Float64s = attrs.field(
        init=False, default=attrs.Factory(lambda self: self._unmoved(), takes_self=True), metadata=memory.array()
    )
    """How far bounds lie outside quantiles of these, so that they hold as many windows as they should: low, high."""
    _steps: Float64s = attrs.field(
        init=False, default=attrs.Factory(lambda self: self._unmoved(), takes_self=True), metadata=memory.array()
    )
    """By which share of the width they are to move at the next promise."""

    def _unmoved(self) -> Float64s:
        return np.zeros(2 * self.values)

    def observe(self, ticks: Int64s) -> None:
        """Take the times of tuples as they arrive, shape (n,)."""
        if len(ticks):
            kernels.observe(
                ticks, NO_TIME, 1, 0, np.int64(self.highest), 0, self._cells, _NONE, _NONE, _NONE, self._cells[:0]
            )
            self._seen += len(ticks)
            self.highest = max(self.highest, int(ticks.max()))

    def settle(self) -> None:
        """Estimate from now on by all that was seen."""
        self._known, self._known_cells = self._seen, self._cells.copy()
        quantiles = self._quantiles()
        if self._steps.any() and quantiles is not None:
            width = np.tile(quantiles[1] - quantiles[0], 2)
            moved = self._shifts + np.where(np.isfinite(width), self._steps * width, 0.0)
            # If the next window is like the last ones, the quantiles hold it: bounds lie nowhere within them.
            self._shifts = np.maximum(moved, 0.0)
        self._steps = self._unmoved()

    def arrived(self, highest: Int64s, starts: Int64s, stops: Int64s) -> Float64s:
        """Return which share of each window has arrived when the highest time seen is so high; nan if nothing is known.

        Times are taken to be spread evenly over a window. Of tuples that are later than all that were seen there is one
        more than were seen, as the rule of succession has it: so no share is one.
        """
        if not self._known:
            return np.full(len(highest), np.nan)
        later = np.concatenate((np.cumsum(self._known_cells[::-1])[::-1], [0]))
        lacking = (later + 1.0) / (self._known + 2.0)
        # The integral of the share that is later than a distance, at the edges of the cells.
        below = np.concatenate(([0.0], np.cumsum(lacking[:-1] * np.diff(_EDGES))))

        def integral(distances: Float64s) -> Float64s:
            return np.where(distances < 0, distances, np.interp(distances, _EDGES, below))

        high = highest.astype(np.float64)
        # A tick stands for all times up to the next one.
        missing = integral(high - starts + 1) - integral(high - stops + 1)
        return 1.0 - missing / (stops - starts).astype(np.float64)

    def bounds(self) -> tuple[Float64s, Float64s] | None:
        """Return how wrong estimates are at least and at most, shape (values,); None if too few windows are over.

        These are quantiles of the errors of past windows, moved outwards by how often such bounds failed.
        """
        quantiles = self._quantiles()
        if quantiles is None:
            return None
        return quantiles[0] - self._shifts[: self.values], quantiles[1] + self._shifts[self.values :]

    def _quantiles(self) -> tuple[Float64s, Float64s] | None:
        """Return between which errors past windows lay, shape (values,); None if too few are over.

        A window counts once, by its lowest and its highest error: those of its firings depend on one another.
        The quantiles are those of a sample of k that one more value lies between with the wanted chance, whatever the
        distribution: of rank (k + 1) * share. Where there is no such rank, k is too small.
        """
        scores = np.sort(self._scores.reshape(-1, 2 * self.values), axis=0)
        k, tail = len(scores), self._tail
        low, high = floor((k + 1) * tail + 1e-9), ceil((k + 1) * (1 - tail) - 1e-9)
        return None if low < 1 or high > k else (scores[low - 1, : self.values], scores[high - 1, self.values :])

    @property
    def _tail(self) -> float:
        return (1 - self.interval) / 2

    def remember(self, places: Released, estimates: Float64s, spread: Float64s) -> None:
        """Remember estimates of open windows, shape (n, values), to learn from them."""
        given = np.full(2 * self.values, np.nan) if (bounds := self.bounds()) is None else np.concatenate(bounds)
        rows = np.concatenate((estimates, spread, np.tile(given, (len(estimates), 1))), axis=1).reshape(-1)
        self._wids = np.append(self._wids, places.wids)[-MOST:]
        self._groups = np.append(self._groups, places.groups.astype(np.int64))[-MOST:]
        rows = np.append(self._estimates, rows)
        self.forgotten += len(rows) // self._row - len(self._wids)
        self._estimates = rows[-len(self._wids) * self._row :]

    @property
    def _row(self) -> int:
        """Return the count of numbers that are remembered of an estimate."""
        return 4 * self.values

    def learn(self, places: Released, final: Float64s) -> None:
        """Learn from the final values of windows, shape (n, values), how wrong their estimates were."""
        if not len(self._wids):
            return
        order = np.lexsort((places.groups, places.wids))
        at = _found(places.wids[order], places.groups[order].astype(np.int64), self._wids, self._groups)
        over = at >= 0
        if not over.any():
            return
        rows = self._estimates.reshape(-1, self._row)
        true = final[order[at[over]]]
        estimates, spread, *given = np.split(rows[over], 4, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = (true - estimates) / spread
        scores = np.where(true == estimates, 0.0, scores)
        known = ~np.isnan(scores).any(axis=1)
        order = np.argsort(at[over][known], kind="stable")
        scores, windows = scores[known][order], at[over][known][order]
        firsts = np.flatnonzero(np.diff(windows, prepend=-1))
        if len(firsts):
            extremes = [extreme.reduceat(scores, firsts, axis=0) for extreme in (np.minimum, np.maximum)]
            rows_of = np.concatenate(extremes, axis=1).reshape(-1)
            self._scores = np.append(self._scores, rows_of)[-SCORES * 2 * self.values :]
            low, high = (bound[known][order] for bound in given)
            # An error that is a bound but for rounding is inside.
            near = 1e-9 * np.maximum(np.abs(low), np.abs(high))
            outside = np.concatenate((scores < low - near, scores > high + near), axis=1)
            judged = ~np.isnan(np.concatenate((low, high), axis=1))
            self._judge(self._wids[over][known][order][firsts], firsts, outside, judged)
        self._wids, self._groups = self._wids[~over], self._groups[~over]
        self._estimates = rows[~over].reshape(-1)

    def _judge(self, wids: Int64s, firsts: Int64s, outside: Bools, judged: Bools) -> None:
        """Note which windows intervals did not hold at all firings, of shape (n, 2 * values), each from `firsts` on.

        Windows of many groups that end together count as one, by the share of them.
        """
        outside, judged = (np.logical_or.reduceat(which, firsts, axis=0) for which in (outside, judged))
        _, number = np.unique(wids, return_inverse=True)
        for at in range(2 * self.values):
            many = np.bincount(number, judged[:, at])
            share = np.bincount(number, outside[:, at])[many > 0] / many[many > 0]
            self._steps[at] += RATE * float((share - self._tail).sum())

    def _after_restoring(self) -> None:
        if (
            len(self._estimates) != len(self._wids) * self._row
            or len(self._scores) % (2 * self.values)
            or {len(self._shifts), len(self._steps)} != {2 * self.values}
            or {len(self._cells), len(self._known_cells)} != {kernels.CELLS}
        ):
            raise ValueError("the saved state holds estimates of other windows than it says")


def checked(interval: float) -> float:
    """Return the share of an interval; SchemaError unless it is between 0 and 1."""
    if not 0 < interval < 1:
        raise SchemaError(f"interval={interval}: write a share between 0 and 1, such as 0.95.")
    return float(interval)


def least(interval: float) -> int:
    """Return of how many windows at least the errors must be known before there is an interval.

    >>> least(0.95), least(0.5)
    (39, 3)
    """
    return ceil(2 / (1 - interval) - 1 - 1e-9)


def _found(wids: Int64s, groups: Int64s, sought: Int64s, of: Int64s) -> Int64s:
    """Return where each sought window of a group is among sorted ones, -1 where it is not.

    >>> _found(np.array([1, 1, 4]), np.array([0, 2, 0]), np.array([4, 1, 1]), np.array([0, 2, 1])).tolist()
    [2, 1, -1]
    """
    if not len(wids):
        return np.full(len(sought), -1)
    distinct, number = np.unique(wids, return_inverse=True)
    at = np.minimum(np.searchsorted(distinct, sought), len(distinct) - 1)
    width = max(int(groups.max(initial=0)), int(of.max(initial=0))) + 1
    keys, key = number * width + groups, np.where(distinct[at] == sought, at * width + of, BEFORE_ALL)
    places = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[places] == key, places, -1)
