"""Window aggregates over a stream in order: panes on stacks, amortised or worst-case constant time a pane."""

from operators.window_aggregate.stores.stacks.aggregate import StackAggregate
from operators.window_aggregate.strategy import Technique

__all__ = ["StackAggregate", "Technique"]
