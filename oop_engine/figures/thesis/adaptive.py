"""Fig 6-19: eager, lazy and adaptive aggregation of groups of very different sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from time import process_time
from typing import Final, Literal

import attrs
import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, repeated
from oop_engine.sources.generator import SECOND
from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.functions import AggregateFunction, count, sum
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from punctuation import END, Punctuation, before

EAGER, LAZY, ADAPTIVE = "eager (WID)", "lazy", "AdaptWID"
PAGE: Final = 8_192
SHARES: Final = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09}
"""Of the data, what is in small groups (Table 6-2)."""
SCHEMA: Final = Schema.of(ts="int64", srcIP="int64", length="int32", link="int8", progress=["ts"])
_NEW: Final = 10_000_000


@attrs.frozen
class Data:
    """Hold one data set.

    - `script`: pages, and a promise a second, as a bucket hands them on.
    - `small`: the share of groups of one tuple.
    """

    script: list[Element] = attrs.field(repr=False)
    small: float


def groups(n: int, stretch: int, share: float, rng: np.random.Generator) -> tuple[Int64s, float]:
    """Draw the group of each tuple, and say what share of groups is small.

    In a stretch of so many tuples, small groups have one, medium ones 15 and large ones 300 on the average. They get
    the share, 20 % and the rest of the data.
    """
    medium, large, small = round(0.2 * stretch / 15), round((0.8 - share) * stretch / 300), round(share * stretch)
    kind = rng.random(n)
    ids = rng.integers(0, medium, n)
    rest = kind >= 0.2 + share
    ids[rest] = medium + rng.integers(0, max(large, 1), int(rest.sum()))
    alone = kind < share
    ids[alone] = _NEW + np.arange(int(alone.sum()))
    return ids, small / (small + medium + large)


def data(n: int, rate: int, window: SlidingWindow, share: float, *, skew: float = 0.0, links: int = 1) -> Data:
    """Make a data set; with three links the last is almost empty, and late by the skew in seconds."""
    rng = np.random.default_rng(7)
    ids, small = groups(n, window.size // SECOND * rate, share, rng)
    ts = np.arange(n, dtype=np.int64) * (SECOND // rate)
    late = rng.random(n) < (0.005 if links > 1 else 0.0)
    link = np.where(late, 2, rng.integers(0, max(links - 1, 1), n)).astype(np.int8)
    arrival = ts + np.where(late, round(skew * SECOND), 0)
    order = np.argsort(arrival, kind="stable")
    columns = {"ts": ts, "srcIP": ids, "length": rng.integers(60, 1500, n).astype(np.int32), "link": link}
    columns = {name: column[order] for name, column in columns.items()}
    bucket, script = Bucket(window), list[Element]()
    cuts = np.searchsorted(arrival[order], np.arange(SECOND, int(arrival.max()), SECOND)).tolist()
    for at, stop in zip([0, *cuts], [*cuts, n], strict=True):
        for start in range(at, stop, PAGE):
            rows = slice(start, min(start + PAGE, stop))
            page = Page.of(SCHEMA, {name: column[rows] for name, column in columns.items()})
            deliver(bucket, page, script.append)
        if stop < n:
            reached = int(arrival[order[stop]]) // SECOND * SECOND - round(skew * SECOND)
            deliver(bucket, before("ts", reached), script.append)
    deliver(bucket, END, script.append)
    return Data(script, small)


@attrs.frozen
class Found:
    """Hold what one run did: results, most bytes of tuples and partial aggregates, median release in ms, seconds."""

    results: tuple[tuple[object, ...], ...] = attrs.field(repr=False)
    kb: float
    ms: float
    seconds: float


def _run(make: Callable[[], AdaptiveAggregate], script: list[Element]) -> Found:
    operator, out, releases, spent = make(), list[Element](), list[float](), 0.0
    for element in script:
        begun = process_time()
        deliver(operator, element, out.append)
        taken = process_time() - begun
        spent += taken
        if isinstance(element, Punctuation) and not element.is_end:
            releases.append(taken)
    pages = [page for page in out if isinstance(page, Page)]
    results = sorted(row for page in pages for row in zip(*(c.to_pylist() for c in page.batch.columns), strict=True))
    held = operator.statistics()["peak_held_bytes"]
    # The first windows open while the stream begins; the last third shows what a release costs.
    return Found(tuple(results), held / 1e3, median(releases[len(releases) // 3 :]) * 1e3, spent)


def _compared(
    datasets: Mapping[str | float, Data],
    window: SlidingWindow,
    function: AggregateFunction,
    names: tuple[str, ...],
    runs: int,
    *,
    source: str | None = None,
) -> list[dict[str, object]]:
    always: dict[str, Literal["lazy", "eager"] | None] = {EAGER: "eager", LAZY: "lazy", ADAPTIVE: None}
    rows: list[dict[str, object]] = []

    def make(name: str) -> AdaptiveAggregate:
        return AdaptiveAggregate(window, {"result": function}, ("srcIP",), source=source, always=always[name])

    for place, made in datasets.items():
        works = {name: partial(_run, partial(make, name), made.script) for name in names}
        found = repeated(works, runs)
        agreed({name: each[0].results for name, each in found.items()})
        for name, each in found.items():
            ms, spent = median(one.ms for one in each), median(one.seconds for one in each)
            rows.append({"series": name, "place": place, "kB": each[0].kb, "ms": ms, "seconds": spent})
    return rows


def measure_tumbling(size: Size) -> Measured:
    """Sum by group over tumbling windows of a second (Q6-7), over five data sets."""
    n, rate = size.of(tiny=6_000, small=200_000, paper=2_000_000), size.of(tiny=2_000, small=40_000, paper=100_000)
    window = SlidingWindow("ts", size=SECOND, slide=SECOND)
    made = {name: data(n, rate, window, share) for name, share in SHARES.items()}
    named: dict[str | float, Data] = {f"{name}, {each.small:.0%}": each for name, each in made.items()}
    runs = size.of(tiny=1, small=5, paper=8)
    rows = _compared(named, window, sum("length"), (EAGER, ADAPTIVE), runs)
    return Measured.of(rows, f"{n:,} tuples, {rate:,} a second. {_SAID} Medians of {runs} alternate runs.")


def measure_sliding(size: Size) -> Measured:
    """Count by group over RANGE 10 s SLIDE 1 s of three links (Q6-8), the smallest of them late."""
    n, rate = size.of(tiny=6_000, small=100_000, paper=1_000_000), size.of(tiny=300, small=4_000, paper=8_000)
    window = SlidingWindow("ts", size=10 * SECOND, slide=SECOND)
    skews = size.of(tiny=(0, 4), small=(0, 2, 4, 6, 8), paper=(0, 2, 4, 6, 8, 10))
    made: dict[str | float, Data] = {at: data(n, rate, window, 0.05, skew=at, links=3) for at in skews}
    runs = size.of(tiny=1, small=3, paper=8)
    rows = _compared(made, window, count(), (EAGER, LAZY, ADAPTIVE), runs, source="link")
    return Measured.of(
        rows, f"{n:,} tuples, {rate:,} a second on three links. {_SAID} Medians of {runs} alternate runs."
    )


_SAID: Final = (
    "Memory is the most that tuples kept, partial aggregates and group entries took; latency is the processor time of a"
    " release, after its promise."
)
_WHY: Final = (
    "A group's partial aggregates are columns here, found by one vectorised hash look-up a page: eager aggregation pays"
    " nothing for the entries of small groups that NiagaraST's hash table of objects paid for, while AdaptWID must keep"
    " account of each group and go through its buffer at each release. The saving of memory remains."
)


def _ratio(measured: Measured, column: str) -> dict[float, float]:
    eager, ours = (measured.along(name, "place", column) for name in (EAGER, ADAPTIVE))
    return {place: ours[place] / eager[place] for place in eager}


def _less(measured: Measured, column: str, what: str, most: float) -> Check:
    ratio = list(_ratio(measured, column).values())
    return Check(
        median(ratio) <= most,
        f"{what}: AdaptWID has {min(ratio):.2f} to {max(ratio):.2f} times that of eager, median {median(ratio):.2f}, at"
        f" most {most:g}",
    )


def judge_tumbling(measured: Measured) -> Verdict:
    """Compare memory, latency and time with eager aggregation, and memory along the share of small groups."""
    memory = list(_ratio(measured, "kB").values())
    return Verdict.of(
        _less(measured, "kB", "memory", 1.0),
        Check(
            memory[-1] < memory[0], f"the saving grows with small groups: {1 - memory[0]:.0%} to {1 - memory[-1]:.0%}"
        ),
        _less(measured, "ms", "latency", 1.05),
        _less(measured, "seconds", "time", 1.05),
        why=_WHY,
    )


def judge_sliding(measured: Measured) -> Verdict:
    """Compare memory, latency and time with eager aggregation at each skew."""
    return Verdict.of(
        _less(measured, "kB", "memory", 1.0),
        _less(measured, "ms", "latency", 1.05),
        _less(measured, "seconds", "time", 1.05),
        why=_WHY,
    )


YS: Final = (Axis("kB", "memory, kB"), Axis("ms", "latency, ms"), Axis("seconds", "processor time, s"))
FIG_6_19: Final = Figure(
    "6-19",
    "thesis",
    "AdaptWID over data sets with more and more small groups (Q6-7)",
    "AdaptWID needs no more memory, latency and time than eager aggregation, and saves the more memory the more groups"
    " are small.",
    Axis("place", "data set, share of small groups"),
    YS,
    measure_tumbling,
    judge_tumbling,
    shape="bars",
)
FIG_6_19_SKEW: Final = Figure(
    "6-19-skew",
    "thesis",
    "AdaptWID over three links, by the skew of the smallest (Q6-8)",
    "AdaptWID needs no more memory, latency and time than eager aggregation at any skew of the control link.",
    Axis("place", "skew, s"),
    YS,
    measure_sliding,
    judge_sliding,
)
