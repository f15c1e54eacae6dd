"""A bag of int64 keys a slot is kept as sorted runs of (key, count), which slots share until they are merged.

New values go to one log for all slots; a full log becomes one run a slot that it mentions. Combining a slice into a
window copies no run: the window refers to it. So a value is sorted once, in its slice, whatever the number of windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Bools, Int64s
from operators.data.saved import ROOM, bounded
from operators.functions.columns import frozen, grown
from operators.functions.protocol import Slots
from operators.kernels.functions import runs as kernels
from operators.kernels.functions.selection import bag_totals, select_ranked

LEAST = 64
LONGEST = 1 << 16
"""Tuples that the log holds at most; four times as many when it would make runs of less than four."""
LONG = 256
"""Keys of a slot from which a call to numpy pays."""
CHUNK = 1 << 20
"""Entries that are merged for reading at a time."""
T = TypeVar("T", bound=np.generic)


@attrs.frozen(eq=False)
class Merged:
    """Bags of slots[first:stop]: that of slots[first + j] is keys[offsets[j] : offsets[j + 1]], sorted, with counts."""

    first: int
    stop: int
    offsets: Int64s
    keys: Int64s
    counts: Int64s


@attrs.define
class Bags(memory.Stateful):
    """Bags as they are saved: that of slots[i] has lengths[i] keys, each with how often it is in it."""

    capacity: int = attrs.field(default=0, metadata=memory.integer(least=0, most=ROOM - 1))
    slots: Slots = attrs.field(
        factory=lambda: np.empty(0, np.int32), metadata=memory.array(below="capacity", apart=True)
    )
    keys: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), metadata=memory.array())
    counts: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(least=1, below=1 << 40, length="keys")
    )
    lengths: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(least=0, below=ROOM, length="slots")
    )


@attrs.define(eq=False)
class Runs(memory.Slotted):
    """Hold a bag a slot: 12 bytes a slot, 12 a reference to a run, 24 a run and 16 to 48 a distinct key of a run."""

    _heads: Slots = attrs.field(factory=lambda: np.zeros(0, np.int32), init=False, metadata=memory.slots(saved=False))
    _sizes: Slots = attrs.field(factory=lambda: np.zeros(0, np.int32), init=False, metadata=memory.slots(saved=False))
    _waiting: Slots = attrs.field(factory=lambda: np.zeros(0, np.int32), init=False, metadata=memory.slots(saved=False))
    _log_slots: Slots = attrs.field(init=False, metadata=memory.rebuilt())
    _log_keys: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _touched: Slots = attrs.field(init=False, metadata=memory.rebuilt())
    _runs: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _links: Slots = attrs.field(init=False, metadata=memory.rebuilt())
    _keys: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _counts: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _tally: Int64s = attrs.field(init=False)
    _form: None = attrs.field(init=False, default=None, metadata=memory.form(Bags, "_become", lambda runs: runs.bags()))

    def __attrs_post_init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._log_slots, self._touched = np.zeros(LEAST, np.int32), np.zeros(LEAST, np.int32)
        self._log_keys = np.zeros(LEAST, np.int64)
        self._runs, self._links = np.zeros((LEAST, 3), np.int64), np.zeros((LEAST, 3), np.int32)
        self._keys, self._counts = np.zeros(LEAST, np.int64), np.zeros(LEAST, np.int64)
        self._tally = np.zeros(9, np.int64)

    @property
    def entries(self) -> int:
        """Return the entries of all runs, and tuples in none yet: no fewer than there are distinct keys."""
        return int(self._tally[kernels.HELD] + self._tally[kernels.LOGGED])

    def add(self, slots: Slots, keys: Int64s) -> None:
        """Add keys[i] to the bag of slots[i]; -1 is no slot."""
        done = 0
        while True:
            done = kernels.log_keys(
                slots, keys, done, self._log_slots, self._log_keys, self._waiting, self._touched, self._tally
            )
            if done == len(slots):
                return
            size = 2 * len(self._log_slots)
            sparse = 4 * int(self._tally[kernels.TOUCHED]) > len(self._log_slots)
            if size <= (4 * LONGEST if sparse else LONGEST):
                self._log_slots, self._touched = grown(self._log_slots, size), grown(self._touched, size)
                self._log_keys = grown(self._log_keys, size)
            else:
                self._write()

    def combine(self, into: Slots, source: Slots) -> None:
        """Add the bag of source[j] to that of into[j], in order."""
        self._write()
        into, source, done = frozen(into), frozen(source), 0
        while (done := kernels.combine_bags(into, source, done, *self._chains(), *self._pool())) < len(into):
            self._make_room(int(self._tally[kernels.LACKING]), 1, int(self._sizes[source[done]]) + 1)

    def subtract(self, into: Slots, source: Slots) -> None:
        """Take the bag of source[j] from that of into[j], in order."""
        self._write()
        into, source, done = frozen(into), frozen(source), 0
        while (done := kernels.subtract_bags(into, source, done, *self._chains(), *self._pool())) < len(into):
            self._make_room(int(self._tally[kernels.LACKING]), 1, int(self._sizes[source[done]]) + 1)

    def free(self, slots: Slots) -> None:
        """Empty the bags of these slots."""
        if self._waiting[slots].any():
            self._write()
        kernels.drop_bags(frozen(slots), *self._chains(), self._tally)
        if self._tally[kernels.HELD] == 0 and self._tally[kernels.LOGGED] == 0:
            if len(self._keys) > LEAST or len(self._log_keys) > LEAST:
                self._clear()
        elif self._tally[kernels.USED] > 2 * self._tally[kernels.HELD] + LEAST + len(self._keys) // 4:
            self._move(0)

    def totals(self, slots: Slots, least: np.int64) -> tuple[Int64s, Int64s]:
        """Return how many values each slot has, and how many with the key `least`, the least there can be."""
        self._write()
        totals, of_least = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        chains = (self._heads, self._runs, self._links, self._keys, self._counts)
        bag_totals(frozen(slots), least, *chains, totals, of_least)
        return totals, of_least

    def select(self, slots: Slots, ranks: Int64s) -> Int64s:
        """Return the key of rank ranks[j], from 1 on, in the bag of slots[j]; zero for a rank of zero."""
        self._write()
        found = np.zeros(len(slots), np.int64)
        chains = (*self._chains(), self._keys, self._counts)
        select_ranked(frozen(slots), frozen(ranks), *chains, found)
        return found

    def merged(self, slots: Slots) -> Iterator[Merged]:
        """Yield all bags, merged, some at a time; the arrays hold until the next."""
        self._write()
        slots, first = frozen(slots), 0
        keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        offsets = np.zeros(len(slots) + 1, np.int64)
        chains = (self._heads, self._runs, self._links, self._keys, self._counts)
        while first < len(slots):
            stop = kernels.gather(slots, first, *chains, offsets, keys, counts)
            if stop > first:
                yield Merged(first, stop, offsets[first : stop + 1], keys, counts)
                first = stop
            else:
                size = max(2 * len(keys), LEAST) if len(keys) >= CHUNK else min(CHUNK, self.entries_of(slots[first:]))
                keys, counts = np.empty(size, np.int64), np.empty(size, np.int64)

    def marked(self, capacity: int) -> Bools:
        """Return which of the keys 0 <= k < capacity are in a bag, where keys are no others."""
        marks = np.zeros(capacity, np.bool_)
        self._move(0)
        marks[self._keys[: int(self._tally[kernels.USED])]] = True
        marks[self._log_keys[: int(self._tally[kernels.LOGGED])]] = True
        return marks

    def rename(self, names: Int64s) -> None:
        """Replace each key k by names[k], which keeps their order."""
        self._move(0)
        for keys, number in ((self._keys, kernels.USED), (self._log_keys, kernels.LOGGED)):
            used = int(self._tally[number])
            keys[:used] = names[keys[:used]]

    def keys(self) -> Int64s:
        """Return the keys of all runs, some of them more than once."""
        return self._keys[: int(self._tally[kernels.USED])]

    def bags(self) -> Bags:
        """Return the merged bags."""
        held = np.flatnonzero((self._heads > 0) | (self._waiting > 0)).astype(np.int32)
        parts = [(m.offsets.copy(), m.keys[: m.offsets[-1]].copy(), m.counts[: m.offsets[-1]].copy())
                 for m in self.merged(held)]  # fmt: skip
        nothing = [np.zeros(0, np.int64)]
        lengths = np.concatenate(nothing + [np.diff(offsets) for offsets, _, _ in parts])
        keys = np.concatenate(nothing + [keys for _, keys, _ in parts])
        counts = np.concatenate(nothing + [counts for _, _, counts in parts])
        return Bags(len(self._heads), held[lengths > 0], keys, counts, lengths[lengths > 0])

    def _become(self, bags: Bags) -> None:
        capacity, slots, keys, counts, lengths = bags.capacity, bags.slots, bags.keys, bags.counts, bags.lengths
        bounded(keys, "keys", least=None, below=None, length=int(lengths.sum()))
        self._clear()
        self._heads, self._sizes, self._waiting = (np.zeros(capacity, np.int32) for _ in range(3))
        self._make_room(len(keys), len(slots), len(slots))
        stops = np.cumsum(lengths)
        running = np.cumsum(counts)
        below = np.concatenate((np.zeros(1, np.int64), running))[stops - lengths]
        self._keys[: len(keys)] = keys
        self._counts[: len(keys)] = running - np.repeat(below, lengths)
        n = len(slots)
        self._runs[:n] = np.stack((stops - lengths, lengths, np.ones(n, np.int64)), axis=1)
        self._links[:n] = np.stack((np.arange(n), np.ones(n, np.int64), np.zeros(n, np.int64)), axis=1)
        self._heads[slots], self._sizes[slots] = np.arange(1, n + 1), 1
        for place, number in ((kernels.USED, len(keys)), (kernels.HELD, len(keys)), (kernels.RUNS, n)):
            self._tally[place] = number
        self._tally[kernels.LINKS] = n

    def entries_of(self, slots: Slots) -> int:
        """Return a bound on the entries of these slots' bags when merged, and of no less than one run each."""
        return min(CHUNK, max(LEAST, 2 * int(self._tally[kernels.HELD]) * max(1, int(self._sizes[slots].max()))))

    def _chains(self) -> tuple[Slots, Slots, Int64s, Slots]:
        return self._heads, self._sizes, self._runs, self._links

    def _pool(self) -> tuple[Int64s, Int64s, Int64s]:
        return self._keys, self._counts, self._tally

    def _write(self) -> None:
        """Make runs of what is in the log, and merge those of a slot that are of one size."""
        logged, touched = int(self._tally[kernels.LOGGED]), int(self._tally[kernels.TOUCHED])
        if logged == 0:
            return
        self._make_room(logged, touched, touched)
        slots = frozen(self._touched[:touched].copy())
        grouped, ends = np.empty(logged, np.int64), np.empty(touched, np.int64)
        log = (self._log_slots, self._log_keys, self._waiting, self._touched)
        kernels.group_log(*log, grouped, ends, self._tally)
        if logged > LONG * touched:
            # Long stretches are sorted by numpy, whose loops use the widest registers there are.
            for stretch in np.split(grouped, ends[:-1]):
                stretch.sort()
        kernels.write_runs(slots, ends, grouped, *self._chains(), *self._pool())
        done = 0
        while (done := kernels.settle(slots, done, *self._chains(), *self._pool())) < len(slots):
            self._make_room(int(self._tally[kernels.LACKING]), 1, 0)

    def _make_room(self, entries: int, runs: int, links: int) -> None:
        """Make room for so many more entries, runs and links."""
        self._tally[kernels.LACKING] = 0
        self._runs = _doubled(self._runs, int(self._tally[kernels.RUNS]) + runs)
        self._links = _doubled(self._links, int(self._tally[kernels.LINKS]) + links)
        if self._tally[kernels.USED] + entries > len(self._keys):
            self._move(entries)

    def _move(self, entries: int) -> None:
        """Copy the runs that are held to a pool with room for so many entries more."""
        held = int(self._tally[kernels.HELD])
        size = max(LEAST, held + held // 2 + 2 * entries)
        keys, counts = np.empty(size, np.int64), np.empty(size, np.int64)
        kernels.move_runs(self._runs, self._keys, self._counts, keys, counts, self._tally)
        self._keys, self._counts = keys, counts


def _doubled(rows: npt.NDArray[T], needed: int) -> npt.NDArray[T]:
    return rows if needed <= len(rows) else grown(rows, max(needed, 2 * len(rows)))
