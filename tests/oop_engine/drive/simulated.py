"""Run a plan by a clock of our own: every tuple comes at a moment that a test chooses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.circuit import PAGE_ROWS, Circuit
from oop_engine.drive.why import Wait, why
from oop_engine.plan.graph import SourceNode
from oop_engine.plan.punctuate import Promise
from operators.data.page import Page
from operators.protocol import Element, Emit, State, StateValue
from punctuation import Punctuation

SCHEMA = oop.Schema.of(ts="timestamp[s]", k="int64")
SECOND = 10**9
Arrival = tuple[float, str, Sequence[tuple[int, int]]]
"""When tuples come, of which source, and their rows: seconds and a key."""


@attrs.define(eq=False)
class Slow:
    """Pass everything on; a simulation says how long that takes."""

    inputs: int = 1

    def output_schema(self, *inputs: oop.Schema) -> oop.Schema:
        return inputs[0]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        assert not state


@attrs.define(eq=False)
class Simulated:
    """A run whose clock goes on only from one arrival to the next."""

    stream: oop.Stream
    now: float = 0.0
    released: list[tuple[float, Page]] = attrs.field(init=False, factory=list)
    """The pages of results, each with when it came."""
    circuit: Circuit = attrs.field(init=False)
    places: Mapping[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        with self.stream.start() as started:
            plan = started.plan
        self.circuit = Circuit(plan, PAGE_ROWS, crossed=self._take)
        self.circuit.clock, self.circuit.wall = lambda: self.now, lambda: int(self.now * SECOND)
        self.circuit.prepare()
        nodes = enumerate(self.circuit.plan.nodes)
        self.places = {node.label: place for place, node in nodes if isinstance(node, SourceNode)}

    def _take(self, place: int, port: int, element: Element) -> None:
        if isinstance(element, Page) and len(element):
            self.released.append((self.now, element))

    def feed(self, arrivals: Iterable[Arrival], *, tick: float | None = None) -> Iterator[float]:
        """Give what comes, in order of time, and yield the time behind each; a `tick` calls the timers of sources."""
        due = self.now if tick is None else self.now + tick
        for moment, name, rows in arrivals:
            while tick is not None and due < moment:
                self.now = due
                self.elapse()
                due += tick
                yield self.now
            self.now = max(self.now, moment)
            self.give(name, rows)
            yield self.now

    def elapse(self) -> None:
        """Call the timers of all sources that have one."""
        for place in self.places.values():
            if self.circuit.timed(place) and place not in self.circuit.finished:
                self.circuit.elapse(place, self.circuit.wall())

    def give(self, name: str, rows: Sequence[tuple[int, int]]) -> None:
        """Give tuples of a source now; none end it."""
        place = self.places[name]
        if not rows:
            self.circuit.finish(place)
            return
        batch = pa.RecordBatch.from_arrays([*map(pa.array, zip(*rows, strict=True))], names=["ts", "k"])
        batch = batch.cast(pa.schema([("ts", pa.timestamp("s")), ("k", pa.int64())]))
        columns = self.circuit.inputs[place].output_schema(self.circuit.given[place]).names
        for page in self.circuit.pages(place, batch.select(columns)):
            self.circuit.give(place, 0, page)  # pyright: ignore[reportArgumentType]

    def spend(self, seconds: float) -> None:
        """Let each operator that may be slow take so long for each page from now on."""
        for place, operator in enumerate(self.circuit.operators):
            if isinstance(operator, Slow):
                self.circuit.operators[place] = _Spending(run=self, seconds=seconds)
            elif isinstance(operator, _Spending):
                operator.seconds = seconds

    def why(self) -> Wait:
        """Ask what the output waits for now."""
        return why(self.circuit)[0]


@attrs.define(eq=False)
class _Spending(Slow):
    run: Simulated = attrs.field(kw_only=True)
    seconds: float = attrs.field(kw_only=True)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.run.now += self.seconds
        emit(page)


def live(name: str, promise: Promise | None = None) -> oop.Stream:
    """Make a source that a simulation feeds; without a promise, the stream makes its own."""
    schema = SCHEMA if promise is not None else SCHEMA.with_progress([("ts",)])
    return oop.rows(iter(()), schema, name=name, punctuate=promise)
