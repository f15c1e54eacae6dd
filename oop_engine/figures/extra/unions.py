"""Two links, one behind the other: Meld and window-ids, Merge and buffered windows, and slack on one axis."""

from __future__ import annotations

from typing import Final

import numpy as np

from oop_engine.figures.extra.arrivals import SCHEMA, SECOND, Observed, Steps, observe
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.chain import Chain
from operators.data.page import Page
from operators.functions import count
from operators.protocol import Element
from operators.streams.meld import Meld
from operators.streams.merge import Merge
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, before

MELD, MERGE, LITTLE, MUCH = "Meld and WID", "Merge and buffer", "slack 2 s", "slack 10 s"
SLACKS: Final = {LITTLE: 2 * SECOND, MUCH: 10 * SECOND}
"""Slack that was enough for links in step, and slack for the largest skew."""
STEP: Final = 50
WINDOW: Final = SlidingWindow("ts", size=5 * SECOND, slide=SECOND)
GROUPS: Final = 20


def steps(way: str, seconds: int, rate: int, skew: int) -> Steps:
    """Yield what two links in order bring, the second of which is late by the skew, as a whole.

    - `way`: with slack both come on one input, which promises by the highest time; else each promises what it knows.
    - `seconds`, `rate`: how long each link is, and its tuples a second.
    - `skew`: in ticks.
    """
    random, n = np.random.default_rng(1), seconds * rate
    ts, slack = np.arange(n) * SECOND // rate, SLACKS.get(way)
    links = [Page.of(SCHEMA, {"ts": ts, "k": random.integers(0, GROUPS, n)}) for _ in range(2)]
    starts, highest, last = [0, 0], 0, seconds * SECOND + skew
    for now in range(STEP, last + STEP, STEP):
        elements: list[tuple[int, Element]] = []
        for port, (link, late) in enumerate(zip(links, (0, skew), strict=True)):
            stop = int(np.searchsorted(ts, now - late))
            if stop > starts[port]:
                elements.append((0 if slack else port, link.slice(starts[port], stop)))
                starts[port], highest = stop, max(highest, int(ts[stop - 1]))
            if not slack:
                elements.append((port, before("ts", now - late)))
        yield now, [*elements, (0, before("ts", highest - slack))] if slack else elements
    yield last, [(port, END) for port in range(1 if slack else 2)]


def counted(way: str, seconds: int, rate: int, skew: int) -> Observed:
    """Count both links by group, in windows of 5 s that slide by a second.

    - `way`, `seconds`, `rate`, `skew`: as for `steps`.
    """
    counting = Chain([Bucket(WINDOW), WindowAggregate(WINDOW, {"n": count()}, ["k"], strategy="wid")])
    buffering = Chain([Bucket(WINDOW), BufferAggregate(WINDOW, {"n": count()}, ["k"])])
    ways = {MELD: Chain([Meld(2), counting]), MERGE: Chain([Merge(2, "ts"), buffering])}
    return observe(ways.get(way, counting), steps(way, seconds, rate, skew))


def measure(size: Size) -> Measured:
    """Count by each way, by how far the links are apart."""
    seconds, rate = size.of(tiny=(25, 40), small=(40, 1_000), paper=(120, 10_000))
    rows: list[dict[str, object]] = []
    for skew in size.of(tiny=(0, 5), small=(0, 1, 2, 4, 7, 10), paper=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)):
        found = {way: counted(way, seconds, rate, skew * SECOND) for way in (MELD, MERGE, LITTLE, MUCH)}
        # Too little slack gives wrong answers, which is what is measured; the others have to agree.
        true = agreed({way: each.counts for way, each in found.items() if way != LITTLE})
        for way, each in found.items():
            wrong = 100 * sum(each.counts.get(key) != n for key, n in true.items()) / len(true)
            rows.append({"series": way, "skew": skew, "held": each.held, "latency": each.latency, "wrong": wrong})
    return Measured.of(
        rows,
        f"2 links of {rate:,} tuples a second for {seconds} s, each in order, the second late by the skew; counts by"
        f" {GROUPS} groups in windows of 5 s that slide by a second. Held are tuples and partial aggregates; latencies"
        " are means, from the end of a window to its result. Slack is for both links together, below the highest time.",
        "Partial aggregates are as many as slices and groups, tuples as many as the rate says: with a group for each"
        " tuple both would hold as much.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare memory, latency and wrong answers at each skew."""
    held, latency, wrong = (
        {way: measured.along(way, "skew", column) for way in measured.series} for column in ("held", "latency", "wrong")
    )
    skews = list(held[MELD])
    more = [held[MERGE][skew] / held[MELD][skew] for skew in skews]
    late = max(latency[MELD][skew] - latency[MERGE][skew] for skew in skews)
    beyond = [skew for skew in skews if skew * SECOND > SLACKS[LITTLE]]
    least = min(wrong[LITTLE][skew] for skew in beyond)
    longer = [latency[MUCH][skew] - latency[MELD][skew] for skew in skews]
    return Verdict.of(
        Check(min(more) > 1, f"{MERGE} holds {min(more):.1f} to {max(more):.1f} times what {MELD} holds"),
        Check(late <= 0, f"{MELD} answers as soon as {MERGE} at each skew"),
        Check(max(wrong[MELD].values()) == 0 == max(wrong[MERGE].values()), "with promises no answer is wrong"),
        Check(least > 0, f"{LITTLE}: {least:.0f} % of the answers are wrong, and more, where the skew is larger"),
        Check(
            min(longer) >= 0 and max(longer) > 0,
            f"{MUCH}: results take {min(longer):.1f} to {max(longer):.1f} s longer than by promises",
        ),
    )


UNIONS: Final = Figure(
    "unions",
    "extra",
    "Memory, latency and wrong answers over two links, by their skew",
    "Meld with window-ids holds less than Merge with buffered windows, and answers as soon. Slack is wrong where the"
    " skew is larger, and later where it is smaller (thesis, chapters 3 and 8).",
    Axis("skew", "skew, s"),
    [
        Axis("held", "tuples and partial aggregates held", scale="log"),
        Axis("latency", "seconds from window end to result"),
        Axis("wrong", "wrong answers, %"),
    ],
    measure,
    judge,
)
