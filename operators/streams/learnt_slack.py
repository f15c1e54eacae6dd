"""A stream learns its own slack: how far behind its highest value tuples are, but for a share that may be late."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.streams import by_key, learnt
from punctuation import NO_TIME
from punctuation.plain import Plain

FIRST: Final = 256
"""Tuples that are looked at before the first promise."""
_WINDOW: Final = 1 << 16
_ALLOWED: Final = 40
"""Times the tuples among which one may be late, beyond which what was counted is halved."""


@attrs.define(eq=False)
class LearntSlack:
    """Promise the highest value less a slack that is learnt, so that at most a share of the tuples is late.

    The first promise comes after 256 tuples. Until two of those that came may be late, the slack is twice what was
    needed so far. It is learnt anew every 256 tuples, and at each one that is later than it. After 65,536 tuples, or so
    many that 40 of them may be late if that is more, the counts are halved: so a slack follows a stream that becomes
    quieter or wilder. Bounds never fall. The cut of the stream into pages changes nothing.

    `late_per_million`: how many of a million tuples may be late, half of which are left to what changes. `step`,
    `origin`, `lull` and `jump` are as in `punctuation.Slack`.

    >>> read = LearntSlack("ts", late_per_million=1000)
    >>> positions, bounds = read.observe(np.arange(300) - np.arange(300) % 2 * 5)
    >>> int(positions[0]), int(bounds[0]), read.slack
    (255, 246, 8)
    """

    attribute: str
    late_per_million: int = attrs.field(kw_only=True, validator=[attrs.validators.ge(1), attrs.validators.le(500_000)])
    step: int | None = attrs.field(default=None, kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)
    lull: int | None = attrs.field(default=None, kw_only=True)
    jump: int | None = attrs.field(default=None, kw_only=True)
    first: int = attrs.field(default=FIRST, kw_only=True)
    window: int | None = attrs.field(default=None, kw_only=True)
    """Tuples after which counts are halved, if that is said."""
    _stream: Int64s = attrs.field(init=False, repr=False)
    _counts: Int64s = attrs.field(init=False, repr=False)
    _learnt: Int64s = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._stream = np.zeros(learnt.STREAM_FIELDS, np.int64)
        self._stream[[learnt.HIGHEST, learnt.PROMISED]] = NO_TIME
        self._counts = np.zeros((1, by_key.BUCKETS), np.int64)
        self._learnt = np.zeros((1, by_key.LEARNT_FIELDS), np.int64)

    @property
    def slack(self) -> int:
        """Return the slack now, in ticks."""
        return int(self._learnt[0, by_key.SLACK])

    @property
    def counted(self) -> int:
        """Return from how many tuples it is known."""
        return int(self._learnt[0, by_key.SEEN])

    @property
    def changes(self) -> int:
        """Return how often it has changed."""
        return int(self._stream[learnt.CHANGES])

    def observe(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Read the next values, shape (n,); after `values[positions[i]]`, `[attribute < bounds[i]]` is promised."""
        given = np.asarray(values, np.int64).view()
        given.flags.writeable = False
        positions, bounds = np.empty(len(given), np.int64), np.empty(len(given), np.int64)
        rules = np.zeros(learnt.RULES, np.int64)
        rules[learnt.STEP], rules[learnt.ORIGIN] = self.step or 1, self.origin
        enough = max(_WINDOW, _ALLOWED * 1_000_000 // self.late_per_million)
        rules[learnt.FIRST], rules[learnt.WINDOW] = self.first, self.window or enough
        rules[by_key.PER_MILLION] = self.late_per_million
        said = learnt.follow(given, rules, self._stream, self._counts, self._learnt, positions, bounds)
        return positions[:said], bounds[:said]

    def elapse(self, now: int) -> int | None:
        """Take the clock, in the unit of the attribute; give a bound to assume, or None."""
        highest = int(self._stream[learnt.HIGHEST])
        if self.lull is None or (highest != NO_TIME and now - highest <= self.lull):
            return None
        bound = now - self.lull
        bound -= (bound - self.origin) % (self.step or 1)
        if bound <= self._stream[learnt.PROMISED]:
            return None
        self._stream[learnt.PROMISED] = bound
        return bound

    def known(self) -> int | None:
        """Return the bound that is true now, however finely it is promised."""
        highest = int(self._stream[learnt.HIGHEST])
        if highest == NO_TIME or self._stream[learnt.TUPLES] < self.first:
            return None
        return max(highest - self.slack, NO_TIME)

    def regrain(self, step: int | None, origin: int) -> None:
        """Promise at origin + k * step from now on."""
        self.step, self.origin = step, origin

    def state(self) -> Plain:
        """Return the memory as JSON values."""
        places = np.flatnonzero(self._counts[0])
        counts: list[Plain] = [[int(place), int(self._counts[0, place])] for place in places]
        return [list[Plain](self._stream.tolist()), list[Plain](self._learnt[0].tolist()), counts]

    def restore(self, state: Plain) -> None:
        """Become the punctuator whose `state` this was; ValueError for what is none."""
        match state:
            case [list(stream), list(known), list(counts)]:
                arrays = [np.array(values, np.int64) for values in (stream, known)]
                pairs = np.array(counts, np.int64).reshape(-1, 2)
            case _:
                raise ValueError(f"the saved memory of a slack that is learnt is three lists, not {state!r:.60}")
        places = pairs[:, 0]
        if (
            arrays[0].shape != self._stream.shape
            or arrays[1].shape != self._learnt[0].shape
            or (arrays[1] < 0).any()
            or (pairs < 0).any()
            or (places >= by_key.BUCKETS).any()
        ):
            raise ValueError("the saved memory of a slack that is learnt does not have its fields")
        self._stream[:], self._learnt[0] = arrays
        self._counts[:] = 0
        self._counts[0, places] = pairs[:, 1]
