"""Run a plan over streams in Spark as stateful processors of rows, one state of bytes a bucket, without timers.

The front takes all sources in one bucket, in order of arrival (micro-batch, partition, row): there the punctuators
stand, and from there promises go to every bucket. Where they can, partitions do its work before it (`ahead`). Spark
keeps the state and its versions; it drops nothing, since it is given no watermark: what is late is for the plan's own
policy. Between micro-batches a stage is its `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import reduce
from time import time_ns
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
from pyspark.sql import functions as sql

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns
from oop_engine.spark.batch import Packed, rows_of
from oop_engine.spark.counts import Counts, Telling
from oop_engine.spark.end_marker import EndMarker
from oop_engine.spark.end_of_stream import MARK
from oop_engine.spark.errors import SparkError
from oop_engine.spark.in_memory import Batches, from_spark, is_paged
from oop_engine.spark.map_side import MapSide, Taken, learn, least_open, map_sides
from oop_engine.spark.narrow import page_bytes, read_page
from oop_engine.spark.partial_final import cut_in_levels
from oop_engine.spark.processor import Kept, Processor
from oop_engine.spark.scatter import labels
from oop_engine.spark.schema import Wanted
from oop_engine.spark.session import ROCKSDB, STORE
from oop_engine.spark.stage_run import StageRun, elsewhere, in_order
from oop_engine.spark.stages import FRONT, KEYED, TAIL, Cut
from oop_engine.spark.wire import (
    COUNTS,
    DDL,
    PAGE,
    PROMISE,
    ROWS,
    TOLD,
    WireRow,
    counts_bytes,
    read_counts,
)
from operators.data.saved import MAGIC
from punctuation import NO_TIME

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

_CODEC: Final = pa.Codec("zstd", compression_level=1)
_LENGTH: Final = 8
OUT = TAIL + 1
"""The stage of rows that are results."""


@attrs.frozen(eq=False)
class Folding:
    """The work of one bucket of a stage on the rows of a micro-batch."""

    cut: Cut
    number: int
    buckets: Mapping[int, int]
    map_sides: Mapping[int, MapSide] = attrs.field(factory=dict)
    """The sources, by place, whose tuples are taken ahead of the front."""
    wall: Callable[[], int] = time_ns
    """Says what time it is, in ns since 1970."""

    def fold(self, bucket: int, saved: bytes | None, rows: Iterable[WireRow]) -> tuple[bytes, list[WireRow]]:
        """Take rows in order and give the state after them, and the rows that come of them."""
        stage = StageRun(self.cut, self.number, self.buckets, origin=bucket, origins=self.buckets, wall=self.wall)
        if saved is not None:
            stage.restore(saved)
        before = stage.counts()
        out: list[WireRow] = []
        for row in in_order(rows):
            if self.number == FRONT:
                self._read(stage, row)
            else:
                stage.take(row)
        if self.number == FRONT:
            stage.let_go()
        out += stage.rows()
        if self.number == self.cut.last:
            for page in stage.output():
                out.append(self._row(bucket, PAGE, page_bytes(page.batch)))
        if (after := stage.counts()) != before:
            out.append(
                self._row(bucket, COUNTS, counts_bytes({f"{self.number}/{bucket}/{n}": c for n, c in after.items()}))
            )
        return stage.state(), out

    def over(self, kept: Kept, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Yield the rows that come of those of one micro-batch, and keep the state after them."""
        taken = [WireRow(*values) for frame in rows for values in frame[ROWS.names].itertuples(index=False, name=None)]
        known = kept.get()
        if not taken:
            return
        bucket = 0 if self.number == FRONT else taken[0].bucket
        state, out = self.fold(bucket, None if known is None else unpressed(bytes(known[0])), taken)
        kept.update((pressed(state),))
        if out:
            yield _frame(out)

    def _row(self, bucket: int, kind: int, body: bytes) -> WireRow:
        return WireRow(OUT, 0, 0, bucket, 0, NO_TIME, kind, body)

    def _read(self, stage: StageRun, row: WireRow) -> None:
        """Let a source of the front take a page, its end, or what was done ahead; a row's port is its place."""
        if row.stage != FRONT:
            stage.pass_on(row, least_open(stage, self.map_sides.values(), row))
            return
        if row.kind == TOLD:
            learn(stage, self.map_sides[row.port], row.body)
            stage.hear(row.port)
            return
        if row.kind == PROMISE:
            stage.finish(row.port)
            return
        known = self.cut.plan.sources[row.port].source.arrow
        wanted = pa.schema([known.field(name) for name in columns(self.cut.plan)[row.port]])
        stage.read(row.port, from_spark(read_page(row.body), wanted))


def pressed(state: bytes) -> bytes:
    """Return a state compressed, behind its length: Spark copies every byte a dozen times, and writes it twice."""
    return len(state).to_bytes(_LENGTH, "big") + _CODEC.compress(state, asbytes=True)


