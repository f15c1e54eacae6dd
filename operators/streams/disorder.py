"""A measure of disorder reads the values of an attribute once, in order of arrival, and keeps what they look like.

A value is late when a larger one came before it, by the distance to the largest. Counts, the largest distance and
what a promise would make of the values are exact; quantiles and the share beyond a slack are exact to a thousandth of
the distance, never too favourable. Memory: 440 kB and what `samples` takes, whatever the length of the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.streams import disorder as kernels
from operators.kernels.streams.disorder import (
    BEHIND,
    BEYOND,
    BLOCKED,
    BLOCKS,
    CELLS,
    DEPTH,
    HIGHEST,
    JUMP,
    JUMP_AT,
    KEPT,
    LARGEST,
    LATE,
    LOWEST,
    MOST,
    MOST_AT,
    NULLS,
    SEEN,
    STRIDE,
    WIDTH,
)  # fmt: skip
from punctuation import NO_TIME

Shape: TypeAlias = Literal["in order", "band", "block-sorted"]
STACK: Final = 65_536
"""Blocks that are remembered singly; a value below all of them is told as beyond."""
SLICES: Final = 1024
_BLOCKS, _BLOCK = 3, 16


@attrs.frozen
class Point:
    """A value that stands for others in a picture: its place, how far it is behind, and its mark."""

    place: int
    value: int
    behind: int
    mark: int


@attrs.frozen
class Shaped:
    """The shape of a stream's disorder, and the evidence for it."""

    shape: Shape
    blocks: int
    """Ascending, disjoint blocks of two values or more."""
    in_blocks: int
    largest: int
    beyond: int
    """Values that were below blocks which are not remembered; the blocks are fewer then than told."""


