"""The promises of a join's inputs on their time: a bound for all tuples, and further bounds for single keys."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from operators.data import memory
from operators.data.keys import Ids
from operators.data.page import Bools, Int64s
from operators.data.saved import bounded, read_integers
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import State, StateValue


@attrs.define(eq=False)
class Bounds(memory.Stateful):
    """Keep the bounds by port; that of a key counts where it is higher. Memory: 33 bytes a key, live or promised.

    A key that a promise named is pinned: its bounds are remembered though no tuple of it is stored.
    """

    linear: list[int] = attrs.field(factory=lambda: [BEFORE_ALL, BEFORE_ALL], init=False, metadata=memory.numbers())
    pinned: Ids = attrs.field(factory=lambda: np.empty(0, np.int32), init=False, metadata=memory.array(least=0))
    """Keys that promises named, without their bounds having been overtaken by the linear one; ascending."""
    _own: Int64s = attrs.field(factory=lambda: np.full((2, 16), BEFORE_ALL, np.int64), init=False)
    _told: Int64s = attrs.field(factory=lambda: np.full((2, 16), BEFORE_ALL, np.int64), init=False)
    _grouped: list[bool] = attrs.field(factory=lambda: [False, False], init=False)

    def reserve(self, keys: int) -> None:
        """Make room for keys of numbers below `keys`."""
        size = self._own.shape[1]
        if keys > size:
            more = ((0, 0), (0, max(keys, 2 * size) - size))
            self._own = np.pad(self._own, more, constant_values=BEFORE_ALL)
            self._told = np.pad(self._told, more, constant_values=BEFORE_ALL)

    def grouped(self, port: int) -> bool:
        """Return whether any key may be ahead of the linear bound of a port."""
        return self._grouped[port]

    def of(self, port: int, ids: Ids) -> Int64s:
        """Return what a port promised of each key, -1 being none known."""
        if not self._grouped[port]:
            return np.full(len(ids), self.linear[port], np.int64)
        return np.maximum(np.where(ids < 0, BEFORE_ALL, self._own[port, ids]), self.linear[port])

    def told(self, port: int, ids: Ids) -> Int64s:
        """Return what was promised downstream of each key, apart from what was promised of all."""
        return self._told[port, ids]

    def tell(self, port: int, ids: Ids, bounds: Int64s) -> None:
        """Note what was promised downstream."""
        self._told[port, ids] = bounds

    def lift(self, port: int, ids: Ids, bound: int, *, pin: bool) -> Bools:
        """Raise the bound of keys; tells which ones rose, shape (n,)."""
        rises = self.of(port, ids) < bound
        self._own[port, ids[rises]] = bound
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
        behind = self._own[port] <= bound
        self._own[port, behind] = BEFORE_ALL
        self._grouped[port] = not behind.all()
        free = (self._own[:, self.pinned] == BEFORE_ALL).all(axis=0)
        loose = self.pinned[free]
        self.pinned = self.pinned[~free]
        self._told[:, loose] = BEFORE_ALL
        return loose

    def forget(self, ids: Ids) -> None:
        """Forget keys whose numbers will be given to others."""
        if any(self._grouped):
            self._own[:, ids] = BEFORE_ALL
            self._told[:, ids] = BEFORE_ALL

    def free(self, ids: Ids) -> Ids:
        """Return those of some keys, ascending or not, that are not pinned."""
        return ids[~np.isin(ids, self.pinned)] if len(self.pinned) else ids

    def state(self) -> State:
        return super().state() | {"own": self._own.reshape(-1), "told": self._told.reshape(-1)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        super().restore(state)
        self._own = read_integers(state, "own").reshape(2, -1)
        self._told = read_integers(state, "told").reshape(2, -1)
        if self._own.shape != self._told.shape:
            raise ValueError(f'the saved state has {self._own.shape} bounds in "own", {self._told.shape} in "told"')
        bounded(self.pinned, "pinned", below=self._own.shape[1])
        self._grouped = [bool((own != BEFORE_ALL).any()) for own in self._own]


def latest(bound: int) -> int:
    """Return a bound that is not the end of everything: a tuple without a time may still come."""
    return min(bound, FOREVER - 1)
