"""Windows that are released stay open to late tuples for a while: which of them changed, and how often each was given.

A result is known by its window, window-id and group. It is given again, with the next revision number, when a tuple
came to it; a session that is no more, because a late tuple joined it to another, is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa

from operators.kernels.slicing_release import touched
from operators.keys import KeyIndex
from operators.page import Bools, Int64s
from operators.protocol import State, StateValue
from operators.saved import part, prefixed, read_integers
from operators.window.protocol import Int32s

_GONE = -(2**63)
_KEY = [pa.field(name, pa.int64()) for name in ("place", "wid", "group")]


@attrs.define(eq=False)
class Revisions:
    """Hold what was given of the windows that late tuples may still change, about 100 bytes a result."""

    _index: KeyIndex = attrs.field(init=False, factory=lambda: KeyIndex(_KEY))
    _table: Int64s = attrs.field(init=False, factory=lambda: np.zeros((16, 5), np.int64))
    """By id: place, window-id, group, end (_GONE when it was taken back), and how often it was given."""
    _ticks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    _groups: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._index.nbytes + self._table.nbytes + self._ticks.nbytes + self._groups.nbytes

    @property
    def ticks(self) -> Int64s:
        """The ticks of the tuples that came late since the last call of `forget`, ascending, each once."""
        return np.unique(self._ticks)

    @property
    def groups(self) -> Int32s:
        """Their groups, each once."""
        return np.unique(self._groups)

    def touch(self, ticks: Int64s, groups: Int32s) -> None:
        """Take notice of tuples that came to windows already given."""
        ticks, groups = np.concatenate((self._ticks, ticks)), np.concatenate((self._groups, groups))
        order = np.lexsort((ticks, groups))
        self._ticks, self._groups = ticks[order], groups[order]

    def touched(self, groups: Int32s, opens: Int64s, closes: Int64s) -> Bools:
        """Tell for each result, [open, close) of a group, whether a tuple came late to it."""
        out = np.zeros(len(groups), np.bool_)
        touched(self._groups, self._ticks, groups, opens, closes, out)
        return out

    def number(self, places: Int64s, wids: Int64s, groups: Int32s, closes: Int64s) -> Int64s:
        """Give the revision number of each result that is given now: 0 when it is the first time."""
        ids = self._ids(places, wids, groups)
        numbers = self._table[ids, 4].copy()
        self._table[ids] = np.stack((places, wids, groups, closes, numbers + 1), axis=1)
        return numbers

    def changed(self, places: Int64s, wids: Int64s, groups: Int32s, opens: Int64s, closes: Int64s) -> Bools:
        """Tell which of these sessions are new, or have another end than when they were given, or a late tuple."""
        ids = self._index.find(_columns(places, wids, groups))
        known = ids >= 0
        same = np.zeros(len(ids), np.bool_)
        same[known] = self._table[ids[known], 3] == closes[known]
        return ~same | self.touched(groups, opens, closes)

    def lost(self, listed: tuple[Int64s, Int64s, Int32s], sessions: Int64s, groups: Int32s) -> Int64s:
        """Take back the sessions of these groups that were given and are not listed any more.

        `sessions` are the places of session windows. Gives (place, wid, group, revision) in rows.
        """
        live = self._index.live()
        rows = self._table[live]
        candidates = (rows[:, 3] != _GONE) & np.isin(rows[:, 0], sessions) & np.isin(rows[:, 2], groups)
        candidates[np.isin(live, self._index.find(_columns(*listed)))] = False
        gone = live[candidates]
        found = self._table[gone][:, [0, 1, 2, 4]]
        self._table[gone, 3] = _GONE
        self._table[gone, 4] += 1
        return found

    def forget(self, settled: int, begun: Int64s) -> None:
        """Let go of results that no late tuple can change; what was taken back waits while its group may give it again.

        `begun` tells by group the first tick that a session window still needs.
        """
        self._ticks, self._groups = np.zeros(0, np.int64), np.zeros(0, np.int32)
        live = self._index.live()
        rows = self._table[live]
        taken_back = rows[:, 3] == _GONE
        over = (rows[:, 3] <= settled) & ~taken_back
        over[taken_back] = rows[taken_back, 1] < begun[rows[taken_back, 2]]
        self._index.free(live[over])

    def _ids(self, places: Int64s, wids: Int64s, groups: Int32s) -> Int32s:
        ids, fresh = self._index.assign_new(_columns(places, wids, groups))
        if self._index.capacity > len(self._table):
            larger = np.zeros((2 * self._index.capacity, 5), np.int64)
            larger[: len(self._table)] = self._table
            self._table = larger
        self._table[ids[fresh], 4] = 0
        return ids

    def state(self) -> State:
        """Give all that is held."""
        index = prefixed("index.", self._index.state())
        return index | {"table": self._table.copy(), "ticks": self._ticks.copy(), "groups": self._groups.copy()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become what gave this state."""
        self._index.restore(part("index.", state))
        self._table = read_integers(state, "table").reshape(-1, 5)
        self._ticks, self._groups = read_integers(state, "ticks"), read_integers(state, "groups").astype(np.int32)


def _columns(places: Int64s, wids: Int64s, groups: Int32s) -> list[pa.Array]:
    return [pa.array(places, pa.int64()), pa.array(wids, pa.int64()), pa.array(groups.astype(np.int64))]
