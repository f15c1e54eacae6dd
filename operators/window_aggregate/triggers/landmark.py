"""Windows that never let go of a tuple (RANGE ALL) give what they have so far when a trigger says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import gcd
from typing import ClassVar, cast

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.ordered import ordered
from operators.kernels.ticks import BEFORE_ALL
from operators.pace import Pace, Paces, want
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting
from operators.signals import Signal
from operators.streams.named_groups import within
from operators.window import LandmarkWindow
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.triggers.aggregate import replacing
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.landmarks import Fired, LandmarkStore
from operators.window_aggregate.triggers.promised import Every, crossed
from operators.window_aggregate.triggers.telling import telling, told
from punctuation import Punctuation


@attrs.define(on_setattr=attrs.setters.NO_OP)
class TriggeredLandmark(StoreShell[LandmarkStore]):
    """Aggregate windows that begin with the stream, and give what they have so far when a condition holds.

    The input is a Bucket's output; a condition that hears promises needs a Bucket that hands them on.
    Emits what a WindowAggregate emits, then `fired`, `final` and `firing`. A result that is not final is over the
    tuples of its window and group that have come, or with `discards` over those since the last firing; its `fired` is
    null. The first one with `discards` has all that came before, so that the results of a window add up.
    A window of a group begins with the first tuple that no window before it has. It fires from then on, and counts
    tuples and hears signals from then on; ticks (`Every`, `At`) count from where the window before it ends. A window
    that none begins has a final result alone.
    Pass: at the tuple, the signal or the promise at which a window fires, and on the promise that completes it. Keep:
    one partial aggregate, or two with `discards`, and 96 bytes for each open window and group that has begun, and for
    the last one that is over. Propagate: as a WindowAggregate does.
    Cost: O(aggregates) for each window that has begun and has the tuple, mostly one; one combination for each firing,
    and two for each window of a group that begins. With `Then` and `Until` a call for each firing, besides.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from punctuation import before
    >>> window = LandmarkWindow("ts", slide=10)
    >>> page = Page.of(Schema.of(ts="int64", progress=["ts"]), {"ts": [7, 3, 15, 12, 5]})
    >>> tagged = drive(Bucket(window), [page, before("ts", 20)])
    >>> found = rows(drive(TriggeredLandmark(window, {"count": count()}, condition=Rows(2)), tagged))
    >>> [(row["count"], row["window_end"], row["final"], row["firing"]) for row in found]
    [(2, 10, False, 0), (4, 20, False, 0), (3, 10, True, 1), (5, 20, True, 1)]
    """

    VERSION: ClassVar[int] = 1

    condition: Condition = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    """Whether a result has only what is new since the last firing."""
    _compiled: Compiled = attrs.field(init=False)
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _reached: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The highest promise of all tuples, in ticks."""
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for name, function in self.functions.items():
            if ordered(function):
                raise SchemaError(
                    f"early results: {name} ({function.name}) is not commutative, and RANGE ALL is computed as tuples"
                    " arrive.\n  Give the window a RANGE, or declare the aggregate commutative, if it is."
                )
        self._compiled = Compiled.of(self.condition)
        if self._compiled.promised:
            raise SchemaError(
                f"early results: windows of RANGE ALL have all times, so {self._compiled.promised[0]} would fire each"
                " of them.\n  Leave that out of the trigger: rows, events, a clock and ticks of event time fire them."
            )

    @property
    def _landmark(self) -> LandmarkWindow:
        return cast(LandmarkWindow, self.window)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return replacing(found, self.discards)

    def together(self, *inputs: Schema) -> Together:
        return Together(arrival=True, why="windows fire as tuples arrive")

    def results_schema(self, schema: Schema) -> Schema:
        return told(super().results_schema(schema))

    @property
    def hears_promises(self) -> bool:
        """Return whether windows fire at promises."""
        return self._compiled.hears_promises

    def signals(self) -> Collection[Signal]:
        return self._compiled.signals

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        (paces,) = super().promises_asked(wanted, *inputs)
        origin, slide = self._landmark.origin, self._landmark.slide
        for moment in self._compiled.moments:
            each = isinstance(moment, Every)
            want(
                paces,
                self.window.wattr,
                Pace(gcd(slide, moment.ticks), origin) if each else Pace(slide, origin + moment.ticks),
            )
        return [paces]

    def _make(self, schema: Schema) -> LandmarkStore:
        self._told, self._output = self._output, super().results_schema(schema)
        pool = Pool([function.accumulator(schema) for function in self.functions.values()])
        return LandmarkStore(self._compiled, self.discards, pool)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        store = self._store or self._bind(page.schema)
        if len(page) == 0:
            return
        first, index = page.ticks(FROM), self._groups
        if index is None:
            groups, capacity = np.zeros(len(page), np.int32), 1
        else:
            groups, capacity = index.assign([page.column(name) for name in self.by]), index.capacity
        self._give(store.take(page, first, groups, capacity, self._known), emit)
        self._peak = max(self._peak, len(store))
        self._latest = max(self._latest, int(first.max()))
        if self._released < self._bound:
            self._settle(min(self._bound, self._latest + 1), False, emit)

    def _known(self, wids: Int64s) -> Int64s:
        """Return the ticks that windows have behind them, as bits."""
        begins, bits = self._begins(wids), np.zeros(len(wids), np.int64)
        for moment in self._compiled.moments if self._reached > BEFORE_ALL else ():
            bits |= np.where(crossed(moment, BEFORE_ALL, self._reached, begins), self._compiled.bit(moment), 0)
        return bits

    def _begins(self, wids: Int64s) -> Int64s:
        """Return where the windows before these end."""
        return self.window.extents(wids)[1] - self._landmark.slide

    def signal(self, signal: Signal, emit: Emit) -> None:
        store = self._store
        if store is not None and (bit := self._compiled.bit(signal)):
            held = store.open()
            store.tell(held, bit)
            self._give(store.ask(held), emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        wattr, store = self.window.wattr, self._store
        if wattr not in punctuation.attributes:
            super().punctuate(punctuation, emit, port)
            return
        before, now = self._reached, within(punctuation.bound(wattr))
        self._reached = before if now is None else max(before, now)
        if store is None or self._reached == before or not self._compiled.moments:
            return
        held = store.open()
        begins = self._begins(store.wids(held))
        for moment in self._compiled.moments:
            told = crossed(moment, before, self._reached, begins) & (begins + self._landmark.slide > self._reached)
            store.tell(held[told], self._compiled.bit(moment))
        self._give(store.ask(held), emit)

    def _emit(self, released: Released, emit: Emit) -> None:
        self._give_some(Fired.of(released), emit, final=True)

    def _give(self, fired: Iterator[Fired], emit: Emit) -> None:
        for some in fired:
            self._give_some(some, emit, final=False)

    def _give_some(self, some: Fired, emit: Emit, *, final: bool) -> None:
        """Emit results, with which firing of its window each is."""
        assert self._told is not None
        self._early += 0 if final else len(some.numbers)
        super()._emit(some, telling(self._told, some.numbers, emit, final=final))

    def _forget(self) -> None:
        super()._forget()
        self._told = None

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"early_results": self._early}
