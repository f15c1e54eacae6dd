"""A policy says which pages of a join lie plain and which are indexed, by the volumes and times seen of both inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from operators.data import memory
from operators.data.page import Int64s
from operators.join.plain import Plain
from operators.join.tuples import Tuples
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import State, StateValue

_PAGES = 64
_JUMP = 4
_LOOK = 150
"""What a look costs whatever the page holds, in looks at single tuples times the patience."""


@attrs.define(eq=False)
class Volume(memory.Stateful):
    """Measure what came lately of one input: pages, tuples, the ticks that pages range over, those they got further."""

    top: int = attrs.field(default=BEFORE_ALL, init=False, metadata=memory.integer())
    """The greatest tick so far."""
    _seen: list[float] = attrs.field(factory=lambda: [0.0] * 5, init=False, metadata=memory.numbers())

    def saw(self, ticks: Int64s) -> None:
        """Take note of a page that is not empty."""
        first, last = int(ticks.min()), int(ticks.max())
        pages, tuples, ranged, got, _ = self._seen
        # From where the page before got to: a page of one tuple ranges over nothing, and gets on all the same.
        further = last - (min(self.top, last) if pages else first)
        keep = 1.0 if pages < _PAGES else 0.5
        if pages == 1:
            # How far the first page got was a guess: as far as it ranges.
            tuples = got = 0.0
        elif pages:
            # A jump is no pace.
            further = min(further, int(_JUMP * self.step(0)))
        ranges = float(last - first)
        self._seen = [
            pages * keep + 1,
            tuples * keep + len(ticks),
            ranged * keep + ranges,
            got * keep + further,
            ranges,
        ]
        self.top = max(self.top, last)

    @property
    def silent(self) -> bool:
        """Return whether nothing came yet."""
        return self._seen[0] == 0

    @property
    def range(self) -> float:
        """Return how many ticks a page ranges over: those of the last one, or on average, whatever is more."""
        return max(self._seen[4], self._seen[2] / self._seen[0])

    def step(self, guess: int) -> float:
        """Return how many ticks further a page gets, at least 1; a guess counts the less the more tuples came."""
        return max(1.0, self._got(guess) / self._seen[0])

    def a_tick(self, guess: int) -> float:
        """Return how many tuples there are a tick, by the same guess."""
        return self._seen[1] / max(1.0, self._got(guess))

    def _got(self, guess: int) -> float:
        return self._seen[3] + guess / max(1.0, self._seen[1])


@attrs.define(eq=False)
class Policy(memory.Stateful):
    """Decide whether a page is worth an index, when it comes and again when it is looked at.

    An index pays where pages of the other input will look at the page often. How many do so follows from times: those
    whose ticks are within the page's band, at the pace at which that input lately got on. Besides, each page that looks
    at plain ones is indexed itself for the look, which plain ones have in common. A page that the other input has not
    come near to lies plain: what is not looked at costs nothing.
    """

    VERSION: ClassVar[int] = 2

    patience: int = attrs.field(metadata=memory.integer())
    """How many looks at a plain tuple cost as much as to index it; 0: index at once."""
    _left: Volume = attrs.field(factory=Volume, init=False, metadata=memory.part())
    _right: Volume = attrs.field(factory=Volume, init=False, metadata=memory.part())

    def saw(self, port: int, ticks: Int64s) -> None:
        """Take note of a page that is not empty."""
        if self.patience:
            (self._right if port else self._left).saw(ticks)

    def plain(self, tuples: Tuples, port: int) -> bool:
        """Return whether the tuples of a page that came on a port should lie plain until they are looked at."""
        return self.patience > 0 and self._lies(int(tuples.low.min()), int(tuples.high.max()), len(tuples), port, 0)

    def worn(self, page: Plain, port: int) -> bool:
        """Return whether a plain page of a port, which is looked at now, should be indexed before."""
        # A page that was looked at so often will be so again.
        return not self._lies(page.low, page.high, len(page), port, 1 + page.looks)

    def _lies(self, low: int, high: int, rows: int, port: int, least: int) -> bool:
        own, other = (self._right, self._left) if port else (self._left, self._right)
        if other.silent:
            return True
        # The pace of few tuples may be by chance.
        guess = high - low
        step = other.step(guess)
        if not least and low > other.top + step:
            return True
        looks = max(least, (high + other.range - max(other.top, low)) / step)
        return looks * (1 + _LOOK / rows) / self.patience + other.a_tick(guess) / own.a_tick(guess) < 1.0

    def _upgraded(self, state: Mapping[str, StateValue]) -> State:
        # Pages and tuples alone were counted, by which no times are known.
        return {**state, **Policy(0).state(), "patience": state["patience"]}
