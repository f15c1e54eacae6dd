"""Run a plan in the calling thread, without a runtime: for tests, notebooks, and workers that bring their own.

Where a source makes promises by the clock, or one of several may keep one waiting, the sources that come only once are
read in threads: time goes on, and the others come in, while they do. Operators run in the calling thread all the same.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import attrs

from oop_engine.drive.background import Benches
from oop_engine.drive.circuit import PAGE_ROWS, TICK, Circuit
from oop_engine.drive.limit import Limit
from oop_engine.drive.readings import Readings
from oop_engine.drive.watchdog import Watchdog
from oop_engine.plan.graph import Plan
from oop_engine.sources.demanded_progress import Endless
from oop_engine.sources.protocol import Chunk, KeepsWaiting
from operators.data.page import Page
from operators.protocol import Element


@attrs.define(eq=False)
class Run:
    """Yield the elements of a plan's outputs as they appear; the source that is furthest behind is read next."""

    plan: Plan
    page_rows: int = PAGE_ROWS
    limit: Limit | None = None
    """What operators may hold in memory."""
    circuit: Circuit = attrs.field(init=False)
    ended: bool = attrs.field(init=False, default=False)
    """Whether all sources have ended; elements may still be taken."""
    _ready: deque[tuple[int, Element]] = attrs.field(init=False, factory=deque)
    _benches: Benches = attrs.field(init=False, factory=Benches)

    def __attrs_post_init__(self) -> None:
        self.circuit = Circuit(
            self.plan, self.page_rows, crossed=self._cross, limit=self.limit, background=self._benches.bench
        )

    def _cross(self, place: int, port: int, element: Element) -> None:
        self._ready.append((-1 - place, element))

    def __iter__(self) -> Iterator[tuple[int, Element]]:
        """Yield (output number, element) until all sources have ended."""
        with self._benches, self.circuit as circuit, Watchdog.of(circuit):
            circuit.prepare()
            places = list(self.plan.sources)
            timed = [place for place in places if circuit.timed(place)]
            waits = circuit.ticks and not all(self.plan.sources[place].source.rewindable for place in places)
            # Who fills the other sources may wait for them to be read.
            sources = [self.plan.sources[place].source for place in places]
            waits |= len(places) > 1 and any(isinstance(one, KeepsWaiting) and one.waits for one in sources)
            if timed or waits:
                yield from self._by_the_clock(circuit, places, timed)
                yield from self._answered(ended=True)
                return
            live = {place: circuit.open(place) for place in places}
            pages: dict[int, Iterator[Element]] = {}
            while live:
                place = circuit.preference.next_of(live) if len(live) > 1 else next(iter(live))
                page = next(pages.get(place, iter(())), None)
                if page is None:
                    chunk = next(live[place], None)
                    if chunk is None:
                        del live[place]
                        self.ended = not live
                        circuit.finish(place)
                    else:
                        pages[place] = circuit.pages(place, chunk)
                        page = next(pages[place], None)
                if page is not None:
                    circuit.give(place, 0, page)
                yield from self._taken(place)
                yield from self._signalled()
                yield from self._answered()
            yield from self._answered(ended=True)

    def _by_the_clock(self, circuit: Circuit, places: list[int], timed: list[int]) -> Iterator[tuple[int, Element]]:
        """Read what comes, and tell the time meanwhile; files are read when nothing else has come."""
        with Readings() as readings:
            files: dict[int, Iterator[Chunk]] = {}
            live = set(places)
            for place in places:
                if circuit.plan.sources[place].source.rewindable:
                    files[place] = circuit.open(place)
                else:
                    readings.start(place, partial(circuit.open, place))
            due = time.monotonic() + TICK
            try:
                while live:
                    if time.monotonic() >= due:
                        due = time.monotonic() + TICK
                        for place in timed:
                            if place in live:
                                self._tell_the_time(circuit, place, readings.since(place))
                                yield from self._taken(place)
                        yield from self._signalled()
                        yield from self._answered()
                    wait = 0.0 if files else max(0.0, due - time.monotonic())
                    arrived = readings.take(wait, circuit.preference.next_heard)
                    if arrived is None and files:
                        place = circuit.preference.next_of(files)
                        arrived = place, next(files[place], None)
                    if arrived is None:
                        continue
                    place, read = arrived
                    if isinstance(read, BaseException):
                        raise read
                    if read is None:
                        live.discard(place)
                        files.pop(place, None)
                        self.ended = not live
                        circuit.finish(place)
                        yield from self._taken(place)
                        continue
                    for page in circuit.pages(place, read):
                        circuit.give(place, 0, page)
                        yield from self._taken(place)
                        yield from self._signalled()
                        yield from self._answered()
            finally:
                for reader in circuit.readers.values():
                    if isinstance(reader, Endless):
                        reader.stop()

    def _tell_the_time(self, circuit: Circuit, place: int, since: int | None) -> None:
        """Promise by the clock, behind all tuples that came before; those that came `since` are not taken yet."""
        now = time.time_ns()
        for chunk in circuit.at_hand(place):
            for page in circuit.pages(place, chunk):
                circuit.give(place, 0, page)
        circuit.elapse(place, circuit.reached(place, now if since is None else min(now, since)))

    def _signalled(self) -> Iterator[tuple[int, Element]]:
        """Hand the signals that are due to operators, and yield what comes of it."""
        hearing = self.circuit.hearing
        while hearing and (due := self.circuit.due()):
            # Whoever takes the results may fire an event by it, which comes before the next tuple.
            for signal in due:
                for place in hearing:
                    self.circuit.signal(place, signal)
                    yield from self._taken(place)

    def _answered(self, *, ended: bool = False) -> Iterator[tuple[int, Element]]:
        """Take the answers from the background, and yield what comes of them.

        Wait for some where an operator should get no more, and for all when the sources have `ended`.
        """
        circuit = self.circuit
        while places := circuit.deferring:
            for place in places:
                circuit.take_answers(place)
                yield from self._taken(place)
            if not circuit.crowded(places) and not (ended and circuit.outstanding(places)):
                return
            self._benches.wait()

    def _taken(self, place: int) -> Iterator[tuple[int, Element]]:
        """Yield what came of a call at a place."""
        while True:
            while self._ready:
                yield self._ready.popleft()
            if not self.circuit.go_on(place):
                return

    def leave_out(self, kept: Callable[[Page], Page]) -> None:
        """Let the pages that were computed and not yet taken be what is kept of them."""
        ready = [(n, kept(element) if isinstance(element, Page) else element) for n, element in self._ready]
        self._ready = deque((n, element) for n, element in ready if not isinstance(element, Page) or len(element))
