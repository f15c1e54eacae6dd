"""A plan inside Spark gives what it gives embedded: its sources its own or DataFrames, its keys of any type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError, SchemaError
from oop_engine.language.translate import query
from oop_engine.plan.graph import Plan, source_node
from oop_engine.plan.punctuate import slack
from oop_engine.sources.memory import Rows
from oop_engine.spark.counts import Counts
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.run import on_spark
from oop_engine.spark.scatter import spark_hash
from oop_engine.spark.schema import Wanted
from operators import functions as f
from operators.data.schema import ip_field
from tests.oop_engine.spark.plans import FREE, ORDERED, Row, batch, stream
from tests.oop_engine.spark.simulated import Result, embedded
from tests.queries import joins, test_golden
from tests.queries.golden import GOLDEN
from tests.queries.streams import streams

if TYPE_CHECKING:
    from collections import Counter

    from pyspark.sql import DataFrame, SparkSession

CHOSEN = ("Q1-2", "Q5-1", "Q5-2 over few rows", "Q5-4", "chained on wid", "SELECT DISTINCT, IN and networks")
JOINS = ("Q3-1", "Q7-2", "Q8-4", "three inputs, tumbling", "no equality")


def answer(frame: DataFrame) -> Counter[Result]:
    """Give the rows of a DataFrame, how often each."""
    from collections import Counter

    return Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())


@pytest.mark.parametrize("name", CHOSEN)
def test_a_golden_query_has_its_answer(spark: SparkSession, name: str) -> None:
    golden = next(g for g in GOLDEN if g.name == name)
    result = query(golden.text, streams())
    assert test_golden.results(result) == test_golden.answer(golden)
    frame = on_spark(result, spark, buckets=3)
    assert frame.columns == list(golden.columns)
    assert answer(frame) == embedded(result)


@pytest.mark.parametrize("name", JOINS)
def test_a_golden_join_has_its_answer(spark: SparkSession, name: str) -> None:
    golden = next(g for g in joins.GOLDEN if g.name == name)
    result = query(golden.text, joins.streams())
    assert answer(on_spark(result, spark)) == embedded(result)


def pages(count: int, salt: int = 1) -> list[list[Row]]:
    """Make pages of rows that are not in order."""
    made: list[Row] = [
        ((i * 7 + salt * i % 11) % 60 + i // 4, "abc"[i * salt % 3], i % 4, i * salt % 19 - 9) for i in range(count)
    ]
    return [made[at : at + 17] for at in range(0, count, 17)]


def frame_of(spark: SparkSession, given: list[list[Row]]) -> DataFrame:
    """Make a DataFrame of rows, in one partition so that they have an order."""
    table = pa.Table.from_batches([batch([row for page in given for row in page])])
    return spark.createDataFrame(table).coalesce(1)


@pytest.mark.parametrize("name", ["sliding", "sessions", "full join", "filter", "ranked windows"])
def test_dataframes_stand_for_sources(spark: SparkSession, name: str) -> None:
    given = {"a": pages(90), "b": pages(50, 3)}
    result = FREE[name]({n: stream(n, p) for n, p in given.items()})
    used = {node.source.name for node in Plan((result.node,)).sources.values()}
    other = FREE[name]({n: stream(n, []) for n in given})
    frames = {n: frame_of(spark, given[n]).repartition(3) for n in used}
    assert answer(on_spark(other, spark, frames)) == embedded(result)


@pytest.mark.parametrize("plan", [ORDERED["first"], ORDERED["rows of each"], FREE["sliding"]])
def test_what_is_late_in_a_dataframe_is_late_embedded(spark: SparkSession, plan: Callable[..., Stream]) -> None:
    given = pages(120)
    result = plan({"a": stream("a", given, slack(5))})
    counts = Counts(spark)
    frame = on_spark(plan({"a": stream("a", [], slack(5))}), spark, {"a": frame_of(spark, given)}, counts=counts)
    assert answer(frame) == embedded(result)
    statistics = result.run().statistics
    assert counts.totals().get("late", 0) == statistics.late > 0
    assert counts.totals().get("late_for_some", 0) == statistics.late_for_some


def test_two_dataframes_with_promises_are_read_in_one_task(spark: SparkSession) -> None:
    given = {"a": pages(60), "b": pages(40, 3)}
    result = FREE["join"]({n: stream(n, p, slack(80)) for n, p in given.items()})
    other = FREE["join"]({n: stream(n, [], slack(80)) for n in given})
    assert answer(on_spark(other, spark, {n: frame_of(spark, p) for n, p in given.items()})) == embedded(result)


TIME = datetime(2026, 11, 21, 10, 0, 0, 123456)
KEYS: dict[str, tuple[pa.Field, list[object]]] = {
    "small": (pa.field("key", pa.int8()), [-3, 5, None]),
    "unsigned": (pa.field("key", pa.uint64()), [2**63 + 5, 1, 2**64 - 1]),
    "float": (pa.field("key", pa.float64()), [0.5, -1.25, None]),
    "bool": (pa.field("key", pa.bool_()), [True, False, None]),
    "text": (pa.field("key", pa.string()), ["", "é", None, "x" * 300]),
    "dictionary": (pa.field("key", pa.dictionary(pa.int8(), pa.string())), ["a", "b", "c"]),
    "binary": (pa.field("key", pa.binary()), [b"", b"\0\1", None]),
    "address": (ip_field("key"), [bytes(10) + b"\xff\xff\x0a\0\0\7", bytes(15) + b"\1", None]),
    "time": (pa.field("key", pa.timestamp("us", "UTC")), [TIME.replace(tzinfo=UTC), None]),
    "time without zone": (pa.field("key", pa.timestamp("ms")), [TIME.replace(microsecond=0), None]),
    "date": (pa.field("key", pa.date32()), [TIME.date(), None]),
    "duration": (pa.field("key", pa.duration("us")), [TIME - datetime(2026, 1, 1), None]),
    "decimal": (pa.field("key", pa.decimal128(9, 2)), [Decimal("1.25"), Decimal("-7.00"), None]),
}


def test_keys_of_every_type_keep_their_groups(spark: SparkSession) -> None:
    wanted: list[Counter[Result]] = []
    found: list[DataFrame] = []
    for field, values in KEYS.values():
        arrow = pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), field])
        columns = [pa.array(range(0, 40_000_000, 1_000_000)).view(arrow.field(0).type)]
        columns.append(pa.array([values[i % len(values)] for i in range(40)], field.type))
        table = pa.RecordBatch.from_arrays(columns, schema=arrow)
        source = Rows("keys", tuple(table.slice(at, 9) for at in range(0, 40, 9)), arrow)
        result = Stream(source_node(source)).window(range="20 s", slide="5 s").aggregate(f.count(), by="key")
        wanted.append(embedded(result))
        found.append(on_spark(result, spark, buckets=2))
    for name, frame, expected in zip(KEYS, found, wanted, strict=True):
        assert answer(frame) == expected, name


def test_one_huge_key_and_many_small_ones(spark: SparkSession) -> None:
    count = 200_000
    keys = pa.array([0 if i % 2 else i for i in range(count)])
    table = pa.record_batch({"ts": pa.array([i // 1000 for i in range(count)]), "key": keys})
    result = Stream(source_node(Rows("keys", (table,)))).window(range=50).aggregate(f.count(), by="key")
    rows = on_spark(result, spark).toArrow()
    assert rows.num_rows == sum(embedded(result).values()) > 100_000
    assert sum(rows["count"].to_pylist()) == count


def test_sparks_hash_of_a_bucket_is_known(spark: SparkSession) -> None:
    numbers = np.array([0, 1, -1, 2**31 - 1, 12345], np.int32)
    frame = spark.createDataFrame(pa.table({"n": numbers})).selectExpr("hash(n) as h")
    assert frame.toArrow()["h"].to_pylist() == spark_hash(numbers).tolist()


def test_windows_are_those_of_spark_with_the_origin_that_the_documentation_names(spark: SparkSession) -> None:
    """Windows end at multiples of SLIDE from the origin; Spark's begin at multiples of SLIDE."""
    times = pa.array([1000, 1003, 1017, 1024, 1031, 1090], pa.timestamp("s", "UTC"))
    table = pa.table({"ts": times.cast(pa.timestamp("us", "UTC"))})
    packets = Stream(source_node(Rows("a", tuple(table.to_batches()))))
    theirs = spark.createDataFrame(table).selectExpr("window(ts, '25 seconds', '10 seconds') AS w").groupBy("w").count()
    wanted = sorted((row["w"].start, row["w"].end, row["count"]) for row in theirs.collect())

    def ours(origin: str) -> list[tuple[datetime, datetime, int]]:
        counted = packets.window(range="25 s", slide="10 s", origin=origin).aggregate(f.count())
        rows = on_spark(counted, spark).select("window_start", "window_end", "count").collect()
        return sorted((row[0], row[1], row[2]) for row in rows)

    assert ours("5 s") == wanted
    ends = {end.second % 10 for _, end, _ in ours("0 s")}
    assert ends == {0} and {start.second % 10 for start, _, _ in wanted} == {0}


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    empty = stream("a", [])
    result = FREE["sliding"]({"a": empty})
    assert on_spark(result, spark).count() == 0
    frame = spark.createDataFrame(pa.Table.from_batches([batch([])])).repartition(4)
    assert on_spark(result, spark, {"a": frame}).count() == 0


