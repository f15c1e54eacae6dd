"""Fig 21: windows of time and windows of a count, by how many are open at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.kernels import peers
from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.throughput import RATES
from oop_engine.figures.scotty.workload import BUFFER, RATE, SECOND, Workload
from operators.data.page import Page
from operators.functions import sum
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window.counted import CountWindow
from operators.window_aggregate.stores.ranked import CountAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before

TIME, COUNT, COUNTED_BUFFER = "slicing, time", "slicing, count", f"{BUFFER}, count"
SECONDS: Final = 20
"""How long a window is; one of a count has as many tuples as come in that time."""
Sums: TypeAlias = dict[int, int]


def replay(
    load: Workload, make: Callable[[], SlicingAggregate | CountAggregate], emit: Callable[[Element], None]
) -> None:
    """Run an operator over a stream, with a promise behind each page.

    - `load`: the stream.
    - `make`: makes the operator.
    - `emit`: takes what comes out.
    """
    operator = make()
    for page, promises in load.elements():
        operator.process(page, emit)
        operator.punctuate(before("ts", int(promises.bounds[0])), emit)
    operator.punctuate(END, emit)


def _sums(load: Workload, make: Callable[[], SlicingAggregate | CountAggregate]) -> Sums:
    found: Sums = {}

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            found.update(zip(element["wid"].tolist(), element["total"].tolist(), strict=True))

    replay(load, make, emit)
    return found


def _by_time(window: SlidingWindow) -> SlicingAggregate:
    return SlicingAggregate({"w": window}, {"total": sum("v")}, store="lazy")


def _by_count(window: CountWindow) -> CountAggregate:
    return CountAggregate(window, {"total": sum("v")})


def by_buffer(load: Workload, window: CountWindow) -> Sums:
    """Return the sums of all windows of a count whose last tuple came, by a sorted buffer of tuples."""
    found = np.zeros(len(load.ts) // window.slide, np.int64)
    peers.counted_buffer(load.ts, load.values, load.stops, load.bounds, window.size, window.slide, found)
    return dict(enumerate(found.tolist()))


def by_loop(load: Workload, edges: np.ndarray, begins: np.ndarray) -> Sums:
    """Return the sums between ranks of the tuples in order."""
    totals = np.append(0, np.cumsum(load.values[np.argsort(load.ts, kind="stable")]))
    return dict(enumerate((totals[edges] - totals[begins]).tolist()))


def measure(size: Size) -> Measured:
    """Time both measures by concurrent windows, over a stream with one late tuple in five."""
    n, runs = size.of(tiny=45_000, small=100_000, paper=1_000_000), size.of(tiny=1, small=3, paper=7)
    load = Workload.of(n, late=0.2)
    rows: list[dict[str, object]] = []
    for count in size.of(tiny=[1, 10], small=[1, 10, 40, 200, 1_000], paper=[1, 10, 20, 40, 100, 200, 500, 1_000]):
        times = SlidingWindow("ts", size=SECONDS * SECOND, slide=SECONDS * SECOND // count)
        ranks = CountWindow("ts", size=SECONDS * RATE, slide=SECONDS * RATE // count)
        by_time, by_count = partial(_by_time, times), partial(_by_count, ranks)
        ordered = np.sort(load.ts)
        # The tuples are evenly spread in time, and a whole number of them is in each slide.
        full = n // ranks.slide
        ends = (np.arange(full) + 1) * ranks.slide
        loop = by_loop(load, ends, np.maximum(0, ends - ranks.size))
        own = _sums(load, by_count)
        agreed({"loop": loop, COUNTED_BUFFER: by_buffer(load, ranks), COUNT: {w: own[w] for w in range(full)}})
        edges = np.searchsorted(ordered, (np.arange(full) + 1) * times.slide)
        begins = np.searchsorted(ordered, (np.arange(full) + 1) * times.slide - times.size)
        timely = _sums(load, by_time)
        agreed({"loop": by_loop(load, edges, begins), TIME: {w: timely[w] for w in range(full)}})
        works: Mapping[str, Callable[[], object]] = {
            TIME: partial(replay, load, by_time, lambda element: None),
            COUNT: partial(replay, load, by_count, lambda element: None),
            COUNTED_BUFFER: partial(by_buffer, load, ranks),
        }
        spent = alternate({name: partial(timed, work) for name, work in works.items()}, runs)
        rows.extend({"series": name, "windows": count, "rate": n / s / 1e6} for name, s in spent.items())
    return Measured.of(
        rows,
        f"{n:,} tuples, {RATE:,} a second of event time, one in five late by 0 to 2 s; medians of {runs} runs. Windows"
        f" of {SECONDS} s, and of as many tuples, slide so that so many are open at once.",
        "The tuple buffer is a compiled loop without an operator around it, which is in its favour.",
    )


def judge(measured: Measured) -> Verdict:
    """See that time is flat, that a count is flat up to 40 windows and falls behind, and how far the buffer is."""
    by = {name: measured.along(name, "windows", "rate") for name in measured.series}
    time, count = by[TIME], by[COUNT]
    few, most = {at: rate for at, rate in count.items() if at <= 40}, max(count)
    spreads = {f"{TIME}: any number of windows": time, f"{COUNT}: up to 40 windows": few}
    ratio = count[most] / by[COUNTED_BUFFER][most]
    return Verdict.of(
        *(
            Check(
                max(rates.values()) <= 2 * min(rates.values()),
                f"{name}: {min(rates.values()):.1f} to {max(rates.values()):.1f} M tuples a second, of which twice the"
                " least is flat",
            )
            for name, rates in spreads.items()
        ),
        Check(
            count[most] < min(few.values()),
            f"{COUNT}: {count[most]:.2f} M tuples a second at {most:,} windows, less than with few",
        ),
        Check(ratio >= 10, f"at {most:,} windows slicing by count has {ratio:.1f} times the rate of the tuple buffer"),
        why="At 1,000 windows a slide has 40 tuples, and each second makes 50 results. A window of time is then"
        " combined from 1,000 slices by the lazy store: half of the time in a profile. Tuples of windows of a count"
        " wait until their ranks are final, in place of the paper's shifts between slices: that costs the same however"
        " short they are.",
    )


FIG_21: Final = Figure(
    "scotty-21",
    "scotty",
    "Throughput of windows of time and of a count",
    "Windows of time are as fast however many there are; windows of a count up to 40, and slower behind, yet an order"
    " of magnitude faster than a tuple buffer at 1,000.",
    Axis("windows", "concurrent windows", scale="log"),
    [RATES],
    measure,
    judge,
)
