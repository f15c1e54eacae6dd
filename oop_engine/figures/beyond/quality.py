"""Quality-driven slack: the share of tuples that may be lost is given, and the slack is learnt from the stream."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import Promise
from operators.data.page import Int64s, Page
from operators.data.schema import Schema

LEARNT, FIXED = "slack that is learnt", "fixed slack"
SECOND: Final = 1_000_000_000
MUCH_LATER: Final = 0.001
"""The share of tuples that come 10 s later than all others, as after a short outage."""
NEAR: Final = 1.1
"""So many times the latency of a fixed slack is about as soon."""


@attrs.define(eq=False)
class Delayed:
    """Hand over tuples in the order of arrival: delays are exponential, and a few tuples are later by 10 s.

    - `ts`: event times.
    - `arrivals`: when tuples came.
    - `now`: when the last tuple came that was handed over.
    """

    ts: Int64s
    arrivals: Int64s
    now: int = 0

    @classmethod
    def of(cls, n: int, rate: int) -> Delayed:
        """Make n tuples, `rate` a second."""
        random = np.random.default_rng(1)
        times = np.arange(n) * (SECOND // rate)
        delays = random.exponential(0.3, n) + np.where(random.random(n) < MUCH_LATER, 10, 0)
        arrivals = times + (delays * SECOND).astype(np.int64)
        order = np.argsort(arrivals, kind="stable")
        return cls(times[order], arrivals[order])

    def least_slack(self, share: float) -> int:
        """Return the least slack, in ticks, with which no more than this share of the tuples is lost.

        A tuple is lost where its window ends at or before the highest time of the tuples before it, less the slack.
        """
        ends = (self.ts[1:] // SECOND + 1) * SECOND
        short = np.sort(np.append(np.maximum.accumulate(self.ts)[:-1] - ends, [-1]))[::-1]
        return max(0, int(short[round(share * len(self.ts))]) + 1)

    def lost_and_latency(self, promise: Promise, page: int) -> tuple[float, float]:
        """Return the percent of tuples that no window has, and the median time from the end of a window to its result.

        Windows are of 1 s; the time is in seconds.
        """
        schema = Schema.of(ts=pa.int64(), who=pa.int64())
        stream = oop.pages(self._pages(schema, page), schema, punctuate=promise)
        query = stream.window(range=SECOND, wattr="ts").aggregate(n=oop.count())
        counted, waited = 0, list[int]()
        for _, element in Run(Plan((query.node,)), page):
            if isinstance(element, Page):
                counted += int(element["n"].sum())
                waited += [self.now - end for end in element["window_end"].tolist()]
        return 100 * (1 - counted / len(self.ts)), median(waited) / SECOND

    def _pages(self, schema: Schema, page: int) -> Iterator[Page]:
        whole = Page.of(schema, {"ts": self.ts, "who": np.zeros(len(self.ts), np.int64)})
        for start in range(0, len(whole), page):
            stop = min(start + page, len(whole))
            self.now = int(self.arrivals[stop - 1])
            yield whole.slice(start, stop)


def measure(size: Size) -> Measured:
    """Count in windows of 1 s with slacks that are learnt for three shares, and with fixed slacks."""
    n, rate = size.of(tiny=(2_000, 100), small=(60_000, 300), paper=(1_000_000, 1_000))
    load, page = Delayed.of(n, rate), rate // 5
    rows: list[dict[str, object]] = []
    shares = {share: f"{100 * share:g} %" for share in (0.05, 0.01, 0.001)}
    for share, said in shares.items():
        learnt = oop.by_key("who", slack="auto", late_share=share, idle=10 * SECOND)
        lost, latency = load.lost_and_latency(learnt, page)
        _, least = load.lost_and_latency(oop.slack(load.least_slack(share)), page)
        _, equal = load.lost_and_latency(oop.slack(load.least_slack(lost / 100)), page)
        row = {"lost": lost, "latency": latency, "wanted": 100 * share, "least": least, "equal": equal}
        rows.append({"series": LEARNT, "label": said, **row})
    for share in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0):
        lost, latency = load.lost_and_latency(oop.slack(load.least_slack(share)), page)
        row = {"lost": lost, "latency": latency, "wanted": 100 * share, "least": latency, "equal": latency}
        rows.append({"series": FIXED, "label": "", **row})
    return Measured.of(
        rows,
        f"{n:,} tuples, {rate:,} a second, delayed by 0.3 s on average (exponential), and {100 * MUCH_LATER:g} % by"
        " 10 s more; windows of 1 s, pages of 0.2 s. Lost are tuples that are in no result;"
        " latencies are medians, from the end of a window to its result.",
        "Learnt slacks are those of oop.by_key with one key, for at most 5, 1 and 0.1 % of late tuples. Fixed slacks"
        " are the least that lose no more than a share, which only one who has seen the whole stream knows: `least` is"
        " the latency of that for the share that was wanted, `equal` for the share that the learnt slack loses.",
    )


def judge(measured: Measured) -> Verdict:
    """See that no more is lost than was wanted, and how soon results come beside fixed slacks."""
    rows = measured.table.to_pylist()
    largest = max(row["latency"] for row in rows if row["series"] == FIXED)
    checks: list[Check] = []
    ratios: list[str] = []
    for row in (row for row in rows if row["series"] == LEARNT):
        wanted, lost, latency = f"{row['wanted']:g} %", row["lost"], row["latency"]
        checks.append(Check(lost <= row["wanted"], f"{lost:.3f} % are lost where {wanted} may be"))
        for column, which in (("equal", "loses as much"), ("least", f"loses {wanted}")):
            text = f"for {wanted}: {latency:.2f} s pass to a result, {row[column]:.2f} s with the fixed slack"
            checks.append(
                Check(latency <= NEAR * row[column], f"{text} that {which}; up to {NEAR} times is about as soon")
            )
        text = f"for {wanted}: {latency:.2f} s, {largest:.2f} s with the slack that loses none"
        checks.append(Check(latency < largest, text))
        ratios.append(f"{lost / row['wanted']:.2f} of {wanted}")
    return Verdict.of(
        *checks,
        why="The slack that is learnt keeps to the share of late tuples, and many of those still find their window"
        f" open: {', '.join(ratios)} is lost. A slack for the share that is lost would have to know the windows.",
    )


QUALITY: Final = Figure(
    "quality-slack",
    "beyond",
    "Lost tuples and latency of a slack that is learnt",
    "A slack that is learnt for a share of tuples that may be lost loses no more than that. Results come about as soon"
    " as with the least fixed slack that does, and sooner than with one that loses none (quality-driven slack).",
    Axis("lost", "lost tuples, %"),
    [Axis("latency", "seconds from window end to result", scale="log")],
    measure,
    judge,
    shape="points",
)