@attrs.define
class Measure:
    """Measure the disorder of one attribute; `lengths` are those of blocks whose promise is tried.

    >>> measure = Measure()
    >>> measure.observe(np.array([1, 5, 2, 7]))
    >>> measure.late, measure.most, measure.quantile(0.5)
    (1, 3, 3)
    """

    lengths: tuple[int, ...] = attrs.field(default=(), converter=tuple)
    samples: int = attrs.field(default=0, kw_only=True)
    """Values kept for a picture at most; 0 keeps none."""
    _state: Int64s = attrs.field(init=False, repr=False)
    _cells: Int64s = attrs.field(init=False, repr=False)
    _lengths: Int64s = attrs.field(init=False, repr=False)
    _bounds: Int64s = attrs.field(init=False, repr=False)
    _broken: Int64s = attrs.field(init=False, repr=False)
    _tops: Int64s = attrs.field(init=False, repr=False)
    _sizes: Int64s = attrs.field(init=False, repr=False)
    _samples: Int64s = attrs.field(init=False, repr=False)
    _slices: Int64s = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._state = np.zeros(20, np.int64)
        self._state[[STRIDE, WIDTH]] = 1
        self._cells = np.zeros(CELLS, np.int64)
        self._lengths = np.array(self.lengths, np.int64)
        self._bounds, self._broken = np.zeros(len(self.lengths), np.int64), np.zeros(len(self.lengths), np.int64)
        self._tops, self._sizes = np.zeros(STACK, np.int64), np.zeros(STACK, np.int64)
        self._samples = np.zeros((self.samples + self.samples % 2, 4), np.int64)
        self._slices = np.zeros((SLICES if self.samples else 0, 4), np.int64)

    def observe(self, ticks: Int64s, places: Int64s | None = None, marks: Int64s | None = None) -> None:
        """Read the next values, shape (n,), NO_TIME where there is none.

        `places` say where each is to stand in a picture, by default how many came before it, and `marks` how.
        """
        ticks = np.asarray(ticks, np.int64)
        before, seen = np.int64(self._state[HIGHEST]), int(self._state[SEEN])
        kernels.observe(ticks, NO_TIME, self._state, self._cells, self._lengths, self._bounds, self._broken)
        kernels.unite(ticks, NO_TIME, self._state, self._tops, self._sizes)
        if self.samples:
            if places is None:
                places = np.cumsum(ticks != NO_TIME) + (seen - 1)
            marks = np.zeros(len(ticks), np.int64) if marks is None else marks
            kernels.sample(
                ticks, places, marks, NO_TIME, self._state, before, seen, self._samples, self._slices
            )  # fmt: skip

    @property
    def seen(self) -> int:
        """Return how many values there were."""
        return int(self._state[SEEN])

    @property
    def nulls(self) -> int:
        """Return how many tuples had no value."""
        return int(self._state[NULLS])

    @property
    def late(self) -> int:
        """Return how many values came after a larger one."""
        return int(self._state[LATE])

    @property
    def most(self) -> int:
        """Return how far the latest was behind."""
        return int(np.uint64(self._state[MOST]))

    @property
    def most_at(self) -> int:
        """Return how many values came before the one that was furthest behind."""
        return int(self._state[MOST_AT])

    @property
    def extent(self) -> tuple[int, int] | None:
        """Return the least and the largest value, if there is any."""
        return (int(self._state[LOWEST]), int(self._state[HIGHEST])) if self.seen else None

    @property
    def jump(self) -> tuple[int, int, int]:
        """Return the largest rise of the largest value, how many values came before it, and how many were behind.

        Behind is what is more than half of the jump below the largest value: after a lull there is little of it, after
        a value from the future nearly all.
        """
        return int(np.uint64(self._state[JUMP])), int(self._state[JUMP_AT]), int(self._state[BEHIND])

    def quantile(self, q: float) -> int | None:
        """Return how far behind a share `q` of the late values are at most, rounded up; None if none is late."""
        if not self.late:
            return None
        rank = max(int(np.ceil(q * self.late)), 1)
        cell = int(np.searchsorted(np.cumsum(self._cells), rank))
        return min(_last(cell), self.most)

    def beyond(self, slack: int) -> int:
        """Count the values that are further behind than a slack, with those that may be."""
        if slack >= self.most:
            return 0
        return int(self._cells[_cell(slack + 1) :].sum())

    def slack(self, share: float) -> int:
        """Return a slack beyond which at most a share of all values is."""
        allowed = int(share * self.seen)
        if self.late <= allowed:
            return 0
        above = self.late - np.cumsum(self._cells)
        return min(_last(int(np.argmax(above <= allowed))), self.most)

    def broken(self) -> dict[int, int]:
        """Return for each length how many values break the promise that blocks of it ascend."""
        return dict(zip(self.lengths, self._broken.tolist(), strict=True))

    def shape(self) -> Shaped:
        """Return the shape of the disorder.

        Block-sorted (Fig 6-9): the stream falls into at least 3 ascending, disjoint blocks, none of which holds more
        than half of the values, of at least 16 in the mean, that hold at least 95 % of all values, of which at least
        half are late. Other disorder is a band (Fig 6-8): what strays is bounded by a distance, not by a block.
        """
        state = self._state.copy()
        kernels.settle(state, self._sizes, 0, int(state[DEPTH]))
        blocks, blocked = int(state[BLOCKS]), int(state[BLOCKED])
        sorted_blocks = (
            blocks >= _BLOCKS
            and blocked >= _BLOCK * blocks
            and blocked >= 0.95 * self.seen
            and 2 * state[LARGEST] <= self.seen
            and 2 * self.late >= self.seen
            and not state[BEYOND]
        )
        shape: Shape = "in order" if not self.late else "block-sorted" if sorted_blocks else "band"
        return Shaped(shape, blocks, blocked, int(state[LARGEST]), int(state[BEYOND]))

    def points(self) -> list[Point]:
        """Return the values kept for a picture: evenly drawn ones, and of each stretch the one furthest behind."""
        rows = np.concatenate([self._samples[: self._state[KEPT]], self._slices[self._slices[:, 2] != 0]])
        order = np.unique(rows, axis=0)
        return [Point(*row) for row in order.tolist()]


def _cell(distance: int) -> int:
    """Return the cell of a distance."""
    shift = max(distance.bit_length() - 11, 0)
    return 1024 * shift + (distance >> shift)


def _last(cell: int) -> int:
    """Return the largest distance of a cell."""
    shift = max(cell // 1024 - 1, 0)
    return ((cell - 1024 * shift + 1) << shift) - 1


def lengths_of(ticks_a_second: int | None, most: Sequence[int] = (1, 2, 5)) -> tuple[int, ...]:
    """Return lengths that blocks are likely to have: those of clocks, or round numbers where ticks are no time."""
    if ticks_a_second is None:
        return tuple(step * 10**k for k in range(10) for step in most)
    seconds = [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 21_600, 86_400]
    return tuple(dict.fromkeys(int(s * ticks_a_second) for s in seconds if s * ticks_a_second >= 1))
