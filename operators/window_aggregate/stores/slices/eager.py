"""The eager store combines slices ahead of the windows, so that a release is cheap however many slices a window has.

Punctuation makes slices final in order of time, whatever the order of arrival, so both structures only grow at one end
and shrink at the other. An aggregate that can be taken away exactly keeps running totals: a window is the difference of
two. All others keep a binary tree above the slices (FlatFAT, Tangwongsan et al. 2015): a window is at most
2 log2(slices) nodes.

Cost: a slice one combination for each structure, amortised; a release O(1), or O(log slices) combinations.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s
from operators.functions.protocol import Accumulator, Slots, Totalling
from operators.functions.totalling import totalling
from operators.kernels.slicing import place as slicer
from operators.kernels.slicing import release as releasing
from operators.kernels.slicing import settle as settling
from operators.kernels.slicing import tree as kernels
from operators.window_aggregate.stores.slices.choice import Work
from operators.window_aggregate.stores.slices.results import Results
from operators.window_aggregate.stores.slices.slices import NO_GRID, Grid, Held, Slices
from operators.window_aggregate.stores.slices.windows import CHUNK, Windows

_LEAST = 64
_NOBODY = np.zeros(0, np.int32)


@attrs.define(eq=False)
class Queue(memory.Stateful):
    """Hold rows of whole numbers that come at one end and go at the other, amortised O(1) a row."""

    width: int
    rows: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    """A line for each column; the rows held are those from `start` to `stop`."""
    start: int = attrs.field(init=False, default=0)
    stop: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.rows = np.zeros((self.width, _LEAST), np.int64)

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, column: int) -> Int64s:
        """Return one column of all rows."""
        return self.rows[column, self.start : self.stop]

    def make_room(self, more: int) -> None:
        """Let there be room for so many rows behind `stop`."""
        held = len(self)
        if self.stop + more > self.rows.shape[1]:
            rows = np.zeros((self.width, max(_LEAST, 2 * (held + more))), np.int64)
            rows[:, :held] = self.rows[:, self.start : self.stop]
            self.rows, self.start, self.stop = rows, 0, held

    def drop(self, number: int) -> None:
        """Take rows away at the front."""
        self.start += number


@attrs.define(eq=False)
class Eager:
    """Answer windows of a stream without groups from running totals and a tree over its final slices."""

    slices: Slices
    plain: bool = False
    """Whether results may have their aggregates as numbers of 64 bits; see `Results.values`."""
    joins = False
    """Slices keep their places, so they are not joined."""
    slots = 2
    """Slots that each slice takes: its own, and that of a running total, or of a node above it."""
    work: Work = attrs.field(init=False, factory=Work)
    """As of `Lazy`."""
    _queue: Queue = attrs.field(init=False, factory=lambda: Queue(3))
    """The key, the slot and the running total of each final slice."""
    _base: int = attrs.field(init=False, default=-1)
    _head: int = attrs.field(init=False, default=0)
    _width: int = attrs.field(init=False, default=_LEAST)
    _nodes: Int32s = attrs.field(init=False)
    _dirty: bool = attrs.field(init=False, default=False)
    _gone: int = attrs.field(init=False, default=0)
    """Slices that were held and are no more."""
    near: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """Where to look for the first slice of each band's next window; see `complete`."""
    grid: Grid = attrs.field(init=False, default=NO_GRID)
    """Where to look for a tick among the keys."""
    _summed: list[Accumulator] = attrs.field(init=False)
    totals: list[Totalling] = attrs.field(init=False)
    """What makes the totals of those that are summed."""
    _others: list[Accumulator] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        accumulators = self.slices.accumulators
        self._summed, self.totals, self._others = [], [], []
        for accumulator in accumulators:
            totals = totalling(accumulator)
            if totals is None:
                self._others.append(accumulator)
            else:
                self._summed.append(accumulator)
                self.totals.append(totals)
        self._nodes = np.full(2 * self._width, -1, np.int32)

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held besides the slots."""
        return self._queue.nbytes + self._nodes.nbytes + self.grid[0].nbytes + self.near.nbytes

    def disturb(self) -> None:
        """Take notice that a late tuple may have changed final slices."""
        self._dirty = True

    def keys(self) -> Int64s:
        """Return a tick of every final slice that stands for it in windows, ascending."""
        return self._queue[releasing.KEY]

    def advance(self, bound: int) -> None:
        """Append the slices that a bound made final."""
        if self._dirty:
            self._begin_anew()
        slices, queue, starved = self.slices, self._queue, True
        while starved and (more := len(slices) - len(queue)) > 0:
            queue.make_room(more)
            slots, totals = np.empty((2, more), np.int32)
            n, gridded, starved = releasing.append(
                bound, bool(self._summed), slices.memory, self.grid, queue.rows, queue.start, queue.stop, slots, totals
            )
            self.appended(slots[:n], totals[:n], gridded=gridded, starved=starved)

    def complete(self, bound: int, used: Windows) -> Iterator[Results]:
        """Append the slices that a bound made final, and give the results of the bands that it completes."""
        if self._dirty:
            self._begin_anew()
        slices, queued = self.slices, np.empty(slicer.QUEUED, np.int64)
        # More windows than there is room for are told in several rounds.
        room, told = used.room, False
        while not told:
            appended = np.empty((2, self.make_room()), np.int32)
            self.enter(queued)
            found, ends = np.empty((6, room), np.int64), np.empty((2, room), np.int32)
            n, gridded, starved, count, begin, end = releasing.release(
                bound, bool(self._summed), slices.memory, self.grid, (self.rows, queued, self.near), used.bands,
                used.ahead, appended, room, found, ends,
            )  # fmt: skip
            self.appended(*appended[:, :n], gridded=gridded, starved=starved)
            if count > 0:
                self.work.windows += int(count)
                self.work.parts += int((found[slicer.STOPS, :count] - found[slicer.STARTS, :count]).sum())
                yield from self.told(found[:, :count], *ends[:, :count])
            told = 0 <= count < room
            if told:
                used.follow(int(count), int(begin), int(end))
            elif count == room:
                room = CHUNK

    def told(self, found: Int64s, later: Slots, earlier: Slots) -> Iterator[Results]:
        """Yield the results of windows that `release` has told."""
        places, wids, opens, closes, starts, stops = found
        values = self._between(later, earlier)
        if values:
            yield Results(places, wids, opens, closes, _NOBODY, _NOBODY, values=values)
            return
        # Columns of results are made of these, so what is not used must not live on with them.
        places, wids, opens, closes = found[:4].copy()
        result = self._answer(starts, stops, later, earlier)
        yield Results(places, wids, opens, closes, np.zeros(len(wids), np.int32), result)
        self._free(result)

    def _between(self, later: Slots, earlier: Slots) -> list[Int64s]:
        """Return the aggregates that are differences of these totals; none unless all of them are plain."""
        if self._others or not self.plain or len(later) > ROWS:
            return []
        values: list[Int64s] = []
        for one in self.totals:
            found = one.between(later, earlier)
            if found is None:
                return []
            values.append(found)
        return values

    def appended(self, slots: Slots, totals: Slots, *, gridded: bool, starved: bool) -> None:
        """Make up the running totals of slices that stand behind the queue now, and the nodes above them."""
        queue, held = self._queue, len(self._queue)
        self.work.slices += len(slots)
        if len(slots):
            self.accumulate(slots, totals)
            queue.stop += len(slots)
            if self._others and 2 * len(queue) > self._width:
                self._plant()
            elif self._others:
                self._raise(slots, self._head + held)
            if not gridded:
                self._draw()
        if starved and self.slices.full:
            self.slices.grow()

    @property
    def summed(self) -> bool:
        """Return whether running totals are all that is kept."""
        return bool(self._summed) and not self._others

    @property
    def rows(self) -> Int64s:
        """Return the queue of final slices."""
        return self._queue.rows

    def enter(self, queued: Int64s) -> None:
        """Say where the queue is, for a kernel that moves it on; `leave` takes it from there."""
        if self._dirty:
            self._begin_anew()
        if len(self.near) != len(self.slices.bands):
            self.near = np.zeros(len(self.slices.bands), np.int64)
        queue = self._queue
        queued[:] = queue.start, queue.stop, self._base, self._gone, 0

    def leave(self, queued: Int64s) -> None:
        """Take where the queue is now."""
        queue = self._queue
        before, (queue.start, queue.stop, self._base, self._gone, dirty) = self._gone, queued.tolist()
        self._head += self._gone - before
        self._dirty = bool(dirty)

    def make_room(self) -> int:
        """Make room in the queue for the slices that are not in it, and give their number."""
        more = len(self.slices) - len(self._queue)
        self._queue.make_room(more)
        return more

    @property
    def last(self) -> int:
        """Return the slot of the running total of all final slices, -1 without one."""
        queue = self._queue
        return int(queue.rows[releasing.TOTAL, queue.stop - 1]) if len(queue) else self._base

    def accumulate(self, slots: Slots, totals: Slots) -> None:
        """Make the running totals of slices that were appended."""
        for one in self.totals:
            one.accumulate(totals, slots, self.last)

    def _draw(self) -> None:
        """Draw a grid of parts with about a key each, with room for twice the keys' time and number.

        As long as few were held, room is for those to come: as many as there are windows, and as long as these are.
        """
        keys, bands = self.keys(), self.slices.bands
        room = 4 << max(len(keys), len(bands)).bit_length()
        span = int(keys[-1] - keys[0])
        longest = int(bands[:, slicer.RANGE].max(initial=0))
        shift = max(0, (max(span, min(longest, 16 * span)) // (room // 4)).bit_length() - 1)
        self.grid = np.zeros(room, np.int32), np.array([int(keys[0]), shift, 0, -1])
        releasing.enter_keys(keys, 0, self.grid)

    def _raise(self, slots: Slots, count: int) -> None:
        """Append slices to the tree, at positions from `count` on."""
        slices = self.slices
        # So many nodes at most are completed: one a slice on average, and the last slice may complete one a level.
        spare = slices.take(len(slots) + self._width.bit_length())
        into, source = np.empty(2 * len(spare), np.int32), np.empty(2 * len(spare), np.int32)
        used = kernels.raise_nodes(slots, self._head, count, self._width, self._nodes, spare, into, source)
        for accumulator in self._others:
            accumulator.init(spare[:used])
            accumulator.combine(into[: 2 * used], source[: 2 * used])
        slices.give_back(spare[used:])

    def _plant(self) -> None:
        """Build the tree anew over all slices held, with room to grow."""
        held = len(self._queue)
        # The newest slices are in no node yet; there is nothing to fell above them.
        self._fell(self._head + held)
        while 4 * held > self._width:
            self._width *= 2
        self._nodes = np.full(2 * self._width, -1, np.int32)
        self._head = 0
        self._raise(self._queue[releasing.SLOT].astype(np.int32), 0)

    def _fell(self, until: int) -> None:
        """Let go of the nodes that reach back before a position."""
        out = np.empty(len(self._nodes), np.int32)
        count = self._head + len(self._queue)
        n = kernels.fell_nodes(self._head, until, count, self._width, self._nodes, out)
        if n:
            for accumulator in self._others:
                accumulator.free(out[:n])
            self.slices.give_back(out[:n])

    def settled(self, gone: int) -> None:
        """Let go of so many slices that have been dropped; should they not be the oldest ones, all is built anew."""
        queue, oldest = self._queue, int(self.slices.chains[0, slicer.OLDEST])
        if gone == 0 or len(queue) == 0:
            return
        slots = queue[releasing.SLOT]
        if int(slots[gone]) != oldest if gone < len(queue) else bool((slots == oldest).any()):
            self._dirty = True
            return
        gone = min(gone, len(queue))
        if self._others:
            self._fell(self._head + gone)
        if self._summed:
            # The total before the slices that are held is still needed, those before that one are not.
            totals = queue[releasing.TOTAL]
            self._drop_totals(totals, gone)
            self._base = int(totals[gone - 1])
        queue.drop(gone)
        self._head += gone
        self._gone += gone
        self.grid[1][releasing.GONE] += gone

    def _drop_totals(self, totals: Int64s, number: int) -> None:
        slots, slices = np.empty(number, np.int32), self.slices
        n = settling.drop_totals(self._base, totals, number, slices.links, slices.ledger, slots)
        for accumulator in self._summed:
            accumulator.free(slots[:n])

    def _begin_anew(self) -> None:
        """Forget what was combined, and count the slices that are to be combined again."""
        self.work.late += len(self._queue)
        self.work.slices -= len(self._queue)
        self.clear()

    def clear(self) -> None:
        """Forget what was combined; the slices remain, and `advance` begins anew."""
        if self._others:
            self._fell(self._head + len(self._queue))
        if self._summed:
            self._drop_totals(self._queue[releasing.TOTAL], len(self._queue) + 1)
        self._queue = Queue(3)
        self._base, self._head, self._dirty, self.grid = -1, 0, False, NO_GRID

    def answers(self, opens: Int64s, closes: Int64s, firsts: Int64s) -> Iterator[Held]:
        """Yield the results of windows [opens[i], closes[i]), all of whose slices are final; `firsts` as in `Lazy`."""
        queue, room = self._queue, len(opens)
        windows, starts, stops = np.empty((3, room), np.int64)
        ends = np.empty((2, room), np.int32)
        n = releasing.ranges(
            (opens, closes, firsts), queue.rows, queue.start, queue.stop, self.grid, self._base, windows, starts, stops,
            ends,
        )  # fmt: skip
        if n == 0:
            return
        self.work.windows += int(n)
        self.work.parts += int((stops[:n] - starts[:n]).sum())
        slots = self._answer(starts[:n], stops[:n], *ends[:, :n])
        yield Held(slice(n) if n == room else windows[:n], np.zeros(n, np.int32), slots)
        self._free(slots)

    def _answer(self, starts: Int64s, stops: Int64s, later: Slots, earlier: Slots) -> Slots:
        """Return the slots of results of ranges of the queue, which `ranges` has told."""
        slots = self.slices.results(len(starts), self._others)
        for one in self.totals:
            one.difference(slots, later, earlier)
        if self._others:
            pairs = 2 * len(starts) * max(1, self._width.bit_length())
            into, source = np.empty((2, pairs), np.int32)
            pairs = kernels.climb(starts, stops, self._head, self._width, self._nodes, into, source)
            targets = into[:pairs] + slots[0]
            for accumulator in self._others:
                accumulator.combine(targets, source[:pairs])
        return slots

    def _free(self, slots: Slots) -> None:
        for accumulator in self.slices.accumulators:
            accumulator.free(slots)
