"""Windows of predicates fire as their tuples become final: what each has at each of its firings, in their order.

Final tuples are in the order of their tick, so a firing lies between two of them, whatever the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s
from operators.functions.columns import frozen, grown
from operators.functions.protocol import Slots
from operators.kernels.ranked import cuts as kernels
from operators.kernels.ranked.layout import BEGIN, END
from operators.kernels.ranked.parts import fire_on_ticks, runs
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window_aggregate.stores.ranked.cuts import Cuts
from operators.window_aggregate.stores.ranked.waiting import Bytes
from operators.window_aggregate.stores.ranked.waiting import Final as Ordered
from operators.window_aggregate.triggers.condition import Compiled, Seen
from operators.window_aggregate.triggers.cuts import cut
from operators.window_aggregate.triggers.parts import Parts, combine_parts
from operators.window_aggregate.triggers.promised import Every, Moment, crossed

ROWS, ALL_ROWS, SIGNALS, ALL_SIGNALS, STEPS, FIRINGS, REACHED, LAST, TOLD = range(9)
"""Rows of what is known of the open window of each group: what a trigger has seen of it, how often it fired, up to
which tick it did on event time, its last tick, and the end that its last early result told, FOREVER for none.
"""
_SEEN: Final = 9


@attrs.frozen(eq=False)
class Results:
    """Results of windows: group, slot, begin and end of each, which firing it is, and at which tick; shape (n,)."""

    groups: Int32s
    slots: Slots
    begins: Int64s
    ends: Int64s
    numbers: Int64s
    fires: Int64s
    """FOREVER where it is not over the tuples before a tick."""


@attrs.frozen(eq=False)
class Taken:
    """Hold what final tuples bring: results that are early, those that are final, and what is of no use after these."""

    early: Results
    final: Results
    spent: Slots
    """Slots that have an owner."""
    loose: Slots
    """Slots that have none."""
    outside: int
    """How many tuples are in no window."""


@attrs.frozen(eq=False)
class _Keys:
    """The windows of groups that final tuples go into, or that are open, ascending by window; shape (n,)."""

    windows: Int64s
    groups: Int32s
    held: Bools
    """Whether it was open before."""
    begins: Int64s
    ends: Int64s
    """FOREVER for those that stay open."""
    counts: Int64s
    """How many of the tuples each has."""
    starts: Int64s
    """The place of the first of these."""
    ticks: Int64s
    """Those of the tuples, by window and group, in their order; as many as tuples."""


@attrs.define(eq=False)
class FiredCuts(Cuts):
    """Hold what Cuts do, and 72 bytes for each group in an open window: what a trigger has seen of it."""

    compiled: Compiled = attrs.field(kw_only=True)
    moments: Sequence[Moment] = attrs.field(default=(), kw_only=True)
    """Where windows fire on event time alone: when."""
    discards: bool = attrs.field(default=False, kw_only=True)
    _seen: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros((_SEEN, 1), np.int64),
        metadata=memory.array(wide=True, name="seen", of=lambda cuts: cuts._seen[:, cuts.holding()]),
    )
    """A column for each group."""
    _until: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, BEFORE_ALL),
        metadata=memory.sparse("until", name="final", places="capacity"),
    )
    """Up to where all is final, by partition that has an open window."""

    def ensure(self, capacity: int) -> None:
        super().ensure(capacity)
        self._until = grown(self._until, len(self._begins), fill=BEFORE_ALL)
        if (more := len(self._slots) - self._seen.shape[1]) > 0:
            self._seen = np.concatenate((self._seen, np.zeros((_SEEN, more), np.int64)), axis=1)

    def holding(self) -> Int32s:
        """Return the groups that have a tuple in an open window, ascending."""
        return np.flatnonzero(self._slots >= 0).astype(np.int32)

    def take(self, final: Ordered, bits: Bytes, bound: int, over: int) -> Taken:
        """Take final tuples in order, of partitions in the order of their ids; return what fires and what is over."""
        before, parts = self._until[final.parts], final.parts
        pool, n, slots = self.pool, len(final.values), final.slots
        numbers, firsts = np.empty(n, np.int64), np.empty(len(final.parts) + 1, np.int64)
        windows = np.empty((2, n + len(final.parts)), np.int64)
        kernels.cut(
            final.parts, final.ends, final.values, bits, bound, over, self.window.rule, self.window.within or 0,
            (self._begins, self._lasts), numbers, firsts, windows,
        )  # fmt: skip
        self._until[parts] = np.where(self.is_open(parts), bound, BEFORE_ALL)
        within = numbers >= 0
        outside = n - int(np.count_nonzero(within))
        inside = np.flatnonzero(within) if outside else slice(None)
        keys, order, of = self._keys(final, inside, numbers, firsts, windows)
        seen = np.zeros((_SEEN, len(keys.groups)), np.int64)
        seen[TOLD], seen[REACHED] = FOREVER, keys.begins
        seen[:, keys.held] = self._seen[:, keys.groups[keys.held]]
        until = np.where(keys.ends == FOREVER, bound, keys.ends - 1)
        since = before[self._places(parts, keys.groups)]
        if self.moments:
            fired, ends, fires = self._on_ticks(keys, seen, until)
        else:
            for moment in self.compiled.moments:
                known = ~keys.held & (since > keys.begins) & crossed(moment, BEFORE_ALL, since, keys.begins)
                seen[ALL_SIGNALS] |= np.where(known, self.compiled.bit(moment), 0)
            cuts = cut(self.compiled, _seen(seen), keys.counts)
            fired, ends, seen[STEPS] = cuts.fired, cuts.ends, cuts.steps
            fires = np.full(len(ends), FOREVER)
        over_now, some = keys.ends != FOREVER, fired > 0
        made, rest = pool.take(int(fired.sum())), self._slots[keys.groups].astype(np.int32)
        fresh = some | ~keys.held
        rest[fresh] = pool.take(int(np.count_nonzero(fresh)))
        combine_parts(
            pool,
            of,
            slots[inside][order],
            Parts(fired, ends, keys.held, self._slots[keys.groups], made, rest),
            self.discards,
        )
        which, last = np.repeat(np.arange(len(fired)), fired), np.cumsum(fired) - 1
        numbered = np.arange(len(which)) - (last + 1 - fired)[which]
        # A firing before all of these tuples is over those that the window had.
        lasts = np.where(
            ends > 0, np.append(keys.ticks, 0)[np.maximum(keys.starts[which] + ends - 1, 0)], seen[LAST, which]
        )
        early = Results(
            keys.groups[which], made, keys.begins[which], lasts + 1, seen[FIRINGS, which] + numbered, fires
        )  # fmt: skip
        left = keys.counts - np.where(some, np.append(ends, 0)[last], 0)
        seen[ROWS] = np.where(some, 0, seen[ROWS]) + left
        seen[ALL_ROWS] += keys.counts
        seen[SIGNALS, some] = 0
        seen[FIRINGS] += fired
        seen[REACHED] = np.maximum(seen[REACHED], until)
        seen[TOLD, some] = (lasts + 1)[last[some]]
        if not self.moments:
            for moment in self.compiled.moments:
                bits = np.where(crossed(moment, since, bound, keys.begins), self.compiled.bit(moment), 0)
                seen[ALL_SIGNALS] |= bits
                seen[SIGNALS] |= np.where(seen[ROWS] > 0, bits, 0)
        filled = keys.counts > 0
        seen[LAST, filled] = keys.ticks[(keys.starts + keys.counts - 1)[filled]]
        given = over_now & (keys.ends != BEFORE_ALL)
        given &= (seen[ROWS] > 0) | (not self.discards)
        results = Results(
            keys.groups[given], rest[given], keys.begins[given], keys.ends[given], seen[FIRINGS, given],
            keys.ends[given],
        )  # fmt: skip
        replaced = keys.held & (some | over_now)
        spent = np.concatenate((slots, self._slots[keys.groups[replaced]].astype(np.int32)))
        loose = np.concatenate((made, rest[over_now & fresh]))
        self._hold(keys, seen, rest, fresh & ~over_now, ~over_now)
        return Taken(early, results, spent, loose, outside)

    def tell(self, which: Int32s, bit: int) -> None:
        """Let the windows of groups see a signal; one without a new tuple has nothing to fire for."""
        self._seen[ALL_SIGNALS, which] |= bit
        self._seen[SIGNALS, which[self._seen[ROWS, which] > 0]] |= bit

    def ask(self, which: Int32s) -> Results:
        """Return the results of those windows of groups that fire, with all that is final; slots hold until `reset`."""
        node, seen = self.compiled.node, self._seen
        which = which[node.lacking(self._of(which)) == 0]
        found = Results(
            which, self._slots[which].astype(np.int32), self._since[which], seen[LAST, which] + 1,
            seen[FIRINGS, which], np.full(len(which), FOREVER),
        )  # fmt: skip
        seen[STEPS, which] = node.stepped(self._of(which), np.ones(len(which), np.bool_))
        seen[TOLD, which] = found.ends
        seen[ROWS, which] = 0
        seen[SIGNALS, which] = 0
        seen[FIRINGS, which] += 1
        return found

    def reset(self, found: Results) -> Slots:
        """Let groups begin again without what is in these results; gives the slots that these leave."""
        if not self.discards or len(found.groups) == 0:
            return found.slots[:0]
        fresh = self.pool.take(len(found.groups))
        if self.owners is not None:
            self.owners.add(fresh, found.groups)
        self._slots[found.groups] = fresh
        return found.slots

    def least_end(self) -> int:
        """Return a tick that no later result of an open window ends before, nor one that is taken back."""
        held = self.holding()
        return int(np.minimum(self._seen[TOLD, held], self._seen[LAST, held] + 1).min(initial=FOREVER))

    def _of(self, which: Int32s) -> Seen:
        return _seen(self._seen[:, which])

    def _keys(
        self, final: Ordered, inside: Int64s | slice, numbers: Int64s, firsts: Int64s, windows: Int64s
    ) -> tuple[_Keys, Int64s | slice, Int64s]:
        """Return the windows of groups, the order of the tuples that are in one, and for each of these which it is."""
        parts, holding = final.parts, self.holding()
        at = self._places(parts, holding)
        its = parts[at] == self.partitions.part_of(holding)
        holding, at = holding[its], at[its]
        numbers = numbers[inside]
        if self.owners is None:
            # A window is of one group, and its tuples stand together.
            starts = np.empty(len(numbers), np.int64)
            starts = starts[: runs(numbers, starts)]
            mine, lengths = numbers[starts], np.diff(starts, append=len(numbers))
            which = np.union1d(firsts[at], mine)
            place, order, counts = np.searchsorted(which, mine), slice(None), np.zeros(len(which), np.int64)
            counts[place] = lengths
            of = np.repeat(place, lengths)
            groups = parts[np.searchsorted(firsts, which, side="right") - 1]
            held = np.isin(which, firsts[at])
        else:
            # The window that was open is the first of its partition.
            wide = max(1, self.capacity)
            both = np.concatenate((firsts[at] * wide + holding, numbers * wide + self.owners.of(final.slots[inside])))
            found, of = np.unique(both, return_inverse=True)
            held = np.zeros(len(found), np.bool_)
            held[of[: len(holding)]] = True
            of = of[len(holding) :]
            order = np.argsort(of, kind="stable")
            of, which, groups = of[order], found // wide, (found % wide).astype(np.int32)
            counts = np.bincount(of, minlength=len(which))
        keys = _Keys(
            which, groups, held, windows[BEGIN, which], windows[END, which], counts,
            np.cumsum(counts) - counts, final.values[inside][order],
        )  # fmt: skip
        return keys, order, of

    def _places(self, parts: Int32s, groups: Int32s) -> Int64s:
        """Return the place of the partition of each of these groups, or one of another, where it is not there."""
        return np.minimum(np.searchsorted(parts, self.partitions.part_of(groups)), len(parts) - 1)

    def _on_ticks(self, keys: _Keys, seen: Int64s, until: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return how often windows fire on event time, behind how many of their tuples, and at which ticks.

        A window fires at the first of its ticks behind a tuple, and not where it has nothing new.
        """
        steps = np.array([moment.ticks for moment in self.moments], np.int64)
        repeats = np.array([isinstance(moment, Every) for moment in self.moments], np.bool_)
        fired, listed = (
            np.empty(len(keys.groups), np.int64),
            np.empty((2, len(keys.ticks) + len(keys.groups)), np.int64),
        )
        windows = tuple(map(frozen, (keys.begins, seen[REACHED], seen[ROWS], keys.counts, until)))
        n = fire_on_ticks(windows, frozen(keys.ticks), steps, repeats, fired, listed)
        return fired, listed[0, :n], listed[1, :n]

    def _hold(self, keys: _Keys, seen: Int64s, rest: Slots, owned: Bools, stays: Bools) -> None:
        """Let groups have what is left open, and nothing of what is over."""
        gone = keys.groups[keys.held]
        self._since[gone], self._slots[gone] = FOREVER, -1
        groups = keys.groups[stays]
        self._since[groups], self._slots[groups] = keys.begins[stays], rest[stays]
        self._seen[:, groups] = seen[:, stays]
        if self.owners is not None:
            self.owners.add(rest[owned], keys.groups[owned])

    def _after_restoring(self) -> None:
        seen, self._seen = self._seen, np.zeros((_SEEN, 0), np.int64)
        super()._after_restoring()
        held = self.holding()
        if seen.shape != (_SEEN, len(held)):
            raise ValueError("the saved state holds an open window without what its trigger has seen of it")
        if (seen[ALL_ROWS] < np.maximum(seen[ROWS], 1)).any() or (seen[LAST] < self._since[held]).any():
            raise ValueError("the saved state holds an open window that has no tuple")
        self._seen[:, held] = seen


def _seen(columns: Int64s) -> Seen:
    """Return what windows have seen, a row each, of what is known of them."""
    return Seen(columns[ROWS], columns[ALL_ROWS], columns[SIGNALS], columns[ALL_SIGNALS], columns[STEPS])
