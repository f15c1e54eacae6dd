"""Promises for each tuple, from finer to coarser than windows slide: the latency of results, and memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from oop_engine.figures.extra.arrivals import SCHEMA, SECOND, Observed, Steps, observe
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from operators.chain import Chain
from operators.data.page import Page
from operators.functions import count
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, before

RATE: Final = 200
"""Tuples a second, so that 15 promises for 100 tuples are 30 a second."""
LATE, STEP = SECOND, 20
"""How late tuples are at most, and the time between two steps."""
SLIDE: Final = SECOND
WINDOWS: Final = {"tumbling 1 s": SECOND, "10 s, slide 1 s": 10 * SECOND}
GROUPS: Final = 20
SAME: Final = 1.05
"""Up to so many times is as much."""


def steps(seconds: int, a_second: float) -> Steps:
    """Yield tuples up to a second late, and promises that are true, so many a second of event time.

    - `seconds`: how long the stream is.
    - `a_second`: promises; they are evenly spread, so that they meet the ends of windows where they can.
    """
    random, n = np.random.default_rng(1), seconds * RATE
    ts = np.arange(n) * SECOND // RATE
    arrivals = ts + random.integers(0, LATE, n)
    order = np.argsort(arrivals, kind="stable")
    whole = Page.of(SCHEMA, {"ts": ts[order], "k": random.integers(0, GROUPS, n)[order]})
    times = np.arange(STEP, seconds * SECOND + LATE + STEP, STEP)
    stops, start, promised = np.searchsorted(arrivals[order], times), 0, 0
    for now, stop in zip(times.tolist(), stops.tolist(), strict=True):
        elements: list[tuple[int, Element]] = [(0, whole.slice(start, stop))]
        start, number = stop, int((now - LATE) * a_second / SECOND + 1e-9)
        if number > promised:
            promised = number
            elements.append((0, before("ts", round(number * SECOND / a_second))))
        yield now, elements
    yield int(times[-1]), [(0, END)]


def counted(size: int, seconds: int, a_second: float) -> Observed:
    """Count by group in windows of a size, which slide by a second, under so many promises a second.

    - `size`: in ticks.
    - `seconds`, `a_second`: as for `steps`.
    """
    window = SlidingWindow("ts", size=size, slide=SLIDE)
    operators = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ["k"], strategy="wid")])
    return observe(operators, steps(seconds, a_second))


def measure(size: Size) -> Measured:
    """Count with 30 promises a second, which are 15 for 100 tuples, down to one in 10 s."""
    seconds = size.of(tiny=24, small=40, paper=600)
    rates = size.of(tiny=(2, 1, 0.1), small=(30, 10, 4, 1, 0.5, 0.2, 0.1), paper=(30, 10, 4, 2, 1, 0.5, 0.2, 0.1))
    rows: list[dict[str, object]] = []
    for name, length in WINDOWS.items():
        found = {a_second: counted(length, seconds, a_second) for a_second in rates}
        agreed({f"{name}, {a_second} promises a second": each.counts for a_second, each in found.items()})
        for a_second, each in found.items():
            row = {"percent": 100 * a_second / RATE, "held": each.held, "latency": each.latency}
            rows.append({"series": name, **row, "slides": 1 / a_second})
    return Measured.of(
        rows,
        f"{seconds * RATE:,} tuples, {RATE} a second, up to {LATE // SECOND} s late; counts by {GROUPS} groups in"
        " windows that slide by a second, a partial aggregate for each slice of them and group. `slides` is the time"
        " from promise to promise in slides. Latencies are means, from the end of a window to its result; a second of"
        " them is how late tuples may be.",
        "What promises cost in throughput is in 9-ratio.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare promises that are finer than a slide, as fine, and coarser."""
    checks: list[Check] = []
    slides = measured.along(next(iter(WINDOWS)), "percent", "slides")
    fine, coarse = ([at for at in slides if slides[at] <= 1], [at for at in slides if slides[at] >= 1])
    for name in WINDOWS:
        for column, said in (("latency", "latency"), ("held", "memory")):
            by = measured.along(name, "percent", column)
            best, equal = min(by[at] for at in fine), by[max(coarse)]
            text = f"{name}: with a promise a slide {said} is {equal:,.2f}, {best:,.2f} at best with finer ones"
            checks.append(Check(equal <= SAME * best, f"{text}; up to {SAME} times is as much"))
            rising = [by[at] for at in sorted(coarse, reverse=True)]
            text = f"{name}: with coarser promises {said} rises to {rising[-1]:,.2f}"
            checks.append(Check(rising == sorted(rising) and rising[-1] > SAME * rising[0], text))
    return Verdict.of(*checks, why="Windows end between two promises, and are open until the second.")


GRANULARITY: Final = Figure(
    "promise-granularity",
    "extra",
    "Latency and memory by promises for each tuple",
    "Promises have to be as fine as windows slide: coarser ones cost latency and memory, and finer ones, up to 15 for"
    " 100 tuples, gain nothing where they meet the ends of windows (thesis, chapters 2 and 8).",
    Axis("percent", "promises for 100 tuples", scale="log"),
    [Axis("held", "partial aggregates held"), Axis("latency", "seconds from window end to result")],
    measure,
    judge,
)
