"""Mixed panes hold each group's tuples of a pane as a list while that is smaller than a partial aggregate.

An item is what a group has in a pane (a slice: the tuples of one range of window-ids). It begins as a list of tuples
and becomes a partial aggregate when the list would be the larger; as it never shrinks, it never turns back, and there
is no transition (thesis 6.3.4.2, Discussion). Windows are combined of items of either kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.baselines.buffer.mixed import MixedStore, Policy
from operators.baselines.buffer.objects import Objects
from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM, bounded
from operators.functions.columns import grown, power
from operators.functions.protocol import Accumulator
from operators.kernels.baselines import adaptive as kernels
from operators.kernels.ticks import BEFORE_ALL
from operators.window_aggregate.store import Held, Released

_BUDGET = 1 << 14
_ITEM = [pa.field("group", pa.int32()), pa.field("first", pa.int64()), pa.field("last", pa.int64())]


@attrs.define(eq=False)
class MixedPanes(memory.Stateful):
    """Hold items in a mixed store, where each is a group of its own whose only window is the last that its pane is in.

    Cost: O(1) a tuple; a window O(the items of its panes + their tuples); a promise of single groups O(items).
    """

    objects: Objects
    policy: Policy
    weights: tuple[int, int, int] = (1, 1, 1)
    """Bytes of a buffered tuple, of a partial aggregate, and of what is known of an item."""
    temporary: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="results"))
    """The most results made at once for a release."""
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids are below when this is restored."""
    _room: int = attrs.field(init=False, default=16, metadata=memory.integer(least=0, most=ROOM, name="capacity"))
    """All group ids are below, as far as there is room for them."""
    _items: KeyIndex = attrs.field(init=False, factory=lambda: KeyIndex(_ITEM), metadata=memory.part())
    _store: MixedStore = attrs.field(init=False, metadata=memory.part(capacity="_items.capacity"))
    _firsts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int64), metadata=memory.rebuilt())
    _owners: Int32s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int32), metadata=memory.rebuilt())
    _counts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(16, np.int64), metadata=memory.rebuilt())
    """Items of each group."""
    _own: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(16, BEFORE_ALL),
        metadata=memory.sparse("own_bounds", name="own_groups", places="_room"),
    )
    """Each group's own bound: windows below it were released for the group alone."""

    def __attrs_post_init__(self) -> None:
        self._store = MixedStore(self.objects, self.policy, self.weights)

    def __len__(self) -> int:
        """Return the number of buffered tuples and partial aggregates."""
        return len(self._store)

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """Return one accumulator a function."""
        return self.objects.accumulators

    def account(self, ids: Int32s) -> tuple[Int64s, Int32s, Int32s, Int32s]:
        """Return for these groups: volumes, shape (n, sources), whether no tuple waits, partial aggregates, tuples."""
        live = self._items.live()
        volumes, _, parts, tuples = self.objects.account(live)
        owners, size = self._owners[live], len(self._counts)
        total = np.zeros((size, volumes.shape[1]), np.int64)
        np.add.at(total, owners, volumes)
        partial = np.bincount(owners, parts, size).astype(np.int32)
        buffered = np.bincount(owners, tuples, size).astype(np.int32)
        return total[ids], (buffered[ids] == 0).astype(np.int32), partial[ids], buffered[ids]

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
        """Take tuples, each in the windows [first, last) and from a source; `capacity` is above every group id."""
        if capacity > self._room:
            self._room = max(capacity, 2 * self._room)
            self._counts = grown(self._counts, self._room)
            self._own = grown(self._own, self._room, fill=BEFORE_ALL)
        items, fresh = self._items.assign_new([pa.array(groups), pa.array(first), pa.array(last)])
        if self._items.capacity > len(self._owners):
            more = max(self._items.capacity, 2 * len(self._owners)) - len(self._owners)
            self._owners, self._firsts = np.pad(self._owners, (0, more)), np.pad(self._firsts, (0, more))
        new = items[fresh]
        self._owners[new], self._firsts[new] = groups[fresh], first[fresh]
        self._counts += np.bincount(groups[fresh], minlength=len(self._counts))
        self._store.update(page, last - 1, last, items, self._items.capacity, ticks, sources)

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound), a bounded number at a time."""
        yield from self._covered(released, bound, np.ones(len(self._counts), np.bool_))

    def close(self, bound: int) -> Int32s:
        """Forget what is in no window from `bound` on; gives the groups left with nothing."""
        return self._left(self._store.close(bound))

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`."""
        chosen = np.zeros(len(self._counts), np.bool_)
        chosen[which] = True
        yield from self._covered(released, bound, chosen)

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; gives the groups left with nothing."""
        self._own[which] = np.maximum(self._own[which], bound)
        live = self._items.live()
        items = live[np.isin(self._owners[live], which)]
        return self._left(self._store.drop_groups(items, bound))

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that anything is in."""
        return self._store.horizon(latest)

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups left with nothing, whose ids will be given away."""
        self._own[groups] = BEFORE_ALL

    def held(self) -> Held:
        """Return the windows and the group of each tuple and partial aggregate."""
        held = self._store.held()
        owners = self._owners[held.groups]
        return Held(np.maximum(self._firsts[held.groups], self._own[owners]), held.last, owners)

    def _left(self, items: Int32s) -> Int32s:
        owners = self._owners[items]
        self._items.free(items)
        self._counts -= np.bincount(owners, minlength=len(self._counts))
        idle = distinct(owners)
        return idle[self._counts[idle] == 0]

    def _covered(self, released: int, bound: int, chosen: Bools) -> Iterator[Released]:
        o = self.objects
        while released < bound:
            low, stop = kernels.pane_survey(released, self._firsts, o.memory)
            stop = min(int(stop), bound, int(low) + max(1, _BUDGET // max(1, len(self))))
            if low >= stop:
                return
            found = self._combined(int(low), stop, chosen)
            if found is not None:
                yield found
                for accumulator in o.accumulators:
                    accumulator.free(found.slots)
            released = stop

    def _combined(self, low: int, stop: int, chosen: Bools) -> Released | None:
        """Combine the results of the windows [low, stop) of the groups chosen."""
        o = self.objects
        order = np.flatnonzero(o.wids[: int(o.counters[kernels.OPEN])] >= low)
        order = order[np.argsort(o.wids[order])]
        fixed = (low, stop, order, (self._firsts, self._owners, self._own, chosen), o.memory)
        none64, none32 = np.empty(0, np.int64), np.empty(0, np.int32)
        nothing = (none64, none32, none32, none32, none32, none64)
        size = len(self._own)
        results, pairs, lazy = kernels.pane_cover(*fixed, np.full(size, -1, np.int64), False, nothing)
        if results == 0:
            return None
        wids, groups = np.empty(results, np.int64), np.empty(results, np.int32)
        into, source = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
        into_too, positions = np.empty(lazy, np.int32), np.empty(lazy, np.int64)
        lists = (wids, groups, into, source, into_too, positions)
        kernels.pane_cover(*fixed, np.full(size, -1, np.int64), True, lists)
        # Results stand behind the rows ever used, so they need no place in the table or the chains.
        base = int(o.counters[kernels.EVER])
        for accumulator in o.accumulators:
            accumulator.reserve(power(base + len(wids)))
        slots = np.arange(base, base + len(wids), dtype=np.int32)
        self.temporary = max(self.temporary, len(slots))
        o.begin(slots)
        for accumulator in o.accumulators:
            accumulator.combine(into + np.int32(base), source)
        self._store.add(into_too + np.int32(base), positions)
        return Released(wids, groups, slots)

    def _after_restoring(self) -> None:
        live = self._items.live()
        owners, firsts, _ = (column.to_numpy() for column in self._items.keys(live))
        bounded(owners, "items", below=min(self.capacity, self._room))
        size = max(16, self._items.capacity)
        self._owners, self._firsts = np.zeros(size, np.int32), np.zeros(size, np.int64)
        self._owners[live], self._firsts[live] = owners, firsts
        self._counts = np.bincount(owners, minlength=self._room)
        self._own = grown(self._own, self._room, fill=BEFORE_ALL)
