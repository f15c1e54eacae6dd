"""A page comes with its promises: one compiled call places the tuples and completes the windows, promise by promise.

It is the road of streams without groups whose windows are combined from slices on demand (`lazy`), where nothing but a
promise shows that a window ends. What other windows need is done element by element, by `Intake` and `Answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import numpy as np

from operators.functions.columns import frozen
from operators.functions.protocol import Slots, Step, Stepping, stepwise
from operators.kernels import slicing as slicer
from operators.kernels import slicing_batched as kernels
from operators.page import Bools, Int64s, Page
from operators.slicing.intake import Intake
from operators.slicing.lazy import Lazy
from operators.slicing.results import Results
from operators.slicing.slices import NO_GRID
from operators.window.protocol import Int32s

_GRID, _SCALE = NO_GRID
_SEEN = np.zeros(1, np.int32)
_LEAST = 64
_MOST = 1 << 10
"""Results from which a page of them may be given before the next are looked for."""
_NOTHING = np.empty(0, np.int64)
_NO_TICKS = frozen(np.empty(0, np.int64))
_ALL_VALID = np.empty(0, np.bool_)
_NOBODY = np.zeros(0, np.int32)


@attrs.define(eq=False)
class Batched:
    """Take pages with the linear promises in them for an intake, and give the results.

    Cost: a call and one verb of each accumulator for what it does, however many promises.
    """

    intake: Intake
    grown: bool = attrs.field(init=False, default=True)
    """Whether arrays may have grown since `peak` was read."""
    _marks: Int64s = attrs.field(init=False, factory=lambda: np.zeros(kernels.MARKS, np.int64))
    _slots: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))
    _steps: list[Callable[[Slots, Page | None, Step], Int64s | None]] = attrs.field(init=False)
    _live: Int32s = attrs.field(init=False, default=_NOBODY)
    _begins: Int64s = attrs.field(init=False, default=_NOTHING)
    _members: Int32s = attrs.field(init=False)
    _found: Int64s = attrs.field(init=False)
    _into: Int32s = attrs.field(init=False)
    _source: Int32s = attrs.field(init=False)
    _over: Int32s = attrs.field(init=False, default=_NOBODY)
    _gone: Int32s = attrs.field(init=False, default=_NOBODY)
    _numbers: Int32s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int32))

    def __attrs_post_init__(self) -> None:
        self._steps = [
            one.step if isinstance(one, Stepping) else partial(stepwise, one)
            for one in self.intake.answers.slices.accumulators
        ]
        self._make_lists(_LEAST, _LEAST)

    @classmethod
    def of(cls, intake: Intake) -> Batched | None:
        """Take an intake whose windows only promises complete; None for others."""
        answers = intake.answers
        waits = intake.groups is not None or intake.waiting is not None or bool(answers.used.asked)
        return None if waits or answers.revisions is not None or type(answers.store) is not Lazy else cls(intake)

    def _make_lists(self, results: int, pairs: int) -> None:
        self._members, self._found = np.zeros(results, np.int32), np.zeros((kernels.ROWS, results), np.int64)
        self._into, self._source = np.zeros(pairs, np.int32), np.zeros(pairs, np.int32)

    @property
    def peak(self) -> int:
        """The most slices held before a promise since it was last asked for."""
        peak = int(self._marks[kernels.PEAK])
        self._marks[kernels.PEAK] = 0
        return peak

    def take(
        self, page: Page | None, ticks: Int64s, valid: Bools | None, positions: Int64s, bounds: Int64s
    ) -> Iterator[Results]:
        """Take a page, and hear `bounds[i]`, which rise, behind its first `positions[i]` tuples.

        What results are made of holds until the next are asked for.
        """
        intake, marks = self.intake, self._marks
        answers = intake.answers
        slices, used = answers.slices, answers.used
        n, ledger = len(ticks), slices.ledger
        slices.make_unions(n)
        if n > len(self._slots):
            self._slots = np.zeros(n, np.int32)
        slots, checked, start = self._slots[:n], _ALL_VALID if valid is None else valid, 0
        marks[kernels.TUPLE] = marks[kernels.PROMISE] = 0
        marks[kernels.NEXT] = answers.end
        while True:
            self._make_room()
            why = kernels.advance(
                ticks, checked, positions, bounds, marks, slices.cells, slices.order, slices.nexts, slices.edges,
                slices.bands, slices.links, slices.times, slices.sessions, slices.chains, slices.bounds, slices.dues,
                ledger, slices.unions, slices.table, slots, used.banded, used.gapped, used.nexts, used.ahead, _GRID,
                _SCALE, self._live, self._begins, _SEEN, self._members, self._found, self._into, self._source,
                self._over, self._gone, _NOTHING,
            )  # fmt: skip
            stop, _, results, pairs, gone, cells_gone, end, _, bound, begin, made, unions, behind = marks.tolist()
            if cells_gone:
                slices.order = slices.order[cells_gone:]
            part = None if page is None or stop == start else page if stop - start == n else page.slice(start, stop)
            answers.heard(bound, begin, end)
            if part is not None or pairs or gone:
                placed = slots if stop - start == n else slots[start:stop]
                if part is not None and unions:
                    for accumulator in slices.accumulators:
                        accumulator.update(placed, part)
                    slices.combine(slices.unions[:unions, 0].copy(), slices.unions[:unions, 1].copy())
                    placed, part = placed[:0], None
                made_of = self._slots_of(made, results)
                step = Step(made_of, self._into[:pairs], self._source[:pairs], self._gone[:gone])
                values = [one(placed, part, step) for one in self._steps]
                if results:
                    yield self._results(results, made_of, values)
                    for accumulator in slices.accumulators:
                        accumulator.free(made_of)
            if why == kernels.DONE:
                return
            if behind >= 0:
                intake.late(ticks[behind:stop], slots[behind:stop])
            if why == slicer.SPENT:
                slices.restock(n - stop)
            elif why == slicer.FULL:
                slices.more_cells()
            elif why == kernels.ROOM and results < _MOST:
                self._make_lists(2 * len(self._members), 4 * len(self._into))
            self.grown = True
            start = stop

    def _slots_of(self, made: int, results: int) -> Slots:
        """Give the slots of so many results: those behind all that were made."""
        if results == 0:
            return _NOBODY
        if len(self._numbers) < results or self._numbers[0] != made:
            self._numbers = np.arange(made, made + len(self._members), dtype=np.int32)
        return self._numbers[:results]

    def _results(self, number: int, slots: Slots, values: Sequence[Int64s | None]) -> Results:
        known = [value for value in values if value is not None]
        found = self._found
        if len(known) == len(values):
            places, wids, opens, closes = found[:4, :number]
            return Results(places, wids, opens, closes, _NOBODY, _NOBODY, values=known)
        # Columns of results are made of these without copying.
        places, wids, opens, closes = found[:4, :number].copy()
        return Results(places, wids, opens, closes, _NOBODY, slots)

    def _make_room(self) -> None:
        """Let there be room in what a call lists, whatever it does."""
        slices = self.intake.answers.slices
        slices.reserve_results(len(self._members))
        if len(slices.cells) > len(self._live):
            self._live, self._begins = np.zeros(len(slices.cells), np.int32), np.zeros(len(slices.cells), np.int64)
        if len(slices.links) > len(self._gone):
            self._over, self._gone = np.zeros(len(slices.links), np.int32), np.zeros(len(slices.links), np.int32)
