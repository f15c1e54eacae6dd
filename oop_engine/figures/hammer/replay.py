"""Run the techniques for windows of a stream in order, without the operator around them: plain, and over panes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.figures.kernels import textbook
from oop_engine.figures.measuring import agreed, timed
from operators.kernels.stacks import floating, least, panes, whole
from operators.window_aggregate.stores.stacks.kinds import LeastKey

Array: TypeAlias = npt.NDArray[Any]
NAIVE, SUBTRACT, STACKS = "scan", "subtract", "two_stacks"
PLAIN: Final = {"non-incremental": NAIVE, "subtract-on-evict": SUBTRACT, "two-stacks": STACKS}
OVER_PANES: Final = {"subtract-on-evict, optimised": SUBTRACT, "two-stacks, optimised": STACKS}
"""Series by name, with the technique that each measures."""
_ROOM: Final = 1 << 14


def integers(n: int, distinct: int = 1 << 30, dtype: type[np.generic] = np.int32) -> Array:
    """Return n uniform numbers, always the same."""
    return np.random.default_rng(1).integers(0, distinct, n).astype(dtype)


@attrs.frozen(eq=False)
class Windows:
    """Hold windows over values in memory, for what knows all of them beforehand.

    - `values`: the tuples.
    - `heads`, `tails`: window i is tuples heads[i] <= j < tails[i]; neither moves back.
    """

    values: Array
    heads: Array
    tails: Array

    @classmethod
    def of(cls, values: Array, size: int, slide: int) -> Windows:
        """Return the whole windows of `size` tuples, which end with every `slide`-th tuple."""
        heads = np.arange(-size % slide, len(values) - size + 1, slide)
        return cls(values, heads, heads + size)

    def first(self, count: int) -> Windows:
        """Return the first so many of them."""
        return Windows(self.values, self.heads[:count], self.tails[:count])

    def answers(self, technique: str, what: str) -> Array:
        """Compute all by a plain technique.

        - `technique`: a kernel of `textbook`: "scan", "subtract", "two_stacks", "daba", "recompute", "minimal".
        - `what`: "min" or "sum".
        """
        found = np.zeros(len(self.heads), self.values.dtype if what == "min" else np.int64)
        kernel = getattr(textbook, f"{technique}_{'least' if what == 'min' else 'sum'}")
        kernel(self.values, self.heads, self.tails, int((self.tails - self.heads).max()), found)
        return found

    def seconds(self, technique: str, what: str) -> float:
        """Return the processor time for a tuple that enters behind the first window, by a plain technique."""
        begun = timed(partial(self.first(1).answers, technique, what))
        spent = timed(partial(self.answers, technique, what))
        return max(spent - begun, 1e-9) / max(int(self.tails[-1] - self.tails[0]), 1)


@attrs.frozen(eq=False)
class Replay:
    """Run a technique over panes, by the kernels that the engine runs, a page at a time.

    - `technique`: "recompute", "subtract", "two_stacks", "daba", or "runs": two stacks with a run-length encoded front,
      of min over whole numbers.
    - `what`: "min" or "sum".
    - `size`, `slide`: of the windows, in the unit of ticks.
    - `page`: tuples of a page; enough for the calls from Python to be a small part of the time when left out.
    """

    technique: str
    what: str
    size: int
    slide: int
    page: int = attrs.field(
        default=attrs.Factory(lambda self: min(max(_ROOM, 256 * self.slide), 1 << 18), takes_self=True)
    )

    def run(self, ticks: Array, values: Array, keep: Callable[[Array, Array], None] | None = None) -> int:
        """Answer all windows that end before the last tick; return how many.

        - `ticks`, `values`: of the tuples, in order.
        - `keep`: is given window-ids and answers of each page.
        """
        page, size, slide = min(self.page, len(ticks)), self.size, self.slide
        # Runs end at numbers of panes, which must not move.
        room = page + 4 + (len(ticks) if self.technique == "runs" else 4 * (size // slide + 2))
        lift, how, kept, identity, width, out, values = self._kind(values, page)
        step = self._step(room, kept.dtype)
        units, held = np.empty(room, np.int64), np.empty((width, room), kept.dtype)
        begins, stops, wids, heads, tails = (np.empty(page, np.int64) for _ in range(5))
        marks, ends = np.zeros(6, np.int64), np.zeros(2, np.int64)
        high = windows = 0
        wid = -(2**62)
        for at in range(0, len(ticks), page):
            ticked, value = ticks[at : at + page], values[at : at + page]
            if high + page > room:
                # Panes from the last window on; a technique may still hold those that have just left.
                low = int(ends[0])
                units[: high - low] = units[low:high].copy()
                held[:, : high - low] = held[:, low:high].copy()
                high -= low
                marks -= low
                ends -= low
            unit = ticked[0] // slide + (ticked[0] + size) // slide - size // slide
            into = high - 1 if high > 0 and units[high - 1] == unit else high
            made = panes.cut(ticked, 0, size, slide, 0, begins, stops, units[into:])[0]
            held[:, high : into + made] = identity
            lift(value, begins[:made], stops[:made], how, into, held)
            high = into + made
            last = int(ticked[-1]) // slide
            while wid < last:
                # A page with gaps may answer more windows than it has tuples.
                n, wid, steady = panes.spans(units[:high], size, slide, wid, last, ends, wids, heads, tails)
                step(held, heads[:n], tails[:n], steady, marks, kept, out)
                windows += n
                if keep is not None:
                    keep(wids[:n].copy(), out[0, :n].copy())
        return windows

    def seconds(self, ticks: Array, values: Array) -> float:
        """Return the processor time for a tuple."""
        return timed(partial(self.run, ticks, values)) / len(ticks)

    def _kind(self, values: Array, page: int) -> tuple[Callable[..., object], Any, Array, Any, int, Array, Array]:
        """Return lift, its argument, what a technique keeps, the identity, rows of panes, room, and values as keys."""
        if self.what == "sum" and values.dtype.kind == "f":
            lanes, out = np.empty((2, floating.LANES)), np.empty((2, page))
            return floating.lift, lanes, np.zeros(4), np.float64(0), 2, out, values
        if self.what == "sum":
            out = np.empty((2, page), np.int64)
            return whole.lift, np.int64(-1), np.zeros(4, np.int64), np.int64(0), 2, out, values
        key = LeastKey("v", pa.from_numpy_dtype(values.dtype), False)
        out = np.empty((1, page), key.dtype)
        lift, how = (least.lift_floating, key.layout) if values.dtype.kind == "f" else (least.lift_whole, key.turn)
        return lift, how, key.kept(), key.identity, 1, out, values.view(key.dtype)

    def _step(self, room: int, dtype: np.dtype[Any]) -> Callable[..., object]:
        if self.technique != "runs":
            kernels = least if self.what == "min" else floating if dtype.kind == "f" else whole
            return getattr(kernels, self.technique)
        keys, ends = np.empty(room, dtype), np.empty(room, np.int64)

        def step(held: Array, heads: Array, tails: Array, steady: bool, marks: Array, kept: Array, out: Array) -> None:
            textbook.two_stacks_runs(held, heads, tails, marks, kept, keys, ends, out)

        return step


def same(windows: Windows, plain: list[str], over_panes: list[Replay], what: str) -> Array:
    """Compare the answers of plain techniques, and of techniques over panes, for windows of numbered tuples.

    - `windows`: from tuple 0 on; the answers of the first technique are returned.
    - `plain`, `over_panes`: what is compared.

    PlanError names two that differ.
    """
    found = {f"plain {technique}": windows.answers(technique, what) for technique in plain}
    expected = next(iter(found.values()))
    told = {name: answers.tolist() for name, answers in found.items()}
    agreed(told)
    for replay in over_panes:
        kept: dict[int, Any] = {}
        rows = np.arange(len(windows.values))

        def keep(wids: Array, answers: Array, kept: dict[int, Any] = kept) -> None:
            kept.update(zip(wids.tolist(), answers.tolist(), strict=True))

        replay.run(rows, windows.values, keep)
        # Window-ids number the ends of windows, so the first whole window is the one that ends with tuple `size`.
        first = -(-replay.size // replay.slide) - 1
        ours = [kept[wid] for wid in sorted(kept) if wid >= first]
        if len(windows.heads) - len(ours) not in (0, 1):
            raise PlanError(f"{replay}: {len(ours)} windows instead of {len(windows.heads)}.")
        agreed({f"over panes {replay.technique}": ours, "plain": expected.tolist()[: len(ours)]})
    return expected


def bandwidth(n: int, runs: int) -> float:
    """Return the bytes a second of processor time at which one thread reads memory: the most of so many runs.

    - `n`: how many 32-bit numbers are read; more than caches hold.
    """
    values = np.ones(n, np.int32).view(np.int64)
    out = np.zeros(1, np.int64)
    heads, tails = np.zeros(1, np.int64), np.array([len(values)])
    best = 0.0
    for _ in range(runs + 1):
        start = process_time()
        textbook.scan_sum(values, heads, tails, 0, out)
        best = max(best, values.nbytes / max(process_time() - start, 1e-9))
    return best
