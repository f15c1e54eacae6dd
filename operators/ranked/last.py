"""The last n tuples, every so often: where a window ends is a time, where it begins a count."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa

from operators.aggregate import facts
from operators.functions.protocol import AggregateFunction, Slots
from operators.overflow import Overflow
from operators.page import Int64s, Page
from operators.protocol import Emit, State, StateValue
from operators.ranked.intake import Intake
from operators.ranked.latest import LatestTuples
from operators.ranked.partitions import NEVER, Partitions, checked_partition, group_bound, within
from operators.ranked.results import START, STOP, WID, Results, ordering, output_fields
from operators.retractions import refused
from operators.saved import part, prefixed, read_int, read_text
from operators.schema import Schema
from operators.window.counted import LastTuples
from operators.window.protocol import FOREVER, Int32s
from punctuation import END, Below, Pattern, Progress, Punctuation
from punctuation.plain import dump_progress, read_progress


@attrs.define(eq=False)
class LastAggregate:
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

    window: LastTuples
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    partition: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _intake: Intake = attrs.field(init=False)
    _latest: LatestTuples = attrs.field(init=False)
    _results: Results = attrs.field(init=False)
    _newest: int = attrs.field(init=False, default=NEVER)
    """The first window that has every tuple so far."""
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
        kind = ordering(schema, self.window.wattr)
        partition = self._intake.partitions.partition
        Partitions(self.by, partition).bind(schema)
        arrow = output_fields(schema, self.functions, self.by, kind if pa.types.is_temporal(kind) else pa.int64())
        progress: list[frozenset[str]] = []
        wattr = frozenset((self.window.wattr,))
        for promise in schema.progress:
            if promise == wattr:
                progress += [frozenset((name,)) for name in ((WID, STOP) if partition else (WID, STOP, START))]
            elif promise - wattr <= set(partition) and (promise & wattr or not self.window.idle):
                progress.append(promise - wattr | {WID} if promise & wattr else promise)
        return Schema(arrow, progress=progress)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._bind(page.schema)
        intake, window = self._intake, self.window
        values = intake.take(page)
        self._latest.ensure(intake.partitions.capacity)
        if window.idle and len(values):
            newest = window.complete(int(values.max()))
            if newest > self._newest:
                self._newest = newest
                if intake.partitions.bound != NEVER:
                    stop = self._stop(intake.partitions.bound)
                    self._give(self._latest.due(stop), stop, emit)
                    self._promise(stop, False, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        intake = self._intake
        if punctuation.is_end:
            if intake.input is not None:
                self._advance(intake.waiting.queues.waiting(FOREVER), FOREVER)
                stop = self._newest + 1 if self.window.idle else FOREVER
                self._give(self._latest.due(stop), stop, emit)
            intake.clear()
            self._promised, self._newest = Progress(), NEVER
            emit(END)
            return
        linear = punctuation.bound(self.window.wattr)
        if linear is not None:
            bound = within(linear)
            if bound is not None and bound > intake.partitions.bound:
                intake.partitions.bound = bound
                stop = self._stop(bound)
                if intake.input is not None:
                    parts = intake.waiting.queues.waiting(bound)
                    self._advance(parts, bound)
                    self._give(self._latest.due(stop), stop, emit, parts)
                self._promise(stop, punctuation.assumed, emit)
            return
        self._advance_some(punctuation, emit)

    def _advance_some(self, punctuation: Punctuation, emit: Emit) -> None:
        """Take a promise on single partitions."""
        intake = self._intake
        promise = group_bound(punctuation, intake.partitions.partition, self.window.wattr)
        if promise is None:
            return
        patterns: dict[str, Pattern] = dict(promise.partitions.patterns)
        bound = FOREVER if promise.bound is None else promise.bound
        stop = self._stop(bound) if promise.bound is not None or self.window.idle else FOREVER
        if stop != FOREVER:
            patterns[WID] = Below(stop)
        if intake.input is not None:
            parts = intake.partitions.matching(promise)
            intake.partitions.raise_own(parts, bound)
            self._advance(parts, bound)
            self._give(parts, stop, emit, parts)
            if promise.bound is None and not self.window.idle:
                self._free(np.union1d(intake.drop(self._latest.drop(parts)), parts).astype(np.int32))
        out = Punctuation(patterns, assumed=punctuation.assumed)
        if stop != NEVER and self._promised.advance(out):
            emit(out)

    def _stop(self, bound: int) -> int:
        """Give the window-id after the last window that may be given at a bound; NEVER for none."""
        complete = self.window.complete(bound)
        if not self.window.idle:
            return complete
        # Windows after the newest may still be given when a later tuple shows that they have successors.
        return NEVER if self._newest == NEVER else min(complete, self._newest + 1)

    def _advance(self, parts: Int32s, bound: int) -> None:
        """Let the tuples of partitions below a bound be final."""
        self._measure()
        self._latest.extend(self._intake.final(parts, bound))

    def _give(self, parts: Int32s, stop: int, emit: Emit, extended: Int32s | None = None) -> None:
        """Give the windows of partitions below `stop`, and let go of tuples that are not among the last any more."""
        intake, latest = self._intake, self._latest
        for found in latest.results(parts, stop):
            intake.counts["results"] += self._results.emit(*found, emit)
            intake.counts["windows"] += self._windows(*found[:3])
        parts = parts if extended is None else np.union1d(parts, extended).astype(np.int32)
        self._free(intake.drop(latest.forget(parts, stop)))

    def _windows(self, groups: Int32s, _: Slots, wids: Int64s) -> int:
        """Count the windows of results, where those of one stand together: of each partition, its own."""
        parts = self._intake.partitions.part_of(groups)
        other = (wids[1:] != wids[:-1]) | (parts[1:] != parts[:-1])
        return int(np.count_nonzero(other)) + 1

    def _free(self, parts: Int32s) -> None:
        self._intake.partitions.free_parts(parts)

    def _promise(self, stop: int, assumed: bool, emit: Emit) -> None:
        if stop == NEVER:
            return
        bounds = [(WID, stop), (STOP, self.window.end(stop))]
        if not self._intake.partitions.partition:
            first = self._intake.partitions.bound
            if self._intake.input is not None and len(self._latest):
                first = int(self._latest.queues.heads[0])
            bounds.append((START, first))
        for name, value in bounds:
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _bind(self, schema: Schema) -> None:
        if self._intake.input is not None:
            return
        intake = self._intake
        intake.bind(schema)
        self._latest = LatestTuples(self.window, intake.pool, intake.owners)
        self._results = Results(
            self.output_schema(schema), self.functions, intake.partitions, intake.pool, self.overflow
        )

    def _measure(self) -> None:
        self._intake.measure(len(self._intake.waiting) + len(self._latest), self._latest.nbytes)

    def statistics(self) -> dict[str, int]:
        intake = self._intake
        waiting = latest = nbytes = nulls = groups = 0
        if intake.input is not None:
            waiting, latest = len(intake.waiting), len(self._latest)
            nbytes, nulls, groups = intake.nbytes + self._latest.nbytes, intake.nulls, intake.partitions.groups
        return {
            **intake.counts,
            **intake.peaks(waiting + latest, nbytes),
            "state_tuples": waiting + latest,
            "state_bytes": nbytes,
            "waiting": waiting,
            "groups": groups,
            "null_arguments": nulls,
        }

    def state(self) -> State:
        state = self._intake.state() | {"promised": dump_progress(self._promised), "newest": self._newest}
        if self._intake.input is not None:
            state |= prefixed("latest.", self._latest.state())
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        schema = self._intake.saved_schema(state)
        if schema is not None:
            self._bind(schema)
        self._intake.restore(state)
        self._promised, self._newest = read_progress(read_text(state, "promised")), read_int(state, "newest")
        if schema is not None:
            self._latest.restore(part("latest.", state))
            self._latest.ensure(self._intake.partitions.capacity)
