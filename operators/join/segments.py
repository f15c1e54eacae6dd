"""Stored tuples lie in segments, batches in order of arrival; a tuple is known by its position in that order.

Positions never change: neighbours are joined to larger segments, and segments that are mostly dead lose their dead
rows, without a word to those who remember positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Bools, Int64s
from operators.kernels.join import pairs as kernels

Flags = npt.NDArray[np.uint8]
T = TypeVar("T", bound=np.generic)
_LARGE = 1 << 16
_FINEST = 10
"""Segments are looked up by this many bits less of their positions, in a table of about as many bits."""


@attrs.define(eq=False)
class Segment:
    """Some stored tuples."""

    base: int
    """Position of the first."""
    batch: pa.RecordBatch
    ticks: Int64s
    matched: Flags | None
    """Which had a partner; None when nobody asks."""
    live: int
    positions: Int64s | None = None
    """Positions of the rows, rising; None when row i has position base + i."""

    def __len__(self) -> int:
        return self.batch.num_rows

    @property
    def stop(self) -> int:
        """Return one more than the last position."""
        return self.base + len(self) if self.positions is None else int(self.positions[-1]) + 1

    def rows(self, positions: Int64s) -> Int64s:
        """Return the rows of tuples by their positions, shape (n,) each."""
        return positions - self.base if self.positions is None else np.searchsorted(self.positions, positions)

    def all_positions(self) -> Int64s:
        """Return the position of every row."""
        return np.arange(self.base, self.base + len(self)) if self.positions is None else self.positions

    def keep(self, rows: Int64s) -> Segment:
        """Return a segment of these rows alone, which rise."""
        positions = self.all_positions()[rows]
        return Segment(
            base=int(positions[0]),
            batch=self.batch.take(pa.array(rows)),
            ticks=self.ticks[rows],
            matched=None if self.matched is None else self.matched[rows],
            live=len(rows),
            positions=positions,
        )


@attrs.frozen(eq=False)
class Found:
    """Stored tuples, one for each of n questions, put together segment by segment."""

    parts: Sequence[tuple[Segment, Int64s]]
    """Segments and rows in them."""
    order: Int64s | None
    """Which question each row answers, part after part; None when they answer them in turn."""

    def column(self, number: int) -> pa.Array:
        """Return one attribute of the tuples."""
        taken = [
            pc.take(segment.batch.column(number), pa.array(rows), boundscheck=False) for segment, rows in self.parts
        ]
        return taken[0] if len(taken) == 1 else pa.concat_arrays(taken)

    def arranged(self, answers: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return what belongs to the questions, shape (n,), in the order of the rows."""
        return answers if self.order is None else answers[self.order]

    def select(self, mask: Bools) -> Found:
        """Return the rows where the mask, shape (n,) in the order of the rows, is true."""
        parts: list[tuple[Segment, Int64s]] = []
        start = 0
        for segment, rows in self.parts:
            chosen = rows[mask[start : start + len(rows)]]
            start += len(rows)
            if len(chosen) or not parts:
                parts.append((segment, chosen))
        order = np.flatnonzero(mask) if self.order is None else self.order[mask]
        return Found(parts, order)

    def mark(self) -> None:
        """Note that these tuples had a partner."""
        for segment, rows in self.parts:
            assert segment.matched is not None
            segment.matched[rows] = 1

    def unmatched(self) -> Bools:
        """Return which of the tuples had no partner so far, in the order of the rows."""
        flags = [segment.matched[rows] for segment, rows in self.parts if segment.matched is not None]
        return np.concatenate(flags) == 0


