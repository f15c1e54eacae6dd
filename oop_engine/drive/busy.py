"""Know which operator is at work for how much of the time: one call in seven is timed, and each behind a slow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

_ONE_IN: Final = 7
"""Calls of a source of which one is timed; pages and promises that take turns are both met."""
_SLOW: Final = 0.001
"""Seconds of a call behind which the next one is timed, too."""
_PERIOD: Final = 2.0
"""Seconds of which the shares are told; those of the period before count until there is another."""
_CALLS: Final = 32
"""Timed calls that a period has at least."""
_LEFT_OUT: Final = 3
"""The longest calls of an operator that say nothing of it: kernels may have been compiled in them."""


@attrs.define
class _Work:
    """The time of one operator, with the longest calls in it."""

    seconds: float = 0.0
    longest: list[float] = attrs.field(factory=list)

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        if len(self.longest) <= _LEFT_OUT or seconds > self.longest[0]:
            self.longest = sorted([*self.longest, seconds])[-_LEFT_OUT - 1 :]


@attrs.define
class _Period:
    begin: float
    calls: int = 0
    work: dict[int, _Work] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Busy:
    """Add up how long operators are at work, each without those that it hands on to.

    >>> from oop_engine.drive.busy import Busy
    >>> busy = Busy()
    >>> for call in range(8):
    ...     begun = busy.begin(3, lambda: call)
    ...     busy.end(begun, lambda: call + 0.5)
    >>> busy.slowest(8.0)
    (3, 0.5)
    """

    timing: bool = attrs.field(init=False, default=False)
    """Whether the call that goes on now is timed."""
    _skip: int = attrs.field(init=False, default=0)
    """Calls that are not timed from now on."""
    _weight: int = attrs.field(init=False, default=1)
    """How many calls the one that is timed now stands for."""
    _inner: list[float] = attrs.field(init=False, factory=list)
    """For each of the operators that are in one another now, the time that those within it took."""
    _now: _Period | None = attrs.field(init=False, default=None)
    _before: _Period | None = attrs.field(init=False, default=None)

    def begin(self, place: int, clock: Callable[[], float]) -> tuple[int, float] | None:
        """Say that an operator begins; the answer is for `end`, None where the call is not timed."""
        if not self._inner:
            if self._skip:
                self._skip -= 1
                return None
            self.timing = True
        self._inner.append(0.0)
        return place, clock()

    def end(self, begun: tuple[int, float], clock: Callable[[], float]) -> None:
        """Say that an operator has ended."""
        place, since = begun
        now = clock()
        took = now - since
        period = self._now
        if period is None:
            period = self._now = _Period(since)
        work = period.work.get(place)
        if work is None:
            work = period.work[place] = _Work()
        work.add((took - self._inner.pop()) * self._weight)
        if self._inner:
            self._inner[-1] += took
            return
        self.timing = False
        self._skip = 0 if took >= _SLOW else _ONE_IN - 1
        self._weight = self._skip + 1
        period.calls += 1
        if now - period.begin >= _PERIOD and period.calls >= _CALLS:
            self._before, self._now = period, None

    def slowest(self, now: float) -> tuple[int, float] | None:
        """Return the operator that is at work longest, and its share of the time; None where nobody was long enough.

        It is asked between two calls, with the time by the clock.
        """
        periods = [one for one in (self._before, self._now) if one is not None]
        if not periods or now - periods[0].begin < _PERIOD:
            return None
        shares: dict[int, float] = {}
        for period in periods:
            for place, work in period.work.items():
                shares[place] = shares.get(place, 0.0) + work.seconds
        for place in shares:
            longest = sorted(t for period in periods if place in period.work for t in period.work[place].longest)
            if len(longest) <= _LEFT_OUT:
                shares[place] = 0.0
            else:
                # Each of the longest counts as the one behind them does.
                shares[place] -= sum(longest[-_LEFT_OUT:]) - _LEFT_OUT * longest[-_LEFT_OUT - 1]
        place, seconds = max(shares.items(), key=lambda one: one[1])
        return place, max(0.0, min(1.0, seconds / (now - periods[0].begin)))
