"""Chapter 9: what promises cost, by how many there are for each tuple."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

import oop_engine as oop
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, run, seconds
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import before

TICK: Final = 1_000
PAGE: Final = 8_192
EACH, TOGETHER = "each closes a page", "within pages"
SCHEMA: Final = Schema.of(ts="int64", value="int64")


def _stream(n: int, percent: float, way: str) -> oop.Stream:
    """Make a stream in order with so many promises for 100 tuples: as elements of the stream, or by its input."""
    rng = np.random.default_rng(1)
    columns = {"ts": np.arange(n) * TICK, "value": rng.integers(0, 1000, n)}
    every = round(100 / percent) if percent else n
    schema = Schema(SCHEMA.arrow, progress=["ts"] if way == EACH else [])
    whole, elements = Page.of(schema, columns), list[Element]()
    if way == TOGETHER or not percent:
        elements += [whole.slice(at, min(at + PAGE, n)) for at in range(0, n, PAGE)]
        return oop.pages(elements, schema, punctuate=None if way == EACH else oop.slack(0, step=every * TICK))
    for at in range(0, n, every):
        elements += [whole.slice(at, min(at + every, n)), before("ts", min(at + every, n) * TICK)]
    return oop.pages(elements, schema)


def measure(size: Size) -> Measured:
    """Time a sum over windows of 1,000 tuples at each ratio of promises."""
    n, runs = size.of(tiny=3_000, small=40_000, paper=1_000_000), size.of(tiny=1, small=3, paper=8)
    rows: list[dict[str, object]] = []
    for percent in size.of(tiny=(0, 15), small=(0, 1, 2, 5, 10, 15), paper=(0, 1, 2, 5, 10, 15)):
        ways = {
            way: _stream(n, percent, way).window(range=1_000 * TICK, wattr="ts").aggregate(oop.sum("value"))
            for way in (TOGETHER, EACH)
        }
        agreed({name: run(way).rows for name, way in ways.items()})
        spent = alternate({name: partial(seconds, way) for name, way in ways.items()}, runs)
        rows.extend({"series": name, "percent": percent, "rate": n / value / 1e6} for name, value in spent.items())
    return Measured.of(
        rows,
        f"{n:,} tuples in order, sum over tumbling windows of 1,000; processor time, medians of {runs} alternate runs.",
        'A promise may close the page in progress, as one in the stream does ("each closes a page"), or be made at'
        ' its place in a page by the input that reads the stream ("within pages").',
    )


def judge(measured: Measured) -> Verdict:
    """Ask how much of the rate without promises is left at the largest ratio."""
    rates = {name: measured.along(name, "percent", "rate") for name in (TOGETHER, EACH)}
    left = {name: found[max(found)] / found[min(found)] for name, found in rates.items()}
    most = max(rates[EACH])
    some = sorted(rates[TOGETHER])[1] if len(rates[TOGETHER]) > 1 else most
    within = rates[TOGETHER][most] / rates[TOGETHER][some]
    return Verdict.of(
        Check(
            left[TOGETHER] >= 0.7,
            f"promises within pages, {most:g} for 100 tuples: {left[TOGETHER]:.0%} of the rate is left, 70 % asked",
        ),
        Check(left[EACH] >= 0.7, f"promises that close pages: {left[EACH]:.1%} of it is left, 70 % asked"),
        why="A promise that comes as an element of the stream closes its page: at 15 for 100 tuples pages have 7, and"
        " nothing is left of what an engine gains by pages of thousands; Tucker's handles a tuple at a time. Promises"
        " that an input makes within a page, as sources here do, cost most at the first:"
        f" from {some:g} to {most:g} for 100 tuples {within:.0%} of the rate is left.",
    )


FIG_RATIO: Final = Figure(
    "9-ratio",
    "thesis",
    "Throughput by promises for each tuple",
    "Up to 15 promises for 100 tuples the loss of throughput stays small (Tucker, as told in chapter 9).",
    Axis("percent", "promises for 100 tuples"),
    [Axis("rate", "M tuples/s", scale="log")],
    measure,
    judge,
)
