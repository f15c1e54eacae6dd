"""Read a DataFrame as a source of a plan: record batches with attributes by name, in the plan's types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import SchemaError
from oop_engine.sources.columns import convert
from oop_engine.sources.reading import Passing, Reading
from oop_engine.sources.sound import sound
from oop_engine.spark.narrow import read_page
from oop_engine.spark.schema import finer, is_finer
from operators.data.schema import is_ip
from operators.errors import did_you_mean

Batches: TypeAlias = "Iterable[pa.RecordBatch]"


@attrs.frozen(eq=False)
class InMemory(Passing):
    """A stream that a task is given as record batches, once."""

    name: str
    arrow: pa.Schema
    batches: Batches
    promised: tuple[str | tuple[str, ...], ...] = ()

    def open(self, columns: Sequence[str], batch_rows: int) -> GivenReader:
        return GivenReader(self, tuple(columns))


@attrs.frozen(eq=False)
class GivenReader(Reading):
    """The one reading of a stream that is given."""

    given: InMemory
    columns: tuple[str, ...]

    def chunks(self) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.given.arrow.field(name) for name in self.columns])
        return (from_spark(batch, wanted) for batch in self.given.batches if batch.num_rows)

    def progress(self) -> tuple[int, int | None]:
        return 0, None


_SPECIAL: Final = re.compile(r"[%.`*]")
PAGED: Final = ("rows", "page")
"""The columns of a DataFrame of pages, as `oop.pcap` and `oop.netflow` give it with the option `pages`."""


def is_paged(columns: Sequence[str], arrow: pa.Schema) -> bool:
    """Return whether a DataFrame has pages of tuples with these attributes, in the place of tuples."""
    return tuple(columns) == PAGED and "page" not in arrow.names


def opened(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the tuples of a DataFrame of pages, a record batch a page."""
    for batch in batches:
        for page in batch.column("page"):
            yield read_page(page.as_buffer())


def quoted(name: str) -> str:
    """Return the name of a column as Spark's expressions have it, where a dot would lead into a struct."""
    return f"`{name.replace('`', '``')}`"


def crossing(name: str) -> str:
    """Return the name under which a column comes to tasks: one that Spark finds without quotes, of its own for each."""
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", name)


def from_spark(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return tuples of a DataFrame as attributes of these types; SchemaError for a column that is absent or unfit.

    A time that a finer unit cannot hold, as 9999-12-31 in nanoseconds, is null: as the value of a windowing attribute
    it is then counted as every null there is.
    """
    batch = sound(batch, "a record batch of Spark")
    arrays = [_converted(batch.column(_found(batch.schema.names, field.name)), field) for field in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _found(names: Sequence[str], name: str) -> str:
    """Return the name that a column has here; it crossed as it is within a page of tuples."""
    for found in (crossing(name), name):
        if found in names:
            return found
    raise SchemaError(
        f'pages of a DataFrame have no column "{name}"; the plan reads it.\n'
        f"  columns: {', '.join(names)}\n  {did_you_mean(name, names)}"
    )


def _converted(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as an attribute; SchemaError with the words of Arrow when a value does not fit."""
    try:
        return _cast(column, field)
    except pa.ArrowException as error:
        raise SchemaError(
            f'the column "{field.name}" of a DataFrame is {column.type} and does not fit the plan\'s {field.type}:'
            f" {error}.\n  Declare the attribute as wide as the DataFrame has it, or cast it before on_spark."
        ) from error


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if column.type == kind:
        return column
    if is_ip(field):
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return column.cast(kind)
        return convert(column, field, None)
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_timestamp(kind) and pa.types.is_date32(column.type):
        column = column.cast(pa.timestamp("s"))
    if is_finer(kind, column.type):
        # A DataFrame has microseconds, and in them 9999-12-31, for which there are no nanoseconds.
        return finer(column, kind.unit).view(kind)
    if pa.types.is_time(kind) and pa.types.is_integer(column.type):
        return column.cast(pa.int32()).view(kind) if pa.types.is_time32(kind) else column.view(kind)
    return column.cast(kind)
