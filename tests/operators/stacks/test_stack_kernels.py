"""Every technique finds what looking at each window finds, plain or over panes, whatever was asked in one call."""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.figures.kernels import textbook
from operators.kernels.stacks import floating as stacks_floating
from operators.kernels.stacks import least as stacks_least
from operators.kernels.stacks import panes as stacks_panes
from operators.kernels.stacks import whole as stacks_whole
from operators.kernels.stacks.techniques import ONE, Columns, techniques
from operators.window import SlidingWindow
from operators.window_aggregate.stores.stacks.panes import Panes
from tests.benchmarks import bench_stacks
from tests.naive_stacks import naive_panes, naive_ranges

TECHNIQUES = ("recompute", "subtract", "two_stacks", "daba")
Array = npt.NDArray[np.generic]
Ranges = list[tuple[int, int]]

whole_numbers = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62) - 1])


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Ranges, bool, int]:
    """Give windows that move forward, whether they are steady, and how many values they need."""
    steady = draw(st.booleans())
    if steady:
        head, length, count = draw(st.integers(0, 2)), draw(st.integers(1, 6)), draw(st.integers(0, 14))
        return [(head + i, head + i + length) for i in range(count)], True, head + length + count
    found: Ranges = []
    head = tail = 0
    for _ in range(draw(st.integers(0, 14))):
        head += draw(st.sampled_from([0, 1, 1, 1, 2, 4]))
        tail = builtins.max(tail + draw(st.sampled_from([0, 1, 1, 1, 2, 5])), head + 1)
        found.append((head, tail))
    return found, False, tail


def parts(windows: Ranges, cuts: Sequence[int]) -> list[Ranges]:
    """Cut a list of windows at these places."""
    places = [0, *sorted(cut % (len(windows) + 1) for cut in cuts), len(windows)]
    return [windows[a:b] for a, b in itertools.pairwise(places)]


def stepped(
    kernel: Callable[..., None], panes: Array, kept: Array, windows: Sequence[Ranges], steady: bool
) -> list[list[object]]:
    """Answer windows, one call a list, and give the answers' columns."""
    marks = np.zeros(6, np.int64)
    found: list[Array] = [np.empty((len(panes), 0), panes.dtype)]
    with np.errstate(over="ignore", invalid="ignore"):
        for some in windows:
            heads, tails = (np.array([w[end] for w in some], np.int64) for end in (0, 1))
            out = np.empty((len(panes), len(some)), panes.dtype)
            kernel(panes, heads, tails, steady, marks, kept, out)
            found.append(out)
    return np.concatenate(found, axis=1).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("technique", TECHNIQUES)
@given(drawn=ranges(), cuts=st.lists(st.integers(0, 20), max_size=3), data=st.data())
def test_the_least_of_every_window(
    technique: str, dtype: type[np.signedinteger], drawn: tuple[Ranges, bool, int], cuts: list[int], data: st.DataObject
) -> None:
    windows, steady, n = drawn
    values = data.draw(st.lists(st.integers(0, 5) | st.just(np.iinfo(dtype).max), min_size=n, max_size=n))
    kept = np.full(3, np.iinfo(dtype).max, dtype)
    panes = np.array([values], dtype)
    (found,) = stepped(getattr(stacks_least, technique), panes, kept, parts(windows, cuts), steady)
    assert found == naive_ranges(values, *split(windows), builtins.min)


@pytest.mark.parametrize("technique", TECHNIQUES)
@given(drawn=ranges(), cuts=st.lists(st.integers(0, 20), max_size=3), data=st.data())
def test_whole_sums_are_exact_beyond_64_bits(
    technique: str, drawn: tuple[Ranges, bool, int], cuts: list[int], data: st.DataObject
) -> None:
    windows, steady, n = drawn
    values = data.draw(st.lists(whole_numbers, min_size=n, max_size=n))
    panes = np.array([values, [v >> 63 for v in values]], np.int64).reshape(2, n)
    kernel = getattr(stacks_whole, technique)
    low, high = stepped(kernel, panes, np.zeros(4, np.int64), parts(windows, cuts), steady)
    assert [(int(h) << 64) + (int(x) % 2**64) for x, h in zip(low, high, strict=True)] == naive_ranges(  # type: ignore[call-overload]
        values, *split(windows), builtins.sum
    )


