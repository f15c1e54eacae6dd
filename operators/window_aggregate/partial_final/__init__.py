"""Low/high aggregation: a table of fixed size makes partial aggregates, a window aggregate rolls them up.

`two_level(window, functions, by)` splits a window aggregate into three operators in a row, which answer as it does:

    Bucket -> LowAggregate -> HighAggregate

LowAggregate has one input, the output of a Bucket. Its pages carry partial aggregates: the grouping attributes, columns
of partial values (named "length:sum" and the like), wid_from and wid_until; its promises are `[wid_from < w]` and, but
for the in-order flush, those on grouping attributes. HighAggregate has one input of that form and gives what
`WindowAggregate(window, functions, by)` gives over the Bucket's output. All three are ordinary operators with `state`
and `restore`. Partial aggregates are a stream like any other: they may be written down, sent elsewhere, and those of
several LowAggregates (over parts of one stream, each with a Bucket of its own) may be melded in front of one
HighAggregate, whose answer is then that over all of it.

A flush decides what leaves the table, and when: `CompleteFlush`, `InOrderFlush`, `SlowFlush`, `LazyFlush`. The totals
are exact under each and for any size of the table; what differs is how many partial aggregates there are, and when they
leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.lazy import loader

if TYPE_CHECKING:
    from operators.window_aggregate.partial_final.flush import CompleteFlush, Flush, InOrderFlush, LazyFlush, SlowFlush
    from operators.window_aggregate.partial_final.high import HighAggregate
    from operators.window_aggregate.partial_final.low import LowAggregate
    from operators.window_aggregate.partial_final.split import TwoLevel, two_level

__all__ = [
    "CompleteFlush",
    "Flush",
    "HighAggregate",
    "InOrderFlush",
    "LazyFlush",
    "LowAggregate",
    "SlowFlush",
    "TwoLevel",
    "two_level",
]

__getattr__ = loader(
    __name__,
    {
        "flush": "CompleteFlush Flush InOrderFlush LazyFlush SlowFlush",
        "high": "HighAggregate",
        "low": "LowAggregate",
        "split": "TwoLevel two_level",
    },
)
