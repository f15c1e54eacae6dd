"""PECJ's question: how wrong a result is that waited so long, and one as soon that makes up for what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.figures.beyond.quality import MUCH_LATER, SECOND, Delayed
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from oop_engine.plan.graph import Plan
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.signals import Event
from operators.window_aggregate.triggers.expected import Expected

WAIT, EARLY, OWN, INPUTS = "waits", "early, as it is", "early, compensated", "early, by its inputs"
"""Results behind a promise; early ones; those times what is estimated of them; those times what is of both inputs."""
SHARES: Final = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
"""Shares of the tuples that are lost by waiting; each stands for a latency."""
KEYS: Final = 50
INTERVAL: Final = 0.95
LEARNT: Final = 10
"""Windows from which estimates are learnt, before errors are looked at."""
PAIRS, LEFT, RIGHT = 0, 1, 2
"""The outputs of the query."""


@attrs.frozen
class Result:
    """Hold when a result came, its count, and the count that is expected in the end."""

    came: int
    n: int
    expected: float


Results = list[dict[int, list[Result]]]
"""Of each output, the results of each window by its end, in the order in which they came."""


@attrs.define(eq=False)
class Joined:
    """Join two streams by key in windows of 1 s, and count pairs and the tuples of each input; all come in one stream.

    - `load`: times and arrivals.
    - `side`, `key`: of each tuple.
    - `page`: tuples that are handed over at a time.
    - `now`: when the last tuple came that was handed over.
    """

    load: Delayed
    side: Int64s
    key: Int64s
    page: int
    now: int = 0

    @classmethod
    def of(cls, n: int, rate: int) -> Joined:
        """Make n tuples of both streams together, `rate` a second, in pages of a tenth of a second."""
        random = np.random.default_rng(2)
        return cls(Delayed.of(n, rate), random.integers(0, 2, n), random.integers(0, KEYS, n), rate // 10)

    def fresh(self, result: Result, came: int, end: int) -> float:
        """Return the count that is expected by what is known when another result came, however old this one is.

        - `result`: an early one of the window that ends at `end`.
        - `came`: the arrival of the other result.
        """
        known = Expected(INTERVAL, values=1)
        known.observe(self.load.ts[: int(np.searchsorted(self.load.arrivals, came, "right"))])
        known.settle()
        window = np.array([end - SECOND]), np.array([end])
        return result.n / float(known.arrived(np.array([known.highest]), *window)[0])

    def results(self, slack: int, *, early: bool = False) -> Results:
        """Return the results of each output by the end of the window, the final one last.

        - `slack`: promises follow the highest time by so much.
        - `early`: let open windows give what they have behind each page, too.
        """
        when = oop.early(when=oop.Trigger.event("page"), interval=INTERVAL)
        schema = Schema.of(ts=pa.int64(), side=pa.int64(), key=pa.int64())
        whole = Page.of(schema, {"ts": self.load.ts, "side": self.side, "key": self.key})

        def pages() -> Iterator[Page]:
            for start in range(0, len(whole), self.page):
                stop = min(start + self.page, len(whole))
                self.now = int(self.load.arrivals[stop - 1])
                if early:
                    run.circuit.fire(Event("page"))
                yield whole.slice(start, stop)

        stream = oop.pages(pages(), schema, punctuate=oop.slack(slack))
        left, right = stream.filter("side = 0"), stream.filter("side = 1")
        counts = [
            each.window(range=SECOND, wattr="ts").aggregate(n=oop.count(), early=when if early else None)
            for each in (left.join(right, "key", tumbling=SECOND), left, right)
        ]
        run = Run(Plan(tuple(count.node for count in counts)), self.page)
        found: Results = [{}, {}, {}]
        for output, element in run:
            if isinstance(element, Page):
                ends, values = element["window_end"].tolist(), element["n"].tolist()
                expected = element.column("n_expected").to_pylist() if early else values
                for end, n, estimate in zip(ends, values, expected, strict=True):
                    result = Result(self.now, n, n if estimate is None else estimate)
                    found[output].setdefault(end, []).append(result)
        return found


def compared(query: Joined, waited: Results, soon: Results, ends: list[int]) -> list[dict[str, object]]:
    """Compare results that waited with those that were there at the same time, window by window.

    - `query`: what was computed.
    - `waited`: the results of a slack.
    - `soon`: early results, and the true ones at last.
    - `ends`: of the windows to compare.

    Returns a row a series: mean errors in percent, the mean latency, how old early counts are by then, and the
    error of the same counts by what is known then.
    """
    wrong: dict[str, list[list[float]]] = {name: [] for name in (WAIT, EARLY, OWN, INPUTS)}
    more: list[list[float]] = []
    for end in ends:
        came = waited[PAIRS][end][-1].came
        pairs, left, right = ([r for r in output[end] if r.came <= came][-1] for output in soon)
        growth = left.expected / left.n * right.expected / right.n
        given = {
            WAIT: (waited[LEFT][end][-1].n, waited[PAIRS][end][-1].n),
            EARLY: (left.n, pairs.n),
            OWN: (left.expected, pairs.expected),
            INPUTS: (left.expected, pairs.n * growth),
        }
        true = soon[LEFT][end][-1].n, soon[PAIRS][end][-1].n
        for name, values in given.items():
            wrong[name].append([100 * abs(v - t) / t for v, t in zip(values, true, strict=True)])
        fresh = 100 * abs(query.fresh(left, came, end) - true[0]) / true[0]
        more.append([(came - end) / SECOND, (came - left.came) / SECOND, fresh])
    latency, age, fresh = np.mean(more, axis=0).tolist()
    rows: list[dict[str, object]] = []
    for name, errors in wrong.items():
        count, pairs = np.mean(errors, axis=0).tolist()
        row = {"latency": latency, "count": None if name == INPUTS else count, "pairs": pairs}
        rows.append({"series": name, **row, "age": age, "fresh": fresh})
    return rows


def measure(size: Size) -> Measured:
    """Compare results at the latencies of several slacks."""
    n, rate = size.of(tiny=(1_400, 50), small=(16_000, 250), paper=(1_000_000, 2_000))
    shares = size.of(tiny=SHARES[1:3], small=SHARES, paper=SHARES)
    query = Joined.of(n, rate)
    exact = query.load.least_slack(0)
    soon = query.results(exact, early=True)
    agreed({"early": [_last(output) for output in soon], "waits": [_last(each) for each in query.results(exact)]})
    ends = [end for end in soon[PAIRS] if LEARNT * SECOND < end < int(query.load.ts[-1]) - exact]
    rows = [
        row for share in shares for row in compared(query, query.results(query.load.least_slack(share)), soon, ends)
    ]
    return Measured.of(
        rows,
        f"{n:,} tuples of two streams, {rate:,} a second, {KEYS} keys; delayed by 0.3 s on average (exponential), and"
        f" {100 * MUCH_LATER:g} % by 10 s more. {len(ends)} windows of 1 s (the first {LEARNT} are left out),"
        f" pages of 0.1 s. Results wait for slacks that lose {100 * shares[0]:g} to {100 * shares[-1]:g} % of the"
        " tuples; early ones come behind each page, and the last one at the same time is compared. Latencies and errors"
        " are means.",
        f'"{OWN}" is what oop.early(interval={INTERVAL}) expects; where that is null, the result as it is.'
        f' "{INPUTS}": pairs, times what is expected of each input beside what it has, as PECJ counts (selectivity'
        " times both inputs). PECJ learns by variational inference; here the lateness of past tuples is counted.",
    )


def _last(output: dict[int, list[Result]]) -> dict[int, float]:
    return {end: results[-1].n for end, results in output.items()}


def judge(measured: Measured) -> Verdict:
    """See at which latencies each way to compensate has less error than waiting."""
    checks: list[Check] = []
    for column, said, ways in (("count", "counts", [OWN]), ("pairs", "pairs of a join", [OWN, INPUTS])):
        waits = measured.along(WAIT, "latency", column)
        for way in ways:
            own = measured.along(way, "latency", column)
            less = [latency for latency in waits if own[latency] < waits[latency]]
            first, last = min(waits), max(waits)
            text = f"{said}, {way}: less error than waiting at {len(less)} of {len(waits)} latencies"
            text += f" (from {first:.2f} s, {own[first]:.2f} and {waits[first]:.2f} %, to"
            text += f" {last:.2f} s, {own[last]:.2f} and {waits[last]:.2f} %)"
            checks.append(Check(len(less) == len(waits), text))
    ages, fresh, own = (measured.along(OWN, "latency", column) for column in ("age", "fresh", "count"))
    last = max(ages)
    return Verdict.of(
        *checks,
        why="A window gives no early result while no tuple of it comes, so the last one makes up for more than is"
        f" missing by then: at {last:.2f} s it is {ages[last]:.2f} s old. By what is known then, the same counts are"
        f" wrong by {fresh[last]:.2f} %, not {own[last]:.2f}. What is expected of pairs takes them to be late alike"
        " wherever they are in a window; those at its begin find partners later.",
    )


PECJ: Final = Figure(
    "pecj",
    "beyond",
    "Error at equal latency: results that wait, and results that make up for what is missing",
    "At each latency a result that makes up for the tuples that are still missing has less error than one that waited"
    " as long for them, for counts and for a join (PECJ).",
    Axis("latency", "seconds from window end to result"),
    [Axis("count", "mean error of a count, %", scale="log"), Axis("pairs", "mean error of a join, %", scale="log")],
    measure,
    judge,
)
