"""Write the lessons in demos that are records of runs: python docs/lessons.py; the page shows them.

oop-engine page demos/slack_and_punctuation.oop
oop-engine page demos/joint_promises.oop

They are run by the clock of their tuples, so that they are the same on each machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.page.record import Recorder
from oop_engine.rewrite.passes import together
from operators.data.page import Page
from operators.protocol import Element
from punctuation import before

DEMOS: Final = Path(__file__).parents[1] / "demos"
NOON: Final = 1_700_049_600
SCHEMA: Final = oop.Schema.of(ts="timestamp[s]", flow="int64")
STEP: Final = 5
"""Seconds between two tuples of a link."""
LATE: Final = 40
"""Seconds that one of 24 tuples comes late."""

Lesson = tuple[str, Sequence[oop.Stream], Sequence[Sequence[int]]]
"""A title, streams, and for each source in the order of the plan when its tuples arrive."""


def slack_and_punctuation() -> Lesson:
    """Promise one link by slack, as wide as its worst tuple, and the same one by a sender that knows what is to come.

    A slack makes each window wait as long as the worst tuple needs. Punctuation waits for a tuple where one is missing.
    """
    times = [NOON + STEP * n for n in range(96)]
    came = sorted((ts + LATE * (n % 24 == 21), ts) for n, ts in enumerate(times))
    sent = [ts for _, ts in came]
    told = [each for n, ts in enumerate(sent) for each in ((ts, 1), before("ts", min(sent[n + 1 :], default=ts)))]
    knowing = oop.Schema.of(ts="timestamp[s]", flow="int64", progress=["ts"])
    links = (
        oop.rows(iter([(ts, 1) for ts in sent]), SCHEMA, name="by slack", punctuate=oop.slack(f"{LATE} s")),
        oop.rows(iter(told), knowing, name="by its sender"),
    )
    streams = [link.window(range="1 minute").aggregate(oop.count()) for link in links]
    arrivals = [at for at, _ in came]
    return "The same link, promised by slack and by its sender", streams, (arrivals, arrivals)


def joint_promises() -> Lesson:
    """Join two links within a minute, and count the pairs by the time of one packet, and by the later time of both.

    An individual promise on one time has to hold whatever the other time is, so it is behind by the minute that a tuple
    waits for partners. A joint one says that no pair comes of which both times are earlier. That is all that a count by
    the later time asks for, and it is released at once.
    """
    times = [[NOON + STEP * n + shift for n in range(96)] for shift in (0, 2)]
    one, other = (
        oop.rows(iter([(ts, ts % 3) for ts in each]), SCHEMA, name=name, punctuate=oop.ordered())
        for name, each in zip(("inside", "outside"), times, strict=True)
    )
    pairs = one.join(other, "flow", range="1 minute", greatest="later")
    counts = [pairs.window(range="1 minute", wattr=time).aggregate(oop.count()) for time in ("ts", "later")]
    return "Pairs by one time (individual promises) and by the later of both (joint ones)", counts, times


LESSONS: Final = {"slack_and_punctuation": slack_and_punctuation, "joint_promises": joint_promises}


def write(lesson: Lesson, path: Path) -> None:
    """Run a lesson by the clock of its tuples, and keep its record."""
    title, streams, arrivals = lesson
    plan = together([stream.node for stream in streams])
    now = NOON
    circuit = Circuit(plan, 1, clock=lambda: float(now), wall=lambda: now * 10**9)
    with circuit, Recorder(path, plan, title, clock=lambda: float(now), now=lambda: now * 10**9) as recorder:
        circuit.prepare()
        places = list(circuit.plan.sources)
        reading = {place: _elements(circuit, place) for place in places}
        queue = sorted((at, place) for place, each in zip(places, arrivals, strict=True) for at in each)
        # What comes first of a link is known with its next tuple: a tuple, and the promises behind it.
        ahead = {place: next(reading[place]) for place in places}
        circuit.heard.update(dict.fromkeys(places, float(now)))
        for now, place in queue:
            given: Element | None = ahead[place]
            while given is not None:
                circuit.give(place, 0, given)
                given = next(reading[place], None)
                if isinstance(given, Page):
                    ahead[place] = given
                    break
            circuit.heard[place] = float(now)
            recorder.watch(circuit)
        for place in places:
            circuit.finish(place)


def _elements(circuit: Circuit, place: int) -> Iterator[Element]:
    for chunk in circuit.open(place):
        yield from circuit.pages(place, chunk)


if __name__ == "__main__":
    for name, lesson in LESSONS.items():
        write(lesson(), DEMOS / f"{name}.oop")
