"""Fig 13, 14, 17 and 18: throughput by concurrent windows, disorder and aggregate functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from oop_engine.figures.figure import SERIES as SERIES_COLUMN
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.workload import (
    BUCKETS,
    BUFFER,
    EAGER,
    LAZY,
    NOTE,
    RATE,
    SECOND,
    SERIES,
    TREE,
    Workload,
    concurrent,
)  # fmt: skip
from operators import functions as fn
from operators.functions import AggregateFunction
from operators.window.session import SessionWindow

RATES: Final = Axis("rate", "M tuples a second", scale="log")
_WHY: Final = (
    "The peers here are compiled loops over arrays without an operator around them, where the paper's run in the same"
    " system as slicing; slicing also checks pages, keeps promises and makes pages of results. Lazy slicing adds up all"
    " slices of a window at its end, and windows of many sizes cut the stream into many slices: with 1,000 that is half"
    " of its time. Unless told, the operator combines ahead, as eager slicing, from 256 slices a window on."
)


def _note(n: int, runs: int) -> str:
    return f"{n:,} tuples in memory, {RATE:,} a second of event time, a page a second; medians of {runs} runs."


def _by_windows(size: Size, *, late: float, gaps: bool) -> Measured:
    n, runs = size.of(tiny=6_000, small=100_000, paper=2_000_000), size.of(tiny=1, small=3, paper=7)
    load = Workload.of(n, late=late, gaps=gaps)
    rows: list[dict[str, object]] = []
    for count in size.of(tiny=[1, 10], small=[1, 10, 100, 1_000], paper=[1, 10, 20, 50, 100, 200, 500, 1_000]):
        found = load.rates(concurrent(count), SERIES, runs, session=gaps)
        rows.extend({"series": name, "windows": count, "rate": rate / 1e6} for name, rate in found.items())
    return Measured.of(rows, _note(n, runs), NOTE)


def _gap(by: Mapping[str, Mapping[float, float]], most: float) -> Check:
    slicing = min(by[name][most] for name in (LAZY, EAGER))
    others = {name: slicing / by[name][most] for name in (BUCKETS, TREE, BUFFER)}
    said = ", ".join(f"{ratio:.1f} times {name}" for name, ratio in others.items())
    return Check(all(ratio >= 10 for ratio in others.values()), f"at {most:,} windows slicing has the rate of {said}")


def _spread(rates: Mapping[float, float]) -> float:
    return max(rates.values()) / min(rates.values())


def _steady(spreads: Mapping[str, float]) -> list[Check]:
    return [
        Check(spread <= 2, f"{name}: its highest rate is {spread:.2f} times its lowest")
        for name, spread in spreads.items()
    ]


def judge_windows(measured: Measured, *, flat: float) -> Verdict:
    """See that slicing stays where it is, buckets fall, and how far apart they are with many windows."""
    by = {name: measured.along(name, "windows", "rate") for name in measured.series}
    least, most = min(by[LAZY]), max(by[LAZY])
    fall = by[BUCKETS][least] / by[BUCKETS][most]
    return Verdict.of(
        *(
            Check(
                _spread(by[name]) <= flat,
                f"{name}: {min(by[name].values()):.1f} to {max(by[name].values()):.1f} M tuples a second; flat is a"
                f" factor of {flat:g}",
            )
            for name in (LAZY, EAGER)
        ),
        Check(fall >= 10, f"buckets fall by {fall:,.0f} times from {least:,} window to {most:,}"),
        _gap(by, most),
        why=_WHY,
    )


def judge_14(measured: Measured) -> Verdict:
    """Judge as for windows in order, and compare lazy with eager slicing."""
    found = judge_windows(measured, flat=3)
    lazy, eager = (measured.along(name, "windows", "rate") for name in (LAZY, EAGER))
    ratios = [lazy[count] / eager[count] for count in lazy]
    ahead = Check(
        all(ratio >= 0.9 for ratio in ratios),
        f"lazy slicing has {min(ratios):.2f} to {max(ratios):.2f} times the rate of eager; 0.9 and more is no slower",
    )
    return Verdict.of(*found.checks, ahead, why=_WHY)


def measure_17a(size: Size) -> Measured:
    """Time 20 windows, and sessions, by the share of late tuples."""
    n, runs = size.of(tiny=6_000, small=100_000, paper=2_000_000), size.of(tiny=1, small=3, paper=7)
    rows: list[dict[str, object]] = []
    for share in size.of(tiny=[10, 90], small=[10, 30, 50, 70, 90], paper=[10, 30, 50, 70, 90]):
        found = Workload.of(n, late=share / 100, gaps=True).rates(concurrent(20), SERIES, runs, session=True)
        rows.extend({"series": name, "late": share, "rate": rate / 1e6} for name, rate in found.items())
    return Measured.of(rows, _note(n, runs), NOTE)


def judge_17a(measured: Measured) -> Verdict:
    """See which are flat, and which decay."""
    by = {name: measured.along(name, "late", "rate") for name in measured.series}
    least, most = min(by[LAZY]), max(by[LAZY])
    flat = {name: _spread(by[name]) for name in (LAZY, EAGER, BUCKETS)}
    falls = {name: by[name][least] / by[name][most] for name in (TREE, BUFFER)}
    return Verdict.of(
        *_steady(flat),
        *(Check(fall >= 3, f"{name} falls by {fall:.1f} times up to {most} % late") for name, fall in falls.items()),
        why=_WHY,
    )


def measure_17b(size: Size) -> Measured:
    """Time 20 windows, and sessions, by how late the late tuples are."""
    n, runs = size.of(tiny=6_000, small=60_000, paper=1_000_000), size.of(tiny=1, small=3, paper=7)
    rows: list[dict[str, object]] = []
    for begin in size.of(tiny=[0, 8], small=[0, 2, 4, 8], paper=[0, 2, 4, 6, 8]):
        load = Workload.of(n, late=0.2, delays=(begin, begin + 2), gaps=True)
        found = load.rates(concurrent(20), SERIES, runs, session=True)
        rows.extend({"series": name, "delay": begin + 1, "rate": rate / 1e6} for name, rate in found.items())
    return Measured.of(rows, _note(n, runs), "One tuple in five is late, by a second more or less.", NOTE)


def judge_17b(measured: Measured) -> Verdict:
    """See that all but the tuple buffer are flat."""
    by = {name: measured.along(name, "delay", "rate") for name in measured.series}
    least, most = min(by[BUFFER]), max(by[BUFFER])
    flat = {name: _spread(by[name]) for name in (LAZY, EAGER, BUCKETS, TREE)}
    fall = by[BUFFER][least] / by[BUFFER][most]
    return Verdict.of(
        *_steady(flat),
        Check(fall >= 2, f"the tuple buffer falls by {fall:.1f} times as delays grow from {least} to {most} s"),
        why="A late tuple moves all younger leaves of the tree that is measured here, an array without pointers; so the"
        " tree depends on the delay as the buffer does.",
    )


ALGEBRAIC: Final[Mapping[str, AggregateFunction]] = {
    "count": fn.count(), "sum": fn.sum("v"), "avg": fn.avg("v"), "min": fn.min("v"), "max": fn.max("v"),
    "stddev": fn.stddev("v"), "minmax": fn.minmax("v"), "argmin": fn.argmin("v", "ts"),
    "geometric mean": fn.geometric_mean("v"),
}  # fmt: skip
HOLISTIC: Final[Mapping[str, AggregateFunction]] = {"median": fn.median("v"), "90-percentile": fn.quantile("v", 0.9)}


def measure_18(size: Size) -> Measured:
    """Time 20 windows and sessions by the aggregate function."""
    n, runs = size.of(tiny=4_000, small=100_000, paper=2_000_000), size.of(tiny=1, small=3, paper=7)
    load = Workload.of(n, late=0.2, gaps=True)
    tumbling, functions = concurrent(20), {**ALGEBRAIC, **HOLISTIC}
    agreed(load.results(tumbling, functions))
    windows = {**tumbling, "session": SessionWindow("ts", gap=SECOND)}
    works = {
        name: partial(timed, load.sliced(windows, "lazy", {"a": function})) for name, function in functions.items()
    }
    found = alternate(works, runs)
    return Measured.of(
        [{"series": LAZY, "function": name, "rate": n / spent / 1e6} for name, spent in found.items()],
        _note(n, runs) + " One tuple in five is late by 0 to 2 s.",
        "The results of all functions are compared with those of eager slicing and of buckets before any is timed.",
        "Windows that count tuples, the paper's second series, are in scotty-18-count.",
    )


def judge_18(measured: Measured) -> Verdict:
    """Compare functions of small state with each other, and with those that keep all values."""
    rows = measured.table.select([SERIES_COLUMN, "function", "rate"]).to_pylist()
    rates: dict[str, float] = {row["function"]: row["rate"] for row in rows}
    small = {name: rate for name, rate in rates.items() if name not in HOLISTIC}
    slow, fast = min(small, key=small.__getitem__), max(small, key=small.__getitem__)
    ratios = {name: small[slow] / rates[name] for name in HOLISTIC}
    return Verdict.of(
        Check(
            small[fast] / small[slow] <= 2.5,
            f"distributive and algebraic: {small[slow]:.1f} ({slow}) to {small[fast]:.1f} ({fast}) M tuples a second",
        ),
        *(
            Check(
                ratio >= 2,
                f"{name}: {rates[name]:.1f} M tuples a second, {ratio:.1f} times slower than those",
            )
            for name, ratio in ratios.items()
        ),
        why="Each second is a page of its own here, and what a page costs whatever the function hides part of what the"
        " function costs.",
    )


_WINDOWS: Final = Axis("windows", "concurrent windows", scale="log")
FIG_13: Final = Figure(
    "scotty-13",
    "scotty",
    "Throughput in order by concurrent windows",
    "Slicing stays flat as windows are added, and is an order of magnitude faster than all others with many; buckets"
    " fall.",
    _WINDOWS,
    [RATES],
    partial(_by_windows, late=0.0, gaps=False),
    partial(judge_windows, flat=3),
)
FIG_14: Final = Figure(
    "scotty-14",
    "scotty",
    "Throughput out of order, with sessions, by concurrent windows",
    "Slicing is an order of magnitude faster than all others with many windows, and nearly constant; lazy slicing is a"
    " little faster than eager. (Fig 5a of the short paper.)",
    _WINDOWS,
    [RATES],
    partial(_by_windows, late=0.2, gaps=True),
    judge_14,
)
FIG_17A: Final = Figure(
    "scotty-17a",
    "scotty",
    "Throughput by the share of late tuples",
    "Slicing and buckets stay flat; aggregate trees and tuple buffers decay. (Fig 5b of the short paper.)",
    Axis("late", "late tuples, %"),
    [RATES],
    measure_17a,
    judge_17a,
)
FIG_17B: Final = Figure(
    "scotty-17b",
    "scotty",
    "Throughput by how late tuples are",
    "All but the tuple buffer stay flat.",
    Axis("delay", "mean delay of late tuples, s"),
    [RATES],
    measure_17b,
    judge_17b,
)
FIG_18: Final = Figure(
    "scotty-18",
    "scotty",
    "Throughput by aggregate function",
    "Distributive and algebraic functions are about as fast as each other; holistic ones are much slower.",
    Axis("function", ""),
    [Axis("rate", "M tuples a second")],
    measure_18,
    judge_18,
    shape="bars",
)