@pytest.mark.parametrize("technique", TECHNIQUES)
@given(drawn=ranges(), cuts=st.lists(st.integers(0, 20), max_size=3), data=st.data())
def test_floating_sums_lose_nothing_that_two_numbers_can_hold(
    technique: str, drawn: tuple[Ranges, bool, int], cuts: list[int], data: st.DataObject
) -> None:
    windows, steady, n = drawn
    values = data.draw(st.lists(st.sampled_from([0.0, 1.0, -2.5, 1e16, -1e16, 0.5]), min_size=n, max_size=n))
    panes = np.array([values, [0.0] * n], np.float64).reshape(2, n)
    kernel = getattr(stacks_floating, technique)
    found = stepped(kernel, panes, np.zeros(4), parts(windows, cuts), steady)
    sums = np.empty(len(windows))
    stacks_floating.settle(np.array(found, np.float64).reshape(2, -1), sums)
    assert sums.tolist() == naive_ranges(values, *split(windows), lambda some: float(builtins.sum(map(Fraction, some))))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_what_is_infinite_or_undefined_leaves_with_its_pane(technique: str) -> None:
    values = [1.0, np.inf, 2.0, -np.inf, np.nan, 3.0, 1e308, 1e308, -1e308, 4.0]
    windows = [(i, i + 2) for i in range(9)]
    panes = np.array([values, [0.0] * 10])
    found = stepped(getattr(stacks_floating, technique), panes, np.zeros(4), [windows], True)
    sums = np.empty(9)
    stacks_floating.settle(np.array(found), sums)
    expected = [np.inf, np.inf, -np.inf, np.nan, np.nan, 1e308, np.inf, 0.0, -1e308]
    np.testing.assert_array_equal(sums, expected)


def test_a_subtracted_sum_drifts_where_the_others_do_not() -> None:
    panes = np.array([[1e300, 1e280, 0.1], [0.0] * 3])
    windows: Ranges = [(0, 3), (2, 3)]
    for technique in TECHNIQUES:
        sums = np.empty(2)
        found = stepped(getattr(stacks_floating, technique), panes.copy(), np.zeros(4), [windows], False)
        stacks_floating.settle(np.array(found), sums)
        assert sums[1] == (0.0 if technique == "subtract" else 0.1)


@given(drawn=ranges(), data=st.data())
def test_the_textbook_forms_agree(drawn: tuple[Ranges, bool, int], data: st.DataObject) -> None:
    windows, _, n = drawn
    numbers = data.draw(st.lists(st.integers(-3, 3), min_size=n + 1, max_size=n + 1))
    heads, tails = (np.array(end, np.int64) for end in split(windows))
    room = builtins.max([t - h for h, t in windows], default=1)
    for dtype in (np.int32, np.float64):
        values = np.array(numbers, dtype)
        for technique in (*TECHNIQUES, "scan", "minimal") if windows else ():
            found = np.empty(len(windows), dtype)
            getattr(textbook, f"{technique}_least")(values, heads, tails, room, found)
            assert found.tolist() == naive_ranges(numbers, *split(windows), builtins.min), technique
            if technique == "minimal":
                continue
            found = np.zeros(len(windows), np.int64 if dtype is np.int32 else np.float64)
            getattr(textbook, f"{technique}_sum")(values, heads, tails, room, found)
            assert found.tolist() == naive_ranges(numbers, *split(windows), builtins.sum), technique


@given(drawn=ranges(), cuts=st.lists(st.integers(0, 20), max_size=3), data=st.data())
def test_a_front_of_runs_agrees(drawn: tuple[Ranges, bool, int], cuts: list[int], data: st.DataObject) -> None:
    windows, _, n = drawn
    values = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    panes, marks, kept = np.array([values], np.int64), np.zeros(3, np.int64), np.full(2, 2**63 - 1)
    keys, ends = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    found: list[int] = []
    for some in parts(windows, cuts):
        heads, tails = (np.array(end, np.int64) for end in split(some))
        out = np.empty((1, len(some)), np.int64)
        textbook.two_stacks_runs(panes, heads, tails, marks, kept, keys, ends, out)
        found += out[0].tolist()
    assert found == naive_ranges(values, *split(windows), builtins.min)


@given(
    st.lists(st.sampled_from([0, 0, 1, 1, 1, 2, 3, 9, 40]), min_size=1, max_size=30)
    | st.integers(1, 30).map(lambda n: [1] * n),
    st.builds(SlidingWindow, st.just("ts"), size=st.integers(1, 7), slide=st.integers(1, 5), origin=st.integers(-2, 2)),
    st.integers(1, 40),
    st.integers(-9, 3),
)
def test_panes_are_the_runs_of_tuples_in_the_same_windows(
    steps: list[int], window: SlidingWindow, most: int, begin: int
) -> None:
    values = np.cumsum(np.array(steps)) + begin
    panes, at = Panes(window), 0
    found: list[tuple[int, int]] = []
    gap = 0
    while at < len(values):
        cut = panes.cut(values, at, most)
        pieces = list(zip(cut.begins.tolist(), cut.stops.tolist(), strict=True))
        if cut.at < cut.fresh and pieces:
            # The first piece goes on with the pane before.
            found[-1] = (found[-1][0], pieces.pop(0)[1])
        found += pieces
        at, gap = cut.end, gap + cut.in_no_window
    expected = naive_panes(window, values.tolist())
    assert found == [pane[2:] for pane in expected]
    assert gap == len(values) - builtins.sum(stop - start for start, stop in found)

    bound = builtins.max([last for _, last, *_ in expected], default=0)
    listed: list[tuple[int, int, int]] = []
    wid = -(2**63)
    while wid < bound:
        spans, wid = panes.spans(wid, bound, most)
        listed += zip(spans.wids.tolist(), spans.heads.tolist(), spans.tails.tolist(), strict=True)
        assert not spans.steady or ((np.diff(spans.heads) == 1).all() and (np.diff(spans.tails) == 1).all())
    members = {
        w: [i for i, (first, last, *_) in enumerate(expected) if first <= w < last]
        for w in window.windows(values).tolist()
    }
    assert listed == [(w, held[0], held[-1] + 1) for w, held in members.items()]


