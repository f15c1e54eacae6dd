"""Who is named as the one that holds a window open is whose promise lets it go, and nobody else's does without it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import oop_engine as oop
from oop_engine.api.running import Running
from oop_engine.drive import busy, forecast, why
from oop_engine.drive.limit import Limit
from oop_engine.drive.synchronous import Run
from oop_engine.drive.why import CAUSES, Wait
from oop_engine.plan.graph import SourceNode
from oop_engine.plan.punctuate import Promise
from oop_engine.sinks import ListSink
from operators.data.page import Page
from operators.protocol import Element
from punctuation import before
from tests.examples import mostly_slow

SCHEMA = oop.Schema.of(ts="int64", k="int64")
FAR = 1_000_000
Made = Callable[[Sequence[oop.Stream]], oop.Stream]


def counted(stream: oop.Stream) -> oop.Stream:
    return stream.window(range=10).aggregate(oop.count(), by="k")


PLANS: dict[str, Made] = {
    "windows over a meld": lambda streams: counted(oop.meld(*streams)),
    "no groups": lambda streams: oop.meld(*streams).window(range=10).aggregate(oop.count()),
    "sliding": lambda streams: oop.meld(*streams).window(range=20, slide=5).aggregate(oop.sum("k"), by="k"),
    "behind a filter": lambda streams: counted(oop.meld(*(s.filter("k < 2") for s in streams)).derive(z="k + 1")),
    "a filter that passes nothing": lambda streams: counted(oop.meld(*streams[:-1], streams[-1].filter("k > 9"))),
    "sessions": lambda streams: oop.meld(*streams).window(oop.session(4)).aggregate(oop.count(), by="k"),
    "several windows": lambda streams: (
        oop.meld(*streams).windows(a=oop.tumbling(10), b=oop.sliding(30, 10)).aggregate(oop.count())
    ),
    "windows of windows": lambda streams: (
        counted(oop.meld(*streams)).window(range=20, wattr="window_start").aggregate(oop.sum("count"))
    ),
    "a meld of windows": lambda streams: oop.meld(*map(counted, streams)),
    "windows over a join": lambda streams: (
        streams[0].join(oop.meld(*streams[1:]), on="k", range=5).window(range=10).aggregate(oop.count())
    ),
    "windows by the time on the right": lambda streams: (
        oop.meld(*streams[1:])
        .join(streams[0], on="k", range=(5, 2))
        .window(range=10, wattr="right_ts")
        .aggregate(oop.count())
    ),
    "windows over a join of windows": lambda streams: (
        streams[0].join(streams[1], on="k", tumbling=8).window(range=16).aggregate(oop.count())
    ),
    "windows by the greater time": lambda streams: (
        streams[0]
        .join(streams[-1], on="k", range=5, least="from", greatest="to")
        .window(range=10, wattr="to")
        .aggregate(oop.count())
    ),
}


def source(draw: random.Random, number: int) -> oop.Stream:
    """Make a source that promises in one way or another, with some disorder that the promise allows."""
    times = [at + draw.randrange(4) for at in range(0, 120, draw.choice((1, 2, 3)))]
    how = draw.choice(("ordered", "slack", "every", "places", "file"))
    times = sorted(times) if how in ("ordered", "every") else times
    rows = [(at, draw.randrange(2)) for at in times]
    name = f"source {number}"
    if how == "file":
        return oop.rows(rows, SCHEMA, name=name)
    promises = {
        "ordered": oop.ordered(),
        "slack": oop.slack(draw.choice((4, 30))),
        "every": oop.every(draw.choice((7, 50))),
        "places": oop.tuple_slack(draw.choice((4, 20))),
    }
    return oop.rows(iter(rows), SCHEMA, name=name, punctuate=promises[how])


def running(plan: Made, seed: int, pages: int) -> Running | None:
    """Start a run of some sources and stop it after so many pages of results; None where it ends before."""
    draw = random.Random(seed)
    run = plan([source(draw, number) for number in range(draw.choice((2, 3)))]).start(page_rows=draw.choice((1, 3, 16)))
    for _ in range(pages):
        if next(run, None) is None:
            return None
    return run


def sources(run: Running) -> dict[str, int]:
    circuit = run._run.circuit
    return {
        node.label: place
        for place, node in enumerate(circuit.plan.nodes)
        if isinstance(node, SourceNode) and place not in circuit.finished
    }


def released(run: Running, wait: Wait) -> bool:
    """Return whether the window that was waited for is open no more."""
    now = run.why()
    return (now.operator, now.window) != (wait.operator, wait.window)


@pytest.mark.parametrize(
    ("flush", "options", "said"),
    [
        ("complete", {}, "which has promised ts to 10; its highest ts is 15"),
        ("lazy", {"delay": 3}, "1 tuple without a partner waits for its flush; it leaves once right promises ts < 50."),
        ("slow", {"every": 4, "delay": 30}, "it leaves as 4 more tuples come, or once right promises ts < 320."),
    ],
)
@pytest.mark.usefixtures("patient")
def test_a_join_that_lets_tuples_leave_little_by_little_is_what_a_window_waits_for(
    flush: Any, options: dict[str, int], said: str
) -> None:
    times = (1, 2, 3, 15, 25, 35, 45, 55, 65, 95)
    left = oop.rows(iter([(at, 0) for at in times]), SCHEMA, name="left", punctuate=oop.ordered())
    right = oop.rows(iter([(at, 1) for at in range(0, 100, 5)]), SCHEMA, name="right", punctuate=oop.ordered())
    alone = left.join(right, "k", tumbling=10, kind="anti", flush=flush, **options)
    run = alone.window(range=10).aggregate(oop.count()).start(page_rows=1)
    assert next(run).rows() == [{"count": 3, "wid": 0, "window_start": 0, "window_end": 10}]
    wait = run.why()
    assert said in str(wait) and wait.cause == ("behind" if flush == "complete" else "flush")
    assert wait.holder.startswith("left" if flush == "complete" else "anti join")
    assert sum(row["count"] for page in run for row in page.rows()) == len(times) - 3  # type: ignore[misc]


@pytest.mark.parametrize("name", mostly_slow(PLANS, every=3))
@pytest.mark.usefixtures("patient")
def test_the_holder_and_nobody_else_lets_the_window_go(name: str) -> None:
    tried = 0
    for seed in range(10):
        pages = 1 + seed % 4
        run, other = running(PLANS[name], seed, pages), running(PLANS[name], seed, pages)
        if run is None or other is None:
            continue
        wait = run.why()
        assert wait.cause in CAUSES and str(wait) == str(other.why())
        if wait.window is None:
            continue
        if wait.cause == "session":
            # No source is behind; it is over once all of them have promised that.
            assert name == "sessions" and wait.holder.startswith("the session of k ")
            continue
        tried += 1
        assert wait.holder in sources(run), wait
        for label, place in sources(other).items():
            if label != wait.holder:
                other._run.circuit.give(place, 0, before("ts", FAR))
        assert not released(other, wait), wait
        named = list[str]()
        while not released(run, wait):
            holder = run.why().holder
            assert holder not in named, wait
            named.append(holder)
            run._run.circuit.give(sources(run)[holder], 0, before("ts", FAR))
    assert tried >= 5


def grouped(strategy: str) -> Made:
    return lambda streams: oop.meld(*streams).window(range=10).aggregate(oop.sum("k"), by="k", strategy=strategy)


@pytest.mark.parametrize(
    "strategy",
    mostly_slow(
        ["panes", "slicing", "buffer", "adaptive", "negative", "two_stacks", "differential", "two_level"], every=3
    ),
)
@pytest.mark.usefixtures("patient")
def test_every_strategy_waits_for_the_same(strategy: str) -> None:
    tried = 0
    for seed in range(12):
        run, other = running(grouped(strategy), seed, 1), running(grouped("wid"), seed, 1)
        if run is None or other is None:
            continue
        ours, theirs = run.why(), other.why()
        if strategy == "two_level":
            # Partial aggregates do not tell whether there is a window at all.
            same = ours.holder == theirs.holder or theirs.cause == "no window"
            assert same and ours.window is None, (ours, theirs)
        else:
            found = (ours.window, ours.needs, ours.cause, ours.holder, ours.facts)
            assert found == (theirs.window, theirs.needs, theirs.cause, theirs.holder, theirs.facts), seed
        tried += theirs.cause != "no window"
    assert tried >= 6


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call no source silent, and measure no time, however slow the machine is."""
    monkeypatch.setattr(why, "_QUIET", float("inf"))
    monkeypatch.setattr(forecast, "_SPAN", float("inf"))
    monkeypatch.setattr(busy, "_PERIOD", float("inf"))


