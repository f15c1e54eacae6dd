"""Slices shared by concurrent windows: throughput, bytes a group, and the latency of a release, lazy and eager.

    python tests/benchmarks/bench_slicing.py [tuples] [runs] [cpu]

The workload of Scotty (TODS 2021, section 10): concurrent tumbling windows of 1 to 20 s, a sum, tuples replayed from
memory in pages of 8,192. The source promises once a second of event time, or after each page when a page is longer.
Fig 13: in order; Fig 14 and 17a: with sessions (gap 1 s, five gaps a minute) and tuples late by 0 to 2 s; by 100 k
groups; Fig 16: the release of one window of many slices. Runs of all rows are interleaved; medians are printed, nan
where nothing is released before the end. With `cpu` the time of the process is taken, which other work on the machine
disturbs less.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import nan
from statistics import median
from time import perf_counter, process_time

import attrs
import numpy as np
import pyarrow as pa

from operators.functions import AggregateFunction, count, max, sum
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema
from operators.slicing import SlicingAggregate
from operators.window import SlidingWindow, tumbling
from operators.window.session import SessionWindow
from punctuation import before

SECOND = 1_000_000_000
PAGE = 8192
GROUPS = 100_000
clock: Callable[[], float] = perf_counter


def stream(n: int, rate: int, *, late: float = 0.0, gaps: bool = False, groups: int = 0) -> list[Element]:
    """Make pages and promises of n tuples, `rate` a second of event time, a share of them late by 0 to 2 s."""
    rng = np.random.default_rng(1)
    times = np.arange(n) * (SECOND // rate)
    if gaps:
        times += times // (12 * SECOND) * int(1.5 * SECOND)
    arrivals = times + np.where(rng.random(n) < late, rng.integers(0, 2 * SECOND, n), 0)
    order = np.argsort(arrivals, kind="stable")
    types = {"ts": pa.int64(), "v": pa.int64()} | ({"k": pa.int64()} if groups else {})
    columns = {"ts": times[order], "v": rng.integers(0, 1000, n)}
    if groups:
        columns["k"] = rng.integers(0, groups, n)
    everything = Page.of(Schema.of(progress=["ts"], **types), columns)
    script: list[Element] = []
    promised = 0
    for start in range(0, n, PAGE):
        stop = min(start + PAGE, n)
        script.append(everything.slice(start, stop))
        bound = int(arrivals[order[stop - 1]]) - (2 * SECOND if late else 0)
        if bound // SECOND > promised:
            promised = bound // SECOND
            script.append(before("ts", bound))
    return script


def concurrent(n: int) -> dict[str, SlidingWindow]:
    """Give n tumbling windows of 1 to 20 s, evenly spread."""
    sizes = np.linspace(1, 20, n) if n > 1 else np.array([10.0])
    return {f"w{i}": tumbling("ts", int(size * 1000) * 1_000_000) for i, size in enumerate(sizes)}


@attrs.define
class Row:
    """One line of the table: a workload, and what was measured of it."""

    name: str
    script: Sequence[Element]
    windows: Mapping[str, object]
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = ()
    seconds: list[float] = attrs.field(factory=list)
    releases: list[float] = attrs.field(factory=list)
    operator: SlicingAggregate | None = None

    @property
    def tuples(self) -> int:
        return builtin_sum(len(element) for element in self.script if isinstance(element, Page))

    def run(self) -> None:
        """Drive a fresh operator over the script."""
        operator = SlicingAggregate(self.windows, self.functions, self.by)  # type: ignore[arg-type]
        given = 0

        def emit(element: Element) -> None:
            nonlocal given
            given += len(element) if isinstance(element, Page) else 0

        start = clock()
        for element in self.script:
            if isinstance(element, Page):
                operator.process(element, emit)
                continue
            asked, given = clock(), 0
            operator.punctuate(element, emit)
            if given:
                self.releases.append(clock() - asked)
        self.seconds.append(clock() - start)
        self.operator = operator

    def __str__(self) -> str:
        assert self.operator is not None
        told = self.operator.statistics()
        peak = f"peak {told['peak_state_tuples']:,} slices, {told['peak_state_bytes'] / 1e6:.1f} MB"
        if told["groups"]:
            peak += f", {told['peak_state_bytes'] / told['groups']:.0f} bytes a group"
        return (
            f"{self.name:52} {self.tuples / median(self.seconds) / 1e6:7.1f} M tuples/s  release"
            f" {median(self.releases or [nan]) * 1e6:8.0f} us  {told['results']:9,} results  {peak}"
        )


def builtin_sum(numbers: object) -> int:
    """Add up (`sum` is the aggregate here)."""
    total = 0
    for number in numbers:  # type: ignore[attr-defined]
        total += number
    return total


def throughput(n: int, runs: int) -> None:
    """Print the rows of Fig 13, 14, 17a, and of groups."""
    total = {"total": sum("v")}
    in_order, thin = stream(n, 100_000), stream(n // 4, 2_000)
    table = [Row(f"in order, 100 k tuples/s, n = {k}", in_order, concurrent(k), total) for k in (1, 10, 100, 1000)]
    table += [Row(f"in order, 2 k tuples/s, n = {k}", thin, concurrent(k), total) for k in (1, 1000)]
    for share in (0.0, 0.2, 0.5, 0.9):
        windows = {**concurrent(20), "session": SessionWindow("ts", gap=SECOND)}
        script = stream(n, 100_000, late=share, gaps=True)
        table.append(Row(f"n = 20 and sessions, {share:.0%} late by 0 to 2 s", script, windows, total))
    grouped = stream(24_000_000 if n >= 4_000_000 else n, 1_000_000, groups=GROUPS)
    table.append(Row("by 100 k groups, 1 M tuples/s, n = 20, sum", grouped, concurrent(20), total, ("k",)))
    table.append(Row("by 100 k groups, 1 M tuples/s, n = 20, count", grouped, concurrent(20), {"n": count()}, ("k",)))
    short = {"session": SessionWindow("ts", gap=SECOND // 2)}
    table.append(Row("by 100 k groups, 1 M tuples/s, sessions of gap 0.5 s", grouped, short, {"n": count()}, ("k",)))
    for _ in range(runs + 1):
        for row in table:
            row.run()
    for row in table:
        # The first run compiles.
        del row.seconds[0]
        print(row)


def latency() -> None:
    """Print how long the release of one window takes, by the number of its slices (Fig 16)."""
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    functions: dict[str, dict[str, AggregateFunction]] = {"sum": {"a": sum("v")}, "max": {"a": max("v")}}
    for size in (10, 100, 1_000, 10_000, 100_000):
        line = f"one window of {size:7,} slices:"
        for store in ("lazy", "eager"):
            for name, function in functions.items():
                operator = SlicingAggregate({"w": SlidingWindow("ts", size=size, slide=1)}, function, store=store)  # type: ignore[arg-type]
                ticks = np.arange(size + 60)
                operator.process(Page.of(schema, {"ts": ticks, "v": ticks % 97}), lambda element: None)
                operator.punctuate(before("ts", size), lambda element: None)
                taken: list[float] = []
                for bound in range(size + 1, size + 50):
                    start = clock()
                    operator.punctuate(before("ts", bound), lambda element: None)
                    taken.append(clock() - start)
                line += f"  {store} {name} {median(taken) * 1e6:7.0f} us"
        print(line)


if __name__ == "__main__":
    if "cpu" in sys.argv:
        clock = process_time
        sys.argv.remove("cpu")
    throughput(
        int(float(sys.argv[1])) if len(sys.argv) > 1 else 4_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5
    )
    latency()
