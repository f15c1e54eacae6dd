"""Tuples wait for their rank: one is final when no later tuple can come before it, and only progress tells.

The TODS paper gives a tuple its rank on arrival and corrects it: each late tuple shifts the last tuple of every count
window behind it into the next one, by inverting aggregates or by computing them anew (section 5.2). Where punctuation
says what is final, nothing that is emitted can depend on a rank before that. So a tuple is not ranked until then: it
waits as a partial aggregate of its own, in the order of its value, and is combined into what it belongs to once. No
inverse, no shift, no tuple; the cost of disorder is that of a merge. Only what punctuation has not reached waits.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.page import Int32s, Int64s, Page
from operators.functions.columns import grown, power
from operators.functions.protocol import Slots
from operators.kernels.ranked.ranked import arrange
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.queues import Queues
from operators.window_aggregate.stores.ranked.slots import Pool

NO_ORDER: Int64s = np.empty(0, np.int64)
Bytes: TypeAlias = npt.NDArray[np.int8]
NOTHING: Bytes = np.empty(0, np.int8)


@attrs.frozen(eq=False)
class Final:
    """Tuples whose rank is final, in order: those of parts[j] stand before ends[j], each with value and slot."""

    parts: Int32s
    ends: Int64s
    values: Int64s
    slots: Slots


@attrs.define(eq=False)
class Owners(memory.Stateful):
    """Know the group of each slot, and how many slots each group has; not needed where partitions are the groups."""

    _uses: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.array())
    _of: Int32s = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int32), metadata=memory.array(least=0, below="_uses")
    )

    def add(self, slots: Slots, groups: Int32s) -> None:
        """Let each slot be its group's."""
        if len(slots):
            self._of = grown(self._of, power(int(slots.max()) + 1))
            self._uses = grown(self._uses, power(int(groups.max()) + 1))
            self._of[slots] = groups
            np.add.at(self._uses, groups, 1)

    def ensure(self, slots: int, groups: int) -> None:
        """Let there be slots and groups below these numbers."""
        self._of, self._uses = grown(self._of, slots), grown(self._uses, groups)

    def of(self, slots: Slots) -> Int32s:
        """Return the group of each slot."""
        return self._of[slots]

    @property
    def groups(self) -> Int32s:
        """Return the group of every slot, by slot."""
        return self._of

    @property
    def capacity(self) -> int:
        """Return one more than the largest id of a group that had a slot."""
        return len(self._uses)

    def drop(self, slots: Slots) -> Int32s:
        """Take slots from their groups; gives the groups that have none left."""
        groups = self._of[slots]
        # What has no owner names none that may be forgotten.
        self._of[slots] = 0
        np.subtract.at(self._uses, groups, 1)
        touched = distinct(groups)
        return touched[self._uses[touched] == 0]


@attrs.define(eq=False)
class Said(memory.Stateful):
    """Know what predicates say of the tuple in each slot, a byte each."""

    _bits: Bytes = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int8), metadata=memory.array(least=0, below=4)
    )

    def add(self, slots: Slots, bits: Bytes) -> None:
        """Note what is said of tuples."""
        if len(slots):
            self._bits = grown(self._bits, power(int(slots.max()) + 1))
            self._bits[slots] = bits

    def ensure(self, slots: int) -> None:
        """Let there be slots below a number."""
        self._bits = grown(self._bits, slots)

    def of(self, slots: Slots) -> Bytes:
        """Return what is said of the tuple in each slot."""
        return self._bits[slots]


@attrs.define(eq=False)
class Waiting(memory.Stateful):
    """Hold tuples that are not final, 12 bytes each and a slot of the pool, in one queue a partition."""

    pool: Pool
    partitions: Partitions
    queues: Queues[np.int32] = attrs.field(
        init=False,
        factory=lambda: Queues(np.int32),
        metadata=memory.part(most="partitions.capacity", below_items="pool.made"),
    )
    _counts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.rebuilt())

    def __len__(self) -> int:
        """Return the number of tuples that wait."""
        return len(self.queues)

    def ensure(self, capacity: int) -> None:
        """Let there be partitions with ids below a capacity."""
        self.queues.ensure(capacity)
        self._counts = grown(self._counts, len(self.queues.heads))

    def add(self, page: Page, values: Int64s, parts: Int32s) -> Slots:
        """Let tuples wait; gives their slots."""
        slots = self.pool.take(len(page))
        self.pool.update(slots, page)
        self.enter(values, parts, slots)
        return slots

    def enter(self, values: Int64s, parts: Int32s, slots: Slots) -> None:
        """Let what slots hold wait, each with a value in the queue of a partition."""
        straight = len(values) < 2 or bool((values[1:] >= values[:-1]).all())
        order = NO_ORDER if straight else np.argsort(values, kind="stable")
        touched, ends, order = arranged(parts, order, self._counts)
        self.queues.merge(touched, ends, values[order], slots[order])

    def release(self, parts: Int32s, bound: int) -> Final:
        """Take out the tuples below a bound."""
        parts, counts = self.queues.below(parts, bound)
        parts, counts = parts[counts > 0], counts[counts > 0]
        values, slots = self.queues.take(parts, counts)
        return Final(parts, np.cumsum(counts), values, slots)


def arranged(queues: Int32s, order: Int64s, counts: Int64s) -> tuple[Int32s, Int64s, Int64s]:
    """Sort tuples by queue, each one's in the order given (none: as they come); gives queues, where each ends, order.

    `counts` is scratch: a zero for every queue.
    """
    touched, ends = np.empty(len(queues), np.int32), np.empty(len(queues), np.int64)
    found = np.empty(len(queues), np.int64)
    n = arrange(queues, order, counts, touched, ends, found)
    return touched[:n], ends[:n], found
