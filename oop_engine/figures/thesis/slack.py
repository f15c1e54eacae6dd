"""Fig 6-11 and 6-12: how wrong and how late results are, by slack and by punctuation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.plan.graph import Plan
from oop_engine.sources.generator import SECOND, START
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element
from punctuation import before

PUNCTUATION, CONSISTENT, GENEROUS = "punctuation", "consistent slack", "generous slack"
Error = Callable[[float | None, float], float]
"""How wrong a result is, beside the true one; in percent."""


@attrs.define(eq=False)
class Arrivals:
    """Hand over tuples one by one, as often a second as the stream has tuples on average.

    - `ts`: event times in the order of arrival.
    - `length`: sizes of the packets.
    - `rate`: tuples a second.
    - `now`: when the last tuple came, in seconds of the stream.
    """

    ts: Int64s
    length: Int64s
    rate: float
    now: float = 0.0

    def complete(self, ends: Int64s) -> Int64s:
        """Return the number of the tuple behind which no tuple is older than each of these times."""
        least = np.minimum.accumulate(self.ts[::-1])[::-1]
        return np.searchsorted(least, ends) - 1

    def elements(self, ends: Sequence[int] = ()) -> Iterator[Element]:
        """Yield a page a tuple, and the promises that are true behind it: all older than each of `ends` have come."""
        schema = Schema.of(ts=pa.int64(), length=pa.int64(), progress=["ts"] if len(ends) else [])
        whole = Page.of(schema, {"ts": self.ts, "length": self.length})
        promises: dict[int, int] = dict(zip(self.complete(np.array(ends, np.int64)).tolist(), ends, strict=True))
        for number in range(len(self.ts)):
            self.now = number / self.rate
            yield whole.slice(number, number + 1)
            if number in promises:
                yield before("ts", promises[number])

    def results(self, stream: oop.Stream) -> dict[int, tuple[float, float]]:
        """Run a stream over these tuples: each result by the end of its window, and when it came."""
        found: dict[int, tuple[float, float]] = {}
        for _, element in Run(Plan((stream.node,))):
            if isinstance(element, Page):
                for row in element.plain_rows():
                    found[int(str(row["window_end"]))] = float(str(row["result"])), self.now
        return found


@attrs.frozen
class Experiment:
    """Measure one kind of disorder: what is computed, and how large slack is."""

    disorder: oop.Band | oop.Blocks
    range: int
    slide: int
    function: AggregateFunction
    truth: Callable[[Int64s], float]
    error: Error
    slacks: Sequence[float]
    """In seconds."""

    def measure(self, n: int, rate: float) -> Measured:
        """Compute the windows by punctuation, and by slack of both flavours; compare with the true results."""
        table = oop.packets(n, rate=rate, disorder=self.disorder, zipf=0.0).to_arrow()
        ts = table["ts"].cast(pa.int64()).to_numpy() - START
        arrivals = Arrivals(ts, table["length"].cast(pa.int64()).to_numpy(), rate)
        most = round(max(self.slacks) * SECOND) + (
            self.disorder.length if isinstance(self.disorder, oop.Blocks) else self.disorder.max
        )
        ends = list(range(self.range, int(ts.max()) - most, self.slide))
        true = {end: self.truth(arrivals.length[(ts < end) & (ts >= end - self.range)]) for end in ends}
        exact = oop.pages(arrivals.elements(ends), Schema.of(ts=pa.int64(), length=pa.int64(), progress=["ts"]))
        rows = [self._row(PUNCTUATION, None, arrivals, exact, ends, true)]
        for name in (CONSISTENT, GENEROUS):
            for slack in self.slacks:
                schema, promise = Schema.of(ts=pa.int64(), length=pa.int64()), oop.slack(round(slack * SECOND))
                stream = oop.pages(arrivals.elements(), schema, punctuate=promise)
                rows.append(self._row(name, slack, arrivals, stream, ends, true))
        return Measured.of(
            rows,
            f"{n:,} tuples, {rate:g} a second in order of arrival, handed over one by one; {len(ends)} windows.",
            "Latency is how long after the last tuple of a window its result came, on the average; a result that came"
            " before its last tuple waited 0 s, and is counted as premature. The thesis takes wall-clock time between"
            " a punctuation and the results that it covers.",
        )

    def _windows(self, stream: oop.Stream, *, consistent: bool = False) -> oop.Stream:
        windows = stream.window(range=self.range, slide=self.slide, wattr="ts", consistent=consistent)
        return windows.aggregate(result=self.function)

    def _row(
        self,
        name: str,
        slack: float | None,
        arrivals: Arrivals,
        stream: oop.Stream,
        ends: Sequence[int],
        true: Mapping[int, float],
    ) -> dict[str, object]:
        found = arrivals.results(self._windows(stream, consistent=name == CONSISTENT))
        complete = arrivals.complete(np.array(ends)) / arrivals.rate
        came = np.array([found[end][1] if end in found else complete[at] for at, end in enumerate(ends)])
        errors = [self.error(found[end][0] if end in found else None, true[end]) for end in ends]
        return {
            "series": name,
            "slack": slack,
            "latency": float(np.maximum(came - complete, 0).mean()),
            "error": float(np.mean(errors)),
            "premature": float((came < complete).mean() * 100),
        }


def _relative(found: float | None, true: float) -> float:
    return 100.0 if found is None else abs(found - true) / true * 100


def _wrong(found: float | None, true: float) -> float:
    return 0.0 if found == true else 100.0


BAND: Final = Experiment(
    oop.Band(round(3.2 * SECOND), shape="exponential"), 64 * SECOND, 6_400_000_000, oop.avg("length"), np.mean,
    _relative, (0, 0.32, 0.64, 1.28, 2.56, 3.2),
)  # fmt: skip
BLOCK: Final = Experiment(
    oop.Blocks(490 * SECOND), 600 * SECOND, 60 * SECOND, oop.count(), len,
    _wrong, (0, 54.5, 109.1, 218.2, 327.3, 434.2, 491, 545, 600),
)  # fmt: skip


def measure_band(size: Size) -> Measured:
    """Average over windows of 64 s while tuples are up to 3.2 s late."""
    return BAND.measure(size.of(tiny=600, small=12_000, paper=200_000), size.of(tiny=4.0, small=20.0, paper=50.0))


def _columns(measured: Measured, name: str) -> list[tuple[float, float]]:
    """Return error and latency of a series, by slack."""
    errors, waits = (measured.along(name, "slack", column).values() for column in ("error", "latency"))
    return list(zip(errors, waits, strict=True))


def judge_band(measured: Measured) -> Verdict:
    """Compare errors at equal slack, which is about equal latency, and both with punctuation."""
    (error,), (latency,) = (
        list(measured.along(PUNCTUATION, "slack", column).values()) for column in ("error", "latency")
    )
    errors = {name: [error for error, _ in _columns(measured, name)] for name in (CONSISTENT, GENEROUS)}
    waits = [wait for name in errors for _, wait in _columns(measured, name)]
    pairs = list(zip(errors[GENEROUS], errors[CONSISTENT], strict=True))
    said = "; ".join(
        f"{name}: {values[0]:.2g} % without slack, {values[-1]:.2g} % with the most" for name, values in errors.items()
    )
    return Verdict.of(
        Check(
            error < 1e-9 and latency <= min(waits) + 1e-9,
            f"punctuation has no error ({error:.3g} %) and the least latency: {latency:.3f} s, against"
            f" {min(waits):.3f} to {max(waits):.3f} s by slack",
        ),
        Check(
            all(a <= b for a, b in pairs) and pairs[0][0] < pairs[0][1],
            f"generous slack errs less than consistent at each slack, {pairs[0][0]:.3g} % against {pairs[0][1]:.3g} %"
            " without slack",
        ),
        Check(all(values[-1] < values[0] / 4 for values in errors.values()), f"error falls as slack grows; {said}"),
    )


def measure_blocks(size: Size) -> Measured:
    """Count in windows of 600 s while tuples are shuffled in blocks of 490 s."""
    return BLOCK.measure(size.of(tiny=600, small=8_000, paper=100_000), size.of(tiny=0.25, small=1.0, paper=5.0))


def judge_blocks(measured: Measured) -> Verdict:
    """Look for the least slack without a wrong answer: what is below it, and what above."""
    wrong, latency = (measured.along(CONSISTENT, "slack", column) for column in ("error", "latency"))
    ((error, wait),) = _columns(measured, PUNCTUATION)
    right = [slack for slack in wrong if wrong[slack] == 0]
    optimal = min(right, default=float("inf"))
    below, above = [s for s in wrong if s < optimal], [s for s in wrong if s >= optimal]
    spread = max((latency[s] for s in below), default=0.0)
    rise = latency[above[-1]] - latency[above[0]] if above else 0.0
    return Verdict.of(
        Check(
            optimal == 491,
            f"the least slack with right answers is {optimal:g} s; tuples stray by 490 s at most",
        ),
        Check(
            all(wrong[s] > 0 for s in below) and spread < 0.2 * max(rise, 1e-9),
            f"below it {min((wrong[s] for s in below), default=0):.0f} % of answers and more are wrong, and latency is"
            f" flat: at most {spread:.2f} s",
        ),
        Check(rise > 1, f"above it only latency grows: by {rise:.1f} s up to a slack of {max(wrong):g} s"),
        Check(
            error == 0 and wait <= min(latency.values()) + 1e-9,
            f"punctuation is right ({error:g} % wrong) and no later than any slack: {wait:.2f} s",
        ),
    )


FIG_6_11: Final = Figure(
    "6-11",
    "thesis",
    "Error against latency under band disorder",
    "Punctuation has less error and less latency than slack of any size; generous slack is more accurate than"
    " consistent slack at equal latency; error falls as slack grows.",
    Axis("latency", "latency, s"),
    [Axis("error", "mean error, %")],
    measure_band,
    judge_band,
)
FIG_6_12: Final = Figure(
    "6-12",
    "thesis",
    "Wrong answers against latency under block-sorted disorder",
    "One slack is best, at the bound of the disorder: with less, latency is the same and answers are wrong; with more,"
    " only latency grows. Punctuation is better than any.",
    Axis("latency", "latency, s"),
    [Axis("error", "wrong answers, %")],
    measure_blocks,
    judge_blocks,
)
