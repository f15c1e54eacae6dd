"""Tuples a second of measuring disorder, with and without points for a picture, by shape of the stream and by group.

Run as `python tests/benchmarks/bench_disorder.py [tuples]`; each figure is the median of five runs in this process.
State does not grow with the stream: its bytes are those of one measure. Nothing is released before the end.
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import oop_engine as oop
from operators.data.page import Int64s
from operators.kernels.streams.disorder import CELLS
from operators.streams.disorder import Measure, lengths_of

RUNS, PAGE = 5, 65_536
SECOND = 1_000_000_000


def shapes(n: int) -> dict[str, Int64s]:
    random = np.random.default_rng(1)
    order = np.arange(n) * 10_000
    late = order + np.where(random.random(n) < 0.2, random.integers(0, 2 * SECOND, n), 0)
    return {
        "in order": order,
        "band, all late": order[np.argsort(order + random.integers(0, 2 * SECOND, n), kind="stable")],
        "band, a fifth delayed": order[np.argsort(late, kind="stable")],
        "block-sorted": np.concatenate([random.permutation(part) for part in np.array_split(order, 40)]),
    }


def measured(values: Int64s, samples: int) -> float:
    times: list[float] = []
    for _ in range(RUNS):
        measure = Measure(lengths_of(SECOND), samples=samples)
        start = perf_counter()
        for first in range(0, len(values), PAGE):
            measure.observe(values[first : first + PAGE])
        times.append(perf_counter() - start)
    return len(values) / median(times) / 1e6


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(f"{n:,} tuples, page {PAGE:,}, state {(CELLS + 2 * 65_536) * 8 / 1e6:.1f} MB a measure")
    for name, values in shapes(n).items():
        print(f"{name:24} {measured(values, 0):7.1f} M/s   with 8192 points {measured(values, 8192):7.1f} M/s")
    values = shapes(n)["band, all late"]
    batches = pa.table({"ts": pa.array(values).view(pa.timestamp("ns", "UTC")), "exporter": values % 16})
    for title, by in (("oop.disorder, whole", ()), ("oop.disorder, by 16 exporters", "exporter")):
        times: list[float] = []
        for _ in range(RUNS):
            start = perf_counter()
            oop.disorder(oop.arrow(batches), by=by, samples=0)
            times.append(perf_counter() - start)
        print(f"{title:32} {n / median(times) / 1e6:7.1f} M/s")


if __name__ == "__main__":
    main()
