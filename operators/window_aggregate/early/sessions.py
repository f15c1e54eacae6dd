"""Sessions give what they have so far at ticks behind their begin: early results whatever the order of arrival.

A session begins at a tick that is known once all tuples before it are, so what it has before a later tick is known as
soon as that tick is promised. A tuple joins its session at once where that is open and no firing comes between. Others
wait in runs: one partial aggregate of tuples that no firing can part, wherever their session turns out to begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int32s, Page, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.ordered import ordered
from operators.kernels.ticks import BEFORE_ALL, FAR, FOREVER
from operators.pace import Paces, want, within
from operators.plan_facts import Together
from operators.protocol import Element, Emit
from operators.retractions import Retracted, Retracting, refused
from operators.streams.named_groups import GroupBound
from operators.window.session import SessionWindow
from operators.window_aggregate import facts
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRINGS, with_firings
from operators.window_aggregate.early.open_sessions import Fired, OpenSessions
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.intake import in_time
from operators.window_aggregate.stores.ranked.queues import either
from operators.window_aggregate.stores.ranked.shell import WaitingShell
from operators.window_aggregate.stores.ranked.waiting import Final as FinalTuples
from punctuation import Punctuation, before

MOST: Final = 1000
"""So often at most a session fires while nothing comes."""


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class EarlySessions(WaitingShell[SessionWindow]):
    """Aggregate sessions of each group, and give what they have so far at ticks behind their begin.

    Emits the grouping attributes, one attribute a function, wid, window_start, window_end, `fired` and `final`. A
    result that fires at a tick T is over the tuples of its session before T, or with `discards` over those since the
    last firing; window_end is where the session ends if nothing more comes. Its id is its begin, and stays.
    Pass: a result on the promise of its tick. Keep: a partial aggregate for each open session, and 80 bytes; one for
    each run of tuples that are not final, and 28 bytes. A run takes tuples of a session that come before all it may
    have to fire at: one step of its firings above what is promised. Before the first promise, and where a function is
    not commutative, each tick and each tuple is a run of its own. Propagate: `[wattr < v]` as `[wid < w]` and on
    window_start, where w is the begin of the first open session, and at most v; as `[fired < v + 1]`; as
    `[window_end < e]`, where e is at most what early results of open sessions told; group-wise promises as those on wid
    and on `fired`. Late tuples are counted.
    Cost: O(log n) a tuple for n runs of its group, almost nothing when in order; one combination a run and a firing.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> schema = Schema.of(ts="int64", progress=["ts"])
    >>> sessions = EarlySessions(SessionWindow("ts", gap=5), {"n": count()}, every=4)
    >>> found = rows(drive(sessions, [Page.of(schema, {"ts": [7, 3, 5]}), before("ts", 9)]))
    >>> [(row["n"], row["wid"], row["window_end"], row["fired"], row["final"]) for row in found]
    [(2, 3, 10, 7, False)]
    """

    every: int = attrs.field(default=0, kw_only=True)
    """So many ticks behind their begin sessions fire, and again and again; 0 for never."""
    after: tuple[int, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    """So many ticks behind their begin they fire, too."""
    discards: bool = attrs.field(default=False, kw_only=True)
    _sessions: OpenSessions = attrs.field(init=False, metadata=memory.part(of=while_bound("_sessions")))
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.partition is not None and self.partition != self.by:
            raise SchemaError("early results: sessions are those of groups; leave partition out.")
        if self.every < 0 or any(tick <= 0 for tick in self.after) or not (self.every or self.after):
            raise SchemaError("early results: a session fires at least one tick behind its begin; name such ticks.")
        if self.every and self.window.gap > MOST * self.every:
            raise SchemaError(
                f"early results: sessions with a gap of {self.window.gap:,} ticks would fire more than {MOST:,} times"
                f" while nothing comes, one every {self.every:,}.\n  Let them fire less often."
            )

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is not None:
            return refused(self, found, *inputs)
        return None if self.discards else FIRINGS

    def together(self, *inputs: Schema) -> Together:
        why = "" if self.by else "there are no groups"
        return Together.by(self.by, arrival=facts.by_arrival(self.functions), why=why)

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        (paces,) = facts.promises_asked(self, wanted, *inputs)
        for step in (*([self.every] if self.every else ()), *self.after):
            want(paces, self.window.wattr, within(step))
        return [paces]

    def output_schema(self, *inputs: Schema) -> Schema:
        plain = super().output_schema(*inputs)
        told = with_firings(plain, plain.field(STOP).with_name(FIRED), pa.field(FINAL, pa.bool_()))
        # What is promised of the begin of sessions is of their firings, too.
        fired = [promise - {WID} | {FIRED} for promise in plain.progress if WID in promise]
        return Schema(told.arrow, progress=[*plain.progress, *fired])

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        return self._promises(schema, (WID, START, STOP))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        intake = self._intake
        page, ticks, parts, _ = in_time(page, self.window.wattr, self._partitions, self._lost)
        if len(page):
            intake.waiting.ensure(self._partitions.capacity)
            self._sessions.ensure(self._partitions.capacity)
            intake.pool.update(self._sessions.arrive(intake.waiting, ticks, parts), page)

    def _end(self, emit: Emit) -> None:
        parts = either(self._intake.waiting.queues.waiting(FOREVER), self._sessions.due(FOREVER))
        self._fire(parts, FOREVER, emit)

    def closed_by(self, wid: int) -> Punctuation:
        """Return the promise that completes the open session of an id, as far as tuples have shown its end."""
        if self._input is not None and (end := self._sessions.end(wid)) is not None:
            return before(self.window.wattr, end)
        held = self.open_windows(FOREVER)
        ends = held.ticks(STOP)[held.ticks(WID) == wid]
        if not len(ends):
            raise LookupError(f"closed_by({wid}): no session of this id is open; open_windows() lists those.")
        return before(self.window.wattr, int(ends.max()))

    def _open(self, most: int) -> Page:
        # A copy that fires too late to give early results gives the sessions alone.
        if self.every or self.after != (FAR,):
            copy = attrs.evolve(self, every=0, after=(FAR,), discards=False)
            copy.restore(self.state())
            return copy._open(most)
        return super()._open(most)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._partitions.bound = bound
        if self._input is not None:
            parts = either(self._intake.waiting.queues.waiting(bound), self._sessions.due(bound))
            self._fire(parts, bound, emit)
        self._promise_first(assumed, emit)

    def _promise_first(self, assumed: bool, emit: Emit) -> None:
        """Promise what no later result begins, fires and ends before, nor one that takes back an earlier result."""
        bound = self._bound
        if bound == BEFORE_ALL:
            return
        first, told = bound, bound + 1
        if self._input is not None:
            first, told = min(bound, self._sessions.first()), min(told, self._sessions.least_told())
        for name, value in ((WID, first), (START, first), (FIRED, bound + 1), (STOP, told)):
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        first, fired = promise.bound, None if promise.bound is None else promise.bound + 1
        bound = FOREVER if promise.bound is None else promise.bound
        if self._input is not None:
            parts = self._partitions.matching(promise)
            self._partitions.raise_own(parts, bound)
            self._fire(parts, bound, emit)
            if first is not None:
                first = min(first, self._sessions.first(parts))
        for name, value in ((FIRED, fired), (WID, first)):
            out = promise.follows(name, value)
            if self._promised.advance(out):
                emit(out)
        # The session that ended may have been the first of all.
        self._promise_first(promise.assumed, emit)

    def _fire(self, parts: Int32s, bound: int, emit: Emit) -> None:
        """Let the tuples of partitions below a bound be final, and give the results that fire up to it."""
        if len(parts) == 0:
            return
        self._measure()
        queues, sessions = self._intake.waiting.queues, self._sessions
        _, counts = queues.below(parts, bound)
        values, slots = queues.take(parts, counts)
        for fired in sessions.take(FinalTuples(parts, np.cumsum(counts), values, slots), bound):
            self._give(fired, emit)
        self._partitions.free_parts(parts[~sessions.is_open(parts) & (queues.sizes(parts) == 0)])

    def _give(self, fired: Fired, emit: Emit) -> None:
        """Emit results with the ticks at which they fired."""
        told, final = self._told, fired.final
        assert told is not None
        finals = int(np.count_nonzero(final))
        self._windows += finals
        self._early += len(final) - finals

        def tell(element: Element) -> None:
            assert isinstance(element, Page)
            columns = [*element.batch.columns, tick_column(fired.ticks, told.arrow.field(FIRED).type), pa.array(final)]
            emit(Page(told, pa.RecordBatch.from_arrays(columns, schema=told.arrow)))

        self._emit(fired.groups, fired.slots, fired.begins, fired.begins, fired.ends, tell)

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._told, self._output = self._output, super().output_schema(schema)
        rule = np.array((self.window.gap, self.every, self.discards, not any(map(ordered, self.functions.values()))))
        after = np.array(sorted(set(self.after)), np.int64)
        self._sessions = OpenSessions(rule, after, self._intake.pool, self._partitions)

    def _forget(self) -> None:
        super()._forget()
        self._told = None

    def _size(self) -> tuple[int, int]:
        if self._input is None:
            return 0, 0
        intake, sessions = self._intake, self._sessions
        return len(intake.waiting) + len(sessions), intake.nbytes + sessions.nbytes

    def statistics(self) -> dict[str, int]:
        waiting = 0 if self._input is None else len(self._intake.waiting)
        return super().statistics() | {"waiting": waiting, "early_results": self._early}

    def _before_saving(self) -> None:
        super()._before_saving()
        if self._input is not None:
            self._sessions.release()

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._input is not None:
            self._sessions.ensure(self._partitions.capacity)
            waiting = self._intake.waiting.queues.entries()
            self._sessions.know(waiting.items, waiting.keys)
