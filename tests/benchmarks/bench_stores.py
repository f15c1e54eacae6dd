"""The store that shared slices choose while they run, beside each fixed one, on random workloads without groups.

    python tests/benchmarks/bench_stores.py [workloads] [runs] [seed]

A workload draws windows (1 to 20), slides a window (1 to 256), tuples a slide (1 in 30 to 1,000), promises a page (1
to 300), disorder (none, or up to two slides), tuples behind the promise (none, or one in 200), functions (sums, or a
maximum), whether a session window shares the slices, and whether tuples come evenly, or a quarter of them at a
hundredth of the pace. Stores take turns; the time of a store is the least of its runs, in CPU seconds. All results are
compared by their number and their sum.

A line shows each time as a multiple of the best fixed one, and at the end how many choices are within 10 % and 50 % of
it. The same is said of lazy slices that are run a second time, which shows how much chance there is in these numbers,
and of the store that the windows alone would decide, from how many slices they have at most.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from statistics import median
from time import process_time
from typing import Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators import functions
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element, Promises
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from operators.window_aggregate.stores.slices.windows import Spec
from punctuation import END

Store: TypeAlias = Literal["lazy", "eager", "auto"]
SCHEMA = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
PAGE, MOST_TUPLES, MOST_RESULTS, MOST_PAIRS = 8192, 200_000, 400_000, 40_000_000
SUMS: Mapping[str, AggregateFunction] = {"n": functions.count(), "total": functions.sum("v")}
MOST: Mapping[str, AggregateFunction] = {"most": functions.max("v")}
AGAIN = "lazy again"
COLUMNS = ("lazy", "eager", "auto", AGAIN)


@attrs.frozen
class Workload:
    """One stream and the windows over it."""

    slides: tuple[int, ...]
    overlap: int
    gap: float
    """Ticks from a tuple to the next, on average."""
    promises: int
    disorder: int
    late: bool
    session: bool
    uneven: bool
    aggregates: Mapping[str, AggregateFunction]

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Workload:
        slide = int(10 ** rng.uniform(1, 3))
        slides = tuple(int(slide * each) for each in rng.uniform(1, 3, int(20 ** rng.uniform(0, 1))))
        return cls(
            slides,
            int(2 ** rng.uniform(0, 8)),
            slide / 10 ** rng.uniform(-1.5, 3),
            int(300 ** rng.uniform(0, 1)),
            int(rng.choice([0, 0, slide // 2, 2 * slide])),
            bool(rng.random() < 0.2),
            bool(rng.random() < 0.2),
            bool(rng.random() < 0.3),
            MOST if rng.random() < 0.4 else SUMS,
        )

    @property
    def tuples(self) -> int:
        """Return how many tuples there are, so that no store takes too long."""
        results = sum(self.gap / slide for slide in self.slides) * (1 if self.gap < self.slides[0] else 2)
        held = self.overlap * min(len(self.slides), self.slides[0] / self.gap * len(self.slides))
        most = MOST_RESULTS / results, MOST_PAIRS / (results * (1 + held)), MOST_TUPLES
        return int(min(*most))

    def __str__(self) -> str:
        words = [name for name, yes in (("late", self.late), ("session", self.session), ("uneven", self.uneven)) if yes]
        what = "most" if "most" in self.aggregates else "sums"
        return (
            f"{len(self.slides):>7} {self.overlap:>4} {self.slides[0] / self.gap:>8.2f} {self.promises:>8}"
            f" {self.disorder / self.slides[0]:>5.1f} {what} {'+'.join(words):>19}"
        )

    @property
    def windows(self) -> Mapping[str, Spec]:
        """Return the windows, by name."""
        found: dict[str, Spec] = {
            f"w{i}": SlidingWindow("ts", size=slide * self.overlap, slide=slide) for i, slide in enumerate(self.slides)
        }
        return found | ({"busy": SessionWindow("ts", gap=2 * self.slides[0])} if self.session else {})

    def script(self, rng: np.random.Generator) -> list[tuple[Page, Promises]]:
        n = self.tuples
        gaps = rng.exponential(self.gap, n)
        if self.uneven:
            gaps[n // 4 : n // 2] *= 100
            gaps *= n * self.gap / max(gaps.sum(), 1e-9)
        due = np.cumsum(gaps).astype(np.int64)
        order = np.argsort(due + rng.integers(0, self.disorder + 1, n), kind="stable")
        ticks, values, script, bound = due[order], rng.integers(0, 1000, n), list[tuple[Page, Promises]](), -1
        high = np.maximum.accumulate(ticks) - self.disorder
        if self.late:
            ticks = ticks - (rng.random(n) < 1 / 200) * rng.integers(0, 4 * self.slides[0], n)
        for at in range(0, n, PAGE):
            m = min(PAGE, n - at)
            positions = np.unique(np.linspace(0, m, self.promises + 1).astype(np.int64)[1:])
            bounds = high[at + positions - 1]
            rises = bounds > np.append(bound, np.maximum.accumulate(bounds)[:-1])
            bound = max(bound, int(bounds[-1]))
            page = Page.of(SCHEMA, {"ts": ticks[at : at + m], "v": values[at : at + m]})
            script.append((page, Promises("ts", positions[rises], bounds[rises])))
        return script


def run(work: Workload, store: Store, script: list[tuple[Page, Promises]]) -> tuple[float, tuple[int, int]]:
    """Return seconds, and the number and the sum of the results."""
    operator = SlicingAggregate(work.windows, work.aggregates, store=store, named=True)
    name, found = list(work.aggregates)[-1], [0, 0]

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            found[0] += len(element)
            found[1] += int(element[name].sum())

    start = process_time()
    for page, promises in script:
        operator.process_with(page, promises, emit)
    operator.punctuate(END, emit)
    return process_time() - start, (found[0], found[1])


def main(workloads: int = 30, runs: int = 3, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    print(
        "windows over a_slide promises  late what " + " " * 20 + "".join(f"{name:>11}" for name in COLUMNS), "  best, s"
    )
    ratios: list[tuple[float, float, float]] = []
    for number in range(-2, workloads):
        work = Workload.drawn(rng)
        script = work.script(rng)
        times: dict[str, list[float]] = {name: [] for name in COLUMNS}
        for turn in range(runs):
            answers = set[tuple[int, int]]()
            for name in COLUMNS[turn % len(COLUMNS) :] + COLUMNS[: turn % len(COLUMNS)]:
                seconds, answer = run(work, "lazy" if name == AGAIN else name, script)
                times[name].append(seconds)
                answers.add(answer)
            assert len(answers) == 1, f"{work}: {answers}"
        if number < 0:
            continue  # compiled code is loaded
        least = {name: min(seconds) for name, seconds in times.items()}
        best = min(least["lazy"], least["eager"])
        declared = SlicingAggregate(work.windows, work.aggregates, named=True).combines_ahead
        by_windows = least["eager" if declared else "lazy"]
        ratios.append((least["auto"] / best, min(least[AGAIN], least["eager"]) / best, by_windows / best))
        print(work, "".join(f"{least[name] / best:11.2f}" for name in COLUMNS), f"{best:9.3f}", flush=True)
    for place, title in enumerate(("auto", AGAIN, "by the windows alone")):
        found = [each[place] for each in ratios]
        within = [len([ratio for ratio in found if ratio <= most]) for most in (1.1, 1.5)]
        print(
            f"{title}: {within[0]} of {len(found)} within 10 % of the best fixed one, {within[1]} within 50 %;"
            f" median {median(found):.2f}, worst {max(found):.2f}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
