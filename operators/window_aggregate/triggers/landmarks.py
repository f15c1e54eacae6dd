"""Windows that never let go of a tuple hold one partial aggregate each, and what a trigger has seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int32s, Int64s, Page
from operators.data.saved import ROOM
from operators.functions.columns import grown, power
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows import landmarks as kernels
from operators.kernels.windows.layout import (
    AIMED,
    ALL_SIGNALS,
    ALL_TUPLES,
    ASKED,
    ASKS,
    BEGUN_ROWS,
    COMBINED,
    DISCARDS,
    FIRINGS,
    FOLLOWER,
    GROUP,
    INTO,
    LACKING,
    LACKS,
    LEFT,
    LISTED,
    NEEDED,
    NEW,
    NUMBER,
    OWNER,
    REPEATS,
    SIGNALS,
    SLOT,
    SOURCE,
    SPARED,
    SPENT,
    STEPS,
    TAKEN,
    TELLS,
    TUPLE,
    TUPLES,
    WHOLE,
    WID,
    WINDOW,
)
from operators.window_aggregate.store import Held, Released
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.triggers.arrived_sessions import link
from operators.window_aggregate.triggers.condition import Compiled, Seen

_ROOM = 1024
"""So many slots at most are held ready for new windows and firings, unless one tuple needs more."""
_BUDGET = 1 << 18
"""So many results at most are listed at once."""


Known: TypeAlias = Callable[[Int64s], Int64s]
"""Gives for windows that are new the ticks that they have behind them, as bits."""
NO_GROUPS: Final[Int32s] = np.empty(0, np.int32)


@attrs.frozen(eq=False)
class Fired(Released):
    """Results of windows that fire or are over, with which firing of its window each is; shape (n,)."""

    numbers: Int64s

    @classmethod
    def of(cls, released: Released) -> Fired:
        """Return results that a LandmarkStore has released as what they are."""
        assert isinstance(released, cls)
        return released


@attrs.define(eq=False)
class LandmarkStore(memory.Stateful):
    """Hold the windows of each group that have begun, 96 bytes each, and their aggregates in slots of a pool.

    A window of a group begins with the first tuple that no window before it has, and holds all that this one has. A
    window that none begins has what the one before it has. Windows that are over are kept while later ones need them.
    """

    compiled: Compiled
    discards: bool
    pool: Pool = attrs.field(metadata=memory.part())
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids are below when this is restored."""
    released: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The first window that is not over for all groups."""
    _begun: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros((BEGUN_ROWS, 0), np.int64),
        metadata=memory.array(wide=True, name="windows", of=lambda held: held._begun[:, held.live()]),
    )
    """A column for each window; OWNER is -1 where there is none."""
    _own: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, BEFORE_ALL),
        metadata=memory.sparse("own_bounds", name="own_groups", places="capacity"),
    )
    """The first window of each group that is not over for it alone."""
    _heads: Int64s = attrs.field(init=False, factory=lambda: np.full(1, -1), metadata=memory.rebuilt())
    """The first window of each group, -1 for none."""
    _spare: Int64s = attrs.field(init=False, factory=lambda: np.empty(0, np.int64), metadata=memory.rebuilt())
    _spared: int = attrs.field(init=False, default=0)
    _rule: Int64s = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rule = np.zeros(4, np.int64)
        self._rule[DISCARDS], self._rule[REPEATS] = self.discards, self.compiled.repeats
        # What was before its first tuple can only stop a window, which takes a trigger with steps.
        self._rule[TELLS] = not self.compiled.repeats and bool(self.compiled.moments)
        self._rule[LACKS] = self.compiled.fresh

    def __len__(self) -> int:
        return self._begun.shape[1] - self._spared

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """Return one accumulator a function."""
        return self.pool.accumulators

    def live(self) -> Int64s:
        """Return the columns of windows, by group and window-id."""
        held = np.flatnonzero(self._begun[OWNER] >= 0)
        return held[np.lexsort((self._begun[WID, held], self._begun[OWNER, held]))]

    def limits(self, groups: Int32s) -> Int64s:
        """Return for each of these groups the first window that is not over."""
        return np.maximum(self._own[groups], self.released)

    def open(self) -> Int64s:
        """Return the columns of windows that are not over, by group and window-id."""
        live = self.live()
        return live[self._begun[WID, live] >= self.limits(self._begun[OWNER, live].astype(np.int32))]

    def wids(self, which: Int64s) -> Int64s:
        """Return the ids of the windows in these columns."""
        return self._begun[WID, which]

    def _ensure(self, capacity: int, tuples: int) -> None:
        """Let there be groups with ids below a capacity, and room for a new window for each of some tuples."""
        if capacity > len(self._heads):
            self._heads = grown(self._heads, power(capacity), fill=-1)
            self._own = grown(self._own, len(self._heads), fill=BEFORE_ALL)
        if (lacking := tuples - self._spared) > 0:
            made = self._begun.shape[1]
            more = power(made + lacking) - made
            fresh = np.zeros((BEGUN_ROWS, more), np.int64)
            fresh[OWNER] = -1
            self._begun = np.concatenate((self._begun, fresh), axis=1)
            self._spare = grown(self._spare, made + more)
            self._spare[self._spared : self._spared + more] = np.arange(made + more - 1, made - 1, -1)
            self._spared += more

    def take(
        self, page: Page, first: Int64s, groups: Int32s, capacity: int, known: Known | None = None
    ) -> Iterator[Fired]:
        """Take tuples, each of a group and in all windows from `first` on, and yield what fires, until the next.

        `known`: asked where a window that begins may be stopped by what was before its first tuple.
        """
        self._ensure(capacity, len(first))
        pool, limits, n = self.pool, self.limits(groups), len(first)
        room = min(2 * n + 8, _ROOM)
        targets, found = np.empty((2, 2 * n + 8), np.int32), np.empty((4, room), np.int64)
        pairs, cursor = np.empty((4, 2 * n + room + 8), np.int64), np.zeros(9, np.int64)
        fresh = pool.take(room)
        while (begin := int(cursor[TUPLE])) < n:
            if (needed := 2 * int(cursor[NEEDED]) + 8) > 8:
                if needed > len(fresh):
                    fresh = np.concatenate((fresh, pool.take(max(room, needed))))
                targets = targets if needed < targets.shape[1] else np.empty((2, 2 * needed), np.int32)
                pairs = pairs if needed < pairs.shape[1] else np.empty((4, 2 * needed), np.int64)
                found = found if needed < found.shape[1] else np.empty((4, 2 * needed), np.int64)
            cursor[TAKEN:SPARED], cursor[SPARED], cursor[ASKED : NEEDED + 1] = 0, self._spared, 0
            kernels.arrive(
                groups, first, limits, self._rule, self._heads, self._begun, self._spare, fresh, targets, pairs, found,
                cursor,
            )  # fmt: skip
            self._spared, end = int(cursor[SPARED]), int(cursor[TUPLE])
            aimed, combined, listed = int(cursor[AIMED]), int(cursor[COMBINED]), int(cursor[LISTED])
            if aimed == end - begin:
                pool.update(targets[1, :aimed].copy(), page.slice(begin, end))
            elif aimed:
                rows = Page(page.schema, page.batch.take(pa.array(targets[0, :aimed])))
                pool.update(targets[1, :aimed].copy(), rows)
            pool.combine(pairs[INTO, :combined].astype(np.int32), pairs[SOURCE, :combined].astype(np.int32))
            pool.give(pairs[SPENT, : int(cursor[LEFT])].astype(np.int32))
            fresh = fresh[cursor[TAKEN] :]
            if listed:
                some = found[:, :listed]
                slots = some[SLOT].astype(np.int32)
                yield Fired(some[WINDOW].copy(), some[GROUP].astype(np.int32), slots, some[NUMBER].copy())
                pool.give(slots)
            if cursor[ASKED]:
                asked = pairs[ASKS, : int(cursor[ASKED])].copy()
                if known is not None:
                    new = asked[self._begun[ALL_TUPLES, asked] == 1]
                    self._begun[ALL_SIGNALS, new] |= known(self._begun[WID, new])
                yield from self.ask(asked)
        pool.give(fresh)

    def tell(self, which: Int64s, bit: int) -> None:
        """Let windows see a signal; one without a new tuple has nothing to fire for."""
        self._begun[ALL_SIGNALS, which] |= bit
        self._begun[SIGNALS, which[self._begun[TUPLES, which] > 0]] |= bit

    def ask(self, which: Int64s) -> Iterator[Fired]:
        """Ask the trigger how many tuples some windows lack, and yield the results of those that fire."""
        begun, pool = self._begun, self.pool
        self._lack(which)
        which = which[begun[LACKING, which] == 0]
        if len(which) == 0:
            return
        slots, again = begun[NEW, which].astype(np.int32), pool.take(len(which))
        if not self.discards:
            pool.combine(again, slots)
            begun[WHOLE, which] = again
        yield self._results(which, slots)
        steps = self.compiled.node.stepped(self._seen(which), np.ones(len(which), np.bool_))
        pool.give(slots)
        begun[NEW, which] = again
        begun[STEPS, which] = steps
        begun[TUPLES, which] = 0
        begun[SIGNALS, which] = 0
        begun[FIRINGS, which] += 1
        self._lack(which)

    def release(self, released: int, bound: int) -> Iterator[Fired]:
        """Yield the results of the windows [released, bound) of all groups; slots hold until the next."""
        return self._release(self.live(), released, bound)

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Fired]:
        """Yield the results of these groups alone up to `bound`, which are over then."""
        live = self.live()
        yield from self._release(live[np.isin(self._begun[OWNER, live], which)], released, bound)
        self._own[which] = np.maximum(self._own[which], bound)

    def _release(self, columns: Int64s, released: int, bound: int) -> Iterator[Fired]:
        if len(columns) == 0:
            return
        owners, wids = self._begun[OWNER, columns].astype(np.int32), self._begun[WID, columns]
        until = np.full(len(columns), bound)
        until[:-1] = np.where(owners[1:] == owners[:-1], np.minimum(wids[1:], bound), bound)
        since = np.maximum(np.maximum(wids, released), self._own[owners])
        at, step = int(since.min()), max(1, _BUDGET // len(columns))
        while at < bound:
            low, high = np.maximum(since, at), np.minimum(until, at + step)
            times = np.maximum(high - low, 0)
            total = int(times.sum())
            if total:
                of = np.repeat(np.arange(len(columns)), times)
                of_wids = low[of] + np.arange(total) - (np.cumsum(times) - times)[of]
                order = np.argsort(of_wids, kind="stable")
                yield from self._finals(columns[of[order]], of_wids[order])
            left = since[until > np.maximum(since, at + step)]
            at = max(at + step, int(left.min(initial=bound)))

    def _finals(self, columns: Int64s, wids: Int64s) -> Iterator[Fired]:
        """Yield the final results of windows, each by the column of the last one that has begun up to it."""
        begun = self._begun
        own = begun[WID, columns] == wids
        slots = np.where(own, begun[NEW, columns], begun[WHOLE, columns]).astype(np.int32)
        numbers = np.where(own, begun[FIRINGS, columns], 0)
        groups = begun[OWNER, columns].astype(np.int32)
        if self.discards:
            given = ~own | (begun[TUPLES, columns] > 0)
            wids, groups, slots, numbers = wids[given], groups[given], slots[given], numbers[given]
        if len(wids):
            yield Fired(wids, groups, slots, numbers)

    def update(self, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        # Tuples come with the firings between them, to `take`.
        raise NotImplementedError

    def close(self, bound: int) -> Int32s:
        """Forget the windows that none from `bound` on needs; every group is in all windows from its first on."""
        self.released = max(self.released, bound)
        live = self.live()
        owners, wids = self._begun[OWNER, live], self._begun[WID, live]
        over = np.zeros(len(live), np.bool_)
        over[:-1] = (owners[1:] == owners[:-1]) & (wids[1:] <= bound)
        gone = live[over]
        if len(gone):
            slots = self._begun[WHOLE, gone]
            self.pool.give(slots.astype(np.int32))
            if self.discards:
                self.pool.give(self._begun[NEW, gone].astype(np.int32))
            self._begun[OWNER, gone] = -1
            self._spare[self._spared : self._spared + len(gone)] = gone
            self._spared += len(gone)
            self._link()
        return NO_GROUPS

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        return NO_GROUPS

    def forget(self, groups: Int32s) -> None:
        pass

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last that a tuple begins."""
        return latest + 1

    def held(self) -> Held:
        """Return for each window of a group that has begun the windows that it has the result of."""
        live = self.live()
        owners, wids = self._begun[OWNER, live].astype(np.int32), self._begun[WID, live]
        until = np.full(len(live), FOREVER)
        until[:-1] = np.where(owners[1:] == owners[:-1], wids[1:], FOREVER)
        return Held(np.maximum(wids, self._own[owners]), until, owners)

    def _results(self, which: Int64s, slots: Slots) -> Fired:
        begun = self._begun
        return Fired(begun[WID, which], begun[OWNER, which].astype(np.int32), slots, begun[FIRINGS, which].copy())

    def _seen(self, which: Int64s) -> Seen:
        return Seen(*(self._begun[row, which] for row in (TUPLES, ALL_TUPLES, SIGNALS, ALL_SIGNALS, STEPS)))

    def _lack(self, which: Int64s) -> None:
        self._begun[LACKING, which] = self.compiled.node.lacking(self._seen(which))

    def _link(self) -> None:
        """Make the list of the windows of each group anew."""
        live = self.live()
        link(self._heads, self._begun[FOLLOWER], self._begun[OWNER, live], live)

    def _after_restoring(self) -> None:
        begun = self._begun
        if len(begun) != BEGUN_ROWS:
            raise ValueError(f"the saved state holds windows of {len(begun)} values, and not of {BEGUN_ROWS}")
        owners, slots = begun[OWNER], begun[[NEW, WHOLE] if self.discards else [WHOLE]]
        if not ((owners >= 0) & (owners < self.capacity)).all() or not ((slots >= 0) & (slots < self.pool.made)).all():
            raise ValueError("the saved state holds a window without a group or an aggregate")
        if len(np.unique(slots)) < slots.size or (not self.discards and (begun[NEW] != begun[WHOLE]).any()):
            raise ValueError("the saved state holds two windows with one aggregate")
        if (begun[ALL_TUPLES] < np.maximum(begun[TUPLES], 1)).any():
            raise ValueError("the saved state holds a window that has begun without a tuple")
        if ((owners[1:] == owners[:-1]) & (begun[WID, 1:] <= begun[WID, :-1])).any() or (np.diff(owners) < 0).any():
            raise ValueError("the saved state holds windows of one group out of order")
        self._spare, self._spared = np.empty(begun.shape[1], np.int64), 0
        self._heads = np.full(power(int(owners.max(initial=0)) + 1), -1)
        self._own = grown(self._own, len(self._heads), fill=BEFORE_ALL)
        self._link()
        self._lack(self.live())