def in_parts(limit: int) -> Wait:
    """Return what a run waits for whose groups are divided into parts."""
    rows = iter([(at, 7) for at in (1, 12, 25, 26)])
    stream = oop.rows(rows, SCHEMA, name="the link", punctuate=oop.ordered()).window(range=10)
    with stream.aggregate(oop.count(), by="k").start() as unlimited:
        run = Run(unlimited.plan, 1, Limit(limit))
    for _, element in run:
        if isinstance(element, Page):
            break
    (wait,) = why.why(run.circuit)
    return wait


@pytest.mark.usefixtures("patient")
def test_the_window_of_any_part_is_named_and_parts_on_disk_are_held_for_the_same() -> None:
    wait = in_parts(1_000_000)
    assert wait.needs == "[ts < 20]" and wait.window is not None and wait.window["k"] == 7
    away = in_parts(1)
    assert away.window is None and away.cause == "behind"
    assert wait.holder == away.holder == "the link"


@pytest.mark.usefixtures("patient")
def test_the_key_that_holds_a_promise_by_key_back_is_named() -> None:
    rows = [(at + ahead, key) for at in range(0, 300, 3) for ahead, key in ((0, 1), (50, 2))]
    by_key = oop.by_key("k", slack=5, idle=60)
    wait = first_wait(counted(oop.rows(iter(rows), SCHEMA, name="exporters", punctuate=by_key)))
    assert (wait.cause, wait.holder) == ("behind", "exporters")
    assert wait.facts == ("k = 1 holds it back, 50 behind the foremost",)


