"""Run the two levels of a window aggregate apart: the high one in a process, a thread, or here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NoReturn

import attrs
import pyarrow as pa

from oop_engine.api.stream import Stream, check_stream
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan, source_node
from oop_engine.processes.frames import Full
from oop_engine.processes.partial_final import PartialFinal
from oop_engine.processes.ring import FRAME, LEAST
from oop_engine.processes.workers import Here, InProcess, InThread, Layout, Split, Worker
from oop_engine.rewrite.passes import prepared
from oop_engine.rewrite.sharing import over
from oop_engine.rewrite.strategy import apart as may_have_levels
from oop_engine.sources.demanded_progress import Endless
from oop_engine.sources.live.reading import Live
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import Passing, Reading, total
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

_LAYOUTS: Final[tuple[Layout, ...]] = ("process", "thread", "here")
_FULL: Final[tuple[Full, ...]] = ("wait", "drop")
RING_BYTES: Final = 1 << 24
MOST_RING_BYTES: Final = 1 << 34
MOST_PROCESSES: Final = 64
"""Processes that may have the low level."""


def apart(
    stream: Stream, *, layout: Layout = "process", low: int = 0, ring_bytes: int = RING_BYTES, full: Full = "wait"
) -> Apart:
    """Run a stream that ends in a window aggregate in two levels, in two processes or more; iterate over the result.

    - `stream`: with strategy="two_level" its levels are as asked for; if the strategy was left open, the table has the
      usual size.
    - `layout`: the high level runs in a "process", in a "thread", or "here".
    - `low`: so many processes have the low level, each a part of the tuples; 0 for none, where it runs here.
    - `ring_bytes`: size of each of the rings between the processes, 4,096 or more.
    - `full`: when a ring is full, "wait", or "drop" partial aggregates; `counters()` counts their tuples, which the
      results lack.

    Filters, joins and windows that read the results go behind `.stream()`. PlanError when the stream does not end in a
    window aggregate, or its results cannot be made of partial ones.

    >>> stream = oop.rows([(1, 7), (2, 7)], oop.Schema.of(ts="int64", k="int64"))
    >>> results = oop.apart(stream.window(range=10).aggregate(oop.count(), by="k"), layout="here")
    >>> [page["count"].tolist() for page in results.pages()], results.counters()
    ([[2]], {})
    """
    check_stream("apart", stream)
    for name, given, known in (("layout", layout, _LAYOUTS), ("full", full, _FULL)):
        if given not in known:
            raise PlanError(f"apart({name}={given!r}): write one of {', '.join(known)}.")
    if isinstance(low, bool) or not isinstance(low, int) or not 0 <= low <= MOST_PROCESSES:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"apart(low={low!r}): write how many processes have the low level, up to {MOST_PROCESSES}; 0 for none."
        )
    if isinstance(ring_bytes, bool) or not isinstance(ring_bytes, int) or not LEAST <= ring_bytes <= MOST_RING_BYTES:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"apart(ring_bytes={ring_bytes!r}): write the size of a ring, from {LEAST:,} to {MOST_RING_BYTES:,} bytes."
        )
    ring_bytes += -ring_bytes % FRAME
    levels = PartialFinal.of(stream.node, counted=full == "drop")
    lower = prepared(levels.entry if low else levels.lower)
    return Apart(lower, Split(levels.low, levels.high, layout, low, ring_bytes, full), levels.schema, levels.label)


def with_levels_apart(node: Node, *, layout: Layout, low: int) -> Node:
    """Return a plan whose window aggregates run in two levels, those apart, whatever reads their results.

    Of aggregates over the results of others it is the last ones. PlanError where there is none that may have two
    levels, or where a stream that comes only once would be read twice.
    """
    made: dict[int, Node] = {}

    def parted(node: Node) -> Node:
        if id(node) not in made:
            made[id(node)] = node
            if may_have_levels(node):
                made[id(node)] = apart(Stream(node), layout=layout, low=low).stream().node
            else:
                for upstream in node.inputs:
                    parted(upstream)
                made[id(node)] = over(node, made)
        return made[id(node)]

    found = Plan((parted(node),))
    aparts = aparts_of(found)
    if not aparts:
        # What it says is right of the stream as a whole.
        PartialFinal.of(node)
    plans = (found, *(one.lower for one in aparts))
    sources = Counter(id(node.source) for plan in plans for node in plan.sources.values() if not node.source.rewindable)
    if sources and max(sources.values()) > 1:
        raise PlanError(
            "apart: the query reads a stream that comes only once in two places, and levels that run apart would read"
            " it twice.\n  Run it in one process, or aggregate the stream once and go on from its results."
        )
    return found.outputs[0]


def aparts_of(plan: Plan) -> list[Apart]:
    """Return what a plan reads that runs apart."""
    return [node.source.apart for node in plan.sources.values() if isinstance(node.source, ApartSource)]


@attrs.define(eq=False)
class Apart:
    """Hold a plan whose levels run apart; iterate over it, or go on from its `stream`. Each run computes it anew."""

    lower: Plan
    """What runs here, in front of the levels that run elsewhere."""
    split: Split
    schema: Schema
    label: str
    worker: Worker | None = attrs.field(init=False, default=None)
    """What runs the levels that are not here, once a run has begun."""
    here: Run | None = attrs.field(init=False, default=None)
    """What runs here, once a run has begun."""
    not_on_spark: ClassVar[str] = (
        "apart(...) is a run in processes of this machine.\n"
        "  Give it the stream that apart was given: on Spark, levels of aggregation are in different tasks anyway."
    )

    def __iter__(self) -> Iterator[Element]:
        """Yield the elements of the result as they come; ProcessError when the other process fails or is gone."""
        worker = self.worker = self._worker()
        try:
            self.here = Run(self.lower)
            for _, element in self.here:
                worker.give(element)
                yield from worker.taken()
        finally:
            worker.stop()

    def on_spark(self, *args: object, **options: object) -> NoReturn:
        """Raise PlanError: the levels of this run are processes of this machine."""
        raise PlanError(f"on_spark takes a stream, and {self.not_on_spark}")

    def to_spark(self, *args: object, **options: object) -> NoReturn:
        """Raise PlanError, as `on_spark` does."""
        self.on_spark()

    def stream(self) -> Stream:
        """Return the results as a stream, for what is to be computed of them here: filters, joins, further windows.

        >>> stream = oop.rows([(1, 7), (2, 7), (3, 8)], oop.Schema.of(ts="int64", k="int64"))
        >>> results = oop.apart(stream.window(range=10).aggregate(oop.count(), by="k"), layout="here").stream()
        >>> results.filter("count > 1").to_arrow()["k"].to_pylist()
        [7]
        """
        return Stream(source_node(ApartSource(self, f"apart: {self.label}")))

    def pages(self) -> Iterator[Page]:
        """Yield the pages of the result."""
        return (element for element in self if isinstance(element, Page))

    def counters(self) -> dict[str, int]:
        """Return what was counted between the levels: pages and tuples dropped, most bytes in a ring."""
        return {} if self.worker is None else self.worker.counters()

    def cpu(self) -> dict[str, float]:
        """Return the seconds of processor time that each other process took once it was ready.

        >>> stream = oop.rows([(1, 7), (2, 7)], oop.Schema.of(ts="int64", k="int64"))
        >>> results = oop.apart(stream.window(range=10).aggregate(oop.count(), by="k"), low=2)
        >>> [page["count"].tolist() for page in results.pages()], list(results.cpu())
        ([[2]], ['low level 1', 'low level 2', 'high level'])
        """
        return {} if self.worker is None else self.worker.cpu()

    def _worker(self) -> Worker:
        split = attrs.evolve(self.split, high=attrs.evolve(self.split.high))
        if split.lows or split.layout == "process":
            return InProcess.start(split)
        return InThread(split.high) if split.layout == "thread" else Here(split.high)


@attrs.frozen(eq=False)
class ApartSource(Passing):
    """A stream of the results of a plan whose levels run apart, with their promises."""

    apart: Apart
    name: str
    not_on_spark: ClassVar[str] = Apart.not_on_spark
    waits: ClassVar[bool] = True

    @property
    def arrow(self) -> pa.Schema:
        return self.apart.schema.arrow

    @property
    def promised(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(sorted(promise)) for promise in self.apart.schema.progress)

    def open(self, columns: Sequence[str], batch_rows: int) -> ApartReader:
        live = any(isinstance(node.source, Live) for node in self.apart.lower.sources.values())
        return (LiveApartReader if live else ApartReader)(self.apart, list(columns))


@attrs.define(eq=False)
class ApartReader(Reading):
    """One run of a plan whose levels run apart."""

    apart: Apart
    columns: list[str]

    def chunks(self) -> Iterator[Chunk]:
        for element in self.apart:
            if isinstance(element, Page):
                yield element.batch.select(self.columns)
            elif not element.is_end:
                yield element

    def progress(self) -> tuple[int, int | None]:
        run = self.apart.here
        if run is None:
            return 0, None
        found = [run.circuit.progress(place) for place in run.plan.sources]
        return sum(read for read, _ in found), total(whole for _, whole in found)

    def notes(self) -> list[str]:
        """Return what the run here has to tell, and what was dropped."""
        told = [] if self.apart.here is None else list(self.apart.here.circuit.notes())
        counters = self.apart.counters()
        if lost := counters.get("dropped_tuples", 0):
            told.append(
                f"rings between levels were full: {lost:,} tuples, in {counters['dropped_pages']:,} pages, were dropped"
            )
        return told


@attrs.define(eq=False)
class LiveApartReader(ApartReader):
    """One run over what has no end of its own."""

    def stop(self) -> None:
        """End the reading after what has arrived by now."""
        run = self.apart.here
        for reader in () if run is None else run.circuit.readers.values():
            if isinstance(reader, Endless):
                reader.stop()
