"""Windows count their tuples, and give what they have behind those that make them fire.

A page is taken window by window: where none fires, it costs a count for each tuple. Where one does, the tuples between
two firings are aggregated by themselves, and then combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, cast

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.functions.columns import frozen, power
from operators.functions.protocol import Accumulator, Slots
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows.firings import part_firings, runs
from operators.protocol import Emit
from operators.window.columns import extent_columns
from operators.window_aggregate.bucket import Alike, Tagged
from operators.window_aggregate.results import STOP
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.finals import Finals
from operators.window_aggregate.triggers.firing_slices import FiringSlices
from operators.window_aggregate.triggers.firings import Firings
from operators.window_aggregate.triggers.promised import crossed

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
_ALL: Final = pa.array(np.zeros(ROWS, np.bool_)), pa.array(np.ones(ROWS, np.bool_))
"""What says of all results of a page that they are not final, and that they are."""


@attrs.frozen(eq=False)
class _Parts:
    """The aggregates of tuples by group: group, tuples and slot of each."""

    groups: Int32s
    counts: Int64s
    slots: Slots


@attrs.define(on_setattr=attrs.setters.NO_OP)
class FiringWindows(WindowAggregate):
    """Hold windows that fire, with what each has seen since it fired: what all triggered aggregates have in common."""

    strategy: Strategy = attrs.field(default="wid", init=False)
    condition: Condition = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    """Whether a result has only what is new since the last firing."""
    lateness: int = attrs.field(default=0, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """For so many ticks behind the promise, late tuples still change windows, which are then given again."""
    _compiled: Compiled = attrs.field(init=False)
    _firings: Firings = attrs.field(init=False, factory=Firings)
    """Those of the store, which saves them."""
    _finals: Finals = attrs.field(init=False, factory=Finals)
    """Those of the store, with a lateness."""
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _reached: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The highest promise of all tuples, in ticks."""
    _over: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The first window that is not over, with a lateness."""
    _places: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    """A place for each slot, all -1 between two calls."""
    _alike: Slots = attrs.field(init=False, factory=lambda: np.zeros(ROWS, np.int32))
    """The same slot for each tuple of a page."""
    _slices: FiringSlices | None = attrs.field(init=False, default=None)
    """Those of the windows that tuples went into last."""
    _giving: tuple[Int64s, bool] = attrs.field(init=False, default=(frozen(np.empty(0, np.int64)), False))
    """Which firing of its window each result is that is given next, and whether these are final."""
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._compiled = Compiled.of(self.condition)

    def _linked(self, schema: Schema) -> SliceStore:
        self._firings, self._finals = Firings(self._compiled.fresh), Finals()
        beside = [self._finals, self._firings] if self.lateness else [self._firings]
        return SliceStore([*accumulators(self.functions.values(), schema), *beside], "combine")

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
        return len({*behind[behind >= 0].tolist()}) + int(behind.max()) // self._compiled.fresh <= _FEW_FIRINGS

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

    def _combine(self, store: SliceStore, into: Slots, source: Slots) -> None:
        for accumulator in self._aggregates(store):
            accumulator.combine(into, source)

    def _all_in(self, slot: int, tuples: int) -> Slots:
        """Return one slot for each of so many tuples."""
        if len(self._alike) < tuples:
            self._alike = np.full(tuples, slot, np.int32)
        elif self._alike[0] != slot:
            self._alike.fill(slot)
        return frozen(self._alike)[:tuples]

    def _take_some(self, store: SliceStore, page: Page, places: Released, emit: Emit) -> None:
        """Update windows of tuples, which are named once for each tuple."""
        self._begin(places)
        if self._firings.count(places.slots):
            self._update_slots(store, places.slots, page)
        else:
            self._take(store, page, places, emit)

    def _take(self, store: SliceStore, page: Page, places: Released, emit: Emit) -> None:
        """Update the windows of tuples, and emit what they have at each of their firings.

        The tuples before a firing are aggregated by themselves, those behind the last one in the slot of the window;
        then each of these parts is combined with those before it.
        """
        if len(self._places) < store.made:
            self._places = np.full(power(store.made), -1, np.int32)
        found = self._firings.list_firings(places.slots, self._compiled, self._places)
        n, leads, chained = len(found.fires), found.before < 0, np.flatnonzero(found.before >= 0)
        made, targets = store.take(n), np.empty(len(places.slots), np.int32)
        part_firings(places.slots, found.fires, made, self._places, targets)
        fired, last = found.slots[leads], found.last
        aggregates = self._aggregates(store)
        for accumulator in aggregates:
            accumulator.combine(made[leads], fired)
            accumulator.free(fired)
            accumulator.init(fired)
            accumulator.update(targets, page)
            if not self.discards:
                accumulator.combine(made[chained], made[found.before[chained]])
        self._note(page, found.fires, found.rows)
        given = places.some(found.fires)
        self._give(Released(given.wids, given.groups, made), found.numbers, emit, final=False)
        for accumulator in () if self.discards else aggregates:
            accumulator.combine(found.slots[last], made[last])
        store.give(made)
        if not self._compiled.repeats:
            self._lack(found.slots[last])

    def _begin(self, places: Released) -> None:
        """Let those of these windows that are new know of the ticks that were reached before their first tuple."""
        moments = self._compiled.moments if self._reached > BEFORE_ALL else ()
        behind = bool(self.lateness) and int(places.wids.min()) < self._over
        if not (moments or behind):
            return
        new = places.some(self._firings.are_new(places.slots))
        if len(new.slots) == 0:
            return
        new = new.some(np.unique(new.slots, return_index=True)[1])
        begins, _ = self.window.extents(new.wids)
        for moment in moments:
            there = crossed(moment, BEFORE_ALL, self._reached, begins)
            self._firings.know(new.slots, np.where(there, self._compiled.bit(moment), 0))
        if behind:
            self._finals.end(new.slots[new.wids < self._over])
        self._lack(new.slots)

    def _lack(self, slots: Slots) -> None:
        """Let slots, each named once, count up to what they lack from what they have seen."""
        lacking = self._compiled.node.lacking(self._firings.seen(slots))
        if self.lateness:
            # A window that is over fires at promises alone.
            lacking = np.where(self._finals.over(slots), FOREVER, lacking)
        self._firings.lack(slots, lacking)

    def _note(self, page: Page, fires: Int64s, rows: Int64s) -> None:
        """Note the firings that are given next: behind these tuples, of windows that have had so many `rows`."""

    def _note_all(self, slots: Slots) -> None:
        """Note that these windows are given next, with all tuples that have come."""

    def _aggregates(self, store: SliceStore) -> Sequence[Accumulator]:
        """Return the accumulators of the functions."""
        return store.accumulators[: -2 if self.lateness else -1]

    def _update_slots(self, store: SliceStore, slots: Slots, page: Page) -> None:
        for accumulator in self._aggregates(store):
            accumulator.update(slots, page)

    def _fire(self, places: Released, emit: Emit) -> None:
        """Emit the results so far of these windows, each named once, and let them begin again."""
        slots, node, firings = places.slots, self._compiled.node, self._firings
        if len(slots) == 0:
            return
        self._note_all(slots)
        self._give(places, firings.fired[slots], emit, final=False)
        firings.begin_again(slots, node.stepped(firings.seen(slots), np.ones(len(slots), np.bool_)))
        self._lack(slots)
        if self.discards:
            self._clear(slots)

    def _clear(self, slots: Slots) -> None:
        """Let slots, each named once, have no tuple."""
        for accumulator in self._aggregates(cast(SliceStore, self._store)):
            accumulator.free(slots)
            accumulator.init(slots)

    def _emit(self, released: Released, emit: Emit) -> None:
        if self.discards:
            released = released.some(self._firings.new(released.slots) > 0)
        if len(released.slots):
            self._give(released, self._firings.fired[released.slots], emit, final=True)

    def _give(self, released: Released, numbers: Int64s, emit: Emit, *, final: bool) -> None:
        """Emit results, with which firing of its window each is."""
        self._early += 0 if final else len(numbers)
        self._giving = numbers, final
        super()._emit(released, emit)

    def _page(self, released: Released) -> Page:
        """Return results with what tells of the firings that are given next."""
        (numbers, final), told, n = self._giving, self._told, len(released.wids)
        assert told is not None
        self._giving = numbers[n:], final
        columns = self._columns(released)
        kind = told.arrow.field(STOP).type
        columns += extent_columns(released.wids, *self._extents(released.wids), kind)
        columns += [columns[-1] if final else pa.nulls(n, kind), _ALL[final].slice(0, n), tick_column(numbers[:n])]
        if self.lateness:
            revisions = self._finals.revisions(released.slots) if final else np.zeros(n, np.int64)
            columns.append(tick_column(revisions))
        return Page(told, pa.RecordBatch.from_arrays(columns, schema=told.arrow))

    def _before_saving(self) -> None:
        self._drop_slices()

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._store is not None:
            self._lack(cast(SliceStore, self._store).windows().slots)
