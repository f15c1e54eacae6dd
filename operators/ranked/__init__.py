"""Windows that the tuples define: slide by tuple, by n tuples on arrival or by rank; n tuples; the last n tuples."""

from operators.ranked.choose import RankedAggregate, RankedWindow, ranked_aggregate
from operators.ranked.counted import CountAggregate
from operators.ranked.last import LastAggregate
from operators.ranked.slide import SlideAggregate

__all__ = [
    "CountAggregate",
    "LastAggregate",
    "RankedAggregate",
    "RankedWindow",
    "SlideAggregate",
    "ranked_aggregate",
]
