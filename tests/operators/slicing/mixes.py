"""Toy mixes of windows and aggregates, with their naive answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import ClassVar

import pyarrow as pa
from hypothesis import strategies as st

from operators.data.page import Row
from operators.data.schema import Schema
from operators.functions import AggregateFunction, count, count_distinct, max, min, sum
from operators.window import SlidingWindow
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow, ExtentWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.slices.lazy import Lazy
from punctuation import Progress
from tests.naive_slicing import Answer, naive_slicing

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: dict[str, AggregateFunction] = {
    "n": count(),
    "total": sum("v"),
    "most": max("v"),
    "least": min("v"),
    "kinds": count_distinct("v"),
}


def _values(members: list[Row]) -> list[int]:
    return [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]


def _if_any(function: Callable[[list[int]], int]) -> Answer:
    return lambda members: function(_values(members)) if _values(members) else None


ANSWERS: dict[str, Answer] = {
    "n": len,
    "total": _if_any(__builtins__["sum"]),
    "most": _if_any(__builtins__["max"]),
    "least": _if_any(__builtins__["min"]),
    "kinds": lambda members: len(set(_values(members))),
}
Mix = Mapping[str, object]


def next_prime_gap(t: int) -> int:
    """Edges where t is a multiple of 7, or 3 after one."""
    base = (t // 7) * 7
    if t < base + 3:
        return base + 3
    return base + 7


def next_after_zero(t: int) -> int:
    """Edges at 2, 4, 8, ...: none before 2."""
    edge = 2
    while edge <= t:
        edge *= 2
    return edge


slidings = st.builds(
    SlidingWindow,
    st.just("ts"),
    size=st.integers(1, 6),
    slide=st.integers(1, 6),
    origin=st.integers(-2, 2),
    partial=st.sampled_from([True, True, True, False]),
)
bands = st.builds(FixedBandWindow, st.just("ts"), start=st.integers(-2, 9), size=st.integers(1, 6))
sessions = st.builds(SessionWindow, st.just("ts"), gap=st.integers(1, 7))
kinds = st.one_of(slidings, slidings, sessions, sessions, bands)
extents = st.dictionaries(
    st.integers(-5, 5), st.tuples(st.integers(-3, 20), st.integers(0, 6)), min_size=1, max_size=5
).map(
    lambda drawn: (lambda listed: ExtentWindow("ts", listed.__getitem__, tuple(listed)))(
        {wid: (begin, begin + size) for wid, (begin, size) in drawn.items()}
    )
)
edges = st.sampled_from([next_prime_gap, next_after_zero]).map(cache(lambda next_edge: EdgeWindow("ts", next_edge)))
"""Windows that are compiled when the first test draws them, not in every run that reads this module."""
asked = st.one_of(extents, edges)
sliced = st.one_of(kinds, asked)


Change = tuple[int, object]
changes = st.lists(st.tuples(st.integers(0, 14), st.one_of(sliced, st.integers(0, 4))), max_size=5)
"""Before which element of a script a window is added, or the n-th of those there are is removed."""


def mixed(windows: Sequence[object]) -> Mix:
    """Name windows."""
    return {f"w{i}": window for i, window in enumerate(windows)}


mixes = st.lists(kinds, min_size=1, max_size=4).map(mixed)
bands_alone = st.lists(st.one_of(slidings, slidings, bands), min_size=1, max_size=4).map(mixed)
"""Windows whose edges are the same for all groups."""


def operator(mix: Mix, by: Sequence[str] = (), *, store: str = "auto") -> SlicingAggregate:
    """Make the operator with all functions."""
    return SlicingAggregate(mix, FUNCTIONS, by, store=store)  # type: ignore[arg-type]


class _Changing(SlicingAggregate):
    """Answer from another store at each n-th page or promise."""

    every: ClassVar[int]
    counted: int = 0

    def _count(self, promises: int) -> None:
        super()._count(promises)
        intake, self.counted = self._intake, self.counted + 1
        if self.every and intake is not None and self._choice is not None and self.counted % self.every == 0:
            self._change_store(intake, eager=isinstance(intake.answers.store, Lazy))


def changing(
    mix: Mix, functions: Mapping[str, AggregateFunction], *, every: int, named: bool | None = None
) -> SlicingAggregate:
    """Make an operator that changes its store at each n-th page or promise, never for 0."""
    kind = type("Changing", (_Changing,), {"every": every})
    return kind(mix, functions) if named is None else kind(mix, functions, named=named)


def naive(mix: Mix, by: Sequence[str], table: list[Row]) -> list[Row]:
    """Give the naive answer to all functions."""
    return naive_slicing(mix, ANSWERS, by, table)


def must_be_out(mix: Mix, by: Sequence[str], table: list[Row], progress: Progress) -> list[Row]:
    """Give the results of windows that the linear promises complete, and of groups that have got further."""
    results = naive(mix, by, table)
    if progress.ended:
        return results
    out: list[Row] = []
    for row in results:
        bound = progress.bound("ts")
        if by == ("k",) and row["k"] is not None:
            bound = progress.effective((("k",), "ts"), (row["k"],))
            if (row["k"],) in progress.grouped.get((("k",), None), {}):
                bound = 2**62
        if bound is not None and int(row["window_end"]) <= int(bound):  # type: ignore[arg-type]
            out.append(row)
    return out
