"""AdaptWID beside eager and lazy aggregation on the five skewed data sets of Table 6-2, and buffering beside WID.

    python tests/benchmarks/bench_adaptive.py [tuples] [runs]

Small groups have one tuple, medium ones 15 and large ones 300 on average in a stretch as long as the window; they get
1, 3, 5, 7 or 9 %, 20 % and the rest of the data, which makes 39 to 87 % of the groups small. Q6-8: count by group over
RANGE 10 s SLIDE 1 s of three links, two of 4,000 tuples a second and one almost empty that is two seconds behind. Q6-7:
sum by group over tumbling windows of 1 s of one link. Objects are tuples in the buffer, partial aggregates and group
entries, the most at any time, and MB what these objects take together; for the other operators MB is what is reserved
when a promise comes. T is what a release made at once of buffered tuples. Medians of interleaved runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from math import nan
from statistics import median
from time import perf_counter

from oop_engine.figures.thesis.adaptive import PAGE, SECOND, SHARES, data
from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.chain import Chain
from operators.data.page import Page
from operators.functions import count, sum
from operators.protocol import Element, Operator
from operators.window import SlidingWindow
from operators.window_aggregate.stores.per_window.wid import WindowAggregate

RATE = 8_000


def run(make: Callable[[], Operator], script: list[Element]) -> tuple[float, list[float], dict[str, int]]:
    """Give seconds spent, seconds a release, and the statistics."""
    operator = make()
    releases: list[float] = []
    spent = 0.0
    bytes_held = 0
    for each in script:
        start = perf_counter()
        if isinstance(each, Page):
            operator.process(each, lambda _: None)
            spent += perf_counter() - start
        else:
            held = operator.statistics()["state_bytes"]  # type: ignore[attr-defined]
            bytes_held = max(bytes_held, held)
            start = perf_counter()
            operator.punctuate(each, lambda _: None)
            releases.append(perf_counter() - start)
            spent += releases[-1]
    found = operator.statistics()  # type: ignore[attr-defined]
    return spent, releases[len(releases) // 3 : -1], found | {"bytes": bytes_held}


def compare(title: str, window: SlidingWindow, n: int, runs: int, *, sources: bool) -> None:
    functions: Mapping[str, object] = {"n": count()} if sources else {"total": sum("length")}
    source = "link" if sources else None

    def adaptive(**options: object) -> Callable[[], Operator]:
        return lambda: AdaptiveAggregate(window, functions, ("srcIP",), source=source, **options)  # type: ignore[arg-type]

    ways: dict[str, Callable[[], Operator]] = {
        "eager (WID, a partial a window)": adaptive(always="eager"),
        "lazy (buffering)": adaptive(always="lazy"),
        "AdaptWID": adaptive(),
        "AdaptWID by panes": adaptive(panes=True),
        "buffering by panes": lambda: BufferAggregate(window, functions, ("srcIP",), panes=True),  # type: ignore[arg-type]
        "shared slices": lambda: WindowAggregate(window, functions, ("srcIP",)),  # type: ignore[arg-type]
        "negative tuples": lambda: Chain([Expire(), SignedAggregate(window, functions, ("srcIP",))]),  # type: ignore[arg-type]
    }
    print(f"\n{title}: {n:,} tuples, pages of {PAGE:,}, a promise a second")
    gains: list[str] = []
    for name, share in SHARES.items():
        made = data(n, RATE, window, share, skew=2.0 if sources else 0.0, links=3 if sources else 1)
        print(f"{name}: {made.small:.0%} of the groups are small")
        peaks: dict[str, tuple[int, int]] = {}
        measured: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        kept: dict[str, dict[str, int]] = {}
        for _ in range(runs):
            for way, make in ways.items():
                seconds, releases, kept[way] = run(make, made.script)
                measured[way].append((seconds, median(releases or [nan])))
        for way, found in kept.items():
            objects = found.get("peak_objects", found["peak_state_tuples"])
            peaks[way] = objects, found.get("peak_held_bytes", found["bytes"])
            rate = n / median(seconds for seconds, _ in measured[way]) / 1e6
            latency = median(release for _, release in measured[way]) * 1e3
            more = f"T {found['peak_temporary']:,}, " if "peak_temporary" in found else ""
            if found.get("switches_to_eager"):
                more += f"{found['switches_to_eager']:,} to eager, {found['switches_to_lazy']:,} to lazy"
            print(
                f"  {way:32} peak {objects:8,} objects {peaks[way][1] / 1e6:7.3f} MB  {rate:6.2f} M tuples/s"
                f"  release {latency:6.2f} ms  {more}"
            )
        eager, ours = peaks["eager (WID, a partial a window)"], peaks["AdaptWID"]
        gains.append(f"{name} {1 - ours[0] / eager[0]:.0%} ({1 - ours[1] / eager[1]:.0%})")
    print("AdaptWID saves, of eager's peak objects (bytes): " + ", ".join(gains))


def main(n: int, runs: int) -> None:
    compare("Q6-8, RANGE 10 s SLIDE 1 s", SlidingWindow("ts", size=10 * SECOND, slide=SECOND), n, runs, sources=True)
    compare("Q6-7, RANGE 1 s SLIDE 1 s", SlidingWindow("ts", size=SECOND, slide=SECOND), n, runs, sources=False)


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 400_000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
