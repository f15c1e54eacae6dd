"""Slices are the only state of a tuple that came: one slot for each slice, no tuple kept.

The arrays are those that `operators.kernels.slicing.place` describes; this room makes them, grows them and saves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM, apart, bounded, chained
from operators.functions.columns import frozen
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.slicing import place as kernels
from operators.kernels.slicing import release as releasing
from operators.kernels.slicing import settle as settling
from operators.kernels.ticks import FAR
from operators.window.user import Around

T = TypeVar("T", bound=np.generic)
_DEEPEST = 2**60
"""Ticks that a list of edges spans at most."""
QUANTA = 4096
_LISTED = 512
_OF_WINDOWS = tuple(
    map(int, (kernels.NEAR, kernels.ALL, kernels.GAPPY, kernels.ASKED, kernels.JOINED, kernels.SINGLE, kernels.DEPTH))
)
"""What follows from the windows."""
_LEAST = 16
MANY_CELLS = 1 << 12
"""Cells and slices that are made room for ahead of the first tuple, at most; for more when they come."""
_ALL_VALID = np.empty(0, np.bool_)
_NONE = np.empty(0, np.int32)
_UNBOUND = np.array([-FAR, FAR])
"""What `bounds` says of a group of which nothing is known."""
Tables: TypeAlias = tuple[Int64s, Int64s, Int32s, Int64s, Int32s, Int64s, Int64s, Int64s, Int32s, Int32s]
Grid: TypeAlias = tuple[Int32s, Int64s]
"""Which of ascending keys is the first one of each part of time, and the scale of these parts; see `enter_keys`."""
NO_GRID: Grid = np.zeros(0, np.int32), np.zeros(4, np.int64)


@attrs.frozen(eq=False)
class Held:
    """Results of complete windows: the window and the group of each, and the slot with its aggregate."""

    windows: Int64s | slice | int
    """Which of the windows asked for each is of; a slice when each of these has one, a number when all are of one."""
    groups: Int32s
    slots: Slots

    def of(self, column: Int64s) -> Int64s:
        """Return what a column says of the window of each result; where all are of one, it is not written for each."""
        windows = self.windows
        if not isinstance(windows, int):
            return column[windows]
        # As `np.broadcast_to` does, in a tenth of its time.
        return np.ndarray(len(self.groups), column.dtype, column[windows : windows + 1], 0, (0,))


@attrs.define(eq=False)
class Slices(memory.Stateful):
    """Hold cells, and a slot for each slice: 24 bytes, 24 more with sessions, and the accumulators' own.

    Cost: O(1) a tuple that meets the newest slices; a late one O(log cells), with groups O(newer slices of its group);
    an edge O(log windows).
    """

    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    single: bool
    cells: Int64s = attrs.field(
        init=False, metadata=memory.array(of=lambda slices: slices.cells[: slices.ledger[kernels.CELLS_MADE]])
    )
    order: Int64s = attrs.field(
        init=False, metadata=memory.array(of=lambda slices: slices.order[: slices.ledger[kernels.CELLS]])
    )
    nexts: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    edges: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    bands: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    sessions: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    links: Int32s = attrs.field(
        init=False, metadata=memory.array(of=lambda slices: slices.links[: slices.ledger[kernels.MADE]])
    )
    times: Int64s = attrs.field(
        init=False, metadata=memory.array(of=lambda slices: slices.times[: slices.ledger[kernels.MADE]])
    )
    chains: Int32s = attrs.field(init=False, metadata=memory.array())
    bounds: Int64s = attrs.field(init=False, metadata=memory.array(length="chains"))
    dues: Int64s = attrs.field(
        init=False, metadata=memory.array(of=lambda slices: slices.dues[: slices.ledger[kernels.DUES]])
    )
    ledger: Int64s = attrs.field(init=False, metadata=memory.array(length="ledger", own=_OF_WINDOWS))
    table: Int32s = attrs.field(init=False)
    unions: Int32s = attrs.field(init=False)
    _room: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, most=ROOM))
    _idle: list[Int32s] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.cells = np.zeros((_LEAST, 5), np.int64)
        self.order = np.zeros((_LEAST, 2), np.int64)
        self.nexts = np.zeros(0, np.int64)
        self.edges = np.zeros((5, 2), np.int64)
        self.bands = np.zeros((0, 6), np.int64)
        self.sessions = np.zeros((0, 4), np.int64)
        self.links = np.zeros((_LEAST, 6), np.int32)
        self.times = np.zeros((0, 3), np.int64)
        self.chains = np.full((_LEAST, 3), -1, np.int32)
        self.bounds = np.tile(_UNBOUND, (_LEAST, 1))
        self.dues = np.zeros((_LEAST, 2), np.int64)
        self.ledger = np.zeros(kernels.ENTRIES, np.int64)
        self.ledger[[kernels.BOUND, kernels.LOW, kernels.JOINED, kernels.TOP]] = -FAR
        self.ledger[[kernels.CELLS_FREE, kernels.FREE, kernels.STOCK, kernels.EDGES]] = -1
        self.ledger[kernels.SINGLE] = self.single
        self.table = np.zeros(QUANTA, np.int32)
        self.unions = np.zeros((_LEAST, 2), np.int32)
        self._reserve(_LEAST)

    @property
    def memory(self) -> Tables:
        """Return the tables of slices for the kernels, as `operators.kernels.slicing.layout` names them."""
        return (
            self.cells, self.order, self.links, self.times, self.chains, self.bounds, self.dues, self.ledger,
            self.unions, self.table,
        )  # fmt: skip

    @property
    def windows(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return the tables of the windows that slices are cut for, as there."""
        return self.bands, self.sessions, self.nexts, self.edges

    def __len__(self) -> int:
        """Return the number of slices held."""
        return int(self.ledger[kernels.SLICES])

    @property
    def cell_count(self) -> int:
        """Return the number of cells known, empty ones included."""
        return int(self.ledger[kernels.CELLS])

    @property
    def occupied(self) -> int:
        """Return the number of cells that have a slice."""
        cells = self.cells[self.order[: self.cell_count, kernels.NUMBER]]
        return int(np.count_nonzero(cells[:, kernels.SIZE]))

    def spans(self) -> list[tuple[int, int]]:
        """Return begin and end of the cells that have a slice, in order of time."""
        cells = self.cells[self.order[: self.cell_count, kernels.NUMBER]]
        cells = cells[cells[:, kernels.SIZE] > 0]
        return list(zip(cells[:, kernels.BEGIN].tolist(), cells[:, kernels.END].tolist(), strict=True))

    @property
    def least(self) -> int:
        """Return the least tick of the last call of `place`."""
        return int(self.ledger[kernels.BOTTOM])

    @property
    def dropped(self) -> int:
        """Return tuples that are in no slice, all told."""
        return sum(self.lost())

    def lost(self) -> tuple[int, int, int]:
        """Count the tuples that came too late, that are in no window, and that have no usable tick."""
        late, nowhere, unusable = self.ledger[[kernels.LATE, kernels.NOWHERE, kernels.UNUSABLE]].tolist()
        return late, nowhere, unusable

    def use(self, bands: Int64s, sessions: Int64s, *, gappy: bool, asked: bool) -> None:
        """Take the windows to slice for, before the first tuple or after `recut`."""
        if len(sessions) and len(self.sessions) == 0:
            self.times = self._lasting()
        self.bands, self.sessions = bands, sessions
        # There will be a cell for most of few windows at least. Many share their edges, or have none that is near.
        self._make_cells(min(4 * len(bands), MANY_CELLS))
        depth, most = _span(bands)
        self.nexts, self.edges = np.zeros(2 * len(bands), np.int64), np.zeros((5, most), np.int64)
        self.ledger[kernels.EDGES], self.ledger[kernels.DEPTH] = -1, depth
        ledger = self.ledger
        ledger[kernels.NEAR] = sessions[:, kernels.GAP].min() if len(sessions) else 0
        ledger[kernels.ALL] = np.bitwise_or.reduce(sessions[:, kernels.BIT]) if len(sessions) else 0
        ledger[kernels.JOINED] = sessions[:, kernels.SINCE].max(initial=-FAR)
        ledger[kernels.GAPPY], ledger[kernels.ASKED] = gappy, asked

    def _lasting(self) -> Int64s:
        """Return the times of slices from before there were sessions: all of their cell, as far as tuples came."""
        times, of = np.zeros((len(self.links), 3), np.int64), self.cells[self.links[:, kernels.CELL]]
        times[:, kernels.FIRST] = of[:, kernels.BEGIN]
        times[:, kernels.LAST] = np.minimum(of[:, kernels.END] - 1, self.ledger[kernels.TOP])
        return times

    def mark(self, bit: int, *, done: bool) -> None:
        """Say of all slices whether the session window of a bit has no use for them."""
        if len(self.times):
            self.times[:, kernels.DONE] |= bit
            if not done:
                self.times[:, kernels.DONE] ^= bit

    def recut(self, end: int, bands: Int64s) -> None:
        """Fit the cells to other windows, which begin and end after the largest tick; its cell ends at `end` now."""
        kernels.recut(end, bands, self.cells, self.order, self.ledger)

    def place(
        self,
        page: Page,
        ticks: Int64s,
        valid: Bools | None,
        groups: Int32s | None,
        capacity: int,
        tell: Callable[[int], Around],
    ) -> Slots:
        """Add tuples to their slices and give the slot of each, -1 for what is in no open window.

        `capacity` is above every group id, `tell` cuts cells that windows must tell. Slots may be merged since.
        """
        if capacity > len(self.chains):
            self._seat(max(capacity, len(self.chains) + len(self.chains) // 2))
        self.make_unions(len(ticks))
        slots = np.empty(len(ticks), np.int32)
        # The slicer takes seconds to compile, so what was filtered is as what came.
        ticks = frozen(ticks)
        ledger = self.ledger
        ledger[kernels.MERGED], ledger[kernels.BOTTOM] = 0, FAR
        checked = _ALL_VALID if valid is None else valid
        done = 0
        while True:
            if groups is None:
                done, why = kernels.place_single(ticks, checked, self.memory, self.windows, slots, done)
            else:
                done, why = kernels.place_grouped(ticks, checked, groups, self.memory, self.windows, slots, done)
            if done == len(ticks):
                break
            if why == kernels.ASK:
                self.insert(int(ticks[done]), *tell(int(ticks[done])))
            elif why == kernels.SPENT:
                self.restock(len(ticks) - int(done))
            else:
                self.more_cells()
        for accumulator in self.accumulators:
            accumulator.update(slots, page)
        if unions := int(ledger[kernels.MERGED]):
            self.combine(self.unions[:unions, kernels.INTO].copy(), self.unions[:unions, kernels.SOURCE].copy())
        return slots

    def make_unions(self, tuples: int) -> None:
        """Make room for what so many tuples may merge, and for the deadlines that they may set."""
        if tuples > len(self.unions):
            self.unions = np.zeros((tuples, 2), np.int32)
        if len(self.sessions):
            self.make_dues(tuples)

    def restock(self, most: int) -> None:
        """Initialise slots for slices to come: a quarter as many as there are, or windows, so that few pages wait."""
        slots = self.take(max(_LEAST, min(most, max(len(self), len(self.bands)) // 4)))
        for accumulator in self.accumulators:
            accumulator.init(slots)
        settling.stock(slots, self.links, self.ledger)

    def make_dues(self, more: int) -> None:
        """Make room for so many more deadlines."""
        needed = int(self.ledger[kernels.DUES]) + more
        if needed > len(self.dues):
            self.dues = _grown(self.dues, needed + needed // 2)

    def insert(self, tick: int, begin: int, end: int, until: int, covered: bool) -> None:
        """Enter the cell around a tick, which is in none that is known."""
        if self.ledger[kernels.CELLS] >= len(self.order) or self._no_cell:
            self.more_cells()
        nobody = not covered and len(self.sessions) == 0
        kernels.insert_cell(tick, begin, end, until, nobody, self.cells, self.order, self.ledger)

    def find(self, tick: int) -> int:
        """Return the cell that is known to hold a tick, -1 when there is none."""
        k = int(kernels.position(tick, self.order, self.ledger[kernels.CELLS]))
        if k < 0:
            return -1
        cell = int(self.order[k, kernels.NUMBER])
        return cell if tick < self.cells[cell, kernels.END] else -1

    def part(self, cell: int, edge: int) -> int:
        """Let a cell end at an edge within it, and give where it ended."""
        end = int(self.cells[cell, kernels.END])
        self.cells[cell, kernels.END] = edge
        return end

    def empty(self, cell: int) -> list[tuple[int, int, int, int]]:
        """Forget the slices of a cell, whose tuples are to be placed again; its groups are not idle.

        Gives group, first and last tick, and the sessions that are done with it, of each slice; see `again`.
        """
        gone: list[tuple[int, int, int, int]] = []
        slots = self._members(cell)
        for slot in slots:
            if len(self.sessions):
                first, last, done = self.times[slot].tolist()
                gone.append((int(self.links[slot, kernels.GROUP]), first, last, done))
            kernels.unlink(slot, self.cells, self.links, self.chains)
        self.ledger[kernels.SLICES] -= len(slots)
        self.free(np.array(slots, np.int32))
        return gone

    def again(self, begin: int, end: int, gone: Sequence[tuple[int, int, int, int]]) -> None:
        """Let the slices that took the place of others in [begin, end) be done with as these were."""
        order = self.order[: self.cell_count]
        inside = (order[:, kernels.START] >= begin) & (order[:, kernels.START] < end)
        for slot in [slot for cell in order[inside, kernels.NUMBER].tolist() for slot in self._members(cell)]:
            group, tick = int(self.links[slot, kernels.GROUP]), int(self.times[slot, kernels.FIRST])
            bits = [done for g, first, last, done in gone if g == group and first <= tick <= last]
            self.times[slot, kernels.DONE] = bits[0] if bits else 0

    def _members(self, cell: int) -> list[int]:
        slots: list[int] = []
        slot = int(self.cells[cell, kernels.HEAD])
        while slot >= 0:
            slots.append(slot)
            slot = int(self.links[slot, kernels.NEXT])
        return slots

    def combine(self, into: Slots, source: Slots) -> None:
        """Combine slices into others and forget them."""
        for accumulator in self.accumulators:
            accumulator.combine(into, source)
        self.free(source)

    def free(self, slots: Slots) -> None:
        """Forget what slots hold that are in no chain any more."""
        for accumulator in self.accumulators:
            accumulator.free(slots)
        self.give_back(slots)

    def take(self, number: int) -> Slots:
        """Return slots to keep something else in, not initialised; `give_back` returns them."""
        slots, done = np.empty(number, np.int32), 0
        while done < number:
            done += int(releasing.take(self.links, self.ledger, slots[done:]))
            if done < number:
                self.grow()
        return slots

    def give_back(self, slots: Slots) -> None:
        """Let slots be given away again."""
        settling.give_back(slots, self.links, self.ledger)

    def results(self, number: int, wanted: Sequence[Accumulator]) -> Slots:
        """Make room for results behind the slices and give their slots, which hold until the next call.

        They are initialised for the accumulators that want it.
        """
        base = self.reserve_results(number)
        slots = np.arange(base, base + number, dtype=np.int32)
        for accumulator in wanted:
            accumulator.init(slots)
        return slots

    def reserve_results(self, number: int) -> int:
        """Make room for results behind the slices, and give the first of their slots."""
        base = int(self.ledger[kernels.MADE])
        if base + number > self._room:
            self._reserve(max(base + number, self._room + self._room // 4))
        return base

    def settle(self, settled: int, low: int, *, join: bool) -> None:
        """Drop and join what is before a bound, as `kernels.slicing_settle.settle` does."""
        if self.single and not join and len(self.times) == 0:
            self._drop_oldest(min(settled, low))
            return
        gone, into, source = np.empty((3, len(self)), np.int32)
        dropped, pairs, gone_cells = settling.settle(settled, low, join, True, self.memory, gone, into, source)
        # The oldest places are given up without moving the others.
        self.order = self.order[gone_cells:]
        if pairs:
            self.combine(into[:pairs], source[:pairs])
        self.drop(gone[:dropped])

    def _drop_oldest(self, bound: int) -> None:
        gone = np.empty(len(self), np.int32)
        dropped, gone_cells = settling.drop_oldest(bound, self.memory, gone)
        self.order = self.order[gone_cells:]
        if dropped:
            for accumulator in self.accumulators:
                accumulator.free(gone[:dropped])
                accumulator.init(gone[:dropped])

    def drop(self, gone: Slots) -> None:
        """Forget slices that were taken out of their chains; groups left without one are listed for `idle`."""
        if len(gone) == 0:
            return
        if not self.single:
            out = np.empty(len(gone), np.int32)
            left = settling.idle(gone, self.links, self.chains, out)
            if left:
                self._idle.append(out[:left])
        self.free(gone)

    def idle(self) -> Int32s:
        """Return the groups that were left without a slice since the last call, and reset what is known of them."""
        if not self._idle:
            return _NONE
        idle = np.concatenate(self._idle)
        self._idle.clear()
        self.chains[idle] = -1
        self.bounds[idle] = _UNBOUND
        return idle

    @property
    def full(self) -> bool:
        """Return whether no slot is left to be taken before `grow`."""
        return bool(self.ledger[kernels.FREE] < 0 and self.ledger[kernels.MADE] >= len(self.links))

    @property
    def _no_cell(self) -> bool:
        return bool(self.ledger[kernels.CELLS_FREE] < 0 and self.ledger[kernels.CELLS_MADE] >= len(self.cells))

    def grow(self) -> None:
        """Make room for more slots; those that were initialised for slices to come are taken before."""
        if self.ledger[kernels.STOCK] >= 0:
            settling.unstock(self.links, self.ledger)
            return
        self.make_room(larger(len(self.links)))

    def more_cells(self) -> None:
        self._make_cells(2 * max(self.cell_count, _LEAST))
        if self._no_cell:
            self.cells = _grown(self.cells, 2 * len(self.cells))

    def _make_cells(self, size: int) -> None:
        # The order loses its oldest places as they are given up, so it is used up sooner.
        self.cells, self.order = _grown(self.cells, size), _grown(self.order, 2 * size)

    def make_room(self, room: int) -> None:
        """Make room for so many slots, if there is less; what is reserved for results stays apart from it."""
        self._reserve(room)
        self.links = _grown(self.links, room)
        if len(self.sessions):
            self.times = _grown(self.times, len(self.links))

    def _reserve(self, room: int) -> None:
        if room > self._room:
            self._room = room
            for accumulator in self.accumulators:
                accumulator.reserve(room)

    def _seat(self, capacity: int) -> None:
        groups = len(self.chains)
        self.chains, self.bounds = _grown(self.chains, capacity), _grown(self.bounds, capacity)
        self.chains[groups:] = -1
        self.bounds[groups:] = _UNBOUND

    def _before_saving(self) -> None:
        # What is free need not be initialised where it is restored.
        settling.unstock(self.links, self.ledger)

    def _after_restoring(self) -> None:
        ledger, chains, cells, order, links = self.ledger, self.chains, self.cells, self.order, self.links
        ledger[kernels.EDGES] = ledger[kernels.STOCK] = -1
        bounded(chains[:, [kernels.NEWEST, kernels.OLDEST]], "chains", least=None, below=len(links))
        _check(ledger, cells, order, links, chains.astype(np.int64))
        size = max(_LEAST, len(cells), len(order))
        self.cells, self.order = _grown(cells, size), _grown(order, size)
        times = self.times
        if len(times) > len(links):
            raise ValueError(f'the saved state has {len(times)} rows in "times" for {len(links)} slices')
        self.links = _grown(links, max(_LEAST, len(links)))
        if len(self.sessions):
            self.times = _grown(times, len(self.links)) if len(times) else self._lasting()
        dues = bounded(self.dues, "dues", least=None, below=None, length=int(ledger[kernels.DUES]))
        bounded(dues[:, 1], "dues", below=len(chains))
        self.dues = _grown(dues, max(_LEAST, len(dues)))
        self._room = max(self._room, len(self.links))
        for accumulator in self.accumulators:
            accumulator.reserve(self._room)


def _check(ledger: Int64s, cells: Int64s, order: Int64s, links: Int32s, chains: Int64s) -> None:
    """Check that saved cells, slices and groups are chained as kernels chain them; ValueError if not.

    Each slice is in the chain of its cell and in that of its group, both of them whole in both directions; what is free
    is in a chain of its own.
    """
    numbers = apart(order[:, kernels.NUMBER], "order", below=len(cells))
    for place, count in ((kernels.CELLS, order), (kernels.CELLS_MADE, cells), (kernels.MADE, links)):
        bounded(ledger[place : place + 1], "ledger", least=len(count), below=len(count) + 1)
    free = chained(ledger[[kernels.CELLS_FREE]], cells[:, kernels.HEAD], "cells")
    if free[numbers].any():
        raise ValueError("the saved state has cells that are both in use and free")
    ordered = cells[numbers]
    held = chained(ordered[:, kernels.HEAD], links[:, kernels.NEXT], "links")
    _check_doubly(np.flatnonzero(held), links, kernels.CELL, kernels.NEXT, kernels.PREVIOUS)
    heads = ordered[:, kernels.HEAD]
    first = heads[heads >= 0]
    if (links[first, kernels.CELL] != numbers[heads >= 0]).any() or (links[first, kernels.PREVIOUS] >= 0).any():
        raise ValueError("the saved state has cells whose first slices are of others")
    sizes = np.bincount(links[held, kernels.CELL], minlength=len(cells))[numbers]
    if (sizes != ordered[:, kernels.SIZE]).any() or ledger[kernels.SLICES] != held.sum():
        raise ValueError("the saved state has cells with other numbers of slices than it tells")
    if (held & chained(ledger[[kernels.FREE]], links[:, kernels.OLDER], "links")).any():
        raise ValueError("the saved state has slices that are both in use and free")
    bounded(links[held, kernels.GROUP], "links", below=len(chains))
    newest = chains[:, kernels.NEWEST]
    if (held != chained(newest, links[:, kernels.OLDER], "chains")).any():
        raise ValueError("the saved state has slices of no group")
    _check_doubly(np.flatnonzero(held), links, kernels.GROUP, kernels.OLDER, kernels.NEWER)
    groups = np.flatnonzero(newest >= 0)
    newest, oldest, cell = newest[groups], chains[groups, kernels.OLDEST], chains[groups, kernels.IN_CELL]
    if (
        (oldest < 0).any()
        or (links[newest, kernels.GROUP] != groups).any()
        or (links[newest, kernels.CELL] != cell).any()
        or (links[newest, kernels.NEWER] >= 0).any()
        or (links[oldest, kernels.GROUP] != groups).any()
        or (links[oldest, kernels.OLDER] >= 0).any()
    ):
        raise ValueError("the saved state has groups whose newest or oldest slices are of others")


def _check_doubly(held: Int64s, links: Int32s, owner: int, after: int, before: int) -> None:
    """Check that of neighbours in a chain each knows the other, and both have one owner."""
    here = held[links[held, after] >= 0]
    there = links[here, after]
    if (links[there, before] != here).any() or (links[there, owner] != links[here, owner]).any():
        raise ValueError("the saved state has slices that are chained in one direction only, or across chains")


def _span(bands: Int64s) -> tuple[int, int]:
    """Return for how many ticks edges are listed at a time, so that they are about _LISTED, and room for so many.

    Listing takes a step a window, so there is an edge for each where windows are many. Room for one takes 40 bytes.
    """
    sizes, slides, most = bands[:, 0], bands[:, 1], bands[:, 4]
    slides = np.append(slides, slides[(sizes % slides != 0) | (most < FAR)])
    if len(slides) == 0:
        return 1, 2
    depth = max(1, min(int(max(_LISTED, len(slides)) / (1 / slides).sum()), _DEEPEST))
    return depth, int((-(-depth // slides)).sum()) + 2


def larger(size: int) -> int:
    """Return the next size of arrays of a size: twice as large while small, a quarter larger when memory matters."""
    return 2 * size if size < 1 << 18 else size + size // 4


def _grown(array: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    if size <= len(array):
        return array
    more = np.zeros((size, *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more
