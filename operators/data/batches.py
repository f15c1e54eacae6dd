"""A batch of plain columns is read from one message, in Arrow's IPC format, that is written in one step.

To make an array of each column and then a batch of these takes a dozen calls, as long as all else that a release with
few results does. The head of the message is the same for all batches of a schema but for the rows, and where the
buffers lie: it is written by Arrow once, and these numbers then stand where the format says (a RecordBatch table, of
FlatBuffers, with its vectors of nodes and of buffers).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data.labels import Labels
from operators.data.page import Int64s
from operators.kernels.compile import messages as kernels

_WORD = 8
_PREFIX = 8
"""Bytes before the tables of a message: four that say that one begins, four that say how long the tables are."""
_BODY_LENGTH, _HEADER = 3, 2
"""Fields of the Message table."""
_ROWS, _NODES, _BUFFERS = 0, 1, 2
"""Fields of the RecordBatch table."""


@attrs.frozen(eq=False)
class Mould:
    """Make batches of a schema of columns of 64 bits, and at most one of texts by number, none of them with a null.

    >>> mould = Mould.of(pa.schema({"n": pa.int64(), "window": pa.string(), "share": pa.float64()}))
    >>> columns = [np.array([7, 8]), np.array([0.5, 1.0]).view(np.int64)]
    >>> mould.batch(columns, np.array([1, 0]), Labels.of(["ten", "busy"])).to_pylist()
    [{'n': 7, 'window': 'busy', 'share': 0.5}, {'n': 8, 'window': 'ten', 'share': 1.0}]
    """

    schema: pa.Schema
    _head: Int64s
    _places: Int64s
    """Where what changes stands in the head; see `operators.kernels.compile.messages`."""

    @classmethod
    def of(cls, schema: pa.Schema) -> Mould | None:
        """Take a schema; None when it has other columns, or this machine other numbers."""
        texts = [pa.types.is_string(field.type) for field in schema]
        plain = [_plain(field.type) for field in schema]
        if sum(texts) > 1 or not any(plain) or sum(texts) + sum(plain) < len(schema):
            return None
        if sys.byteorder == "big":
            # The numbers of the head are little-endian everywhere.
            return None
        # One value in each, so that no number of the message is left out for being 0.
        value, letter = pa.array([1]), pa.array(["-"])
        samples = [letter if text else value.view(field.type) for field, text in zip(schema, texts, strict=True)]
        sample = pa.RecordBatch.from_arrays(samples, schema=schema)
        message = sample.serialize().to_pybytes()
        length = _PREFIX + struct.unpack_from("<i", message, 4)[0]
        root = _PREFIX + struct.unpack_from("<I", message, _PREFIX)[0]
        header = _follow(message, _field(message, root, _HEADER))
        nodes = _follow(message, _field(message, header, _NODES)) + 4
        buffers = _follow(message, _field(message, header, _BUFFERS)) + 4
        rows = [[_field(message, header, _ROWS), _field(message, root, _BODY_LENGTH), 0]]
        for i, text in enumerate(texts):
            rows.append([nodes + 16 * i, buffers, text * _WORD])
            buffers += 16 * (3 if text else 2)
        # All of these numbers are of 64 bits, and stand at multiples of 8 bytes as the format asks for.
        head = np.frombuffer(message, np.int64, count=length // _WORD)
        return cls(schema, head, np.array(rows, np.int64) // _WORD)

    def batch(self, columns: Sequence[Int64s], chosen: Int64s, labels: Labels) -> pa.RecordBatch:
        """Make a batch of columns in order, each of n >= 1 values as their 64 bits; its texts are labels[chosen]."""
        n, head = len(chosen), len(self._head)
        words = self._words(n, len(columns), labels)
        np.concatenate(columns, out=words[head : head + n * len(columns)])
        kernels.write(self._head, self._places, n, words, chosen, labels.offsets, labels.letters)
        return pa.ipc.read_record_batch(pa.py_buffer(words), self.schema)

    def batch_of(self, rows: Int64s, n: int, first: int, labels: Labels) -> pa.RecordBatch:
        """Make a batch as `batch` does, of the first n places of `rows`: those from `first` on, then rows 1 to 3.

        Row 0 has the numbers of the texts. It costs one compiled call.

        >>> mould = Mould.of(pa.schema({"n": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.int64()}))
        >>> mould.batch_of(np.array([[0], [1], [2], [3], [9]]), 1, 4, Labels.of(())).to_pylist()
        [{'n': 9, 'a': 1, 'b': 2, 'c': 3}]
        """
        words = self._words(n, len(rows) - first + 3, labels)
        kernels.write_rows(self._head, self._places, n, words, rows, first, labels.offsets, labels.letters)
        return pa.ipc.read_record_batch(pa.py_buffer(words), self.schema)

    def _words(self, n: int, columns: int, labels: Labels) -> Int64s:
        """Make room for a message of n rows, of so many columns of 64 bits and one of texts."""
        texts = (n + 2) // 2 + (n * labels.longest + _WORD - 1) // _WORD
        return np.empty(len(self._head) + n * columns + texts, np.int64)


def _plain(kind: pa.DataType) -> bool:
    return (pa.types.is_primitive(kind) or pa.types.is_temporal(kind)) and kind.bit_width == 8 * _WORD


def _field(message: bytes, table: int, field: int) -> int:
    """Return where a field of a table stands."""
    listed = table - struct.unpack_from("<i", message, table)[0]
    return table + struct.unpack_from("<H", message, listed + 4 + 2 * field)[0]


def _follow(message: bytes, place: int) -> int:
    """Return what an offset refers to."""
    return place + struct.unpack_from("<I", message, place)[0]
