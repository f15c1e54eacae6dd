"""A stream that can be read twice is promised exactly: its suffix minimum is the low-watermark of Eq. 4.1.

    passed = SuffixMinimum(step=1_000_000_000)        # promise whole seconds of a time in ns
    for values in times_of_the_file: passed.feed(values)
    Scheduled("ts", passed.finish())                  # a punctuator, see punctuation.punctuators

`NO_TIME` (the least int64) stands where an attribute is null: such a tuple has a position but no value.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]

NO_TIME = int(np.iinfo(np.int64).min)
NEVER = int(np.iinfo(np.int64).max)
_BLOCK = 1024
_FEW, _WORTH = 4, 1 << 12
"""So many steps are always few, and one for so many tuples."""
_TOGETHER = 1 << 15
_EMPTY = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class Schedule:
    """Hold which bound becomes true after which tuple: after tuple `positions[i]` nothing is below `bounds[i]`.

    Both are int64 of shape (k,) and ascend strictly; positions count the tuples of the whole stream from 0. After the
    last tuple everything is promised; that is END and not part of a schedule.
    """

    positions: Int64s
    bounds: Int64s

    def __len__(self) -> int:
        return len(self.positions)

    def between(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Return the entries whose position is in [start, stop): positions and bounds."""
        first, last = np.searchsorted(self.positions, (start, stop))
        return self.positions[first:last], self.bounds[first:last]


def _positive(_: object, attribute: object, step: int | None) -> None:
    if step is not None and step < 1:
        raise ValueError(f"step = {step}: a step is at least 1, in the unit of the attribute")


