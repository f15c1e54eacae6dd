"""Windows count their tuples, and give what they have behind those that make them fire.

Tuples that make no window fire cost one count each. Where one fires, the tuples between two firings are aggregated by
themselves, and then combined.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from operators.kernels.windows.firings import part_firings
from operators.protocol import Emit
from operators.window import SlidingWindow
from operators.window.columns import extent_columns
from operators.window_aggregate.results import STOP
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.finals import Finals
from operators.window_aggregate.triggers.firings import Firings
from operators.window_aggregate.triggers.promised import crossed

_ALL: Final = pa.array(np.zeros(ROWS, np.bool_)), pa.array(np.ones(ROWS, np.bool_))
"""What says of all results of a page that they are not final, and that they are."""


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

    def _combine(self, store: SliceStore, into: Slots, source: Slots) -> None:
        for accumulator in self._aggregates(store):
            accumulator.combine(into, source)

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
        bounded = isinstance(self.window, SlidingWindow)
        columns += extent_columns(released.wids, *self._extents(released.wids), kind, bounded=bounded)
        columns += [columns[-1] if final else pa.nulls(n, kind), _ALL[final].slice(0, n), tick_column(numbers[:n])]
        if self.lateness:
            revisions = self._finals.revisions(released.slots) if final else np.zeros(n, np.int64)
            columns.append(tick_column(revisions))
        return Page(told, pa.RecordBatch.from_arrays(columns, schema=told.arrow))

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._store is not None:
            self._lack(cast(SliceStore, self._store).windows().slots)
