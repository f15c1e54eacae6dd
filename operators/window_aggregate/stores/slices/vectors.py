"""A slice of many groups is a vector: it has one aggregate for each of its groups, at a place that follows from its id.

To those who handle slices, vectors are the accumulator of a stream without groups: what adds up, joins or drops slices
adds up, joins or drops vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import attrs
import numpy as np

from operators.data import memory
from operators.data.digests import Words
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM, apart, bounded, prefixed
from operators.functions.protocol import Accumulator, BlockSubtractable, Blockwise, Slots, Subtractable
from operators.kernels.slicing import place as slicer
from operators.kernels.slicing import vectors as kernels
from operators.kernels.ticks import FAR
from operators.protocol import State
from operators.protocol_checks import fits
from operators.window_aggregate.stores.slices.slices import Held, Slices

LINKS = 24
"""Bytes that links cost a slice of one group."""
SMALL = 1 << 20
"""Bytes for which it does not matter how they are used."""
_LEAST = 4
_RESULTS = 1 << 12
FEW = 1 << 10
"""For so few groups, a window is not worth a page of its own."""
NO_ROW = np.empty(0, np.int32)
_TOGETHER = 1 << 15
"""Blocks that are added to a vector at a time."""


@attrs.define(eq=False)
class Vectors(memory.Stateful):
    """Hold the aggregates of each (slice, group) in blocks of 64 groups: no byte but theirs where blocks are full.

    Cost: O(1) a tuple; O(groups) to add vectors, to list one or to let it go. Accumulators that can, add blocks as a
    whole: then what no group has in a block is kept empty.
    """

    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    first: int = 0
    """Before this block, the accumulators hold something else, until `take_over`."""
    groups: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))
    """The groups of the tuples that are added next."""
    own: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64), metadata=memory.array())
    """Up to where groups were promised alone, by group as far as any was."""
    seats: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """All groups ever had ids below."""
    _width: int = attrs.field(init=False)
    _table: Int32s = attrs.field(
        init=False, factory=lambda: np.zeros((0, 1), np.int32), metadata=memory.array(least=-1, wide=True)
    )
    _bits: Words = attrs.field(init=False, factory=lambda: np.zeros(0, np.uint64), metadata=memory.array())
    _left: Words = attrs.field(init=False, factory=lambda: np.zeros(1, np.uint64), metadata=memory.rebuilt())
    _spare: Int32s = attrs.field(
        init=False, factory=lambda: np.zeros(0, np.int32), metadata=memory.array(least=0, below=ROOM, length="_bits")
    )
    _ledger: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(3, np.int64), metadata=memory.array(least=0, length="_ledger")
    )
    _looked: int = attrs.field(init=False, default=0)
    _results: int = attrs.field(init=False, default=0)
    """Slots behind the blocks that there is room for."""
    _behind: tuple[int, int] = attrs.field(init=False, default=(0, 0))
    """Behind how many blocks so many of these slots are empty."""
    _blockwise: Sequence[Blockwise] = attrs.field(init=False)
    _slotwise: Sequence[Accumulator] = attrs.field(init=False)
    """The accumulators that are told slot by slot what is added and let go."""

    def __attrs_post_init__(self) -> None:
        self._blockwise = [one for one in self.accumulators if isinstance(one, Blockwise)]
        self._slotwise = [one for one in self.accumulators if not isinstance(one, Blockwise)]
        self._ledger[kernels.BLOCKS] = self.first
        self._grow(1)
        self._width = self._bytes_a_slot

    def __len__(self) -> int:
        """Return the number of groups in all vectors together."""
        return int(self._ledger[kernels.MEMBERS])

    @property
    def nulls(self) -> int:
        return sum(accumulator.nulls for accumulator in self.accumulators)

    @property
    def capacity(self) -> int:
        """Return the number that all ids of groups are below."""
        return 64 * self._table.shape[1]

    @property
    def arrays(self) -> tuple[Int32s, Words, Words, Int32s, Int64s]:
        """Return the blocks of slices, their bits, the groups that left, the free blocks and the counts."""
        return self._table, self._bits, self._left, self._spare, self._ledger

    @property
    def together(self) -> bool:
        """Return whether a page may be taken with its promises: groups are few, and none was promised alone."""
        return self.few and not self._slotwise and len(self.own) == 0

    @property
    def few(self) -> bool:
        """Return whether groups are so few that a window is not worth a page of its own."""
        return self.seats <= FEW

    @property
    def blocks(self) -> int:
        """Return the number of blocks that there is room for."""
        return len(self._bits)

    def reserve_results(self, number: int) -> None:
        """Make room for so many slots of results behind the blocks, a multiple of 64, and let all of them be empty."""
        if self._behind != (room := (len(self._bits), number)):
            self._results, self._behind = number, room
            for accumulator in self.accumulators:
                accumulator.reserve(64 * room[0] + number)
            self.clear_blocks(np.arange(room[0], room[0] + number // 64, dtype=np.int32))

    def add_up(self, slots: Slots, page: Page | None, into: Int32s, source: Int32s) -> None:
        """Add tuples to slots, and then blocks to blocks."""
        if page is not None:
            for accumulator in self.accumulators:
                accumulator.update(slots, page)
        for accumulator in self._blockwise if len(into) else ():
            accumulator.combine_blocks(into, source)

    def clear_blocks(self, blocks: Int32s) -> None:
        """Empty blocks that no slice has any more."""
        for accumulator in self._blockwise:
            accumulator.clear_blocks(blocks)

    def grow(self) -> None:
        """Let there be another block."""
        self._grow(1)

    def seat(self, capacity: int) -> None:
        """Make room for groups with ids below."""
        self.seats = max(self.seats, capacity)
        if capacity > self.capacity:
            columns = max(-(-capacity // 64), self._table.shape[1] + self._table.shape[1] // 4)
            table = np.full((len(self._table), columns), -1, np.int32)
            table[:, : self._table.shape[1]] = self._table
            self._table = table
            self._left = np.append(self._left, np.zeros(columns - len(self._left), np.uint64))

    def reserve(self, capacity: int) -> None:
        if capacity > len(self._table):
            table = np.full((capacity, self._table.shape[1]), -1, np.int32)
            table[: len(self._table)] = self._table
            self._table = table

    def _grow(self, blocks: int) -> None:
        """Make sure that there are so many blocks to be had."""
        made, spare = int(self._ledger[kernels.BLOCKS]), int(self._ledger[kernels.SPARES])
        room = len(self._bits)
        if spare + room - made < blocks:
            room = max(made - spare + blocks, room + max(_LEAST, room // 2))
            self._bits = np.append(self._bits, np.zeros(room - len(self._bits), np.uint64))
            self._spare = np.append(self._spare, np.zeros(room - len(self._spare), np.int32))
            for accumulator in self.accumulators:
                accumulator.reserve(64 * room + self._results)
            self.clear_blocks(np.arange(made, room, dtype=np.int32))

    def init(self, slots: Slots) -> None:
        """Set nothing: a slice that is not held has no blocks."""

    def update(self, slots: Slots, page: Page) -> None:
        """Add each tuple to its slice and group; the groups were told in `groups`."""
        found = self._locate(slots, self.groups)
        for accumulator in self.accumulators:
            accumulator.update(found, page)

    def _locate(self, slots: Slots, groups: Int32s) -> Slots:
        """Return the slot of each slice and group, -1 where there is no slice."""
        found, fresh = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
        done = 0
        while done < len(slots):
            done, new = kernels.locate(
                slots, groups, self._table, self._bits, self._spare, self._ledger, found, fresh, done
            )
            self._init(fresh[:new])
            if done < len(slots):
                self._grow(1)
        return found

    def take_over(self, source: Slots, slots: Slots, groups: Int32s) -> None:
        """Move what accumulators hold at `source` to slices and groups, and use the blocks before the first."""
        found = self._locate(slots, groups)
        for accumulator in self.accumulators:
            accumulator.combine(found, source)
        for accumulator in self._slotwise:
            accumulator.free(np.arange(64 * self.first, dtype=np.int32))
        blocks = np.arange(self.first, dtype=np.int32)
        self.clear_blocks(blocks)
        spares = int(self._ledger[kernels.SPARES])
        self._spare[spares : spares + self.first] = blocks
        self._ledger[kernels.SPARES] += self.first

    def _init(self, slots: Slots) -> None:
        for accumulator in self._slotwise:
            accumulator.init(slots)

    def combine(self, into: Slots, source: Slots) -> None:
        for to, of in zip(into.tolist(), source.tolist(), strict=True):
            self.pour(np.array([of], np.int32), self._table[to])

    def running(self) -> Int32s:
        """Return an empty vector that is no slice."""
        return np.full(self._table.shape[1], -1, np.int32)

    def row(self, slot: int) -> Int32s:
        """Return the vector of a slice."""
        return self._table[slot]

    def widened(self, row: Int32s) -> Int32s:
        """Return a vector with a place for every group that there is now."""
        lacking = self._table.shape[1] - len(row)
        return np.append(row, np.full(lacking, -1, np.int32)) if lacking else row

    def pour_rows(self, rows: Sequence[Int32s], target: Int32s) -> None:
        """Add vectors, which need be no slices, to one; all have a place for every group."""
        table = np.stack(rows)
        self.pour_table(table, np.arange(len(rows), dtype=np.int32), target)

    def pour(self, slots: Slots, target: Int32s) -> None:
        """Add slices to a vector."""
        self.pour_table(self._table, slots, target)

    def pour_table(self, table: Int32s, slots: Slots, target: Int32s) -> None:
        """Add rows of a table to a vector."""
        columns = len(target)
        self._grow(min(int(np.count_nonzero(target < 0)), int(np.count_nonzero(table[slots] >= 0))))
        room, listed, done = max(len(slots), min(columns * len(slots), _TOGETHER)), 64 if self._slotwise else 0, 0
        blocks_into, blocks_source = np.empty((2, room), np.int32)
        fresh, into, source = np.empty((3, listed * room), np.int32)
        while done < columns:
            counts = kernels.pour(
                slots, done, table, target, self._bits, self._spare, self._ledger, blocks_into, blocks_source,
                fresh, into, source,
            )  # fmt: skip
            done, blocks, new, pairs = map(int, counts)
            for accumulator in self._blockwise:
                accumulator.combine_blocks(blocks_into[:blocks], blocks_source[:blocks])
            self._init(fresh[:new])
            for accumulator in self._slotwise:
                accumulator.combine(into[:pairs], source[:pairs])

    def add(self, slots: Slots, target: Int32s, counts: Int32s) -> int:
        """Add slices to a vector of sums, whose groups are in so many slices each; gives how many groups are new."""
        before = len(self)
        self.pour(slots, target)
        kernels.enter(slots, self._table, self._bits, counts)
        return len(self) - before

    def subtract(self, slot: int, target: Int32s, counts: Int32s) -> int:
        """Take a slice from a vector of sums; gives how many groups are in none of its slices any more."""
        row = self._table[slot]
        blocks_into, blocks_source = np.empty((2, int(np.count_nonzero(row >= 0))), np.int32)
        others = [one for one in self.accumulators if not fits(one, BlockSubtractable)]
        into, source, gone = np.empty((3, 64 * len(blocks_into) + 1 if others else 0), np.int32)
        before = len(self)
        blocks, n, left = kernels.leave(
            row, target, self._bits, self._ledger, counts, blocks_into, blocks_source, into, source, gone
        )
        for accumulator in self.accumulators:
            if fits(accumulator, BlockSubtractable):
                accumulator.subtract_blocks(blocks_into[:blocks], blocks_source[:blocks])
                continue
            assert fits(accumulator, Subtractable)
            accumulator.subtract(into[:n], source[:n])
            accumulator.free(gone[:left])
            accumulator.init(gone[:left])
        return before - len(self)

    def sizes(self, slots: Slots) -> Int64s:
        """Return how many groups each of these slices has."""
        blocks = self._table[slots]
        return np.where(blocks >= 0, np.bitwise_count(self._bits[blocks]), 0).sum(axis=1, dtype=np.int64)

    def held(self, window: int, slot: int | Int32s, close: int) -> Held:
        """Return the aggregates of a slice, or of a vector, as the results of a window that ends at `close`."""
        row = self._table[slot] if isinstance(slot, int) else slot
        room = 64 * int(np.count_nonzero(row >= 0))
        groups, slots = np.empty(room, np.int32), np.empty(room, np.int32)
        n = kernels.members(row, self._bits, self.own, close, groups, slots)
        return Held(window, groups[:n], slots[:n])

    def empty(self, row: Int32s) -> None:
        """Let go of what a vector holds that is no slice."""
        self._clear(row, np.zeros(0, np.uint64))

    def _clear(self, row: Int32s, left: Words) -> None:
        room = int(np.count_nonzero(row >= 0))
        blocks, gone = np.empty(room, np.int32), np.empty(64 * room if self._slotwise else 0, np.int32)
        _, number = kernels.clear(row, self._bits, self._spare, self._ledger, left, blocks, gone)
        for accumulator in self._blockwise:
            accumulator.clear_blocks(blocks)
        for accumulator in self._slotwise:
            accumulator.free(gone[:number])

    def free(self, slots: Slots) -> None:
        for slot in slots.tolist():
            self._clear(self._table[slot], self._left)

    def remove(self, which: Int32s, slots: Slots) -> None:
        """Forget what single groups have in slices."""
        for slot in slots.tolist():
            gone = np.empty(len(which), np.int32)
            n = kernels.remove(which, self._table[slot], self._bits, self._spare, self._ledger, self._left, gone)
            for accumulator in self.accumulators:
                accumulator.free(gone[:n])
                accumulator.init(gone[:n])

    def idle(self, total: Int32s = NO_ROW) -> Int32s:
        """Return the groups that were left without a slice since the last call, and reset what is known of them.

        What a vector of sums has is not looked for in its slices.
        """
        if not self._left.any():
            return np.zeros(0, np.int32)
        out = np.empty(self.capacity, np.int32)
        idle = out[: kernels.idle(self._left, self._table, total, self._bits, out)].copy()
        self.own[idle[idle < len(self.own)]] = -FAR
        return idle

    def holds(self, groups: Int32s) -> Bools:
        """Return of each group whether it is in a slice."""
        out = np.empty(len(groups), np.bool_)
        kernels.held(groups, self._table, self._bits, out)
        return out

    def bounds(self, which: Int32s) -> Int64s:
        """Return the bound that was promised of each of these groups alone."""
        known = which < len(self.own)
        bounds = np.full(len(which), -FAR)
        bounds[known] = self.own[which[known]]
        return bounds

    def promise(self, which: Int32s, bound: int) -> None:
        """Take notice that no tuple of these groups before a bound will come."""
        if len(self.own) < self.capacity:
            self.own = np.append(self.own, np.full(self.capacity - len(self.own), -FAR))
        self.own[which] = np.maximum(self.own[which], bound)

    def having(self, which: Int32s, slots: Slots) -> Bools:
        """Return of each slice whether it has any of these groups."""
        blocks = self._table[np.ix_(slots, which >> 6)]
        bits = np.uint64(1) << (which & 63).astype(np.uint64)
        return np.asarray(((blocks >= 0) & (self._bits[blocks] & bits != 0)).any(axis=1))

    def everyone(self) -> Int32s:
        """Return all groups that there may be."""
        return np.arange(self.seats, dtype=np.int32)

    def of_groups(
        self, which: Int32s, past: int, closes: Int64s, starts: Int64s, stops: Int64s, rows: Slots
    ) -> Iterator[Held]:
        """Yield the results of single groups in windows over rows[starts[i] : stops[i]] that end after `past`."""
        since, done = np.maximum(self.bounds(which), past), 0
        room = max(_RESULTS, len(which)), max(4 * _RESULTS, len(which) * int((stops - starts).max()))
        while done < len(closes):
            windows, groups = np.empty(room[0], np.int64), np.empty(room[0], np.int32)
            into, source = np.empty(room[1], np.int32), np.empty(room[1], np.int32)
            counts = kernels.cover(
                which,
                since,
                (closes, starts, stops),
                rows,
                self._table,
                self._bits,
                done,
                windows,
                groups,
                into,
                source,
            )
            done, n, pairs = map(int, counts)
            if n:
                row = np.full(-(-n // 64), -1, np.int32)
                yield Held(windows[:n], groups[:n], self._made(row, n, into[:pairs], source[:pairs]))
                self.empty(row)

    def _made(self, row: Int32s, number: int, into: Int32s, source: Slots) -> Slots:
        """Combine results of so many into a vector and give their slots; there the places mean nothing."""
        self._grow(len(row))
        everything, slots = np.arange(number, dtype=np.int32), np.empty(number, np.int32)
        kernels.locate(
            np.zeros(number, np.int32), everything, row.reshape(1, -1), self._bits, self._spare, self._ledger, slots,
            np.empty(number, np.int32), 0,
        )  # fmt: skip
        self._init(slots)
        for accumulator in self.accumulators:
            accumulator.combine(slots[into], source)
        return slots

    @property
    def _used(self) -> int:
        return int(self._ledger[kernels.BLOCKS] - self._ledger[kernels.SPARES])

    @property
    def grown(self) -> bool:
        """Return whether there are many more blocks than when it was last asked whether they are wasteful."""
        return self._used > self._looked + self._looked // 8

    def wasteful(self, slots: Slots, beside: int = LINKS) -> bool:
        """Return whether these slices would take fewer bytes if each group of them were a slice of its own.

        That takes so many bytes `beside` its aggregates.
        """
        self._looked = self._used
        blocks = self._table[slots]
        blocks = blocks[blocks >= 0]
        members = int(np.bitwise_count(self._bits[blocks]).sum())
        # What accumulators hold besides, as bags do, they hold either way.
        width = self.width
        held = 64 * len(blocks) * width + 4 * len(slots) * self._table.shape[1]
        return held > SMALL + members * (beside + width)

    @property
    def width(self) -> int:
        """Return the bytes of what is aggregated for a group of a slice."""
        return min(self._width, self._bytes_a_slot)

    @property
    def _bytes_a_slot(self) -> int:
        return sum(accumulator.nbytes for accumulator in self.accumulators) // (64 * len(self._bits) + self._results)

    def finalize(self, slots: Slots) -> NoReturn:
        raise NotImplementedError("the result of a vector is that of its accumulators, at the slots of its groups")

    def _after_restoring(self) -> None:
        room, made, spares = len(self._bits), int(self._ledger[kernels.BLOCKS]), int(self._ledger[kernels.SPARES])
        table = bounded(self._table, "table", least=-1, below=made)
        if made > room or spares > made:
            raise ValueError(f"the saved state has {made} blocks and {spares} spare ones of {room}")
        apart(np.concatenate((table[table >= 0], self._spare[:spares])), "table", below=made)
        self._left = np.zeros(table.shape[1], np.uint64)
        if self.seats > self.capacity or len(self.own) > self.capacity:
            raise ValueError(
                f"the saved state has {self.seats} seats, and bounds of {len(self.own)}, in {self.capacity}"
            )
        for accumulator in self.accumulators:
            accumulator.reserve(64 * room)
        held = np.zeros((room, 64), np.bool_)
        used = table[table >= 0]
        held[used] = np.unpackbits(self._bits[used].view(np.uint8), bitorder="little").reshape(-1, 64)
        if np.count_nonzero(held) != len(self):
            raise ValueError(f"the saved state has {len(self)} groups in its slices, and bits of another number")
        for accumulator in self.accumulators:
            accumulator.init(np.flatnonzero(~held).astype(np.int32))

    def linked(self, slices: Slices) -> State:
        """Return the state of slices of single groups that hold the same; these vectors are the slices' accumulator."""
        links, chains = np.zeros((64 * len(self._bits), 6), np.int32), np.full((self.capacity, 3), -1, np.int32)
        made_cells = int(slices.ledger[slicer.CELLS_MADE])
        cells, order = slices.cells[:made_cells].copy(), slices.order[: slices.cell_count].copy()
        free = kernels.link(cells, order, self._table, self._bits, links, chains)
        bounds = np.full((self.capacity, 2), FAR)
        bounds[:, slicer.OWN] = self.bounds(np.arange(self.capacity, dtype=np.int32))
        ledger = slices.ledger.copy()
        ledger[slicer.SINGLE], ledger[slicer.SLICES] = 0, len(self)
        ledger[slicer.MADE], ledger[slicer.FREE], ledger[slicer.DUES] = len(links), free, 0
        made: State = {"cells": cells, "order": order, "links": links, "times": np.zeros((0, 3), np.int64)}
        made |= {"dues": slices.dues[:0].copy(), "chains": chains, "bounds": bounds}
        made |= {"ledger": ledger, "room": len(links)}
        for i, accumulator in enumerate(self.accumulators):
            made |= prefixed(f"aggregate{i}.", accumulator.state())
        return made
