"""Each shorter `idle` and `lull` is followed: what it would have promised so far, and how many records that makes late.

An exporter that is silent for longer than `idle` holds nobody back, and one that is for longer than a `lull` is assumed
to be as far as its clock must be, less that; so shorter ones promise sooner. What would have been promised is followed
with each promise that is made, for all numbers of seconds of two digits with zeros behind them.
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


def _lengths(given: int) -> Int64s:
    """Return the lengths of time below one, in ns, that are a number of seconds of two digits with zeros behind."""
    shorter = takewhile(lambda length: length < given, (edge(cell) * SECOND for cell in count()))
    return np.array(list(shorter), np.int64)


@attrs.define(eq=False)
class ShorterTime(memory.Stateful):
    """Follow what a stream of exporters would promise with a shorter time of a `setting` than it has, in ns.

    Cost: O(exporters + lengths) a promise; O(lengths) a record that one of them would make late, of which all are
    counted up to 65,536 records, and then one in 64.
    """

    setting: str
    given: int = attrs.field(metadata=memory.integer(least=0))
    attributes: tuple[str, ...] = attrs.field(converter=tuple)
    names: str = attrs.field(init=False, metadata=memory.text())
    """The attributes as one text."""
    counted: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """The records that were looked at."""
    read: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """All records."""
    complete: bool = attrs.field(init=False, default=True, metadata=memory.flag())
    """Whether the setting decided nothing but how far exporters are waited for."""
    lengths: Int64s = attrs.field(init=False)
    _late: Int64s = attrs.field(init=False, metadata=memory.array(least=0, length="lengths"))
    """How many records were late with each length."""
    _reached: Int64s = attrs.field(init=False, metadata=memory.array(length="attributes"))
    """What each would have promised, shape (attributes, lengths)."""

    def __attrs_post_init__(self) -> None:
        self.lengths, self.names = _lengths(self.given), " ".join(self.attributes)
        self._late = np.zeros(len(self.lengths), np.int64)
        self._reached = np.full((len(self.attributes), len(self.lengths)), NO_TIME, np.int64)

    @classmethod
    def fits(cls, state: Mapping[str, StateValue], given: int, attributes: Sequence[str]) -> bool:
        """Return whether a state is of the same time and attributes: what was counted says nothing of another."""
        return read_int(state, "given") == given and read_text(state, "names") == " ".join(attributes)

    def promised(self, attribute: str, bound: int) -> None:
        """Take what was promised when nobody followed it: all would have promised that."""
        row = self._reached[self.attributes.index(attribute)]
        np.maximum(row, bound, out=row)

    def follow(self, attribute: str, bounds: Int64s, grain: Grain) -> None:
        """Take how far all exporters are now with each length, shape (lengths,), NO_TIME where nothing tells."""
        place = self.attributes.index(attribute)
        self._reached[place] = np.maximum(self._reached[place], _floored(bounds, grain))

    def hear(self, times: Mapping[str, Int64s]) -> None:
        """Count which records that came, by their times of shape (rows,), NEVER for null, would have been late.

        None would have been where exporters make no promises.
        """
        if not len(self.lengths) or not self.attributes:
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

    def sooner(self, attribute: str, need: int, bounds: Int64s, grain: Grain) -> Sooner | None:
        """Return the longest with which a bound would be promised by now, None where there is none; see `follow`."""
        far = np.maximum(self._reached[self.attributes.index(attribute)], _floored(bounds, grain))
        enough = np.flatnonzero(far >= need)
        if not len(enough):
            return None
        place = int(enough[-1])
        exact = self.complete and self.counted == self.read
        return Sooner(self.setting, int(self.lengths[place]), int(self._late[place]), self.counted, exact)


def without(lengths: Int64s, silent: Int64s, reached: Int64s, least: int | None) -> Int64s:
    """Return how far those exporters are that were silent for no longer than each of some lengths, shape (lengths,).

    `silent` and `reached`, shape (n,), are for how long each was silent that has a say now, and how far it is; `least`
    is how far all are where all were silent for longer, None where nothing is promised then.
    """
    order = np.argsort(silent, kind="stable")
    lows = np.append(NO_TIME if least is None else least, np.minimum.accumulate(reached[order]))
    return lows[np.searchsorted(silent[order], lengths, side="right")]


def after(lengths: Int64s, silent: Int64s, reached: Int64s, clocks: Int64s, most: Int64s) -> Int64s:
    """Return how far exporters are that are assumed to be so after lulls of some lengths, shape (lengths,).

    `clocks`, shape (n,), say how far the clock of each must be, less what its records may trail; `most` the same of the
    time beyond which no clock is believed.
    """
    raised = np.minimum(clocks - lengths[:, None], most)
    return np.where(silent > lengths[:, None], np.maximum(reached, raised), reached).min(axis=1)


def _floored(bounds: Int64s, grain: Grain) -> Int64s:
    if grain.step is None:
        return bounds
    return np.where(bounds == NO_TIME, NO_TIME, bounds - (bounds - grain.origin) % grain.step)
