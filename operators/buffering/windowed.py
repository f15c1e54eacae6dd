"""Between a bucket and its own way of holding windows, every window aggregate does the same: this room does it.

Groups get ids, promises on window-ids release windows and are passed on as promises on the results, and results become
pages. How windows are held is a `WindowStore`'s affair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np
import pyarrow as pa

from operators.aggregate.named import matched, promised
from operators.aggregate.partitions import Lasts, is_endless
from operators.aggregate.running import Released
from operators.aggregate.wid import START, STOP, WID, WindowAggregate
from operators.bucket import FROM, UNTIL
from operators.described import group_text
from operators.functions.protocol import Accumulator, AggregateFunction
from operators.keys import KeyIndex
from operators.overflow import Overflow
from operators.page import Int64s, Page
from operators.protocol import Emit, State, StateValue
from operators.saved import part, prefixed, read_batch, read_int, read_text, save_schema
from operators.schema import Schema
from operators.window import FOREVER, Window
from operators.window.columns import extent_columns
from operators.window.protocol import Int32s
from punctuation import END, Progress, Punctuation
from punctuation.plain import dump_progress, read_progress

_NEVER = -(2**63)
_ROWS = 1 << 16
_NUMBERS = ("bound", "released", "latest", "results", "windows", "nulls", "peak", "peak_bytes")


class WindowStore(Protocol):
    """What holds the open windows of all groups."""

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """One accumulator a function; the slots of `Released` are theirs."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...

    def __len__(self) -> int:
        """Number of tuples and partial aggregates held."""
        ...

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Give the results of the windows [released, bound); slots hold until the next."""
        ...

    def close(self, bound: int) -> Int32s:
        """Forget what is in no window from `bound` on; gives the groups left with nothing."""
        ...

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Give the results of these groups alone up to `bound`."""
        ...

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; gives the groups left with nothing."""
        ...

    def horizon(self, latest: int) -> int:
        """Give the window-id after the last window that anything is in; endless ones count up to `latest`."""
        ...

    def state(self) -> State:
        """Give all that is remembered."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the store whose `state` this was."""
        ...


