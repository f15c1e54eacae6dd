"""A choice holds the one tuple of a slot that comes first: by arrival, or by the value of an attribute.

The chosen value lies in a value log, so it may be of any type; a slot holds its position there. A page is reduced to
one candidate a slot by a compiled loop first, so that only candidates are taken from it and compared with what is held.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.page import Bools, Int64s, Page
from operators.data.saved import bounded
from operators.functions.arguments import plain
from operators.functions.arrival import ARRIVAL, arrivals
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.log import ValueLog, logs
from operators.functions.order import before, is_bytes, is_keyed, is_ordered, keys, ranks, text
from operators.functions.protocol import Slots
from operators.kernels.functions.chosen import choose, choose_text, combine_choices

NONE = frozen(np.zeros(0, np.int64))
NO_BYTES = frozen(np.zeros(0, np.uint8))
SLACK = 1024
"""Values that may lie dead in a log before it is worth going over."""


@attrs.define(eq=False)
class Choice(StateColumns):
    """Choose a value a slot: that of the tuple first by `by`, or by arrival when there is none; last if descending.

    Of tuples equal by `by`, the one with the smaller value is chosen, null last; when values of that type have no
    order, the one that arrived first. Cost: 24 bytes a slot and at most about 2 log entries.
    """

    value: pa.Field
    by: pa.Field | None
    descending: bool = attrs.field(kw_only=True)
    _arrived: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=1 << 62))
    _held: int = attrs.field(default=0, init=False)
    """Slots that hold a choice: no more log entries than these are alive, for combine lets slots share one."""
    _position: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots(fill=-1))
    _key: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    _arrival: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    _best: Slots = attrs.field(
        factory=lambda: np.zeros(0, np.int32), init=False, metadata=memory.slots(fill=-1, saved=False)
    )
    _values: ValueLog = attrs.field(init=False)
    _bys: ValueLog | None = attrs.field(init=False)
    """What was chosen by, where it has no key that compares across pages; the same log when a value is its own `by`."""

    _logs: tuple[ValueLog, ...] = attrs.field(init=False, metadata=logs("values"))
    """Both, or the one that there is."""

    def __attrs_post_init__(self) -> None:
        self._values = ValueLog(self.value.type)
        self._bys = None
        if self.by is not None and not is_keyed(self.by.type):
            self._bys = self._values if self.by.name == self.value.name else ValueLog(self.by.type)
        self._logs = (self._values,) if self._bys is None or self._bys is self._values else (self._values, self._bys)

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def free(self, slots: Slots) -> None:
        holding = distinct(slots[self._position[slots] >= 0])
        if len(holding):
            self._position[holding] = -1
            self._held -= len(holding)
            self._compact()

    def update(self, slots: Slots, page: Page) -> None:
        skipping = self.value if self.by is None else self.by
        slots, skipped = present(slots, page.valid(skipping.name))
        self.nulls += skipped
        value = plain(page, self.value.name)
        by = value if self.by is None else plain(page, self.by.name)
        arrived = arrivals(page, self._arrived)
        first = self._first_keys(by, arrived)
        touched, rows = self._candidates(slots, first, by, value, arrived if ARRIVAL in page.schema else NONE)
        if len(touched):
            self._keep(touched, rows, first, by, value, arrived[rows])
        self._arrived += len(page)

    def combine(self, into: Slots, source: Slots) -> None:
        touched, local = np.unique(np.concatenate([into, source]), return_inverse=True)
        positions = self._position[touched]
        arrival = self._arrival[touched]
        first = self._key[touched]
        if self._bys is not None:
            first = ranks(self._bys.take(positions), descending=self.descending)
        first, arrival = frozen(first), frozen(arrival)
        entry = np.where(positions >= 0, np.arange(len(touched)), -1)
        into_local, source_local = frozen(local[: len(into)]), frozen(local[len(into) :])
        chosen = entry.copy()
        tied = combine_choices(into_local, source_local, first, arrival, chosen)
        if tied and self._ties_by_value():
            second = ranks(self._values.take(positions))
            combine_choices(into_local, source_local, first, second, entry)
        else:
            entry = chosen
        found = entry >= 0
        self._held += int(np.count_nonzero(found)) - int(np.count_nonzero(positions >= 0))
        now = touched[found]
        self._position[now] = positions[entry[found]]
        self._key[now] = self._key[touched[entry[found]]]
        self._arrival[now] = arrival[entry[found]]

    def finalize(self, slots: Slots) -> pa.Array:
        return self._values.take(self._position[slots])

    def _first_keys(self, by: pa.Array, arrived: Int64s) -> Int64s | None:
        """Return the keys that a page's tuples are chosen by; None for byte strings, which are compared themselves."""
        if self.by is None:
            return frozen(~arrived if self.descending else arrived)
        if self._bys is None:
            return keys(by, descending=self.descending)
        return None if is_bytes(by.type) else ranks(by, descending=self.descending)

    def _candidates(
        self, slots: Slots, first: Int64s | None, by: pa.Array, value: pa.Array, arrived: Int64s
    ) -> tuple[Slots, npt.NDArray[np.int32]]:
        """Return the slots that a page touches, and the tuple of each that may be chosen; `arrived` unless in order."""
        touched, rows = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
        offsets, data = (NONE, NO_BYTES) if first is not None else text(by)
        second = NONE if self._ties_by_value() else arrived
        while True:
            if first is None:
                found, tied = choose_text(slots, offsets, data, self.descending, second, self._best, touched, rows)
            else:
                found, tied = choose(slots, first, second, self._best, touched, rows)
            if not (tied and self._ties_by_value() and len(second) == 0):
                return touched[:found], rows[:found]
            # Ranking the values is dear for text, so it waits for a tie.
            second = ranks(value)

    def _keep(
        self,
        touched: Slots,
        rows: npt.NDArray[np.int32],
        first: Int64s | None,
        by: pa.Array,
        value: pa.Array,
        arrived: Int64s,
    ) -> None:
        """Hold the candidates, of which is told when they arrived, that come before what is held in their slots."""
        held = np.flatnonzero(self._position[touched] >= 0)
        if len(held):
            better = np.ones(len(touched), np.bool_)
            better[held] = self._better(touched[held], rows[held], first, by, value, arrived[held])
            touched, rows, arrived = touched[better], rows[better], arrived[better]
            self._held += int(np.count_nonzero(better)) - int(np.count_nonzero(better[held]))
        else:
            self._held += len(touched)
        if len(touched) == 0:
            return
        start = self._values.append(value.take(pa.array(rows)))
        if self._bys is not None and self._bys is not self._values:
            self._bys.append(by.take(pa.array(rows)))
        self._position[touched] = np.arange(start, start + len(touched))
        self._arrival[touched] = arrived
        if first is not None:
            self._key[touched] = first[rows]
        self._compact()

    def _better(
        self,
        slots: Slots,
        rows: npt.NDArray[np.int32],
        first: Int64s | None,
        by: pa.Array,
        value: pa.Array,
        arrived: Int64s,
    ) -> Bools:
        """Return which candidates of slots that hold something come before that; of equals the earlier one stays."""
        if self._bys is None:
            assert first is not None, "only what has a log of its own is compared without keys"
            new, old = first[rows], self._key[slots]
            sooner, tied = new < old, new == old
        else:
            kept = self._bys.take(self._position[slots])
            sooner, later = before(by.take(pa.array(rows)), kept, descending=self.descending)
            tied = ~(sooner | later)
        if tied.any():
            if self._ties_by_value():
                kept = self._values.take(self._position[slots[tied]])
                sooner[tied] = before(value.take(pa.array(rows[tied])), kept)[0]
            else:
                sooner[tied] = arrived[tied] < self._arrival[slots[tied]]
        return sooner

    def _ties_by_value(self) -> bool:
        return self.by is not None and self.by.name != self.value.name and is_ordered(self.value.type)

    def _compact(self) -> None:
        """Drop dead log entries once they are more than half and pay for the walk over all slots, or when all are."""
        if self._held and len(self._values) <= 2 * self._held + SLACK + len(self._position) // 8:
            return
        alive = np.zeros(len(self._values), np.bool_)
        holding = self._position >= 0
        alive[self._position[holding]] = True
        for log in self._logs:
            log.become(log.settled().filter(pa.array(alive)))
        moved = np.cumsum(alive) - 1
        self._position[holding] = moved[self._position[holding]]

    def _after_restoring(self) -> None:
        super()._after_restoring()
        bounded(self._position, "position", least=-1, below=len(self._values))
        self._held = int(np.count_nonzero(self._position >= 0))
