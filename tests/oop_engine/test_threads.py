"""A run gives the same whatever its threads: answers, late counts, errors with their places, and a clean end."""

from __future__ import annotations

import doctest
import gc
import itertools
import random
import re
import signal
import sys
import threading
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import trio
from click.testing import CliRunner
from hypothesis import given

import oop_engine as oop
from oop_engine.api.disclaiming import punctuation_of
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive import workers as module
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.outcome import table_of
from oop_engine.drive.runtime import run_plan, run_to_end
from oop_engine.drive.workers import Workers, threads_of
from oop_engine.language.translate import query
from oop_engine.plan.punctuate import Promise
from oop_engine.rewrite.lanes import divisions
from oop_engine.rewrite.passes import prepared
from operators.chain import Chain
from operators.data.page import Page
from operators.expression import Opaque
from operators.protocol import Element, Operator
from operators.streams import lanes
from operators.streams.lanes import Lanes
from operators.testing import Script, check_operator
from operators.testing import streams as small_scripts
from tests.examples import mostly_slow, share
from tests.operators.test_lanes import BY_ROWS, KEYED
from tests.operators.test_lanes import SCHEMA as OF_LANES
from tests.queries import daily, joins
from tests.queries import windows as further
from tests.queries.golden import GOLDEN, Golden
from tests.queries.joins import JOINED
from tests.queries.small import small_streams, written
from tests.queries.small_answers import CASES, answers
from tests.queries.small_cases import Case
from tests.queries.streams import TABLES, plain, streams

SMALL = small_streams()
all_golden = pytest.mark.parametrize(
    "golden", (*GOLDEN, *daily.GOLDEN, *further.GOLDEN), ids=lambda golden: golden.name
)
SCHEMA = oop.Schema.of(ts="int64", k="int64", v="int64", progress=["ts"])


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lane ")]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every page divided, however small."""
    for constant in ("ROWS", "KEYED_ROWS", "ENOUGH"):
        monkeypatch.setattr(lanes, constant, 1)


def table(n: int = 6_000, keys: int = 500) -> Stream:
    luck = np.random.default_rng(5)
    ts = np.arange(n) - luck.integers(0, 300, n)
    columns = {"ts": ts, "k": luck.integers(0, keys, n), "v": luck.integers(-50, 50, n)}
    batches = pa.table(columns, schema=SCHEMA.arrow).to_batches(max_chunksize=2_000)
    return oop.arrow(batches, schema=SCHEMA.arrow)


def windows(stream: Stream, size: int = 2_000) -> Stream:
    return stream.filter("v > -40").window(range=size, slide=size // 2, wattr="ts").aggregate(
        oop.count(), oop.sum("v"), by="k"
    )  # fmt: skip


def rows(stream: Stream, threads: int) -> Counter[str]:
    return Counter(map(str, stream.run(threads=threads).table.to_pylist()))


def answered(stream: Stream, threads: int) -> tuple[list[Page], Statistics]:
    taken: list[Element] = []
    statistics = run_to_end(prepared(stream.node), (taken.append,), threads=threads)
    return [element for element in taken if isinstance(element, Page)], statistics


@pytest.mark.usefixtures("small")
@all_golden
@pytest.mark.parametrize("threads", mostly_slow([1, 2, 3, 7], but=[3]))
def test_golden_queries_give_their_answer_with_any_number_of_threads(golden: Golden, threads: int) -> None:
    pages, statistics = answered(query(golden.text, streams()), threads)
    assert Counter(plain(row) for page in pages for row in page.plain_rows()) == Counter(golden.expected(TABLES))
    alone = query(golden.text, streams()).run(threads=1).statistics
    assert statistics.late == alone.late
    if "JOIN" not in golden.text:
        # What a join does not want of one input any more depends on how far the other was read.
        assert [o.tuples_out for o in statistics.operators] == [o.tuples_out for o in alone.operators]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("golden", joins.GOLDEN, ids=lambda golden: golden.name)
@pytest.mark.parametrize("threads", mostly_slow([1, 2, 3, 7], but=[3]))
def test_golden_joins_give_their_answer_with_any_number_of_threads(golden: Golden, threads: int) -> None:
    pages, statistics = answered(query(golden.text, joins.streams()), threads)
    assert Counter(plain(row) for page in pages for row in page.plain_rows()) == Counter(golden.expected(JOINED))
    assert statistics.late == 0
    assert statistics.total("state_tuples") == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", joins.OUTER)
