"""Objects of other libraries hand over their tuples by Arrow's C interface: frames, relations, readers.

An object that is no iterator is asked anew for each reading, and read as a stream. Only exact promises need its tuples
twice, and a second answer may come in another order: what is read ahead is therefore kept, and read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.sources.dictionaries import renumbered, widely_numbered
from oop_engine.sources.memory import MemoryReader, Rows
from oop_engine.sources.reading import Lasting
from operators.data.page import Int64s


@runtime_checkable
class ExportsStream(Protocol):
    """An object that exports an Arrow stream: a frame of Polars or pandas, a relation of DuckDB, a reader."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the capsule of a stream."""
        ...


@runtime_checkable
class ExportsArray(Protocol):
    """An object that exports an Arrow array; that of a struct is a record batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the capsules of a type and an array."""
        ...


@attrs.frozen(eq=False)
class Exported(Lasting):
    """A bounded stream of what an object exports, each time that it is asked."""

    name: str
    data: ExportsStream = attrs.field(repr=False)
    arrow: pa.Schema = attrs.field(init=False, repr=False)
    _kept: list[Rows] = attrs.field(factory=list, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Some can say what they have without beginning to give it.
        known = pa.schema(self.data) if hasattr(self.data, "__arrow_c_schema__") else exported(self.data).schema
        object.__setattr__(self, "arrow", widely_numbered(known.remove_metadata()))

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        """Read what was kept, else the object anew."""
        if self._kept:
            return self._kept[0].open(columns, batch_rows)
        names = list(columns)
        return MemoryReader((batch.select(names) for batch in self._batches()), None)

    def values(self, column: str) -> Iterator[Int64s]:
        """Read an attribute ahead; all attributes are kept in memory from then on."""
        if not self._kept:
            self._kept.append(Rows(self.name, tuple(self._batches()), self.arrow))
        return self._kept[0].values(column)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in exported(self.data):
            yield renumbered(batch.replace_schema_metadata())


def exported(data: ExportsStream) -> pa.RecordBatchReader:
    """Ask an object for its stream."""
    return pa.RecordBatchReader.from_stream(data)
