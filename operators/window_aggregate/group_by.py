"""The plain aggregate groups by attributes alone; a promise on them ends the groups it matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.functions.protocol import Accumulator, AggregateFunction
from operators.functions.sharing import accumulators
from operators.overflow import Overflow
from operators.pace import Paces, group_promises
from operators.protocol import Emit
from operators.retractions import refused
from operators.streams.named_groups import matched
from operators.window_aggregate import facts
from operators.window_aggregate.results import named_apart
from punctuation import END, Progress, Punctuation


@attrs.define
class GroupAggregate(memory.Stateful):
    """Aggregate the tuples of each group; without grouping attributes, all tuples.

    Emits the grouping attributes, then one attribute a function.
    Pass: a group on the promise that matches it (thesis 2.1, p1). Keep: one partial aggregate a group that is not over.
    Propagate: promises on grouping attributes alone.
    Cost: O(aggregates) a tuple; a promise that names groups O(groups named), any other O(live groups).

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from punctuation import Equals
    >>> page = Page.of(Schema.of(k=pa.string(), progress=["k"]), {"k": ["a", "b", "a"]})
    >>> rows(drive(GroupAggregate({"count": count()}, ("k",)), [page, Punctuation({"k": Equals("a")})]))
    [{'k': 'a', 'count': 2}]
    """

    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _schemas: tuple[Schema, Schema] | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind"))
    _groups: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part())
    _accumulators: list[Accumulator] = attrs.field(init=False, factory=list, metadata=memory.parts("aggregate"))
    _capacity: int = attrs.field(init=False, default=0)
    """All slots of the accumulators are below."""
    _any: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        fields = [schema.field(name, where="aggregate") for name in self.by]
        KeyIndex(fields)
        fields += [function.output_field(schema, name) for name, function in self.functions.items()]
        return Schema(named_apart(fields), progress=[p for p in schema.progress if p <= set(self.by)])

    attributes_read = facts.groups_read
    order_wanted = facts.order_wanted
    together = facts.together
    retracted = refused

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [group_promises(self.by, wanted, inputs[0])]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        self._bind(page.schema)
        self._any = True
        if self._groups is None:
            slots = np.zeros(len(page), np.int32)
        else:
            slots, fresh = self._groups.assign_new([page.column(name) for name in self.by])
            self._reserve(self._groups.capacity)
            new = slots[fresh]
            for accumulator in self._accumulators:
                accumulator.init(new)
            self._peak = max(self._peak, len(self._groups))
        for accumulator in self._accumulators:
            accumulator.update(slots, page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            if self._any:
                self._release(np.zeros(1, np.int32) if self._groups is None else self._groups.live(), emit)
            self._forget()
            emit(END)
            return
        if not set(punctuation.attributes) <= set(self.by) or not self._promised.advance(punctuation):
            return
        if self._groups is not None and len(self._groups):
            self._release(matched(self._groups, punctuation), emit)
        emit(punctuation)

    def _keys(self, live: Int32s) -> Page:
        assert self._groups is not None and self._schemas is not None
        schema = Schema(pa.schema([self._schemas[0].field(name) for name in self.by]))
        return Page.of(schema, dict(zip(self.by, self._groups.keys(live), strict=True)))

    def _release(self, slots: Int32s, emit: Emit) -> None:
        if len(slots) == 0 or self._schemas is None:
            return
        arrays = [] if self._groups is None else self._groups.keys(slots)
        output = self._schemas[1]

        def where(at: int) -> str:
            return "all tuples" if self._groups is None else self._keys(slots[at : at + 1]).describe(0)

        for name, accumulator in zip(self.functions, self._accumulators, strict=True):
            kind = output.arrow.field(name).type
            arrays.append(self.overflow.finalized(name, accumulator, slots, kind, where))
        # Functions may read one state that they share, so nothing is freed before all have their results.
        for accumulator in self._accumulators:
            accumulator.free(slots)
        if self._groups is not None:
            self._groups.free(slots)
        emit(Page(output, pa.RecordBatch.from_arrays(arrays, schema=output.arrow)))

    def _bind(self, schema: Schema) -> None:
        if self._schemas is not None:
            return
        self._schemas = (schema, self.output_schema(schema))
        self._groups = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
        self._accumulators = accumulators(self.functions.values(), schema)
        self._reserve(1)
        for accumulator in self._accumulators:
            accumulator.init(np.zeros(1, np.int32))

    def _reserve(self, capacity: int) -> None:
        if capacity > self._capacity:
            self._capacity = max(capacity, 2 * self._capacity, 16)
            for accumulator in self._accumulators:
                accumulator.reserve(self._capacity)

    def _forget(self) -> None:
        self._schemas, self._groups, self._capacity, self._any = None, None, 0, False
        self._accumulators = []
        self._promised = Progress()

    def statistics(self) -> dict[str, int]:
        held = len(self._groups) if self._groups is not None else int(self._any)
        return {
            "state_tuples": held,
            "state_bytes": self.nbytes,
            "peak_state_tuples": max(self._peak, held),
        }

    def _after_restoring(self) -> None:
        if self._schemas is not None:
            self._capacity = 0
            self._reserve(max(1, 0 if self._groups is None else self._groups.capacity))