def test_outer_joins_give_their_answer_with_threads(kind: str) -> None:
    python, expected = joins.OUTER[kind]
    for threads in (2, 3, 7):
        pages, _ = answered(python(joins.streams()), threads)
        assert Counter(plain(row) for page in pages for row in page.plain_rows()) == Counter(expected(JOINED))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_small_golden_queries_give_their_answer_with_threads(case: Case) -> None:
    stream = oop.query(case.text, SMALL)
    pages, _ = answered(stream, (2, 3, 7)[zlib.crc32(case.text.encode()) % 3])
    assert written(table_of(stream.schema.arrow, pages)) == answers()[case.text]


@pytest.mark.parametrize("name", mostly_slow(sorted(KEYED | BY_ROWS), every=4))
@pytest.mark.parametrize("threads", mostly_slow([2, 3, 7], but=[3]))
def test_lanes_keep_the_laws_in_threads(name: str, threads: int) -> None:
    make = (KEYED | BY_ROWS)[name]

    @share(0.2)
    @given(small_scripts(OF_LANES, group=("k",), tuples=8))
    def laws(script: Script) -> None:
        with Workers(threads) as workers:

            def threaded() -> Operator:
                made = make(threads)
                for link in made.operators if isinstance(made, Chain) else (made,):
                    assert isinstance(link, Lanes)
                    link.at_once = workers.at_once
                return made

            check_operator(threaded, script)

    laws()


def test_large_pages_are_divided_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "ROWS", 1_500)
    monkeypatch.setattr(lanes, "KEYED_ROWS", 300)
    monkeypatch.setattr(lanes, "ENOUGH", 300)
    circuits: list[Circuit] = []
    pages: list[Element] = []
    for rows_of_a_page in (262_144, 100):
        run_to_end(
            prepared(windows(table()).node), (pages.append,), threads=3, page_rows=rows_of_a_page,
            watch=lambda circuit: circuits.append(circuit) if circuit not in circuits else None,
        )  # fmt: skip
    many = [[len(o.links()) for o in circuit.operators if isinstance(o, Lanes)] for circuit in circuits]
    assert many == [[3, 3, 3], [3, 3, 1]]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_late_tuples_are_counted_alike(threads: int) -> None:
    late = windows(oop.arrow(table().run(threads=1).table, slack=20), 200)
    one, other = late.run(threads=1), late.run(threads=threads)
    assert one.statistics.late > 20
    assert (one.statistics.late, one.statistics.late_for_some) == (
        other.statistics.late, other.statistics.late_for_some,
    )  # fmt: skip
    assert Counter(map(str, one.table.to_pylist())) == Counter(map(str, other.table.to_pylist()))


@pytest.mark.usefixtures("small")
def test_a_run_repeats_row_by_row() -> None:
    first, second = (windows(table()).run(threads=3).table for _ in range(2))
    assert first.equals(second)


@pytest.mark.usefixtures("small")
def test_an_error_names_operator_and_page_as_in_one_thread() -> None:
    stream = table().derive(w="9223372036854775807 + v").window(range=2_000, wattr="ts").aggregate(oop.count(), by="k")
    found: list[tuple[str, list[str]]] = []
    for threads in (1, 3):
        with pytest.raises(OverflowError) as caught:
            stream.run(threads=threads)
        found.append((str(caught.value), [note for note in caught.value.__notes__ if "in operator" in note]))
    assert found[0] == found[1]
    assert len(found[0][1]) == 1


FITS = "9223372036854775807 - v"
"""It fits 64 bits for all tuples but one, which is in the last slice of its page."""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("promises", [None, oop.ordered()], ids=["exact", "ordered"])
@pytest.mark.parametrize(
    "above",
    [
        lambda s: s.derive(w=FITS),
        lambda s: s.filter(f"{FITS} > 0"),
        lambda s: s.filter("ts >= 10").derive(w=FITS),
        lambda s: s.filter("ts >= 10").derive(w=FITS).window(range=90).aggregate(oop.max("w"), by="k"),
    ],
    ids=["first", "filter", "second", "below windows"],
)
def test_an_error_names_the_tuple_that_one_thread_names(
    above: Callable[[Stream], Stream], promises: Promise | None
) -> None:
    ts = np.arange(900)
    batch = pa.record_batch({"ts": ts, "k": ts % 7, "v": np.where(ts == 800, -1, 1)})
    stream = above(oop.arrow([batch.slice(0, 400), batch.slice(400)], punctuate=promises))
    for threads in (1, 3, 7):
        with pytest.raises(OverflowError) as caught:
            stream.run(threads=threads)
        (number,) = re.findall(r"tuple (\d+) of the page", str(caught.value))
        (where,) = [note for note in caught.value.__notes__ if "in operator" in note]
        (rows, first) = re.findall(r"of (\d+) tuples; its first tuple: ts = (\d+)", where)[0]
        # Slices that come with promises between them are pages of their own.
        assert int(first) + int(number) == 800 and int(number) < int(rows)
        assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_disclaimed_between_two_operators_in_lanes_reaches_neither(threads: int) -> None:
    """All of a page may be left out there."""
    given = table().derive(w="v * 2").filter("w > -80 and ts > -400")
    unwanted = punctuation_of("w >= -1000", given.schema, "disclaim")
    taken: list[Element] = []

    def watch(circuit: Circuit) -> None:
        circuit.disclaim(0, unwanted)

    statistics = run_to_end(prepared(given.node), (taken.append,), threads=threads, watch=watch)
    assert not [element for element in taken if isinstance(element, Page)]
    assert statistics.total("disclaimed") == 6_000


