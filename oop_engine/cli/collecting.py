"""One collection from the command line: the socket opened, results shown as they are released, exporters told of."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import attrs
import click
import pyarrow as pa

from oop_engine.api.read import netflow, sflow_counters
from oop_engine.api.stream import Stream
from oop_engine.cli.naming import STDOUT
from oop_engine.cli.options import expanded
from oop_engine.cli.progress import Progress
from oop_engine.cli.run import run_stream
from oop_engine.cli.showing import Wishes, run_shown
from oop_engine.cli.summary import missed, summary
from oop_engine.cli.words import lag_text, time_text
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.incomplete import Incomplete
from oop_engine.drive.meter import Statistics
from oop_engine.drive.run_warnings import told as lost
from oop_engine.language import parse
from oop_engine.language.syntax import Name, Query, SelectItem, WindowClause
from oop_engine.language.translate import query
from oop_engine.language.translate.files import flow_elements
from oop_engine.language.walk import tables_of
from oop_engine.messages import say
from oop_engine.plan.graph import SourceNode
from oop_engine.report.facts import one_line
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.errors import SourceEnded
from oop_engine.sources.flows import FLOW_ALIASES
from oop_engine.sources.live import ExporterReport, LiveCounterReader, LiveCounters, LiveFlows, LiveReader
from oop_engine.sources.live.door import Door

_TIME: Final = pa.timestamp("ns", "UTC")
_SHOWN: Final = 40
"""Exporters in the table; what is wrong with others is in the notes."""
_AT_ONCE: Final = 5
"""Closings of connections that are told at once, at most; all are counted at the end."""
_HEAD: Final = (
    "exporter", "protocol", "domain", "datagrams", "records", "lost", "reordered", "twice", "no template", "malformed",
    "late", "skew", "trails", "last seen", "state",
)  # fmt: skip


@attrs.frozen
class Collection:
    """The collection's options; amounts as text, None where an option is missing."""

    listen: str | socket.socket | tuple[str | socket.socket, ...]
    lasting: str | None = None
    most: int | None = None
    allow: tuple[str, ...] = ()
    anyone: bool = False
    buffer: int | None = None
    sockets: int = 1
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    counters: bool = False
    """Read interface counters of sFlow."""
    active: str | None = None
    inactive: str | None = None
    scan: str = "10s"
    settle: str = "10s"
    lull: str | None = "10s"
    idle: str = "60s"
    correct_clocks: bool = False
    shed: bool = False
    state: str | None = None
    tables: Mapping[str, str] = attrs.field(factory=dict)
    """The files of tables that LOOKUP names."""
    elements: str | None = None
    """The file of elements of enterprises."""

    def stream(self, parsed: Query) -> Stream:
        """Return the stream, with promises on what the windows of the query are over."""
        if self.counters:
            return sflow_counters(
                listen=self.listen, allow=self.allow or None, anyone=self.anyone, buffer=self.buffer,
                sockets=self.sockets, lasting=self.lasting, most=self.most,
            )  # fmt: skip
        over = {
            FLOW_ALIASES.get(w.wattr.parts[-1], w.wattr.parts[-1])
            for w in _windows(parsed)
            if isinstance(w.wattr, Name)
        }
        on = tuple(name for name in ("ts", "end_ts") if name in over) or ("ts",)
        options = {
            name: value
            for name, value in attrs.asdict(self, recurse=False).items()
            if name not in ("allow", "tables", "elements", "counters")
        }
        more = flow_elements(parsed.text, self.elements)
        return netflow(allow=self.allow or None, on=on, by_exporter=_by_exporter(parsed), columns=more, **options)


def collect(
    text: str,
    collection: Collection,
    wishes: Wishes,
    begun: Callable[[LiveReader | LiveCounterReader], None] = lambda reader: None,
) -> Statistics:
    """Run a query over what comes in until its time is over, or until SIGINT; say when it has `begun` to listen."""
    parsed = parse(text)
    read_in = {table.name: table for table in tables_of(parsed)}
    if len(read_in) != 1:
        raise click.UsageError(f"one socket is one stream, and the query reads {', '.join(read_in)}; name it once.")
    [(name, table)] = read_in.items()
    if table.path:
        raise click.UsageError(f"collect listens to exporters, and the query reads the file {name}; write FROM Flows.")

    def made(stream: Stream) -> Stream:
        return query(text, {name: stream}, tables=collection.tables)

    stream = collection.stream(parsed)
    if collection.counters:
        return counted(stream, made, wishes, begun)
    return listened(stream, made, wishes, begun, state=collection.state)


