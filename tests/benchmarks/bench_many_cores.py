"""What 4 to 64 cores would give, computed from what pages, lanes and hand-overs cost on this machine.

    python tests/benchmarks/bench_many_cores.py [--cores 1,2,4,8,16,64] [--tuples 4e6] [--runs 3] [--rows Q-a,Q-b]

A run with as many lanes makes all calls of a page one after another in one thread, and the CPU time of each is noted.
So are those of the thread that drives the operators, of writing, and of reading. From these it follows how long a run
would take if each call had a core:

- The driver takes its own time, and for each page the longest of: the calls, spread over the cores, the longest first;
  and what they do in Python, which no two threads do at once. That is what a call of the same plan takes on pages of
  nearly no tuples, half of all such calls taking more.
- Handing calls to a thread and hearing of its end costs the CPU time that it costs here, for each thread and page.
- Reading and writing go on beside the driver, a thread each; on more than two cores four threads decode Parquet, two
  columns of two row groups. All together have no more than the cores.

What takes longest is named; `1 lane` are the seconds of a run with one thread on as many cores. Memory is taken to be
as fast for all cores as for one, so that is the best case: where cores have memory of their own (NUMA), pages that one
thread reads and all lanes take cross between them. By default an operator has as many lanes as `rewrite/lanes.py`
gives it; `--most 64` says what more would give.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import process_time, thread_time
from types import TracebackType
from typing import Self

import attrs
import pyarrow.parquet as pq

from oop_engine.api.stream import Stream
from oop_engine.drive import runtime
from oop_engine.drive.workers import Workers
from oop_engine.rewrite import lanes
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from operators.streams import lanes as pages
from tests.benchmarks.bench_threads import queries

SMALL = 20_000, 128
"""Tuples, and those of a page, of runs by which it is measured what a call does in Python."""


@attrs.frozen
class Costs:
    """CPU seconds of a run: of reading, of writing, of the driver besides calls, and of each call, page by page."""

    read: float
    write: float
    driver: float
    calls: Sequence[Sequence[float]]

    @property
    def in_all(self) -> float:
        return self.read + self.write + self.driver + sum(map(sum, self.calls))


@attrs.define
class Recorder:
    """Make calls one after another in this thread, in the place of `Workers`, and note what each takes."""

    calls: list[list[float]] = attrs.field(factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def at_once(self, calls: Sequence[Callable[[], None]]) -> None:
        took: list[float] = []
        for call in calls:
            begun = thread_time()
            call()
            took.append(thread_time() - begun)
        self.calls.append(took)


def costs(stream: Stream, to: Path, threads: int, page_rows: int = 262_144) -> Costs:
    """Measure a run with the lanes of so many threads."""
    recorder, schema, wrote = Recorder(), stream.schema.arrow, [0.0]
    writer = pq.ParquetWriter(to, schema, compression="zstd")

    def write(element: Element) -> None:
        begun = thread_time()
        if isinstance(element, Page):
            writer.write_batch(element.batch)
        wrote[0] += thread_time() - begun

    workers, runtime.Workers = runtime.Workers, lambda _: recorder  # pyright: ignore[reportAttributeAccessIssue]
    try:
        begun = process_time(), thread_time()
        runtime.run_to_end(prepared(stream.node), (write,), page_rows=page_rows, threads=threads)
        whole, driver = process_time() - begun[0], thread_time() - begun[1]
    finally:
        runtime.Workers = workers
        writer.close()
    return Costs(whole - driver - wrote[0], wrote[0], driver - sum(map(sum, recorder.calls)), recorder.calls)


def handing_over() -> float:
    """Measure the CPU seconds that a thread more costs a page: calls that do nothing."""
    with Workers(2) as workers:
        nothing = [lambda: None] * 2
        workers.at_once(nothing)
        begun = process_time()
        for _ in range(2_000):
            workers.at_once(nothing)
        return (process_time() - begun) / 2_000


def in_python(stream: Stream, to: Path, threads: int) -> float:
    """Measure the seconds that a call takes where there are nearly no tuples."""
    limits = {name: getattr(pages, name) for name in ("ROWS", "KEYED_ROWS", "ENOUGH")}
    try:
        for name in limits:
            setattr(pages, name, 1)
        costs(stream, to, threads, SMALL[1])
        found = [call for calls in costs(stream, to, threads, SMALL[1]).calls for call in calls]
        return median(found) if found else 0.0
    finally:
        for name, limit in limits.items():
            setattr(pages, name, limit)


def makespan(calls: Sequence[float], cores: int) -> float:
    """Return how long calls take on so many cores, the longest first."""
    loads = [0.0] * min(cores, len(calls))
    for call in sorted(calls, reverse=True):
        loads[loads.index(min(loads))] += call
    return max(loads, default=0.0)


def simulated(found: Costs, cores: int, decoders: int, python: float, handing: float) -> tuple[float, str]:
    """Return the seconds of a run on so many cores, and what takes most of them."""
    parts = {"lanes": 0.0, "Python in lanes": 0.0, "handing over": 0.0, "driver": found.driver}
    for calls in found.calls:
        spread, held = makespan(calls, cores), python * len(calls)
        parts["lanes" if spread >= held else "Python in lanes"] += max(spread, held)
        parts["handing over"] += handing * (min(cores, len(calls)) - 1)
    operators = sum(parts.values())
    bounds = {
        "all cores": found.in_all / cores,
        "reading": found.read / decoders,
        "writing": found.write,
        "": operators,
    }
    if cores == 1:
        bounds = {"all cores": found.in_all}
    bound = max(bounds, key=lambda name: bounds[name])
    return bounds[bound], bound or max(parts, key=lambda name: parts[name])


def main(cores: Sequence[int], n: int, runs: int, rows: Sequence[str]) -> None:
    handing = handing_over()
    print(f"{n:,} tuples, at most {lanes.MOST} lanes; a thread more costs a page {handing * 1e6:.0f} us")
    print(f"{'':22}{'cores':>6}{'1 lane':>9}{'seconds':>9}{'speed-up':>10}{'efficiency':>12}  bound by")
    with tempfile.TemporaryDirectory() as name:
        folder, small = Path(name), Path(name) / "small"
        small.mkdir()
        found, short = queries(folder, n), queries(small, SMALL[0])
        for row in rows or list(found):
            costs(found[row](), folder / "out.parquet", 1)
            by_lanes: dict[int, Costs] = {}
            for many in sorted({1, *(min(count, lanes.MOST) for count in cores)}):
                taken = [costs(found[row](), folder / "out.parquet", many) for _ in range(runs)]
                by_lanes[many] = min(taken, key=lambda run: run.in_all)
            python = in_python(short[row](), folder / "out.parquet", max(by_lanes))
            first = 0.0
            for number, count in enumerate(cores):
                decoders = 1 if count <= 2 or row == "capture" else 4
                seconds, bound = simulated(by_lanes[min(count, lanes.MOST)], count, decoders, python, handing)
                alone = simulated(by_lanes[1], count, decoders, python, handing)[0]
                first = first or seconds
                gain = first / seconds
                said = f"{gain:10.2f}{gain * cores[0] / count:12.2f}  {bound}"
                print(f"{'' if number else row:22}{count:6}{alone:9.3f}{seconds:9.3f}{said}")
            print(f"{'':22}Python in a call {python * 1e6:.0f} us; {one_line(by_lanes, max(by_lanes))}")


def one_line(by_lanes: Mapping[int, Costs], many: int) -> str:
    """Say what the parts of a run take."""
    found = by_lanes[many]
    calls = sum(map(sum, found.calls))
    return (
        f"with {many} lanes, ms of CPU time: reading {found.read * 1e3:.0f}, driver {found.driver * 1e3:.0f},"
        f" {sum(map(len, found.calls))} calls {calls * 1e3:.0f}, writing {found.write * 1e3:.0f}"
    )


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--cores", default="1,2,4,8,16,64", help="numbers of cores, the first of which is compared with")
    asked.add_argument("--tuples", default="4e6", type=float)
    asked.add_argument("--runs", default=3, type=int)
    asked.add_argument("--rows", default="", help="names of rows, between commas; all without")
    asked.add_argument("--most", default=lanes.MOST, type=int, help="the most lanes of an operator")
    given = asked.parse_args()
    lanes.MOST = given.most
    main(
        [int(many) for many in given.cores.split(",")], int(given.tuples), given.runs,
        [row for row in given.rows.split(",") if row],
    )  # fmt: skip
