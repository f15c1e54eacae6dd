"""What `explain` says of the bytes of a state is what a run then measures, within a factor of two."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from operators.functions import AggregateFunction
from tests.examples import mostly_slow

GROUPS, EACH = 5_000, 20
"""Groups, and tuples of each in a window."""
FUNCTIONS = {
    "count": oop.count(),
    "sum": oop.sum("x"),
    "max": oop.max("x"),
    "median": oop.median("x"),
    "count_distinct": oop.count_distinct("x"),
}
STRATEGIES = ("auto", "wid", "differential", "two_stacks", "slicing", "adaptive", "adaptive_panes", "buffer")

REFUSED = {("max", "differential"), ("count_distinct", "differential")}
"""Of these nothing can be subtracted."""
CASES = [case for case in product(FUNCTIONS, STRATEGIES) if case not in REFUSED]


@pytest.fixture(scope="module")
def stream() -> oop.Stream:
    drawn, n = np.random.default_rng(0), 2 * GROUPS * EACH
    ticks = np.arange(n) * 100_000 // n
    return oop.arrow(pa.table({"ts": ticks, "k": drawn.integers(0, GROUPS, n), "x": drawn.integers(0, 1500, n)}))


def number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    return 0.0 if found is None else float(found[1])


@pytest.mark.parametrize("slides", mostly_slow([1, 2, 5], but=[2]))
@pytest.mark.parametrize(("name", "strategy"), mostly_slow(CASES, but=[c for c in CASES if c[0] in ("sum", "median")]))
def test_the_state_is_about_as_large_as_said(stream: oop.Stream, name: str, strategy: str, slides: int) -> None:
    function: AggregateFunction = FUNCTIONS[name]
    size = 50_000
    query = stream.window(size, slide=size // slides).aggregate(function, by="k", strategy=strategy)
    text = " ".join(query.explain().replace("│", " ").split())
    details = query.run().statistics.operators[-1].details
    held, measured = details["peak_state_tuples"], details["peak_state_bytes"]
    # Of each value in how many slices, or windows, it is held at the peak: one window is full, the others in part.
    windows = sum(i / slides for i in range(1, slides + 1)) if strategy in ("wid", "adaptive") else 1
    values = GROUPS * EACH * windows
    told = number(text, r"state about (\d+) bytes for each") * held
    told += number(text, r"and (\d+) for each group") * GROUPS
    told += number(text, r"and about (\d+) bytes a value") * values
    assert told / 2 <= measured <= told * 2, (text, told / held, measured / held)


def test_sessions_are_about_as_large_as_said(stream: oop.Stream) -> None:
    query = stream.window(oop.session(2000)).aggregate(oop.count(), by="k")
    text = " ".join(query.explain().replace("│", " ").split())
    details = query.run().statistics.operators[-1].details
    told = number(text, r"state about (\d+) bytes for each") * details["peak_state_tuples"]
    told += number(text, r"and (\d+) for each group") * GROUPS
    assert told / 2 <= details["peak_state_bytes"] <= told * 2
