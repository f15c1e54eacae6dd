"""Window specifications: `extent()`, `wids()` and `windows()` of every family."""

from operators.kernels.ticks import FOREVER, LIMIT
from operators.window.protocol import MadeOf, Window, made_of
from operators.window.sliding import LandmarkWindow, PartitionedWindow, SlidingWindow, tumbling

__all__ = [
    "FOREVER",
    "LIMIT",
    "LandmarkWindow",
    "MadeOf",
    "PartitionedWindow",
    "SlidingWindow",
    "Window",
    "made_of",
    "tumbling",
]
