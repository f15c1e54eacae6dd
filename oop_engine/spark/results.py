"""Offer page logs as data sources and sinks of Spark, `oop.results`: every epoch is read once and written once.

Read in a batch, a log gives the epochs that are there; as a stream, each offset is a number of epochs, and a batch
takes as many as `maxFilesPerTrigger` (epochs), `maxRowsPerTrigger` or `maxBytesPerTrigger` allow, at least one.
Written by a stream, the log's epochs are Spark's batches: a batch that is run again after a crash finds its epoch
there with the same rows and changes nothing; other rows there are another query's, and an error. Where a query gives
other rows each time a batch is run, as with rand() or first(), the option `compare` of a stream's sink is `counts`: as
many rows are then taken to be the same. Written in a batch, the rows become a further epoch, whoever else adds to the
log at that time.

Options to read: `columns`, `addresses`. A stream with the option `complete` (see `ending`) ends where its writer ended
the log, or under `availableNow` with what is there. Times keep the microsecond; see `schema`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.fields import nullable
from oop_engine.sinks.pagelog import PageLog, Segment
from oop_engine.sources.errors import SourceError
from oop_engine.spark.allowance import Allowance, limit_of
from oop_engine.spark.end_of_stream import COMPLETE, AtEnd, EndOfStream
from oop_engine.spark.options import Options
from oop_engine.spark.paths import local
from oop_engine.spark.schema import Wanted, addresses

_KNOWN: Final = (
    "columns",
    "addresses",
    "maxFilesPerTrigger",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "compare",
    COMPLETE,
)
#: Spark gives a stream's checkpoint to its sink as an option.
_CHECKPOINT: Final = "checkpointlocation"
_GROUP: Final = 64 << 20
"""Bytes of small segments that are read by one task."""


class ResultSource(DataSource):
    """A page log, `oop.results`."""

    @classmethod
    def name(cls) -> str:
        return "oop.results"

    def schema(self) -> StructType:
        return from_arrow_schema(self._ending().arrow(self._wanted().arrow))

    def reader(self, schema: StructType) -> DataSourceReader:
        self._ending().check_streaming()
        return LogReader(self._log(), self._wanted())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LogStream(self._log(), self._wanted(), limit_of(self._options()), self._ending())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise SinkError('a page log is only added to: write with .mode("append"), or to a new folder.')
        return LogWriter(self._log(), to_arrow_schema(schema, timezone="UTC"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise SinkError('a page log is only added to: write with .outputMode("append") or "update".')
        counts = self._options().choice("compare", ("rows", "counts")) == "counts"
        return LogStreamWriter(self._log(), to_arrow_schema(schema, timezone="UTC"), counts=counts)

    def _options(self) -> Options:
        return Options.of(self.name(), {k: v for k, v in self.options.items() if k.lower() != _CHECKPOINT}, _KNOWN)

    def _ending(self) -> EndOfStream:
        return EndOfStream.of(self._options())

    def _log(self) -> PageLog:
        paths = self._options().paths()
        path, *more = paths
        if more:
            raise SourceError(f"oop.results takes one folder, and {len(paths)} paths are given.")
        return PageLog(local(path).absolute())

    def _wanted(self) -> Wanted:
        options = self._options()
        return Wanted.of(self._log().schema(), options.names("columns"), addresses(options))


def _grouped(segments: Sequence[Segment]) -> list[InputPartition]:
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if not groups or size + segment.bytes > _GROUP:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += segment.bytes
    return [InputPartition(tuple(group)) for group in groups]


def _read(log: PageLog, wanted: Wanted, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    for segment in partition.value or ():
        for batch in log.read(segment):
            yield wanted.batch(batch)


class LogReader(DataSourceReader):
    """Read the epochs that are there."""

    def __init__(self, log: PageLog, wanted: Wanted) -> None:
        self._log, self._wanted = log, wanted

    def partitions(self) -> list[InputPartition]:
        return _grouped([segment for epoch in self._log.epochs() for segment in epoch])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._log, self._wanted, partition)


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read epochs as they are committed."""

    def __init__(self, log: PageLog, wanted: Wanted, limit: ReadLimit, ending: EndOfStream) -> None:
        self._log, self._wanted, self._limit, self._ending = log, wanted, limit, ending
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"epoch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limit

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = len(self._log.epochs())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        sure = self._target is not None or self._log.ended
        return self._ending.after(start, lambda offset: self._onward(offset, limit), self._more, sure=sure)

    def _onward(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        number, allowed = start["epoch"], Allowance.of(limit)
        while not allowed.spent and (epoch := self._epoch(number)) is not None:
            rows, size = sum(s.rows for s in epoch), sum(s.bytes for s in epoch)
            if allowed.taken and (rows > allowed.rows or size > allowed.bytes):
                break
            allowed.take(size, rows)
            allowed.files -= 1
            number += 1
        return {"epoch": number}

    def _more(self, offset: Mapping[str, int]) -> bool:
        return self._epoch(offset["epoch"]) is not None

    def _epoch(self, number: int) -> tuple[Segment, ...] | None:
        """Return an epoch that is to be read; None when there is none."""
        return self._log.epoch(number) if self._target is None or number < self._target else None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        found: list[Segment] = []
        for number in range(start["epoch"], end["epoch"]):
            epoch = self._log.epoch(number)
            if epoch is None:
                raise SourceError(
                    f'the page log "{self._log.folder}" lacks epoch {number}, which the checkpoint knows.'
                )
            found += epoch
        return [*_grouped(found), *map(InputPartition, self._ending.between(start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition.value, AtEnd):
            yield self._ending.mark(self._wanted.arrow)
            return
        yield from self._ending.batches(_read(self._log, self._wanted, partition))


@attrs.frozen(eq=False)
class Staged(WriterCommitMessage):
    """The segment that one task wrote; None where there were no rows."""

    segment: Segment | None


@attrs.frozen
class _Staging:
    """Write rows where no reader sees them yet."""

    log: PageLog
    schema: pa.Schema

    def write(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        self.log.begin(self.schema)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return Staged(None)

        def every() -> Iterator[pa.RecordBatch]:
            yield first.cast(self.schema) if first.schema != self.schema else first
            for batch in batches:
                yield batch.cast(self.schema) if batch.schema != self.schema else batch

        return Staged(self.log.seal(self.schema, every()))

    def staged(self, messages: Sequence[WriterCommitMessage | None]) -> list[Segment]:
        return [m.segment for m in messages if isinstance(m, Staged) and m.segment is not None]

    def seen(self, messages: Sequence[WriterCommitMessage | None]) -> list[Segment]:
        """Return the staged segments; SinkError for those a worker wrote out of the driver's sight.

        Called on the driver.
        """
        staged = self.staged(messages)
        paths = [self.log.folder / "segments" / segment.file for segment in staged]
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise SinkError(
                f'workers wrote {len(staged)} files for the page log "{self.log.folder}", and the driver does not see'
                f' {len(missing)} of them, e.g. "{missing[0]}".\n'
                "  Name a folder that the driver and all workers share under one path."
            )
        return staged


class LogWriter(DataSourceArrowWriter):
    """Add the rows of a DataFrame as one epoch."""

    def __init__(self, log: PageLog, schema: pa.Schema) -> None:
        self._staging = _Staging(log, nullable(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._staging.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log = self._staging.log
        log.begin(self._staging.schema)
        log.append(self._staging.seen(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._staging.log.discard(self._staging.staged(messages))


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Make every batch of a stream the epoch of its number, once."""

    def __init__(self, log: PageLog, schema: pa.Schema, *, counts: bool = False) -> None:
        self._staging, self._counts = _Staging(log, nullable(schema)), counts

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._staging.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log = self._staging.log
        log.begin(self._staging.schema)
        staged = self._staging.seen(messages)
        if not log.publish(batchId, staged, counts=self._counts):
            log.discard(staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._staging.log.discard(self._staging.staged(messages))
