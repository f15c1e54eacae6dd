"""Early results: what they cost beside windows without, by how often they fire and what the next one makes of them.

    python tests/benchmarks/bench_early.py [tuples] [runs]

Windows of 10 s, 100,000 tuples a second of event time in pages of 8,192, replayed from memory, a promise once a second;
without groups, and by 10,000 groups. Runs of all rows are interleaved; medians are printed.
"""

from __future__ import annotations

import sys
from math import nan
from statistics import median
from time import perf_counter

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.api.early import Early
from oop_engine.plan.graph import OperatorNode, Plan
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import END, before

SECOND, RATE, PAGE = 1_000_000_000, 100_000, 8192


def script(n: int) -> tuple[Schema, list[Element]]:
    """Make pages, with a promise once a second."""
    rng = np.random.default_rng(3)
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
    ts = np.arange(n) * (SECOND // RATE)
    whole = Page.of(schema, {"ts": ts, "k": rng.integers(0, 10_000, n), "v": rng.integers(0, 1000, n)})
    elements: list[Element] = []
    for start in range(0, n, PAGE):
        stop = min(start + PAGE, n)
        elements.append(whole.slice(start, stop))
        if ts[stop - 1] // SECOND > ts[start] // SECOND:
            elements.append(before("ts", int(ts[stop - 1])))
    return schema, [*elements, END]


@attrs.define
class Row:
    """One line of the table."""

    name: str
    early: Early | None
    by: tuple[str, ...]
    seconds: list[float] = attrs.field(factory=list)
    releases: list[float] = attrs.field(factory=list)
    results: int = 0
    held: int = 0

    @property
    def strategy(self) -> str:
        """Return how windows are computed: on event time from slices, by tuples and events each by itself."""
        return "slicing" if self.early is None or self.early.on_event_time else "wid"

    def run(self, schema: Schema, elements: list[Element]) -> None:
        """Drive fresh operators over the script."""
        stream = oop.pages([], schema).window(range=10 * SECOND)
        node = stream.aggregate(oop.count(), oop.sum("v"), by=self.by, early=self.early, strategy=self.strategy).node
        found: list[OperatorNode] = [n for n in Plan((node,)).nodes if isinstance(n, OperatorNode)]
        chain = Chain([n.operator for n in found])
        chain.output_schema(schema)
        self.results = 0

        def emit(element: Element) -> None:
            self.results += len(element) if isinstance(element, Page) else 0

        begun = perf_counter()
        for element in elements:
            if isinstance(element, Page):
                chain.process(element, emit)
                continue
            asked = perf_counter()
            chain.punctuate(element, emit)
            self.releases.append(perf_counter() - asked)
        self.seconds.append(perf_counter() - begun)
        self.held = chain.statistics()["peak_state_bytes"]


def main(n: int, runs: int) -> None:
    """Print the table."""
    schema, elements = script(n)
    asked = {"none": None, "at half": oop.early(at=0.5), "every 1 s": oop.early(SECOND)}
    asked |= {f"every 1 s, {how}": oop.early(SECOND, refine=how) for how in ("discard", "retract")}
    asked |= {f"after {rows:,} rows": oop.early(when=oop.Trigger.rows(rows)) for rows in (100_000, 1000, 10)}
    asked["by an event"] = oop.early(when=oop.Trigger.event("never"))
    kinds = {"": (), ", 10 k groups": ("k",)}
    table = [Row(name + kind, early, by) for kind, by in kinds.items() for name, early in asked.items()]
    for run in range(runs + 1):
        for row in table:
            row.run(schema, elements)
            if run == 0:
                row.seconds.clear()
                row.releases.clear()
    for row in table:
        print(
            f"{row.name:34} {n / median(row.seconds) / 1e6:8.1f} M tuples/s"
            f"  release {median(row.releases or [nan]) * 1e3:7.2f} ms"
            f"  {row.results:9,} results  peak {row.held / 1e6:6.2f} MB"
        )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 4_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
