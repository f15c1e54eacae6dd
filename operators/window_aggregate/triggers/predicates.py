"""Windows that predicates begin and end give what they have so far when a trigger says so.

What a window has is what is final of it: tuples whose order is certain. So results by rows and on event time are the
same whatever the order of arrival, the pages and the promises.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, cast

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.ranked.layout import GIVEN, GOES_ON
from operators.kernels.ticks import BEFORE_ALL
from operators.pace import Pace, Paces, want
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting
from operators.signals import Signal
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from operators.window_aggregate.stores.ranked.queues import either
from operators.window_aggregate.stores.ranked.waiting import Final
from operators.window_aggregate.triggers.aggregate import replacing
from operators.window_aggregate.triggers.condition import AnyOf, Compiled, Condition
from operators.window_aggregate.triggers.fired_cuts import FiredCuts, Results
from operators.window_aggregate.triggers.promised import At, Every, Moment
from operators.window_aggregate.triggers.telling import telling, told


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class TriggeredPredicates(PredicateAggregate):
    """Aggregate windows that predicates begin and end, and give what they have so far when a condition holds.

    Emits what a PredicateAggregate emits, then `fired`, `final` and `firing`. A result that is not final is over the
    tuples of its window and group that are final, or with `discards` over those since the last firing. Its window_end
    is where the window ends if nothing more comes. Where ticks alone fire windows (`Every`, `At`, any of these),
    `fired` is the tick, and the result is over the tuples before it; otherwise it is null.
    A window that counts rows fires between two tuples in their order. Of ticks beside other conditions it hears behind
    the promise that reaches them, with what is final then; of signals at once. It does not fire for nothing new.
    Pass: on the promise or signal at which a window fires, and on the promise that makes the tick final which ends it.
    Keep: what a PredicateAggregate keeps, and 72 bytes for each group in an open window. Propagate: as it does, and
    `[window_end < e]`, where e is at most behind the last tick of an open window, and what its results told.
    Cost: that of a PredicateAggregate, O(log n) for n tuples that become final at once, and one combination a firing.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> from operators.functions import count
    >>> from operators.window.predicate import PredicateWindow
    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> from punctuation import before
    >>> schema = Schema.of(ts="int64", load="int64", progress=["ts"])
    >>> page = Page.of(schema, {"ts": [5, 12, 9, 7, 8], "load": [90, 85, 10, 95, 91]})
    >>> window = PredicateWindow("ts", Column("load") > 80, runs=True)
    >>> found = rows(drive(TriggeredPredicates(window, {"n": count()}, condition=Rows(2)), [page, before("ts", 10)]))
    >>> [(row["n"], row["wid"], row["window_end"], row["final"], row["firing"]) for row in found]
    [(2, 5, 8, False, 0), (3, 5, 9, True, 1)]
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
        if not self.window.unfinished:
            raise SchemaError(
                f"early results: a window {self.window} that is open at the end of the stream is none, and what it gave"
                " before would stand.\n  Let it be given at the end, unfinished=True."
            )
        self._compiled = Compiled.of(self.condition)
        if self._compiled.promised:
            raise SchemaError(
                f"early results: windows of predicates do not fire {self._compiled.promised[0]}: promises make their"
                " tuples final.\n  Leave that out of the trigger: rows, events, a clock and ticks of event time fire"
                " them."
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

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        (paces,) = super().promises_asked(wanted, *inputs)
        if self._compiled.moments:
            # Where windows begin, and so their ticks are, only tuples tell.
            want(paces, self.window.wattr, Pace(None))
        return [paces]

    def output_schema(self, *inputs: Schema) -> Schema:
        return told(super().output_schema(*inputs))

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        return self._promises(schema, (WID, START, STOP))

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._told, self._output = self._output, super().output_schema(schema)
        intake = self._intake
        self._cuts = FiredCuts(
            self.window, intake.pool, self._partitions, intake.owners, compiled=self._compiled,
            moments=_alone(self.condition), discards=self.discards,
        )  # fmt: skip

    @property
    def _fires(self) -> FiredCuts:
        return cast(FiredCuts, self._cuts)

    def signal(self, signal: Signal, emit: Emit) -> None:
        if self._input is not None and (bit := self._compiled.bit(signal)):
            held = self._fires.holding()
            self._fires.tell(held, bit)
            self._ask(held, emit)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        if self._input is not None:
            waiting = self._intake.waiting.queues.waiting(bound)
            parts = either(waiting, self._cuts.begun() if self._compiled.moments else self._cuts.due(bound))
            self._cut(parts, bound, emit)
        self._promise_first(assumed, emit)

    def _promise_first(self, assumed: bool, emit: Emit) -> None:
        bound = self._bound
        if bound == BEFORE_ALL:
            return
        first, end = bound, bound + 1
        if self._input is not None:
            first, end = min(first, self._cuts.first()), min(end, self._fires.least_end())
        for name, value in ((WID, first), (START, first), (STOP, end)):
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _cut(self, parts: Int32s, bound: int, emit: Emit, *, over: bool = False) -> None:
        if len(parts) == 0:
            return
        self._measure()
        intake, fires, queues = self._intake, self._fires, self._intake.waiting.queues
        _, counts = queues.below(parts, bound)
        values, slots = queues.take(parts, counts)
        final = Final(parts, np.cumsum(counts), values, slots)
        taken = fires.take(final, self._said.of(slots), bound, GIVEN if over else GOES_ON)
        self._lost["in_no_window"] += taken.outside
        self._give(taken.early, emit, final=False)
        self._give(taken.final, emit, final=True)
        intake.pool.give(taken.loose)
        left = intake.drop(taken.spent)
        if intake.owners is None:
            left = parts[~fires.is_open(parts) & (queues.sizes(parts) == 0)]
        if self._compiled.moments and not fires.moments:
            self._ask(fires.holding(), emit)
        self._partitions.free_parts(left)

    def _ask(self, which: Int32s, emit: Emit) -> None:
        """Emit the results of those of these groups whose windows fire with what they have."""
        found = self._fires.ask(which)
        self._give(found, emit, final=False)
        self._intake.drop(self._fires.reset(found))

    def _give(self, found: Results, emit: Emit, *, final: bool) -> None:
        """Emit results, with which firing of its window each is."""
        n = len(found.groups)
        if n == 0:
            return
        assert self._told is not None
        fires = None if final or not self._fires.moments else found.fires
        tell = telling(self._told, found.numbers, emit, final=final, fires=fires)
        self._emit(found.groups, found.slots, found.begins, found.begins, found.ends, tell)
        self._early += 0 if final else n
        if final:
            # Each partition has windows of its own, in which there may be several groups.
            owners = self._partitions.part_of(found.groups)
            self._windows += np.unique(np.stack((owners.astype(np.int64), found.begins)), axis=1).shape[1]

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


def _alone(condition: Condition) -> tuple[Moment, ...]:
    """Return the ticks at which windows fire, where nothing else fires them; none otherwise."""
    parts = condition.of if isinstance(condition, AnyOf) else (condition,)
    found = tuple(part for part in parts if isinstance(part, Every | At))
    return found if len(found) == len(parts) else ()
