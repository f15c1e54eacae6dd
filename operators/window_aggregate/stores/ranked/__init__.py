"""Windows that the tuples define: slide by tuple or n tuples; n or the last n tuples; by predicates."""

from operators.window_aggregate.stores.ranked.choose import RankedAggregate, RankedWindow, ranked_aggregate
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.last import LastAggregate
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from operators.window_aggregate.stores.ranked.slide import SlideAggregate

__all__ = [
    "CountAggregate",
    "LastAggregate",
    "PredicateAggregate",
    "RankedAggregate",
    "RankedWindow",
    "SlideAggregate",
    "ranked_aggregate",
]
