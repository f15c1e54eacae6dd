"""What a DataFrame holds of an attribute is read back as the attribute."""

from __future__ import annotations

from datetime import time, timedelta

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.spark.given import Given, from_spark
from oop_engine.spark.schema import Wanted
from operators.schema import ip_field
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
    reader = Given("x", arrow, [batch, batch.slice(0, 0)]).open(["b"], 10)
    (chunk,) = reader.chunks()
    assert chunk.to_pydict() == {"b": [1]} and chunk.schema.field("b").type == pa.int16()
