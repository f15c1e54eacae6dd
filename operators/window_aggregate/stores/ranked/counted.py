"""Count windows have n tuples each, in the order of an attribute, however the tuples arrive."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int32s, Int64s, Page, plain_values
from operators.data.schema import Schema
from operators.kernels.ticks import FOREVER
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.streams.named_groups import GroupBound
from operators.window.counted import CountWindow
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.shell import WaitingShell
from operators.window_aggregate.stores.ranked.slices import RankSlices
from operators.window_aggregate.stores.ranked.waiting import Final
from punctuation import END, Punctuation, before, group_punctuation


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class CountAggregate(WaitingShell[CountWindow]):
    """Aggregate every n tuples in the order of an attribute, ties by arrival, without sorting the stream.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end: the ordinal of the
    window and the ranks it covers. Each partition has its own ranks. Partitions are the groups, unless `partition`
    names fewer attributes; with `partition=()` the ranks are those of the whole stream, and a window has a result for
    every group with a tuple in it.
    Pass: the results of a window on the promise that makes the rank of its last tuple final. Keep: a partial aggregate
    for each tuple that is not final, one for each slice of the open windows and group, two numbers a partition.
    Propagate: `[wattr < v]` makes ranks final, so it becomes `[wid < w]`, for each partition apart when there are some;
    so do group-wise promises on partitioning attributes. Late tuples are left out and counted.
    The order of arrival tells apart tuples of one value, and nothing else.
    Cost: O(log n) a tuple for n that wait, almost nothing when in order, and one combination; a release O(1)
    combinations a slice and a window. Functions that depend on the order get the tuples in the order of the attribute.
    Source: thesis Eq. 5.4 to 5.6 with rank(wattr); TODS paper, sections 4.3 and 5.2
    (`operators.window_aggregate.stores.ranked.waiting` says what takes the place of its shift of the last tuple).

    >>> from operators.drive import drive, rows
    >>> from operators.functions import sum
    >>> schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    >>> page = Page.of(schema, {"ts": [5, 12, 9, 7], "x": [1, 2, 4, 8]})
    >>> found = drive(CountAggregate(CountWindow("ts", size=2, slide=2), {"sum": sum("x")}), [page, before("ts", 9)])
    >>> [(row["wid"], row["sum"]) for row in rows(found)], [str(p) for p in found[1:2]]
    ([(0, 9)], ['[wid < 1]'])
    """

    _slices: RankSlices = attrs.field(init=False, metadata=memory.part(of=while_bound("_slices")))

    def _times(self, kind: pa.DataType) -> pa.DataType:
        return pa.int64()

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        wattr, partition = frozenset((self.window.wattr,)), self._partitions.partition
        if not partition:
            return self._promises(schema, (WID, START, STOP))
        fit = [promise for promise in schema.progress if promise - wattr <= set(partition)]
        return [frozenset((*partition, WID)) if promise & wattr else promise for promise in fit]

    def together(self, *inputs: Schema) -> Together:
        keys = self.by if self.partition is None else self.partition
        return Together.by(keys, arrival=True, why="ties are told apart by arrival")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        self._intake.take(page)
        self._slices.ensure(self._partitions.capacity)

    def _end(self, emit: Emit) -> None:
        parts = np.union1d(self._intake.waiting.queues.waiting(FOREVER), self._slices.begun())
        self._rank(parts, FOREVER, emit, over=True)

    def closed_by(self, wid: int) -> Punctuation:
        parts, held, end = self._in(wid)
        if len(parts) == 0 or (held < end).any():
            return END
        ranked, waiting = self._slices.ranked[parts], self._intake.waiting.queues
        return before(self.window.wattr, int(waiting.at(parts, end - ranked - 1).max()) + 1)

    def lacking(self, wid: int) -> int:
        _, held, end = self._in(wid)
        return max(0, end - int(held.min(initial=end)))

    def _in(self, wid: int) -> tuple[Int32s, Int64s, int]:
        """Return the partitions in which a window is open, the tuples that each has had, and the rank that ends it."""
        begins, ends = self.window.extents(np.array([wid]))
        begin, end = int(begins[0]), int(ends[0])
        if self._input is None:
            return np.empty(0, np.int32), np.empty(0, np.int64), end
        parts = np.arange(self._partitions.capacity, dtype=np.int32)
        ranked = self._slices.ranked[parts]
        held = ranked + self._intake.waiting.queues.sizes(parts)
        there = (held > max(begin, 0)) & (ranked < end)
        return parts[there], held[there], end

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        if self._input is not None:
            self._rank(self._intake.waiting.queues.waiting(bound), bound, emit, assumed=assumed)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        over = promise.bound is None
        if self._input is not None:
            parts = self._partitions.matching(promise)
            bound = FOREVER if promise.bound is None else promise.bound
            self._partitions.raise_own(parts, bound)
            self._rank(parts, bound, emit, over=over, assumed=promise.assumed)
        if over and self._promised.advance(out := promise.follows(WID, None)):
            emit(out)

    def _rank(self, parts: Int32s, bound: int, emit: Emit, *, over: bool = False, assumed: bool = False) -> None:
        """Rank the tuples of partitions below a bound, give the windows that completes, and promise them."""
        intake, slices = self._intake, self._slices
        self._measure()
        final = intake.final(parts, bound)
        parts = parts if over else final.parts
        if len(parts) == 0:
            return
        self._take(final, emit)
        before_now = slices.given(parts)
        new = slices.complete(parts, over) - np.maximum(before_now, self.window.least)
        self._windows += int(np.maximum(new, 0).sum())
        self._release(parts, over, emit)
        intake.drop(slices.forget(parts, over))
        if over:
            self._partitions.free_parts(parts)
        else:
            further = parts[slices.given(parts) > before_now]
            if len(further):
                self._promise_given(further, assumed, emit)

    def _take(self, final: Final, emit: Emit) -> None:
        """Take tuples whose ranks are final."""
        self._intake.drop(self._slices.extend(final))

    def _release(self, parts: Int32s, over: bool, emit: Emit) -> None:
        """Emit the windows of partitions that are complete, or all that they have if they are over."""
        for found in self._slices.results(parts, over):
            self._emit(*found, emit)

    def _promise_given(self, parts: Int32s, assumed: bool, emit: Emit) -> None:
        """Promise the windows that have been given, of each of these partitions."""
        partitions, bounds = self._partitions, self._slices.given(parts)
        if not partitions.partition:
            begins, ends = self.window.extents(bounds)
            self._promise(int(bounds[0]), int(begins[0]), int(ends[0]), assumed, emit)
            return
        order = np.argsort(bounds, kind="stable")
        values = [plain_values(column) for column in partitions.part_keys(parts[order])]
        found, starts = np.unique(bounds[order], return_index=True)
        for bound, start, stop in zip(found.tolist(), starts.tolist(), [*starts[1:].tolist(), len(parts)], strict=True):
            keys = zip(*(column[start:stop] for column in values), strict=True)
            usable = [key for key in keys if None not in key]
            # Ranks only rise, so this is new: it needs no place among the promises made.
            for promise in group_punctuation((partitions.partition, WID), usable, bound):
                emit(attrs.evolve(promise, assumed=assumed))

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._slices = RankSlices(self.window, self._intake.pool, self._partitions, self._intake.owners)

    def _size(self) -> tuple[int, int]:
        if self._input is None:
            return 0, 0
        intake, slices = self._intake, self._slices
        return len(intake.waiting) + len(slices) + self._partitions.numbered, intake.nbytes + slices.nbytes

    def statistics(self) -> dict[str, int]:
        waiting, slices = (0, 0) if self._input is None else (len(self._intake.waiting), len(self._slices))
        return super().statistics() | {"waiting": waiting, "slices": slices}
