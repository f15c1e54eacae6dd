"""General stream slicing: any mix of concurrent windows over one attribute shares one set of slices."""

from operators.slicing.aggregate import SlicingAggregate

__all__ = ["SlicingAggregate"]
