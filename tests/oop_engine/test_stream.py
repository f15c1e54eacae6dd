"""A stream is an immutable handle: methods make new ones, refuse what does not fit at once, and run nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
import trio

from oop_engine.api.in_memory import arrow
from oop_engine.api.in_memory import packets as generated
from oop_engine.api.in_memory import rows as rows_of
from oop_engine.api.outputs import explain_outputs, run_outputs
from oop_engine.api.promising import from_source
from oop_engine.api.read import pcap
from oop_engine.api.stream import Stream, meld, merge
from oop_engine.api.windowing import session
from oop_engine.drive.outcome import Outcome
from oop_engine.errors import PlanError, SchemaError
from oop_engine.language import LanguageError
from oop_engine.plan.graph import Plan, source_node
from oop_engine.plan.punctuate import heartbeat, slack
from oop_engine.sinks import ListSink
from oop_engine.sources.memory import Once, Rows
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import count, max, sum
from operators.protocol import Element
from punctuation import before
from tests.queries.streams import TABLES, packets, plain, stream, streams

INTEGERS = Schema.of(ts=pa.int64(), link=pa.string(), length=pa.int64())
EMPTY = Rows("empty", (), INTEGERS.arrow)


def integers(*rows: tuple[object, ...], name: str = "numbers") -> Stream:
    """Make a stream of rows (ts, link, length)."""
    return Stream(source_node(Rows(name, (Page.of_rows(INTEGERS, rows).batch,))))


def rows(result: Stream) -> list[tuple[object, ...]]:
    """Run a stream and give its rows."""
    return [plain(row) for page in result for row in page.rows()]


PACKETS = integers((7, "a", 10), (3, "b", 20), (12, "a", 30), (8, "a", 40))


def test_methods_give_new_handles_and_leave_the_old_as_they_are() -> None:
    doubled = PACKETS.derive(bits="length * 8")
    assert PACKETS.schema.names == ["ts", "link", "length"]
    assert doubled.schema.names == ["ts", "link", "length", "bits"]
    assert doubled.node.inputs == (PACKETS.node,)


@pytest.mark.parametrize(
    "predicate",
    ["length > 10 and not link = 'b'", lambda p: (p["length"] > 10) & ~(p["link"] == "b")],
    ids=["text", "function"],
)
def test_a_predicate_is_text_or_a_function_of_columns(predicate: str) -> None:
    assert rows(PACKETS.filter(predicate)) == [(12, "a", 30), (8, "a", 40)]


def test_project_orders_renames_and_computes() -> None:
    result = PACKETS.project("link", time="ts", bits="len * 8", one=1)
    assert result.schema.names == ["link", "time", "bits", "one"]
    assert result.schema.progressing("time")
    assert rows(result)[0] == ("a", 7, 80, 1)


def test_windows_are_computed_over_groups() -> None:
    result = PACKETS.window(range=10, slide=5).aggregate(count(), longest=max("length"), by="link")
    assert result.schema.names == ["link", "count", "longest", "wid", "window_start", "window_end"]
    assert sorted(rows(result)) == [
        ("a", 1, 30, 3, 10, 20),
        ("a", 2, 40, 1, 0, 10),
        ("a", 3, 40, 2, 5, 15),
        ("b", 1, 20, 0, -5, 5),
        ("b", 1, 20, 1, 0, 10),
    ]


def test_without_a_window_groups_wait_for_a_promise_on_them() -> None:
    result = PACKETS.aggregate(sum("length"), by="link")
    assert sorted(rows(result)) == [("a", 80), ("b", 20)]
    assert "nothing" not in str(PACKETS.aggregate(count(), by="ts").schema)


def test_distinct_keeps_what_it_names() -> None:
    assert rows(PACKETS.distinct("link")) == [("a",), ("b",)]
    assert len(rows(PACKETS.distinct())) == 4


def test_number_counts_where_it_stands() -> None:
    late = PACKETS.filter("length > 10").number("n")
    assert [row[-1] for row in rows(late)] == [0, 1, 2]


def test_row_windows_count_arrivals_at_the_entry_unless_numbered_elsewhere() -> None:
    kept = PACKETS.filter("length > 10")
    at_the_entry = kept.window(range="2 rows", wattr="row-num").aggregate(count())
    assert rows(at_the_entry) == [(1, 0, 0, 2), (2, 1, 2, 4)]
    here = kept.number().window(range="2 rows", wattr="row_num").aggregate(count())
    assert rows(here) == [(2, 0, 0, 2), (1, 1, 2, 4)]


def test_one_handle_may_be_read_twice() -> None:
    both = meld(PACKETS, PACKETS)
    assert len(Plan((both.node,)).nodes) == 2
    assert len(rows(both)) == 8


def test_meld_of_one_is_itself_and_of_none_is_refused() -> None:
    assert meld(PACKETS) is PACKETS
    with pytest.raises(PlanError, match="at least one stream"):
        meld()


def test_merge_gives_the_order_that_reorder_gives() -> None:
    other = integers((1, "c", 1), (9, "c", 2), name="other")
    merged = merge(PACKETS.reorder(slack=10), other.reorder(slack=10))
    assert [row[0] for row in rows(merged)] == [1, 3, 7, 8, 9, 12]


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (None, "tuple 0, tuple 1, 2 until row 2, tuple 2, tuple 3, 2 until row 4, tuple 4, 1 until row 6"),
        ("link", "tuple 0, tuple 1, tuple 2, a: 2 until row 2, tuple 3, b: 2 until row 2, tuple 4, a: 1 until row 4"),
    ],
)
def test_windows_of_rows_need_no_promise_of_the_stream(partition: str | None, expected: str) -> None:
    """They leave with their last row; the last ones are cut by the end."""
    log: list[str] = []

    def elements() -> Iterator[Element]:
        for number in range(5):
            log.append(f"tuple {number}")
            yield Page.of_rows(INTEGERS, [(7, "ab"[number % 2], 1)])

    live = Stream(source_node(Once("live", INTEGERS.arrow, elements)))
    windowed = live.window(range="2 rows", wattr="row_num", partition=partition or ())
    for page in windowed.aggregate(count()):
        for row in page.rows():
            log.append(f"{f'{row[partition]}: ' if partition else ''}{row['count']} until row {row['window_end']}")
    assert ", ".join(log) == expected


def test_results_leave_when_their_window_is_complete_and_not_before() -> None:
    log: list[str] = []

    def elements() -> Iterator[Element]:
        for ts, bound in ((3, 2), (12, 10), (11, 11), (25, 20)):
            log.append(f"tuple {ts}")
            yield Page.of_rows(INTEGERS, [(ts, "a", 1)])
            log.append(f"promise {bound}")
            yield before("ts", bound)

    live = Stream(source_node(Once("live", INTEGERS.arrow, elements, (("ts",),))))
    for page in live.window(range=10).aggregate(count()):
        log.extend(f"window {row['window_end']}: {row['count']}" for row in page.rows())
    assert log == [
        "tuple 3",
        "promise 2",
        "tuple 12",
        "promise 10",
        "window 10: 1",
        "tuple 11",
        "promise 11",
        "tuple 25",
        "promise 20",
        "window 20: 2",
        "window 30: 1",
    ]


def test_a_tuple_that_is_late_for_some_windows_is_counted_in_the_others() -> None:
    table = [(0, "a", 1), (20, "a", 1), (12, "a", 1), (4, "a", 1), (30, "a", 1)]
    batch = Page.of_rows(INTEGERS, table).batch
    promised = Stream(source_node(Rows("link", (batch,)), promises=[slack(5)]))
    outcome = promised.window(range=10, slide=5).aggregate(count()).run()
    counts = dict(zip(outcome.table["window_end"].to_pylist(), outcome.table["count"].to_pylist(), strict=True))
    # [ts < 15] was promised before 12 and 4 came: the windows that end at 5, 10 and 15 had left, and 12 is in 20 too.
    assert outcome.statistics.late == 1
    assert outcome.statistics.total("late_for_some") == 1
    assert counts == {5: 1, 10: 1, 20: 1, 25: 1, 30: 1, 35: 1, 40: 1}


def test_the_same_stream_runs_again_and_under_a_loop_that_is_there() -> None:
    result = streams()["Main1"].window(range="1 minute").aggregate(count(), by="srcIP")
    first = sorted(map(str, result.to_arrow().to_pylist()))
    outcome = trio.run(result.run_async)
    assert sorted(map(str, outcome.table.to_pylist())) == first
    assert outcome.statistics.tuples == len(TABLES["Main1"])
    assert outcome.statistics.windows == len({row["wid"] for row in outcome.table.to_pylist()})


def test_a_table_shows_addresses_as_text_and_times_as_times() -> None:
    table = streams()["Main1"].window(range="1 minute").aggregate(count(), by="srcIP").to_arrow()
    assert table.schema.field("srcIP").type == pa.string()
    assert set(table["srcIP"].to_pylist()) <= {f"202.101.0.{n}" for n in range(4)}
    assert table.schema.field("window_end").type == pa.timestamp("ns", tz="UTC")


def test_results_do_not_depend_on_how_a_source_is_cut_into_batches() -> None:
    table = packets(11, 70, gap=3, disorder=30, lull=200)
    answers = [
        sorted(rows(stream("s", table, rows=size).window(range="2 minutes", slide="7 s").aggregate(sum("length"))))
        for size in (1, 9, 70)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) > 20


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: PACKETS.filter("lenght > 1"), LanguageError, 'Did you mean "length"'),
        (lambda: PACKETS.filter("length"), SchemaError, "takes a truth value"),
        (lambda: PACKETS.filter(lambda p: p["lenght"] > 1), SchemaError, 'Did you mean "length"'),
        (lambda: PACKETS.project("lenght"), SchemaError, 'Did you mean "length"'),
        (lambda: PACKETS.derive(length="ts"), SchemaError, 'already has an attribute "length"'),
        (lambda: PACKETS.derive(x=lambda p: {"y": p["ts"]}), SchemaError, "one value a tuple is wanted"),
        (lambda: PACKETS.distinct("lenght"), SchemaError, 'Did you mean "length"'),
        (lambda: PACKETS.aggregate(count(), by="lnik"), SchemaError, 'Did you mean "link"'),
        (lambda: PACKETS.aggregate(), PlanError, "at least one function"),
        (lambda: PACKETS.aggregate(count(), count()), SchemaError, 'two results are named "count"'),
        (lambda: PACKETS.window(range="10 s").aggregate(count()), PlanError, '"ts" is a number'),
        (lambda: PACKETS.window(range=0, slide=5), PlanError, "RANGE must be more than nothing"),
        (lambda: PACKETS.window(range=5, wattr="link"), PlanError, "it must be an integer, a time or a decimal"),
        (lambda: PACKETS.window(range="ALL"), PlanError, "RANGE ALL needs a SLIDE"),
        (lambda: meld(PACKETS, PACKETS.project("ts")), SchemaError, "other attributes"),
        (lambda: meld([PACKETS, PACKETS]), PlanError, r"Write meld\(\*streams\)"),  # type: ignore[arg-type]
        (lambda: merge(), PlanError, "merge needs at least one stream"),
        (lambda: PACKETS.aggregate("count"), PlanError, "count is none"),  # type: ignore[arg-type]
        (lambda: PACKETS.aggregate(count), PlanError, r"Call one: oop.count\(\)"),  # type: ignore[arg-type]
        (lambda: PACKETS.window(range=2.5), PlanError, "2.5, no amount"),  # type: ignore[arg-type]
        (lambda: run_outputs([PACKETS]), PlanError, "run_outputs takes a list of outputs, and Stream is none"),  # type: ignore[list-item]
        (lambda: from_source(EMPTY, punctuate="slack:2s"), PlanError, "no promise"),  # type: ignore[arg-type]
        (lambda: from_source(EMPTY, punctuate=slack), PlanError, "no promise"),  # type: ignore[arg-type]
        (lambda: rows_of([], {"ts": "int"}), PlanError, "rows needs a schema"),  # type: ignore[arg-type]
        (lambda: arrow({"ts": [1]}), PlanError, "a table or record batches"),  # type: ignore[arg-type]
        (lambda: pcap(["a.pcap"]), PlanError, r"Write pcap\(\*paths\)"),  # type: ignore[arg-type]
        (lambda: heartbeat("1s"), PlanError, "the skew and the delay"),  # type: ignore[arg-type]
        (lambda: from_source("a.csv"), PlanError, r'str \'a.csv\' is none.\n  For a file write oop.read\("a.csv"\)'),  # type: ignore[arg-type]
        (lambda: from_source(7), PlanError, "int 7 is none.\n  A source has name, arrow"),  # type: ignore[arg-type]
        (lambda: PACKETS.reorder(mode="consistant"), PlanError, 'Did you mean "consistent"'),  # type: ignore[arg-type]
        (lambda: generated(9, disoder=1), PlanError, 'packets takes no "disoder".\n  Did you mean "disorder"'),
        (lambda: generated(9, foo=1), PlanError, 'packets takes no "foo".\n  Known are "rate"'),
        (lambda: PACKETS.filter(lambda p: p.length > 1), SchemaError, r'filter: .length .*\n  Write p\["length"\]'),
        (lambda: PACKETS.derive(x=lambda p: p.lenght * 2), SchemaError, r'Write p\["length"\] for p.lenght'),
        (lambda: PACKETS.project(), PlanError, "project needs at least one attribute"),
        (lambda: PACKETS.derive(), PlanError, "derive needs at least one attribute"),
        (lambda: PACKETS.reorder(slack=1, tuples=3), PlanError, r"reorder\(slack=1, tuples=3\): .*leave one of"),
        (lambda: PACKETS.reorder(tuples=-3), PlanError, r"reorder\(tuples=-3\): a number of tuples is"),
        (lambda: PACKETS.reorder(tuples=1.5), PlanError, r"reorder\(tuples=1.5\): a number of tuples is"),  # type: ignore[arg-type]
        (lambda: PACKETS.window(5).aggregate(count(), by=5), PlanError, r"aggregate\(by=5\): .*several, are wanted"),  # type: ignore[arg-type]
        (lambda: PACKETS.aggregate(count(), by=["link", 5]), PlanError, r'Write by="srcIP" or by=\["srcIP"'),  # type: ignore[list-item]
        (lambda: PACKETS.aggregate(count(), by=["link", "link"]), SchemaError, r'by=...\): "link" is named twice'),
        (lambda: PACKETS.aggregate(count(), by=["len", "length"]), SchemaError, r'by=...\): "length" is named twice'),
        (lambda: PACKETS.window(5, partition="lnik"), SchemaError, r'^window\(partition="lnik"\): '),
        (lambda: PACKETS.window(session(5), partition="lnik"), SchemaError, r'^window\(partition="lnik"\): '),
        (lambda: PACKETS.window(5, partition=5), PlanError, r"window\(partition=5\): "),  # type: ignore[arg-type]
        (lambda: PACKETS.windows(session(5)), PlanError, "by their names, and SESSION 5, WA ts has none"),  # type: ignore[arg-type]
        (lambda: PACKETS.window(5).aggregate(count(), strategy=5), PlanError, r"strategy=5\): [^$]*Known are auto"),  # type: ignore[arg-type]
        (lambda: PACKETS.to(5), PlanError, r'^to\(5\): [^$]*int is none of them.\n  Write to\("out.parquet"\)'),  # type: ignore[arg-type]
        (lambda: PACKETS.to([]), PlanError, r"^to\(\[\]\): "),  # type: ignore[arg-type]
        (lambda: PACKETS.start(page_rows=1.5), PlanError, r"start\(page_rows=1.5\): "),  # type: ignore[arg-type]
        (lambda: PACKETS.start(page_rows=0), PlanError, r"start\(page_rows=0\): .*whole number from 1 on"),
        (lambda: PACKETS.join(PACKETS, range=5, wattr=("ts",)), PlanError, r"join\(wattr=\('ts',\)\): give one name"),  # type: ignore[arg-type]
        (lambda: PACKETS.join(PACKETS, range=5, wattr=5), PlanError, r"join\(wattr=5\): give one name"),  # type: ignore[arg-type]
        (lambda: PACKETS.join("x", range=5), PlanError, "^join takes streams, and str is none. Write left"),  # type: ignore[arg-type]
        (lambda: run_outputs(PACKETS.to("-")), PlanError, "run_outputs takes a list of outputs, and Output is no list"),  # type: ignore[arg-type]
        (lambda: explain_outputs([PACKETS]), PlanError, "^explain_outputs takes a list[^$]*oop.explain_outputs"),  # type: ignore[list-item]
        (lambda: PACKETS.filter(lambda p: p.to_numpy() > 1), SchemaError, "has no attribute 'to_numpy'"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_built(build: object, error: type[Exception], message: str) -> None:
    assert callable(build)
    with pytest.raises(error, match=message):
        build()


def test_the_range_may_stand_alone() -> None:
    assert rows(PACKETS.window(5).aggregate(count())) == rows(PACKETS.window(range=5).aggregate(count()))
    with pytest.raises(PlanError, match='RANGE is 20 s, but "ts" is a number'):
        PACKETS.window("20 s")


def test_run_async_under_asyncio_says_what_to_write() -> None:
    result = PACKETS.window(5).aggregate(count())
    found: list[object] = []

    async def main() -> None:
        for run in (result.run_async, result.to(ListSink([])).run_async):
            with pytest.raises(
                PlanError, match=r"task of asyncio.\n  Here write await asyncio.to_thread\(stream.run\)"
            ):
                await run()
        found.append(await asyncio.to_thread(result.run))

    asyncio.run(main())
    assert len(found) == 1


def test_run_async_runs_where_trio_is_a_guest_of_asyncio() -> None:
    result = PACKETS.window(5).aggregate(count())

    async def main() -> Outcome:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            result.run_async, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=done.set_result
        )
        outcome: Outcome = (await done).unwrap()
        return outcome

    assert asyncio.run(main()).statistics.tuples == 4


def test_an_outcome_shows_itself_in_a_line() -> None:
    outcome = PACKETS.window(5).aggregate(count()).run()
    shown = repr(outcome)
    assert shown.startswith(
        "Outcome(table of 3 rows: count, wid, window_start, window_end; statistics=Statistics(4 tuples"
    )
    assert repr(outcome.statistics).endswith(" s, 0 late, 3 windows, 3 operators)")
    assert "\n" not in shown and len(shown) < 200


def test_a_window_that_nothing_could_release_names_the_input_that_lacks_a_promise() -> None:
    silent = Stream(source_node(Once("silent", INTEGERS.arrow, lambda: iter(()))))
    with pytest.raises(PlanError, match='nothing promises "ts"') as caught:
        meld(PACKETS, silent).window(range=5).aggregate(count())
    assert "silent nothing" in str(caught.value)
    assert "Give silent a punctuator" in str(caught.value)


def test_a_windowed_stream_shows_its_window_and_what_to_do_next() -> None:
    shown = repr(PACKETS.window(range=10, slide=5))
    assert shown.startswith("windows [RANGE 10, SLIDE 5, WA ts], nothing computed yet: call .aggregate(...)")


def test_a_frame_without_pandas_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'oop-engine\[pandas\]', or write to_arrow\(\)"):
        rows_of([(1,)], pa.schema([("ts", pa.int64())])).to_pandas()
