"""Tuples do not wait for a page to be full, and time goes on while a source keeps one waiting, under every driver."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import product

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.sources.memory import Once
from oop_engine.sources.rows import WAIT, RowPages
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import before
from tests.examples import mostly_slow

TIMES = pa.schema([("ts", pa.timestamp("ns", "UTC")), ("x", pa.int64())])
SCHEMA = Schema.of(ts=pa.int64())
LONG = 60
"""Seconds after which what is waited for will not come."""

Take = Callable[[Element], None]
Drive = Callable[[Stream, Take], None]


def under_trio(stream: Stream, take: Take) -> None:
    run_to_end(Plan((stream.node,)), [take])


def here(stream: Stream, take: Take) -> None:
    for _, element in Run(Plan((stream.node,))):
        take(element)


def started(stream: Stream, take: Take) -> None:
    with stream.start() as running:
        for page in running:
            take(page)


def iterated(stream: Stream, take: Take) -> None:
    for page in stream:
        take(page)


DRIVERS: Sequence[Drive] = [under_trio, here]
ALL: Sequence[Drive] = [under_trio, here, started, iterated]


def test_a_page_leaves_with_the_row_that_comes_when_its_oldest_is_old() -> None:
    now = iter([0, WAIT, WAIT + 1, WAIT + 1, 3 * WAIT, 9 * WAIT])
    pages = RowPages(((i,) for i in range(6)), SCHEMA, clock=now.__next__).elements()
    assert [page["ts"].tolist() for page in pages if isinstance(page, Page)] == [[0, 1, 2], [3, 4], [5]]


def test_what_is_taken_at_hand_comes_in_order_and_once() -> None:
    def given() -> Iterator[tuple[int] | object]:
        yield (0,)
        yield (1,)
        found.extend(pages.at_hand())
        found.extend(pages.at_hand())
        yield (2,)
        yield before("ts", 2)
        yield (3,)

    pages, found = RowPages(given(), SCHEMA, clock=lambda: 7), []  # type: ignore[arg-type, var-annotated]
    for element in pages.elements():
        assert pages.at_hand() == []
        assert pages.away == (None if element == before("ts", 2) else 7)
        found.append(element)
    assert pages.away is None
    assert [e["ts"].tolist() if isinstance(e, Page) else str(e) for e in found] == [[0, 1], [2], "[ts < 2]", [3]]


def test_a_row_that_does_not_fit_is_named_by_its_number_also_behind_rows_that_were_taken() -> None:
    def given() -> Iterator[object]:
        yield (0,)
        yield before("ts", 0)
        yield (1,)
        pages.at_hand()
        yield ("x",)

    pages = RowPages(given(), SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(oop.SchemaError, match=r'^row 3: "ts" is int64, but a value is not'):
        list(pages.elements())


@pytest.mark.parametrize(("drive", "arrival"), mostly_slow(product(DRIVERS, [False, True]), but=[(under_trio, True)]))
def test_rows_leave_while_the_next_one_is_waited_for_and_no_promise_overtakes_them(drive: Drive, arrival: bool) -> None:
    """Each row comes when the promise of the time after the one before was heard; none may be late."""
    promised, came = threading.Event(), list[int]()

    def given() -> Iterator[tuple[int, int]]:
        for number in range(4):
            yield time.time_ns(), number
            assert promised.wait(LONG)
            promised.clear()

    def take(element: Element) -> None:
        if isinstance(element, Page):
            came.extend(element["x"].tolist())
        elif not element.is_end and element.bound("ts") is not None and came and came[-1] not in heard:
            heard.append(came[-1])
            promised.set()

    heard: list[int] = []
    stream = oop.rows(given(), TIMES, punctuate=oop.slack("1 h", lull="1ms"), arrival_ts=arrival)
    drive(stream, take)
    assert came == heard == [0, 1, 2, 3]


@pytest.mark.parametrize("drive", ALL)
def test_time_goes_on_while_a_source_is_silent(drive: Drive) -> None:
    """The windows before the silence are released in it: only their release ends it."""
    released = threading.Event()

    def given() -> Iterator[tuple[int, int]]:
        yield time.time_ns(), 1
        assert released.wait(LONG)

    counts: list[int] = []

    def take(element: Element) -> None:
        if isinstance(element, Page):
            counts.extend(element["count"].tolist())
            released.set()

    stream = oop.rows(given(), TIMES, punctuate=oop.ordered(lull="10 ms"))
    drive(stream.window("50 ms").aggregate(oop.count()), take)
    assert counts == [1]


@pytest.mark.parametrize("drive", mostly_slow(ALL, but=[under_trio]))
def test_a_heartbeat_beats_under_every_driver(drive: Drive) -> None:
    released = threading.Event()

    def begin() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"ts": [time.time_ns()], "x": [1]}, schema=TIMES)
        assert released.wait(LONG)

    stream = oop.from_source(Once("once", TIMES, begin), punctuate=oop.heartbeat({"a": ("500 ms", "500 ms")}))
    found: list[Element] = []

    def take(element: Element) -> None:
        found.append(element)
        if isinstance(element, Page):
            released.set()

    drive(stream.window("50 ms").aggregate(oop.count()), take)
    assert sum(len(element) for element in found if isinstance(element, Page)) == 1


@pytest.mark.parametrize("drive", mostly_slow(ALL, but=[here]))
def test_files_are_read_while_a_timed_source_is_silent(drive: Drive) -> None:
    now, wanted = time.time_ns(), threading.Event()

    def given() -> Iterator[tuple[int, int]]:
        yield now, 1
        assert wanted.wait(LONG)

    counts: list[int] = []

    def take(element: Element) -> None:
        if isinstance(element, Page):
            counts.extend(element["count"].tolist())
            wanted.set()

    pipe = oop.rows(given(), TIMES, punctuate=oop.ordered(lull="2 s"))
    table = oop.rows([(now, 2), (now, 3)], TIMES)
    drive(oop.meld(pipe, table).window("50 ms").aggregate(oop.count()), take)
    assert counts == [3]


@pytest.mark.parametrize("drive", ALL)
def test_what_fails_in_the_thread_of_a_source_is_raised_where_the_stream_is_read(drive: Drive) -> None:
    def given() -> Iterator[tuple[int, int]]:
        yield time.time_ns(), 1
        raise ZeroDivisionError("in the rows")

    stream = oop.rows(given(), TIMES, punctuate=oop.ordered(lull="1 s"))
    with pytest.raises(ZeroDivisionError, match="in the rows") as caught:
        drive(stream, lambda element: None)
    assert "while rows was read" in str(caught.value.__notes__)


def test_a_run_that_is_closed_does_not_wait_for_a_silent_source() -> None:
    silent = threading.Event()

    def given() -> Iterator[tuple[int, int]]:
        yield time.time_ns(), 1
        silent.wait(LONG)

    stream = oop.rows(given(), TIMES, punctuate=oop.ordered(lull="1 s"))
    with closing(iter(Run(Plan((stream.node,))))) as run:  # type: ignore[type-var]
        next(run)
    assert not silent.is_set()
    silent.set()


def test_an_interruption_lets_rows_drain_that_were_gathered() -> None:
    """Before any of them waited long enough to leave: the interruption comes from the very next row."""
    came: list[int] = []
    ended = threading.Event()

    def given() -> Iterator[tuple[int, int]]:
        yield 1, 7
        yield 2, 8
        signal.raise_signal(signal.SIGINT)
        ended.wait(LONG)

    stream = oop.rows(given(), TIMES, slack="1 s")
    statistics = run_to_end(
        Plan((stream.node,)),
        [lambda element: came.extend(element["x"].tolist() if isinstance(element, Page) else [])],
        handle_signals=True,
    )
    ended.set()
    assert (statistics.interrupted, came) == (True, [7, 8])
