"""Run a plan under trio: one bounded inbox a chain of operators, readers in threads, and a clean end whatever happens.

An inbox holds (port, element); upstreams hold clones of its send side, so no operator waits for one particular input
and an acyclic plan cannot deadlock. Order on an edge is first in, first out: a punctuation never overtakes its page.
"""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
import trio

from oop_engine.drive.background import Benches
from oop_engine.drive.circuit import PAGE_ROWS, TICK, Circuit, locate
from oop_engine.drive.limit import Limit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.newest import Newest
from oop_engine.drive.preference import IN_A_ROW
from oop_engine.drive.several import Several
from oop_engine.drive.watchdog import Insistence, Watchdog
from oop_engine.drive.workers import Workers, threads_of
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.sources.demanded_progress import Endless, Holding
from oop_engine.sources.errors import SourceEnded
from oop_engine.sources.protocol import Chunk
from operators.data.page import Page
from operators.protocol import Element

if TYPE_CHECKING:
    from oop_engine.drive.checkpoints.job import Job

INBOX: Final = 8
"""Elements an inbox holds before its upstreams wait."""
_MOMENT: Final = 0.001
"""Seconds between two looks whether consumers are done."""
_PATIENT: Final = 1_000
"""So many looks are taken at most before an error is told."""
_IDLE: Final = 2
"""Steps of the scheduler for which a source that is preferred may have nothing, and still goes first."""
_GATHER: Final = 0.05
"""Seconds that tuples wait for others at most, where a reader gathers them."""
_HANG_UP: Final = getattr(signal, "SIGHUP", None)
"""The signal that the terminal was closed; None where the system has none."""

Deliver: TypeAlias = Callable[[Element], None]
Watch: TypeAlias = Callable[[Circuit], bool | None]
"""Looks at a running circuit; where it returns True, the sources are to end."""
T = TypeVar("T")
_Sender: TypeAlias = "trio.MemorySendChannel[tuple[int, Element]]"
_Arrival: TypeAlias = "Chunk | list[Chunk] | int"
"""A chunk of a source, several, or what the clock says."""


def run_to_end(
    plan: Plan,
    outputs: Sequence[Deliver],
    *,
    page_rows: int = PAGE_ROWS,
    watch: Watch | None = None,
    handle_signals: bool = False,
    job: Job | None = None,
    threads: int | None = None,
    limit: Limit | None = None,
) -> Statistics:
    """Run a plan as `run_plan` does, under a trio loop of its own."""
    if trio.lowlevel.in_trio_run():
        raise PlanError("a trio loop is running here already; await run_async() in it instead of calling run().")
    run = _Run(plan, outputs, page_rows, watch, handle_signals, INBOX, True, job, threads_of(threads), limit)

    async def alone() -> Statistics:
        with Insistence(run.at_work):
            return await _finished(run)

    return trio.run(alone)


async def run_plan(
    plan: Plan,
    outputs: Sequence[Deliver],
    *,
    page_rows: int = PAGE_ROWS,
    watch: Watch | None = None,
    handle_signals: bool = False,
    inbox: int = INBOX,
    waiting: bool = True,
    job: Job | None = None,
    threads: int | None = None,
    limit: Limit | None = None,
) -> Statistics:
    """Run a plan to its end and hand the elements of each output, in order, to its blocking consumer in a thread.

    `watch` is called about ten times a second with the running circuit; once it returns True, the run ends as by the
    first signal. With `handle_signals`, the first SIGINT, SIGTERM or SIGHUP (unless that is ignored) stops the sources
    and lets what was read drain (nothing is promised that the data did not say); a second one, but SIGHUP, raises
    KeyboardInterrupt without waiting for consumers. The error of a failing operator is raised as it is, with a note
    that names operator, page and tuple; a live source that cannot go on ends the run as the first signal does, and
    `ended` of the statistics says why. `waiting=False` calls sources and consumers in the loop itself: for those that
    never wait, and for a simulated clock. A `job` takes checkpoints of the run, and lets it go on from the last one. So
    many `threads` share the work of operators, by default as many as OOP_THREADS says, or one. A
    `limit` bounds what operators hold in memory.
    """
    return await _finished(
        _Run(plan, outputs, page_rows, watch, handle_signals, inbox, waiting, job, threads_of(threads), limit)
    )


