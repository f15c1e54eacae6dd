"""Open sessions hold one partial aggregate each, and say at which ticks they fire and end; runs of tuples wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar
from typing import Final as Constant

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s
from operators.functions.columns import grown, power
from operators.functions.protocol import Slots
from operators.kernels.ranked import firings as kernels
from operators.kernels.ranked.layout import BEGINS, ENDS, FIRES, INTO, OWNER, QUEUE, SLOT, SOURCE, SPENT
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.stores.ranked.waiting import Final, Waiting

_LEAST: Constant = 64
"""There is room for so many results at least, and for two of each partition; and so many runs may begin at once."""
_PAGES: Constant = 4
"""Slots are taken for the runs of so many pages at once, and given back when a state is saved."""


@attrs.frozen(eq=False)
class Fired:
    """Results of sessions: the group, slot, begin, end and firing of each, all of shape (n,)."""

    groups: Int32s
    slots: Slots
    begins: Int64s
    ends: Int64s
    ticks: Int64s

    @property
    def final(self) -> npt.NDArray[np.bool_]:
        """Return which of them are over whole sessions."""
        return self.ticks == self.ends


def _column() -> Int64s:
    return np.full(1, FOREVER)


def _by_slot() -> Int64s:
    return np.full(1, BEFORE_ALL)


@attrs.define(eq=False)
class OpenSessions(memory.Stateful):
    """Hold the open session of each partition, 80 bytes each, and its aggregate in a slot of the pool.

    Tuples that no session has yet wait in runs, 16 bytes each, which their queues list.
    """

    VERSION: ClassVar[int] = 2

    rule: Int64s
    """What the kernel names so: the gap, how often sessions fire, whether results are only what is new, and whether
    tuples may be combined in any order."""
    after: Int64s
    """So many ticks behind its begin a session fires, too; they rise."""
    pool: Pool
    partitions: Partitions
    _begins: Int64s = attrs.field(
        init=False,
        factory=_column,
        metadata=memory.sparse("begins", name="open", fill=FOREVER, places="capacity"),
    )
    _lasts: Int64s = attrs.field(
        init=False,
        factory=_column,
        metadata=memory.sparse("lasts", name="last", fill=FOREVER, places="capacity"),
    )
    _fired: Int64s = attrs.field(
        init=False,
        factory=_column,
        metadata=memory.sparse("fired", name="firing", fill=FOREVER, places="capacity"),
    )
    _told: Int64s = attrs.field(
        init=False,
        factory=_column,
        metadata=memory.sparse("told", name="telling", fill=FOREVER, places="capacity"),
    )
    _nexts: Int64s = attrs.field(init=False, factory=_column, metadata=memory.rebuilt())
    """When each fires next, FOREVER for never."""
    _slots: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, -1),
        metadata=memory.sparse("slots", name="held", fill=-1, places="capacity", least=0, below="pool.made"),
    )
    _reach: Int64s = attrs.field(
        init=False,
        factory=_by_slot,
        metadata=memory.array(since=2, of=lambda sessions: sessions._reach[: sessions.pool.made]),
    )
    """The last tick of the run that waits in each slot."""
    _ceilings: Int64s = attrs.field(init=False, factory=_by_slot, metadata=memory.rebuilt())
    """What it may not reach."""
    _newest: Int64s = attrs.field(init=False, factory=lambda: np.full((1, 4), BEFORE_ALL), metadata=memory.rebuilt())
    """Which aggregate of each partition takes tuples that come in order, as the kernel has it."""
    _fresh: Slots = attrs.field(init=False, factory=lambda: np.empty(0, np.int32), metadata=memory.rebuilt())
    """Slots in which runs may begin; none while a state is saved."""
    _begun: int = attrs.field(init=False, default=0)
    """So many runs began with the last tuples."""

    def __len__(self) -> int:
        """Return the number of open sessions."""
        return int(np.count_nonzero(self._begins != FOREVER))

    def ensure(self, capacity: int) -> None:
        """Let there be partitions with ids below a capacity."""
        columns = (self._begins, self._lasts, self._fired, self._told, self._nexts, self._slots)
        if capacity > min(map(len, columns)):
            size = power(capacity)
            full = [grown(column, size, fill=FOREVER) for column in columns[:-1]]
            self._begins, self._lasts, self._fired, self._told, self._nexts = full
            self._slots = grown(self._slots, size, fill=-1)
            self._newest = grown(self._newest, size, fill=BEFORE_ALL)

    def due(self, bound: int) -> Int32s:
        """Return the partitions whose session fires or ends up to a bound, ascending."""
        # Where no session is open, the sum wraps.
        due = (self._lasts + self.rule[kernels.GAP] <= bound) | (self._nexts <= bound)
        return np.flatnonzero(due & (self._begins != FOREVER)).astype(np.int32)

    def is_open(self, parts: Int32s) -> npt.NDArray[np.bool_]:
        """Return whether each partition has an open session."""
        return self._begins[parts] != FOREVER

    def first(self, parts: Int32s | None = None) -> int:
        """Return where the earliest open session of these partitions begins, of all without any; FOREVER for none."""
        return int((self._begins if parts is None else self._begins[parts]).min(initial=FOREVER))

    def least_told(self) -> int:
        """Return the least end that an early result of an open session told; FOREVER for none."""
        return int(self._told.min(initial=FOREVER))

    def end(self, begin: int) -> int | None:
        """Return where open sessions that begin at a tick end at last, as far as is known; None where there is none."""
        lasts = self._lasts[self._begins == begin]
        return int(lasts.max() + self.rule[kernels.GAP]) if len(lasts) else None

    @property
    def _tables(self) -> tuple[Int64s, ...]:
        """Return the memory for the kernels, as they name it."""
        sessions = (self._begins, self._lasts, self._fired, self._told, self._nexts, self._slots)
        return (*sessions, self._reach, self._ceilings, self._newest)

    def arrive(self, waiting: Waiting, ticks: Int64s, parts: Int32s) -> Slots:
        """Take tuples into open sessions, or into runs that wait; return the slot of each."""
        cursor, partitions = np.zeros(2, np.int64), self.partitions
        slots, apart = np.empty(len(ticks), np.int32), np.empty(len(ticks), np.int64)
        begun, fresh = 0, self._fresh
        while cursor[kernels.ENTRY] < len(ticks):
            if not len(fresh):
                recent = max(self._begun, begun)
                fresh = self.pool.take(_LEAST + min(_PAGES * recent, max(recent, ROWS)))
                self.reserve(self.pool.capacity)
            used = kernels.arrive(
                parts, ticks, partitions.own_bounds, partitions.bound, self.rule, self.after, self._tables,
                waiting.queues.tables, fresh, cursor, slots, apart,
            )  # fmt: skip
            begun += used
            fresh = fresh[used:]
            if len(fresh) and cursor[kernels.ENTRY] < len(ticks):
                waiting.queues.enlarge()
        self._begun, self._fresh = begun, fresh
        if cursor[kernels.APART]:
            chosen = apart[: cursor[kernels.APART]]
            waiting.enter(ticks[chosen], parts[chosen], slots[chosen])
        return slots

    def release(self) -> None:
        """Return slots that no run began in to the pool."""
        self.pool.give(self._fresh)
        self._fresh = self._fresh[:0]

    def reserve(self, slots: int) -> None:
        """Let there be slots below a number."""
        self._reach = grown(self._reach, slots, fill=BEFORE_ALL)
        self._ceilings = grown(self._ceilings, slots, fill=BEFORE_ALL)

    def know(self, slots: npt.NDArray[np.integer], firsts: Int64s) -> None:
        """Let runs that were restored reach their first ticks at least: older states have single tuples."""
        self._reach[slots] = np.maximum(self._reach[slots], firsts)

    def take(self, final: Final, bound: int) -> Iterator[Fired]:
        """Take runs that begin below a bound, and yield the results that fire up to it; slots hold until the next."""
        cursor = np.zeros(2, np.int64)
        # Mostly few fire on one promise; the kernel goes on where there is no more room.
        rows = min(ROWS, 2 * len(final.parts) + _LEAST)
        while cursor[QUEUE] < len(final.parts):
            fresh, found = self.pool.take(rows), np.empty((5, rows), np.int64)
            pairs = np.empty((3, len(final.values) + rows), np.int32)
            combined, spent, used, made = kernels.fire(
                final.parts, final.ends, final.values, final.slots, bound, self.rule, self.after, self._tables,
                fresh, cursor, pairs, found,
            )  # fmt: skip
            self.pool.combine(pairs[INTO, :combined], pairs[SOURCE, :combined])
            self.pool.give(np.concatenate((pairs[SPENT, :spent], fresh[used:])))
            found = found[:, :made]
            if made:
                slots = found[SLOT].astype(np.int32)
                yield Fired(found[OWNER].astype(np.int32), slots, found[BEGINS], found[ENDS], found[FIRES])
                self.pool.give(slots)

    @property
    def capacity(self) -> int:
        """Return one more than the largest number of a partition that there may be."""
        return self.partitions.capacity

    def _after_restoring(self) -> None:
        self.ensure(self.capacity)
        self.reserve(self.pool.capacity)
        closed = self._begins == FOREVER
        apart = all(((column == FOREVER) == closed).all() for column in (self._lasts, self._fired))
        held = self._slots[self._slots >= 0]
        if not apart or (self._lasts < self._begins).any() or (self._fired < self._begins).any():
            raise ValueError("the saved state holds an open session without its begin, or one that ends before it")
        if (closed & ((self._told != FOREVER) | (self._slots >= 0))).any() or len(np.unique(held)) < len(held):
            raise ValueError("the saved state holds an aggregate of a session that is not open")
        for part in np.flatnonzero(~closed):
            self._nexts[part] = kernels.next_firing(self._begins[part], self._fired[part], self.rule, self.after)
        if (self._nexts <= self._lasts)[~closed].any():
            raise ValueError("the saved state holds an open session with a tuple behind the tick at which it fires")
