"""Run the two levels of a window aggregate apart: the high one in a process, a thread, or here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Literal, NoReturn, TypeAlias

import attrs

from oop_engine.api.stream import Stream, check_stream
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.processes.frames import Full
from oop_engine.processes.partial_final import PartialFinal
from oop_engine.processes.workers import Here, InProcess, InThread, Worker
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from operators.window_aggregate.partial_final import HighAggregate

Layout: TypeAlias = Literal["process", "thread", "here"]
_LAYOUTS: Final[tuple[Layout, ...]] = ("process", "thread", "here")
_FULL: Final[tuple[Full, ...]] = ("wait", "drop")
RING_BYTES = 1 << 24


def apart(stream: Stream, *, layout: Layout = "process", ring_bytes: int = RING_BYTES, full: Full = "wait") -> Apart:
    """Run a stream that ends in a window aggregate in two levels, in two processes; iterate over the result.

    - `stream`: with strategy="two_level" its levels are as asked for; if the strategy was left open, the table has the
      usual size.
    - `layout`: the high level runs in a "process", in a "thread", or "here".
    - `ring_bytes`: size of each of the two rings between the processes.
    - `full`: when a ring is full, "wait", or "drop" partial aggregates; `counters()` counts their tuples, which the
      results lack.

    PlanError when the stream does not end in a window aggregate, or its results cannot be made of partial ones.

    >>> stream = oop.rows([(1, 7), (2, 7)], oop.Schema.of(ts="int64", k="int64"))
    >>> results = oop.apart(stream.window(range=10).aggregate(oop.count(), by="k"), layout="here")
    >>> [page["count"].tolist() for page in results.pages()], results.counters()
    ([[2]], {})
    """
    check_stream("apart", stream)
    for name, given, known in (("layout", layout, _LAYOUTS), ("full", full, _FULL)):
        if given not in known:
            raise PlanError(f"apart({name}={given!r}): write one of {', '.join(known)}.")
    levels = PartialFinal.of(stream.node, counted=full == "drop")
    return Apart(prepared(levels.lower), levels.high, layout, ring_bytes, full)


@attrs.define(eq=False)
class Apart:
    """Hold one run of a plan whose high level runs apart; iterate over it once."""

    lower: Plan
    high: HighAggregate
    layout: Layout = attrs.field(validator=attrs.validators.in_(_LAYOUTS))
    ring_bytes: int
    full: Full
    worker: Worker | None = attrs.field(init=False, default=None)
    """What runs the high level, once the run has begun."""
    not_on_spark: ClassVar[str] = (
        "apart(...) is a run in processes of this machine.\n"
        "  Give it the stream that apart was given: on Spark, levels of aggregation are in different tasks anyway."
    )

    def __iter__(self) -> Iterator[Element]:
        """Yield the elements of the result as they come; ProcessError when the other process fails or is gone."""
        worker = self.worker = self._worker()
        try:
            for _, element in Run(self.lower):
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

    def pages(self) -> Iterator[Page]:
        """Yield the pages of the result."""
        return (element for element in self if isinstance(element, Page))

    def counters(self) -> dict[str, int]:
        """Return what was counted between the levels: pages and tuples dropped, most bytes in a ring."""
        return {} if self.worker is None else self.worker.counters()

    def _worker(self) -> Worker:
        high = attrs.evolve(self.high)
        match self.layout:
            case "process":
                return InProcess(high, self.ring_bytes, self.full)
            case "thread":
                return InThread(high)
            case "here":
                return Here(high)
