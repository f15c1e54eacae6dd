"""Windows that tuples are in together take them from slices, as long as pages stay in the same windows.

A slice is what a group got since its windows took what it had: it is one partial aggregate, however many windows there
are. The windows take it when one of them fires, when tuples go into others, and when somebody asks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, cast

import attrs
import numpy as np

from operators.data.page import ROWS, Int32s, Int64s, Page
from operators.functions.columns import frozen, power
from operators.functions.protocol import Slots
from operators.kernels.windows.firings import runs
from operators.protocol import Emit
from operators.window_aggregate.bucket import Alike, Tagged
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.triggers.firing_slices import FiringSlices
from operators.window_aggregate.triggers.firing_windows import FiringWindows

_FEW: Final = 16
"""In so many runs at most of a page, tuples that follow one another and are in the same windows are taken at once."""
_MANY_WINDOWS: Final = 1 << 12
"""In so many windows at most."""
_MANY_TUPLES: Final = 4
"""So many tuples a group at least are aggregated once for all windows that they are in."""
_FEW_FIRINGS: Final = 4
"""A page in which windows fire behind no more tuples is taken from firing to firing."""
_ROOM: Final = 4
"""There is room for so many tuples at first behind which all windows of a slice fire."""
_MOST_ROOM: Final = 1 << 10
"""There is never room for more of them at once."""
_MANY_PLACES: Final = 1 << 20
"""So many windows of groups at most get a place at once."""


@attrs.frozen(eq=False)
class _Parts:
    """The aggregates of tuples by group: group, tuples and slot of each."""

    groups: Int32s
    counts: Int64s
    slots: Slots


@attrs.define(on_setattr=attrs.setters.NO_OP)
class SlicedWindows(FiringWindows):
    """Take pages, whose tuples windows get from slices."""

    _alike: Slots = attrs.field(init=False, factory=lambda: np.zeros(ROWS, np.int32))
    """The same slot for each tuple of a page."""
    _slices: FiringSlices | None = attrs.field(init=False, default=None)
    """Those of the windows that tuples went into last."""

    def _take_page(self, store: SliceStore, found: Alike | Tagged, emit: Emit) -> None:
        """Take tuples, each of which is in an open window."""
        page, index, groups, capacity = found.page, self._groups, None, 1
        if index is not None:
            groups, capacity = index.assign([page.column(name) for name in self.by]), index.capacity
        if isinstance(found, Alike) and found.last - found.first <= _MANY_WINDOWS:
            self._take_run(store, page, range(found.first, found.last), groups, capacity, emit)
            return
        if isinstance(found, Alike):
            first, last = (np.full(len(page), wid) for wid in (found.first, found.last))
            n = 0
        else:
            first, last, ends = found.first, found.last, np.empty(_FEW, np.int64)
            n = runs(first, last, ends) if int((last - first).max()) <= _MANY_WINDOWS else 0
            for start, end in pairwise((0, *ends[:n].tolist())):
                its, wids = None if groups is None else groups[start:end], range(int(first[start]), int(last[start]))
                self._take_run(store, page.slice(start, end), wids, its, capacity, emit)
        if n:
            return
        self._drop_slices()
        if groups is None:
            groups = np.zeros(len(page), np.int32)
        for tuples, wids, its in self._windows_of(page, first, last, groups):
            self._take_some(store, tuples, Released(wids, its, store.place(wids, wids + 1, its, capacity)), emit)

    def _take_run(
        self, store: SliceStore, page: Page, wids: range, groups: Int32s | None, capacity: int, emit: Emit
    ) -> None:
        """Update windows which all tuples are in."""
        slices = self._slices_of(store, wids, capacity)
        if groups is None:
            if len(slices.slots) == 0:
                self._slice(store, slices, np.zeros(1, np.int32), capacity)
            n, slots = len(page), slices.slots
            if self._firings.count_all(slots, n):
                self._update_slots(store, self._all_in(int(slots[0]), n), page)
                return
            if self._compiled.repeats and self._fire_rarely(slices, n):
                self._take_alone(store, page, slices.wids, emit)
                return
            groups = self._all_in(0, n)
        else:
            slots = slices.places[groups]
            if int(slots.min()) < 0:
                named = np.zeros(capacity, np.bool_)
                named[groups[slots < 0]] = True
                self._slice(store, slices, np.flatnonzero(named).astype(np.int32), capacity)
                slots = slices.places[groups]
            if self._firings.count(slots):
                self._update_slots(store, slots, page)
                return
        if not slices.several:
            slots = slices.places[groups]
            self._take(store, page, Released(np.broadcast_to(np.int64(wids.start), len(page)), groups, slots), emit)
        elif self._compiled.repeats:
            self._take_slices(store, page, slices, groups, emit)
        else:
            self._settle_slices()
            self._take_each(store, page, wids, groups, capacity, emit)

    def _slices_of(self, store: SliceStore, wids: range, capacity: int) -> FiringSlices:
        """Return the slices of windows, ready for tuples of groups that are below this."""
        slices = self._slices
        if slices is None or slices.wids != wids:
            self._drop_slices()
            self._slices = slices = FiringSlices(wids)
        elif slices.empty:
            slices.empty = False
            for accumulator in store.accumulators:
                accumulator.free(slices.slots)
                accumulator.init(slices.slots)
            self._firings.await_first(slices.slots, slices.windows)
        slices.widen(capacity)
        return slices

    def _slice(self, store: SliceStore, slices: FiringSlices, groups: Int32s, capacity: int) -> None:
        """Make slices for groups, each named once, that have none."""
        wid, wids = np.arange(slices.wids.start, slices.wids.stop), slices.wids
        if len(groups) > 1 and len(groups) * len(wids) > _MANY_PLACES:
            for some in np.array_split(groups, 2):
                self._slice(store, slices, some, capacity)
            return
        if len(groups) == 1:
            group = np.full(len(wids), groups[0], np.int32)
        else:
            wid, group = np.tile(wid, len(groups)), np.repeat(groups, len(wids))
        slots = store.place(wid, wid + 1, group, capacity)
        self._begin(Released(wid, group, slots))
        windows = slots.reshape(len(groups), len(wids))
        if slices.several:
            slots = store.take(len(groups))
            self._firings.await_first(slots, windows)
        slices.add(groups, slots, windows)

    def _settle_slices(self) -> None:
        """Let windows take what is in their slices."""
        slices = self._slices
        if slices is None or slices.empty or not slices.several or len(slices.slots) == 0:
            return
        slices.empty = True
        self._combine(cast(SliceStore, self._store), *self._firings.settle_slices(slices.slots, slices.windows))

    def _drop_slices(self) -> None:
        """Let windows take what is in their slices, and have no slices any more."""
        self._settle_slices()
        slices, self._slices = self._slices, None
        if slices is not None and slices.several and len(slices.slots):
            cast(SliceStore, self._store).give(slices.slots)

    def _fire_rarely(self, slices: FiringSlices, tuples: int) -> bool:
        """Return whether windows without groups fire behind few of so many tuples."""
        lacking = self._firings.lacking(slices.windows[0])
        if slices.several:
            lacking -= self._firings.had(slices.slots)
        behind = tuples - lacking
        return len({*behind[behind >= 0].tolist()}) + int(behind.max()) // max(self._compiled.fresh, 1) <= _FEW_FIRINGS

    def _take_alone(self, store: SliceStore, page: Page, wids: range, emit: Emit) -> None:
        """Update windows without groups from firing to firing, of which there are few."""
        firings, n, begin = self._firings, len(page), 0
        while begin < n:
            slices = self._slices_of(store, wids, 1)
            slots = slices.slots
            left = int(firings.lacking(slots)[0])
            end = min(n, begin + left)
            firings.add(slots, end - begin)
            some = page if end - begin == n else page.slice(begin, end)
            self._update_slots(store, self._all_in(int(slots[0]), end - begin), some)
            if end - begin == left:
                self._settle_slices()
                due = slices.windows[0]
                which = np.flatnonzero(firings.lacking(due) == 0)
                due = due[which]
                self._note(page, np.full(len(due), end - 1), firings.had(due))
                given = Released(wids.start + which, np.zeros(len(due), np.int32), due)
                self._give(given, firings.fire(due), emit, final=False)
                if self.discards:
                    self._clear(due)
            begin = end

    def _take_slices(self, store: SliceStore, page: Page, slices: FiringSlices, groups: Int32s, emit: Emit) -> None:
        """Update the windows of slices, of which some fire: what lies between two firings is aggregated once."""
        begin, room = 0, _ROOM
        while begin < len(page):
            spare = store.take((len(slices.wids) + 1) * room)
            if len(self._places) < store.made:
                self._places = np.full(power(store.made), -1, np.int32)
            found = self._firings.fire_slices(slices, groups, begin, spare, self._places, discards=self.discards)
            part = page if found.end - begin == len(page) else page.slice(begin, found.end)
            self._update_slots(store, found.targets, part)
            self._combine(store, found.into, found.source)
            if len(found.fires):
                self._note(page, found.fires, found.rows)
                wids = slices.wids.start + found.places
                released = Released(wids, slices.groups[found.slices], found.slots)
                self._give(released, found.numbers, emit, final=False)
                if self.discards:
                    self._begin_anew(store, np.unique(slices.windows[found.slices, found.places]))
            store.give(found.freed)
            begin, room = found.end, min(4 * room, _MOST_ROOM)

    def _begin_anew(self, store: SliceStore, slots: Slots) -> None:
        """Let slots, each named once, have what came since they fired, and no more."""
        new = self._places[slots]
        self._places[slots] = -1
        self._clear(slots)
        self._combine(store, slots, new)

    def _take_each(self, store: SliceStore, page: Page, wids: range, groups: Int32s, capacity: int, emit: Emit) -> None:
        """Update windows which all tuples are in, one after the other."""
        parts = self._parts(store, page, groups, capacity)
        for wid in wids:
            if parts is None or not self._take_parts(store, wid, parts, capacity):
                places = Released(
                    np.broadcast_to(np.int64(wid), len(page)), groups, store.place_in(wid, groups, capacity)
                )
                self._take_some(store, page, places, emit)
        if parts is not None:
            store.give(parts.slots)

    def _parts(self, store: SliceStore, page: Page, groups: Int32s, capacity: int) -> _Parts | None:
        """Aggregate the tuples of each group, where there are few groups."""
        if _MANY_TUPLES * (1 if self._groups is None else len(self._groups)) > len(page):
            return None
        counts = np.bincount(groups, minlength=capacity)
        present = np.flatnonzero(counts).astype(np.int32)
        slots, places = store.take(len(present)), np.empty(capacity, np.int32)
        places[present] = slots
        self._update_slots(store, places[groups], page)
        return _Parts(present, counts[present], slots)

    def _take_parts(self, store: SliceStore, wid: int, parts: _Parts, capacity: int) -> bool:
        """Combine parts into a window; False, and it is as it was, where it fires for one of the groups."""
        slots = store.place_in(wid, parts.groups, capacity)
        self._begin(Released(np.broadcast_to(np.int64(wid), len(slots)), parts.groups, slots))
        if not self._firings.count_apart(slots, parts.counts):
            return False
        self._combine(store, slots, parts.slots)
        return True

    def _all_in(self, slot: int, tuples: int) -> Slots:
        """Return one slot for each of so many tuples."""
        if len(self._alike) < tuples:
            self._alike = np.full(tuples, slot, np.int32)
        elif self._alike[0] != slot:
            self._alike.fill(slot)
        return frozen(self._alike)[:tuples]

    def _before_saving(self) -> None:
        self._drop_slices()
