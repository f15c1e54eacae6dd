"""A page comes with its promises: one compiled call places the tuples and completes the windows, promise by promise.

It is the road of windows that are combined from slices on demand (`lazy`), where nothing but a promise shows that a
window ends: of streams without groups, and of those whose slices are vectors of few groups. What others need is done
element by element, by `Intake` and `Answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data.batches import Mould
from operators.data.keys import KeyIndex
from operators.data.page import ROWS, Bools, Int32s, Int64s, Page
from operators.functions.columns import frozen
from operators.functions.protocol import RunningTotals, Slots, Step, Stepping, Summing, stepwise, summed
from operators.kernels.slicing import batched as kernels
from operators.kernels.slicing import batched_groups as grouping
from operators.kernels.slicing import place as slicer
from operators.window_aggregate.stores.slices.eager import Eager
from operators.window_aggregate.stores.slices.grouped_tree import GroupedTree
from operators.window_aggregate.stores.slices.intake import Intake
from operators.window_aggregate.stores.slices.lazy import Lazy
from operators.window_aggregate.stores.slices.results import Results
from operators.window_aggregate.stores.slices.vectors import Vectors

_LEAST = 64
_MOST = 1 << 13
"""Results from which a page of them may be given before the next are looked for."""
_MOST_OF_GROUPS = 1 << 10
"""The same of groups, whose results take up a block of places each."""
_MANY_PAIRS = 1 << 18
"""Pairs for which there is room at once, where one window does not have more slices: 2 MB, some caches' worth."""
_LOOKED: Final = 64
"""Calls after which lists become shorter, where none of them used an eighth."""
_NO_CELLS = np.empty((2, 0), np.int64)
_NO_TICKS = frozen(np.empty(0, np.int64))
_ALL_VALID = np.empty(0, np.bool_)
_NOBODY = np.zeros(0, np.int32)
_NO_PAIRS = _NOBODY, _NOBODY


@attrs.define(eq=False)
class _Room:
    """Say how many results and pairs the lists of a call have room for, from what calls have used."""

    results: int
    pairs: int
    enough: int = _MOST
    """Results from which there need not be more."""
    _most: tuple[int, int] = attrs.field(init=False, default=(0, 0))
    """The most results and pairs of the last calls."""
    _calls: int = attrs.field(init=False, default=0)

    def lacked(self, results: int) -> bool:
        """Take notice of a call that ended behind so many results for want of room; return whether there is more now.

        Few pairs at a time cost no more than many. Without a result there was no room for one window.
        """
        if results and (results >= self.enough or self.pairs >= _MANY_PAIRS):
            return False
        # Nobody says which of them was short, and a window has a pair for each of its slices.
        pairs = self.pairs * (2 if self.pairs > self.results else 4)
        self.results, self.pairs = 2 * self.results, pairs
        self._most, self._calls = (self.results, self.pairs), 0
        return True

    def used(self, results: int, pairs: int) -> bool:
        """Take notice of what a call used; return whether there is less room now."""
        self._most = max(self._most[0], results), max(self._most[1], pairs)
        self._calls += 1
        if self._calls < _LOOKED:
            return False
        (results, pairs), self._most, self._calls = self._most, (0, 0), 0
        if 8 * pairs >= self.pairs or self.pairs <= _MANY_PAIRS // 4:
            return False
        self.results, self.pairs = max(_LEAST, 2 * results), max(_LEAST, 2 * pairs)
        return True


