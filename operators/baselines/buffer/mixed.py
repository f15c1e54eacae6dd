"""A mixed store keeps each group's open windows as buffered tuples, as partial aggregates, or for a while as both.

A lazy group's tuples wait in B, all groups' together; an eager group has one partial aggregate in H for each open
window. A group that has both is in transition: its tuples in B and those in its partial aggregates are disjoint, so
results are made of both. When a window is complete, the tuples of B in it are added to H, which serves as the table T
of Fig 6-18, keyed on (group, window).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from operators.baselines.buffer.objects import Objects
from operators.data import memory
from operators.data.page import Int32s, Int64s, Page
from operators.data.saved import ROOM
from operators.functions.columns import frozen
from operators.functions.protocol import Accumulator
from operators.kernels.baselines import adaptive as kernels
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window_aggregate.store import Held, Released

_BUDGET = 1 << 14
_LIST = 1 << 16


@attrs.frozen
class Policy:
    """The rule by which a group switches: condition 6.9 times tup * SLIDE * RANGE, which small numbers keep exact.

    To eager when unit * winVol > base + rate * sum of (unexpired tuples of source k) * offset_k, to lazy when it is
    less than that by more than the part `band`.
    """

    unit: float
    """tup * SLIDE * RANGE"""
    base: float
    """aggr * wed * RANGE"""
    rate: float
    """tup * SLIDE"""
    band: float

    @property
    def rule(self) -> tuple[float, float, float]:
        """Return the numbers of the first threshold, as the kernels name them."""
        return self.unit, self.base, self.rate


LAZY = Policy(1.0, float("inf"), 0.0, 0.0)
"""Buffer every tuple: the buffering implementation."""
EAGER = Policy(1.0, float("-inf"), 0.0, 0.0)
"""Aggregate every tuple at once: one partial aggregate for each open window and group, the WID implementation."""


@attrs.define(eq=False)
class MixedStore(memory.Stateful):
    """Store each group's tuples in B or in H, and compute results of both.

    Cost: O(1) a tuple of a lazy group, O(its windows) of an eager one; a window O(its tuples in B + its partial
    aggregates); a switch to eager O(the group's tuples in B and their windows).
    """

    objects: Objects = attrs.field(metadata=memory.part(beside=True, capacity="capacity"))
    policy: Policy
    weights: tuple[int, int, int] = (1, 1, 1)
    """Bytes of a buffered tuple, of a partial aggregate, and of what is known of a group."""
    ordered: Sequence[bool] = attrs.field(default=())
    """For each accumulator, whether tuples are given to it in the order of `wattr`, ties by arrival, not of arrival."""
    wattr: str = attrs.field(default="")
    temporary: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """The most partial aggregates made of buffered tuples for one release."""
    _released: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids were below when this was restored."""
    _touched: list[Int32s] = attrs.field(init=False, factory=lambda: [])
    """Groups whose volumes fell in a release that is not closed yet."""
    _lists: tuple[Int32s, Int32s, Int32s, Int64s, Int64s] | None = attrs.field(init=False, default=None)
    """What a page is entered with, kept because it is larger than most pages; nothing is remembered in it."""

    def __len__(self) -> int:
        """Return the number of buffered tuples and partial aggregates."""
        return len(self.objects)

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """Return one accumulator a function."""
        return self.objects.accumulators

    @property
    def buffered(self) -> int:
        """Return how many tuples are in B."""
        return self.objects.buffered

    def account(self, ids: Int32s) -> tuple[Int64s, Int32s, Int32s, Int32s]:
        """Return for these groups: volumes, shape (n, sources), whether eager, partial aggregates, tuples in B."""
        return self.objects.account(ids)

    def update(
        self,
        page: Page,
        first: Int64s,
        last: Int64s,
        groups: Int32s,
        capacity: int,
        ticks: Int64s | None = None,
        sources: Int32s | None = None,
    ) -> None:
        """Take tuples, each in the windows [first, last); `capacity` is above every group id.

        Policies that look at offsets need the values of the windowing attribute and the source of each tuple.
        """
        o = self.objects
        ticks = np.zeros(len(first), np.int64) if ticks is None else ticks
        sources = np.zeros(len(first), np.int32) if sources is None else sources
        o.grow_groups(capacity)
        # Read-only all of them, so that there is one compilation.
        arrived = (frozen(groups), frozen(first), frozen(last), frozen(ticks), frozen(sources))
        n, weights = len(first), frozen(np.array(self.weights, np.int64))
        if self._lists is None:
            self._lists = _lists(_LIST)
        fresh, replay_slots, slots, replays, rows = self._lists
        stowed = np.empty(n, np.int64)
        done = 0
        while True:
            o.counters[kernels.FRESH : kernels.PAIRS + 1] = 0
            lists = (fresh, replay_slots, slots, replays, rows, stowed)
            done = kernels.arrive(arrived, done, self._released, self.policy.rule, weights, o.memory, lists)
            made, replayed, updated, kept, need, pairs = o.counters[kernels.FRESH : kernels.PAIRS + 1].tolist()
            o.log.append(page, stowed[:kept])
            o.begin(fresh[:made])
            self.add(replay_slots[:replayed], replays[:replayed])
            if updated:
                taken = o.log.select(page, rows[:updated])
                for accumulator in o.accumulators:
                    accumulator.update(slots[:updated], taken)
            if done == n:
                break
            if pairs > len(rows):
                fresh, replay_slots, slots, replays, rows = _lists(2 * pairs)
            o.reserve(need, max(need, 1), 1)
        o.compact()

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound), a bounded number at a time, and free their tuples."""
        o = self.objects
        while released < bound:
            stop = bound
            low, pairs = self._survey(released, stop)
            while pairs > _BUDGET and stop - low > 1:
                stop = low + (stop - low) // 2
                low, pairs = self._survey(released, stop)
            if low >= bound:
                break
            if pairs:
                found = np.empty(o.buffered, np.int64)
                n = kernels.collect(low, stop, o.memory, found)
                self._evaluate(found[:n], low, stop, pairs)
                slots = o.chained(o.ordered(stop))
                yield Released(o.part_wids[slots], o.parts[slots, kernels.OWNER], slots)
                self._close(slots, o.expired(stop), stop)
            released = stop
            self._released = max(self._released, stop)
        self._released = max(self._released, bound)

    def close(self, bound: int) -> Int32s:
        """Forget what is in no window from `bound` on; gives the groups left without a tuple."""
        o = self.objects
        self._close(o.chained(o.ordered(bound)), o.expired(bound), bound)
        kernels.close_windows(bound, o.memory)
        idle = self._left()
        o.compact()
        return idle

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`, and let go of what they need no more."""
        o = self.objects
        found = np.empty(int(o.groups[which, kernels.TUPLES].sum()), np.int64)
        n, total = kernels.collect_groups(which, released, bound, o.memory, found)
        pairs = int(total)
        if pairs > _BUDGET and len(which) > 1:
            half = len(which) // 2
            yield from self.release_groups(which[:half], released, bound)
            yield from self.release_groups(which[half:], released, bound)
            return
        low = max(released, int(o.spans[found[:n], 0].min(initial=bound)))
        if pairs > _BUDGET and bound - low > 1:
            yield from self.release_groups(which, released, low + (bound - low) // 2)
            yield from self.release_groups(which, released, bound)
            return
        found = found[:n]
        self._evaluate(found, released, bound, pairs)
        slots = self._parts_of(which, bound)
        if len(slots):
            yield Released(o.part_wids[slots], o.parts[slots, kernels.OWNER], slots)
            self._close(slots, found, bound)

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Return the groups left without a tuple; where `bound` is FOREVER, nothing of them stays."""
        if bound == FOREVER:
            return self.drop_groups(which, bound)
        o = self.objects
        idle = self._left()
        o.compact()
        return idle

    def drop_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget, unreleased, what these groups hold for no window from `bound` on; gives those left with nothing."""
        o = self.objects
        found = np.empty(int(o.groups[which, kernels.TUPLES].sum()), np.int64)
        n, _ = kernels.collect_groups(which, BEFORE_ALL, bound, o.memory, found)
        slots = self._parts_of(which, bound)
        self._close(slots, found[:n], bound)
        idle = self._left()
        o.compact()
        return idle

    def _parts_of(self, which: Int32s, bound: int) -> Int32s:
        """Return the partial aggregates of groups in windows below a bound, window by window."""
        o = self.objects
        order = o.ordered(bound)
        slots = np.empty(kernels.group_parts(which, order, bound, o.memory, np.empty(0, np.int32), False), np.int32)
        kernels.group_parts(which, order, bound, o.memory, slots, True)
        return slots

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that anything is in; endless ones count up to `latest`."""
        return self.objects.horizon(latest)

    def forget(self, groups: Int32s) -> None:
        """Do nothing: nothing is known of groups left with nothing."""

    def held(self) -> Held:
        """Return the windows and the group of each tuple of B and of each partial aggregate of H."""
        o = self.objects
        made, parts = int(o.counters[kernels.MADE]), o.live()
        rows = np.flatnonzero(o.tuples[:made, kernels.GROUP] >= 0)
        first = np.concatenate((o.spans[rows, 0], o.part_wids[parts]))
        last = np.concatenate((o.spans[rows, 1], o.part_wids[parts] + 1))
        return Held(first, last, np.concatenate((o.tuples[rows, kernels.GROUP], o.parts[parts, kernels.OWNER])))

    def _survey(self, released: int, stop: int) -> tuple[int, int]:
        o = self.objects
        low, pairs = kernels.survey(released, stop, o.memory)
        return int(low), int(pairs)

    def _evaluate(self, found: Int64s, low: int, stop: int, pairs: int) -> None:
        """Add buffered tuples to the partial aggregates of their windows in [low, stop), making those there are not."""
        o = self.objects
        if len(found) == 0:
            return
        found.sort()
        windows = min(pairs, stop - low)
        made = min(pairs, o.entries * windows)
        o.reserve(made, windows, 0)
        fresh, slots, positions = np.empty(made, np.int32), np.empty(pairs, np.int32), np.empty(pairs, np.int64)
        o.counters[kernels.FRESH] = 0
        n = kernels.evaluate(found, low, stop, o.memory, fresh, slots, positions)
        count = int(o.counters[kernels.FRESH])
        self.temporary = max(self.temporary, count)
        o.begin(fresh[:count])
        self.add(slots[:n], positions[:n])

    def add(self, slots: Int32s, positions: Int64s) -> None:
        """Add the tuples at these positions to these partial aggregates, in the order in which they arrived."""
        o = self.objects
        if len(slots) == 0:
            return
        if np.any(positions[1:] < positions[:-1]):
            order = np.argsort(positions, kind="stable")
            slots, positions = slots[order], positions[order]
        taken = o.log.take(positions)
        for i, accumulator in enumerate(o.accumulators):
            if i < len(self.ordered) and self.ordered[i]:
                order = np.lexsort((positions, taken.ticks(self.wattr)))
                accumulator.update(slots[order], taken.take(order))
            else:
                accumulator.update(slots, taken)

    def _close(self, slots: Int32s, found: Int64s, bound: int) -> None:
        """Forget these partial aggregates, and those of these tuples that are in no window from `bound` on."""
        o = self.objects
        touched = np.empty(len(slots) + len(found), np.int32)
        n = kernels.drop_parts(slots, o.memory, touched)
        if len(slots):
            for accumulator in o.accumulators:
                accumulator.free(slots)
        n = kernels.drop_tuples(found, bound, o.memory, touched, n)
        self._touched.append(touched[:n])

    def _left(self) -> Int32s:
        """Decide about the groups whose volumes fell since the last time; gives those left without a tuple."""
        o = self.objects
        touched = np.concatenate([np.empty(0, np.int32), *self._touched])
        self._touched = []
        idle = np.empty(len(touched), np.int32)
        left = kernels.settle(touched, self.policy.rule, self.policy.band, o.memory, idle)
        return idle[:left]

    def _after_restoring(self) -> None:
        if self.objects.over(self._released):
            raise ValueError(f"the saved state holds what is in no window from {self._released} on")


def _lists(size: int) -> tuple[Int32s, Int32s, Int32s, Int64s, Int64s]:
    """Make the lists that entering a page fills: new slots, slots and tuples replayed, slots and rows updated."""
    fresh, replayed, updated = (np.empty(size, np.int32) for _ in range(3))
    return fresh, replayed, updated, np.empty(size, np.int64), np.empty(size, np.int64)
