"""Fig 16: how long the result of one window takes, from the promise that completes it on."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import process_time
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.figures.figure import SERIES as SERIES_COLUMN
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from oop_engine.figures.scotty.workload import BUCKETS, BUFFER, EAGER, LAZY
from operators import functions as fn
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction
from operators.protocol import Element, Operator
from operators.window import SlidingWindow, tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import before

Releasing: TypeAlias = SlicingAggregate | WindowAggregate | BufferAggregate
FUNCTIONS: Final[dict[str, AggregateFunction]] = {
    "sum": fn.sum("v"),
    "avg": fn.avg("v"),
    "median": fn.median("v"),
}


@attrs.frozen(eq=False)
class Releases:
    """Release windows of one technique, one after the other.

    - `operator`, `front`: the aggregate, and the bucket operator before it, if it needs one.
    - `ends`: where the windows end.
    """

    operator: Releasing
    front: Operator | None
    ends: Sequence[int]

    def take(self, page: Page) -> None:
        """Hand over all tuples."""
        for element in self._through(page):
            if isinstance(element, Page):
                self.operator.process(element, lambda element: None)

    def release(self, number: int) -> tuple[object, float]:
        """Return the result of a window, and the processor time that it takes."""
        found: list[Element] = []
        promises = [element for element in self._through(before("ts", self.ends[number]))]
        start = process_time()
        for promise in promises:
            assert not isinstance(promise, Page)
            self.operator.punctuate(promise, found.append)
        spent = process_time() - start
        pages = [element for element in found if isinstance(element, Page)]
        return pages[-1].batch.column("a")[-1].as_py(), spent

    def _through(self, element: Element) -> list[Element]:
        if self.front is None:
            return [element]
        found: list[Element] = []
        if isinstance(element, Page):
            self.front.process(element, found.append)
        else:
            self.front.punctuate(element, found.append)
        return found


def releases(entries: int, count: int, function: AggregateFunction) -> dict[str, Releases]:
    """Return techniques that hold windows of so many entries, by series: a tuple a tick, and a slice a tuple.

    Slices are those of windows that slide by a tick. Buckets and buffers hold windows one after the other: each tuple
    is then in one of them, and more windows would not change how long the release of one takes.
    """
    slides, steps = SlidingWindow("ts", size=entries, slide=1), tumbling("ts", entries)
    functions = {"a": function}
    next_to, apart = range(entries, entries + count), range(entries, (count + 1) * entries, entries)
    return {
        LAZY: Releases(SlicingAggregate({"w": slides}, functions, store="lazy"), None, next_to),
        EAGER: Releases(SlicingAggregate({"w": slides}, functions, store="eager"), None, next_to),
        BUCKETS: Releases(WindowAggregate(steps, functions), Bucket(steps), apart),
        BUFFER: Releases(BufferAggregate(steps, functions), Bucket(steps), apart),
    }


def measure(size: Size) -> Measured:
    """Time the release of windows by the number of their entries; the first of them is compared and not timed."""
    count = size.of(tiny=3, small=12, paper=24)
    rows: list[dict[str, object]] = []
    for entries in size.of(tiny=[10, 100], small=[30, 300, 3_000], paper=[100, 1_000, 10_000, 100_000]):
        ticks = np.arange((count + 1) * entries)
        schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
        page = Page.of(schema, {"ts": ticks, "v": ticks * 7_919 % 997})
        spent: dict[str, dict[str, float]] = {}
        for name, function in FUNCTIONS.items():
            made = releases(entries, count, function)
            for each in made.values():
                # Slices need no more than the windows that are released.
                each.take(page.slice(0, each.ends[-1] + 1))
            agreed({series: each.release(0)[0] for series, each in made.items()})
            for series, each in made.items():
                taken = median(each.release(number)[1] for number in range(1, count))
                spent.setdefault(series, {})[name] = taken * 1e6
        rows.extend({"series": series, "entries": entries, **by} for series, by in spent.items())
    return Measured.of(
        rows,
        f"Medians of {count - 1} releases. An entry is a slice of slicing, and a tuple of the others.",
        "All are operators of oop-engine; each release makes a page of Arrow and promises, which is most of the time"
        " where there are few entries. The paper times the stores alone.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare the techniques where windows have the most entries."""
    rows = measured.table.to_pylist()
    most = max(row["entries"] for row in rows)
    last = {row[SERIES_COLUMN]: row for row in rows if row["entries"] == most}
    checks: list[Check] = []
    least = min(row["entries"] for row in rows)
    least_of = {row[SERIES_COLUMN]: row for row in rows if row["entries"] == least}
    fixed = ", ".join(
        f"{series} {100 * least_of[series]['sum'] / last[series]['sum']:.0f} % of the time that {most:,} take"
        for series in (BUCKETS, EAGER)
    )
    for name in FUNCTIONS:
        by = {series: last[series][name] for series in (BUCKETS, EAGER, LAZY, BUFFER)}
        said = ", ".join(f"{series} {spent:,.0f} us" for series, spent in by.items())
        ordered = by[BUCKETS] < by[EAGER] < min(by[LAZY], by[BUFFER])
        checks.append(
            Check(ordered, f"{name} of {most:,} entries: {said}; each of the first two is to be below the next")
        )
        checks.append(
            Check(max(by.values()) <= 1_000, f"{name}: at most {max(by.values()):,.0f} us, 1 ms in the paper")
        )
    return Verdict.of(
        *checks,
        why=f"A release is a call of an operator that also makes a page and promises. With {least:,} entries that takes"
        f" {fixed}: what is stored adds little to it. In a profile of 3,000 entries no kernel is a fifth of a release,"
        " but that which combines lazy slices for a median: a third. The rest is Python around them. The paper's"
        " nanoseconds are those of a look-up alone.",
    )


FIG_16: Final = Figure(
    "scotty-16",
    "scotty",
    "Latency of a result by what is stored",
    "Buckets answer soonest, eager slicing sooner than lazy slicing and tuple buffers, which take up to 1 ms.",
    Axis("entries", "entries (slices or tuples) of a window", scale="log"),
    [Axis(name, f"{name}: microseconds to a result", scale="log") for name in FUNCTIONS],
    measure,
    judge,
)
