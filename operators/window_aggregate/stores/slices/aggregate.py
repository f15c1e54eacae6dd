"""The slicing aggregate answers any mix of concurrent windows over one attribute from slices that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.batches import Mould
from operators.data.keys import KeyIndex
from operators.data.page import ROWS, Int64s, Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.errors import SchemaError
from operators.functions.arrival import ARRIVAL
from operators.functions.columns import frozen
from operators.functions.protocol import AggregateFunction, Plain
from operators.functions.sharing import accumulators
from operators.kernels.slicing import place as kernels
from operators.kernels.ticks import FAR, FOREVER, LIMIT
from operators.pace import pace_of
from operators.plan_facts import ANY_DISTANCE, Together, Tolerance
from operators.protocol import Emit, Operator, Promises
from operators.retractions import Retracted, Retracting
from operators.streams.named_groups import group_bound, matched
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.columns import KeptExtents
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate import facts
from operators.window_aggregate.facts import open_for
from operators.window_aggregate.results import (
    START,
    STOP,
    WID,
    WINDOW,
    columns_of,
    ends_of,
    ordering,
    result_fields,
    result_page,
    window_page,
)
from operators.window_aggregate.shell import Shell
from operators.window_aggregate.stores.slices.answers import Answers
from operators.window_aggregate.stores.slices.batched import Batched, InVectors, Road, batched
from operators.window_aggregate.stores.slices.choice import StoreChoice
from operators.window_aggregate.stores.slices.eager import Eager
from operators.window_aggregate.stores.slices.grouped import Grouped
from operators.window_aggregate.stores.slices.grouped_tree import GroupedTree
from operators.window_aggregate.stores.slices.intake import LOST, Intake
from operators.window_aggregate.stores.slices.lazy import Lazy
from operators.window_aggregate.stores.slices.results import KeptKeys, Results, late, revised
from operators.window_aggregate.stores.slices.revisions import Revisions
from operators.window_aggregate.stores.slices.slices import MANY_CELLS, Slices
from operators.window_aggregate.stores.slices.vectors import Vectors
from operators.window_aggregate.stores.slices.waiting import Waiting
from operators.window_aggregate.stores.slices.windows import Spec, Windows, dump_windows, read_windows
from operators.window_aggregate.strategy import Decision, combines_ahead, in_vectors, splits_any, waits
from punctuation import END, Punctuation, before


def _copied(windows: Mapping[str, Spec]) -> Mapping[str, Spec]:
    return dict(windows)


_NONE = np.empty(0, np.int64)
_NO_TICKS = frozen(_NONE)
_AT_ONCE = np.zeros(1, np.int64)


@attrs.define
class _Plan(memory.Stateful):
    """List the windows there are, and how they are made."""

    windows: str = attrs.field(default="", metadata=memory.text())
    eager: bool = attrs.field(default=False, metadata=memory.flag(since=2))
    vectors: bool = attrs.field(default=False, metadata=memory.flag(since=2))


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class SlicingAggregate(Shell):
    """Aggregate the tuples of each window and group, for several windows over one attribute at once.

    Emits the grouping attributes, one attribute a function, `window` (the name, where there are several windows), then
    wid, window_start and window_end; the wid of a session is its first tick.
    Pass: the results of a window on the promise that completes it. Keep: one partial aggregate for each slice and
    group; slices between which no open window begins are joined, those before all open windows dropped. Tuples only
    where order matters (see `waits`), until a promise makes it certain. Propagate: `[ts < v]` as `[window_start < b]`
    and `[window_end < e]`, and `[wid < w]` when there is one window; promises on single groups as promises on their
    window_end.
    Cost: O(aggregates) a tuple, however many windows; O(log windows) an edge; a release as its store says (`lazy`,
    `eager`, `grouped`). Source: Scotty (TODS 2021), Algorithms 1 to 6 over out-of-order pages; sessions as in its
    section 6.

    With `lateness`, a window that changes within so many ticks behind the promise is given again at the next one. There
    is an attribute `revision`, 0 at first, then 1, 2, ...: the last one of each (by, window, wid) holds. A session that
    is no more, because a late tuple joined it to another, is given with null aggregates and a null window_end.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> from operators.window.session import SessionWindow
    >>> from punctuation import before
    >>> windows = {"ten": SlidingWindow("ts", size=10, slide=10), "busy": SessionWindow("ts", gap=5)}
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 12]})
    >>> operator = SlicingAggregate(windows, {"n": count()})
    >>> rows(drive(operator, [page, before("ts", 12)]))  # doctest: +NORMALIZE_WHITESPACE
    [{'n': 2, 'window': 'ten', 'wid': 0, 'window_start': 0, 'window_end': 10},
     {'n': 2, 'window': 'busy', 'wid': 3, 'window_start': 3, 'window_end': 12}]
    """

    VERSION: ClassVar[int] = 2
    renamed: ClassVar[Mapping[str, str]] = {}
    beyond: ClassVar[int] = FAR

    windows: Mapping[str, Spec] = attrs.field(converter=_copied)
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    store: Literal["auto", "lazy", "eager"] = attrs.field(default="auto", kw_only=True)
    lateness: int = attrs.field(default=0, kw_only=True)
    """For so many ticks behind the promise, late tuples still change windows, which are then given again."""
    named: bool = attrs.field(default=attrs.Factory(lambda self: len(self.windows) > 1, takes_self=True), kw_only=True)
    """Give the attribute `window`; by default where there are several windows. Needed to add others to one."""
    once: frozenset[str] = attrs.field(
        default=frozenset[str](), converter=frozenset[str], kw_only=True, metadata={memory.PARAMETER_ADDED: True}
    )
    """The names of windows that no late tuple changes: with a lateness, they are given once all the same."""
    ordered: bool = attrs.field(default=False, kw_only=True)
    """Whether tuples come in order of time, so that none waits for its order to be certain but for FCA windows."""
    _used: Windows = attrs.field(init=False)
    _mould: Mould | None = attrs.field(init=False, default=None)
    _kept: KeptExtents = attrs.field(init=False, factory=KeptExtents)
    _kept_keys: KeptKeys = attrs.field(init=False, factory=KeptKeys)
    """What makes a page of results in one step, where all columns are of 64 bits but the name of the window."""
    _bound: int = attrs.field(init=False, default=-FAR, metadata=memory.integer())
    _planned: _Plan = attrs.field(
        init=False, factory=_Plan, metadata=memory.form(_Plan, "_replan", lambda own: own._plan())
    )
    _input: Schema | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind_again"))
    _intake: Intake | None = attrs.field(init=False, default=None, metadata=memory.part())
    _batched: Road | None = attrs.field(init=False, default=None)
    _plain: Sequence[Plain] = attrs.field(init=False, default=())
    """The accumulators, when results of all of them are of 64 bits."""
    _choice: StoreChoice | None = attrs.field(init=False, default=None)
    """What chooses the store anew while this runs, where it may."""
    _within: bool = attrs.field(init=False, default=False)
    """Whether a page is taken piece by piece, promise by promise."""
    _lost: dict[str, int] = attrs.field(init=False, factory=lambda: dict.fromkeys(LOST, 0), metadata=memory.counters())

    def __attrs_post_init__(self) -> None:
        if not self.windows:
            raise SchemaError('slicing: there is no window; give one, as {"w": tumbling("ts", 10)}.')
        if len(self.windows) > 1 and not self.named:
            raise SchemaError("slicing(named=False): with several windows, only `window` tells their results apart.")
        wattr = next(iter(self.windows.values())).wattr
        for name, spec in self.windows.items():
            if spec.wattr != wattr:
                raise _other(name, spec, wattr)
        if self.lateness < 0:
            raise SchemaError(f"slicing(lateness={self.lateness}): allowed lateness is a number of ticks from 0 on.")
        self._used = Windows.of(self.windows)
        self._progressing = wattr

    @property
    def wattr(self) -> str:
        """Return the windowing attribute of all windows."""
        return self._progressing

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        kind = ordering(schema, self.wattr, "slicing")
        self._check(schema)
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise == frozenset((self.wattr,)):
                progress += [frozenset((name,)) for name in ([] if self.named else [WID]) + [START, STOP]]
            elif promise <= {self.wattr, *self.by} and self._by_group:
                progress.append(frozenset(STOP if name == self.wattr else name for name in promise))
        arrow = result_fields(
            schema, self.functions, self.by, kind, "slicing", named=self.named, revised=self.lateness > 0
        )
        KeyIndex([arrow.field(name) for name in self.by])
        return Schema(arrow, progress=progress)

    def _check(self, schema: Schema) -> None:
        """Refuse an input that does not fit; SchemaError says why."""
        where = "slicing"
        if self.store == "eager" and self.by and not self.in_vectors:
            why = self.waits.why if self.waits else "each group has sessions, or edges, of its own"
            raise SchemaError(
                f'{where}(store="eager"): with groups, slices are combined ahead of the windows where all groups have'
                f' the same slices\n  and any order of combining will do; here {why}. Write store="lazy".'
            )
        if self.lateness and self.store == "eager":
            raise SchemaError(
                f'{where}(store="eager"): what is combined ahead of the windows cannot change, but with'
                f' lateness={self.lateness} it does.\n  Write store="lazy", or leave out the lateness.'
            )
        if self.lateness and self.waits:
            raise SchemaError(
                f"{where}(lateness={self.lateness}): tuples wait here until their order is certain, because"
                f" {self.waits.why};\n  a later one could not change that. Leave out the lateness and promise later."
            )
        for place, tracked in self._used.tracked:
            for name in tracked.spec.reads:
                schema.field(name, where=f'{where}: window "{self._used.names[place]}"')
        if self.waits and ARRIVAL in schema:
            raise SchemaError(f'{where}: "{ARRIVAL}" is the name of what tells when tuples arrived; rename yours.')

    @property
    def _by_group(self) -> bool:
        """Return whether single groups are released: edges, order and lateness are certain for all groups at once."""
        return not (self.waits or self.lateness or self._used.tracked)

    @property
    def waits(self) -> Decision:
        """Return whether tuples wait until a promise makes their order certain, and why (Fig 4 of the paper)."""
        return waits(self.functions.values(), self._used.contexts, in_order=self.ordered)

    @property
    def splits(self) -> Decision:
        """Return whether slices may have to be cut in two, and why (Fig 5 of the paper)."""
        return splits_any(self._used.contexts, in_order=self.ordered)

    @property
    def combines_ahead(self) -> Decision:
        """Return whether slices are combined ahead of the windows, the eager store, and why."""
        return combines_ahead(
            by=bool(self.by),
            revised=bool(self.lateness),
            tracked=bool(self._used.tracked),
            store=self.store,
            slices_a_window=self._used.slices_a_window(),
        )

    def add(self, name: str, window: Spec) -> int:
        """Let another window count from now on; gives the tick from which on its windows begin that are given.

        That is one more than the largest tick that is in a slice, or what was promised if that is more: up to there,
        slices may not be cut at the new edges. For a session window it is a gap later, less a tick: a session that
        begins before may be part of one that had begun when the window was added.
        """
        if name in self.windows:
            raise SchemaError(f'slicing: there is a window "{name}" already; choose another name, or remove it first.')
        if not self.named:
            raise SchemaError(f'slicing: results of "{name}" could not be told apart; write named=True at the start.')
        if window.wattr != self.wattr:
            raise _other(name, window, self.wattr)
        since = self._bound
        if self._intake is not None:
            since = max(since, int(self._intake.answers.slices.ledger[kernels.TOP]) + 1)
        self._used.add(name, window, since)
        if self.lateness and self.waits:
            why = self.waits.why
            self._used.remove(name)
            raise SchemaError(f'slicing: "{name}" cannot be added to windows with a lateness: {why}.')
        self.windows = {**self.windows, name: window}
        self._change(self._used.bit(name))
        return since + window.gap - 1 if isinstance(window, SessionWindow) and since > -FAR else since

    def remove(self, name: str) -> None:
        """Stop giving results of a window, and let go of what only it needed."""
        if name not in self.windows:
            known = ", ".join(self.windows)
            raise SchemaError(f'slicing: there is no window "{name}" to remove; there are {known}.')
        self.windows = {key: window for key, window in self.windows.items() if key != name}
        bit, place = self._used.bit(name), self._used.names.index(name)
        self._used.remove(name)
        self._change(bit, removed=place)

    def anew(self, running: Operator) -> SlicingAggregate:
        # Windows came and went: the state says which there are, and needs to know those of the user's own kind.
        others = running.windows if isinstance(running, SlicingAggregate) else {}
        return attrs.evolve(self, windows={**self.windows, **others})

    def _change(self, bit: int, *, removed: int | None = None) -> None:
        """Fit slices to other windows; those held are of no use to a new session window, and forget an old one.

        `bit` is that of the window that was added, or removed from a place.
        """
        if not self.in_vectors:
            self._link()
        intake = self._intake
        if intake is None:
            return
        slices, used = intake.answers.slices, self._used
        intake.recut()
        slices.use(used.bands, used.sessions, gappy=used.gappy, asked=bool(used.asked))
        slices.mark(bit, done=removed is None)
        if intake.waiting is None and self.waits:
            intake.waiting = Waiting(self.wattr)
        intake.answers.change(removed)
        intake.forget(self._bound)
        self._batched = batched(intake, self._mould if self._plain else None)
        self._choice = self._choice_of(intake)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return "refused" if found else late(self.by, named=self.named) if self.lateness else None

    def together(self, *inputs: Schema) -> Together:
        sliced = SlidingWindow | SessionWindow | FixedBandWindow
        if own := [window for window in self.windows.values() if not isinstance(window, sliced)]:
            return Together(arrival=True, why=f"the edges of {type(own[0]).__name__} may depend on all tuples")
        if self.lateness:
            why = "which windows are given again depends on when promises came"
            return Together.by(self.by, arrival=True, why=why)
        return facts.grouped(None, self.functions, self.by)

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        windows = self.windows.values()
        if any(window.wattr != attribute for window in windows):
            return Tolerance()
        # What is given again, and where tuples set the edges, is told by each promise that comes.
        edged = all(isinstance(window, SlidingWindow | LandmarkWindow | FixedBandWindow) for window in windows)
        ticks = ANY_DISTANCE if melded else self.lateness + max(map(open_for, windows))
        return Tolerance(ticks, fixed=edged and not self.lateness)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        intake = self._intake if self._intake is not None else self._bind(page.schema)
        if len(page) == 0:
            return
        road = self._batched
        if isinstance(road, Batched) or (isinstance(road, InVectors) and road.ready):
            self._take(road, page, _NONE, _NONE, emit)
            return
        intake.take(page)
        if self._batched is not None:
            self._batched.grown = True
        if intake.wasteful:
            self._link()
        self._count(0)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page with the linear promises in it: at once, where nothing but a promise completes windows."""
        if self._intake is None:
            self._bind(page.schema)
        positions, bounds = promises.positions, promises.bounds
        last = _last(self._bound, bounds) if promises.attribute == self._progressing else None
        if last is not None and self._choice is not None and self._choice.surprised(last - self._bound):
            self._foresee(page, last, len(bounds))
        road = self._batched
        if road is None or not road.ready or last is None:
            self._within = True
            try:
                for element in promises.one_by_one(page):
                    deliver(self, element, emit, port)
            finally:
                self._within = False
            self._count(0)
            return
        self._take(road, page, positions, bounds, emit, last)
        self._promise_open(last, promises.assumed, emit)

    def _take(
        self, road: Road, page: Page | None, positions: Int64s, bounds: Int64s, emit: Emit, last: int | None = None
    ) -> None:
        """Take a page and hear rising promises in it, up to `last`, and give the results of what they complete."""
        ticks, valid = (_NO_TICKS, None) if page is None else page.timed(self._progressing)
        for results in road.take(page, ticks, valid, positions, bounds):
            if isinstance(results, Results):
                self._emit(results, emit)
                continue
            assert self._output is not None and not isinstance(road, InVectors)
            emit(Page(self._output, results, self._same(*road.first()) if results.num_rows == 1 else {}))
            self._results += results.num_rows
            self._windows += results.num_rows
        if last is not None:
            self._bound = last
            if road.grown:
                road.grown = False
                self._measure()
            if road.peak > self._peak:
                self._peak = road.peak
        if road.intake.wasteful:
            self._link()
        self._count(len(bounds))

    def _count(self, promises: int) -> None:
        """Count a call and its promises; choose the store anew where the other one would have cost less for long."""
        choice, intake = self._choice, self._intake
        if choice is None or intake is None:
            return
        store = intake.answers.store
        assert not isinstance(store, Grouped)
        if choice.count(store, promises, intake.answers.slices, within=self._within):
            self._change_store(intake, eager=choice.eager)

    def _foresee(self, page: Page, last: int, promises: int) -> None:
        """Choose the store for a page, from its ticks and the promises in it."""
        choice, intake = self._choice, self._intake
        assert choice is not None and intake is not None
        ticks, bounds = page.timed(self._progressing)[0], (self._bound, last)
        if choice.ahead_of(self._used.bands, ticks, bounds, promises, intake.answers.slices):
            self._change_store(intake, eager=choice.eager)

    def _change_store(self, intake: Intake, *, eager: bool) -> None:
        """Answer windows from another store from now on, which begins with the slices that are held."""
        answers = intake.answers
        answers.store.clear()
        answers.store = self._store(answers.slices, eager=eager)
        self._batched = batched(intake, self._mould if self._plain else None)

    def _store(self, slices: Slices, *, eager: bool) -> Lazy | Eager:
        return Eager(slices, bool(self._plain)) if eager else Lazy(slices)

    @property
    def chooses(self) -> bool:
        """Return whether slices are combined ahead or not is decided while this runs: where both give the same."""
        fixed = self.store != "auto" or self.by or self.lateness or self.waits or self._used.asked
        return not fixed and not any(getattr(function, "estimates", False) for function in self.functions.values())

    def _choice_of(self, intake: Intake) -> StoreChoice | None:
        """Return what chooses the store from now on, None where that is fixed."""
        answers, store = intake.answers, intake.answers.store
        # Tuples that waited for a window that was removed still wait.
        if not self.chooses or intake.waiting is not None or not isinstance(store, Lazy | Eager):
            return None
        totals = bool(self._plain) and Eager(answers.slices).summed
        return StoreChoice.of(eager=isinstance(store, Eager), totals=totals, sessions=len(self._used.sessions) > 0)

    def choice(self) -> str:
        """Say whether slices are combined ahead of the windows now, and from which numbers that was chosen."""
        return "" if self._choice is None else self._choice.told()

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        promise = group_bound(punctuation, self.by, self.wattr) if self._by_group else None
        if promise is None:
            return
        bound = FAR if promise.bound is None else promise.bound
        if bound > self._bound:
            self._release_groups(promise.groups, bound, emit)
        out = promise.follows(STOP, None if promise.bound is None else bound + 1)
        if self._promised.advance(out):
            emit(out)

    def _revise(self, emit: Emit) -> None:
        if self._intake is not None and self._intake.answers.revising:
            self._measure()
            self._release(self._intake, self._bound, emit)

    def _end(self, emit: Emit) -> None:
        assert self._intake is not None
        self._release(self._intake, FAR, emit)

    def closed_by(self, wid: int, window: str | None = None) -> Punctuation:
        """Return the least linear promise on the input that completes a window, as far as tuples have shown its end.

        With several windows, name the one whose `wid` it is. LookupError where that is left out, or none is open that
        only tuples define.
        """
        if window is None and len(self.windows) > 1:
            raise LookupError(f"closed_by({wid}): there are windows {', '.join(self.windows)}; name the one it is of.")
        name = next(iter(self.windows)) if window is None else window
        spec = self.windows[name]
        if isinstance(spec, SlidingWindow):
            return before(self.wattr, spec.extent(wid)[1])
        held = self.open_windows(FOREVER)
        held = held.select(pc.equal(held.column(WID), wid))
        if self.named and len(held):
            held = held.select(pc.equal(held.column(WINDOW), name))
        if len(held) == 0:
            raise LookupError(f'closed_by({wid}): no window "{name}" of this id is open; open_windows() lists those.')
        end = int(ends_of(held).max())
        return END if end == FOREVER else before(self.wattr, end)

    def enough(self) -> tuple[int, int] | None:
        """Return a lateness, in ticks, that would have taken in all tuples that came too late so far, and how many.

        With another lateness promises may be made at other ticks, and then come a step later at most. None where there
        are several windows, or one that tells nothing of the kind, and where single groups were promised.
        """
        intake, window = self._intake, next(iter(self.windows.values()))
        if intake is None or len(self.windows) > 1 or not isinstance(window, SlidingWindow | SessionWindow):
            return None
        if isinstance(window, SlidingWindow) and window.size % window.slide:
            return None
        if self._input is None or intake.refused != self._left_out()["late"]:
            return None
        lasts = window.size if isinstance(window, SlidingWindow) else window.gap
        step = pace_of(window, self._input).step or 1
        return max(intake.furthest - lasts + step, 0), intake.refused

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        if self._batched is not None and self._batched.ready and -LIMIT < bound < LIMIT:
            self._take(self._batched, None, _AT_ONCE, np.array((bound,)), emit, bound)
        elif self._intake is not None:
            self._measure()
            self._release(self._intake, bound, emit)
            self._count(1)
        self._promise_open(bound, assumed, emit)

    def _release(self, intake: Intake, bound: int, emit: Emit) -> None:
        """Release the windows that a bound completes, and let go of what they needed."""
        for results in intake.answers.linear(bound, intake.settle(bound)):
            self._emit(results, emit)
        intake.forget(bound)

    def _release_groups(self, promise: Punctuation, bound: int, emit: Emit) -> None:
        intake = self._intake
        if intake is None or intake.groups is None or not len(intake.groups):
            return
        which = matched(intake.groups, promise)
        which = which[intake.answers.bounds(which) < bound]
        if len(which):
            self._measure()
            for results in intake.answers.of_groups(which, bound):
                self._emit(results, emit)
            intake.forget(self._bound)

    def _promise_open(self, bound: int, assumed: bool, emit: Emit) -> None:
        """Promise what every later result is beyond: the windows that the bound leaves open."""
        used = self._used
        answers = None if self._intake is None else self._intake.answers
        settled = bound - self.lateness
        begin, end = used.unfinished(settled) if answers is None else (answers.begin, answers.end)
        if len(used.sessions):
            begin = min(begin, settled if answers is None else answers.earliest())
            end = min(end, settled + 1)
        wid = None if self.named else used.wid(settled, begin)
        self._promise(FAR if wid is None else wid, begin, end, assumed, emit)

    def _emit(self, results: Results, emit: Emit) -> None:
        n = len(results.wids)
        moulded = self._plain and self._mould and 0 < n <= ROWS and not self._used.asked
        page = self._moulded(self._mould, results) if moulded and self._mould else None
        if page is not None:
            emit(page)
        else:
            intake, columns = self._intake, self._columns(results)
            if intake is not None and intake.answers.revisions is not None and not results.gone:
                results, columns = revised(results, columns, intake.answers.revisions)
                n = len(results.wids)
            if 0 < n <= ROWS:
                emit(self._page(results, columns))
            for at in range(0, n, ROWS) if n > ROWS else ():
                emit(self._page(results.where(slice(at, at + ROWS)), [column.slice(at, ROWS) for column in columns]))
        self._results += n
        self._windows += results.windows if self.by else n

    def _moulded(self, mould: Mould, results: Results) -> Page | None:
        """Return results as a page that is made in one step; None when it has to be made column by column."""
        values = list(results.values)
        for accumulator in () if values else self._plain:
            if (found := accumulator.bits(results.slots)) is None:
                return None
            values.append(found)
        assert self._output is not None
        columns = (*values, results.wids, results.opens, results.closes)
        batch = mould.batch(columns, results.places, self._used.labels)
        return Page(self._output, batch, self._same(*results.first()) if batch.num_rows == 1 else {})

    def _same(self, place: int, wid: int, begin: int, end: int) -> Mapping[str, int | str]:
        """Return what results of one window have in common."""
        same: dict[str, int | str] = {WID: wid, START: begin, STOP: end}
        if self.named:
            same[WINDOW] = self._used.names[place]
        return same

    def _columns(self, results: Results) -> list[pa.Array]:
        """Return the aggregates of results, one column a function; null for what is gone."""
        output, intake, places = self._output, self._intake, results.places
        assert output is not None and intake is not None
        if results.gone:
            return [pa.nulls(len(places), output.arrow.field(name).type) for name in self.functions]

        def keys(which: slice) -> list[pa.Array]:
            return [] if intake.groups is None else intake.groups.keys(results.groups[which])

        def label(at: int) -> str:
            return self._used.labels[int(places[at])]

        return columns_of(
            output, self.by, self.functions, intake.accumulators, results.slots, self.overflow, results.wids, keys,
            label if self.named else None,
        )  # fmt: skip

    def _page(self, results: Results, columns: list[pa.Array]) -> Page:
        output, intake = self._output, self._intake
        assert output is not None and intake is not None
        revisions = results.revisions if self.lateness else None
        single = revisions is None and not self._used.asked and results.of_one_window
        if intake.groups is not None:
            keys = self._kept_keys.of if single else KeyIndex.keys
            columns = keys(intake.groups, results.groups) + columns
        if self.named:
            columns.append(self._used.labels.take(results.places))
        if not single:
            ends = self._used.ends(results.places, results.closes)
            bounded = not (results.gone or self._used.asked)
            return result_page(output, columns, results.wids, results.opens, ends, revisions, bounded=bounded)
        place, wid, begin, end = results.first()
        also = {WINDOW: self._used.names[place]} if self.named else {}
        return window_page(output, columns, self._kept, (wid, begin, end), len(results), also)

    @property
    def in_vectors(self) -> bool:
        """Return whether edges are the same for all groups, and aggregates of slices may be combined in any order."""
        same_edges = not (len(self._used.sessions) or self._used.asked or self.waits)
        return in_vectors(self.functions.values(), by=bool(self.by), same_edges=same_edges)

    def _link(self) -> None:
        """Let slices be of one group each from now on."""
        intake = self._intake
        if intake is not None and intake.vectors is not None and self._input is not None:
            self._measure()
            state = intake.linked()
            self._bind(self._input, vectors=False).restore(state)

    def _bind(self, schema: Schema, *, eager: bool | None = None, vectors: bool | None = None) -> Intake:
        self._input, self._output = schema, self.output_schema(schema)
        self._mould = None if self.by or self.lateness else Mould.of(self._output.arrow)
        used = self._used
        if eager is None:
            eager = bool(self.combines_ahead)
        made = accumulators(self.functions.values(), schema)
        joined = Vectors(made) if vectors or (vectors is None and self.in_vectors) else None
        plain = [accumulator for accumulator in made if isinstance(accumulator, Plain)]
        self._plain = plain if self._mould is not None and len(plain) == len(made) else []
        slices = Slices(made if joined is None else [joined], not self.by or joined is not None)
        slices.use(used.bands, used.sessions, gappy=used.gappy, asked=bool(used.asked))
        if joined is not None:
            store = GroupedTree(slices, joined) if eager else Grouped(slices, joined)
        else:
            store = self._store(slices, eager=eager and not self.by)
        slices.make_room(store.slots * min(4 * len(used.bands), MANY_CELLS))
        revisions = Revisions() if self.lateness else None
        answers = Answers(slices, used, store, self._bound, self.lateness, revisions, self.once)
        groups = KeyIndex([schema.field(name) for name in self.by]) if self.by else None
        waiting = Waiting(self.wattr) if self.waits else None
        self._intake = intake = Intake(self.wattr, self.by, answers, groups, waiting, joined)
        self._batched = batched(intake, self._mould if self._plain else None)
        self._choice = self._choice_of(intake)
        return intake

    def _forget(self) -> None:
        self._lost = self._left_out()
        super()._forget()
        self._intake = self._batched = None

    def _size(self) -> tuple[int, int]:
        intake = self._intake
        if intake is None:
            return 0, 0
        lists = 0 if self._batched is None else self._batched.nbytes
        return intake.slices + intake.waiting_tuples, intake.nbytes + lists

    def _left_out(self) -> dict[str, int]:
        if self._intake is None:
            return self._lost
        new = self._intake.lost()
        return {name: count + new[name] for name, count in self._lost.items()}

    def statistics(self) -> dict[str, int]:
        intake = self._intake
        told = dict.fromkeys(("slices", "cells", "waiting", "groups", "null_arguments"), 0)
        if intake is not None:
            slices = intake.answers.slices
            groups = 0 if intake.groups is None else len(intake.groups)
            nulls = sum(accumulator.nulls for accumulator in slices.accumulators)
            told = dict(zip(told, (intake.slices, slices.occupied, intake.waiting_tuples, groups, nulls), strict=True))
        return super().statistics() | told

    def _plan(self) -> _Plan:
        intake, windows = self._intake, dump_windows(self._used)
        if intake is None:
            return _Plan(windows)
        return _Plan(windows, isinstance(intake.answers.store, Eager | GroupedTree), intake.vectors is not None)

    def _replan(self, saved: _Plan) -> None:
        self._used = read_windows(saved.windows, self.windows)
        self.windows = dict(zip(self._used.names, self._used.specs, strict=True))
        self._planned = saved

    def _bind_again(self, schema: Schema) -> None:
        self._bind(schema, eager=self._planned.eager, vectors=self._planned.vectors)

    def _after_restoring(self) -> None:
        if self._intake is not None:
            self._batched = batched(self._intake, self._mould if self._plain else None)
            self._choice = self._choice_of(self._intake)


def _last(since: int, bounds: Int64s) -> int | None:
    """Return the last of bounds that rise from a bound on, and are such as the compiled road takes; None if not so."""
    if len(bounds) == 1:
        bound: int = bounds.item()
        return bound if since < bound and -LIMIT < bound < LIMIT else None
    if len(bounds) == 0 or not max(since, -LIMIT) < bounds[0] <= bounds[-1] < LIMIT:
        return None
    return int(bounds[-1]) if (bounds[1:] > bounds[:-1]).all() else None


def _other(name: str, spec: Spec, wattr: str) -> SchemaError:
    return SchemaError(
        f'slicing: window "{name}" is over {spec.wattr}, others are over {wattr}; slices are shared over one'
        " attribute.\n  Use one slicing aggregate for each attribute."
    )
