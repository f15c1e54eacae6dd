"""Pack a page of tuples into few bytes: whole numbers and times as differences from the least, IPv4 addresses as four.

A page is an Arrow stream of one record batch. A column gets a narrower type if all its numbers are near each other, or
all its addresses are IPv4. The metadata of the page then holds the least of each such column, and the schema that the
page had. `widened` returns what it was, bit for bit except under nulls.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy import uint32, uint64
from numpy.typing import NDArray

from oop_engine.sources.sound import sound
from operators.data.schema import is_ip
from operators.kernels.compile.kernel import kernel

_KEY: Final = b"oop.narrow"
FEWEST: Final = 512
"""Tuples of a page that are worth it."""
_NARROWER: Final = (np.uint8, np.uint16, np.uint32)
_MAPPED: Final = 0xFFFF0000
"""What stands before an IPv4 address, in memory of a little-endian machine."""


def page_bytes(batch: pa.RecordBatch) -> bytes:
    """Return tuples as a page."""
    return page_buffer(batch).to_pybytes()


def page_buffer(batch: pa.RecordBatch) -> pa.Buffer:
    """Return tuples as a page, where it was made."""
    sink = pa.BufferOutputStream()
    given = narrowed(batch)
    with pa.ipc.new_stream(sink, given.schema) as writer:
        writer.write_batch(given)
    return sink.getvalue()


def read_page(body: bytes | pa.Buffer) -> pa.RecordBatch:
    """Read the tuples of a page, as the option `pages` of `oop.pcap` and `oop.netflow` puts them into a cell.

    `body` holds its bytes.

    >>> spark = oop.spark.session(cores=2)
    >>> frame = spark.read.format("oop.pcap").option("pages", True).load("demos/captures/web.pcap.gz")
    >>> sum(len(oop.spark.read_page(bytes(row.page))) for row in frame.collect())
    4631
    """
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return widened(sound(reader.read_next_batch(), "a page of tuples"))


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with its columns as narrow as their values allow, itself where none of them does.

    Cost: O(1) a value, in two to four passes over what is in the cache.
    """
    if batch.num_rows < FEWEST:
        return batch
    least: list[int | None] = []
    arrays: list[pa.Array] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        found = _narrow(field, column)
        arrays.append(column if found is None else found[0])
        least.append(None if found is None else found[1])
    if all(low is None for low in least):
        return batch
    told = json.dumps({"least": least, "schema": _as_text(batch.schema)})
    fields = [field.with_type(array.type) for field, array in zip(batch.schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata={_KEY: told}))


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch of which `narrowed` made another."""
    told = (batch.schema.metadata or {}).get(_KEY)
    if told is None:
        return batch
    told = json.loads(told)
    schema = _schema(told["schema"])
    arrays = [
        column if low is None else _wide(column, field.type, low)
        for column, field, low in zip(batch.columns, schema, told["least"], strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _narrow(field: pa.Field, column: pa.Array) -> tuple[pa.Array, int] | None:
    """Return a column narrower, and the least of its values; None where that cannot be."""
    if column.null_count and column.offset:
        return None
    kind, count = field.type, len(column)
    if is_ip(field) and kind == pa.binary(16):
        words = np.frombuffer(column.buffers()[1], uint64, 2 * (column.offset + count))[2 * column.offset :]
        found = np.empty(count, uint32)
        return (_array(pa.binary(4), column, found), 0) if last_four(words, found) else None
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or kind.bit_width not in (32, 64):
        return None
    values = np.frombuffer(column.buffers()[1], f"i{kind.bit_width // 8}", column.offset + count)[column.offset :]
    low, high = int(values.min()), int(values.max())
    for narrower in _NARROWER[: 2 if kind.bit_width == 32 else 3]:
        if high - low <= np.iinfo(narrower).max:
            above = (values - values.dtype.type(low)).astype(narrower)
            return _array(pa.from_numpy_dtype(narrower), column, above), low
    return None


def _wide(column: pa.Array, kind: pa.DataType, low: int) -> pa.Array:
    """Return a column as it was."""
    count = column.offset + len(column)
    data = column.buffers()[1]
    if kind == pa.binary(16):
        words = np.zeros((count, 4), uint32)
        words[:, 2] = _MAPPED
        words[:, 3] = np.frombuffer(data, uint32, count)
        return _array(kind, column, words, column.offset)
    values = np.frombuffer(data, column.type.to_pandas_dtype(), count)
    return _array(kind, column, np.add(values, low, dtype=f"i{kind.bit_width // 8}"), column.offset)


def _array(kind: pa.DataType, column: pa.Array, values: NDArray[np.generic], offset: int = 0) -> pa.Array:
    """Return values as an array, null where a column is."""
    present = column.buffers()[0] if column.null_count else None
    return pa.Array.from_buffers(kind, len(column), [present, pa.py_buffer(values)], column.null_count, offset)


@kernel
def last_four(words: NDArray[uint64], found: NDArray[uint32]) -> bool:
    """Write the last four bytes of addresses, of which each is two words in memory order; False if one is no IPv4."""
    other = uint64(0)
    for i in range(len(found)):
        word = words[2 * i + 1]
        other |= words[2 * i] | ((word & uint64(0xFFFFFFFF)) ^ uint64(_MAPPED))
        found[i] = uint32(word >> uint64(32))
    return other == uint64(0)


def _as_text(schema: pa.Schema) -> str:
    return b64encode(schema.serialize()).decode()


@lru_cache(maxsize=64)
def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))
