"""The strategy that is chosen beside each fixed one, on random workloads: how far it is from the best of them.

    python tests/benchmarks/bench_choice.py [workloads] [runs] [seed]

A workload draws groups (1 to 20,000), tuples a slide (5 to 10,000), slides a window (2 to 64), disorder (none, or up to
two slides), functions (sums, or a maximum), and whether all groups are there at all times, or in a burst alone that has
a fifth of the tuples. Strategies take turns; a strategy's time is the least of its runs, in CPU seconds. All results
are compared by their number and their sum.

A line shows each time as a multiple of the best fixed one, and at the end how many choices are within 10 % and 50 % of
it. The same is said of panes that are run a second time, which shows how much chance there is in these numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from statistics import median
from time import process_time
from typing import cast

import attrs
import numpy as np
import pyarrow as pa

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import count, max, sum
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from punctuation import END, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
SLIDE, PAGE, LEAST, MOST_TUPLES, WINDOWS = 100, 8192, 40_000, 250_000, 800
SUMS: Mapping[str, AggregateFunction] = {"n": count(), "total": sum("v")}
MOST: Mapping[str, AggregateFunction] = {"most": max("v")}
AGAIN = "panes again"
FIXED: tuple[Strategy, ...] = ("wid", "panes", "differential", "two_stacks")
COLUMNS = (*FIXED, "auto", AGAIN)


@attrs.frozen
class Workload:
    """One stream and the windows over it."""

    groups: int
    a_slide: int
    overlap: int
    disorder: int
    burst: bool
    functions: Mapping[str, AggregateFunction]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Workload:
        a_slide = int(10 ** rng.uniform(0.7, 4))
        groups, overlap = int(10 ** rng.uniform(0, 4.3)), int(2 ** rng.uniform(1, 6))
        disorder = int(rng.choice([0, 0, SLIDE // 2, 2 * SLIDE]))
        return cls(groups, a_slide, overlap, disorder, bool(rng.random() < 0.4), MOST if rng.random() < 0.3 else SUMS)

    def __str__(self) -> str:
        what = "most" if "most" in self.functions else "sums"
        burst = "burst" if self.burst else "steady"
        return f"{self.groups:>6} {self.a_slide:>6} {self.overlap:>4} {self.disorder:>4} {burst:>6} {what}"

    def script(self, rng: np.random.Generator) -> list[Element]:
        n = min(max_of(LEAST, 3 * self.overlap * self.a_slide), MOST_TUPLES, WINDOWS * self.a_slide)
        due = np.arange(n) * SLIDE // self.a_slide
        order = np.argsort(due + rng.integers(0, self.disorder + 1, n), kind="stable")
        keys = rng.integers(0, self.groups, n)
        if self.burst:
            keys[n // 5 :] %= 5
        values, script, top = rng.integers(0, 1000, n), list[Element](), 0
        for at in range(0, n, PAGE):
            rows = order[at : at + PAGE]
            script.append(Page.of(SCHEMA, {"ts": due[rows], "k": keys[rows], "v": values[rows]}))
            top = max_of(top, int(due[rows].max()))
            script.append(before("ts", top - self.disorder))
        return [*script, END]


def max_of(one: int, other: int) -> int:
    """Give the greater one; `max` is a function of windows here."""
    return one if one > other else other


def run(work: Workload, strategy: Strategy, script: list[Element]) -> tuple[float, tuple[int, int]]:
    """Give seconds, and the number and the sum of the results."""
    window = SlidingWindow("ts", size=SLIDE * work.overlap, slide=SLIDE)
    chain = Chain([Bucket(window), WindowAggregate(window, work.functions, ("k",), strategy=strategy)])
    chain.output_schema(SCHEMA)
    name, found = list(work.functions)[-1], [0, 0]

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            found[0] += len(element)
            found[1] += int(element[name].sum())

    start = process_time()
    for element in script:
        if isinstance(element, Page):
            chain.process(element, emit)
        else:
            chain.punctuate(element, emit)
    return process_time() - start, (found[0], found[1])


def main(workloads: int = 30, runs: int = 5, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    print("groups a_slide over late stream what " + "".join(f"{name:>14}" for name in COLUMNS) + "   best, s")
    ratios: list[tuple[float, float, float]] = []
    for number in range(-2, workloads):
        work = Workload.drawn(rng)
        script = work.script(rng)
        fixed = [name for name in FIXED if name != "differential" or "most" not in work.functions]
        names: list[str] = [*fixed, "auto", AGAIN]
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(runs):
            answers = set[tuple[int, int]]()
            # In any order: who comes behind one that fills the caches would be slower for that.
            for place in rng.permutation(len(names)).tolist():
                name = names[place]
                seconds, answer = run(work, "panes" if name == AGAIN else cast(Strategy, name), script)
                times[name].append(seconds)
                answers.add(answer)
            assert len(answers) == 1, f"{work}: {answers}"
        if number < 0:
            continue  # compiled code is loaded
        least = {name: sorted(seconds)[0] for name, seconds in times.items()}
        best = sorted(least[name] for name in fixed)[0]
        ratios.append((least["auto"] / best, least[AGAIN] / best, best))
        cells = [f"{least[name] / best:14.2f}" if name in least else f"{'-':>14}" for name in COLUMNS]
        print(work, "".join(cells), f"{best:9.3f}", flush=True)
    for title, place in (("auto", 0), ("panes again", 1)):
        for least_s in (0.0, 0.01):
            some = [each[place] for each in ratios if each[2] >= least_s]
            close = [len([r for r in some if r <= most]) for most in (1.1, 1.5)]
            print(
                f"{title}, {least_s} s and more: {close[0]} of {len(some)} within 10 % of the best fixed one,"
                f" {close[1]} within 50 %; median {median([*some, 1.0]):.2f}, worst {sorted([*some, 1.0])[-1]:.2f}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
