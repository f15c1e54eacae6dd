"""Expensive conditions are computed while the run goes on: the same answers, in time, and nothing is left behind."""

from __future__ import annotations

import doctest
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
import trio
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive import background as module
from oop_engine.drive.background import Benches
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_plan, run_to_end
from oop_engine.errors import PlanError, SchemaError
from oop_engine.language import LanguageError
from oop_engine.language.translate import query
from oop_engine.rewrite.deferral import deferrals
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from tests.examples import mostly_slow

SCHEMA = oop.Schema.of(ts="int64", port="int64", progress=["ts"])
PATIENCE = 10.0
"""Seconds after which something that must come is missed."""


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("background ")]


def table(n: int = 400, batch: int = 100) -> Stream:
    columns = {"ts": np.arange(n), "port": np.where(np.arange(n) % 55 == 0, 53, 80 + np.arange(n) % 3)}
    return oop.arrow(pa.table(columns, schema=SCHEMA.arrow).to_batches(max_chunksize=batch), schema=SCHEMA.arrow)


def awaited(event: threading.Event) -> None:
    assert event.wait(PATIENCE), "what should have come did not come"


def is_even(page: Page) -> list[bool]:
    return [ts % 2 == 0 for ts in page.ticks("ts").tolist()]


def even_or_cheap(stream: Stream, function: Callable[[Page], object], workers: int = 2) -> Stream:
    return stream.filter(lambda p: (p["port"] != 53) | oop.expensive(function, workers=workers))


Drive = Callable[[Stream, Callable[[Element], None]], None]


def under_trio(stream: Stream, take: Callable[[Element], None]) -> None:
    run_to_end(stream._plan(), [take])  # pyright: ignore[reportPrivateUsage]


def in_the_calling_thread(stream: Stream, take: Callable[[Element], None]) -> None:
    for page in stream:
        take(page)


drivers = pytest.mark.parametrize("drive", [under_trio, in_the_calling_thread])


@drivers
def test_cheap_tuples_overtake_across_pages(drive: Drive) -> None:
    last = threading.Event()
    times: list[int] = []

    def slow(page: Page) -> list[bool]:
        awaited(last)
        return is_even(page)

    def take(element: Element) -> None:
        if isinstance(element, Page):
            times.extend(element.ticks("ts").tolist())
            if 399 in times:
                last.set()

    drive(even_or_cheap(table(), slow), take)
    open_ = set(range(0, 400, 55))
    assert sorted(times) == [ts for ts in range(400) if ts not in open_ or ts % 2 == 0]
    assert set(times[-4:]) == {ts for ts in open_ if ts % 2 == 0}


