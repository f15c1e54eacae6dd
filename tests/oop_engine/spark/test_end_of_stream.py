"""A stream that says its end has the answer that a batch and the engine alone have: every open window leaves, once."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, ReadMaxRows

import oop_engine as oop
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import slack
from oop_engine.sinks.pagelog import PageLog
from oop_engine.sources.errors import SourceError
from oop_engine.spark.end_of_stream import MARK
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.growing import GrowingReader
from oop_engine.spark.options import Options
from oop_engine.spark.reading import PacketReading
from oop_engine.spark.results import LogStream, ResultSource
from oop_engine.spark.run import on_spark
from oop_engine.spark.sources import PacketSource
from tests.capture_files import FRAMES, pcap
from tests.examples import mostly_slow, share
from tests.oop_engine.spark.plans import ARROW, FREE, ORDERED, Row, batch, pages, stream
from tests.oop_engine.spark.simulated import embedded, on_batch, on_stream
from tests.oop_engine.spark.test_on_spark import answer, frame_of
from tests.oop_engine.spark.test_on_spark import pages as made
from tests.oop_engine.spark.test_streaming import answer as written
from tests.oop_engine.spark.test_streaming import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANS = {**FREE, **ORDERED}


def promised(given: dict[str, list[list[Row]]], within: int) -> dict[str, oop.Stream]:
    """Make streams of rows that promise to be out of order by so much."""
    return {name: stream(name, pages, slack(within)) for name, pages in given.items()}


def arriving(given: dict[str, list[list[Row]]], draw: random.Random) -> list[list[tuple[str, pa.RecordBatch | None]]]:
    """Cut the rows of streams into micro-batches; each stream ends with its last rows or some time after them."""
    waiting = {name: [row for page in pages for row in page] for name, pages in given.items()}
    arrivals: list[list[tuple[str, pa.RecordBatch | None]]] = [[]]
    while waiting:
        name = draw.choice(sorted(waiting))
        rows = waiting[name]
        if rows:
            count = draw.randrange(1, 6)
            arrivals[-1].append((name, batch(rows[:count])))
            del rows[:count]
        if not rows and draw.random() < 0.5:
            arrivals[-1].append((name, None))
            del waiting[name]
        if draw.random() < 0.5:
            arrivals.append([])
    return arrivals


@pytest.mark.parametrize("name", mostly_slow(PLANS, but=("sliding", "join", "rows")))
@share(0.1)
@given(a=pages, b=pages, buckets=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_stream_that_ends_has_the_whole_answer_at_any_boundaries(
    name: str, a: list[list[Row]], b: list[list[Row]], buckets: int, seed: int
) -> None:
    given = {"a": a, "b": b}
    used = {node.source.name for node in Plan((PLANS[name](promised(given, 0)).node,)).sources.values()}
    # What is late for a window of two streams depends on how far the other one is, so there nothing is.
    result = PLANS[name](promised(given, 4 if len(used) == 1 else 41))
    arrivals = arriving({n: p for n, p in given.items() if n in used}, random.Random(seed))
    found, _ = on_stream(result, arrivals, buckets=buckets, seed=seed)
    assert found == embedded(result)
    assert found == on_batch(result, buckets=buckets, partitions=2, ordered=True)


def log_of(folder: Path, epochs: list[list[Row]]) -> Path:
    """Write a page log, each list of rows an epoch."""
    log = PageLog(folder)
    log.begin(ARROW)
    for number, rows in enumerate(epochs):
        log.publish(number, [log.seal(ARROW, [batch(rows)])])
    return folder


def streaming(**options: object) -> dict[str, str]:
    """Give options as Spark hands them to a streaming reader."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def drained(reader: GrowingReader | LogStream, start: dict[str, int], limit: ReadLimit) -> tuple[list[int], int]:
    """Read to the end of what is available now; give the first numbers of the rows, and how many ends there were."""
    reader.prepareForTriggerAvailableNow()
    found: list[int] = []
    ends = 0
    while (end := reader.latestOffset(start, limit)) != start:
        assert not ends, "nothing follows the end"
        for partition in reader.partitions(start, end):
            for rows in reader.read(partition):
                assert rows.schema.names[-1] == MARK
                marks = rows.column(MARK).to_pylist()
                assert ends == 0 and marks in ([True], [None] * len(rows))
                ends += marks == [True]
                found += [n for n, mark in zip(rows.column(0).to_pylist(), marks, strict=True) if not mark]
        start = end
    return found, ends


