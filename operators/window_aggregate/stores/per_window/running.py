"""Aggregates are carried from window to window, for all groups at once, instead of being combined anew for each.

A slice enters when the first window that it is in is released, and never changes after that: every tuple that could
still come is in later windows alone. So the windows are answered as those of an ordered stream, whatever the order of
arrival was. *Differential*: a slice that leaves is subtracted (thesis Eq. 6.2). *Two stacks*, where nothing can be
subtracted: slices of the back stack are in one aggregate a group; when the front stack is used up, the back becomes the
front, each slot taking in the next younger one of its group, so that a slice leaves by a step from slot to slot (Hammer
Slide, with a vector of groups in the place of a value).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from operators.data.page import Bools, Int32s
from operators.functions.columns import grown
from operators.functions.protocol import Slots, Subtractable
from operators.kernels.ticks import BEFORE_ALL
from operators.kernels.windows import running as kernels
from operators.window_aggregate.store import Released
from operators.window_aggregate.strategy import Carrying

if TYPE_CHECKING:
    from operators.window_aggregate.stores.per_window.store import SliceStore


_FEW, _COPIES = 256, 1024
"""Windows of so few results are given together, so many results at a time."""
_SEVERAL = 8
"""If a promise completes no more windows than this, each is given by itself."""
_OUT, _FRONT, _BACK, _BESIDE = np.int8(0), np.int8(1), np.int8(2), np.int8(3)


@attrs.define(eq=False)
class Running:
    """Hold, for the slices of the window released last, what the next one starts from: 26 bytes a group, 4 a slot."""

    store: SliceStore
    technique: Carrying
    _front: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _back: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _beside: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _last: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _members: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _active: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _known: Bools = attrs.field(init=False, factory=lambda: np.empty(0, np.bool_))
    _detached: Bools = attrs.field(init=False, factory=lambda: np.empty(0, np.bool_))
    _following: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _place: npt.NDArray[np.int8] = attrs.field(init=False, factory=lambda: np.zeros(0, np.int8))
    _actives: int = attrs.field(init=False, default=0)
    _youngest: int = attrs.field(init=False, default=BEFORE_ALL)
    held: int = attrs.field(init=False, default=0)
    """Number of aggregates held besides those of the slices."""
    ending: bool = False
    """Whether no window is to be carried over any more, as soon as each slice holds its own aggregates alone."""
    ended: int | None = attrs.field(init=False, default=None)
    """The first window that is to be combined anew, once there is one: nothing is held here then."""

    @property
    def nbytes(self) -> int:
        return 26 * len(self._front) + self._following.nbytes

    @property
    def suffixed(self) -> Bools:
        """Return which slices, by number, hold suffixes: of a group's slots there, the oldest stands for all."""
        self._reserve()
        return self._place == _FRONT

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound), one window at a time."""
        store = self.store
        self._reserve()
        # Groups that are alone come first: their slots change when the stacks are turned over for the others.
        if len(alone := np.flatnonzero(self._detached).astype(np.int32)):
            yield from store.release_groups(alone, released, min(bound, store.ranges.horizon(BEFORE_ALL)))
        windows = self._windows(released, bound)
        # To copy an aggregate that holds values costs more than a page for each window.
        few = bound - released > _SEVERAL and all(getattr(a, "bounded", True) for a in store.accumulators)
        if self.ending and not (self._place == _FRONT).any():
            self._end(released)
            return
        yield from self._together(windows) if few else windows
        self._reserve()
        if self.ended is None:
            self._leave(bound)

    def _windows(self, released: int, bound: int) -> Iterator[Released]:
        wid = released
        while (wid := self.store.ranges.next_window(wid)) < bound:
            self._leave(wid)
            if self.ended is not None:
                return
            self._enter(wid)
            yield from self._window(wid)
            wid += 1

    def _together(self, windows: Iterator[Released]) -> Iterator[Released]:
        """Yield windows of few results together: their aggregates are copied, as the next window changes them."""
        store, used = self.store, 0
        kept: list[Released] = []
        # Before the first window: what that is combined in stands behind all slots there are.
        copies = store.take(_COPIES)
        self._reserve()
        for window in windows:
            n = len(window.slots)
            if used and (n > _FEW or used + n > _COPIES):
                yield _joined(kept, copies[:used])
                for accumulator in store.accumulators:
                    accumulator.free(copies[:used])
                    accumulator.init(copies[:used])
                kept, used = [], 0
            if n > _FEW:
                yield window
                continue
            for accumulator in store.accumulators:
                accumulator.combine(copies[used : used + n], window.slots)
            kept.append(window)
            used += n
        if used:
            yield _joined(kept, copies[:used])
        store.give(copies)

    def detach(self, groups: Int32s) -> None:
        """Leave these groups to be answered alone: promises on single groups let go of their slots out of turn."""
        self._reserve()
        held = self._back[groups]
        self._give(held[held >= 0])
        for column in (self._front, self._back, self._beside):
            column[groups] = -1
        self._members[groups] = 0
        self._detached[groups] = True

    def forget(self, groups: Int32s) -> None:
        """Be ready for other groups with these ids; none of them has a slot left."""
        self._reserve()
        self.detach(groups)
        self._detached[groups] = False

    def closed(self, numbers: Int32s) -> None:
        """Take note that these slices are no more."""
        self._reserve()
        self._place[numbers] = _OUT

    def resume(self, suffixed: Int32s) -> None:
        """Go on from a saved store, in which these slices hold suffixes; the other slices will enter again."""
        self._reserve()
        self._link(self._by_age(suffixed))
        self._activate(self._slots_of(suffixed)[1])

    def _enter(self, wid: int) -> None:
        store = self.store
        open_ = store.ranges.in_window(wid)
        new = self._by_age(open_[self._place[open_] == _OUT])
        if len(new) == 0:
            return
        ends = store.ranges.ends[new]
        if self.technique == "two_stacks":
            # A slice of late tuples may have to leave before older ones; it is combined into each of its few windows.
            beside = ends < self._youngest
            self._place[new[beside]] = _BESIDE
            new, ends = new[~beside], ends[~beside]
            if len(new) == 0:
                return
            self._youngest = int(ends[-1])
        self._place[new] = _BACK
        slots, groups = self._slots_of(new)
        lacking = np.empty(len(groups), np.int32)
        self._activate(groups)
        count = kernels.enter(groups, self._back, self._members, lacking)
        if count:
            self._back[lacking[:count]] = store.take(count)
            self.held += count
            self._reserve()
        into = self._back[groups]
        for accumulator in store.accumulators:
            accumulator.combine(into, slots)

    def _leave(self, wid: int) -> None:
        store = self.store
        order = store.ranges.order
        order = order[(store.ranges.ends[order] <= wid) & (self._place[order] != _OUT)]
        if len(order) == 0:
            return
        if self.technique == "differential":
            self._subtract(order)
        else:
            if (self._place[order] == _BACK).any():
                # The front is used up: who is there leaves too, being older than those who leave the back.
                if self.ending:
                    self._end(wid)
                    return
                self._flip(wid)
            front = self._by_age(order[self._place[order] == _FRONT])
            kernels.evict(front, *store.chains, self._front, self._following)
        self._place[order] = _OUT

    def _subtract(self, numbers: Int32s) -> None:
        slots, groups = self._slots_of(numbers)
        into, source, gone = (np.empty(len(slots), np.int32) for _ in range(3))
        n, freed = kernels.leave(groups, slots, self._back, self._members, into, source, gone)
        for accumulator in self.store.accumulators:
            assert isinstance(accumulator, Subtractable)
            accumulator.subtract(into[:n], source[:n])
        self._give(gone[:freed])

    def _flip(self, wid: int) -> None:
        """Make the back stack the front, which is used up."""
        store = self.store
        order = store.ranges.order
        back = order[self._place[order] == _BACK]
        groups = self._active[: self._actives]
        held = self._back[groups]
        self._give(held[held >= 0])
        self._back[groups] = -1
        self._front[groups] = -1
        self._members[groups] = 0
        into, source = self._link(self._by_age(back[store.ranges.ends[back] > wid]))
        for accumulator in store.accumulators:
            accumulator.combine(into, source)

    def _end(self, wid: int) -> None:
        """Let go of all that is held, before the window `wid`: no slice holds anything of others."""
        held = self._back[self._back >= 0]
        self._back[:] = -1
        self._give(held)
        self.ended = wid

    def _link(self, numbers: Int32s) -> tuple[Slots, Slots]:
        """Put these slices, given by age, on the empty front stack; gives the combinations that make them suffixes."""
        room = self.store.room(numbers)
        into, source = np.empty(room, np.int32), np.empty(room, np.int32)
        n = kernels.flip(
            numbers, *self.store.chains, self._detached, self._front, self._following, self._last, into, source
        )
        self._place[numbers] = _FRONT
        if len(numbers):
            self._youngest = max(self._youngest, int(self.store.ranges.ends[numbers[-1]]))
        return into[:n], source[:n]

    def _window(self, wid: int) -> Iterator[Released]:
        store = self.store
        open_ = store.ranges.in_window(wid)
        beside = self._by_age(open_[self._place[open_] == _BESIDE])
        if len(beside):
            self._actives = kernels.chain_beside(
                beside, *store.chains, self._detached, self._beside, self._following, self._active, self._known,
                self._actives,
            )  # fmt: skip
        most = 2 * self._actives + store.room(beside)
        groups, slots = np.empty(self._actives, np.int32), np.empty(self._actives, np.int32)
        into, source = np.empty(most, np.int32), np.empty(most, np.int32)
        base = store.beyond(self._actives)
        stacks = (self._front, self._back, self._beside, self._following)
        self._actives, n, made, parts = kernels.gather(
            wid, store.own, stacks, self._active, self._known, self._actives, base, groups, slots, into, source
        )
        temporary = np.arange(base, base + made, dtype=np.int32)
        if made:
            for accumulator in store.accumulators:
                accumulator.init(temporary)
                accumulator.combine(into[:parts], source[:parts])
        if n:
            yield Released(np.full(n, wid), groups[:n], slots[:n])
        if made:
            for accumulator in store.accumulators:
                accumulator.free(temporary)

    def _activate(self, groups: Int32s) -> None:
        self._actives = kernels.activate(groups, self._active, self._known, self._actives)

    def _slots_of(self, numbers: Int32s) -> tuple[Slots, Int32s]:
        room = self.store.room(numbers)
        slots, groups = np.empty(room, np.int32), np.empty(room, np.int32)
        n = kernels.slots_of(numbers, *self.store.chains, self._detached, slots, groups)
        return slots[:n], groups[:n]

    def _by_age(self, numbers: Int32s) -> Int32s:
        """Sort slices by when they leave."""
        if len(numbers) < 2:
            return numbers
        return numbers[np.lexsort((self.store.ranges.starts[numbers], self.store.ranges.ends[numbers]))]

    def _give(self, slots: Slots) -> None:
        self.held -= len(slots)
        self.store.give(slots)

    def _reserve(self) -> None:
        """Follow the store when it has more groups, slots or slices than before."""
        groups = self.store.groups
        if groups > len(self._front):
            self._front, self._back, self._beside, self._last = (
                grown(a, groups, fill=-1) for a in (self._front, self._back, self._beside, self._last)
            )
            self._members, self._active = grown(self._members, groups), grown(self._active, groups)
            self._known, self._detached = grown(self._known, groups), grown(self._detached, groups)
        self._following = grown(self._following, len(self.store.chains[2]), fill=-1)
        self._place = grown(self._place, len(self.store.ranges.starts))


def _joined(windows: list[Released], slots: Slots) -> Released:
    """Return the results of several windows as one, from other slots."""
    return Released(
        np.concatenate([window.wids for window in windows]), np.concatenate([w.groups for w in windows]), slots
    )
