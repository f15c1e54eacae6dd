"""Bucket tags each tuple with the range of window-ids it belongs to, and maps promises on its time to window-ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int32s, Int64s, Page, plain_values
from operators.data.repeated import Repeated
from operators.data.schema import Schema
from operators.data.steps import in_steps
from operators.errors import SchemaError
from operators.functions.columns import frozen
from operators.kernels.ranked.rank import ranks
from operators.kernels.ticks import BEFORE_ALL, LIMIT
from operators.kernels.windows.window import clip, extremes
from operators.pace import Paces, pace_of, want
from operators.plan_facts import ANY_DISTANCE, Attributes, Together, Tolerance
from operators.protocol import Emit
from operators.retractions import as_it_is
from operators.window import PartitionedWindow, SlidingWindow, Window
from punctuation import END, Below, Pattern, Progress, Punctuation, below, group_punctuation, whole

FROM, UNTIL = "wid_from", "wid_until"
_COUNTERS = ("late", "late_for_some", "in_no_window", "without_value")


@attrs.frozen(eq=False)
class Alike:
    """Tuples that are all in the same windows, first <= w < last."""

    page: Page
    first: int
    last: int


@attrs.frozen(eq=False)
class Tagged:
    """Tuples that are each in the windows first <= w < last, both of shape (n,)."""

    page: Page
    first: Int64s
    last: Int64s


@attrs.define
class Bucket(memory.Stateful):
    """Append the attributes wid_from and wid_until: the tuple is in the windows wid_from <= w < wid_until.

    Pass: a tuple at once, unless all its windows are released (late) or it is in none; one that is late for some keeps
    the others, unless `consistent`. Keep: nothing for CF windows but the bound; for partitioned row windows a count a
    partition. Propagate: `[ts < v]` becomes `[wid_from < w]`, w the first window that v does not complete; group-wise
    promises likewise; a partition's own count completes its windows.
    Cost: O(1) a tuple. Source: thesis Fig 6-2 with the bound of docs/semantics.md row 6.

    >>> from operators.drive import drive, rows
    >>> from operators.window import SlidingWindow
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [12]})
    >>> rows(drive(Bucket(SlidingWindow("ts", size=10, slide=5)), [page]))
    [{'ts': 12, 'wid_from': 2, 'wid_until': 4}]
    """

    VERSION: ClassVar[int] = 2

    window: Window
    consistent: bool = attrs.field(default=False, kw_only=True)
    hands_on: bool = attrs.field(default=False, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """Whether promises are handed on as they came, too, behind what they say of windows: only who hears them for their
    time, and relies on none, may take them, for a tuple that is late by less than its window is taken all the same."""
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _schema: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _partitions: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part(KeyIndex))
    _ranks: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros(16, np.int64),
        metadata=memory.array(least=0, grows="_partitions", since=1),
    )
    _alike: tuple[int, int, int, int] = attrs.field(init=False, default=(0, 0, 0, 0), eq=False)
    """Ticks since <= t < before that are all in the windows first <= w < last."""
    _kept: tuple[Repeated, Repeated] = attrs.field(init=False, factory=lambda: (Repeated(), Repeated()), eq=False)
    """The columns of pages whose tuples are all in the same windows."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTERS, 0), metadata=memory.counters()
    )
    _refused: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, since=2))
    """The tuples that came too late and of which `_furthest` knows how far."""
    _furthest: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, since=2))
    """How many windows the bound was ahead of their last ones at most."""

    retracted = as_it_is

    @property
    def inputs(self) -> int:
        return 1

    @property
    def bound(self) -> int:
        """Return the first window that is not released, -2^63 while none is."""
        return self._bound

    @property
    def counts(self) -> dict[str, int]:
        """Count the tuples that are in no open window, or late for some of theirs, by why."""
        return self._counts

    def learn(self, **counts: int) -> None:
        """Count tuples that another Bucket took for this one."""
        for name, count in counts.items():
            self._counts[name] += count

    @property
    def partition(self) -> tuple[str, ...]:
        """Return the partitioning attributes, none for most windows."""
        return self.window.partition if isinstance(self.window, PartitionedWindow) else ()

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        where = "window"
        if self.partition:
            KeyIndex([schema.field(name, where=where) for name in self.partition])
        else:
            kind = schema.field(self.window.wattr, where=where).type
            if not in_steps(kind):
                raise SchemaError(
                    f'{where}: the windowing attribute "{self.window.wattr}" has type {kind}.\n'
                    "  A window needs an attribute that counts: an integer, a time or a decimal."
                )
        for name in (FROM, UNTIL):
            if name in schema:
                raise SchemaError(f'{where}: the input already has an attribute "{name}"; rename it with a projection.')
        wattr = self.window.wattr
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            tagged = wattr in promise and not self.partition
            progress.append(promise - {wattr} | {FROM} if tagged else promise)
        if self.partition:
            progress.append(frozenset((*self.partition, FROM)))
        arrow = schema.arrow.append(pa.field(FROM, pa.int64())).append(pa.field(UNTIL, pa.int64()))
        return Schema(arrow, progress=progress)

    def together(self, *inputs: Schema) -> Together:
        if not self.partition:
            return Together.anywhere(inputs[0].names)
        return Together.by(self.partition, arrival=True, why="tuples are counted as they arrive")

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return self.order_wanted(*inputs) if name == FROM else name

    def order_wanted(self, *inputs: Schema) -> str | None:
        return None if self.partition else self.window.wattr

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted.union(self.partition or (self.window.wattr,))]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        paces = {name: pace for name, pace in wanted.items() if name in inputs[0]}
        if not self.partition:
            want(paces, self.window.wattr, pace_of(self.window, inputs[0]))
        return [paces]

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        # Which input of a meld is ahead depends on the runtime; a consistent answer must not.
        if (self.consistent and melded) or self.partition or self.window.wattr != attribute:
            return Tolerance()
        window = self.window
        return Tolerance(window.size if isinstance(window, SlidingWindow) and not melded else ANY_DISTANCE, fixed=True)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema, ids = self._output(page.schema), None
        if self.partition:
            ids, found = self._ranked(page)
        else:
            found = self.tag(page)
        if isinstance(found, Alike):
            same = {**found.page.same, FROM: found.first, UNTIL: found.last}
            kept = zip(self._kept, (found.first, found.last), strict=True)
            columns = [of.column(wid, len(found.page), pa.int64()) for of, wid in kept]
            batch = pa.RecordBatch.from_arrays([*found.page.batch.columns, *columns], schema=schema.arrow)
            emit(Page(schema, batch, same))
        elif found is not None:
            columns = [*found.page.batch.columns, pa.array(found.first), pa.array(found.last)]
            emit(Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow), found.page.same))
        if ids is not None:
            self._promise_partitions(ids, emit)

    def tag(self, page: Page) -> Alike | Tagged | None:
        """Return the tuples that are in open windows, and these windows; None for none. The others are counted.

        Not for windows of partitions, which count tuples.
        """
        values, valid = page.timed(self.window.wattr)
        same = self._windows_of_all(values) if valid is None else None
        return self._clipped(page, values, valid) if same is None else Alike(page, *same)

    def _ranked(self, page: Page) -> tuple[Int32s, Tagged | None]:
        """Return the partition of each tuple, and what `tag` does."""
        index = self._index(page.schema)
        ids = index.assign([page.column(name) for name in self.partition])
        if index.capacity > len(self._ranks):
            self._ranks = np.pad(self._ranks, (0, max(index.capacity, 2 * len(self._ranks)) - len(self._ranks)))
        values = np.empty(len(ids), np.int64)
        ranks(ids, self._ranks, values)
        return ids, self._clipped(page, values, None)

    def _clipped(self, page: Page, values: Int64s, valid: Bools | None) -> Tagged | None:
        first, last = self.window.wids(values)
        late, partly, gap, unusable = clip(
            values, np.empty(0, np.bool_) if valid is None else valid, LIMIT, self._bound, first, last
        )
        if self.consistent and partly:
            late_for_some = (first == self._bound) & (self.window.wids(values)[0] < self._bound)
            last[late_for_some] = first[late_for_some]
            late, partly = late + partly, 0
        for name, count in zip(_COUNTERS, (late, partly, gap, unusable), strict=True):
            self._counts[name] += int(count)
        if late:
            self._note(values, valid, first, last)
        if late or gap or unusable:
            inside = first < last
            page, first, last = page.select(inside), first[inside], last[inside]
        return Tagged(page, frozen(first), frozen(last)) if len(page) else None

    def _windows_of_all(self, values: Int64s) -> tuple[int, int] | None:
        """Return the windows that all tuples of a page are in, and of which none is released; None where they differ.

        Window-ids rise with the values, so those of the least and the greatest are enough.
        """
        if len(values) == 0:
            return None
        ends = np.empty(2, np.int64)
        extremes(values, ends)
        low, high = ends.tolist()
        if not (self._alike[0] <= low and high < self._alike[1]):
            if low <= -LIMIT or high >= LIMIT:
                return None
            (first, final), (last, until) = (wids.tolist() for wids in self.window.wids(ends))
            if first != final or last != until or first >= last:
                return None
            since, before = low, high + 1
            if isinstance(self.window, SlidingWindow):
                # The last window has begun, and the one before the first is over; the next begins or the first ends.
                since = max(self.window.extent(last - 1)[0], self.window.extent(first - 1)[1], 1 - LIMIT)
                before = min(self.window.extent(first)[1], self.window.extent(last)[0], LIMIT)
            self._alike = since, before, first, last
        _, _, first, last = self._alike
        return (first, last) if self._bound <= first else None

    def _note(self, values: Int64s, valid: Bools | None, first: Int64s, last: Int64s) -> None:
        """Note how far behind the bound tuples are that came too late, by the windows that are left of each."""
        refused = (first == last) & (first < self._bound) & (np.abs(values) < LIMIT)
        if valid is not None:
            refused &= valid
        until = self.window.wids(values[refused])[1]
        self._refused += len(until)
        self._furthest = max(self._furthest, self._bound - int(until.min(initial=self._bound)))

    def enough(self) -> tuple[int, int] | None:
        """Return a lateness, in ticks, that would have taken in all tuples that came too late so far, and how many.

        The bound stands for any up to the end of the next window. None where windows are no sliding ones, and where a
        tuple is left out that is late for one of its windows.
        """
        window = self.window
        if not isinstance(window, SlidingWindow) or self.consistent or self._refused != self._counts["late"]:
            return None
        return (self._furthest + 1) * window.slide, self._refused

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._forget()
            emit(END)
            return
        wattr = self.window.wattr
        if self.partition:
            if wattr not in punctuation.attributes:
                self._finish(punctuation)
            if wattr not in punctuation.attributes or self.hands_on:
                self._emit(punctuation, emit)
            return
        patterns: dict[str, Pattern] = dict(punctuation.patterns)
        if wattr in patterns:
            bound = whole(below(patterns.pop(wattr)))
            if bound is None:
                if self.hands_on:
                    self._emit(punctuation, emit)
                return
            # Values that are out of range are in no window, so bounds further out promise nothing more.
            patterns[FROM] = Below(self.window.complete(max(-2 * LIMIT, min(bound, 2 * LIMIT))))
        self._emit(Punctuation(patterns, assumed=punctuation.assumed), emit)
        if self.hands_on and wattr in punctuation.attributes:
            self._emit(punctuation, emit)

    def _emit(self, punctuation: Punctuation, emit: Emit) -> None:
        if self._promised.advance(punctuation):
            bound = punctuation.bound(FROM)
            if bound is not None:
                self._bound = int(bound)
            emit(punctuation)

    def _promise_partitions(self, ids: Int32s, emit: Emit) -> None:
        """Promise the windows that the tuples just counted completed, of each partition that has got further."""
        assert self._partitions is not None
        touched, counted = np.unique(ids, return_counts=True)
        after = self._complete(self._ranks[touched])
        further = after > self._complete(self._ranks[touched] - counted)
        if not further.any():
            return
        touched, after = touched[further], after[further]
        order = np.argsort(after, kind="stable")
        touched, after = touched[order], after[order]
        values = [plain_values(column) for column in self._partitions.keys(touched)]
        bounds, starts = np.unique(after, return_index=True)
        for bound, start, stop in zip(
            bounds.tolist(), starts.tolist(), [*starts[1:].tolist(), len(after)], strict=True
        ):
            keys = zip(*(column[start:stop] for column in values), strict=True)
            usable = [key for key in keys if None not in key]
            # Ranks only rise, so this is new: it needs no place among the promises made.
            for promise in group_punctuation((self.partition, FROM), usable, bound):
                emit(promise)

    def _complete(self, ranks: Int64s) -> Int64s:
        distinct, which = np.unique(ranks, return_inverse=True)
        return np.array([self.window.complete(rank) for rank in distinct.tolist()], np.int64)[which]

    def _finish(self, punctuation: Punctuation) -> None:
        """Forget the counts of partitions that a promise says are over."""
        index = self._partitions
        if index is None or not set(punctuation.attributes) <= set(self.partition) or not len(index):
            return
        live = index.live()
        gone = np.ones(len(live), np.bool_)
        for name, pattern in punctuation.patterns:
            values = index.keys(live)[self.partition.index(name)]
            gone &= Page.of(Schema(pa.schema([pa.field(name, values.type)])), {name: values}).matching(
                Punctuation({name: pattern})
            )
        self._ranks[live[gone]] = 0
        index.free(live[gone])

    def _output(self, schema: Schema) -> Schema:
        if self._schema is None or self._schema[0] is not schema:
            self._schema = (schema, self.output_schema(schema))
        return self._schema[1]

    def _index(self, schema: Schema) -> KeyIndex:
        if self._partitions is None:
            self._partitions = KeyIndex([schema.field(name) for name in self.partition])
        return self._partitions

    def _forget(self) -> None:
        self._promised = Progress()
        self._ranks[:] = 0
        if self._partitions is not None:
            self._partitions = KeyIndex(self._partitions.fields)

    def statistics(self) -> dict[str, int]:
        partitions = 0 if self._partitions is None else len(self._partitions)
        return {**self._counts, "state_tuples": partitions}
