"""A circuit is a plan made ready to run once: fresh operators, exact schedules, and who hands what to whom.

It is the common ground of the drivers. A driver cuts chunks of each source into `pages`, gives them to its operator,
and finishes it at the end; elements that cross a boundary of the driver's choosing come back through `crossed`,
everything else is handed on by plain calls, so a straight chain of operators is one call deep in the next and costs no
queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from threading import Lock
from time import monotonic, time_ns
from types import TracebackType
from typing import Self, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.drive.busy import Busy
from oop_engine.drive.feedback import Feedback
from oop_engine.drive.forecast import Course
from oop_engine.drive.kept_reading import IN_MEMORY, KeptReading
from oop_engine.drive.limit import FileShelf, Limit, seed
from oop_engine.drive.memory import keep_pages
from oop_engine.drive.meter import Meter, OperatorStatistics, watched
from oop_engine.drive.overwriting import check_files
from oop_engine.drive.preference import Preference
from oop_engine.drive.run_warnings import behind_keys, told, wrong_clocks
from oop_engine.drive.turns import TURN, Turns, above
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan, SourceNode, own_promises
from oop_engine.plan.ticks import tick_ns
from oop_engine.rewrite.deferral import Deferral, deferrals
from oop_engine.rewrite.demand import columns, demands, pruned
from oop_engine.rewrite.lanes import divisions
from oop_engine.rewrite.lateness import allowances
from oop_engine.rewrite.needs import below
from oop_engine.rewrite.source_filters import wanted
from oop_engine.sinks.choice import sink_for
from oop_engine.sinks.protocol import Deliver
from oop_engine.sources.demanded_progress import Asked, Endless, Grain, Holding
from oop_engine.sources.outline import Outlined, Watch
from oop_engine.sources.positions import Placing
from oop_engine.sources.promised import checked_promise
from oop_engine.sources.protocol import Chunk, Laborious, Reader, Snapshot
from operators.background import Background, Defers
from operators.data.page import Bools, Int64s, Page, concatenate
from operators.data.schema import Schema
from operators.drive import deliver
from operators.fresh import fresh
from operators.overflow import overflows
from operators.pace import Pace
from operators.plan_facts import LeavesOutLate, Outlasts
from operators.protocol import (
    Element,
    Emit,
    GoesOn,
    LetsGo,
    Measured,
    Operator,
    Promises,
    RefusedIn,
    RefusesGroups,
    TakesPromises,
)
from operators.protocol_checks import fits
from operators.signals import Clock, Event, HearsPromises, HearsSignals, Signal
from operators.streams.input import Input
from operators.streams.lanes import AtOnce, Lanes, in_turn
from punctuation import END, Punctuation, Schedule, Scheduled, SuffixMinimum, Unfolding, before
from punctuation.demanded_progress import known, regrain, regrainable
from punctuation.punctuators import Punctuator
from punctuation.rising import Rising

PAGE_ROWS = 262_144
CHUNK_ROWS = 262_144
TICK = 0.1
"""Seconds between two calls of a timer."""

Crossed: TypeAlias = Callable[[int, int, Element], None]
"""Takes (place of the reader or -1 - output number, port, element)."""


@attrs.define(eq=False)
class Circuit:
    """Operators of one run and the calls between them."""

    plan: Plan
    page_rows: int = PAGE_ROWS
    boundary: Callable[[int], bool] = attrs.field(default=lambda place: False)
    crossed: Crossed = attrs.field(default=lambda place, port, element: None)
    threads: int = 1
    """How many may take parts of a page, where its operator works in lanes."""
    at_once: AtOnce = in_turn
    """Makes the calls of a page."""
    background: Callable[[int], Background] | None = None
    """Gives an operator what makes its calls, so many at the same time, while it goes on."""
    limit: Limit | None = None
    """What operators may hold in memory."""
    clock: Callable[[], float] = monotonic
    """Says how time goes on, in seconds."""
    wall: Callable[[], int] = time_ns
    """Says what time it is, in ns since 1970."""
    operators: list[Operator] = attrs.field(init=False, factory=list)
    inputs: dict[int, Input] = attrs.field(init=False, factory=dict)
    """Those of them that stand at the places of sources."""
    meters: list[Meter] = attrs.field(init=False, factory=list)
    _measured: list[Measured] = attrs.field(init=False, factory=list)
    given: list[Schema] = attrs.field(init=False, factory=list)
    """What leaves each node, of what is read."""
    readers: dict[int, Reader] = attrs.field(init=False, factory=dict)
    _emits: list[Emit] = attrs.field(init=False, factory=list)
    _schemas: dict[int, Schema] = attrs.field(init=False, factory=dict)
    _columns: dict[int, tuple[str, ...]] = attrs.field(init=False, factory=dict)
    _watches: dict[int, dict[str, Watch]] = attrs.field(init=False, factory=dict)
    diverting: dict[int, Deliver] = attrs.field(init=False, factory=dict)
    """Takes the late tuples that a source diverts to a file; what is not there is opened for this run."""
    _paces: dict[int, dict[str, Pace]] = attrs.field(init=False, factory=dict)
    _leading: dict[int, tuple[str, int]] = attrs.field(init=False, factory=dict)
    """What `_lead` says of the sources that were asked for."""
    placings: dict[int, Placing] = attrs.field(init=False, factory=dict)
    """Where the reading of each source is, if that is to be known."""
    heard: dict[int, float] = attrs.field(init=False, factory=dict)
    """When each source gave something last, in seconds of the clock."""
    courses: dict[int, Course] = attrs.field(init=False, factory=dict)
    """How far each source was at some moments."""
    finished: set[int] = attrs.field(init=False, factory=set)
    """The sources that have ended."""
    queued: Callable[[], Mapping[int, int]] = attrs.field(init=False, default=dict)
    """Counts the elements that wait in the inboxes of operators and, by -1 - number, of outputs."""
    pressing: Callable[[], Mapping[int, float]] = attrs.field(init=False, default=dict)
    """Names the outputs whose consumers keep the run waiting, with the seconds that each is at one element."""
    hearing: dict[int, frozenset[Signal]] = attrs.field(init=False, factory=dict)
    """The signals that operators hear, by place."""
    _fired: deque[Event] = attrs.field(init=False, factory=deque)
    """Events that no operator has been told."""
    _clocks: dict[Clock, float] = attrs.field(init=False, factory=dict)
    """When each clock that operators hear ticked last, in seconds of the clock."""
    committed: float | None = attrs.field(init=False, default=None)
    """When the last checkpoint was committed, in seconds of the clock."""
    _turns: Turns = attrs.field(init=False)
    _polled: set[int] = attrs.field(init=False, factory=set)
    _describing: Lock = attrs.field(init=False, factory=Lock)
    """Held while it changes what promises are wanted, or while somebody concludes something from all of that."""
    _regrains: deque[tuple[int, str, Grain]] = attrs.field(init=False, factory=deque)
    """Sources, attributes and how finely these are to be promised, as any thread asked."""
    _work: tuple[int, int, Element] | None = attrs.field(init=False, default=None)
    """What the operator that works now was given."""
    busy: Busy = attrs.field(init=False, factory=Busy)
    """Which operators are at work for how much of the time."""
    feedback: Feedback = attrs.field(init=False)
    """What nobody wants of which stream."""
    preference: Preference = attrs.field(init=False)
    """Which source is read next."""
    displays: list[Callable[[], Sequence[str]]] = attrs.field(init=False, factory=list)
    """Each says what a display left out because it was behind."""
    _pruning: frozenset[int] = attrs.field(init=False, default=frozenset())
    """The places of operators that come to need less of their one input by what they hold."""
    _left_early: set[int] = attrs.field(init=False, factory=set)
    """The sources of which nothing more was wanted."""
    _opened: ExitStack | None = attrs.field(init=False, default=None)
    _stopped: bool = attrs.field(init=False, default=False)
    deferring: dict[int, Defers] = attrs.field(init=False, factory=dict)
    """The operators that have calls made in the background, by place."""
    _kept: dict[int, KeptReading] = attrs.field(init=False, factory=dict)
    """What was kept of sources that were read ahead, by place."""
    _shelf: FileShelf = attrs.field(init=False, factory=FileShelf)
    _spilling: dict[int, tuple[int, ...]] = attrs.field(init=False, factory=dict)
    """By place, the operators from there to the next boundary of which parts may be on disk."""

    def __attrs_post_init__(self) -> None:
        if self.limit is None:
            keep_pages()
        check_files(self.plan)
        self.plan = pruned(self.plan)
        self._columns = columns(self.plan)
        self._turns = Turns.of(self.plan)
        self.feedback = Feedback(self.plan)
        self.preference = Preference(self.behind)
        self.meters = [
            Meter(node.label, promised=[] if place in self.plan.sources else None)
            for place, node in enumerate(self.plan.nodes)
        ]

    def __enter__(self) -> Self:
        """Be ready to open the files that late tuples go to; leaving completes them, on failure removes them."""
        self._opened = ExitStack()
        self._opened.callback(self._shelf.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.__exit__(kind, error, trace)

    def prepare(self) -> None:
        """Make the operators; reads exact schedules of sources that can be read twice, so it may take a while."""
        paces, allowed = self._paces, allowances(self.plan)
        # A run that goes on may have begun with other threads.
        division = divisions(self.plan) if self.threads > 1 or self.placings else ()
        paces.update(demands(self.plan))
        to_disk = self.limit is not None and self.limit.policy == "spill"
        spilling = divisions(self.plan, to_disk=True) if to_disk else ()
        sheds = self.limit is not None and self.limit.policy == "shed"
        shedding = divisions(self.plan, to_disk=True) if sheds else ()
        grouped = sum(bool(division.keys) for division in (*spilling, *shedding))
        share = 0 if self.limit is None else self.limit.lanes(grouped)
        deferred = {} if self.background is None else deferrals(self.plan)
        for place, node in enumerate(self.plan.nodes):
            if isinstance(node, SourceNode):
                given, names = node.source.arrow, self._columns[place]
                arrow, there = pa.schema([given.field(name) for name in names]), frozenset(names)
                self._schemas[place] = Schema(arrow, progress=[p for p in node.schema.progress if p <= there])
                self.inputs[place] = self._input(place, node, paces[place], allowed[place])
                self.operators.append(self.inputs[place])
            elif self.background is not None and place in deferred and fits(node.operator, Defers):
                self.operators.append(self._defer(place, node.operator, deferred[place], self.background))
            elif fits(node.operator, LeavesOutLate):
                self.operators.append(node.operator.counting(wanted(self.plan, place)))
            elif spilling and spilling[place].keys:
                lanes = spilling[place].limited(
                    node.operator, share, self._shelf, seed(), self.threads, self.at_once
                )  # fmt: skip
                self.operators.append(lanes)
            elif shedding and shedding[place].keys:
                self.operators.append(_admission(node.operator, share))
            elif division and not division[place].why:
                self.operators.append(division[place].lanes(node.operator, self.threads, self.at_once))
            else:
                self.operators.append(fresh(node.operator))
        self._tell_schemas()
        self._pruning = frozenset(
            place
            for place, node in enumerate(self.plan.nodes)
            if len(node.inputs) == 1 and fits(self.operators[place], Outlasts)
        )
        self._measured = [operator for operator in self.operators if fits(operator, Measured)]
        consumers = self.plan.consumers()
        outputs = self.plan.output_numbers()
        if self.limit is not None and shedding:
            self._tell_admissions(self.limit)
        if to_disk:
            self._spilling = {place: self._spilling_from(place) for place in range(len(self.operators))}
        self._emits = [lambda element: None] * len(self.plan.nodes)
        for place in reversed(range(len(self.plan.nodes))):
            self._emits[place] = self._emit(place, consumers[place], outputs.get(place, []))
        for place, operator in enumerate(self.operators):
            if fits(operator, HearsSignals) and (heard := frozenset(operator.signals())):
                self.hearing[place] = heard
        self._clocks = {s: self.clock() for signals in self.hearing.values() for s in signals if isinstance(s, Clock)}

    def _defer(self, place: int, operator: Defers, how: Deferral, background: Callable[[int], Background]) -> Operator:
        """Return the operator that has its calls made in the background, unless it runs in its place."""
        if how.why:
            return operator.deferring(None)
        made = operator.deferring(background(how.workers))
        assert fits(made, Defers)
        self.deferring[place] = made
        return made

    def _tell_admissions(self, limit: Limit) -> None:
        """Say of each output which operators before it refuse groups."""
        for number, output in enumerate(self.plan.outputs):
            places = below(self.plan, [at := self.plan.position(output)]) | {at}
            before = [self.operators[place] for place in sorted(places)]
            limit.admissions[number] = tuple(one for one in before if fits(one, RefusesGroups))

    def refused(self) -> tuple[RefusedIn, ...]:
        """Return how many tuples each window of each operator refused."""
        found = zip(self.meters, self.operators, strict=False)
        return tuple(one for meter, o in found if fits(o, RefusesGroups) for one in o.refused(meter.label))

    def _tell_schemas(self) -> None:
        """Ask each operator for its output over what it will get: it may remember what it works out there.

        One that does not fit what is left of unread attributes is not told; those of the engine then see it in pages.
        """
        for place, node in enumerate(self.plan.nodes):
            inputs = [self.given[upstream] for upstream in self.plan.inputs[place]] or [self._schemas[place]]
            try:
                self.given.append(self.operators[place].output_schema(*inputs))
            except ValueError:
                self.given.append(node.schema)

    def stop(self) -> None:
        """Make `prepare`, which may be reading in another thread, end soon; the circuit is then of no use."""
        self._stopped = True

    def _input(self, place: int, node: SourceNode, paces: Mapping[str, Pace], allow: int) -> Input:
        punctuators: list[Punctuator] = []
        for promise in node.promises:
            pace = paces.get(promise.on, Pace(None))
            punctuators.append(promise.punctuator(node.schema, pace.step, pace.origin))
        if not node.promises and node.source.rewindable:
            own = {name for promise in own_promises(node.source) for name in promise}
            for attribute, pace in paces.items():
                if node.schema.progressing(attribute) and attribute not in own:
                    schedule = self._schedule(place, node, attribute, pace)
                    punctuators += [] if schedule is None else [Scheduled(attribute, schedule)]
        if not isinstance(node.divert, str):
            return Input(
                tuple(punctuators), late=node.late, name=node.label, diverted=node.divert, allow=allow,
                piece=self._piece(place), wanted=wanted(self.plan, place),
            )  # fmt: skip
        divert = partial(self._divert, place)
        source = Input(tuple(punctuators), late=node.late, name=node.label, diverted=divert, piece=self._piece(place))
        if place in self.diverting:
            return source
        if self._opened is None:
            raise RuntimeError(f"the file {node.divert} for late tuples is opened by `with circuit:` around the run")
        sink = sink_for(node.divert)
        self.diverting[place] = self._opened.enter_context(sink.opened(source.diverted_schema(self._schemas[place])))
        return source

    def _piece(self, place: int) -> int:
        """Return within how many tuples of a source one promise is enough.

        None is left out where it decides what is refused, nor where windows fire at it.
        """
        if self.limit is not None and self.limit.policy == "shed":
            return 1
        for at, node in self.plan.operators.items():
            if fits(node.operator, HearsPromises) and node.operator.hears_promises and place in below(self.plan, [at]):
                return 1
        return TURN

    def _divert(self, place: int, page: Page) -> None:
        self.diverting[place](page)

    def _schedule(self, place: int, node: SourceNode, attribute: str, pace: Pace) -> Schedule | Unfolding | None:
        """Find when which bound becomes true (Eq. 4.1): by an outline, or reading one attribute to the end.

        None where the promise is optional and the attribute is soon seen not to rise.
        """
        if pace.step is not None and attribute in self._columns[place] and isinstance(node.source, Outlined):
            outline = node.source.outline(attribute)
            if outline is not None:
                unfolding = Unfolding(outline.lengths, outline.leasts, step=pace.step, origin=pace.origin)
                self._watches.setdefault(place, {})[attribute] = unfolding.feed
                if (placing := self.placings.get(place)) is not None:
                    placing.begun.append(unfolding.skip)
                return unfolding
        placing, key = self.placings.get(place), f"{attribute} {pace.step} {pace.origin} {pace.optional}"
        if placing is not None and key in placing.schedules:
            return placing.schedules[key]
        schedule = self._read_ahead(place, node, attribute, pace)
        if placing is not None:
            placing.schedules[key] = schedule
        return schedule

    def _read_ahead(self, place: int, node: SourceNode, attribute: str, pace: Pace) -> Schedule | None:
        kept = self._kept.get(place)
        if kept is not None and kept.whole:
            return self._scheduled(kept.values(attribute), pace)
        source = node.source
        if (
            kept is None
            and place not in self.placings
            and isinstance(source, Laborious)
            and source.laborious
            and attribute in self._columns[place]
        ):
            room = IN_MEMORY if self.limit is None else 0
            kept = KeptReading(source.open(self._columns[place], CHUNK_ROWS), self._shelf, room)
            self._kept[place] = kept
            try:
                return self._scheduled(kept.ahead(attribute), pace)
            except Exception:
                # Another reading finds the same, and gives what is sound before it.
                kept.drop()
        try:
            return self._scheduled(source.values(attribute), pace)
        except Exception as error:
            locate(error, f"while {attribute} of {node.label} was read ahead for its punctuation")
            raise

    def _scheduled(self, pieces: Iterator[Int64s], pace: Pace) -> Schedule | None:
        """Return the schedule of an attribute, read in pieces."""
        passed, rising = SuffixMinimum(step=pace.step, origin=pace.origin), Rising()
        for values in pieces:
            if self._stopped:
                break
            if pace.optional:
                rising.feed(values)
                if rising.hopeless:
                    return None
            passed.feed(values)
        return passed.finish()

    def open(self, place: int) -> Iterator[Chunk]:
        """Open the source at a place and give its chunks."""
        node = self.plan.sources[place]
        source, columns = node.source, self._columns[place]
        watches = self._watches.pop(place, {})
        kept = self._kept.pop(place, None)
        if kept is not None and not kept.whole:
            kept.drop()  # it was not gone through
            kept = None
        if kept is not None:
            reader: Reader = kept
        elif watches and isinstance(source, Outlined):
            reader = source.open_watched(columns, CHUNK_ROWS, watches)
        else:
            reader = source.open(columns, CHUNK_ROWS)
        self.readers[place] = reader
        if isinstance(reader, Endless):
            self._forgive()
        if isinstance(reader, Asked):
            with self._describing:
                reader.describe({name: Grain(pace.step, pace.origin) for name, pace in self._paces[place].items()})
        return self._chunks(place, node, reader, self.placings.get(place))

    def _forgive(self) -> None:
        """Let no value that does not fit its type end the run: what was heard live cannot be read again."""
        for operator in self.operators:
            for overflow in overflows(operator):
                overflow.forgiving = True

    def _chunks(self, place: int, node: SourceNode, reader: Reader, placing: Placing | None) -> Iterator[Chunk]:
        read = 0
        try:
            for chunk in reader.chunks() if placing is None else placing.chunks(reader):
                yield chunk
                read += 0 if isinstance(chunk, Punctuation) else len(chunk)
                if self._over(place):
                    at, size = reader.progress()
                    if size is None or at < size:
                        self._left_early.add(place)
                    break
        except Exception as error:
            locate(error, f"while {node.label} was read, after {read} tuples")
            raise

    def pages(self, place: int, chunk: Chunk) -> Iterator[Element]:
        """Cut a chunk of a source into pages; between two of them another source may have its turn.

        Each counts as taken when it is given here. SchemaError for a promise that is not of the stream's attributes.
        """
        # A chunk without tuples says that a source is read, not that it gave something.
        if isinstance(chunk, Punctuation) or len(chunk):
            self._hear(place)
        placing = self.placings.get(place)
        if placing is not None and not isinstance(chunk, pa.RecordBatch):
            placing.took(chunk)
        if isinstance(chunk, Punctuation):
            node = self.plan.sources[place]
            if (promise := checked_promise(chunk, node.schema, self._columns[place], node.label)) is not None:
                yield promise
                self._course(place)
            return
        if isinstance(chunk, Snapshot):
            return
        if not isinstance(chunk, pa.RecordBatch):
            yield chunk
            return
        page, at = Page(self._schemas[place], chunk), 0
        while at < len(page):
            end = min(at + self._turns.rows(place, self.page_rows, len(page) - at, self._held), len(page))
            if placing is not None:
                placing.took(page.slice(at, end))
            yield page.slice(at, end)
            self._course(place)
            at = end
        yield from self._answers(place)

    def _hear(self, place: int) -> None:
        """Note when a source gave something; a timer that it had would have told the time of that now and then."""
        moment, before_that = self.clock(), self.heard.get(place)
        self.heard[place] = moment
        if before_that is not None and moment - before_that < TICK:
            return
        if not self.plan.sources[place].source.rewindable and not self.timed(place):
            tick = self._tick(place)
            if tick is not None:
                self.inputs[place].came(self.wall() // tick)

    def _tick(self, place: int) -> int | None:
        """Return the ns of a tick of what a source promises first, None where that is no time."""
        punctuators = self.inputs[place].punctuators
        return tick_ns(self._schemas[place].field(punctuators[0].attribute).type) if punctuators else None

    def _course(self, place: int) -> None:
        """Note how far a source is, behind what it was given last."""
        course = self.courses.get(place)
        if course is None:
            course = self.courses[place] = Course()
        moment = self.clock()
        if course.due(moment):
            meter, (attribute, _) = self.meters[place], self._led(place)
            promised = meter.lwm.get(attribute)
            course.note(
                moment, meter.tuples_in, meter.hwm.get(attribute), promised if isinstance(promised, int) else None
            )

    def awaits(self, places: Iterable[int]) -> bool:
        """Return whether the state of one of these sources, which come only once, was asked for and is to come."""
        return any(place in self.placings and self.placings[place].awaited for place in places)

    def _held(self) -> int:
        """Return the tuples and partial aggregates that operators hold now."""
        return sum(operator.statistics().get("state_tuples", 0) for operator in self._measured)

    def poll(self, place: int) -> None:
        """Ask all sources that the node at a place reads how far they are now; from any thread.

        A reader that makes the promises of its stream answers at once; where an Input makes them, it answers behind
        what it is given next, at a call of its timer at the latest.
        """
        for source in above(self.plan, place):
            reader = self.readers.get(source)
            if isinstance(reader, Asked):
                reader.poll()
            self._polled.add(source)

    def describe(self, place: int, attribute: str, pace: Pace) -> None:
        """Have a source promise an attribute at least as finely as this from now on; from any thread.

        PlanError where it cannot: exact promises that were read ahead have the granularity they were read for.
        """
        with self._describing:
            before_that = self._paces.get(place, {})
            wanted = before_that[attribute].and_also(pace) if attribute in before_that else pace
            # Who goes through what was wanted so far goes on with that.
            self._paces[place] = {**before_that, attribute: wanted}
            self._leading.pop(place, None)
            grain = Grain(wanted.step, wanted.origin)
            reader = self.readers.get(place)
            asked = isinstance(reader, Asked) and reader.describe({attribute: grain})
            punctuators = self.inputs[place].punctuators
            if any(one.attribute == attribute and regrainable(one) for one in punctuators):
                self._regrains.append((place, attribute, grain))
                asked = True
        if not asked:
            raise PlanError(
                f"{self.plan.nodes[place].label} cannot promise {attribute} otherwise while it is read.\n"
                "  Streams that make their own promises can, and those with a slack; a file that is promised exactly\n"
                "  was read ahead for the steps of its plan: run the finer query in a plan of its own."
            )

    def _regrain(self) -> None:
        """Let punctuators promise as finely as was asked, in the thread that drives them and between two pages."""
        while self._regrains:
            place, attribute, grain = self._regrains.popleft()
            for punctuator in self.inputs[place].punctuators:
                if punctuator.attribute == attribute:
                    regrain(punctuator, grain.step, grain.origin)

    def disclaim(self, number: int, unwanted: Punctuation) -> None:
        """Leave out from now on what matches a punctuation of an output, and whatever is read for nothing else.

        PlanError where the run writes checkpoints: one that goes on would not know of it, and give parts of results.
        """
        if self.placings:
            raise PlanError(
                "disclaim: this run writes checkpoints, and one that goes on from them would not know what to leave"
                " out.\n  Filter the results, or run it without a checkpoint."
            )
        self._disclaim((-1 - number, 0), unwanted)

    def _disclaim(self, edge: tuple[int, int], unwanted: Punctuation) -> None:
        if not self.feedback.disclaim(edge, unwanted):
            return
        for place, reader in self.readers.items():
            if isinstance(reader, Endless) and place not in self.finished and self._over(place):
                self._left_early.add(place)
                reader.stop()

    def _over(self, place: int) -> bool:
        """Return whether nobody wants what is still to come of a source."""
        return self.feedback.disclaimed and self.feedback.over(place, self.meters[place].lwm)

    def _outlasted(self, place: int) -> None:
        """Disclaim what an operator needs no more of its inputs, since another has ended or by what it holds."""
        node, operator = self.plan.nodes[place], self.operators[place]
        if fits(operator, Outlasts):
            for port in range(len(node.inputs)):
                if (needless := operator.needless(port)) is not None:
                    self._disclaim((place, port), needless)

    def allow(self, place: int, ticks: int) -> None:
        """Have a source that passes late tuples pass those at most so far below its promise, too, from now on."""
        operator = self.inputs[place]
        if operator.allow:
            operator.allow = max(operator.allow, ticks)

    def _answers(self, place: int) -> Iterator[Punctuation]:
        """Yield what an Input that was asked can promise now."""
        if place not in self._polled:
            return
        self._polled.discard(place)
        for punctuator in self.inputs[place].punctuators:
            bound = known(punctuator)
            if bound is not None:
                yield before(punctuator.attribute, bound)

    def timed(self, place: int) -> bool:
        """Return whether the source at a place makes promises by the clock, too."""
        punctuators = self.inputs[place].punctuators
        return any(getattr(p, "lull", None) is not None or hasattr(p, "sources") for p in punctuators)

    def at_hand(self, place: int) -> list[Chunk]:
        """Take what the reader of a source has gathered and not given yet, while it waits for more."""
        reader = self.readers.get(place)
        return reader.at_hand() if isinstance(reader, Holding) else []

    def reached(self, place: int, now: int) -> int:
        """Return the time up to which everything that came to a source's reader has been taken; in ns since 1970.

        To be asked behind `at_hand`: what the reader gave and nobody took yet came before.
        """
        reader = self.readers.get(place)
        away = reader.away if isinstance(reader, Holding) else None
        return now if away is None else min(now, away)

    def elapse(self, place: int, now: int) -> None:
        """Let a source's Input know the time, in ns since the epoch."""
        operator = self.inputs[place]
        if operator.punctuators:
            self._regrain()
            tick = self._tick(place)
            if tick is not None:
                operator.elapse(now // tick, self._emits[place])
            for answer in self._answers(place):
                self.give(place, 0, answer)

    def take_answers(self, place: int) -> None:
        """Have the operator at a place take the answers that have come from the background."""
        try:
            self.deferring[place].take_answers(self._emits[place])
        except Exception as error:
            locate(error, f"in operator {place} ({self.meters[place].label}), in the background")
            raise

    def outstanding(self, places: Iterable[int]) -> bool:
        """Return whether one of these operators has tuples that wait for an answer."""
        return any(self.deferring[place].outstanding for place in places)

    def crowded(self, places: Iterable[int]) -> bool:
        """Return whether one of these operators has so many such tuples that it should get no more."""
        return any(self.deferring[place].crowded for place in places)

    def let_go(self, place: int) -> None:
        """Have the operator at a place hand on what it holds back only to save work behind it."""
        operator = self.operators[place]
        if isinstance(operator, LetsGo):
            operator.let_go(self._emits[place])

    def _spilling_from(self, place: int) -> tuple[int, ...]:
        """Return the operators from a place to the next boundary of which parts may be on disk, the last one first."""
        consumers, reached = self.plan.consumers(), [place]
        for at in reached:
            reached += [reader for reader, _ in consumers[at] if reader not in reached and not self.boundary(reader)]
        return tuple(sorted((at for at in reached if isinstance(self.operators[at], GoesOn)), reverse=True))

    def go_on(self, place: int) -> bool:
        """Have one part that was on disk give what is left of a call at a place; return whether there may be more.

        To be called behind every call, until there is not: what is given so need not be in memory at once.
        """
        for at in self._spilling.get(place, ()):
            lanes = self.operators[at]
            if isinstance(lanes, GoesOn) and lanes.unfinished:
                lanes.go_on(self._emits[at])
                return True
        if self.limit is not None:
            self.limit.check([meter.label for meter in self.meters], self.operators)
        return False

    def fire(self, event: Event) -> None:
        """Let an event be due; PlanError where no operator hears it."""
        hearing = [n.operator for n in self.plan.operators.values() if fits(n.operator, HearsSignals)]
        known = sorted({signal.name for one in hearing for signal in one.signals() if isinstance(signal, Event)})
        if event.name not in known:
            seen = f"events {', '.join(known)}" if known else "no event"
            raise PlanError(
                f'fire("{event.name}"): the windows of this run fire at {seen}.\n'
                f'  Name it in a trigger: aggregate(..., early=oop.Trigger.event("{event.name}")).'
            )
        self._fired.append(event)

    @property
    def ticks(self) -> bool:
        """Return whether an operator hears a clock."""
        return bool(self._clocks)

    def due(self) -> list[Signal]:
        """Take the signals that are due: events that were fired, and clocks that have ticked since they were asked."""
        found: list[Signal] = []
        while self._fired:
            found.append(self._fired.popleft())
        if self._clocks:
            now = self.clock()
            for clock, since in self._clocks.items():
                # What was missed is one tick: there is nothing new to say at the others.
                if (ticks := int((now - since) * 1e9) // clock.period) > 0:
                    self._clocks[clock] = since + ticks * clock.period / 1e9
                    found.append(clock)
        return found

    def signal(self, place: int, signal: Signal) -> None:
        """Hand a signal to the operator at a place, if it hears it."""
        operator = self.operators[place]
        if signal not in self.hearing.get(place, ()):
            return
        assert fits(operator, HearsSignals)
        try:
            operator.signal(signal, self._emits[place])
        except Exception as error:
            locate(error, f"in operator {place} ({self.meters[place].label}), at a signal: {signal}")
            raise

    def learn(self, place: int, counts: Mapping[str, int], highest: int) -> None:
        """Let a source's Input know of tuples that were taken elsewhere."""
        self.inputs[place].learn(counts, highest, self._emits[place])

    def finish(self, place: int) -> None:
        """Say that a source has ended."""
        if (placing := self.placings.get(place)) is not None:
            placing.ended = True
        self.give(place, 0, END)
        self.finished.add(place)

    def give(self, place: int, port: int, element: Element) -> None:
        """Hand an element to the operator at a place; an error is annotated with where it happened."""
        meter = self.meters[place]
        meter.taken(element)
        giver = self._work
        if giver is None and self._regrains:
            self._regrain()
        timed = self.busy.begin(place, self.clock) if giver is None or self.busy.timing else None
        self._work = (place, port, element)
        try:
            deliver(self.operators[place], element, self._emits[place], port)
        except Exception as error:
            locate(error, self._located(place, port, element))
            raise
        finally:
            self._work = giver
            if timed is not None:
                self.busy.end(timed, self.clock)
        if place in self._pruning or (isinstance(element, Punctuation) and element.is_end):
            self._outlasted(place)

    def give_together(self, place: int, port: int, page: Page, promises: Promises) -> None:
        """Hand a page with its promises to the operator at a place, as `give` does an element."""
        operator = self.operators[place]
        assert fits(operator, TakesPromises)
        self.meters[place].taken_together(page, promises)
        giver = self._work
        timed = self.busy.begin(place, self.clock) if giver is None or self.busy.timing else None
        self._work = (place, port, page)
        try:
            operator.process_with(page, promises, self._emits[place], port)
        except Exception as error:
            locate(error, self._located(place, port, page))
            raise
        finally:
            self._work = giver
            if timed is not None:
                self.busy.end(timed, self.clock)

    def give_several(self, place: int, port: int, pages: Sequence[Page]) -> None:
        """Hand pages that follow one another to the lanes at a place, as `give` does one."""
        lanes = self.operators[place]
        assert isinstance(lanes, Lanes)
        self.meters[place].taken_several(pages)
        giver = self._work
        timed = self.busy.begin(place, self.clock) if giver is None or self.busy.timing else None
        self._work = (place, port, pages[0])
        try:
            lanes.several(pages, self._emits[place], port)
        except Exception as error:
            locate(error, self._located(place, port, concatenate(pages[0].schema, pages)))
            raise
        finally:
            self._work = giver
            if timed is not None:
                self.busy.end(timed, self.clock)

    def at_work(self) -> tuple[object, str] | None:
        """Return what an operator is at, and where; None while none is at work. For a look from another thread."""
        work = self._work
        return None if work is None else (work, self._located(*work))

    def _located(self, place: int, port: int, element: Element) -> str:
        meter = self.meters[place]
        where = f"in operator {place} ({meter.label}), port {port}"
        if isinstance(element, Page):
            first = f"; its first tuple: {element.describe(0)}" if len(element) else ""
            return f"{where}, page {meter.pages_in} of {len(element)} tuples{first}"
        return f"{where}, at the punctuation {element}"

    def _emit(self, place: int, consumers: list[tuple[int, int]], outputs: list[int]) -> Emit:
        meter = self.meters[place]
        attribute = watched(self.plan.sources[place].schema) if place in self.plan.sources else None
        targets: list[Callable[[Element], None]] = []
        for reader, port in consumers:
            targets.append(self._handing(reader, port))
        for number in outputs:
            targets.append(self._leaving(place, number))
        only = targets[0] if len(targets) == 1 else None

        feedback = self.feedback

        def emit(element: Element) -> None:
            if attribute is not None and isinstance(element, Page) and attribute in element.schema:
                meter.reached(element, attribute)
            if feedback.disclaimed and isinstance(element, Page):
                element = _wanted(element, feedback.kept(place, element))
                if not len(element):
                    return
            meter.emitted(element)
            if only is not None:
                only(element)
                return
            for target in targets:
                target(element)

        if len(targets) != 1 or not consumers:
            return emit
        reader, port = consumers[0]
        if self.boundary(reader) or not fits(self.operators[reader], TakesPromises):
            return emit

        def together(page: Page, promises: Promises) -> None:
            if attribute is not None and attribute in page.schema:
                meter.reached(page, attribute)
            if feedback.disclaimed and (kept := feedback.kept(place, page)) is not None:
                page, promises = page.select(kept), promises.among(kept)
                if not len(page):
                    for promise in promises.one_by_one(page):
                        emit(promise)
                    return
            meter.emitted_together(page, promises)
            self.give_together(reader, port, page, promises)

        if not isinstance(self.operators[reader], Lanes):
            return Emitting(emit, together)

        def several(pages: Sequence[Page]) -> None:
            if feedback.disclaimed:
                wanted = [_wanted(page, feedback.kept(place, page)) for page in pages]
                pages = [page for page in wanted if len(page)]
                if not pages:
                    return
            for page in pages:
                meter.emitted(page)
            self.give_several(reader, port, pages)

        return EmittingToLanes(emit, together, several)

    def _handing(self, reader: int, port: int) -> Callable[[Element], None]:
        if self.boundary(reader):
            return lambda element: self.crossed(reader, port, element)
        return lambda element: self.give(reader, port, element)

    def _leaving(self, place: int, number: int) -> Callable[[Element], None]:
        def leave(element: Element) -> None:
            if self.feedback.disclaimed and isinstance(element, Page):
                element = _wanted(element, self.feedback.kept_by(number, place, element))
                if not len(element):
                    return
            self.crossed(-1 - number, 0, element)

        return leave

    def progress(self, place: int) -> tuple[int, int | None]:
        """Return how far the reading of a source is, and how far it goes."""
        reader = self.readers.get(place)
        return (0, None) if reader is None else reader.progress()

    def behind(self, place: int) -> int:
        """Return a number, lowest for the source to read next: by arrival where that is recorded, else by promise.

        A source that has promised nothing yet is read first: the others may be waiting for what it says.
        """
        reader = self.readers.get(place)
        if reader is not None and (arrived := reader.arrived()) is not None:
            return arrived
        meter, (attribute, unit) = self.meters[place], self._led(place)
        bound = meter.lwm.get(attribute)
        # Sources may have the time in units of their own.
        return bound * unit if isinstance(bound, int) else -(2**62) + meter.tuples_in

    def _led(self, place: int) -> tuple[str, int]:
        """Return what `_lead` says, kept until finer promises are asked for."""
        lead = self._leading.get(place)  # another thread may ask for finer promises meanwhile
        if lead is None:
            with self._describing:
                lead = self._leading[place] = self._lead(place)
        return lead

    def _lead(self, place: int) -> tuple[str, int]:
        """Return the attribute whose promises say how far a source is, empty for none, and its tick in ns."""
        schema = self.plan.nodes[place].schema
        asked = (
            name for name, pace in self._paces.get(place, {}).items() if not pace.optional and schema.progressing(name)
        )
        attribute = next(asked, None) or watched(schema)
        return ("", 1) if attribute is None else (attribute, tick_ns(schema.field(attribute).type) or 1)

    def statistics(self) -> tuple[OperatorStatistics, ...]:
        """Read all meters."""
        left_out = self.feedback.left_out
        found = enumerate(zip(self.meters, self.operators, strict=False))
        return tuple(OperatorStatistics.of(m, o, disclaimed=left_out[place]) for place, (m, o) in found)

    def notes(self) -> tuple[str, ...]:
        """Return what is to be told of the tuples, and what the readers have to say."""
        read = (note for reader in self.readers.values() for note in reader.notes())
        return (
            *told(self.plan, self.statistics()),
            *behind_keys(self.inputs.values()),
            *wrong_clocks(self.inputs.values()),
            *(note for left_out in self.displays for note in left_out()),
            *(
                f"{self.meters[place].label} was not read to its end: what is behind shows in no result"
                for place in sorted(self._left_early)
            ),
            *read,
        )


def _wanted(page: Page, kept: Bools | None) -> Page:
    return page if kept is None else page.select(kept)


def _admission(operator: Operator, share: int) -> Operator:
    """Return the operator that refuses groups of another beyond so many bytes."""
    # Start-up: few runs refuse groups.
    from operators.window_aggregate.admission import Admission

    return Admission(operator, share)


@attrs.frozen(eq=False)
class Emitting:
    """Hand on what a node emits to the one operator behind it, which takes pages with their promises."""

    one: Emit
    together: Callable[[Page, Promises], None]

    def __call__(self, element: Element) -> None:
        self.one(element)


@attrs.frozen(eq=False)
class EmittingToLanes(Emitting):
    """Hand on what a node emits to the lanes behind it, which take several pages, too."""

    several: Callable[[Sequence[Page]], None]


def locate(error: Exception, where: str) -> None:
    """Note where an error happened, once: what it passes on its way up knows less."""
    notes: list[str] = getattr(error, "__notes__", [])
    if not any(isinstance(note, Location) for note in notes):
        error.add_note(Location(where))


class Location(str):
    """A note that says where an error happened."""

    __slots__ = ()
