"""A store keeps the tuples of one input under their keys, in the order of time within each key.

A probe looks only at the tuples in its band, never at those of its key outside it, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.keys import Ids
from operators.data.page import Int64s
from operators.join.segments import Flags, Found, Segments
from operators.kernels.join import layout
from operators.kernels.join import probe as looks
from operators.kernels.join import runs as kernels
from operators.kernels.ticks import FAR, FOREVER

UNLIMITED = FOREVER
_RING = 1 << 13
_LEAST = 64
_SLACK = 1 << 10
_CHUNK = int(layout.CHUNK)
_CLASSES = 40

Int32s = npt.NDArray[np.int32]
T = TypeVar("T", bound=np.generic)


@attrs.frozen(eq=False)
class Pairs:
    """Some of the pairs that a probe found, shape (n,) each."""

    rows: Int64s
    """Tuples of the probing page."""
    positions: Int64s
    """Stored tuples."""


@attrs.define(eq=False)
class Store:
    """Keep tuples by key and time.

    Cost: to insert O(1) a tuple in order, at most 256 steps for a late one, plus O(log n) for a key of many; to probe
    O(log n + pairs); to purge O(1) a tuple purged. Memory: 32 bytes an entry, at most about twice that, and 16 a key,
    besides the tuples.
    """

    span: int
    """How many ticks the partners of a tuple cover: what the calendar of the entries is made for at first."""
    segments: Segments = attrs.field(factory=Segments, init=False)
    _entries: Int64s = attrs.field(init=False)
    _blocks: Int64s = attrs.field(init=False)
    _runs: Int32s = attrs.field(init=False)
    _free: Int64s = attrs.field(init=False)
    _tops: Int64s = attrs.field(init=False)
    _waiting: Int64s = attrs.field(init=False)
    _chunks: Int32s = attrs.field(init=False)
    _ring: Int32s = attrs.field(init=False)
    _calendar: Int64s = attrs.field(init=False)
    _lately: int = attrs.field(default=0, init=False)
    """How many tuples there were at the last promises, less and less: memory is given back for good reasons only."""
    _gone: Int64s = attrs.field(factory=lambda: np.empty(_LEAST, np.int64), init=False)

    def __attrs_post_init__(self) -> None:
        self._runs = np.zeros((_LEAST, 4), np.int32)
        self._waiting = np.empty((_LEAST * _CHUNK, 2), np.int64)
        self._chunks = np.empty((_LEAST, 2), np.int32)
        self._ring = np.empty(_RING + 1, np.int32)
        self._calendar = np.zeros(layout.PLACES, np.int64)
        self._rewind(0, max(0, self.span.bit_length() - 10))
        self._memory(_LEAST, _LEAST)

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.segments)

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held."""
        arrays = (self._entries, self._blocks, self._runs, self._waiting, self._chunks, self._ring, self._gone)
        return sum(array.nbytes for array in arrays) + self.segments.nbytes

    def reserve(self, keys: int) -> None:
        """Make room for keys of numbers below `keys`."""
        if keys > len(self._runs):
            size = max(keys, 2 * len(self._runs))
            runs = np.zeros((size, 4), np.int32)
            runs[: len(self._runs)] = self._runs
            self._runs = runs

    def insert(self, ids: Ids, ticks: Int64s, batch: pa.RecordBatch, matched: Flags | None) -> int:
        """Store at least one tuple, each under its key, and give the position of the first."""
        if len(self) == 0:
            # What comes late yet should be within the calendar, most of it.
            shift = int(self._calendar[layout.SHIFT])
            self._rewind((int(ticks.min()) >> shift) - _RING // 128, shift)
        base = self.segments.append(batch, ticks, matched)
        self._enter(ids, ticks, np.arange(base, base + len(ids)))
        return base

    def count(self, ids: Ids) -> Int32s:
        """Return the number of tuples of each key."""
        return self._runs[ids, layout.COUNT]

    def probe(self, ids: Ids, low: Int64s, high: Int64s, *, limit: int = UNLIMITED, size: int) -> Iterator[Pairs]:
        """Yield the pairs of tuple i with the stored tuples of key ids[i] at low[i] .. high[i], at most `size` at once.

        A key of -1 has none. With a `limit` at most so many a tuple.
        """
        if len(self) == 0:
            return
        inputs = read_only(ids), read_only(low), read_only(high)
        cursor = np.zeros(layout.LAST_TOUCHED + 1, np.int64)
        while cursor[layout.TUPLE] < len(ids):
            rows, positions = np.empty(size, np.int64), np.empty(size, np.int64)
            n = looks.probe(*inputs, limit, cursor, self._entries, self._blocks, self._runs, rows, positions)
            if n:
                yield Pairs(rows[:n], positions[:n])

    def purge(self, bound: int) -> tuple[Found | None, Ids]:
        """Drop the tuples below a bound; gives them, None when there are none, and the keys that are left without."""
        self._lately = max(len(self), 3 * self._lately // 4)
        self._spare(1 + min(int(self._calendar[layout.DISTANT]), _RING) + int(self._calendar[layout.DISTANT]) // _CHUNK)
        bounds = np.array([max(-FAR, min(bound, FAR))])
        counts, gone, emptied = self._outputs(len(self._runs))
        kernels.purge(bounds, counts, gone, emptied, self._runs_memory, self._calendar_memory)
        found = self._retire(gone[: counts[layout.DROPPED]])
        self._adapt()
        return found, emptied[: counts[layout.EMPTIED]]

    def purge_keys(self, ids: Ids, bounds: Int64s) -> tuple[Found | None, Ids]:
        """Drop the tuples of each key, named once, below a bound of its own; gives what `purge` does."""
        counts, gone, emptied = self._outputs(len(ids))
        kernels.purge_keys(ids, bounds, counts, gone, emptied, self._runs_memory)
        return self._retire(gone[: counts[layout.DROPPED]]), emptied[: counts[layout.EMPTIED]]

    def strike(self, ids: Ids, ticks: Int64s, positions: Int64s) -> None:
        """Drop single tuples, each there and named once."""
        kernels.strike(ids, ticks, positions, *self._runs_memory[:4])
        self._retire(positions)

    def least(self) -> int:
        """Return the least tick of all tuples, or a bound that is close below it."""
        if len(self) == 0:
            return FOREVER
        return int(looks.least_of_all(*self._runs_memory[:3], *self._calendar_memory))

    def least_of(self, ids: Ids) -> Int64s:
        """Return the least tick of each key, FOREVER for one without tuples."""
        ticks = np.empty(len(ids), np.int64)
        looks.least(ids, self._entries, self._blocks, self._runs, ticks)
        return ticks

    def tuples(self) -> tuple[Ids, Int64s, Found | None]:
        """Return all tuples in order of arrival: keys, ticks, and the tuples themselves (None when there are none)."""
        ids, ticks, positions = self._dump()
        if len(ids) == 0:
            return ids, ticks, None
        order = np.argsort(positions)
        return ids[order], ticks[order], self.segments.find(positions[order])

    @property
    def _runs_memory(self) -> tuple[Int64s, Int64s, Int32s, Int64s, Int64s]:
        return self._entries, self._blocks, self._runs, self._free, self._tops

    @property
    def _calendar_memory(self) -> tuple[Int64s, Int32s, Int32s, Int64s]:
        return self._waiting, self._chunks, self._ring, self._calendar

    def _rewind(self, first: int, shift: int) -> None:
        """Empty the calendar, and let it begin with the list of this number."""
        self._ring[:] = -1
        self._calendar[:] = first, shift, 0, FAR, -1, 0, 0, 0, 0

    def _spare(self, chunks: int) -> None:
        """Make sure that so many chunks are free."""
        if int(self._calendar[layout.EVER]) + chunks > len(self._chunks):
            self._chunks = _enlarged(self._chunks, chunks + 2 * len(self._chunks))
            self._waiting = _enlarged(self._waiting, _CHUNK * len(self._chunks))

    def _memory(self, entries: int, blocks: int) -> None:
        self._entries = np.empty((entries, 2), np.int64)
        self._blocks = np.empty((blocks, 3), np.int64)
        self._free = np.full((2, _CLASSES), -1, np.int64)
        self._tops = np.zeros(2, np.int64)

    def _outputs(self, keys: int) -> tuple[Int64s, Int64s, Ids]:
        if len(self._gone) < len(self):
            self._gone = np.empty(max(len(self), 2 * len(self._gone)), np.int64)
        return np.zeros(2, np.int64), self._gone, np.empty(keys, np.int32)

    def _enter(self, ids: Ids, ticks: Int64s, positions: Int64s) -> None:
        ids, ticks, done = read_only(ids), read_only(ticks), 0
        while True:
            done = int(kernels.insert(ids, ticks, positions, done, self._runs_memory, self._calendar_memory))
            if done == len(ids):
                return
            self._grow()

    def _grow(self) -> None:
        """Double what is nearly full, all when nothing is; contents stay where they are."""
        entries, blocks = (
            len(self._entries) - int(self._tops[layout.OF_ENTRIES]),
            len(self._blocks) - int(self._tops[layout.OF_BLOCKS]),
        )
        if self._calendar[layout.SPARE] < 0 and self._calendar[layout.EVER] == len(self._chunks):
            self._spare(1)
            return
        neither = entries >= 1024 and 2 * blocks >= len(self._blocks)
        if entries < 1024 or neither:
            self._entries = _enlarged(self._entries, 2 * len(self._entries))
        if 2 * blocks < len(self._blocks) or neither:
            self._blocks = _enlarged(self._blocks, 2 * len(self._blocks))

    def _dump(self) -> tuple[Ids, Int64s, Int64s]:
        n = len(self)
        ids, ticks, positions = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
        looks.dump(self._entries, self._blocks, self._runs, ids, ticks, positions)
        return ids, ticks, positions

    def _retire(self, positions: Int64s) -> Found | None:
        if len(positions) == 0:
            return None
        found = self.segments.find(positions)
        self.segments.retire(found)
        if self.segments.wasteful:
            self.segments.compact(np.sort(self._dump()[2]))
        if len(self._entries) > _SLACK and 16 * max(len(self), self._lately) < len(self._entries):
            self._repack()
        return found

    def _repack(self) -> None:
        """Move all entries to fresh memory that fits them."""
        ids, ticks, positions = self._dump()
        self._memory(max(_LEAST, 4 * len(ids)), _LEAST)
        self._runs[:] = 0
        self._gone = np.empty(_LEAST, np.int64)
        self._waiting, self._chunks = self._waiting[: _LEAST * _CHUNK].copy(), self._chunks[:_LEAST].copy()
        self._rewind(int(self._calendar[layout.FIRST]), int(self._calendar[layout.SHIFT]))
        self._enter(ids, ticks, positions)

    def _adapt(self) -> None:
        """Fit the calendar to the ticks stored, when most are beyond it or many were looked at in vain."""
        far, kept = int(self._calendar[layout.DISTANT]), int(self._calendar[layout.KEPT])
        crowded = 2 * far > len(self) + _SLACK or kept > 8 * len(self) + _SLACK
        if not crowded or len(self) == 0:
            return
        self._calendar[layout.KEPT] = 0
        ids, ticks, _ = self._dump()
        shift = int(self._calendar[layout.SHIFT])
        first = int(self._calendar[layout.FIRST]) << shift
        # Nine tenths of the tuples should take half of the ring.
        most = int(np.partition(ticks, 9 * len(ticks) // 10)[9 * len(ticks) // 10])
        fitting = max(0, (most - first).bit_length() - _RING.bit_length() + 2)
        if fitting == shift:
            return
        self._rewind(first >> fitting, fitting)
        self._spare(min(len(ids), _RING + 1) + len(ids) // _CHUNK)
        kernels.note(ids, ticks, *self._calendar_memory)


def read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return a view that cannot be written: kernels are compiled for such inputs alone."""
    view = array.view()
    view.flags.writeable = False
    return view


def _enlarged(array: npt.NDArray[T], rows: int) -> npt.NDArray[T]:
    larger = np.empty((rows, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
