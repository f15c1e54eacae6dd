"""The last n tuples of a partition are held as partial aggregates of one tuple each, and no others.

Which of them a window has depends on how many come before its end, so it can begin at any of them: none may be combined
with its neighbour before it is out of all windows to come. n a partition is what that needs, whatever the rate.
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
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window.counted import LastTuples
from operators.window_aggregate.stores.ranked.queues import Queues
from operators.window_aggregate.stores.ranked.slots import Found, Pool
from operators.window_aggregate.stores.ranked.waiting import Final, Owners

_PAIRS = 1 << 18


@attrs.define(eq=False)
class LatestTuples(memory.Stateful):
    """Hold the last final tuples of each partition, 12 bytes each and a slot of the pool."""

    window: LastTuples
    pool: Pool
    owners: Owners | None
    _next: Int64s = attrs.field(init=False, factory=lambda: np.full(1, FOREVER), metadata=memory.array())
    """The window-id of the next window to be given, by partition."""
    queues: Queues[np.int32] = attrs.field(
        init=False,
        factory=lambda: Queues(np.int32),
        metadata=memory.part(most="capacity", below_items="pool.made"),
    )

    def __len__(self) -> int:
        """Return the number of tuples held."""
        return len(self.queues)

    def ensure(self, capacity: int) -> None:
        """Let there be partitions with ids below a capacity."""
        self.queues.ensure(capacity)
        self._next = grown(self._next, len(self.queues.heads), fill=FOREVER)

    def extend(self, final: Final) -> None:
        """Take final tuples in order."""
        self.queues.merge(final.parts, final.ends, final.values, final.slots)
        first = final.values[np.concatenate((np.zeros(1, np.int64), final.ends[:-1]))[: len(final.parts)]]
        fresh = self._next[final.parts] == FOREVER
        self._next[final.parts[fresh]] = (first[fresh] - self.window.origin) // self.window.slide

    def due(self, stop: int) -> Int32s:
        """Return the partitions with a window below `stop` to be given."""
        return np.flatnonzero(self._next < stop).astype(np.int32)

    def results(self, parts: Int32s, stop: int) -> Iterator[Found]:
        """Yield the results of the windows below `stop` that were not given yet; slots hold until the next."""
        parts = parts[self._next[parts] < stop]
        if len(parts) == 0:
            return
        starts, window = self._next[parts], self.window
        form = (window.size, window.slide, window.origin, window.idle)
        room = max(ROWS, int(self.queues.sizes(parts).max()))
        rows = ROWS if self.owners is None else max(1, min(ROWS, _PAIRS // window.size))
        stops, cursor = np.full(len(parts), stop), np.array([0, BEFORE_ALL])
        while cursor[layout.QUEUE] < len(parts):
            slots, owners = np.empty(room, np.int32), np.empty(rows, np.int32)
            ranges = np.empty((4, rows), np.int64)
            found, held = kernels.plan_edges(
                parts, starts, stops, form, self.queues.tables, cursor, slots, owners, ranges
            )
            if found == 0:
                continue
            slots, owners = slots[:held], owners[:found]
            lows, highs, wids, begins = ranges[:, :found]
            if self.owners is None:
                sums, spent = self.pool.sums(slots, lows, highs)
            else:
                which, owners, sums = self._by_group(slots, lows, highs, self.owners)
                wids, begins, spent = wids[which], begins[which], sums
            yield owners, sums, wids, begins, window.origin + (wids + 1) * window.slide
            self.pool.give(spent)

    def _by_group(self, slots: Slots, lows: Int64s, highs: Int64s, owners: Owners) -> tuple[Int64s, Int32s, Slots]:
        pairs = int((highs - lows).sum())
        which, groups = np.empty(pairs, np.int64), np.empty(pairs, np.int32)
        into, source = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
        seen = np.full(owners.capacity, -1)
        found, pairs = map(
            int,
            kernels.by_group(lows, highs, slots, owners.groups, seen, which, groups, into, source),
        )
        sums = self.pool.take(found)
        self.pool.combine(sums[into[:pairs]], source[:pairs])
        return which[:found], groups[:found], sums

    def forget(self, parts: Int32s, stop: int) -> Slots:
        """Go on at `stop` and let go of tuples before the last n; gives their slots."""
        parts = parts[self.queues.sizes(parts) > 0]
        given = parts[self._next[parts] < stop]
        last = (self.queues.ends(given) - self.window.origin) // self.window.slide
        self._next[given] = np.where((last >= stop) | self.window.idle, stop, FOREVER)
        return self.queues.take(parts, np.maximum(self.queues.sizes(parts) - self.window.size, 0))[1]

    def drop(self, parts: Int32s) -> Slots:
        """Let go of partitions; gives their slots."""
        self._next[parts] = FOREVER
        return self.queues.take(parts, self.queues.sizes(parts))[1]

    @property
    def capacity(self) -> int:
        """Return one more than the largest number of a partition that has room."""
        return len(self._next)

    def _after_restoring(self) -> None:
        self.ensure(len(self._next))