@attrs.define(eq=False)
class Windowed:
    """Do what window aggregates have in common; the store is made when the first page shows its schema."""

    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...]
    make: Callable[[Schema, Sequence[Accumulator]], WindowStore]
    store: WindowStore | None = attrs.field(init=False, default=None)
    groups: KeyIndex | None = attrs.field(init=False, default=None)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _input: Schema | None = attrs.field(init=False, default=None)
    _output: Schema | None = attrs.field(init=False, default=None)
    _bound: int = attrs.field(init=False, default=_NEVER)
    _released: int = attrs.field(init=False, default=_NEVER)
    _latest: int = attrs.field(init=False, default=_NEVER)
    _lasts: Lasts | None = attrs.field(init=False)
    """The last windows of partitions, where these end by themselves."""
    _promised: Progress = attrs.field(init=False, factory=Progress)
    _results: int = attrs.field(init=False, default=0)
    _windows: int = attrs.field(init=False, default=0)
    _nulls: int = attrs.field(init=False, default=0)
    _peak: int = attrs.field(init=False, default=0)
    _peak_bytes: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._lasts = Lasts.of(self.window, self.by)

    @property
    def endless(self) -> bool:
        """Tell whether windows never let go of a tuple (RANGE ALL)."""
        return is_endless(self.window)

    @property
    def bound(self) -> int:
        """The window-id below which every window is complete."""
        return self._bound

    def output_schema(self, schema: Schema) -> Schema:
        """Give the schema of the results, that of a WindowAggregate; SchemaError when the functions do not fit."""
        return WindowAggregate(self.window, self.functions, self.by).results_schema(schema)

    def bind(self, schema: Schema) -> WindowStore:
        """Give the store, made for pages of this schema when there is none yet."""
        if self.store is None:
            self._input, self._output = schema, self.output_schema(schema)
            self.groups = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
            self.store = self.make(schema, [function.accumulator(schema) for function in self.functions.values()])
        return self.store

    def arrive(self, page: Page) -> tuple[Int64s, Int64s, Int32s, int]:
        """Give the window-ids [first, last) and the group of each tuple, shape (n,), and what is above every group."""
        self._count_nulls(page)
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        if self.groups is None:
            return first, last, np.zeros(len(page), np.int32), 1
        ids = self.groups.assign([page.column(name) for name in self.by])
        if self._lasts is not None:
            self._lasts.note(ids, first, self.groups.capacity)
        return first, last, ids, self.groups.capacity

    def arrived(self, first: Int64s, emit: Emit) -> None:
        """Do what follows when a page is in the store: endless windows may have got successors."""
        assert self.store is not None
        self._peak = max(self._peak, len(self.store))
        if self.endless:
            self._latest = max(self._latest, int(first.max()))
            if self._released < self._bound:
                self._release(min(self._bound, self._latest + 1), emit)
                self._promise(min(self._bound, self._latest + 1), False, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit) -> None:
        """Release what a promise completes, and pass it on."""
        if punctuation.is_end:
            if self.store is not None:
                self._measure()
                if self._lasts is None:
                    self._release(self.store.horizon(self._latest), emit)
                else:
                    self._end_groups(self._lasts, None, emit)
                    self._lasts = Lasts.of(self.window, self.by)
                self.store, self.groups, self._promised = None, None, Progress()
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
        if self.store is not None:
            self._release_groups(groups, below, emit)
        if latest is None or (below != _NEVER + 1 and self._promised.advance(out)):
            emit(out)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._bound = bound
        if self.endless:
            # Windows after the last tuple's may still be released when a later tuple shows that they have successors.
            bound = min(bound, self._latest + 1)
        if self.store is not None:
            self._measure()
            self._release(bound, emit)
        if bound != _NEVER + 1 or not self.endless:
            self._promise(bound, assumed, emit)

    def _promise(self, bound: int, assumed: bool, emit: Emit) -> None:
        begin, end = self.window.extent(bound)
        for name, value in ((WID, bound), (START, begin), (STOP, end)):
            if abs(value) < FOREVER and (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _release(self, bound: int, emit: Emit) -> None:
        assert self.store is not None
        if bound <= self._released:
            return
        for released in self.store.release(self._released, bound):
            self._emit(released, emit)
        self._free(self.store.close(bound))
        self._released = bound

    def _end_groups(self, lasts: Lasts, groups: Punctuation | None, emit: Emit) -> list[int]:
        """Release what groups, or all, have in their partitions up to now; gives the last windows of these."""
        ended: list[int] = []
        if self.store is not None and self.groups is not None:
            which = None if groups is None else matched(self.groups, groups)
            for last, some in lasts.of_partitions(self.groups, which):
                for released in self.store.release_groups(some, self._released, last + 1):
                    self._emit(released, emit)
                if groups is not None and lasts.whole(groups):
                    self._free(self.store.close_groups(some, FOREVER))
                ended.append(last)
        return ended

    def _release_groups(self, groups: Punctuation, bound: int | None, emit: Emit) -> None:
        assert self.store is not None
        if self.groups is None or not len(self.groups):
            return
        which = matched(self.groups, groups)
        if len(which) == 0:
            return
        self._measure()
        stop = self.store.horizon(self._latest) if bound is None else bound
        for released in self.store.release_groups(which, self._released, stop):
            self._emit(released, emit)
        self._free(self.store.close_groups(which, FOREVER - 1 if bound is None else bound))

    def _free(self, idle: Int32s) -> None:
        if self.groups is not None and len(idle):
            if self._lasts is not None:
                self._lasts.forget(idle)
            self.groups.free(idle)

    def _emit(self, released: Released, emit: Emit) -> None:
        output = self._output
        assert output is not None
        for at in range(0, len(released.wids), _ROWS):
            some = Released(*(column[at : at + _ROWS] for column in attrs.astuple(released, recurse=False)))
            arrays = [] if self.groups is None else self.groups.keys(some.groups)
            arrays += self._finalized(some)
            begin, end = self.window.extents(some.wids)
            kind = output.field(START).type
            arrays += extent_columns(some.wids, begin, end, kind)
            self._results += len(some.wids)
            emit(Page(output, pa.RecordBatch.from_arrays(arrays, schema=output.arrow)))
        self._windows += int(np.count_nonzero(np.diff(released.wids))) + 1

    def _finalized(self, released: Released) -> Iterator[pa.Array]:
        store, output, groups = self.store, self._output, self.groups
        assert store is not None and output is not None

        def where(at: int) -> str:
            keys = [] if groups is None else groups.keys(released.groups[at : at + 1])
            return f"window {released.wids[at]}, {group_text(output, self.by, keys)}"

        for name, accumulator in zip(self.functions, store.accumulators, strict=True):
            kind = output.arrow.field(name).type
            yield self.overflow.finalized(name, accumulator, released.slots, kind, where)

    def _count_nulls(self, page: Page) -> None:
        """Let each function count the tuples it skips for a null, once, however many windows they are in."""
        for function in self.functions.values():
            columns = [page.column(name) for name in function.arguments]
            if any(column.null_count for column in columns):
                accumulator = function.accumulator(page.schema)
                accumulator.reserve(1)
                accumulator.init(np.zeros(1, np.int32))
                accumulator.update(np.zeros(len(page), np.int32), page)
                self._nulls += accumulator.nulls

    def _measure(self) -> None:
        if self.store is not None:
            held = 0 if self.groups is None else self.groups.nbytes
            self._peak_bytes = max(self._peak_bytes, self.store.nbytes + held)

    def statistics(self) -> dict[str, int]:
        """Give the counters that all window aggregates have."""
        store = self.store
        tuples = nbytes = 0
        if store is not None:
            tuples, nbytes = len(store), store.nbytes + (0 if self.groups is None else self.groups.nbytes)
        return {
            "state_tuples": tuples,
            "state_bytes": nbytes,
            "groups": 0 if self.groups is None else len(self.groups),
            "peak_state_tuples": max(self._peak, tuples),
            "peak_state_bytes": max(self._peak_bytes, nbytes),
            "windows": self._windows,
            "results": self._results,
            "null_arguments": self._nulls,
        }

    def state(self) -> State:
        """Give all that is remembered."""
        state: State = {name: getattr(self, f"_{name}") for name in _NUMBERS}
        state["promised"] = dump_progress(self._promised)
        if self.store is not None:
            assert self._input is not None
            state["input"] = save_schema(self._input.arrow)
            state["progress"] = json.dumps(sorted(sorted(promise) for promise in self._input.progress))
            state |= prefixed("store.", self.store.state())
            if self.groups is not None:
                state |= prefixed("groups.", self.groups.state())
            if self._lasts is not None:
                state |= self._lasts.state()
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become what this was the `state` of."""
        for name in _NUMBERS:
            setattr(self, f"_{name}", read_int(state, name))
        self._promised = read_progress(read_text(state, "promised"))
        if "input" in state:
            progress: list[list[str]] = json.loads(read_text(state, "progress"))
            self.bind(Schema(read_batch(state, "input").schema, progress=progress)).restore(part("store.", state))
            if self.groups is not None:
                self.groups.restore(part("groups.", state))
            if self._lasts is not None:
                self._lasts.restore(state)
