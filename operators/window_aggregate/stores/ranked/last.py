"""The last n tuples, every so often: where a window ends is a time, where it begins a count."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import Emit
from operators.streams.named_groups import GroupBound
from operators.window.counted import LastTuples
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.latest import LatestTuples
from operators.window_aggregate.stores.ranked.shell import WaitingShell
from punctuation import END, Punctuation, before


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class LastAggregate(WaitingShell[LastTuples]):
    """Aggregate the last n tuples in the order of an attribute, at each multiple of a slide.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end: window_start is the
    value of the first tuple that the window has. Each partition has its own last n tuples. Partitions are the groups,
    unless `partition` names fewer attributes; with `partition=()` they are the last n of the whole stream, parted by
    group.
    Pass: the results of a window on the promise that completes it; where partitions have nothing new, once a later
    tuple shows that the window has successors. Keep: a partial aggregate for each tuple that is not final, and for each
    of the last n of each partition; with `idle` until the end, else until the partition is over. Propagate:
    `[wattr < v]` as `[wid < w]` and on window_end, on window_start when there is one partition; group-wise promises on
    partitioning attributes likewise. Late tuples are left out and counted.
    The order of arrival tells apart tuples of one value, and nothing else.
    Cost: O(log n) a tuple for n that wait, almost nothing when in order; a window at most n combinations, O(1) a tuple
    and window when many windows are released together. Functions that depend on the order get the tuples in order.
    Source: multi-measure windows, TODS paper, section 4.4; no sorting, no splitting of slices.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import sum
    >>> schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    >>> page = Page.of(schema, {"ts": [1, 12, 9, 7], "x": [1, 2, 4, 8]})
    >>> last = LastAggregate(LastTuples("ts", size=2, slide=5), {"sum": sum("x")})
    >>> [(row["window_start"], row["window_end"], row["sum"]) for row in rows(drive(last, [page, before("ts", 10)]))]
    [(1, 5, 1), (7, 10, 12)]
    """

    _latest: LatestTuples = attrs.field(init=False, metadata=memory.part(of=while_bound("_latest")))
    _newest: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The first window that has every tuple so far."""

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        linear = (WID, STOP) if self._partitions.partition else (WID, STOP, START)
        return self._promises(schema, linear, over=not self.window.idle)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        window, bound = self.window, self._partitions.bound
        values = self._intake.take(page)
        self._latest.ensure(self._partitions.capacity)
        if window.idle and len(values):
            newest = window.complete(int(values.max()))
            if newest > self._newest:
                self._newest = newest
                if bound != BEFORE_ALL:
                    stop = self._stop(bound)
                    self._give(self._latest.due(stop), stop, emit)
                    self._promise_from(stop, False, emit)

    def _end(self, emit: Emit) -> None:
        self._take_final(self._intake.waiting.queues.waiting(FOREVER), FOREVER)
        stop = self._newest + 1 if self.window.idle else FOREVER
        self._give(self._latest.due(stop), stop, emit)

    def _forget(self) -> None:
        super()._forget()
        self._newest = BEFORE_ALL

    def closed_by(self, wid: int) -> Punctuation:
        return END if self.window.idle and wid > self._newest else before(self.window.wattr, self.window.end(wid))

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        stop = self._stop(bound)
        if self._input is not None:
            parts = self._intake.waiting.queues.waiting(bound)
            self._take_final(parts, bound)
            self._give(self._latest.due(stop), stop, emit, parts)
        self._promise_from(stop, assumed, emit)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        bound = FOREVER if promise.bound is None else promise.bound
        stop = self._stop(bound) if promise.bound is not None or self.window.idle else FOREVER
        if self._input is not None:
            parts = self._partitions.matching(promise)
            self._partitions.raise_own(parts, bound)
            self._take_final(parts, bound)
            self._give(parts, stop, emit, parts)
            if promise.bound is None and not self.window.idle:
                left = self._intake.drop(self._latest.drop(parts))
                self._partitions.free_parts(np.union1d(left, parts).astype(np.int32))
        out = promise.follows(WID, None if stop == FOREVER else stop)
        if stop != BEFORE_ALL and self._promised.advance(out):
            emit(out)

    def _stop(self, bound: int) -> int:
        """Return the window-id after the last window that may be given at a bound; BEFORE_ALL for none."""
        complete = self.window.complete(bound)
        if not self.window.idle:
            return complete
        # Windows after the newest may still be given when a later tuple shows that they have successors.
        return BEFORE_ALL if self._newest == BEFORE_ALL else min(complete, self._newest + 1)

    def _take_final(self, parts: Int32s, bound: int) -> None:
        """Let the tuples of partitions below a bound be final."""
        self._measure()
        self._latest.extend(self._intake.final(parts, bound))

    def _give(self, parts: Int32s, stop: int, emit: Emit, extended: Int32s | None = None) -> None:
        """Emit the windows of partitions below `stop`, and free tuples that are not among the last any more."""
        latest = self._latest
        for groups, slots, wids, begins, ends in latest.results(parts, stop):
            self._emit(groups, slots, wids, begins, ends, emit)
            # The results of a window stand together: each partition has windows of its own.
            owners = self._partitions.part_of(groups)
            self._windows += int(np.count_nonzero((wids[1:] != wids[:-1]) | (owners[1:] != owners[:-1]))) + 1
        parts = parts if extended is None else np.union1d(parts, extended).astype(np.int32)
        self._partitions.free_parts(self._intake.drop(latest.forget(parts, stop)))

    def _promise_from(self, stop: int, assumed: bool, emit: Emit) -> None:
        if stop == BEFORE_ALL:
            return
        bounds = [(WID, stop), (STOP, self.window.end(stop))]
        if not self._partitions.partition:
            first = self._partitions.bound
            if self._input is not None and len(self._latest):
                first = int(self._latest.queues.heads[0])
            bounds.append((START, first))
        for name, value in bounds:
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._latest = LatestTuples(self.window, self._intake.pool, self._intake.owners)

    def _size(self) -> tuple[int, int]:
        if self._input is None:
            return 0, 0
        return len(self._intake.waiting) + len(self._latest), self._intake.nbytes + self._latest.nbytes

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"waiting": 0 if self._input is None else len(self._intake.waiting)}

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._input is not None:
            self._latest.ensure(self._partitions.capacity)
