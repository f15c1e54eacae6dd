"""Early results: what they cost beside windows without, by how often they fire and what the next one makes of them.

    python tests/benchmarks/bench_early.py [tuples] [runs]

Windows of 10 s, 100,000 tuples a second of event time in pages of 8,192, replayed from memory, a promise once a second;
without groups, and by 10,000 groups; windows that slide by 1 s; sessions of 10,000 groups, with gaps of 200 ms;
windows of 100,000 rows, which tumble or slide by 10,000; and some of 10,000 that a predicate begins. The last fire ten
times each.
Runs of all rows are interleaved. Medians of CPU time are printed, and the share of the tuples a second that the same
windows have without early results.
"""

from __future__ import annotations

import sys
from math import nan
from statistics import median
from time import process_time
from typing import Any

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
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), g=pa.int64(), v=pa.int64(), progress=["ts"])
    ts = np.arange(n) * (SECOND // RATE)
    drawn = {name: rng.integers(0, most, n) for name, most in (("k", 10_000), ("g", 100), ("v", 1000))}
    whole = Page.of(schema, {"ts": ts, **drawn})
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
    slide: int = 10 * SECOND
    gap: int = 0
    """That of sessions; 0 for windows."""
    lateness: int = 0
    window: Any = None
    """That of rows or predicates; None for windows of 10 s and sessions."""
    seconds: list[float] = attrs.field(factory=list)
    releases: list[float] = attrs.field(factory=list)
    results: int = 0
    held: int = 0

    @property
    def strategy(self) -> str:
        """Return how windows are computed: on event time from slices, by tuples and events each by itself."""
        if self.gap or self.window is not None:
            return "auto"
        return "slicing" if self.early is None or self.early.on_event_time else "wid"

    def run(self, schema: Schema, elements: list[Element]) -> None:
        """Drive fresh operators over the script."""
        plain = oop.pages([], schema)
        if self.window is not None or self.gap:
            stream = plain.window(oop.session(self.gap) if self.window is None else self.window)
        else:
            stream = plain.window(range=10 * SECOND, slide=self.slide)
        options: dict[str, Any] = {"early": self.early, "strategy": self.strategy, "lateness": self.lateness}
        node = stream.aggregate(oop.count(), oop.sum("v"), by=self.by, **options).node
        found: list[OperatorNode] = [n for n in Plan((node,)).nodes if isinstance(n, OperatorNode)]
        chain = Chain([n.operator for n in found])
        chain.output_schema(schema)
        self.results = 0

        def emit(element: Element) -> None:
            self.results += len(element) if isinstance(element, Page) else 0

        begun = process_time()
        for element in elements:
            if isinstance(element, Page):
                chain.process(element, emit)
                continue
            asked = process_time()
            chain.punctuate(element, emit)
            self.releases.append(process_time() - asked)
        self.seconds.append(process_time() - begun)
        self.held = chain.statistics()["peak_state_bytes"]


def main(n: int, runs: int) -> None:
    """Print the table."""
    schema, elements = script(n)
    asked = {"none": None, "at half": oop.early(at=0.5), "every 1 s": oop.early(SECOND)}
    asked |= {f"every 1 s, {how}": oop.early(SECOND, refine=how) for how in ("discard", "retract")}
    asked |= {f"after {rows:,} rows": oop.early(when=oop.Trigger.rows(rows)) for rows in (100_000, 1000, 10)}
    asked["by an event"] = oop.early(when=oop.Trigger.event("never"))
    once = oop.Trigger.rows(1)
    steps = {
        "1 row, then 100,000": once.then(oop.Trigger.rows(100_000)),
        "1,000 rows until 50,000": oop.Trigger.rows(1000).until(oop.Trigger.rows(50_000)),
    }
    asked |= {name: oop.early(when=trigger) for name, trigger in steps.items()}
    kinds = {"": (), ", 10 k groups": ("k",)}
    table = [Row(name + kind, early, by) for kind, by in kinds.items() for name, early in asked.items()]
    tenth = asked["after 100,000 rows"]
    table += [
        Row("none, a lateness", None, (), lateness=10 * SECOND),
        Row("after 100,000 rows, a lateness", tenth, (), lateness=10 * SECOND),
    ]
    for kind, by in {", sliding": (), ", sliding, 100 groups": ("g",)}.items():
        few = {name: asked[name] for name in ("none", "every 1 s", "after 100,000 rows", "by an event")}
        few |= {"after 1,000 rows": asked["after 1,000 rows"]} if by else {}
        table += [Row(name + kind, early, by, slide=SECOND) for name, early in few.items()]
    sessions = {"none": None, "every 1 s": oop.early(SECOND), "after 10 rows": asked["after 10 rows"]}
    sessions |= {
        "1 row, then 10": oop.early(when=once.then(oop.Trigger.rows(10))),
        "10 rows until 100": oop.early(when=oop.Trigger.rows(10).until(oop.Trigger.rows(100))),
    }
    table += [Row(f"{name}, sessions", early, ("k",), gap=SECOND // 5) for name, early in sessions.items()]
    sliding = oop.counted(100_000, slide=10_000)
    ranked, begun = oop.counted(100_000), oop.when(enter="k = 1")
    table += [
        Row("none, windows of rows", None, (), window=ranked),
        Row("after 10,000 rows, windows of rows", oop.early(when=oop.Trigger.rows(10_000)), (), window=ranked),
        Row("none, sliding windows of rows", None, (), window=sliding),
        Row("after 10,000 rows, sliding", oop.early(when=oop.Trigger.rows(10_000)), (), window=sliding),
        Row("none, of a predicate", None, (), window=begun),
        Row("after 1,000 rows, of a predicate", asked["after 1,000 rows"], (), window=begun),
        Row("every 10 ms, of a predicate", oop.early(SECOND // 100), (), window=begun),
    ]
    for run in range(runs + 1):
        for row in table:
            row.run(schema, elements)
            if run == 0:
                row.seconds.clear()
                row.releases.clear()
    plain = nan
    for row in table:
        seconds = median(row.seconds)
        plain = seconds if row.early is None else plain
        print(
            f"{row.name:38} {n / seconds / 1e6:8.1f} M tuples/s {plain / seconds:6.2f}"
            f"  release {median(row.releases or [nan]) * 1e3:7.2f} ms"
            f"  {row.results:9,} results  peak {row.held / 1e6:6.2f} MB"
        )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 4_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