LIMITS = st.one_of(
    st.builds(ReadAllAvailable), st.builds(ReadMaxRows, st.integers(1, 9)), st.builds(ReadMaxFiles, st.integers(1, 3))
)


@given(st.lists(st.integers(0, 6), max_size=5), LIMITS, st.booleans())
def test_a_reader_says_its_end_once_behind_the_last_row(sizes: list[int], limit: ReadLimit, cut: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, at = Path(name), 0
        (folder / "packets").mkdir()
        for number, size in enumerate(sizes):
            data = pcap([((at + k) * 1000, FRAMES[k % len(FRAMES)]) for k in range(size)])
            (folder / "packets" / f"{number}.pcap").write_bytes(data + (b"half" if cut else b""))
            at += size
        options = Options("oop.pcap", streaming(path=folder / "packets", complete=True), ("complete",))
        reading = PacketReading.of(Options("oop.pcap", {"columns": "ts_ns"}, ()))
        reader = GrowingReader.of(options, reading, None, parted=True)
        assert drained(reader, reader.initialOffset(), limit) == ([k * 1000 for k in range(at)], 1)
        epochs = [[(k, "a", 1, 1) for k in range(10 * n, 10 * n + size)] for n, size in enumerate(sizes)]
        source = ResultSource(streaming(path=log_of(folder / "log", epochs), complete=True))
        log = source.streamReader(source.schema())
        assert isinstance(log, LogStream)
        assert drained(log, log.initialOffset(), limit) == ([row[0] for rows in epochs for row in rows], 1)


def test_a_page_log_ends_where_its_writer_ended_it(tmp_path: Path) -> None:
    source = ResultSource(streaming(path=log_of(tmp_path / "log", [[(1, "a", 1, 1)]]), complete=True))
    reader = source.streamReader(source.schema())
    assert reader.latestOffset({"epoch": 0}, ReadAllAvailable()) == {"epoch": 1}
    PageLog(tmp_path / "log").end()
    assert reader.latestOffset({"epoch": 1}, ReadAllAvailable()) == {"epoch": 1, "end": 1}


def test_what_was_not_asked_to_end_or_has_ended_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([(1000, FRAMES[0])]))

    def reader(**options: object) -> GrowingReader:
        source = PacketSource(streaming(path=tmp_path, columns="ts_ns", **options))
        return source.streamReader(source.schema())

    start, every = {"file": 0, "byte": 0}, ReadAllAvailable()
    with pytest.raises(SourceError, match=r"Run the query with trigger\(availableNow=True\)"):
        reader(complete=True).latestOffset(start, every)
    growing = reader()
    read = growing.latestOffset(start, every)
    assert read == {"file": 0, "byte": read["byte"]}
    asked = reader(complete=True)
    asked.prepareForTriggerAvailableNow()
    end = asked.latestOffset(start, every)
    assert end == asked.latestOffset(read, every) == {**read, "end": 1}
    with pytest.raises(SourceError, match="Run it again as it was"):
        growing.partitions(start, end)
    assert growing.latestOffset(end, every) == end
    (tmp_path / "b.pcap").write_bytes(pcap([(2000, FRAMES[0])]))
    with pytest.raises(SourceError, match="has ended, and now there is more to read"):
        growing.latestOffset(end, every)
    source = PacketSource({"path": str(tmp_path), "complete": "true"})
    with pytest.raises(SourceError, match=r"complete is for spark\.readStream"):
        source.reader(source.schema())


def ended(spark: SparkSession, folder: Path, **options: object) -> DataFrame:
    """Read a page log as a stream that says its end."""
    reader = spark.readStream.format("oop.results").option("complete", True)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(folder))


