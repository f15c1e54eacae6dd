"""A slice store keeps one partial aggregate for each (slice, group), and combines them into windows.

Each tuple updates one slot, however many windows it is in; closing a slice costs its own slots and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.page import Array, Int32s, Int64s, Page
from operators.data.saved import ROOM, apart, bounded
from operators.functions.columns import grown, power
from operators.functions.protocol import Accumulator
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows import layout
from operators.kernels.windows import slots as kernels
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.store import Held, Released
from operators.window_aggregate.stores.per_window.ranges import Ranges
from operators.window_aggregate.stores.per_window.rows import Rows
from operators.window_aggregate.stores.per_window.running import Running
from operators.window_aggregate.strategy import (
    PARTS_A_WINDOW,
    Carrying,
    Way,
    carries_over,
    fills_vectors,
    subtractable,
)

Slots = Int32s
Words = npt.NDArray[np.uint64]
_BUDGET = 1 << 18
_FEW_SLICES = 4
_FEW_OPENED = 8
BYTES_A_SLOT = 50
"""What a slot takes besides the accumulators."""


@attrs.define
class Saved(memory.Stateful):
    """The slots of a store as they are saved: which there are, and the slice and group of each."""

    made: int = attrs.field(default=0, metadata=memory.integer(least=0, most=ROOM))
    """How many there have ever been at once."""
    slots: Int32s = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array(below="made", apart=True))
    pairs: Words = attrs.field(factory=lambda: np.empty(0, np.uint64), metadata=memory.array(length="slots"))
    chained: bool = attrs.field(default=True, metadata=memory.flag(since=1))
    """Whether those of a group are chained, as they always were in earlier versions."""
    technique: str = attrs.field(default="", metadata=memory.text())
    """How windows are carried over, if they are."""
    suffixed: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), metadata=memory.array())
    """The slices that hold suffixes."""


@attrs.define
class SliceStore(memory.Stateful):
    """Hold slots, about 50 bytes each besides the accumulators, chained by slice, and by group once single groups end.

    `technique` says how windows are made of slices: "combine" anew for each window, "differential" or "two_stacks" from
    the window before; "auto" carries over what is worth it, which is decided anew at each release.
    """

    ranges: Ranges = attrs.field(init=False, metadata=memory.part(beside=True))
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Saved, "_become", of=lambda own: own._saved())
    )
    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    ordered: bool = attrs.field(default=False, kw_only=True)
    """Whether slices must be combined in their order, the earliest first, because a function is not commutative."""
    technique: Carrying | Literal["auto", "combine"] = "auto"
    endless: bool = attrs.field(default=False, kw_only=True)
    """Whether windows never let go of a tuple (RANGE ALL): slices that began before a bound become one."""
    _running: Running | None = attrs.field(init=False, default=None, metadata=memory.counted())
    _pairs: npt.NDArray[np.uint64] = attrs.field(init=False, metadata=memory.rebuilt())
    _table: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _counters: Int64s = attrs.field(init=False)
    _free: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _links: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _by_slice: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _sizes: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _held: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _by_group: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _kin: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    _own: Int64s = attrs.field(init=False, metadata=memory.sparse("own_bounds", name="own_groups", places="capacity"))
    _seen: Int32s = attrs.field(init=False, metadata=memory.rebuilt())
    """-1 for each group: room for a release, which sets only those of its own windows and puts them back."""
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids are below when this is restored."""
    _rows: Rows = attrs.field(init=False, metadata=memory.counted())

    def __attrs_post_init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._pairs = np.zeros(16, np.uint64)
        self._table = np.full(32, -1, np.int32)
        self._counters = np.zeros(4, np.int64)
        self._free = np.empty(16, np.int32)
        self._links = np.empty((16, 2), np.int32)
        self._by_slice = np.full(16, -1, np.int32)
        self._sizes = np.zeros(16, np.int64)
        self._held = np.zeros(16, np.int32)
        self._by_group, self._kin = np.empty(0, np.int32), np.empty((0, 2), np.int32)
        self._own = np.full(16, BEFORE_ALL)
        self._seen = np.empty(0, np.int32)
        self._rows, self.ranges = Rows(), Ranges()
        for accumulator in self.accumulators:
            accumulator.reserve(16)

    @property
    def _memory(self) -> tuple[Array, ...]:
        """Return the tables for the kernels, as `operators.kernels.windows.layout` names them."""
        return (
            self._rows.row_of, self._rows.slots, self._pairs, self._table, self._counters, self._free, self._by_slice,
            self._links, self._sizes, self._held, self._by_group, self._kin,
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of partial aggregates."""
        return int(self._counters[layout.HELD])

    @property
    def carried(self) -> int:
        """Return the number of aggregates carried from window to window."""
        return 0 if self._running is None else self._running.held

    @property
    def way(self) -> Way:
        """Return how windows are made of slices now."""
        return "combined" if self._running is None else self._running.technique

    def update(self, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        """Add tuples, each to the slot of its slice [first, last) and group; `capacity` is above every group id."""
        if len(first) == 0:
            return
        slots = self.place(first, last, groups, capacity, alike=FROM in page.same)
        for accumulator in self.accumulators:
            accumulator.update(slots, page)

    def place(self, first: Int64s, last: Int64s, groups: Int32s, capacity: int, *, alike: bool = False) -> Slots:
        """Return the slot of each slice [first, last) and group, at least one; those that are new are made ready.

        All slices are one where they are `alike`.
        """
        if self.groups < capacity:
            self._widen(max(capacity, 2 * self.groups))
        slices, opened = self.ranges.locate(first, last, alike=alike)
        if opened:
            self._enter(opened)
        return self._locate(slices, groups)

    def place_in(self, wid: int, groups: Int32s, capacity: int) -> Slots:
        """Return the slot of each group in one window, at least one, as `place` does."""
        number = self.ranges.number(wid, wid + 1)
        if number is None or self.groups < capacity:
            first = self.place(np.array([wid]), np.array([wid + 1]), groups[:1], capacity)
            if len(groups) == 1:
                return first
            number = self.ranges.number(wid, wid + 1)
        return self._locate(np.full(len(groups), number, np.int32), groups)

    def _widen(self, groups: int) -> None:
        """Make room for ids of groups below `groups`, or below those there is room for."""
        size = max(groups, self.groups)
        self._held = grown(self._held, size)
        if self._chained:
            self._by_group = grown(self._by_group, size, fill=-1)
        self._own = grown(self._own, size, fill=BEFORE_ALL)
        self._rows.widen(size)

    def _enter(self, slices: Sequence[int]) -> None:
        """Make room for slices that were opened."""
        size = len(self.ranges.starts)
        self._by_slice, self._sizes = grown(self._by_slice, size, fill=-1), grown(self._sizes, size)
        self._rows.reserve(size)
        for number in slices:
            if not self._rows.give(number, used=len(self)) and not self._hand_over(number, among=len(slices)):
                break

    def _hand_over(self, number: int, among: int) -> bool:
        """Hand the oldest row to a slice: most tuples come to the newest slices.

        Not to one among many that were opened at once, to each of which few tuples come.
        """
        owners, ends = self._rows.owners, self.ranges.ends
        if among > _FEW_OPENED or len(owners) == 0:
            return False
        oldest = int(owners[np.argmin(ends[owners])])
        if ends[oldest] >= ends[number]:
            return False
        slots = np.empty(int(self._sizes[oldest]), np.int32)
        kernels.members(np.array([oldest], np.int32), self._by_slice, self._links, slots)
        self._rows.hand_over(oldest, number, (self._pairs[slots] & np.uint64(0xFFFFFFFF)).astype(np.int32))
        kernels.rehash(slots, self._rows.row_of, self._pairs, self._table)
        return True

    def _locate(self, slices: Int32s, groups: Int32s) -> Slots:
        slots = np.empty(len(slices), np.int32)
        fresh = np.empty(min(len(slices), 1 << 16), np.int32)
        done = 0
        while True:
            self._counters[layout.FRESH] = 0
            done = kernels.locate(slices, groups, self._memory, slots, fresh, done)
            new = fresh[: int(self._counters[layout.FRESH])]
            for accumulator in self.accumulators if len(new) else ():
                accumulator.init(new)
            if done == len(slices):
                return slots
            if len(new) < len(fresh):
                self._grow(2 * len(self._pairs))

    def _grow(self, size: int) -> None:
        live = self._live()
        self._pairs = grown(self._pairs, size)
        self._free = grown(self._free, size)
        self._links = grown(self._links, size)
        if self._chained:
            self._kin = grown(self._kin, size)
        self._table = np.full(2 * size, -1, np.int32)
        kernels.rehash(live, self._rows.row_of, self._pairs, self._table)
        for accumulator in self.accumulators:
            accumulator.reserve(size)

    @property
    def _chained(self) -> bool:
        """Return whether slots are chained by group."""
        return len(self._kin) > 0

    def _chain(self) -> None:
        """Chain slots by group from now on."""
        if not self._chained:
            self._by_group = np.full(self.groups, -1, np.int32)
            self._kin = np.empty((len(self._links), 2), np.int32)
            kernels.chain(self._live(), self._pairs, self._by_group, self._kin)

    def _close(self, slices: Sequence[int]) -> None:
        """Forget slices that have no slot left."""
        self._rows.take(slices)
        if self._running is not None:
            self._running.closed(np.array(slices, np.int32))
        self.ranges.close(slices)

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound), a bounded number at a time; slots hold until the next."""
        technique, running = self._worthwhile(released), self._running
        if running is None and technique is not None:
            self._running = running = Running(self, technique)
        if running is not None:
            running.ending = technique is None
            yield from running.release(released, bound)
            if running.ended is None:
                return
            self._running, released = None, running.ended
        order, starts, ends = self.ranges.order, self.ranges.starts, self.ranges.ends
        while released < bound and len(order):
            order = order[ends[order] > released]
            if len(order) == 0:
                return
            first, stop, pairs = kernels.stretch(
                max(released, int(starts[order[0]])), bound, order, starts, ends, self._sizes, _BUDGET
            )
            if pairs == 0:
                return
            wids, into = np.empty(pairs, np.int64), np.empty(pairs, np.int32)
            groups, source = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
            if len(self._seen) < self.groups:
                self._seen = np.full(self.groups, -1, np.int32)
            results, n = kernels.cover(
                first, stop, order, starts, ends, self._memory, self._own, self._seen, wids, groups, into, source
            )
            self._seen[groups[:results]] = -1
            yield from self._combined(wids[:results], groups[:results], into[:n], source[:n])
            released = stop

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`."""
        self._chain()
        suffixed = np.zeros(len(self.ranges.starts), np.bool_)
        if self._running is not None:
            self._running.detach(which)
            suffixed = self._running.suffixed
        fixed = (which, released, bound, self.ranges.starts, self.ranges.ends, suffixed, self._memory, self._own)
        nothing64, nothing32 = np.empty(0, np.int64), np.empty(0, np.int32)
        results, n = kernels.cover_groups(*fixed, nothing64, nothing32, nothing32, nothing32)
        wids, groups = np.empty(results, np.int64), np.empty(results, np.int32)
        into, source = np.empty(n, np.int32), np.empty(n, np.int32)
        kernels.cover_groups(*fixed, wids, groups, into, source)
        if self.ordered:
            # A group's chain lists its slots as they were made, or restored.
            slices = (self._pairs[source] >> np.uint64(32)).astype(np.int64)
            source = source[np.lexsort((self.ranges.ends[slices], self.ranges.starts[slices], into))]
        yield from self._combined(wids, groups, into, source)
        self._own[which] = np.maximum(self._own[which], bound)

    def _worthwhile(self, released: int) -> Carrying | None:
        """Decide how the windows from here on are made of their slices; None to combine each anew.

        What it costs is taken over all windows that the open slices are in.
        """
        if self.technique in ("differential", "two_stacks"):
            return self.technique
        carried = None if self._running is None else self._running.technique
        if carried is None and len(self) < PARTS_A_WINDOW:
            # No window has so many.
            return None
        order = self.ranges.order
        begin, end = np.maximum(self.ranges.starts[order], released), self.ranges.ends[order]
        few = len(order) < _FEW_SLICES or (end == FOREVER).any()
        if self.technique == "combine" or (carried is None and few):
            return None
        within = end > begin
        sizes = self._sizes[order][within]
        if not within.any():
            return carried
        windows = int(end[within].max() - begin[within].min())
        parts = float(sizes @ (end - begin)[within].astype(np.float64))
        slots = float(sizes.sum())
        return carries_over(self.accumulators, windows=windows, parts=parts, slots=slots, carried=carried)

    @property
    def own(self) -> Int64s:
        """Return the window up to which each group has been released by itself."""
        return self._own

    @property
    def groups(self) -> int:
        """Return a number that group ids stay below until the next update."""
        return len(self._held)

    @property
    def chains(self) -> tuple[Int32s, Int32s, npt.NDArray[np.uint64]]:
        """Return where each slice's chain of slots begins, the links of the chains, and (slice, group) of each slot."""
        return self._by_slice, self._links, self._pairs

    def room(self, numbers: Int32s) -> int:
        """Return the number of slots of these slices."""
        return int(self._sizes[numbers].sum())

    def take(self, count: int) -> Slots:
        """Take slots that belong to no slice, made ready."""
        spare = min(count, int(self._counters[layout.SPARE]))
        left = int(self._counters[layout.SPARE]) - spare
        slots = np.empty(count, np.int32)
        slots[:spare] = self._free[left : left + spare]
        self._counters[layout.SPARE] = left
        slots[spare:] = np.arange(self.beyond(count - spare), int(self._counters[layout.MADE]) + count - spare)
        self._counters[layout.MADE] += count - spare
        for accumulator in self.accumulators:
            accumulator.init(slots)
        return slots

    def give(self, slots: Slots) -> None:
        """Take back slots that were given out."""
        for accumulator in self.accumulators:
            accumulator.free(slots)
        spare = int(self._counters[layout.SPARE])
        self._free[spare : spare + len(slots)] = slots
        self._counters[layout.SPARE] += len(slots)

    def beyond(self, count: int) -> int:
        """Make sure that there are so many slots behind those ever made, and give the first."""
        base = int(self._counters[layout.MADE])
        if base + count > len(self._pairs):
            self._grow(power(base + count))
        return base

    def _combined(self, wids: Int64s, groups: Int32s, into: Int32s, source: Slots) -> Iterator[Released]:
        if len(wids) == 0:
            return
        if len(into) == len(wids):
            yield Released(wids, groups, source)
            return
        # Result slots stand behind the slots ever made, so they need no place in the table or the chains.
        base = self.beyond(len(wids))
        slots = np.arange(base, base + len(wids), dtype=np.int32)
        targets = into + np.int32(base)
        for accumulator in self.accumulators:
            accumulator.init(slots)
            accumulator.combine(targets, source)
        yield Released(wids, groups, slots)
        for accumulator in self.accumulators:
            accumulator.free(slots)

    def close(self, bound: int) -> Int32s:
        """Forget the slices that are in no window from `bound` on; gives the groups left without a slot."""
        numbers = self.ranges.order
        numbers = numbers[self.ranges.ends[numbers] <= bound]
        idle = np.empty(0, np.int32)
        if len(numbers):
            slots = np.empty(int(self._sizes[numbers].sum()), np.int32)
            kernels.members(numbers, self._by_slice, self._links, slots)
            idle = self._drop(slots)
            self._close(numbers.tolist())
        return np.concatenate((idle, self.fold(bound))) if self.endless else idle

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; gives the groups left without a slot."""
        self._chain()
        out = np.empty(len(self), np.int32)
        n = kernels.settled(which, bound, self.ranges.ends, self._by_group, self._kin, self._pairs, out)
        touched = distinct(self._pairs[out[:n]] >> np.uint64(32)).astype(np.int32)
        idle = self._drop(out[:n])
        if empty := touched[self._sizes[touched] == 0].tolist():
            self._close(empty)
        return idle

    def fold(self, bound: int) -> Int32s:
        """Combine the endless slices that began before `bound` into one (landmark windows never let go of a tuple)."""
        begun = self.ranges.endless(bound)
        if len(begun) < 2:
            return np.empty(0, np.int32)
        base, *rest = begun
        others = np.array(rest, np.int32)
        source = np.empty(int(self._sizes[others].sum()), np.int32)
        kernels.members(others, self._by_slice, self._links, source)
        groups = (self._pairs[source] & np.uint64(0xFFFFFFFF)).astype(np.int32)
        into = self._locate(np.full(len(source), base, np.int32), groups)
        for accumulator in self.accumulators:
            accumulator.combine(into, source)
        idle = self._drop(source)
        self._close(others.tolist())
        return idle

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups whose ids will be given away."""
        self._own[groups] = BEFORE_ALL
        if self._running is not None:
            self._running.forget(groups)

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that a slice is in; endless slices count up to `latest`."""
        return self.ranges.horizon(latest)

    def held(self) -> Held:
        """Return the windows and the group of each slot, without those released for the group alone."""
        pairs = self._pairs[self._live()]
        slices, groups = (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int32)
        return Held(np.maximum(self.ranges.starts[slices], self._own[groups]), self.ranges.ends[slices], groups)

    def windows(self) -> Released:
        """Return what each slot holds, of slices that are one window each; nothing is released by it."""
        slots, pairs = self.everything()
        slices, groups = (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int32)
        return Released(self.ranges.starts[slices], groups, slots)

    def _drop(self, slots: Slots) -> Int32s:
        idle = np.empty(len(slots), np.int32)
        left = kernels.drop(slots, self._memory, idle)
        for accumulator in self.accumulators:
            accumulator.free(slots)
        return idle[:left]

    @property
    def made(self) -> int:
        """Return a number that all slots ever made are below."""
        return int(self._counters[layout.MADE])

    def everything(self) -> tuple[Slots, npt.NDArray[np.uint64]]:
        """Return the slot, and (slice, group), of each partial aggregate."""
        live = self._live()
        return live, self._pairs[live]

    def filled(self, groups: int) -> bool:
        """Return whether so many groups are better put in vectors, and all that is held may be."""
        carried = self._running is None or self._running.technique == "differential"
        return (
            carried
            and not self._chained
            and fills_vectors(
                groups=groups, slices=len(self.ranges), parts=len(self), width=self.width, beside=BYTES_A_SLOT
            )
        )

    @property
    def width(self) -> int:
        """Return the bytes of what is aggregated in a slot."""
        return sum(accumulator.nbytes for accumulator in self.accumulators) // len(self._pairs)

    def _live(self) -> Slots:
        numbers = self.ranges.order
        slots = np.empty(len(self), np.int32)
        kernels.members(numbers, self._by_slice, self._links, slots)
        return slots

    def _saved(self) -> Saved:
        live, running = self._live(), self._running
        technique, suffixed = "", np.empty(0, np.int64)
        if running is not None:
            technique, suffixed = running.technique, np.flatnonzero(running.suffixed)
        return Saved(int(self._counters[layout.MADE]), live, self._pairs[live], self._chained, technique, suffixed)

    def _become(self, saved: Saved) -> None:
        made, slots, pairs = saved.made, saved.slots, saved.pairs
        in_order = np.sort(pairs)  # np.unique would hash them, which takes ten times as long
        if (in_order[1:] == in_order[:-1]).any():
            raise ValueError("the saved state has two partial aggregates of one slice and group")
        groups = bounded((pairs & np.uint64(0xFFFFFFFF)).astype(np.int64), "pairs", below=self.capacity)
        if not np.isin((pairs >> np.uint64(32)).astype(np.int64), self.ranges.order).all():
            raise ValueError("the saved state has partial aggregates of slices that it does not have")
        self._enter(())
        self._held = np.zeros(power(int(groups.max(initial=-1)) + 1), np.int32)
        self._rows.widen(len(self._held))
        self._grow(power(made))
        if saved.chained:
            self._chain()
        # Slots are handed out again, from the end of the free list, in the reverse of the order in which chains list
        # them: so each gets its old number and its old place.
        unused = np.ones(made, np.bool_)
        unused[slots] = False
        spare = np.flatnonzero(unused)
        self._free[: len(spare)] = spare
        self._free[len(spare) : made] = slots
        self._counters[:] = (0, made, made, 0)
        wanted = (pairs >> np.uint64(32)).astype(np.int32)
        self._locate(wanted[::-1].copy(), groups[::-1].astype(np.int32))
        if saved.technique == "two_stacks" or (saved.technique == "differential" and subtractable(self.accumulators)):
            self._running = Running(self, saved.technique)
            suffixed = apart(saved.suffixed, "suffixed", below=len(self.ranges.starts))
            if not np.isin(suffixed, self.ranges.order).all():
                raise ValueError("the saved state has suffixes in slices that it does not have")
            self._running.resume(suffixed.astype(np.int32))
        elif saved.technique:
            raise ValueError(
                f'the saved state has "{saved.technique}" as "technique", by which nothing here is carried over'
            )

    def _after_restoring(self) -> None:
        # New slots were made ready when they were handed out, so what they hold was read only now.
        self._widen(len(self._own))
        for accumulator in self.accumulators:
            accumulator.reserve(len(self._pairs))
            accumulator.free(self._free[: int(self._counters[layout.SPARE])])
