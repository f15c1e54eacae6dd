"""Buffering keeps the tuples of a window until it is complete, and aggregates them only then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from operators.aggregate import facts
from operators.buffering.log import TupleLog, attributes
from operators.buffering.mixed import LAZY, MixedStore
from operators.buffering.objects import Objects
from operators.buffering.panes import PaneBuffer, refuse_arrival
from operators.buffering.windowed import Windowed, WindowStore
from operators.errors import SchemaError
from operators.functions.ordered import by_arrival, ordered
from operators.functions.protocol import Accumulator, AggregateFunction
from operators.overflow import Overflow
from operators.page import Page
from operators.protocol import Emit, State, StateValue
from operators.schema import Schema
from operators.window import Window
from punctuation import Punctuation


@attrs.define
class BufferAggregate:
    """Aggregate the tuples of each window and group by keeping them; the input is a Bucket's output.

    Emits what a WindowAggregate emits. Of a tuple only the attributes that the functions read are kept (and the
    windowing attribute, when a function goes by its order), of its group an id. With `panes`, a pane's tuples are kept
    until the pane is complete and aggregated once; windows are then combined of panes.
    Pass: the results of a window on the promise that completes it. Keep: the tuples of open windows (of incomplete
    panes, and one partial aggregate a pane and group). Propagate: as WindowAggregate does.
    Cost: O(1) a tuple; the release of a window O(its tuples), with panes O(its panes' groups) and once O(tuples).
    Source: the buffering implementation of thesis 3.1 and 6.1.3.3 (lazy aggregation of 6.3), with punctuation in the
    place of slack; panes as in 6.2.

    >>> from operators.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> from punctuation import before
    >>> import pyarrow as pa
    >>> window = SlidingWindow("ts", size=10, slide=5)
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 12]})
    >>> operator = BufferAggregate(window, {"count": count()})
    >>> rows(drive(operator, drive(Bucket(window), [page, before("ts", 10)])))  # doctest: +NORMALIZE_WHITESPACE
    [{'count': 1, 'wid': 0, 'window_start': -5, 'window_end': 5},
     {'count': 2, 'wid': 1, 'window_start': 0, 'window_end': 10}]
    >>> operator.statistics()["state_tuples"]
    2
    """

    window: Window
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    panes: bool = attrs.field(default=False, kw_only=True)
    _windowed: Windowed = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._windowed = Windowed(self.window, self.functions, self.by, self._make)

    attributes_read = facts.attributes_read
    promises_asked = facts.promises_asked
    together = facts.together

    @property
    def inputs(self) -> int:
        return 1

    @property
    def overflow(self) -> Overflow:
        """What becomes of results that do not fit their type."""
        return self._windowed.overflow

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        if self.panes:
            refuse_arrival(self.functions, "panes=True")
            if self._windowed.endless:
                raise SchemaError(
                    "aggregate(panes=True): a window of RANGE ALL has one pane that is never complete.\n"
                    "  Leave out panes=True, or use a WindowAggregate."
                )
        return self._windowed.output_schema(schema)

    def _make(self, schema: Schema, accumulators: Sequence[Accumulator]) -> WindowStore:
        names, wattr = attributes(self.functions, schema), self.window.wattr
        if self.panes:
            return PaneBuffer(accumulators, TupleLog(schema, names))
        arriving = by_arrival(self.window)
        in_order = [ordered(function) and not arriving for function in self.functions.values()]
        if any(in_order):
            names = tuple(dict.fromkeys((*names, wattr)))
        return MixedStore(Objects(accumulators, TupleLog(schema, names)), LAZY, ordered=in_order, wattr=wattr)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        store = self._windowed.bind(page.schema)
        first, last, groups, capacity = self._windowed.arrive(page)
        if isinstance(store, PaneBuffer):
            store.update(page, first, last, groups, capacity)
        elif isinstance(store, MixedStore):
            none = np.zeros(len(page), np.int64)
            store.update(page, first, last, groups, capacity, none, none.astype(np.int32))
        self._windowed.arrived(first, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._windowed.punctuate(punctuation, emit)

    def statistics(self) -> dict[str, int]:
        found, store = self._windowed.statistics(), self._windowed.store
        if isinstance(store, PaneBuffer):
            found["buffered"] = store.buffered
        elif isinstance(store, MixedStore):
            found["buffered"] = store.objects.buffered
        return found

    def state(self) -> State:
        return self._windowed.state()

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self._windowed.restore(state)
