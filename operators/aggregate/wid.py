"""The window aggregate groups by window-id: tuples update shared slices, punctuation releases complete windows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.aggregate import facts
from operators.aggregate.facts import START, STOP, WID
from operators.aggregate.named import matched, promised
from operators.aggregate.partitions import Lasts, is_endless
from operators.aggregate.running import Released
from operators.aggregate.store import SliceStore
from operators.bucket import FROM, UNTIL
from operators.described import group_text
from operators.errors import SchemaError
from operators.functions.ordered import ordered, refuse_ordered
from operators.functions.protocol import AggregateFunction, Subtractable
from operators.functions.sharing import accumulators
from operators.keys import KeyIndex
from operators.overflow import Overflow
from operators.page import Int64s, Page
from operators.protocol import Emit, State, StateValue
from operators.saved import part, prefixed, read_batch, read_int, read_text, save_schema
from operators.schema import Schema
from operators.window import FOREVER, PartitionedWindow, Window
from operators.window.columns import extent_columns
from operators.window.protocol import Int32s
from punctuation import END, Progress, Punctuation
from punctuation.plain import dump_progress, read_progress

Strategy: TypeAlias = Literal["auto", "wid", "panes", "differential", "two_stacks"]
STRATEGIES: Final = ("auto", "wid", "panes", "differential", "two_stacks")
_NEVER = -(2**63)
_ROWS = 1 << 16
_EXPANDED = 1 << 20
_MOST = 10_000_000
"""So many windows a tuple may be in that are updated each by itself."""


@attrs.define
class WindowAggregate:
    """Aggregate the tuples of each window and group; the input is a Bucket's output.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end.
    Pass: the results of a window on the promise that completes it. Keep: one partial aggregate for each open slice and
    group in it, never a tuple. Propagate: `[wid_from < w]` as `[wid < w]`, `[window_start < b]` and `[window_end < e]`;
    group-wise promises on grouping attributes likewise. RANGE ALL counted in partitions ends in each by itself.
    Cost: O(aggregates) a tuple; a release costs the partial aggregates of the released windows' slices.
    Source: thesis Fig 6-4 as corrected (every window below the bound leaves, and its state with it); slices shared
    between the windows of one query as in section 6.2.

    >>> from operators.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> window = SlidingWindow("ts", size=10, slide=5)
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 12]})
    >>> tagged = drive(Bucket(window), [page, before("ts", 10)])
    >>> rows(drive(WindowAggregate(window, {"count": count()}), tagged))  # doctest: +NORMALIZE_WHITESPACE
    [{'count': 1, 'wid': 0, 'window_start': -5, 'window_end': 5},
     {'count': 2, 'wid': 1, 'window_start': 0, 'window_end': 10}]
    """

    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    empty: bool = attrs.field(default=False, kw_only=True)
    """Give windows without a tuple too, between the first and the last that have one; without groups only."""
    strategy: Strategy = attrs.field(default="auto", kw_only=True, validator=attrs.validators.in_(STRATEGIES))
    """How windows are made: "wid" updates each window of each tuple, the others update slices once a tuple ("panes"
    combines them anew for each window, "differential" and "two_stacks" carry the last window over, "auto" decides)."""
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _input: Schema | None = attrs.field(init=False, default=None)
    _output: Schema | None = attrs.field(init=False, default=None)
    _groups: KeyIndex | None = attrs.field(init=False, default=None)
    _store: SliceStore | None = attrs.field(init=False, default=None)
    _bound: int = attrs.field(init=False, default=_NEVER)
    _released: int = attrs.field(init=False, default=_NEVER)
    _latest: int = attrs.field(init=False, default=_NEVER)
    _last: int = attrs.field(init=False, default=_NEVER)
    _lasts: Lasts | None = attrs.field(init=False)
    """The last windows of partitions, where these end by themselves."""
    _promised: Progress = attrs.field(init=False, factory=Progress)
    _results: int = attrs.field(init=False, default=0)
    _windows: int = attrs.field(init=False, default=0)
    _peak: int = attrs.field(init=False, default=0)
    _peak_bytes: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._lasts = Lasts.of(self.window, self.by)

    attributes_read = facts.attributes_read
    promises_asked = facts.promises_asked
    together = facts.together

    @property
    def inputs(self) -> int:
        return 1

    @property
    def endless(self) -> bool:
        """Tell whether windows never let go of a tuple (RANGE ALL)."""
        return is_endless(self.window)

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (FROM, UNTIL):
            if name not in schema:
                raise SchemaError(
                    f'aggregate: the input has no "{name}"; put a Bucket in front of the window aggregate.'
                )
        refuse_ordered(self.functions, self.window, f'aggregate(strategy="{self.strategy}")')
        return self.results_schema(schema)

    def results_schema(self, schema: Schema) -> Schema:
        """Give the schema of the results, whoever computes them; SchemaError when the functions do not fit."""
        where = "aggregate"
        if self.empty and self.by:
            raise SchemaError(
                "aggregate(empty=True): which groups an empty window should have, nobody can tell.\n"
                "  Leave out `by`, or leave out `empty`: a group's windows without tuples give no results."
            )
        self._check_strategy(schema)
        fields = [schema.field(name, where=where) for name in self.by]
        KeyIndex(fields)
        fields += [function.output_field(schema, name) for name, function in self.functions.items()]
        times = self._time_type(schema)
        fields += [pa.field(WID, pa.int64()), pa.field(START, times), pa.field(STOP, times)]
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(f"{where}: two results are named {', '.join(twice)}; rename one.")
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise == frozenset((FROM,)):
                progress += [frozenset((name,)) for name in (WID, START, STOP)]
            elif promise <= {FROM, *self.by}:
                progress.append(frozenset(WID if name == FROM else name for name in promise))
        return Schema(pa.schema(fields), progress=progress)

    def _check_strategy(self, schema: Schema) -> None:
        where = f'aggregate(strategy="{self.strategy}")'
        if self.strategy in ("auto", "panes"):
            return
        if self.endless:
            raise SchemaError(
                f"{where}: windows with RANGE ALL never let go of a tuple: each is the one before, and more.\n"
                '  Leave out strategy=, or write "panes".'
            )
        if self.strategy == "differential":
            for name, function in self.functions.items():
                if not isinstance(function.accumulator(schema), Subtractable):
                    raise SchemaError(
                        f"{where}: {name} ({function.name}) cannot be subtracted exactly from a window.\n"
                        '  Write strategy="two_stacks", which needs no inverse, or leave it out.'
                    )

    def _time_type(self, schema: Schema) -> pa.DataType:
        if isinstance(self.window, PartitionedWindow):
            return pa.int64()
        kind = schema.field(self.window.wattr, where="aggregate").type
        return kind if pa.types.is_temporal(kind) else pa.int64()

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        store = self._bind(page.schema)
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        if len(first) == 0:
            return
        groups, capacity = self._group_ids(page)
        if self._lasts is not None:
            self._lasts.note(groups, first, capacity)
        if self.strategy == "wid":
            self._update_windows(store, page, first, last, groups, capacity)
        else:
            store.update(page, first, last, groups, capacity)
        self._peak = max(self._peak, len(store))
        if self.endless:
            self._latest = max(self._latest, int(first.max()))
            if self._released < self._bound:
                self._release(min(self._bound, self._latest + 1), emit)
                self._promise(min(self._bound, self._latest + 1), False, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            if self._store is not None:
                self._measure()
                self._end(self._store, emit)
                self._forget()
            emit(END)
            return
        bound = punctuation.bound(FROM)
        if isinstance(bound, int):
            if bound > self._bound:
                self._advance(bound, punctuation.assumed, emit)
            return
        lasts = self._lasts
        latest = self._latest if self.endless and lasts is None else None
        promise = promised(punctuation, self.by, FROM, WID, latest)
        if promise is None:
            return
        groups, below, out = promise
        if lasts is not None and below is None:
            ended = self._end_groups(lasts, groups, emit)
            if (follows := lasts.follows(out, WID, ended)) is not None:
                emit(follows)
            return
        if self._store is not None:
            self._release_groups(groups, below, emit)
        # The bucket says nothing twice; only bounds that were cut to the latest window may repeat themselves.
        if latest is None or (below != _NEVER + 1 and self._promised.advance(out)):
            emit(out)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._bound = bound
        if self._store is not None:
            self._measure()
            self._release(min(bound, self._latest + 1) if self.endless else bound, emit)
        if self.endless:
            # Windows after the last tuple's may still be released when a later tuple shows that they have successors.
            bound = min(bound, self._latest + 1)
        if self.empty and self._last != _NEVER:
            # Whether the windows after the last one with a tuple are between others, only a later tuple shows.
            bound = min(bound, self._last + 1)
        if bound != _NEVER:
            self._promise(bound, assumed, emit)

    def _update_windows(
        self, store: SliceStore, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int
    ) -> None:
        """Update each window of each tuple, as thesis Fig 6-4 has it; a bounded number of them at a time."""
        if (most := int((last - first).max())) > _MOST:
            raise SchemaError(
                f'aggregate(strategy="wid"): a tuple is in {most:,} windows, from {int(first.min())} on, and has a'
                f" partial aggregate in each ({self._repeats()}).\n"
                "  Give the window a larger SLIDE, or leave strategy out: slices are shared."
            )
        windows = np.cumsum(last - first)
        cuts = np.searchsorted(windows, np.arange(_EXPANDED, int(windows[-1]) + _EXPANDED, _EXPANDED), side="left") + 1
        at = 0
        for cut in np.minimum(cuts, len(first)).tolist():
            if cut == at:
                continue
            times = last[at:cut] - first[at:cut]
            rows = np.repeat(np.arange(at, cut), times)
            wids = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
            whole = Page(page.schema, page.batch.take(pa.array(rows)))
            store.update(whole, wids, wids + 1, groups[rows], capacity)
            at = cut

    def _promise(self, bound: int, assumed: bool, emit: Emit) -> None:
        begin, end = self.window.extent(bound)
        for name, value in ((WID, bound), (START, begin), (STOP, end)):
            if abs(value) < FOREVER and (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _release(self, bound: int, emit: Emit) -> None:
        store = self._store
        assert store is not None
        if bound <= self._released:
            return
        for released in store.release(self._released, bound):
            if self.empty:
                self._emit_empty(released.wids, emit)
            self._emit(released, emit)
        idle = store.close(bound)
        if self.endless:
            idle = np.concatenate((idle, store.fold(bound)))
        self._free(idle)
        self._released = bound

    def _end(self, store: SliceStore, emit: Emit) -> None:
        """Release all that is left."""
        if self._lasts is None or self._groups is None:
            self._release(store.ranges.horizon(self._latest), emit)
            return
        # Ascending: what a partition holds is gone before the windows that others go on to.
        for last, which in self._lasts.of_partitions(self._groups):
            self._release(last + 1, emit)
            self._free(store.close_groups(which, FOREVER))

    def _end_groups(self, lasts: Lasts, groups: Punctuation, emit: Emit) -> list[int]:
        """Release what groups have in their partitions up to now; gives the last windows of these."""
        ended: list[int] = []
        if self._store is not None and self._groups is not None:
            for last, which in lasts.of_partitions(self._groups, matched(self._groups, groups)):
                for released in self._store.release_groups(which, self._released, last + 1):
                    self._emit(released, emit)
                if lasts.whole(groups):
                    self._free(self._store.close_groups(which, FOREVER))
                ended.append(last)
        return ended

    def _release_groups(self, groups: Punctuation, bound: int | None, emit: Emit) -> None:
        store, index = self._store, self._groups
        assert store is not None
        if index is None or not len(index):
            return
        which = matched(index, groups)
        if len(which) == 0:
            return
        stop = store.ranges.horizon(_NEVER) if bound is None else bound
        for released in store.release_groups(which, self._released, stop):
            self._emit(released, emit)
        self._free(store.close_groups(which, FOREVER - 1 if bound is None else bound))

    def _repeats(self) -> str:
        """Say how windows repeat, in ticks."""
        window = self.window.rows if isinstance(self.window, PartitionedWindow) else self.window
        size, slide = getattr(window, "size", "ALL"), getattr(window, "slide", 0)
        return f"RANGE {size}, SLIDE {slide}, in ticks of {window.wattr}"

    def _emit(self, released: Released, emit: Emit) -> None:
        output, store = self._output, self._store
        assert output is not None and store is not None
        for at in range(0, len(released.wids), _ROWS):
            part = Released(*(column[at : at + _ROWS] for column in attrs.astuple(released, recurse=False)))
            arrays = [] if self._groups is None else self._groups.keys(part.groups)
            arrays += self._finalized(part)
            begin, end = self.window.extents(part.wids)
            kind = output.field(START).type
            arrays += extent_columns(part.wids, begin, end, kind)
            self._results += len(part.wids)
            emit(Page(output, pa.RecordBatch.from_arrays(arrays, schema=output.arrow)))
        self._windows += _distinct_in_groups(released.wids)

    def _emit_empty(self, wids: Int64s, emit: Emit) -> None:
        """Emit the windows without a tuple before these and between them, as many as there are ids left out."""
        output, schema = self._output, self._input
        assert output is not None and schema is not None
        before = wids[0] - 1 if self._last == _NEVER else self._last
        self._last = int(wids[-1])
        known = np.concatenate((np.array([before]), wids))
        for start, stop in zip((known[:-1] + 1).tolist(), known[1:].tolist(), strict=True):
            for at in range(start, stop, _ROWS):
                missing = np.arange(at, min(at + _ROWS, stop))
                none = np.zeros(len(missing), np.int32)
                arrays: list[pa.Array] = []
                for function in self.functions.values():
                    accumulator = function.accumulator(schema)
                    accumulator.reserve(1)
                    accumulator.init(none[:1])
                    arrays.append(accumulator.finalize(none[:1]).take(pa.array(none)))
                begin, end = self.window.extents(missing)
                kind = output.field(START).type
                arrays += extent_columns(missing, begin, end, kind)
                self._results += len(missing)
                self._windows += len(missing)
                emit(Page(output, pa.RecordBatch.from_arrays(arrays, schema=output.arrow)))

    def _finalized(self, released: Released) -> Iterator[pa.Array]:
        store, output, groups = self._store, self._output, self._groups
        assert store is not None and output is not None

        def where(at: int) -> str:
            keys = [] if groups is None else groups.keys(released.groups[at : at + 1])
            return f"window {released.wids[at]}, {group_text(output, self.by, keys)}"

        for name, accumulator in zip(self.functions, store.accumulators, strict=True):
            kind = output.arrow.field(name).type
            yield self.overflow.finalized(name, accumulator, released.slots, kind, where)

    def _group_ids(self, page: Page) -> tuple[Int32s, int]:
        if self._groups is None:
            return np.zeros(len(page), np.int32), 1
        ids = self._groups.assign([page.column(name) for name in self.by])
        return ids, self._groups.capacity

    def _free(self, idle: Int32s) -> None:
        if self._groups is not None and len(idle):
            assert self._store is not None
            self._store.forget(idle)
            if self._lasts is not None:
                self._lasts.forget(idle)
            self._groups.free(idle)

    def _bind(self, schema: Schema) -> SliceStore:
        if self._store is not None:
            return self._store
        self._input = schema
        self._output = self.output_schema(schema)
        self._groups = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
        technique = "combine" if self.strategy in ("wid", "panes") else self.strategy
        self._store = SliceStore(
            accumulators(self.functions.values(), schema), technique, ordered=any(map(ordered, self.functions.values()))
        )
        return self._store

    def _forget(self) -> None:
        self._store = None
        self._groups = None
        self._lasts = Lasts.of(self.window, self.by)
        self._promised = Progress()

    def _measure(self) -> None:
        if self._store is not None:
            self._peak_bytes = max(self._peak_bytes, self._store.nbytes + self._index_bytes())

    def _index_bytes(self) -> int:
        return 0 if self._groups is None else self._groups.nbytes

    def statistics(self) -> dict[str, int]:
        self._measure()
        store = self._store
        return {
            "state_tuples": 0 if store is None else len(store),
            "state_bytes": 0 if store is None else store.nbytes + self._index_bytes(),
            "groups": 0 if self._groups is None else len(self._groups),
            "slices": 0 if store is None else len(store.ranges),
            "carried": 0 if store is None else store.carried,
            "peak_state_tuples": self._peak,
            "peak_state_bytes": self._peak_bytes,
            "windows": self._windows,
            "results": self._results,
            "null_arguments": 0 if store is None else sum(a.nulls for a in store.accumulators),
        }

    def state(self) -> State:
        state: State = {name: getattr(self, f"_{name}") for name in _NUMBERS}
        state["promised"] = dump_progress(self._promised)
        if self._store is not None:
            assert self._input is not None
            state["input"] = save_schema(self._input.arrow)
            state["progress"] = json.dumps(sorted(sorted(promise) for promise in self._input.progress))
            state |= prefixed("store.", self._store.state())
            if self._groups is not None:
                state |= prefixed("groups.", self._groups.state())
            if self._lasts is not None:
                state |= self._lasts.state()
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        for name in _NUMBERS:
            setattr(self, f"_{name}", read_int(state, name))
        self._promised = read_progress(read_text(state, "promised"))
        if "input" in state:
            progress: list[list[str]] = json.loads(read_text(state, "progress"))
            store = self._bind(Schema(read_batch(state, "input").schema, progress=progress))
            if self._groups is not None:
                self._groups.restore(part("groups.", state))
            store.restore(part("store.", state), capacity=1 if self._groups is None else self._groups.capacity)
            if self._lasts is not None:
                self._lasts.restore(state)


_NUMBERS = ("bound", "released", "latest", "last", "results", "windows", "peak", "peak_bytes")


def _distinct_in_groups(wids: Int64s) -> int:
    """Count the windows; the results of one stand together, but for group-wise releases, where runs are counted."""
    return 0 if len(wids) == 0 else int(np.count_nonzero(np.diff(wids))) + 1
