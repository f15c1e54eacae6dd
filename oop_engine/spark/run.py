"""Run a plan inside Spark, with the answer it has embedded; its sources may be DataFrames, batch or streaming."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns, pruned
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.protocol import Source
from oop_engine.spark.batch import Bucketed, Gathered, Reading, Scan, Task, numbered, packed
from oop_engine.spark.counts import Counts
from oop_engine.spark.end_marker import check_end
from oop_engine.spark.end_of_stream import MARK
from oop_engine.spark.in_memory import PAGED, crossing, is_paged, quoted
from oop_engine.spark.partial_final import in_levels
from oop_engine.spark.parts import parts
from oop_engine.spark.refused import check_signals, check_sources, node_of
from oop_engine.spark.schema import Wanted
from oop_engine.spark.shipping import is_connect
from oop_engine.spark.stage_run import Elsewhere, elsewhere, with_sources
from oop_engine.spark.stages import FRONT, KEYED, TAIL, Cut, cut
from oop_engine.spark.streaming import streamed
from oop_engine.spark.wire import DDL
from operators.errors import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from oop_engine.api.stream import Stream

_MOST_CORES: Final = 1 << 16
"""More than there are in a cluster."""


def on_spark(
    stream: Stream,
    spark: SparkSession,
    inputs: Mapping[str, DataFrame] | None = None,
    *,
    buckets: int | None = None,
    counts: Counts | None = None,
    end: bool = False,
) -> DataFrame:
    """Run a stream inside Spark and return its tuples as a DataFrame, a streaming one if an input is.

    - `stream`: what to run.
    - `spark`: the session.
    - `inputs`: DataFrames for sources of the plan, by name. The plan reads other sources itself, in partitions where it
      can. A DataFrame may hold pages, as the engine's formats do with the option `pages`: they cost no more than their
      bytes.
    - `buckets`: number of buckets that keys are spread over; by default the number of cores.
    - `counts`: an `oop.spark.Counts` that collects what operators count, such as late tuples.
    - `end`: demand that every streaming input ends. One ends if its reader was told so, by `.option("complete", True)`
      of the engine's formats. When all inputs end, every open window is released.

    PlanError for an input that the plan lacks, one that cannot end and should, a stream of which nothing is promised,
    or a source that workers cannot read, such as a live one. SchemaError for a DataFrame that lacks an attribute.

    >>> spark = oop.spark.session(cores=2)
    >>> stream = oop.read("demos/captures/web.pcap.gz").aggregate(oop.count())
    >>> oop.spark.on_spark(stream, spark).collect()
    [Row(count=4631)]
    """
    plan = pruned(prepared(node_of("on_spark", stream)))
    frames, ending = _frames(plan, inputs or {}, end)
    check_sources(plan, frames)
    check_signals(plan)
    _check_policies(plan)
    cores = cores_of(spark)
    many = cores if buckets is None else buckets
    if many < 1:
        raise PlanError(f"on_spark(buckets={buckets}): write a whole number from 1 on, or leave it out.")
    if any(frame.isStreaming for frame in frames.values()):
        return streamed(plan, frames, buckets=many, counts=counts, ending=ending)
    return _Batch(plan, spark, frames, many, cores, counts).frame()


def _frames(plan: Plan, inputs: Mapping[str, DataFrame], end: bool) -> tuple[dict[int, DataFrame], set[int]]:
    """Return the DataFrames by the place of the source that each stands for, with the columns read, and which end."""
    sources = {place: node.source for place, node in plan.sources.items()}
    names = {place: source.name for place, source in sources.items()}
    for name in inputs:
        if name not in names.values():
            raise PlanError(
                f'on_spark(inputs={{"{name}": ...}}): the plan has no source of that name; it reads'
                f" {', '.join(sorted(set(names.values())))}.\n  {did_you_mean(name, list(names.values()))}"
            )
    read = columns(plan)
    frames: dict[int, DataFrame] = {}
    ending: set[int] = set()
    for place, name in names.items():
        if name not in inputs:
            continue
        frame = inputs[name]
        paged = is_paged([column for column in frame.columns if column != MARK], sources[place].arrow)
        for column in () if paged else read[place]:
            if column not in frame.columns:
                raise SchemaError(
                    f'on_spark(inputs={{"{name}": ...}}): the DataFrame has no column "{column}"; the plan reads it.\n'
                    f"  columns: {', '.join(frame.columns)}\n  {did_you_mean(column, frame.columns)}"
                )
        marks: list[str] = []
        if frame.isStreaming and check_end(name, frame, asked=end):
            marks = [MARK]
            ending.add(place)
        frames[place] = frame.select(*(PAGED if paged else map(_column, read[place])), *marks)
    return frames, ending


def _column(name: str) -> Column:
    """Return the column of a DataFrame by the name that it crosses under; dots in it are no paths into structs."""
    # Optional: pyspark.
    from pyspark.sql import functions as sql

    return sql.col(quoted(name)).alias(crossing(name))


def _check_policies(plan: Plan) -> None:
    for node in plan.sources.values():
        if node.late == "divert":
            raise PlanError(
                f'{node.label}: late="divert" hands late tuples to this process, and on Spark they are elsewhere.\n'
                "  Leave it out: they are dropped, and counted in on_spark(..., counts=Counts(spark))."
            )


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run side by side, as Spark takes it for its own work.

    Over Spark Connect nobody tells the client, so a job of a few rows is asked: into how many parts Spark cuts a range.
    """
    # Optional: pyspark.
    from pyspark.sql import functions as sql

    if not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    parts = spark.range(_MOST_CORES).select(sql.spark_partition_id().alias("part"))
    (row,) = parts.agg(sql.max("part").alias("last")).collect()
    return int(row["last"]) + 1


