"""The low-level table: a fixed number of rows, their partial aggregates, and the buffer of those that left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Int64s, Page
from operators.data.saved import ROOM, apart, bounded, read_integers
from operators.functions.columns import frozen, grown
from operators.functions.protocol import Accumulator
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows import low_table as kernels
from operators.kernels.windows.layout import DUE_AT, DUE_BELOW, DUE_LEFT, LIVE, OLD_AT, OLD_BELOW, OLD_LEFT, UNUSED
from operators.protocol import State, StateValue
from operators.window_aggregate.partial_final.words import KeyWords

Matching = Callable[[list[pa.Array]], npt.NDArray[np.bool_]]
Leaving = Callable[[list[pa.Array]], None]
"""Takes the columns of partial aggregates that left: keys, partial values, wid_from, wid_until."""
_ID_BITS = 32
_ID = (1 << _ID_BITS) - 1
COUNTED = {
    "collided": kernels.COLLIDED,
    "flushed_slowly": kernels.SLOWLY,
    "flushed_in_time": kernels.IN_TIME,
    "flushed_at_once": kernels.AT_ONCE,
}


@attrs.define
class Kept(memory.Stateful):
    """The rows of a table as they are saved: those in use."""

    places: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), metadata=memory.array(apart=True))
    rows: Int64s = attrs.field(factory=lambda: np.empty((0, 0), np.int64), metadata=memory.array(length="places"))


@attrs.define
class LowTable(memory.Stateful):
    """Hold at most `size` partial aggregates of (group, slice); what leaves is handed on in the order it left."""

    VERSION: ClassVar[int] = 2

    words: KeyWords = attrs.field(metadata=memory.part())
    accumulators: Sequence[Accumulator] = attrs.field(metadata=memory.parts("aggregate"))
    size: int
    probes: int
    every: int
    in_order: bool
    burst: int
    _rows: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _gone: Int64s = attrs.field(init=False, metadata=memory.rebuilt())
    _left: int = attrs.field(init=False, default=0)
    _free: npt.NDArray[np.int32] = attrs.field(init=False, metadata=memory.rebuilt())
    _numbers: Int64s = attrs.field(init=False, metadata=memory.array(length="_numbers"))
    _slices: KeyIndex = attrs.field(init=False, metadata=memory.part(name="index"))
    _starts: Int64s = attrs.field(init=False, metadata=memory.array())
    _untils: Int64s = attrs.field(init=False, metadata=memory.array(length="_starts"))
    _counts: Int64s = attrs.field(init=False, metadata=memory.array(length="_starts"))
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Kept, "_become", lambda table: table.kept())
    )

    def __attrs_post_init__(self) -> None:
        width = 1 + self.words.width
        self._rows = np.full((self.size, width), -1, np.int64)
        self._gone = np.zeros((self.burst, width), np.int64)
        made = self.size + self.burst
        self._free = np.arange(made - 1, -1, -1, dtype=np.int32)
        self._numbers = np.zeros(kernels.KEPT, np.int64)
        self._numbers[UNUSED] = made
        self._numbers[[OLD_BELOW, DUE_BELOW]] = BEFORE_ALL
        self._slices = KeyIndex([pa.field("from", pa.int64()), pa.field("until", pa.int64())])
        self._starts, self._untils, self._counts = (np.zeros(16, np.int64) for _ in range(3))
        for accumulator in self.accumulators:
            accumulator.reserve(made)
            accumulator.init(self._free)

    def __len__(self) -> int:
        """Return the number of partial aggregates held."""
        return int(self._numbers[LIVE])

    @property
    def _table(self) -> tuple[Int64s, Int64s, Int64s, npt.NDArray[np.int32], Int64s]:
        """Return the tables for the kernels, as `operators.kernels.windows.layout` names them."""
        return self._rows, self._starts, self._counts, self._free, self._numbers

    @property
    def newest(self) -> int:
        """Return the window-id below which slices are old, as the table sees it."""
        return int(self._numbers[OLD_BELOW])

    @property
    def counted(self) -> dict[str, int]:
        """Return how many partial aggregates left, by reason."""
        return {name: int(self._numbers[place]) for name, place in COUNTED.items()}

    def oldest(self) -> int:
        """Return the least first window-id of what is held; the largest number when nothing is."""
        held = self._starts[self._counts > 0]
        return int(held.min()) if len(held) else FOREVER

    def enter(self, page: Page, keys: Sequence[pa.Array], first: Int64s, last: Int64s, leave: Leaving) -> None:
        """Add tuples to the partial aggregates of their keys and slices."""
        if self.words.widens(keys):
            self._widen()
        words = self.words.encode(keys) if keys else frozen(np.zeros((len(page), 0), np.int64))
        slices = self._slice_numbers(first, last)
        ids = np.empty(len(page), np.int32)
        done, rule = 0, (self.every, self.in_order, min(self.probes, self.size))
        while done < len(page):
            start = done
            done, self._left = kernels.enter(
                words, slices, self.words.hashed, self._table, self._gone, self._left, ids, start, rule
            )
            part = page if done - start == len(page) else page.slice(start, done)
            for accumulator in self.accumulators:
                accumulator.update(ids[start:done], part)
            if done < len(page):
                self.drain(leave)

    def age(self, *, old: int | None = None, due: int | None = None) -> None:
        """Say which slices are old, to leave slowly, and which are due, to leave before the next promise."""
        if old is not None:
            self._numbers[[OLD_BELOW, OLD_LEFT]] = old, self._below(old)
            self._numbers[OLD_AT] *= not self.in_order
        if due is not None:
            self._numbers[[DUE_BELOW, DUE_LEFT]] = due, self._below(due)

    def push_out(self, leave: Leaving, bound: int = FOREVER) -> None:
        """Push out all whose slices start below a bound; a scan of the table, unless there are none."""
        place = 0
        while place < self.size and self._below(bound):
            place, self._left = kernels.push_below(bound, place, self._table, self._gone, self._left)
            if self._left == self.burst:
                self.drain(leave)

    def push_out_where(self, leave: Leaving, matching: Matching, bound: int) -> None:
        """Push out those whose keys match and whose slices start below a bound; a scan of the table."""
        held = np.flatnonzero(self._rows[:, 0] >= 0)
        held = held[self._starts[self._rows[held, 0] >> _ID_BITS] < bound]
        if len(held) == 0:
            return
        marked = held[matching(self.words.decode(self._rows[held, 1:]))]
        at = 0
        while at < len(marked):
            at, self._left = kernels.push_marked(marked, at, self._table, self._gone, self._left)
            if self._left == self.burst:
                self.drain(leave)

    def drain(self, leave: Leaving) -> None:
        """Hand on what left, and be ready to lose as much again."""
        if self._left:
            gone = self._gone[: self._left]
            slices, ids = gone[:, 0] >> _ID_BITS, (gone[:, 0] & _ID).astype(np.int32)
            columns = self.words.decode(gone[:, 1:])
            columns += [accumulator.finalize(ids) for accumulator in self.accumulators]
            columns += [pa.array(self._starts[slices]), pa.array(self._untils[slices])]
            for accumulator in self.accumulators:
                accumulator.free(ids)
                accumulator.init(ids)
            spare = int(self._numbers[UNUSED])
            self._free[spare : spare + len(ids)] = ids
            self._numbers[UNUSED] += len(ids)
            self._left = 0
            leave(columns)

    def settle(self, leave: Leaving) -> None:
        """End a call: hand on what left, forget slices and key values that nothing has any more."""
        self.drain(leave)
        live = self._slices.live()
        self._slices.free(live[self._counts[live] == 0])
        if self.words.full:
            self.words.forget(self._rows[self._rows[:, 0] >= 0, 1:])

    def _below(self, bound: int) -> int:
        return int(self._counts[self._starts < bound].sum())

    def _slice_numbers(self, first: Int64s, last: Int64s) -> npt.NDArray[np.int32]:
        """Number the slice of each tuple; neighbours are mostly in one."""
        if (first == first[0]).all() and (last == last[0]).all():
            heads = np.zeros(1, np.int64)
        else:
            heads = np.concatenate(([0], np.flatnonzero((first[1:] != first[:-1]) | (last[1:] != last[:-1])) + 1))
        first, last, runs = first[heads], last[heads], np.diff(heads, append=len(first))
        numbers = self._slices.assign([pa.array(first), pa.array(last)])
        if self._slices.capacity > len(self._starts):
            more = max(self._slices.capacity, 2 * len(self._starts)) - len(self._starts)
            self._starts, self._untils, self._counts = (
                np.pad(column, (0, more)) for column in (self._starts, self._untils, self._counts)
            )
        self._starts[numbers], self._untils[numbers] = first, last
        return np.repeat(numbers, runs)

    def _widen(self) -> None:
        """Add the word to keys that says which attributes are null, 0 for those that are held."""
        self.words.nulls = True
        self._rows = np.ascontiguousarray(np.pad(self._rows, ((0, 0), (0, 1))))
        self._gone = np.zeros((self.burst, self._rows.shape[1]), np.int64)

    def kept(self) -> Kept:
        """Return the rows in use."""
        places = np.flatnonzero(self._rows[:, 0] >= 0)
        return Kept(places, self._rows[places])

    def _upgraded(self, state: Mapping[str, StateValue]) -> State:
        # Slices were saved where there was one, rows one after the other.
        live = read_integers(state, "slices", least=0, below=ROOM)
        upgraded: State = {**state}
        for name in ("starts", "untils", "counts"):
            column = np.zeros(int(live.max(initial=0)) + 1, np.int64)
            column[live] = read_integers(state, name, length=len(live))
            upgraded[name] = column
        rows, places = read_integers(state, "rows"), len(read_integers(state, "places"))
        return {**upgraded, "rows": rows.reshape(places, -1) if places else np.empty((0, 0), np.int64)}

    def _become(self, kept: Kept) -> None:
        places, rows, made = kept.places, kept.rows, self.size + self.burst
        for accumulator in self.accumulators:
            accumulator.reserve(made)
        if self.words.nulls:
            self._widen()
        bounded(places, "places", below=self.size)
        if len(places):
            if rows.shape[1] != self._rows.shape[1]:
                raise ValueError(f'the saved state has {rows.shape[1]} words in "rows", not {self._rows.shape[1]}')
            self._rows[places] = rows
        rows = self._rows[places]
        ids, slices = apart(rows[:, 0] & _ID, "rows", below=made), rows[:, 0] >> _ID_BITS
        self._slices.check_live(slices, "rows")
        size = max(16, self._slices.capacity, len(self._counts))
        self._starts, self._untils, self._counts = (
            grown(column, size) for column in (self._starts, self._untils, self._counts)
        )
        if (self._counts != np.bincount(slices, minlength=size)).any():
            raise ValueError('the saved state has other partial aggregates than "counts" tells')
        self._numbers[[LIVE, UNUSED]] = len(places), made - len(places)
        bounded(self._numbers[[OLD_AT, DUE_AT]], "numbers", below=self.size)
        for bound, left in ((OLD_BELOW, OLD_LEFT), (DUE_BELOW, DUE_LEFT)):
            self._numbers[left] = self._below(int(self._numbers[bound]))
        spare = np.setdiff1d(np.arange(made), ids)
        self._free[: len(spare)] = spare
