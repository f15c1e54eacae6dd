"""A stream learns its own slack: how far behind its highest value tuples are, but for a share that may be late."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s
from operators.kernels.streams import by_key, learnt
from punctuation import NO_TIME

FIRST: Final = 256
"""Tuples that are looked at before the first promise."""
_WINDOW: Final = 1 << 16
_ALLOWED: Final = 40
"""Times the tuples among which one may be late, beyond which what was counted is halved."""


def _stream() -> Int64s:
    stream = np.zeros(learnt.STREAM_FIELDS, np.int64)
    stream[[learnt.HIGHEST, learnt.PROMISED]] = NO_TIME
    return stream


@attrs.define(eq=False)
class _Learnt(memory.Stateful):
    """Keep what a stream has shown, in the tables of the kernel."""

    stream: Int64s = attrs.field(factory=_stream, metadata=memory.array(length="stream"))
    counts: Int64s = attrs.field(
        factory=lambda: np.zeros((1, by_key.BUCKETS), np.int64), metadata=memory.array(least=0, length="counts")
    )
    learnt: Int64s = attrs.field(
        factory=lambda: np.zeros((1, by_key.LEARNT_FIELDS), np.int64), metadata=memory.array(least=0, length="learnt")
    )


@attrs.define(eq=False)
class LearntSlack(memory.Spelled):
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
    memory: _Learnt = attrs.field(init=False, factory=_Learnt, repr=False)

    @property
    def slack(self) -> int:
        """Return the slack now, in ticks."""
        return int(self.memory.learnt[0, by_key.SLACK])

    @property
    def counted(self) -> int:
        """Return from how many tuples it is known."""
        return int(self.memory.learnt[0, by_key.SEEN])

    @property
    def changes(self) -> int:
        """Return how often it has changed."""
        return int(self.memory.stream[learnt.CHANGES])

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
        own = self.memory
        said = learnt.follow(given, rules, own.stream, own.counts, own.learnt, positions, bounds)
        return positions[:said], bounds[:said]

    def elapse(self, now: int) -> int | None:
        """Take the clock, in the unit of the attribute; give a bound to assume, or None."""
        highest = int(self.memory.stream[learnt.HIGHEST])
        if self.lull is None or (highest != NO_TIME and now - highest <= self.lull):
            return None
        bound = now - self.lull
        bound -= (bound - self.origin) % (self.step or 1)
        if bound <= self.memory.stream[learnt.PROMISED]:
            return None
        self.memory.stream[learnt.PROMISED] = bound
        return bound

    def known(self) -> int | None:
        """Return the bound that is true now, however finely it is promised."""
        highest = int(self.memory.stream[learnt.HIGHEST])
        if highest == NO_TIME or self.memory.stream[learnt.TUPLES] < self.first:
            return None
        return max(highest - self.slack, NO_TIME)

    def regrain(self, step: int | None, origin: int) -> None:
        """Promise at origin + k * step from now on."""
        self.step, self.origin = step, origin
