"""Tuples a second through Largest, the peak of what it holds, and how long a promise takes to release a group.

Run as `python tests/benchmarks/bench_largest.py [tuples]`; each figure is the median of five runs in this process.
"""

from __future__ import annotations

import sys
from math import nan
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.rows.largest import Largest
from punctuation import END, before

RUNS, PAGE = 5, 8192
SCHEMA = Schema.of(wid=pa.int64(), x=pa.int64(), progress=["wid"])


def run(pages: list[Page], n: int, step: int) -> tuple[float, float, int]:
    """Give seconds in all, the median release in seconds, and the peak of tuples held."""
    operator, out, releases = Largest("x", n, ("wid",)), list[Element](), list[float]()
    start = perf_counter()
    for number, page in enumerate(pages):
        operator.process(page, out.append)
        if number % step == step - 1:
            begun = perf_counter()
            operator.punctuate(before("wid", (number + 1) // step), out.append)
            releases.append(perf_counter() - begun)
    operator.punctuate(END, out.append)
    return perf_counter() - start, median(releases or [nan]), operator.statistics()["peak_state_tuples"]


def main() -> None:
    tuples = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    random = np.random.default_rng(1)
    for step in (4, 32):
        pages = [
            Page.of(SCHEMA, {"wid": np.full(PAGE, k // step), "x": random.integers(0, 10**9, PAGE)})
            for k in range(tuples // PAGE)
        ]
        for n in (10, 1000):
            runs = sorted(run(pages, n, step) for _ in range(RUNS))
            seconds, release, peak = runs[RUNS // 2]
            print(
                f"the {n:>4} largest of windows of {step * PAGE:>7,} tuples: {tuples / seconds / 1e6:6.1f} M/s, page "
                f"{PAGE}, at most {peak:,} tuples held, a release in {release * 1e3:.2f} ms"
            )


if __name__ == "__main__":
    main()
