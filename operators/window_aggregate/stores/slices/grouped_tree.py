"""The eager store of groups combines the vectors of slices ahead of the windows, in a binary tree of vectors.

A node of the tree has the aggregates of all groups of its slices (FlatFAT, Tangwongsan et al. 2015), so a window is at
most 2 log2(slices) vectors however long it is. Cost: one combination of two vectors a slice, amortised; a release
O(log slices) combinations for each group; as much memory again as the slices take.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data.page import Int32s, Int64s
from operators.kernels.slicing import place as slicer
from operators.window_aggregate.stores.slices.eager import Queue
from operators.window_aggregate.stores.slices.grouped import Grouped
from operators.window_aggregate.stores.slices.slices import Held

_BEGIN, _SLOT = 0, 1


@attrs.define(eq=False)
class GroupedTree(Grouped):
    """Answer windows from a tree of vectors over the final slices.

    Positions count the final slices in order of time; those before `_head` are gone. Node j of level l stands above
    the positions [j * 2^l, (j+1) * 2^l).
    """

    joins = False
    """Slices keep their places, so they are not joined."""
    _held: Queue = attrs.field(init=False, factory=lambda: Queue(2))
    """The begin of the cell, and the slot, of each slice from `_head` on."""
    _head: int = attrs.field(init=False, default=0)
    _nodes: list[dict[int, Int32s]] = attrs.field(init=False, factory=list)
    """The vectors of level 1 and above, by their number there."""
    _dirty: bool = attrs.field(init=False, default=False)
    _node_bytes: int = attrs.field(init=False, default=0)
    """What the nodes take besides their aggregates."""
    members: int = attrs.field(init=False, default=0)
    """How many groups the nodes have, all told."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held besides the aggregates."""
        return self._node_bytes + self._held.nbytes

    def disturb(self) -> None:
        """Take notice that a late tuple may have changed final slices."""
        self._dirty = True

    def clear(self) -> None:
        """Forget what was combined; the slices remain, and `advance` begins anew."""
        for level in self._nodes:
            for row in level.values():
                self._let_go(row)
        self._nodes, self._held, self._head, self._dirty = [], Queue(2), 0, False

    def advance(self, bound: int) -> None:
        """Append the slices that a bound made final, and every node that they complete."""
        if self._dirty:
            self.clear()
        slices, held = self.slices, self._held
        last = int(held[_SLOT][-1]) if len(held) else -1
        slot = int(slices.links[last, slicer.NEWER]) if len(held) else int(slices.chains[0, slicer.OLDEST])
        while slot >= 0:
            begin, end = slices.cells[slices.links[slot, slicer.CELL], [slicer.BEGIN, slicer.END]].tolist()
            if end > bound:
                return
            held.make_room(1)
            held.rows[:, held.stop] = begin, slot
            held.stop += 1
            self._raise(self._head + len(held) - 1)
            slot = int(slices.links[slot, slicer.NEWER])

    def keys(self) -> Int64s:
        """Return the begin of every final slice's cell, ascending."""
        return self._held[_BEGIN]

    def settled(self, gone: int) -> None:
        """Let go of so many slices that have been dropped; should they not be the oldest ones, all is built anew."""
        held, oldest = self._held, int(self.slices.chains[0, slicer.OLDEST])
        if gone == 0 or len(held) == 0:
            return
        if gone >= len(held) or int(held[_SLOT][gone]) != oldest:
            self.clear()
            return
        held.drop(gone)
        self._head += gone
        for depth, level in enumerate(self._nodes, 1):
            # Nodes of a level were made in the order of their numbers.
            while level and (number := next(iter(level))) << depth < self._head:
                self._let_go(level.pop(number))

    def drop_groups(self, which: Int32s, low: int) -> None:
        """Forget what single groups have in slices that end at or before `low`."""
        self.clear()
        super().drop_groups(which, low)

    def answers(self, opens: Int64s, closes: Int64s, firsts: Int64s) -> Iterator[Held]:
        """Yield the results of windows [opens[i], closes[i]), all of whose slices are final; `firsts` as in `Lazy`."""
        if not len(opens):
            return
        self.advance(int(closes.max()))
        begins = self.keys()
        starts = firsts if len(firsts) else np.searchsorted(begins, opens)
        stops = np.searchsorted(begins, closes)
        running = self.vectors.running()
        for w, (start, stop, close) in enumerate(zip(starts.tolist(), stops.tolist(), closes.tolist(), strict=True)):
            parts = self._parts(self._head + start, self._head + stop)
            if len(parts) == 1:
                yield self.vectors.held(w, parts[0], close)
            elif parts:
                self.vectors.pour_rows(parts, running)
                yield self.vectors.held(w, running, close)
                self.vectors.empty(running)

    def _raise(self, number: int) -> None:
        """Make every node that the slice at a position completes."""
        depth = 0
        while number & 1 and (number - 1) << depth >= self._head:
            node = self.vectors.running()
            before = len(self.vectors)
            self.vectors.pour_rows([self._row(depth, number - 1), self._row(depth, number)], node)
            self.members += len(self.vectors) - before
            self._node_bytes += node.nbytes
            number, depth = number >> 1, depth + 1
            if depth > len(self._nodes):
                self._nodes.append({})
            self._nodes[depth - 1][number] = node

    def _parts(self, start: int, stop: int) -> list[Int32s]:
        """Return the vectors that make up a range of positions."""
        left: list[Int32s] = []
        right: list[Int32s] = []
        depth = 0
        while start < stop:
            if start & 1:
                left.append(self._row(depth, start))
                start += 1
            if stop & 1:
                stop -= 1
                right.append(self._row(depth, stop))
            start, stop, depth = start >> 1, stop >> 1, depth + 1
        return left + right[::-1]

    def _row(self, depth: int, number: int) -> Int32s:
        """Return the vector of a node."""
        if depth == 0:
            return self.vectors.row(int(self._held[_SLOT][number - self._head]))
        return self.vectors.widened(self._nodes[depth - 1][number])

    def _let_go(self, row: Int32s) -> None:
        before = len(self.vectors)
        self.vectors.empty(row)
        self.members -= before - len(self.vectors)
        self._node_bytes -= row.nbytes
