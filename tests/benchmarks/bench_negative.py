"""What retraction costs: a sliding relation of two streams joined through insertions and deletions, beside windows.

    python tests/benchmarks/bench_negative.py [thousand tuples a stream] [runs]

Two streams of as many keys as tuples in a quarter of a window, joined by key over RANGE 10 s SLIDE 1 s at 10 k tuples a
second each, out of order by up to half a second. "negative tuples" counts the pairs of each window from their changes
(Expire, SignedJoin, SignedAggregate); "OA-Join" gives the pairs less than 10 s apart, once each, no relation. Prints
tuples a second (median), the greatest state of the join, and the longest a promise took (the release of one window).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.baselines.negative.join import SignedJoin
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.functions import count
from operators.join import Band, OAJoin
from operators.protocol import Element, Operator
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from punctuation import END, before

PAGE = 8192
RATE = 10_000
SECOND = 1_000_000_000
SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
WINDOW = SlidingWindow("ts", size=10 * SECOND, slide=SECOND)
KEYS = 25_000


def stream(tuples: int, seed: int) -> list[Element]:
    """Give pages of a stream, each followed by what it promises."""
    rng = np.random.default_rng(seed)
    ticks = np.arange(tuples) * (SECOND // RATE)
    arriving = ticks[np.argsort(ticks + rng.integers(0, SECOND // 2, tuples), kind="stable")]
    found: list[Element] = []
    for at in range(0, tuples, PAGE):
        part = arriving[at : at + PAGE]
        columns = {"ts": part, "k": rng.integers(0, KEYS, len(part)), "v": np.arange(len(part))}
        found.append(Page.of(SCHEMA, {name: pa.array(values) for name, values in columns.items()}))
        rest = arriving[at + PAGE :]
        if len(rest):
            found.append(before("ts", int(rest.min())))
    return [*found, END]


def by_turns(left: Iterable[Element], right: Iterable[Element]) -> list[tuple[int, Element]]:
    """Give both streams, element by element."""
    return [(port, element) for pair in zip(left, right, strict=True) for port, element in enumerate(pair)]


def run(
    script: list[tuple[int, Element]], fronts: list[Operator], join: Operator, behind: Operator
) -> tuple[float, ...]:
    """Run a join; give its seconds, greatest state, longest promise in ms, and how much came out."""
    join.output_schema(*(front.output_schema(SCHEMA) for front in fronts))
    results = peak = 0
    longest = 0.0

    def out(element: Element) -> None:
        nonlocal results
        results += len(element) if isinstance(element, Page) else 0

    def joined(element: Element) -> None:
        deliver(behind, element, out)

    def handed(port: int, element: Element) -> None:
        deliver(join, element, joined, port)

    started = perf_counter()
    for port, element in script:
        begun = perf_counter()
        deliver(fronts[port], element, partial(handed, port))
        if not isinstance(element, Page):
            longest = max(longest, perf_counter() - begun)
            peak = max(peak, join.statistics()["state_tuples"])  # type: ignore[attr-defined]
    return perf_counter() - started, peak, longest * 1e3, results


def negative() -> tuple[list[Operator], Operator, Operator]:
    """Join the relations of both windows, and count the pairs of each window."""
    fronts: list[Operator] = [Chain([Bucket(WINDOW), Expire()]) for _ in range(2)]
    return fronts, SignedJoin([("k", "k")]), SignedAggregate(WINDOW, {"pairs": count()})


def banded() -> tuple[list[Operator], Operator, Operator]:
    """Join what is less than a window apart."""
    band = Band("ts", "ts", left=10 * SECOND - 1, right=10 * SECOND - 1)
    return [_Through(), _Through()], OAJoin(band, [("k", "k")]), _Through()


class _Through:
    """Hand on what comes."""

    inputs = 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def process(self, page, emit, port=0):  # type: ignore[no-untyped-def]
        emit(page)

    def punctuate(self, punctuation, emit, port=0):  # type: ignore[no-untyped-def]
        emit(punctuation)

    def state(self):  # type: ignore[no-untyped-def]
        return {}

    def restore(self, state):  # type: ignore[no-untyped-def]
        pass


def main(tuples: int, runs: int) -> None:
    script = by_turns(stream(tuples, 1), stream(tuples, 2))
    print(f"{'':18}{'M tuples/s':>12}{'peak state':>12}{'promise ms':>12}{'results':>14}")
    for name, make in (("negative tuples", negative), ("OA-Join", banded)):
        found = [run(script, *make()) for _ in range(runs)]
        seconds = median(seconds for seconds, *_ in found)
        _, peak, _, results = found[0]
        longest = median(longest for *_, longest, _ in found)
        print(f"{name:18}{2 * tuples / seconds / 1e6:12.2f}{peak:12,.0f}{longest:12.1f}{results:14,.0f}")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(1000 * (given[0] if given else 300), given[1] if len(given) > 1 else 3)
