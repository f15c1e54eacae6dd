"""A low level here and a high level in a thread, or in another process, give what one level gives, or a clear error."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.processes import Apart, ProcessError, Receiver, Ring, Sender, apart
from oop_engine.processes.apart import Layout
from oop_engine.processes.partial_final import PartialFinal
from oop_engine.processes.spec import dump_high, load_high
from oop_engine.processes.workers import InProcess
from oop_engine.rewrite.passes import prepared
from operators import functions as fn
from operators.data.page import Page
from operators.protocol import Element
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow
from operators.window_aggregate.partial_final import HighAggregate
from operators.window_aggregate.partial_final.partials import TUPLES
from punctuation import Punctuation
from tests.examples import mostly_slow

N = 8_000
LAYOUTS: tuple[Layout, ...] = ("process", "thread", "here")


def packets(length: int = 1) -> oop.Stream:
    rng = np.random.default_rng(2)
    ts = np.arange(N) * 1_000_000 - rng.integers(0, 3_000_000, N)
    columns = {
        "ts": pa.array(ts).view(pa.timestamp("ns", "UTC")),
        "srcIP": pa.array(rng.integers(0, 700, N).astype(np.uint32)),
        "name": pa.array([f"host {i}" for i in rng.integers(0, 40, N)]),
        "length": pa.array(rng.integers(60, 1500, N) * length),
    }
    return oop.arrow(pa.table(columns))


def counted(stream: oop.Stream, strategy: str) -> oop.Stream:
    results = (oop.count(), oop.avg("length"), oop.max("length"), oop.min("name"))
    windowed = stream.window(range="4 s", slide="1 s")
    return windowed.aggregate(*results, by=("srcIP", "name"), strategy=strategy)


def shown(pages: Iterable[Element]) -> list[str]:
    return sorted(str(row) for page in pages if isinstance(page, Page) for row in page.rows())


@cache
def one_level() -> list[str]:
    """Compute what one level gives, once for all tests."""
    return shown(counted(packets(), "wid"))


@pytest.mark.parametrize("layout", mostly_slow(LAYOUTS, every=3))
def test_every_layout_gives_what_one_level_gives(layout: Layout) -> None:
    both = apart(counted(packets(), "two_level"), layout=layout, ring_bytes=1 << 16)
    elements = list(both)
    assert shown(elements) == one_level()
    assert isinstance(elements[-1], Punctuation)
    assert elements[-1].is_end
    pages = [element for element in elements if isinstance(element, Page)]
    assert pages[0].schema.arrow == counted(packets(), "wid").schema.arrow
    if layout == "process":
        assert both.counters()["dropped_tuples"] == 0
        assert 0 < both.counters()["most_bytes_used"] <= 1 << 16


def test_what_is_dropped_is_counted_and_missing() -> None:
    stream = packets().window(range="4 s").aggregate(oop.count(), by="srcIP", strategy="two_level")
    both = apart(stream, ring_bytes=1 << 12, full="drop")
    total = sum(int(page["count"].sum()) for page in both.pages())
    # The ring is full before the other process has begun to read.
    dropped = both.counters()["dropped_tuples"]
    assert 0 < dropped == N - total


def test_dropped_partial_aggregates_count_as_the_tuples_that_they_stand_for() -> None:
    # Ten sources, each with 800 packets, in a window that all are in.
    stream = oop.arrow(pa.table({"ts": np.arange(N), "k": np.arange(N) % 10}))
    levels = PartialFinal.of(stream.window(range=N).aggregate(oop.max("ts"), by="k").node, counted=True)
    elements = [element for _, element in Run(prepared(levels.lower))]
    ring = Ring.create(1 << 12)
    sender, receiver = Sender(ring, "drop", tuples=TUPLES), Receiver(ring)
    (page,) = (element for element in elements if isinstance(element, Page))
    assert page[TUPLES].tolist() == [N // 10] * 10
    sender.send(page)
    sent = 1
    while not ring.counters["dropped_pages"]:
        sender.send(page)
        sent += 1
    assert ring.counters["dropped_tuples"] == N
    assert len([frame for frame in receiver.frames() if isinstance(frame, Page)]) == sent - 1
    high = levels.high.output_schema(page.schema)
    assert high.names == ["k", "max_ts", "wid", "window_start", "window_end"]


def killed(both: Apart) -> None:
    assert isinstance(both.worker, InProcess)
    os.kill(both.worker.pid, signal.SIGKILL)


@pytest.mark.parametrize("after", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_process_is_an_error_that_names_it(after: int) -> None:
    both = apart(counted(packets(), "two_level"), ring_bytes=1 << 14)
    with pytest.raises(ProcessError, match=r"the process of the high level \(pid \d+\) was ended by signal 9"):
        for number, _ in enumerate(both):
            if number == after:
                killed(both)
    assert isinstance(both.worker, InProcess)
    with pytest.raises(ProcessLookupError):
        os.kill(both.worker.pid, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_error_of_the_high_level_reaches_its_reader(layout: Layout) -> None:
    stream = packets(2**50).window(range="4 s").aggregate(oop.sum("length"), strategy="two_level")
    with pytest.raises((ProcessError, oop.AggregateOverflow), match="does not fit 64 bits"):
        list(apart(stream, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_that_is_given_up_leaves_nothing_behind(layout: Layout) -> None:
    before = len(os.listdir("/proc/self/fd"))
    both = apart(counted(packets(), "two_level"), layout=layout, ring_bytes=1 << 14)
    elements = iter(both)
    next(elements)
    elements.close()  # type: ignore[attr-defined]
    if isinstance(both.worker, InProcess):
        with pytest.raises(ProcessLookupError):
            os.kill(both.worker.pid, 0)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_run_leaves_nothing_to_the_next_one() -> None:
    stream = counted(packets(), "two_level")
    given_up = iter(stream)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    assert shown(stream) == one_level()
    assert shown(stream) == one_level()


@pytest.mark.parametrize(
    "make",
    [
        lambda stream: stream.window(range="4 s", slide="1 s").aggregate(oop.count(), oop.avg("length"), by="name"),
        lambda stream: stream.window(range="40 s", slide="1 s").aggregate(oop.sum("length"), oop.max("length")),
        lambda stream: stream.window(range="ALL", slide="5 s").aggregate(oop.count(), by="srcIP"),
        lambda stream: stream.window(range="70 rows", slide="7 rows", wattr="row_num").aggregate(oop.max("length")),
        lambda stream: stream.window(range="2 s", consistent=True).aggregate(oop.count(), by="name"),
    ],
    ids=["panes", "slicing", "landmark", "stacks", "consistent"],
)
def test_an_aggregate_that_was_left_open_has_two_levels_where_they_are_apart(
    make: Callable[[oop.Stream], oop.Stream],
) -> None:
    expected = shown(make(packets()))
    both = apart(make(packets()), layout="here")
    assert any("low-level" in node.label for node in both.lower.nodes)
    assert expected
    assert shown(both) == expected


def windowed() -> oop.Windowed:
    return packets().window(range="1 s")


@pytest.mark.parametrize(
    "stream",
    [
        packets(),
        windowed().aggregate(oop.count(), strategy="wid"),
        windowed().aggregate(oop.count(), empty=True),
        windowed().aggregate(oop.count(), lateness="1 s"),
        packets().windows(a=oop.tumbling("1 s"), b=oop.tumbling("2 s")).aggregate(oop.count()),
        windowed().aggregate(oop.count()).filter("count > 1"),
    ],
    ids=["no aggregate", "strategy", "empty", "lateness", "windows", "filter"],
)
def test_a_stream_that_cannot_have_two_levels_is_refused(stream: oop.Stream) -> None:
    with pytest.raises(PlanError, match="not in a window aggregate that may have two levels"):
        apart(stream)


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        ("x", {}, "^apart takes a stream, and str is none.$"),
        (windowed().aggregate(oop.count()), {"layout": "threads"}, "layout='threads'.: write one of process, th"),
        (windowed().aggregate(oop.count()), {"full": "block"}, "full='block'.: write one of wait, drop"),
    ],
)
def test_what_apart_is_asked_wrongly_is_said(given: oop.Stream, options: dict[str, str], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        apart(given, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (windowed().aggregate(oop.median("length")), "median"),
        (packets().window(oop.session("1 s")).aggregate(oop.count()), "SESSION"),
    ],
    ids=["holistic", "session"],
)
def test_what_has_no_partial_results_is_refused_by_name(stream: oop.Stream, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        apart(stream)


@pytest.mark.parametrize(
    "window",
    [
        SlidingWindow("ts", size=7, slide=3, origin=-1, partial=False),
        LandmarkWindow("ts", slide=4, origin=2),
        PartitionedWindow(SlidingWindow("row_num", size=3, slide=2), ("k",)),
    ],
)
def test_a_high_level_is_written_down_and_made_again(window: SlidingWindow) -> None:
    functions = {
        "n": fn.count(), "x": fn.count("v"), "s": fn.sum("v"), "a": fn.avg("v"), "l": fn.min("v"), "m": fn.max("v"),
        "d": fn.stddev("v", ddof=0), "q": fn.variance("v"),
    }  # fmt: skip
    high = HighAggregate(window, functions, ("k", "l2"), strategy="panes", times=pa.timestamp("us", "UTC"))
    assert load_high(json.loads(json.dumps(dump_high(high)))) == high
