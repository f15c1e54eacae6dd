"""What asking a run costs: `why`, and a view, of 50 nodes, 1,000 keys that promise on their own, 100 k open windows.

    python tests/benchmarks/bench_why.py [windows] [keys] [nodes]

Two links, one with a promise for each key (as each exporter makes), go through a chain of operators into a window
aggregate. When all is read and nothing is promised, each is asked twenty times; the median and the most are printed.
Then a run with ten million tuples is timed with and without a socket to ask it, alternately, CPU times, the least of
four: what an unasked run pays.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.answers import answered
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.metrics import metrics
from oop_engine.drive.questions import Questions
from oop_engine.drive.view import Viewer
from oop_engine.drive.why import why
from oop_engine.plan.punctuate import Promise


def link(name: str, windows: int, keys: int, promise: Promise, go_on: Event) -> oop.Stream:
    """Give a link with a tuple of each group."""
    table = pa.table({
        "ts": np.sort(np.random.default_rng(1).integers(0, 1000, windows)),
        "k": np.arange(windows), "e": np.arange(windows) % keys,
    })  # fmt: skip

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=10_000)
        go_on.wait()

    return oop.arrow(pa.RecordBatchReader.from_batches(table.schema, batches()), name=name, punctuate=promise)


def timed(what: str, call: Callable[[], object], times: int = 20) -> None:
    call()
    took: list[float] = []
    for _ in range(times):
        began = perf_counter()
        call()
        took.append(1000 * (perf_counter() - began))
    print(f"{what:40} median {statistics.median(took):8.2f} ms, most {max(took):8.2f} ms")


def asked(circuit: Circuit) -> None:
    """Time the questions, when everything is read and nothing is complete."""
    (wait,) = why(circuit)
    print(wait)
    timed("why", lambda: why(circuit))
    frugal, greedy = Viewer(circuit), Viewer(circuit, share=float("inf"))
    timed("view, open windows asked for each time", greedy.look)
    timed("view", frugal.look)
    timed("metrics of a view", lambda: list(metrics(greedy.look())))


def main(windows: int = 100_000, keys: int = 1_000, nodes: int = 50) -> None:
    go_on = Event()
    stream = oop.meld(
        link("by key", windows, keys, oop.by_key("e", slack=0, idle=1_000_000), go_on),
        link("with slack", windows, keys, oop.slack(5000), go_on),
    )
    for number in range(nodes - 5):
        stream = stream.filter(f"k > {-1 - number}")
    stream = stream.window(range=10_000).aggregate(oop.count(), by="k")

    def watch(circuit: Circuit) -> bool:
        read = sum(meter.tuples_in for place, meter in enumerate(circuit.meters) if place in circuit.inputs)
        if read == 2 * windows and not go_on.is_set():
            print(f"{len(circuit.plan.nodes)} nodes, {windows:,} open windows, {keys:,} keys")
            asked(circuit)
            go_on.set()
        return False

    with tempfile.TemporaryDirectory() as folder:
        oop.run_outputs([stream.to(Path(folder, "out.csv"))], watch=watch)
    unasked()


def unasked(runs: int = 4) -> None:
    """Time a run that nobody asks, with a socket and without."""
    costs: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        output = (
            oop.packets(10_000_000).window(range="1 s").aggregate(oop.count(), by="srcIP").to(Path(folder, "o.csv"))
        )
        for number in range(2 * runs + 1):
            served = bool(number % 2)
            questions, began = Questions(), process_time()
            if served:
                with answered(questions):
                    oop.run_outputs([output], watch=lambda circuit, q=questions: bool(q.watch(circuit)))
            else:
                oop.run_outputs([output])
            if number:
                costs[served].append(process_time() - began)
    least, with_socket = min(costs[False]), min(costs[True])
    print(
        f"a run that nobody asks: {least:.3f} s of CPU,"
        f" with a socket {with_socket:.3f} s ({with_socket / least - 1:+.2%})"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
