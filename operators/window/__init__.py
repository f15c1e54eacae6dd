"""Window specifications: `extent()`, `wids()` and `windows()` of every family."""

from operators.kernels.ticks import FOREVER, LIMIT
from operators.window.protocol import Window
from operators.window.sliding import LandmarkWindow, PartitionedWindow, SlidingWindow, tumbling

__all__ = ["FOREVER", "LIMIT", "LandmarkWindow", "PartitionedWindow", "SlidingWindow", "Window", "tumbling"]
