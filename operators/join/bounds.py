"""The promises of a join's inputs on their time: a bound for all tuples, and further bounds for single keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
import numpy as np

from operators.data import memory
from operators.data.keys import Ids
from operators.data.page import Bools, Int64s
from operators.data.saved import read_integers
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import State, StateValue


def _bounds() -> Int64s:
    return np.full((16, 2), BEFORE_ALL, np.int64)


@attrs.define(eq=False)
class Bounds(memory.Slotted):
    """Keep the bounds by port; that of a key counts where it is higher. Memory: 33 bytes a key, live or promised.

    A key that a promise named is pinned: its bounds are remembered though no tuple of it is stored.
    """

    VERSION: ClassVar[int] = 2

    linear: list[int] = attrs.field(factory=lambda: [BEFORE_ALL, BEFORE_ALL], init=False, metadata=memory.numbers())
    _own: Int64s = attrs.field(factory=_bounds, init=False, metadata=memory.slots(fill=BEFORE_ALL))
    """The bound of each key, by port."""
    _told: Int64s = attrs.field(factory=_bounds, init=False, metadata=memory.slots(fill=BEFORE_ALL))
    pinned: Ids = attrs.field(
        factory=lambda: np.empty(0, np.int32), init=False, metadata=memory.array(least=0, below="_own")
    )
    """Keys that promises named, without their bounds having been overtaken by the linear one; ascending."""
    _grouped: list[bool] = attrs.field(factory=lambda: [False, False], init=False)

    def reserve(self, capacity: int) -> None:
        if capacity > len(self._own):
            super().reserve(max(capacity, 2 * len(self._own)))

    def grouped(self, port: int) -> bool:
        """Return whether any key may be ahead of the linear bound of a port."""
        return self._grouped[port]

    def of(self, port: int, ids: Ids) -> Int64s:
        """Return what a port promised of each key, -1 being none known."""
        if not self._grouped[port]:
            return np.full(len(ids), self.linear[port], np.int64)
        return np.maximum(np.where(ids < 0, BEFORE_ALL, self._own[ids, port]), self.linear[port])

    def told(self, port: int, ids: Ids) -> Int64s:
        """Return what was promised downstream of each key, apart from what was promised of all."""
        return self._told[ids, port]

    def tell(self, port: int, ids: Ids, bounds: Int64s) -> None:
        """Note what was promised downstream."""
        self._told[ids, port] = bounds

    def lift(self, port: int, ids: Ids, bound: int, *, pin: bool) -> Bools:
        """Raise the bound of keys; tells which ones rose, shape (n,)."""
        rises = self.of(port, ids) < bound
        self._own[ids[rises], port] = bound
        if rises.any():
            self._grouped[port] = True
            if pin:
                self.pinned = np.union1d(self.pinned, ids[rises]).astype(np.int32)
        return rises

    def overtake(self, port: int, bound: int) -> Ids:
        """Raise the linear bound of a port; gives the pinned keys that need no memory any more."""
        self.linear[port] = bound
        if not self._grouped[port]:
            return np.empty(0, np.int32)
        behind = self._own[:, port] <= bound
        self._own[behind, port] = BEFORE_ALL
        self._grouped[port] = not behind.all()
        free = (self._own[self.pinned] == BEFORE_ALL).all(axis=1)
        loose = self.pinned[free]
        self.pinned = self.pinned[~free]
        self._told[loose] = BEFORE_ALL
        return loose

    def forget(self, ids: Ids) -> None:
        """Forget keys whose numbers will be given to others."""
        if any(self._grouped):
            self._own[ids] = BEFORE_ALL
            self._told[ids] = BEFORE_ALL

    def free(self, ids: Ids) -> Ids:
        """Return those of some keys, ascending or not, that are not pinned."""
        return ids[~np.isin(ids, self.pinned)] if len(self.pinned) else ids

    def _upgraded(self, state: Mapping[str, StateValue]) -> State:
        # Those of one port stood together.
        return {**state, **{name: read_integers(state, name).reshape(2, -1).T for name in ("own", "told")}}

    def _after_restoring(self) -> None:
        super()._after_restoring()
        self._grouped = [bool((own != BEFORE_ALL).any()) for own in self._own.T]


def latest(bound: int) -> int:
    """Return a bound that is not the end of everything: a tuple without a time may still come."""
    return min(bound, FOREVER - 1)