@pytest.mark.usefixtures("small")
def test_two_plans_run_in_two_threads_at_once() -> None:
    expected, found = rows(windows(table()), 1), list[Counter[str]]()

    def run() -> None:
        for _ in range(3):
            found.append(rows(windows(table()), 3))

    both = [threading.Thread(target=run) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == [expected] * 6


def test_statistics_that_other_threads_read_do_not_disturb_a_run(tmp_path: Path) -> None:
    def pages() -> Iterator[pa.RecordBatch]:
        for first in range(0, 100_000, 500):
            ts = np.arange(first, first + 500)
            yield pa.record_batch({"ts": ts, "k": ts * 7_919 % (first + 1), "v": ts % 7}, schema=SCHEMA.arrow)

    stream = oop.arrow(pages(), schema=SCHEMA.arrow, punctuate=oop.ordered())
    counted = stream.window(range=5_000, slide=500).aggregate(oop.count(), oop.sum("v"), by=["k"])
    read: list[int] = []
    with counted.to(str(tmp_path / "rows.parquet")).start() as started:

        def look() -> None:
            while not started.ended:
                read.append(started.statistics.tuples)

        looking = [threading.Thread(target=look) for _ in range(3)]
        for thread in looking:
            thread.start()
        for thread in looking:
            thread.join()
        assert started.wait().tuples == 100_000
    assert sorted(read)[-1] <= 100_000


@pytest.mark.usefixtures("small")
def test_fifty_runs_at_once_give_their_answers_while_others_are_cancelled() -> None:
    """Threads take turns as often as they can, and every third run is cancelled at a random moment."""
    stream, luck = windows(table(2_500)), random.Random(1)
    expected, found, cancelled = rows(stream, 1), list[Counter[str]](), list[int]()
    together, often = threading.Barrier(50), sys.getswitchinterval()

    def run(number: int, seconds: float) -> None:
        async def main() -> None:
            with trio.move_on_after(seconds):
                await run_plan(prepared(stream.node), (lambda element: None,), threads=3)

        together.wait(60)
        if number % 3:
            found.append(rows(stream, 3))
        else:
            trio.run(main)
            cancelled.append(number)

    runs = [threading.Thread(target=run, args=(number, luck.random())) for number in range(50)]
    sys.setswitchinterval(1e-4)
    try:
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert len(cancelled) == 17
    assert found == [expected] * 33


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(8))
def test_a_run_that_is_cancelled_anywhere_leaves_no_thread(seed: int) -> None:
    stops = random.Random(seed).randrange(12)
    taken: list[Element] = []

    async def main() -> None:
        with trio.CancelScope() as scope:

            def take(element: Element) -> None:
                taken.append(element)
                if len(taken) > stops:
                    trio.from_thread.run_sync(scope.cancel)

            await run_plan(prepared(windows(table()).node), (take,), threads=3)

    trio.run(main)
    assert len(taken) > stops


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("handled", [True, False])
def test_a_signal_ends_the_run_and_its_threads(handled: bool) -> None:
    raised: list[bool] = []

    def watch(circuit: Circuit) -> None:
        # Once: a second one would end a run that is slow to drain at once.
        if circuit.meters[-1].tuples_in and not raised:
            raised.append(True)
            signal.raise_signal(signal.SIGINT)

    def endless() -> Iterator[pa.RecordBatch]:
        for first in itertools.count(step=2_000):
            ts = np.arange(first, first + 2_000)
            yield pa.record_batch({"ts": ts, "k": ts % 500, "v": ts % 7}, schema=SCHEMA.arrow)

    def run() -> bool:
        stream = oop.arrow(endless(), schema=SCHEMA.arrow, punctuate=oop.ordered())
        return run_to_end(
            prepared(windows(stream).node), (lambda element: None,), threads=3, watch=watch, handle_signals=handled
        ).interrupted  # fmt: skip

    # A process in the background of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if handled:
            assert run()
        else:
            with pytest.raises(KeyboardInterrupt):
                run()
    finally:
        signal.signal(signal.SIGINT, before)


