"""Windows that are released stay open to late tuples for a while: which of them changed, and how often each was given.

A result is known by its window, window-id and group. It is given again, with the next revision number, when a late
tuple changed it; a session that is no more, because a late tuple joined it to another, is taken back.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.digests import Words
from operators.data.distinct import distinct
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int32s, Int64s
from operators.data.saved import ROOM
from operators.functions.columns import frozen
from operators.kernels.slicing.release import touched
from operators.kernels.ticks import BEFORE_ALL

_GONE = BEFORE_ALL
PLACE, WID, GROUP, END, GIVEN = 0, 1, 2, 3, 4
"""Columns of the table: what a result is of, its end (_GONE when it was taken back), and how often it was given."""
_KEY = [pa.field(name, pa.int64()) for name in ("place", "wid", "group")]


@attrs.define(eq=False)
class Revisions(memory.Stateful):
    """Hold what was given of the windows that late tuples may still change, about 150 bytes a result."""

    _index: KeyIndex = attrs.field(init=False, factory=lambda: KeyIndex(_KEY), metadata=memory.part())
    _table: Int64s = attrs.field(init=False, factory=lambda: np.zeros((16, 5), np.int64), metadata=memory.array())
    """A line for each id."""
    _digests: Words = attrs.field(
        init=False, factory=lambda: np.zeros(16, np.uint64), metadata=memory.array(length="_table")
    )
    """By id: the digest of the aggregates that were given last."""
    _ticks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64), metadata=memory.array())
    _groups: Int32s = attrs.field(
        init=False, factory=lambda: np.zeros(0, np.int32), metadata=memory.array(least=-1, below=ROOM, length="_ticks")
    )

    @property
    def ticks(self) -> Int64s:
        """Return the ticks of the tuples that came late since the last call of `forget`, ascending, each once."""
        return distinct(self._ticks)

    @property
    def groups(self) -> Int32s:
        """Return their groups, each once."""
        return distinct(self._groups)

    def touch(self, ticks: Int64s, groups: Int32s) -> None:
        """Take notice of tuples that came to windows already given."""
        ticks, groups = np.concatenate((self._ticks, ticks)), np.concatenate((self._groups, groups))
        order = np.lexsort((ticks, groups))
        self._ticks, self._groups = ticks[order], groups[order]

    def touched(self, groups: Int32s, opens: Int64s, closes: Int64s) -> Bools:
        """Return for each result, [open, close) of a group, whether a tuple came late to it."""
        out = np.zeros(len(groups), np.bool_)
        touched(self._groups, self._ticks, groups, frozen(opens), frozen(closes), out)
        return out

    def number(self, places: Int64s, wids: Int64s, groups: Int32s, closes: Int64s, digests: Words) -> Int64s:
        """Return the revision number of each result: 0 when it is given for the first time, -1 when it is as it was."""
        ids = self._ids(places, wids, groups)
        numbers = self._table[ids, GIVEN].copy()
        same = (numbers > 0) & (self._table[ids, END] == closes) & (self._digests[ids] == digests)
        self._table[ids] = np.stack((places, wids, groups, closes, numbers + ~same), axis=1)
        self._digests[ids] = digests
        numbers[same] = -1
        return numbers

    def changed(self, places: Int64s, wids: Int64s, groups: Int32s, opens: Int64s, closes: Int64s) -> Bools:
        """Return which of these sessions are new, or have another end than when they were given, or a late tuple."""
        ids = self._index.find(_columns(places, wids, groups))
        known = ids >= 0
        same = np.zeros(len(ids), np.bool_)
        same[known] = self._table[ids[known], END] == closes[known]
        return ~same | self.touched(groups, opens, closes)

    def lost(self, listed: tuple[Int64s, Int64s, Int32s], sessions: Int64s, groups: Int32s) -> Int64s:
        """Take back the sessions of these groups that were given and are not listed any more.

        `sessions` are the places of session windows. Gives (place, wid, group, revision) in rows.
        """
        live = self._index.live()
        rows = self._table[live]
        candidates = (rows[:, END] != _GONE) & np.isin(rows[:, PLACE], sessions) & np.isin(rows[:, GROUP], groups)
        candidates[np.isin(live, self._index.find(_columns(*listed)))] = False
        gone = live[candidates]
        found = self._table[gone][:, [PLACE, WID, GROUP, GIVEN]]
        self._table[gone, END] = _GONE
        self._table[gone, GIVEN] += 1
        return found

    def forget(self, settled: int, begun: Int64s) -> None:
        """Let go of results that no late tuple can change; what was taken back waits while its group may give it again.

        `begun` tells by group the first tick that a session window still needs.
        """
        self._ticks, self._groups = np.zeros(0, np.int64), np.zeros(0, np.int32)
        live = self._index.live()
        rows = self._table[live]
        taken_back = rows[:, END] == _GONE
        over = (rows[:, END] <= settled) & ~taken_back
        over[taken_back] = rows[taken_back, WID] < begun[rows[taken_back, GROUP]]
        self._index.free(live[over])

    def remove(self, place: int) -> None:
        """Forget the results of the window at a place; those behind it move up."""
        live = self._index.live()
        kept = live[self._table[live, PLACE] != place]
        rows, digests = self._table[kept], self._digests[kept]
        rows[:, PLACE] -= rows[:, PLACE] > place
        self._index.free(live)
        ids = self._ids(rows[:, PLACE], rows[:, WID], rows[:, GROUP].astype(np.int32))
        self._table[ids], self._digests[ids] = rows, digests

    def _ids(self, places: Int64s, wids: Int64s, groups: Int32s) -> Int32s:
        ids, fresh = self._index.assign_new(_columns(places, wids, groups))
        if self._index.capacity > len(self._table):
            more = 2 * self._index.capacity - len(self._table)
            self._table = np.concatenate((self._table, np.zeros((more, 5), np.int64)))
            self._digests = np.concatenate((self._digests, np.zeros(more, np.uint64)))
        self._table[ids[fresh], GIVEN] = 0
        return ids

    def _after_restoring(self) -> None:
        if len(self._table) < self._index.capacity:
            raise ValueError(f'the saved state has {len(self._table)} rows in "table", too few for what was given')


def _columns(places: Int64s, wids: Int64s, groups: Int32s) -> list[pa.Array]:
    return [pa.array(places, pa.int64()), pa.array(wids, pa.int64()), pa.array(groups.astype(np.int64))]
