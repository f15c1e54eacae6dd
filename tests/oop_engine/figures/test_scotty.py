"""The figures of Scotty: techniques agree with a loop, and verdicts follow made-up numbers both ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.figures.figure import Figure, Measured
from oop_engine.figures.kernels import peers
from oop_engine.figures.scotty import (
    functions,
    holistic,
    latency,
    measures,
    memory,
    parallel,
    splits,
    systems,
    throughput,
)
from oop_engine.figures.scotty.holistic import Ranked
from oop_engine.figures.scotty.workload import BUCKETS, BUFFER, EAGER, LAZY, SERIES, TREE, Workload, concurrent
from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema


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


def test_all_functions_give_what_a_loop_gives_in_slices_and_buckets() -> None:
    load, windows = Workload.of(60_000, late=0.5), concurrent(2)
    found = load.results(windows, {"n": fn.count(), "median": fn.median("v")})
    expected: dict[tuple[str, int], tuple[str, str]] = {}
    for name, window in windows.items():
        for wid in np.unique(load.ts // window.size):
            own = np.sort(load.values[load.ts // window.size == wid])
            expected[name, int(wid)] = str(len(own)), str(own[(len(own) - 1) // 2])
    assert found == {LAZY: expected, EAGER: expected, BUCKETS: expected}


def test_functions_over_windows_of_a_count_give_what_a_loop_gives() -> None:
    load = Workload.of(6_000, late=0.5)
    ordered = load.values[np.argsort(load.ts)]
    windows = {wid: ordered[: (wid + 1) * 2_000] for wid in range(3)}
    naive = {
        "sum": lambda own: int(own.sum()), "median": lambda own: int(np.sort(own)[(len(own) - 1) // 2]),
        functions.INVERT: lambda own: int(own.sum()), functions.NO_INVERT: lambda own: int(own.sum()),
    }  # fmt: skip
    for name, loop in naive.items():
        for make in functions.operators(functions.functions()[name]).values():
            assert functions.results(load, make) == {wid: str(loop(own)) for wid, own in windows.items()}, name


def test_functions_over_windows_of_a_count() -> None:
    def judged(small: float = 5.0, large: float = 2.0, inverse: float = 12.0, other: float = 5.0) -> str:
        count = dict.fromkeys(throughput.ALGEBRAIC, small) | dict.fromkeys(throughput.HOLISTIC, large)
        count |= {functions.INVERT: inverse, functions.NO_INVERT: other}
        series = {functions.TIME: dict.fromkeys(count, 15.0), functions.COUNT: count}
        rows = [{"series": s, "function": f, "rate": rate} for s, own in series.items() for f, rate in own.items()]
        return functions.FIG_18_COUNT.judge(Measured.of(rows)).outcome

    assert judged() == "holds"
    assert judged(small=16.0) == judged(large=4.0) == judged(inverse=6.0) == judged(other=16.0) == "does not hold"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 3)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 9),
)
def test_a_buffer_sums_windows_of_a_count_as_a_loop_does(
    tuples: list[tuple[int, int]], size: int, slide: int, page: int
) -> None:
    ts, values = (np.array(column, np.int64) for column in zip(*tuples, strict=True))
    stops = np.append(np.arange(page, len(ts), page), len(ts))
    # What may still come is not before the least tick of the tuples behind a page; all is final at the end.
    bounds = np.array([int(ts[stop:].min(initial=99)) for stop in stops])
    found = np.zeros(len(ts) // slide, np.int64)
    peers.counted_buffer(ts, values, stops, bounds, size, slide, found)
    ordered = values[np.argsort(ts, kind="stable")]
    ends = range(slide, len(ts) + 1, slide)
    assert found.tolist() == [int(ordered[max(0, end - size) : end].sum()) for end in ends]


@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_ranks_are_those_of_a_loop(windows: int, share: float) -> None:
    values = np.random.default_rng(3).integers(0, 9, 600)
    whole = Page.of(Schema.of(v=pa.int64()), {"v": values})
    ranked = Ranked.of("v", share, windows, 12, [whole.slice(start, start + 100) for start in range(0, 600, 100)])
    places = np.concatenate(ranked.places)
    own = [np.sort(values[(places <= end) & (places > end - windows)]) for end in range(12)]
    expected = [int(each[int(np.ceil(share * len(each))) - 1]) for each in own]
    for way in (ranked.by_slices, ranked.by_buckets, ranked.by_arrays, ranked.by_buffer):
        assert way() == expected, way.__name__


def test_both_parts_of_a_split_are_those_of_their_tuples() -> None:
    page = Page.of(Schema.of(v=pa.int64()), {"v": [5, 1, 2, 9, 7]})
    found = {name: splits.split(function, page, 2) for name, function in splits.FUNCTIONS.items()}
    assert found == {"sum": [6, 18], "median": [1, 7]}


@pytest.mark.parametrize(("technique", "size"), [(memory.by_time, 4), (memory.by_count, 12)])
def test_what_is_held_answers_windows_as_a_loop_does(
    technique: Callable[[int, int], dict[str, memory.Held]], size: int
) -> None:
    held = technique(120, 30)
    values = np.random.default_rng(1)
    ts, v = values.permutation(120), values.integers(1, 1_000, 120)
    ordered = v[np.argsort(ts)]
    expected = {w: int(ordered[max(0, end - size) : end].sum()) for w, end in enumerate(range(4, 120 + size, 4))}
    if technique is memory.by_time:
        expected = {w: total for w, total in expected.items() if w < 30}
    for name, (sums, nbytes) in held.items():
        assert (sums, nbytes > 0) == (expected, True), name


def judged(figure: Figure, x: str, places: list[float], ys: dict[str, dict[str, list[float]]], **more: object) -> str:
    """Judge series by the values of each axis."""
    rows = [
        {"series": name, x: place, **{y: values[at] for y, values in by.items()}, **more}
        for name, by in ys.items()
        for at, place in enumerate(places)
    ]
    return figure.judge(Measured.of(rows)).outcome


def test_memory() -> None:
    grows, stays = {"bytes": [1e4, 1e5, 1e6]}, {"bytes": [1e6, 1e6, 1.1e6]}
    places = [10.0, 100.0, 1000.0]
    slices = {LAZY: grows, EAGER: grows, BUCKETS: grows, TREE: stays, BUFFER: stays}
    assert judged(memory.FIG_15A, "slices", places, slices) == "holds"
    assert judged(memory.FIG_15A, "slices", places, {**slices, LAZY: stays}) == "does not hold"
    assert judged(memory.FIG_15A, "slices", places, {**slices, TREE: grows}) == "does not hold"
    # The whole range counts, not its last step alone.
    late = {"bytes": [1e5, 1e5, 1e6]}
    assert judged(memory.FIG_15A, "slices", places, {**slices, LAZY: late}) == "does not hold"
    tuples = {LAZY: stays, EAGER: stays, BUCKETS: stays, TREE: grows, BUFFER: grows}
    assert judged(memory.FIG_15B, "tuples", places, tuples) == "holds"
    assert judged(memory.FIG_15B, "tuples", places, {**tuples, EAGER: grows}) == "does not hold"
    counts = {memory.SLICING: stays, BUCKETS: grows, BUFFER: stays}
    assert judged(memory.FIG_15C, "slices", places, counts) == "holds"
    assert judged(memory.FIG_15C, "slices", places, {**counts, BUCKETS: stays}) == "does not hold"
    assert judged(memory.FIG_15D, "tuples", places, dict.fromkeys(counts, grows)) == "holds"
    assert judged(memory.FIG_15D, "tuples", places, {**dict.fromkeys(counts, grows), BUFFER: stays}) == "does not hold"


def test_latency() -> None:
    def spent(*values: float) -> dict[str, dict[str, list[float]]]:
        names = (BUCKETS, EAGER, LAZY, BUFFER)
        return {name: {y: [1.0, v] for y in latency.FUNCTIONS} for name, v in zip(names, values, strict=True)}

    assert judged(latency.FIG_16, "entries", [1, 1000], spent(1, 5, 200, 900)) == "holds"
    for values in ((6, 5, 200, 900), (1, 250, 200, 900), (1, 250, 300, 200), (1, 5, 200, 1100)):
        assert judged(latency.FIG_16, "entries", [1, 1000], spent(*values)) == "does not hold"


def test_holistic_functions() -> None:
    def rates(slicing: float, other: float, few: float) -> dict[str, dict[str, list[float]]]:
        own = {column: [1.0, few if "machine" in column else slicing] for column in holistic.COLUMNS}
        others = {column: [9.0, other] for column in holistic.COLUMNS}
        return {holistic.SLICING: own, BUCKETS: others, BUFFER: others}

    assert judged(holistic.FIG_19, "windows", [1, 20], rates(5, 2, 6)) == "holds"
    assert judged(holistic.FIG_19, "windows", [1, 20], rates(5, 5.5, 6)) == "does not hold"
    assert judged(holistic.FIG_19, "windows", [1, 20], rates(5, 2, 4)) == "does not hold"


def test_splits_measures_threads_and_systems() -> None:
    def by(y: str, **values: list[float]) -> dict[str, dict[str, list[float]]]:
        return {name.replace("_", " "): {y: own} for name, own in values.items()}

    assert judged(splits.FIG_20, "tuples", [100, 1000], by("time", sum=[1, 10], median=[2, 30])) == "holds"
    assert judged(splits.FIG_20, "tuples", [100, 1000], by("time", sum=[1, 30], median=[2, 30])) == "does not hold"
    flat_first = by("time", sum=[5, 8, 80], median=[2, 30, 300])
    assert judged(splits.FIG_20, "tuples", [100, 1000, 10_000], flat_first) == "does not hold"

    def windows(time: float, few: float, many: float, buffer: float) -> str:
        ys = {measures.TIME: [10.0, 9.0, time], measures.COUNT: [4.0, few, many]}
        rates = {name: {"rate": own} for name, own in {**ys, measures.COUNTED_BUFFER: [3.0, 2.0, buffer]}.items()}
        return judged(measures.FIG_21, "windows", [1, 40, 1000], rates)

    assert windows(8, 3, 1, 0.1) == "holds"
    others = windows(4, 3, 1, 0.1), windows(8, 1, 0.9, 0.09), windows(8, 3, 3.5, 0.1), windows(8, 3, 1, 0.2)
    assert set(others) == {"does not hold"}

    def threads(slicing: list[float], buckets: list[float], cores: int) -> str:
        rates = {parallel.SLICING: {"rate": slicing}, BUCKETS: {"rate": buckets}}
        return judged(parallel.FIG_22, "threads", [1, 2], rates, cores=cores, start=50.0)

    assert threads([10, 19], [1, 1.8], 2) == "holds"
    assert threads([10, 12], [1, 1.8], 2) == threads([10, 19], [1.5, 2.8], 2) == "does not hold"
    assert threads([10, 12], [1, 1.8], 1) == "not comparable"

    own = by("percent", slicing=[100, 90], a_query_for_each_window=[105, 9])
    assert judged(systems.FIG_23, "windows", [1, 50], own, start=50.0) == "holds"
    for worse in ([200, 9], [100, 95]):
        changed = {**own, systems.APART: {"percent": [float(each) for each in worse]}}
        assert judged(systems.FIG_23, "windows", [1, 50], changed, start=50.0) == "does not hold"
