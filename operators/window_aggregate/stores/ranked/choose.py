"""Each specification of windows that tuples define has one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from operators.functions.protocol import AggregateFunction
from operators.window.counted import CountWindow, LastTuples, SlideWindow
from operators.window.predicate import PredicateWindow
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.last import LastAggregate
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from operators.window_aggregate.stores.ranked.slide import SlideAggregate

RankedWindow: TypeAlias = SlideWindow | CountWindow | LastTuples | PredicateWindow
RankedAggregate: TypeAlias = SlideAggregate | CountAggregate | LastAggregate | PredicateAggregate


def ranked_aggregate(
    window: RankedWindow,
    functions: Mapping[str, AggregateFunction],
    by: Sequence[str] = (),
    *,
    partition: Sequence[str] | None = None,
    consistent: bool = False,
) -> RankedAggregate:
    """Make the operator that aggregates the windows of a specification; its input is the stream, without a Bucket.

    Each partition has its own windows: each group, unless `partition` names fewer attributes; none of them for the
    windows of the whole stream. `consistent`: as `SlideAggregate` takes it, for windows that slide.
    """
    own = None if partition is None else tuple(partition)
    if isinstance(window, CountWindow):
        return CountAggregate(window, functions, by, partition=own)
    if isinstance(window, LastTuples):
        return LastAggregate(window, functions, by, partition=own)
    if isinstance(window, PredicateWindow):
        return PredicateAggregate(window, functions, by, partition=own)
    return SlideAggregate(window, functions, by, partition=own, consistent=consistent)
