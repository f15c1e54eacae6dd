"""Promises of the stream are conditions, too: event time reaches a tick of a window, or a promise matches a pattern.

Nobody fires them from outside: the operator hears them of the promises that it gets.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from punctuation import Pattern, Punctuation, Range, constants, includes, whole


@attrs.frozen
class Every:
    """Hold once a promise of all tuples reaches another multiple of so many ticks since the window began.

    >>> Every("10 s", 10).reached(np.array([-3, 9, 10, 25])).tolist()
    [0, 0, 1, 2]
    """

    amount: object
    """What was asked for."""
    ticks: int = 0
    """The same in ticks of the windowing attribute; 0 while the window is not known."""

    def reached(self, since: Int64s) -> Int64s:
        """Return how many of its ticks a promise has reached that is so far behind the begin of windows."""
        return np.maximum(since, 0) // self.ticks

    def __str__(self) -> str:
        return f"every {self.amount} of event time"


@attrs.frozen
class At:
    """Hold once a promise of all tuples reaches a tick of the window: a share of it, or so long after it began.

    >>> At(0.5, 5).reached(np.array([-3, 4, 5, 9])).tolist()
    [0, 0, 1, 1]
    """

    amount: object
    """What was asked for."""
    ticks: int = 0
    """The same in ticks after the window began; 0 while the window is not known."""

    def reached(self, since: Int64s) -> Int64s:
        """Return 1 where a promise that is so far behind the begin of a window has reached the tick."""
        return (since >= self.ticks).astype(np.int64)

    def __str__(self) -> str:
        return f"at {self.amount} of event time"


@attrs.frozen
class Lull:
    """Hold once a promise reaches so many ticks behind the last tuple of a session: nothing has come since."""

    amount: object
    """What was asked for."""
    ticks: int = 0
    """The same in ticks of the windowing attribute; 0 while the session is not known."""

    def __str__(self) -> str:
        return f"after a lull of {self.amount}"


@attrs.frozen
class Promised:
    """Hold once the stream promises something of the tuples that a pattern names.

    >>> from punctuation import Equals, before
    >>> one = Promised(("k = 1",), (("k", Equals(1)),))
    >>> one.matches(Punctuation({"k": Equals(1), "ts": Range(None, 9)})), one.matches(before("ts", 9))
    (True, False)
    """

    of: tuple[str, ...]
    """What was asked for: attributes, and conditions."""
    patterns: tuple[tuple[str, Pattern], ...] = ()
    """The attributes that the promise is on, each with the values that it may be of; ANY for any."""

    def matches(self, promise: Punctuation) -> bool:
        """Return whether a promise is on all of the attributes, and of values that are in the pattern alone."""
        said = dict(promise.patterns)
        return all(name in said and includes(pattern, said[name]) for name, pattern in self.patterns)

    def __str__(self) -> str:
        return f"on a promise of {' and '.join(self.of)}"


Moment: TypeAlias = Every | At
Heard: TypeAlias = Every | At | Promised | Lull


def crossed(moment: Moment, before: int | Int64s, now: int | Int64s, begins: Int64s) -> Bools:
    """Return which windows that begin there reach a tick of a moment as the low-watermark, of all or of each, rises.

    >>> crossed(Every(5, 5), 9, 12, np.array([0, 3, 5])).tolist()
    [True, False, True]
    """
    return moment.reached(now - begins) > moment.reached(np.maximum(before, begins) - begins)


def spoken_of(pattern: Pattern, begins: Int64s, ends: Int64s) -> Bools:
    """Return which windows [begin, end) have a tick among the values of a pattern.

    >>> from punctuation import Below
    >>> begins = np.array([0, 5, 10])
    >>> spoken_of(Below(6), begins, begins + 5).tolist(), spoken_of(Below(5), begins, begins + 5).tolist()
    ([True, True, False], [True, False, False])
    """
    ranges = [pattern] if isinstance(pattern, Range) else [Range(value, value) for value in constants(pattern) or ()]
    there = np.zeros(len(begins), np.bool_)
    for one in ranges:
        low, above = BEFORE_ALL if one.low is None else whole(one.low), FOREVER if one.high is None else whole(one.high)
        if low is not None and above is not None:
            low += one.low == low and one.low_open
            above += one.high == above and not one.high_open
            there |= (begins < above) & (ends > low)
    return there
