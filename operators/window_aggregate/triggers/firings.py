"""Columns beside the partial aggregates hold what open windows have seen since they fired."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.functions.columns import StateColumns, frozen
from operators.functions.protocol import Slots
from operators.kernels.ticks import FAR, FOREVER
from operators.kernels.windows import firing_slices, layout
from operators.kernels.windows.firings import clear_slots, count_firings, count_up
from operators.window_aggregate.triggers.condition import Compiled, Seen
from operators.window_aggregate.triggers.firing_slices import FiringSlices


def _column() -> Int64s:
    return np.zeros(0, np.int64)


@attrs.frozen(eq=False)
class Listed:
    """Firings in the order of their tuples, all of shape (n,)."""

    fires: Int64s
    """The tuple behind which each lies."""
    slots: Slots
    numbers: Int64s
    """Which firing of its window each is."""
    rows: Int64s
    """How many tuples the window has had."""
    before: Int64s
    """The firing before it of the same window, -1 for none."""
    last: Bools
    """Whether no other one of the window comes behind it."""


@attrs.frozen(eq=False)
class Fired:
    """Firings of the windows of slices in the order of their tuples, all of shape (n,) but some."""

    end: int
    """Up to which tuple they are listed."""
    targets: Slots
    """The slot that takes each tuple up to there; shape (tuples,)."""
    into: Slots
    """Then each of these slots takes up another, in this order; shape (pairs,)."""
    source: Slots
    fires: Int64s
    """The tuple behind which each lies."""
    slots: Slots
    """What has its result."""
    numbers: Int64s
    """Which firing of its window each is."""
    rows: Int64s
    """How many tuples the window has had."""
    slices: Int64s
    """The number of the slice, and the place of the window among those of it."""
    places: Int64s
    freed: Slots
    """Slots that are of no use behind the results; shape (spare slots,)."""


@attrs.define(eq=False)
class Firings(StateColumns):
    """Hold, for each slot, how often it fired, and the tuples and signals since. Cost: 56 bytes a slot.

    It lives beside the accumulators of a store, which gives out, clears and saves the slots of all of them. How many
    tuples a slot lacks until it fires follows from the rest: who knows the condition says it, with `lack`, wherever
    anything but the number of tuples has changed.
    """

    fresh: int = attrs.field(default=FOREVER)
    """How many tuples a slot lacks that has none."""

    fired: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _rows: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    """How many tuples each slot has had."""
    _given: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    """How many of these it had when it last fired."""
    _signals: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _all_signals: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _steps: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots())
    _due: Int64s = attrs.field(factory=_column, init=False, metadata=memory.slots(saved=False))
    """How many tuples it will have had when it fires."""

    @property
    def _columns(self) -> tuple[Int64s, ...]:
        return self.fired, self._rows, self._given, self._signals, self._all_signals, self._steps

    def seen(self, slots: Slots) -> Seen:
        """Return what these slots have seen."""
        rows = self._rows[slots]
        signals = (column[slots] for column in (self._signals, self._all_signals, self._steps))
        return Seen(rows - self._given[slots], rows, *signals)

    def new(self, slots: Slots) -> Int64s:
        """Return how many tuples each of these slots got since it fired."""
        found: Int64s = self._rows[slots] - self._given[slots]
        return found

    def had(self, slots: Slots) -> Int64s:
        """Return how many tuples each of these slots has had."""
        found: Int64s = self._rows[slots]
        return found

    def tell(self, slots: Slots, bit: int) -> None:
        """Let slots, each named once, see a signal; one without a new tuple has nothing to fire for."""
        self._all_signals[slots] |= bit
        self._signals[slots[self.new(slots) > 0]] |= bit

    def know(self, slots: Slots, bits: Int64s) -> None:
        """Let new slots, each named once, know what was before their first tuple: it stops triggers, and fires none."""
        self._all_signals[slots] |= bits

    def begin_again(self, slots: Slots, steps: Int64s) -> None:
        """Let slots, each named once, count from here on: they have fired, and these steps are behind."""
        self.fired[slots] += 1
        self._given[slots] = self._rows[slots]
        self._signals[slots] = 0
        self._steps[slots] = steps

    def settle(self, slots: Slots) -> None:
        """Let slots, each named once, have nothing new, without a firing."""
        self._given[slots] = self._rows[slots]

    def init(self, slots: Slots) -> None:
        clear_slots(frozen(slots), self._columns, self._due, self.fresh)

    def lack(self, slots: Slots, lacking: Int64s) -> None:
        """Let slots, each named once, fire behind so many further tuples, one at least."""
        self._due[slots] = self._rows[slots] + np.minimum(np.maximum(lacking, 1), FAR)

    def are_new(self, slots: Slots) -> Bools:
        """Return which of these slots have had no tuple."""
        return self._rows[slots] == 0

    def count(self, slots: Slots) -> bool:
        """Count a tuple in each of these slots, which may repeat; False, and none is counted, where one is to fire."""
        return bool(count_up(slots, self._rows, self._due))

    def count_apart(self, slots: Slots, tuples: Int64s) -> bool:
        """Count so many tuples in each of these slots, each named once; False, and none is counted, where one fires."""
        rows = self._rows[slots] + tuples
        if (rows >= self._due[slots]).any():
            return False
        self._rows[slots] = rows
        return True

    def count_all(self, slots: Slots, tuples: int) -> bool:
        """Count so many tuples in each of these slots, each named once; False, and none is counted, where one fires."""
        if len(slots) == 1:
            # Most windows are alone, and single numbers are quicker than arrays.
            slot = int(slots[0])
            if self._due[slot] - self._rows[slot] <= tuples:
                return False
            self._rows[slot] += tuples
            return True
        return self.count_apart(slots, np.full(len(slots), tuples))

    def lacking(self, slots: Slots) -> Int64s:
        """Return how many tuples each of these slots lacks until it fires."""
        found: Int64s = self._due[slots] - self._rows[slots]
        return found

    def add(self, slots: Slots, tuples: int) -> None:
        """Count so many tuples in each of these slots, each named once."""
        self._rows[slots] += tuples

    def fire(self, slots: Slots) -> Int64s:
        """Let slots, each named once, that have no steps fire now; return which firing of its window each is."""
        numbers, rows = self.fired[slots], self._rows[slots]
        self._given[slots], self._signals[slots], self._due[slots] = rows, 0, rows + min(self.fresh, FAR)
        self.fired[slots] += 1
        return numbers

    def await_first(self, slots: Slots, windows: Int32s) -> None:
        """Let slices, each named once, be due with the first of their windows, shape (slices, windows)."""
        firing_slices.lack(slots, windows, self._rows, self._due)

    def settle_slices(self, slots: Slots, windows: Int32s) -> tuple[Slots, Slots]:
        """Count the tuples of slices in their windows, shape (slices, windows); return what takes up which slot."""
        into, source = np.empty((2, windows.size), np.int32)
        firing_slices.settle(slots, windows, self._rows, into, source)
        return into, source

    def fire_slices(
        self, slices: FiringSlices, groups: Int32s, begin: int, spare: Slots, current: Slots, *, discards: bool
    ) -> Fired:
        """Count tuples from one on in the slices of their groups, and return the firings of their windows.

        `spare` are slots that hold nothing, and limit how many there may be. `current` is -1 for each slot, and then
        with `discards` the slot that has what is new of each window that has fired.
        """
        n, cursor = len(spare), np.empty(3, np.int64)
        targets, freed = np.empty(len(groups) - begin, np.int32), np.empty(n, np.int32)
        pairs, listed = np.empty((2, 2 * n), np.int32), np.empty((6, n), np.int64)
        tables = (slices.places, slices.numbers, slices.slots, slices.windows)
        columns = (self._rows, self._given, self._due, self.fired, self._signals)
        rule = (min(self.fresh, FAR), int(discards))
        end = firing_slices.fire(
            frozen(groups), begin, tables, columns, rule, spare, current, targets, pairs, listed, freed, cursor
        )
        used, paired, fired = cursor.tolist()
        freed[used:] = spare[used:]
        found = listed[:, :fired]
        return Fired(
            end, targets[: end - begin], pairs[0, :paired], pairs[1, :paired], found[layout.BEHIND],
            found[layout.RESULT].astype(np.int32), found[layout.FIRING], found[layout.HAD], found[layout.SLICE],
            found[layout.PLACE], freed,
        )  # fmt: skip

    def list_firings(self, slots: Slots, condition: Compiled, places: Int32s) -> Listed:
        """Count a tuple in each of these slots, which may repeat, and return the firings in their order.

        `places` is -1 for each slot, and stays so. Who has a condition with steps says then what those that fired lack.
        """
        n, nodes = len(slots), condition.nodes
        fires, listed, followed = np.empty(n, np.int64), np.empty((4, n), np.int64), np.empty(n, np.bool_)
        held, active = np.empty((2, nodes.shape[1]), np.bool_)
        columns = (self._rows, self._given, self._due, self.fired, self._signals, self._all_signals, self._steps)
        fresh = min(self.fresh, FAR) if condition.repeats else 0
        found = count_firings(slots, columns, fresh, (nodes, held, active), places, fires, listed, followed)
        which, numbers, rows, before = listed[:, :found]
        return Listed(fires[:found], which.astype(np.int32), numbers, rows, before, ~followed[:found])

    def update(self, slots: Slots, page: Page) -> None:
        # Tuples come with the firings between them, to `advance`.
        raise NotImplementedError

    def combine(self, into: Slots, source: Slots) -> None:
        # A window has one slot, so nothing is ever in both.
        for column in self._columns:
            column[into] += column[source]

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array(self.fired[slots])

    def free(self, slots: Slots) -> None:
        pass
