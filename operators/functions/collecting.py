"""collect lists the tuples of a slot, in order, and keeps a sample of them where there are too many.

Tuples are told apart by their values alone: their order, and which of them are in a sample, depend on no arrival, no
page, and no order of combining.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.digests import digests
from operators.data.page import Int64s, Page
from operators.data.saved import bounded
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import argument, call, plain, refuse
from operators.functions.columns import StateColumns, frozen
from operators.functions.function import Function
from operators.functions.log import ValueLog, logs
from operators.functions.order import is_ordered, ranks
from operators.functions.protocol import Accumulator, Slots
from operators.functions.runs import Runs
from operators.functions.shares import is_count
from operators.kernels.functions.sums import add_counts, count_slots

MOST: Final = 1000
"""Tuples that are listed unless another number is given."""
SLACK: Final = 1024
"""Tuples that may lie dead in a log before it is worth going over."""
COUNT, TUPLES = "count", "tuples"
"""The fields of a result."""


@attrs.frozen
class Collect(Function):
    """List tuples as structs of some attributes, in the order of the first, then of the next ones; nulls come last.

    A result has the `tuples`, and the `count` of all that there were. Of more than `most` those are listed whose values
    have the least hashes, a sample in which each tuple is as likely as any other; equal tuples go together.
    Cost: 24 to 80 bytes a tuple beside its values, of at most twice `most` tuples a slot.
    """

    columns: tuple[str, ...]
    most: int = MOST
    name = "collect"

    def __attrs_post_init__(self) -> None:
        if not is_count(self.most) or self.most < 1:
            raise SchemaError(
                f"{self._where}: most is {self.most}; it says how many tuples are listed.\n  Write 1000, say."
            )
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise SchemaError(f"{self._where}: name the attributes to list, each once.\n  Write collect(ts, x), say.")

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.columns

    def output_name(self) -> str:
        """Return the names of function and attributes, as "collect_ts_x"."""
        return "_".join((self.name, *self.columns))

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of structs of a count and a list of tuples; SchemaError for values without an order."""
        tuples = pa.field(TUPLES, pa.list_(pa.struct(self._fields(schema))), nullable=False)
        return pa.field(name, pa.struct([pa.field(COUNT, pa.int64(), nullable=False), tuples]), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Collected(self._fields(schema), self.most)

    def _fields(self, schema: Schema) -> list[pa.Field]:
        found: list[pa.Field] = []
        for name in self.columns:
            field = argument(schema, name, where=self._where)
            if not is_ordered(field.type):
                raise refuse(
                    self._where, field, "its values have no order", "Leave it out, or cast it to a string before."
                )
            found.append(field)
        return found

    @property
    def _where(self) -> str:
        return call(self.name, *self.columns)


@attrs.define(eq=False)
class Collected(StateColumns):
    """Hold tuples in a log, one for all slots, and a bag of positions in it a slot."""

    value_bytes: ClassVar[int] = 37
    """Bytes of a tuple beside its values, copies of it in results included."""

    fields: list[pa.Field]
    most: int
    _runs: Runs = attrs.field(factory=Runs, init=False, metadata=memory.part(slotted=True))
    _tuples: ValueLog = attrs.field(init=False)
    _logs: tuple[ValueLog] = attrs.field(init=False, metadata=logs("tuples"))
    _counts: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    """How many tuples each slot was given."""
    _held: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    """How many of them are in its bag."""

    def __attrs_post_init__(self) -> None:
        self._tuples = ValueLog(pa.struct(self.fields))
        self._logs = (self._tuples,)

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def update(self, slots: Slots, page: Page) -> None:
        kept = slots >= 0
        columns = [plain(page, field.name) for field in self.fields]
        tuples = pa.StructArray.from_arrays(columns, fields=self.fields)
        slots = frozen(slots[kept])
        start = self._tuples.append(tuples.filter(pa.array(kept)))
        self._runs.add(slots, frozen(np.arange(start, len(self._tuples))))
        count_slots(slots, self._counts)
        count_slots(slots, self._held)
        self._shed(slots)

    def combine(self, into: Slots, source: Slots) -> None:
        self._runs.combine(into, source)
        add_counts(frozen(into), frozen(source), self._counts)
        add_counts(frozen(into), frozen(source), self._held)
        self._shed(into)

    def finalize(self, slots: Slots) -> pa.Array:
        lists = [pa.ListArray.from_arrays(pa.array([0], pa.int32()), self._tuples.take(np.empty(0, np.int64)))]
        for positions, owners, count in self._listed(slots):
            offsets = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count)))).astype(np.int32)
            lists.append(pa.ListArray.from_arrays(pa.array(offsets), self._tuples.take(positions)))
        counts = pa.array(self._counts[slots])
        field = pa.field(TUPLES, pa.list_(self._tuples.kind), nullable=False)
        return pa.StructArray.from_arrays(
            [counts, pa.concat_arrays(lists)], fields=[pa.field(COUNT, pa.int64(), nullable=False), field]
        )

    def free(self, slots: Slots) -> None:
        self._runs.free(slots)
        self._counts[slots] = self._held[slots] = 0
        self._forget()

    def _listed(self, slots: Slots) -> Iterator[tuple[Int64s, Int64s, int]]:
        """Yield positions of what some slots list, in order, the places of these slots among them, and their number."""
        for merged in self._runs.merged(slots):
            used = int(merged.offsets[-1])
            counts, number = merged.counts[:used], len(merged.offsets) - 1
            positions = np.repeat(merged.keys[:used], counts)
            owners = np.repeat(np.repeat(np.arange(number), np.diff(merged.offsets)), counts)
            columns = self._tuples.take(positions).flatten()
            order = [ranks(column) for column in reversed(columns)]
            if len(positions) and np.bincount(owners).max() > self.most:
                sampled = np.lexsort((*order, digests(columns, len(positions)), owners))
                place = np.arange(len(owners)) - np.searchsorted(owners[sampled], owners[sampled])
                kept = np.sort(sampled[place < self.most])
                positions, owners, order = positions[kept], owners[kept], [rank[kept] for rank in order]
            sorted_ = np.lexsort((*order, owners))
            yield positions[sorted_], owners[sorted_], number

    def _shed(self, slots: Slots) -> None:
        """Keep the sample alone of slots that hold more than twice as much."""
        full = np.unique(slots[self._held[slots] > 2 * self.most])
        if not len(full):
            return
        kept = [(positions.copy(), owners.copy(), number) for positions, owners, number in self._listed(full)]
        self._runs.free(full)
        first = 0
        for positions, owners, number in kept:
            self._runs.add(frozen(full[first + owners]), frozen(positions))
            first += number
        self._held[full] = self.most
        self._forget()

    def _forget(self) -> None:
        """Let go of tuples that are in no bag, once there are many."""
        if self._runs.entries == 0:
            self._tuples.become(pa.array([], self._tuples.kind))
        elif len(self._tuples) > 2 * self._runs.entries + SLACK:
            alive = self._runs.marked(len(self._tuples))
            self._runs.rename(np.cumsum(alive) - 1)
            self._tuples.become(self._tuples.settled().filter(pa.array(alive)))

    def _after_restoring(self) -> None:
        super()._after_restoring()
        bounded(self._runs.keys(), "runs.keys", below=len(self._tuples))
        every = np.arange(len(self._held), dtype=np.int32)
        held, _ = self._runs.totals(every, np.int64(-1))
        if (held != self._held).any() or (self._held > self._counts).any():
            raise ValueError("the saved state holds other numbers of tuples than it says")