def unpressed(saved: bytes) -> bytes:
    """Return the state of which `pressed` gave this, or that a checkpoint of before has as it was."""
    if saved.startswith(MAGIC):
        return saved
    return _CODEC.decompress(saved[_LENGTH:], int.from_bytes(saved[:_LENGTH], "big"), asbytes=True)


@attrs.frozen(eq=False)
class Unpacked:
    """Make tuples of the rows that are results, and tell what was counted."""

    arrow: pa.Schema
    telling: Telling | None

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        wanted = Wanted.of(self.arrow, None)
        for row in rows_of(batches):
            if row.kind == PAGE:
                yield wanted.batch(read_page(row.body))
            elif self.telling is not None:
                self.telling.add(read_counts(row.body))


def streamed(
    plan: Plan, frames: Mapping[int, DataFrame], *, buckets: int, counts: Counts | None, ending: Container[int] = ()
) -> DataFrame:
    """Return the results of a plan over streaming DataFrames, given by the place of the source; all sources are.

    Those whose places are in `ending` say their end.
    """
    _check(plan, frames)
    _check_store(next(iter(frames.values())).sparkSession)
    whole = cut_in_levels(plan, ordered=True)
    small = attrs.evolve(whole, plan=elsewhere(whole.plan))
    many = {FRONT: 1, KEYED: buckets, TAIL: 1}
    ahead = map_sides(small)
    # A low level in front of one source's shuffle moves the places of the sources after it.
    made: list[DataFrame] = []
    for place, frame in frames.items():
        there, names = whole.plan.position(plan.nodes[place]), [name for name in frame.columns if name != MARK]
        paged = is_paged(names, _arrow(plan, place))
        taking = Taken(small, many, ahead[there], paged) if there in ahead else Packed(there, paged)
        made.append(frame.mapInArrow(EndMarker(there, taking) if place in ending else taking, DDL))
    rows = reduce(lambda one, other: one.unionAll(other), made)
    for number in whole.used:
        names = sql.array(*map(sql.lit, labels(many[number])))
        # What is taken ahead of the front is for buckets behind it, and comes to the one of the front.
        bucket = rows["bucket"] * (0 if number == FRONT else 1) + 1
        grouped = rows.withColumn("label", sql.element_at(names, bucket)).groupBy("label")
        folding = Folding(small, number, many, ahead)
        rows = grouped.transformWithStateInPandas(Processor(folding), DDL, "Append", "None")
    telling = None if counts is None else counts.telling
    arrow = plan.outputs[0].schema.arrow
    return rows.mapInArrow(Unpacked(arrow, telling), Wanted.of(arrow, None).struct)


def _arrow(plan: Plan, place: int) -> pa.Schema:
    return plan.sources[place].source.arrow


def _check(plan: Plan, frames: Mapping[int, DataFrame]) -> None:
    for place, node in plan.sources.items():
        if place not in frames or not frames[place].isStreaming:
            what = "is read by the plan itself" if place not in frames else "is a DataFrame of bounded data"
            raise PlanError(
                f"on_spark: {node.label} {what}, and another input streams; a stream waits for all its inputs.\n"
                "  Give every source a streaming DataFrame in inputs={...}, or none."
            )
        if any(promise.how == "heartbeat" for promise in node.promises):
            raise PlanError(
                f"on_spark: {node.label} is promised by a heartbeat, which needs a clock; on Spark there is none.\n"
                '  Promise by the tuples themselves, e.g. punctuate=oop.slack("2 s").'
            )
        if not node.promises and len(plan.nodes) > len(plan.sources):
            raise PlanError(
                f"on_spark: nothing is promised of {node.label}, and a streaming DataFrame promises nothing itself.\n"
                '  Give the source a punctuator, e.g. punctuate=oop.slack("2 s").'
            )


def _check_store(spark: SparkSession) -> None:
    """Refuse a session whose state store cannot hold what Spark calls arbitrary state."""
    store = str(spark.conf.get(STORE, ""))
    if not store.endswith(ROCKSDB.rpartition(".")[2]):
        raise SparkError(
            f"a streaming plan keeps its state in RocksDB, and this session in {store.rpartition('.')[2] or 'none'}.\n"
            f'  spark.conf.set("{STORE}",\n                 "{ROCKSDB}")\n'
            "  before it is started; oop.spark.session() sets it."
        )


def _frame(rows: list[WireRow]) -> pd.DataFrame:
    # Optional: pandas.
    import pandas as pd

    columns = zip(*(attrs.astuple(row) for row in rows), strict=True)
    kinds = [field.type.to_pandas_dtype() for field in ROWS]
    return pd.DataFrame(
        {name: pd.Series(values, dtype=kind) for name, values, kind in zip(ROWS.names, columns, kinds, strict=True)}
    )
