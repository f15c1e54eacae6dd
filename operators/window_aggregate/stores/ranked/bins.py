"""A bin store keeps each group's aggregate of (x - RANGE, x] as a step function of x, and the x at which to read it.

It is the thesis' S and E (Fig 6-7): every tuple starts a bin at its value and ends one RANGE behind it, and each bin
takes up the tuples in reach. Here one bin serves for both kinds, and what S has over E, that it is read, is a list of
its own: values with their multiplicity. A page is entered as a whole: its tuples are added up by value first, and the
bins take up ranges of values by two stacks. That is what entering tuple after tuple gives, at O(1) combinations a value
and a bin in reach, however far the range goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s, Page
from operators.functions.columns import frozen, grown
from operators.functions.protocol import Slots
from operators.kernels.ranked import bins as kernels
from operators.kernels.ranked import layout
from operators.kernels.ranked.ranked import arrange
from operators.window_aggregate.stores.ranked.queues import Queues, lengths
from operators.window_aggregate.stores.ranked.slots import Pool

_NONE: Int64s = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class Runs:
    """The distinct values of a page by queue: those of queues[j] stand before ends[j], in order."""

    queues: Int32s
    ends: Int64s
    values: Int64s
    weights: Int64s
    numbers: Int64s
    """Which of them each tuple has, shape (n,)."""


@attrs.frozen(eq=False)
class Due:
    """Windows to be read: those of parts[j] stand before ends[j]; each is worth times[i] rows if rows are repeated."""

    parts: Int32s
    ends: Int64s
    wids: Int64s
    times: Int64s


@attrs.define(eq=False)
class BinStore(memory.Stateful):
    """Hold bins, 12 bytes each and a slot of the pool, and window-ids, 16 bytes each; as much again to spare."""

    pool: Pool = attrs.field(metadata=memory.part())
    size: int
    capacity: int = attrs.field(init=False, default=1)
    """What groups and partitions are below when this is restored."""
    bins: Queues[np.int32] = attrs.field(
        init=False,
        factory=lambda: Queues(np.int32),
        metadata=memory.part(most="capacity", below_items="pool.made"),
    )
    windows: Queues[np.int64] = attrs.field(
        init=False, factory=lambda: Queues(np.int64), metadata=memory.part(most="capacity")
    )
    bases: Slots = attrs.field(
        init=False,
        factory=lambda: np.full(1, -1, np.int32),
        metadata=memory.sparse("bases", name="based", fill=-1, places="capacity", least=0, below="pool.made"),
    )
    _counts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.rebuilt())

    def ensure(self, capacity: int) -> None:
        """Let there be groups and partitions with ids below a capacity."""
        self.bins.ensure(capacity)
        self.windows.ensure(capacity)
        self.bases = grown(self.bases, len(self.bins.heads), fill=-1)
        self._counts = grown(self._counts, len(self.bins.heads))

    def runs(self, queues: Int32s, values: Int64s, weights: Int64s | None) -> Runs:
        """Find the distinct values of each queue's tuples and add up their weights, ones when none are given."""
        order = _NONE if len(values) < 2 or bool((values[1:] >= values[:-1]).all()) else np.argsort(values)
        if len(self._counts) == 1:
            touched, ends = np.zeros(min(1, len(values)), np.int32), np.full(min(1, len(values)), len(values))
        else:
            touched, ends = np.empty(len(queues), np.int32), np.empty(len(queues), np.int64)
            permuted = np.empty(len(queues), np.int64)
            found = arrange(queues, order, self._counts, touched, ends, permuted)
            touched, ends, order = touched[:found], ends[:found], permuted
        numbers, run_ends = np.empty(len(values), np.int64), np.empty(len(ends), np.int64)
        run_values, run_weights = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        weights = _NONE if weights is None else weights
        count = kernels.distinct(order, ends, frozen(values), weights, numbers, run_values, run_weights, run_ends)
        return Runs(touched, run_ends, run_values[:count], run_weights[:count], numbers)

    def enter(self, page: Page, runs: Runs, limits: Int64s, late: bool) -> None:
        """Add tuples to the bins of their groups; limits[j] is what group queues[j] is released up to."""
        count = len(runs.values)
        added = self.pool.take(count)
        self.pool.update(added[runs.numbers], page)
        self.bins.room(runs.queues, 2 * lengths(runs.ends))
        fresh = self.pool.take(2 * count + (len(runs.queues) if late else 0))
        pairs = np.empty((2, 2 * count), np.int32)
        most = int(self.bins.sizes(runs.queues).sum()) + len(fresh)
        targets, ranges = np.empty(most, np.int32), np.empty((2, most), np.int64)
        made, seeded, asked = kernels.enter(
            runs.queues, runs.ends, runs.values, limits, self.size, self.bins.tables, self.bases,
            fresh, np.empty((2, 2 * count), np.int64), pairs, targets, ranges,
        )  # fmt: skip
        into, source = pairs[:, :seeded]
        lows, highs = ranges[:, :asked]
        self.pool.combine(into, source)
        self.pool.add_ranges(added, lows, highs, targets[:asked])
        self.pool.give(np.concatenate((added, fresh[made:])))

    def open(self, runs: Runs, limits: Int64s) -> None:
        """Have the bins read at these values, by partition; a value below its partition's limit is late."""
        weights = runs.weights
        late = runs.values < np.repeat(limits, lengths(runs.ends))
        if late.any():
            weights = np.where(late, 0, weights)
        self.windows.weigh(runs.queues, runs.ends, runs.values, weights)

    def due(self, parts: Int32s, bound: int, ranks: Int64s, every: int) -> Due:
        """Take out the windows of partitions that end below a bound: of the ranks of their tuples, every n-th."""
        _, counts = self.windows.below(parts, bound)
        wids, weights = self.windows.take(parts, counts)
        ends = np.cumsum(counts)
        if every == 1:
            return Due(parts, ends, wids, weights)
        times = np.empty(len(wids), np.int64)
        kernels.multiples(parts, ends, weights, ranks, every, times)
        kept = np.flatnonzero(times)
        return Due(parts, np.searchsorted(kept, ends), wids[kept], times[kept])

    def read(self, due: Due, groups: Int32s, segments: Int32s, rows: int) -> Iterator[tuple[Int64s, Int32s, Slots]]:
        """Yield which window of `due`, which group and which slot, at most `rows` at a time."""
        cursor = np.zeros(2, np.int64)
        rows = max(1, min(rows, len(due.wids) * max(1, len(groups))))
        while cursor[layout.QUEUE] < len(groups):
            which, owners = np.empty(rows, np.int64), np.empty(rows, np.int32)
            slots = np.empty(rows, np.int32)
            n = kernels.read(
                groups, segments, due.ends, due.wids, self.bins.tables, self.bases, cursor, which, owners, slots
            )
            if n:
                yield which[:n], owners[:n], slots[:n]

    def purge(self, groups: Int32s, bound: int) -> Int32s:
        """Forget the bins below a bound, but for what holds at the bound; gives the groups left without a bin."""
        bins = self.bins
        _, counts = bins.below(groups, bound)
        gone, idle = np.empty(int(counts.sum()) + len(groups), np.int32), np.empty(len(groups), np.int32)
        freed, left = kernels.purge(groups, counts, bins.tables, self.bases, gone, idle)
        bins.vacate(idle[:left])
        self.pool.give(gone[:freed])
        return idle[:left]

    def _after_restoring(self) -> None:
        self.ensure(self.capacity)
