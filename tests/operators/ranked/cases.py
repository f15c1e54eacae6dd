"""The streams, functions and windows that the tests of tuple-defined windows share."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import count, count_distinct, max, sum
from operators.protocol import Element
from operators.testing import Script, streams
from operators.testing.script import Step
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window_aggregate.stores.ranked import RankedAggregate
from punctuation import END, Equals, Progress, Punctuation

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v"), "kinds": count_distinct("v")}


def _values(members: list[Row]) -> list[int]:
    return [int(r["v"]) for r in members if r["v"] is not None]  # type: ignore[arg-type]


ANSWERS = {
    "n": len,
    "total": lambda m: builtins.sum(_values(m)) if _values(m) else None,
    "most": lambda m: builtins.max(_values(m), default=None),
    "kinds": lambda m: len(set(_values(m))),
}

sizes, few = st.integers(1, 6), st.integers(1, 4)
by_tuple = st.builds(SlideByTuple, st.just("ts"), size=sizes, each=st.booleans())
by_rank = st.builds(SlideByRank, st.just("ts"), size=sizes, rows=few, each=st.booleans())
by_number = st.builds(SlideByRows, st.just("ts"), size=sizes, rows=few, number=st.just("v"), each=st.booleans())
by_rows = st.builds(SlideByRows, st.just("ts"), size=sizes, rows=few, each=st.booleans())
counted = st.builds(CountWindow, st.just("ts"), size=st.integers(1, 7), slide=st.integers(1, 5), partial=st.booleans())
last = st.builds(
    LastTuples,
    st.just("ts"),
    size=st.integers(1, 5),
    slide=st.integers(1, 5),
    origin=st.integers(-2, 2),
    idle=st.booleans(),
)

Mode = tuple[tuple[str, ...], tuple[str, ...] | None]
modes: st.SearchStrategy[Mode] = st.sampled_from(
    [((), None), (("k",), None), (("k",), ()), (("k", "v"), ("k",)), (("v", "k"), ("k", "v"))]
)
"""Grouping attributes and partitioning ones: alike, none of either, fewer of these, none of these."""

scripts = streams(SCHEMA, group=("k",), tuples=12)
scripts_with_nulls = streams(SCHEMA, group=("k",), tuples=12, nulls=("ts", "k", "v"))


def check_windows(make: Callable[[], RankedAggregate], script: Script, partition: Sequence[str]) -> None:
    """Check that the windows a run counts are those of its results, told apart by partition, across a restore too."""
    operator, found = make(), list[Element]()
    for step in (*script.steps, (0, END)):
        found += drive(operator, [step])
        state = operator.state()
        operator = make()
        operator.restore(state)
    given = {(row["wid"], *(row[name] for name in partition)) for row in rows(found)}
    assert operator.statistics()["windows"] == len(given)


def untied(script: Script) -> Script:
    """Leave out every tuple whose time an earlier one has, so that arrival tells none apart."""
    seen: set[object] = set()
    steps: list[Step] = []
    for port, element in script.steps:
        if isinstance(element, Page):
            times = [row["ts"] for row in element.rows()]
            fresh = [ts is not None and ts not in seen and times.index(ts) == i for i, ts in enumerate(times)]
            seen |= set(times)
            element = element.select(pa.array(fresh, pa.bool_()))
        steps.append((port, element))
    return Script(script.schemas, tuple(steps))


def by_k(table: list[Row], progress: Progress) -> Iterator[tuple[object, list[int], int | None, bool]]:
    """Give each k with the times of its tuples, what it is promised up to, and whether it is over."""
    for k in {row["k"] for row in table}:
        times = [int(str(row["ts"])) for row in table if row["k"] == k]
        if k is None:
            yield k, times, _whole(progress.bound("ts")), progress.ended
        else:
            over = progress.implies(Punctuation({"k": Equals(k)}))  # type: ignore[arg-type]
            yield k, times, _whole(progress.effective((("k",), "ts"), (k,))), over  # type: ignore[arg-type]


def _whole(bound: object) -> int | None:
    return bound if isinstance(bound, int) else None
