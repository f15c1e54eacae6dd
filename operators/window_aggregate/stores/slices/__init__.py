"""General stream slicing: any mix of concurrent windows over one attribute shares one set of slices."""

from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from operators.window_aggregate.stores.slices.portion import Portion

__all__ = ["Portion", "SlicingAggregate"]
