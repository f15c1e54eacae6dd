"""arrival_ts is when a tuple came: one stamp for what came together, never going back, and so a promise by itself."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.outputs import run_outputs
from oop_engine.api.stream import Stream
from oop_engine.drive.runtime import run_plan, run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.plan.arrival_attributes import stamped
from oop_engine.plan.graph import OperatorNode, Plan, SourceNode
from oop_engine.sinks import ListSink
from oop_engine.sources.arrival import Stamped
from oop_engine.sources.errors import SourceError
from oop_engine.sources.generator import Blocks
from oop_engine.sources.memory import Once
from oop_engine.sources.protocol import Chunk
from operators.data.page import Page, Row
from operators.protocol import Element
from punctuation import END, Punctuation, before
from tests import naive_windows
from tests.capture_files import pcap

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
SECOND = 10**9
Came = list[tuple[int, list[tuple[int, str]]]]
"""Chunks of rows (ts, k), each with what the clock says when it comes."""

came = st.lists(
    st.tuples(st.integers(0, 9), st.lists(st.tuples(st.integers(-3, 9), st.sampled_from("ab")), max_size=3)), max_size=7
)


def batches(chunks: Came) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"ts": [t for t, _ in r], "k": [k for _, k in r]}, SCHEMA) for _, r in chunks]


def ticking(chunks: Came) -> Callable[[], int]:
    """Give a clock that says the times of the chunks, one a call."""
    times = iter([at for at, _ in chunks])
    return lambda: next(times)


def arrived(chunks: Came) -> list[Row]:
    """Give the tuples as they should be: a clock that goes back does not take the stream with it."""
    stamps = itertools.accumulate((at for at, _ in chunks), max)
    return [{"ts": t, "k": k, "at": at} for at, (_, rows) in zip(stamps, chunks, strict=True) for t, k in rows]


def plain(element: Element) -> list[tuple[object, ...]]:
    """Give (group, window's end, count) of the results in an element."""
    if not isinstance(element, Page):
        return []
    ends = element.ticks("window_end").tolist()
    return [(row["k"], end, row["count"]) for row, end in zip(element.rows(), ends, strict=True)]


def naive(rows: Sequence[Row], size: int, slide: int) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for _, _, end, inside in naive_windows.sliding(rows, "at", size=size, slide=slide):
        found.update((key, end, len(group)) for (key,), group in naive_windows.grouped(inside, "k"))
    return found


def counted(stream: Stream, size: int, slide: int) -> Stream:
    return stream.window(f"{size} ns", slide=f"{slide} ns", wattr="arrival_ts").aggregate(oop.count(), by="k")


@given(came, st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 2, 8192]), st.booleans())
def test_windows_over_arrival_are_those_of_the_stamps(
    chunks: Came, size: int, slide: int, page_rows: int, live: bool
) -> None:
    """The answer is the naive one whether the stream can be read twice or not, at any page size, under both drivers."""
    expected = naive(arrived(chunks), size, slide)
    for driver in ("synchronous", "trio"):
        given_ = iter(batches(chunks)) if live else batches(chunks)
        stream = oop.arrow(given_, schema=SCHEMA, arrival_ts=ticking(chunks))
        plan = Plan((counted(stream, size, slide).node,))
        elements: list[Element] = []
        if driver == "trio":
            run_to_end(plan, (elements.append,), page_rows=page_rows)
        else:
            elements = [element for _, element in Run(plan, page_rows)]
        assert Counter(row for element in elements for row in plain(element)) == expected
        assert elements[-1] == END


@given(came, st.integers(1, 5), st.integers(1, 5))
def test_a_window_leaves_with_the_first_tuples_that_arrive_after_it(chunks: Came, size: int, slide: int) -> None:
    stamps: list[int] = []
    clock = ticking(chunks)

    def look() -> int:
        stamps.append(max([*stamps[-1:], clock()]))
        return stamps[-1]

    stream = oop.arrow(iter(batches(chunks)), schema=SCHEMA, arrival_ts=look)
    for _, element in Run(Plan((counted(stream, size, slide).node,))):
        for _, end, _ in plain(element):
            assert isinstance(end, int)
            *earlier, last = stamps
            assert max(earlier, default=-1) < end
            assert last >= end or len(stamps) == len(chunks)