@attrs.define(eq=False)
class Batched:
    """Take pages with the linear promises in them for an intake, and give the results.

    Cost: a call and one verb of each accumulator for what it does, however many promises.
    """

    ready: ClassVar[bool] = True
    intake: Intake
    mould: Mould | None
    store: Lazy
    grown: bool = attrs.field(init=False, default=True)
    """Whether arrays may have grown; who reads it sets it back."""
    peak: int = attrs.field(init=False, default=0)
    """The most slices held before a promise."""
    _fits: bool = attrs.field(init=False, default=False)
    """Whether there is room in what a call lists."""
    _marks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(kernels.MARKS, np.int64))
    _slots: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))
    _steps: list[Callable[[Slots, Page | None, Step], Int64s | None]] = attrs.field(init=False)
    _live: Int64s = attrs.field(init=False, default=_NO_CELLS)
    _members: Int32s = attrs.field(init=False)
    _found: Int64s = attrs.field(init=False)
    _pairs: Int32s = attrs.field(init=False)
    _dropped: Int32s = attrs.field(init=False, factory=lambda: np.zeros((2, 0), np.int32))
    _numbers: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))

    _room: _Room = attrs.field(init=False, factory=lambda: _Room(_LEAST, _LEAST))

    def __attrs_post_init__(self) -> None:
        self._steps = [
            one.step if isinstance(one, Stepping) else partial(stepwise, one)
            for one in self.intake.answers.slices.accumulators
        ]
        self._make_lists()

    def _make_lists(self) -> None:
        results = self._room.results
        self._members = np.zeros(results, np.int32)
        self._found = np.zeros((kernels.ROWS + len(self._steps), results), np.int64)
        self._pairs = np.zeros((2, self._room.pairs), np.int32)
        self.grown, self._fits = True, False

    @property
    def nbytes(self) -> int:
        """Return how many bytes the lists take that grow with windows and slices; pages and results come on top."""
        lists = self._live, self._pairs, self._dropped
        return sum(array.nbytes for array in lists)

    def take(
        self, page: Page | None, ticks: Int64s, valid: Bools | None, positions: Int64s, bounds: Int64s
    ) -> Iterator[Results | pa.RecordBatch]:
        """Take a page, and hear `bounds[i]`, which rise, behind its first `positions[i]` tuples.

        What results are made of holds until the next are asked for.
        """
        intake, marks = self.intake, self._marks
        answers, work = intake.answers, self.store.work
        slices, used = answers.slices, answers.used
        n = len(ticks)
        if n:
            slices.make_unions(n)
        if n > len(self._slots):
            self._slots = np.zeros(n, np.int32)
        slots, checked, start = self._slots[:n], _ALL_VALID if valid is None else valid, 0
        marks[kernels.TUPLE] = marks[kernels.PROMISE] = 0
        marks[kernels.NEXT] = answers.end
        while True:
            if not self._fits:
                self._make_room()
            why = kernels.advance(
                ticks, checked, slots, positions, bounds, marks, slices.memory, slices.windows, used.ahead, self._live,
                (self._found, self._members, self._pairs, self._dropped),
            )  # fmt: skip
            (
                stop,
                _,
                results,
                pairs,
                gone,
                cells_gone,
                end,
                self.peak,
                bound,
                begin,
                made,
                unions,
                behind,
                earliest,
                parts,
            ) = marks.tolist()
            if cells_gone:
                slices.order = slices.order[cells_gone:]
            part = None if page is None or stop == start else page if stop - start == n else page.slice(start, stop)
            answers.heard(bound, begin, end, earliest)
            work.windows += results
            work.parts += parts
            work.slices += gone
            if part is not None or pairs or gone:
                placed = slots if stop - start == n else slots[start:stop]
                if part is not None and unions:
                    for accumulator in slices.accumulators:
                        accumulator.update(placed, part)
                    slices.combine(slices.unions[:unions, 0].copy(), slices.unions[:unions, 1].copy())
                    placed, part = placed[:0], None
                made_of = self._slots_of(made, results)
                step = Step(made_of, self._pairs[0, :pairs], self._pairs[1, :pairs], self._dropped[1, :gone])
                values = [one(placed, part, step) for one in self._steps]
                if results:
                    yield self._results(results, made_of, values)
                    for accumulator in slices.accumulators:
                        accumulator.free(made_of)
            if why == kernels.DONE:
                if self._room.used(results, pairs):
                    self._make_lists()
                return
            if behind >= 0:
                work.late += len(slices)
                intake.late(ticks[behind:stop], slots[behind:stop], checked[behind:stop])
            if why == slicer.SPENT:
                slices.restock(n - stop)
            elif why == slicer.FULL:
                slices.more_cells()
            elif why == kernels.ROOM and self._room.lacked(results):
                self._make_lists()
            self.grown, self._fits = True, False
            start = stop

    def first(self) -> tuple[int, int, int, int]:
        """Return place, id, begin and end of the window of the first of the results that were given last."""
        place, wid, begin, end = self._found[:4, 0].tolist()
        return place, wid, begin, end

    def _slots_of(self, made: int, results: int) -> Slots:
        """Return the slots of so many results: those behind all that were made."""
        if results == 0:
            return _NOBODY
        if len(self._numbers) < results or self._numbers[0] != made:
            self._numbers = np.arange(made, made + len(self._members), dtype=np.int32)
        return self._numbers[:results]

    def _results(self, number: int, slots: Slots, values: Sequence[Int64s | None]) -> Results | pa.RecordBatch:
        found = self._found
        if self.mould is not None and number <= ROWS:
            for row, value in enumerate(values, kernels.ROWS):
                if value is None:
                    break
                found[row, :number] = value
            else:
                return self.mould.batch_of(found, number, kernels.ROWS, self.intake.answers.used.labels)
        # Columns of results are made of these without copying.
        places, wids, opens, closes = found[:4, :number].copy()
        return Results(places, wids, opens, closes, _NOBODY, slots)

    def _make_room(self) -> None:
        """Let there be room in what a call lists, whatever it does."""
        slices = self.intake.answers.slices
        slices.reserve_results(len(self._members))
        if len(slices.cells) > self._live.shape[1]:
            self._live = np.zeros((2, len(slices.cells)), np.int64)
        if len(slices.links) > self._dropped.shape[1]:
            self._dropped = np.zeros((2, len(slices.links)), np.int32)
        self._fits = True


