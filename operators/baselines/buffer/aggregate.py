"""Buffering keeps the tuples of a window until it is complete, and aggregates them only then."""

from __future__ import annotations

import attrs

from operators.baselines.buffer.log import TupleLog, attributes
from operators.baselines.buffer.mixed import LAZY, MixedStore
from operators.baselines.buffer.objects import Objects
from operators.baselines.buffer.panes import PaneBuffer, refuse_arrival
from operators.baselines.buffer.windowed import Buffering
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.ordered import by_arrival, ordered


@attrs.define(on_setattr=attrs.setters.NO_OP)
class BufferAggregate(Buffering[PaneBuffer | MixedStore]):
    """Aggregate the tuples of each window and group by keeping them; the input is a Bucket's output.

    Emits what a WindowAggregate emits. Of a tuple only the attributes that the functions read are kept (and the
    windowing attribute, when a function goes by its order), of its group an id. With `panes`, a pane's tuples are kept
    until the pane is complete and aggregated once; windows are then combined of panes.
    Pass: the results of a window on the promise that completes it. Keep: the tuples of open windows (of incomplete
    panes, and one partial aggregate a pane and group). Propagate: as WindowAggregate does.
    Cost: O(1) a tuple; the release of a window O(its tuples), with panes O(its panes' groups) and once O(tuples).
    Source: the buffering implementation of thesis 3.1 and 6.1.3.3 (lazy aggregation of 6.3), with punctuation in the
    place of slack; panes as in 6.2.

    >>> from operators.window_aggregate.bucket import Bucket
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

    panes: bool = attrs.field(default=False, kw_only=True)

    def results_schema(self, schema: Schema) -> Schema:
        if self.panes:
            refuse_arrival(self.functions, "panes=True")
            if self.endless:
                raise SchemaError(
                    "aggregate(panes=True): a window of RANGE ALL has one pane that is never complete.\n"
                    "  Leave out panes=True, or use a WindowAggregate."
                )
        return super().results_schema(schema)

    def _make(self, schema: Schema) -> PaneBuffer | MixedStore:
        names, wattr = attributes(self.functions, schema), self.window.wattr
        accumulators = self._accumulators(schema)
        if self.panes:
            return PaneBuffer(accumulators, TupleLog(schema, names))
        arriving = by_arrival(self.window)
        in_order = [ordered(function) and not arriving for function in self.functions.values()]
        if any(in_order):
            names = tuple(dict.fromkeys((*names, wattr)))
        return MixedStore(Objects(accumulators, TupleLog(schema, names)), LAZY, ordered=in_order, wattr=wattr)

    def statistics(self) -> dict[str, int]:
        return super().statistics() | ({} if self._store is None else {"buffered": self._store.buffered})
