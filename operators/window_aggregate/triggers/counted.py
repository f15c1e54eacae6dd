"""Windows of n tuples in the order of an attribute give what they have so far when a trigger says so.

What a window has are the tuples whose rank is final. So results by rows are the same whatever the order of arrival, the
pages and the promises.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, cast

import attrs

from operators.data import memory
from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import Slots
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting
from operators.signals import Signal
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.waiting import Final
from operators.window_aggregate.triggers.aggregate import replacing
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.fired_ranks import FiredRanks, Ranked
from operators.window_aggregate.triggers.telling import telling, told


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class TriggeredCounts(CountAggregate):
    """Aggregate every n tuples in the order of an attribute, and give what they have so far when a condition holds.

    Emits what a CountAggregate emits, then `fired`, `final` and `firing`. A result that is not final is over the tuples
    of its window and group whose rank is final, or with `discards` over those since the last firing; its `fired` is
    null. A window that counts rows fires between two tuples in their order; signals fire it at once.
    Pass: on the promise or signal at which a window fires, and on the promise that makes the rank of its last tuple
    final. Keep: a partial aggregate for each tuple that is not final, one for each open window and group, and 72 bytes
    for what its trigger has seen. Propagate: as a CountAggregate does.
    Cost: a combination a tuple, and O(size / slide) for each run of tuples that no window and no firing parts, or each
    tuple where groups share a partition; and O(n log n) for n windows that are open at a promise.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import sum
    >>> from operators.window.counted import CountWindow
    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> from punctuation import before
    >>> schema = Schema.of(ts="int64", x="int64", progress=["ts"])
    >>> page = Page.of(schema, {"ts": [5, 12, 9, 7], "x": [1, 2, 4, 8]})
    >>> window = CountWindow("ts", size=3, slide=3)
    >>> found = rows(drive(TriggeredCounts(window, {"sum": sum("x")}, condition=Rows(2)), [page, before("ts", 10)]))
    >>> [(row["sum"], row["wid"], row["final"], row["firing"]) for row in found]
    [(9, 0, False, 0), (13, 0, True, 1)]
    """

    VERSION: ClassVar[int] = 2

    condition: Condition = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    """Whether a result has only what is new since the last firing."""
    _compiled: Compiled = attrs.field(init=False)
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._compiled = Compiled.of(self.condition)
        if self._compiled.hears_promises:
            raise SchemaError(
                "early results: windows of rows have no ticks, and promises make the ranks of their tuples final.\n"
                "  Let rows, events and a clock fire them."
            )

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return replacing(found, self.discards)

    def together(self, *inputs: Schema) -> Together:
        return Together(arrival=True, why="windows fire as promises and signals arrive")

    @property
    def hears_promises(self) -> bool:
        """Return True: windows have what is promised to be final."""
        return True

    def signals(self) -> Collection[Signal]:
        return self._compiled.signals

    def output_schema(self, *inputs: Schema) -> Schema:
        return told(super().output_schema(*inputs))

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._told, self._output = self._output, super().output_schema(schema)
        intake = self._intake
        self._slices = FiredRanks(
            self.window, intake.pool, self._partitions, intake.owners, compiled=self._compiled, discards=self.discards
        )

    @property
    def _fires(self) -> FiredRanks:
        return cast(FiredRanks, self._slices)

    def signal(self, signal: Signal, emit: Emit) -> None:
        if self._input is not None and (bit := self._compiled.bit(signal)):
            found, left = self._fires.tell(bit)
            self._give(found, emit, final=False)
            self._drop(left)

    def _take(self, final: Final, emit: Emit) -> None:
        for parts, slots in self._fires.portions(final):
            found, left = self._fires.take(parts, slots)
            self._give(found, emit, final=False)
            self._intake.pool.give(found.slots)
            self._drop(left)

    def _release(self, parts: Int32s, over: bool, emit: Emit) -> None:
        found, left = self._fires.release(parts, over)
        self._give(found, emit, final=True)
        self._drop(left)

    def _drop(self, slots: Slots) -> None:
        self._intake.drop(slots)

    def _give(self, found: Ranked, emit: Emit, *, final: bool) -> None:
        """Emit results, with which firing of its window each is."""
        if len(found.groups):
            assert self._told is not None
            tell = telling(self._told, found.numbers, emit, final=final)
            self._emit(found.groups, found.slots, found.wids, *self.window.extents(found.wids), tell)
            self._early += 0 if final else len(found.groups)

    def _open(self, most: int) -> Page:
        # With DISCARD a copy would give no window without a new tuple.
        if self.discards:
            copy = attrs.evolve(self, discards=False)
            copy.restore(self.state())
            return copy._open(most)
        return super()._open(most)

    def _forget(self) -> None:
        super()._forget()
        self._told = None

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"early_results": self._early}
