"""General stream slicing: any mix of concurrent windows over one attribute shares one set of slices.

Its modules are imported when a plan first needs slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.lazy import loader

if TYPE_CHECKING:
    from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
    from operators.window_aggregate.stores.slices.portion import Portion

__getattr__ = loader(__name__, {"aggregate": "SlicingAggregate", "portion": "Portion"})
__all__ = ["Portion", "SlicingAggregate"]
