"""Tuples wait where their order matters, until a promise makes it certain; then each is aggregated once, in its place.

So no late tuple ever cuts a slice or goes between others. Each keeps the number of its arrival, by which first and last
still go. For windows that look back tuples are kept longer, from the horizon of these on, and a slice that turns out to
be cut is made anew from them. Source: Scotty, sections 5.1 and 5.2, with the split moved behind the promise.
"""

from __future__ import annotations

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.streams.sort_buffer import Held


@attrs.define(eq=False)
class Waiting(memory.Stateful):
    """Hold tuples that wait for a promise, and those that a window may look back to."""

    wattr: str
    _ahead: Held = attrs.field(init=False, factory=Held, metadata=memory.part(name="ahead"))
    _behind: Held = attrs.field(init=False, factory=Held, metadata=memory.part(name="behind"))

    @property
    def tuples(self) -> int:
        """Return the number of tuples held."""
        return self._ahead.tuples + self._behind.tuples

    def add(self, page: Page, ticks: Int64s) -> None:
        """Let tuples wait."""
        self._ahead.add(page, ticks)

    def release(self, bound: int | None) -> Page | None:
        """Return the tuples before a bound, or all, in order of time and then of arrival."""
        return self._ahead.release(bound)

    def keep(self, page: Page, ticks: Int64s) -> None:
        """Keep tuples for windows that look back."""
        self._behind.add(page, ticks)

    def between(self, begin: int, end: int) -> Page | None:
        """Return the kept tuples of [begin, end), in order, and keep them."""
        everything = self._behind.release(None)
        if everything is None:
            return None
        ticks = everything.ticks(self.wattr)
        self._behind.add(everything, ticks)
        first, last = np.searchsorted(ticks, [begin, end]).tolist()
        return everything.slice(first, last) if first < last else None

    def forget(self, horizon: int) -> None:
        """Let go of the kept tuples before a horizon."""
        self._behind.release(horizon)
