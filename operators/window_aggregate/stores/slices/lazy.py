"""The lazy store keeps slices alone; a window is combined from its slices when it is released.

Cost: nothing a tuple beyond its slice, a release one combination for each slice and group of its windows. Edges that no
open window needs vanish behind the promise, so old slices are few. Source: Scotty, sections 5.2 and 10.2.4.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.kernels.slicing import layout
from operators.kernels.slicing import release as kernels
from operators.window_aggregate.stores.slices.choice import Work
from operators.window_aggregate.stores.slices.slices import NO_GRID, Held, Slices

BUDGET = 1 << 18
"""Slices that are combined at a time."""


@attrs.define(eq=False)
class OnDemand(memory.Stateful):
    """Keep nothing but the slices; what takes notice of them for later has nothing to do."""

    slices: Slices
    joins = True
    """Slices between which no open window begins may be joined."""
    slots = 1
    """Slots that each slice takes."""
    grid = NO_GRID

    def advance(self, bound: int) -> None:
        """Take notice that no tuple before a bound will come."""

    def settled(self, gone: int) -> None:
        """Take notice that so many slices were dropped."""

    def disturb(self) -> None:
        """Take notice that a late tuple may have changed final slices."""

    def clear(self) -> None:
        """Forget what was combined ahead: nothing."""

    def keys(self) -> Int64s:
        """Return a tick of every slice that stands for it in windows, ascending; the begin of its cell."""
        live, n = occupied(self.slices)
        return live[layout.START, :n]


@attrs.define(eq=False)
class Lazy(OnDemand):
    """Answer windows from slices at the moment they are asked."""

    work: Work = attrs.field(init=False, factory=Work)
    """What it had to do since it was asked last, where that decides what it costs."""

    def answers(self, opens: Int64s, closes: Int64s, firsts: Int64s) -> Iterator[Held]:
        """Yield the results of windows [opens[i], closes[i]), no more slices at a time than the budget.

        `firsts` are the places of the first of `keys` in each, of length 0 where they are not known.
        """
        slices = self.slices
        live, n = occupied(slices)
        seen = np.empty(len(slices.chains), np.int32)
        room, done = min(BUDGET, max(1, len(slices) * len(opens))), 0
        while done < len(opens):
            windows, groups = np.empty(room, np.int64), np.empty(room, np.int32)
            into, source = np.empty(room, np.int32), np.empty(room, np.int32)
            done, results, pairs = kernels.cover(
                (opens, closes, firsts), done, live, n, slices.memory, seen, windows, groups, into, source
            )
            if results < 0:
                room = -results
                continue
            yield from combined(slices, windows[:results], groups[:results], into[:pairs], source[:pairs])


def occupied(slices: Slices) -> tuple[Int64s, int]:
    """Return the cells with a slice in order of time, in rows as `order` has columns, and how many there are."""
    live = np.empty((2, slices.cell_count), np.int64)
    return live, int(kernels.occupied(slices.memory, live))


def combined(slices: Slices, windows: Int64s, groups: Int32s, into: Int32s, source: Int32s) -> Iterator[Held]:
    """Yield results that are combined from slices; where each has one slice, that is the result."""
    if len(windows) == 0:
        return
    if len(into) == len(windows):
        yield Held(windows, groups, source)
        return
    slots = slices.results(len(windows), slices.accumulators)
    targets = into + slots[0]
    for accumulator in slices.accumulators:
        accumulator.combine(targets, source)
    yield Held(windows, groups, slots)
    for accumulator in slices.accumulators:
        accumulator.free(slots)
