"""An aggregate whose windows give what they have so far when tuples, events or a clock say so.

The final result of a window does not depend on the order of arrival; what it gives before does, as it is over the
tuples that have come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import gcd
from typing import ClassVar, Final, cast

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.columns import power
from operators.functions.protocol import Accumulator, Slots
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL
from operators.kernels.windows.firings import number_slots, part_slots, runs
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes, Together
from operators.protocol import Element, Emit
from operators.retractions import Retracted, Retracting, Settles, refused
from operators.signals import Signal
from operators.streams.named_groups import matched, within
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING, FIRINGS, with_firings
from operators.window_aggregate.results import STOP
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.vector_store import VectorStore
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.cuts import Cuts, cut
from operators.window_aggregate.triggers.firings import Firings
from operators.window_aggregate.triggers.promised import Every, crossed, spoken_of
from punctuation import Punctuation

_FEW: Final = 16
"""In so many windows at most, and so many runs at most of a page, tuples that follow one another are taken at once."""
REPLACED: Final = attrs.evolve(FIRINGS, settles=Settles("firings", frozenset((FINAL,)), apart=FIRING))
"""Early results that are over what has come, which later ones of the same window replace."""


@attrs.define(on_setattr=attrs.setters.NO_OP)
class TriggeredAggregate(WindowAggregate):
    """Aggregate the tuples of each window and group; the input is a Bucket's output. Fire when a condition holds.

    A condition that hears promises needs a Bucket that hands them on.

    Emits what a WindowAggregate emits, then `fired`, `final` and `firing`. A result that is not final is over the
    tuples of its window and group that have come, or with `discards` over those since the last firing; its `fired` is
    null. A firing lies behind the tuple, or the signal, that makes the condition hold.
    Pass: at the tuple at which a window fires, and on the promise that completes it. Keep: one partial aggregate, and
    56 bytes, for each open window and group. Propagate: as a WindowAggregate does.
    Cost: O(aggregates) for each window of a tuple, and for each firing; with `Then` and `Until`, a step of all windows
    for each firing of one in a page, besides. A page in which none fires costs a count for each window of a tuple, and
    one count where it has no groups and lies in one window.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> from punctuation import before
    >>> window = SlidingWindow("ts", size=10, slide=10)
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 5]})
    >>> tagged = drive(Bucket(window), [page, before("ts", 10)])
    >>> found = rows(drive(TriggeredAggregate(window, {"count": count()}, condition=Rows(2)), tagged))
    >>> [(row["count"], row["fired"], row["final"], row["firing"]) for row in found]
    [(2, None, False, 0), (3, 10, True, 1)]
    """

    VERSION: ClassVar[int] = 2

    strategy: Strategy = attrs.field(default="wid", init=False)
    condition: Condition = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    """Whether a result has only what is new since the last firing."""
    _compiled: Compiled = attrs.field(init=False)
    _firings: Firings = attrs.field(init=False, factory=Firings)
    """Those of the store, which saves them."""
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _reached: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(since=2))
    """The highest promise of all tuples, in ticks."""
    _places: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    """A place for each slot, all -1 between two calls."""
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._compiled = Compiled.of(self.condition)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is not None:
            return refused(self, found, *inputs)
        return None if self.discards else REPLACED

    def together(self, *inputs: Schema) -> Together:
        return Together(arrival=True, why="windows fire as tuples arrive")

    def levels(self, schema: Schema, *, size: int) -> None:
        return None

    def results_schema(self, schema: Schema) -> Schema:
        if self.endless:
            raise SchemaError(
                "aggregate(early=...): a tuple is in all later windows of RANGE ALL, which would all fire.\n"
                "  Give the window a RANGE, or ask the run for running.partial()."
            )
        plain = super().results_schema(schema)
        fired = plain.field(STOP).with_name(FIRED).with_nullable(True)
        return with_firings(plain, fired, pa.field(FINAL, pa.bool_()), pa.field(FIRING, pa.int64()))

    @property
    def hears_promises(self) -> bool:
        """Return whether windows fire at promises."""
        return self._compiled.hears_promises

    def signals(self) -> Collection[Signal]:
        return self._compiled.signals

    def signal(self, signal: Signal, emit: Emit) -> None:
        if self._store is not None:
            self._hear(signal, cast(SliceStore, self._store).windows(), emit)

    def _hear(self, signal: Signal, held: Released, emit: Emit) -> None:
        """Let windows, each named once, hear a signal, and fire those for which the condition holds then."""
        if bit := self._compiled.bit(signal):
            self._firings.tell(held.slots, bit)
            self._fire_held(held, emit)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (read,) = super().attributes_read(wanted, *inputs)
        return [read.union(name for one in self._compiled.promised for name, _ in one.patterns)]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        (paces,) = super().promises_asked(wanted, *inputs)
        window = self.window
        if isinstance(window, SlidingWindow):
            for moment in self._compiled.moments:
                each = isinstance(moment, Every)
                begin = window.extent(0)[0] + (0 if each else moment.ticks)
                want(paces, window.wattr, Pace(gcd(window.slide, moment.ticks) if each else window.slide, begin))
        for one in self._compiled.promised:
            for name, _ in one.patterns:
                if name != window.wattr and name in inputs[0]:
                    want(paces, name, Pace(None))
        return [paces]

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        wattr, compiled, bits = self.window.wattr, self._compiled, dict[int, Bools]()
        if wattr not in punctuation.attributes:
            super().punctuate(punctuation, emit, port)
        before, now = self._reached, within(punctuation.bound(wattr))
        self._reached = before if now is None else max(before, now)
        came = FROM not in punctuation.attributes
        heard = [one for one in compiled.promised if came and one.matches(punctuation)]
        moments = compiled.moments if self._reached > before else ()
        if self._store is None or not (heard or moments):
            return
        held = cast(SliceStore, self._store).windows()
        begins, ends = self.window.extents(held.wids)
        for moment in moments:
            bits[compiled.bit(moment)] = crossed(moment, before, self._reached, begins) & (ends > self._reached)
        if heard:
            told = self._spoken_of(punctuation, held, begins, ends)
            bits |= {compiled.bit(one): told for one in heard}
        for bit, told in bits.items():
            self._firings.tell(held.slots[told], bit)
        self._fire_held(held, emit)

    def _spoken_of(self, promise: Punctuation, held: Released, begins: Int64s, ends: Int64s) -> Bools:
        """Return which windows of groups a promise speaks of: those that have tuples which match it, or may have."""
        patterns, wattr = dict(promise.patterns), self.window.wattr
        told = np.ones(len(held.slots), np.bool_)
        if wattr in patterns:
            told &= spoken_of(patterns[wattr], begins, ends)
        if self._groups is not None and (groups := {n: p for n, p in patterns.items() if n in self.by and n != wattr}):
            theirs = np.zeros(self._groups.capacity, np.bool_)
            theirs[matched(self._groups, Punctuation(groups))] = True
            told &= theirs[held.groups]
        return told

    def _fire_held(self, held: Released, emit: Emit) -> None:
        """Let those of these windows fire, each named once, for which the condition holds."""
        lacking = self._compiled.node.lacking(self._firings.seen(held.slots))
        self._firings.lack(held.slots, lacking)
        self._fire(held.some(lacking == 0), emit)

    def _bind(self, schema: Schema) -> SliceStore | VectorStore:
        store = super()._bind(schema)
        self._told = self._output
        self._output = super().results_schema(schema)
        return store

    def _linked(self, schema: Schema) -> SliceStore:
        self._firings = Firings(self._compiled.fresh)
        made = [*accumulators(self.functions.values(), schema), self._firings]
        return SliceStore(made, "combine")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        store, index = cast(SliceStore, self._store or self._bind(page.schema)), self._groups
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        if index is None:
            groups, capacity = np.zeros(len(page), np.int32), 1
        else:
            groups, capacity = index.assign([page.column(name) for name in self.by]), index.capacity
        ends = np.empty(_FEW, np.int64)
        n = runs(first, last, ends) if int((last - first).max()) <= _FEW else 0
        for start, end in pairwise((0, *ends[:n].tolist())):
            its = groups[start:end]
            for wid in range(int(first[start]), int(last[start])):
                self._take_all(store, page.slice(start, end), wid, its, capacity, emit)
        if n == 0:
            for tuples, wids, its in self._windows_of(page, first, last, groups):
                self._take_some(store, tuples, Released(wids, its, store.place(wids, wids + 1, its, capacity)), emit)
        self._peak = max(self._peak, len(store))

    def _take_all(self, store: SliceStore, page: Page, wid: int, groups: Int32s, capacity: int, emit: Emit) -> None:
        """Update one window of all tuples."""
        wids = np.broadcast_to(np.int64(wid), len(page))
        if self.by:
            self._take_some(store, page, Released(wids, groups, store.place_in(wid, groups, capacity)), emit)
            return
        place = Released(wids[:1], groups[:1], store.place_in(wid, groups[:1], capacity))
        self._begin(place)
        slots = np.broadcast_to(place.slots[0], len(page))
        if self._firings.count_in(int(place.slots[0]), len(page)):
            self._update_slots(store, slots, page)
        else:
            self._take(store, page, Released(wids, groups, slots), emit)

    def _take_some(self, store: SliceStore, page: Page, places: Released, emit: Emit) -> None:
        """Update windows of tuples, which are named once for each tuple."""
        self._begin(places)
        if self._firings.count(places.slots):
            self._update_slots(store, places.slots, page)
        else:
            self._take(store, page, places, emit)

    def _take(self, store: SliceStore, page: Page, places: Released, emit: Emit) -> None:
        """Update the windows of tuples, and emit what they have at each of their firings.

        The tuples between two firings of a window, and those behind the last, are aggregated by themselves, all at
        once; then each of these parts is combined with those before it.
        """
        firings = self._firings
        which, first, counts = self._numbered(store, places.slots)
        cuts = cut(self._compiled, firings.seen(which), counts)
        total, fires = int(cuts.fired.sum()), cuts.fired > 0
        begin = np.cumsum(cuts.fired) - cuts.fired
        # A slot for each firing, and one for what each window that fires gets behind its last.
        taken = store.take(total + int(np.count_nonzero(fires)))
        made, rest, last = taken[:total], which.copy(), begin + cuts.fired - 1
        rest[fires] = taken[total:]
        self._update_slots(store, self._parted(places.slots, cuts, made, rest), page)
        before, leads = np.roll(made, 1), begin[fires]
        before[leads] = which[fires]
        chained = leads if self.discards else np.arange(total)
        for accumulator in self._aggregates(store):
            accumulator.combine(made[chained], before[chained])
        of = np.repeat(np.arange(len(which)), cuts.fired)
        numbers = firings.fired[which][of] + np.arange(total) - begin[of]
        given = places.some(first[of])
        self._note(page, places.slots, which, of, cuts)
        self._give(Released(given.wids, given.groups, made), numbers, emit, final=False)
        for accumulator in self._aggregates(store):
            accumulator.free(which[fires])
            accumulator.init(which[fires])
            if not self.discards:
                accumulator.combine(which[fires], made[last[fires]])
            accumulator.combine(which[fires], taken[total:])
        store.give(taken)
        firings.advance(which, cuts)
        self._lack(which)

    def _numbered(self, store: SliceStore, slots: Slots) -> tuple[Slots, Int64s, Int64s]:
        """Return the slots of tuples, each once, with the place of its first tuple and how many it has."""
        if slots.strides == (0,):
            return slots[:1].copy(), np.zeros(1, np.int64), np.array([len(slots)])
        if len(self._places) < store.made:
            self._places = np.full(power(store.made), -1, np.int32)
        which, (first, counts) = np.empty(len(slots), np.int32), np.empty((2, len(slots)), np.int64)
        n = number_slots(slots, self._places, which, first, counts)
        return which[:n], first[:n], counts[:n]

    def _parted(self, slots: Slots, cuts: Cuts, made: Slots, rest: Slots) -> Slots:
        """Return the slot that takes each tuple: of a firing, or of what comes behind the last."""
        if slots.strides == (0,):
            return np.repeat(np.append(made, rest), np.diff(cuts.ends, prepend=0, append=len(slots)))
        targets = np.empty(len(slots), np.int32)
        over, turns = np.cumsum(cuts.fired), np.zeros(len(cuts.fired), np.int64)
        part_slots(slots, self._places, over - cuts.fired, over, turns, cuts.ends, made, rest, targets)
        return targets

    def _begin(self, places: Released) -> None:
        """Let those of these windows that are new know of the ticks that were reached before their first tuple."""
        if not self._compiled.moments or self._reached == BEFORE_ALL:
            return
        new = places.some(self._firings.are_new(places.slots))
        if len(new.slots) == 0:
            return
        new = new.some(np.unique(new.slots, return_index=True)[1])
        begins, _ = self.window.extents(new.wids)
        for moment in self._compiled.moments:
            there = crossed(moment, BEFORE_ALL, self._reached, begins)
            self._firings.know(new.slots, np.where(there, self._compiled.bit(moment), 0))
        self._lack(new.slots)

    def _lack(self, slots: Slots) -> None:
        """Let slots, each named once, count down from what they have seen."""
        self._firings.lack(slots, self._compiled.node.lacking(self._firings.seen(slots)))

    def _note(self, page: Page, slots: Slots, which: Slots, of: Int64s, cuts: Cuts) -> None:
        """Note the firings that are given next: those of the windows `which[of]`, behind some of these tuples.

        Each tuple has the slot of its window.
        """

    def _note_all(self, slots: Slots) -> None:
        """Note that these windows are given next, with all tuples that have come."""

    def _aggregates(self, store: SliceStore) -> Sequence[Accumulator]:
        """Return the accumulators of the functions."""
        return store.accumulators[:-1]

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
        told, at = self._told, 0
        assert told is not None
        self._early += 0 if final else len(numbers)

        def tell(element: Element) -> None:
            nonlocal at
            assert isinstance(element, Page)
            n = len(element)
            fired = element.column(STOP) if final else pa.nulls(n, told.arrow.field(FIRED).type)
            columns = [*element.batch.columns, fired, pa.array(np.full(n, final)), tick_column(numbers[at : at + n])]
            at += n
            emit(Page(told, pa.RecordBatch.from_arrays(columns, schema=told.arrow)))

        super()._emit(released, tell)

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._store is not None:
            self._lack(cast(SliceStore, self._store).windows().slots)

    def _forget(self) -> None:
        super()._forget()
        self._firings, self._told = Firings(), None

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"early_results": self._early}
