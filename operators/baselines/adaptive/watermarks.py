"""The progress of a stream by source, and how long its windows stay open.

hwTime of a source is the largest value of the windowing attribute seen from it, punctuatedWid the last window that was
promised to be complete, and `wed` the window extent duration of the window closed last: the high-watermark when it was
completed less the low-watermark when its first tuple arrived. Before a window was closed, wed is RANGE. The
low-watermark is read off the promises on window-ids, so it is the end of the last complete window; a window that began
before the first promise has none, and leaves wed as it is.
"""

from __future__ import annotations

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s
from operators.functions.columns import frozen
from operators.kernels.baselines.watermarks import begin, finish
from operators.kernels.ticks import BEFORE_ALL
from operators.window import Window


@attrs.define(eq=False)
class Watermarks(memory.Stateful):
    """Hold punctuatedWid a source, wed, and the low-watermarks at which open windows began."""

    window: Window
    range: int = attrs.field(init=False)
    slide: int = attrs.field(init=False)
    wed: int = attrs.field(init=False, metadata=memory.integer(least=0))
    punctuated: Int64s = attrs.field(init=False, factory=lambda: np.full(1, BEFORE_ALL), metadata=memory.array())
    low: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _begun: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros((8, 3), np.int64),
        metadata=memory.array(of=lambda marks: marks._begun[: marks._count]),
    )
    """Rows (first, last, low-watermark): windows [first, last) began at that; disjoint and rising."""
    _count: int = attrs.field(init=False, default=0)
    _closed: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The last window complete for all sources, those not seen yet among them."""

    def __attrs_post_init__(self) -> None:
        (start, stop), (_, following) = self.window.extent(0), self.window.extent(1)
        self.range, self.slide = stop - start, following - stop
        self.wed = self.range

    def grow(self, sources: int) -> None:
        """Make room for sources 0 <= k < sources."""
        more = sources - len(self.punctuated)
        if more > 0:
            self.punctuated = np.pad(self.punctuated, (0, more), constant_values=self._closed)

    def arrived(self, first: Int64s, last: Int64s) -> None:
        """Note which windows [first, last) begin with these tuples, shape (n,)."""
        first, last = frozen(first), frozen(last)
        done = 0
        while True:
            done, self._count = begin(first, last, done, self.low, self._begun, self._count)
            if done == len(first):
                return
            self._begun = np.concatenate((self._begun, np.zeros_like(self._begun)))

    def promised(self, bound: int, source: int) -> None:
        """Note that the windows below `bound` are complete as far as one source goes."""
        self.punctuated[source] = max(self.punctuated[source], bound - 1)

    def closed(self, bound: int, time: int) -> None:
        """Note that the windows below `bound` are complete, when the high-watermark is `time`."""
        self._closed = bound - 1
        np.maximum(self.punctuated, self._closed, out=self.punctuated)
        began, self._count = finish(bound, self._begun, self._count)
        if began != BEFORE_ALL:
            self.wed = max(0, time - int(began))
        self.low = self.window.extent(bound - 1)[1]

    def _after_restoring(self) -> None:
        self._count = len(self._begun)
        self._begun = np.concatenate((self._begun, np.zeros((8, 3), np.int64)))
