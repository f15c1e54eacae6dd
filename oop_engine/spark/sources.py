"""Offer captures and flow exports as data sources: `spark.read.format("oop.pcap").load("captures/*.pcap.gz")`.

Options of both: `columns` (names between commas; all by default), `start` and `end` (only rows with start <= ts < end),
`addresses` (`text`, as 10.0.0.7, or `binary`, 16 bytes), `splitBytes` (large classic captures are read in parts of at
most this size, or of an eighth of all if that is less and worth it; 128m by default, 0 for never), `batchRows`,
`strict` (a cut or damaged file that is read as a whole fails the query), `notes` (a folder where what was wrong with a
file is noted), `only` and `except` (patterns of file names between commas), `pages` (true for pages of tuples instead
of tuples, see `reading.Shape`). Streams have those of `growing`, too.

`exports` tells packets and flow exports in one folder apart, for both formats alike: with it, files of datagrams and
those captures hold exports in which there are export datagrams and whose names match one of these patterns, and all
other files packets. Each format leaves out what is the other's. Without it, a file is taken to hold what the format
reads.

Of flow exports also `elements` (names of further information elements, which become columns), `ports` and `allow`, as
of `oop_engine.netflow`. Every file is decoded by itself, by the templates and with the sequences that it holds.

Filters are not pushed into the sources, on purpose: Spark 4.3.0 keeps what was pushed once for every later use of the
same DataFrame, and so gives wrong rows. `columns`, `start` and `end` prune instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from oop_engine.spark.contents import Contents
from oop_engine.spark.end_of_stream import COMPLETE, MARK, EndOfStream
from oop_engine.spark.growing import GrowingReader
from oop_engine.spark.options import Options
from oop_engine.spark.paths import Choice, files
from oop_engine.spark.reading import SPLIT, FlowReading, PacketReading, Reading, choice, grouped, pieces, read
from operators.errors import SchemaError

_COMMON: Final = (
    "columns",
    "start",
    "end",
    "addresses",
    "splitBytes",
    "batchRows",
    "strict",
    "notes",
    "only",
    "except",
    "pages",
    "exports",
)
_GROWING: Final = (
    COMPLETE,
    "journal",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "maxRowsPerTrigger",
    "settleSeconds",
)
_FLOWS: Final = ("elements", "ports", "allow")


class PacketSource(DataSource):
    """The packets of captures, `oop.pcap`."""

    @classmethod
    def name(cls) -> str:
        return "oop.pcap"

    def _reading(self) -> Reading:
        return PacketReading.of(self._options())

    def _options(self) -> Options:
        return Options.of(self.name(), self.options, (*_COMMON, *_GROWING))

    def schema(self) -> StructType:
        return from_arrow_schema(EndOfStream.of(self._options()).arrow(self._reading().shape.arrow))

    def reader(self, schema: StructType) -> DataSourceReader:
        options, reading = self._options(), self._reading()
        EndOfStream.of(options).check_streaming()
        _same(schema, reading, self.name())
        split = options.number("splitBytes", SPLIT, least=0)
        return FileReader(options.paths(), choice(options), reading, split, self._contents(options))

    def streamReader(self, schema: StructType) -> GrowingReader:
        options, reading = self._options(), self._reading()
        _same(schema, reading, self.name())
        return GrowingReader.of(options, reading, self._contents(options), parted=True)

    def _contents(self, options: Options) -> Contents | None:
        return Contents.of(options, "packets")


class FlowSource(PacketSource):
    """The records of flow exports, `oop.netflow`."""

    @classmethod
    def name(cls) -> str:
        return "oop.netflow"

    def _reading(self) -> FlowReading:
        return FlowReading.of(self._options())

    def _options(self) -> Options:
        return Options.of(self.name(), self.options, (*_COMMON, *_FLOWS, *_GROWING))

    def reader(self, schema: StructType) -> DataSourceReader:
        options, reading = self._options(), self._reading()
        EndOfStream.of(options).check_streaming()
        _same(schema, reading, self.name())
        return FileReader(options.paths(), choice(options), reading, 0, self._contents(options))

    def streamReader(self, schema: StructType) -> GrowingReader:
        options, reading = self._options(), self._reading()
        _same(schema, reading, self.name())
        return GrowingReader.of(options, attrs.evolve(reading, refuses=True), self._contents(options), parted=False)

    def _contents(self, options: Options) -> Contents | None:
        return Contents.of(options, "exports", self._reading().ports)


class FileReader(DataSourceReader):
    """Read files that are there, large ones in parts and small ones together."""

    def __init__(
        self, paths: tuple[str, ...], chosen: Choice, reading: Reading, split: int, contents: Contents | None = None
    ) -> None:
        self._paths, self._choice, self._reading, self._split = paths, chosen, reading, split
        self._contents = contents

    def partitions(self) -> list[InputPartition]:
        paths = files(self._paths, self._choice)
        found = pieces(paths if self._contents is None else [*filter(self._contents.takes, paths)], self._split)
        return [InputPartition(group) for group in grouped(found, self._split or SPLIT)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read(self._reading, partition.value or ())


def _same(schema: StructType, reading: Reading, name: str) -> None:
    """Refuse a schema of the user's own, which Spark would take and fail with at the first row."""
    if [name for name in schema.names if name != MARK] != list(reading.shape.arrow.names):
        raise SchemaError(
            f"{name} knows its columns; leave .schema(...) out and choose some by the option columns.\n"
            f"  columns: {', '.join(reading.shape.wanted.given.names)}"
        )
