"""The figures of Scotty: techniques agree with a loop, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

import numpy as np
import pytest

from oop_engine.figures.figure import Figure, Measured
from oop_engine.figures.scotty import throughput
from oop_engine.figures.scotty.workload import BUCKETS, BUFFER, EAGER, LAZY, SERIES, TREE, Workload, concurrent


@pytest.mark.parametrize(("late", "delays"), [(0.0, (0, 2)), (0.5, (0, 2)), (0.9, (4, 6))])
def test_all_techniques_give_what_a_loop_gives(late: float, delays: tuple[float, float]) -> None:
    load, windows = Workload.of(120_000, late=late, delays=delays), concurrent(3)
    expected: dict[tuple[str, int], int] = {}
    for name, window in windows.items():
        wids = load.ts // window.size
        expected.update({(name, int(w)): int(load.values[wids == w].sum()) for w in np.unique(wids)})
    assert load.by_slices(dict(windows), "lazy") == load.by_slices(dict(windows), "eager") == expected
    for technique in (BUCKETS, TREE, BUFFER):
        assert load.by_peer(technique, windows) == expected, technique


def outcome(figure: Figure, x: str, places: list[int], by: dict[str, list[float]]) -> str:
    rows = [
        {"series": name, x: place, "rate": rate}
        for name in SERIES
        for place, rate in zip(places, by[name], strict=True)
    ]
    return figure.judge(Measured.of(rows)).outcome


def test_concurrent_windows() -> None:
    good = {LAZY: [40.0, 35.0], EAGER: [38.0, 33.0], BUCKETS: [40.0, 0.1], TREE: [1.0, 1.0], BUFFER: [3.0, 0.2]}
    for figure in (throughput.FIG_13, throughput.FIG_14):
        assert outcome(figure, "windows", [1, 1000], good) == "holds"
        for change in ({LAZY: [40.0, 9.0]}, {BUCKETS: [40.0, 9.0]}, {TREE: [9.0, 9.0]}):
            assert outcome(figure, "windows", [1, 1000], {**good, **change}) == "does not hold"
    assert outcome(throughput.FIG_14, "windows", [1, 1000], {**good, EAGER: [38.0, 60.0]}) == "does not hold"


def test_disorder() -> None:
    flat = {LAZY: [40.0, 35.0], EAGER: [38.0, 33.0], BUCKETS: [40.0, 39.0]}
    share = {**flat, TREE: [9.0, 1.0], BUFFER: [9.0, 2.0]}
    assert outcome(throughput.FIG_17A, "late", [10, 90], share) == "holds"
    assert outcome(throughput.FIG_17A, "late", [10, 90], {**share, EAGER: [38.0, 9.0]}) == "does not hold"
    assert outcome(throughput.FIG_17A, "late", [10, 90], {**share, BUFFER: [9.0, 9.0]}) == "does not hold"
    delay = {**flat, TREE: [2.0, 1.5], BUFFER: [9.0, 2.0]}
    assert outcome(throughput.FIG_17B, "delay", [1, 9], delay) == "holds"
    assert outcome(throughput.FIG_17B, "delay", [1, 9], {**delay, TREE: [2.0, 0.5]}) == "does not hold"
    assert outcome(throughput.FIG_17B, "delay", [1, 9], {**delay, BUFFER: [9.0, 8.0]}) == "does not hold"


def test_functions() -> None:
    names = [*throughput.ALGEBRAIC, *throughput.HOLISTIC]

    def judged(small: float, large: float) -> str:
        rates = [*[10.0] * (len(throughput.ALGEBRAIC) - 1), small, large, large]
        rows = [{"series": LAZY, "function": name, "rate": rate} for name, rate in zip(names, rates, strict=True)]
        return throughput.FIG_18.judge(Measured.of(rows)).outcome

    assert judged(8.0, 2.0) == "holds"
    assert judged(3.0, 1.0) == judged(8.0, 7.0) == "does not hold"