@pytest.mark.parametrize("name", ["sliding", "join of aggregates"])
def test_a_stream_batches_and_the_engine_alone_have_one_answer(spark: SparkSession, tmp_path: Path, name: str) -> None:
    given = {"a": made(120), "b": made(60, 3)}
    draw = random.Random(7)
    within = 5 if name == "sliding" else 80
    plan = FREE[name]({n: stream(n, [], slack(within)) for n in given})
    used = sorted({node.source.name for node in Plan((plan.node,)).sources.values()})
    frames: dict[str, DataFrame] = {}
    for n in used:
        rows = [row for page in given[n] for row in page]
        cut = draw.randrange(1, len(rows))
        frames[n] = ended(spark, log_of(tmp_path / n, [rows[:cut], [], rows[cut:]]), maxFilesPerTrigger=2)
    result = on_spark(plan, spark, frames, buckets=3, end=True)
    run(result, tmp_path / "out", tmp_path / "checkpoint")
    found = written(spark, tmp_path / "out")
    exact = FREE[name](promised(given, within))
    assert found == embedded(exact)
    assert found == answer(on_spark(plan, spark, {n: frame_of(spark, given[n]) for n in used}))
    # Run again there is nothing new; and what comes after the end is an error.
    run(result, tmp_path / "out", tmp_path / "checkpoint")
    assert written(spark, tmp_path / "out") == found
    log = PageLog(tmp_path / "a")
    log.publish(len(log.epochs()), [log.seal(ARROW, [batch([(500, "a", 1, 1)])])])
    with pytest.raises(SparkError, match=r"^SourceError: .* the stream of this checkpoint has"), errors():
        run(result, tmp_path / "out", tmp_path / "checkpoint")


def test_a_crash_before_the_end_is_committed_ends_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for page in made(60) for row in page]
    plan = FREE["sliding"]({"a": stream("a", [], slack(5))})
    frame = ended(spark, log_of(tmp_path / "a", [rows]))

    def once() -> None:
        on = on_spark(plan, spark, {"a": frame}, end=True).writeStream.format("oop.results")
        on = on.option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", str(tmp_path / "out"))
        on.trigger(availableNow=True).start().awaitTermination()

    once()
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    once()
    found = answer(spark.read.format("oop.results").load(str(tmp_path / "out")))
    assert found == embedded(FREE["sliding"]({"a": stream("a", [rows], slack(5))}))


def test_captures_that_are_complete_end(spark: SparkSession, tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[3] / "demos" / "captures" / "web.pcap.gz"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "web.pcap.gz").symlink_to(demo)
    stream = oop.pcap(str(demo), name="web", slack="1 s")
    plan = stream.window(range="20 s", slide="10 s").aggregate(oop.count(), by="srcIP")
    frame = spark.readStream.format("oop.pcap").option("complete", True).load(str(tmp_path / "in"))
    run(plan.on_spark(spark, {"web": frame}, end=True), tmp_path / "out", tmp_path / "checkpoint")
    assert written(spark, tmp_path / "out") == embedded(plan)


def test_an_input_that_cannot_end_or_may_lose_its_end_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    plan = FREE["sliding"]({"a": stream("a", [], slack(5))})
    folder = log_of(tmp_path / "a", [[(1, "a", 1, 1)]])
    with pytest.raises(PlanError, match='input "a" does not say where it ends') as caught:
        on_spark(plan, spark, {"a": spark.readStream.format("oop.results").load(str(folder))}, end=True)
    assert '.option("complete", True)' in str(caught.value)
    frame = ended(spark, folder)
    with pytest.raises(PlanError, match="Spark's Filter may lose that"):
        on_spark(plan, spark, {"a": frame.where("x > 0")})
    kept = frame.withColumn("x", frame["x"] + 1).alias("more")
    assert on_spark(plan, spark, {"a": kept}).isStreaming
    with pytest.raises(SparkError, match=r"^SourceError: .*complete is for spark\.readStream"), errors():
        spark.read.format("oop.results").option("complete", True).load(str(folder)).collect()
