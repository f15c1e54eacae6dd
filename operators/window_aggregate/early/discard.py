"""Late tuples become results of their own, so that the results of a window add up to the whole: DISCARD and lateness.

A window is given once when it is complete. Tuples that come to it later, within the lateness, are aggregated by
themselves, and given at the next promise as one more result of the window: with `revision` 1, 2 and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.changes import same_tuples
from operators.data.page import Bools, Int64s, Page, concatenate, tick_column
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.kernels.ticks import BEFORE_ALL
from operators.pace import Paces
from operators.plan_facts import ANY_DISTANCE, Attributes, Together, Tolerance
from operators.protocol import Element, Emit
from operators.retractions import refused
from operators.streams.named_groups import within
from operators.window import SlidingWindow
from operators.window_aggregate.results import REVISION, STOP, WID, WINDOW
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from punctuation import END, Punctuation

_COUNTS: Final = ("late", "late_for_some", "late_results", "peak_state_tuples", "peak_state_bytes")


@attrs.define(eq=False)
class DiscardLate(memory.Stateful):
    """Aggregate sliding windows, and by themselves the tuples that come to a window up to `lateness` after its end.

    Emits what a SlicingAggregate with that lateness emits. A result with `revision` 0 is over the tuples that came in
    time, each later one over those that came late since the last promise.
    Pass: a window on the promise that completes it; what came late on the next promise. Keep: what a SlicingAggregate
    keeps of open windows, the late tuples since the last promise, and of each window that late tuples may still come to
    how often it was given again. Propagate: promises on windows, behind by the lateness.
    Cost: that of a SlicingAggregate, and the same again for the late tuples of a promise.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64(), progress=["ts"])
    >>> operator = DiscardLate({"": SlidingWindow("ts", size=10, slide=10)}, {"n": count()}, lateness=20)
    >>> pages = [Page.of(schema, {"ts": ticks}) for ticks in ([3, 12], [4, 5])]
    >>> found = rows(drive(operator, [pages[0], before("ts", 10), pages[1], END]))
    >>> [(row["wid"], row["n"], row["revision"]) for row in found]
    [(0, 1, 0), (0, 2, 1), (1, 1, 0)]
    """

    windows: Mapping[str, SlidingWindow]
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    lateness: int = attrs.field(kw_only=True)
    named: bool = attrs.field(default=attrs.Factory(lambda self: len(self.windows) > 1, takes_self=True), kw_only=True)
    _timely: SlicingAggregate = attrs.field(init=False, metadata=memory.part(name="timely"))
    """It aggregates what comes in time; nobody hears its promises."""
    _promising: SlicingAggregate = attrs.field(init=False, metadata=memory.part(name="promising"))
    """It makes the promises, for it hears those of the input and has no tuple."""
    _input: Schema | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind"))
    _output: Schema | None = attrs.field(init=False, default=None)
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _late: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("late"))
    """The tuples that came late since the last promise."""
    _again: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("again"))
    """The results over late tuples, by what tells their windows."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    def __attrs_post_init__(self) -> None:
        self._timely = self._aggregate()
        self._promising = attrs.evolve(self._timely, lateness=self.lateness)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    @property
    def wattr(self) -> str:
        """Return the windowing attribute of all windows."""
        return self._timely.wattr

    def output_schema(self, *inputs: Schema) -> Schema:
        return self._promising.output_schema(*inputs)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [frozenset(names) for names in self._timely.attributes_read(wanted - {REVISION}, *inputs)]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return self._promising.promises_asked(wanted, *inputs)

    def together(self, *inputs: Schema) -> Together:
        return self._promising.together(*inputs)

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        if attribute != self.wattr:
            return Tolerance()
        return Tolerance(ANY_DISTANCE if melded else self.lateness + max(w.size for w in self.windows.values()))

    def open_windows(self, most: int = 1000) -> Page:
        return self._timely.open_windows(most)

    def closed_by(self, wid: int, window: str | None = None) -> Punctuation:
        return self._timely.closed_by(wid, window)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        if not len(page):
            return
        ticks, valid = page.timed(self.wattr)
        open_, late, lost = self._parted(ticks)
        if valid is not None:
            open_, late, lost = open_ | ~valid, late & valid, lost & valid
        self._counts["late"] += int(np.count_nonzero(lost & ~(open_ | late)))
        self._counts["late_for_some"] += int(np.count_nonzero(lost & (open_ | late)))
        if open_.any():
            self._timely.process(page if open_.all() else page.select(open_), self._in_time(emit))
        if late.any():
            self._late.append(page if late.all() else page.select(late))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        linear = None if punctuation.is_end else punctuation.bound(self.wattr)
        bound = None if linear is None else within(linear)
        if punctuation.is_end or isinstance(bound, int):
            self._measure()
            self._give_late(emit)
            self._timely.punctuate(punctuation, self._in_time(emit))
        if isinstance(bound, int) and bound > self._bound:
            self._bound = bound
        if punctuation.is_end:
            self._again = []
        elif self._again:
            held = self._again[0]
            self._again = [some] if len(some := held.select(held.ticks(STOP) > self._settled)) else []
        if punctuation.is_end or isinstance(bound, int):
            self._promising.punctuate(punctuation, emit)

    def statistics(self) -> dict[str, int]:
        self._measure()
        told = self._timely.statistics()
        tuples, nbytes = self._size()
        return told | self._counts | {"state_tuples": tuples, "state_bytes": nbytes}

    @property
    def _settled(self) -> int:
        return self._bound if self._bound == BEFORE_ALL else self._bound - self.lateness

    def _size(self) -> tuple[int, int]:
        held = sum(map(len, (*self._late, *self._again)))
        return held + self._timely.statistics()["state_tuples"], self.nbytes

    def _measure(self) -> None:
        for name, now in zip(("peak_state_tuples", "peak_state_bytes"), self._size(), strict=True):
            self._counts[name] = max(self._counts[name], now)

    def _bind(self, schema: Schema) -> None:
        self._input, self._output = schema, self.output_schema(schema)

    def _aggregate(self) -> SlicingAggregate:
        return SlicingAggregate(self.windows, self.functions, self.by, named=self.named)

    def _parted(self, ticks: Int64s) -> tuple[Bools, Bools, Bools]:
        """Return which tuples are in a window that is open, in one that is not settled, and in one that is."""
        if self._bound == BEFORE_ALL or not (ticks < self._bound).any():
            none = np.zeros(len(ticks), np.bool_)
            return ~none, none, none
        nowhere, (open_, late, lost) = np.ones(len(ticks), np.bool_), np.zeros((3, len(ticks)), np.bool_)
        for window in self.windows.values():
            first, until = window.wids(ticks)
            last = until - 1
            inside = first <= last
            nowhere &= ~inside
            begun, ended = window.extents(first)[1], window.extents(last)[1]
            open_ |= inside & (ended > self._bound)
            lost |= inside & (begun <= self._settled)
            # One of its windows may be over and not settled, though the first is and the last is open.
            over = np.minimum(window.complete(self._bound) - 1, last)
            late |= inside & (over >= first) & (window.extents(over)[1] > self._settled)
        return open_ | nowhere, late, lost

    def _in_time(self, emit: Emit) -> Emit:
        """Return what emits results over tuples in time with their revision, and no promise."""

        def given(element: Element) -> None:
            if isinstance(element, Page):
                emit(self._numbered(element, np.zeros(len(element), np.int64)))

        return given

    def _numbered(self, page: Page, numbers: Int64s) -> Page:
        assert self._output is not None
        columns = [*page.batch.columns, tick_column(numbers)]
        return Page(self._output, pa.RecordBatch.from_arrays(columns, schema=self._output.arrow))

    def _give_late(self, emit: Emit) -> None:
        """Emit results over the tuples that came late since the last promise."""
        if not self._late:
            return
        late, found = self._aggregate(), list[Page]()
        for page in self._late:
            late.process(page, lambda element: None)
        self._late = []
        late.punctuate(END, lambda element: found.append(element) if isinstance(element, Page) else None)
        for page in found:
            ends = page.ticks(STOP)
            due = page.select((ends <= self._bound) & (ends > self._settled))
            if len(due):
                emit(self._numbered(due, self._revisions(due)))
                self._counts["late_results"] += len(due)

    def _revisions(self, page: Page) -> Int64s:
        """Return how often each window of these was given late, with this time, for its group."""
        names = [*self.by, *([WINDOW] if self.named else []), WID, STOP]
        batch = page.batch.select(names)
        new = Page(page.schema.onto(batch.schema, {name: name for name in names}), batch)
        held = self._again[0] if self._again else None
        both = new if held is None else concatenate(held.schema, [held, Page(held.schema, batch)])
        same = same_tuples([both.column(name) for name in names], len(both))
        self._again = [both]
        return np.bincount(same)[same[len(both) - len(new) :]].astype(np.int64)
