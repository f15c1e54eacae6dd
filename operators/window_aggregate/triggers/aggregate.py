"""An aggregate whose windows give what they have so far when tuples, events or a clock say so.

The final result of a window does not depend on the order of arrival; what it gives before does, as it is over the
tuples that have come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd
from typing import ClassVar, Final, cast

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.digests import digests
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.ticks import FOREVER
from operators.pace import Pace, Paces, want
from operators.plan_facts import ANY_DISTANCE, Attributes, Together, Tolerance
from operators.protocol import Element, Emit
from operators.retractions import Retracted, Retracting, Settles, refused
from operators.signals import Signal
from operators.streams.named_groups import matched, within
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL, Bucket, Tagged
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING, FIRINGS, with_firings
from operators.window_aggregate.results import REVISION, START, STOP, WID
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.vector_store import VectorStore
from operators.window_aggregate.stores.slices.results import late
from operators.window_aggregate.triggers.finals import Finals
from operators.window_aggregate.triggers.firings import Firings
from operators.window_aggregate.triggers.promised import Every, crossed, spoken_of
from operators.window_aggregate.triggers.sliced_windows import SlicedWindows
from punctuation import Progress, Punctuation, before

REPLACED: Final = attrs.evolve(FIRINGS, settles=Settles("firings", frozenset((FINAL,)), apart=FIRING))
"""Early results that are over what has come, which later ones of the same window replace."""


def replacing(found: Retracted | None, discards: bool) -> Retracting:
    """Say what the results of an operator that fires replace; it refuses tuples that take back others."""
    if found is not None:
        return "refused"
    return None if discards else REPLACED


def revised(by: Sequence[str]) -> Retracted:
    """Say that late tuples change final results by these groups, too, and how the last ones are found."""
    settles = late(by, named=False).settles
    assert settles is not None
    settles = attrs.evolve(settles, names=settles.names | {FIRED, FINAL, FIRING}, apart=FIRING)
    way = 'Take the former result back: refine="retract", in text RETRACT.'
    return attrs.evolve(FIRINGS, way=way, standing=frozenset[str](), value=None, settles=settles)


@attrs.define(on_setattr=attrs.setters.NO_OP)
class TriggeredAggregate(SlicedWindows):
    """Aggregate the tuples of each window and group, and fire when a condition holds.

    The input is the stream itself, or with `tagged` a Bucket's output: for windows that count tuples, and where a tuple
    that is late for one of its windows is left out of all. Where a condition hears promises, it must hand them on.

    Emits what a WindowAggregate emits, then `fired`, `final` and `firing`. A result that is not final is over the
    tuples of its window and group that have come, or with `discards` over those since the last firing; its `fired` is
    null. A firing lies behind the tuple, or the signal, that makes the condition hold.
    With a lateness there is `revision`, too: 0 at first. A window that is over fires no more. At each promise of all
    tuples it is given again if late tuples have changed its result since, with the next `firing` and `revision`, and it
    is final then, too. It is settled so many ticks behind its end.
    Pass: at the tuple at which a window fires, and on the promise that completes it. Keep: one partial aggregate, and
    56 bytes, for each open window and group; with a lateness 72, until it is settled; and one partial aggregate for
    each group, of the tuples that came last, as long as they are in the same windows and none of these fires.
    Propagate: as a WindowAggregate does, with a lateness so many ticks later, and promises of all tuples alone.
    Cost: O(aggregates) a tuple, and for each window and group where one of its windows fires, or where tuples begin to
    go into other windows. Tuples that make no window fire cost one count each, and without groups one a page. Pages
    whose tuples change windows often, and conditions with steps, cost O(aggregates) for each window of a tuple.

    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> from punctuation import before
    >>> window = SlidingWindow("ts", size=10, slide=10)
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 5]})
    >>> operator = TriggeredAggregate(window, {"count": count()}, condition=Rows(2), tagged=False)
    >>> found = rows(drive(operator, [page, before("ts", 10)]))
    >>> [(row["count"], row["fired"], row["final"], row["firing"]) for row in found]
    [(2, None, False, 0), (3, 10, True, 1)]
    """

    VERSION: ClassVar[int] = 3
    OLDEST: ClassVar[int] = 3

    tagged: bool = attrs.field(default=True, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """Whether the input is a Bucket's output; or else it is the stream itself."""
    _bucket: Bucket | None = attrs.field(init=False, default=None, metadata=memory.part())
    """What tells the windows of tuples where no Bucket is in front."""
    _again: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.late_results"))
    _heard: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    """The promises that windows have heard, with a lateness: a Bucket does not hand them on."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.tagged and self.lateness:
            raise SchemaError(
                "aggregate(early=..., lateness=...): a Bucket lets no tuple through that is late for all its windows.\n"
                "  Let the aggregate read the stream itself: tagged=False."
            )
        if not self.tagged:
            # With a lateness, it hears of promises later than windows do.
            self._bucket = Bucket(self.window, hands_on=self.hears_promises and not self.lateness)

    def output_schema(self, *inputs: Schema) -> Schema:
        if self._bucket is None:
            return super().output_schema(*inputs)
        return self.results_schema(self._bucket.output_schema(*inputs))

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        if self._bucket is None:
            return Tolerance()
        found = self._bucket.late_tolerance(attribute, melded)
        if not self.lateness or found == Tolerance():
            return found
        # What is given again is told by each promise that comes.
        return Tolerance(ANY_DISTANCE if melded else found.ticks + self.lateness)

    def enough(self) -> tuple[int, int] | None:
        """Return a lateness, in ticks, that would have taken in all tuples that came too late so far, and how many."""
        found = None if self._bucket is None else self._bucket.enough()
        return None if found is None else (found[0] + self.lateness, found[1])

    @property
    def _complete(self) -> int:
        return self._over if self.lateness else super()._complete

    def closed_by(self, wid: int) -> Punctuation:
        return super().closed_by(wid) if self._bucket is None else before(self.window.wattr, self.window.extent(wid)[1])

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is not None:
            return refused(self, found, *inputs)
        if self.discards:
            return None
        return revised(self.by) if self.lateness else REPLACED

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
        fields = [fired, pa.field(FINAL, pa.bool_()), pa.field(FIRING, pa.int64())]
        if not self.lateness:
            return with_firings(plain, *fields)
        # Which results stand is certain for all groups at once.
        linear = [promise for promise in plain.progress if promise <= {WID, START, STOP}]
        plain = Schema(plain.arrow, progress=linear)
        return with_firings(plain, *fields, pa.field(REVISION, pa.int64()))

    @property
    def hears_promises(self) -> bool:
        """Return whether windows fire at promises."""
        return self._compiled.hears_promises

    def signals(self) -> Collection[Signal]:
        return self._compiled.signals

    def signal(self, signal: Signal, emit: Emit) -> None:
        if self._store is not None:
            self._hear(signal, self._open_now(), emit)

    def _open_now(self) -> Released:
        """Return the windows that are not over, with all that they have."""
        self._settle_slices()
        held = cast(SliceStore, self._store).windows()
        return held.some(~self._finals.over(held.slots)) if self.lateness else held

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
        elif self._compiled.moments:
            # Where its windows begin, and so their ticks are, only the window knows.
            want(paces, window.wattr, Pace(None))
        for one in self._compiled.promised:
            for name, _ in one.patterns:
                if name != window.wattr and name in inputs[0]:
                    want(paces, name, Pace(None))
        return [paces]

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bucket = self._bucket
        if bucket is None:
            self._hear_promise(punctuation, emit)
            return

        def tagged(element: Element) -> None:
            assert isinstance(element, Punctuation)
            self._hear_promise(element, emit)

        if self.lateness and (punctuation.is_end or self.window.wattr in punctuation.attributes):
            self._settle_late(punctuation, emit)
            if not punctuation.is_end:
                self._hear_late(punctuation, emit)
                return
        elif self.lateness:
            self._hear_late(punctuation, emit)
            return
        bucket.punctuate(punctuation, tagged)

    def _hear_promise(self, punctuation: Punctuation, emit: Emit) -> None:
        """Hear what a Bucket says of windows, and the promises that it hands on."""
        if self.window.wattr not in punctuation.attributes:
            super().punctuate(punctuation, emit)
        self._fire_promised(punctuation, emit)

    def _fire_promised(self, punctuation: Punctuation, emit: Emit) -> None:
        """Fire the windows that are to fire at a promise."""
        wattr, compiled, bits = self.window.wattr, self._compiled, dict[int, Bools]()
        before, now = self._reached, within(punctuation.bound(wattr))
        self._reached = before if now is None else max(before, now)
        came = FROM not in punctuation.attributes
        heard = [one for one in compiled.promised if came and one.matches(punctuation)]
        moments = compiled.moments if self._reached > before else ()
        if self._store is None or not (heard or moments):
            return
        held = self._open_now()
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
        self._output = super().results_schema(self._tags(schema))
        return store

    def _tags(self, schema: Schema) -> Schema:
        """Return the schema of tuples with the windows that they are in."""
        return schema if self._bucket is None else self._bucket.output_schema(schema)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        store = cast(SliceStore, self._store or self._bind(page.schema))
        if self._bucket is None:
            self._take_page(store, Tagged(page, page.ticks(FROM), page.ticks(UNTIL)), emit)
        elif (found := self._bucket.tag(page)) is not None:
            self._take_page(store, found, emit)

    def _settle_late(self, punctuation: Punctuation, emit: Emit) -> None:
        """Emit the windows that a promise completes, and again those that late tuples have changed."""
        linear = FOREVER if punctuation.is_end else within(punctuation.bound(self.window.wattr))
        if not isinstance(linear, int):
            return
        self._over = FOREVER if punctuation.is_end else max(self._over, self.window.complete(linear))
        if self._store is not None:
            self._measure()
            self._give_over(cast(SliceStore, self._store), emit)
        if not punctuation.is_end:
            assert self._bucket is not None
            settled = before(self.window.wattr, linear - self.lateness, assumed=punctuation.assumed)
            self._bucket.punctuate(settled, lambda one: self._hear_settled(one, emit))

    def _hear_settled(self, element: Element, emit: Emit) -> None:
        """Let go of the windows that no late tuple changes any more."""
        assert isinstance(element, Punctuation)
        super().punctuate(element, emit)

    def _hear_late(self, punctuation: Punctuation, emit: Emit) -> None:
        """Fire windows at a promise that says something new."""
        if self.hears_promises and self._heard.advance(punctuation):
            self._fire_promised(punctuation, emit)

    def _give_over(self, store: SliceStore, emit: Emit) -> None:
        """Emit the windows that are over and were not given, or not as they are now."""
        self._settle_slices()
        held, firings, finals = store.windows(), self._firings, self._finals
        held = held.some(held.wids < self._over)
        first = ~finals.over(held.slots)
        finals.end(held.slots[first])
        self._lack(held.slots[first])
        changed = firings.new(held.slots) > 0
        held = held.some(changed if self.discards else changed | first)
        if len(held.slots) == 0:
            return
        words = digests([one.finalize(held.slots) for one in self._aggregates(store)], len(held.slots))
        given = np.ones(len(words), np.bool_) if self.discards else finals.changed(held.slots, words)
        firings.settle(held.slots)
        held, words = held.some(given), words[given]
        slots = held.slots
        if len(slots):
            self._give(held, firings.fired[slots], emit, final=True)
            self._again += int(np.count_nonzero(finals.revisions(slots)))
            finals.give(slots, words)
            firings.begin_again(slots, firings.seen(slots).steps)
            if self.discards:
                self._clear(slots)

    def _release(self, store: SliceStore | VectorStore, bound: int, emit: Emit) -> None:
        if self._slices is not None and self._slices.wids.start < bound:
            self._drop_slices()
        if not self.lateness:
            super()._release(store, bound, emit)
        elif bound > self._released:
            # They were given when they were over.
            self._free(store, store.close(bound))
            self._released = bound

    def _release_groups(self, store: SliceStore | VectorStore, which: Int32s, bound: int | None, emit: Emit) -> None:
        self._drop_slices()
        super()._release_groups(store, which, bound, emit)

    def _forget(self) -> None:
        super()._forget()
        self._firings, self._finals, self._told, self._heard = Firings(), Finals(), None, Progress()
        self._slices = None

    def _left_out(self) -> dict[str, int]:
        return super()._left_out() if self._bucket is None else self._bucket.counts

    def statistics(self) -> dict[str, int]:
        late = {"late_results": self._again} if self.lateness else {}
        return super().statistics() | {"early_results": self._early} | late