def _spread(rows: DataFrame, buckets: int) -> DataFrame:
    """Bring the rows of each bucket into a partition; of its own where Spark can (from 4.1 on)."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(buckets, rows["bucket"])
    return rows.repartition(buckets, rows["bucket"])


@attrs.frozen(eq=False)
class _Batch:
    """A plan over bounded data, and what it takes to run it."""

    plan: Plan
    spark: SparkSession
    frames: Mapping[int, DataFrame]
    many: int
    """Buckets of the keyed stage."""
    cores: int
    counts: Counts | None

    def frame(self) -> DataFrame:
        """Return the results."""
        free = all(self._free(place) for place in self.plan.sources)
        whole = cut(self.plan, ordered=not free)
        plan = self.plan
        if not whole.ordered:
            plan = in_levels(whole)
            whole = cut(plan)
        buckets = {KEYED: self.many, TAIL: 1}
        telling = None if self.counts is None else self.counts.telling
        task = Task(attrs.evolve(whole, plan=elsewhere(plan)), buckets, telling)
        rows = self._reading(whole, task) if whole.ordered else self._scanning(whole, task)
        for number in (KEYED, TAIL):
            if number in whole.used:
                spread = _spread(rows, buckets[number])
                ranked = spread.sortWithinPartitions("bucket", "rank", "origin", "seq")
                bucketed = Bucketed(task.cut, buckets, telling, number)
                rows = ranked.mapInArrow(bucketed, self._columns(whole, number))
        return rows

    def _free(self, place: int) -> bool:
        """Return whether a source has no order of arrival that anything could depend on."""
        node = self.plan.sources[place]
        return not node.promises and not node.source.promised and (place in self.frames or node.source.rewindable)

    def _source(self, place: int) -> Source:
        return self.plan.sources[place].source

    def _scanning(self, whole: Cut, task: Task) -> DataFrame:
        """Read every source in as many partitions as it has."""
        read = columns(whole.plan)
        frames = {id(self.plan.nodes[place]): frame for place, frame in self.frames.items()}
        scans: list[DataFrame] = []
        for place, node in whole.plan.sources.items():
            given = frames.get(id(node))
            pieces: tuple[Source, ...] = ()
            if given is None:
                pieces = parts(node.source, self.cores)
                given = self.spark.range(0, len(pieces), 1, len(pieces))
            paged = not pieces and is_paged(given.columns, node.source.arrow)
            scan = Scan(task.cut, task.buckets, task.telling, place, read[place], pieces, paged)
            if task.telling is not None and not pieces:
                given = numbered(given)
            scans.append(given.mapInArrow(scan, self._columns(whole, FRONT)))
        return reduce(lambda one, other: one.unionAll(other), scans)

    def _reading(self, whole: Cut, task: Task) -> DataFrame:
        """Read all sources in one task, as embedded."""
        absent: dict[int, Source] = {
            place: Elsewhere(node.source.name, node.source.arrow, tuple(node.source.promised))
            for place, node in self.plan.sources.items()
            if place in self.frames
        }
        there = attrs.evolve(whole, plan=with_sources(self.plan, absent))
        result = self._columns(whole, FRONT)
        if len(self.frames) > 1:
            made = [packed(frame, place, self._source(place).arrow) for place, frame in self.frames.items()]
            rows = reduce(lambda one, other: one.unionAll(other), made)
            ranked = rows.coalesce(1).sortWithinPartitions("port", "origin", "seq")
            return ranked.mapInArrow(Gathered(there, task.buckets, task.telling), result)
        for place, frame in self.frames.items():
            paged = is_paged(frame.columns, self._source(place).arrow)
            reading = Reading(there, task.buckets, task.telling, place, paged)
            return numbered(frame).coalesce(1).mapInArrow(reading, result)
        return self.spark.range(0, 1, 1, 1).mapInArrow(Reading(there, task.buckets, task.telling), result)

    def _columns(self, whole: Cut, stage: int) -> StructType | str:
        """Return the columns of what comes out of a stage."""
        return Wanted.of(self.plan.outputs[0].schema.arrow, None).struct if stage == whole.last else DDL
