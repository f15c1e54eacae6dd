"""A window aggregate is split into a bucket, a low and a high level that answer as it does."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pyarrow as pa

from operators.chain import Chain
from operators.data.schema import Schema
from operators.functions import count
from operators.functions.protocol import AggregateFunction
from operators.window import PartitionedWindow, Window
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.partial_final.flush import CompleteFlush, Flush
from operators.window_aggregate.partial_final.high import HighAggregate
from operators.window_aggregate.partial_final.low import PROBES, TABLE, LowAggregate
from operators.window_aggregate.partial_final.partials import TUPLES, split_function
from operators.window_aggregate.stores.per_window.wid import Strategy


@attrs.frozen(eq=False)
class TwoLevel:
    """Three operators in a row; the seam, where another process may begin, is between low and high."""

    bucket: Bucket
    low: LowAggregate
    high: HighAggregate

    @property
    def lower(self) -> Chain:
        """Return the operators before the seam."""
        return Chain([self.bucket, self.low])

    @property
    def whole(self) -> Chain:
        """Return the chain of all three operators."""
        return Chain([self.bucket, self.low, self.high])


def two_level(
    window: Window,
    functions: Mapping[str, AggregateFunction],
    by: tuple[str, ...] = (),
    *,
    schema: Schema,
    size: int = TABLE,
    flush: Flush | None = None,
    probes: int = PROBES,
    page_rows: int = 1 << 13,
    consistent: bool = False,
    counted: bool = False,
    empty: bool = False,
    strategy: Strategy = "auto",
) -> TwoLevel:
    """Split a window aggregate over a stream of this schema; SchemaError says, in a sentence, why one has no parts.

    - `counted`: partial aggregates have the column `TUPLES`, too, which says how many tuples each stands for; the high
      level leaves it out.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import avg
    >>> from operators.data.page import Page
    >>> from operators.window import tumbling
    >>> from punctuation import END
    >>> schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    >>> both = two_level(tumbling("ts", 10), {"mean": avg("x")}, schema=schema)
    >>> rows(drive(both.whole, [Page.of(schema, {"ts": [1, 2], "x": [3, 4]}), END]))
    [{'mean': 3.5, 'wid': 0, 'window_start': 0, 'window_end': 10}]
    """
    for function in functions.values():
        split_function(function)
    # The name is longer than that of any result.
    low = {**functions, "|".join((TUPLES, *functions)): count()} if counted else functions
    times = pa.int64() if isinstance(window, PartitionedWindow) else schema.field(window.wattr, where="window").type
    both = TwoLevel(
        Bucket(window, consistent=consistent),
        LowAggregate(
            low, by, size=size, flush=CompleteFlush() if flush is None else flush,
            probes=probes, page_rows=page_rows,
        ),
        HighAggregate(window, functions, by, empty=empty, strategy=strategy, times=times),
    )  # fmt: skip
    both.whole.output_schema(schema)
    return both
