"""Flow exports as a source: captures and files of datagrams read one after the other as one stream of flow records."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.capture import Capture
from oop_engine.sources.capture.compression import PackedDamage, Plain, unpack
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.capture.formats import header_bytes
from oop_engine.sources.columns import ticks
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.captured import PORTS, CapturedDatagrams
from oop_engine.sources.flows.channel import sender_text
from oop_engine.sources.flows.counters import ExporterCounters
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import LIFETIME, MOST_RECORDS, FlowDecoder, Networks, flow_columns, flow_schema
from oop_engine.sources.flows.elements import Element
from oop_engine.sources.flows.exporter_names import MOST_NAMES
from oop_engine.sources.flows.progress_checks import Look, ProgressChecks
from oop_engine.sources.flows.schema import Column
from oop_engine.sources.flows.stored import StoredDatagrams
from oop_engine.sources.kind import is_stored
from oop_engine.sources.paths import stream_name
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import OfFiles, Reading, size_of
from oop_engine.sources.turn import Turn
from operators.data.address import format_ip, parse_network
from operators.data.page import Int64s
from operators.data.saved import part, prefixed
from operators.protocol import State, StateValue
from punctuation import Punctuation

if TYPE_CHECKING:
    from oop_engine.sources.live.exporters import Rules
    from oop_engine.sources.live.progress import ExporterProgress

_WALKED: Final = 1024
_MOST_MESSAGE: Final = 65_536
_NFDUMP: Final = (b"\x0c\xa5", b"\xa5\x0c")
_SHOWN: Final = 20
APART: Final = 8 << 20
"""Bytes between two places where a reading can begin again, at least."""
_SHARE: Final = 16
"""How many times the size of what is known lies between two such places, at least."""
_DECODER, _PROGRESS, _LOOKS = "decoder.", "progress.", "looks."


def ports_of(value: Sequence[int] | int | None) -> frozenset[int]:
    """Return the ports of collectors, by default those that are custom."""
    return PORTS if value is None else frozenset((value,) if isinstance(value, int) else value)


def networks_of(value: Sequence[str] | Networks | str | None) -> Networks | None:
    """Return networks as their first and last addresses; SourceError for a text that is none."""
    if value is None:
        return None
    given = (value,) if isinstance(value, str) else value
    try:
        # A source that is made of another one has its networks as they are.
        return tuple(parse_network(one) if isinstance(one, str) else one for one in given)
    except ValueError as error:
        raise SourceError(f"allow: {error}") from None


def check_ports(instance: object, attribute: attrs.Attribute[frozenset[int]], value: frozenset[int]) -> None:
    """Raise SourceError for what is no port."""
    for port in value:
        if not 0 < port < 65_536:
            raise SourceError(f"{port} is no port; collectors listen on ports such as 2055, 4739 and 6343.")


@attrs.frozen
class FlowExports(OfFiles):
    """The flow records of exports, in the order of the files and of the datagrams in them.

    A file is a capture of the datagrams (pcap or pcapng), of which those to `ports` are read (by default those that
    collectors use; an empty sequence means every UDP port), or holds the datagrams end to end, as IPFIX files do.
    `columns` are elements beyond the common columns, or their names; `allow` networks from which exporters may send.
    All files are of one set of exporters: templates of one are good for the next. Where no file is a capture, templates
    may be withdrawn and do not expire.

    With `rules` the stream makes its own promises on the attributes `on`, as the collector does that listens to the
    same exporters: by their clocks, as if the datagrams came now, and, with `by_exporter`, for each of them. Nothing
    but the datagrams and when they came decides where (see `looks`).

    With `announced`, what exporters call things is in the stream, too: rows of their own, see `exporter_names`.
    """

    paths: tuple[Path | BinaryIO, ...] = attrs.field(converter=tuple)
    columns: tuple[str | Element, ...] = attrs.field(converter=tuple, default=(), kw_only=True)
    ports: frozenset[int] = attrs.field(converter=ports_of, default=None, validator=check_ports, kw_only=True)
    allow: Networks | None = attrs.field(converter=networks_of, default=None, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    strict: bool = attrs.field(default=False, kw_only=True)
    rules: Rules | None = attrs.field(default=None, kw_only=True)
    on: tuple[str, ...] = attrs.field(converter=tuple, default=("ts",), kw_only=True)
    by_exporter: bool = attrs.field(default=False, kw_only=True)
    announced: bool = attrs.field(default=False, kw_only=True)
    _known: tuple[Column, ...] = attrs.field(init=False, eq=False, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_known", flow_columns(self.columns))

    @property
    def arrow(self) -> pa.Schema:
        return flow_schema(self._known, announced=self.announced)

    def announcing(self) -> FlowExports:
        """Return this source with what exporters call things in its stream."""
        return attrs.evolve(self, announced=True)

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        if self.rules is None:
            return ()
        return (*self.on, *(("exporter", name) for name in self.on if self.by_exporter))

    def open(self, columns: Sequence[str], batch_rows: int) -> FlowReader:
        if not self.rewindable:
            self._turn.take(self.name)
        return self._reader(columns, batch_rows, self.rules)

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in self._reader((column,), 65_536).batches():
            yield ticks(batch, column)

    def _reader(self, columns: Sequence[str], batch_rows: int, rules: Rules | None = None) -> FlowReader:
        stored = not any(_is_capture(path) for path in self.paths)
        hearing = None
        if rules is not None:
            # Start-up: Spark's workers read flow exports without promises of exporters.
            from oop_engine.sources.live.hearing import Hearing
            from oop_engine.sources.live.progress import ExporterProgress

            hearing = Hearing(ExporterProgress(rules, self.on, self.by_exporter))
        decoder = FlowDecoder(
            columns,
            available=self._known,
            batch_rows=batch_rows,
            allow=self.allow,
            most_records=_MOST_MESSAGE if stored else MOST_RECORDS,
            lifetime=None if stored else LIFETIME,
            reliable=stored,
            heard=hearing,
            announced=self.announced,
        )
        if hearing is not None:
            hearing.sessions = decoder.sessions
        progress = None if hearing is None else hearing.progress
        return FlowReader(decoder, self.paths, self.ports, self.strict, batch_rows=batch_rows, exporting=progress)


@attrs.define
class FlowReader(Reading):
    """One reading of flow exports."""

    decoder: FlowDecoder
    paths: tuple[Path | BinaryIO, ...]
    ports: frozenset[int] = PORTS
    strict: bool = False
    batch_rows: int = attrs.field(default=65_536, kw_only=True)
    exporting: ExporterProgress | None = attrs.field(default=None, kw_only=True)
    _feeds: list[CapturedDatagrams | StoredDatagrams] = attrs.field(init=False, factory=list)
    _ended: bool = attrs.field(init=False, default=False)
    _polled: bool = attrs.field(init=False, default=False)
    _looks: ProgressChecks | None = attrs.field(init=False, default=None)
    _file: int = attrs.field(init=False, default=0)
    """Which of the paths is read."""
    _before: int = attrs.field(init=False, default=0)
    """Bytes of the paths before the one that this reading began with."""
    _told_before: list[str] = attrs.field(init=False, factory=list)
    """What was to be told of those."""
    _place: Mapping[str, object] | None = attrs.field(init=False, default=None)
    """Where in that one it begins, None for its start."""
    _marking: bool = attrs.field(init=False, default=False)
    """Whether anybody asks for marks."""
    _mark: tuple[Mapping[str, object], int] | None = attrs.field(init=False, default=None)
    _learnt: State = attrs.field(init=False, factory=dict, repr=False)
    """What was known at the mark."""
    _next: int = attrs.field(init=False, default=0)
    """The bytes behind which there may be another mark."""
    _given: int = attrs.field(init=False, default=0)
    """Tuples that this reading has given."""
    _promised: bool = attrs.field(init=False, default=False)
    """Whether a promise came behind the last of them."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records in batches of at most the decoder's rows."""
        for datagrams in self._blocks():
            for batch in self.decoder.decode(datagrams):
                self._given += len(batch)
                yield batch
            self._remember()
        self._finish()

    def chunks(self) -> Iterator[Chunk]:
        return self.batches() if self.exporting is None else self._promising(self.exporting)

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        """Return the last place where a reading can begin, with what is `learnt` there; None before the first."""
        self._marking = True
        return self._mark

    def learnt(self) -> State:
        """Return what was known of exporters at the mark."""
        return self._learnt

    def known(self) -> State:
        """Return what is known of exporters now, for `take_up` by a reading of the file that comes next."""
        state = prefixed(_DECODER, self.decoder.whole_state())
        if self.exporting is not None and self._looks is not None:
            state |= prefixed(_PROGRESS, self.exporting.state()) | prefixed(_LOOKS, self._looks.state())
        return state

    def take_up(self, state: Mapping[str, StateValue]) -> None:
        """Know of exporters what another reading knew at its mark."""
        self.decoder.restore_whole(part(_DECODER, state))
        if self.exporting is not None:
            self.exporting.restore(part(_PROGRESS, state))
            self._looks = ProgressChecks(self.exporting)
            self._looks.restore(part(_LOOKS, state))

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        """Begin at a mark of another reading of the same files."""
        if mark is None:
            return 0
        number, place, told = mark["file"], mark["place"], mark["told"]
        assert isinstance(number, int) and (place is None or isinstance(place, dict)) and isinstance(told, list)
        self._file, self._place, self._told_before = number, place, told
        self._before = size_of(self.paths[:number]) or 0
        return at

    def _remember(self) -> None:
        """Note where the reading is, between two blocks, if the last such place is far enough behind.

        Not behind a promise: where the reading goes on, all that was promised since the last tuple is told again.
        """
        if not self._marking or self._promised or (read := self.progress()[0]) < self._next:
            return
        feed = self._feeds[-1]
        if (place := feed.mark()) is None:
            return
        told = [*self._told_before, *(note for feed in self._feeds[:-1] for note in notes_of(feed, ended=True))]
        state = self.known()
        self._mark, self._learnt = ({"file": self._file, "place": place, "told": told}, self._given), state
        size = sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray))
        self._next = read + max(APART, _SHARE * size)

    def _promising(self, exporting: ExporterProgress) -> Iterator[Chunk]:
        """Yield the records, and between them what the exporters have promised by then."""
        looks = self._looks = self._looks or ProgressChecks(exporting)
        held = _Held(self.batch_rows)
        try:
            for block in self._blocks():
                yield from self._told(looks.cut(block), exporting, held)
                self._remember()
        except DecodeError:
            yield from self._told(looks.rest(), exporting, held)
            raise
        yield from self._told(looks.rest(), exporting, held)
        self._finish()

    def _told(self, looks: Iterator[Look], exporting: ExporterProgress, held: _Held) -> Iterator[Chunk]:
        for chunk in self._read(looks, exporting, held):
            if isinstance(chunk, Punctuation):
                self._promised = True
            else:
                self._promised = False
                self._given += len(chunk)
            yield chunk

    def _read(self, looks: Iterator[Look], exporting: ExporterProgress, held: _Held) -> Iterator[Chunk]:
        for times, datagrams in looks:
            promises = [promise for now in times for promise in exporting.elapse(now)]
            if promises:
                yield from held.give()
                yield from promises
            for batch in self.decoder.decode(datagrams):
                yield from held.take(batch)
            if self._polled:
                self._polled = False
                yield from held.give()
                yield from exporting.poll(exporting.latest)
        yield from held.give()

    def _blocks(self) -> Iterator[Datagrams]:
        for number, path in enumerate(self.paths):
            if number < self._file:
                continue
            self._file = number
            feed = feed_of(path, self.ports, strict=self.strict)
            if self._place is not None:
                feed.seek(self._place)
                self._place = None
            self._feeds.append(feed)
            yield from feed.blocks()

    def _finish(self) -> None:
        self.decoder.finish()
        self._ended = True

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise these attributes so finely from now on, where the stream makes its own promises."""
        return self.exporting is not None and self.exporting.describe(grains)

    def poll(self) -> None:
        """Say with the next batch how far the stream is, where it makes its own promises."""
        self._polled = True

    def progress(self) -> tuple[int, int | None]:
        read = sum(f.capture.position if isinstance(f, CapturedDatagrams) else f.position for f in self._feeds)
        return self._before + read, size_of(self.paths)

    def exporters(self) -> list[ExporterCounters]:
        """Return what was counted of every exporter so far."""
        return self.decoder.exporters()

    def check_any(self) -> None:
        """Raise SourceError for a capture of packets none of which is an export datagram to the ports."""
        for feed in self._feeds:
            if isinstance(feed, CapturedDatagrams) and (packets := feed.capture.counts["packets"]) and not feed.found:
                raise SourceError(
                    f"{_without(feed, packets)}.\n"
                    "  Name other ports by the option ports, leave the file out by the option except, or read its\n"
                    "  packets: oop.pcap."
                )

    def notes(self) -> list[str]:
        found = [*self._told_before, *(note for f in self._feeds for note in notes_of(f, ended=self._ended))]
        found += unnamed(self.decoder)
        told = [line for counters in self.exporters() if (line := trouble(counters))]
        more = [f"{len(told) - _SHOWN} more exporters had losses or errors"] if len(told) > _SHOWN else []
        return found + told[:_SHOWN] + more


@attrs.define
class _Held:
    """Batches between which nothing was promised leave as one, of at most so many rows."""

    most: int
    _batches: list[pa.RecordBatch] = attrs.field(init=False, factory=list)
    _rows: int = attrs.field(init=False, default=0)

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._rows + len(batch) > self.most:
            yield from self.give()
        self._batches.append(batch)
        self._rows += len(batch)

    def give(self) -> Iterator[pa.RecordBatch]:
        held, self._batches, self._rows = self._batches, [], 0
        if held:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)


def notes_of(feed: CapturedDatagrams | StoredDatagrams, *, ended: bool) -> list[str]:
    """Say what was passed over in a file, and where it was damaged."""
    if isinstance(feed, StoredDatagrams):
        return feed.notes
    found = list(feed.capture.notes)
    if (packets := feed.capture.counts["packets"]) and not feed.found and ended:
        found.append(_without(feed, packets))
    if feed.cut:
        found.append(f"{feed.capture.name}: {feed.cut} datagrams are cut by the capture's snaplen")
    if feed.fragmented:
        found.append(f"{feed.capture.name}: {feed.fragmented} datagrams came in fragments and were left out")
    return found


def _without(feed: CapturedDatagrams, packets: int) -> str:
    """Say that a capture holds packets and no flow exports."""
    ports = f"to the ports {', '.join(map(str, sorted(feed.ports)))}" if feed.ports else "of UDP"
    many = "its only packet is no" if packets == 1 else f"none of its {packets:,} packets is a"
    return f"{feed.capture.name} holds no flow exports: {many} datagram of NetFlow, IPFIX or sFlow v5 {ports}"


def trouble(counters: ExporterCounters) -> str | None:
    """Say in one line what was lost of an exporter or could not be read; None when nothing was."""
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (counters.lost, f"{counters.losses} lost"),
            (counters.reordered, "datagrams out of order"),
            (counters.duplicated, "datagrams twice"),
            (counters.restarts, "restarts"),
            (counters.no_template, "sets without a template"),
            (counters.held, "sets that wait for a template"),
            (counters.untimed, "records without a start"),
            (counters.unended, "records without an end"),
            (counters.refused, "datagrams refused"),
            (counters.skipped, "sets or samples of other kinds"),
            (counters.beyond, "records beyond what a datagram may hold"),
            (counters.left_out, "sets of templates or options left out, because they came too fast to be read"),
            (counters.unused_rates, "sampling rates not used, as no record tells whether it is of their scope"),
            (counters.unsampled, "packets not sampled for lack of means"),
            (counters.unrated, "records of a sampler that is not announced, which stand for themselves alone"),
            (counters.untold, "datagrams behind which losses are unknown, because not all in them could be counted"),
            (counters.unadmitted, "datagrams of senders that were not known, not read as such came too fast (forged?)"),
            *((number, f"malformed ({reason})") for reason, number in counters.malformed.items()),
        )
        if number
    ]
    if not parts:
        return None
    who = "unknown senders"
    if counters.address is not None:
        (text,) = format_ip(pa.array([counters.address], pa.binary(16))).to_pylist()
        whence = (
            f"{sender_text(text, counters.channel)} port {counters.port}, " if counters.address != bytes(16) else ""
        )
        who = f"{whence}{counters.protocol}, domain {counters.domain}"
    return f"{who}: {', '.join(parts)}"


def unnamed(decoder: FlowDecoder) -> list[str]:
    """Say how many names were left out, if any were."""
    number = decoder.sessions.unnamed
    said = (
        f"{number:,} names of interfaces, applications, VRFs or samplers left out: an exporter may name {MOST_NAMES:,}"
    )
    return [said] if number else []


def _head(path: Path | BinaryIO) -> bytes:
    """Return the first four bytes of what a file holds, unpacked; of a stream, without using them up."""
    try:
        if isinstance(path, Path):
            with path.open("rb") as file:
                return unpack(Plain(cast(BinaryIO, file))).read(4)
        return unpack(Plain(io.BytesIO(_peekable(path).peek(4)))).read(4)
    except PackedDamage:
        return b""


def _peekable(stream: BinaryIO) -> io.BufferedReader:
    if not isinstance(stream, io.BufferedReader):
        raise SourceError(
            "flow exports are read from paths or buffered streams; wrap this one in io.BufferedReader(...)."
        )
    return stream


def _is_capture(path: Path | BinaryIO) -> bool:
    return not is_stored(_head(path))


def feed_of(
    path: Path | BinaryIO, ports: frozenset[int] = PORTS, *, strict: bool = False
) -> CapturedDatagrams | StoredDatagrams:
    """Return how the datagrams in a file are found, by its first bytes; SourceError if it holds none."""
    head = _head(path)
    name = str(path) if isinstance(path, Path) else stream_name(path)
    if is_stored(head):
        return StoredDatagrams(path, name, strict=strict)
    if head[:2] in _NFDUMP:
        raise SourceError(f"{name} is a file of nfdump; read it with oop.nfdump, which runs nfdump.")
    if head and not header_bytes(head) and len(head) == 4:
        raise SourceError(
            f"{name} holds no flow exports: its first bytes are {head.hex(' ')}.\n"
            "  Read are captures (pcap, pcapng) of the datagrams, IPFIX files, and payloads of NetFlow v1, v5, v7,\n"
            "  v9, IPFIX or sFlow v5 end to end; plain, in gzip or in zstd."
        )
    return CapturedDatagrams(Capture(path, batch_rows=_WALKED, strict=strict), ports)