def test_every_window_leaves_as_early_as_it_can() -> None:
    chunks: Came = [(0, [(5, "a")]), (1, [(1, "a")]), (3, [(9, "b")]), (3, [(0, "b")]), (7, [(2, "a")])]
    seen: list[object] = []
    clock = ticking(chunks)

    def look() -> int:
        seen.append(now := clock())
        return now

    stream = oop.arrow(iter(batches(chunks)), schema=SCHEMA, arrival_ts=look)
    for _, element in Run(Plan((counted(stream, 3, 3).node,))):
        seen += plain(element)
    assert seen == [0, 1, 3, ("a", 3, 2), 3, 7, ("b", 6, 2), ("a", 9, 1)]


def test_all_readers_stamp(tmp_path: Path) -> None:
    capture, table = tmp_path / "a.pcap", tmp_path / "a.csv"
    capture.write_bytes(pcap([(SECOND, b"\x00" * 60), (2 * SECOND, b"\x00" * 60)]))
    table.write_text("ts,k\n1,a\n2,b\n")
    page = Page(oop.Schema(SCHEMA), batches([(0, [(1, "a"), (2, "b")])])[0])

    def clock() -> int:
        return 7 * SECOND

    streams = {
        "pcap": oop.pcap(capture, arrival_ts=clock),
        "table": oop.table(table, arrival_ts=clock),
        "read": oop.read(table, arrival_ts=clock, slack=5, on="ts"),
        "read a capture": oop.read(capture, arrival_ts=clock),
        "rows": oop.rows([(1, "a"), (2, "b")], SCHEMA, arrival_ts=clock),
        "arrow": oop.arrow(page.batch, arrival_ts=clock),
        "pages": oop.pages([page], oop.Schema(SCHEMA, progress=["ts"]), arrival_ts=clock),
        "packets": oop.packets(2, arrival_ts=clock),
    }
    for name, stream in streams.items():
        assert stream.schema.names[-1] == "arrival_ts", name
        assert stream.schema.progressing("arrival_ts") and stream.schema.progressing("ts"), name
        (window,) = stream.window("5 s", wattr="arrival-ts").aggregate(oop.count()).to_arrow().to_pylist()
        assert (window["count"], window["window_start"].second) == (2, 5), name
        assert [t.second for t in stream.to_arrow()["arrival_ts"].to_pylist()] == [7, 7], name


def test_what_is_read_ahead_is_what_was_promised_before() -> None:
    """A bounded stream with a stamp still has its exact promises on other attributes, and both windows can be read."""
    chunks: Came = [(3, [(8, "a"), (2, "a")]), (5, [(1, "b")])]
    clock = itertools.chain.from_iterable(itertools.repeat([3, 5]))
    stream = oop.arrow(batches(chunks), arrival_ts=lambda: next(clock))
    by_time = stream.window(5, wattr="ts").aggregate(oop.count())
    assert sorted(row["count"] for row in by_time.to_arrow().to_pylist()) == [1, 2]
    both = Plan((by_time.node, counted(stream, 4, 4).node))
    found: list[list[Element]] = [[], []]
    for number, element in Run(both):
        found[number].append(element)
    assert sum(isinstance(node, SourceNode) for node in both.nodes) == 1
    assert [row for element in found[1] for row in plain(element)] == [("a", 4, 2), ("b", 8, 1)]


def test_late_tuples_of_another_promise_are_none_of_the_arrival() -> None:
    stream = oop.arrow(iter(batches([(1, [(9, "a"), (1, "a")])])), schema=SCHEMA, slack=2, arrival_ts=lambda: 1)
    outcome = stream.window("5 ns", wattr="arrival_ts").aggregate(oop.count()).run()
    assert (outcome.table["count"].to_pylist(), outcome.statistics.late) == ([1], 1)
    kept = oop.rows(iter([(9, "a"), (1, "a")]), SCHEMA, slack=2, late="revise", arrival_ts=lambda: 1)
    assert kept.window("5 ns", wattr="arrival_ts").aggregate(oop.count()).to_arrow()["count"].to_pylist() == [2]


