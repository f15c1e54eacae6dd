"""Windows without a tuple fire too: a result of no tuple is put where a window that might have one has none."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL, FAR, FOREVER
from operators.protocol import Emit
from operators.retractions import as_it_is
from operators.window import SlidingWindow
from operators.window_aggregate.early.firing import FINAL, FIRED
from operators.window_aggregate.results import START, STOP, WID, WINDOW
from punctuation import END, Progress, Punctuation


@attrs.define(eq=False)
class FillEmpty(memory.Stateful):
    """Pass early and final results on, and add those of no tuple between the first and the last window with one.

    The input is what Fire gives for one sliding window without groups. Of each window up to the last one that has a
    result, there is one at each tick at which it fires, from the tick of the first of all results on.
    Pass: a result at once; one of no tuple on the promise of its tick, or with the first result of a later window, if
    that is later. Keep: the windows and firings of the results since the last promise, and four numbers. Propagate:
    promises on windows, their begins, ends and firings, at most up to the window behind the last one that has a result.
    Cost: O(1) a result, given or added.

    >>> from operators.chain import Chain
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window_aggregate.early.firing import Fire, Part
    >>> from operators.window_aggregate.stores.slices import SlicingAggregate
    >>> schema, window = Schema.of(ts=pa.int64(), progress=["ts"]), SlidingWindow("ts", size=4, slide=4)
    >>> parts = {"two": SlidingWindow("ts", size=2, slide=4, origin=-2), "all": window}
    >>> made = SlicingAggregate(parts, {"n": count()})
    >>> fire = Fire({"two": Part("", 2, 4), "all": Part("", 4, 4)}, named=False)
    >>> fill = FillEmpty(window, (2, 4), {"n": count()}, schema)
    >>> found = rows(drive(Chain([made, fire, fill]), [Page.of(schema, {"ts": [3, 12]}), END]))
    >>> sorted((row["fired"], row["n"]) for row in found)
    [(4, 1), (6, 0), (8, 0), (10, 0), (12, 0), (14, 1), (16, 1)]
    """

    window: SlidingWindow
    after: tuple[int, ...] = attrs.field(converter=lambda ticks: tuple(sorted(ticks)))
    """So many ticks behind its begin a window fires; the last is its length."""
    functions: Mapping[str, AggregateFunction]
    over: Schema
    """The schema of the tuples in the windows."""
    name: str = ""
    """The name of the window, for results that bear it."""
    _first: int = attrs.field(init=False, default=FOREVER, metadata=memory.integer(name="first"))
    """The tick of the first result."""
    _last: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(name="last"))
    """The last window that has a result."""
    _filled: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(name="filled"))
    """All results are given of windows up to this one that fire before `_until`."""
    _until: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(name="until"))
    _given: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("given"))
    """The results since the last promise."""
    _output: Schema | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind"))
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _counts: dict[str, int] = attrs.field(init=False, factory=lambda: {"empty_results": 0}, metadata=memory.counters())

    retracted = as_it_is

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (WID, START, STOP, FIRED, FINAL, *self.functions):
            schema.field(name, where="early results")
        # Others do not follow from what is promised of firings.
        kept = (START, STOP, FIRED) if frozenset((FIRED,)) in schema.progress else ()
        return schema.with_progress(name for name in kept if frozenset((name,)) in schema.progress)

    def _bind(self, schema: Schema) -> None:
        self._output = schema

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._output is None:
            self._bind(self.output_schema(page.schema))
        if len(page):
            self._given.append(page)
            emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._fill(FOREVER, emit)
            self._promised = Progress()
            emit(END)
            return
        bound = punctuation.bound(FIRED)
        if not isinstance(bound, int):
            return
        self._fill(bound, emit)
        # A later result fires at the bound or later, or is of a window behind the last one that has a result.
        begin = end = fires = FOREVER
        if self._last != BEFORE_ALL:
            begin, end = self.window.extent(self._last + 1)
            fires = begin + self.after[0]
        bounds = ((START, min(bound - self.window.size, begin)), (FIRED, min(bound, fires)), (STOP, min(bound, end)))
        for name, least in bounds:
            if -FAR < least < FAR:
                promise = self._promised.rise(name, least, assumed=punctuation.assumed)
                if promise is not None:
                    emit(promise)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": sum(map(len, self._given)), "state_bytes": self.nbytes, **self._counts}

    def _fill(self, until: int, emit: Emit) -> None:
        """Add the results of no tuple that fire before a tick, of windows up to the last one that has a result."""
        given, self._given = self._given, []
        wids = np.concatenate([np.empty(0, np.int64), *(page.ticks(WID) for page in given)])
        fired = np.concatenate([np.empty(0, np.int64), *(page.ticks(FIRED) for page in given)])
        if len(wids):
            self._first = min(self._first, int(fired.min()))
            self._last = max(self._last, int(wids.max()))
        if self._last != BEFORE_ALL:
            window = self.window
            # Windows that ended before have fired all the same, if others behind them had a result by then.
            again = min(window.complete(self._until) - 1, self._filled + 1)
            low, rows = max(window.complete(self._first) - 1, again, window.least), max(1, ROWS // len(self.after))
            for begin in range(low, self._last + 1, rows):
                self._add(np.arange(begin, min(begin + rows, self._last + 1)), until, wids, fired, emit)
            self._filled = self._last
        self._until = max(self._until, until)

    def _add(self, windows: Int64s, until: int, wids: Int64s, fired: Int64s, emit: Emit) -> None:
        """Add what is missing of some windows, ascending and without a gap: `wids` have results `fired` just now."""
        begins, ends = self.window.extents(windows)
        after = np.array(self.after, np.int64)
        ticks = begins[:, None] + after
        missing = (ticks < until) & (ticks >= self._first)
        missing &= (windows[:, None] > self._filled) | (ticks >= self._until)
        here = (wids >= windows[0]) & (wids <= windows[-1])
        rows = wids[here] - windows[0]
        missing[rows, np.searchsorted(after, fired[here] - begins[rows])] = False
        which, parts = np.nonzero(missing)
        if not len(which):
            return
        output = self._output
        assert output is not None
        kind = output.arrow.field(STOP).type
        made: dict[str, pa.Array] = {
            WID: pa.array(windows[which]),
            START: tick_column(begins[which], kind),
            STOP: tick_column(ends[which], kind),
            FIRED: tick_column(ticks[which, parts], kind),
            FINAL: pa.array(parts == len(after) - 1),
        }
        none = np.zeros(len(which), np.int32)
        if WINDOW in output:
            made[WINDOW] = pa.array([self.name]).take(pa.array(none))
        for name, accumulator in zip(self.functions, accumulators(self.functions.values(), self.over), strict=True):
            accumulator.reserve(1)
            accumulator.init(none[:1])
            made[name] = accumulator.finalize(none[:1]).take(pa.array(none))
        self._counts["empty_results"] += len(which)
        columns = [made[name] for name in output.names]
        emit(Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow)))
