"""A join that chooses which pages it indexes, beside joins that always do the same, by skew and by delay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oop_engine.figures.figure import SERIES, Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, repeated
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.join import Band, OAJoin
from operators.join.plain import Plain
from operators.join.policy import Policy
from operators.join.tuples import Tuples
from operators.protocol import Element
from punctuation import END, before

SCHEMA: Final = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
WINDOW: Final = 8_000
"""Ticks of a window, by which delays are told; a stream of full volume has a tuple a tick."""
KEYS: Final = 2_000
NEAR: Final = 1.1
"""As many times the best fixed join's time are near it."""
INDEXED, PLAIN, CHOSEN = "indexed", "plain", "chosen"
Script = Sequence[tuple[int, Element]]
Answer = tuple[int, int]


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


BY_SKEW: Final = (
    Case("uniform"),
    Case("Zipf 1.0", "1.0"),
    Case("Zipf 1.5", "1.5"),
    Case("one key of half", "half"),
)
BY_DELAY: Final = (
    Case("a window late", delay="1"),
    Case("ten windows late", delay="10"),
    Case("alternating", delay="alternating"),
    Case("silent, then a flood", delay="flood"),
    Case("silent, then old and new", delay="backlog"),
)


def joins(case: Case, sweep: Sequence[int]) -> Mapping[str, Callable[[], OAJoin]]:
    """Return the join as it is, and joins that always do the same.

    - `case`: the workload.
    - `sweep`: numbers of looks after which pages are indexed.
    """
    band, on = case.band(), [("k", "k")]
    names = ["ts", "k"] if case.counted else []
    looks = {PLAIN: 1 << 40, **{f"{n} looks": n for n in sweep}}
    return {
        CHOSEN: lambda: OAJoin(band, on, attributes=names),
        INDEXED: lambda: OAJoin(band, on, attributes=names, patience=0),
        **{name: lambda n=n: Fixed(band, on, attributes=names, looks=n) for name, n in looks.items()},
    }


def run(make: Callable[[], OAJoin], script: Script) -> tuple[float, Answer]:
    """Drive a join through a script; return CPU seconds, and the number of pairs and a sum over them."""
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


def measure(size: Size) -> Measured:
    """Take each workload by itself; the time of a join is the least of its runs."""
    tuples, runs = size.of(tiny=(3_000, 1), small=(60_000, 3), paper=(400_000, 5))
    rows: list[dict[str, object]] = []
    for case in (*BY_SKEW, *BY_DELAY):
        script = case.script(tuples)
        works = {name: partial(run, make, script) for name, make in joins(case, (2, 8)).items()}
        ran = repeated(works, runs)
        agreed({name: each[0][1] for name, each in ran.items()})
        for name, each in ran.items():
            rows.append({SERIES: name, "case": case.name, "ms": 1e3 * min(spent for spent, _ in each)})
    return Measured.of(
        rows,
        f"Two inputs of {tuples:,} tuples, {KEYS:,} keys, pages of {BY_SKEW[0].pages[0]:,}, about two pairs a tuple."
        " Fixed joins index all tuples as they come, none ever, or pages that were looked at 2 or 8 times.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare the join that chooses with the best fixed one of each workload."""
    times: dict[str, dict[str, float]] = {name: {} for name in measured.series}
    for row in measured.table.to_pylist():
        times[row[SERIES]][row["case"]] = row["ms"]
    fixed = [name for name in times if name != CHOSEN]
    behind = {case: ms / min(times[name][case] for name in fixed) for case, ms in times[CHOSEN].items()}
    checks: list[Check] = []
    for what, cases in (("skew", BY_SKEW), ("delay", BY_DELAY)):
        worst = max((behind[case.name], case.name) for case in cases)
        checks.append(
            Check(
                worst[0] <= NEAR,
                f"by {what} it takes up to {worst[0]:.2f} times the time of the best fixed join ({worst[1]})",
            )
        )
    whole = {name: sum(times[name].values()) for name in times}
    best = min(fixed, key=lambda name: whole[name])
    checks.append(
        Check(
            whole[CHOSEN] <= NEAR * whole[best],
            f"all workloads take {whole[CHOSEN] / whole[best]:.2f} times what they take the best fixed join ({best})",
        )
    )
    return Verdict.of(*checks, why="A page is looked at a few times before its choice is known to be wrong.")


JOIN_CHOICE: Final = Figure(
    "join-choice",
    "extra",
    "A join that chooses what it indexes, beside joins that always do the same",
    "Whatever the skew of keys and the delay between the inputs, the join takes at most 1.1 times the time of the best"
    " fixed one (thesis, chapter 9, asks for adaptive window joins).",
    Axis("case", "skew of keys, or delay of the right input"),
    [Axis("ms", "processor time, ms")],
    measure,
    judge,
    shape="bars",
)
