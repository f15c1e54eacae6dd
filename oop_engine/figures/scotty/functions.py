"""Fig 18, its second series: aggregate functions over windows of a count, whose tuples come late."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa

from oop_engine.figures.figure import SERIES, Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.measures import COUNT, TIME, replay
from oop_engine.figures.scotty.throughput import ALGEBRAIC, HOLISTIC, RATES
from oop_engine.figures.scotty.workload import RATE, SECOND, Workload, nine
from operators import functions as fn
from operators.data.page import Page
from operators.functions import AggregateFunction
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window.counted import CountWindow
from operators.window_aggregate.stores.ranked import CountAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate

INVERT, NO_INVERT = "own sum, inverse", "own sum, no inverse"
OPEN: Final = 20
"""Windows that are open at once; each has the tuples of as many seconds."""
MUCH: Final = 2
"""So many times as long is much, as in scotty-18."""


def own_sum(*, inverse: bool) -> AggregateFunction:
    """Return a sum as a user would write it, which says how to take a value away again, or not.

    - `inverse`: whether it does.
    """
    name, invert = ("with", lambda a, b: a - b) if inverse else ("without", None)
    return fn.user_aggregate(
        name, lambda v: v, lambda a, b: a + b, arguments="v", identity=0, output=pa.int64(), invert=invert
    )


def functions() -> dict[str, AggregateFunction]:
    """Return the functions by name: those of scotty-18, and a sum of a user's with and without its inverse."""
    return {**ALGEBRAIC, **HOLISTIC, INVERT: own_sum(inverse=True), NO_INVERT: own_sum(inverse=False)}


def operators(function: AggregateFunction) -> dict[str, Callable[[], SlicingAggregate | CountAggregate]]:
    """Return what makes the operator of a function over windows of time, and of a count.

    - `function`: what is computed.
    """
    times = SlidingWindow("ts", size=OPEN * SECOND, slide=SECOND)
    ranks = CountWindow("ts", size=OPEN * RATE, slide=RATE)
    return {
        TIME: lambda: SlicingAggregate({"w": times}, {"a": function}, store="lazy"),
        COUNT: lambda: CountAggregate(ranks, {"a": function}),
    }


def results(load: Workload, make: Callable[[], SlicingAggregate | CountAggregate]) -> dict[int, str]:
    """Return the results of the windows that have all their tuples, by window-id; floats with nine digits.

    - `load`: the stream.
    - `make`: makes the operator.
    """
    found: dict[int, str] = {}

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            found.update(zip(element["wid"].tolist(), map(nine, element.column("a").to_pylist()), strict=True))

    replay(load, make, emit)
    return {wid: found[wid] for wid in range(len(load.ts) // RATE)}


def measure(size: Size) -> Measured:
    """Time each function over both, while one tuple in five is late."""
    n, runs = size.of(tiny=4_000, small=60_000, paper=1_000_000), size.of(tiny=1, small=2, paper=7)
    load, rows = Workload.of(n, late=0.2), list[dict[str, object]]()
    for name, function in functions().items():
        made = operators(function)
        # Tuples are evenly spread, so a window of a count has those of one of time.
        agreed({series: results(load, make) for series, make in made.items()})
        works = {series: partial(timed, partial(replay, load, make, lambda e: None)) for series, make in made.items()}
        spent = alternate(works, runs)
        rows.extend({"series": series, "function": name, "rate": n / s / 1e6} for series, s in spent.items())
    return Measured.of(
        rows,
        f"{n:,} tuples, {RATE:,} a second of event time, one in five late by 0 to 2 s; medians of {runs} runs. Windows"
        f" of {OPEN} s that slide by a second, and of as many tuples.",
        f'"{INVERT}" and "{NO_INVERT}" are the same functions of a user\'s, compiled, one of which says how to take a'
        " value away again.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare both kinds of windows, and on windows of a count the functions."""
    rates: dict[str, dict[str, float]] = {TIME: {}, COUNT: {}}
    for row in measured.table.select([SERIES, "function", "rate"]).to_pylist():
        rates[row["series"]][row["function"]] = row["rate"]
    count = rates[COUNT]
    lower = {name: count[name] / rates[TIME][name] for name in count}
    best, slow = max(lower, key=lower.__getitem__), min(count[name] for name in ALGEBRAIC)
    decay = count[INVERT] / count[NO_INVERT]
    return Verdict.of(
        Check(
            lower[best] < 1,
            f"windows of a count have {min(lower.values()):.2f} to {lower[best]:.2f} ({best}) times the rate of time",
        ),
        Check(decay >= MUCH, f"{NO_INVERT}: takes {decay:.2f} times as long as {INVERT}; {MUCH} is a decay"),
        *(_slower(name, count[name], slow) for name in HOLISTIC),
        why="In place of the paper's shift of a tuple from slice to slice, which takes it away from one of them, a"
        " tuple waits here until its rank is final, and then joins its slice once. So no function needs an inverse, and"
        " what late tuples cost is to wait and to be put in order, whatever the function.",
    )


def _slower(name: str, rate: float, than: float) -> Check:
    return Check(than / rate >= MUCH, f"{name}: takes {than / rate:.1f} times as long as the slowest of small state")


FIG_18_COUNT: Final[Figure] = Figure(
    "scotty-18-count",
    "scotty",
    "Throughput by aggregate function, windows of time and of a count",
    "Windows of a count are slower than those of time for each function, because late tuples move others from slice to"
    " slice; a sum without an inverse shows it most, and holistic functions are much slower.",
    Axis("function", ""),
    [RATES],
    measure,
    judge,
    shape="bars",
)
