"""Measure plans and pieces of work side by side: answers first, then time by alternate runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from statistics import median
from time import process_time
from typing import TypeVar

import attrs
import pyarrow as pa

from oop_engine.api.stream import Stream
from oop_engine.drive.meter import Statistics
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from operators.data.page import Page

_T = TypeVar("_T")


@attrs.frozen
class Ran:
    """Hold what one run of a plan did.

    - `rows`: the results as a multiset of tuples, in the order of their values.
    - `seconds`: processor time.
    - `tuples`: how many were read.
    - `peak_tuples`: the sum over operators of the most tuples and partial aggregates that each held.
    - `late`: tuples that broke a promise.
    """

    rows: tuple[tuple[object, ...], ...] = attrs.field(repr=False)
    seconds: float
    tuples: int
    peak_tuples: int
    late: int


def cores() -> int:
    """Return how many processor cores this process may use; all of the machine where the system does not say.

    >>> 1 <= cores() <= (os.cpu_count() or 1)
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(stream: Stream, *, page_rows: int = 8_192) -> Ran:
    """Run a stream in this thread; its results, processor time and memory.

    - `stream`: what to run.
    - `page_rows`: so many tuples are read at a time at most.

    >>> import oop_engine as oop
    >>> ran = run(oop.rows([(3,), (1,), (9,)], oop.Schema.of(ts="int64")).window(range=5).aggregate(oop.count()))
    >>> [row[:1] for row in ran.rows], ran.tuples
    ([(1,), (2,)], 3)
    """
    driver = Run(Plan((stream.node,)), page_rows)
    pages: list[Page] = []
    start = process_time()
    for _, element in driver:
        if isinstance(element, Page):
            pages.append(element)
    spent = process_time() - start
    statistics = Statistics(driver.circuit.statistics())
    return Ran(_rows(pages), spent, statistics.tuples, statistics.peak_state, statistics.late)


def seconds(stream: Stream) -> float:
    """Return the processor time that one run of a stream takes."""
    return run(stream).seconds


def timed(work: Callable[[], object]) -> float:
    """Return the processor time that a piece of work takes.

    >>> timed(lambda: None) >= 0
    True
    """
    start = process_time()
    work()
    return process_time() - start


def _rows(pages: list[Page]) -> tuple[tuple[object, ...], ...]:
    if not pages:
        return ()
    table = pa.Table.from_batches([page.batch for page in pages])
    return tuple(sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr))


def agreed(answers: Mapping[str, _T]) -> _T:
    """Return the one answer that all series give; PlanError names two that differ.

    - `answers`: by series. They are compared by equality.

    >>> agreed({"lazy": 3, "eager": 3})
    3
    """
    (first, answer), *others = answers.items()
    for name, other in others:
        if other != answer:
            raise PlanError(
                f'the series "{first}" and "{name}" give different answers, so nothing was timed.\n'
                f"  {first}: {str(answer)[:200]}\n  {name}: {str(other)[:200]}\n"
                "  One of them is wrong: compare both with the naive twin in tests."
            )
    return answer


def repeated(works: Mapping[str, Callable[[], _T]], runs: int) -> dict[str, list[_T]]:
    """Return what each piece of work gives in alternate runs, after one that warms up.

    - `works`: by series.
    - `runs`: how many runs of each.

    Garbage is collected between turns, not in runs; what was there before all runs is not looked at.

    >>> repeated({"one": lambda: 1, "two": lambda: 2}, 2)
    {'one': [1, 1], 'two': [2, 2]}
    """
    found: dict[str, list[_T]] = {name: [] for name in works}
    enabled = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        for turn in range(runs + 1):
            gc.collect()
            for name, work in works.items():
                value = work()
                if turn:
                    found[name].append(value)
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
    return found


def alternate(works: Mapping[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Return the median of what each piece of work measures, over alternate runs, after one that warms up.

    - `works`: by series; each returns its own seconds, or whatever is compared.
    - `runs`: how many runs of each.

    >>> alternate({"one": lambda: 1.0, "two": lambda: 2.0}, 3)
    {'one': 1.0, 'two': 2.0}
    """
    return {name: median(values) for name, values in repeated(works, runs).items()}