def test_a_simulated_clock_of_trio_can_be_the_clock() -> None:
    clock = trio.testing.MockClock()

    def chunks() -> Iterator[Chunk]:
        for batch in batches([(0, [(1, "a")]), (0, [(2, "a")]), (0, [(3, "b")])]):
            clock.jump(1.0)
            yield batch

    stream = oop.from_source(
        Once("live", SCHEMA, chunks), arrival_ts=lambda: round((trio.current_time() - begun) * SECOND)
    )
    elements: list[Element] = []
    begun = 0.0

    async def main() -> None:
        nonlocal begun
        begun = trio.current_time()
        await run_plan(Plan((counted(stream, 2 * SECOND, 2 * SECOND).node,)), (elements.append,), waiting=False)

    trio.run(main, clock=clock)
    found = [(k, int(str(end)) // SECOND, n) for element in elements for k, end, n in plain(element)]
    assert sorted(found, key=str) == [("a", 2, 1), ("a", 4, 1), ("b", 4, 1)]


def sources(stream: Stream) -> list[SourceNode]:
    return list(Plan((stream.node,)).sources.values())


def test_a_window_over_arrival_stamps_at_the_source_whatever_lies_between() -> None:
    one = oop.rows([(1, "a"), (2, "b")], SCHEMA, name="one")
    other = oop.rows([(3, "a"), (0, "b")], SCHEMA, name="other")
    united = oop.meld(one, other, one).filter("ts > 0").number().derive(double="ts * 2").project("k", "double")
    windows = united.window("1 hour", wattr="arrival_ts").aggregate(oop.count(), oop.sum("double"))
    assert [type(node.source) for node in sources(windows)] == [Stamped, Stamped]
    assert [node.label for node in sources(windows)] == ["one", "other"]
    counts = windows.to_arrow().to_pylist()
    assert sum(row["count"] for row in counts) == 5
    assert sum(row["sum_double"] for row in counts) == 2 * (1 + 2 + 3 + 1 + 2)
    assert "arrival_ts" not in united.schema


def test_the_query_language_stamps_what_it_names() -> None:
    main = oop.rows([(1, "a"), (2, "b"), (5, "a")], SCHEMA)
    for text in (
        "SELECT k, count(*) [RANGE 10 s, SLIDE 10 s, WA arrival-ts] FROM Main WHERE ts > 1 GROUP BY k",
        "SELECT k, count(*) [RANGE 10 s, RATTR arrival_ts, SLIDE 10 s, SATTR arrival_ts] FROM Main WHERE ts > 1"
        " GROUP BY k",
        "SELECT k, count(*) [RANGE 10 s, SLIDE 10 s, WA arrival_ts] FROM (SELECT k FROM Main WHERE ts > 1) GROUP BY k",
    ):
        found = oop.query(text, Main=main).to_arrow().to_pylist()
        assert sorted((row["k"], row["count"]) for row in found) == [("a", 1), ("b", 1)], text
    assert oop.query("SELECT ts FROM Main WHERE arrival_ts > '1980-01-01'", Main=main).to_arrow().num_rows == 3
    named = oop.query("SELECT ts, arrival_ts AS came FROM Main", Main=main)
    assert named.window(3, wattr="ts").aggregate(oop.count()).to_arrow()["count"].to_pylist() == [2, 1]
    assert oop.query("SELECT * FROM Main WHERE arrival_ts IS NOT NULL", Main=main).schema.names == ["ts", "k"]
    both = oop.query("SELECT row_num, arrival_ts FROM Main", Main=main)
    assert both.to_arrow()["row_num"].to_pylist() == [0, 1, 2]
    assert not any(isinstance(node.source, Stamped) for node in sources(oop.query("SELECT ts FROM Main", Main=main)))


def test_an_attribute_that_was_recorded_is_the_one_that_is_used() -> None:
    schema = pa.schema([("arrival_ts", pa.int64())])
    recorded = oop.rows([(5,), (1,), (7,)], schema)
    windows = recorded.window(4, wattr="arrival_ts").aggregate(oop.count())
    assert stamped(recorded.node) is recorded.node
    assert sorted((row["window_start"], row["count"]) for row in windows.to_arrow().to_pylist()) == [(0, 1), (4, 2)]
    with pytest.raises(oop.SchemaError, match='there is an attribute "arrival_ts" already'):
        oop.rows([(5,)], schema, arrival_ts=True)


@pytest.mark.parametrize("disorder", [None, oop.Band(3 * SECOND), Blocks(4 * SECOND)])
def test_generated_packets_arrive_when_they_were_generated_to(disorder: oop.Band | Blocks | None) -> None:
    stream = oop.packets(600, rate=10, disorder=disorder, skew=2 * SECOND)
    windows = stream.window("10 s", wattr="arrival_ts").aggregate(oop.count())
    first, again = (sorted(r["wid"] * 1000 + r["count"] for r in windows.to_arrow().to_pylist()) for _ in range(2))
    assert first == again
    assert sum(wid % 1000 for wid in first) == 600
    assert sum(len(page) > 0 for page in windows) > 1, "windows leave while packets arrive"
    given_ = oop.packets(600, rate=10, disorder=disorder, skew=2 * SECOND, arrival=True)
    recorded = Counter(t.value // (10 * SECOND) for t in given_.to_pandas()["arrival_ts"])
    assert {wid // 1000: wid % 1000 for wid in first} == recorded


def test_tuples_that_come_about_in_the_plan_never_arrived() -> None:
    inner = oop.rows([(1, "a")], SCHEMA).window(5).aggregate(oop.count())
    with pytest.raises(oop.PlanError, match=r'the tuples of "aggregate count\(\*\)" have no time of arrival'):
        inner.window("1 s", wattr="arrival_ts")
    with pytest.raises(oop.LanguageError) as caught:
        text = (
            "SELECT count(*) [RANGE 1 s, WA arrival-ts] FROM (SELECT k, max(ts) [RANGE 5, WA ts] FROM Main GROUP BY k)"
        )
        oop.query(text, Main=oop.rows([(1, "a")], SCHEMA))
    assert "have no time of arrival" in caught.value.message
    with pytest.raises(oop.PlanError, match="arrival_ts is 'now'; write True"):
        oop.rows([(1, "a")], SCHEMA, arrival_ts="now")  # type: ignore[arg-type]


def test_partitions_over_times_of_arrival_are_groups() -> None:
    stream = oop.rows([(1, "a"), (2, "b"), (3, "a")], SCHEMA)
    found = stream.window("1 day", wattr="arrival_ts", partition="k").aggregate(n=oop.count()).run().table
    counts: Counter[str] = Counter()
    for row in found.to_pylist():  # a run may see midnight
        counts[row["k"]] += row["n"]
    assert counts == {"a": 2, "b": 1}


def test_promises_of_the_stream_itself_stay() -> None:
    schema = oop.Schema(SCHEMA, progress=["ts"])
    stream = oop.rows(iter([(1, "a"), before("ts", 5), (7, "b")]), schema, arrival_ts=lambda: 3)
    elements = [element for _, element in Run(Plan((stream.node,)))]
    assert [str(e) for e in elements if isinstance(e, Punctuation)] == [
        "[arrival_ts < 3]",
        "[ts < 5]",
        "[END]",
    ]


def test_a_pipe_has_one_reader_and_says_so() -> None:
    """Half of a pipe is no answer: a stream that is read beside its stamped twin must be opened with the stamp."""
    once = oop.rows(iter([(1, "a"), (2, "b")]), SCHEMA, slack=0)
    by_time = once.window(5, wattr="ts").aggregate(oop.count())
    by_arrival = once.window("5 s", wattr="arrival_ts").aggregate(oop.count())
    with pytest.raises(SourceError, match=r"can be read only once[\s\S]*open the stream with arrival_ts=True"):
        run_outputs([by_time.to(ListSink([])), by_arrival.to(ListSink([]))])
    whole = oop.rows(iter([(1, "a"), (2, "b")]), SCHEMA, slack=0, arrival_ts=True)
    windows = [whole.window(r, wattr=a).aggregate(oop.count()) for a, r in (("ts", 5), ("arrival_ts", "5 ns"))]
    assert run_outputs([stream.to(ListSink([])) for stream in windows]).tuples == 2


def test_what_can_be_read_only_once_is_not_run_twice(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap([(SECOND, b"\x00" * 60)]))
    with open(capture, "rb") as packets, open(capture, "rb") as same:
        text = io.BytesIO(b"ts,k\n1,a\n")
        for stream in (
            oop.pcap(packets, slack="1 s"),
            oop.read(same, slack="1 s"),
            oop.table(text, format="csv", slack=1),
            oop.rows(iter([(1, "a")]), SCHEMA),
            oop.arrow(iter(batches([(0, [(1, "a")])])), schema=SCHEMA),
            oop.pages(iter([]), oop.Schema(SCHEMA, progress=["ts"])),
        ):
            stream.run()
            with pytest.raises(SourceError, match="can be read only once, and was read already"):
                stream.run()


def test_the_plan_shows_that_arrival_promises_itself() -> None:
    live = oop.rows(iter([(1, "a")]), SCHEMA).window("5 s", wattr="arrival_ts").aggregate(oop.count())
    assert isinstance(live.node, OperatorNode)
    assert "punctuated  on arrival_ts, by the stream itself" in live.explain()
