"""A figure of made-up numbers, for what has nothing to do with what is measured."""

from __future__ import annotations

import attrs

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict

ROWS = [
    {"series": name, "skew": x, "tuples": x * factor} for name, factor in (("IOP", 3), ("OOP", 1)) for x in range(4)
]


def measure(size: Size) -> Measured:
    return Measured.of(ROWS, f"made up at size {size.name} <of nothing>")


def judge(measured: Measured) -> Verdict:
    ours, theirs = (measured.along(name, "skew", "tuples")[3] for name in ("OOP", "IOP"))
    return Verdict.of(Check(ours < theirs, f"{ours} < {theirs}"), why="it was made up so")


FIGURE = Figure(
    "0-1",
    "nobody",
    "Skew & memory",
    "OOP holds less.",
    Axis("skew", "skew, s"),
    [Axis("tuples", "tuples")],
    measure,
    judge,
)


def fail(size: Size) -> Measured:
    raise ValueError(f"no {size.name} numbers")


FAILING = attrs.evolve(FIGURE, name="0-2", title="Nothing", measure=fail)
