"""Run a stage's part of a plan: elements come in by edges, and those for other stages go out as rows.

It is the plan's circuit with the other stages cut off. All it remembers is in `state`, so that it can be put away
between any two rows and go on elsewhere; promises of several origins are met before the operators see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import time_ns
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan, SourceNode
from oop_engine.sources.protocol import Chunk, Reader, Source
from oop_engine.sources.reading import Passing
from oop_engine.spark.narrow import page_bytes, read_page
from oop_engine.spark.stages import KEYED, NAMES, Cut
from oop_engine.spark.wire import COUNTS, PAGE, Splitter, WireRow, edge_schema, read_promise
from operators.data.page import Page
from operators.data.saved import (
    decode_state,
    encode_state,
    load_meet,
    part,
    prefixed,
    read_int,
    read_text,
    restore,
    save_meet,
)  # fmt: skip
from operators.data.schema import Schema
from operators.protocol import Element, Measured, State
from operators.window_aggregate.bucket import FROM, UNTIL
from punctuation import END, NEVER, NO_TIME, Meet, Punctuation, before

_SECOND: Final = 10**9


@attrs.frozen(eq=False)
class Elsewhere(Passing):
    """A stream that is read somewhere else, and of which this stage knows the attributes alone."""

    name: str
    arrow: pa.Schema
    promised: tuple[str | tuple[str, ...], ...] = ()

    def open(self, columns: Sequence[str], batch_rows: int) -> Reader:
        raise TypeError(f"{self.name} is read elsewhere")


def with_sources(plan: Plan, sources: Mapping[int, Source]) -> Plan:
    """Return the same plan over other sources, by place; schemas and promises stay."""
    made: dict[int, Node] = {}
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            made[id(node)] = attrs.evolve(node, source=sources.get(place, node.source))
        else:
            made[id(node)] = attrs.evolve(node, inputs=tuple(made[id(upstream)] for upstream in node.inputs))
    return Plan(tuple(made[id(node)] for node in plan.outputs))


def elsewhere(plan: Plan) -> Plan:
    """Return the same plan over streams that are read elsewhere: small, and nothing is read ahead for it."""
    sources: dict[int, Source] = {
        place: Elsewhere(node.source.name, node.source.arrow, tuple(node.source.promised))
        for place, node in plan.sources.items()
    }
    return with_sources(plan, sources)


@attrs.define(eq=False)
class StageRun:
    """Run one stage of a cut plan, or one bucket of it."""

    cut: Cut
    number: int
    buckets: Mapping[int, int]
    """How many buckets each stage has."""
    origin: int = attrs.field(default=0, kw_only=True)
    """Which of the stage's buckets, or partitions, this is."""
    origins: Mapping[int, int] = attrs.field(factory=dict, kw_only=True)
    """How many origins each stage has as one that rows come from; one, where nothing is said."""
    promising: bool = attrs.field(default=True, kw_only=True)
    """Whether promises go out with the tuples; else only what the tuples themselves tell of their order."""
    wall: Callable[[], int] = attrs.field(default=time_ns, kw_only=True)
    """Says what time it is, in ns since 1970; it stands still while rows of a micro-batch are taken."""
    circuit: Circuit = attrs.field(init=False)
    heard_before: float | None = attrs.field(init=False, default=None)
    """When any source gave something last, before what this run took; in seconds since 1970."""
    _entries: list[tuple[tuple[int, int], ...]] = attrs.field(init=False)
    _meets: list[Meet] = attrs.field(init=False)
    _schemas: list[Schema | None] = attrs.field(init=False)
    _splitters: dict[tuple[int, int], Splitter] = attrs.field(init=False, factory=dict)
    _ended: set[int] = attrs.field(init=False, factory=set)
    _heard_until: float | None = attrs.field(init=False, default=None)
    _seq: int = attrs.field(init=False, default=0)
    _rank: int = attrs.field(init=False, default=NO_TIME)
    _rows: list[WireRow] = attrs.field(init=False, factory=list)
    _output: list[Element] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        cut, stages = self.cut, self.cut.stages
        into = cut.into(self.number)
        self._entries = [edge.readers for edge in into]
        self._meets = [Meet(self.origins.get(stages[edge.giver], 1)) for edge in into]
        self._schemas = [None] * len(into)
        for stage in set(stages) - {self.number}:
            for port, edge in enumerate(cut.into(stage)):
                if stages[edge.giver] == self.number:
                    self._splitters[edge.readers[0]] = Splitter(edge, port, self.buckets.get(stage, 1))
        now = self.wall()
        self.circuit = Circuit(
            cut.plan, boundary=lambda place: stages[place] != self.number, crossed=self._cross,
            clock=lambda: now / _SECOND, wall=lambda: now,
        )  # fmt: skip
        self.circuit.prepare()

    def _cross(self, reader: int, port: int, element: Element) -> None:
        if reader < 0:
            if self.cut.last == self.number:
                self._output.append(element)
            return
        splitter = self._splitters.get((reader, port))
        if splitter is None or (isinstance(element, Punctuation) and not self.promising):
            return
        for row in splitter.split(element, origin=self.origin, seq=self._seq, least=self._rank):
            self._rows.append(row)
            if self.promising:
                self._rank = max(self._rank, row.rank)
        self._seq += 1

    @property
    def arrow(self) -> pa.Schema:
        """Return the attributes of the plan's output."""
        return self.cut.plan.outputs[0].schema.arrow

    def read(self, place: int, chunk: Chunk) -> None:
        """Take what a source gave; for the front."""
        for element in self.circuit.pages(place, chunk):
            self.circuit.give(place, 0, element)

    def hear(self, place: int) -> None:
        """Note that a source gave something that others took for it; for the front."""
        self.circuit.heard[place] = self.circuit.clock()

    def finish(self, place: int) -> None:
        """Take the end of a source; for the front."""
        self.circuit.finish(place)

    def take(self, row: WireRow) -> None:
        """Take a row; those of one origin come in the order of their `seq`. One for another stage goes on its way."""
        if row.stage != self.number:
            self._rows.append(row)
        elif row.kind == PAGE:
            self._give(row.port, self._page(row.port, row.body))
        elif row.kind != COUNTS:
            for promise in self._meets[row.port].advance(row.origin, read_promise(row.body)):
                self.promise(row.port, promise)

    def pass_on(self, row: WireRow, least: int) -> None:
        """Send on a page that another made for this stage's readers; of its tuples' windows those from `least` on."""
        rank, body = row.rank, row.body
        if rank < least:
            batch = _since(read_page(body), least)
            if not batch.num_rows:
                return
            rank, body = least, page_bytes(batch)
        self._rank = max(self._rank, rank)
        self._rows.append(attrs.evolve(row, origin=self.origin, seq=self._seq, rank=self._rank, body=body))
        self._seq += 1

    def promise(self, port: int, promise: Punctuation) -> None:
        """Take a promise that is true of everything still to come by an edge."""
        if port in self._ended:
            return
        if promise.is_end:
            self._ended.add(port)
        self._give(port, promise)

    def end(self) -> None:
        """Take the end of every edge."""
        for port in range(len(self._entries)):
            self.promise(port, END)

    def let_go(self) -> None:
        """Send on what low levels hold: what is summed up elsewhere is better kept there, once, than in two states."""
        for place in self._own():
            self.circuit.let_go(place)

    def rows(self) -> list[WireRow]:
        """Return the rows for other stages since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def output(self) -> list[Page]:
        """Return the results since the last call."""
        output, self._output = self._output, []
        return [element for element in output if isinstance(element, Page)]

    def counts(self) -> dict[str, int]:
        """Return what the operators of this stage counted, added up by name; what they hold is left out."""
        counts: dict[str, int] = {}
        for place in self._own():
            operator = self.circuit.operators[place]
            for name, count in (operator.statistics() if isinstance(operator, Measured) else {}).items():
                if count and not name.startswith(("state_", "peak_")):
                    counts[name] = counts.get(name, 0) + count
        return counts

    def state(self) -> bytes:
        """Return everything remembered, as bytes."""
        state: State = {"plan": self._fingerprint(), "seq": self._seq, "rank": self._rank}
        state |= {f"ended.{port}": True for port in self._ended}
        for port, meet in enumerate(self._meets):
            state |= prefixed(f"meet.{port}.", save_meet(meet))
        for place in self._own():
            state |= prefixed(f"operator.{place}.", self.circuit.operators[place].state())
        state |= {"stage": self.number, "bucket": self.origin, "buckets": self.buckets.get(KEYED, 1)}
        state["progress"] = json.dumps(self._progress())
        return encode_state(state)

    def _progress(self) -> dict[str, object]:
        """Return what no operator remembers: how far nodes are, when sources were heard, and which have ended."""
        circuit = self.circuit
        meters = {place: [circuit.meters[place].lwm, circuit.meters[place].hwm] for place in self._own()}
        last = max(circuit.heard.values(), default=None)
        before = self.heard_before if last is None or last < circuit.clock() else self._heard_until
        return {"meters": meters, "heard": circuit.heard, "before": before, "finished": sorted(circuit.finished)}

    def restore(self, saved: bytes) -> None:
        """Become the stage whose `state` this was; called on a fresh one. PlanError when it was another plan's."""
        state = decode_state(saved)
        if state.get("plan") != self._fingerprint():
            raise PlanError(
                "the checkpoint has the state of another plan, or of another number of buckets.\n"
                f"  saved:   {state.get('plan')}\n  running: {self._fingerprint()}\n"
                "  Run the plan that wrote it, with as many buckets, or give this one a checkpoint of its own."
            )
        self._seq, self._rank = read_int(state, "seq"), read_int(state, "rank")
        self._ended = {port for port in range(len(self._entries)) if f"ended.{port}" in state}
        self._meets = [load_meet(meet.ports, part(f"meet.{port}.", state)) for port, meet in enumerate(self._meets)]
        for place in self._own():
            restore(self.circuit.operators[place], part(f"operator.{place}.", state))
        if "progress" in state:
            self._go_on(json.loads(read_text(state, "progress")))

    def _go_on(self, progress: Mapping[str, Any]) -> None:
        circuit = self.circuit
        for place, (low, high) in progress["meters"].items():
            circuit.meters[int(place)].lwm.update(low)
            circuit.meters[int(place)].hwm.update(high)
        circuit.heard.update({int(place): moment for place, moment in progress["heard"].items()})
        circuit.finished.update(progress["finished"])
        self.heard_before = progress["before"]
        self._heard_until = max(circuit.heard.values(), default=None)

    def _fingerprint(self) -> str:
        """Return in one line which plan a state is of."""
        nodes = [
            f"{NAMES[stage]}: {node.label}" for node, stage in zip(self.cut.plan.nodes, self.cut.stages, strict=True)
        ]
        return " | ".join([*nodes, f"{self.buckets.get(KEYED, 1)} buckets"])

    def _own(self) -> list[int]:
        return [place for place, stage in enumerate(self.cut.stages) if stage == self.number]

    def _give(self, port: int, element: Element) -> None:
        for place, entry in self._entries[port]:
            self.circuit.give(place, entry, element)

    def _page(self, port: int, body: bytes) -> Page:
        batch = read_page(body)
        schema = self._schemas[port]
        if schema is None or not schema.arrow.equals(batch.schema, check_metadata=True):
            edge = self.cut.into(self.number)[port]
            schema = edge_schema(edge, self.cut.plan.nodes[edge.giver].schema, batch.schema)
            self._schemas[port] = schema
        return Page(schema, batch)


def _since(batch: pa.RecordBatch, least: int) -> pa.RecordBatch:
    """Leave out of tuples the windows below `least`, and what is then in no window."""
    first = np.maximum(batch.column(FROM).to_numpy(), least)
    open_ = first < batch.column(UNTIL).to_numpy()
    return batch.set_column(batch.schema.get_field_index(FROM), batch.schema.field(FROM), pa.array(first)).filter(open_)


def in_order(rows: Iterable[WireRow]) -> list[WireRow]:
    """Return rows in an order in which a stage may take them: those of one origin by `seq`."""
    return sorted(rows, key=lambda row: (row.origin, row.seq))


def take_ranked(stage: StageRun, rows: Iterable[WireRow], ranked: Mapping[int, str]) -> Iterator[None]:
    """Let a stage take rows in the order of their rank, and promise of each edge what the next rank allows.

    `ranked` names the attribute of each edge, by port, of which a rank speaks; other edges bring their own promises.
    Gives control back after each row. Nothing follows the last one.
    """
    reached = NO_TIME
    for row in rows:
        if reached < row.rank < NEVER:
            reached = row.rank
            for port, attribute in ranked.items():
                stage.promise(port, before(attribute, reached))
        stage.take(row)
        yield
    stage.end()
    yield
