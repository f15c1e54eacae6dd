"""Windows of predicates hold one partial aggregate an open window and group: a final tuple goes into it and is gone."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.functions.columns import grown, power
from operators.functions.protocol import Slots
from operators.kernels.ranked import cuts as kernels
from operators.kernels.ranked.layout import END, SOURCE
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window.predicate import PredicateWindow
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.slots import Found, Pool
from operators.window_aggregate.stores.ranked.waiting import Bytes, Final, Owners


@attrs.define(eq=False)
class Cuts(memory.Stateful):
    """Hold the open windows, 16 bytes a partition, and their aggregates, 16 bytes a group and a slot of the pool."""

    window: PredicateWindow
    pool: Pool
    partitions: Partitions
    owners: Owners | None
    _begins: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, FOREVER),
        metadata=memory.sparse("begins", name="open", fill=FOREVER, places="capacity"),
    )
    """Where the open window of each partition begins."""
    _lasts: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, FOREVER),
        metadata=memory.sparse("lasts", name="last", fill=FOREVER, places="capacity"),
    )
    """The last tick in it."""
    _since: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, FOREVER),
        metadata=memory.sparse("since", name="holding", fill=FOREVER, places="capacity"),
    )
    """Where the window begins that a group has an aggregate of."""
    _slots: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, -1),
        metadata=memory.sparse("slots", name="held", fill=-1, places="capacity", least=0, below="pool.made"),
    )

    def __len__(self) -> int:
        """Return the number of partial aggregates of open windows."""
        return int(np.count_nonzero(self._slots >= 0))

    def ensure(self, capacity: int) -> None:
        """Let there be groups and partitions with ids below a capacity."""
        if capacity > min(len(self._begins), len(self._lasts), len(self._since), len(self._slots)):
            size = power(capacity)
            self._begins = grown(self._begins, size, fill=FOREVER)
            self._lasts = grown(self._lasts, size, fill=FOREVER)
            self._since = grown(self._since, size, fill=FOREVER)
            self._slots = grown(self._slots, size, fill=-1)

    def due(self, bound: int) -> Int32s:
        """Return the partitions whose open window has lasted as long as it may at a bound, ascending."""
        within = self.window.within
        if within is None:
            return np.empty(0, np.int32)
        return np.flatnonzero(self._begins <= bound - within).astype(np.int32)

    def begun(self) -> Int32s:
        """Return the partitions in which a window is open, ascending."""
        return np.flatnonzero(self._begins != FOREVER).astype(np.int32)

    def is_open(self, parts: Int32s) -> npt.NDArray[np.bool_]:
        """Return whether a window is open in each partition."""
        return self._begins[parts] != FOREVER

    def first(self, parts: Int32s | None = None) -> int:
        """Return where the earliest open window of these partitions begins, of all without any; FOREVER for none."""
        return int((self._begins if parts is None else self._begins[parts]).min(initial=FOREVER))

    def extend(self, final: Final, bits: Bytes, bound: int, over: int) -> tuple[Found, Slots, int]:
        """Take final tuples in order, of partitions in the order of their ids.

        Gives the results of windows that have ended, the slots that are of no use after these, and how many tuples are
        in no window.
        """
        parts, ends = final.parts, final.ends
        n = len(final.values)
        numbers, firsts = np.empty(n, np.int64), np.empty(len(parts) + 1, np.int64)
        windows = np.empty((2, n + len(parts)), np.int64)
        window, open_ = self.window, (self._begins, self._lasts)
        made = kernels.cut(
            parts, ends, final.values, bits, bound, over, window.rule, window.within or 0, open_,
            numbers, firsts, windows,
        )  # fmt: skip
        ended = np.zeros(made + 1, np.int64)
        np.cumsum(windows[END, :made] != FOREVER, out=ended[1:])
        closing = np.flatnonzero(ended[firsts[1:]] > ended[firsts[:-1]])
        if self.owners is None:
            groups = np.repeat(parts, np.diff(ends, prepend=0))
            candidates, places = parts[closing], closing
        else:
            groups = self.owners.of(final.slots)
            candidates = self.partitions.groups_of(parts[closing])
            of = self.partitions.part_of(candidates)
            # Without partitions all groups are of the only one.
            places = np.searchsorted(parts, of) if self.partitions.partition else np.zeros(len(candidates), np.int64)
        results = np.empty((2, n + len(candidates)), np.int32)
        bounds, pairs = np.empty((2, n + len(candidates)), np.int64), np.empty((2, n), np.int32)
        combined, given = kernels.fold(
            groups, ends, numbers, final.slots, firsts, windows, (self._since, self._slots),
            candidates, places, pairs, results, bounds,
        )  # fmt: skip
        self.pool.combine(*pairs[:, :combined])
        outside = final.slots[numbers < 0]
        (owners, slots), (begins, until) = results[:, :given], bounds[:, :given]
        told = until != BEFORE_ALL
        found = owners[told], slots[told], begins[told], begins[told], until[told]
        return found, np.concatenate((pairs[SOURCE, :combined], outside, slots)), len(outside)

    @property
    def capacity(self) -> int:
        """Return one more than the largest number of a group or partition that there may be."""
        return self.partitions.capacity

    def _after_restoring(self) -> None:
        self.ensure(self.capacity)
        apart = ((self._begins == FOREVER) == (self._lasts == FOREVER)).all()
        if not apart or ((self._since == FOREVER) != (self._slots < 0)).any() or (self._lasts < self._begins).any():
            raise ValueError("the saved state holds an open window without its begin, or an aggregate of none")
        held = np.flatnonzero(self._slots >= 0)
        parts = self.partitions.part_of(held.astype(np.int32))
        if (self._since[held] != self._begins[parts]).any() or len(np.unique(self._slots[held])) < len(held):
            raise ValueError("the saved state holds an aggregate of a window that is not open")
