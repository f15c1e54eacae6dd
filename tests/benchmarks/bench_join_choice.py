"""What a join leaves plain and what it indexes, beside joins that always do the same.

    python tests/benchmarks/bench_join_choice.py [tuples] [runs] [case]

Each case is a workload: how keys are skewed, how far the right input is behind the left one, pages, volumes, bands, and
whether pairs come out or are counted. Each join takes its turn in each run; its time is the least of its runs, in CPU
seconds. All pairs are compared by their number and a sum over them. A line shows each time as a multiple of the best
fixed join's: all tuples indexed at once, none ever, and pages indexed after 2 to 32 looks.

The same is said of indexed tuples run a second time, which shows how much chance there is in these numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import process_time

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from operators.join import Band, OAJoin
from operators.join.plain import Plain
from operators.join.policy import Policy
from operators.join.tuples import Tuples
from operators.protocol import Element
from punctuation import END, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
WINDOW = 8_000
"""Ticks of a window, by which delays are told; a stream of full volume has a tuple a tick."""
KEYS = 2_000
Int64s = npt.NDArray[np.int64]
Script = Sequence[tuple[int, Element]]


@attrs.define(eq=False)
class Always(Policy):
    """Leave all pages plain for so many looks."""

    looks: int = attrs.field(default=0, kw_only=True)

    def plain(self, tuples: Tuples, port: int) -> bool:
        return True

    def worn(self, page: Plain, port: int) -> bool:
        return page.looks >= self.looks


@attrs.define(eq=False)
class Fixed(OAJoin):
    """A join that always does the same."""

    looks: int = attrs.field(default=0, kw_only=True)

    def _policy(self, patience: int) -> Policy:
        return Always(patience, looks=self.looks)


@attrs.frozen
class Case:
    """One workload."""

    name: str
    skew: str = "uniform"
    delay: str = "0"
    pages: tuple[int, int] = (4096, 4096)
    every: tuple[int, int] = (1, 1)
    """Ticks a tuple of each input."""
    near: float = 2.0
    """Pairs a tuple, by which the band is made wide."""
    counted: bool = False
    part: float = 1.0
    """How much of the tuples to take."""

    def chances(self) -> npt.NDArray[np.float64]:
        if self.skew == "uniform":
            return np.full(KEYS, 1 / KEYS)
        if self.skew == "half":
            return np.concatenate(([0.5], np.full(KEYS - 1, 0.5 / (KEYS - 1))))
        weights = np.arange(1, KEYS + 1) ** -float(self.skew)
        return weights / weights.sum()

    def band(self) -> Band:
        half = max(1, round(self.near / (2 * float((self.chances() ** 2).sum()))))
        return Band("ts", "ts", left=half, right=half, closed=True)

    def behind(self, ticks: Int64s) -> Int64s:
        """Return when right tuples of some ticks come, in ticks of the left input."""
        if self.delay == "alternating":
            return ticks + np.where(ticks // (5 * WINDOW) % 2 == 0, 2 * WINDOW, -2 * WINDOW)
        silent = int(ticks.max() * 0.7)
        if self.delay == "flood":
            return np.maximum(ticks, silent)
        if self.delay == "backlog":
            return np.where(ticks < silent, ticks + silent, ticks)
        return ticks + int(float(self.delay) * WINDOW)

    def script(self, tuples: int) -> Script:
        """Make pages in order of arrival, each followed by the exact promise."""
        rng = np.random.default_rng(11)
        span = int(tuples * self.part)
        due: list[tuple[float, int, Element]] = []
        for port in (0, 1):
            n = span // self.every[port]
            ts = np.arange(n) * self.every[port]
            keys = rng.choice(KEYS, n, p=self.chances())
            ts = np.maximum(0, ts - rng.integers(0, WINDOW // 8, n))
            comes = np.arange(n) * self.every[port] if port == 0 else self.behind(np.arange(n) * self.every[port])
            order = np.argsort(comes, kind="stable")
            comes, ts, keys = comes[order], ts[order], keys[order]
            bounds = np.minimum.accumulate(ts[::-1])[::-1]
            for at in range(0, n, self.pages[port]):
                stop = min(at + self.pages[port], n)
                page = Page.of(SCHEMA, {"ts": ts[at:stop], "k": keys[at:stop], "v": np.arange(at, stop)})
                due.append((float(comes[stop - 1]), port, page))
                if stop < n:
                    due.append((float(comes[stop - 1]), port, before("ts", int(bounds[stop]))))
        due.sort(key=lambda one: one[0])
        return [*((port, element) for _, port, element in due), (0, END), (1, END)]


CASES = (
    Case("uniform"),
    Case("Zipf 1.0", "1.0"),
    Case("Zipf 1.5", "1.5"),
    Case("one key of half", "half"),
    Case("delay of a window", delay="1"),
    Case("delay of ten", delay="10"),
    Case("alternating", delay="alternating"),
    Case("silent, then a flood", delay="flood"),
    Case("silent, then old and new", delay="backlog"),
    Case("pages of 100", pages=(100, 100), part=0.2),
    Case("pages of 100, delay of two", pages=(100, 100), delay="2", part=0.2),
    Case("pages of 50,000", pages=(50_000, 50_000), part=5),
    Case("left ten times the right", every=(1, 10)),
    Case("right ten times the left", every=(10, 1)),
    Case("left 100 times the right", every=(1, 100)),
    Case("left 100 times, delay of ten", every=(1, 100), delay="10"),
    Case("1000 times, thin right", every=(1, 1000), pages=(4096, 4)),
    Case("100 times, thin right", every=(1, 100), pages=(4096, 4)),
    Case("wide", near=16),
    Case("narrow", near=0.2),
    Case("narrow, delay of ten", near=0.2, delay="10"),
    Case("counted", counted=True),
    Case("counted, wide, Zipf 1.0", "1.0", near=16, counted=True),
)
SWEEP = (2, 4, 8, 16, 32)
INDEXED, PLAIN, CHOSEN, AGAIN = "indexed", "plain", "chosen", "indexed again"


def joins(case: Case) -> Mapping[str, Callable[[], OAJoin]]:
    """Return the joins to compare."""
    band, on = case.band(), [("k", "k")]
    names = ["ts", "k"] if case.counted else []
    looks = {PLAIN: 1 << 40, **{f"{n} looks": n for n in SWEEP}}
    return {
        CHOSEN: lambda: OAJoin(band, on, attributes=names),
        INDEXED: lambda: OAJoin(band, on, attributes=names, patience=0),
        **{name: lambda n=n: Fixed(band, on, attributes=names, looks=n) for name, n in looks.items()},
        AGAIN: lambda: OAJoin(band, on, attributes=names, patience=0),
    }


def run(make: Callable[[], OAJoin], script: Script) -> tuple[float, tuple[int, int]]:
    """Drive a join through a script; CPU seconds, and the number of pairs and a sum of them."""
    join, pages = make(), list[Page]()
    join.output_schema(SCHEMA, SCHEMA)

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            pages.append(element)

    start = process_time()
    for port, element in script:
        if isinstance(element, Page):
            join.process(element, emit, port)
        else:
            join.punctuate(element, emit, port)
    spent = process_time() - start
    sums = [
        int(page.batch.column(i).to_numpy().sum()) * (i + 1) for page in pages for i in range(len(page.schema.names))
    ]
    return spent, (sum(map(len, pages)), sum(sums))


def compare(case: Case, tuples: int, runs: int) -> float:
    """Print what each join takes; how far the chosen one is from the best fixed."""
    script, times = case.script(tuples), dict[str, list[float]]()
    answers: set[tuple[int, int]] = set()
    for _ in range(runs):
        for name, make in joins(case).items():
            spent, answer = run(make, script)
            times.setdefault(name, []).append(spent)
            answers.add(answer)
    assert len(answers) == 1, (case, answers)
    least = {name: min(spent) for name, spent in times.items()}
    best = min(s for name, s in least.items() if name not in (CHOSEN, AGAIN))
    print(f"{case.name:30}{best * 1e3:8.1f} ms" + "".join(f"{s / best:9.2f}" for s in least.values()), flush=True)
    return least[CHOSEN] / best


def main(tuples: int, runs: int, only: str) -> None:
    cases = [case for case in CASES if only in case.name]
    for make in joins(cases[0]).values():
        run(make, cases[0].script(tuples // 10))
    names = [name.removesuffix(" looks").replace(" again", "2") for name in joins(cases[0])]
    print(f"{'':30}{'best fixed':>11}" + "".join(f"{name:>9}" for name in names))
    ratios = [compare(case, tuples, runs) for case in cases]
    print(
        f"chosen: {sum(r <= 1.1 for r in ratios)} of {len(ratios)} within 10 % of the best fixed join, median"
        f" {median(ratios):.2f}, most {max(ratios):.2f}"
    )


if __name__ == "__main__":
    given = [int(float(text)) for text in sys.argv[1:3]]
    size, turns = [*given, *(100_000, 3)[len(given) :]]
    main(size, turns, sys.argv[3] if len(sys.argv) > 3 else "")
