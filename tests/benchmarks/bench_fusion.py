"""Queries of one run over one stream: each computed apart against all computed together, from shared slices.

    python tests/benchmarks/bench_fusion.py [tuples] [runs] [kind ...]

Each of n queries is a sum and a count. The kinds: `tumbling`, n windows of 1 to 10 s; `sliding`, n windows of 2 to 10 s
that slide by a quarter; `sessions`, n gaps; `equal`, n queries with the same window of 5 s and other functions; without
groups (`plain ...`) and by 100,000 groups. 200,000 tuples a second of event time, in order, the table in memory read
once by the plan. Runs apart and together alternate, medians are printed; results are counted to be equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.rewrite.fusion import fused
from oop_engine.rewrite.sharing import shared
from operators.data.page import Page
from operators.functions.protocol import AggregateFunction

RATE, GROUPS = 200_000, 100_000
SIZES = (2, 3, 5, 10, 20)
FUNCTIONS: list[Callable[[str], AggregateFunction]] = [oop.sum, oop.avg, oop.max, oop.min]


def source(tuples: int) -> oop.Stream:
    """Make the stream."""
    rng = np.random.default_rng(1)
    columns = {
        "ts": pa.array(np.arange(tuples) * (1_000_000_000 // RATE), pa.timestamp("ns")),
        "k": rng.integers(0, GROUPS, tuples),
        "v": rng.integers(0, 1000, tuples),
    }
    return oop.arrow(pa.table(columns), name="Main")


def queries(kind: str, stream: oop.Stream, n: int) -> Plan:
    """Make a plan of n queries."""
    plain = kind.startswith("plain ")
    by = () if plain else "k"
    lengths = [1000 * (1 + i) for i in range(n)]
    streams: list[oop.Stream] = []
    for i, ms in enumerate(lengths):
        functions = [oop.count(), oop.sum("v")]
        match kind.removeprefix("plain "):
            case "tumbling":
                window = oop.tumbling(f"{ms} ms")
            case "sliding":
                window = oop.sliding(f"{ms + 1000} ms", f"{(ms + 1000) // 4} ms")
            case "sessions":
                window = oop.session(f"{10 * (i + 1)} ms")
            case _:
                window, functions = oop.tumbling("5 s"), [oop.count(), FUNCTIONS[i % len(FUNCTIONS)]("v")]
        streams.append(stream.window(window).aggregate(*functions, by=by))
    return shared(Plan(tuple(stream.node for stream in streams)))


def run(plan: Plan) -> tuple[float, int, int]:
    """Give seconds, results, and the greatest state in bytes."""
    begin, results = perf_counter(), 0
    running = Run(plan)
    for _, element in running:
        results += len(element) if isinstance(element, Page) else 0
    seconds = perf_counter() - begin
    details = [operator.details for operator in running.circuit.statistics()]
    return seconds, results, sum(some.get("peak_state_bytes", 0) for some in details)


def main(tuples: int, runs: int, kinds: list[str]) -> None:
    """Print the table."""
    stream = source(tuples)
    print(f"{tuples:,} tuples, {GROUPS:,} groups; M tuples/s apart, together, ratio; peak state in MB")
    for kind in kinds:
        for n in SIZES:
            apart = queries(kind, stream, n)
            together = fused(apart, fewest=2)
            assert sum(isinstance(node, OperatorNode) for node in together.nodes) >= n
            times: tuple[list[float], list[float]] = ([], [])
            state = [0, 0]
            counted: set[int] = set()
            for _ in range(runs):
                for which, plan in enumerate((apart, together)):
                    seconds, results, state[which] = run(plan)
                    times[which].append(seconds)
                    counted.add(results)
            assert len(counted) == 1, counted
            one, other = (median(some) for some in times)
            print(
                f"{kind:16} {n:3} queries  {tuples / one / 1e6:7.2f} {tuples / other / 1e6:7.2f} {one / other:6.2f} x"
                f"   {state[0] / 1e6:7.1f} {state[1] / 1e6:7.1f}   {counted.pop():,} results",
                flush=True,
            )


KINDS = ["tumbling", "sliding", "sessions", "equal", "plain tumbling", "plain sliding", "plain sessions", "plain equal"]

if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 2_000_000,
        int(given[1]) if len(given) > 1 else 3,
        [kind for kind in KINDS if not given[2:] or kind in given[2:]],
    )