@drivers
def test_windows_before_an_open_tuple_are_released_and_its_own_waits_for_it(drive: Drive) -> None:
    before = threading.Event()
    found: list[tuple[int, int]] = []

    def slow(page: Page) -> list[bool]:
        if (page.ticks("ts") >= 110).all():
            awaited(before)
        return is_even(page)

    def take(element: Element) -> None:
        if isinstance(element, Page):
            found.extend((int(str(row["window_end"])), int(str(row["n"]))) for row in element.rows())
            if any(end == 110 for end, _ in found):
                before.set()

    stream = even_or_cheap(table(), slow).window(range=10).aggregate(n=oop.count())
    drive(stream, take)
    plain = table().filter("port <> 53 or ts % 2 = 0").window(range=10).aggregate(n=oop.count()).to_arrow()
    assert found == list(zip(plain["window_end"].to_pylist(), plain["n"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", mostly_slow(range(6), but=[0, 1]))
def test_late_tuples_are_judged_as_without_it_in_whatever_order_answers_come(seed: int) -> None:
    luck = np.random.default_rng(seed)
    n = 600
    ts = np.arange(n) + luck.integers(-40, 1, n)
    rows = list(zip(ts.tolist(), luck.choice([53, 80, 81], n).tolist(), strict=True))

    def ran(condition: Callable[[Stream], Stream]) -> tuple[Counter[str], int]:
        stream = condition(oop.rows(rows, SCHEMA, punctuate=oop.slack(5, on="ts")))
        outcome = stream.window(range=20, slide=5).aggregate(n=oop.count()).run()
        return Counter(map(str, outcome.table.to_pylist())), outcome.statistics.late_for_some

    assert ran(lambda s: even_or_cheap(s, is_even)) == ran(lambda s: s.filter("port <> 53 or ts % 2 = 0"))


def test_the_same_with_threads_memory_limits_and_several_readers() -> None:
    def ran(stream: Stream, threads: int = 1, memory: str | None = None) -> list[str]:
        counted = stream.window(range=100, slide=50).aggregate(oop.count(), by="port")
        return sorted(map(str, counted.run(threads=threads, memory=memory).table.to_pylist()))

    plain = ran(table().filter("port <> 53 or ts % 2 = 0"))
    assert ran(even_or_cheap(table(), is_even), threads=3) == plain
    assert ran(even_or_cheap(table(), is_even), memory="100 MB") == plain
    both = even_or_cheap(table(), is_even)
    assert oop.meld(both, both).aggregate(oop.count()).to_arrow()["count"].to_pylist() == [
        2 * table().filter("port <> 53 or ts % 2 = 0").to_arrow().num_rows
    ]


def times_into(found: list[int], element: Element) -> None:
    if isinstance(element, Page):
        found.extend(element.ticks("ts").tolist())


def test_it_gets_no_more_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 100)
    monkeypatch.setattr(module, "PIECE", 20)
    for drive in (under_trio, in_the_calling_thread):
        seen = list[int]()

        def slow(page: Page, seen: list[int] = seen) -> list[bool]:
            seen.append(len(page))
            return is_even(page)

        stream = table(4_000, 50).filter(slow, expensive=True)
        total: list[int] = []
        drive(stream, partial(times_into, total))
        assert sorted(total) == list(range(0, 4_000, 2))
        assert max(seen) <= 20 and sum(seen) == 4_000
    filtered = table(4_000, 50).filter(is_even, expensive=True, workers=1).run().statistics.operators[1]
    assert 50 <= filtered.details["peak_state_tuples"] < 150 and filtered.details["evaluated"] == 4_000
    assert filtered.choices == (
        "cheap conditions decided 0 of 4,000 tuples; the expensive one was computed by 1 thread in the background for"
        " the others",
    )


@drivers
def test_an_error_names_the_tuple_and_ends_the_run(drive: Drive) -> None:
    def fails(page: Page) -> list[bool]:
        if 275 in page.ticks("ts").tolist():
            raise LookupError("no such host")
        return is_even(page)

    with pytest.raises(LookupError, match="no such host") as raised:
        drive(even_or_cheap(table(), fails).window(range=10).aggregate(oop.count()), lambda element: None)
    told = raised.value.__notes__
    assert told[0] == "at the tuple ts = 275, port = 53"
    assert told[1].startswith("in operator 1 (filter port != 53 or expensive(fails(page))), in the background")


def test_a_cancelled_run_leaves_no_thread() -> None:
    async def cancelled() -> bool:
        with trio.CancelScope() as scope:
            token = trio.lowlevel.current_trio_token()

            def slow(page: Page) -> list[bool]:
                token.run_sync_soon(scope.cancel)
                return is_even(page)

            plan = even_or_cheap(oop.rows(forever(), SCHEMA), slow)._plan()  # pyright: ignore[reportPrivateUsage]
            await run_plan(plan, [lambda element: None])
        return scope.cancelled_caught

    assert trio.run(cancelled)


def forever() -> Iterator[tuple[int, int]]:
    ts = 0
    while True:
        yield ts, 53
        ts += 1


def test_a_run_that_is_stopped_answers_what_was_read() -> None:
    seen: list[int] = []

    def slow(page: Page) -> list[bool]:
        seen.extend(page.ticks("ts").tolist())
        return [True] * len(page)

    got: list[int] = []
    statistics = run_to_end(
        oop.rows(forever(), SCHEMA).filter(slow, expensive=True)._plan(),  # pyright: ignore[reportPrivateUsage]
        [partial(times_into, got)],
        watch=lambda circuit: len(seen) > 100,
    )
    assert statistics.interrupted and sorted(got) == sorted(seen) == list(range(len(got)))


def test_a_checkpoint_has_the_open_tuples_and_a_run_goes_on_with_them(tmp_path: Path) -> None:
    committed, failed = threading.Event(), threading.Event()
    data = tmp_path / "data.csv"
    pc.write_csv(table().to_arrow(), data)

    def slow(page: Page) -> list[bool]:
        if not failed.is_set():
            awaited(committed)
            failed.set()
            raise LookupError("no such host")
        return is_even(page)

    def watch(circuit: Circuit) -> None:
        if circuit.committed is not None:
            committed.set()

    def run() -> oop.Statistics:
        stream = oop.read(data).filter(lambda p: (p["port"] != 53) | oop.expensive(slow, workers=1))
        counted = stream.window(range=10).aggregate(n=oop.count()).to(tmp_path / "out.csv")
        return oop.run_outputs([counted], checkpoint=tmp_path / "job", every="100ms", watch=watch)

    with pytest.raises(LookupError):
        run()
    held = oop.state(tmp_path / "job").operators.to_pylist()
    assert [row["state_tuples"] for row in held if row["kind"] == "DeferredFilter"] == [8]
    assert run().total("evaluated") == 8
    plain = table().filter("port <> 53 or ts % 2 = 0").window(range=10).aggregate(n=oop.count()).to_arrow()
    assert pc.read_csv(tmp_path / "out.csv")["n"].to_pylist() == plain["n"].to_pylist()


def told(stream: Stream) -> str:
    return " ".join(stream.explain().replace("│", "").split())


def test_where_order_matters_behind_it_it_is_computed_in_its_place() -> None:
    first = even_or_cheap(table(), is_even).window(range=100).aggregate(oop.first("ts"))
    assert "in its place, with the order kept: aggregate first(ts) depends" in told(first)
    (deferral,) = deferrals(prepared(first.node)).values()
    assert deferral.why
    ran = first.run()
    assert ran.table["first_ts"].to_pylist() == [0, 100, 200, 300]
    assert "in its place for the others" in ran.statistics.operators[1].choices[0]
    early = table().window(range=10).aggregate(n=oop.count(), early=4)
    changing = early.filter("expensive(n > 1)")
    assert "take back or replace others" in told(changing)
    assert changing.run().table.equals(early.filter("n > 1").run().table)


def test_it_is_said_before_and_after_a_run_also_of_a_text(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    pc.write_csv(table().to_arrow(), data)
    text = "SELECT count(*) AS n [RANGE 100, WA ts] FROM d WHERE port <> 53 OR expensive(ts % 2 = 0, 3)"
    shown = CliRunner().invoke(commands, ["explain", text, "-s", f"d={data}"])
    assert "3 threads compute the expensive condition in the background" in " ".join(
        shown.output.replace("│", "").split()
    )
    ran = CliRunner().invoke(commands, ["query", text, "-s", f"d={data}", "--stats"])
    assert "cheap conditions decided 392 of 400 tuples" in " ".join(ran.output.split()), ran.output
    result = query("SELECT count(*) AS n FROM d WHERE port <> 53 OR expensive(ts % 2 = 0)", d=table()).to_arrow()
    assert result["n"].to_pylist() == [396]


def test_what_is_no_expensive_condition_is_refused_where_it_stands() -> None:
    with pytest.raises(LanguageError, match="how many threads compute it: 1 to 256"):
        table().filter("expensive(port = 53, 0)")
    with pytest.raises(LanguageError, match="only and, or, not may stand around"):
        query("SELECT ts FROM d WHERE coalesce(expensive(port = 53), false)", d=table())
    with pytest.raises(SchemaError, match="only and, or, not may stand around"):
        table().filter(lambda p: oop.expensive(p["port"] == 53) == (p["ts"] > 5))
    with pytest.raises(SchemaError, match="1 to 256, and not 0"):
        oop.expensive(is_even, workers=0)
    with pytest.raises(PlanError, match="threads compute expensive conditions"):
        table().filter("port = 53", workers=2)


def test_a_mark_is_put_at_the_functions_of_pages() -> None:
    marked = table().filter((oop.Column("port") != 53) | ~oop.expensive(is_even), expensive=True)
    assert marked.node.label == "filter port != 53 or not expensive(is_even(page))"
    assert marked.to_arrow().num_rows == 396
    assert table().filter("port = 53", expensive=True).node.label == "filter expensive(port = 53)"


def test_its_examples_work() -> None:
    assert doctest.testmod(module).failed == 0
    with Benches() as benches:
        assert benches.bench(1).answers() == []