def test_live_sources_and_what_is_not_of_this_package_stay_in_one_thread() -> None:
    from_a_user = table().filter(Opaque(lambda page: page.ticks("v") > 0, result=pa.bool_()))
    plan = prepared(from_a_user.window(range=2_000, wattr="ts").aggregate(oop.count(), by="k").node)
    assert ["<lambda>" in d.why for d in divisions(plan)] == [False, True, False, False]
    text = windows(table()).explain(threads=4)
    assert "4 threads by k, where pages are large" in text
    assert "threads" not in windows(table()).explain(threads=1)


def test_explain_says_what_a_run_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stream, shared = windows(table()), "3 threads by k"
    explained = (stream.explain, stream.to(print).explain, lambda: oop.explain_outputs([stream.to(print)]))
    (tmp_path / "in.csv").write_text("ts,k\n1,1\n")
    text = ["explain", "SELECT k, count(*) [RANGE 9, WA ts] FROM s GROUP BY k", "-s", f"s={tmp_path / 'in.csv'}"]
    for told in ("1", "3"):
        monkeypatch.setenv("OOP_THREADS", told)
        assert [shared in explain() for explain in explained] == [told == "3"] * 3
        assert (shared in CliRunner().invoke(commands, text).output) == (told == "3")
    monkeypatch.setenv("OOP_THREADS", "many")
    assert shared not in repr(stream)
    with pytest.raises(oop.PlanError, match="OOP_THREADS"):
        stream.explain()


@pytest.mark.usefixtures("small")
def test_what_goes_by_the_order_of_arrival_behind_lanes_is_the_same() -> None:
    numbered = table().distinct("k").number("place")
    one, three = (numbered.run(threads=many).table for many in (1, 3))
    assert one.equals(three)
    assert "behind it depends on the order" in numbered.explain(threads=3)


@pytest.mark.parametrize(("told", "many"), [("3", 3), (" 12 ", 12)])
def test_the_environment_says_how_many_threads(told: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OOP_THREADS", told)
    assert threads_of() == many
    assert threads_of(5) == 5


@pytest.mark.parametrize("told", ["0", "many", "-1", "257", "1.5"])
def test_what_is_no_number_of_threads_is_refused_in_words(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OOP_THREADS", told)
    with pytest.raises(oop.PlanError, match=r"OOP_THREADS=.*a whole number from 1 to 256"):
        table().run()


def test_by_default_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OOP_THREADS", raising=False)
    assert threads_of() == 1


def test_calls_are_made_at_once_and_the_first_error_is_raised() -> None:
    both = threading.Barrier(3)
    made: list[int] = []

    def meets(number: int) -> Callable[[], None]:
        def call() -> None:
            both.wait(30)
            made.append(number)

        return call

    def fails(text: str) -> Callable[[], None]:
        def call() -> None:
            raise ValueError(text)

        return call

    with Workers(3) as workers:
        workers.at_once([meets(0), meets(1), meets(2)])
        assert sorted(made) == [0, 1, 2]
        with pytest.raises(ValueError, match="first"):
            workers.at_once([lambda: None, fails("first"), fails("second")])
        workers.at_once([lambda: made.append(3)] * 50)
        assert made.count(3) == 50


def test_each_call_is_made_once_however_often_threads_take_turns() -> None:
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Workers(8) as workers:
            for _ in range(20):
                made: list[int] = []
                workers.at_once([partial(made.append, number) for number in range(500)])
                assert sorted(made) == list(range(500))
    finally:
        sys.setswitchinterval(often)


def test_nothing_of_a_page_is_kept_after_its_calls() -> None:
    class Held:
        def call(self) -> None:
            pass

    with Workers(2) as workers:
        held = [Held() for _ in range(4)]
        left = [weakref.ref(one) for one in held]
        calls: Sequence[Callable[[], None]] = [one.call for one in held]
        workers.at_once(calls)
        workers.at_once([lambda: None] * 4)
        del held, calls
        gc.collect()
        assert [ref() for ref in left] == [None] * 4


def test_the_command_takes_a_number_of_threads(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ts,k\n1,1\n2,1\n30,2\n")
    text = "SELECT k, count(*) FROM s [RANGE 10, WA ts] GROUP BY k"
    given = ["query", text, "-s", f"s={tmp_path / 'in.csv'}", "--to", str(tmp_path / "out.csv"), "--threads", "3"]
    done = CliRunner().invoke(commands, given)
    assert done.exit_code == 0, done.output


def test_the_examples_of_the_docstrings_are_true() -> None:
    assert doctest.testmod(module).failed == 0
