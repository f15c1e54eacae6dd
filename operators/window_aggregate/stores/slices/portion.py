"""Portion gives one query its own results of those that a slicing aggregate computes for several.

It undoes query fusion behind the operator: the rows of the query's windows, its functions under its names, and what the
query alone would promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.ticks import FAR
from operators.protocol import Emit
from operators.window import SlidingWindow
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.results import START, STOP, WID, WINDOW
from operators.window_aggregate.stores.slices.windows import Spec
from punctuation import END, Below, Pattern, Progress, Punctuation, before, below, whole


def _copied(names: Mapping[str, str]) -> Mapping[str, str]:
    return dict(names)


@attrs.define(eq=False)
class Portion(memory.Stateful):
    """Keep the results of some of the windows of a slicing aggregate, as if no others had been computed.

    Emits `columns`, `window` where the query has names for its windows, then wid, window_start and window_end.
    Pass: a result at once. Keep: nothing. Propagate: `[window_end < e]` as what it says of the own windows, so that
    wid, window_start and window_end are promised as without the others, where windows repeat; sessions and windows that
    say their edges themselves promise a window_start, and a session's wid, that is the least of all windows computed.
    Promises on single groups as promises on `by_group` of them.
    Cost: O(1) a result of any query. Source: Scotty (TODS 2021), Algorithm 2 and section 4.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count, sum
    >>> from operators.window_aggregate.stores.slices import SlicingAggregate
    >>> two = {"a": SlidingWindow("ts", size=10, slide=10), "b": SlidingWindow("ts", size=4, slide=4)}
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 12]})
    >>> together = drive(SlicingAggregate(two, {"n": count(), "total": sum("ts")}), [page, before("ts", 12)])
    >>> mine = drive(Portion({"a": two["a"]}, {"tuples": "n"}), together)
    >>> rows(mine), [str(promise) for promise in mine[1:]]  # doctest: +NORMALIZE_WHITESPACE
    ([{'tuples': 2, 'wid': 0, 'window_start': 0, 'window_end': 10}],
     ['[wid < 1]', '[window_start < 10]', '[window_end < 20]'])
    """

    windows: Mapping[str, Spec]
    """The own windows by what they are called in the input."""
    columns: Mapping[str, str] = attrs.field(converter=_copied)
    """What the input calls the grouping attributes and the functions' results, by the own name, in order."""
    labels: Mapping[str, str] = attrs.field(factory=dict, converter=_copied)
    """What the query calls its windows, by what the input calls them; none where there is one without a name."""
    by_group: Literal["wid", "window_end"] = attrs.field(default=STOP, kw_only=True)
    """On which attribute the ends of single groups are promised: as the query's own operator would."""
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())

    def __attrs_post_init__(self) -> None:
        if len(self.windows) != 1 and set(self.labels) != set(self.windows):
            raise SchemaError("portion: only names in `labels` tell the results of several windows apart.")

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        where = "portion"
        fields = [schema.field(old, where=where).with_name(new) for new, old in self.columns.items()]
        shown = [WINDOW] if self.labels else []
        fields += [schema.field(name, where=where) for name in (*shown, WID, START, STOP)]
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise == frozenset((STOP,)):
                progress += [frozenset((name,)) for name in (*([WID] if self._tells_ids else []), START, STOP)]
            elif promise <= {STOP, *self.columns} and self._kept(promise):
                progress.append(frozenset(self.by_group if name == STOP else name for name in promise))
        return Schema(pa.schema(fields), progress=progress)

    @property
    def _repeating(self) -> list[SlidingWindow | FixedBandWindow]:
        """Return the own windows, if all of them tell by their number where they are; else none."""
        found = [w for w in self.windows.values() if isinstance(w, SlidingWindow | FixedBandWindow)]
        return found if len(found) == len(self.windows) else []

    @property
    def _tells_ids(self) -> bool:
        """Return whether promises are made on window-ids, which one window alone has."""
        if self.labels:
            return False
        return bool(self._repeating) or all(isinstance(w, SessionWindow) for w in self.windows.values())

    def _kept(self, names: frozenset[str]) -> bool:
        return all(name == STOP or self.columns.get(name) == name for name in names)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        if self._fitted is None or self._fitted[0] is not page.schema:
            self._fitted = page.schema, self.output_schema(page.schema)
        schema = self._fitted[1]
        called = page.column(WINDOW)
        if len(self.windows) == 1:
            chosen = pc.equal(called, next(iter(self.windows)))
        else:
            chosen = pc.is_in(called, value_set=pa.array(list(self.windows), pa.string()))
        count = chosen.true_count
        if count == 0:
            return
        columns = [page.column(old) for old in self.columns.values()]
        if self.labels:
            columns.append(self._named(called))
        columns += [page.column(name) for name in (WID, START, STOP)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
        if count < len(page):
            # The results of one window stand together.
            first = pc.index(chosen, True).as_py()
            together = chosen.slice(first, count).true_count == count
            batch = batch.slice(first, count) if together else batch.filter(chosen)
        emit(Page(schema, batch))

    def _named(self, called: pa.Array) -> pa.Array:
        """Return the own names of windows, null for those of others."""
        which = pc.index_in(called, value_set=pa.array(list(self.labels), pa.string()))
        return pa.array(list(self.labels.values()), pa.string()).take(which)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._promised = Progress()
            emit(END)
            return
        for promise in self._own(punctuation):
            if self._promised.advance(promise):
                emit(promise)

    def _own(self, punctuation: Punctuation) -> Iterator[Punctuation]:
        """Yield what a promise on the results of all says of the own ones."""
        patterns: dict[str, Pattern] = dict(punctuation.patterns)
        if not self._kept(frozenset(patterns)):
            bound = whole(punctuation.bound(START))
            if bound is not None and not self._repeating:
                for name in (WID, START) if self._tells_ids else (START,):
                    yield before(name, bound, assumed=punctuation.assumed)
            return
        if STOP not in patterns:
            yield punctuation
            return
        end = whole(below(patterns.pop(STOP)))
        if end is None:
            return
        if not patterns:
            yield from self._linear(end, punctuation.assumed)
            return
        bound = self._following(self._repeating[0], end) if self.by_group == WID else end
        yield Punctuation({**patterns, self.by_group: Below(bound)}, assumed=punctuation.assumed)

    def _linear(self, end: int, assumed: bool) -> Iterator[Punctuation]:
        """Promise that no result ends before a tick: the first of the own windows that does not is next."""
        repeating = self._repeating
        if not repeating:
            yield before(STOP, end, assumed=assumed)
            return
        wids = [self._following(window, end) for window in repeating]
        ends = [_origin(window) + (wid + 1) * _slide(window) for window, wid in zip(repeating, wids, strict=True)]
        begins = [end - window.size for window, end in zip(repeating, ends, strict=True)]
        promised = {WID: wids[0]} if self._tells_ids else {}
        for name, value in (promised | {START: min(begins), STOP: min(ends)}).items():
            if abs(value) < FAR:
                yield before(name, value, assumed=assumed)

    def _following(self, window: SlidingWindow | FixedBandWindow, end: int) -> int:
        """Return the first window-id whose window ends at a tick or after it."""
        least = window.least if isinstance(window, SlidingWindow) else 0
        return max(-((_origin(window) - end) // _slide(window)) - 1, least)


def _origin(window: SlidingWindow | FixedBandWindow) -> int:
    return window.origin if isinstance(window, SlidingWindow) else window.start


def _slide(window: SlidingWindow | FixedBandWindow) -> int:
    return window.slide if isinstance(window, SlidingWindow) else window.size
