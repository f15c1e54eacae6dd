"""Count the records that are in no result yet; a collector that stops loses them.

They are counted by their times, in the steps in which promises are made. Records before the bound of the released
results are in results; the rest waits in windows that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.live.exporters import SECOND
from operators.data.page import Int64s
from operators.data.saved import read_int
from operators.protocol import State, StateValue
from punctuation import NO_TIME

_MOST: Final = 1 << 16
"""Steps that are told apart; what is older than that counts with the oldest."""
_AHEAD: Final = 10 * SECOND
_NONE: Final = np.zeros(0, np.int64)


@attrs.define(eq=False)
class Waiting:
    """Counts of records by the step of their time. Cost: O(records) to take, without a step for each in Python."""

    grain: Grain
    _first: int = attrs.field(init=False, default=0)
    _counts: Int64s = attrs.field(init=False, default=_NONE)

    @property
    def _step(self) -> int:
        step = self.grain.step or SECOND
        return step * -(-SECOND // step)

    def take(self, times: Int64s, bound: int, each: Int64s | None = None) -> None:
        """Count records of these times, one each or as many as are said; those before the bound are given or late."""
        valid = times >= max(bound, NO_TIME + 1)
        if not valid.all():
            times, each = times[valid], None if each is None else each[valid]
        if not len(times):
            return
        steps = (times - self.grain.origin) // self._step
        self._drop(bound)
        first, last = int(steps.min()), int(steps.max())
        if len(self._counts):
            first, last = min(first, self._first), max(last, self._first + len(self._counts) - 1)
        else:
            self._first = first
        least = max(first, last - _MOST + 1)
        grown = np.zeros(last - least + 1, np.int64)
        for place, count in ((self._first, self._counts), (least, self._counted(steps, each, least))):
            cut = min(max(0, least - place), len(count))
            grown[: 1 if cut else 0] += count[:cut].sum()
            grown[place + cut - least : place + len(count) - least] += count[cut:]
        self._first, self._counts = least, grown

    @staticmethod
    def _counted(steps: Int64s, each: Int64s | None, least: int) -> Int64s:
        return np.bincount(np.maximum(steps, least) - least, each).astype(np.int64)

    def _place(self, bound: int) -> int:
        """Return how many of the steps are before a bound."""
        if bound <= NO_TIME:
            return 0
        return min(max(0, (bound - self.grain.origin) // self._step - self._first), len(self._counts))

    def _drop(self, bound: int) -> None:
        if place := self._place(bound):
            self._first, self._counts = self._first + place, self._counts[place:]

    def many(self, bound: int) -> int:
        """Return how many records are not before a bound, to the step."""
        return int(self._counts[self._place(bound) :].sum())


@attrs.define(eq=False)
class Unreleased:
    """The records of a reading that are in no result yet.

    `promised` tells the bound that was promised of an attribute. Results before it are taken to be given, unless who
    reads says how far they are: it calls `follow` before and `give` as they are, from any thread.
    """

    promised: Callable[[str], int]
    lost: int = attrs.field(init=False, default=0)
    """Records of which that is known of earlier readings."""
    highest: int = attrs.field(init=False, default=NO_TIME)
    """The latest time of a record."""
    before: int = attrs.field(init=False, default=NO_TIME)
    """The latest time of a record of earlier readings."""
    ended: bool = attrs.field(init=False, default=False)
    """Whether all was given as the stream came to its end."""
    following: bool = attrs.field(init=False, default=False)
    _given: dict[str, int] = attrs.field(init=False, factory=dict)
    changes: int = attrs.field(init=False, default=0)
    """Moves as more is given, and as records come that are dated beyond what is saved of that."""
    _told: int = attrs.field(init=False, default=NO_TIME)
    _whole: bool = attrs.field(init=False, default=False)
    _waiting: dict[str, Waiting] = attrs.field(init=False, factory=dict)

    def describe(self, grains: Mapping[str, Grain]) -> None:
        """Count by times that are promised so finely."""
        for name, grain in grains.items():
            if name not in self._waiting:
                # Another thread may be going through those of before.
                self._waiting = {**self._waiting, name: Waiting(grain)}

    def count_nothing(self) -> None:
        """Count no records: open windows are kept with the state of a run."""
        self._waiting.clear()

    def take(self, times: Mapping[str, Int64s], each: Mapping[str, Int64s], latest: int) -> None:
        """Count records of these times, NO_TIME where there is none; as many of each as is said, else one.

        `latest` is when the last of them came.
        """
        for name, values in times.items():
            if len(values) and name in self._waiting:
                self._waiting[name].take(values, self.given(name), each.get(name))
            if len(values) and name not in each:
                self.highest = max(self.highest, int(values.max()))
        if self.highest > max(self._told, latest + SECOND):
            # Said beforehand, so that what follows is not saved each time.
            self._told = self.highest + _AHEAD
            self.changes += 1

    def follow(self) -> None:
        """Take nothing to be given that is not said to be, but for what was promised before."""
        self.following = True
        self._given = {name: self.promised(name) for name in self._waiting}

    def give(self, bound: int) -> None:
        """Say that all results before a bound are where they will last."""
        raised = {name: max(given, bound) for name, given in self._given.items()}
        if raised != self._given:
            self._given = raised
            self.changes += 1

    def give_all(self, *, ended: bool) -> None:
        """Say that all results that were promised are where they will last; with `ended`, those of the end, too."""
        self._whole, self.ended = True, ended

    def given(self, name: str) -> int:
        """Return the bound of an attribute up to which results were given."""
        promised = self.promised(name)
        if not self.following or self._whole:
            return promised
        return min(promised, self._given.get(name, promised))

    @property
    def many(self) -> int:
        """Return how many records no result has."""
        if self.ended:
            return 0
        return max((waiting.many(self.given(name)) for name, waiting in self._waiting.items()), default=0)

    def state(self) -> State:
        """Return what the next reading needs to know."""
        return {"lost": self.lost + self.many, "highest": max(self.highest, self.before, self._told)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take up what an earlier reading saved; one of an earlier version has not counted."""
        if state:
            self.lost, self.before = read_int(state, "lost"), read_int(state, "highest")