async def _finished(run: _Run) -> Statistics:
    """Run to the end, or raise the first error with notes of the others."""
    first: BaseException
    try:
        return await run.go()
    except BaseExceptionGroup as group:
        first, *others = _leaves(group)
    for other in others:
        first.add_note(f"another error came with it: {type(other).__name__}: {other}")
    # Raised out here, so that the group does not become its context.
    try:
        raise first
    finally:
        del first, others


@attrs.define(eq=False)
class _Run:
    plan: Plan
    outputs: Sequence[Deliver]
    page_rows: int
    watch: Watch | None
    handle_signals: bool
    capacity: int
    waiting: bool
    """Whether sources and consumers may wait, and so are called in threads."""
    job: Job | None = None
    threads: int = 1
    """Threads that share the work of operators."""
    limit: Limit | None = None
    """What operators may hold in memory."""
    circuit: Circuit = attrs.field(init=False)
    _workers: Workers = attrs.field(init=False)
    _benches: Benches = attrs.field(init=False, factory=Benches)
    _answering: dict[int, _Answering] = attrs.field(init=False, factory=dict)
    """What takes answers from the background, by the place of the inbox, or source, that feeds those who asked."""
    _handing: dict[int, trio.Lock] = attrs.field(init=False, factory=dict)
    """Lets in one call at a time: by the places of operators that are called from elsewhere, too, and of their feeders.
    """
    _heads: frozenset[int] = attrs.field(init=False)
    _displays: dict[int, Newest] = attrs.field(init=False)
    """By -1 - number, the outputs that need not take all results."""
    _shown: dict[int, trio.MemoryReceiveChannel[tuple[int, Element]]] = attrs.field(init=False, factory=dict)
    """Their inboxes."""
    interrupted: bool = attrs.field(init=False, default=False)
    broken: bool = attrs.field(init=False, default=False)
    """Whether a source failed."""
    ended: SourceEnded | None = attrs.field(init=False, default=None)
    _senders: dict[int, _Sender] = attrs.field(init=False, factory=dict)
    _arrivals: dict[int, trio.MemoryReceiveChannel[_Arrival]] = attrs.field(init=False, factory=dict)
    """What sources bring, by place."""
    _several: dict[int, Several] = attrs.field(init=False, factory=dict)
    """Those that take small chunks of a source that may wait, by place."""
    _unsent: dict[int, list[Chunk]] = attrs.field(init=False, factory=dict)
    """What a task had read or gathered of a source when it was told to end."""
    _sending: dict[int, trio.Lock] = attrs.field(init=False, factory=lambda: defaultdict(trio.Lock))
    """Lets one task at a time send what was gathered of a source, so that nothing overtakes it."""
    _giving: set[int] = attrs.field(init=False, factory=set)
    """The sources whose last chunk is not taken in yet."""
    _outbox: list[tuple[int, int, Element]] = attrs.field(init=False, factory=list)
    _reading: list[Callable[[], None]] = attrs.field(init=False, factory=list)
    """How each of the tasks that read, or tell a source the time, is made to end."""
    _delivering: list[trio.CancelScope] = attrs.field(init=False, factory=list)
    _taking: dict[int, tuple[Element, float]] = attrs.field(init=False, factory=dict)
    """What the consumer of an output is at."""
    _inside: int = attrs.field(init=False, default=0)
    """Elements that were sent to operators and not worked off."""
    _outside: int = attrs.field(init=False, default=0)
    """Elements that were sent to consumers and not taken."""
    _feeding: int = attrs.field(init=False, default=0)
    """Tasks that feed the operators, but those that wait for a reader, or until a cut was taken."""
    _intakes: int = attrs.field(init=False, default=0)
    """Tasks that take in what sources give."""
    _cutting: trio.Event | None = attrs.field(init=False, default=None)
    """Set when the cut that is being taken was taken."""
    _committing: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    def __attrs_post_init__(self) -> None:
        if len(self.outputs) != len(self.plan.outputs):
            raise PlanError(
                f"the plan has {len(self.plan.outputs)} outputs and {len(self.outputs)} consumers were given"
            )
        self._heads = _heads(self.plan)
        self._displays = {-1 - n: deliver for n, deliver in enumerate(self.outputs) if isinstance(deliver, Newest)}
        self._workers = Workers(self.threads)
        self.circuit = Circuit(
            self.plan,
            self.page_rows,
            boundary=self._heads.__contains__,
            crossed=lambda *crossing: self._outbox.append(crossing),
            threads=self.threads,
            at_once=self._workers.at_once,
            background=self._benches.bench,
            limit=self.limit,
        )
        for target, display in self._displays.items():
            self.circuit.displays.append(partial(display.notes, self.plan.outputs[-1 - target].label))

    async def go(self) -> Statistics:
        started = time.perf_counter()
        consumers = [partial(self._consuming, number) for number in range(len(self.outputs))]
        with self._workers, self._benches, self.circuit, Watchdog.of(self.circuit, *consumers):
            async with trio.open_nursery() as around:
                if self.handle_signals:
                    await around.start(self._obey_signals, around.cancel_scope)
                if self.watch is not None:
                    around.start_soon(self._report, self.watch)
                try:
                    await self._call(self._prepare)
                except trio.Cancelled:
                    self.circuit.stop()
                    raise
                async with trio.open_nursery() as nursery:
                    self._start(nursery)
                    if self.job is not None:
                        around.start_soon(self._checkpointing, self.job)
                if self.job is not None:
                    self.job.ending = True
                    await self._checkpoint(self.job, ended=not self.interrupted)
                around.cancel_scope.cancel()
        return Statistics(
            self.circuit.statistics(),
            (*self.circuit.notes(), *(() if self.job is None else self.job.notes())),
            time.perf_counter() - started,
            self.interrupted,
            self.ended,
            self.circuit.refused(),
        )

    def _prepare(self) -> None:
        if self.job is not None:
            self.job.place(self.circuit)
        self.circuit.prepare()
        if self.job is not None:
            self.job.restore(self.circuit)

    async def _checkpointing(self, job: Job) -> None:
        while True:
            await trio.sleep(job.every)
            await self._checkpoint(job)

    async def _checkpoint(self, job: Job, *, ended: bool = False) -> None:
        """Take a cut of the run, and commit it while the run goes on.

        All operators run in this thread, so a run that is empty of elements under way is what aligned barriers would
        find: all that a source gave is in the state of operators or with the consumers, and nothing else is.
        """
        async with self._committing:
            if job.unfinished:  # it failed, and its error is on the way
                return
            self._cutting = trio.Event()
            for placing in self.circuit.placings.values():
                placing.ask()
            try:
                while self._feeding or self._inside or self._outside or self.circuit.awaits(self.circuit.placings):
                    await (trio.lowlevel.checkpoint() if not self._delivering else trio.sleep(_MOMENT))
                cut = job.take(self.circuit, ended=ended)
            finally:
                self._cutting.set()
                self._cutting = None
            if self.waiting:
                await trio.to_thread.run_sync(job.commit, cut)
            else:
                job.commit(cut)
            if job.last.epoch == cut.epoch:
                self.circuit.committed = time.monotonic()

    async def _wait(self, arrivals: trio.MemoryReceiveChannel[_Arrival]) -> _Arrival:
        """Receive what a reader brings, which does not keep a cut from being taken."""
        self._feeding -= 1
        try:
            return await arrivals.receive()
        finally:
            self._feeding += 1

    async def _stand_still(self, places: Iterable[int]) -> None:
        """Wait until a cut is taken, unless one of these sources has yet to give its state for it.

        Meanwhile nothing is given to operators from here.
        """
        if self.circuit.awaits(places):
            return
        self._feeding -= 1
        while self._cutting is not None:
            await self._cutting.wait()
        self._feeding += 1

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call what may wait, in a thread that is left behind when nobody wants the answer any more."""
        if not self.waiting:
            return function(*arguments)
        return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)

    def at_work(self) -> tuple[object, str] | None:
        """Return what an operator or a consumer is at, and where; None where none is."""
        return self.circuit.at_work() or next(
            (work for n in range(len(self.outputs)) if (work := self._consuming(n))), None
        )

    def _consuming(self, number: int) -> tuple[object, str] | None:
        """Return what the consumer of an output was given and has not come back from."""
        taking = self._taking.get(number)
        if taking is None:
            return None
        element, _ = taking
        what = f"a page of {len(element)} tuples" if isinstance(element, Page) else f"the punctuation {element}"
        return (
            element,
            f"in the consumer of output {number} ({self.plan.outputs[number].label}), which was given {what}",
        )

    def _pressing(self, inboxes: Mapping[int, trio.MemoryReceiveChannel[tuple[int, Element]]]) -> dict[int, float]:
        """Return the outputs for whose consumers others wait, and for how many seconds each is at one element."""
        found: dict[int, float] = {}
        for number in range(len(self.outputs)):
            taking = self._taking.get(number)
            if taking is not None and inboxes[-1 - number].statistics().tasks_waiting_send:
                found[number] = time.monotonic() - taking[1]
        return found

    def _start(self, nursery: trio.Nursery) -> None:
        inboxes, heads = {}, self._heads
        for place in [*heads, *(-1 - i for i in range(len(self.outputs)))]:
            send, receive = trio.open_memory_channel[tuple[int, Element]](self.capacity)
            self._senders[place] = send
            inboxes[place] = receive
            if place in self._displays:
                self._shown[place] = receive
        self.circuit.queued = partial(_queued, inboxes)
        self.circuit.pressing = partial(self._pressing, inboxes)
        self._find_answering()
        for place in heads:
            nursery.start_soon(self._operate, place, inboxes[place], self._clones([place]))
        for number, deliver in enumerate(self.outputs):
            nursery.start_soon(self._consume, number, deliver, inboxes[-1 - number])
        patient: list[tuple[int, trio.MemoryReceiveChannel[_Arrival]]] = []
        for place in self.plan.sources:
            if (placing := self.circuit.placings.get(place)) is not None and placing.ended:
                if place in self._answering:
                    nursery.start_soon(self._only_answers, place, self._clones([place]))
                continue
            send, receive = trio.open_memory_channel[_Arrival](1)
            self._arrivals[place] = receive
            nursery.start_soon(self._read, place, send.clone())
            if self.circuit.timed(place):
                nursery.start_soon(self._tick, place, send.clone())
            send.close()
            if self.plan.sources[place].source.rewindable:
                patient.append((place, receive))
            else:
                self._feeding, self._intakes = self._feeding + 1, self._intakes + 1
                nursery.start_soon(self._intake, [(place, receive)], self._clones([place]))
        if patient:
            self._feeding, self._intakes = self._feeding + 1, self._intakes + 1
            nursery.start_soon(self._intake, patient, self._clones(p for p, _ in patient))
        if self.circuit.hearing:
            for place in self.circuit.hearing:
                self._fed_by(place)
            nursery.start_soon(self._tell_signals, self._clones(self.circuit.hearing))
        for send in self._senders.values():
            send.close()

    def _clones(self, places: Iterable[int]) -> dict[int, _Sender]:
        """Return send sides of the inboxes that the operators at these places reach without crossing another.

        No others: an inbox ends when its last sender has, and a task that held a sender upstream of itself would wait
        for its own end.
        """
        consumers, outputs = self.plan.consumers(), self.plan.output_numbers()
        found: dict[int, _Sender] = {}
        reached = list(places)
        for place in reached:
            targets = [reader for reader, _ in consumers[place]]
            targets += [-1 - number for number in outputs.get(place, [])]
            for target in targets:
                if target not in self._senders:
                    reached.append(target)
                elif target not in found:
                    found[target] = self._senders[target].clone()
        return found

    async def _read(self, place: int, send: trio.MemorySendChannel[_Arrival]) -> None:
        """Read a source in a thread, one chunk ahead of who takes it in."""
        async with send:
            with trio.CancelScope() as scope:
                self._reading.append(scope.cancel)
                if self.interrupted:
                    return
                try:
                    await self._bring(place, send, scope)
                    await self._hand_on(place, send)
                except SourceEnded as error:
                    self.ended = self.ended or error
                    self._interrupt()
                except BaseException:
                    # Its inbox now ends, but the stream does not: nothing may be released for that.
                    self.broken = True
                    raise
            if self.interrupted:
                # What the reader had gathered was read.
                await self._hand_on(place, send)

    async def _bring(self, place: int, send: trio.MemorySendChannel[_Arrival], scope: trio.CancelScope) -> None:
        """Open a source and send its chunks."""
        chunks = await self._call(self.circuit.open, place)
        reader = self.circuit.readers[place]
        endless = isinstance(reader, Endless)
        if isinstance(reader, Endless):
            # What has arrived is read to its end; nobody else has it.
            self._reading[self._reading.index(scope.cancel)] = reader.stop
        if self.waiting and self.plan.sources[place].source.rewindable:
            await self._call(self._read_on, place, chunks, send)
            return
        if not self.waiting or (endless and not isinstance(reader, Holding)):
            while (endless or not self.interrupted) and (chunk := await self._call(_next, chunks)) is not None:
                await send.send(chunk)
            return
        if not isinstance(reader, Holding):
            await self._bring_several(place, Several(chunks), send)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._gather, place, send)
            while not self.interrupted and (chunk := await self._call(_next, chunks)) is not None:
                await send.send(chunk)
            nursery.cancel_scope.cancel()

    async def _bring_several(self, place: int, several: Several, send: trio.MemorySendChannel[_Arrival]) -> None:
        """Send small chunks of a source several at a time; what waits for others is sent, too, if they do not come."""
        self._several[place] = several
        failed: Exception | None = None
        async with trio.open_nursery() as nursery:
            while not self.interrupted:
                if several.together and not nursery.child_tasks:
                    nursery.start_soon(self._gather, place, send)
                try:
                    chunk = await self._call(several.next)
                except Exception as error:
                    # It is the source's, and no group of errors.
                    failed = error
                    break
                if chunk is None:
                    break
                several.taken(at_once=await self._sent(place, send, chunk if isinstance(chunk, list) else [chunk]))
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed

    def _read_on(self, place: int, chunks: Iterator[Chunk], send: trio.MemorySendChannel[_Arrival]) -> None:
        """Read a file to its end in this thread, so that a chunk is read while the one before it is worked on.

        If the loop asked for each, or a task of it sent them, that would wait until the chunk before was worked off.
        """
        while not self.interrupted:
            try:
                chunk = _next(chunks)
            except Exception:
                trio.from_thread.run(self._taken_in, place)
                raise
            if chunk is None:
                return
            try:
                trio.from_thread.run_sync(send.send_nowait, chunk)
            except trio.WouldBlock:
                trio.from_thread.run(send.send, chunk)

    async def _taken_in(self, place: int) -> None:
        """Wait until what a source gave is worked off, as it would be if nothing were read ahead of an error.

        Consumers have a while to take what came of it: others may go on to give them something.
        """
        while place in self._giving or self._arrivals[place].statistics().current_buffer_used:
            await trio.sleep(_MOMENT)
        for _ in range(_PATIENT):
            if not (self._inside or self._outside):
                return
            await trio.sleep(_MOMENT)

    async def _gather(self, place: int, send: trio.MemorySendChannel[_Arrival]) -> None:
        """Send what a reader has gathered while it waits for more."""
        while True:
            await trio.sleep(_GATHER)
            await self._hand_on(place, send)

    async def _hand_on(self, place: int, send: trio.MemorySendChannel[_Arrival]) -> None:
        """Send what a reader has gathered, in one piece: nothing that it gives later comes between."""
        async with self._sending[place]:
            several = self._several.get(place)
            gathered = self._unsent.pop(place, [])
            gathered += self.circuit.at_hand(place) if several is None else several.at_hand()
            if gathered:
                try:
                    await send.send(gathered)
                except trio.Cancelled:
                    self._unsent[place] = gathered + self._unsent.get(place, [])
                    raise

    async def _sent(self, place: int, send: trio.MemorySendChannel[_Arrival], chunks: list[Chunk]) -> bool:
        """Send chunks behind what others send; give whether that was possible at once."""
        lock = self._sending[place]
        if not lock.locked():
            try:
                send.send_nowait(chunks)
            except trio.WouldBlock:
                pass
            else:
                return True
        try:
            async with lock:
                await send.send(chunks)
        except trio.Cancelled:
            self._unsent.setdefault(place, []).extend(chunks)
            raise
        return False

    async def _tick(self, place: int, send: trio.MemorySendChannel[_Arrival]) -> None:
        """Call the timer of a source through its inbox, so that an assumed promise keeps its place in the stream."""
        with trio.CancelScope() as scope:
            self._reading.append(scope.cancel)
            async with send:
                while send.statistics().open_send_channels > 1:
                    await trio.sleep(TICK)
                    now = time.time_ns()
                    # What came before is not overtaken.
                    await self._hand_on(place, send)
                    await send.send(self.circuit.reached(place, now))

    async def _tell_signals(self, clones: dict[int, _Sender]) -> None:
        """Hand the signals that are due to operators, until no source is read any more."""
        while self._intakes:
            await trio.sleep(TICK)
            if self._cutting is not None:
                continue
            self._feeding += 1
            for due in self.circuit.due():
                for place in self.circuit.hearing:
                    await self._hand(clones, self.circuit.signal, place, due)
            self._feeding -= 1
        for clone in clones.values():
            clone.close()

    async def _intake(
        self, sources: list[tuple[int, trio.MemoryReceiveChannel[_Arrival]]], clones: dict[int, _Sender]
    ) -> None:
        """Feed what readers bring; of several files, the one that is furthest behind in its own time comes next."""
        circuit = self.circuit
        live = dict(sources)
        pages: dict[int, Iterator[Element]] = {}
        async with self._with_answers(dict(sources), clones, feeding=1):
            while live:
                if len(live) > 1:
                    await self._settled()
                if self._cutting is not None:
                    await self._stand_still(live)
                place = circuit.preference.next_of(live) if len(live) > 1 else next(iter(live))
                page = next(pages.get(place, iter(())), None)
                if page is not None:
                    await trio.lowlevel.checkpoint()
                    await self._give_way(live)
                    await self._give(clones, place, page)
                    continue
                pages.pop(place, None)
                self._giving.discard(place)
                try:
                    chunk = await self._wait(live[place])
                except trio.EndOfChannel:
                    del live[place]
                    if not self.interrupted and not self.broken:
                        await self._hand(clones, circuit.finish, place)
                    continue
                self._giving.add(place)
                await self._give_way(live)
                if self._cutting is not None:
                    await self._stand_still(live)
                if isinstance(chunk, int):
                    await self._hand(clones, circuit.elapse, place, chunk)
                    continue
                chunks = chunk if isinstance(chunk, list) else [chunk]
                rest = chain.from_iterable(map(partial(circuit.pages, place), chunks))
                # Receiving was a step of the scheduler, so the first page needs none; most chunks have no other.
                if (page := next(rest, None)) is not None:
                    await self._give(clones, place, page)
                    pages[place] = rest
        self._feeding -= 1
        self._intakes -= 1
        for clone in clones.values():
            clone.close()

    async def _give_way(self, places: Iterable[int]) -> None:
        """Let sources that are preferred to these go first while they have something, for so many steps at most.

        A reader needs some steps to bring the next chunk.
        """
        idle = 0
        for _ in range(IN_A_ROW if self.circuit.preference else 0):
            before = self.circuit.preference.before(places)
            if any(place in self._giving or self._arrivals[place].statistics().current_buffer_used for place in before):
                idle = 0
            elif (idle := idle + 1) > _IDLE:
                return
            await trio.lowlevel.checkpoint()

    async def _give(self, clones: dict[int, _Sender], place: int, page: Element) -> None:
        """Hand a page of a source to its operator, and wait until there is room for another."""
        await self._hand(clones, self.circuit.give, place, 0, page)
        await self._room(place, feeding=1)

    def _find_answering(self) -> None:
        """Find who feeds each operator that has calls made in the background: one inbox, or one source."""
        for place in self.circuit.deferring:
            root, handing = self._fed_by(place)
            self._answering.setdefault(root, _Answering(handing)).places.append(place)
        if self._answering:
            token = trio.lowlevel.current_trio_token()
            self._benches.came = partial(token.run_sync_soon, self._tell_answers, idempotent=True)
            # A run that goes on has asked already.
            self._tell_answers()

    def _fed_by(self, place: int) -> tuple[int, trio.Lock]:
        """Return who feeds an operator that is called from elsewhere, too, and what lets one of these calls in."""
        way = [place]
        while way[-1] not in self._heads and way[-1] not in self.plan.sources:
            way += self.plan.inputs[way[-1]]
        handing = self._handing.get(way[-1]) or trio.Lock()
        self._handing |= dict.fromkeys(way, handing)
        return way[-1], handing

    def _tell_answers(self) -> None:
        for answering in self._answering.values():
            answering.came.set()

    @asynccontextmanager
    async def _with_answers(
        self, roots: Iterable[int], clones: dict[int, _Sender], *, feeding: int = 0
    ) -> AsyncGenerator[None, None]:
        """Take answers meanwhile, and in the end wait for those that are outstanding."""
        found = [self._answering[root] for root in roots if root in self._answering]
        if not found:
            yield
            return
        async with trio.open_nursery() as nursery:
            for answering in found:
                nursery.start_soon(self._take_answers, answering, clones)
            yield
            self._feeding -= feeding
            for answering in found:
                while self.circuit.outstanding(answering.places):
                    await answering.taken.wait()
                async with answering.handing:
                    # What follows from the last answer was sent.
                    pass
            self._feeding += feeding
            nursery.cancel_scope.cancel()

    async def _only_answers(self, root: int, clones: dict[int, _Sender]) -> None:
        """Take the answers about what a source gave before the checkpoint, which has ended."""
        async with self._with_answers([root], clones):
            pass
        for clone in clones.values():
            clone.close()

    async def _take_answers(self, answering: _Answering, clones: dict[int, _Sender]) -> None:
        while True:
            await answering.came.wait()
            answering.came = trio.Event()
            self._feeding += 1
            for place in answering.places:
                await self._hand(clones, self.circuit.take_answers, place)
            self._feeding -= 1
            answering.taken.set()
            answering.taken = trio.Event()

    async def _room(self, root: int, *, feeding: int = 0) -> None:
        """Wait until the operators that a place feeds have no more tuples without an answer than they should.

        They are in the state of the operators, so a cut may be taken meanwhile.
        """
        answering = self._answering.get(root)
        if answering is None or not self.circuit.crowded(answering.places):
            return
        self._feeding -= feeding
        try:
            while self.circuit.crowded(answering.places):
                await answering.taken.wait()
        finally:
            self._feeding += feeding

    async def _settled(self) -> None:
        """Let operators take what is in their inboxes, so that what they hold says how far sources may go on.

        One that waits for its consumer keeps nobody waiting: its inbox does that when it is full.
        """
        for _ in range(2 * len(self._heads)):
            if not self._inside:
                return
            await trio.lowlevel.checkpoint()

    async def _operate(
        self, place: int, inbox: trio.MemoryReceiveChannel[tuple[int, Element]], clones: dict[int, _Sender]
    ) -> None:
        async with self._with_answers([place], clones):
            async for first in inbox:
                for port, element in (first, *_waiting(inbox)):
                    await self._hand(clones, self.circuit.give, place, port, element)
                    self._inside -= 1
                    await self._room(place)
        for clone in clones.values():
            clone.close()

    async def _hand(
        self, clones: dict[int, _Sender], call: Callable[..., object], place: int, *arguments: object
    ) -> None:
        """Hand something to operators, and send what they emit to others; of a call that fails, nothing is sent."""
        if (handing := self._handing.get(place)) is None:
            await self._hand_over(clones, call, place, *arguments)
            return
        # What comes of an answer, or a signal, must not pass what was emitted before and waits for room in an inbox.
        async with handing:
            await self._hand_over(clones, call, place, *arguments)

    async def _hand_over(
        self, clones: dict[int, _Sender], call: Callable[..., object], place: int, *arguments: object
    ) -> None:
        while True:
            try:
                more = call(place, *arguments)
            finally:
                crossed, self._outbox = self._outbox, []
            for target, port, element in crossed:
                # Who sends is counted itself until all is sent.
                if target < 0:
                    self._outside += 1
                else:
                    self._inside += 1
                # Most inboxes have room; a step of the scheduler for each element would cost more than the element.
                try:
                    clones[target].send_nowait((port, element))
                except trio.WouldBlock:
                    if target in self._displays:
                        self._overtake(clones[target], target, element)
                    await clones[target].send((port, element))
            # Without a limit, nothing is ever left of a call.
            if self.limit is None or (call == self.circuit.go_on and not more):
                return
            call, arguments = self.circuit.go_on, ()

    def _overtake(self, send: _Sender, target: int, came: Element) -> None:
        """Leave out what waits for a display and is older than what has come, and disclaim it."""
        display, inbox = self._displays[target], self._shown[target]
        if inbox.statistics().tasks_waiting_send:
            # What another task waits with comes behind what is in the inbox.
            return
        waiting = [element for _, element in _waiting(inbox)]
        kept = display.overtaken(came, waiting)
        for element in kept:
            send.send_nowait((0, element))
        self._outside -= len(waiting) - len(kept)
        if display.bound is not None:
            self.circuit.disclaim(-1 - target, display.unwanted(display.bound))

    async def _consume(
        self, number: int, deliver: Deliver, inbox: trio.MemoryReceiveChannel[tuple[int, Element]]
    ) -> None:
        """Hand elements to a consumer, which is never disturbed while it takes them, but by the second signal."""
        async for first in inbox:
            elements = [element for _, element in (first, *_waiting(inbox))]
            try:
                if self.waiting:
                    with trio.CancelScope(shield=True) as scope:
                        self._delivering.append(scope)
                        await trio.to_thread.run_sync(self._deliver, number, deliver, elements, abandon_on_cancel=True)
                    self._delivering.remove(scope)
                else:
                    self._deliver(number, deliver, elements)
                self._outside -= len(elements)
            except Exception as error:
                locate(error, f"while output {number} of the plan was written")
                raise

    def _deliver(self, number: int, deliver: Deliver, elements: Sequence[Element]) -> None:
        for element in elements:
            self._taking[number] = element, time.monotonic()
            deliver(element)
        del self._taking[number]

    async def _report(self, watch: Watch) -> None:
        while True:
            if watch(self.circuit) and not self.interrupted:
                self._interrupt()
            await trio.sleep(0.1)

    async def _obey_signals(
        self, everything: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(*_signals()) as signals:
            task_status.started()
            async for number in signals:
                if self.interrupted and number == _HANG_UP:
                    # The system and the shell both say it: nobody asks a second time.
                    continue
                if self.interrupted:
                    for scope in self._delivering:
                        scope.cancel()
                    raise KeyboardInterrupt
                if not self._reading:
                    everything.cancel()
                self._interrupt()

    def _interrupt(self) -> None:
        """End the readings, and nothing more."""
        self.interrupted = True
        for end in self._reading:
            end()


@attrs.define(eq=False)
class _Answering:
    """Operators that one task feeds and that have calls made in the background."""

    handing: trio.Lock
    """Held while one of them, or one before them, is given something, and until what comes of it was sent."""
    places: list[int] = attrs.field(init=False, factory=list)
    came: trio.Event = attrs.field(init=False, factory=trio.Event)
    """Set when an answer has come."""
    taken: trio.Event = attrs.field(init=False, factory=trio.Event)
    """Set when answers were taken, and another one then."""


def _heads(plan: Plan) -> frozenset[int]:
    """Return the places whose operators get an inbox: several inputs, or an upstream with several readers."""
    consumers, outputs = plan.consumers(), plan.output_numbers()
    shared = {reader for readers in consumers.values() if len(readers) > 1 for reader, _ in readers}
    tapped = {reader for place in outputs for reader, _ in consumers[place]}
    several = {i for i, node in enumerate(plan.nodes) if len(node.inputs) > 1}
    return frozenset(shared | several | tapped)


def _signals() -> list[signal.Signals]:
    """Return the signals that end a run; who was started to outlast its terminal (nohup) ignores that it hangs up."""
    ending = [signal.SIGINT, signal.SIGTERM]
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN:
        ending.append(_HANG_UP)
    return ending


def _waiting(inbox: trio.MemoryReceiveChannel[tuple[int, Element]]) -> list[tuple[int, Element]]:
    """Take out what is in an inbox now, so that one step of the scheduler serves for all of it."""
    return [inbox.receive_nowait() for _ in range(inbox.statistics().current_buffer_used)]


def _queued(inboxes: Mapping[int, trio.MemoryReceiveChannel[tuple[int, Element]]]) -> dict[int, int]:
    """Count the elements in each inbox."""
    return {place: inbox.statistics().current_buffer_used for place, inbox in inboxes.items()}


def _next(chunks: Iterator[Chunk]) -> Chunk | None:
    return next(chunks, None)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the errors of a group, in order; cancellation is no error where there are others."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return [error for error in found if not isinstance(error, trio.Cancelled)] or found[:1]
