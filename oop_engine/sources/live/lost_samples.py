"""Count the counter samples that were sent and did not come, by their numbers: each interface numbers its own.

One that comes late was counted when a later one came, and is taken off again. An agent that began anew numbers from
the start; what it sent before that and nobody received is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np
from numpy import int64
from numpy.typing import NDArray

from oop_engine.sources.flows import counter_samples as c
from operators.data.saved import read_int, read_integers
from operators.kernels.compile.kernel import kernel
from operators.protocol import State, StateValue

_KEY: Final = [c.C_HIGH, c.C_LOW, c.C_DOMAIN, c.C_FIRST]
"""An interface: the address of its agent, the sub-agent, and its index."""
_ANEW: Final = 100
"""A number that is so much lower than one before is of an agent that began anew."""
_ROOM: Final = 4096
_NONE: Final = -1


@kernel
def count_missing(interface: NDArray[int64], number: NDArray[int64], highest: NDArray[int64]) -> int:
    """Return how many numbers are missing among samples of interfaces, and set the highest number of each; O(n).

    `highest` is negative for an interface of which none came.
    """
    missing = 0
    for i in range(len(number)):
        which, now = interface[i], number[i]
        before = highest[which]
        if before < 0 or now < before - _ANEW:
            highest[which] = now
        elif now > before:
            missing += now - before - 1
            highest[which] = now
        else:
            missing -= 1
    return missing


@attrs.define(eq=False)
class LostSamples:
    """The samples of one reading. Cost: O(log n) a sample of n interfaces, 40 bytes an interface."""

    _keys: NDArray[int64] = attrs.field(init=False, factory=lambda: np.empty((0, len(_KEY)), int64))
    _highest: NDArray[int64] = attrs.field(init=False, factory=lambda: np.empty(0, int64))
    _missing: int = attrs.field(init=False, default=0)
    _waiting: list[NDArray[int64]] = attrs.field(init=False, factory=list)
    """Interfaces and numbers of samples that are counted together with later ones."""
    _rows: int = attrs.field(init=False, default=0)

    def take(self, rows: NDArray[int64]) -> None:
        """Take samples as `read_counters` gives them, in the order in which they came."""
        if len(rows):
            self._waiting.append(rows[:, [*_KEY, c.C_SEQUENCE]])
            self._rows += len(rows)
            if self._rows >= max(_ROOM, len(self._keys)):
                self.count()

    @property
    def lost(self) -> int:
        """Return how many samples did not come, of those that were counted; from any thread."""
        return max(0, self._missing)

    def state(self) -> State:
        """Return what is known, as a copy."""
        self.count()
        return {"keys": self._keys.copy(), "highest": self._highest.copy(), "missing": self._missing}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Know it; one of the errors `UNFIT` for what is no state."""
        self._keys = read_integers(state, "keys", width=len(_KEY))
        self._highest = read_integers(state, "highest")
        self._missing = read_int(state, "missing")
        if len(self._highest) != len(self._keys):
            raise ValueError(f"{len(self._keys)} interfaces have {len(self._highest)} numbers")

    def count(self) -> None:
        """Count what was taken so far, all at once."""
        if not self._waiting:
            return
        rows, before = np.concatenate(self._waiting), len(self._keys)
        self._waiting, self._rows = [], 0
        keys, place = np.unique(np.concatenate([self._keys, rows[:, :-1]]), axis=0, return_inverse=True)
        place = place.reshape(-1).astype(int64)
        highest = np.full(len(keys), _NONE, int64)
        highest[place[:before]] = self._highest
        self._missing += int(count_missing(place[before:], np.ascontiguousarray(rows[:, -1]), highest))
        self._keys, self._highest = keys, highest