@attrs.define(eq=False)
class InVectors:
    """Take pages and promises, as `Batched` does, where slices are vectors of few groups."""

    intake: Intake
    index: KeyIndex
    vectors: Vectors
    grown: bool = attrs.field(init=False, default=True)
    """As in `Batched`."""
    peak: int = attrs.field(init=False, default=0)
    """The most groups in slices before a promise."""
    _marks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(grouping.MARKS, np.int64))
    _slots: Int32s = attrs.field(init=False, factory=lambda: np.zeros((3, 0), np.int32))
    _live: Int64s = attrs.field(init=False, default=_NO_CELLS)
    _windows: Int64s = attrs.field(init=False, factory=lambda: np.zeros((grouping.ROWS, _LEAST), np.int64))
    _found: Int64s = attrs.field(init=False)
    _results: Int32s = attrs.field(init=False)
    """The groups of results, and their slots."""
    _pairs: Int32s = attrs.field(init=False)
    _slices: Int32s = attrs.field(init=False, factory=lambda: np.zeros((3, 0), np.int32))
    _gone: Int32s = attrs.field(init=False, default=_NOBODY)
    _room: _Room = attrs.field(init=False, factory=lambda: _Room(4 * _LEAST, _LEAST, _MOST_OF_GROUPS))

    def __attrs_post_init__(self) -> None:
        self._make_lists()

    def _make_lists(self) -> None:
        # Results are made of blocks.
        results = -(-self._room.results // 64) * 64
        self._results = np.zeros((2, results), np.int32)
        self._found = np.zeros((grouping.ROWS - 1, results), np.int64)
        self._pairs = np.zeros((2, self._room.pairs), np.int32)
        self.grown = True

    @property
    def nbytes(self) -> int:
        """Return how many bytes the lists take that grow with windows and slices, as `Batched` does."""
        lists = self._live, self._pairs, self._slices, self._gone
        return sum(array.nbytes for array in lists)

    @property
    def ready(self) -> bool:
        """Return whether the next page may be taken."""
        return self.vectors.together

    def take(
        self, page: Page | None, ticks: Int64s, valid: Bools | None, positions: Int64s, bounds: Int64s
    ) -> Iterator[Results]:
        """Take a page, and hear promises in it, as `Batched.take` does."""
        intake, marks, vectors = self.intake, self._marks, self.vectors
        answers = intake.answers
        slices, used, n = answers.slices, answers.used, len(ticks)
        dropped = slices.dropped
        groups = _NOBODY if page is None else self.index.assign([page.column(name) for name in intake.by])
        vectors.seat(self.index.capacity)
        if n:
            slices.make_unions(n)
        if n > self._slots.shape[1]:
            self._slots = np.zeros((3, n), np.int32)
        given = self._slots[:, :n]
        placed, slots, _ = given
        checked, start = _ALL_VALID if valid is None else valid, 0
        marks[: grouping.MARKS] = 0
        marks[grouping.NEXT], marks[grouping.LISTED] = answers.end, -1
        why, left = -1, False
        while why != kernels.DONE:
            self._make_room()
            why = grouping.advance_grouped(
                ticks, checked, groups, given, positions, bounds, marks, slices.memory, slices.windows, used.ahead,
                vectors.arrays,
                (self._live, self._windows, self._found, self._results, self._pairs, self._slices, self._gone),
            )  # fmt: skip
            stop, _, results, pairs, gone, cells_gone, end, self.peak, bound, begin, behind, located, made = marks[
                : grouping.AT
            ].tolist()
            slices.order = slices.order[cells_gone:]
            answers.heard(bound, begin, end)
            part, whole = None, located - start == n
            if page is not None and located > start:
                part = page if whole else page.slice(start, located)
            pairs_of = self._pairs[:, :pairs] if pairs else _NO_PAIRS
            vectors.add_up(slots if whole else slots[start:located], part, pairs_of[0], pairs_of[1])
            if results:
                # Columns of results are made of these without copying.
                places, wids, opens, closes = self._found[:, :results].copy()
                members, made_of = self._results[:, :results]
                yield Results(places, wids, opens, closes, members.copy(), made_of)
                vectors.clear_blocks(np.arange(vectors.blocks, vectors.blocks + made, dtype=np.int32))
            if gone:
                vectors.clear_blocks(self._gone[:gone])
                left = True
            start = located
            if behind >= 0:
                intake.late(ticks[behind:stop], placed[behind:stop], checked[behind:stop])
            if why == grouping.BLOCKS:
                vectors.grow()
            elif why == slicer.SPENT:
                slices.restock(n - stop)
            elif why == slicer.FULL:
                slices.more_cells()
            if self._room.lacked(results) if why == kernels.ROOM else self._room.used(results, pairs):
                self._make_lists()
            self.grown |= why != kernels.DONE
        intake.forget_groups(groups, placed, dropped, left=left)

    def _make_room(self) -> None:
        """Let there be room in what a call lists, whatever it does."""
        slices, vectors = self.intake.answers.slices, self.vectors
        if len(slices.cells) > self._live.shape[1]:
            self._live = np.zeros((2, len(slices.cells)), np.int64)
        if len(slices.links) > self._slices.shape[1]:
            self._slices = np.zeros((3, len(slices.links)), np.int32)
        if vectors.blocks > len(self._gone):
            self._gone = np.zeros(vectors.blocks, np.int32)
        vectors.reserve_results(self._results.shape[1])


@attrs.define(eq=False)
class Summed:
    """Take pages and promises where windows are differences of running totals; a call for each promise."""

    ready: ClassVar[bool] = True
    intake: Intake
    mould: Mould
    store: Eager
    grown: bool = attrs.field(init=False, default=True)
    """As in `Batched`."""
    peak: int = attrs.field(init=False, default=0)
    _marks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(kernels.MARKS, np.int64))
    _queued: Int64s = attrs.field(init=False, factory=lambda: np.zeros(slicer.QUEUED, np.int64))
    _slots: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))
    _dropped: Int32s = attrs.field(init=False, factory=lambda: np.zeros((2, 0), np.int32))
    """Slots of slices that are gone, and of totals that are not needed any more."""
    _totals: Int32s = attrs.field(init=False, factory=lambda: np.zeros((2, _LEAST), np.int32))
    _steps: list[Callable[[Slots, Page | None, RunningTotals], Int64s | None]] = attrs.field(init=False)
    _found: Int64s = attrs.field(init=False)
    _ends: Int32s = attrs.field(init=False)
    _lists: Int32s = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        pairs = zip(self.intake.answers.slices.accumulators, self.store.totals, strict=True)
        self._steps = [one.run_totals if isinstance(one, Summing) else partial(summed, one, of) for one, of in pairs]
        self._make_lists(_LEAST)

    def _make_lists(self, results: int) -> None:
        """Make room to list so many results."""
        self._found = np.zeros((kernels.ROWS + len(self._steps), results), np.int64)
        self._ends, self._lists = np.zeros((2, results), np.int32), np.zeros((4, results), np.int32)

    @property
    def nbytes(self) -> int:
        """Return how many bytes the lists take that grow with windows and slices, as `Batched` does."""
        lists = self._dropped, self._totals, self._lists
        return sum(array.nbytes for array in lists)

    def take(
        self, page: Page | None, ticks: Int64s, valid: Bools | None, positions: Int64s, bounds: Int64s
    ) -> Iterator[Results | pa.RecordBatch]:
        """Take a page, and hear promises in it, as `Batched.take` does."""
        at, checked = 0, _ALL_VALID if valid is None else valid
        for position, bound in zip(positions.tolist(), bounds.tolist(), strict=True):
            yield from self._hear(page, ticks, checked, at, position, bound)
            at = position
        if at < len(ticks):
            yield from self._hear(page, ticks, checked, at, len(ticks), None)

    def _hear(
        self, page: Page | None, ticks: Int64s, valid: Bools, first: int, last: int, bound: int | None
    ) -> Iterator[Results | pa.RecordBatch]:
        """Take the tuples first <= i < last of a page, and hear a bound behind them."""
        if last - first < len(ticks):
            ticks, valid = ticks[first:last], valid[first:last]
        intake, store, marks, queued = self.intake, self.store, self._marks, self._queued
        answers, n, work = intake.answers, last - first, store.work
        slices, used = answers.slices, answers.used
        if n:
            slices.make_unions(n)
        if n > len(self._slots):
            self._slots = np.zeros(n, np.int32)
        slots, start = self._slots[:n], 0
        marks[kernels.TUPLE], marks[kernels.NEXT] = 0, answers.end
        room = 0 if bound is None else used.room
        if room > self._found.shape[1]:
            self._make_lists(2 * room)
        while True:
            if len(slices.links) >= self._dropped.shape[1]:
                self._dropped = np.zeros((2, len(slices.links) + 1), np.int32)
            store.enter(queued)
            why = kernels.advance_summed(
                ticks, valid, slots, 0 if bound is None else bound, room, marks, slices.memory, slices.windows,
                used.ahead, store.grid, (store.rows, queued, store.near),
                (self._found, self._ends, self._lists, self._totals, self._dropped),
            )  # fmt: skip
            (
                stop, busy, results, appended, gone, cells_gone, end, self.peak, gridded, starved, freed, unions,
                behind, earliest, parts,
            ) = marks.tolist()  # fmt: skip
            work.windows += results + busy
            work.parts += parts
            work.slices += appended
            part = None
            if page is not None and stop > start:
                part = page if stop - start == len(page) else page.slice(first + start, first + stop)
            slices_of, totals_of = self._totals[:, :appended]
            if part is not None and (unions or why == kernels.MORE):
                for accumulator in slices.accumulators:
                    accumulator.update(slots[start:stop], part)
                if unions:
                    slices.combine(slices.unions[:unions, 0].copy(), slices.unions[:unions, 1].copy())
                part = None
            if why == kernels.MORE and bound is not None:
                # They are counted where they are appended.
                work.slices -= appended
                store.appended(slices_of, totals_of, gridded=bool(gridded), starved=bool(starved))
                if results:
                    yield from store.told(self._found[:6, :results], *self._ends[:, :results])
                yield from answers.linear(bound)
                return
            if part is not None or appended or busy + results or gone:
                placed = _NOBODY if part is None else slots[start:stop]
                ends = self._ends[:, : results + busy]
                running = RunningTotals(slices_of, totals_of, store.last, ends[0], ends[1], self._dropped[0, :gone])
                yield from self._results(results + busy, placed, part, running)
            if cells_gone:
                slices.order = slices.order[cells_gone:]
            for accumulator in slices.accumulators if freed else ():
                accumulator.free(self._dropped[1, :freed])
            store.leave(queued)
            if why == kernels.DONE:
                if bound is None:
                    answers.heard(answers.bound, answers.begin, answers.end)
                else:
                    used.tell(results)
                    answers.heard(bound, int(slices.ledger[slicer.LOW]), end, earliest)
                return
            if behind >= 0:
                store.disturb()
                intake.late(ticks[behind:stop], slots[behind:stop], valid[behind:stop])
            if why == slicer.SPENT:
                slices.restock(n - stop)
            elif why == slicer.FULL:
                slices.more_cells()
            elif why == kernels.ROOM:
                more = store.make_room()
                self._totals = np.zeros((2, max(2 * more, self._totals.shape[1])), np.int32)
                if room + len(slices) * len(used.sessions) > self._found.shape[1]:
                    self._make_lists(2 * (room + len(slices) * len(used.sessions)))
            self.grown, start = True, stop

    def first(self) -> tuple[int, int, int, int]:
        """Return place, id, begin and end of the window of the first of the results that were given last."""
        place, wid, begin, end = self._found[:4, 0].tolist()
        return place, wid, begin, end

    def _results(
        self, number: int, slots: Slots, part: Page | None, running: RunningTotals
    ) -> Iterator[Results | pa.RecordBatch]:
        """Add tuples to slots, make running totals, give so many results, and clear the slots that are gone."""
        one, found = len(self._steps) == 1, self._found
        # Of several aggregates, one may need what is gone for its results.
        made = [step(slots, part, running if one else running._replace(gone=_NOBODY)) for step in self._steps]
        values = [value for value in made if value is not None]
        if 0 < number <= ROWS and len(values) == len(made):
            found[kernels.ROWS :, :number] = values
            yield self.mould.batch_of(found, number, kernels.ROWS, self.intake.answers.used.labels)
        elif number:
            yield from self.store.told(found[:6, :number], running.later, running.earlier)
        if len(running.gone) and not (one and values):
            for accumulator in self.intake.answers.slices.accumulators:
                accumulator.free(running.gone)
                accumulator.init(running.gone)


Road: TypeAlias = Batched | InVectors | Summed


def batched(intake: Intake, mould: Mould | None) -> Road | None:
    """Return what takes pages with their promises for an intake; None where other things than promises show windows.

    The mould makes batches of results, where these are numbers of 64 bits.
    """
    answers = intake.answers
    store = answers.store
    if intake.waiting is not None or answers.used.asked or answers.revisions is not None:
        return None
    if intake.groups is not None:
        if intake.vectors is None or isinstance(store, GroupedTree):
            return None
        return InVectors(intake, intake.groups, intake.vectors)
    if type(store) is Lazy:
        return Batched(intake, mould, store)
    if isinstance(store, Eager) and mould is not None and store.summed:
        return Summed(intake, mould, store)
    return None
