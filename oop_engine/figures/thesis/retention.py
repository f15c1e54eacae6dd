"""Fig 8-4 and 8-5: what a band join retains over time, out of order and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.join import Band, OAJoin, OPOBJoin
from operators.protocol import Element
from operators.streams.merge import Merge
from punctuation import END, Punctuation, before

MINUTE: Final = 60
DELAY: Final = 5 * MINUTE
REACH: Final = 2 * MINUTE
LENGTH: Final = 20 * MINUTE
SCHEMA: Final = Schema.of(ts="int64", key="int64", progress=["ts"])
LEFT, RIGHT, SORTED = "S0 in the join", "S1 in the join", "S0 in the sort buffer"
"""Where tuples are retained."""


def _arrivals(rate: int, step: int, late: float) -> Iterator[tuple[int, list[tuple[int, Element]]]]:
    """Yield what comes until each step: S0, of which a share is up to five minutes late, S1, and what both promise."""
    rng = np.random.default_rng(5)
    ts = np.repeat(np.arange(LENGTH), rate)
    delayed = np.where(rng.random(len(ts)) < late, rng.integers(1, DELAY, len(ts)), 0)
    keys = [rng.integers(0, 50 * rate, len(ts)) for _ in range(2)]
    for now in range(step, LENGTH + 1, step):
        came = [np.flatnonzero((at >= now - step) & (at < now)) for at in (ts + delayed, ts)]
        pages = [(port, Page.of(SCHEMA, {"ts": ts[at], "key": keys[port][at]})) for port, at in enumerate(came)]
        yield now, [*pages, (0, before("ts", now - (DELAY if late else 0))), (1, before("ts", now))]
    yield LENGTH + 1, [(0, END), (1, END)]


def _retained(rate: int, step: int, *, sort: bool) -> tuple[list[dict[str, object]], object]:
    """Run the join, with or without a sort in front of S0; minutes retained by minute and place, and the pairs."""
    join, merge = OAJoin(Band("ts", "ts", left=REACH, right=REACH), [("key", "key")]), Merge(1, "ts")
    join.output_schema(SCHEMA, SCHEMA)
    merge.output_schema(SCHEMA)
    out: list[Element] = []
    found: list[dict[str, object]] = []
    for now, elements in _arrivals(rate, step, late=0.1):
        for port, element in elements:
            if port == 0 and sort:
                deliver(merge, element, lambda each: deliver(join, each, out.append, 0))
            else:
                deliver(join, element, out.append, port)
        if now % MINUTE == 0:
            state = join.statistics()
            places = {LEFT: state["state_left"], RIGHT: state["state_right"]}
            places |= {SORTED: merge.statistics()["state_tuples"]} if sort else {}
            name = "IOP" if sort else "OOP"
            found.extend(
                {"series": f"{name}: {place}", "minute": now // MINUTE, "retained": tuples / (rate * MINUTE)}
                for place, tuples in places.items()
            )
    return found, sorted(tuple(row.values()) for row in rows(out))


def measure_join(size: Size) -> Measured:
    """Join two streams within two minutes, one of which is up to five minutes late."""
    rate, step = size.of(tiny=(1, 20), small=(20, 2), paper=(500, 1))
    found, pairs = zip(*(_retained(rate, step, sort=sort) for sort in (False, True)), strict=True)
    agreed(dict(zip(("OOP", "IOP"), pairs, strict=True)))
    return Measured.of(
        [*found[0], *found[1]],
        f"{rate} tuples a second on each stream for {LENGTH // MINUTE} minutes, RANGE 2 minutes on each; a tenth of S0"
        " is late by up to 5 minutes. Retained are tuples, as minutes of the stream's rate.",
        "The thesis prints 5 minutes of S1 for OOP; its own window condition makes them 7, as in order (5 of delay,"
        " 2 of range).",
    )


def judge_join(measured: Measured) -> Verdict:
    """Compare what each place retains once the first windows are full with what the windows say."""
    wanted = {f"OOP: {LEFT}": 2, f"OOP: {RIGHT}": 7, f"IOP: {LEFT}": 0, f"IOP: {RIGHT}": 7, f"IOP: {SORTED}": 5}
    checks: list[Check] = []
    means: dict[str, float] = {}
    for series, minutes in wanted.items():
        steady = [v for at, v in measured.along(series, "minute", "retained").items() if at >= 10]
        means[series] = float(np.mean(steady))
        checks.append(
            Check(abs(means[series] - minutes) <= 0.5, f"{series}: {means[series]:.2f} minutes, {minutes} expected")
        )
    ours, theirs = (sum(v for series, v in means.items() if series.startswith(name)) for name in ("OOP", "IOP"))
    checks.append(Check(theirs - ours > 2, f"OOP retains {ours:.1f} minutes in all, IOP {theirs:.1f}; 3 more expected"))
    return Verdict.of(*checks, why="Late tuples come in minutes after theirs, so that shares of a minute are missing.")


def _buffered(rate: int, step: int, reach: int, make: Callable[[OAJoin], OAJoin | OPOBJoin]) -> tuple[list[int], int]:
    """Run a join of two streams in order; what it retains beyond the tuples of its inputs by minute, and its pairs."""
    plain = OAJoin(Band("ts", "ts", left=reach, right=reach), [("key", "key")])
    join, inner = make(plain), plain
    join.output_schema(SCHEMA, SCHEMA)
    held, pairs = list[int](), 0
    for now, elements in _arrivals(rate, step, late=0.0):
        out: list[Element] = []
        for port, element in elements:
            deliver(join, element, out.append, port)
        pairs += sum(len(page) for page in out if not isinstance(page, Punctuation))
        if now % MINUTE == 0:
            held.append(join.statistics()["state_tuples"] - inner.statistics()["state_tuples"])
    return held, pairs


def measure_output(size: Size) -> Measured:
    """Join two streams in order, and count the pairs that wait to come out in the order of S0."""
    rate, step = size.of(tiny=(1, 20), small=(20, 4), paper=(200, 1))
    found: list[dict[str, object]] = []
    for minutes in (1, 2, 3):
        ways: dict[str, Callable[[OAJoin], OAJoin | OPOBJoin]] = {
            "OOP": lambda join: join,
            "IOP": lambda join: OPOBJoin(join),
        }
        held = {name: _buffered(rate, step, minutes * MINUTE, make) for name, make in ways.items()}
        agreed({name: pairs for name, (_, pairs) in held.items()})
        found.extend(
            {"series": f"{name}, RANGE {minutes} min", "minute": minute, "pairs": pairs}
            for name in held
            for minute, pairs in enumerate(held[name][0], 1)
        )
    return Measured.of(found, f"{rate} tuples a second on each stream, both in order and in step.")


def judge_output(measured: Measured) -> Verdict:
    """Ask that the output buffer grows with the window, and that there is none out of order."""
    buffers = [
        float(np.mean(list(measured.along(f"IOP, RANGE {m} min", "minute", "pairs").values())[8:])) for m in (1, 2, 3)
    ]
    ours = max(v for m in (1, 2, 3) for v in measured.along(f"OOP, RANGE {m} min", "minute", "pairs").values())
    said = ", ".join(f"{value:,.0f} with RANGE {m} min" for m, value in zip((1, 2, 3), buffers, strict=True))
    return Verdict.of(
        Check(buffers[0] < buffers[1] < buffers[2], f"pairs that wait in order: {said}"),
        Check(buffers[2] > 4 * buffers[0], "three times the window makes more than four times the buffer"),
        Check(ours == 0, f"out of order {ours:g} pairs wait"),
    )


FIG_8_4: Final = Figure(
    "8-4",
    "thesis",
    "Tuples that a band join retains, one input up to 5 minutes late",
    "OOP retains 2 minutes of S0 and 7 of S1; IOP retains 7 of S1, and 5 minutes of S0 in its sort buffer.",
    Axis("minute", "time, minutes"),
    [Axis("retained", "retained, minutes of the stream")],
    measure_join,
    judge_join,
)
FIG_8_5: Final = Figure(
    "8-5",
    "thesis",
    "Results that a join in order holds back",
    "A join whose results must come in the order of S0 buffers results, the more the larger its window; out of order"
    " none waits.",
    Axis("minute", "time, minutes"),
    [Axis("pairs", "results in the output buffer")],
    measure_output,
    judge_output,
)
