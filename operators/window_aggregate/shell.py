"""Every window aggregate lives the same life, and this is where it is written.

It binds to the schema of the first page, gives groups ids, has a store take tuples, releases windows on promises (of
all tuples, of single groups, END), passes promises on, makes pages of results, and is saved and restored. `Shell` is
what all have in common, whatever holds their windows. `StoreShell` is the whole life of those that read what a Bucket
gives: their stores work in window-ids. The others work in ticks of the windowing attribute.

On purpose operators differ in: when a result leaves that depends on the order of arrival (stacks give it at the tuple
that completes it, the others on a promise), windows without tuples (`WindowAggregate.empty`), and RANGE ALL counted in
partitions, which end by themselves (`Lasts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Generic, TypeVar, cast

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import ROWS, Int32s, Int64s, Page, concatenate
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from operators.overflow import Overflow
from operators.protocol import Element, Emit, StateValue
from operators.retractions import refused
from operators.streams.named_groups import group_bound, matched, within
from operators.window import PartitionedWindow, Window
from operators.window.columns import KeptExtents
from operators.window_aggregate import facts
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.results import (
    REVISION,
    START,
    STOP,
    WID,
    columns_of,
    extent_page,
    result_fields,
    result_page,
    window_fields,
    window_page,
)
from operators.window_aggregate.store import Held, Released, WindowStore
from operators.window_aggregate.stores.per_window.partitions import Lasts, is_endless
from punctuation import END, Progress, Punctuation, before

RENAMED: Final[Mapping[str, str]] = {
    "results": "count.results",
    "windows": "count.windows",
    "peak": "count.peak_state_tuples",
    "peak_bytes": "count.peak_state_bytes",
    "last_windows": "lasts.last_windows",
    "last_groups": "lasts.last_groups",
}
SHOWN = 1000


def while_bound(attribute: str) -> memory.Of:
    """Return what gives the value of a field of a shell, None while it is bound to no schema."""
    return lambda shell: None if shell._input is None else getattr(shell, attribute)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Shell(memory.Stateful):
    """Hear promises, pass them on, and save what all window aggregates remember."""

    in_ticks: ClassVar[bool] = True
    """Whether promises are heard, and windows held, in ticks of the windowing attribute, or else in window-ids."""
    renamed: ClassVar[Mapping[str, str]] = RENAMED
    """What entries of older states are called now."""
    beyond: ClassVar[int] = FOREVER
    """Nothing is promised of values as far out."""

    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _progressing: str = attrs.field(init=False, default=FROM)
    """The attribute whose linear promises complete windows."""
    _output: Schema | None = attrs.field(init=False, default=None)
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The highest linear promise heard."""
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _results: int = attrs.field(init=False, default=0, metadata=memory.integer(name="count.results", since=1))
    _windows: int = attrs.field(init=False, default=0, metadata=memory.integer(name="count.windows", since=1))
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer(name="count.peak_state_tuples"))
    _peak_bytes: int = attrs.field(
        init=False, default=0, metadata=memory.integer(name="count.peak_state_bytes", since=1)
    )
    _lost: dict[str, int] = attrs.field(init=False, factory=dict, metadata=memory.counters())
    """Tuples that are in no window, or too late for some, by why."""
    _input: Schema | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind"))

    attributes_read = facts.attributes_read
    promises_asked = facts.promises_asked
    order_wanted = facts.order_wanted
    disclaimed = facts.disclaimed
    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if not punctuation.patterns:
            if self._input is not None:
                self._measure()
                self._end(emit)
            self._forget()
            emit(END)
            return
        linear = punctuation.bound(self._progressing)
        if linear is None:
            self._advance_groups(punctuation, emit)
            return
        bound = within(linear) if self.in_ticks else linear
        if not isinstance(bound, int):
            return
        if bound > self._bound:
            self._bound = bound
            self._advance(bound, punctuation.assumed, emit)
        else:
            self._revise(emit)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        """Release what a new bound completes, then promise what follows."""
        raise NotImplementedError

    def _revise(self, emit: Emit) -> None:
        """Release again what late tuples have changed: nothing, where they change nothing that was released."""

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        """Release what any other promise completes, then promise what follows: nothing, where there are no groups."""

    def _end(self, emit: Emit) -> None:
        """Release all that is left."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget everything but counters and bounds."""
        self._input, self._output, self._promised = None, None, Progress()

    def open_windows(self, most: int = SHOWN) -> Page:
        """Return the windows that have a tuple and were not released, with their groups, the earliest first.

        The attributes are those of the results without the functions; there are at most so many tuples.
        """
        return (
            Page.of_rows(Schema(pa.schema(window_fields(pa.int64()))), []) if self._input is None else self._open(most)
        )

    def _open(self, most: int) -> Page:
        """Return the windows that a copy gives at the end of the stream; cost: a saved state, and what END computes."""
        assert self._output is not None
        output, found, functions = self._output, list[pa.RecordBatch](), cast(facts.Grouping, self).functions
        if STOP not in output:
            raise NotImplementedError(f"{type(self).__name__} has no windows of its own: ask what combines its results")
        names = [name for name in output.names if name not in functions and name != REVISION]

        def emit(element: Element) -> None:
            if isinstance(element, Page):
                first = element.select(element.ticks(REVISION) == 0) if REVISION in output else element
                found.append(first.batch.select(names))

        copy = attrs.evolve(self)
        copy.restore(self.state())
        copy.overflow.forgiving = True
        copy._end(emit)
        schema = Schema(pa.schema([output.field(name) for name in names]))
        windows = pa.Table.from_batches(found, schema.arrow)
        windows = windows.sort_by([(name, "ascending") for name in (STOP, START, WID)]).slice(0, most)
        return concatenate(schema, [Page(schema, batch) for batch in windows.combine_chunks().to_batches()])

    def closed_by(self, wid: int) -> Punctuation:
        """Return the least linear promise on the input that completes a window; END where nothing else is known to."""
        raise NotImplementedError(f"{type(self).__name__} has no windows of its own: ask what combines its results")

    def _promise(self, wid: int, begin: int, end: int, assumed: bool, emit: Emit) -> None:
        """Promise that later results are of windows from `wid` on, which begins at `begin` and ends at `end`."""
        rise, beyond = self._promised.rise, self.beyond
        for name, value in ((WID, wid), (START, begin), (STOP, end)):
            if -beyond < value < beyond and (promise := rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _size(self) -> tuple[int, int]:
        """Return how many tuples and partial aggregates are held, and bytes."""
        raise NotImplementedError

    def _measure(self) -> None:
        tuples, nbytes = self._size()
        if tuples > self._peak:
            self._peak = tuples
        if nbytes > self._peak_bytes:
            self._peak_bytes = nbytes

    def statistics(self) -> dict[str, int]:
        tuples, nbytes = self._size()
        return {
            "state_tuples": tuples,
            "state_bytes": nbytes,
            "peak_state_tuples": max(self._peak, tuples),
            "peak_state_bytes": max(self._peak_bytes, nbytes),
            "windows": self._windows,
            "results": self._results,
            **self._left_out(),
        }

    def _left_out(self) -> dict[str, int]:
        """Count the tuples that are in no window, or too late for some, by why."""
        return self._lost

    def _bind(self, schema: Schema) -> object:
        """Become ready for tuples of a schema."""
        raise NotImplementedError

    def _upgraded(self, state: Mapping[str, StateValue]) -> Mapping[str, StateValue]:
        return {self.renamed.get(name, name): value for name, value in state.items()}


S = TypeVar("S", bound=WindowStore)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class StoreShell(Shell, Generic[S]):
    """Aggregate what a Bucket gives: windows are ranges of ids, promises on ids release them from a store.

    Emits the grouping attributes, one attribute a function, then wid, window_start, window_end. Propagates
    `[wid_from < w]` as `[wid < w]`, `[window_start < b]` and `[window_end < e]`; promises on single groups likewise.
    """

    in_ticks: ClassVar[bool] = False
    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    _groups: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part())
    _store: S | None = attrs.field(init=False, default=None, metadata=memory.part(capacity="_capacity"))
    _endless: bool = attrs.field(init=False)
    _lasts: Lasts | None = attrs.field(init=False, metadata=memory.part())
    """The last windows of partitions, where these end by themselves."""
    _released: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _latest: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The latest window that a tuple begins, where windows are endless."""
    _last: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(since=1))
    """The last window released, where those without tuples are given too."""
    _nulls: int = attrs.field(init=False, default=0, metadata=memory.integer(since=1))
    _kept: KeptExtents = attrs.field(init=False, factory=KeptExtents, eq=False)

    def __attrs_post_init__(self) -> None:
        self._endless = is_endless(self.window)
        self._lasts = Lasts.of(self.window, self.by)

    together = facts.together

    @property
    def endless(self) -> bool:
        """Return whether windows never let go of a tuple (RANGE ALL)."""
        return self._endless

    def _make(self, schema: Schema) -> S:
        """Make a store for tuples of a schema."""
        raise NotImplementedError

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (FROM, UNTIL):
            if name not in schema:
                raise SchemaError(
                    f'aggregate: the input has no "{name}"; put a Bucket in front of the window aggregate.'
                )
        return self.results_schema(schema)

    def results_schema(self, schema: Schema) -> Schema:
        """Return the schema of the results, whoever computes them; SchemaError when the functions do not fit."""
        KeyIndex([schema.field(name, where="aggregate") for name in self.by])
        times = pa.int64()
        if not isinstance(self.window, PartitionedWindow):
            times = schema.field(self.window.wattr, where="aggregate").type
        arrow = result_fields(schema, self.functions, self.by, times)
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise == frozenset((FROM,)):
                progress += [frozenset((name,)) for name in (WID, START, STOP)]
            elif promise <= {FROM, *self.by}:
                progress.append(frozenset(WID if name == FROM else name for name in promise))
        return Schema(arrow, progress=progress)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        store = self._store
        if store is None:
            store = self._bind(page.schema)
        n = len(page)
        if n == 0:
            return
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        index = self._groups
        if index is None:
            groups, capacity = np.zeros(n, np.int32), 1
        else:
            groups, capacity = index.assign([page.column(name) for name in self.by]), index.capacity
        if self._lasts is not None:
            self._lasts.note(groups, first, capacity)
        self._update(store, page, first, last, groups, capacity)
        held = len(store)
        if held > self._peak:
            self._peak = held
        if self._endless:
            self._latest = max(self._latest, int(first.max()))
            if self._released < self._bound:
                self._settle(min(self._bound, self._latest + 1), False, emit)

    def _update(self, store: S, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        store.update(page, first, last, groups, capacity)

    def _bind(self, schema: Schema) -> S:
        self._input, self._output = schema, self.output_schema(schema)
        self._groups = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
        self._store = store = self._make(schema)
        return store

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._measure()
        # Windows after the last tuple's may still be released when a later tuple shows that they have successors.
        self._settle(min(bound, self._latest + 1) if self._endless else bound, assumed, emit)

    def _settle(self, bound: int, assumed: bool, emit: Emit) -> None:
        """Release the windows below a bound, and promise the later ones."""
        if self._store is not None:
            self._release(self._store, bound, emit)
        if self._last != BEFORE_ALL:
            # Whether the windows after the last one with a tuple are between others, only a later tuple shows.
            bound = min(bound, self._last + 1)
        if bound > BEFORE_ALL + 1:
            self._promise(bound, *self.window.extent(bound), assumed, emit)

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        lasts = self._lasts
        promise = group_bound(punctuation, self.by, FROM)
        if promise is None:
            return
        groups, below = promise.groups, promise.bound
        if lasts is not None and below is None:
            ended = self._end_partitions(lasts, groups, emit)
            if (follows := lasts.follows(promise.follows(WID, None), WID, ended)) is not None:
                emit(follows)
            return
        cut = self._endless and lasts is None
        if cut:
            # A group that is over stays in all later windows, and which there are, only later tuples tell.
            below = self._latest + 1 if below is None else min(below, self._latest + 1)
        if self._store is not None and self._groups is not None and len(self._groups):
            self._release_groups(self._store, matched(self._groups, groups), below, emit)
        out = promise.follows(WID, below)
        # The bucket says nothing twice; only bounds that were cut to the latest window may repeat themselves.
        if not cut or (below != BEFORE_ALL + 1 and self._promised.advance(out)):
            emit(out)

    def _release(self, store: S, bound: int, emit: Emit) -> None:
        if bound > self._released:
            for released in store.release(self._released, bound):
                self._emit(released, emit)
            self._free(store, store.close(bound))
            self._released = bound

    def _release_groups(self, store: S, which: Int32s, bound: int | None, emit: Emit) -> None:
        if len(which):
            self._measure()
            stop = store.horizon(self._latest) if bound is None else bound
            for released in store.release_groups(which, self._released, stop):
                self._emit(released, emit)
            self._free(store, store.close_groups(which, FOREVER - 1 if bound is None else bound))

    def _end_partitions(self, lasts: Lasts, groups: Punctuation | None, emit: Emit) -> list[int]:
        """Release what groups, or all, have in their partitions up to now; return the last windows of these."""
        ended: list[int] = []
        store, index = self._store, self._groups
        if store is not None and index is not None:
            whole = groups is None or lasts.whole(groups)
            for last, which in lasts.of_partitions(index, None if groups is None else matched(index, groups)):
                for released in store.release_groups(which, self._released, last + 1):
                    self._emit(released, emit)
                if whole:
                    self._free(store, store.close_groups(which, FOREVER))
                ended.append(last)
        return ended

    def _end(self, emit: Emit) -> None:
        assert self._store is not None
        if self._lasts is not None and self._groups is not None:
            self._end_partitions(self._lasts, None, emit)
        else:
            self._release(self._store, self._store.horizon(self._latest), emit)

    def _forget(self) -> None:
        self._nulls = self._null_arguments()
        super()._forget()
        self._store, self._groups = None, None
        self._lasts = Lasts.of(self.window, self.by)

    def _free(self, store: S, idle: Int32s) -> None:
        if self._groups is not None and len(idle):
            store.forget(idle)
            if self._lasts is not None:
                self._lasts.forget(idle)
            self._groups.free(idle)

    def _emit(self, released: Released, emit: Emit) -> None:
        wids = released.wids
        n = len(wids)
        if n <= ROWS:
            emit(self._page(released))
        else:
            for at in range(0, n, ROWS):
                emit(self._page(released.some(slice(at, at + ROWS))))
        self._results += n
        # The results of a window stand together, but for group-wise releases, where runs are counted.
        self._windows += 1 if wids.strides[0] == 0 else int(np.count_nonzero(wids[1:] != wids[:-1])) + 1

    def _page(self, released: Released) -> Page:
        output, wids = self._output, released.wids
        assert output is not None
        begins, ends = self._extents(wids)
        columns, kind = self._columns(released), output.arrow.field(START).type
        # Ticks of fewer bits, or decimals, may not be able to say where a window ends.
        if len(wids) and wids.strides[0] == 0 and kind.bit_width == 64:
            wid, begin, end = int(wids[0]), int(begins[0]), int(ends[0])
            if begin > -LIMIT and end < LIMIT:
                return window_page(output, columns, self._kept, (wid, begin, end), len(wids))
        return result_page(output, columns, wids, begins, ends)

    def _columns(self, released: Released) -> list[pa.Array]:
        """Return the columns of results before those of their windows."""
        store, output, index = self._store, self._output, self._groups
        assert store is not None and output is not None
        wids, groups = released.wids, released.groups

        def keys(which: slice) -> list[pa.Array]:
            return [] if index is None else index.keys(groups[which])

        columns = [] if index is None else index.keys(groups)
        columns += columns_of(
            output, self.by, self.functions, store.accumulators, released.slots, self.overflow, wids, keys
        )
        return columns

    def _extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        if len(wids) == 0 or wids.strides[0] != 0:
            return self.window.extents(wids)
        begins, ends = self.window.extents(wids[:1])
        return np.broadcast_to(begins, len(wids)), np.broadcast_to(ends, len(wids))

    def _open(self, most: int) -> Page:
        store, index, output = self._store, self._groups, self._output
        assert store is not None and output is not None
        held = store.held()
        latest = np.full(len(held.groups), self._latest if self._endless else FOREVER - 1)
        if self._lasts is not None and index is not None:
            for last, which in self._lasts.of_partitions(index):
                latest[np.isin(held.groups, which)] = last
        wids, groups = held.windows(self._complete, latest, most)
        return extent_page(output, [] if index is None else index.keys(groups), wids, *self.window.extents(wids))

    @property
    def _complete(self) -> int:
        """Return the first window that is not complete."""
        return self._released

    def closed_by(self, wid: int) -> Punctuation:
        return before(FROM, wid + 1)

    def _size(self) -> tuple[int, int]:
        store, index = self._store, self._groups
        if store is None:
            return 0, 0
        return len(store), store.nbytes if index is None else store.nbytes + index.nbytes

    def _null_arguments(self) -> int:
        """Count the tuples that a function skipped for a null so far, for each function."""
        return self._nulls + (0 if self._store is None else sum(a.nulls for a in self._store.accumulators))

    def statistics(self) -> dict[str, int]:
        return {
            **super().statistics(),
            "groups": 0 if self._groups is None else len(self._groups),
            "null_arguments": self._null_arguments(),
        }

    @property
    def _capacity(self) -> int:
        """Return what is above every group id."""
        return 1 if self._groups is None else self._groups.capacity

    def _after_restoring(self) -> None:
        if self._store is not None:
            self._check(self._store.held())

    def _check(self, held: Held) -> None:
        """Check that some tick is in all windows of each entry that was restored: no loop over them is longer."""
        window, last = self.window, held.last
        least, most = window.wids(np.array([1 - LIMIT, LIMIT - 1]))
        inside = (held.first >= least[0]) & (last <= most[1])
        if not self._endless and inside.all():
            inside = window.extents(last - 1)[0] < window.extents(np.minimum(held.first, last - 1))[1]
        if not inside.all():
            raise ValueError("the saved state holds what is in windows that no tuple is in together")
