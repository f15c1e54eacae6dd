"""Fig 15: the memory of each technique while tuples may still come late, by slices and by tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from oop_engine.figures.scotty.workload import BUCKETS, BUFFER, EAGER, LAZY, TREE
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive
from operators.functions import sum
from operators.protocol import Element
from operators.streams.reorder import Reorder
from operators.window import tumbling
from operators.window.counted import CountWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked import CountAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END

Measure: TypeAlias = Literal["time", "count"]
Held: TypeAlias = tuple[dict[int, int], int]
"""The sum of each window by its id, and the bytes that were held before the first promise."""
Aggregate: TypeAlias = SlicingAggregate | WindowAggregate | BufferAggregate | CountAggregate
SLICES, PARTS = 500, 10
"""How many slices there are while tuples grow, as in the paper, and how many windows of a count fill the stream."""
SLICING: Final = "slicing"


def _page(n: int) -> Page:
    """Return n tuples in no order, with the times 0, 1, 2, ..."""
    random = np.random.default_rng(1)
    columns = {"ts": random.permutation(n), "v": random.integers(1, 1_000, n)}
    return Page.of(Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"]), columns)


def _held(operator: Aggregate, elements: Sequence[Element]) -> Held:
    """Hand over tuples, look at what is held, and end the stream."""
    found: list[Element] = []
    for element in elements:
        if isinstance(element, Page):
            operator.process(element, found.append)
    nbytes = operator.statistics()["state_bytes"]
    operator.punctuate(END, found.append)
    table = pa.Table.from_batches([element.batch for element in found if isinstance(element, Page)])
    if "window" in table.column_names:
        table = table.filter(pc.equal(table["window"], "w"))
    return dict(zip(table["wid"].to_pylist(), table["total"].to_pylist(), strict=True)), nbytes


def by_time(n: int, slices: int) -> dict[str, Held]:
    """Return what each technique holds of n tuples in so many windows of a length of time, one after the other."""
    page, window, total = _page(n), tumbling("ts", n // slices), {"total": sum("v")}
    tagged = drive(Bucket(window), [page])
    # A window for every tuple cuts the stream into as many slices, which are then the leaves of the tree.
    leaves = {"w": window, "tuple": tumbling("ts", 1)}
    return {
        LAZY: _held(SlicingAggregate({"w": window}, total, store="lazy"), [page]),
        EAGER: _held(SlicingAggregate({"w": window}, total, store="eager"), [page]),
        BUCKETS: _held(WindowAggregate(window, total), tagged),
        TREE: _held(SlicingAggregate(leaves, total, store="eager"), [page]),
        BUFFER: _held(BufferAggregate(window, total), tagged),
    }


def by_count(n: int, slices: int) -> dict[str, Held]:
    """Return what each technique holds of n tuples in windows of a tenth of them; one begins at each slice."""
    page, size, slide = _page(n), n // PARTS, n // slices
    slicing = _held(CountAggregate(CountWindow("ts", size=size, slide=slide), {"total": sum("v")}), [page])
    sort = Reorder("ts")
    sort.process(page, lambda element: None)
    nbytes, found = sort.statistics()["state_bytes"], list[Element]()
    sort.punctuate(END, found.append)
    order = pa.Table.from_batches([element.batch for element in found if isinstance(element, Page)])
    values = order["v"].to_numpy()
    windows = [slice(max(0, end - size), end) for end in range(slide, n + size, slide)]
    sums = {wid: int(values[window].sum()) for wid, window in enumerate(windows)}
    # A bucket holds the time of each tuple, by which a late one finds its place, and its value: 16 bytes. With 5,000
    # windows that is 400 MB, so the tuples are counted, and no copies of them are made.
    held = np.sum([len(values[window]) for window in windows]) * (values.itemsize + order["ts"].to_numpy().itemsize)
    return {SLICING: slicing, BUCKETS: (sums, int(held)), BUFFER: (sums, nbytes)}


TECHNIQUES: Final[Mapping[Measure, Callable[[int, int], dict[str, Held]]]] = {"time": by_time, "count": by_count}


def measure(size: Size, *, by: Measure, along: Literal["slices", "tuples"]) -> Measured:
    """Look at what is held, by slices or by tuples."""
    fixed = size.of(tiny=2_000, small=50_000, paper=50_000)
    steps = size.of(tiny=[10, 100], small=[10, 50, 500, 5_000], paper=[10, 20, 50, 100, 200, 500, 1_000, 5_000])
    points = [(fixed, slices) for slices in steps]
    if along == "tuples":
        counts = size.of(
            tiny=[1_000, 10_000], small=[1_000, 5_000, 50_000], paper=[1_000, 2_000, 5_000, 10_000, 100_000]
        )
        points = [(n, SLICES) for n in counts]
    rows: list[dict[str, object]] = []
    for n, slices in points:
        held = TECHNIQUES[by](n, slices)
        agreed({name: sums for name, (sums, _) in held.items()})
        rows.extend(
            {"series": name, "slices": slices, "tuples": n, "bytes": nbytes} for name, (_, nbytes) in held.items()
        )
    notes = {
        "time": "All are operators of oop-engine. The aggregate tree is its eager store with a slice for every tuple.",
        "count": "Windows have a tenth of the tuples. Buckets are counted and not made: the time and the value of each"
        " tuple, once for each window that it is in; the tuple buffer is the sort buffer of oop-engine. There is"
        " one slicing operator for windows of a count.",
    }
    return Measured.of(
        rows, "The tuples come in no order, and no promise has come when their memory is read.", notes[by]
    )


def _grows(name: str, along: str, held: Mapping[float, float]) -> list[Check]:
    """Check that memory grows as x does over each step, within a factor of two."""
    checks: list[Check] = []
    for (before, least), (after, most) in pairwise(held.items()):
        grown = most / least / (after / before)
        text = f"{name}: {least:,.0f} bytes at {before:,} {along}, {most:,.0f} at {after:,}; {grown:.2f} times"
        checks.append(Check(0.5 <= grown <= 2, f"{text} what linear growth gives, 0.5 to 2 is linear"))
    return checks


def _stays(name: str, along: str, held: Mapping[float, float]) -> Check:
    ratio = max(held.values()) / min(held.values())
    return Check(ratio <= 2, f"{name}: at most {ratio:.2f} times the bytes, however many {along}")


def _fixed(along: str, by: Mapping[str, Mapping[float, float]]) -> str:
    """Say what is held with the fewest slices or tuples, which is the part that does not grow."""
    first = ", ".join(f"{name} {next(iter(held.values())):,} bytes" for name, held in by.items())
    least = next(iter(next(iter(by.values()))))
    return f"With {least:,} {along} each holds what it holds in any case ({first}), and grows from there."


def judge(measured: Measured, *, along: str, grow: frozenset[str]) -> Verdict:
    """See which series grow with x over the whole range, and that the others stay where they are."""
    by = {name: measured.along(name, along, "bytes") for name in measured.series}
    checks: list[Check] = []
    for name, held in by.items():
        checks += _grows(name, along, held) if name in grow else [_stays(name, along, held)]
    growing = {name: held for name, held in by.items() if name in grow}
    reserved = " Slicing initialises slots for slices to come and a table of cells ahead of need."
    return Verdict.of(*checks, why=_fixed(along, growing) + (reserved if LAZY in grow else ""))


def judge_parallel(measured: Measured) -> Verdict:
    """See that all series grow with the tuples, by the same factor, over each step."""
    by = {name: measured.along(name, "tuples", "bytes") for name in measured.series}
    checks = [check for name, held in by.items() for check in _grows(name, "tuples", held)]
    for before, after in pairwise(by[SLICING]):
        factors = [held[after] / held[before] for held in by.values()]
        text = f"from {before:,} to {after:,} tuples they grow {min(factors):.1f} to {max(factors):.1f} times"
        checks.append(Check(max(factors) <= 2 * min(factors), f"parallel: {text}"))
    return Verdict.of(*checks, why=_fixed("tuples", by))


_SLICES: Final = Axis("slices", "slices while tuples may come late", scale="log")
_TUPLES: Final = Axis("tuples", "tuples while others may come late", scale="log")
_BYTES: Final = Axis("bytes", "bytes held", scale="log")
FIG_15A: Final = Figure(
    "scotty-15a",
    "scotty",
    "Memory by slices, windows of time",
    "What slicing and buckets hold grows with the number of slices; what trees and buffers hold does not.",
    _SLICES,
    [_BYTES],
    partial(measure, by="time", along="slices"),
    partial(judge, along="slices", grow=frozenset({LAZY, EAGER, BUCKETS})),
)
FIG_15B: Final = Figure(
    "scotty-15b",
    "scotty",
    "Memory by tuples, windows of time",
    "What slicing and buckets hold does not depend on the number of tuples; trees and buffers hold each of them.",
    _TUPLES,
    [_BYTES],
    partial(measure, by="time", along="tuples"),
    partial(judge, along="tuples", grow=frozenset({TREE, BUFFER})),
)
FIG_15C: Final = Figure(
    "scotty-15c",
    "scotty",
    "Memory by slices, windows of a count",
    "Tuples are most of what slicing and buffers hold, so slices make no difference; buckets hold a tuple once for each"
    " window, so they grow.",
    _SLICES,
    [_BYTES],
    partial(measure, by="count", along="slices"),
    partial(judge, along="slices", grow=frozenset({BUCKETS})),
)
FIG_15D: Final = Figure(
    "scotty-15d",
    "scotty",
    "Memory by tuples, windows of a count",
    "All techniques keep tuples, so all curves are linear and parallel.",
    _TUPLES,
    [_BYTES],
    partial(measure, by="count", along="tuples"),
    judge_parallel,
)
