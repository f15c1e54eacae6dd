"""A late tuple that a filter would have dropped is missing in no result, so it is not counted as late."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.sinks.python import ListSink

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("n", pa.int64())])
SIZE, SLACK = 10, 3
Rows = Sequence[tuple[int, int]]


def batches(rows: Rows, cut: int) -> list[pa.RecordBatch]:
    whole = pa.RecordBatch.from_pydict(
        {"ts": [ts for ts, _ in rows], "k": [k for _, k in rows], "n": list(range(len(rows)))}, schema=SCHEMA
    )
    return [whole.slice(start, cut) for start in range(0, len(rows), cut)] or [whole]


def source(rows: Rows, cut: int = 100) -> Stream:
    return oop.arrow(batches(rows, cut), schema=SCHEMA, name="M", slack=SLACK)


def counted(stream: Stream) -> Stream:
    return stream.window(range=SIZE, slide=SIZE, wattr="ts").aggregate(oop.count(), by="k")


def late(rows: Rows, keeps: Callable[[int], bool]) -> int:
    """Count, one by one, the tuples that are kept and whose windows were closed when they came."""
    found, highest = 0, -(10**9)
    for ts, k in rows:
        closed = (highest - SLACK) // SIZE * SIZE
        found += ts < closed and keeps(k)
        highest = max(highest, ts)
    return found


ROWS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 2)), max_size=40)


@given(ROWS, st.integers(1, 12))
def test_late_is_what_the_window_lacks_of_what_the_filter_keeps(rows: Rows, cut: int) -> None:
    run = counted(source(rows, cut).filter("k = 1")).run()
    assert run.statistics.late == late(rows, lambda k: k == 1)
    assert sum(run.table["count"].to_pylist()) + run.statistics.late == sum(k == 1 for _, k in rows)


@given(ROWS)
def test_filters_in_a_row_are_all_passed(rows: Rows) -> None:
    statistics = counted(source(rows).filter("k > 0").filter("k < 2")).run().statistics
    assert statistics.late == late(rows, lambda k: k == 1)


@given(ROWS)
def test_what_any_of_several_readers_keeps_counts_once(rows: Rows) -> None:
    whole = source(rows)
    outputs = [counted(whole.filter(f"k = {k}")).to(ListSink([])) for k in (0, 1)]
    inputs = [op for op in oop.run_outputs(outputs).operators if op.label == "M"]
    alone = [op for op in counted(whole.filter("k < 2")).run().statistics.operators if op.label == "M"]
    assert [op.details["late"] for op in inputs] == [op.details["late"] for op in alone]


def test_what_the_source_leaves_out_is_counted_all_the_same() -> None:
    rows = [(100, 1), (1, 1), (2, 0), (3, 0), (4, 1), (101, 0)]
    (read, *_) = counted(source(rows).filter("k = 1")).run().statistics.operators
    assert (read.tuples_in, read.tuples_out, read.details["late"], read.details["late_filtered"]) == (6, 2, 2, 2)
    (read, *_) = counted(source(rows)).run().statistics.operators
    assert "late_filtered" not in read.details and read.details["late"] == 4


@given(ROWS)
def test_a_reader_that_is_judged_apart_counts_what_its_own_filter_keeps(rows: Rows) -> None:
    whole = oop.arrow(batches(rows, 100), schema=SCHEMA, name="M", slack=SLACK)
    latest = whole.filter("k = 1").window(oop.latest(SIZE, every=SIZE, wattr="ts")).aggregate(oop.count())
    landmark = whole.window(range="ALL", slide=SIZE, wattr="ts").aggregate(oop.count())
    statistics = oop.run_outputs([stream.to(ListSink([])) for stream in (latest, landmark)])
    (guard,) = [op.details for op in statistics.operators if op.label == "leave out late tuples"]
    assert guard["late"] == late(rows, lambda k: k == 1)
    assert guard["late"] + guard.get("late_filtered", 0) == late(rows, lambda k: True)


def test_what_is_diverted_counts_as_late_whatever_a_filter_keeps() -> None:
    handed: list[int] = []
    stream = oop.arrow(
        batches([(100, 1), (1, 1), (2, 0)], 9), schema=SCHEMA, slack=SLACK, late="divert",
        divert=lambda page: handed.append(len(page)),
    )  # fmt: skip
    assert counted(stream.filter("k = 1")).run().statistics.late == sum(handed) == 2


@pytest.mark.parametrize("low", [True, False])
def test_a_stream_of_spark_counts_as_embedded(low: bool) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
    from tests.oop_engine.spark.simulated import on_stream

    rows = [((7 * i) % 50 + i, i % 3) for i in range(120)]
    given = [[("M", batch)] for batch in batches(rows, 17)]
    _, counts = on_stream(counted(source(rows).filter("k = 1")), [*given, [("M", None)]], buckets=2, low=low)
    assert counts["late"] == late(rows, lambda k: k == 1) > 0
