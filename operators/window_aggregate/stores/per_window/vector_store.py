"""A vector store keeps a vector of all groups for each slice, and carries the sum of a window over to the next.

It takes the place of a `SliceStore` once groups are many and most of them are in most slices: then a place that follows
from the group's id costs less than a slot that has to be found. A window that shares slices with the one before it is
that, and what has entered, less what has left (thesis Eq. 6.2), so only what can be subtracted exactly is carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.digests import Words
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM, bounded, prefixed
from operators.functions.columns import grown
from operators.functions.protocol import Accumulator, Slots, Subtractable
from operators.kernels.ticks import FAR, FOREVER
from operators.protocol import State
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.store import Held, Released
from operators.window_aggregate.stores.per_window.ranges import Ranges
from operators.window_aggregate.stores.per_window.store import BYTES_A_SLOT, SliceStore
from operators.window_aggregate.stores.slices.vectors import Vectors
from operators.window_aggregate.strategy import Carrying, Way, carries_over, leaves_vectors

_WINDOWS: Final = 1 << 10
"""Windows of single groups that are combined at a time."""


@attrs.define(eq=False)
class VectorStore(memory.Stateful):
    """Hold a vector of groups for each slice, some bytes for each group whether it is there or not.

    Cost: O(1) a tuple; a window costs O(groups) for each slice that enters and leaves, or, where windows do not overlap
    enough to be carried over, for each of its slices.
    """

    accumulators: Sequence[Accumulator]
    carries: bool
    """Whether windows may be carried over, because all that is aggregated can be subtracted exactly."""
    vectors: Vectors = attrs.field(metadata=memory.part())
    ranges: Ranges = attrs.field(factory=Ranges, metadata=memory.part())
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids are below when this is restored."""
    _carrying: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    _total: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    """The vector that is the sum of the slices that entered."""
    _slices: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32), metadata=memory.rebuilt())
    """In how many of these each group is."""
    _entered: Bools = attrs.field(init=False, factory=lambda: np.zeros(0, np.bool_))
    """Which slices, by number, these are."""
    carried: int = attrs.field(init=False, default=0)
    """The number of groups in the sum."""

    @classmethod
    def empty(cls, accumulators: Sequence[Accumulator], used: int = 0) -> VectorStore:
        """Make a store without slices, of accumulators whose first `used` slots hold something else."""
        carries = all(isinstance(accumulator, Subtractable) for accumulator in accumulators)
        return cls(accumulators, carries, Vectors(accumulators, -(-used // 64)))

    @classmethod
    def of(cls, store: SliceStore) -> VectorStore:
        """Take over all that a store holds, in which nothing was released for single groups alone."""
        slots, pairs = store.everything()
        self = cls.empty(store.accumulators, store.made)
        self.ranges = store.ranges
        self._reserve(store.groups)
        groups = (pairs & np.uint64(0xFFFFFFFF)).astype(np.int32)
        self.vectors.take_over(slots, (pairs >> np.uint64(32)).astype(np.int32), groups)
        return self

    def __len__(self) -> int:
        """Return the number of partial aggregates."""
        return len(self.vectors) - self.carried

    @property
    def way(self) -> Way:
        """Return how windows are made of slices now."""
        return "carried vectors" if self._carrying else "vectors"

    def update(self, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        """Add tuples, each to its slice [first, last) and group; `capacity` is above every group id."""
        if len(first) == 0:
            return
        slices, _ = self.ranges.locate(first, last, alike=FROM in page.same)
        self._reserve(capacity)
        self.vectors.groups = groups
        self.vectors.update(slices, page)

    def _reserve(self, capacity: int) -> None:
        """Make room for groups with ids below, and for the slices there are."""
        vectors = self.vectors
        vectors.seat(capacity)
        vectors.reserve(len(self.ranges.starts))
        self._entered = grown(self._entered, len(self.ranges.starts))
        if vectors.capacity > len(self._slices):
            self._slices = grown(self._slices, vectors.capacity)
            self._total = grown(self._total, vectors.capacity // 64, fill=-1)

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound), one window at a time; slots hold until the next."""
        ranges, vectors = self.ranges, self.vectors
        if self.carries and self._carrying != self._worthwhile(released):
            self._clear()
            self._carrying = not self._carrying
        wid = released
        while (wid := ranges.next_window(wid)) < bound:
            open_ = ranges.in_window(wid)
            together: int | Int32s = self._total if self._carrying else int(open_[0])
            if self._carrying:
                self._leave(self._behind(wid))
                self._enter(open_[~self._entered[open_]])
            elif len(open_) > 1:
                together = vectors.running()
                vectors.pour(open_, together)
            found = vectors.held(wid, together, wid + 1)
            if len(found.groups):
                yield Released(np.broadcast_to(np.int64(wid), len(found.groups)), found.groups, found.slots)
            if not self._carrying and not isinstance(together, int):
                vectors.empty(together)
            wid += 1

    def _worthwhile(self, released: int) -> bool:
        """Return whether it costs less to carry windows over than to combine each anew."""
        order = self.ranges.order
        windows = self.ranges.ends[order] - np.maximum(self.ranges.starts[order], released)
        sizes = self.vectors.sizes(order).astype(np.float64)
        several = int(windows.max(initial=0))
        parts, slots = float(sizes @ windows), float(sizes.sum())
        carried: Carrying | None = "differential" if self._carrying else None
        if carried is not None and several == 0:
            return True
        found = carries_over(self.accumulators, windows=several, parts=parts, slots=slots, carried=carried)
        return found is not None

    def _behind(self, wid: int) -> Int32s:
        """Return the slices that entered, and are in no window from `wid` on."""
        order = self.ranges.order
        return order[(self.ranges.ends[order] <= wid) & self._entered[order]]

    def _enter(self, numbers: Int32s) -> None:
        if len(numbers):
            self.carried += self.vectors.add(numbers, self._total, self._slices)
            self._entered[numbers] = True

    def _leave(self, numbers: Int32s) -> None:
        for number in numbers.tolist():
            self.carried -= self.vectors.subtract(number, self._total, self._slices)
        self._entered[numbers] = False

    def _clear(self) -> None:
        """Let go of what is carried; slices will enter again."""
        if self._carrying:
            self.vectors.empty(self._total)
            self._slices[:] = 0
            self._entered[:] = False
            self.carried = 0

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`."""
        wid, windows = released, list[int]()
        while (wid := self.ranges.next_window(wid)) < bound:
            windows.append(wid)
            wid += 1
            if len(windows) == _WINDOWS:
                yield from self._of_groups(which, released, windows)
                windows.clear()
        yield from self._of_groups(which, released, windows)
        self.vectors.promise(which, bound)

    def _of_groups(self, which: Int32s, released: int, windows: Sequence[int]) -> Iterator[Released]:
        if windows:
            rows = [self.ranges.in_window(wid) for wid in windows]
            stops = np.cumsum([len(row) for row in rows])
            wids = np.array(windows, np.int64)
            starts = np.append(0, stops[:-1])
            for held in self.vectors.of_groups(which, released, wids + 1, starts, stops, np.concatenate(rows)):
                yield Released(held.of(wids), held.groups, held.slots)

    def close(self, bound: int) -> Int32s:
        """Forget the slices that are in no window from `bound` on; gives the groups left without one."""
        self._leave(self._behind(bound))
        numbers = self.ranges.order
        self._forget(numbers[self.ranges.ends[numbers] <= bound])
        return self.vectors.idle(self._total)

    def _forget(self, numbers: Int32s) -> None:
        if len(numbers):
            self.vectors.free(numbers)
            self.ranges.close(numbers.tolist())

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; gives the groups left without a slice."""
        self._clear()
        numbers = self.ranges.order
        over = numbers[self.ranges.ends[numbers] <= bound]
        self.vectors.remove(which, over)
        self._forget(over[self.vectors.sizes(over) == 0])
        return self.vectors.idle()

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups whose ids will be given away: that was done when they were found."""

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that a slice is in."""
        return self.ranges.horizon(latest)

    def held(self) -> Held:
        """Return the windows and the group of each partial aggregate, without those released for the group alone."""
        _, pairs = self.everything()
        slices, groups = (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int32)
        first = np.maximum(self.ranges.starts[slices], self.vectors.bounds(groups))
        return Held(first, self.ranges.ends[slices], groups)

    def everything(self) -> tuple[Slots, Words]:
        """Return the slot, and (slice, group), of each partial aggregate."""
        slots, pairs = [np.empty(0, np.int32)], [np.empty(0, np.uint64)]
        for number in self.ranges.order.tolist():
            held = self.vectors.held(number, number, FOREVER)
            slots.append(held.slots)
            pairs.append((np.uint64(number) << np.uint64(32)) | held.groups.astype(np.uint64))
        return np.concatenate(slots), np.concatenate(pairs)

    @property
    def wasteful(self) -> bool:
        """Return whether a `SliceStore` would take less memory, or far less time a window."""
        # The newest slice is still to be filled.
        order = self.ranges.order[:-1]
        if self.vectors.grown and self.vectors.wasteful(order, BYTES_A_SLOT):
            return True
        parts, width = int(self.vectors.sizes(order).sum()), self.vectors.width
        return leaves_vectors(
            groups=self.vectors.seats, slices=len(order), parts=parts, width=width, beside=BYTES_A_SLOT
        )

    def linked(self) -> State:
        """Return the state of a `SliceStore` that holds the same."""
        self._clear()
        slots, pairs = self.everything()
        own = self.vectors.own
        known = np.flatnonzero(own > -FAR)
        state: State = {memory.VERSION: SliceStore.VERSION, "slots": slots, "pairs": pairs, "chained": False}
        state |= {"made": 64 * self.vectors.blocks, "technique": "", "suffixed": np.empty(0, np.int64)}
        state |= {"own_groups": known, "own_bounds": own[known]}
        for number, accumulator in enumerate(self.accumulators):
            state |= prefixed(f"aggregate{number}.", accumulator.state())
        return state | prefixed("ranges.", self.ranges.state())

    def _before_saving(self) -> None:
        # What is carried is let go, and made anew when the next window is released.
        self._clear()

    def _after_restoring(self) -> None:
        self._reserve(0)
        numbers = self.ranges.order
        empty = self.vectors.sizes(np.arange(len(self.ranges.starts), dtype=np.int32)) == 0
        if empty[numbers].any() or not np.delete(empty, numbers).all():
            raise ValueError("the saved state has slices without a group, or groups of no slice")
        _, pairs = self.everything()
        bounded((pairs & np.uint64(0xFFFFFFFF)).astype(np.int64), "vectors", below=self.capacity)
