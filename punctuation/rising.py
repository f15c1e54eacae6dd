"""Test early whether an attribute rises; one that does not is not read ahead to its end for nothing.

In a stream that rises, however disordered within a band, the later half of what was seen lies above much of the earlier
half. In one of ports, lengths or hashes it does not, and its suffix minimum would be its least value until the end.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from punctuation.schedule import NEVER, NO_TIME

_BLOCK: Final = 1024
_FIRST: Final = 1 << 15
"""Tuples after which one looks first, and then whenever there are twice as many."""
_ENOUGH: Final = 1 << 20
"""Tuples after which one looks no more: an attribute that has had one value alone is then a constant."""


@attrs.define(eq=False)
class Rising:
    """Look at a stream's values, block by block of some 1024, until it is clear whether they rise.

    >>> import numpy as np
    >>> ports, times = Rising(), Rising()
    >>> ports.feed(np.arange(1 << 15) % 50)
    >>> times.feed(np.arange(1 << 15) // 50)
    >>> ports.hopeless, times.hopeless
    (True, False)
    """

    hopeless: bool = attrs.field(default=False, init=False)
    """Whether promises on these values would release next to nothing before the end."""
    _count: int = attrs.field(default=0, init=False)
    _next: int = attrs.field(default=_FIRST, init=False)
    _leasts: list[npt.NDArray[np.int64]] = attrs.field(factory=list, init=False)
    _mosts: list[npt.NDArray[np.int64]] = attrs.field(factory=list, init=False)

    def feed(self, values: npt.NDArray[np.int64]) -> None:
        """Take the next values in order of arrival, shape (n,), NO_TIME where there is none."""
        if self.hopeless or self._next > _ENOUGH or len(values) == 0:
            return
        starts = np.arange(0, len(values), _BLOCK)
        self._leasts.append(np.minimum.reduceat(np.where(values == NO_TIME, NEVER, values), starts))
        self._mosts.append(np.maximum.reduceat(values, starts))
        self._count += len(values)
        if self._count >= self._next:
            self._look()

    def _look(self) -> None:
        leasts, mosts = np.concatenate(self._leasts), np.concatenate(self._mosts)
        half = len(leasts) // 2
        if half:
            self.hopeless = bool(leasts[half:].min() < np.quantile(mosts[:half], 0.25))
        while self._next <= self._count:
            self._next *= 2
        if self._next > _ENOUGH:
            self.hopeless |= bool(leasts.min() == mosts.max())
            self._leasts, self._mosts = [], []
