"""Read the interface counters that agents of sFlow send, as they come: a tuple an interface and sample.

Their time is when their datagram came, as the kernel says, so the stream is as good as in order: it promises the
present less a moment, also while nothing comes, and less when something waits in a socket that was not read yet.
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

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.counter_samples import let_in
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import Networks, network_numbers
from oop_engine.sources.flows.interface_counters import COUNTER_SCHEMA, counter_batch, counter_troubles
from oop_engine.sources.live.address import Listening, addresses_text, check_open
from oop_engine.sources.live.door import BUFFER, Door, listening_at
from oop_engine.sources.live.reading import ClockPromises, Live, LiveReading
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.turn import Turn

TICK: Final = 0.1
_STRAY: Final = 1_000_000
"""Nanoseconds by which datagrams may be stamped out of order."""
_LEAST_SKB: Final = 512
"""Bytes that a datagram takes of the receive buffer, at least."""
Opened: TypeAlias = "Callable[[LiveCounterReader], None]"


@attrs.frozen(eq=False)
class LiveCounters(Live):
    """The interface counters that come to UDP addresses, or to sockets that are bound already.

    `allow` are networks from which agents may send; without, only loopback is listened on, unless `anyone` may.
    `buffer` and `sockets` are those of each address, see `LiveFlows`. The stream ends after `lasting` ns or `most`
    datagrams, if either is given. `opened` is called with the reader, in its thread, when its sockets are bound.
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
    def arrow(self) -> pa.Schema:
        return COUNTER_SCHEMA

    def open(self, columns: Sequence[str], batch_rows: int) -> LiveCounterReader:
        self._turn.take(self.name)
        return LiveCounterReader(self, pa.schema([field for field in COUNTER_SCHEMA if field.name in columns]))


@attrs.define(eq=False)
class LiveCounterReader(LiveReading):
    """One reading of counters. `stop`, `poll` and `describe` are for other threads than the one that reads."""

    source: LiveCounters
    schema: pa.Schema
    door: Door | None = attrs.field(init=False, default=None)
    counts: NDArray[np.int64] = attrs.field(init=False, factory=lambda: np.zeros(4, np.int64))
    refused: int = attrs.field(init=False, default=0)
    """Datagrams of senders that are not allowed."""
    _promises: ClockPromises = attrs.field(init=False, factory=lambda: ClockPromises(_STRAY))

    def chunks(self) -> Iterator[Chunk]:
        """Yield what comes, and what is promised; nothing, an empty batch, ten times a second in between."""
        counter_batch(Datagrams.of([]), self.schema, np.zeros(4, np.int64))  # compiled before the sockets are bound
        source, nothing = self.source, pa.RecordBatch.from_pylist([], schema=self.schema)
        door = self.door = Door.open(*source.listen, buffer=source.buffer, sockets=source.sockets)
        try:
            if source.opened is not None:
                source.opened(self)
            ends = None if source.lasting is None else time.monotonic_ns() + source.lasting
            drained = 0
            while source.most is None or door.received < source.most:
                if ends is not None and time.monotonic_ns() >= ends:
                    self._stopped = True
                # A datagram that comes after this is stamped after this.
                stopped, now = self._stopped, time.time_ns()
                found = door.receive(now)
                if found is not None and found.datagrams is not None:
                    yield self._batch(found.datagrams)
                    drained += len(found.datagrams) if stopped else 0
                reached = now if found is None or found.behind is None else min(now, found.behind)
                polled, self._polled = self._polled, False
                yield from self._promises.until(reached, exactly=polled)
                if stopped and (found is None or drained * _LEAST_SKB > door.buffer):
                    break
                if found is None:
                    door.wait(TICK)
                    yield nothing
        finally:
            door.close()

    def _batch(self, datagrams: Datagrams) -> pa.RecordBatch:
        allow = self.source.allow
        if allow is not None:
            kept = np.zeros(len(datagrams), np.bool_)
            let_in(network_numbers(allow), datagrams.address, kept)
            self.refused += len(kept) - int(np.count_nonzero(kept))
            datagrams = datagrams.chosen(kept)
        return counter_batch(datagrams, self.schema, self.counts)

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
        )
        found = [f"{number:,} {what}" for number, what in told if number] + counter_troubles(self.counts)
        return [f"{self.source.name}: {one}" for one in (f"{self.door.received:,} datagrams received", *found)]
