"""The high level rolls partial aggregates up: a window aggregate whose tuples are those of the low level."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.data.steps import bounds_type, from_ticks, held_as_ticks
from operators.functions.protocol import AggregateFunction
from operators.overflow import Overflow
from operators.protocol import Element, Emit
from operators.retractions import refused
from operators.window import LandmarkWindow, SlidingWindow, Window
from operators.window_aggregate import facts
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.partial_final.partials import merged
from operators.window_aggregate.shell import SHOWN
from operators.window_aggregate.stores.per_window.wid import START, STOP, Strategy, WindowAggregate
from punctuation import Punctuation


@attrs.define
class HighAggregate(memory.Stateful):
    """Compute the results of each window and group from partial aggregates of slices, each in any number of parts.

    Emits what `WindowAggregate(window, functions, by)` emits over the tuples themselves, and keeps, passes and
    propagates what it does: the results of a window on the promise `[wid_from < w]` that completes it.
    Cost: that of a WindowAggregate over as many tuples as there are partial aggregates.
    Source: thesis 8.3.3 (a count query is split into a low-level count and a high-level sum).

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import tumbling
    >>> from punctuation import END
    >>> schema = Schema.of(**{"*:count": pa.int64(), "wid_from": pa.int64(), "wid_until": pa.int64()})
    >>> page = Page.of_rows(schema, [(2, 0, 1), (3, 0, 1)])
    >>> rows(drive(HighAggregate(tumbling("ts", 10), {"n": count()}), [page, END]))
    [{'n': 5, 'wid': 0, 'window_start': 0, 'window_end': 10}]
    """

    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    empty: bool = attrs.field(default=False, kw_only=True)
    strategy: Strategy = attrs.field(default="auto", kw_only=True)
    times: pa.DataType = attrs.field(factory=pa.int64, kw_only=True)
    """The type of the windowing attribute, which partial aggregates do not have: that of window_start, window_end."""
    _inner: WindowAggregate = attrs.field(init=False, metadata=memory.part(beside=True))
    _output: Schema | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        window = self.window
        if isinstance(window, SlidingWindow | LandmarkWindow):
            window = attrs.evolve(window, wattr=FROM)
        functions = merged(self.functions)
        self._inner = WindowAggregate(window, functions, self.by, empty=self.empty, strategy=self.strategy)

    attributes_read = facts.attributes_read
    promises_asked = facts.promises_asked
    order_wanted = facts.order_wanted
    together = facts.together
    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    @property
    def overflow(self) -> Overflow:
        """Return the policy for results that do not fit their type."""
        return self._inner.overflow

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self._inner.output_schema(*inputs)
        return self._timed_schema(schema) if held_as_ticks(self.times) else schema

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._inner.process(page, self._timed(emit))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._inner.punctuate(punctuation, self._timed(emit))

    def open_windows(self, most: int = SHOWN) -> Page:
        """Return the windows of which partial aggregates came and that were not released, the earliest first.

        The attributes are those of the results without the functions; there are at most so many tuples.
        """
        page = self._inner.open_windows(most)
        return self._with_times(page, self._timed_schema(page.schema)) if held_as_ticks(self.times) else page

    def closed_by(self, wid: int) -> Punctuation:
        """Return the least promise on the input that completes a window."""
        return self._inner.closed_by(wid)

    def _timed(self, emit: Emit) -> Emit:
        """Return what emits pages with times of the right type."""
        if not held_as_ticks(self.times):
            return emit

        def timed(element: Element) -> None:
            if isinstance(element, Page):
                if self._output is None:
                    self._output = self._timed_schema(element.schema)
                element = self._with_times(element, self._output)
            emit(element)

        return timed

    def _timed_schema(self, schema: Schema) -> Schema:
        times = bounds_type(self.times)
        fields = [field.with_type(times) if field.name in (START, STOP) else field for field in schema.arrow]
        return Schema(pa.schema(fields), progress=schema.progress)

    def _with_times(self, page: Page, schema: Schema) -> Page:
        columns = list(page.batch.columns)
        for place in (len(columns) - 2, len(columns) - 1):
            columns[place] = from_ticks(columns[place], bounds_type(self.times))
        return Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))

    def statistics(self) -> dict[str, int]:
        return self._inner.statistics()