def counted(
    stream: Stream,
    made: Callable[[Stream], Stream],
    wishes: Wishes,
    begun: Callable[[LiveCounterReader], None] = lambda reader: None,
) -> Statistics:
    """Run what is made of a stream of counters that are listened to, and show results; parameters as in `listened`."""
    readers: list[LiveCounterReader] = []

    def opened(reader: LiveCounterReader) -> None:
        readers.append(reader)
        begun(reader)
        if not wishes.quiet and reader.door is not None:
            say(listening_text(reader.door))

    results = made(told_of(stream, opened))
    wishes = attrs.evolve(wishes, endless=True, alarms=LiveAlarms(readers))
    if wishes.checkpoint is not None:
        marking = Incomplete.of(lambda: readers[0] if readers else None, results.node.schema, results.node)
        wishes = attrs.evolve(wishes, marking=marking)
    return run_stream(results, wishes)


def listened(
    stream: Stream,
    made: Callable[[Stream], Stream],
    wishes: Wishes,
    begun: Callable[[LiveReader], None] = lambda reader: None,
    *,
    state: str | None = None,
) -> Statistics:
    """Run what is made of a stream of exporters that are listened to, and show results, exporters and what was lost.

    - `stream`: what exporters send.
    - `made`: makes the results of it.
    - `wishes`: how results are shown and kept.
    - `begun`: is called with the reader when it listens.
    - `state`: the file that keeps what was learnt of exporters.
    """
    going_on = state is not None and expanded(state).exists()
    kept = state is not None or wishes.checkpoint is not None
    readers: list[LiveReader] = []
    wishes = attrs.evolve(wishes, endless=True, append=going_on, alarms=LiveAlarms(readers))

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        begun(reader)
        if following:
            reader.unreleased.follow()
        if not wishes.quiet and reader.door is not None:
            say(listening_text(reader.door))

    node = made(told_of(stream, opened)).node
    plan = prepared(node)
    if kept:
        marking = Incomplete.of(lambda: readers[0] if readers else None, plan.outputs[0].schema, node)
        wishes = attrs.evolve(wishes, marking=marking)

    def told(statistics: Statistics, compiled: bool) -> str:
        lines = exporter_table(readers[0].exporters()) if readers else []
        return "\n".join([*lines, summary(plan, statistics, compiled=compiled, kept=wishes.checkpoint is not None)])

    # Who reads a pipe has seen its results, and nobody knows which: what was promised then is not said again.
    following = (
        state is not None and isinstance(wishes.marking, Incomplete) and wishes.marking.follows and _lasts(wishes.to)
    )
    try:
        statistics = run_shown(plan, wishes, told, node=node, line=_LiveProgress(sys.stderr, readers=readers))
        for reader in readers if following else ():
            reader.close(whole=True, ended=not statistics.interrupted)
    except BaseException:
        for reader in readers if following else ():
            with suppress(SourceEnded):
                reader.close(whole=False)
        raise
    finally:
        if wishes.quiet:
            # What was lost is no progress and no summary.
            for reader in readers:
                for trouble in reader.troubles():
                    say(f"note: {one_line(trouble)}")
    if wishes.quiet:
        for line in [*missed(statistics), *(f"note: {one_line(note)}" for note in lost(plan, statistics.operators))]:
            say(line)
    return statistics


@attrs.define
class LiveAlarms:
    """Say when a journal cannot be written any more, and when it can again; and why connections are closed."""

    readers: Sequence[LiveReader | LiveCounterReader]
    _said: str = attrs.field(init=False, default="")

    def __call__(self) -> Iterator[str]:
        failure = self.readers[0].journal_failure if self.readers else ""
        before, self._said = self._said, failure
        if failure and not before:
            yield (
                f"the journal cannot be written: {failure}. The collection goes on without it, and a kill now loses"
                " what came since the last checkpoint; the next checkpoint tries again"
            )
        if before and not failure:
            yield "the journal is written again"
        door = self.readers[0].door if self.readers else None
        if door is not None and door.streams is not None:
            yield from islice(door.streams.news(), _AT_ONCE)


def listening_text(door: Door) -> str:
    """Say where exporters are listened to, and how much the kernel keeps of what was not read yet."""
    where = ", ".join(map(str, door.addresses))
    buffer = f", receive buffer of {door.buffer:,} bytes" if door.udp else ""
    return f"listening on {where}{buffer}"


def _lasts(to: str) -> bool:
    """Return whether results go to a file, rather than to a terminal, a pipe or a device."""
    path = expanded(to)
    return to != STDOUT and not (path.exists() and not path.is_file() and not path.is_dir())


