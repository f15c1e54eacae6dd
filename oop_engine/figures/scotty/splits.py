"""Fig 20: what it costs to cut a slice in two, by the tuples that it has."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, timed
from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction

FUNCTIONS: Final[dict[str, AggregateFunction]] = {"sum": fn.sum("v"), "median": fn.median("v")}


def split(function: AggregateFunction, page: Page, times: int = 1) -> list[object]:
    """Compute both parts of a slice anew from its tuples, the older half and the younger; return their results.

    - `times`: do it so often.
    """
    accumulator = function.accumulator(page.schema)
    parts = np.arange(2, dtype=np.int32)
    accumulator.reserve(2)
    slots = np.repeat(parts, [len(page) // 2, len(page) - len(page) // 2])
    found: list[object] = []
    for _ in range(times):
        accumulator.init(parts)
        accumulator.update(slots, page)
        found = accumulator.finalize(parts).to_pylist()
        accumulator.free(parts)
    return found


def measure(size: Size) -> Measured:
    """Time splits by the tuples of the slice."""
    total, runs = size.of(tiny=20_000, small=400_000, paper=4_000_000), size.of(tiny=1, small=3, paper=7)
    rows: list[dict[str, object]] = []
    for n in size.of(
        tiny=[100, 1_000], small=[100, 10_000, 100_000, 1_000_000], paper=[100, 10_000, 100_000, 1_000_000]
    ):
        values = np.random.default_rng(1).integers(0, 84_232, n)
        page, halves = Page.of(Schema.of(v=pa.int64()), {"v": values}), (values[: n // 2], values[n // 2 :])
        agreed({"split": split(FUNCTIONS["sum"], page), "numpy": [int(half.sum()) for half in halves]})
        middles = [int(np.sort(half)[(len(half) - 1) // 2]) for half in halves]
        agreed({"split": split(FUNCTIONS["median"], page), "numpy": middles})
        times = max(1, min(200, total // n))
        works = {name: partial(timed, partial(split, function, page, times)) for name, function in FUNCTIONS.items()}
        spent = alternate(works, runs)
        rows.extend({"series": name, "tuples": n, "time": seconds / times * 1e6} for name, seconds in spent.items())
    return Measured.of(
        rows,
        f"Both halves of a slice are computed from its tuples; medians of {runs} runs of many splits.",
        "The engine itself lets tuples wait for the promise behind which all edges are known, so it computes a slice"
        " anew only where edges of a user's window come late.",
    )


def judge(measured: Measured) -> Verdict:
    """See that over the whole range so many times as many tuples take about so many times as long."""
    checks: list[Check] = []
    fixed: list[str] = []
    for name in measured.series:
        spent = measured.along(name, "tuples", "time")
        for before, after in pairwise(spent):
            grown = spent[after] / spent[before] / (after / before)
            text = f"{name}: {spent[before]:,.0f} us for {before:,} tuples, {spent[after]:,.0f} us for {after:,}"
            checks.append(
                Check(0.5 <= grown <= 2, f"{text}; {grown:.2f} times what linear growth gives, 0.5 to 2 is linear")
            )
        least, most = min(spent), max(spent)
        rest = spent[least] - least * spent[most] / most
        fixed.append(f"{rest:,.0f} us of the {spent[least]:,.0f} us that {least:,} tuples take for a {name}")
    return Verdict.of(
        *checks,
        why="A split calls an accumulator four times (init, update, finalize, free), which costs the same whatever the"
        f" slice has. By the time a tuple takes in the largest slice, that is {' and '.join(fixed)}. In a profile of"
        " slices of 100 tuples no kernel is a third of the time; the rest is Python around them.",
    )


FIG_20: Final = Figure(
    "scotty-20",
    "scotty",
    "Time to split a slice by its tuples",
    "Computing a slice anew takes time linear in its tuples, for a sum and for a median.",
    Axis("tuples", "tuples in the slice", scale="log"),
    [Axis("time", "microseconds a split", scale="log")],
    measure,
    judge,
)
