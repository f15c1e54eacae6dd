"""A skew is by how much a sender's clock is ahead of ours, as near as what it sends and when that comes tell.

Everything here is arithmetic: clocks and arrivals are arguments, in ns since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from operators.data.page import Int64s

SECOND: Final = 10**9
SPAN: Final = 60 * SECOND
"""How long extremes of a clock are kept, at least; at most twice as long."""
DOUBT: Final = 10 * SECOND
"""A time that is further than this from where its sender's clock should be is believed when others agree."""
AGREE: Final = 3
RESOLUTION: Final = SECOND
"""What headers of NetFlow v9 and IPFIX can tell, and many logs: a clock that is nearer is right."""
KEPT: Final = 1
"""A time agreed with the clock that was known."""
STEPPED: Final = 2
"""A time showed where the clock is: the first one, or the last of some that agree with each other."""


@attrs.define
class Greatest:
    """The greatest value of the last one or two spans, and of longer ago where nothing came since."""

    value: int
    began: int
    _now: int = attrs.field(init=False)
    _before: int | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._now = self.value

    def note(self, value: int, now: int) -> None:
        """Take a value that came at a time."""
        if now - self.began >= SPAN:
            self._before = self._now if now - self.began < 2 * SPAN else None
            self._now, self.began = value, now
        else:
            self._now = max(self._now, value)
        self.value = self._now if self._before is None else max(self._now, self._before)

    def numbers(self) -> list[int | None]:
        """Return what `restored` needs."""
        return [self.value, self.began, self._now, self._before]

    @classmethod
    def restored(cls, saved: Sequence[int | None] | None) -> Greatest | None:
        """Return what was saved, None for nothing."""
        if saved is None:
            return None
        value, began, now, before = saved
        if value is None or began is None or now is None:
            raise ValueError(f"an extreme of a clock is saved as {list(saved)}, which no clock has")
        made = cls(value, began)
        made._now, made._before = now, before
        return made


@attrs.define(eq=False)
class Skew:
    """Estimate by how much a sender's clock is ahead of ours.

    What is under way longer seems older, so the greatest difference of the last minutes counts. A single time that
    disagrees with it moves nothing; AGREE of them in a row are a clock that was stepped.

    >>> clock = Skew()
    >>> [clock.judge(95 * SECOND, at * SECOND) for at in range(2)], clock.judge(5 * SECOND, 2 * SECOND)
    ([2, 1], None)
    >>> clock.put_right()
    >>> clock.skew // SECOND, clock.offset // SECOND, clock.ahead
    (-95, -95, 0)
    """

    doubted: int = attrs.field(init=False, default=0)
    """Times that disagreed with its clock, and moved nothing."""
    steps: int = attrs.field(init=False, default=0)
    offset: int = attrs.field(init=False, default=0)
    """What is added to its times to put them right."""
    _ahead: Greatest | None = attrs.field(init=False, default=None)
    _doubtful: int = attrs.field(init=False, default=0)
    _agreeing: int = attrs.field(init=False, default=0)

    @property
    def ahead(self) -> int:
        """Return by how much its times are ahead of ours, put right where they are."""
        return 0 if self._ahead is None else self._ahead.value + self.offset

    @property
    def skew(self) -> int:
        """Return by how much its clock is behind ours, with the least time that anything was under way."""
        return 0 if self._ahead is None else -self._ahead.value

    def steady(self, ahead: Int64s, arrivals: Int64s) -> bool:
        """Return whether differences and arrivals, in order and of shape (n,), are such that `note` is enough."""
        known = self._ahead
        return (
            known is not None
            and not self._agreeing
            and int(arrivals[-1]) - known.began < SPAN
            and int(ahead.max()) - known.value <= DOUBT
            and max(int(ahead.max()), known.value) - int(ahead.min()) <= DOUBT
        )

    def note(self, ahead: int, arrival: int) -> None:
        """Take the greatest of differences that are `steady`."""
        assert self._ahead is not None
        self._ahead.note(ahead, arrival)

    def judge(self, ahead: int, arrival: int) -> int | None:
        """Take a difference; return KEPT or STEPPED, None for one that is not believed."""
        if self._ahead is None:
            self._ahead = Greatest(ahead, arrival)
            return STEPPED
        if abs(ahead - self._ahead.value) <= DOUBT:
            self._agreeing = 0
            self._ahead.note(ahead, arrival)
            return KEPT
        self.doubted += 1
        self._agreeing = self._agreeing + 1 if self._agreeing and abs(ahead - self._doubtful) <= DOUBT else 1
        self._doubtful = ahead
        if self._agreeing < AGREE:
            return None
        # Those that agreed were right.
        self.steps, self.doubted = self.steps + 1, self.doubted - self._agreeing
        self._agreeing = 0
        self._ahead = Greatest(ahead, arrival)
        return STEPPED

    def put_right(self) -> None:
        """Have times be put right by what is known, where that is more than clocks tell."""
        if self._ahead is not None and abs(self._ahead.value + self.offset) > RESOLUTION:
            self.offset = -self._ahead.value
