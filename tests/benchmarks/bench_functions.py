"""Time `update`, `combine` and `finalize` of each aggregate function on one core: tuples and slots a second.

Run from the top of the tree: python -m tests.benchmarks.bench_functions
Each figure is the median of several runs over pages that lie in memory, with few slots and with 100,000 random ones.
Then a user's functions beside the built-in ones of the same shape, with ratios; and medians over 20 concurrent
windows, from the runs of shared slices beside buckets, each of which keeps its own values: in the same accumulator,
and in arrays of which numpy selects the middle.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

import numpy as np
import pyarrow as pa

from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.holistic import Ranked
from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.functions import Accumulator, AggregateFunction

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
    fn.m4("length", "ts"),
    fn.minmax("length"),
    fn.centre_of_mass("length", "port"),
    fn.geometric_mean("length"),
    fn.median("length"),
    fn.median("rate"),
    fn.mode("port"),
    fn.heavy_hitters("srcIP", 0.05),
    fn.top_k("host", 5),
    fn.concat("host", "ts", separator=","),
]
SKETCHES = [
    fn.approx_count_distinct("port"),
    fn.approx_quantile("rate", 0.95),
    fn.approx_heavy_hitters("port", 0.05),
]
USERS = [
    (
        fn.user_aggregate(
            "users_sum", lambda x: x, lambda a, b: a + b, arguments="length", identity=0, output=pa.int64()
        ),
        fn.sum("length"),
    ),
    (
        fn.user_aggregate(
            "users_max",
            lambda x: x,
            lambda a, b: a if a > b else b,
            arguments="length",
            identity=-(1 << 63),
            output=pa.int64(),
        ),
        fn.max("length"),
    ),
    (
        fn.user_aggregate(
            "users_avg",
            lambda x: (x, 1),
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lambda s: s[0] / s[1],
            arguments="length",
            identity=(0, 0),
            output=pa.float64(),
        ),
        fn.avg("length"),
    ),
]
WINDOWS, SLICES, LATE = 20, 200, 0.2


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


def users(slots: int, pages: list[Page], random: np.random.Generator) -> None:
    """Print a user's functions beside the built-in ones, runs interleaved, and ratios of medians."""
    at = [random.integers(0, slots, TUPLES).astype(np.int32) for _ in pages]
    every = np.arange(slots, dtype=np.int32)
    for pair in USERS:
        start = time.perf_counter()
        pair[0].accumulator(SCHEMA)
        made = time.perf_counter() - start
        runs = [[once(prepared(function, slots), at, pages, every)[0] for function in pair] for _ in range(RUNS + 1)]
        own, built = (statistics.median(seconds) for seconds in zip(*runs[1:], strict=True))
        rates = [f"{TUPLES * len(pages) / seconds / 1e6:.0f} M" for seconds in (own, built)]
        print(
            f"  {pair[0].name:12} {slots:7} slots {rates[0]:>7} tuples/s, {pair[1].name} {rates[1]:>7}: "
            f"{built / own:.2f} of it; made in {made:.2f} s"
        )


def medians(values: str, pages: list[Page]) -> None:
    """Print the median of `values` over windows that end at each slice, by slices, by buckets, and their ratio."""
    ranked = Ranked.of(values, 0.5, WINDOWS, SLICES, pages, late=LATE)
    ways = {
        "slices": ranked.by_slices,
        "buckets": ranked.by_buckets,
        "buckets of arrays, numpy's selection": ranked.by_arrays,
    }
    agreed({name: way() for name, way in ways.items()})
    taken = alternate({name: partial(timed, way) for name, way in ways.items()}, RUNS)
    for name, spent in taken.items():
        rate = f"{ranked.tuples / spent / 1e6:.1f} M tuples/s"
        print(f"  median({values}) {rate:>16} by {name}: {spent / taken['slices']:.1f} times the time of slices")


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
        # A sketch is an object, so 100,000 of them are for nobody.
        for function in FUNCTIONS + (SKETCHES if slots < 1000 else []):
            cells = measure(function, slots, pages, random)
            print(f"  {function.output_name():24}" + "".join(f"{cell:>11}" for cell in cells))
    print(f"a user's functions beside the built-in ones, median of {RUNS}")
    for slots in (16, 100_000):
        users(slots, pages, random)
    many = [a_page(number, random) for number in range(8 * PAGES)]
    how = f"{SLICES} slices, {WINDOWS} windows over each, {LATE:.0%} late"
    print(f"{len(many) * TUPLES} tuples in {how}, median of {RUNS}")
    medians("length", many)
    medians("rate", many)


if __name__ == "__main__":
    main()
