"""What a DataFrame holds of an attribute is read back as the attribute."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.spark.in_memory import InMemory, from_spark
from oop_engine.spark.schema import Wanted
from operators.data.schema import ip_field
from tests.oop_engine.spark.test_on_spark import KEYS

MORE = {
    "large text": (pa.field("key", pa.large_string()), ["a", None]),
    "seconds": (pa.field("key", pa.timestamp("s", "UTC")), [5, None]),
    "time of day": (pa.field("key", pa.time64("ns")), [time(1, 2, 3), None]),
    "short time of day": (pa.field("key", pa.time32("s")), [time(1, 2, 3), None]),
    "duration in s": (pa.field("key", pa.duration("s")), [timedelta(seconds=5), None]),
    "half": (pa.field("key", pa.uint8()), [255, None]),
    "digest": (pa.field("key", pa.binary(3)), [b"abc", None]),
}


@pytest.mark.parametrize("name", [*KEYS, *MORE])
def test_a_value_of_any_type_comes_back(name: str) -> None:
    field, values = {**KEYS, **MORE}[name]
    arrow = pa.schema([field])
    given = pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=arrow)
    there = Wanted.of(arrow, None).batch(given)
    assert from_spark(there, arrow).column(0).to_pylist() == given.column(0).to_pylist()
    assert from_spark(there, arrow).schema.equals(arrow, check_metadata=True)


def test_addresses_may_be_bytes() -> None:
    arrow = pa.schema([ip_field("key")])
    given = pa.RecordBatch.from_arrays([pa.array([bytes(16), None], pa.binary(16))], schema=arrow)
    there = Wanted.of(arrow, None, "binary").batch(given)
    assert from_spark(there, arrow).equals(given)


def test_a_stream_that_is_given_has_the_columns_asked_for() -> None:
    arrow = pa.schema([("a", pa.int32()), ("b", pa.int16())])
    batch = pa.record_batch({"b": pa.array([1]), "a": pa.array([2])})
    reader = InMemory("x", arrow, [batch, batch.slice(0, 0)]).open(["b"], 10)
    (chunk,) = reader.chunks()
    assert chunk.to_pydict() == {"b": [1]} and chunk.schema.field("b").type == pa.int16()


FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
NEAR = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", [pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("s", "UTC")])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([NEAR, FAR, None], pa.timestamp("us", "UTC")),
        pa.array([date(2024, 5, 1), date(9999, 12, 31), None], pa.date32()),
    ],
)
def test_a_time_that_the_plans_unit_cannot_hold_is_null_and_ends_no_query(column: pa.Array, kind: pa.DataType) -> None:
    """9999-12-31 is what many databases have for "never"; the plan's nanoseconds end in 2262."""
    given = pa.RecordBatch.from_arrays([column], ["ts"])
    values = from_spark(given, pa.schema([("ts", kind)])).column(0)
    assert values.is_valid().to_pylist() == [True, kind.unit != "ns", False]
    assert values.cast(pa.timestamp("s", "UTC"))[0].as_py() == NEAR


def test_a_duration_that_the_plans_unit_cannot_hold_is_null() -> None:
    given = pa.RecordBatch.from_arrays([pa.array([5, 2**62, -(2**62)], pa.duration("us"))], ["d"])
    assert from_spark(given, pa.schema([("d", pa.duration("ns"))])).column(0).is_valid().to_pylist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_nanoseconds_that_there_are_not_are_null_in_spark(unit: str) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([NEAR, FAR, None], pa.timestamp(unit, "UTC"))], ["ts"])
    wanted = Wanted.of(given.schema, ["ts", "ts_ns"]).batch(given)
    assert wanted.column("ts").to_pylist() == ([NEAR, FAR, None])
    assert wanted.column("ts_ns").to_pylist() == [int(NEAR.timestamp()) * 1_000_000_000, None, None]


def test_seconds_beyond_all_microseconds_are_null_in_spark() -> None:
    given = pa.RecordBatch.from_arrays([pa.array([5, 2**62], pa.timestamp("s", "UTC"))], ["ts"])
    assert Wanted.of(given.schema, None).batch(given).column(0).is_valid().to_pylist() == [True, False]


def test_a_tuple_without_a_time_that_the_plan_holds_is_counted_by_its_window() -> None:
    import oop_engine as oop
    from tests.oop_engine.spark.simulated import on_stream

    arrow = pa.schema([("ts", pa.timestamp("ns", "UTC"))])
    stream = oop.arrow(arrow.empty_table(), name="M", slack="2 s").window("10 s", wattr="ts").aggregate(oop.count())
    arrived = pa.RecordBatch.from_arrays([pa.array([NEAR, FAR, NEAR], pa.timestamp("us", "UTC"))], ["ts"])
    found, counts = on_stream(stream, [[("M", arrived)], [("M", None)]], buckets=2)
    assert [2 in row for row in found] == [True]
    assert counts["untimed"] == 1
