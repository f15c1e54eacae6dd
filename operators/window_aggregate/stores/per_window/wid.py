"""The window aggregate groups by window-id: tuples update shared slices, punctuation releases complete windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.ordered import ordered, refuse_ordered
from operators.functions.protocol import Subtractable
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL
from operators.plan_facts import TwoLevels
from operators.protocol import Emit
from operators.window import PartitionedWindow, SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.results import START, STOP, WID, result_page
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.strategy import Seen, in_vectors, subtractable

if TYPE_CHECKING:
    from operators.window_aggregate.stores.per_window.vector_store import VectorStore

__all__ = ["START", "STOP", "STRATEGIES", "WID", "Strategy", "WindowAggregate"]

Strategy: TypeAlias = Literal["auto", "wid", "panes", "differential", "two_stacks"]
STRATEGIES: Final = ("auto", "wid", "panes", "differential", "two_stacks")
_EXPANDED = 1 << 20
_MOST = 10_000_000
"""So many windows a tuple may be in that are updated each by itself."""


@attrs.define
class _Kind(memory.Stateful):
    """Name the kind of the store."""

    VERSION: ClassVar[int] = 2

    vectors: bool = attrs.field(default=False, metadata=memory.flag(since=2))


@attrs.define(on_setattr=attrs.setters.NO_OP)
class WindowAggregate(StoreShell["SliceStore | VectorStore"]):
    """Aggregate the tuples of each window and group; the input is a Bucket's output.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end.
    Pass: the results of a window on the promise that completes it. Keep: one partial aggregate for each open slice and
    group in it, never a tuple. Propagate: `[wid_from < w]` as `[wid < w]`, `[window_start < b]` and `[window_end < e]`;
    group-wise promises on grouping attributes likewise. RANGE ALL counted in partitions ends in each by itself.
    Cost: O(aggregates) a tuple; a release costs the partial aggregates of the released windows' slices.
    Source: thesis Fig 6-4 as corrected (every window below the bound leaves, and its state with it); slices shared
    between the windows of one query as in section 6.2.

    >>> from operators.window_aggregate.bucket import Bucket
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

    empty: bool = attrs.field(default=False, kw_only=True)
    """Give windows without a tuple too, between the first and the last that have one; without groups only."""
    VERSION: ClassVar[int] = 2

    strategy: Strategy = attrs.field(default="auto", kw_only=True, validator=attrs.validators.in_(STRATEGIES))
    """How windows are made: "wid" updates each window of each tuple, the others update slices once a tuple ("panes"
    combines them anew for each window, "differential" and "two_stacks" carry the last window over, "auto" decides)."""

    _kind: _Kind = attrs.field(
        init=False, factory=_Kind, metadata=memory.form(_Kind, "_remake", lambda own: own._kind_of_store())
    )
    _store: SliceStore | VectorStore | None = attrs.field(
        init=False, default=None, metadata=memory.part(capacity="_capacity")
    )

    _seen: Seen | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        window = self.window
        if isinstance(window, SlidingWindow) and window.size > window.slide and self.strategy == "auto":
            self._seen = Seen(window)

    def choice(self) -> str:
        """Say how windows are made of slices now, and from which numbers that was chosen."""
        if self._seen is None:
            return ""
        # Of those that are open, half of their tuples have come.
        still = 0 if self._store is None else max(0, self._store.horizon(BEFORE_ALL) - self._released)
        return self._seen.told(self._windows + still / 2)

    def results_schema(self, schema: Schema) -> Schema:
        refuse_ordered(self.functions, self.window, f'aggregate(strategy="{self.strategy}")')
        if self.empty and self.by:
            raise SchemaError(
                "aggregate(empty=True): the groups of an empty window are unknown.\n"
                "  Leave out `by`, or leave out `empty`: a group's windows without tuples give no results."
            )
        self._check_strategy(schema)
        return super().results_schema(schema)

    def levels(self, schema: Schema, *, size: int) -> TwoLevels | None:
        if self.endless or not isinstance(self.window, SlidingWindow):
            return None
        # Circle: the high level is a window aggregate itself.
        from operators.window_aggregate.partial_final.high import HighAggregate
        from operators.window_aggregate.partial_final.low import LowAggregate
        from operators.window_aggregate.partial_final.partials import split_function

        functions, by = self.functions, self.by
        try:
            for function in functions.values():
                split_function(function)
        except SchemaError:
            return None
        read = (*by, *(name for function in functions.values() for name in function.arguments), FROM, UNTIL)
        reads = dict.fromkeys(schema.resolve(name, where="aggregate") for name in read)
        times = schema.field(self.window.wattr).type
        high = HighAggregate(self.window, functions, by, empty=self.empty, strategy=self.strategy, times=times)
        return TwoLevels(tuple(reads), LowAggregate(functions, by, size=size), high)

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

    def _make(self, schema: Schema) -> SliceStore | VectorStore:
        return self._linked(schema)

    def _kind_of_store(self) -> _Kind:
        return _Kind(self._store is not None and not isinstance(self._store, SliceStore))

    def _remake(self, kind: _Kind) -> None:
        """Let the store that is restored next be of this kind."""
        if kind.vectors:
            if self._input is None:
                raise ValueError('the saved state has "vectors" of no input')
            self._store = self._vectors().empty(accumulators(self.functions.values(), self._input))

    def _linked(self, schema: Schema) -> SliceStore:
        technique = "combine" if self.strategy in ("wid", "panes") else self.strategy
        in_order = any(map(ordered, self.functions.values()))
        made = accumulators(self.functions.values(), schema)
        return SliceStore(made, technique, ordered=in_order, endless=self.endless)

    @staticmethod
    def _vectors() -> type[VectorStore]:
        # Start-up: few queries have groups by the thousand.
        from operators.window_aggregate.stores.per_window.vector_store import VectorStore

        return VectorStore

    def _release(self, store: SliceStore | VectorStore, bound: int, emit: Emit) -> None:
        seen, parts, slices = self._seen, len(store), len(store.ranges)
        super()._release(store, bound, emit)
        if seen is not None and slices:
            seen.released(store.way, parts=parts - len(store), slices=slices - len(store.ranges))
        self._refit()

    def _refit(self) -> None:
        """Let groups be in vectors, once there are many that are in most slices; back, if most are in few."""
        store, index, window = self._store, self._groups, self.window
        if store is None or index is None or not isinstance(window, SlidingWindow):
            return
        if not isinstance(store, SliceStore):
            if store.wasteful and self._input is not None:
                self._store = linked = self._linked(self._input)
                linked.capacity = index.capacity
                linked.restore(store.linked())
            return
        if self.strategy in ("wid", "two_stacks") or not store.filled(index.capacity):
            return
        overlapping = self.strategy == "auto" and window.size > window.slide
        if in_vectors(self.functions.values(), by=True, same_edges=True) and not (
            overlapping and not subtractable(store.accumulators)
        ):
            self._store = self._vectors().of(store)

    def _update(
        self, store: SliceStore | VectorStore, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int
    ) -> None:
        if self._seen is not None:
            self._seen.tuples += len(page)
        if self.strategy == "wid":
            # Each window of each tuple is updated, as thesis Fig 6-4 has it.
            for tuples, wids, its in self._windows_of(page, first, last, groups):
                store.update(tuples, wids, wids + 1, its, capacity)
        else:
            store.update(page, first, last, groups, capacity)

    def _windows_of(
        self, page: Page, first: Int64s, last: Int64s, groups: Int32s
    ) -> Iterator[tuple[Page, Int64s, Int32s]]:
        """Yield each window of each tuple, with the tuple and its group; a bounded number of them at a time."""
        if (most := int((last - first).max())) > _MOST:
            raise SchemaError(
                f'aggregate(strategy="wid"): a tuple is in {most:,} windows, from {int(first.min())} on, and has a'
                f" partial aggregate in each ({self._repeats()}).\n"
                "  Give the window a larger SLIDE, or leave strategy out: slices are shared."
            )
        if most == 1:
            yield page, first, groups
            return
        windows = np.cumsum(last - first)
        cuts = np.searchsorted(windows, np.arange(_EXPANDED, int(windows[-1]) + _EXPANDED, _EXPANDED), side="left") + 1
        at = 0
        for cut in np.minimum(cuts, len(first)).tolist():
            if cut == at:
                continue
            times = last[at:cut] - first[at:cut]
            rows = np.repeat(np.arange(at, cut), times)
            wids = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
            yield Page(page.schema, page.batch.take(pa.array(rows))), wids, groups[rows]
            at = cut

    def _repeats(self) -> str:
        """Say how windows repeat, in ticks."""
        window = self.window.rows if isinstance(self.window, PartitionedWindow) else self.window
        size, slide = getattr(window, "size", "ALL"), getattr(window, "slide", 0)
        return f"RANGE {size}, SLIDE {slide}, in ticks of {window.wattr}"

    def _emit(self, released: Released, emit: Emit) -> None:
        if self.empty:
            self._emit_empty(released.wids, emit)
        super()._emit(released, emit)

    def _emit_empty(self, wids: Int64s, emit: Emit) -> None:
        """Emit the windows without a tuple before these and between them, as many as there are ids left out."""
        output, schema = self._output, self._input
        assert output is not None and schema is not None
        before = wids[0] - 1 if self._last == BEFORE_ALL else self._last
        self._last = int(wids[-1])
        known = np.concatenate((np.array([before]), wids))
        for start, stop in zip((known[:-1] + 1).tolist(), known[1:].tolist(), strict=True):
            for at in range(start, stop, ROWS):
                missing = np.arange(at, min(at + ROWS, stop))
                none = np.zeros(len(missing), np.int32)
                columns: list[pa.Array] = []
                for function in self.functions.values():
                    accumulator = function.accumulator(schema)
                    accumulator.reserve(1)
                    accumulator.init(none[:1])
                    columns.append(accumulator.finalize(none[:1]).take(pa.array(none)))
                self._results += len(missing)
                self._windows += len(missing)
                emit(result_page(output, columns, missing, *self.window.extents(missing)))

    def statistics(self) -> dict[str, int]:
        store = self._store
        slices, carried = (0, 0) if store is None else (len(store.ranges), store.carried)
        return super().statistics() | {"slices": slices, "carried": carried}