@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(-3, 3))
def test_the_first_value_out_of_order_is_found(values: list[int], least: int) -> None:
    floors = [least, *(builtins.max(least, *values[:i]) for i in range(1, len(values)))]
    falls = [i for i, (value, floor) in enumerate(zip(values, floors, strict=False)) if value < floor]
    assert stacks_panes.first_below(np.array(values, np.int64), least) == (falls[0] if falls else -1)


def split(windows: Ranges) -> tuple[list[int], list[int]]:
    """Give the heads and the tails."""
    return [head for head, _ in windows], [tail for _, tail in windows]


def test_the_benchmark_prints_how_long_a_window_takes_at_p50_p99_and_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_stacks, "stepwise", getattr(bench_stacks.stepwise, "py_func", bench_stacks.stepwise))
    bench_stacks.latency(sizes=(32,), more=40, runs=2)
    _, *lines = capsys.readouterr().out.splitlines()
    said = re.compile(r"window +32 (\w+) +p50 +(\d+) p99 +(\d+) p99.99 +\d+ max +(\d+) .* over 104 windows")
    found = [said.fullmatch(line) for line in lines]
    assert [one and one[1] for one in found] == ["two_stacks", "daba"]
    assert all(one and 0 < int(one[2]) <= int(one[3]) <= int(one[4]) for one in found)


RUNS: dict[str, Callable[[int], npt.NDArray[np.int64]]] = {
    "rising": lambda n: np.arange(n),
    "falling": lambda n: -np.arange(n),
    "random": lambda n: np.arange(n) * 37 % 101,
}
"""Values of which the least leaves with each pane, with none, and with some."""


def combinations(
    monkeypatch: pytest.MonkeyPatch, technique: str, values: npt.NDArray[np.int64], size: int, slide: int
) -> tuple[int, list[int]]:
    """Count how often two values are compared: while slides become panes, and for each window of `size` tuples."""
    counts = [0]

    def counted(one: int, other: int) -> int:
        counts[0] += 1
        return builtins.min(one, other)

    monkeypatch.setattr(stacks_least, "min", counted, raising=False)
    kernel = stacks_least.subtract
    if technique != "subtract":
        columns = Columns(*map(interpreted, ONE))
        made = techniques(columns, lambda one, other: (counted(one[0], other[0]),), lambda kept: (kept[1],))
        kernel = getattr(made, technique)
    most = np.iinfo(np.int64).max
    panes, begins = np.full((1, len(values) // slide), most), np.arange(0, len(values), slide)
    interpreted(stacks_least.lift_whole)(values, begins, begins + slide, np.int64(0), 0, panes)
    lifted, each = counts[0], list[int]()
    marks, kept, out = np.zeros(6, np.int64), np.full(3, most), np.empty((1, 1), np.int64)
    for head in range(panes.shape[1] - size // slide + 1):
        counts[0] = 0
        tail = head + size // slide
        interpreted(kernel)(panes, np.array([head]), np.array([tail]), True, marks, kept, out)
        assert out[0, 0] == values[head * slide : tail * slide].min()
        each.append(counts[0])
    return lifted, each


def interpreted(kernel: Callable[..., None]) -> Callable[..., None]:
    return getattr(kernel, "py_func", kernel)


@pytest.mark.parametrize("slide", [1, 4, 32])
@pytest.mark.parametrize("run", RUNS)
def test_two_stacks_combine_three_times_a_window_whatever_leaves_and_however_long_it_is(
    run: str, slide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, as clocks differ: a slide is compared once with what it becomes a pane of, and then as one value.

    Subtract-on-evict compares the whole window when its least value leaves: in the worst case with each slide.
    """
    values = RUNS[run](1_024)
    for size in (32, 128):
        panes = size // slide
        lifted, two = combinations(monkeypatch, "two_stacks", values, size, slide)
        assert lifted == len(values)
        assert builtins.sum(two) <= 3 * (len(two) + panes)
        _, looked = combinations(monkeypatch, "recompute", values, size, slide)
        assert looked == [panes] * len(looked)
        _, evicted = combinations(monkeypatch, "subtract", values, size, slide)
        if run == "rising":
            assert builtins.min(evicted) >= panes
        if run == "falling" and panes > 1:
            assert builtins.max(evicted[1:]) == 1


@pytest.mark.parametrize("run", RUNS)
def test_no_window_waits_for_a_flip_of_the_de_amortised_banker_s_aggregator(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stacks turn over as many panes at once as a window has; the other technique never more than a few."""
    values = RUNS[run](1_024)
    for size in (32, 128):
        _, two = combinations(monkeypatch, "two_stacks", values, size, 1)
        _, daba = combinations(monkeypatch, "daba", values, size, 1)
        assert builtins.max(two[1:]) >= size
        assert builtins.max(daba[1:]) <= 6
        assert builtins.sum(daba[1:]) <= 5 * len(daba)
