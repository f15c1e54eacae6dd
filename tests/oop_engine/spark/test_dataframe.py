"""A DataFrame comes here whatever its columns' names and the session's time zone; what does not fit is told."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.api.stream import Stream, meld
from oop_engine.errors import SchemaError
from oop_engine.plan.graph import source_node
from oop_engine.plan.punctuate import slack
from oop_engine.sources.memory import Rows
from oop_engine.spark.dataframe import each_batch, from_spark
from oop_engine.spark.errors import SparkError, errors, unwrapped
from oop_engine.spark.in_memory import crossing, quoted
from oop_engine.spark.in_memory import from_spark as given
from oop_engine.spark.run import on_spark
from operators import functions as f
from tests.oop_engine.spark.simulated import embedded
from tests.oop_engine.spark.test_on_spark import answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "spark.sql.session.timeZone"
ODD = ("id.orig_h", "a`b.c", "100%", "a%2Eb", "a.b", "*", "größe x")


@pytest.fixture
def berlin(spark: SparkSession) -> Generator[SparkSession, None, None]:
    before = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, "Europe/Berlin")
    yield spark
    spark.conf.set(ZONE, before)


TIMES = """select timestamp '2024-05-01 12:00:00.5 UTC' as ts, timestamp_ntz '2024-05-01 12:00:00' as local,
    array(timestamp '2024-05-01 12:00:00 UTC') as many, named_struct('t', timestamp '2024-05-01 12:00:00 UTC') as one,
    map('t', timestamp '2024-05-01 12:00:00 UTC') as named, 1 as x"""


def test_times_come_from_a_session_of_any_zone(berlin: SparkSession) -> None:
    frame = berlin.sql(TIMES)
    there = from_spark(frame).to_arrow()
    berlin.conf.set(ZONE, "UTC")
    here = from_spark(berlin.sql(TIMES)).to_arrow()
    assert there.schema == here.schema
    assert there.equals(here)
    assert there["ts"].cast(pa.int64()).to_pylist() == [1_714_564_800_500_000]


def test_a_batch_has_times_of_any_zone(berlin: SparkSession) -> None:
    seen: list[int] = []

    def note(stream: Stream, number: int) -> None:
        seen.extend(stream.to_arrow()["ts"].cast(pa.int64()).to_pylist())

    each_batch(note)(berlin.sql(TIMES), 3)
    assert seen == [1_714_564_800_500_000]


def test_a_plan_has_times_of_any_zone(berlin: SparkSession) -> None:
    frame = berlin.sql("select timestamp_millis(1714564800000 + id) as ts, id as x from range(50)")
    plan = from_spark(frame, name="a").window(range="10 ms", wattr="ts").aggregate(f.count())
    assert answer(on_spark(plan, berlin, {"a": frame})) == embedded(plan)


def odd(name: str, rows: int = 30) -> Stream:
    arrow = pa.schema([("ts", pa.int64()), *((column, pa.int64()) for column in ODD)])
    columns = [range(rows), *([(i + at) % 4 for i in range(rows)] for at in range(len(ODD)))]
    batch = pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=arrow)
    return Stream(source_node(Rows(name, (batch,), arrow)))


@pytest.mark.parametrize("promises", [(), (slack(2),)], ids=["free", "promised"])
@pytest.mark.parametrize("names", ["a", "ab"])
def test_columns_of_any_name_are_grouped_by(spark: SparkSession, names: str, promises: tuple[object, ...]) -> None:
    streams = [odd(name) for name in names]
    frames = {name: spark.createDataFrame(stream.to_arrow()) for name, stream in zip(names, streams, strict=True)}
    streams = [Stream(source_node(s.node.source, promises=promises)) for s in streams]  # type: ignore[union-attr, arg-type]
    plan = (meld(*streams) if len(streams) > 1 else streams[0]).window(range=10, wattr="ts")
    plan = plan.aggregate(f.count(), *(f.sum(name) for name in ODD[1:]), by=ODD[0])
    result = on_spark(plan, spark, frames)
    assert ODD[0] in result.columns
    assert answer(result) == embedded(plan)


def test_columns_of_any_name_come_here_and_go_on(spark: SparkSession) -> None:
    table = odd("a").to_arrow()
    there = from_spark(spark.createDataFrame(table))
    assert there.to_arrow().equals(table)


def test_names_cross_apart_from_each_other() -> None:
    assert len({crossing(name) for name in ODD}) == len(ODD)
    assert not any(set(".`*") & set(crossing(name)) for name in ODD)
    assert crossing("srcIP") == "srcIP"
    assert quoted("a`b.c") == "`a``b.c`"


def test_within_a_page_of_tuples_names_are_as_they_are() -> None:
    batch = pa.record_batch({"a.b": pa.array([1], pa.int64())})
    assert given(batch, batch.schema).equals(batch)


@pytest.mark.parametrize(
    ("column", "kind", "words"),
    [
        (pa.array([1, 300]), pa.int8(), r'column "n" .* is int64 .* int8: .*300.*\n.*before on_spark'),
        (pa.array(["a"]), pa.int64(), r'column "n" .* is string .* int64: .*\'a\''),
        (pa.array([{"a": 1}]), pa.int64(), r'column "n" .* is struct.* int64: '),
    ],
)
def test_a_column_that_does_not_fit_is_named(column: pa.Array, kind: pa.DataType, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        given(pa.record_batch({"n": column}), pa.schema([("n", kind)]))


def test_arrows_own_words_are_told(spark: SparkSession) -> None:
    def unfit(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.int8())], ["id"])

    with pytest.raises(SparkError, match=r"^pyarrow\.lib\.ArrowInvalid: Integer value 300 .*$"), errors():
        spark.range(300, 301, 1, 1).mapInArrow(unfit, "id tinyint").collect()
    arrow = pa.schema([("n", pa.int8())])
    plan = Stream(source_node(Rows("a", (), arrow))).filter("n > 0")
    with pytest.raises(SparkError, match=r'^SchemaError: the column "n" .*Integer value 300'), errors():
        on_spark(plan, spark, {"a": spark.range(300, 301, 1, 1).toDF("n")}).collect()


TRACE = 'Traceback (most recent call last):\n  File "x", line 3, in f\n    f()\n    ^^^\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"An exception:\n{TRACE}pyarrow.lib.ArrowInvalid: a: b", "pyarrow.lib.ArrowInvalid: a: b"),
        (f"{TRACE}x.<locals>.Odd: a\n  b\nc\n\n\tat org.x", "x.<locals>.Odd: a\n  b\nc"),
        (f"{TRACE}KeyboardInterrupt\n", "KeyboardInterrupt"),
        (f"{TRACE}KeyError: 1\n\nDuring handling, another:\n\n{TRACE}Odd: 2\n\tat org.x", "Odd: 2"),
    ],
)
def test_the_error_of_a_traceback_is_told_whatever_its_name(text: str, told: str) -> None:
    assert unwrapped(RuntimeError(text)) == told
