"""General stream slicing: any mix of concurrent windows over one attribute shares one set of slices."""

from operators.slicing.aggregate import SlicingAggregate
from operators.slicing.portion import Portion

__all__ = ["Portion", "SlicingAggregate"]
