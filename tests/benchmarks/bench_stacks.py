"""Windows of a stream in order on stacks: the tables and figures of Hammer Slide, with kernels and operator apart.

    python tests/benchmarks/bench_stacks.py [what ...]

what: targets operator window slide worst runs latency memory bursts vectors; all of them when none is named. Kernels
run in a compiled loop over pages of tuples in memory: cut into panes, lift, find windows, answer. The operator also
checks the order of every tuple, and makes Arrow pages with window-ids and bounds. Figures are M tuples/s of the time of
the one thread at work, medians of interleaved runs.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from time import thread_time
from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import textbook_stacks

from operators import functions
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction
from operators.kernels.stacks import floating as stacks_floating
from operators.kernels.stacks import least as stacks_least
from operators.kernels.stacks import panes as stacks_panes
from operators.kernels.stacks import whole as stacks_whole
from operators.protocol import Element, Operator
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.stacks import StackAggregate, Technique
from operators.window_aggregate.stores.stacks.kinds import LeastKey
from operators.window_aggregate.strategy import stack_technique as choose
from punctuation import END, before

Array: TypeAlias = npt.NDArray[np.generic]
Work: TypeAlias = Callable[[], object]
TECHNIQUES: tuple[Technique, ...] = ("recompute", "subtract", "two_stacks", "daba")
LARGEST = np.int32(2**31 - 1)
_cut, _spans = stacks_panes.cut, stacks_panes.spans


def timed(work: Work) -> float:
    start = thread_time()
    work()
    return thread_time() - start


def medians(works: Mapping[str, Work], runs: int = 5) -> dict[str, float]:
    """Time each piece of work, interleaved, after a run that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(runs):
        for name, work in works.items():
            seconds[name].append(timed(work))
    return {name: median(each) for name, each in seconds.items()}


def rate(n: int, work: Work, runs: int = 5) -> float:
    """Give M tuples/s."""
    return n / medians({"": work}, runs)[""] / 1e6


def integers(n: int, distinct: int = 1 << 30, dtype: type[np.generic] = np.int32) -> Array:
    return np.random.default_rng(1).integers(0, distinct, n).astype(dtype)


