"""Run a plan over bounded data in Spark as one or two shuffles of pages; tasks are plain functions of batches.

Where order of arrival does not matter, partitions send tuples alone: Spark sorts a bucket's pages by the least time in
each, and then the next page's least time is a promise, exact and for free, that lets go of what is done with. Where it
does matter, one task reads everything as embedded and sends its promises along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby, islice, pairwise
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.circuit import CHUNK_ROWS
from oop_engine.sources.protocol import Source
from oop_engine.spark.counts import Telling, told
from oop_engine.spark.in_memory import Batches, InMemory, from_spark, is_paged, opened
from oop_engine.spark.narrow import page_bytes, read_page
from oop_engine.spark.schema import Wanted
from oop_engine.spark.stage_run import Elsewhere, StageRun, take_ranked, with_sources
from oop_engine.spark.stages import FRONT, TAIL, Cut
from oop_engine.spark.wire import DDL, WireRow, from_batch, pages_batch, to_batches
from punctuation import Punctuation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION: Final = "%partition"
"""The column of a row's partition; no attribute crosses under such a name."""


@attrs.frozen(eq=False)
class Task:
    """The facts that every task needs: the plan without its data, the number of buckets, where its counts go."""

    cut: Cut
    buckets: Mapping[int, int]
    telling: Telling | None = None

    def drained(self, stage: StageRun) -> Iterator[pa.RecordBatch]:
        """Yield what a stage has put out: tuples as Spark has them if it is the last, else rows."""
        if stage.number < self.cut.last:
            yield from to_batches(stage.rows())
            return
        wanted = Wanted.of(stage.arrow, None)
        for page in stage.output():
            yield wanted.batch(page.batch)

    def tell(self, stage: StageRun) -> None:
        """Report the counts of a stage."""
        if self.telling is not None:
            self.telling.add(told(stage.number, stage.origin, stage.counts()))


@attrs.frozen(eq=False)
class Scan(Task):
    """Read one source in one partition and run the front over it; in no particular order, so nothing is promised."""

    place: int = 0
    columns: tuple[str, ...] = ()
    parts: tuple[Source, ...] = ()
    """The source in parts, of which a partition is given the numbers; none where it is given the tuples."""
    paged: bool = False
    """Whether it is given pages of tuples."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        given = iter(batches)
        first = [*islice(given, 1)]
        stage = StageRun(self.cut, FRONT, self.buckets, origin=self._partition(first), promising=False)
        for batch in self._batches(chain(first, given)):
            stage.read(self.place, batch)
            yield from self.drained(stage)
        for place in self.cut.plan.sources:
            stage.finish(place)
        yield from self.drained(stage)
        self.tell(stage)

    def _batches(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        node = self.cut.plan.nodes[self.place]
        if not self.parts:
            wanted = pa.schema([node.schema.arrow.field(name) for name in self.columns])
            given = opened(batches) if self.paged else batches
            yield from (from_spark(batch, wanted) for batch in given if batch.num_rows)
            return
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for chunk in self.parts[number].open(self.columns, CHUNK_ROWS).chunks():
                if isinstance(chunk, pa.RecordBatch):
                    yield chunk
                elif not isinstance(chunk, Punctuation):
                    yield chunk.batch

    def _partition(self, first: list[pa.RecordBatch]) -> int:
        """Return the number of a partition, for the first batch of it.

        It stands in the first column where counts are told under it: a task of a user's coalesce has several.
        """
        told = bool(first and first[0].num_rows and (self.parts or PARTITION in first[0].schema.names))
        return self.place << 32 | (first[0].column(0)[0].as_py() if told else partition())


@attrs.frozen(eq=False)
class Reading(Task):
    """Read all sources in one task, as embedded, and run the front over them; promises go along."""

    given: int = -1
    """The place of the source whose tuples the task is given, as `numbered` gives them; -1 where the plan reads all."""
    paged: bool = False
    """Whether they are given in pages."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        plan = self.cut.plan
        if self.given >= 0:
            source = plan.nodes[self.given].source  # pyright: ignore[reportAttributeAccessIssue]
            ordered = in_order(batches)
            given = opened(ordered) if self.paged else ordered
            plan = with_sources(plan, {self.given: InMemory(source.name, source.arrow, given, tuple(source.promised))})
        yield from self.read(plan)

    def read(self, plan: object) -> Iterator[pa.RecordBatch]:
        """Run the front over a plan with sources that can be read."""
        stage = StageRun(attrs.evolve(self.cut, plan=plan), FRONT, self.buckets)
        circuit = stage.circuit
        live = {place: circuit.open(place) for place in circuit.plan.sources}
        while live:
            place = min(live, key=lambda p: (circuit.behind(p), p))
            chunk = next(live[place], None)
            if chunk is None:
                del live[place]
                stage.finish(place)
            else:
                stage.read(place, chunk)
            yield from self.drained(stage)
        self.tell(stage)


