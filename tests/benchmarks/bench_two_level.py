"""Q8-1 by the procedure of Fig 8-7: what rate a low level takes from a ring of fixed size without a tuple lost.

    python tests/benchmarks/bench_two_level.py [thousand groups, e.g. 66,130,260,520] [runs] [tuples a group and window]

Q8-1 counts the packets of each (source, destination) a window. The low level reads 8,192 tuples at a time from a ring
and writes its partial aggregates out as Arrow messages, as to another process. How long each read takes, in processor
time, is measured (the least of the runs, so that what else the machine does drops no tuples); then rates are raised,
in steps of 1 %, until a ring of so many tuples would lose one. Groups are drawn evenly, tables have half as many places
as there are groups, as many, twice as many. IOP is the in-order slow flush, one old group a tuple; OOP (sf) one every
160 tuples; OOP the lazy one; both at most 2 windows late. The stall is the longest time between two reads.

How much OOP gains hangs on the ring: a ring that holds what comes in a stall, (stall x rate) tuples, loses none of it,
and rates then differ by what a tuple costs alone. The packet ring that the engine asks the kernel for, of 32 MiB,
holds some 21,000 packets of 1,500 bytes, 38,000 of 800, 200,000 of 96; so the rings here are those of full packets.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from time import perf_counter, thread_time

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.figures.measuring import repeated
from oop_engine.figures.thesis.low_level import READ, WINDOWS, flushes, least, reads, tagged
from oop_engine.processes import apart
from operators.data.page import Page
from operators.drive import deliver
from operators.functions import count
from operators.protocol import Element, Operator
from operators.window import tumbling
from operators.window_aggregate.partial_final import (
    CompleteFlush,
    Flush,
)
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END

RINGS = (1 << 14, 1 << 15, 1 << 16)
FLUSHES: dict[str, Flush] = {**flushes(), "complete": CompleteFlush()}


def total(operator: Operator, elements: list[Element]) -> int:
    """Give the sum of all counts that an operator gives."""
    found = 0

    def add(element: Element) -> None:
        nonlocal found
        if isinstance(element, Page):
            found += int(element["n"].sum())

    for element in elements:
        deliver(operator, element, add)
    return found


def layouts(groups: int, n: int, runs: int) -> None:
    """Time whole plans, one level against two in each layout, by the clock on the wall."""
    rng = np.random.default_rng(3)
    ranks = np.minimum(rng.zipf(1.3, n) - 1, groups - 1)
    columns = {"ts": np.arange(n), "srcIP": ranks.astype(np.uint32), "destIP": (ranks * 7).astype(np.uint32)}
    packets = oop.arrow(pa.table(columns))

    def stream(strategy: str) -> oop.Stream:
        window = packets.window(range=n // 4)
        return window.aggregate(oop.count(), by=("srcIP", "destIP"), strategy=strategy)

    ways: dict[str, Callable[[], Iterable[Page]]] = {
        "one level": lambda: stream("auto"),
        "two, here": lambda: apart(stream("two_level"), layout="here").pages(),
        "two, high in a thread": lambda: apart(stream("two_level"), layout="thread").pages(),
        "two, high in a process": lambda: apart(stream("two_level"), layout="process").pages(),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            start = perf_counter()
            assert sum(int(page["count"].sum()) for page in way()) == n
            times[name].append(perf_counter() - start)
    print(f"{n:,} tuples of at most {groups:,} groups, Zipf 1.3, 4 windows, medians of {runs} runs with start and end")
    for name, seconds in times.items():
        print(f"    {name:24} {n / median(seconds) / 1e6:6.2f} M tuples/s")


def main(thousands: list[int], runs: int, each: int) -> None:
    print(f"Q8-1, {WINDOWS} windows, {each} tuples a group and window, {READ:,} tuples a read, least of {runs} runs;")
    print(f"M tuples/s without loss from a ring of {', '.join(f'{ring:,}' for ring in RINGS)} tuples")
    for groups in (1000 * n for n in thousands):
        window = tumbling("ts", groups * each)
        elements = tagged(groups, groups * each, window)
        n = sum(len(e) for e in elements if isinstance(e, Page))
        for half in (1, 2, 4):
            size = groups * half // 2
            for name, flush in FLUSHES.items():
                checked = reads(elements, size, flush, window, check=True).total
                assert checked == n, (name, checked, n)
            ways = {name: partial(reads, elements, size, flush, window) for name, flush in FLUSHES.items()}
            found = {name: least(several) for name, several in repeated(ways, runs).items()}
            print(f"{groups:>9,} groups, table {size:>9,} ({half / 2:g}x)")
            rates = {name: [once.rate(ring) for ring in RINGS] for name, once in found.items()}
            for name, once in found.items():
                ratio = "  ".join(f"{a / b:4.2f}" for a, b in zip(rates[name], rates["IOP"], strict=True))
                print(
                    f"    {name:9} {'  '.join(f'{r / 1e6:6.2f}' for r in rates[name])}   x IOP {ratio}"
                    f"   stall {1e3 * once.stall:7.2f} ms   without a ring's limit "
                    f"{n / once.seconds.sum() / 1e6:6.2f}   partials {once.partials / n:.3f} a tuple"
                    f"   state {once.state_bytes / 1e6:6.1f} MB",
                    flush=True,
                )
        window_aggregate = WindowAggregate(window, {"n": count()}, ("srcIP", "destIP"))
        start = thread_time()
        total(window_aggregate, [*elements, END])
        print(f"    one level, no table of fixed size: {n / (thread_time() - start) / 1e6:.2f} M tuples/s")
    layouts(130_000, 8_000_000, runs)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    # To look for garbage among all that was imported takes up to 70 ms: a stall of whoever is measured just then.
    gc.disable()
    main(
        [int(n) for n in (arguments[0] if arguments else "66,130,260,520").split(",")],
        int(arguments[1]) if len(arguments) > 1 else 3,
        int(arguments[2]) if len(arguments) > 2 else 16,
    )
