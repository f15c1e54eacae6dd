"""Q8-3 and Q8-4 out of order and in order: how many tuples are held while inputs are skewed or late (Fig 8-9, 8-10).

Run: python tests/benchmarks/bench_in_order.py [packets a second]

Every stream arrives as it was recorded, read in pieces of 256 packets. Of Q8-3 the inputs are A with B and C with D, B
and D late by the skew; of Q8-4 M1, and M2 with a sparse C that is late by the delay. Held is the sum over operators of
the most tuples each had; in order the sorts, merges and the join's output buffer are among them.
"""

from __future__ import annotations

import sys
import time

import oop_engine as oop
from oop_engine.api.in_order import in_order
from oop_engine.api.stream import Stream
from oop_engine.drive import circuit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan

SECOND = 1_000_000_000
REVERSED = {"srcIP": "destIP", "destIP": "srcIP", "srcPort": "destPort", "destPort": "srcPort"}


def link(name: str, seconds: int, rate: float, skew: int = 0) -> Stream:
    """Make a link in order, late by so many seconds as a whole."""
    seed = sum(map(ord, name))
    return oop.packets(max(1, int(seconds * rate)), rate=rate, link=name, seed=seed, skew=skew * SECOND)


def q8_3(skew: int, rate: int) -> Stream:
    """Join two unions in tumbling windows of 10 s."""
    a, b, c, d = (link(name, 240, rate, skew * (name in "BD")) for name in "ABCD")
    return a.meld(b).join(c.meld(d), REVERSED, tumbling="10 s").aggregate(oop.count())


def q8_4(delay: int, rate: int) -> Stream:
    """Join a link with the union of another and a sparse late one in tumbling windows of a minute."""
    m1, m2, c = link("M1", 240, rate), link("M2", 240, rate), link("C", 240, 0.8, delay)
    return m1.join(m2.meld(c), REVERSED, tumbling="1 minute").aggregate(oop.count())


def measured(stream: Stream) -> tuple[int, float]:
    """Run a stream; gives the tuples held and tuples/s."""
    started = time.perf_counter()
    run = Run(Plan((stream.node,)))
    for _ in run:
        pass
    statistics = Statistics(run.circuit.statistics())
    return statistics.peak_state, statistics.tuples / (time.perf_counter() - started)


def main(rate: int) -> None:
    circuit.CHUNK_ROWS = 256  # type: ignore[misc]
    for name, query, lateness, steps in (
        ("Q8-3, skew", q8_3, "s", (0, 20, 40, 60, 80, 100)),
        ("Q8-4, delay", q8_4, "s", (0, 2, 4, 6, 8, 10)),
    ):
        print(f"\n{name}, {rate:,} packets/s a link for 240 s: tuples held (thousands of tuples/s)")
        print(f"{lateness:>5} {'out of order':>20} {'in order, OPOB':>20} {'in order, OPIB':>20}")
        for step in steps:
            stream = query(step, rate)
            forms = (stream, in_order(stream), in_order(stream, buffer="input"))
            found = [measured(form) for form in forms]
            print(f"{step:>5} " + " ".join(f"{held:>11,} {speed / 1e3:>8.0f}" for held, speed in found))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