@attrs.define
class SuffixMinimum:
    """Collect a stream's values in one pass and give the exact low-watermark in steps.

    With `step`, bounds are origin + k * step and memory is one entry a step that occurs; the pass keeps the last
    position of each step. Without, the minimum of every 1024 tuples is kept and bounds are exact at those positions.
    """

    step: int | None = attrs.field(default=None, kw_only=True, validator=_positive)
    origin: int = attrs.field(default=0, kw_only=True)
    _count: int = attrs.field(default=0, init=False)
    _firsts: Int64s = attrs.field(factory=lambda: _EMPTY, init=False)
    """Compacted: the steps that occurred, by their first value, ascending."""
    _lasts: Int64s = attrs.field(factory=lambda: _EMPTY, init=False)
    _recent: list[tuple[Int64s, Int64s]] = attrs.field(factory=list, init=False)
    _recent_length: int = attrs.field(default=0, init=False)
    least: int = attrs.field(default=NEVER, init=False)
    """The least value that was fed, NEVER before the first; only with `step`."""
    _minima: list[Int64s] = attrs.field(factory=list, init=False)
    _open: int = attrs.field(default=NEVER, init=False)
    """Minimum of the block of 1024 tuples that is not full yet."""

    @property
    def count(self) -> int:
        """Return how many tuples were fed, those without a value included."""
        return self._count

    def feed(self, values: Int64s, valid: npt.NDArray[np.bool_] | None = None) -> None:
        """Take the next values in arrival order, shape (n,); NO_TIME or not valid ones only have a position."""
        values = np.asarray(values, np.int64)
        if valid is not None:
            values = np.where(valid, values, NO_TIME)
        if len(values) == 0:
            return
        if self.step is None:
            self._feed_blocks(values)
            self._count += len(values)
            return
        # What is looked at several times is to stay in the cache.
        size = len(values) if self._seem_few(values, self.step) else _TOGETHER
        for at in range(0, len(values), size):
            self._feed_steps(values[at : at + size], self.step)

    def finish(self) -> Schedule:
        """Return the schedule of what was fed."""
        if self.step is not None:
            self._compact()
            return _schedule(self._firsts, self._lasts)
        minima = np.concatenate([*self._minima, np.array([self._open], np.int64)])
        after = np.minimum.accumulate(minima[::-1])[::-1][1:]
        ends = np.arange(1, len(after) + 1, dtype=np.int64) * _BLOCK - 1
        rises = np.flatnonzero((np.diff(after, prepend=NO_TIME) != 0) & (after != NEVER))
        return Schedule(ends[rises], after[rises])

    def _seem_few(self, values: Int64s, step: int) -> bool:
        """Return whether the first and the last value are few steps apart."""
        return abs(int(values[-1]) - int(values[0])) < step * (len(values) // _WORTH)

    def _feed_steps(self, values: Int64s, step: int) -> None:
        minima = np.minimum.reduceat(values, np.arange(0, len(values), _BLOCK))
        least, most = int(minima.min()), int(values.max())
        start = max(least - (least - self.origin) % step, NO_TIME)
        steps = (most - start) // step + 1
        self.least = min(self.least, least if least != NO_TIME else int(values[values != NO_TIME].min(initial=NEVER)))
        if least != NO_TIME and steps <= max(_FEW, len(values) // _WORTH):
            self._feed_few_steps(values, minima, [start + number * step for number in range(steps)])
        elif len(values) <= _TOGETHER:
            self._feed_many_steps(values, least, most, step)
        else:
            for at in range(0, len(values), _TOGETHER):
                self._feed_steps(values[at : at + _TOGETHER], step)
            return
        self._count += len(values)

    def _feed_few_steps(self, values: Int64s, minima: Int64s, firsts: list[int]) -> None:
        """Find where each step ends: the last value below its end, in the last block with such a value."""
        after, lasts = np.minimum.accumulate(minima[::-1])[::-1], list[int]()
        for block, end in zip((np.searchsorted(after, firsts[1:]) - 1).tolist(), firsts[1:], strict=True):
            begin = block * _BLOCK
            lasts.append(begin + int(np.flatnonzero(values[begin : begin + _BLOCK] < end)[-1]))
        ends = self._count + np.array([*lasts, len(values) - 1], np.int64)
        # A step that ends no later than the one before it needs no entry of its own.
        later = np.append(True, ends[1:] > ends[:-1])
        self._add(np.array(firsts, np.int64)[later], ends[later])

    def _feed_many_steps(self, values: Int64s, least: int, most: int, step: int) -> None:
        start = max(least - (least - self.origin) % step, NO_TIME)
        steps = (most - start) // step + 1
        places = np.arange(self._count, self._count + len(values))
        if least == NO_TIME:
            timed = values != NO_TIME
            values, places = values[timed], places[timed]
            if len(values) == 0:
                return
            least = int(values.min())
            start = max(least - (least - self.origin) % step, NO_TIME)
            steps = (most - start) // step + 1
        if steps <= 4 * len(values) and most - start <= NEVER:
            # Assigning in arrival order leaves the last position of each step behind.
            last = np.full(steps, -1, np.int64)
            last[(values - start) // step] = places
            found = np.flatnonzero(last >= 0)
            firsts, lasts = start + found * step, last[found]
        else:
            firsts, lasts = floor_to(values, step, self.origin), places
        self._add(firsts, lasts)

    def _add(self, firsts: Int64s, lasts: Int64s) -> None:
        self._recent.append((firsts, lasts))
        self._recent_length += len(firsts)
        if self._recent_length > 2 * len(self._firsts) + 65_536:
            self._compact()

    def _compact(self) -> None:
        """Keep one entry a step: its last position."""
        firsts = np.concatenate([self._firsts, *(f for f, _ in self._recent)])
        lasts = np.concatenate([self._lasts, *(p for _, p in self._recent)])
        self._recent.clear()
        self._recent_length = 0
        # Positions ascend within `lasts` from old to new, so a stable sort by step puts the last one last.
        order = np.argsort(firsts, kind="stable")
        firsts, lasts = firsts[order], lasts[order]
        last_of_step = np.append(firsts[1:] != firsts[:-1], True)[: len(firsts)]
        self._firsts, self._lasts = firsts[last_of_step], lasts[last_of_step]

    def _feed_blocks(self, values: Int64s) -> None:
        values = np.where(values == NO_TIME, NEVER, values)
        filled = self._count % _BLOCK
        head = values[: (_BLOCK - filled) % _BLOCK] if filled else values[:0]
        if len(head):
            self._open = min(self._open, int(head.min()))
            if filled + len(head) < _BLOCK:
                return
        rest = values[len(head) :]
        full = len(rest) // _BLOCK * _BLOCK
        if filled:
            self._minima.append(np.array([self._open], np.int64))
            self._open = NEVER
        if full:
            self._minima.append(rest[:full].reshape(-1, _BLOCK).min(axis=1))
        if full < len(rest):
            self._open = int(rest[full:].min())


@attrs.define(eq=False)
class Unfolding:
    """Hold the schedule of a stream that comes in pieces whose lengths and least values are known beforehand.

    So nothing is read twice: what the pieces after this one hold is known from their least value, which is all that a
    suffix minimum takes of them. The same bounds at the same positions as one pass over all of it gives, in steps.
    `feed` a piece before any of its positions is asked for. ValueError for a piece that is not as it was outlined.
    """

    lengths: Int64s
    """Tuples of each piece, shape (k,)."""
    leasts: Int64s
    """Least value of each piece, NEVER for one without a value, shape (k,)."""
    step: int = attrs.field(kw_only=True, validator=_positive)
    origin: int = attrs.field(default=0, kw_only=True)
    _fed: int = attrs.field(default=0, init=False)
    _base: int = attrs.field(default=0, init=False)
    _parts: deque[tuple[int, Schedule]] = attrs.field(factory=deque, init=False)
    """Where each piece that was fed and not passed yet ends, and its schedule."""

    def feed(self, values: Int64s) -> None:
        """Take the next piece whole, shape (n,), NO_TIME where a tuple has no value."""
        while len(values) and self._fed < len(self.lengths) and not self.lengths[self._fed]:
            self._fed += 1
        piece = self._fed
        if piece >= len(self.lengths) or len(values) != self.lengths[piece]:
            expected = "no further piece" if piece >= len(self.lengths) else f"{self.lengths[piece]}"
            raise ValueError(f"piece {piece} has {len(values)} tuples, and the outline says {expected}")
        passed = SuffixMinimum(step=self.step, origin=self.origin)
        passed.feed(values)
        least = passed.least
        if least < self.leasts[piece]:
            raise ValueError(f"piece {piece} has the value {least}, and the outline says at least {self.leasts[piece]}")
        later = self.leasts[piece + 1 :].min(initial=NEVER)
        if later != NEVER:
            passed.feed(np.array([later], np.int64))
        positions, bounds = passed.finish().between(0, len(values))
        self._fed += 1
        self._base += len(values)
        self._parts.append((self._base, Schedule(positions + (self._base - len(values)), bounds)))

    def skip(self, tuples: int) -> None:
        """Leave out the pieces with the first tuples, none of whose positions will be asked for.

        ValueError where a piece reaches over the last of them.
        """
        while self._base < tuples and self._fed < len(self.lengths):
            self._base += int(self.lengths[self._fed])
            self._fed += 1
        if self._base != tuples:
            raise ValueError(f"no piece ends after {tuples} tuples; the next one does after {self._base}")

    def between(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Return the entries whose position is in [start, stop); `start` never goes back."""
        while self._parts and self._parts[0][0] <= start:
            self._parts.popleft()
        found = [part.between(start, stop) for _, part in list(self._parts)]
        if not found:
            return _EMPTY, _EMPTY
        return np.concatenate([p for p, _ in found]), np.concatenate([b for _, b in found])


def _schedule(firsts: Int64s, lasts: Int64s) -> Schedule:
    """Return the schedule of steps in ascending order and the last position of each."""
    if len(firsts) < 2:
        return Schedule(_EMPTY, _EMPTY)
    done = np.maximum.accumulate(lasts)
    # After done[j] every step up to j is over; where several steps end with one tuple, the highest bound counts.
    rises = np.flatnonzero(done[:-1] != done[1:])
    return Schedule(done[rises], firsts[rises + 1])


def low_watermarks(values: Int64s) -> Int64s:
    """Return lwm(n, S, A) after each of n tuples, shape (n,): the least that follows, NEVER at last (Eq. 4.1)."""
    values = np.asarray(values, np.int64)
    following = np.full(len(values), NEVER, np.int64)
    timed = np.where(values == NO_TIME, NEVER, values)
    if len(values) > 1:
        following[:-1] = np.minimum.accumulate(timed[:0:-1])[::-1]
    return following


def floor_to(values: Int64s, step: int, origin: int) -> Int64s:
    """Return origin + k * step, the greatest that is not above each value; NO_TIME where int64 has no such number."""
    remainder = np.mod(values, step)
    if origin % step:
        remainder = np.mod(remainder - origin % step, step)
    floored = values - remainder
    # Below the least int64 the difference wraps to a large number.
    if len(values) and int(values.min()) < NO_TIME + step:
        floored[values < NO_TIME + step] = NO_TIME
    return floored
