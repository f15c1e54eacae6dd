"""Time `update`, `combine` and `finalize` of each aggregate function on one core: tuples and slots a second.

Run from the top of the tree: python -m tests.benchmarks.bench_functions
Each figure is the median of several runs over pages that lie in memory, with few slots and with 100,000 random ones.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import pyarrow as pa

from operators import functions as fn
from operators.functions import Accumulator, AggregateFunction
from operators.page import Page
from operators.schema import Schema, ip_field

TUPLES = 8192
PAGES = 24
RUNS = 5
SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("us")),
            pa.field("length", pa.int64()),
            pa.field("port", pa.uint16()),
            pa.field("rate", pa.float64()),
            pa.field("host", pa.string()),
            ip_field("srcIP"),
        ]
    )
)
FUNCTIONS = [
    fn.count(),
    fn.count("length"),
    fn.sum("length"),
    fn.sum("port"),
    fn.sum("rate"),
    fn.avg("length"),
    fn.min("length"),
    fn.max("rate"),
    fn.max("srcIP"),
    fn.min("host"),
    fn.variance("rate"),
    fn.first("length"),
    fn.last("host"),
    fn.argmin("length", "ts"),
    fn.argmax("host", "length"),
    fn.count_distinct("port"),
    fn.count_distinct("srcIP"),
    fn.count_distinct("host"),
]


def a_page(number: int, random: np.random.Generator) -> Page:
    """Make a page of packets from some 1,600 addresses and 1,000 hosts."""
    addresses = np.zeros((TUPLES, 16), np.uint8)
    addresses[:, 10:12] = 255
    addresses[:, 14:] = random.integers(0, 40, (TUPLES, 2))
    hosts = np.char.add("host", random.integers(0, 1000, TUPLES).astype(str))
    return Page.of(
        SCHEMA,
        {
            "ts": pa.array(np.arange(TUPLES) + number * TUPLES).view(pa.timestamp("us")),
            "length": random.integers(40, 1500, TUPLES),
            "port": random.integers(0, 50000, TUPLES).astype(np.uint16),
            "rate": random.normal(size=TUPLES),
            "host": pa.array(hosts),
            "srcIP": pa.Array.from_buffers(pa.binary(16), TUPLES, [None, pa.py_buffer(addresses.tobytes())]),
        },
    )


def prepared(function: AggregateFunction, slots: int) -> Accumulator:
    """Make an accumulator with all its slots initialised, and its memory touched."""
    accumulator = function.accumulator(SCHEMA)
    accumulator.reserve(slots)
    accumulator.init(np.arange(slots, dtype=np.int32))
    return accumulator


def once(
    accumulator: Accumulator, at: list[fn.Slots], pages: list[Page], every: fn.Slots
) -> tuple[float, float, float, int]:
    """Give the seconds that updating by all pages, combining halves and finalizing take, and the bytes held."""
    half = len(every) // 2
    start = time.perf_counter()
    for slots, page in zip(at, pages, strict=True):
        accumulator.update(slots, page)
    updated = time.perf_counter()
    accumulator.finalize(every)
    finalized = time.perf_counter()
    held = accumulator.nbytes
    begin = time.perf_counter()
    accumulator.combine(every[:half], every[half:])
    return updated - start, time.perf_counter() - begin, finalized - updated, held


def measure(function: AggregateFunction, slots: int, pages: list[Page], random: np.random.Generator) -> list[str]:
    """Give tuples/s of update, slots/s of combine and finalize, and the bytes held, as text."""
    at = [random.integers(0, slots, TUPLES).astype(np.int32) for _ in pages]
    every = np.arange(slots, dtype=np.int32)
    # The first run compiles and is left out.
    runs = [once(prepared(function, slots), at, pages, every) for _ in range(RUNS + 1)][1:]
    update, combine, finalize, held = (statistics.median(figures) for figures in zip(*runs, strict=True))
    rates = (TUPLES * len(pages) / update, slots / 2 / combine, slots / finalize)
    return [*(f"{rate / 1e6:.2f} M" for rate in rates), f"{held / 1e6:.2f} MB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="*", default=[16, 100_000])
    random = np.random.default_rng(1)
    pages = [a_page(number, random) for number in range(PAGES)]
    for slots in parser.parse_args().slots:
        print(f"{PAGES} pages of {TUPLES} tuples, {slots} slots, median of {RUNS}")
        print(f"  {'':24}{'update/s':>11}{'combine/s':>11}{'finalize/s':>11}{'state':>13}")
        for function in FUNCTIONS:
            cells = measure(function, slots, pages, random)
            print(f"  {function.output_name():24}" + "".join(f"{cell:>11}" for cell in cells))


if __name__ == "__main__":
    main()
