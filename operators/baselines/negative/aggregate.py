"""The signed aggregate follows a relation through its insertions and deletions, window by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.baselines.buffer.log import TupleLog, attributes
from operators.baselines.negative.expire import WID
from operators.baselines.negative.multiset import Signed, signed
from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import KeyIndex
from operators.data.page import Int64s, Page
from operators.data.saved import bounded
from operators.data.schema import Schema
from operators.errors import OperatorBug, SchemaError
from operators.functions.protocol import AggregateFunction
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.plan_facts import Attributes
from operators.protocol import Emit
from operators.retractions import SIGN, Retracted, Retracting
from operators.window import PartitionedWindow, Window
from operators.window_aggregate import facts
from operators.window_aggregate.results import START, STOP, columns_of, result_fields, result_page
from operators.window_aggregate.shell import Shell
from punctuation import Progress, Punctuation, before


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class SignedAggregate(Shell):
    """Aggregate by group the relation that signed changes make; the input is an Expire's output.

    Emits what a WindowAggregate emits: for every window w that is complete, in order, one result for each group that
    has a tuple in the relation at w, the sum of the changes with wid <= w.
    Pass: the results of the windows w < b on `[wid < b]`. Keep: an aggregate a group of the relation, for min and max
    its different values, and the changes of windows that are not complete. Propagate: `[wid < b]`, and the same of
    window_start and window_end.
    Cost: O(1) a change, sorted by window; a window O(its changes + groups), for min and max O(values held).
    Source: the negative-tuple approach of thesis 3.1, Eq. 6.2 with panes of one tuple.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.functions import max
    >>> from operators.baselines.negative.expire import Expire
    >>> from operators.window import SlidingWindow
    >>> window = SlidingWindow("ts", size=10, slide=5)
    >>> page = Page.of(Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"]), {"ts": [7, 3, 12], "v": [1, 9, 2]})
    >>> changes = drive(Expire(), drive(Bucket(window), [page, END]))
    >>> [(r["window_end"], r["most"]) for r in rows(drive(SignedAggregate(window, {"most": max("v")}), changes))]
    [(5, 9), (10, 9), (15, 2), (20, 2)]
    """

    VERSION: ClassVar[int] = 2
    in_ticks: ClassVar[bool] = False

    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    _progressing: str = attrs.field(init=False, default=WID)
    _input: Schema | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind", name="input"))
    _log: TupleLog | None = attrs.field(init=False, default=None, metadata=memory.part())
    _wids: Int64s = attrs.field(
        init=False, factory=lambda: np.empty(0, np.int64), metadata=memory.array(length="_log", since=1)
    )
    _signs: Int64s = attrs.field(
        init=False,
        factory=lambda: np.empty(0, np.int64),
        metadata=memory.array(least=-1, below=2, length="_log", since=1),
    )
    _index: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part(name="groups"))
    _members: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.array(grows="_index", since=1)
    )
    _signed: list[Signed] = attrs.field(init=False, factory=lambda: [], metadata=memory.parts("aggregate"))
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress(since=2))
    _released: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _restored: bool = attrs.field(init=False, default=False)
    """Whether a saved state, and not the stream, may be at fault."""

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return None

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (read,) = facts.attributes_read(self, wanted, *inputs)
        return [read | {WID, SIGN}]

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (WID, SIGN):
            if name not in schema:
                raise SchemaError(f'aggregate: the input has no "{name}"; put an Expire in front of it.')
        if isinstance(self.window, PartitionedWindow) or self.window.extent(0)[0] == -FOREVER:
            raise SchemaError(
                "aggregate of negative tuples: all groups move from one window to the next together, and every tuple "
                "expires.\n  Use a WindowAggregate for windows counted by partition and for RANGE ALL."
            )
        KeyIndex([schema.field(name, where="aggregate") for name in self.by])
        for function in self.functions.values():
            signed(function, schema)
        kind = schema.field(self.window.wattr, where="aggregate").type
        arrow = result_fields(schema, self.functions, self.by, kind)
        return Schema(arrow, progress=[WID, START, STOP] if schema.progressing(WID) else [])

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        self._bind(page.schema).append(page, np.arange(len(page)))
        self._wids = np.concatenate((self._wids, page.ticks(WID)))
        self._signs = np.concatenate((self._signs, page.ticks(SIGN)))
        self._peak = max(self._peak, self._held())

    def _end(self, emit: Emit) -> None:
        # What is never deleted is in windows without end; they are given up to the last that differs.
        self._go(int(self._wids.max(initial=self._bound)) + 1, emit)

    def _forget(self) -> None:
        super()._forget()
        self._log, self._index, self._signed, self._members = None, None, [], np.zeros(1, np.int64)

    def closed_by(self, wid: int) -> Punctuation:
        return before(WID, wid + 1)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._go(bound, emit)
        self._promise(bound, *self.window.extent(bound), assumed, emit)

    def _go(self, bound: int, emit: Emit) -> None:
        """Go from window to window up to `bound`: change the relation, then give the aggregates of its groups."""
        log = self._log
        if log is None:
            return
        self._measure()
        settled = self._wids < bound
        positions = np.flatnonzero(settled)
        positions = positions[np.argsort(self._wids[positions], kind="stable")]
        wids = self._wids[positions]
        done, w = 0, self._released
        while w < bound:
            if not self._members.any():
                if done == len(wids):
                    break
                w = max(w, int(wids[done]))
            stop = int(np.searchsorted(wids, w, side="right"))
            if stop > done:
                # Within one window changes may be made in any order, and the log gives them in its own.
                try:
                    self._change(np.sort(positions[done:stop]))
                except OperatorBug as bug:
                    if not self._restored:
                        raise
                    raise OperatorBug(
                        f"{bug}.\n  Or the state that the run goes on from is damaged, or of another stream: begin"
                        " anew, or give the state that was saved."
                    ) from bug
                done = stop
            self._measure()
            self._emit(w, emit)
            w += 1
        self._released = max(self._released, min(w, bound))
        log.keep(~settled)
        self._wids, self._signs = self._wids[~settled], self._signs[~settled]

    def _change(self, positions: Int64s) -> None:
        assert self._log is not None
        page, signs = self._log.take(positions), self._signs[positions]
        if self._index is None:
            groups, fresh = np.zeros(len(positions), np.int32), np.zeros(len(positions), np.bool_)
            fresh[0] = not self._members[0]
            capacity = 1
        else:
            groups, fresh = self._index.assign_new([page.column(name) for name in self.by])
            capacity = self._index.capacity
        if capacity > len(self._members):
            self._members = np.pad(self._members, (0, max(capacity, 2 * len(self._members)) - len(self._members)))
        for aggregate in self._signed:
            aggregate.start(groups[fresh], capacity)
            aggregate.change(groups, signs, page)
        np.add.at(self._members, groups, signs)
        touched = distinct(groups)
        if int(self._members[touched].min()) < 0:
            raise OperatorBug("aggregate: a tuple was deleted that had not been inserted")
        gone = touched[self._members[touched] == 0]
        for aggregate in self._signed:
            aggregate.stop(gone)
        if self._index is not None:
            self._index.free(gone)

    def _emit(self, wid: int, emit: Emit) -> None:
        groups = np.flatnonzero(self._members).astype(np.int32)
        if len(groups) == 0:
            return
        output, index = self._output, self._index
        assert output is not None

        def keys(which: slice) -> list[pa.Array]:
            return [] if index is None else index.keys(groups[which])

        wids = np.full(len(groups), wid)
        columns = keys(slice(None))
        columns += columns_of(output, self.by, self.functions, self._signed, groups, self.overflow, wids, keys)
        self._results += len(groups)
        self._windows += 1
        emit(result_page(output, columns, wids, *self.window.extents(wids)))

    def _bind(self, schema: Schema) -> TupleLog:
        if self._log is None:
            self._input, self._output = schema, self.output_schema(schema)
            names = dict.fromkeys((*(schema.resolve(n, where="aggregate") for n in self.by),))
            self._log = TupleLog(schema, (*names, *(n for n in attributes(self.functions, schema) if n not in names)))
            self._index = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
            self._signed = [signed(function, schema) for function in self.functions.values()]
        return self._log

    def _held(self) -> int:
        return len(self._wids) + int(np.count_nonzero(self._members))

    def _size(self) -> tuple[int, int]:
        return self._held(), self.nbytes

    def statistics(self) -> dict[str, int]:
        groups, nulls = int(np.count_nonzero(self._members)), sum(s.nulls for s in self._signed)
        return super().statistics() | {"groups": groups, "null_arguments": nulls}

    def _after_restoring(self) -> None:
        self._restored = True
        bounded(self._members, "members", below=None)
        if self._index is not None:
            self._index.check_live(np.flatnonzero(self._members), "members")
        for aggregate in self._signed:
            aggregate.start(np.empty(0, np.int32), len(self._members))
