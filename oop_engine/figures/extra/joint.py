"""Groups of both times of a join: how soon individual and joint promises complete them, by the size of windows."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, TypeAlias

import numpy as np

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.thesis.joins import INDIVIDUAL, JOINT
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.drive import drive
from operators.join import Band, OAJoin
from punctuation import Punctuation, before, below

SCHEMA: Final = Schema.of(ts="int64", progress=["ts"])
Way: TypeAlias = Literal["individual", "joint"]
WAYS: Final[dict[str, Way]] = {INDIVIDUAL: "individual", JOINT: "joint"}


def over(way: Way, length: int, band: int) -> Int64s:
    """Return when a join promises that a group of S0.ts and S1.ts is over, in seconds, 0 for never.

    - `way`: how the join promises.
    - `length`: the seconds of both inputs, which have a tuple and a promise a second, in order and in step.
    - `band`: of the join, in seconds.

    The shape is (length, length): S0.ts down, S1.ts across.
    """
    join = OAJoin(Band("ts", "ts", left=band, right=band), promises=way)
    join.output_schema(SCHEMA, SCHEMA)
    found = np.zeros((length, length), np.int64)
    for now in range(1, length + 1):
        page, promise = Page.of(SCHEMA, {"ts": [now - 1]}), before("ts", now)
        for element in drive(join, [(0, page), (1, page), (0, promise), (1, promise)]):
            if isinstance(element, Punctuation):
                bounds = {name: max(0, int(str(below(pattern)))) for name, pattern in element.patterns}
                covered = found[: bounds.get("ts", length), : bounds.get("right_ts", length)]
                covered[covered == 0] = now
    return found


def latency(way: Way, band: int) -> float:
    """Return how long after its last tuple a group is known to be over, in seconds, on the average.

    - `way`, `band`: as for `over`. Groups are those within the band that are over well before the end.
    """
    length = 4 * (band + 1)
    left, right = np.indices((length, length))
    inside = (abs(left - right) < band) & (np.maximum(left, right) < length - 2 * band)
    return float((over(way, length, band) - np.maximum(left, right) - 1)[inside].mean())


def measure(size: Size) -> Measured:
    """Take bands of a second and more."""
    bands = size.of(tiny=(1, 4, 8), small=(1, 2, 5, 10, 20, 40), paper=(1, 2, 5, 10, 20, 40, 80, 120))
    rows = [
        {"series": name, "band": band, "latency": latency(way, band)} for name, way in WAYS.items() for band in bands
    ]
    return Measured.of(
        rows,
        "Two inputs of a tuple and a promise a second, in order and in step, joined within the band. A group is a pair"
        " of times, one of each input, as GROUP BY S0.ts, S1.ts behind the join has it. Latency is the time from its"
        " last tuple to the first promise of the join that covers it, on the average over all groups within the band.",
    )


def judge(measured: Measured) -> Verdict:
    """See whether joint promises come at once, and individual ones later the larger the band."""
    one, both = (list(measured.along(name, "band", "latency").values()) for name in (INDIVIDUAL, JOINT))
    bands = list(measured.along(JOINT, "band", "latency"))
    return Verdict.of(
        Check(
            max(both) < 1,
            f"joint promises take {min(both):.2f} to {max(both):.2f} s; promises come each second, so less is at once",
        ),
        Check(
            all(less < more for less, more in pairwise(one)),
            f"individual ones take longer at each larger band, from {one[0]:.2f} s at {bands[0]:g} s to {one[-1]:.2f} s"
            f" at {bands[-1]:g} s",
        ),
        why="An individual promise covers all partners of a time, and waits for the last of them.",
    )


JOINT_LATENCY: Final = Figure(
    "joint-latency",
    "extra",
    "Latency of a group of both times of a join, by the size of its windows",
    "By joint promises a group is complete at once, whatever the size of the windows; by individual ones it waits the"
    " longer the larger they are (thesis, chapter 7).",
    Axis("band", "band, s"),
    [Axis("latency", "seconds from the last tuple to the promise")],
    measure,
    judge,
)
