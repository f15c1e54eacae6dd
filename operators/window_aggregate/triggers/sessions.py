"""Sessions give what they have so far when tuples, events or a clock say so.

A session fires once its begin is certain: all tuples before it are promised. So its id stays, and it is joined only by
sessions that have never fired. With a lateness, a tuple may come before a begin that was promised: the session is
another one then, and what was given of the old one is taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.ranked.layout import DISCARDS, FRESH, GAP, REPEATS, REVISES
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from operators.pace import Paces, want, within
from operators.plan_facts import ANY_DISTANCE, Together, Tolerance
from operators.protocol import Emit, Promises
from operators.retractions import Retracted, Retracting
from operators.signals import Signal
from operators.streams.named_groups import GroupBound
from operators.window.columns import extent_columns
from operators.window.session import SessionWindow
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import START, STOP, WID, extent_page
from operators.window_aggregate.shell import while_bound
from operators.window_aggregate.stores.ranked.intake import in_time
from operators.window_aggregate.stores.ranked.shell import RankedShell
from operators.window_aggregate.stores.ranked.slots import Pool
from operators.window_aggregate.triggers.aggregate import replacing, revised
from operators.window_aggregate.triggers.arrived_sessions import ArrivedSessions, FiredSessions, stands_before
from operators.window_aggregate.triggers.condition import Compiled, Condition
from operators.window_aggregate.triggers.telling import telling, told
from punctuation import Punctuation, before


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class TriggeredSessions(RankedShell[SessionWindow]):
    """Aggregate sessions of each group, and give what they have so far when a condition holds.

    Emits the grouping attributes, one attribute a function, wid, window_start, window_end, `fired`, `final` and
    `firing`. A result that is not final is over the tuples of its session that have come, or with `discards` over those
    since the last firing; its `fired` is null, and window_end is where the session ends if nothing more comes.
    A `Lull` holds behind the promise that reaches so many ticks behind the last tuple of the session; `Every` and `At`
    behind the one that reaches so many behind its begin.
    A session fires once its begin is certain; it hears signals from then on, and counts the tuples before, too. One
    that joins it brings its tuples at once. A promise on a group counts while that has an open session.
    Pass: at the tuple, signal or promise at which a session fires, and on the promise that completes it. Keep: a
    partial aggregate and 120 bytes for each open session. Propagate: `[wattr < v]` as `[wid < w]` and on window_start,
    where w is the begin of the first certain session, and at most v; as `[window_end < e]`, where e is at most what
    early results of open sessions told; group-wise promises as those on wid. Late tuples are counted.
    With a lateness, tuples up to so many ticks behind the promise change sessions, those that are over, too. There is
    `revision`, 0 at first. A session that is over fires no more; at each promise of all tuples it is given again if
    late tuples have changed it since, with the next `firing` and `revision`, and is final. One that a late tuple opens
    again goes on. One that gets another begin, or that a session with an earlier begin takes in, is no more: if it was
    given, a row of null aggregates and a null window_end comes behind that tuple. The session with the new begin is a
    new one, of which all tuples are new. A session is settled so many ticks behind its end; promises wait for that, and
    those on groups count no more. Keep: 144 bytes for each session that is not settled.
    Cost: O(open sessions of the group) a tuple, mostly one; one combination for each firing and join. With `Then` and
    `Until` a look at the whole condition for each tuple, besides.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> schema = Schema.of(ts="int64", progress=["ts"])
    >>> sessions = TriggeredSessions(SessionWindow("ts", gap=5), {"n": count()}, condition=Rows(2))
    >>> found = rows(drive(sessions, [Page.of(schema, {"ts": [7, 3, 5]}), before("ts", 3), before("ts", 12)]))
    >>> [(row["n"], row["wid"], row["window_end"], row["final"], row["firing"]) for row in found]
    [(3, 3, 12, False, 0), (3, 3, 12, True, 1)]
    """

    VERSION = 2

    condition: Condition = attrs.field(kw_only=True)
    discards: bool = attrs.field(default=False, kw_only=True)
    """Whether a result has only what is new since the last firing."""
    lateness: int = attrs.field(default=0, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """For so many ticks behind the promise, late tuples still change sessions, which are then given again."""
    _compiled: Compiled = attrs.field(init=False)
    _sessions: ArrivedSessions = attrs.field(init=False, metadata=memory.part(of=while_bound("_sessions")))
    _early: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.early_results"))
    _again: int = attrs.field(
        init=False, default=0, metadata=memory.integer(least=0, name="count.late_results", since=2)
    )
    _told: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with what tells when they fired."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.lateness and self.discards:
            raise SchemaError(
                "early results: a late tuple may join two sessions, which is no result of its own.\n"
                "  Leave discards out, or the lateness."
            )
        if self.partition is not None and self.partition != self.by:
            raise SchemaError("early results: sessions are those of groups; leave partition out.")
        for name, function in self.functions.items():
            if not function.commutative:
                raise SchemaError(
                    f"early results: {name} ({function.name}) is over tuples in the order of {self.window.wattr}, and a"
                    " trigger fires sessions\n  before that order is known. Let them fire on event time, as EARLY 10 s."
                )
        self._compiled = Compiled.of(self.condition)
        if self._compiled.promised:
            raise SchemaError(
                "early results: sessions fire as tuples, lulls, ticks, events and clocks say, and not at promises of"
                " some tuples."
            )

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return revised(self.by) if self.lateness and found is None else replacing(found, self.discards)

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        if not self.lateness or attribute != self.window.wattr:
            return Tolerance()
        # What is given again is told by each promise that comes.
        return Tolerance(ANY_DISTANCE if melded else self.lateness)

    def together(self, *inputs: Schema) -> Together:
        return Together(arrival=True, why="sessions fire as tuples arrive")

    @property
    def hears_promises(self) -> bool:
        """Return True: a promise makes sessions certain, which fire at it or at the next tuple."""
        return True

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        (paces,) = super().promises_asked(wanted, *inputs)
        for heard in (*self._compiled.lulls, *self._compiled.moments):
            want(paces, self.window.wattr, within(heard.ticks))
        return [paces]

    def signals(self) -> Collection[Signal]:
        return self._compiled.signals

    def output_schema(self, *inputs: Schema) -> Schema:
        plain = super().output_schema(*inputs)
        if not self.lateness:
            return told(plain)
        fields = [field.with_nullable(field.nullable or field.name in self.functions) for field in plain.arrow]
        return told(Schema(pa.schema(fields), progress=plain.progress), revised=True)

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        found = self._promises(schema, (WID, START, STOP))
        # With a lateness, sessions are settled for all groups at once.
        return [promise for promise in found if promise <= {WID, START, STOP}] if self.lateness else found

    def _bind(self, schema: Schema) -> None:
        self._input, self._told, self._output = schema, self.output_schema(schema), super().output_schema(schema)
        self._partitions.bind(schema)
        pool = Pool([function.accumulator(schema) for function in self.functions.values()])
        self._accumulators = pool.accumulators
        rule = np.zeros(5, np.int64)
        rule[GAP], rule[DISCARDS], rule[REVISES] = self.window.gap, self.discards, self.lateness > 0
        rule[REPEATS], rule[FRESH] = self._compiled.repeats, self._compiled.fresh
        self._sessions = ArrivedSessions(rule, self._compiled, self._partitions, pool)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self._input is None:
            self._bind(page.schema)
        late = self.lateness
        page, ticks, parts, _ = in_time(page, self.window.wattr, self._partitions, self._lost, lateness=late)
        if len(page):
            self._give(self._sessions.take(page, ticks, parts), emit, final=False)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page with the linear promises in it: at once, where each tuple counts and no group is ahead."""
        if self._input is None:
            self._bind(page.schema)
        wattr, partitions = self.window.wattr, self._partitions
        alone = partitions.ahead or self._compiled.lulls or self._compiled.moments or self.lateness
        if alone or promises.attribute != wattr or page.valid(wattr) is not None:
            self._take_pieces(page, promises, emit)
            return
        ticks, bounds = page.ticks(wattr), np.append(self._bound, np.maximum.accumulate(promises.bounds))
        limits = np.maximum(self._bound, bounds[stands_before(promises.positions, len(page))])
        if len(page) and ((ticks < limits).any() or int(ticks.max()) >= LIMIT or int(ticks.min()) <= -LIMIT):
            self._take_pieces(page, promises, emit)
            return
        if len(page):
            self._give(self._sessions.take(page, ticks, partitions.parts(page), promises), emit, final=False)
        self.punctuate(before(wattr, int(bounds[-1]), assumed=promises.assumed), emit)

    def _take_pieces(self, page: Page, promises: Promises, emit: Emit) -> None:
        for element in promises.one_by_one(page):
            if isinstance(element, Page):
                self.process(element, emit)
            else:
                self.punctuate(element, emit)

    def signal(self, signal: Signal, emit: Emit) -> None:
        if self._input is not None and (bit := self._compiled.bit(signal)):
            self._give(self._sessions.tell(bit), emit, final=False)

    def _end(self, emit: Emit) -> None:
        live = self._sessions.live()
        if self.lateness:
            self._give(self._sessions.revise(live, FOREVER, FOREVER), emit, final=True)
        else:
            self._give(self._sessions.settle(live, np.full(len(live), FOREVER)), emit, final=True)

    def _revise(self, emit: Emit) -> None:
        if self.lateness and self._input is not None:
            self._measure()
            self._give(self._sessions.revise(self._sessions.live(), self._bound, self._settled), emit, final=True)

    @property
    def _settled(self) -> int:
        """Return the tick up to which sessions that have ended are settled."""
        return self._bound if self._bound == BEFORE_ALL else self._bound - self.lateness

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        before, self._partitions.bound = self._partitions.bound, bound
        if self._input is not None:
            live = self._sessions.live()
            own = self._partitions.own(self._sessions.parts(live))
            self._settle(live, np.maximum(own, before), emit)
        self._promise_first(assumed, emit)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        if self.lateness:
            return
        first, bound = promise.bound, FOREVER if promise.bound is None else promise.bound
        if self._input is not None:
            parts, sessions = self._partitions.matching(promise), self._sessions
            live = sessions.live()
            live = live[np.isin(sessions.parts(live), parts)]
            before = sessions.limits(live)
            self._partitions.raise_own(parts, bound)
            self._settle(live, before, emit)
            if first is not None:
                left = sessions.live()
                first = min(first, sessions.first(left[np.isin(sessions.parts(left), parts)]))
        out = promise.follows(WID, first)
        if self._promised.advance(out):
            emit(out)
        # The session that ended may have been the first of all.
        self._promise_first(promise.assumed, emit)

    def _settle(self, which: Int64s, before: Int64s, emit: Emit) -> None:
        """Emit the results of sessions that are over, and let the others be certain as far as is promised.

        `before` has for each what nothing more of its partition was to come below until now.
        """
        sessions = self._sessions
        self._measure()
        limits, parts = sessions.limits(which), np.unique(sessions.parts(which))
        if self.lateness:
            self._give(sessions.revise(which, self._bound, self._settled), emit, final=True)
            left = ~sessions.are_over(which, limits)
        else:
            self._give(sessions.settle(which, limits), emit, final=True)
            left = sessions.parts(which) >= 0
        self._give(sessions.confirm(which[left], before[left], limits[left]), emit, final=False)
        self._partitions.free_parts(sessions.idle(parts))

    def _promise_first(self, assumed: bool, emit: Emit) -> None:
        """Promise what no later result begins and ends before, nor one that takes back an earlier result."""
        bound = self._settled
        if bound == BEFORE_ALL:
            return
        first, told = bound, bound + 1
        if self._input is not None:
            sessions = self._sessions
            first = min(first, sessions.first(sessions.live() if self.lateness else sessions.certain()))
            told = min(told, self._sessions.least_told())
        for name, value in ((WID, first), (START, first), (STOP, told)):
            if (promise := self._promised.rise(name, value, assumed=assumed)) is not None:
                emit(promise)

    def _give(self, fired: Iterator[FiredSessions], emit: Emit, *, final: bool) -> None:
        """Emit results, with which firing of its session each is."""
        assert self._told is not None
        for some in fired:
            if some.gone:
                self._take_back(some, emit)
                continue
            n = len(some.parts)
            tell = telling(self._told, some.numbers, emit, final=final, turns=some.turns if self.lateness else None)
            self._again += int(np.count_nonzero(some.turns)) if final else 0
            self._emit(some.parts, some.slots, some.begins, some.begins, some.ends, tell)
            self._early += 0 if final else n
            self._windows += n if final else 0

    def _take_back(self, gone: FiredSessions, emit: Emit) -> None:
        """Say of sessions of which something was given that they are no more; final where they were over before."""
        assert self._told is not None
        schema, n = self._told, len(gone.parts)
        columns = self._partitions.keys(gone.parts)
        columns += [pa.nulls(n, schema.arrow.field(name).type) for name in self.functions]
        columns += extent_columns(gone.begins, gone.begins, gone.ends, schema.arrow.field(START).type)
        columns += [pa.nulls(n, schema.arrow.field(FIRED).type), pa.array(gone.turns > 0)]
        columns += [tick_column(gone.numbers), tick_column(gone.turns)]
        emit(Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow)))
        self._results += n
        self._again += n

    def _open(self, most: int) -> Page:
        # With DISCARD a copy would give no session without a new tuple.
        if self.discards:
            copy = attrs.evolve(self, discards=False)
            copy.restore(self.state())
            return copy._open(most)
        if self.lateness:
            assert self._output is not None
            parts, begins, ends = self._sessions.open_spans(most)
            return extent_page(self._output, self._partitions.keys(parts), begins, begins, ends)
        return super()._open(most)

    def closed_by(self, wid: int) -> Punctuation:
        """Return the promise that completes the open session of an id, as far as tuples have shown its end."""
        if self._input is None or (end := self._sessions.end(wid)) is None:
            raise LookupError(f"closed_by({wid}): no session of this id is open; open_windows() lists those.")
        return before(self.window.wattr, end)

    def _forget(self) -> None:
        super()._forget()
        self._told = None

    def _size(self) -> tuple[int, int]:
        return (0, 0) if self._input is None else (len(self._sessions), self._sessions.nbytes)

    def statistics(self) -> dict[str, int]:
        late = {"late_results": self._again} if self.lateness else {}
        return super().statistics() | {"early_results": self._early} | late
