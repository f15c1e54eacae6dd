"""Open slices are told apart by number: each is one range of window-ids, and an equal range is the same slice.

A slice is the set of tuples that have one range of window-ids, so it belongs to a window as a whole or not at all. The
numbers of closed slices are given out again, the last one first, so that what is kept by number stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.functions.columns import grown, power
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows import slots as kernels

_MOST: Final = 1 << 24
"""Slices that may be open at a time, in a state that is restored; they would take some four gigabytes."""


@attrs.define(eq=False)
class Ranges(memory.Stateful):
    """Hold the range of each open slice, some 250 bytes each, and find its number by it.

    The arrays `starts` and `ends` are indexed by number; what else is kept by number follows their length.
    """

    _order: Int32s = attrs.field(
        init=False, metadata=memory.array(name="slice_number", below=_MOST, apart=True, of=lambda own: own.order)
    )
    starts: Int64s = attrs.field(
        init=False,
        metadata=memory.array(name="slice_first", length="_order", of=lambda own: own.starts[own.order]),
    )
    """The first window of each slice."""
    ends: Int64s = attrs.field(
        init=False, metadata=memory.array(name="slice_last", length="_order", of=lambda own: own.ends[own.order])
    )
    """The window after the last one of each slice."""
    _table: Int32s = attrs.field(init=False)
    _numbers: dict[tuple[int, int], int] = attrs.field(init=False)
    _spare: list[int] = attrs.field(init=False)
    _fresh: list[int] = attrs.field(init=False)
    _alike: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    """One number many times, as pages of which all tuples are in one slice ask for it."""

    def __attrs_post_init__(self) -> None:
        self._clear(16)

    def _clear(self, size: int) -> None:
        self.starts, self.ends = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._table = np.full(32, -1, np.int32)
        self._numbers, self._spare, self._fresh = {}, [], []
        self._order = np.empty(0, np.int32)

    def __len__(self) -> int:
        """Return the number of open slices."""
        return len(self._numbers)

    def locate(self, first: Int64s, last: Int64s, *, alike: bool = False) -> tuple[Int32s, list[int]]:
        """Return the slice of each range [first, last), and the slices that were opened for it, in that order.

        All ranges are one where they are `alike`.
        """
        if alike:
            return self._one(int(first[0]), int(last[0]), len(first))
        ids = np.empty(len(first), np.int32)
        opened: list[int] = []
        done = 0
        while True:
            done = kernels.slice_ids(first, last, self.starts, self.ends, self._table, ids, done)
            if done == len(first):
                return ids, opened
            opened.append(self._open(int(first[done]), int(last[done])))

    def _one(self, first: int, last: int, times: int) -> tuple[Int32s, list[int]]:
        """Return the slice of a range so many times, and the slice again if it was opened for it."""
        number, opened = self._numbers.get((first, last)), list[int]()
        if number is None:
            number = self._open(first, last)
            opened.append(number)
        if len(self._alike) < times or self._alike[0] != number:
            self._alike = np.full(times, number, np.int32)
        return self._alike[:times], opened

    def number(self, first: int, last: int) -> int | None:
        """Return the slice of a range [first, last); None where none is open."""
        return self._numbers.get((first, last))

    def _open(self, first: int, last: int) -> int:
        number = self._spare.pop() if self._spare else len(self._numbers)
        if number >= len(self.starts):
            size = 2 * len(self.starts)
            self.starts, self.ends = grown(self.starts, size), grown(self.ends, size)
        self._numbers[first, last] = number
        self.starts[number], self.ends[number] = first, last
        self._fresh.append(number)
        if 2 * len(self._numbers) > len(self._table):
            self._enter()
        else:
            kernels.enter_slices(np.array([number], np.int32), self.starts, self.ends, self._table)
        return number

    def close(self, numbers: Sequence[int]) -> None:
        """Forget these slices."""
        order = self.order
        for number in numbers:
            del self._numbers[int(self.starts[number]), int(self.ends[number])]
            self._spare.append(number)
        gone = np.zeros(len(self.starts), np.bool_)
        gone[numbers] = True
        self._order = order[~gone[order]]
        if not self._numbers:
            self._spare.clear()
        self._enter()

    def _enter(self) -> None:
        """Build the table anew, after some slices were closed or when it is full."""
        self._table = np.full(4 * power(len(self._numbers)), -1, np.int32)
        kernels.enter_slices(self.order, self.starts, self.ends, self._table)

    @property
    def order(self) -> Int32s:
        """Return the slices by start, then end; those opened since the last call are merged into their places."""
        if self._fresh:
            order = np.concatenate((self._order, np.array(self._fresh, np.int32)))
            self._fresh.clear()
            self._order = order[np.lexsort((self.ends[order], self.starts[order]))]
        return self._order

    def endless(self, bound: int) -> list[int]:
        """Return the endless slices that began before `bound`, by start."""
        return [n for (first, last), n in sorted(self._numbers.items()) if last == FOREVER and first < bound]

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that a slice is in; endless slices count up to `latest`."""
        ends = self.ends[self.order]
        return int(np.where(ends == FOREVER, latest + 1, ends).max(initial=BEFORE_ALL))

    def in_window(self, wid: int) -> Int32s:
        """Return the slices of a window."""
        order = self.order
        return order[(self.starts[order] <= wid) & (self.ends[order] > wid)]

    def next_window(self, wid: int) -> int:
        """Return the first window from `wid` on that a slice is in; FOREVER when there is none."""
        order = self.order
        starts = self.starts[order[self.ends[order] > wid]]
        return max(wid, int(starts.min())) if len(starts) else FOREVER

    def _after_restoring(self) -> None:
        numbered, first, last = self._order, self.starts, self.ends
        if (first >= last).any():
            raise ValueError("the saved state has a slice that ends before it begins")
        numbers: list[int] = numbered.tolist()
        highest = max(numbers, default=-1) + 1
        self._clear(power(highest))
        self._numbers.update(zip(zip(first.tolist(), last.tolist(), strict=True), numbers, strict=True))
        if len(self._numbers) < len(numbers):
            raise ValueError("the saved state has two slices of the same windows")
        self._spare.extend(sorted(set(range(highest)).difference(numbers)))
        self.starts[numbered], self.ends[numbered] = first, last
        self._fresh.extend(numbers)
        self._enter()