def numbered(frame: DataFrame) -> DataFrame:
    """Return a DataFrame's rows with the number of the partition that each is in, which outlasts a coalesce."""
    # Optional: pyspark.
    from pyspark.sql import functions as sql

    return frame.select(sql.spark_partition_id().alias(PARTITION), "*")


def in_order(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield rows that were `numbered` and coalesced, the partitions in the order of their numbers.

    Spark begins with the first partition that it would rather read on some machine, as one that is cached there, and
    then takes the others in order; that first one is held where others may belong before it.
    """
    first = -1
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for number, rows in _by_partition(batch):
            first = number if first < 0 else first
            if number == first > 0:
                held.append(rows)
                continue
            if number > first:
                yield from held
                held = []
            yield rows
    yield from held


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each partition, which are next to each other."""
    numbers = batch.column(PARTITION).to_numpy()
    if not len(numbers):
        return
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, stop in pairwise([*starts.tolist(), len(numbers)]):
        yield int(numbers[start]), batch.slice(start, stop - start)


def packed(frame: DataFrame, place: int, arrow: pa.Schema) -> DataFrame:
    """Return rows of a DataFrame's tuples, or pages, for the stage that reads the source at a place.

    Their origin is the number of the partition as Spark plans it: in a task that has several partitions, because they
    are coalesced behind this, it is the only one that tells them apart.
    """
    # Optional: pyspark.
    from pyspark.sql import functions as sql

    rows = frame.mapInArrow(Packed(place, is_paged(frame.columns, arrow)), DDL)
    return rows.withColumn("origin", sql.spark_partition_id().cast("bigint"))


@attrs.frozen(eq=False)
class Packed:
    """Make rows of a DataFrame's tuples, in their order, for the stage that reads the source at a place."""

    place: int
    paged: bool = False
    """Whether it is given pages of tuples, which are rows' bodies as they are."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        origin, seq = partition(), 0
        for batch in batches:
            bodies = batch.column("page") if self.paged else pa.array([page_bytes(batch)], pa.binary())
            yield pages_batch(bodies, stage=FRONT, port=self.place, origin=origin, seq=seq)
            seq += len(bodies)


@attrs.frozen(eq=False)
class Gathered(Reading):
    """Read several given sources in one task: rows of their pages come sorted by source and order, and are held."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[pa.RecordBatch]] = {}
        for row in rows_of(batches):
            if row.body:
                held.setdefault(row.port, []).append(read_page(row.body))
        sources: dict[int, Source] = {}
        for place in self.cut.plan.sources:
            source = self.cut.plan.nodes[place].source  # pyright: ignore[reportAttributeAccessIssue]
            if isinstance(source, Elsewhere):
                sources[place] = InMemory(source.name, source.arrow, held.pop(place, []), tuple(source.promised))
        yield from self.read(with_sources(self.cut.plan, sources))


@attrs.frozen(eq=False)
class Bucketed(Task):
    """Run the buckets of a stage over rows that come sorted by bucket, rank, origin and number."""

    number: int = TAIL

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        cut = self.cut
        ranked = {
            port: edge.ranked
            for port, edge in enumerate(cut.into(self.number))
            if edge.ranked is not None and not (cut.ordered and cut.stages[edge.giver] == FRONT)
        }
        for bucket, rows in groupby(rows_of(batches), key=lambda row: row.bucket):
            stage = StageRun(cut, self.number, self.buckets, origin=bucket, promising=False)
            for _ in take_ranked(stage, rows, ranked):
                yield from self.drained(stage)
            self.tell(stage)


def rows_of(batches: Batches) -> Iterator[WireRow]:
    """Yield the rows of record batches, in order."""
    for batch in batches:
        yield from from_batch(batch)


def partition() -> int:
    """Return the number of the partition that this task has; 0 outside of Spark."""
    # Optional: pyspark.
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
