"""The arrays of AdaptWID: tuples in B, partial aggregates in H, and an entry for each group.

The arrays are those of `operators.kernels.baselines.adaptive`, which says what stands where. Here they are made, grown,
compacted, saved and restored.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from operators.baselines.buffer.log import TupleLog
from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.data.saved import ROOM, apart, bounded
from operators.functions.columns import grown, power
from operators.functions.protocol import Accumulator
from operators.kernels.baselines import adaptive as kernels
from operators.kernels.ticks import BEFORE_ALL, FOREVER


def _integers() -> Int64s:
    return np.empty(0, np.int64)


def _numbers() -> Int32s:
    return np.empty(0, np.int32)


@attrs.define
class Saved(memory.Stateful):
    """Objects as they are saved: groups with their tuples and partial aggregates, without the tables of either."""

    known: Int64s = attrs.field(factory=_integers, metadata=memory.array(least=0))
    eager: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0, below=2, length="known"))
    volumes: Int64s = attrs.field(factory=lambda: np.zeros((0, 0), np.int64), metadata=memory.array(length="known"))
    """Tuples of each known group, by source."""
    tuple_groups: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0))
    tuple_sources: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0, length="tuple_groups"))
    spans: Int64s = attrs.field(
        factory=lambda: np.zeros((0, 2), np.int64), metadata=memory.array(length="tuple_groups")
    )
    live: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0))
    """Rows of partial aggregates in use, and those that are free."""
    free: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0))
    ever: int = attrs.field(default=0, metadata=memory.integer(least=0))
    owners: Int32s = attrs.field(factory=_numbers, metadata=memory.array(least=0, length="live"))
    part_wids: Int64s = attrs.field(
        factory=_integers, metadata=memory.array(least=-1 << 62, below=1 << 62, length="live")
    )
    leaving: Int32s = attrs.field(factory=lambda: np.zeros((0, 0), np.int32), metadata=memory.array(length="live"))


@attrs.define(eq=False)
class Objects(memory.Stateful):
    """Hold B, H and the groups' entries.

    32 bytes a buffered tuple and 36 a partial aggregate besides their values, 28 a group; 4 to 8 more a source.
    """

    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    log: TupleLog = attrs.field(metadata=memory.part())
    counters: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros(kernels.COUNTERS, np.int64),
        metadata=memory.array(least=0, below=1 << 62, length="counters"),
    )
    high: Int64s = attrs.field(init=False, factory=lambda: np.full(1, BEFORE_ALL), metadata=memory.array())
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Saved, "_become", of=lambda objects: objects._saved())
    )
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids are below when this is restored."""
    groups: Int32s = attrs.field(init=False, factory=lambda: _groups(16), metadata=memory.rebuilt())
    volumes: Int64s = attrs.field(init=False, factory=lambda: np.zeros((16, 1), np.int64), metadata=memory.rebuilt())
    tuples: Int32s = attrs.field(init=False, factory=lambda: np.zeros((16, 4), np.int32), metadata=memory.rebuilt())
    spans: Int64s = attrs.field(init=False, factory=lambda: np.zeros((16, 2), np.int64), metadata=memory.rebuilt())
    parts: Int32s = attrs.field(init=False, factory=lambda: np.zeros((16, 3), np.int32), metadata=memory.rebuilt())
    part_wids: Int64s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int64), metadata=memory.rebuilt())
    leaving: Int32s = attrs.field(init=False, factory=lambda: np.zeros((16, 1), np.int32), metadata=memory.rebuilt())
    part_table: Int32s = attrs.field(init=False, factory=lambda: np.full(32, -1, np.int32), metadata=memory.rebuilt())
    free: Int32s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int32), metadata=memory.rebuilt())
    windows: Int32s = attrs.field(init=False, factory=lambda: np.zeros((16, 3), np.int32), metadata=memory.rebuilt())
    wids: Int64s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int64), metadata=memory.rebuilt())
    window_table: Int32s = attrs.field(init=False, factory=lambda: np.full(32, -1, np.int32), metadata=memory.rebuilt())

    def __attrs_post_init__(self) -> None:
        for accumulator in self.accumulators:
            accumulator.reserve(16)

    @property
    def memory(self) -> tuple[Int32s | Int64s, ...]:
        """Return the tables for the kernels, as `operators.kernels.baselines.layout` names them."""
        return (
            self.groups, self.volumes, self.high, self.tuples, self.spans, self.parts, self.part_wids, self.leaving,
            self.part_table, self.free, self.windows, self.wids, self.window_table, self.counters,
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of buffered tuples and partial aggregates."""
        return self.buffered + self.partial

    @property
    def buffered(self) -> int:
        """Return how many tuples are in B."""
        return int(self.counters[kernels.HELD])

    @property
    def partial(self) -> int:
        """Return how many partial aggregates are in H."""
        return int(self.counters[kernels.LIVE])

    @property
    def entries(self) -> int:
        """Return how many groups have an unexpired tuple."""
        return int(self.counters[kernels.ENTRIES])

    @property
    def peak(self) -> int:
        """Return the most objects (tuples in B, partial aggregates, groups) held after any tuple."""
        return int(self.counters[kernels.PEAK])

    @property
    def peak_weight(self) -> int:
        """Return the most that objects weighed together after any tuple."""
        return int(self.counters[kernels.WEIGHT])

    @property
    def switches(self) -> tuple[int, int]:
        """Return the switches to eager and to lazy."""
        return int(self.counters[kernels.TO_EAGER]), int(self.counters[kernels.TO_LAZY])

    @property
    def scanned(self) -> int:
        """Return how many buffered tuples switches looked at: those of the groups that switched."""
        return int(self.counters[kernels.SCANNED])

    def account(self, ids: Int32s) -> tuple[Int64s, Int32s, Int32s, Int32s]:
        """Return for these groups: volumes, shape (n, sources), whether eager, partial aggregates, tuples in B."""
        rows = self.groups[ids]
        return (
            self.volumes[ids],
            rows[:, kernels.EAGER],
            rows[:, kernels.PARTS],
            rows[:, kernels.TUPLES],
        )

    def grow_groups(self, capacity: int) -> None:
        """Make room for groups 0 <= g < capacity."""
        if capacity > len(self.groups):
            size, known = max(capacity, 2 * len(self.groups)), len(self.groups)
            self.volumes = grown(self.volumes, size)
            self.groups = grown(self.groups, size)
            self.groups[known:, kernels.NEWEST] = -1

    def grow_sources(self, sources: int) -> None:
        """Make room for sources 0 <= k < sources."""
        more = sources - self.volumes.shape[1]
        if more > 0:
            self.volumes = np.pad(self.volumes, ((0, 0), (0, more)))
            self.leaving = np.pad(self.leaving, ((0, 0), (0, more)))
            self.high = np.pad(self.high, (0, more), constant_values=BEFORE_ALL)

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that anything is in; endless ones count up to `latest`."""
        wids = self.wids[: int(self.counters[kernels.OPEN])]
        return int(np.where(wids == FOREVER - 1, latest, wids).max(initial=BEFORE_ALL)) + 1

    def over(self, bound: int) -> bool:
        """Return whether a tuple, or a partial aggregate, is held that is in no window from `bound` on."""
        spans = self.spans[: int(self.counters[kernels.MADE])]
        return bool((spans[:, 1] <= bound).any() or (self.part_wids[self.live()] < bound).any())

    def expired(self, bound: int) -> Int64s:
        """Return the tuples of B that are in no window from `bound` on."""
        found = np.empty(self.buffered, np.int64)
        n = kernels.expired(bound, self.memory, found)
        return found[:n]

    def ordered(self, stop: int) -> Int64s:
        """Return the rows of the windows below `stop` that have partial aggregates, by window-id."""
        n = int(self.counters[kernels.OPEN])
        rows = np.flatnonzero((self.wids[:n] < stop) & (self.windows[:n, kernels.SIZE] > 0))
        return rows[np.argsort(self.wids[rows])]

    def begin(self, fresh: Int32s) -> None:
        """Set new partial aggregates to the identity."""
        if len(fresh):
            for accumulator in self.accumulators:
                accumulator.init(fresh)

    def reserve(self, parts: int, windows: int, tuples: int) -> None:
        """Make room for more partial aggregates, windows and tuples, at least doubling what is too small."""
        counters = self.counters
        needed = int(counters[kernels.LIVE]) + parts
        if needed > len(self.parts):
            size = power(needed)
            self.parts, self.leaving = grown(self.parts, size), grown(self.leaving, size)
            self.part_wids, self.free = grown(self.part_wids, size), grown(self.free, size)
            self.part_table = np.full(2 * size, -1, np.int32)
            kernels.rehash(self.live(), self.memory)
            for accumulator in self.accumulators:
                accumulator.reserve(size)
        if int(counters[kernels.OPEN]) + windows > len(self.wids):
            kernels.close_windows(BEFORE_ALL, self.memory)
        needed = int(counters[kernels.OPEN]) + windows
        if needed > len(self.wids):
            size = power(needed)
            self.windows, self.wids = grown(self.windows, size), grown(self.wids, size)
            self.window_table = np.full(2 * size, -1, np.int32)
            kernels.rehash_windows(self.memory)
        if int(counters[kernels.MADE]) + tuples > len(self.tuples):
            size = 2 * len(self.tuples)
            self.tuples, self.spans = grown(self.tuples, size), grown(self.spans, size)

    def live(self) -> Int32s:
        """Return the rows of the partial aggregates there are."""
        return self.chained(np.arange(int(self.counters[kernels.OPEN])))

    def chained(self, order: Int64s) -> Int32s:
        """Return the rows of the partial aggregates of some windows, window by window."""
        slots = np.empty(int(self.windows[order, kernels.SIZE].sum()), np.int32)
        kernels.chains(order, self.memory, slots)
        return slots

    def compact(self, *, slack: int = 1024) -> None:
        """Cut out the tuples that left B when they are more than those that stayed."""
        made, held = int(self.counters[kernels.MADE]), self.buffered
        if made <= 2 * held + slack and not (held == 0 < made):
            return
        self.log.keep(self.tuples[:made, kernels.GROUP] >= 0)
        kernels.compact(self.memory)
        kernels.close_windows(BEFORE_ALL, self.memory)

    def _before_saving(self) -> None:
        made = int(self.counters[kernels.MADE])
        if made > self.buffered:
            self.compact(slack=-made)

    def _saved(self) -> Saved:
        made, free = self.buffered, int(self.counters[kernels.FREE])
        known, live = np.flatnonzero(self.volumes.any(axis=1)), self.live()
        return Saved(
            known,
            self.groups[known, kernels.EAGER],
            self.volumes[known],
            self.tuples[:made, kernels.GROUP],
            self.tuples[:made, kernels.SOURCE],
            self.spans[:made],
            live,
            self.free[:free],
            int(self.counters[kernels.EVER]),
            self.parts[live, kernels.OWNER],
            self.part_wids[live],
            self.leaving[live],
        )

    def _become(self, saved: Saved) -> None:
        known, live, free, ever = apart(saved.known, "known", below=self.capacity), saved.live, saved.free, saved.ever
        sources, high = saved.volumes.shape[1], self.high
        bounded(high, "high", least=None, below=None, length=sources)
        self.grow_sources(sources)
        self.high = high
        size = power(int(known.max(initial=0)) + 1)
        self.groups, self.volumes = _groups(size), grown(self.volumes[:0], size)
        self.groups[known, kernels.EAGER] = saved.eager
        self.volumes[known] = saved.volumes
        # Each row ever given away is in use or free.
        if ever != len(live) + len(free):
            raise ValueError(f'the saved state has {ever} as "ever", and rows of another number')
        apart(np.concatenate((live, free)), "live", below=ever)
        owners, wids, leaving = bounded(saved.owners, "owners", below=size), saved.part_wids, saved.leaving
        groups, spans = bounded(saved.tuple_groups, "tuple_groups", below=size), saved.spans
        made, of = len(groups), bounded(saved.tuple_sources, "tuple_sources", below=sources)
        if (spans[:, 0] >= spans[:, 1]).any():
            raise ValueError('the saved state has tuples in no window in "spans"')
        held = np.zeros_like(self.volumes)
        np.add.at(held, (groups, of), 1)
        np.add.at(held, owners, leaving)
        if not np.array_equal(held, self.volumes):
            raise ValueError('the saved state has "volumes" that are not those of its tuples')
        if len(np.unique(np.stack((owners, wids)), axis=1).T) < len(live):
            raise ValueError("the saved state has two partial aggregates of one group and window")
        self.counters[[kernels.OPEN, kernels.LIVE, kernels.EVER, kernels.FREE, kernels.MADE]] = 0
        self.counters[kernels.HELD] = made
        self.counters[kernels.ENTRIES] = np.count_nonzero(held.any(axis=1))
        # Rows are handed out again from the end of the free list, and so come to their old places.
        self.reserve(power(ever), len(np.unique(np.concatenate((wids, spans[:, 1] - 1)))), 0)
        self.free[: len(live)] = live[::-1]
        self.counters[[kernels.EVER, kernels.FREE]] = ever, len(live)
        kernels.enter(owners, wids, self.memory, np.empty(len(live), np.int32))
        self.leaving[live] = leaving
        self.free[: len(free)] = free
        self.counters[kernels.FREE] = len(free)
        size = power(made)
        self.tuples, self.spans = np.zeros((size, 4), np.int32), np.zeros((size, 2), np.int64)
        self.tuples[:made, kernels.GROUP], self.tuples[:made, kernels.SOURCE] = groups, of
        self.spans[:made] = spans
        np.add.at(self.groups[:, kernels.TUPLES], groups, 1)
        self.counters[kernels.MADE] = made
        kernels.compact(self.memory)
        if len(self.log) != made:
            raise ValueError(f"the saved state has {len(self.log)} tuples of {made} groups")
        for accumulator in self.accumulators:
            accumulator.reserve(len(self.parts))


def _groups(size: int) -> Int32s:
    """Make entries for groups that hold nothing."""
    groups = np.zeros((size, 5), np.int32)
    groups[:, kernels.NEWEST] = -1
    return groups
