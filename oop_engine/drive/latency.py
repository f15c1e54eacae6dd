"""Release latency is how long the engine takes from the promise that completes a window to the window's result.

It begins when the last of the sources has promised the end of the window, by a tuple, by a promise of its own, or by
its end; nothing later can change the result then. It ends when the result is handed to the output. So it has what the
engine adds: pages that wait for one another, operators, inboxes, a slow consumer. It has not what the data demand: the
length of a window, disorder, slack and skew of clocks are before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate
from threading import Lock
from time import monotonic
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import watched
from oop_engine.drive.turns import above
from oop_engine.plan.ticks import tick_ns
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.window_aggregate.results import STOP, ends_of

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the buckets, in seconds; one more takes what is longer."""


@attrs.define
class Latencies:
    """Count releases of one output by their latency."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0
    """The seconds of all, added up."""

    def add(self, seconds: float) -> None:
        """Count a release."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket as text, and how many releases took at most so long.

        >>> from oop_engine.drive.latency import Latencies
        >>> found = Latencies()
        >>> found.add(0.003)
        >>> found.buckets()[1:3], found.buckets()[-1]
        ([('0.0025', 0), ('0.005', 1)], ('+Inf', 1))
        """
        return list(zip([*map(str, BOUNDS), "+Inf"], map(float, accumulate(self.counts)), strict=True))


@attrs.define(eq=False)
class Releases:
    """Measure the release latency of a run; give `take` what its outputs are handed, from any thread.

    A page of results counts once for each end of windows in it. What is given before a window is complete, such as
    early results, does not count, nor do results without windows.

    - `circuit`: returns the run, None before it has begun.
    - `clock`: seconds that rise, of the clock of the meters.
    """

    circuit: Callable[[], Circuit | None]
    clock: Callable[[], float] = monotonic
    _outputs: dict[int, Latencies] = attrs.field(init=False, factory=dict)
    _lock: Lock = attrs.field(init=False, factory=Lock)

    def take(self, number: int, element: Element) -> None:
        """Count the windows of a page that an output is handed now."""
        circuit = self.circuit()
        if circuit is None or not isinstance(element, Page) or STOP not in element.schema or not len(element):
            return
        now, sources = self.clock(), above(circuit.plan, circuit.plan.position(circuit.plan.outputs[number]))
        with self._lock:
            found = self._outputs.setdefault(number, Latencies())
            for end in np.unique(ends_of(element)).tolist():
                completed = [_promised(circuit, place, _number(element.schema, STOP, end)) for place in sources]
                last = max((at for at in completed if at is not None), default=None)
                if last is not None and None not in completed:
                    found.add(max(0.0, now - last))

    def read(self) -> Mapping[int, Latencies]:
        """Return the latencies so far by the number of the output."""
        with self._lock:
            return {n: Latencies(list(found.counts), found.total) for n, found in self._outputs.items()}


def _promised(circuit: Circuit, place: int, end: float) -> float | None:
    """Return when a source had promised that nothing before an end comes; None where it has not."""
    schema = circuit.plan.nodes[place].schema
    attribute = watched(schema)
    # A copy: the run goes on in its own thread.
    for bound, at in list(circuit.meters[place].promised or ()):
        if bound is None or (attribute is not None and _number(schema, attribute, bound) >= end):
            return at
    return None


def _number(schema: Schema, name: str, tick: int) -> float:
    """Return a tick as seconds where it is a time, so that units compare."""
    kind = schema.field(name).type
    return tick * (tick_ns(kind) or 1) / 1e9 if pa.types.is_timestamp(kind) else float(tick)
