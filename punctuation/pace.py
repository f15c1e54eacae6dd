"""A true bound rises with every tuple; Pace says when it is worth saying, and rounded to what.

Positions are counted over the whole stream, so what is said does not depend on how the stream is cut into pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from punctuation.plain import Plain
from punctuation.schedule import NO_TIME, floor_to

Int64s: TypeAlias = npt.NDArray[np.int64]
Promises: TypeAlias = tuple[Int64s, Int64s]
"""Positions within a page, ascending, and bounds, ascending strictly; both int64 of shape (k,)."""

NOTHING: Promises = (np.empty(0, np.int64), np.empty(0, np.int64))


def positive(_: object, attribute: attrs.Attribute[int], value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name} = {value}: it is at least 1")


def not_negative(_: object, attribute: attrs.Attribute[int], value: int | None) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{attribute.name} = {value}: it is not negative")


@attrs.define
class Pace:
    """Thin out a rising bound: when it may be said, and rounded to what."""

    every: int | None
    step: int | None
    origin: int
    count: int = attrs.field(default=0, init=False)
    promised: int = attrs.field(default=NO_TIME, init=False)
    waiting: int = attrs.field(default=NO_TIME, init=False)
    """The bound that is true but was not said yet, as `every` k tuples were not complete."""

    def quiet(self, length: int, highest: int) -> bool:
        """Skip a page in which nothing is to be said: its highest bound does not reach the next step."""
        rises = highest != NO_TIME and (self.step is None or self._floor(highest) > self.promised)
        if rises or self.every is not None:
            return False
        self.count += length
        return True

    def thin(self, bounds: Int64s) -> Promises:
        """Return what is said of bounds that were true after each tuple, shape (n,), ascending."""
        start = self.count
        self.count += len(bounds)
        if self.every is None:
            said = np.arange(len(bounds))
        else:
            said = np.arange((-start - 1) % self.every, len(bounds), self.every)
        return self._rising(said, bounds[said])

    def thin_sparse(self, positions: Int64s, bounds: Int64s, length: int) -> Promises:
        """Return what is said of bounds that become true at a few positions of a page of `length` tuples."""
        start = self.count
        self.count += length
        if self.every is None:
            return self._rising(positions, bounds)
        # Each waits for the end of its k tuples; the last of the page may wait for another page.
        due = (start + positions) // self.every * self.every + self.every - 1 - start
        if self.waiting != NO_TIME:
            due = np.append((start // self.every + 1) * self.every - 1 - start, due)
            bounds = np.append(self.waiting, bounds)
        now = due < length
        self.waiting = int(bounds[-1]) if len(now) and not now[-1] else NO_TIME
        due, bounds = due[now], bounds[now]
        last = np.append(due[1:] != due[:-1], True)[: len(due)]
        return self._rising(due[last], np.maximum.accumulate(bounds)[last])

    def assume(self, bound: int) -> int | None:
        """Return a bound that a clock concluded, rounded, if it rises."""
        bound = self._floor(bound)
        if bound <= self.promised:
            return None
        self.promised = bound
        return bound

    def _floor(self, bound: int) -> int:
        if self.step is None:
            return bound
        return max(bound - (bound - self.origin) % self.step, NO_TIME)

    def _rising(self, positions: Int64s, bounds: Int64s) -> Promises:
        if self.step is not None:
            bounds = floor_to(bounds, self.step, self.origin)
        before = np.empty(len(bounds), np.int64)
        if len(bounds):
            before[0] = self.promised
            before[1:] = np.maximum(bounds[:-1], self.promised)
        rises = np.flatnonzero(bounds > before)
        if len(rises):
            self.promised = int(bounds[rises[-1]])
        return positions[rises].astype(np.int64, copy=False), bounds[rises]

    def state(self) -> list[Plain]:
        return [self.count, self.promised, self.waiting]

    def restore(self, state: Sequence[Plain]) -> None:
        self.count, self.promised, self.waiting = integers(state)


def listed(state: Plain, length: int) -> list[Plain]:
    if not isinstance(state, list) or len(state) != length:
        raise ValueError(f"saved memory of this punctuator is a list of {length} values, not {state!r}")
    return state


def integers(state: Sequence[Plain]) -> tuple[int, ...]:
    """Return saved integers; ValueError for anything else, and for what 64 bits do not hold."""
    found = [value for value in state if isinstance(value, int) and -(1 << 63) <= value < 1 << 63]
    if len(found) != len(state):
        raise ValueError(f"saved memory of this punctuator is integers of 64 bits, not {state!r:.80}")
    return tuple(found)