def test_what_cannot_be_is_said_before_anything_runs(spark: SparkSession) -> None:
    result = FREE["sliding"]({"a": stream("a", pages(10))})
    frame = frame_of(spark, pages(10))
    with pytest.raises(PlanError, match="the plan has no source of that name"):
        on_spark(result, spark, {"b": frame})
    with pytest.raises(SchemaError, match='no column "k"'):
        on_spark(result, spark, {"a": frame.drop("k")})
    diverted = Stream(
        source_node(Rows("a", (batch([]),)), promises=[slack(3)], late="divert", divert=lambda page: None)
    )
    with pytest.raises(PlanError, match="on Spark they are elsewhere"):
        on_spark(FREE["sliding"]({"a": diverted}), spark)


def test_an_error_in_a_task_speaks_the_engines_words(spark: SparkSession) -> None:
    result = FREE["sliding"]({"a": stream("a", [[(9, "a", 1, 1)], [(1, "a", 1, 1)]], slack(2), late="refuse")})
    with pytest.raises(SparkError, match="StreamViolation: a broke its promise"), errors():
        on_spark(result, spark).toArrow()


def test_results_are_of_the_types_of_spark(spark: SparkSession) -> None:
    result = query(GOLDEN[0].text, streams())
    assert on_spark(result, spark).schema == Wanted.of(result.schema.arrow, None).struct
