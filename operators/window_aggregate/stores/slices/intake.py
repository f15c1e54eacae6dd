"""Tuples come in: at once into their slices, or, where order matters, when a promise has made their order certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import prefixed
from operators.data.schema import Schema
from operators.functions.arrival import numbered, numbered_schema
from operators.functions.protocol import Accumulator
from operators.kernels.slicing import place as kernels
from operators.kernels.ticks import FAR, LIMIT
from operators.protocol import State, StateValue
from operators.window.user import Around, Extent
from operators.window_aggregate.stores.slices.answers import Answers
from operators.window_aggregate.stores.slices.grouped_tree import GroupedTree
from operators.window_aggregate.stores.slices.vectors import Vectors
from operators.window_aggregate.stores.slices.waiting import Waiting

LOST = ("late", "in_no_window", "without_value", "late_for_some")


@attrs.define(eq=False)
class Intake(memory.Stateful):
    """Place tuples in slices, by group, and cut slices at the edges that contexts set."""

    VERSION: ClassVar[int] = 2

    wattr: str
    by: tuple[str, ...]
    answers: Answers = attrs.field(metadata=memory.part())
    groups: KeyIndex | None = attrs.field(metadata=memory.part())
    waiting: Waiting | None = attrs.field(metadata=memory.part(lacking=lambda intake: Waiting(intake.wattr)))
    """Tuples that wait; where the window that they waited for was removed, they are still to be let in."""
    vectors: Vectors | None = None
    """What slices hold that are of many groups each; without, each is of one."""
    _arrived: int = attrs.field(init=False, default=0, metadata=memory.integer(since=1))
    _numbered: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _late: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _unusable: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _late_for_some: int = attrs.field(init=False, default=0, metadata=memory.integer())
    refused: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, since=2))
    """The tuples that came too late and of which `furthest` knows how far."""
    furthest: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, since=2))
    """By how many ticks the bound was ahead of them at most: of their tick, of their slide where one band is all."""

    @property
    def waiting_tuples(self) -> int:
        """Return the number of tuples held."""
        return 0 if self.waiting is None else self.waiting.tuples

    @property
    def slices(self) -> int:
        """Return the number of slices held, each of one group."""
        if self.vectors is None:
            return len(self.answers.slices)
        store = self.answers.store
        return len(self.vectors) - (store.members if isinstance(store, GroupedTree) else 0)

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """Return what holds the aggregates of results."""
        return self.answers.slices.accumulators if self.vectors is None else self.vectors.accumulators

    def lost(self) -> dict[str, int]:
        """Count the tuples that are in no slice, by the reason, and those that came too late for some windows."""
        late, nowhere, unusable = self.answers.slices.lost()
        return dict(
            zip(LOST, (late + self._late, nowhere, unusable + self._unusable, self._late_for_some), strict=True)
        )

    def late(self, ticks: Int64s, slots: Int32s, valid: Bools) -> Bools:
        """Count those of these tuples that came too late for some windows, or for all; return which changed slices.

        `valid` is empty where all have a tick.
        """
        behind = ticks < self.answers.bound
        placed = behind & (slots >= 0)
        self._late_for_some += self.answers.overdue(ticks[placed], slots[placed])
        refused = behind & (slots < 0) & (ticks > -LIMIT)
        if len(valid):
            refused &= valid
        if refused.any():
            self._note(ticks[refused])
        return placed

    def _note(self, ticks: Int64s) -> None:
        """Note how far behind the bound tuples are that came too late for all windows."""
        used = self.answers.used
        if len(used.bands) == 1 and not len(used.sessions):
            slide, origin = (int(used.bands[0, column]) for column in (kernels.SLIDE, kernels.ORIGIN))
            ticks = ticks - (ticks - origin) % slide
        self.refused += len(ticks)
        self.furthest = max(self.furthest, self.answers.bound - int(ticks.min()))

    def take(self, page: Page) -> None:
        """Take the tuples of a page, in whatever order."""
        ticks, valid = page.ticks(self.wattr), page.valid(self.wattr)
        if self.waiting is not None:
            # Before they wait: what goes by arrival must not take the order in which they are let in for it.
            if self._numbered is None or self._numbered[0] is not page.schema:
                self._numbered = page.schema, numbered_schema(page.schema)
            page = numbered(page, self._numbered[1], self._arrived)
        self._arrived += len(page)
        if self.waiting is None and not self.answers.used.tracked:
            self._place(page, ticks, valid)
            return
        least = max(self.answers.bound, 1 - LIMIT)
        if valid is not None or (len(ticks) and (ticks.min() < least or ticks.max() >= LIMIT)):
            page, ticks = self._timely(page, ticks, valid)
        if self.waiting is None:
            self._admit(page, ticks)
        else:
            self.waiting.add(page, ticks)

    def _timely(self, page: Page, ticks: Int64s, valid: Bools | None) -> tuple[Page, Int64s]:
        """Return the tuples of a page that are in time, and count those that are late or have no usable tick."""
        usable = (ticks < LIMIT) & (ticks > -LIMIT) & (True if valid is None else valid)
        late = usable & (ticks < self.answers.bound)
        self._unusable += int(np.count_nonzero(~usable))
        self._late += int(np.count_nonzero(late))
        if late.any() or not usable.all():
            return page.select(usable & ~late), ticks[usable & ~late]
        return page, ticks

    def settle(self, bound: int) -> list[tuple[int, list[Extent]]]:
        """Let in what waited for a bound, and give the windows by place that contexts say it completes."""
        waiting = self.waiting
        if waiting is not None and (page := waiting.release(None if bound == FAR else bound)) is not None:
            self._admit(page, page.ticks(self.wattr))
        found: list[tuple[int, list[Extent]]] = []
        for place, window in self.answers.used.tracked:
            extents, edges = window.windows(bound)
            for edge in edges:
                self._cut(edge)
            found.append((place, extents))
        return found

    def forget(self, bound: int) -> None:
        """Let go of edges and tuples that no context needs after a bound, and of the keys of groups without a slice."""
        used, slices = self.answers.used, self.answers.slices
        for _, window in used.tracked:
            window.forget(bound)
        if self.waiting is not None and used.looks_back:
            horizon = min(bound, *(window.horizon for _, window in used.tracked))
            cell = slices.find(horizon)
            # What is in the slice of the horizon may have to be placed again.
            self.waiting.forget(horizon if cell < 0 else int(slices.cells[cell, kernels.BEGIN]))
        idle = slices.idle() if self.vectors is None else self.vectors.idle()
        if self.groups is not None and len(idle):
            self.groups.free(idle)

    def tell(self, tick: int) -> Around:
        """Cut the cell around a tick for windows that must be asked, and for the others."""
        begin, end, until, covered = kernels.cut(tick, self.answers.used.bands)
        for _, window in self.answers.used.asked:
            low, high, lasts, covers = window.around(tick)
            if low > begin:
                begin, until = low, lasts
            elif low == begin:
                until = max(until, lasts)
            end, covered = min(end, high), covered or covers
        return int(begin), int(end), int(until), bool(covered)

    def recut(self) -> None:
        """Fit the cells to the windows that are in use now, and let go of tuples that none of them looks back to."""
        slices, used = self.answers.slices, self.answers.used
        if self.waiting is not None and not used.looks_back:
            self.waiting.forget(FAR)
        top = int(slices.ledger[kernels.TOP])
        if top == -FAR:
            return
        slices.recut(self.tell(top)[1], used.bands)
        if used.asked:
            cells = slices.order[: slices.cell_count, kernels.NUMBER]
            begins = slices.cells[cells, kernels.BEGIN].tolist()
            told = [self.tell(begin) if begin > -FAR else None for begin in begins]
            # Where only a removed window had an edge, none begins.
            lasts = [-FAR if t is None or t[0] < b else t[2] for b, t in zip(begins, told, strict=True)]
            slices.cells[cells, kernels.UNTIL] = lasts

    def _admit(self, page: Page, ticks: Int64s) -> None:
        """Show tuples in order of time to the contexts, cut slices at the edges that these set, place the tuples."""
        used = self.answers.used
        for _, window in used.tracked:
            for edge in window.notify(page, ticks):
                self._cut(edge)
        self._place(page, ticks, None)
        if self.waiting is not None and used.looks_back:
            self.waiting.keep(page, ticks)

    def _cut(self, edge: int) -> None:
        """Let a slice begin at an edge; tuples on both sides of it are taken out and placed again."""
        slices, waiting = self.answers.slices, self.waiting
        cell = slices.find(edge)
        if cell < 0:
            return
        begin, end = slices.cells[cell, [kernels.BEGIN, kernels.END]].tolist()
        if begin == edge:
            return
        if waiting is None or waiting.between(edge, end) is None:
            slices.part(cell, edge)
            return
        both = waiting.between(begin, end)
        assert both is not None
        gone = slices.empty(cell)
        slices.part(cell, edge)
        # These tuples came in time, and are in the sessions that they were in.
        bound, slices.ledger[kernels.BOUND] = int(slices.ledger[kernels.BOUND]), -FAR
        self._place(both, both.ticks(self.wattr), None, again=True)
        slices.ledger[kernels.BOUND] = bound
        if gone:
            slices.again(begin, end, gone)

    def _place(self, page: Page, ticks: Int64s, valid: Bools | None, *, again: bool = False) -> None:
        answers, vectors = self.answers, self.vectors
        slices, index = answers.slices, self.groups
        groups, capacity, dropped = None, 1, 0
        if index is not None:
            groups = index.assign([page.column(name) for name in self.by])
            capacity = index.capacity
            dropped = slices.dropped
        if vectors is not None and groups is not None:
            vectors.seat(capacity)
            vectors.groups = groups
            slots = slices.place(page, ticks, valid, None, 1, self.tell)
        else:
            slots = slices.place(page, ticks, valid, groups, capacity, self.tell)
        if slices.least < answers.bound and not again:
            behind = self.late(ticks, slots, np.ones(0, np.bool_) if valid is None else valid)
            answers.disturb(ticks[behind], None if groups is None else groups[behind])
        if groups is not None:
            self._forget_dropped(groups, slots, dropped)

    def _forget_dropped(self, groups: Int32s, slots: Int32s, dropped: int) -> None:
        """Forget the groups of which no tuple is in a slice, where more tuples are in none than so many."""
        slices, vectors = self.answers.slices, self.vectors
        if self.groups is not None and slices.dropped > dropped:
            unused = distinct(groups[slots < 0])
            held = slices.chains[unused, kernels.NEWEST] >= 0 if vectors is None else vectors.holds(unused)
            self.groups.free(unused[~held])

    def forget_groups(self, groups: Int32s, slots: Int32s, dropped: int, *, left: bool) -> None:
        """Forget the groups that are in no slice any more, behind a page of these groups; `slots` are its slices.

        `left` tells whether some groups may have left a slice.
        """
        assert self.groups is not None and self.vectors is not None
        if left and len(idle := self.vectors.idle()):
            self.groups.free(idle)
            # These are forgotten already.
            slots = np.where(np.isin(groups, idle), np.int32(0), slots)
        self._forget_dropped(groups, slots, dropped)

    @property
    def wasteful(self) -> bool:
        """Return whether slices of single groups would take less memory than those of many do."""
        slices, vectors = self.answers.slices, self.vectors
        if vectors is None or not vectors.grown or isinstance(self.answers.store, GroupedTree):
            return False
        cells = slices.cells[slices.order[: slices.cell_count, kernels.NUMBER]]
        slots = cells[cells[:, kernels.HEAD] >= 0, kernels.HEAD]
        # The newest slice is still to be filled.
        return vectors.wasteful(slots[:-1].astype(np.int32))

    def linked(self) -> State:
        """Return the state of an intake with slices of single groups that holds the same."""
        assert self.vectors is not None
        return self.state() | prefixed("answers.slices.", self.vectors.linked(self.answers.slices))

    def _upgraded(self, state: Mapping[str, StateValue]) -> Mapping[str, StateValue]:
        if "arrived" not in state and self.waiting is not None:
            raise ValueError(
                "this state was saved before tuples that wait had numbers of arrival; finish that run with the version"
                " that saved it, or begin anew"
            )
        return state

    def _after_restoring(self) -> None:
        if self.groups is not None:
            slices, vectors = self.answers.slices, self.vectors
            chained = slices.chains[:, kernels.NEWEST] >= 0
            held = chained if vectors is None else vectors.holds(np.arange(vectors.capacity, dtype=np.int32))
            self.groups.check_live(np.flatnonzero(held), "groups")
