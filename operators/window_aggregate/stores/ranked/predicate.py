"""Windows that predicates begin and end are known once their tuples are final, in the order of an attribute."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.expression import Bound
from operators.kernels.ranked.layout import GIVEN, GOES_ON, LEFT_OUT
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.streams.named_groups import GroupBound
from operators.window.predicate import PredicateWindow
from operators.window_aggregate import facts
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.cuts import Cuts
from operators.window_aggregate.stores.ranked.queues import either
from operators.window_aggregate.stores.ranked.shell import WaitingShell
from operators.window_aggregate.stores.ranked.waiting import Bytes, Final, Said
from punctuation import END, Punctuation, before


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class PredicateAggregate(WaitingShell[PredicateWindow]):
    """Aggregate windows that begin and end with tuples for which predicates are true.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end: window_start is the
    tick at which the window begins, and its id. Each partition has its own windows. Partitions are the groups, unless
    `partition` names fewer attributes; with `partition=()` the windows are those of the whole stream, and one has a
    result for every group with a tuple in it.
    Pass: the results of a window on the promise that makes the tick final which ends it. Keep: a partial aggregate for
    each tuple that is not final, one for each group in an open window, two ticks a partition that has one. Propagate:
    `[wattr < v]` as `[wid < w]` and on window_start, where w is the first begin of an open window, and at most v; as
    `[window_end < v]` where windows have a longest length, or are left out at the end; group-wise promises on
    partitioning attributes likewise. Late tuples, and those in no window, are counted.
    The order of arrival tells apart tuples of one tick for functions that depend on order, and nothing else.
    Cost: O(log n) a tuple for n that wait, almost nothing when in order, and one combination. Source: see
    `operators.window.predicate.PredicateWindow`.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> from operators.functions import count
    >>> schema = Schema.of(ts="int64", load="int64", progress=["ts"])
    >>> page = Page.of(schema, {"ts": [5, 12, 9, 7], "load": [90, 85, 10, 95]})
    >>> high = PredicateAggregate(PredicateWindow("ts", Column("load") > 80, runs=True), {"n": count()})
    >>> rows(drive(high, [page, before("ts", 10)]))
    [{'n': 2, 'wid': 5, 'window_start': 5, 'window_end': 9}]
    """

    _cuts: Cuts = attrs.field(init=False, metadata=memory.part(of=while_bound("_cuts")))
    _said: Said = attrs.field(init=False, metadata=memory.part(of=while_bound("_said")))
    _tests: Sequence[Bound] = attrs.field(init=False, default=())

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._lost = {"late": 0, "in_no_window": 0, "without_value": 0}
        self._intake.counts = self._lost

    def output_schema(self, *inputs: Schema) -> Schema:
        self.window.check(inputs[0])
        return super().output_schema(*inputs)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (read,) = facts.attributes_read(self, wanted, *inputs)
        return [read | self.window.attributes(inputs[0])]

    def together(self, *inputs: Schema) -> Together:
        keys = self._partitions.partition
        why = "" if keys else "windows are those of the whole stream"
        return Together.by(keys, arrival=facts.by_arrival(self.functions), why=why)

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        return self._promises(schema, (WID, START, STOP) if self.window.ends_late else (WID, START))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        self._intake.take(page, self._bits(page))
        self._cuts.ensure(self._partitions.capacity)

    def _bits(self, page: Page) -> Bytes:
        """Return what the predicates say of each tuple: one bit each."""
        found = np.zeros(len(page), np.int8)
        for place, test in enumerate(self._tests):
            true = pc.fill_null(self.overflow.evaluated(test, page), False).to_numpy(zero_copy_only=False)
            found |= true.view(np.int8) << np.int8(place)
        return found

    def _end(self, emit: Emit) -> None:
        parts = either(self._intake.waiting.queues.waiting(FOREVER), self._cuts.begun())
        self._cut(parts, FOREVER, emit, over=True)

    def closed_by(self, wid: int) -> Punctuation:
        within = self.window.within
        return END if within is None else before(self.window.wattr, wid + within)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        if self._input is not None:
            parts = either(self._intake.waiting.queues.waiting(bound), self._cuts.due(bound))
            self._cut(parts, bound, emit)
        self._promise_first(assumed, emit)

    def _promise_first(self, assumed: bool, emit: Emit) -> None:
        """Promise that no result begins before the first open window, nor before what is promised of all tuples."""
        bound = self._bound
        if bound == BEFORE_ALL:
            return
        first = bound if self._input is None else min(bound, self._cuts.first())
        ends = ((STOP, bound),) if self.window.ends_late else ()
        for name, value in ((WID, first), (START, first), *ends):
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        over, first = promise.bound is None, promise.bound
        bound = FOREVER if promise.bound is None else promise.bound
        if self._input is not None:
            parts = self._partitions.matching(promise)
            self._partitions.raise_own(parts, bound)
            self._cut(parts, bound, emit, over=over)
            if first is not None:
                first = min(first, self._cuts.first(parts))
        out = promise.follows(WID, first)
        if self._promised.advance(out):
            emit(out)
        # The window that ended may have been the first of all.
        self._promise_first(promise.assumed, emit)

    def _cut(self, parts: Int32s, bound: int, emit: Emit, *, over: bool = False) -> None:
        """Let the tuples of partitions below a bound be final, and give the windows that ends."""
        if len(parts) == 0:
            return
        self._measure()
        intake, cuts, queues = self._intake, self._cuts, self._intake.waiting.queues
        _, counts = queues.below(parts, bound)
        values, slots = queues.take(parts, counts)
        state = GOES_ON if not over else GIVEN if self.window.unfinished else LEFT_OUT
        final = Final(parts, np.cumsum(counts), values, slots)
        found, spent, outside = cuts.extend(final, self._said.of(slots), bound, state)
        self._lost["in_no_window"] += outside
        if len(found[0]):
            self._emit(*found, emit)
            # Each partition has windows of its own, in which there may be several groups.
            owners = self._partitions.part_of(found[0])
            order = np.lexsort((found[2], owners))
            owners, begins = owners[order], found[2][order]
            self._windows += 1 + int(np.count_nonzero((owners[1:] != owners[:-1]) | (begins[1:] != begins[:-1])))
        left = intake.drop(spent)
        if intake.owners is None:
            left = parts[~cuts.is_open(parts) & (queues.sizes(parts) == 0)]
        self._partitions.free_parts(left)

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._said = Said()
        self._intake.said = self._said
        self._tests = [predicate.bind(schema) for predicate in self.window.predicates()]
        self._cuts = Cuts(self.window, self._intake.pool, self._partitions, self._intake.owners)

    def _size(self) -> tuple[int, int]:
        if self._input is None:
            return 0, 0
        intake, cuts = self._intake, self._cuts
        return len(intake.waiting) + len(cuts), intake.nbytes + cuts.nbytes + self._said.nbytes

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"waiting": 0 if self._input is None else len(self._intake.waiting)}

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._input is not None:
            self._said.ensure(self._intake.pool.capacity)
            self._cuts.ensure(self._partitions.capacity)
