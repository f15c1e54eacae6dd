"""Windows of a stream in order on stacks: throughput of kernels and operator, latency, memory, instructions.

    python tests/benchmarks/bench_stacks.py [what ...]

what: targets operator latency memory vectors; all of them when none is named. `oop-engine figures hammer` has the
figures of the paper. Kernels run over pages of tuples in memory: cut into panes, lift, find windows, answer. The
operator also checks the order of every tuple, and makes Arrow pages with window-ids and bounds. Figures are M tuples/s
of the time of the one thread at work, medians of interleaved runs.
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

from oop_engine.figures.hammer.replay import Replay, integers
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
from operators.window_aggregate.stores.stacks import StackAggregate
from operators.window_aggregate.stores.stacks.kinds import LeastKey
from punctuation import before

Array: TypeAlias = npt.NDArray[np.generic]
Work: TypeAlias = Callable[[], object]
LARGEST = np.int32(2**31 - 1)


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
                work = partial(Replay("two_stacks", "min", 1024, slide_, page).run, rows, values)
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


def latency(sizes: Sequence[int] = (1024, 65536, 1 << 20), more: int = 1 << 16, runs: int = 9) -> None:
    """Print what a single window costs; flips come at the same windows in each run, other delays do not."""
    print(f"latency of one window, min of int32, slide 1, in ns: the least of {runs} runs (the clock takes some 25)")
    for size in sizes:
        values = integers(3 * size + more)
        for technique in ("two_stacks", "daba"):
            took, spot = np.full(len(values) - size + 1, 1 << 60), np.zeros(2, np.int64)
            for _ in range(runs):
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


SECTIONS = (targets, operator, latency, memory, vectors)


def main(names: Sequence[str]) -> None:
    for section in SECTIONS:
        if not names or section.__name__ in names:
            section()
            print()


if __name__ == "__main__":
    main(sys.argv[1:])
