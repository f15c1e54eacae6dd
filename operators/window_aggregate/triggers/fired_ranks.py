"""Windows of n tuples fire as the ranks of their tuples become final: what each has at each of its firings."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.page import Bools, Int32s, Int64s
from operators.functions.protocol import Slots
from operators.kernels.ranked.parts import rank_runs
from operators.kernels.ranked.rank import ranks
from operators.window_aggregate.stores.ranked.queues import lengths
from operators.window_aggregate.stores.ranked.slices import RankSlices
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.stores.ranked.waiting import Final as Ordered
from operators.window_aggregate.triggers.condition import Compiled, Seen
from operators.window_aggregate.triggers.cuts import cut
from operators.window_aggregate.triggers.parts import Parts, combine_parts

GROUP, WID, SLOT, ROWS, ALL_ROWS, SIGNALS, ALL_SIGNALS, STEPS, FIRINGS = range(9)
"""Rows of what is known of the open windows: the group, the window-id, the slot, and what a trigger has seen."""
_KNOWN: Final = 9
_NONE: Final = np.empty(0, np.int64)
_EXPANDED: Final = 1 << 20
"""So many tuples in windows are taken at once."""


@attrs.frozen(eq=False)
class Ranked:
    """Results of windows: group, slot and window-id of each, and which firing of its window it is; shape (n,)."""

    groups: Int32s
    slots: Slots
    wids: Int64s
    numbers: Int64s


@attrs.frozen(eq=False)
class Sliced:
    """The slots of the slices of windows, window by window, and how many each has.

    Of all firings, `ends` tells behind how many slices of the window they lie.
    """

    slots: Slots
    counts: Int64s
    ends: Int64s


def slice_tuples(pool: Pool, slots: Slots, lows: Int64s, counts: Int64s, firing: Int64s, ends: Int64s) -> Sliced:
    """Combine tuples that are in the same windows on the same side of all firings, into the slot of the first of them.

    - `slots`: the slot of each tuple, in their order, a group behind the other.
    - `lows`, `counts`: where the tuples of each window begin, and how many they are.
    - `firing`: the window of each firing, ascending; `ends`: behind how many of its tuples it lies.
    """
    edges = distinct(np.concatenate((lows, lows + counts, lows[firing] + ends)))
    if len(edges) == 0:
        return Sliced(slots[:0], counts, ends)
    leads = np.zeros(len(slots), np.bool_)
    leads[edges[:-1]] = True
    inside = slice(int(edges[0]), int(edges[-1]))
    into, others = np.repeat(slots[edges[:-1]], np.diff(edges)), ~leads[inside]
    pool.combine(into[others], slots[inside][others])
    first, last = np.searchsorted(edges, lows), np.searchsorted(edges, lows + counts)
    of, behind = _listed(last - first)
    behind_slices = np.searchsorted(edges, lows[firing] + ends) - first[firing]
    return Sliced(slots[edges[first[of] + behind]], last - first, behind_slices)


@attrs.define(eq=False)
class FiredRanks(RankSlices):
    """Hold the open windows of each group, 72 bytes each and a slot of the pool, and two numbers a partition."""

    compiled: Compiled = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    _open: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros((_KNOWN, 0), np.int64),
        metadata=memory.array(wide=True, name="open"),
    )
    """A column for each window of a group, by group and window-id."""

    def __len__(self) -> int:
        return self._open.shape[1]

    def portions(self, final: Ordered) -> list[tuple[Int32s, Slots]]:
        """Part final tuples, in their order, so that not too many are taken at once; gives partitions and slots."""
        parts = np.repeat(final.parts, lengths(final.ends))
        most = max(1, _EXPANDED // (self.window.size // self.window.slide + 1))
        return [(parts[at : at + most], final.slots[at : at + most]) for at in range(0, len(parts), most)]

    def take(self, parts: Int32s, slots: Slots) -> tuple[Ranked, Slots]:
        """Take final tuples of partitions, in order; return what fires, and slots that have owners and are left."""
        pool, held, spent = self.pool, self._open, slots
        overlapping = self.owners is None and self.window.size > self.window.slide
        lows = _NONE
        if overlapping:
            new_groups, new_wids, new_counts, lows = self._overlapping(parts)
        else:
            (new_groups, new_wids, new_counts), slots = self._runs(parts, slots)
        touched = np.isin(held[GROUP], new_groups)
        kept, held = held[:, ~touched], held[:, touched]
        many = held.shape[1]
        # What is held stands before what the tuples bring to the same window and group.
        both = np.concatenate((held[GROUP], new_groups)), np.concatenate((held[WID], new_wids))
        order = np.lexsort(both[::-1])
        first = _leads(both[0][order], both[1][order])
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(first) - 1
        known = np.zeros((_KNOWN, int(first.sum())), np.int64)
        known[GROUP], known[WID] = both[0][order[first]], both[1][order[first]]
        before = np.zeros(known.shape[1], np.bool_)
        before[place[:many]] = True
        known[:, place[:many]] = held
        new, counts = place[many:], np.zeros(known.shape[1], np.int64)
        counts[new] = new_counts
        cuts = cut(self.compiled, _seen(known), counts)
        fired, some = cuts.fired, cuts.fired > 0
        which = np.repeat(np.arange(len(fired)), fired)
        if overlapping:
            sliced = slice_tuples(pool, slots, lows, new_counts, np.searchsorted(new, which), cuts.ends)
            slots, ends, new_counts = sliced.slots, sliced.ends, sliced.counts
        else:
            ends = cuts.ends
        of = np.repeat(new, new_counts)
        made, rest = pool.take(int(fired.sum())), known[SLOT].astype(np.int32)
        fresh = some | ~before
        replaced = rest[fresh & before]
        rest[fresh] = pool.take(int(np.count_nonzero(fresh)))
        combine_parts(pool, of, slots, Parts(fired, ends, before, known[SLOT], made, rest), self.discards)
        numbers = known[FIRINGS, which] + np.arange(len(which)) - (np.cumsum(fired) - fired)[which]
        found = Ranked(known[GROUP, which].astype(np.int32), made, known[WID, which], numbers)
        known[SLOT] = rest
        known[ROWS] = np.where(some, 0, known[ROWS]) + cuts.left
        known[ALL_ROWS] += counts
        known[SIGNALS, some] = 0
        known[STEPS] = cuts.steps
        known[FIRINGS] += fired
        if self.owners is not None:
            self.owners.add(rest[fresh], known[GROUP, fresh].astype(np.int32))
        self._become(np.concatenate((kept, known), axis=1))
        return found, np.concatenate((spent, replaced))

    def _runs(self, parts: Int32s, slots: Slots) -> tuple[Int64s, Slots]:
        """Return which final tuples are in one window of a group, and the slots of all tuples in this order.

        Rows of the first are groups, window-ids, and how many they are, ascending by group and window-id.
        """
        window = self.window
        if self.owners is None and window.size == window.slide and window.least <= 0:
            # Each is in one window, and mostly they stand together.
            found = np.empty((3, len(parts)), np.int64)
            n = int(rank_runs(parts, self._ranked, window.size, found))
            if n >= 0:
                return found[:, :n], slots
        ranked = np.empty(len(parts), np.int64)
        ranks(parts, self._ranked, ranked)
        first = np.maximum(ranked // window.slide, window.least)
        times = np.maximum((ranked + window.size) // window.slide - first, 0)
        of_tuple = np.repeat(np.arange(len(parts)), times)
        wids = first[of_tuple] + np.arange(len(of_tuple)) - np.repeat(np.cumsum(times) - times, times)
        owners = parts if self.owners is None else self.owners.of(slots)
        groups = owners[of_tuple]
        order = _sorted(groups, wids)
        groups, wids, of_tuple = groups[order], wids[order], of_tuple[order]
        starts = np.flatnonzero(_leads(groups, wids))
        counts = np.diff(starts, append=len(wids))
        return np.stack((groups[starts].astype(np.int64), wids[starts], counts)), slots[of_tuple]

    def _overlapping(self, parts: Int32s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return which windows final tuples are in, where each is in a window, and partitions are the groups.

        Gives groups, window-ids, how many tuples, and the place of the first, ascending by group and window-id.
        """
        window = self.window
        starts = np.flatnonzero(np.append(True, parts[1:] != parts[:-1])[: len(parts)])
        counts = np.diff(starts, append=len(parts))
        order = np.argsort(parts[starts], kind="stable")
        starts, counts = starts[order], counts[order]
        groups = parts[starts].astype(np.int64)
        begins = self._ranked[groups]
        ends = begins + counts
        self._ranked[groups] = ends
        first = np.maximum(begins // window.slide, window.least)
        of, behind = _listed(np.maximum((ends - 1 + window.size) // window.slide - first, 0))
        wids = first[of] + behind
        stops = (wids + 1) * window.slide
        lows = np.maximum(begins[of], stops - window.size)
        return groups[of], wids, np.minimum(ends[of], stops) - lows, starts[of] + lows - begins[of]

    def release(self, parts: Int32s, over: bool) -> tuple[Ranked, Slots]:
        """Let go of the windows of partitions that are complete, of all if these are over; return their results.

        Gives the slots that these leave, too, which hold until they are given back.
        """
        known = self._open
        its = self.partitions.part_of(known[GROUP].astype(np.int32))
        at = np.minimum(np.searchsorted(parts, its), len(parts) - 1)
        done = (parts[at] == its) & (known[WID] < self.complete(parts, over)[at])
        self._open, gone = known[:, ~done], known[:, done]
        gone = gone[:, np.argsort(gone[WID], kind="stable")]
        slots = gone[SLOT].astype(np.int32)
        if self.discards:
            gone = gone[:, gone[ROWS] > 0]
        return _results(gone), slots

    def tell(self, bit: int) -> tuple[Ranked, Slots]:
        """Let all open windows see a signal; return the results of those that fire, and the slots that these leave."""
        known, node = self._open, self.compiled.node
        known[ALL_SIGNALS] |= bit
        known[SIGNALS, known[ROWS] > 0] |= bit
        which = np.flatnonzero(node.lacking(_seen(known)) == 0)
        found = _results(known[:, which])
        known[STEPS, which] = node.stepped(_seen(known[:, which]), np.ones(len(which), np.bool_))
        known[ROWS, which] = 0
        known[SIGNALS, which] = 0
        known[FIRINGS, which] += 1
        if not self.discards or len(which) == 0:
            return found, found.slots[:0]
        fresh = self.pool.take(len(which))
        if self.owners is not None:
            self.owners.add(fresh, found.groups)
        known[SLOT, which] = fresh
        return found, found.slots

    def _become(self, known: Int64s) -> None:
        self._open = known[:, np.lexsort((known[WID], known[GROUP]))]

    def _after_restoring(self) -> None:
        super()._after_restoring()
        known = self._open
        if len(known) != _KNOWN or not ((known[GROUP] >= 0) & (known[GROUP] < self.capacity)).all():
            raise ValueError("the saved state holds open windows of no group, or of values that are not known")
        slots = known[SLOT]
        if not ((slots >= 0) & (slots < self.pool.made)).all() or len(np.unique(slots)) < len(slots):
            raise ValueError("the saved state holds two open windows with one aggregate, or one without")
        if (known[ALL_ROWS] < np.maximum(known[ROWS], 1)).any():
            raise ValueError("the saved state holds an open window that has no tuple")


def _sorted(groups: Int32s, wids: Int64s) -> Int64s | slice:
    """Return the order of tuples by group and window, those of one in their own; mostly they are in it."""
    same = groups[1:] == groups[:-1]
    if ((groups[1:] > groups[:-1]) | (same & (wids[1:] >= wids[:-1]))).all():
        return slice(None)
    return np.lexsort((wids, groups))


def _listed(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return, for so many of each, of which it is, and how many of that one stand before it."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - (np.cumsum(counts) - counts)[of]


def _leads(groups: Int64s | Int32s, wids: Int64s) -> Bools:
    """Return which of these are the first of their group and window."""
    return np.append(True, (groups[1:] != groups[:-1]) | (wids[1:] != wids[:-1]))[: len(wids)]


def _seen(known: Int64s) -> Seen:
    return Seen(known[ROWS], known[ALL_ROWS], known[SIGNALS], known[ALL_SIGNALS], known[STEPS])


def _results(known: Int64s) -> Ranked:
    return Ranked(known[GROUP].astype(np.int32), known[SLOT].astype(np.int32), known[WID].copy(), known[FIRINGS].copy())
