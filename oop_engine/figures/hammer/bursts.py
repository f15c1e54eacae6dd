"""Fig 11: windows of time over a stream whose rate jumps."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.hammer.replay import OVER_PANES, PLAIN, Replay, Windows, integers
from oop_engine.figures.hammer.sliding import FAST_EVICT, FAST_TWO, RATE, TWO
from oop_engine.figures.measuring import agreed, alternate

RANGE: Final = 64
_TICKS: Final = 1_000_000


def bursts(seconds: int, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return event times in microseconds: so many seconds of 0 to `most` tuples."""
    random = np.random.default_rng(2)
    rate = np.where(
        random.random(seconds) < 0.3, random.integers(0, most, seconds), random.integers(0, most // 50, seconds)
    )
    rate[random.random(seconds) < 0.1] = 0
    whole = np.repeat(np.arange(seconds), rate)
    return np.sort(whole * _TICKS + random.integers(0, _TICKS, len(whole)))


def measure(size: Size) -> Measured:
    """Time avg over windows of 64 s by the slide."""
    seconds, most = size.of(tiny=130, small=300, paper=3_000), size.of(tiny=200, small=40_000, paper=100_000)
    slides, runs = (
        size.of(tiny=[8, 64], small=[1, 4, 16, 64], paper=[1, 2, 4, 8, 16, 32, 64]),
        size.of(tiny=1, small=7, paper=11),
    )
    ts = bursts(seconds, most)
    values = integers(len(ts))
    rows: list[dict[str, object]] = []
    for slide in slides:
        ends = np.arange(RANGE, int(ts[-1]) // _TICKS + 1, slide) * _TICKS
        heads, tails = np.searchsorted(ts, ends - RANGE * _TICKS), np.searchsorted(ts, ends)
        full = tails > heads
        windows = Windows(values, heads[full], tails[full])
        over = {
            name: Replay(technique, "sum", RANGE * _TICKS, slide * _TICKS, page=1 << 16)
            for name, technique in OVER_PANES.items()
        }
        found = {name: windows.answers(technique, "sum").tolist() for name, technique in PLAIN.items()}
        found |= {name: answers(replay, ts, values, ends[full] // _TICKS // slide - 1) for name, replay in over.items()}
        agreed(found)
        works = {name: partial(windows.seconds, technique, "sum") for name, technique in PLAIN.items()}
        works |= {name: partial(replay.seconds, ts, values) for name, replay in over.items()}
        for name, spent in alternate(works, runs).items():
            rows.append({"series": name, "slide": slide, "rate": 1e-6 / spent})
    return Measured.of(
        rows,
        f"{len(ts):,} tuples in {seconds} s, 0 to {most:,} a second, in place of the Google trace; medians of {runs}"
        " alternate runs.",
        "Plain forms know the windows beforehand, which is in their favour; optimised forms look for them.",
    )


def answers(replay: Replay, ts: Any, values: Any, wids: Any) -> list[int]:
    """Return the answers of these windows."""
    kept: dict[int, int] = {}
    # A tuple behind the last window ends it.
    beyond = np.append(ts, ts[-1] + 2 * RANGE * _TICKS)
    replay.run(
        beyond,
        np.append(values, np.int32(0)),
        lambda ids, found: kept.update(zip(ids.tolist(), found.tolist(), strict=True)),
    )
    return [kept[wid] for wid in wids.tolist()]


def judge(measured: Measured) -> Verdict:
    """Compare the optimised forms with their plain ones."""
    by = {name: measured.along(name, "slide", "rate") for name in measured.series}
    checks: list[Check] = []
    for name in (FAST_EVICT, FAST_TWO):
        plain = next(other for other, technique in PLAIN.items() if technique == OVER_PANES[name])
        gains = [rate / by[plain][slide] for slide, rate in by[name].items()]
        checks.append(
            Check(min(gains) >= 1.2, f"{name}: {min(gains):.1f} to {max(gains):.1f} times the rate of the plain form")
        )
    fast = by[FAST_TWO]
    best = {slide: max(by[name][slide] for name in PLAIN) for slide in fast}
    least = min(fast[slide] / best[slide] for slide in fast)
    checks.append(
        Check(least >= 1, f"optimised two-stacks: at least {least:.2f} times the rate of the best plain form")
    )
    spread = max(by[TWO].values()) / min(by[TWO].values())
    checks.append(
        Check(spread < 2, f"plain two-stacks are steady: their highest rate is {spread:.2f} times the lowest")
    )
    return Verdict.of(
        *checks, why="The scan has no state to keep, and where slides hold half of a window there is nothing to share."
    )


FIG_11: Final = Figure(
    "hammer-11",
    "hammer",
    "Throughput of avg over 64 s of a bursty stream",
    "The optimised forms are fastest, 1.2 to 4.3 times as fast as the plain ones; plain two-stacks are steady.",
    Axis("slide", "slide, s", scale="log"),
    [RATE],
    measure,
    judge,
)
