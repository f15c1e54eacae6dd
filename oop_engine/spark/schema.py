"""Map every attribute to a type of Spark that holds its values exactly, or say what it cannot hold.

| here | in Spark |
|---|---|
| uint8, uint16, uint32 | smallint, int, bigint: the next wider signed type |
| uint64 | decimal(20, 0) |
| IP address | string, as `10.0.0.7` or `2001:db8::7`; with `addresses=binary` the 16 bytes |
| timestamp with time zone | timestamp: microseconds, what is finer rounded down |
| timestamp without | timestamp_ntz, likewise |
| duration | interval day to second, likewise |
| time of day | bigint, in the unit it has |
| float16 | float |

`ts_ns` of a stream with an attribute `ts` is that time as bigint nanoseconds since 1970, for who needs it whole; it is
there when `columns` names it. A time that the type there cannot hold is null, as are nanoseconds after 2262. The table
holds for the values in lists, structs and maps, too. All columns may be null, as Spark has it for most of its sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.readable import address_text, address_text_field
from operators.errors import SchemaError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from oop_engine.spark.options import Options

Addresses: TypeAlias = Literal["text", "binary"]
NANOSECONDS: Final = "_ns"
_WIDER: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
}
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@attrs.frozen
class Wanted:
    """The columns of a source that go to Spark, and their types there."""

    given: pa.Schema
    names: tuple[str, ...]
    addresses: Addresses = "text"
    arrow: pa.Schema = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        fields = [pa.field(name, self._type(name)) for name in self.names]
        object.__setattr__(self, "arrow", pa.schema(fields))

    @classmethod
    def of(cls, given: pa.Schema, names: Sequence[str] | None, addresses: Addresses = "text") -> Wanted:
        """Choose columns by name, all without `..._ns` when None; SchemaError for a name that there is not."""
        known = list(given.names)
        for name in names or ():
            if name not in known and _timed(given, name) is None:
                raise SchemaError(
                    f'columns: there is no column "{name}".\n'
                    f"  columns: {', '.join(known)}\n"
                    f"  {did_you_mean(name, known)}"
                )
        if names is not None and len(set(names)) < len(names):
            twice = next(name for name in names if list(names).count(name) > 1)
            raise SchemaError(f'columns: "{twice}" is named twice.')
        return cls(given, tuple(known if names is None else names), addresses)

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns to read, in the order of the source."""
        wanted = {_timed(self.given, name) or name for name in self.names}
        return tuple(name for name in self.given.names if name in wanted)

    @property
    def struct(self) -> StructType:
        """Return the schema as Spark has it."""
        # Optional: pyspark.
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.arrow)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns wanted of a batch that has those of `read`, as Spark takes them."""
        return pa.RecordBatch.from_arrays([self._column(batch, name) for name in self.names], schema=self.arrow)

    def _type(self, name: str) -> pa.DataType:
        if _timed(self.given, name) is not None:
            return pa.int64()
        field = self.given.field(name)
        return spark_type((address_text_field(field) if self.addresses == "text" else field).type)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        timed = _timed(self.given, name)
        if timed is not None:
            return finer(batch.column(timed), "ns")
        array = batch.column(name)
        if self.addresses == "text":
            array = address_text(array, self.given.field(name))
        return converted(array, self.arrow.field(name).type)


def _timed(given: pa.Schema, name: str) -> str | None:
    """Return the time of which a name means the nanoseconds; None when it is an attribute itself or no such."""
    index = given.get_field_index(name.removesuffix(NANOSECONDS))
    if name in given.names or not name.endswith(NANOSECONDS) or index < 0:
        return None
    return str(given.field(index).name) if pa.types.is_timestamp(given.field(index).type) else None


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark takes for values of a type; SchemaError when there is none."""
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", spark_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, spark_type(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_decimal256(kind):
        raise SchemaError(f"Spark has no type for {kind}; project it to a narrower decimal or to text first.")
    return kind


def converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as the type that `spark_type` gives, times rounded down to the microsecond, wherever they are."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        return converted(array.dictionary_decode(), kind)
    if pa.types.is_nested(kind):
        return _nested(array, kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = array.type.unit
        if unit == "ns":
            ticks = array.view(pa.int64())
            least = pc.min(ticks).as_py()
            if least is None or least >= 0:
                return pc.divide(ticks, 1_000).view(kind)
            # Arrow divides towards zero; a time before 1970 must be rounded down, too.
            down = np.floor_divide(ticks.fill_null(0).to_numpy(), 1_000)
            return pa.array(down, mask=ticks.is_null().to_numpy(zero_copy_only=False)).view(kind)
        return finer(array, kind.unit).view(kind)
    if pa.types.is_time(array.type):
        return array.cast(pa.int32()).cast(kind) if pa.types.is_time32(array.type) else array.view(kind)
    return array.cast(kind)


def is_finer(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a type of times, or of durations, has a finer unit than another such type."""
    timed = pa.types.is_timestamp(kind) and pa.types.is_timestamp(other)
    spanned = pa.types.is_duration(kind) and pa.types.is_duration(other)
    return (timed or spanned) and _PER_SECOND[kind.unit] > _PER_SECOND[other.unit]


def finer(array: pa.Array, unit: str) -> pa.Array:
    """Return times or durations as int64 ticks of a unit that is as fine or finer; null where they are beyond int64."""
    ticks = array.view(pa.int64())
    scale = _PER_SECOND[unit] // _PER_SECOND[array.type.unit]
    if scale == 1:
        return ticks
    most = (2**63 - 1) // scale
    bounds = pc.min_max(ticks)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < -most or high > most):
        fits = pc.and_(pc.greater_equal(ticks, -most), pc.less_equal(ticks, most))
        ticks = pc.if_else(fits, ticks, pa.scalar(None, pa.int64()))
    return pc.multiply(ticks, scale)


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists, structs or maps with what is in them converted, and no more of it than a slice has."""
    if pa.types.is_struct(kind):
        fields = [converted(array.field(i), field.type) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        array = array.cast(pa.list_(array.type.value_field))
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    if pa.types.is_map(kind):
        entries = [(array.keys, kind.key_field), (array.items, kind.item_field)]
        parts = [converted(part.slice(first, last - first), field.type) for part, field in entries]
        inside = pa.StructArray.from_arrays(parts, fields=[field for _, field in entries])
    else:
        inside = converted(array.values.slice(first, last - first), kind.value_type)
    places = pc.subtract(array.offsets, pa.scalar(first, pa.int32())).buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [array.is_valid().buffers()[1], places], children=[inside])


def addresses(options: Options) -> Addresses:
    """Read how addresses are given."""
    return "text" if options.choice("addresses", ("text", "binary")) == "text" else "binary"