@numba.njit(nogil=True)
def replay(rows, values, page, size, slide, lift, how, step, kept, identity, width, out):  # type: ignore[no-untyped-def]
    """Run pages of numbered rows through panes and one technique; gives the number of windows."""
    room = page + 4 * (size // slide + 2) + 4
    units = np.empty(room, np.int64)
    panes = np.empty((width, room), kept.dtype)
    begins, stops = np.empty(page, np.int64), np.empty(page, np.int64)
    wids, heads, tails = np.empty(page, np.int64), np.empty(page, np.int64), np.empty(page, np.int64)
    marks, ends = np.zeros(6, np.int64), np.zeros(2, np.int64)
    high, windows = 0, 0
    wid = -(2**62)
    for at in range(0, len(rows), page):
        row, value = rows[at : at + page], values[at : at + page]
        if high + page > room:
            # Panes from the last window on; a technique may still hold those that have just left.
            low = ends[0]
            units[: high - low] = units[low:high].copy()
            for column in range(width):
                panes[column, : high - low] = panes[column, low:high].copy()
            high -= low
            marks -= low
            ends -= low
        unit = row[0] // slide + (row[0] + size) // slide - size // slide
        into = high - 1 if high > 0 and units[high - 1] == unit else high
        made, _, _ = _cut(row, 0, size, slide, 0, begins, stops, units[into:])
        for column in range(width):
            panes[column, high : into + made] = identity
        lift(value, begins[:made], stops[:made], how, into, panes)
        high = into + made
        n, wid, steady = _spans(units[:high], size, slide, wid, row[-1] // slide, ends, wids, heads, tails)
        step(panes, heads[:n], tails[:n], steady, marks, kept, out)
        windows += n
    return windows


def replayed(technique: str, what: str, values: Array, rows: Array, page: int, size: int, slide: int) -> object:
    """Run `replay` for min or sum."""
    if what == "sum" and values.dtype.kind == "f":
        how, kept, out, zero = np.empty((2, stacks_floating.LANES)), np.zeros(4), np.empty((2, page)), np.float64(0)
        step = getattr(stacks_floating, technique)
        return replay(rows, values, page, size, slide, stacks_floating.lift, how, step, kept, zero, 2, out)
    if what == "sum":
        step, none, out = getattr(stacks_whole, technique), np.int64(0), np.empty((2, page), np.int64)
        kept = np.zeros(4, np.int64)
        return replay(rows, values, page, size, slide, stacks_whole.lift, np.int64(-1), step, kept, none, 2, out)
    least = LeastKey("v", pa.from_numpy_dtype(values.dtype), False)
    step, kept, out = getattr(stacks_least, technique), least.kept(), np.empty((1, page), least.dtype)
    floating = values.dtype.kind == "f"
    lift, how = (stacks_least.lift_floating, least.layout) if floating else (stacks_least.lift_whole, least.turn)
    return replay(
        rows, values.view(least.dtype), page, size, slide, lift, how, step, kept, least.identity, 1, out
    )  # fmt: skip


def plain(technique: str, what: str, values: Array, size: int, slide: int) -> Work:
    """Give a run of a textbook form over all values, without partial windows."""
    heads = np.arange(0, len(values) - size + 1, slide)
    kernel = getattr(textbook_stacks, f"{technique}_{'least' if what == 'min' else 'sum'}")
    found = np.zeros(len(heads), values.dtype if what == "min" else np.int64)
    return partial(kernel, values, heads, heads + size, size, found)


def paged(columns: Mapping[str, Array], page: int, progress: str) -> list[Page]:
    types = {name: pa.from_numpy_dtype(column.dtype) for name, column in columns.items()}
    whole = Page.of(Schema.of(**types, progress=[progress]), columns)
    return [whole.slice(at, min(at + page, len(whole))) for at in range(0, len(whole), page)]


def driven(make: Callable[[], Operator], elements: Sequence[Element]) -> Operator:
    operator = make()
    for element in elements:
        if isinstance(element, Page):
            operator.process(element, _nothing)
        else:
            operator.punctuate(element, _nothing)
    return operator


def _nothing(element: Element) -> None:
    pass


def by_buckets(window: SlidingWindow, aggregates: Mapping[str, AggregateFunction]) -> Operator:
    return Chain([Bucket(window), WindowAggregate(window, aggregates)])


def targets() -> None:
    """Print the issue's table: min, window 1024, at slide 1, 64 and 1024."""
    n = 1 << 24
    rows = np.arange(n)
    print(f"min, window 1024, two stacks over panes, {n:,} tuples in memory; wanted: 150, 1000, 2000")
    print(f"{'':24}" + "".join(f"  slide {slide:<5}" for slide in (1, 64, 1024)))
    for dtype in (np.int32, np.int64, np.float32, np.float64):
        values = integers(n, dtype=dtype)
        for page in (8192, 65536, 262_144, 1 << 20):
            line = f"{np.dtype(dtype).name:7} pages of {page:<7}"
            for slide_ in (1, 64, 1024):
                work = partial(replayed, "two_stacks", "min", values, rows, page, 1024, slide_)
                line += f"{rate(n, work):11.0f}  "
            print(line, flush=True)


def operator() -> None:
    """Print what the whole operator does, beside Bucket and WindowAggregate with a promise a page."""
    print("operator, window 1024, one aggregate of v; last: min(int32) by Bucket and WindowAggregate")
    for slide_ in (1, 64, 1024):
        window_ = SlidingWindow("row_num", size=1024, slide=slide_)
        for page in (8192, 65536, 262_144, 1 << 20):
            n = 1 << 23 if page > 8192 else 1 << 22
            line = f"slide {slide_:<5} pages of {page:<8}"
            for name in ("min", "sum"):
                for dtype in (np.int32, np.int64, np.float64):
                    pages = paged({"row_num": np.arange(n), "v": integers(n, dtype=dtype)}, page, "row_num")
                    make = partial(StackAggregate, window_, {"x": functions.by_name(name, ["v"])})
                    line += f" {name} {np.dtype(dtype).name} {rate(n, partial(driven, make, pages), 3):5.0f}"
            m = 1 << 17 if slide_ == 1 else 1 << 20
            pages = paged({"row_num": np.arange(m), "v": integers(m)}, page, "row_num")
            elements = [e for p in pages for e in (p, before("row_num", int(p["row_num"][-1]) + 1))]
            make = partial(by_buckets, window_, {"x": functions.min("v")})
            print(f"{line}   | {rate(m, partial(driven, make, elements), 1):5.1f}", flush=True)


def sweep(what: str, points: Sequence[tuple[int, int]], label: str) -> None:
    """Print one line a point (size, slide): every technique, plain and over panes."""
    names = [*(f"plain {technique}" for technique in TECHNIQUES), *TECHNIQUES]
    print(f"{label:>9}" + "".join(f"{name:>17}" for name in names) + "  two_stacks/best  auto/best")
    for size, slide_ in points:
        values = integers(max(1 << 20, 3 * size))
        rows = np.arange(len(values))
        apart = [name for name in names if name.startswith("plain") or (name == "recompute" and slide_ == 1)]
        rates = {name: swept(name, what, values, size, slide_) for name in apart}
        # What is compared by a few percent runs interleaved, many times: a busy machine moves single figures by half.
        works: dict[str, Work] = {
            name: partial(replayed, name, what, values, rows, 1 << 14, size, slide_)
            for name in names
            if name not in apart
        }
        took = medians(works, 41 if slide_ > 2 else 11)
        rates |= {name: len(values) / seconds / 1e6 for name, seconds in took.items()}
        figures = "".join(f"{rates[name]:17.1f}" for name in names)
        best, auto = (
            max(rates.values()),
            choose("auto", size, slide_, few=4 if what == "sum" else LeastKey.few, invertible_exactly=what == "sum"),
        )
        shares = f"{rates['two_stacks'] / best:17.2f}{rates[auto] / best:11.2f}"
        print(f"{size if label == 'window' else slide_:9}{figures}{shares}", flush=True)


def swept(name: str, what: str, values: Array, size: int, slide_: int) -> float:
    """Give one figure; what looks at whole windows gets as many as half a second allows."""
    technique = name.split()[-1]
    cost = (3e-10 if name == "recompute" and what == "min" else 1.5e-9) * size / slide_
    if technique == "recompute" and cost * (len(values) - size) > 0.5:
        values = values[: size + max(16, int(0.5 / cost / slide_)) * slide_]
    if name == "recompute" and slide_ == 1:
        # Every tuple is a pane; the partial windows, which `replay` begins with, are left out.
        kernel, wide = (stacks_least, values.dtype) if what == "min" else (stacks_whole, np.dtype(np.int64))
        heads, panes = np.arange(len(values) - size), np.zeros((2, len(values)), wide)
        panes[0] = values
        rest = (np.zeros(2, np.int64), panes[0, :4].copy(), np.empty((2, len(heads)), wide))
        return rate(len(heads), partial(kernel.recompute, panes, heads, heads + size, True, *rest), 3)
    begun, whole = plain(technique, what, values[:size], size, slide_), plain(technique, what, values, size, slide_)
    took = medians({"begun": begun, "whole": whole}, 3)
    return (len(values) - size) / max(took["whole"] - took["begun"], 1e-9) / 1e6


def window() -> None:
    """Print figures 4a, 9 and 10: slide 1, window 8 to 2 M."""
    sizes = [8, 64, 1024, 4096, 32768, 1 << 18, 1 << 21]
    print("Figures 4a and 10: min of int32, slide 1, by the size of the window")
    sweep("min", [(size, 1) for size in sizes], "window")
    print("Figure 9: sum of int32 (for the avg of the paper), slide 1")
    sweep("sum", [(size, 1) for size in sizes[:6]], "window")


def slide() -> None:
    """Print figures 6 and 7: window 1024, slide 1 to 1024."""
    for figure, what in ((7, "min"), (6, "sum")):
        print(f"Figure {figure}: {what} of int32, window 1024, by the slide")
        sweep(what, [(1024, 1 << i) for i in range(11)], "slide")


def worst() -> None:
    """Print figure 8: the fewer distinct values, the more evictions recompute; of rising values every one does."""
    print("Figure 8: min, window 1024, slide 1, by the number of distinct values; rising: every eviction recomputes")
    n = 1 << 18
    rows = np.arange(n)
    drawn = {f"{distinct:,}": integers(n, distinct) for distinct in (1 << 30, 1024, 64, 16)}
    for name, values in {**drawn, "rising": np.arange(n, dtype=np.int32)}.items():
        works: dict[str, Work] = {f"plain {t}": plain(t, "min", values, 1024, 1) for t in ("subtract", "two_stacks")}
        works |= {t: partial(replayed, t, "min", values, rows, 1 << 14, 1024, 1) for t in TECHNIQUES[1:]}
        figures = "  ".join(f"{t} {n / s / 1e6:6.1f}" for t, s in medians(works, 3).items())
        print(f"{name:>14}  {figures}", flush=True)


def runs() -> None:
    """Print the front stack in runs (RLE) beside the front stack as it is."""
    n = 1 << 14
    print(f"front stack run-length encoded, min of int32, slide 1, {n:,} windows")
    for size in (1024, 32768):
        for distinct in (64, 1 << 30):
            values, heads = integers(n + size, distinct), np.arange(n)
            keys, ends = np.empty(size, np.int32), np.empty(size, np.int64)

            def go(
                step: Callable[..., None],
                steady: tuple[bool, ...],
                front: tuple[Array, ...],
                values: Array,
                tails: Array,
            ) -> None:
                panes, out = values[None].copy(), np.empty((1, n), np.int32)
                step(panes, tails - size, tails, *steady, np.zeros(6, np.int64), np.full(3, LARGEST), *front, out)  # noqa: B023

            works = {
                "whole stretches": partial(go, stacks_least.two_stacks, (True,), (), values, heads + size),
                "window by window": partial(go, stacks_least.two_stacks, (False,), (), values, heads + size),
                "in runs": partial(go, textbook_stacks.two_stacks_runs, (), (keys, ends), values, heads + size),
            }
            took = medians(works, 51)
            figures = "  ".join(f"{name} {n / s / 1e6:5.0f}" for name, s in took.items())
            ratio = took["in runs"] / took["window by window"]
            print(f"window {size:6}, {distinct:>13,} distinct: {figures}; runs take {ratio:.2f} times window by window")


_clock = ctypes.CDLL(None).clock_gettime
_clock.argtypes = [ctypes.c_int, ctypes.c_void_p]


@numba.njit(nogil=True)
def stepwise(values, size, step, kept, took, spot):  # type: ignore[no-untyped-def]
    """Answer one window a call, and lower took[i] to the nanoseconds that the call for window i took."""
    panes = np.empty((1, 4 * size), values.dtype)
    panes[0, :size] = values[:size]
    marks, head, tail = np.zeros(6, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    out = np.empty((1, 1), values.dtype)
    base = 0
    for i in range(len(values) - size + 1):
        if i - base + size > 3 * size:
            shift = i - 1 - base
            panes[0, : size + 1] = panes[0, shift : shift + size + 1].copy()
            marks -= shift
            base += shift
        head[0], tail[0] = i - base, i - base + size
        panes[0, tail[0] - 1] = values[i + size - 1]
        _clock(1, spot.ctypes)
        start = spot[0] * 1000000000 + spot[1]
        step(panes, head, tail, True, marks, kept, out)
        _clock(1, spot.ctypes)
        took[i] = min(took[i], spot[0] * 1000000000 + spot[1] - start)


def latency() -> None:
    """Print what a single window costs; flips come at the same windows in each run, other delays do not."""
    print("latency of one window, min of int32, slide 1, in ns: the least of 9 runs (the clock itself takes some 25)")
    for size in (1024, 65536, 1 << 20):
        values = integers(3 * size + (1 << 16))
        for technique in ("two_stacks", "daba"):
            took, spot = np.full(len(values) - size + 1, 1 << 60), np.zeros(2, np.int64)
            for _ in range(9):
                stepwise(values, size, getattr(stacks_least, technique), np.full(3, LARGEST), took, spot)
            steps = np.sort(took[1:])
            p50, p99, p9999 = (steps[int(q * len(steps))] for q in (0.5, 0.99, 0.9999))
            print(
                f"window {size:8} {technique:11} p50 {p50:4} p99 {p99:4} p99.99 {p9999:5} max {steps[-1]:8} "
                f"mean {steps.mean():4.0f} over {len(steps):,} windows",
                flush=True,
            )


def memory() -> None:
    """Print what is held, against n values and n/l aggregates."""
    print("memory of min(int64), pages of 8,192: what is held after a page, the room for it, and n values + n/l keys")
    for size, slide_ in ((1024, 1), (1024, 64), (1024, 1024), (1000, 64), (1 << 20, 1024), (1 << 20, 1)):
        n = 3 * size + (1 << 17)
        pages = paged({"row_num": np.arange(n), "v": integers(n, dtype=np.int64)}, 8192, "row_num")
        window_ = SlidingWindow("row_num", size=size, slide=slide_)
        stack = driven(partial(StackAggregate, window_, {"x": functions.min("v")}), pages)
        assert isinstance(stack, StackAggregate)
        held, paper = stack.statistics(), 8 * (size + -(-size // slide_))
        print(
            f"window {size:8} slide {slide_:5}: {held['state_tuples']:8} panes, {16 * held['state_tuples']:9} bytes, "
            f"room {held['peak_state_bytes']:9}; paper {paper:9}"
        )


def bursts() -> None:
    """Print figure 11: windows of 64 s over a rate that jumps between 0 and 100,000 tuples a second."""
    random = np.random.default_rng(2)
    a_second = np.where(random.random(300) < 0.3, random.integers(0, 100_000, 300), random.integers(0, 2_000, 300))
    a_second[random.random(300) < 0.1] = 0
    seconds = np.repeat(np.arange(300), a_second)
    ts = np.sort(seconds * 1_000_000 + random.integers(0, 1_000_000, len(seconds)))
    values, pages = integers(len(ts)), paged({"ts": ts, "v": integers(len(ts))}, 1 << 16, "ts")
    print(
        f"Figure 11: over 64 s, {len(ts):,} tuples of int32 at 0 to {a_second.max():,}/s; plain forms know the windows"
    )
    for slide_ in (1, 2, 4, 8, 16, 32, 64):
        window_ = SlidingWindow("ts", size=64_000_000, slide=slide_ * 1_000_000)
        ends = np.arange(slide_, 301, slide_) * 1_000_000
        tails, heads = np.searchsorted(ts, ends), np.searchsorted(ts, ends - 64_000_000)
        heads, tails = heads[tails > heads], tails[tails > heads]
        room = int((tails - heads).max())
        works: dict[str, Work] = {}
        for what, kernel, dtype in (("avg", "sum", np.int64), ("min", "least", np.int32)):
            for t in ("recompute", "subtract", "two_stacks"):
                step = getattr(textbook_stacks, f"{t}_{kernel}")
                works[f"plain {t} {what}"] = partial(step, values, heads, tails, room, np.zeros(len(heads), dtype))
            for t in ("subtract", "two_stacks"):
                make = partial(StackAggregate, window_, {"x": functions.by_name(what, ["v"])}, technique=t)
                works[f"operator {t} {what}"] = partial(driven, make, [*pages, END])
        figures = "  ".join(f"{name} {len(ts) / s / 1e6:.0f}" for name, s in medians(works, 3).items())
        print(f"slide {slide_:3} s  {figures}", flush=True)


def vectors() -> None:
    """Print which wide instructions the loops compile to on this machine."""
    ints, floats, ends = integers(64), np.ones(64), np.array([0, 64])
    keys, sums, wide = np.zeros((1, 2), np.int32), np.zeros((2, 2)), np.zeros((2, 2), np.int64)
    layout = LeastKey("v", pa.float64(), False).layout
    calls: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (stacks_least.lift_whole, (ints, ends[:1], ends[1:], np.int32(0), 0, keys)),
        (stacks_least.lift_floating, (floats.view(np.int64), ends[:1], ends[1:], layout, 0, wide)),
        (stacks_least.recompute, (keys, ends[:1], ends[1:], False, ends, keys[0], keys)),
        (stacks_whole.lift, (ints, ends[:1], ends[1:], np.int64(-1), 0, wide)),
        (stacks_floating.lift, (floats, ends[:1], ends[1:], np.empty((2, stacks_floating.LANES)), 0, sums)),
        (stacks_panes.first_below, (np.arange(64), 0)),
    ]
    for kernel, arguments in calls:
        # A kernel from the cache has no listing, so it is compiled once more.
        fresh = numba.njit(nogil=True)(kernel.py_func)  # type: ignore[attr-defined]
        fresh(*arguments)
        (text,) = fresh.inspect_asm().values()
        found = re.findall(r"\b(v(?:pmins|padd|psra|addp|subp|pcmp)\w*)\b.*?%([yz])mm", text)
        print(f"{kernel.__module__.rsplit('.')[-1]}.{kernel.__name__}: ", end="")
        print(", ".join(sorted({f"{name} {width}mm" for name, width in found})) or "none")


SECTIONS = (targets, operator, window, slide, worst, runs, latency, memory, bursts, vectors)


def main(names: Sequence[str]) -> None:
    for section in SECTIONS:
        if not names or section.__name__ in names:
            section()
            print()


if __name__ == "__main__":
    main(sys.argv[1:])
