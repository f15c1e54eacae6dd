"""Generated links are replayed by the clock of their arrival, tick by tick, to measure what a plan holds and how long.

The clock is the packets' own arrival time, not this machine's: the same links give the same figures everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import Deliver
from oop_engine.plan.graph import Plan, SourceNode
from oop_engine.sources.generator import Generated
from oop_engine.sources.protocol import ARRIVAL, Chunk
from oop_engine.sources.reading import Passing, Reading
from operators.data.page import Page
from operators.protocol import Element, Measured


@attrs.frozen
class Clock:
    """A clock that begins at a time in ns and goes on by so many ticks of so many ns."""

    begin: int
    tick: int
    ticks: int


@attrs.frozen(eq=False)
class Link(Passing):
    """A generated link as a live source: each chunk is what arrived in one tick of the clock."""

    name: str
    arrow: pa.Schema = attrs.field(repr=False)
    ticks: tuple[pa.RecordBatch, ...] = attrs.field(repr=False)

    @classmethod
    def of(cls, generated: Generated, clock: Clock) -> Link:
        """Cut a link, generated with its arrival times, into ticks of the clock, the last one with all that is left."""
        batches = list(generated.batches())
        table = pa.Table.from_batches(batches, generated.schema).combine_chunks()
        arrival = table.column(ARRIVAL).cast(pa.int64()).to_numpy()
        ends = np.searchsorted(arrival, clock.begin + clock.tick * np.arange(1, clock.ticks + 1))
        ends[-1] = len(arrival)
        packets = table.drop_columns([ARRIVAL])
        cuts = [packets.slice(a, b - a) for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
        return cls(generated.link, packets.schema, tuple(_batch(cut) for cut in cuts))

    @property
    def promised(self) -> tuple[str, ...]:
        return ()

    def open(self, columns: Sequence[str], batch_rows: int) -> _Reading:
        return _Reading([batch.select(list(columns)) for batch in self.ticks])


@attrs.frozen(eq=False)
class _Reading(Reading):
    batches: list[pa.RecordBatch]

    def chunks(self) -> Iterator[Chunk]:
        return iter(self.batches)

    def progress(self) -> tuple[int, int | None]:
        return 0, None


@attrs.frozen
class Result:
    """A tuple of the output and when it came, in ns of the arrival clock."""

    row: dict[str, object]
    at: int


@attrs.frozen
class Replay:
    """The measurements: results, the most that was held, and how long tuples waited on the way."""

    results: tuple[Result, ...]
    tuples: int
    peak_tuples: int
    peak_bytes: int
    waiting: float
    """Mean seconds, of the arrival clock, that a tuple was held by the union (Little's law: state over throughput)."""


def replay(
    plan: Plan,
    clock: Clock,
    *,
    released: Callable[[Result], None] = lambda result: None,
    taken: Deliver = lambda element: None,
    passing: Callable[[Circuit], None] = lambda circuit: None,
) -> Replay:
    """Run a plan over `Link`s that were cut by this clock; `released` is called for every result as it comes.

    `taken` is given all that the output emits, and `passing` is called with the circuit after each tick.
    """
    results: list[Result] = []
    now = clock.begin

    def crossed(place: int, port: int, element: Element) -> None:
        taken(element)
        if isinstance(element, Page):
            for row in element.plain_rows():
                result = Result(dict(row), now)
                results.append(result)
                released(result)

    circuit = Circuit(plan, crossed=crossed)
    circuit.prepare()
    places = list(plan.sources)
    unions = {i for i, node in enumerate(plan.nodes) if len(node.inputs) > 1}
    incoming = {place: circuit.open(place) for place in places}
    most_tuples, most_bytes, waited = 0, 0, 0
    for number in range(clock.ticks):
        now = clock.begin + (number + 1) * clock.tick
        for place in places:
            for page in circuit.pages(place, next(incoming[place])):
                circuit.give(place, 0, page)
            circuit.elapse(place, now)
        passing(circuit)
        held = _state(circuit)
        most_tuples = max(most_tuples, sum(tuples for tuples, _ in held.values()))
        most_bytes = max(most_bytes, sum(size for _, size in held.values()))
        waited += sum(tuples for place, (tuples, _) in held.items() if place in unions)
    for place in places:
        circuit.finish(place)
    passing(circuit)
    read = sum(circuit.meters[place].tuples_in for place in places)
    return Replay(tuple(results), read, most_tuples, most_bytes, waited * clock.tick / 1e9 / max(read, 1))


def _state(circuit: Circuit) -> dict[int, tuple[int, int]]:
    """Return what each operator holds now, in tuples (or partial aggregates) and in bytes."""
    found: dict[int, tuple[int, int]] = {}
    for place, operator in enumerate(circuit.operators):
        if isinstance(operator, Measured) and not isinstance(circuit.plan.nodes[place], SourceNode):
            held = operator.statistics()
            found[place] = (held.get("state_tuples", 0), held.get("state_bytes", 0))
    return found


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
