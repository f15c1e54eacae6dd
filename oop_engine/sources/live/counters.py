"""Read the interface counters that agents of sFlow send, as they come: a tuple an interface and sample.

Their time is when their datagram came, as the kernel says, so the stream is as good as in order: it promises the
present less a moment, also while nothing comes, and less when something waits in a socket that was not read yet.
Samples that do not come are counted by their numbers.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.arrival import Clock
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.counter_samples import let_in
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import Networks, network_numbers
from oop_engine.sources.flows.interface_counters import COUNTER_SCHEMA, columns_of, counter_rows, counter_troubles
from oop_engine.sources.live.address import Listening, addresses_text, check_open
from oop_engine.sources.live.door import BUFFER, Door, listening_at
from oop_engine.sources.live.exporters import SECOND
from oop_engine.sources.live.lost_samples import LostSamples, count_missing
from oop_engine.sources.live.reading import ClockPromises, Live, LiveReading
from oop_engine.sources.live.report import utc
from oop_engine.sources.live.resumption import Resumption, taking_up
from oop_engine.sources.live.steps import Step
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.turn import Turn
from operators.data.saved import part, prefixed, read_int, read_integers
from operators.protocol import State, StateValue
from punctuation import NO_TIME

TICK: Final = 0.1
_STRAY: Final = 1_000_000
"""Nanoseconds by which datagrams may be stamped out of order."""
_SAMPLES: Final = "samples."
_LEAST_SKB: Final = 512
"""Bytes that a datagram takes of the receive buffer, at least."""
Opened: TypeAlias = "Callable[[LiveCounterReader], None]"


@attrs.frozen(eq=False)
class LiveCounters(Live):
    """The interface counters that come to UDP addresses, or to sockets that are bound already.

    `allow` are networks from which agents may send; without, only loopback is listened on, unless `anyone` may.
    `buffer` and `sockets` are those of each address, see `LiveFlows`. The stream ends after `lasting` ns or `most`
    datagrams, if either is given. `opened` is called with the reader, in its thread, when its sockets are bound.
    `clock` gives ns since 1970; without, the kernel's says when each datagram came.
    """

    listen: tuple[socket.socket | Listening, ...] = attrs.field(converter=tuple)
    allow: Networks | None = attrs.field(default=None, kw_only=True)
    anyone: bool = attrs.field(default=False, kw_only=True)
    buffer: int = attrs.field(default=BUFFER, kw_only=True, validator=attrs.validators.ge(1))
    sockets: int = attrs.field(default=1, kw_only=True, validator=attrs.validators.ge(1))
    lasting: int | None = attrs.field(default=None, kw_only=True)
    most: int | None = attrs.field(default=None, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    opened: Opened | None = attrs.field(default=None, kw_only=True)
    clock: Clock = attrs.field(default=time.time_ns, kw_only=True)
    _where: tuple[Listening, ...] = attrs.field(init=False, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    def __attrs_post_init__(self) -> None:
        where = tuple(one if isinstance(one, Listening) else listening_at(one) for one in self.listen)
        object.__setattr__(self, "_where", where)
        for one in where:
            check_open(one, allowed=self.allow is not None, anyone=self.anyone)
            if one.is_stream:
                raise SourceError(
                    f"counters of sFlow come in datagrams, and {one} takes connections; write the address alone."
                )

    @property
    def name(self) -> str:
        return self.label or f"counters at {addresses_text(self._where)}"

    @property
    def lasting_name(self) -> str:
        return self.label or "counters"

    @property
    def arrow(self) -> pa.Schema:
        return COUNTER_SCHEMA

    def open(self, columns: Sequence[str], batch_rows: int) -> LiveCounterReader:
        self._turn.take(self.name)
        return LiveCounterReader(self, pa.schema([field for field in COUNTER_SCHEMA if field.name in columns]))


@attrs.define(eq=False)
class LiveCounterReader(LiveReading):
    """One reading of counters. `stop`, `poll` and `describe` are for other threads than the one that reads.

    With a placing (`go_on`) it goes on from a checkpoint and its journal, as a reading of flows does; see `Resumption`.
    """

    source: LiveCounters
    schema: pa.Schema
    door: Door | None = attrs.field(init=False, default=None)
    counts: NDArray[np.int64] = attrs.field(init=False, factory=lambda: np.zeros(4, np.int64))
    refused: int = attrs.field(init=False, default=0)
    """Datagrams of senders that are not allowed."""
    _promises: ClockPromises = attrs.field(init=False, factory=lambda: ClockPromises(_STRAY))
    _samples: LostSamples = attrs.field(init=False, factory=LostSamples)
    _resumption: Resumption | None = attrs.field(init=False, default=None)
    _began: int = attrs.field(init=False, default=0)
    """When it began to listen."""
    _over: bool = attrs.field(init=False, default=False)

    def chunks(self) -> Iterator[Chunk]:
        """Yield what comes, and what is promised; nothing, an empty batch, ten times a second in between."""
        self._warm()
        source, nothing = self.source, pa.RecordBatch.from_pylist([], schema=self.schema)
        stamped = source.clock is time.time_ns
        door = self.door = Door.open(*source.listen, buffer=source.buffer, stamped=stamped, sockets=source.sockets)
        resumption, tick = self._resumption, TICK
        try:
            self._began = source.clock()
            if resumption is not None:
                resumption.count_on(door)
                tick = TICK if resumption.every is None else min(tick, resumption.every / SECOND)
            if source.opened is not None:
                source.opened(self)
            if resumption is not None:
                yield from resumption.take_again(door, self._began, lambda: self._stopped)
            ends = None if source.lasting is None else time.monotonic_ns() + source.lasting
            drained = 0
            while (resumption is None or resumption.live) and not self._is_full(door):
                if resumption is not None and resumption.is_asked:
                    yield resumption.snapshot(door)
                if ends is not None and time.monotonic_ns() >= ends:
                    self._over = not self._stopped or self._over
                    self._stopped = True
                # A datagram that comes after this is stamped after this.
                stopped, now = self._stopped, source.clock()
                found = door.receive(now)
                polled = self._is_polled()
                step = Step(now, last=stopped, polled=polled)
                if found is not None:
                    step = attrs.evolve(step, datagrams=found.datagrams, behind=found.behind)
                if resumption is not None:
                    resumption.write(step)
                yield from self.take(step)
                drained += len(step.datagrams) if stopped and step.datagrams is not None else 0
                if stopped and (found is None or drained * _LEAST_SKB > door.buffer):
                    break
                if found is None:
                    door.wait(tick)
                    yield nothing
            if resumption is not None:
                yield resumption.snapshot(door, last=True)
        finally:
            self._samples.count()
            door.close()

    def _warm(self) -> None:
        """Compile or load what decodes before the sockets are bound, rather than while datagrams wait in them."""
        rows = counter_rows(Datagrams.of([]), np.zeros(4, np.int64))
        columns_of(rows, Datagrams.of([]), self.schema)
        count_missing(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _is_full(self, door: Door) -> bool:
        full = self.source.most is not None and door.received >= self.source.most
        self._over = full or self._over
        return full

    def take(self, step: Step) -> Iterator[Chunk]:
        """Yield what a step gives: a function of it, and of what this reading knows."""
        if step.datagrams is not None:
            yield self._batch(step.datagrams)
        reached = step.now if step.behind is None else min(step.now, step.behind)
        yield from self._promises.until(reached, exactly=step.polled)

    def _batch(self, datagrams: Datagrams) -> pa.RecordBatch:
        allow = self.source.allow
        if allow is not None:
            kept = np.zeros(len(datagrams), np.bool_)
            let_in(network_numbers(allow), datagrams.address, kept)
            self.refused += len(kept) - int(np.count_nonzero(kept))
            datagrams = datagrams.chosen(kept)
        rows = counter_rows(datagrams, self.counts)
        self._samples.take(rows)
        return columns_of(rows, datagrams, self.schema)

    def go_on(self, placing: Placing) -> None:
        """Begin with the state of a placing, and give it when it is asked for; see `positions.Stateful`."""
        self._resumption = Resumption(placing, self, self.source.clock, ("ts",))
        if placing.state is not None:
            with taking_up(self.source.name, "agents"):
                self._restore(placing.state)
                self._resumption.restore(placing.state)

    def state(self) -> State:
        """Return all that this reading knows, as a copy."""
        return {
            **prefixed(_SAMPLES, self._samples.state()),
            "counts": self.counts.copy(),
            "refused": self.refused,
            "promised": self._promises.bound,
        }

    def _restore(self, state: Mapping[str, StateValue]) -> None:
        self._samples.restore(part(_SAMPLES, state))
        counts = read_integers(state, "counts", least=0)
        if len(counts) != len(self.counts):
            raise ValueError(f"there are {len(counts)} counts of datagrams, and should be {len(self.counts)}")
        self.counts = counts
        self.refused, self._promises.bound = read_int(state, "refused", least=0), read_int(state, "promised")

    def bounds(self) -> Mapping[str, int]:
        """Return what was promised of each attribute."""
        return {"ts": self._promises.bound}

    def listens(self, now: int) -> None:
        """Take it that somebody listened from now on, and nobody before that: the clock went on."""

    def ends(self, closed: tuple[tuple[bytes, int], ...]) -> None:
        """Take it that these connections are over: there are none."""

    def over(self) -> tuple[tuple[bytes, int], ...]:
        """Return the connections that ended with who read them: there are none."""
        return ()

    def promised(self, name: str) -> int:
        """Return the bound that was promised of an attribute, NO_TIME before any was."""
        return self.bounds().get(name, NO_TIME)

    def lacking(self, name: str) -> list[tuple[int, int]]:
        """Return the spans of an attribute, from and before which values, of which samples may be lacking."""
        if self._resumption is None:
            return [(NO_TIME, self._began + 1)]
        # What came at that very time came before somebody listened.
        return [(gap.bounds.get(name, NO_TIME), gap.began + 1) for gap in self._resumption.gaps]

    @property
    def is_over(self) -> bool:
        """Return whether the stream came to its end, rather than was stopped."""
        return self._over

    def give(self, bound: int) -> None:
        """Take it that results up to a bound are where they will last; nothing depends on that."""

    @property
    def journal_failure(self) -> str:
        """Return why the journal cannot be written now; nothing where it can, or there is none."""
        return "" if self._resumption is None else self._resumption.failure

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise ts so finely from now on."""
        known = self._promises.describe(grains)
        self.wake()
        return known

    def wake(self) -> None:
        """Look soon what is asked."""
        if self.door is not None:
            self.door.wake()

    def progress(self) -> tuple[int, int | None]:
        return (0 if self.door is None else self.door.size), None

    def notes(self) -> list[str]:
        if self.door is None:
            return []
        told = (
            (self.door.dropped, "datagrams dropped by the kernel, as the receive buffer was full"),
            (self.refused, "datagrams refused, of senders that allow does not name"),
            (self._samples.lost, "counter samples were sent and did not come, by their numbers"),
        )
        found = [f"{number:,} {what}" for number, what in told if number] + counter_troubles(self.counts)
        if self._resumption is not None:
            if self._resumption.resumed:
                again = self._resumption.again
                after = f", after {again:,} datagrams of its journal" if again else ""
                found.append(
                    f"listened again from {utc(self._began)} on{after}; what was sent before that and is in neither"
                    " checkpoint nor journal is lost, and windows that it may belong to are incomplete"
                )
            found += self._resumption.notes()
        return [f"{self.source.name}: {one}" for one in (f"{self.door.received:,} datagrams received", *found)]
