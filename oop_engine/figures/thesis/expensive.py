"""Fig 8-3: a count behind "A or B", where B takes long: its tuples come late although the input is in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean
from typing import Final

import attrs
import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from operators.background import Answer
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.expression import Column
from operators.expression.expensive import Expensive
from operators.functions import count
from operators.protocol import Element
from operators.rows.deferred import DeferredFilter
from operators.streams.merge import Merge
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, before

OOP, MERGE, SLACK = "out of order", "merge in order", "slack"
SECOND: Final = 1_000
"""Ticks are milliseconds."""
PAGE, WINDOW = 50, 2 * SECOND
LONGEST: Final = 5
"""So many times the mean is the longest that a call of B takes."""
CHEAP: Final = 0.8
"""The share of the tuples that satisfy A."""
SCHEMA: Final = Schema.of(ts="int64", cheap="int64", x="int64", progress=["ts"])


@attrs.define(eq=False)
class Later:
    """Answer calls later, by a clock that is set: each takes a random time, exponential, and `LONGEST` means at most.

    - `mean`: of that time.
    - `now`: what the clock shows.
    """

    mean: float
    now: int = 0
    workers: int = 4
    piece: int = 16
    most: int = 1 << 30
    _random: np.random.Generator = attrs.field(init=False, factory=lambda: np.random.default_rng(3))
    _calls: list[tuple[float, int, Callable[[], object]]] = attrs.field(init=False, factory=list)

    def submit(self, number: int, call: Callable[[], object]) -> None:
        """Take a call."""
        takes = min(self._random.exponential(self.mean), LONGEST * self.mean)
        self._calls.append((self.now + takes, number, call))

    def answers(self) -> Sequence[Answer]:
        """Return the answers that are there by now."""
        done = [(number, call()) for at, number, call in self._calls if at <= self.now]
        self._calls = [each for each in self._calls if each[0] > self.now]
        return done


@attrs.frozen
class Counted:
    """Hold what a run gave: counts by the end of the window, the most tuples held, and seconds to a result."""

    counts: dict[int, int]
    held: int
    latency: float


def stream(seconds: int, rate: int) -> Page:
    """Make tuples in order, so many a second: some are known to satisfy A, and B asks for `x` below 50."""
    random, n = np.random.default_rng(1), seconds * rate
    cheap = (random.random(n) < CHEAP).astype(np.int64)
    return Page.of(SCHEMA, {"ts": np.arange(n) * SECOND // rate, "cheap": cheap, "x": random.integers(0, 100, n)})


def run(way: str, whole: Page, delay: int) -> Counted:
    """Count the tuples that satisfy A or B in tumbling windows, by a way to deal with those that wait for B.

    - `way`: `OOP`, `MERGE`, which puts tuples in order behind B, or `SLACK`, which promises by the highest time.
    - `whole`: the stream, in order.
    - `delay`: the mean time of a call of B, in ticks.
    """
    later = Later(delay)
    either = DeferredFilter((Column("cheap") == 1) | Expensive(Column("x") < 50), background=later)
    window = tumbling("ts", WINDOW)
    behind = Chain(
        [*([Merge(1, "ts")] if way == MERGE else []), Bucket(window), WindowAggregate(window, {"n": count()})]
    )
    behind.output_schema(either.output_schema(SCHEMA))
    counts, latencies, held, highest = dict[int, int](), list[int](), 0, 0

    def give(element: Element) -> None:
        nonlocal highest
        if isinstance(element, Page):
            highest = max(highest, int(element["ts"].max()))
        elif way == SLACK and not element.is_end:
            return
        deliver(behind, element, take)

    def take(element: Element) -> None:
        if isinstance(element, Page):
            for end, n in zip(element["window_end"].tolist(), element["n"].tolist(), strict=True):
                counts[end] = n
                latencies.append(later.now - end)

    stops = np.searchsorted(whole["ts"], np.arange(PAGE, int(whole["ts"][-1]) + PAGE + 1, PAGE))
    for start, stop in pairwise([0, *stops.tolist()]):
        later.now += PAGE
        either.process(whole.slice(start, stop), give)
        either.punctuate(before("ts", later.now), give)
        either.take_answers(give)
        if way == SLACK:
            # The longest call, which begins with its page and is over before a page ends.
            deliver(behind, before("ts", highest - LONGEST * delay - 2 * PAGE), take)
        held = max(held, either.statistics()["state_tuples"] + behind.statistics()["state_tuples"])
    # What the end of the stream releases tells no latency.
    known = len(latencies)
    either.punctuate(END, give)
    while either.outstanding:
        later.now += PAGE
        either.take_answers(give)
    return Counted(counts, held, mean(latencies[:known]) / SECOND)


def measure(size: Size) -> Measured:
    """Count in windows of 2 s by each way, by how long B takes."""
    seconds, rate = size.of(tiny=(12, 100), small=(30, 1_000), paper=(300, 10_000))
    whole, rows = stream(seconds, rate), list[dict[str, object]]()
    for delay in size.of(tiny=(50, 400), small=(50, 100, 200, 500, 1_000), paper=(50, 100, 200, 500, 1_000, 2_000)):
        found = {way: run(way, whole, delay) for way in (OOP, MERGE, SLACK)}
        agreed({way: each.counts for way, each in found.items()})
        rows.extend(
            {"series": way, "delay": delay / SECOND, "held": each.held, "latency": each.latency}
            for way, each in found.items()
        )
    return Measured.of(
        rows,
        f"{seconds * rate:,} tuples in order, {rate:,} a second; {CHEAP:.0%} satisfy A, and of the others half satisfy"
        f" B. Windows of {WINDOW // SECOND} s, pages of {PAGE} ms. B is asked for up to 16 tuples at a time, all at the"
        f" same time; a call takes an exponential time, cut at {LONGEST} times its mean, by a clock of the experiment."
        " Slack is as long as the longest call. Held are tuples that wait for B, that wait in the merge, and partial"
        " aggregates; latencies are means, from the end of a window to its result.",
        "The thesis draws this plan, and measures nothing of it: the axes are ours.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare what is held with that of the merge, and latency with that of slack, at each delay."""
    held, latency = ({w: measured.along(w, "delay", c) for w in (OOP, MERGE, SLACK)} for c in ("held", "latency"))
    last = max(held[OOP])
    more = [held[MERGE][delay] / held[OOP][delay] for delay in held[OOP]]
    late = [latency[SLACK][delay] / latency[OOP][delay] for delay in latency[OOP]]
    same = all(latency[OOP][delay] <= latency[MERGE][delay] for delay in latency[OOP])
    return Verdict.of(
        Check(min(more) > 1, f"the merge holds {min(more):.2f} to {max(more):.2f} times what is held out of order"),
        Check(
            held[MERGE][last] - held[OOP][last] > held[MERGE][min(held[OOP])] - held[OOP][min(held[OOP])],
            f"the difference grows with the delay, to {held[MERGE][last] - held[OOP][last]:,.0f} tuples at {last:g} s",
        ),
        Check(min(late) > 1, f"with slack results take {min(late):.2f} to {max(late):.2f} times as long"),
        Check(same, "results come as soon out of order as behind the merge"),
    )


FIG_8_3: Final = Figure(
    "8-3",
    "thesis",
    "A count behind a cheap and an expensive condition, by how long the expensive one takes",
    "A merge that puts tuples back in order behind an expensive condition costs memory, and slack for its delay costs"
    " latency. Out of order neither is needed: a count takes each tuple at once, and promises say when it is complete.",
    Axis("delay", "mean time of a call of the expensive condition, s"),
    [Axis("held", "tuples and partial aggregates held"), Axis("latency", "seconds from window end to result")],
    measure,
    judge,
)
