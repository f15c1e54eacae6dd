"""Each shorter `idle` is followed: what it would have promised so far, and how many records that would have made late.

An exporter that is silent for longer holds nobody back, so a shorter one promises sooner. What would have been promised
is followed with each promise that is made, for all numbers of seconds of two digits with zeros behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile

import attrs
import numpy as np

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.holder import Sooner
from oop_engine.sources.live.exporters import SECOND
from operators.data import memory
from operators.data.page import Bools, Int64s
from operators.data.saved import read_int, read_text
from operators.protocol import StateValue
from operators.streams.lateness import edge, share
from punctuation import NO_TIME


def _lengths(idle: int) -> Int64s:
    """Return the lengths of time below one, in ns, that are a number of seconds of two digits with zeros behind."""
    shorter = takewhile(lambda length: length < idle, (edge(cell) * SECOND for cell in count()))
    return np.array(list(shorter), np.int64)


@attrs.define(eq=False)
class ShorterIdle(memory.Stateful):
    """Follow what a stream of exporters would promise with a shorter `idle` than it has, in ns.

    Cost: O(exporters + lengths) a promise; O(lengths) a record that one of them would make late, of which all are
    counted up to 65,536 records, and then one in 64.
    """

    idle: int = attrs.field(metadata=memory.integer(least=0))
    attributes: tuple[str, ...] = attrs.field(converter=tuple)
    names: str = attrs.field(init=False, metadata=memory.text())
    """The attributes as one text."""
    counted: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """The records that were looked at."""
    read: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """All records."""
    complete: bool = attrs.field(init=False, default=True, metadata=memory.flag())
    """Whether `idle` decided nothing but who is waited for."""
    lengths: Int64s = attrs.field(init=False)
    _late: Int64s = attrs.field(init=False, metadata=memory.array(least=0, length="lengths"))
    """How many records were late with each length."""
    _reached: Int64s = attrs.field(init=False, metadata=memory.array(length="attributes"))
    """What each would have promised, shape (attributes, lengths)."""

    def __attrs_post_init__(self) -> None:
        self.lengths, self.names = _lengths(self.idle), " ".join(self.attributes)
        self._late = np.zeros(len(self.lengths), np.int64)
        self._reached = np.full((len(self.attributes), len(self.lengths)), NO_TIME, np.int64)

    @classmethod
    def fits(cls, state: Mapping[str, StateValue], idle: int, attributes: Sequence[str]) -> bool:
        """Return whether a state is of the same `idle` and attributes: what was counted says nothing of another."""
        return read_int(state, "idle") == idle and read_text(state, "names") == " ".join(attributes)

    def promised(self, attribute: str, bound: int) -> None:
        """Take what was promised when nobody followed it: all would have promised that."""
        row = self._reached[self.attributes.index(attribute)]
        np.maximum(row, bound, out=row)

    def follow(
        self, attribute: str, silent: Sequence[int], reached: Sequence[int], least: int | None, grain: Grain
    ) -> None:
        """Take for how long each exporter was silent that has a say now, and how far it is, both of shape (n,).

        `least` is how far all are where all were silent for too long; None where nothing is promised then.
        """
        bounds = self._bounds(silent, reached, least)
        place = self.attributes.index(attribute)
        known = bounds != NO_TIME
        if grain.step is not None:
            bounds = bounds - (bounds - grain.origin) % grain.step
        self._reached[place] = np.where(known, np.maximum(self._reached[place], bounds), self._reached[place])

    def _bounds(self, silent: Sequence[int], reached: Sequence[int], least: int | None) -> Int64s:
        order = np.argsort(np.array(silent, np.int64), kind="stable")
        lows = np.minimum.accumulate(np.array(reached, np.int64)[order])
        waited = np.searchsorted(np.array(silent, np.int64)[order], self.lengths, side="right")
        lows = np.append(NO_TIME if least is None else least, lows)
        return lows[waited]

    def hear(self, times: Mapping[str, Int64s]) -> None:
        """Count which records that came, by their times of shape (rows,), NEVER for null, would have been late."""
        if not len(self.lengths):
            return
        rows = len(times[self.attributes[0]])
        looked = share(rows, self.counted)
        self.read += rows
        self.counted += looked
        late: Bools | None = None
        for place, attribute in enumerate(self.attributes):
            found, bounds = times[attribute][:looked], self._reached[place]
            if looked and int(found.min()) < int(bounds.max()):
                behind = found[:, None] < bounds
                late = behind if late is None else late | behind
        if late is not None:
            self._late += np.count_nonzero(late, axis=0)

    def sooner(
        self, attribute: str, need: int, silent: Sequence[int], reached: Sequence[int], least: int | None, grain: Grain
    ) -> Sooner | None:
        """Return the longest with which a bound would be promised now, None where there is none; see `follow`."""
        now = self._bounds(silent, reached, least)
        far = [grain.floor(bound) if bound != NO_TIME else bound for bound in now.tolist()]
        enough = np.flatnonzero(np.maximum(self._reached[self.attributes.index(attribute)], far) >= need)
        if not len(enough):
            return None
        place = int(enough[-1])
        exact = self.complete and self.counted == self.read
        return Sooner("idle", int(self.lengths[place]), int(self._late[place]), self.counted, exact)
