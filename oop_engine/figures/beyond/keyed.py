"""Progress by key: one sender's clock is ahead of all others, under one promise and under a promise of each key."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.meter import Statistics
from oop_engine.drive.synchronous import Run
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import Promise
from operators.data.page import Int64s, Page
from operators.data.schema import Schema

ONE, WIDE, KEYED = "one promise, slack 2 s", "one promise, slack for the clock", "promises by key, slack 2 s"
SECOND: Final = 1_000_000_000
SENDERS: Final = 10
FIRST, WINDOW = 200 * SECOND, 10 * SECOND
"""The time of the first tuple, and the length of windows."""


@attrs.frozen
class Answered:
    """Hold what a query gave under a promise.

    - `counts`: the tuples of each sender and end of a window.
    - `latency`: the median time from the end of a window by true time to its result, in seconds, of all senders but
      that which is ahead.
    - `held`, `later`: the most partial aggregates at any time, and between results in the second half of the stream.
    """

    counts: dict[tuple[int, int], int]
    latency: float
    held: int
    later: int


@attrs.define(eq=False)
class Sent:
    """Hand over tuples of ten senders, each up to 2 s late, in the order of arrival; the clock of sender 0 is ahead.

    - `ts`, `who`: times by the clocks of the senders, and the senders.
    - `arrivals`: when tuples came.
    - `now`: when the last tuple came that was handed over.
    """

    ts: Int64s
    who: Int64s
    arrivals: Int64s
    now: int = 0

    @classmethod
    def of(cls, n: int, rate: int, ahead: int) -> Sent:
        """Make n tuples, `rate` a second; the clock of sender 0 is so many seconds ahead."""
        random = np.random.default_rng(1)
        times, who = np.arange(n) * (SECOND // rate) + FIRST, np.arange(n) % SENDERS
        arrivals = times + random.integers(0, 2 * SECOND, n)
        order = np.argsort(arrivals, kind="stable")
        shown = times + np.where(who == 0, ahead * SECOND, 0)
        return cls(shown[order], who[order], arrivals[order])

    def results(self, promise: Promise, page: int) -> Answered:
        """Count tuples by sender and window under a promise; see how long results take, and what is held for them."""
        schema = Schema.of(ts=pa.int64(), who=pa.int64())
        stream = oop.pages(self._pages(schema, page), schema, punctuate=promise)
        query = stream.window(range=WINDOW, wattr="ts").aggregate(n=oop.count(), by="who")
        found, waited, later = dict[tuple[int, int], int](), list[int](), 0
        driver, half = Run(Plan((query.node,)), page), int(self.arrivals[len(self.ts) // 2])
        for _, element in driver:
            if self.now >= half:
                later = max(later, Statistics(driver.circuit.statistics()).total("state_tuples"))
            if isinstance(element, Page):
                ends = element["window_end"].tolist()
                for who, end, count in zip(element["who"].tolist(), ends, element["n"].tolist(), strict=True):
                    found[who, end] = count
                    if who:
                        waited.append(self.now - end)
        peak = Statistics(driver.circuit.statistics()).peak_state
        return Answered(found, median(waited) / SECOND, peak, later)

    def _pages(self, schema: Schema, page: int) -> Iterator[Page]:
        whole = Page.of(schema, {"ts": self.ts, "who": self.who})
        for start in range(0, len(whole), page):
            stop = min(start + page, len(whole))
            self.now = int(self.arrivals[stop - 1])
            yield whole.slice(start, stop)


def measure(size: Size) -> Measured:
    """Count by sender in windows of 10 s, by how far the clock is ahead."""
    n, rate = size.of(tiny=(1_500, 10), small=(20_000, 100), paper=(200_000, 500))
    rows: list[dict[str, object]] = []
    for ahead in size.of(tiny=[0, 20], small=[0, 30, 90], paper=[0, 5, 10, 30, 60, 90]):
        promises = {
            ONE: oop.slack(2 * SECOND),
            WIDE: oop.slack((2 + ahead) * SECOND),
            # A key is idle when others are so far ahead of it.
            KEYED: oop.by_key("who", slack=2 * SECOND, idle=(ahead + 10) * SECOND),
        }
        found = {name: Sent.of(n, rate, ahead).results(promise, rate // 5) for name, promise in promises.items()}
        # One promise with too little slack loses tuples, which is what is measured; the others have to agree.
        agreed({name: found[name].counts for name in (WIDE, KEYED)})
        for name, own in found.items():
            lost = 100 * (1 - sum(own.counts.values()) / n)
            row = {"lost": lost, "latency": own.latency, "held": own.held, "later": own.later}
            rows.append({"series": name, "ahead": ahead, **row})
    return Measured.of(
        rows,
        f"{n:,} tuples of {SENDERS} senders, {rate:,} a second, each up to 2 s late; the clock of one sender is"
        " ahead. Windows of 10 s, counted by sender; pages of 0.2 s.",
        "Lost are tuples that are in no result. The latency of a result is the time from the end of its window, by the"
        " clocks that are right; medians of all results but those of the sender that is ahead. Held are the most"
        " partial aggregates at any time; `later` are the most in the second half of the stream.",
    )


def judge(measured: Measured) -> Verdict:
    """See who loses tuples, and what it costs to lose none."""
    lost = {name: measured.along(name, "ahead", "lost") for name in measured.series}
    latency = {name: measured.along(name, "ahead", "latency") for name in measured.series}
    held = {name: measured.along(name, "ahead", "held") for name in measured.series}
    later = {name: measured.along(name, "ahead", "later") for name in measured.series}
    most = max(lost[ONE])
    return Verdict.of(
        Check(lost[ONE][most] > 10, f"{ONE}: {lost[ONE][most]:.1f} % are lost at {most:g} s; more than 10 % is much"),
        Check(max(lost[KEYED].values()) == 0, f"{KEYED}: at most {max(lost[KEYED].values()):.1f} % are lost"),
        *(
            Check(
                latency[KEYED][ahead] <= 1.1 * wide,
                f"at {ahead:g} s {latency[KEYED][ahead]:.1f} s pass to a result with promises by key, {wide:.1f} s with"
                " a slack for the clock; up to 1.1 times is no more",
            )
            for ahead, wide in latency[WIDE].items()
        ),
        *(
            Check(
                held[KEYED][ahead] <= 1.1 * wide,
                f"at {ahead:g} s {held[KEYED][ahead]:,} partial aggregates are held with promises by key, {wide:,} with"
                " a slack for the clock; up to 1.1 times is no more",
            )
            for ahead, wide in held[WIDE].items()
        ),
        why="The stream is as far as its slowest key, and a key is as far as its own highest time: each result waits"
        " for a tuple of every sender, where one promise moves on with the tuple of any. That takes the time in which a"
        " sender sends a few tuples, however far the clock is off. Most is held at the start: the first promise is made"
        " when the time after which a key is idle has passed, because a key that was not heard may still come. In the"
        f" second half of the stream, at {most:g} s, {later[KEYED][most]:,} partial aggregates are held at most, and"
        f" {later[WIDE][most]:,} with a slack for the clock.",
    )


KEYED_PROMISES: Final = Figure(
    "keyed-promises",
    "beyond",
    "Lost tuples, latency and memory by how far one clock is ahead",
    "With one promise, a clock that is ahead makes the tuples of all others late. With promises by key none is lost;"
    " results come as soon, and no more is held, than with a slack that is known to fit that clock (keyed watermarks).",
    Axis("ahead", "the clock of one sender is ahead, s"),
    [
        Axis("lost", "lost tuples, %"),
        Axis("latency", "seconds from the end of a window to its result"),
        Axis("held", "partial aggregates held"),
    ],
    measure,
    judge,
)