@pytest.mark.usefixtures("patient")
def test_a_stream_that_makes_its_promises_itself_is_told_from_one_that_makes_none() -> None:
    rows = [(1, 0), before("ts", 1), (12, 0), before("ts", 10), (25, 0)]
    told = first_wait(counted(oop.rows(iter(rows), SCHEMA.with_progress([("ts",)]), name="the link")))
    assert (told.cause, told.facts) == ("behind", ("the stream makes its promises itself",))


def first_wait(stream: oop.Stream, page_rows: int = 1) -> Wait:
    with stream.start(page_rows=page_rows) as run:
        next(run)
        return run.why()


def of(times: Sequence[int], punctuate: Promise | None = None) -> oop.Stream:
    rows = [(at, at % 2) for at in times]
    return oop.rows(rows if punctuate is None else iter(rows), SCHEMA, name="the link", punctuate=punctuate)


@pytest.mark.usefixtures("patient")
def test_each_cause_is_told_apart_in_a_sentence() -> None:
    causes = {
        "slack": counted(of([1, 12, 25, 38, 50], punctuate=oop.slack(20))),
        "behind": counted(of([1, 12, 25], punctuate=oop.ordered())),
        "seldom": of([1, 55, 53, 66, 80], punctuate=oop.slack(10, step=50)).window(range=5).aggregate(oop.count()),
        "to follow": counted(of([1, 25, 12, 26, 15, 41])),
    }
    for cause, stream in causes.items():
        wait = first_wait(stream, 3 if cause == "to follow" else 1)
        assert (wait.cause, wait.holder) == (cause, "the link"), wait
        assert " waits for the link, which has promised ts to " in str(wait) and str(wait).endswith(".")


def test_a_tuple_that_is_still_to_come_is_counted_exactly() -> None:
    wait = first_wait(counted(of([1, 25, 12, 26, 15, 41])), 3)
    assert wait.needs == "[ts < 20]"
    assert wait.facts == ("a tuple before that is still to come, the last of the next 2, as was read ahead",)


class Stuck:
    """A sink that takes nothing more until it is told to."""

    def __init__(self) -> None:
        self.go_on, self.taken = threading.Event(), 0

    @contextmanager
    def opened(self, schema: oop.Schema) -> Generator[Callable[[Element], None], None, None]:
        yield self.take

    def take(self, element: Element) -> None:
        assert self.go_on.wait(60)
        self.taken += 1


def test_a_consumer_that_is_slower_than_results_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "_QUIET", 0.0)
    stuck = Stuck()
    rows = (item for at in range(2_000) for item in ((at, 0), before("ts", at)))
    stream = counted(oop.rows(rows, SCHEMA.with_progress([("ts",)]), name="the link"))
    with stream.to(stuck).start() as started:
        while (wait := started.why(60)[0]).cause != "backpressure":
            assert wait.cause in ("silent", "behind", "no window")  # until its inbox is full
        assert wait.holder == "the consumer of its results" and wait.window is not None
        assert "waits for the consumer of its results; it takes one page for" in str(wait)
        stuck.go_on.set()
        assert started.wait(60).tuples == 2_000
    assert stuck.taken > 100


def test_a_source_that_is_silent_is_named_and_the_run_answers_meanwhile() -> None:
    go_on, said = threading.Event(), threading.Event()

    def rows() -> Iterator[tuple[int, int]]:
        yield from ((1, 0), (12, 1))
        said.set()
        assert go_on.wait(60)

    silent = oop.rows(rows(), SCHEMA, name="the silent one", punctuate=oop.ordered())
    other = oop.rows([(at, 0) for at in range(40)], SCHEMA, name="the other")
    with counted(oop.meld(silent, other)).to(ListSink([])).start() as started:
        assert said.wait(60)
        (wait,) = started.why(60)
        go_on.set()
        assert started.wait(60).tuples == 42
    assert wait.holder == "the silent one"
    assert [wait.cause for wait in started.why(60)] == ["ended"]
