"""Queues keep entries (key, item) in the order of the key, one queue a group or partition, without an object each.

Arrays handed to the kernels are writable throughout, so that each kernel is compiled once.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.data.saved import ROOM, apart, bounded
from operators.functions.columns import grown
from operators.kernels.ranked import ranked as kernels
from operators.kernels.ticks import FOREVER

I = TypeVar("I", np.int32, np.int64)  # noqa: E741
_LEAST = 16


@attrs.define
class Entries(memory.Stateful):
    """Queues as they are saved: the entries of one after those of the other."""

    keys: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), metadata=memory.array())
    items: npt.NDArray[np.integer] = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(length="keys")
    )
    queues: Int32s = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array(apart=True))
    sizes: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(least=1, below=ROOM, length="queues")
    )


@attrs.define(eq=False)
class Queues(memory.Stateful, Generic[I]):
    """Hold queues in one arena. Cost: 12 bytes an entry (16 with int64 items), half as much to spare, 40 a queue.

    >>> queues = Queues(np.int32)
    >>> queues.ensure(2)
    >>> queues.merge(np.array([1]), np.array([2]), np.array([5, 7]), np.array([0, 1], np.int32))
    >>> queues.merge(np.array([1]), np.array([1]), np.array([6]), np.array([2], np.int32))
    >>> [a.tolist() for a in queues.take(*queues.below(queues.waiting(7), 7))]
    [[5, 6], [0, 2]]
    """

    kind: type[I]
    places: npt.NDArray[np.int64] = attrs.field(init=False, metadata=memory.rebuilt())
    heads: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    counters: Int64s = attrs.field(init=False)
    keys: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    items: npt.NDArray[I] = attrs.field(init=False, metadata=memory.rebuilt())
    spare: Int64s = attrs.field(init=False)
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Entries, "_become", lambda queues: queues.entries())
    )
    most: int = attrs.field(init=False, default=ROOM)
    """What queues are below when these are restored."""
    below_items: int | None = attrs.field(init=False, default=None)
    """What items are below then, which are places somewhere else; None where they are not."""

    def __attrs_post_init__(self) -> None:
        self.places = np.zeros((1, 4), np.int64)
        self.heads = np.full(1, FOREVER)
        self.counters = np.zeros(2, np.int64)
        self.keys = np.zeros(_LEAST, np.int64)
        self.items = np.zeros(_LEAST, self.kind)
        self.spare = np.full(64, -1)

    def __len__(self) -> int:
        """Return the number of entries in all queues."""
        return int(self.counters[kernels.ENTRIES])

    @property
    def tables(self) -> tuple[npt.NDArray[np.int64], Int64s, Int64s, Int64s, npt.NDArray[I], Int64s]:
        """Return the memory for the kernels, as `operators.kernels.ranked.layout` names it."""
        return self.places, self.heads, self.counters, self.keys, self.items, self.spare

    @property
    def capacity(self) -> int:
        """Return one more than the largest number of a queue."""
        return len(self.heads)

    def ensure(self, capacity: int) -> None:
        """Let there be queues 0 <= q < capacity."""
        if capacity > len(self.heads):
            size = max(capacity, 2 * len(self.heads))
            self.places = grown(self.places, size)
            self.heads = grown(self.heads, size, fill=FOREVER)

    def sizes(self, queues: Int32s) -> Int64s:
        """Return the number of entries of each queue."""
        return self.places[queues, kernels.SIZE]

    def room(self, queues: Int32s, extra: Int64s) -> None:
        """Make room for extra[j] more entries in each queue."""
        done = 0
        while True:
            done = kernels.make_room(queues, extra, self.tables, done)
            if done == len(queues):
                return
            self.enlarge()

    def enlarge(self) -> None:
        """Double the arena."""
        self.keys = grown(self.keys, 2 * len(self.keys))
        self.items = grown(self.items, 2 * len(self.items))

    def merge(self, queues: Int32s, ends: Int64s, keys: Int64s, items: npt.NDArray[I]) -> None:
        """Enter a batch, queue after queue and each in order; of equal keys those that were there stay first."""
        self.room(queues, lengths(ends))
        kernels.merge(queues, ends, keys, items, self.tables)

    def weigh(self, queues: Int32s, ends: Int64s, keys: Int64s, weights: Int64s) -> None:
        """Add weights to the entries of distinct keys, entering those that are new and not of weight zero."""
        self.room(queues, lengths(ends))
        kernels.weigh(queues, ends, keys, weights, self.tables)

    def waiting(self, bound: int) -> Int32s:
        """Return the queues whose least key is below a bound. Cost: one scan of the heads, 8 bytes a queue."""
        return np.flatnonzero(self.heads < bound).astype(np.int32)

    def below(self, queues: Int32s, bound: int | Int64s) -> tuple[Int32s, Int64s]:
        """Return the queues, and how many entries each has below a bound, one for all or one each."""
        counts = np.empty(len(queues), np.int64)
        bounds = np.full(len(queues), bound, np.int64) if isinstance(bound, int) else bound
        kernels.below(queues, bounds, self.tables, counts)
        return queues, counts

    def take(self, queues: Int32s, counts: Int64s) -> tuple[Int64s, npt.NDArray[I]]:
        """Take the first counts[j] entries out of each queue; gives keys and items, queue after queue."""
        keys, items = self._columns(int(counts.sum()))
        kernels.take(queues, counts, self.tables, keys, items)
        return keys, items

    def ends(self, queues: Int32s) -> Int64s:
        """Return the largest key of each queue, none of them empty."""
        return self.at(queues, self.sizes(queues) - 1)

    def at(self, queues: Int32s, numbers: Int64s) -> Int64s:
        """Return the key of the n-th entry of each queue, in order from 0 on."""
        return self.keys[self.places[queues, kernels.START] + numbers]

    def vacate(self, queues: Int32s) -> None:
        """Free the rooms of queues that a kernel of another file has emptied."""
        kernels.vacate(queues, self.tables)

    def entries(self) -> Entries:
        """Return every queue's entries."""
        queues = self.waiting(FOREVER)
        sizes = self.sizes(queues)
        keys, items = self._columns(int(sizes.sum()))
        kernels.copy(queues, self.tables, keys, items)
        return Entries(keys, items, queues, sizes)

    def _become(self, entries: Entries) -> None:
        queues, keys, items = apart(entries.queues, "queues", below=self.most), entries.keys, entries.items
        bounded(keys, "keys", least=None, below=None, length=int(entries.sizes.sum()))
        if self.below_items is not None:
            bounded(items, "items", below=self.below_items)
        self.ensure(self.most)
        self.merge(queues, np.cumsum(entries.sizes), keys, items.astype(self.kind))

    def _columns(self, length: int) -> tuple[Int64s, npt.NDArray[I]]:
        return np.empty(length, np.int64), np.empty(length, self.kind)


def lengths(ends: Int64s) -> Int64s:
    """Return how long each part is of those that end here, one behind the other."""
    found = ends.copy()
    found[1:] -= ends[:-1]
    return found


def either(some: Int32s, others: Int32s) -> Int32s:
    """Return the ids that are in one of two arrays or in both, ascending.

    Cost: some steps up to the largest id.

    >>> either(np.array([4, 1], np.int32), np.array([1, 2], np.int32)).tolist()
    [1, 2, 4]
    """
    there = np.zeros(max(int(some.max(initial=-1)), int(others.max(initial=-1))) + 1, np.bool_)
    there[some] = True
    there[others] = True
    return np.flatnonzero(there).astype(np.int32)
