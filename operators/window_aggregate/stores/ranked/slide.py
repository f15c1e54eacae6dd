"""Slide windows end at tuples: at each one, at every n-th to arrive, or at every n-th in order of the attribute."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Bools, Int32s, Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions import count
from operators.functions.columns import grown
from operators.kernels.ranked.rank import ranks
from operators.kernels.ticks import FOREVER, LIMIT
from operators.plan_facts import ANY_DISTANCE, Together, Tolerance
from operators.protocol import Emit
from operators.streams.named_groups import GroupBound
from operators.window.counted import SlideByRank, SlideByRows, SlideWindow
from operators.window_aggregate.results import START, STOP, WID, ordering
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.bins import BinStore
from operators.window_aggregate.stores.ranked.partitions import Partitions
from operators.window_aggregate.stores.ranked.shell import RankedShell
from operators.window_aggregate.stores.ranked.slots import Pool
from punctuation import Punctuation, before


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class SlideAggregate(RankedShell[SlideWindow]):
    """Aggregate the tuples of (w - RANGE, w] for every window w that a tuple defines; no tuple is kept.

    Emits the grouping attributes, one attribute a function, then wid (the value w), window_start, window_end: the
    window covers window_start <= value < window_end. Each partition has its own windows and its own ranks or arrival
    numbers. Partitions are the groups, unless `partition` names fewer attributes; with `partition=()` the windows are
    those of the whole stream, and each has a result for every group with a tuple in it.
    Pass: the results of a window on the promise that no later value is w or less. Keep: a partial aggregate for each
    distinct value above the bound and for each one RANGE behind a value; where ranks or arrivals are counted by
    partition, a number for each that is not over. Propagate: `[wattr < v]` as `[wid < v]`, on window_start and
    window_end; group-wise promises on partitioning attributes likewise.
    A late tuple defines no window and has no rank; it counts in the open windows that it is in, unless `consistent`.
    With SLIDE n rows on arrival (and no `number`) the arrival order defines the windows: laws 4 to 6 do not hold then.
    Cost: a page of n tuples O(n log n + bins in reach of them); a release costs its results.
    Source: thesis Eq. 5.10 to 5.18, Fig 6-7 with docs/semantics.md rows 8 to 13.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import sum
    >>> from operators.window.counted import SlideByTuple
    >>> page = Page.of(Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"]), {"ts": [5, 12, 9], "x": [1, 2, 4]})
    >>> slide = SlideAggregate(SlideByTuple("ts", size=5), {"sum": sum("x")})
    >>> found = drive(slide, [page, before("ts", 10)])
    >>> [(row["wid"], row["sum"]) for row in rows(found)], [str(p) for p in found[1:2]]
    ([(5, 1), (9, 5)], ['[wid < 10]'])
    """

    consistent: bool = attrs.field(default=False, kw_only=True)
    _partitions: Partitions = attrs.field(init=False, metadata=memory.part(of=while_bound("_partitions")))
    _store: BinStore = attrs.field(
        init=False, metadata=memory.part(of=while_bound("_store"), capacity="_partitions.capacity")
    )
    _arrived: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.array(since=2))
    """Tuples that arrived so far, by partition."""
    _ranks: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.array(length="_arrived", since=2)
    )
    """Tuples that were released so far, by partition."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._lost["late_for_some"] = 0

    def _forget(self) -> None:
        super()._forget()
        self._arrived, self._ranks = np.zeros(1, np.int64), np.zeros(1, np.int64)

    @property
    def counting(self) -> bool:
        """Return whether partitions have numbers that outlive their tuples."""
        window = self.window
        return isinstance(window, SlideByRank) or (isinstance(window, SlideByRows) and window.number is None)

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        ordering(schema, self.window.wattr)
        for function in self.functions.values():
            if not function.commutative:
                raise SchemaError(
                    f"aggregate {function.name}: a window that slides by tuples adds up tuples as they arrive, and "
                    f"{function.name} needs them in order.\n  Take windows of n tuples, or the last n tuples."
                )
        if isinstance(self.window, SlideByRows) and self.window.number is not None:
            found = schema.field(self.window.number, where="window").type
            if not pa.types.is_integer(found):
                raise SchemaError(
                    f'window: "{self.window.number}" has type {found}; arrival numbers are integers.\n'
                    "  Leave `number` out to count tuples where the window stands."
                )
        return super().output_schema(schema)

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        return self._promises(schema, (WID, START, STOP))

    def together(self, *inputs: Schema) -> Together:
        keys = self.by if self.partition is None else self.partition
        return Together.by(keys, arrival=True, why="ties are told apart by arrival")

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        taken = self.window.wattr == attribute and not self.consistent
        return Tolerance(ANY_DISTANCE if melded else self.window.size) if taken else Tolerance()

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        if len(page) == 0:
            return
        partitions, window = self._partitions, self.window
        values = page.ticks(window.wattr)
        weights, parts = self._weights(page)
        kept = self._usable(page, values)
        if kept is not None:
            page, values, weights, parts = _some(kept, page, values, weights, parts)
        if len(page) == 0:
            return
        parts = partitions.parts(page) if parts is None else parts
        groups = partitions.members(page, parts)
        self._ensure()
        limits = partitions.limits(parts)
        late = values < limits
        some_late = bool(late.any())
        if some_late:
            dropped = late if self.consistent else late & (values + window.size <= limits)
            self._lost["late"] += int(dropped.sum())
            self._lost["late_for_some"] += int((late & ~dropped).sum())
            self._settle(np.setdiff1d(groups[dropped], groups[~dropped]))
            page, values, weights, _ = _some(~dropped, page, values, weights, None)
            parts, groups = parts[~dropped], groups[~dropped]
        if len(page):
            self._enter(page, values, weights, parts, groups, some_late)

    def _weights(self, page: Page) -> tuple[Int64s | None, Int32s | None]:
        """Return 1 for each tuple that ends a window and 0 for others, None when all do; and partitions if needed."""
        window = self.window
        if not isinstance(window, SlideByRows):
            return None, None
        parts = None
        if window.number is None:
            parts = self._partitions.parts(page)
            self._ensure()
            numbers = np.empty(len(page), np.int64)
            ranks(parts, self._arrived, numbers)
        else:
            numbers = page.ticks(window.number)
        ends = (numbers + 1) % window.rows == 0
        if window.number is not None and (valid := page.valid(window.number)) is not None:
            ends &= valid
        return ends.astype(np.int64), parts

    def _usable(self, page: Page, values: Int64s) -> Bools | None:
        """Return which tuples have a value that counts and are not late for every partition; None when all."""
        valid = page.valid(self.window.wattr)
        floor = max(-LIMIT + 1, self._partitions.bound - (0 if self.consistent else self.window.size - 1))
        if valid is None and int(values.min()) >= floor and int(values.max()) < LIMIT:
            return None
        usable = (values > -LIMIT) & (values < LIMIT)
        if valid is not None:
            usable &= valid
        kept = usable & (values >= floor)
        self._lost["without_value"] += int((~usable).sum())
        self._lost["late"] += int((usable & ~kept).sum())
        return kept

    def _enter(
        self, page: Page, values: Int64s, weights: Int64s | None, parts: Int32s, groups: Int32s, late: bool
    ) -> None:
        store, partitions = self._store, self._partitions
        runs = store.runs(groups, values, weights)
        limits = partitions.limits(partitions.part_of(runs.queues))
        store.enter(page, runs, limits, late)
        if not partitions.same:
            runs = store.runs(parts, values, weights)
            limits = partitions.limits(runs.queues)
        store.open(runs, limits)
        self._peak = max(self._peak, self._held())

    def _end(self, emit: Emit) -> None:
        self._release(self._store.windows.waiting(FOREVER), FOREVER, emit)

    def closed_by(self, wid: int) -> Punctuation:
        return before(self.window.wattr, wid + 1)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        if self._input is not None:
            self._measure()
            self._release(self._store.windows.waiting(bound), bound, emit)
            self._purge(self._store.bins.waiting(bound), bound)
        begin, end = self.window.extents(np.array([bound]))
        self._promise(bound, int(begin[0]), int(end[0]), assumed, emit)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        partitions = self._partitions
        bound = FOREVER if promise.bound is None else promise.bound
        if self._input is not None:
            parts = partitions.matching(promise)
            partitions.raise_own(parts, bound)
            self._release(parts, bound, emit)
            self._purge(partitions.groups_of(parts), bound)
            if promise.bound is None and self.counting:
                self._free(parts)
        out = promise.follows(WID, promise.bound)
        if self._promised.advance(out):
            emit(out)

    def _release(self, parts: Int32s, bound: int, emit: Emit) -> None:
        store, partitions = self._store, self._partitions
        due = store.due(parts, bound, self._ranks, self.window.rows if isinstance(self.window, SlideByRank) else 1)
        if len(due.wids) == 0:
            return
        self._windows += len(due.wids)
        groups = partitions.groups_of(due.parts)
        segments = np.searchsorted(due.parts, partitions.part_of(groups)).astype(np.int32)
        for rows, owners, slots in store.read(due, groups, segments, ROWS):
            if not partitions.same:
                # A group's step function is there also where none of its tuples is in reach.
                there = self._store.pool.accumulators[-1].finalize(slots).to_numpy() > 0
                rows, owners, slots = rows[there], owners[there], slots[there]
            if self.window.each:
                times = due.times[rows]
                rows, owners, slots = np.repeat(rows, times), np.repeat(owners, times), np.repeat(slots, times)
            wids = due.wids[rows]
            self._emit(owners, slots, wids, *self.window.extents(wids), emit)

    def _purge(self, groups: Int32s, bound: int) -> None:
        self._settle(self._store.purge(groups, bound))

    def _settle(self, groups: Int32s) -> None:
        """Forget those of these groups that have no bins, and partitions without groups unless they are counted."""
        partitions = self._partitions
        idle = groups[self._store.bins.sizes(groups) == 0]
        if partitions.same:
            if not self.counting:
                self._free(idle)
        else:
            left = partitions.free_groups(idle)
            if not self.counting:
                self._free(left)

    def _free(self, parts: Int32s) -> None:
        if self.counting:
            self._arrived[parts], self._ranks[parts] = 0, 0
        self._partitions.free_parts(parts)

    def _ensure(self) -> None:
        capacity = self._partitions.capacity
        self._store.ensure(capacity)
        if self.counting and capacity > len(self._ranks):
            size = max(capacity, 2 * len(self._ranks))
            self._arrived, self._ranks = grown(self._arrived, size), grown(self._ranks, size)

    def _bind(self, schema: Schema) -> None:
        self._input, self._output = schema, self.output_schema(schema)
        self._partitions.bind(schema)
        made = [function.accumulator(schema) for function in self.functions.values()]
        pool = Pool(made if self._partitions.same else [*made, count().accumulator(schema)])
        self._accumulators, self._store = pool.accumulators, BinStore(pool, self.window.size)

    def _held(self) -> int:
        """Count the bins, and the partitions whose tuples are counted."""
        return len(self._store.bins) + (self._partitions.numbered if self.counting else 0)

    def _size(self) -> tuple[int, int]:
        if self._input is None:
            return 0, 0
        numbers = self._arrived.nbytes + self._ranks.nbytes
        return self._held(), self._store.nbytes + self._partitions.nbytes + numbers

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"bins": 0 if self._input is None else len(self._store.bins)}

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._input is not None:
            self._ensure()


def _some(
    kept: Bools, page: Page, values: Int64s, weights: Int64s | None, parts: Int32s | None
) -> tuple[Page, Int64s, Int64s | None, Int32s | None]:
    """Return the tuples that are kept, and what is known of each."""
    some_weights = None if weights is None else weights[kept]
    return page.select(kept), values[kept], some_weights, None if parts is None else parts[kept]
