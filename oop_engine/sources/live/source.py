"""Read flow records from many exporters: NetFlow, IPFIX and sFlow over UDP, and IPFIX over TCP and TLS.

Such a stream can be read once and has no end of its own. Datagrams that are not read in time are dropped by the kernel,
which counts them; who sends over a connection waits. The stream makes its own promises, by
exporter (see `progress`), at least ten times a second if there is anything new, whether datagrams come or not.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.sources.arrival import Clock
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceEnded, SourceError
from oop_engine.sources.flows.admission import Admission
from oop_engine.sources.flows.channel import TLS
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder, Networks, flow_columns, flow_schema
from oop_engine.sources.flows.elements import Element
from oop_engine.sources.flows.entries import STREAM
from oop_engine.sources.flows.sample import SAMPLING
from oop_engine.sources.flows.schema import Column
from oop_engine.sources.flows.source import networks_of, unnamed
from oop_engine.sources.holder import Holder, Sooner
from oop_engine.sources.live.address import Listening, addresses_text, check_open
from oop_engine.sources.live.certificate import Certificate
from oop_engine.sources.live.door import BUFFER, Door, listening_at
from oop_engine.sources.live.exporters import SECOND, Rules
from oop_engine.sources.live.hearing import Hearing
from oop_engine.sources.live.kept import Kept
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.promised import EXPORTER
from oop_engine.sources.live.reading import Live, LiveReading
from oop_engine.sources.live.report import ExporterReport, Report, utc
from oop_engine.sources.live.resumption import PATIENCE, Resumption, taking_up
from oop_engine.sources.live.shedding import Shedder, Shedding
from oop_engine.sources.live.steps import Step
from oop_engine.sources.live.unreleased import Unreleased
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import ARRIVAL, Chunk
from oop_engine.sources.turn import Turn
from operators.data.saved import part, prefixed, read_flag, read_int
from operators.protocol import State, StateValue
from operators.streams.skew import RESOLUTION
from punctuation import NO_TIME, before

TICK: Final = 0.1
"""Seconds after which a reading speaks up even if nothing came."""
_OFTEN: Final = 50_000_000
"""Nanoseconds between two looks at how far the exporters are, at least."""
_HOLD: Final = 60 * 10**9
"""How long data wait for their template: in what is live they would be late afterwards."""
_STRAY: Final = 1_000_000
"""Nanoseconds by which datagrams may be stamped out of order."""
_LEAST_SKB: Final = 512
"""Bytes that a datagram takes of the receive buffer, at least."""

MOST_SOCKETS: Final = 64
"""Sockets of UDP that share an address, at most."""
_TIMES: Final = ("ts", "end_ts")
_PROGRESS: Final = "progress."
_DECODER: Final = "decoder."
_SHEDDER: Final = "shedder."

Opened: TypeAlias = "Callable[[LiveReader], None]"


def _attributes(value: Sequence[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_attributes(instance: object, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    if not set(value) <= {"ts", "end_ts"}:
        raise SourceError(
            f"on={', '.join(value)}: exporters promise ts, the start of a flow, end_ts, its end, or both;\n"
            '  write on="ts", on="end_ts" or on=("ts", "end_ts").'
        )


Place: TypeAlias = str | socket.socket | Listening


def listening_places(value: Place | Sequence[Place]) -> tuple[socket.socket | Listening, ...]:
    """Return the addresses, and the bound sockets, that a user names; SourceError for what is none."""
    places = (value,) if isinstance(value, (str, socket.socket, Listening)) else tuple(value)
    if not places:
        raise SourceError('listen names no address; write one or more, such as "127.0.0.1:2055".')
    found = tuple(Listening.of_exporters(place) if isinstance(place, str) else place for place in places)
    twice = [place for place in found if isinstance(place, Listening) and place.port and found.count(place) > 1]
    if twice:
        raise SourceError(f"listen names {twice[0]} twice; name each address once.")
    return found


@attrs.frozen(eq=False)
class LiveFlows(Live):
    """The flow records that exporters send to addresses, or to sockets that are bound already.

    `sockets` is how many of UDP share each address; `certificate` what is shown to who connects by TLS.
    `allow` are networks from which exporters may send; without, only loopback is listened on, unless `anyone` may.
    `buffer` is the receive buffer to ask the kernel for. `on` says which of ts and end_ts are promised (none where it
    is empty), `by_exporter` that each exporter's own progress is, too; arrival_ts is, where it is asked for. The
    stream ends after `lasting` ns or `most` datagrams, if either is given. `clock` gives ns since 1970; without, the
    kernel's says when each datagram came. `opened` is called, in the reading thread, with the reader whose socket is
    bound. `state` is a file that keeps what was promised and is known of exporters, so that a later reading goes on
    from there (see `kept`). With `shedding`, what cannot be taken in time is sampled, which `sampling` of each record
    tells, as long as there is time for that. With `announced`, what exporters call things is in the stream, too.
    """

    listen: tuple[socket.socket | Listening, ...] = attrs.field(converter=listening_places)
    columns: tuple[str | Element, ...] = attrs.field(converter=tuple, default=(), kw_only=True)
    allow: Networks | None = attrs.field(converter=networks_of, default=None, kw_only=True)
    anyone: bool = attrs.field(default=False, kw_only=True)
    buffer: int = attrs.field(default=BUFFER, kw_only=True, validator=attrs.validators.ge(1))
    sockets: int = attrs.field(default=1, kw_only=True, validator=attrs.validators.in_(range(1, MOST_SOCKETS + 1)))
    certificate: Certificate | None = attrs.field(default=None, kw_only=True)
    on: tuple[str, ...] = attrs.field(converter=_attributes, default=("ts",), kw_only=True, validator=_check_attributes)
    by_exporter: bool = attrs.field(default=False, kw_only=True)
    rules: Rules = attrs.field(factory=Rules, kw_only=True)
    lasting: int | None = attrs.field(default=None, kw_only=True)
    most: int | None = attrs.field(default=None, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    opened: Opened | None = attrs.field(default=None, kw_only=True)
    shedding: Shedding | None = attrs.field(default=None, kw_only=True)
    state: Path | None = attrs.field(default=None, kw_only=True, converter=attrs.converters.optional(Path))
    clock: Clock = attrs.field(default=time.time_ns, kw_only=True)
    announced: bool = attrs.field(default=False, kw_only=True)
    _known: tuple[Column, ...] = attrs.field(init=False, repr=False)
    _where: tuple[Listening, ...] = attrs.field(init=False, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    def __attrs_post_init__(self) -> None:
        certified = self.certificate is not None
        where = tuple(p if isinstance(p, Listening) else listening_at(p, certified=certified) for p in self.listen)
        for one in where:
            check_open(one, allowed=self.allow is not None, anyone=self.anyone)
        self._check(where)
        object.__setattr__(self, "_where", where)
        object.__setattr__(self, "_known", flow_columns(self.columns))

    def _check(self, where: tuple[Listening, ...]) -> None:
        """Check that what is said of a transport is said where it is listened to; SourceError when not."""
        tls = next((one for one in where if one.transport == TLS), None)
        if tls is not None and self.certificate is None:
            raise SourceError(
                f"listening on {tls} needs a certificate to show to exporters, and its key, as files in PEM:\n"
                '  certificate="collector.pem", key="collector.key"; with client_ca="ca.pem" exporters show theirs.'
            )
        if tls is None and self.certificate is not None:
            raise SourceError(
                f"a certificate is shown over TLS, and exporters are listened to on {addresses_text(where)};\n"
                f"  write tls://{str(where[0]).rpartition('://')[2]}, or leave out the certificate."
            )
        if all(one.is_stream for one in where):
            for name, said in (("shed", self.shedding is not None), ("sockets", self.sockets > 1)):
                if said:
                    raise SourceError(
                        f"{name} is for datagrams, and over {addresses_text(where)} exporters connect: they wait while"
                        " what they sent is not read,\n  and nothing is dropped. Leave it out."
                    )

    @property
    def name(self) -> str:
        return self.label or f"exporters at {addresses_text(self._where)}"

    @property
    def lasting_name(self) -> str:
        return self.label or "exporters"

    @property
    def arrow(self) -> pa.Schema:
        return flow_schema(self._known, announced=self.announced)

    def announcing(self) -> LiveFlows:
        """Return this source with what exporters call things in its stream."""
        return attrs.evolve(self, announced=True)

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        own = (*self.on, *((EXPORTER, name) for name in self.on if self.by_exporter))
        return (*own, ARRIVAL) if own else ()

    def open(self, columns: Sequence[str], batch_rows: int) -> LiveReader:
        if self.shedding is not None and SAMPLING not in columns:
            raise SourceError(
                f"{self.name}: shed keeps one of n datagrams under load, and nothing reads {SAMPLING}, which tells n.\n"
                f"  Write sum(bytes * {SAMPLING}) for sum(bytes), or leave out shed: the kernel then drops, and counts."
            )
        self._turn.take(self.name)
        progress = ExporterProgress(self.rules, self.on, self.by_exporter)
        reader: list[LiveReader] = []
        unreleased = Unreleased(lambda name: reader[0].promised(name))
        hearing = Hearing(progress, unreleased=unreleased)
        named = [name for name in self.arrow.names if name in columns or name in self.on]
        decoder = FlowDecoder(
            named, available=self._known, batch_rows=batch_rows, allow=self.allow, hold_for=_HOLD, heard=hearing,
            admission=Admission(), announced=self.announced,
        )  # fmt: skip
        hearing.sessions = decoder.sessions
        kept = None if self.state is None else Kept(self.state)
        if kept is not None:
            kept.lock()
        resumed = kept is not None and kept.take_up(progress, decoder, unreleased)
        shedder = None if self.shedding is None else Shedder(self.shedding)
        reader.append(LiveReader(self, decoder, progress, tuple(columns), unreleased, kept, shedder, resumed=resumed))
        return reader[0]

    def door(self) -> Door:
        """Bind the sockets; SourceError when that cannot be."""
        return Door.open(
            *self.listen, buffer=self.buffer, stamped=self.clock is time.time_ns, sockets=self.sockets,
            certificate=self.certificate, allow=self.allow,
        )  # fmt: skip


@attrs.define(eq=False)
class LiveReader(LiveReading):
    """One reading of what comes in. `stop`, `poll`, `describe` and `wake` are for other threads than that which reads.

    With a placing (`go_on`), its state is part of a checkpoint, and what came after that is in a journal, if any is
    written: a later reading takes in again what that has, step by step, before it listens.
    """

    source: LiveFlows
    decoder: FlowDecoder
    exporting: ExporterProgress
    columns: tuple[str, ...]
    unreleased: Unreleased
    kept: Kept | None = None
    shedder: Shedder | None = None
    resumed: bool = attrs.field(default=False, kw_only=True)
    door: Door | None = attrs.field(init=False, default=None)
    _said: int = attrs.field(init=False, default=0)
    _idle: bool = attrs.field(init=False, default=False)
    """Whether it found the socket empty since it last took something out."""
    _arriving: Grain | None = attrs.field(init=False, default=None)
    """How finely arrivals are promised, once somebody wants that: all that came before was taken out of the socket."""
    _arrived: int = attrs.field(init=False, default=NO_TIME)
    _began: int = attrs.field(init=False, default=0)
    """When one that keeps its state began to listen."""
    _behind: int | None = attrs.field(init=False, default=None)
    """When the newest datagram came that was taken out, as long as more may wait behind it."""
    _over: bool = attrs.field(init=False, default=False)
    _unkept: SourceError | None = attrs.field(init=False, default=None)
    """Why what is known could not be kept, after which nothing is promised any more."""
    _resumption: Resumption | None = attrs.field(init=False, default=None)

    def chunks(self) -> Iterator[Chunk]:
        """Yield what arrives, and what it promises; nothing, an empty batch, ten times a second in between.

        SourceError for a state that cannot be written from the beginning; SourceEnded, after what has arrived, for one
        that later could not.
        """
        try:
            yield from self._chunks()
        finally:
            if not self.unreleased.following:
                self._unlock()

    def close(self, *, whole: bool, ended: bool = False) -> None:
        """Keep what was given, and let others have the state, where that is `unreleased.following`.

        `whole`: all results were given that were promised; with `ended`, those of the end of the stream, too.
        SourceEnded where that cannot be written.
        """
        try:
            if whole:
                self.unreleased.give_all(ended=ended)
            if self.kept is not None and self._unkept is None and self.door is not None:
                self.kept.write(self.exporting, self.decoder, self.source.clock(), self.unreleased)
        except SourceError as error:
            raise SourceEnded(f"{error}.\n  All results are written.") from error.__cause__
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self.kept is not None:
            self.kept.unlock()

    def promised(self, name: str) -> int:
        """Return the bound that was promised of an attribute, NO_TIME before any was."""
        if name == ARRIVAL:
            return self._arrived
        return self.exporting.bound(name) if name in self.exporting.attributes else NO_TIME

    def since(self, name: str) -> int:
        """Return from which value of an attribute on no record is lacking for having come before this reading.

        Of a reading that keeps its state, that is when it began to listen, by the clock of the exporter that is
        furthest ahead, or the latest time of what an earlier reading received.
        """
        if name == ARRIVAL:
            return self._began
        return max(self._began + self._ahead, self.unreleased.before + 1)

    @property
    def _ahead(self) -> int:
        """Return by how much the clock of the exporter that is furthest ahead is."""
        rules = self.source.rules
        ahead = [e.ahead + RESOLUTION for e in self.exporting.exporters if e.trusted(rules) and not e.aside(rules)]
        return max((0, *ahead))

    def give(self, bound: int) -> None:
        """Take it that results up to a bound are where they will last."""
        self.unreleased.give(bound)

    @property
    def is_over(self) -> bool:
        """Return whether the stream came to its end, rather than was stopped."""
        return self._over

    def lacking(self, name: str) -> list[tuple[int, int]]:
        """Return the spans of an attribute, from and before which values, of which records may be lacking.

        A window lacks none that ends where such a span begins, or begins where it ends.
        """
        if self._resumption is None:
            return [(NO_TIME, self.since(name))]
        ahead = 0 if name == ARRIVAL else self._ahead
        return [(gap.bounds.get(name, NO_TIME), gap.began + ahead) for gap in self._resumption.gaps]

    @property
    def journal_failure(self) -> str:
        """Return why the journal cannot be written now; nothing where it can, or there is none."""
        return "" if self._resumption is None else self._resumption.failure

    def go_on(self, placing: Placing) -> None:
        """Begin with the state of a placing, and give it when it is asked for; see `positions.Stateful`."""
        self._resumption = Resumption(placing, self, self.source.clock, (*_TIMES, ARRIVAL))
        self.unreleased.count_nothing()
        if placing.state is not None:
            self.resumed = True
            with taking_up(self.source.name, "exporters"):
                self._restore(placing.state)
                self._resumption.restore(placing.state)

    def state(self) -> State:
        """Return all that this reading knows, as a copy."""
        return {
            **prefixed(_PROGRESS, self.exporting.state()),
            **prefixed(_DECODER, self.decoder.whole_state()),
            **({} if self.shedder is None else prefixed(_SHEDDER, self.shedder.state())),
            "said": self._said,
            "arrived": self._arrived,
            "idle": self._idle,
        }

    def _restore(self, state: Mapping[str, StateValue]) -> None:
        self.exporting.restore(part(_PROGRESS, state))
        self.decoder.restore_whole(part(_DECODER, state))
        if self.shedder is not None and part(_SHEDDER, state):
            self.shedder.restore(part(_SHEDDER, state))
        self._said, self._arrived = read_int(state, "said"), read_int(state, "arrived")
        self._idle = read_flag(state, "idle")

    def bounds(self) -> Mapping[str, int]:
        """Return what was promised of each attribute."""
        return {name: self.promised(name) for name in (*self.exporting.attributes, ARRIVAL)}

    def listens(self, now: int) -> None:
        """Take it that somebody listened from now on, and nobody before that."""
        self.exporting.resume(now)

    def ends(self, closed: tuple[tuple[bytes, int], ...]) -> None:
        """Take it that these connections are over."""
        self.decoder.end_streams(closed)

    def over(self) -> tuple[tuple[bytes, int], ...]:
        """Return the connections that ended with who read them."""
        return tuple(self.decoder.streams())

    def _chunks(self) -> Iterator[Chunk]:
        _warm(self.decoder.schema.names, self.source.columns, announced=self.source.announced)
        door = self.door = self.source.door()
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
        resumption = self._resumption
        try:
            if self.kept is not None:
                # A file that cannot be written is known before anything is read.
                self.kept.write(self.exporting, self.decoder, self.source.clock(), self.unreleased)
            if self.kept is not None or resumption is not None:
                self._began = self.source.clock()
            if resumption is not None:
                resumption.count_on(door)
            if self.source.opened is not None:
                self.source.opened(self)
            if resumption is not None:
                yield from resumption.take_again(door, self._began, lambda: self._stopped)
            elif self.resumed:
                yield from self.exporting.resume(self._began)
            tick = TICK
            if resumption is not None and resumption.every is not None:
                tick = min(tick, resumption.every / SECOND)
            ends = None if self.source.lasting is None else time.monotonic_ns() + self.source.lasting
            drained, patience = 0, None
            while resumption is None or resumption.live:
                if resumption is not None and resumption.is_asked:
                    yield resumption.snapshot(door)
                if ends is not None and time.monotonic_ns() >= ends:
                    self._over = not self._stopped or self._over
                    self._stopped = True
                stopped = self._stopped
                filled = 0.0 if self.shedder is None else door.filled
                now = self.source.clock()
                found = door.receive(now)
                polled = self._is_polled()
                step = Step(now, filled=filled, last=stopped, polled=polled)
                if found is not None:
                    step = attrs.evolve(step, datagrams=found.datagrams, behind=found.behind, closed=found.closed)
                if resumption is not None:
                    resumption.write(step)
                yield from self.take(step)
                if stopped:
                    patience = time.monotonic() + PATIENCE if patience is None else patience
                    drained += 0 if found is None or found.datagrams is None else len(found.datagrams)
                    if found is None or self._is_drained(door, drained, patience):
                        break
                elif self._is_full(door, idle=found is None):
                    self._over = True
                    break
                elif found is None:
                    door.wait(tick if ends is None else min(tick, max(0.0, (ends - time.monotonic_ns()) / 1e9)))
                    yield nothing
            if self._over and not self.unreleased.following:
                self.unreleased.give_all(ended=True)
            if resumption is not None:
                yield resumption.snapshot(door, last=True)
            self._keep(self.source.clock(), last=True)
            if self._unkept is not None:
                raise SourceEnded(
                    f"{self._unkept}.\n  Promises are written there before they are made, so there can be no more.\n"
                    "  Free or repair that disk and start again with the same file, or with another one."
                ) from self._unkept.__cause__
        finally:
            self.decoder.finish()
            door.close()

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([field for field in self.decoder.schema if field.name in self.columns])

    def take(self, step: Step) -> Iterator[Chunk]:
        """Yield what a step gives: a function of it, and of what this reading knows."""
        found = step.datagrams
        self._behind = step.behind
        if found is not None:
            yield from self._decoded(found, step.filled, step.now)
        elif not step.last:
            self._idle = True
        self.decoder.end_streams(step.closed)
        yield from self._promises(self._until(step.now), last=step.last, polled=step.polled)

    def _decoded(self, datagrams: Datagrams, filled: float, now: int) -> Iterator[pa.RecordBatch]:
        names = self._schema.names
        idle, self._idle = self._idle, False
        sample = None
        if self.shedder is not None:
            # Who sends over a connection waits instead.
            spared = datagrams.port >= STREAM
            sample = self.shedder.choose(len(datagrams), filled, now, idle=idle, spared=spared)
        for batch in self.decoder.decode(datagrams, sample):
            yield batch if len(names) == batch.num_columns else batch.select(names)

    def _until(self, now: int) -> int:
        """Return the time up to which everything that came was taken out; later senders may wait in the socket."""
        return now if self._behind is None else min(now, self._behind)

    def _promises(self, now: int, *, last: bool, polled: bool) -> Iterator[Chunk]:
        if not polled and not last and abs(now - self._said) < _OFTEN:
            return
        if not polled:
            self._said = now
        found = self.exporting.poll(now) if polled else self.exporting.elapse(now)
        if self._arriving is not None and self.source.on:
            bound = now - _STRAY if polled else self._arriving.floor(now - _STRAY)
            if bound > self._arrived:
                self._arrived = bound
                found.append(before(ARRIVAL, bound))
        if self._keep(now, promised=bool(found)):
            yield from found

    def _keep(self, now: int, *, promised: bool = False, last: bool = False) -> bool:
        """Write what is known, if that is asked for; False, and the reading ends, once that was not possible."""
        if self.kept is not None and self._unkept is None:
            try:
                if last or (promised and not self.unreleased.following):
                    self.kept.write(self.exporting, self.decoder, now, self.unreleased)
                else:
                    self.kept.write_sometimes(self.exporting, self.decoder, now, self.unreleased)
            except SourceError as error:
                self._unkept, self._stopped = error, True
        return self._unkept is None

    def _is_drained(self, door: Door, drained: int, until: float) -> bool:
        """Return whether as many have been read as the buffer can have held when the end was asked for; of connections
        nobody knows how many those are, and they are read `until` some time.
        """
        return drained * _LEAST_SKB > door.buffer and (door.streams is None or time.monotonic() > until)

    def _is_full(self, door: Door, *, idle: bool) -> bool:
        most = self.source.most
        return most is not None and door.received + (door.dropped if idle else 0) >= most

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise these attributes so finely from now on."""
        known = self.exporting.describe(grains) or ARRIVAL in grains
        self.unreleased.describe(
            {name: grain for name, grain in grains.items() if name in self.source.on}
            | ({ARRIVAL: grains[ARRIVAL]} if ARRIVAL in grains else {})
        )
        self._arriving = grains.get(ARRIVAL, self._arriving)
        self._said = 0
        self.wake()
        return known

    def wake(self) -> None:
        """Look soon what is asked."""
        if self.door is not None:
            self.door.wake()

    def progress(self) -> tuple[int, int | None]:
        return (0 if self.door is None else self.door.size), None

    def exporters(self) -> list[ExporterReport]:
        """Return what is known of every exporter: what came, what was lost, its clock and how far it is."""
        return self._report.exporters(self._until(self.source.clock()))

    def holder(self, attribute: str) -> Holder | None:
        """Return the exporter that holds the promise on an attribute back."""
        return self._report.holder(attribute, self._until(self.source.clock()))

    def sooner(self, attribute: str, need: int) -> Sooner | None:
        """Return the `idle` with which a bound would be promised by now."""
        return self.exporting.sooner(attribute, need, self._until(self.source.clock()))

    def notes(self) -> list[str]:
        if self.door is None:
            return []
        found = self._report.facts(self.door) + self.troubles()
        lost = self.unreleased.lost
        if self._resumption is not None and self._resumption.resumed:
            many = self._resumption.again
            again = f", after {many:,} datagrams of its journal" if many else ""
            found.append(
                f"{self._report.name}: listened again from {utc(self._began)} on{again}; what was sent before that and"
                " is in neither checkpoint nor journal counts as lost, and windows that it may belong to are incomplete"
            )
        elif self.resumed:
            found.append(
                f"{self._report.name}: resumed from {self.source.state}, which keeps exporters and promises, not open"
                f" windows: those that begin before {utc(self._began)} lack what came before it, and what was sent"
                " since the file was last written counts as lost"
                + (f"; {lost:,} records that were received before are in no result" if lost else "")
            )
        return found

    def troubles(self) -> list[str]:
        """Return the notes on what was lost or is wrong, none where all is well."""
        if self.door is None:
            return []
        found = self._report.troubles(self.door, self.source.buffer) + unnamed(self.decoder)
        if self._resumption is not None:
            found += [f"{self._report.name}: {note}" for note in self._resumption.notes()]
        if self._stopped and not self._over and (many := self.unreleased.many):
            found.append(
                f"{self._report.name}: {many:,} records that were received are in no result, because their windows were"
                " open when the run stopped; open windows are not kept"
            )
        if self.shedder is not None and self.shedder.shed:
            records = sum(counters.shed for counters in self.decoder.exporters())
            found.append(
                f"{self._report.name}: {self.shedder.shed:,} datagrams, {records:,} records, left out under load;"
                f" at the worst one of {self.shedder.highest} kept, as {SAMPLING} of each record tells"
            )
        return found

    @property
    def _report(self) -> Report:
        name = self.source.name
        if not self.source.label and self.door is not None:
            name = f"exporters at {addresses_text(self.door.addresses)}"
        return Report(name, self.decoder, self.exporting, self.door)


def _warm(names: Sequence[str], more: Sequence[str | Element], *, announced: bool) -> None:
    """Compile or load the decoder before the socket is bound, rather than while datagrams wait in it."""
    head = b"\0\x05\0\1" + bytes(4) + b"\x65\0\0\0" + bytes(12)
    fields = b"\0\x08\0\4\0\1\0\4"
    templated = b"\0\x09\0\2" + bytes(4) + b"\x65\0\0\0" + bytes(8)
    sets = b"\0\0\0\x10\1\0\0\2" + fields + b"\1\0\0\x0c" + bytes(8)
    decoder = FlowDecoder(names, available=flow_columns(more), announced=announced)
    for _ in decoder.decode(Datagrams.of([head + bytes(48), templated + sets], exporters=[(bytes(16), 1)] * 2)):
        pass
