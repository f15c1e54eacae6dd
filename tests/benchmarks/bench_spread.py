"""How fast flows are cut at the edges of panes, beside a loop in Python, and what a window over the parts costs.

    python tests/benchmarks/bench_spread.py [flows] [runs]

Flows of nanoseconds, lengths from a few milliseconds to 30 minutes (log-uniform), bytes and packets as exported, panes
of 10 s: on the average some 20 parts a flow. Medians of the runs, in processor time.
"""

from __future__ import annotations

import sys
from statistics import median
from time import thread_time

import numpy as np
import pyarrow as pa

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import sum as total
from operators.protocol import Element, Operator
from operators.rows.spread import Spread
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, before

SECOND = 1_000_000_000
READ = 1 << 14
_TIME = pa.timestamp("ns", "UTC")
SCHEMA = Schema.of(
    ts=_TIME, end_ts=_TIME, exporter=pa.uint32(), bytes=pa.uint64(), packets=pa.uint64(), progress=["ts"]
)


def flows(n: int) -> list[Element]:
    """Draw flows as an exporter sends them, by end, with what that promises of their start."""
    rng = np.random.default_rng(11)
    end = 1_700_000_000 * SECOND + np.sort(rng.integers(0, 3600 * SECOND, n))
    length = np.exp(rng.uniform(np.log(5e6), np.log(1800e9), n)).astype(np.int64)
    packets = rng.integers(1, 100_000, n).astype(np.uint64)
    columns = {
        "ts": pa.array(end - length).view(_TIME), "end_ts": pa.array(end).view(_TIME),
        "exporter": rng.integers(0, 50, n).astype(np.uint32),
        "bytes": packets * rng.integers(40, 1500, n).astype(np.uint64), "packets": packets,
    }  # fmt: skip
    page = Page.of(SCHEMA, columns)
    elements: list[Element] = []
    for at in range(0, n, READ):
        elements += [page.slice(at, min(at + READ, n)), before("ts", int(end[at]) - 1800 * SECOND)]
    return [*elements, END]


def run(operator: Operator, elements: list[Element]) -> tuple[float, int, int]:
    """Give the processor time, and the tuples and bytes that came out."""
    tuples, amount = 0, 0

    def take(element: Element) -> None:
        nonlocal tuples, amount
        if isinstance(element, Page):
            tuples += len(element)
            amount += int(element["bytes"].sum())

    start = thread_time()
    for element in elements:
        if isinstance(element, Page):
            operator.process(element, take)
        else:
            operator.punctuate(element, take)
    return thread_time() - start, tuples, amount


def naive(elements: list[Element], step: int, most: int) -> tuple[float, int]:
    """Cut flows one after the other, and give the time for one part."""
    parts = 0
    start = thread_time()
    for element in elements:
        if not isinstance(element, Page) or parts > most:
            continue
        columns = (element[name] for name in ("ts", "end_ts", "bytes"))
        for begin, end, amount in zip(*(c.astype(np.int64).tolist() for c in columns), strict=True):
            done = 0
            for pane in range(begin // step, (end - 1) // step + 1):
                reached = amount * (min((pane + 1) * step, end) - begin) // (end - begin)
                done, _ = reached, reached - done
                parts += 1
    return (thread_time() - start) / parts, parts


def main(n: int, runs: int) -> None:
    elements = flows(n)
    amount = sum(int(e["bytes"].sum()) for e in elements if isinstance(e, Page))
    window = tumbling("ts", 10 * SECOND)
    results = {"b": total("bytes"), "bytes": total("bytes")}

    def spread() -> Spread:
        return Spread(("bytes", "packets"), step=10 * SECOND)

    def windowed() -> Chain:
        return Chain([spread(), Bucket(window), WindowAggregate(window, results, ("exporter",))])

    parts = run(spread(), elements)[1]
    for name, make in (("spread", spread), ("spread, then 10 s windows by exporter", windowed)):
        found = [run(make(), elements) for _ in range(runs)]
        assert all(bytes_out == amount for _, _, bytes_out in found)
        seconds, tuples = median(seconds for seconds, _, _ in found), found[0][1]
        print(
            f"{name:40} {n / seconds / 1e6:6.2f} M flows/s  {parts / seconds / 1e6:7.1f} M parts/s"
            f"  {parts / n:.1f} parts a flow  {tuples:,} tuples out, bytes exact"
        )
    each, some = naive(elements, 10 * SECOND, 200_000)
    print(f"{'a loop in Python, bytes alone':40} {1 / each / 1e6:30.2f} M parts/s ({some:,} parts tried)")


if __name__ == "__main__":
    main(*(int(a) for a in (sys.argv[1:] + ["1000000", "3"][len(sys.argv) - 1 :])))
