"""Two hundred stalls, each with a planted cause or two: the culprit is named first, with its cause, in all of them.

Three sources go through a plan; one is the culprit, which is two minutes behind, and in a pair another is one minute
behind for another reason. The run is asked what its next window waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import attrs
import pytest

import oop_engine as oop
from oop_engine.drive.why import Wait
from oop_engine.plan.punctuate import Promise
from tests.oop_engine.drive.simulated import Simulated, Slow, live

BEGIN, END, STEP = 1000, 1795, 5
"""The end is right before a multiple of both delays."""
FAR, NEAR = 120, 60
NAMES = ("a", "b", "c")


@attrs.frozen
class Planted:
    """How a source that is so many seconds behind promises, what it gives, and what its stall is to be called."""

    cause: str
    promise: Callable[[int], Promise]
    rows: Callable[[int], list[tuple[int, int]]]


def in_order(behind: int = 0, until: int = END) -> list[tuple[int, int]]:
    return [(at - behind, 0) for at in range(BEGIN, until + 1, STEP)]


def two_keys(behind: int) -> list[tuple[int, int]]:
    return [row for at in range(BEGIN, END + 1, STEP) for row in ((at, 0), (at - behind, 1))]


CAUSES = {
    "a lull": Planted("silent", lambda behind: oop.ordered(), lambda behind: in_order(0, END - behind)),
    "skew": Planted("behind", lambda behind: oop.ordered(), in_order),
    "a slack": Planted("slack", lambda behind: oop.slack(f"{behind} s"), lambda behind: in_order()),
    "places": Planted("slack", lambda behind: oop.tuple_slack(behind // STEP), lambda behind: in_order()),
    "a promise that is seldom made": Planted(
        "seldom", lambda behind: oop.slack("0 s", step=f"{behind} s"), lambda behind: in_order()
    ),
    "a key": Planted("behind", lambda behind: oop.by_key("k", slack="0 s", idle="300 s"), two_keys),
}
Made = Callable[[list[oop.Stream]], oop.Stream]


def counted(stream: oop.Stream, strategy: str = "auto") -> oop.Stream:
    return stream.window(range="10 s").aggregate(oop.count(), by="k", strategy=strategy)


PLANS: dict[str, Made] = {
    "a meld": lambda streams: counted(oop.meld(*streams)),
    "a meld of melds behind filters": lambda streams: counted(
        oop.meld(oop.meld(*(s.filter("k >= 0") for s in streams[:2])), streams[2])
    ),
    "a join": lambda streams: (
        streams[0].join(oop.meld(*streams[1:]), on="k", range="5 s").window(range="10 s").aggregate(oop.count())
    ),
    "windows of windows": lambda streams: (
        counted(oop.meld(*streams)).window(range="20 s", wattr="window_start").aggregate(oop.sum("count"))
    ),
    "two levels": lambda streams: counted(oop.meld(*streams), strategy="two_level"),
}
NO_WINDOWS = "two levels"
"""Partial aggregates do not tell their windows, so a cause that depends on what is needed is not told either."""


@attrs.frozen
class Stall:
    plan: str
    first: str
    second: str | None
    place: int
    """The source that is the culprit; the next one is the other."""

    def __str__(self) -> str:
        """Return what is planted where."""
        other = "" if self.second is None else f" and {self.second}"
        return f"{self.plan}: {self.first} in {NAMES[self.place]}{other}"


def stalls() -> Iterator[Stall]:
    for number, plan in enumerate(PLANS):
        yield from (Stall(plan, cause, None, place) for cause in CAUSES for place in (0, 1))
        yield from (
            Stall(plan, first, second, (number + turn) % 3)
            for turn, (first, second) in enumerate(permutations(CAUSES, 2))
            if turn % 15 != 14
        )


ALL = list(stalls())


def asked(stall: Stall) -> Wait:
    """Run a stall and ask."""
    planted = {NAMES[stall.place]: (CAUSES[stall.first], FAR)}
    if stall.second is not None:
        planted[NAMES[(stall.place + 1) % 3]] = CAUSES[stall.second], NEAR
    streams = [
        live(name, planted[name][0].promise(planted[name][1]) if name in planted else oop.ordered()) for name in NAMES
    ]
    run = Simulated(PLANS[stall.plan](streams), BEGIN)
    given = {name: planted[name][0].rows(planted[name][1]) if name in planted else in_order() for name in NAMES}
    silent = {name: behind for name, (cause, behind) in planted.items() if cause.cause == "silent"}
    for name in sorted(NAMES, key=lambda name: -silent.get(name, 0)):
        run.now = END - silent.get(name, 0)
        run.give(name, given[name])
    return run.why()


def check(stall: Stall) -> None:
    wait = asked(stall)
    assert wait.holder == NAMES[stall.place], (str(stall), str(wait))
    if stall.plan != NO_WINDOWS:
        assert wait.window is not None and wait.cause == CAUSES[stall.first].cause, (str(stall), str(wait))
        assert wait.chain[-1].label == wait.holder


@pytest.mark.parametrize("plan", PLANS)
def test_the_culprit_is_named_first(plan: str) -> None:
    mine = [stall for stall in ALL if stall.plan == plan]
    assert len(mine) == 40 and len(ALL) == 200
    for stall in mine:
        check(stall)


@pytest.mark.parametrize("name", [name for name in PLANS if name != "a join"])
def test_an_operator_that_is_slower_than_its_input_is_named_in_every_plan(name: str) -> None:
    first, *others = (live(one, oop.ordered()) for one in NAMES)
    run = Simulated(PLANS[name]([first.apply(Slow()), *others]), BEGIN)
    run.spend(2.0)
    for at in range(BEGIN, BEGIN + 400, STEP):
        for one in NAMES:
            run.give(one, [(at, 0)])
    wait = run.why()
    assert wait.cause == "backpressure" and wait.holder.startswith("Slow")
