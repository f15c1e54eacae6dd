"""A view of a run is how far it is at one moment, as plain data: one model for a page, a table, metrics and a record.

All of it is read from what the run counts anyway, so a run that nobody looks at pays nothing. Open windows and the
answers of `why` cost a copy of an operator's state, so a `Viewer`, which looks again and again, asks for them so seldom
that this takes a small share of the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from time import monotonic, thread_time, time_ns
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import OperatorStatistics, watched
from oop_engine.drive.turns import above
from oop_engine.drive.why import EDGES, Wait, closing, telling, why
from oop_engine.plan.graph import OperatorNode, SourceNode
from oop_engine.plan.ticks import tick_ns
from oop_engine.sources.holder import ReportsExporters
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import text_of, tick_text, written_unit
from operators.data.schema import Schema
from operators.data.steps import unit_of
from operators.protocol import Operator
from operators.window import FOREVER, SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.facts import windows_of
from operators.window_aggregate.results import START, STOP, WID, ends_of
from punctuation import below

if TYPE_CHECKING:
    from oop_engine.sources.live.report import ExporterReport

VERSION: Final = 1
"""The version of the form that `View.to_json` writes: it rises when a field changes its meaning or goes."""
WINDOWS: Final = 8
"""Open windows of an operator that a view lists; all are counted."""
EXPORTERS: Final = 200
"""Exporters that a view lists, the furthest behind first; all are counted."""
_SHARE: Final = 0.015
"""The share of the time that a viewer spends on open windows and on `why`."""
_SECOND: Final = 10**9
_LATE: Final = ("late", "late_for_some", "behind", "late_filtered")
"""The counters of tuples that broke a promise."""


@attrs.frozen
class Mark:
    """A value of a progressing attribute: a bound that was promised, or the highest value seen.

    - `attribute`: its name.
    - `tick`: the value as an integer, in the unit of the attribute.
    - `number`: seconds since 1970 where it is a time, the value itself where it is not.
    - `text`: the value as people read it.
    - `time`: whether it is a time.
    """

    attribute: str
    tick: int
    number: float
    text: str
    time: bool


@attrs.frozen
class OpenWindow:
    """A window that has tuples and was not released.

    - `start`, `end`: its edges, the end not in it.
    - `group`: the values it is grouped by, as text; `window` is the name of the window where there are several.
    - `needs`: the promise that completes it, such as `[ts < 12:00:05]`; None where that is not known.
    - `waits_for`: the labels of the sources above it that have not promised that much, the furthest behind first.
    """

    start: Mark
    end: Mark
    group: Mapping[str, str]
    needs: str | None
    waits_for: tuple[str, ...]


@attrs.frozen
class NodeView:
    """A node of the plan.

    - `place`: its place in the plan; `label`: its name; `kind`: "source" or "operator".
    - `tuples_in`, `tuples_out`, `promises_in`, `promises_out`: counts since the run began.
    - `rate`: tuples in, per second since the last look; None at the first.
    - `late`: counts of tuples that broke a promise, by what became of them; only those that are not zero.
    - `low_watermark`: how far it has promised; None where it has not, or its stream does not progress.
    - `lag`: how far that is behind the highest value that a source above it gave: seconds for times, else a number.
    - `state_tuples`, `state_bytes`: what it holds.
    - `open_windows`: how many windows are open; None where it has none of its own. `windows`: those that end first.
    - `waiting`: tuples that were given to it and that it has not taken, which is backpressure.
    - `waiting_pages`: pages and promises that wait in its inbox; None where it has no inbox of its own.
    - `ended`: whether nothing more comes to it.
    """

    place: int
    label: str
    kind: str
    tuples_in: int
    tuples_out: int
    promises_in: int
    promises_out: int
    rate: float | None
    late: Mapping[str, int]
    low_watermark: Mark | None
    lag: float | None
    state_tuples: int
    state_bytes: int
    open_windows: int | None
    windows: tuple[OpenWindow, ...]
    waiting: int
    waiting_pages: int | None
    ended: bool


@attrs.frozen
class EdgeView:
    """An edge of the plan, from one node to a port of another; `tuples` is how many left for it so far."""

    upstream: int
    reader: int
    port: int
    tuples: int


@attrs.frozen
class SourceView:
    """A source, beside what the node at its place says.

    - `promised`: how far it has promised; `highest`: the highest value that it gave.
    - `silent`: seconds since it gave something; None where it has given nothing yet.
    - `policy`: what becomes of its late tuples: "drop", "refuse", "divert" or "revise".
    - `read`, `size`: how far its reading is, and how far it goes, in bytes; 0 and None where that is not known.
    - `live`: whether it cannot be read again.
    """

    place: int
    label: str
    promised: Mark | None
    highest: Mark | None
    silent: float | None
    policy: str
    read: int
    size: int | None
    live: bool
    ended: bool


@attrs.frozen
class ExporterView:
    """An exporter that a source hears; times are in seconds.

    - `skew`: by how much its clock is behind ours; `behind`: how far its promise is behind now.
    - `silent`: for how long nothing was heard of it.
    - `lost`: what its sequence says never came; `late`: records that were behind a promise.
    - `active`, `inactive`: the timeouts that it announced.
    - `state`: as `ExporterReport` says it.
    """

    source: int
    name: str
    port: int
    domain: int
    protocol: str
    state: str
    datagrams: int
    records: int
    lost: int
    late: int
    skew: float | None
    behind: float | None
    silent: float | None
    active: float | None
    inactive: float | None


@attrs.frozen
class OutputView:
    """An output of the plan: its node, what waits for its consumer, and what its next window waits for.

    `waiting_pages` counts pages and promises in the inbox of its consumer, None where there is none.
    """

    number: int
    place: int
    label: str
    tuples: int
    waiting_pages: int | None
    wait: Wait | None


@attrs.frozen(repr=False)
class View:
    """Hold how far a run is at one moment.

    - `at`: when that was, in ns since 1970.
    - `state`: "beginning", "running" or "ended".
    - `nodes`, `edges`: the plan, in its order; `sources`, `exporters`, `outputs`: what is more to say of those.
    - `heard`: how many exporters there are; at most `EXPORTERS` are listed.
    - `checkpoint_age`: seconds since the last checkpoint was committed; None where none was in this run.
    """

    at: int
    state: str
    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]
    sources: tuple[SourceView, ...]
    exporters: tuple[ExporterView, ...]
    heard: int
    outputs: tuple[OutputView, ...]
    checkpoint_age: float | None

    def __repr__(self) -> str:
        """Return the state, and how much there is."""
        return f"View({self.state}; {len(self.nodes)} nodes, {len(self.outputs)} outputs)"

    def plain(self) -> dict[str, Any]:
        """Return the view as dictionaries and lists, as `to_json` writes them.

        The names are those of the fields, with `version` in front; a `wait` has its sentence as `text`, too. Text of
        others is printable.
        """
        return {"version": VERSION, **_plain(self)}

    def to_json(self) -> str:
        """Return the view as one line of JSON."""
        return json.dumps(self.plain(), separators=(",", ":"), ensure_ascii=False)


def view(circuit: Circuit, *, now: int | None = None) -> View:
    """Return how far a run is; call it where no operator is at work.

    - `now`: the time in ns since 1970; by default that of the clock.
    """
    return Viewer(circuit).look(now)


@attrs.define(eq=False)
class Viewer:
    """Look at a run again and again: rates are since the last look, and what costs much is asked less often.

    - `share`: the share of the time that open windows and `why` may take; what they said last is shown meanwhile.
    """

    circuit: Circuit
    share: float = _SHARE
    clock: Callable[[], float] = monotonic
    _last: tuple[float, Mapping[int, int]] | None = attrs.field(init=False, default=None)
    """When the last look was, and the tuples that each node had taken."""
    _windows: dict[int, tuple[int, tuple[OpenWindow, ...]]] = attrs.field(init=False, factory=dict)
    _waits: tuple[Wait, ...] = attrs.field(init=False, default=())
    _due: float = attrs.field(init=False, default=float("-inf"))
    """When open windows are asked for again."""
    _warm: bool = attrs.field(init=False, default=False)
    """Whether they were asked for before; the first time may compile, and says nothing of the next."""
    asking: float = attrs.field(init=False, default=0.0)
    """Seconds of this thread that asking for them took in the last look."""

    def look(self, now: int | None = None) -> View:
        """Return how far the run is; call it where no operator is at work."""
        circuit, moment = self.circuit, self.clock()
        at = time_ns() if now is None else now
        begun = bool(circuit.operators)
        ended = begun and len(circuit.finished) == len(circuit.inputs)
        counts = circuit.statistics()
        self.asking = 0.0
        if begun and (moment >= self._due or ended):
            started = thread_time()
            self._ask()
            self.asking = thread_time() - started
            self._due = moment + self.asking / self.share * self._warm
            self._warm = True
        nodes = self._nodes(counts, moment, circuit.queued()) if begun else ()
        sources = tuple(self._sources(moment)) if begun else ()
        heard, exporters = self._exporters(at) if begun else (0, ())
        committed = circuit.committed
        return View(
            at=at,
            state="ended" if ended else "running" if begun else "beginning",
            nodes=nodes,
            edges=tuple(self._edges()),
            sources=sources,
            exporters=exporters,
            heard=heard,
            outputs=tuple(self._outputs()),
            checkpoint_age=None if committed is None else max(0.0, moment - committed),
        )

    def _ask(self) -> None:
        """Ask what costs a copy of a state."""
        circuit = self.circuit
        self._waits = why(circuit)
        for place, node in enumerate(circuit.plan.nodes):
            if STOP in node.schema and (found := telling(circuit, place)):
                pages = [(opening, opening.open_windows(FOREVER)) for opening in found]
                listed = [
                    window for opening, page in pages for window in self._listed(place, opening, page.slice(0, WINDOWS))
                ]
                listed.sort(key=lambda window: (window.end.tick, window.start.tick))
                self._windows[place] = sum(len(page) for _, page in pages), tuple(listed[:WINDOWS])

    def _listed(self, place: int, opening: Any, page: Page) -> Iterator[OpenWindow]:
        """Yield the rows of a page of open windows."""
        schema, rows, plan = page.schema, page.rows(), self.circuit.plan
        names = [name for name in schema.names if name not in (START, STOP, WID)]
        texts = {name: text_of(page.column(name), schema.field(name)).to_pylist() for name in names}
        (starts, begun), ends = page.timed(START), ends_of(page)
        over = next((window.wattr for window in windows_of(opening)), None)
        far = {at: self._reached(at, over) for at in above(self.circuit.plan, place)}
        for number, row in enumerate(rows):
            start, end = _mark(schema, START, int(starts[number])), _mark(schema, STOP, int(ends[number]))
            waits = [at for at, reached in sorted(far.items(), key=lambda one: one[1]) if reached < end.number]
            # An edge that is that of the stream is drawn as far as the sources are.
            seen = [n for n in far.values() if isfinite(n)]
            if ends[number] == FOREVER:
                end = attrs.evolve(end, number=max(seen, default=start.number), text=EDGES[STOP])
            if begun is not None and not begun[number]:
                start = attrs.evolve(start, number=min([*seen, end.number]), text=EDGES[START])
            promise = closing(opening, row)
            bound = None if promise is None or not promise.patterns else below(promise.patterns[0][1])
            yield OpenWindow(
                start,
                end,
                {name: printable(str(texts[name][number])) for name in names},
                None if bound is None else f"[{over or end.attribute} < {end.text}]",
                tuple(printable(plan.nodes[at].label) for at in waits if at not in self.circuit.finished),
            )

    def _reached(self, place: int, name: str | None) -> float:
        """Return how far a source has promised an attribute, as the number of a mark."""
        schema = self.circuit.plan.nodes[place].schema
        attribute = name if name in self.circuit.meters[place].lwm else watched(schema)
        found = None if attribute is None else self.circuit.meters[place].lwm.get(attribute)
        if attribute is None or not isinstance(found, int):
            return float("-inf")
        return _mark(schema, attribute, found).number

    def _nodes(
        self, counts: Sequence[OperatorStatistics], moment: float, queued: Mapping[int, int]
    ) -> tuple[NodeView, ...]:
        plan, before = self.circuit.plan, self._last
        self._last = moment, {place: one.tuples_in for place, one in enumerate(counts)}
        found: list[NodeView] = []
        ended: list[bool] = []
        for place, (node, one) in enumerate(zip(plan.nodes, counts, strict=True)):
            source = isinstance(node, SourceNode)
            upstream = [plan.position(above) for above in node.inputs]
            # Nodes come behind those that they read.
            ended.append(place in self.circuit.finished if source else all(ended[at] for at in upstream))
            given = sum(counts[at].tuples_out for at in upstream)
            passed = None if before is None or moment <= before[0] else moment - before[0]
            promised = _promised(node.schema, one, node.operator if isinstance(node, OperatorNode) else None)
            number, windows = self._windows.get(place, (None, ()))
            found.append(
                NodeView(
                    place=place,
                    label=printable(node.label),
                    kind="source" if source else "operator",
                    tuples_in=one.tuples_in,
                    tuples_out=one.tuples_out,
                    promises_in=one.punctuations_in,
                    promises_out=one.punctuations_out,
                    rate=None if passed is None or before is None else (one.tuples_in - before[1][place]) / passed,
                    late={name: count for name in _LATE if (count := one.details.get(name, 0))},
                    low_watermark=promised,
                    lag=None if promised is None else self._lag(place, promised),
                    state_tuples=one.details.get("state_tuples", 0),
                    state_bytes=one.details.get("state_bytes", 0),
                    open_windows=number,
                    windows=windows,
                    waiting=0 if source else max(0, given - one.tuples_in),
                    waiting_pages=queued.get(place),
                    ended=ended[place],
                )
            )
        return tuple(found)

    def _lag(self, place: int, promised: Mark) -> float | None:
        """Return how far a promise is behind the highest value of the sources above it."""
        plan, meters = self.circuit.plan, self.circuit.meters
        places = [place] if isinstance(plan.nodes[place], SourceNode) else above(plan, place)
        marks = [
            _mark(plan.nodes[at].schema, name, highest) for at in places for name, highest in meters[at].hwm.items()
        ]
        alike = [mark.number for mark in marks if mark.time == promised.time]
        return max(0.0, max(alike) - promised.number) if alike else None

    def _edges(self) -> Iterator[EdgeView]:
        plan, meters = self.circuit.plan, self.circuit.meters
        for reader, node in enumerate(plan.nodes):
            for port, upstream in enumerate(map(plan.position, node.inputs)):
                yield EdgeView(upstream, reader, port, meters[upstream].tuples_out)

    def _sources(self, moment: float) -> Iterator[SourceView]:
        circuit = self.circuit
        for place, node in enumerate(circuit.plan.nodes):
            if not isinstance(node, SourceNode):
                continue
            meter, attribute = circuit.meters[place], watched(node.schema)
            promised = None if attribute is None else meter.lwm.get(attribute)
            highest = None if attribute is None else meter.hwm.get(attribute)
            read, size = circuit.progress(place)
            heard = circuit.heard.get(place)
            yield SourceView(
                place=place,
                label=printable(node.label),
                promised=_mark(node.schema, attribute, promised) if attribute and isinstance(promised, int) else None,
                highest=_mark(node.schema, attribute, highest) if attribute and highest is not None else None,
                silent=None if heard is None else max(0.0, moment - heard),
                policy=node.late,
                read=read,
                size=size,
                live=not node.source.rewindable,
                ended=place in circuit.finished,
            )

    def _exporters(self, now: int) -> tuple[int, tuple[ExporterView, ...]]:
        found: list[ExporterView] = []
        for place, reader in self.circuit.readers.items():
            if isinstance(reader, ReportsExporters):
                found += [_exporter(place, report, now) for report in reader.exporters()]
        found.sort(key=lambda one: (-(one.behind if one.behind is not None else -1.0), -one.datagrams))
        return len(found), tuple(found[:EXPORTERS])

    def _outputs(self) -> Iterator[OutputView]:
        circuit, queued = self.circuit, self.circuit.queued()
        for number, node in enumerate(circuit.plan.outputs):
            place = circuit.plan.position(node)
            yield OutputView(
                number=number,
                place=place,
                label=printable(node.label),
                tuples=circuit.meters[place].tuples_out,
                waiting_pages=queued.get(-1 - number),
                wait=self._waits[number] if self._waits else None,
            )


def _promised(schema: Schema, counts: OperatorStatistics, operator: Operator | None) -> Mark | None:
    """Return the promise of a node that says best how far it is: a time, where it promises one."""
    first = watched(schema)
    bounds = {name: bound for name, bound in counts.lwm.items() if isinstance(bound, int) and name in schema}
    names = [name for name in ([first] if first is not None else []) + list(bounds) if name in bounds]
    for name in names:
        if name not in (FROM, UNTIL, WID):
            return _mark(schema, name, bounds[name])
    window = next((window for window in windows_of(operator) if isinstance(window, SlidingWindow)), None)
    if FROM in bounds and window is not None and window.wattr in schema:
        # The windows before that one are complete, and with them all that ends where the last of them does.
        return _mark(schema, window.wattr, int(window.extent(bounds[FROM] - 1)[1]))
    return None


def _mark(schema: Schema, name: str, tick: int) -> Mark:
    kind = schema.field(name).type
    if not pa.types.is_timestamp(kind):
        number = float(tick * unit_of(kind))
        return Mark(printable(name), tick, number, tick_text(tick, written_unit(kind)), False)
    return Mark(printable(name), tick, tick * (tick_ns(kind) or 1) / _SECOND, tick_text(tick, kind.unit), True)


def _exporter(place: int, report: ExporterReport, now: int) -> ExporterView:
    counters = report.counters
    return ExporterView(
        source=place,
        name=report.who,
        port=counters.port,
        domain=counters.domain,
        protocol=counters.protocol,
        state=report.state,
        datagrams=counters.datagrams,
        records=counters.records,
        lost=counters.lost,
        late=report.late,
        skew=_seconds(report.skew),
        behind=_seconds(report.trails),
        silent=None if report.last is None else max(0.0, (now - report.last) / _SECOND),
        active=_seconds(report.active),
        inactive=_seconds(report.inactive),
    )


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / _SECOND


def _plain(value: object) -> Any:
    """Return a value of a view as JSON has it; text of others is printable, and what JSON has no form for is text."""
    if isinstance(value, Wait):
        return {name: _plain(one) for name, one in value.to_json().items()}
    if attrs.has(type(value)):
        return {f.name: _plain(getattr(value, f.name)) for f in attrs.fields(type(value))}
    if isinstance(value, Mapping):
        return {printable(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return printable(str(value))
