"""Windows that the tuples define: slide by tuple, by n tuples on arrival or by rank; n tuples; the last n tuples."""

from operators.window_aggregate.stores.ranked.choose import RankedAggregate, RankedWindow, ranked_aggregate
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.last import LastAggregate
from operators.window_aggregate.stores.ranked.slide import SlideAggregate

__all__ = [
    "CountAggregate",
    "LastAggregate",
    "RankedAggregate",
    "RankedWindow",
    "SlideAggregate",
    "ranked_aggregate",
]
