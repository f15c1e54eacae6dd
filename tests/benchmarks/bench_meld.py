"""What skew between links costs: three links melded and counted, against merged in order and counted (Fig 8-8, small).

Both give the same counts. The ordering union must hold what came ahead of the slowest link; the meld holds no tuple,
and the aggregate behind it one partial result for each open window. Peak state: tuples and partial results held.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable

import attrs

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.meter import Statistics
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from operators.data.page import Page

SECOND = 1_000_000_000
RATE, SECONDS = 2_000, 60
SKEWS = (0, 1, 5, 10, 20, 40)


@attrs.frozen
class Measured:
    counts: Counter[int]
    tuples: int
    peak_tuples: int
    seconds: float


def links(skew: int) -> list[Stream]:
    """Make three links, the second and the third half and a whole `skew` seconds behind the first, each ordered."""
    shares = {"Control": 0, "Main1": skew * SECOND // 2, "Main2": skew * SECOND}
    return [
        oop.packets(RATE * SECONDS, rate=RATE, link=link, skew=behind, slack="0s") for link, behind in shares.items()
    ]


def measure(united: Stream) -> Measured:
    out = united.window(range="10 seconds", wattr="ts").aggregate(oop.count())
    driver, counts = Run(Plan((out.node,)), 8_192), Counter[int]()
    started = time.perf_counter()
    for _, element in driver:
        if isinstance(element, Page):
            for row in element.plain_rows():
                counts[int(str(row["wid"]))] += int(str(row["count"]))
    seconds = time.perf_counter() - started
    told = Statistics(driver.circuit.statistics())
    assert told.late == 0
    return Measured(counts, told.tuples, told.peak_state, seconds)


def median(make: Callable[[], Stream], times: int = 3) -> Measured:
    """Run several times, and give the run of median duration."""
    return sorted((measure(make()) for _ in range(times)), key=lambda m: m.seconds)[times // 2]


def main() -> None:
    measure(oop.meld(*links(0)))
    print(f"3 links of {RATE * SECONDS:,} packets at {RATE:,}/s, pages of at most 8,192; medians of 3 runs")
    print(f"{'':>8}{'meld, count':>24}{'merge, count':>24}{'merge / meld':>14}")
    print(f"{'skew':>8}" + f"{'peak state':>14}{'tuples/s':>10}" * 2 + f"{'time':>14}")
    ratios: list[float] = []
    for skew in SKEWS:
        melded = median(lambda skew=skew: oop.meld(*links(skew)))
        merged = median(lambda skew=skew: oop.merge(*links(skew)))
        assert melded.counts == merged.counts and melded.counts.total() == melded.tuples == 3 * RATE * SECONDS
        ratios.append(merged.seconds / melded.seconds)
        columns = "".join(f"{m.peak_tuples:>14,}{m.tuples / m.seconds / 1e6:>9.2f}M" for m in (melded, merged))
        print(f"{skew:>6} s{columns}{ratios[-1]:>14.2f}")
    print(f"The ordering union takes {statistics.median(ratios):.2f} times as long as the meld (median over skews).")


if __name__ == "__main__":
    main()
