"""Count windows have n tuples each, in the order of an attribute, however the tuples arrive."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa

from operators.aggregate import facts
from operators.functions.protocol import AggregateFunction
from operators.overflow import Overflow
from operators.page import Page, plain_values
from operators.plan_facts import Together
from operators.protocol import Emit, State, StateValue
from operators.ranked.intake import Intake
from operators.ranked.partitions import Partitions, checked_partition, group_bound, within
from operators.ranked.results import START, STOP, WID, Results, ordering, output_fields
from operators.ranked.slices import RankSlices
from operators.retractions import refused
from operators.saved import part, prefixed, read_text
from operators.schema import Schema
from operators.window.counted import CountWindow
from operators.window.protocol import FOREVER, Int32s
from punctuation import END, Progress, Punctuation, before, group_punctuation
from punctuation.plain import dump_progress, read_progress


@attrs.define(eq=False)
class CountAggregate:
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
    Source: thesis Eq. 5.4 to 5.6 with rank(wattr); TODS paper, sections 4.3 and 5.2 (`operators.ranked.waiting` says
    what takes the place of its shift of the last tuple).

    >>> from operators.drive import drive, rows
    >>> from operators.functions import sum
    >>> schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    >>> page = Page.of(schema, {"ts": [5, 12, 9, 7], "x": [1, 2, 4, 8]})
    >>> found = drive(CountAggregate(CountWindow("ts", size=2, slide=2), {"sum": sum("x")}), [page, before("ts", 9)])
    >>> [(row["wid"], row["sum"]) for row in rows(found)], [str(p) for p in found[1:2]]
    ([(0, 9)], ['[wid < 1]'])
    """

    window: CountWindow
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    partition: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _intake: Intake = attrs.field(init=False)
    _slices: RankSlices = attrs.field(init=False)
    _results: Results = attrs.field(init=False)
    _promised: Progress = attrs.field(init=False, factory=Progress)

    def __attrs_post_init__(self) -> None:
        partitions = Partitions(self.by, checked_partition(self.by, self.partition))
        self._intake = Intake(self.window.wattr, partitions, self.functions)

    attributes_read = facts.attributes_read
    promises_asked = facts.promises_asked
    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        ordering(schema, self.window.wattr)
        partition = self._intake.partitions.partition
        Partitions(self.by, partition).bind(schema)
        arrow = output_fields(schema, self.functions, self.by, pa.int64())
        progress: list[frozenset[str]] = []
        wattr = frozenset((self.window.wattr,))
        for promise in schema.progress:
            if promise - wattr <= set(partition):
                if not promise & wattr:
                    progress.append(promise)
                elif partition:
                    progress.append(frozenset((*partition, WID)))
                else:
                    progress += [frozenset((name,)) for name in (WID, START, STOP)]
        return Schema(arrow, progress=progress)

    def together(self, *inputs: Schema) -> Together:
        keys = self.by if self.partition is None else self.partition
        return Together.by(keys, arrival=True, why="ties are told apart by arrival")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._bind(page.schema)
        self._intake.take(page)
        self._slices.ensure(self._intake.partitions.capacity)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        intake = self._intake
        if punctuation.is_end:
            if intake.input is not None:
                parts = np.union1d(intake.waiting.queues.waiting(FOREVER), self._slices.begun())
                self._advance(parts, FOREVER, emit, over=True)
            intake.clear()
            self._promised = Progress()
            emit(END)
            return
        linear = punctuation.bound(self.window.wattr)
        if linear is not None:
            bound = within(linear)
            if bound is not None and bound > intake.partitions.bound:
                intake.partitions.bound = bound
                if intake.input is not None:
                    self._advance(intake.waiting.queues.waiting(bound), bound, emit, assumed=punctuation.assumed)
            return
        promise = group_bound(punctuation, intake.partitions.partition, self.window.wattr)
        if promise is None:
            return
        over = promise.bound is None
        if intake.input is not None:
            parts = intake.partitions.matching(promise)
            bound = FOREVER if promise.bound is None else promise.bound
            intake.partitions.raise_own(parts, bound)
            self._advance(parts, bound, emit, over=over, assumed=punctuation.assumed)
        if over and self._promised.advance(punctuation):
            emit(punctuation)

    def _advance(self, parts: Int32s, bound: int, emit: Emit, *, over: bool = False, assumed: bool = False) -> None:
        """Rank the tuples of partitions below a bound, give the windows that completes, and promise them."""
        intake, slices = self._intake, self._slices
        self._measure()
        final = intake.final(parts, bound)
        parts = parts if over else final.parts
        if len(parts) == 0:
            return
        intake.drop(slices.extend(final))
        before_now = slices.given(parts)
        new = slices.complete(parts, over) - np.maximum(before_now, self.window.least)
        intake.counts["windows"] += int(np.maximum(new, 0).sum())
        for found in slices.results(parts, over):
            intake.counts["results"] += self._results.emit(*found, emit)
        intake.drop(slices.forget(parts, over))
        if over:
            intake.partitions.free_parts(parts)
        else:
            further = parts[slices.given(parts) > before_now]
            if len(further):
                self._promise(further, assumed, emit)

    def _promise(self, parts: Int32s, assumed: bool, emit: Emit) -> None:
        """Promise the windows that have been given, of each of these partitions."""
        partitions, bounds = self._intake.partitions, self._slices.given(parts)
        if not partitions.partition:
            for bound in bounds.tolist():
                begin, end = self.window.extents(np.array([bound]))
                for name, value in ((WID, bound), (START, int(begin[0])), (STOP, int(end[0]))):
                    emit(before(name, value, assumed=assumed))
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
        if self._intake.input is not None:
            return
        intake = self._intake
        intake.bind(schema)
        self._slices = RankSlices(self.window, intake.pool, intake.partitions, intake.owners)
        self._results = Results(
            self.output_schema(schema), self.functions, intake.partitions, intake.pool, self.overflow
        )

    def _measure(self) -> None:
        intake = self._intake
        if intake.input is not None:
            intake.measure(len(intake.waiting) + len(self._slices) + intake.partitions.numbered, self._slices.nbytes)

    def statistics(self) -> dict[str, int]:
        intake = self._intake
        waiting = slices = parts = nbytes = nulls = groups = 0
        if intake.input is not None:
            waiting, slices, parts = len(intake.waiting), len(self._slices), intake.partitions.numbered
            nbytes, nulls, groups = intake.nbytes + self._slices.nbytes, intake.nulls, intake.partitions.groups
        return {
            **intake.counts,
            **intake.peaks(waiting + slices + parts, nbytes),
            "state_tuples": waiting + slices + parts,
            "state_bytes": nbytes,
            "waiting": waiting,
            "slices": slices,
            "groups": groups,
            "null_arguments": nulls,
        }

    def state(self) -> State:
        state = self._intake.state() | {"promised": dump_progress(self._promised)}
        if self._intake.input is not None:
            state |= prefixed("slices.", self._slices.state())
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        schema = self._intake.saved_schema(state)
        if schema is not None:
            self._bind(schema)
        self._intake.restore(state)
        self._promised = read_progress(read_text(state, "promised"))
        if schema is not None:
            self._slices.restore(part("slices.", state))
            self._slices.ensure(self._intake.partitions.capacity)
