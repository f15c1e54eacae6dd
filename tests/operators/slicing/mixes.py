"""Toy mixes of windows and aggregates, with their naive answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from hypothesis import strategies as st

from operators.functions import AggregateFunction, count, count_distinct, max, min, sum
from operators.page import Row
from operators.schema import Schema
from operators.slicing import SlicingAggregate
from operators.window import SlidingWindow
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
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


def mixed(windows: Sequence[object]) -> Mix:
    """Name windows."""
    return {f"w{i}": window for i, window in enumerate(windows)}


mixes = st.lists(kinds, min_size=1, max_size=4).map(mixed)


def operator(mix: Mix, by: Sequence[str] = (), *, store: str = "auto") -> SlicingAggregate:
    """Make the operator with all functions."""
    return SlicingAggregate(mix, FUNCTIONS, by, store=store)  # type: ignore[arg-type]


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