@attrs.define(eq=False)
class Segments:
    """Keep stored tuples by position.

    Cost: to append O(tuples), each joined to a larger segment O(log) times at most; to find O(1) a tuple; to retire
    O(1) a tuple, and dead rows never outnumber live ones by more than a segment.
    """

    _segments: list[Segment] = attrs.field(factory=list, init=False)
    _bases: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), init=False)
    _cells: Int64s = attrs.field(factory=lambda: np.zeros(1, np.int64), init=False)
    _shift: int = attrs.field(default=0, init=False)
    _next: int = attrs.field(default=0, init=False)
    _live: int = attrs.field(default=0, init=False)
    _rows: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        """Return the number of live tuples."""
        return self._live

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def nbytes(self) -> int:
        """Return how many bytes the tuples take."""
        return sum(s.batch.nbytes + s.ticks.nbytes for s in self._segments)

    @property
    def wasteful(self) -> bool:
        """Return whether the dead rows are worth throwing out."""
        return self._rows > 2 * self._live + _LARGE

    def append(self, batch: pa.RecordBatch, ticks: Int64s, matched: Flags | None) -> int:
        """Store tuples, and give the position of the first; the others follow."""
        base = self._next
        added = Segment(base=base, batch=batch, ticks=ticks, matched=matched, live=len(ticks))
        self._next += len(ticks)
        self._live += len(ticks)
        self._rows += len(ticks)
        self._segments.append(added)
        while len(self._segments) > 1 and self._joinable(*self._segments[-2:]):
            last = self._segments.pop()
            self._segments[-1] = _joined(self._segments[-1], last)
        self._index()
        return base

    def find(self, positions: Int64s) -> Found:
        """Find tuples by their positions, shape (n,), each that of a live tuple."""
        if len(self._segments) == 1:
            return Found([(self._segments[0], self._segments[0].rows(positions))], None)
        which = np.empty(len(positions), np.int32)
        counts = np.zeros(len(self._segments), np.int64)
        kernels.locate(positions, self._bases, self._cells, self._shift, which, counts)
        used = np.flatnonzero(counts)
        if len(used) == 1:
            segment = self._segments[int(used[0])]
            return Found([(segment, segment.rows(positions))], None)
        ends = np.cumsum(counts)
        order = np.empty(len(positions), np.int64)
        kernels.arrange(which, ends - counts, order)
        arranged = positions[order]
        parts: list[tuple[Segment, Int64s]] = []
        for number in used.tolist():
            segment, stop = self._segments[number], int(ends[number])
            parts.append((segment, segment.rows(arranged[stop - int(counts[number]) : stop])))
        return Found(parts, order)

    def retire(self, found: Found) -> None:
        """Drop tuples, each live and named once."""
        dead = False
        for segment, rows in found.parts:
            segment.live -= len(rows)
            self._live -= len(rows)
            dead |= segment.live == 0
        if dead:
            self._segments = [s for s in self._segments if s.live]
            self._rows = sum(len(s) for s in self._segments)
            self._index()

    def compact(self, live: Int64s) -> None:
        """Throw out dead rows; `live` are the positions of all live tuples, rising."""
        kept: list[Segment] = []
        for segment in self._segments:
            if 2 * segment.live > len(segment):
                kept.append(segment)
                continue
            start, stop = np.searchsorted(live, (segment.base, segment.stop)).tolist()
            fresh = segment.keep(segment.rows(live[start:stop]))
            if kept and kept[-1].positions is not None and len(kept[-1]) + len(fresh) <= _LARGE:
                kept[-1] = _joined(kept[-1], fresh)
            else:
                kept.append(fresh)
        self._segments = kept
        self._rows = sum(len(s) for s in kept)
        self._index()

    def _joinable(self, one: Segment, other: Segment) -> bool:
        adjacent = one.positions is None and one.stop == other.base
        return adjacent and len(one) < 2 * len(other) and len(one) + len(other) <= _LARGE

    def _index(self) -> None:
        self._bases = np.array([s.base for s in self._segments], np.int64)
        if self._segments:
            span = self._next - self._segments[0].base
            self._shift = max(_FINEST, span.bit_length() - _FINEST)
            starts = self._bases[0] + (np.arange((span >> self._shift) + 1) << self._shift)
            self._cells = np.searchsorted(self._bases, starts, side="right") - 1


def _joined(one: Segment, other: Segment) -> Segment:
    """Make one segment of two neighbours."""
    matched = None
    if one.matched is not None and other.matched is not None:
        matched = np.concatenate((one.matched, other.matched))
    plain = one.positions is None and other.positions is None
    return Segment(
        base=one.base,
        batch=pa.concat_batches([one.batch, other.batch]),
        ticks=np.concatenate((one.ticks, other.ticks)),
        matched=matched,
        live=one.live + other.live,
        positions=None if plain else np.concatenate((one.all_positions(), other.all_positions())),
    )
