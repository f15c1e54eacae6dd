"""Count windows are cut from slices of ranks: a final tuple goes into one slice and is gone.

Windows of r tuples every s begin and end between the same slices, at most two in s tuples, so what is held is a partial
aggregate for each slice and group of the windows that are open, however many tuples there are in them.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s
from operators.functions.columns import grown
from operators.functions.protocol import Slots
from operators.kernels.ranked import layout
from operators.kernels.ranked import ranked as kernels
from operators.kernels.ranked.rank import ranks
from operators.kernels.ticks import BEFORE_ALL, FAR
from operators.window.counted import CountWindow
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.queues import Queues, lengths
from operators.window_aggregate.stores.ranked.slots import Found, Pool
from operators.window_aggregate.stores.ranked.waiting import NO_ORDER, Final, Owners, arranged


@attrs.define(eq=False)
class RankSlices(memory.Stateful):
    """Hold slices, 12 bytes each and a slot of the pool, in one queue a group; and two numbers a partition."""

    window: CountWindow
    pool: Pool
    partitions: Partitions
    owners: Owners | None
    _ranked: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.array(least=0, below=1 << 62)
    )
    """Final tuples so far, by partition."""
    _given: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros(1, np.int64),
        metadata=memory.array(least=0, below=1 << 62, length="_ranked"),
    )
    """The window-id after the last one given, by partition."""
    queues: Queues[np.int32] = attrs.field(
        init=False,
        factory=lambda: Queues(np.int32),
        metadata=memory.part(most="capacity", below_items="pool.made"),
    )
    _counts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.rebuilt())

    def __len__(self) -> int:
        """Return the number of slices."""
        return len(self.queues)

    def ensure(self, capacity: int) -> None:
        """Let there be groups and partitions with ids below a capacity."""
        self.queues.ensure(capacity)
        size = len(self.queues.heads)
        self._ranked, self._given = grown(self._ranked, size), grown(self._given, size)
        self._counts = grown(self._counts, size)

    def extend(self, final: Final) -> Slots:
        """Take final tuples in order; gives the slots that are of no use any more."""
        parts = np.repeat(final.parts, lengths(final.ends))
        ranked, numbers = np.empty(len(parts), np.int64), np.empty(len(parts), np.int64)
        ranks(parts, self._ranked, ranked)
        kernels.slice_numbers(ranked, self.window.size, self.window.slide, numbers)
        if self.owners is None:
            groups, ends, order = final.parts, final.ends, np.arange(len(parts))
        else:
            groups, ends, order = arranged(self.owners.of(final.slots), NO_ORDER, self._counts)
        pairs = np.empty((2, len(parts)), np.int32)
        new_ends, new_keys = np.empty(len(groups), np.int64), np.empty(len(parts), np.int64)
        new_slots = np.empty(len(parts), np.int32)
        found, made = kernels.fold(
            groups, ends, order, numbers, final.slots, self.queues.tables, pairs, new_ends, new_keys, new_slots
        )
        into, source = pairs[:, :found]
        self.pool.combine(into, source)
        self.queues.merge(groups, new_ends, new_keys[:made], new_slots[:made])
        return np.concatenate((source, final.slots[numbers < 0]))

    @property
    def ranked(self) -> Int64s:
        """Return the number of final tuples so far, by partition."""
        return self._ranked

    def begun(self) -> Int32s:
        """Return the partitions that have a final tuple."""
        return np.flatnonzero(self._ranked > 0).astype(np.int32)

    def complete(self, parts: Int32s, over: bool) -> Int64s:
        """Return for each partition the window-id after the last complete window, or last with a tuple if over."""
        ranked, window = self._ranked[parts], self.window
        if over:
            return np.where(ranked > 0, (ranked - 1 + window.size) // window.slide, 0)
        return ranked // window.slide

    def given(self, parts: Int32s) -> Int64s:
        """Return for each partition the window-id after the last window given, or that will never be given."""
        return self._given[parts]

    def results(self, parts: Int32s, over: bool) -> Iterator[Found]:
        """Yield the results of windows that are complete, of all if the partitions are over; slots hold until next."""
        stops = self.complete(parts, over)
        starts = np.maximum(self._given[parts], self.window.least)
        due = starts < stops
        parts, starts, stops = parts[due], starts[due], stops[due]
        groups = self.partitions.groups_of(parts)
        if len(groups) == 0:
            return
        which = np.searchsorted(parts, self.partitions.part_of(groups))
        starts, stops = starts[which], stops[which]
        room = max(ROWS, int(self.queues.sizes(groups).max()))
        rows = min(ROWS, int((stops - starts).sum()))
        cursor = np.array([0, BEFORE_ALL])
        while cursor[layout.QUEUE] < len(groups):
            slots, owners = np.empty(room, np.int32), np.empty(rows, np.int32)
            ranges = np.empty((3, rows), np.int64)
            found, held = kernels.plan_ranks(
                groups, starts, stops, self.window.size, self.window.slide, self.queues.tables,
                cursor, slots, owners, ranges,
            )  # fmt: skip
            if found:
                lows, highs, wids = ranges[:, :found]
                sums, spent = self.pool.sums(slots[:held], lows, highs)
                yield owners[:found], sums, wids, *self.window.extents(wids)
                self.pool.give(spent)

    def forget(self, parts: Int32s, over: bool) -> Slots:
        """Let go of slices before the windows that are still to come, or of all; gives their slots."""
        given = self.complete(parts, over)
        self._given[parts] = np.maximum(self._given[parts], given)
        window, groups = self.window, self.partitions.groups_of(parts)
        numbers = np.empty(len(parts), np.int64)
        begin = (np.maximum(given, window.least) + 1) * window.slide - window.size
        kernels.slice_numbers(begin, window.size, window.slide, numbers)
        if over:
            numbers[:] = FAR
        if self.owners is not None:
            numbers = numbers[np.searchsorted(parts, self.partitions.part_of(groups))]
        slots = self.queues.take(*self.queues.below(groups, numbers))[1]
        if over:
            self._ranked[parts], self._given[parts] = 0, 0
        return slots

    @property
    def capacity(self) -> int:
        """Return one more than the largest number of a group or partition that there may be."""
        return max(len(self._ranked), self.partitions.capacity)

    def _after_restoring(self) -> None:
        if (self._given < self._ranked // self.window.slide).any():
            raise ValueError('the saved state has complete windows in "ranked" that are not in "given"')
        self.ensure(self.capacity)
