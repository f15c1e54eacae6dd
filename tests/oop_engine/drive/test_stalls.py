"""Four hundred stalls, each with a planted cause or two: the culprit is named first, with its cause, in all of them.

Three sources go through a plan; one is the culprit, which is two minutes behind, and in a pair another is one minute
behind for another reason. The run is asked what its next window waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations

import attrs
import pytest

import oop_engine as oop
from oop_engine.drive.why import Wait
from oop_engine.plan.punctuate import Promise
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.holder import Holder
from oop_engine.sources.live.exporters import SECOND, Rules
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.report import Report, address_text
from punctuation import before
from tests.examples import mostly_slow
from tests.naive_exporters import Export
from tests.oop_engine.drive.simulated import Simulated, Slow, live
from tests.oop_engine.live.test_exporter_progress import heard

BEGIN, END, STEP = 1000, 1795, 5
"""The end is right before a multiple of both delays."""
FAR, NEAR = 120, 60
NAMES = ("a", "b", "c")
ADDRESS = bytes(12) + bytes((192, 0, 2, 3))
RULES = Rules(settle=0, trusted_after=1, lull=None)


@attrs.frozen
class Planted:
    """How a source that is so many seconds behind promises, what it gives, and what its stall is to be called."""

    cause: str
    promise: Callable[[int], Promise | None]
    """None where the stream makes its own, as that of an exporter does."""
    rows: Callable[[int], list[tuple[int, int]]]

    def holder(self, name: str) -> str:
        """Return who is to be named for a source."""
        return name if self.cause != "clock" else f"exporter {address_text(ADDRESS)}"


@attrs.define(eq=False)
class Clocked:
    """The reading of a source that one exporter sends, whose clock is so many seconds behind."""

    run: Simulated
    name: str
    behind: int
    progress: ExporterProgress = attrs.field(init=False, factory=lambda: ExporterProgress(RULES))

    def give(self, rows: list[tuple[int, int]]) -> None:
        """Hear a datagram with each tuple, and give the tuples and what is promised."""
        place = self.run.places[self.name]
        self.run.circuit.readers[place] = self  # pyright: ignore[reportArgumentType]
        for at, _ in rows:
            times = [{"ts": at * SECOND}]
            sent = Export((ADDRESS, 0, 0), at * SECOND, (at + self.behind) * SECOND, times)
            self.progress.hear(heard([sent], ("ts",)))
        self.run.give(self.name, rows)
        for promise in self.progress.elapse(int(self.run.now) * SECOND):
            bound = promise.bound("ts")
            assert isinstance(bound, int)
            self.run.circuit.give(place, 0, before("ts", bound // SECOND))

    def holder(self, attribute: str) -> Holder | None:
        """Return the exporter, in ticks of the source."""
        now = int(self.run.now) * SECOND
        found = Report(self.name, FlowDecoder(), self.progress).holder(attribute, now)
        return None if found is None or found.bound is None else attrs.evolve(found, bound=found.bound // SECOND)

    def arrived(self) -> None:
        """Return nothing: it is read live."""

    def sooner(self, attribute: str, need: int) -> None:
        """Return nothing: it is never silent."""


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
    "a wrong clock": Planted("clock", lambda behind: None, in_order),
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
        )


ALL = list(stalls())


def asked(stall: Stall) -> Wait:
    """Run a stall and ask."""
    planted = {NAMES[stall.place]: (CAUSES[stall.first], FAR)}
    if stall.second is not None:
        planted[NAMES[(stall.place + 1) % 3]] = CAUSES[stall.second], NEAR
    return filled(PLANS[stall.plan], planted).why()


def filled(
    plan: Made, planted: Mapping[str, tuple[Planted, int]], more: Mapping[str, list[tuple[int, int]]] | None = None
) -> Simulated:
    """Run a plan of the three sources, of which some are planted so far behind, and others give more."""
    streams = [
        live(name, planted[name][0].promise(planted[name][1]) if name in planted else oop.ordered()) for name in NAMES
    ]
    run = Simulated(plan(streams), BEGIN)
    given = {name: planted[name][0].rows(planted[name][1]) if name in planted else in_order() for name in NAMES}
    for name, rows in (more or {}).items():
        given[name] = sorted([*given[name], *rows])
    silent = {name: behind for name, (cause, behind) in planted.items() if cause.cause == "silent"}
    for name in sorted(NAMES, key=lambda name: -silent.get(name, 0)):
        run.now = END - silent.get(name, 0)
        if name in planted and planted[name][0].cause == "clock":
            Clocked(run, name, planted[name][1]).give(given[name])
        else:
            run.give(name, given[name])
    return run


def check(stall: Stall) -> None:
    wait = asked(stall)
    assert wait.holder == CAUSES[stall.first].holder(NAMES[stall.place]), (str(stall), str(wait))
    if stall.plan != NO_WINDOWS:
        assert wait.window is not None and wait.cause == CAUSES[stall.first].cause, (str(stall), str(wait))
        assert wait.chain[-1].label == NAMES[stall.place]


@pytest.mark.parametrize("plan", mostly_slow(PLANS, every=3))
def test_the_culprit_is_named_first(plan: str) -> None:
    mine = [stall for stall in ALL if stall.plan == plan]
    assert len(mine) == 56 and len(ALL) == 280
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


def of_themselves(name: str, made: oop.Stream) -> oop.Stream:
    """Make what waits for something that no source is behind with."""
    whole: dict[str, Callable[[oop.Stream], oop.Stream]] = {
        "a session that goes on": lambda s: s.window(oop.session("3 s")).aggregate(oop.count(), by="k"),
        "an end that has not come": lambda s: s.aggregate(oop.count(), by="k"),
        "numbers by arrival": lambda s: s.number("n").window(range=10_000, wattr="n").aggregate(oop.count()),
        "windows of tuples": lambda s: s.window(oop.counted(23)).aggregate(oop.count()),
    }
    return whole[name](made)


JOINED: dict[str, Made] = {
    "a meld": lambda streams: oop.meld(*streams),
    "a meld of melds behind filters": lambda streams: oop.meld(
        oop.meld(*(s.filter("k >= 0") for s in streams[:2])), streams[2]
    ),
}
OWN = {
    "a session that goes on": ("session", "the session of k 7", False),
    "an end that has not come": ("end of stream", None, True),
    "numbers by arrival": ("tuples", "number as n", True),
    "windows of tuples": ("tuples", "aggregate count(*) [RANGE 23 rows, SLIDE 23 rows, WA rank(ts)]", False),
}
"""For each the cause, who is named (None for the source that it is planted in), and whether it waits for no promise."""


GOES_ON = [(at, 7) for at in range(BEGIN + 1, END - 1, 2)]
"""Tuples whose session ends before those that the last tuples of others begin."""


def planted_alone(name: str, plan: str, place: int) -> None:
    culprit = NAMES[place]
    more = {culprit: GOES_ON} if name == "a session that goes on" else {}
    run = filled(lambda streams: of_themselves(name, JOINED[plan](streams)), {}, more)
    if name == "an end that has not come":
        for one in set(NAMES) - {culprit}:
            run.give(one, [])
    wait, (cause, holder, _) = run.why(), OWN[name]
    assert (wait.cause, wait.holder) == (cause, culprit if holder is None else holder), (name, plan, str(wait))


def planted_with(name: str, plan: str, place: int, other: str) -> None:
    """Let a source be behind for another reason, too."""
    named, second = NAMES[place], NAMES[(place + 1) % 3]
    cause, holder, alone = OWN[name]
    planted = {named: (CAUSES[other], FAR)}
    if name == "an end that has not come":
        # No source has ended, so the one that is furthest behind is named.
        planted[second] = CAUSES["skew"], NEAR
    more = {second: GOES_ON} if name == "a session that goes on" else {}
    wait = filled(lambda streams: of_themselves(name, JOINED[plan](streams)), planted, more).why()
    if alone:
        assert (wait.cause, wait.holder) == (cause, named if holder is None else holder), (name, other, str(wait))
    else:
        assert (wait.cause, wait.holder) == (CAUSES[other].cause, CAUSES[other].holder(named)), (name, other, str(wait))


@pytest.mark.parametrize("name", OWN)
def test_what_waits_for_no_source_is_named_alone_and_beside_others(name: str) -> None:
    for number, plan in enumerate(JOINED):
        for place in range(3):
            planted_alone(name, plan, place)
        for turn, other in enumerate(CAUSES):
            planted_with(name, plan, (turn + number) % 3, other)


@pytest.mark.parametrize("plan", PLANS)
def test_a_slow_consumer_is_named_before_any_source(plan: str) -> None:
    for turn, cause in enumerate(CAUSES):
        run = filled(PLANS[plan], {NAMES[turn % 3]: (CAUSES[cause], FAR)})
        run.circuit.pressing = lambda: {0: 5.0}
        wait = run.why()
        assert (wait.cause, wait.holder) == ("backpressure", "the consumer of its results"), (cause, str(wait))


@pytest.mark.parametrize("name", mostly_slow([name for name in PLANS if name not in ("a join", NO_WINDOWS)], every=3))
def test_a_slow_operator_is_named_before_a_source_that_is_less_behind(name: str) -> None:
    for second in ("skew", "a lull", "a slack", "a wrong clock"):
        planted = CAUSES[second]
        slow, other, last = (live("a", oop.ordered()), live("b", planted.promise(NEAR)), live("c", oop.ordered()))
        run = Simulated(PLANS[name]([slow.apply(Slow()), other, last]), BEGIN)
        run.spend(0.9 * STEP)
        give = Clocked(run, "b", NEAR).give if planted.cause == "clock" else partial(run.give, "b")
        rows = {row[0] + (NEAR if planted.cause in ("behind", "clock") else 0): row for row in planted.rows(NEAR)}
        for at in range(BEGIN, END + 1, STEP):
            run.now = at
            run.give("c", [(at, 0)])
            if at in rows:
                give([rows[at]])
            run.give("a", [(at - FAR, 0)])
        wait = run.why()
        assert wait.cause == "backpressure" and wait.holder.startswith("Slow"), (second, str(wait))
