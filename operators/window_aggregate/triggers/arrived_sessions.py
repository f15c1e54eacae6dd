"""Sessions of the tuples that have come hold one partial aggregate each, and what a trigger has seen of them."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data import memory
from operators.data.digests import digests
from operators.data.page import Bools, Int32s, Int64s, Page, tick_column
from operators.functions.columns import grown, power
from operators.functions.protocol import Slots
from operators.kernels.ranked import arrivals as kernels
from operators.kernels.ranked.layout import (
    AGGREGATE,
    ALL_ROWS,
    ALL_SIGNALS,
    BEGIN,
    BEGINS,
    CERTAIN,
    COMBINED,
    DIGEST,
    DISCARDS,
    ENDS,
    FIRES,
    FIRINGS,
    FOLLOWER,
    GAP,
    INTO,
    LACKING,
    LAST,
    LEFT,
    LISTED,
    OWNER,
    PARTITION,
    READY,
    REVISED_ROWS,
    REVISES,
    ROWS,
    SESSION_ROWS,
    SIGNALS,
    SLOT,
    SOURCE,
    SPARED,
    SPENT,
    STANDS,
    STEPS,
    TAKEN,
    TOLD_END,
    TUPLE,
    TURN,
    TURNS,
)
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import Promises
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.triggers.condition import Compiled, Seen
from operators.window_aggregate.triggers.promised import crossed

_ROOM = 1024
"""So many slots at most are held ready for new sessions and firings."""


@attrs.frozen(eq=False)
class FiredSessions:
    """Results of sessions, of shape (n,): the partition, slot, begin, end and number of the firing of each."""

    parts: Int32s
    slots: Slots
    begins: Int64s
    ends: Int64s
    numbers: Int64s
    turns: Int64s
    """How often each was given since it was over."""
    gone: bool = False
    """Whether these sessions are no more; they have no slots, and end never."""


@attrs.define(eq=False)
class ArrivedSessions(memory.Stateful):
    """Hold the sessions of each partition, 120 bytes each, and their aggregates in slots of the pool.

    A session is certain once no tuple is to come before its begin. It fires from then on, as the trigger says.
    Where the rule `REVISES`, late tuples change sessions, also those that are over, which fire no more; 144 bytes each.
    """

    rule: Int64s
    """What the kernel names so."""
    compiled: Compiled
    partitions: Partitions = attrs.field(metadata=memory.part())
    pool: Pool = attrs.field(metadata=memory.part())
    _arrived: Int64s = attrs.field(
        init=False,
        default=attrs.Factory(lambda held: np.zeros((held.height, 0), np.int64), takes_self=True),
        metadata=memory.array(wide=True, name="sessions", of=lambda held: held._arrived[:, held.live()]),
    )
    """A column for each session; PARTITION is -1 where there is none."""
    _heads: Int64s = attrs.field(init=False, factory=lambda: np.full(1, -1), metadata=memory.rebuilt())
    """The first session of each partition, -1 for none."""
    _spare: Int64s = attrs.field(init=False, factory=lambda: np.empty(0, np.int64), metadata=memory.rebuilt())
    _spared: int = attrs.field(init=False, default=0)

    def __len__(self) -> int:
        return self._arrived.shape[1] - self._spared

    @property
    def height(self) -> int:
        """Return how many values there are of a session."""
        return REVISED_ROWS if self.rule[REVISES] else SESSION_ROWS

    def live(self) -> Int64s:
        """Return the columns of sessions, by partition and begin."""
        held = np.flatnonzero(self._arrived[PARTITION] >= 0)
        return held[np.lexsort((self._arrived[BEGIN, held], self._arrived[PARTITION, held]))]

    def ensure(self, capacity: int, tuples: int) -> None:
        """Let there be partitions with ids below a capacity, and room for a new session for each of some tuples."""
        if capacity > len(self._heads):
            self._heads = grown(self._heads, power(capacity), fill=-1)
        if (lacking := tuples - self._spared) > 0:
            made = self._arrived.shape[1]
            more = power(made + lacking) - made
            fresh = np.zeros((self.height, more), np.int64)
            fresh[PARTITION] = -1
            self._arrived = np.concatenate((self._arrived, fresh), axis=1)
            self._spare = grown(self._spare, made + more)
            self._spare[self._spared : self._spared + more] = np.arange(made + more - 1, made - 1, -1)
            self._spared += more

    def take(
        self, page: Page, ticks: Int64s, parts: Int32s, promises: Promises | None = None
    ) -> Iterator[FiredSessions]:
        """Take tuples, and yield the results of the sessions that they fire; their slots hold until the next.

        With `promises` in the page, of all tuples, those are heard that let sessions fire; the last is still to come.
        """
        self.ensure(self.partitions.capacity, len(ticks))
        limits, pool = self.partitions.limits(parts), self.pool
        bounds, stands = np.empty(0, np.int64), np.empty(0, np.int64)
        if promises is not None:
            bounds, stands = np.maximum.accumulate(promises.bounds), promises.positions
            limits = np.maximum(limits, np.append(BEFORE_ALL, bounds)[stands_before(stands, len(ticks))])
        room = min(2 * len(ticks) + 2, _ROOM)
        # Each tuple may end what was given of one session.
        ended = len(ticks) if self.rule[REVISES] else 0
        targets, found = np.empty(len(ticks), np.int32), np.empty((6, room + ended + 1), np.int64)
        pairs, cursor = np.empty((3, 2 * len(ticks) + room + 1), np.int32), np.zeros(7, np.int64)
        cursor[READY], heard = BEFORE_ALL if promises is None else self._ready(BEFORE_ALL), 0
        fresh, nodes = pool.take(room), self.compiled.nodes
        trigger = (self.rule, nodes, *np.empty((2, nodes.shape[1]), np.bool_))
        while (begin := int(cursor[TUPLE])) < len(ticks):
            if len(fresh) < 2:
                fresh = np.concatenate((fresh, pool.take(room)))
            cursor[TAKEN : LISTED + 1], cursor[SPARED] = 0, self._spared
            kernels.arrive(
                parts, ticks, limits, trigger, self._heads, self._arrived, self._spare, fresh, targets, pairs, found,
                cursor,
            )  # fmt: skip
            self._spared, end = int(cursor[SPARED]), int(cursor[TUPLE])
            if end > begin:
                pool.update(targets[begin:end], page.slice(begin, end))
            combined, left, listed = int(cursor[COMBINED]), int(cursor[LEFT]), int(cursor[LISTED])
            pool.combine(pairs[INTO, :combined].copy(), pairs[SOURCE, :combined].copy())
            pool.give(pairs[SPENT, :left].copy())
            fresh = fresh[cursor[TAKEN] :]
            if listed:
                # What is listed next overwrites it, and pages of results share their memory with it.
                yield from self._listed(found[:, :listed].copy())
            stop = len(bounds) if end == len(ticks) else int(np.searchsorted(stands, end, side="right"))
            while (at := heard + int(np.searchsorted(bounds[heard:stop], cursor[READY]))) < stop:
                bound, heard = int(bounds[at]), at + 1
                yield from self._confirm_before(bound)
                cursor[READY] = self._ready(bound)
            heard = stop
        pool.give(fresh)

    def _listed(self, found: Int64s) -> Iterator[FiredSessions]:
        """Yield results as they were found, what is taken back by itself; their slots hold until the next."""
        parts = [found]
        if self.rule[REVISES]:
            gone = found[SLOT] < 0
            parts = np.split(found, np.flatnonzero(gone[1:] != gone[:-1]) + 1, axis=1)
        for some in parts:
            slots, lost = some[SLOT].astype(np.int32), bool(some[SLOT, 0] < 0)
            owners = some[OWNER].astype(np.int32)
            yield FiredSessions(owners, slots, some[BEGINS], some[ENDS], some[FIRES], some[TURN], gone=lost)
            if not lost:
                self.pool.give(slots)

    def _ready(self, bound: int) -> int:
        """Return the least begin beyond a bound of a session that may fire once it is certain; FOREVER for none."""
        begins, lacking = self._arrived[BEGIN], self._arrived[LACKING]
        waits = (self._arrived[PARTITION] >= 0) & (self._arrived[CERTAIN] == 0) & (begins > bound) & (lacking == 0)
        return int(begins[waits].min(initial=FOREVER))

    def _confirm_before(self, bound: int) -> Iterator[FiredSessions]:
        """Let sessions be certain that a promise of all tuples leaves open, and yield the results that fire."""
        live = self.live()
        live = live[self._arrived[LAST, live] + self.rule[GAP] > bound]
        limits = np.full(len(live), bound)
        return self.confirm(live, limits, limits)

    def certain(self) -> Int64s:
        """Return the columns of the sessions that are certain."""
        return np.flatnonzero((self._arrived[PARTITION] >= 0) & (self._arrived[CERTAIN] > 0))

    def tell(self, bit: int) -> Iterator[FiredSessions]:
        """Let the sessions that are certain see a signal, and yield the results of those that fire."""
        which = self.certain()
        if self.rule[REVISES]:
            which = which[~self._over(which, self.limits(which))]
        self._tell(which, bit)
        return self.ask(which)

    def _tell(self, which: Int64s, bit: int) -> None:
        """Let sessions see a signal; one without a new tuple has nothing to fire for."""
        self._arrived[ALL_SIGNALS, which] |= bit
        self._arrived[SIGNALS, which[self._arrived[ROWS, which] > 0]] |= bit

    def ask(self, which: Int64s) -> Iterator[FiredSessions]:
        """Ask the trigger how many tuples some sessions lack, and yield the results of those that fire."""
        self._lack(which)
        which = which[self._arrived[LACKING, which] == 0]
        if len(which) == 0:
            return
        slots, again = self._arrived[AGGREGATE, which].astype(np.int32), self.pool.take(len(which))
        if not self.rule[DISCARDS]:
            self.pool.combine(again, slots)
        yield self._results(which)
        steps = self.compiled.node.stepped(self._seen(which), np.ones(len(which), np.bool_))
        self.pool.give(slots)
        self._arrived[TOLD_END, which] = self._arrived[LAST, which] + self.rule[GAP]
        self._arrived[AGGREGATE, which] = again
        self._arrived[STEPS, which] = steps
        self._arrived[ROWS, which] = 0
        self._arrived[SIGNALS, which] = 0
        self._arrived[FIRINGS, which] += 1
        self._lack(which)

    def settle(self, which: Int64s, limits: Int64s) -> Iterator[FiredSessions]:
        """Yield the final results of those of these sessions that end below their limits, and forget them.

        With DISCARDS those without a tuple since they fired have none.
        """
        over = which[self._over(which, limits)]
        if len(over) == 0:
            return
        given = over[self._arrived[ROWS, over] > 0] if self.rule[DISCARDS] else over
        if len(given):
            yield self._results(given)
        self._forget(over)

    def revise(self, which: Int64s, limit: int, settled: int) -> Iterator[FiredSessions]:
        """Yield the final results of those of these sessions that end up to a limit, where they are not as given last.

        Those that end up to `settled` are forgotten, since no tuple changes them any more.
        """
        over = which[self._over(which, limit)]
        asked = over[self._arrived[STANDS, over] == 0]
        if len(asked):
            slots, ends = self._arrived[AGGREGATE, asked].astype(np.int32), self._arrived[LAST, asked] + self.rule[GAP]
            columns = [accumulator.finalize(slots) for accumulator in self.pool.accumulators]
            words = digests([*columns, tick_column(ends)], len(asked)).view(np.int64)
            changed = (self._arrived[TURNS, asked] == 0) | (self._arrived[DIGEST, asked] != words)
            if len(given := asked[changed]):
                yield self._results(given)
                self._arrived[FIRINGS, given] += 1
                self._arrived[TURNS, given] += 1
                self._arrived[TOLD_END, given] = ends[changed]
            self._arrived[DIGEST, asked] = words
            self._arrived[STANDS, asked] = 1
            self._arrived[ROWS, asked] = 0
            self._arrived[SIGNALS, asked] = 0
            self._lack(asked)
        self._forget(over[self._over(over, settled)])

    def are_over(self, which: Int64s, limits: Int64s) -> Bools:
        """Return which of these sessions end up to their limits, or are held no more."""
        return (self._arrived[PARTITION, which] < 0) | self._over(which, limits)

    def open_spans(self, most: int) -> tuple[Int32s, Int64s, Int64s]:
        """Return partition, begin and end of so many sessions that are not over, the first to end first."""
        live = self.live()
        live = live[~self._over(live, self.limits(live))]
        live = live[np.lexsort((self._arrived[BEGIN, live], self._arrived[LAST, live]))][:most]
        return self.parts(live), self._arrived[BEGIN, live], self._arrived[LAST, live] + self.rule[GAP]

    def _over(self, which: Int64s, limits: int | Int64s) -> Bools:
        """Return which of these sessions end up to their limits."""
        over: Bools = self._arrived[LAST, which] + self.rule[GAP] <= limits
        return over

    def _forget(self, over: Int64s) -> None:
        """Let go of sessions."""
        if len(over) == 0:
            return
        self.pool.give(self._arrived[AGGREGATE, over].astype(np.int32))
        self._arrived[PARTITION, over] = -1
        self._spare[self._spared : self._spared + len(over)] = over
        self._spared += len(over)
        self._link()

    def confirm(self, which: Int64s, before: Int64s, limits: Int64s) -> Iterator[FiredSessions]:
        """Let those of these sessions be certain that begin up to their limits, and yield the results that fire.

        None of them is over. Those of which nothing has come for as long as a lull lasts hear of it, and those of which
        the limits have passed a tick that they had not passed `before`.
        """
        asked = (self._arrived[BEGIN, which] <= limits) & (self._arrived[CERTAIN, which] == 0)
        self._arrived[CERTAIN, which[asked]] = 1
        for moment in self.compiled.moments:
            passed = self._arrived[CERTAIN, which] > 0
            begins = self._arrived[BEGIN, which[passed]]
            passed[passed] = crossed(moment, before[passed], limits[passed], begins)
            self._tell(which[passed], self.compiled.bit(moment))
            asked |= passed
        for lull in self.compiled.lulls:
            quiet = (self._arrived[CERTAIN, which] > 0) & (self._arrived[LAST, which] + lull.ticks <= limits)
            self._tell(which[quiet], self.compiled.bit(lull))
            asked |= quiet
        return self.ask(which[asked])

    def limits(self, which: Int64s) -> Int64s:
        """Return for each of these sessions what nothing more of its partition is to come below."""
        return self.partitions.limits(self.parts(which))

    def parts(self, which: Int64s) -> Int32s:
        """Return the partition of each of these sessions."""
        return self._arrived[PARTITION, which].astype(np.int32)

    def idle(self, parts: Int32s) -> Int32s:
        """Return those of these partitions that have no session."""
        return parts[self._heads[parts] < 0]

    def first(self, which: Int64s) -> int:
        """Return where the earliest of these sessions begins; FOREVER for none."""
        return int(self._arrived[BEGIN, which].min(initial=FOREVER))

    def least_told(self) -> int:
        """Return the least end that an early result of a session told; FOREVER for none."""
        return int(self._arrived[TOLD_END, self.live()].min(initial=FOREVER))

    def end(self, begin: int) -> int | None:
        """Return where sessions that begin at a tick end at last, as far as is known; None where there is none."""
        live = self.live()
        lasts = self._arrived[LAST, live[self._arrived[BEGIN, live] == begin]]
        return int(lasts.max() + self.rule[GAP]) if len(lasts) else None

    def _results(self, which: Int64s) -> FiredSessions:
        held = self._arrived[:, which]
        slots = held[AGGREGATE].astype(np.int32)
        turns = held[TURNS] if self.rule[REVISES] else np.zeros(len(which), np.int64)
        return FiredSessions(self.parts(which), slots, held[BEGIN], held[LAST] + self.rule[GAP], held[FIRINGS], turns)

    def _seen(self, which: Int64s) -> Seen:
        return Seen(*(self._arrived[row, which] for row in (ROWS, ALL_ROWS, SIGNALS, ALL_SIGNALS, STEPS)))

    def _lack(self, which: Int64s) -> None:
        self._arrived[LACKING, which] = self.compiled.node.lacking(self._seen(which))

    def _link(self) -> None:
        """Make the list of the sessions of each partition anew."""
        live = self.live()
        link(self._heads, self._arrived[FOLLOWER], self._arrived[PARTITION, live], live)

    def _after_restoring(self) -> None:
        arrived = self._arrived
        if len(arrived) != self.height:
            raise ValueError(f"the saved state holds sessions of {len(arrived)} values, and not of {self.height}")
        parts, slots = arrived[PARTITION], arrived[AGGREGATE]
        inside = (parts >= 0) & (parts < self.partitions.capacity) & (slots >= 0) & (slots < self.pool.made)
        if not inside.all() or len(np.unique(slots)) < len(slots):
            raise ValueError("the saved state holds a session without a group or an aggregate of its own")
        if (arrived[LAST] < arrived[BEGIN]).any() or (arrived[ALL_ROWS] < np.maximum(arrived[ROWS], 1)).any():
            raise ValueError("the saved state holds a session that ends before it begins, or that has no tuple")
        follows = (parts[1:] == parts[:-1]) & (arrived[BEGIN, 1:] < arrived[LAST, :-1] + self.rule[GAP])
        if (np.diff(parts) < 0).any() or follows.any():
            raise ValueError("the saved state holds sessions of one group that overlap")
        self._spare, self._spared = np.empty(arrived.shape[1], np.int64), 0
        self._heads = np.full(power(self.partitions.capacity), -1)
        self._link()
        self._lack(self.live())


def stands_before(positions: Int64s, tuples: int) -> Int64s:
    """Return for each of so many tuples how many promises at these positions stand before it.

    >>> stands_before(np.array([0, 2, 2]), 4).tolist()
    [1, 1, 3, 3]
    """
    return np.searchsorted(positions, np.arange(tuples), side="right")


def link(heads: Int64s, followers: Int64s, owners: Int64s, live: Int64s) -> None:
    """Make lists of places anew: the first place of each owner, and the place that follows each; -1 for none.

    `live` are the places, owner by owner and in the order of their lists; `owners` has the owner of each.
    """
    heads[:] = -1
    followers[live] = -1
    same: Bools = owners[1:] == owners[:-1]
    followers[live[:-1][same]] = live[1:][same]
    leads = np.append(True, ~same)[: len(live)]
    heads[owners[leads]] = live[leads]