def exporter_table(reports: Sequence[ExporterReport]) -> list[str]:
    """Return the lines of a table of exporters, the busiest first."""
    busiest = sorted(reports, key=lambda r: -r.counters.datagrams)[:_SHOWN]
    rows = [_HEAD, *(_cells(report) for report in busiest)]
    columns = list(zip(*rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    texts = ["exporter", "protocol", "last seen", "state"]
    lines = [
        "  ".join(
            c.ljust(w) if head in texts else c.rjust(w) for c, w, head in zip(row, widths, _HEAD, strict=True)
        ).rstrip()
        for row in rows
    ]
    left = len(reports) - len(busiest)
    return [*lines, f"... and {left:,} more"] if left > 0 else lines


def _cells(report: ExporterReport) -> tuple[str, ...]:
    c = report.counters
    unit = "flows" if c.losses == "flow records" else "dgrams"
    late = f"{report.late:,}" + (f" ({report.contradicted:,} assumed)" if report.contradicted else "")
    return (
        f"{report.who}:{c.port}" if c.address is not None else report.who,
        c.protocol,
        str(c.domain),
        f"{c.datagrams:,}",
        f"{c.records:,}",
        (f"{c.lost:,} {unit}" if c.lost else "0") + (" + ?" if c.untold else ""),
        f"{c.reordered:,}",
        f"{c.duplicated:,}",
        f"{c.no_template + c.held:,}",
        f"{sum(c.malformed.values()):,}",
        late,
        "-" if report.skew is None else _signed(report.skew),
        "-" if report.trails is None else lag_text(report.trails, _TIME),
        "-" if report.last is None else time_text(report.last, _TIME),
        report.state + (", put right" if report.offset else ""),
    )


def _signed(skew: int) -> str:
    return ("-" if skew < 0 else "") + lag_text(abs(skew), _TIME)


@attrs.define(eq=False)
class _LiveProgress(Progress):
    """Draw the line of a collection: records a second, losses, exporters, how far they are."""

    readers: list[LiveReader] = attrs.field(factory=list, kw_only=True)

    def line(self, circuit: Circuit, now: float) -> str:
        if not self.readers:
            return "opening ..."
        reader = self.readers[0]
        door, reports = reader.door, reader.exporters()
        records = sum(r.counters.records for r in reports)
        lost = sum(r.counters.lost for r in reports)
        live = [r for r in reports if r.state == "live"]
        # Of a replay every clock is far off, and yet all send.
        sending = [r for r in reports if r.state in ("live", "new", "set aside")]
        aside = sum(r.state == "set aside" for r in sending)
        parts = [
            f"{self._speed(records, now):,.0f} records/s",
            f"{records:,} records",
            f"lost {lost:,}",
            f"dropped {0 if door is None else door.dropped:,}",
            f"{len(sending)} of {len(reports)} exporters" + (f" ({aside} not counted: clock off)" if aside else ""),
        ]
        trailing = [r.trails for r in live if r.trails is not None]
        if trailing:
            parts.append(f"lag {lag_text(max(trailing), _TIME)}")
        skews = [r.skew for r in live if r.skew is not None]
        if skews:
            parts.append(f"skew {_signed(max(skews, key=abs))}")
        bound = reader.exporting.bound(reader.exporting.attributes[0])
        if bound > 0:
            parts.append(f"low-watermark {time_text(bound, _TIME).rpartition(' ')[2]}")
        return "  ".join(parts)


def told_of(stream: Stream, opened: Callable[[Any], None]) -> Stream:
    """Return the stream whose reader is told of when its socket is bound."""
    node = stream.node
    assert isinstance(node, SourceNode) and isinstance(node.source, LiveFlows | LiveCounters)
    return Stream(attrs.evolve(node, source=attrs.evolve(node.source, opened=opened)))


def _windows(node: object) -> Iterator[WindowClause]:
    """Yield all windows in a query, those of queries inside it, too."""
    if isinstance(node, WindowClause):
        yield node
    if isinstance(node, tuple):
        for part in node:
            yield from _windows(part)
    elif attrs.has(type(node)):
        for field in attrs.fields(type(node)):
            yield from _windows(getattr(node, field.name))


def _by_exporter(parsed: Query) -> bool:
    """Return whether the query groups by exporter, so that promises of each let its groups go."""
    names = {item.parts[-1] for item in parsed.group_by if isinstance(item, Name)}
    names |= {i.expr.parts[-1] for i in parsed.group_by if isinstance(i, SelectItem) and isinstance(i.expr, Name)}
    return any(FLOW_ALIASES.get(name, name) == "exporter" for name in names)
