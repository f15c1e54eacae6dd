"""A batch's columns lie side by side in one memory, which becomes Arrow arrays without copying."""

from __future__ import annotations

import sys
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import fill as f
from oop_engine.sources.flows.schema import Column

_ALIGN: Final = 64


@attrs.frozen(eq=False)
class Runs:
    """Runs of records of one plan each: where they lie, and the rows they become."""

    plan: NDArray[np.int32]
    at: NDArray[np.int64]
    count: NDArray[np.int32]
    row: NDArray[np.int64]
    datagram: NDArray[np.int32]

    @property
    def lists(self) -> e.RunLists:
        """Return them for the kernels."""
        return self.plan, self.at, self.count, self.row, self.datagram

    @classmethod
    def empty(cls, room: int) -> Runs:
        """Make room for as many runs."""
        return cls(
            np.zeros(room, np.int32),
            np.zeros(room, np.int64),
            np.zeros(room, np.int32),
            np.zeros(room, np.int64),
            np.zeros(room, np.int32),
        )


@attrs.define
class Layout:
    """The columns of a decoder, and how wide their entries are."""

    columns: tuple[Column, ...]
    widths: NDArray[np.int64] = attrs.field(init=False)
    offsets: dict[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.widths = np.array([column.width for column in self.columns], np.int64)
        self.offsets = {column.name: number for number, column in enumerate(self.columns)}

    def room(self, rows: int) -> Room:
        """Make room for the columns of as many rows."""
        bases = np.zeros(len(self.columns), np.int64)
        sizes = np.zeros(len(self.columns), np.int64)
        end = 0
        for number, wide in enumerate(self.widths.tolist()):
            bases[number] = end
            end += -(-rows * (wide or 8) // _ALIGN) * _ALIGN
            if not wide:
                sizes[number] = end
                end += -(-rows * 4 // _ALIGN) * _ALIGN
        return Room(self, rows, bases, sizes, pa.allocate_buffer(max(end, _ALIGN)))


@attrs.define(eq=False)
class Room:
    """The memory of one batch while it is filled."""

    layout: Layout
    rows: int
    bases: NDArray[np.int64]
    sizes: NDArray[np.int64]
    buffer: pa.Buffer
    bytes: NDArray[np.uint8] = attrs.field(init=False)
    untimed: NDArray[np.int64] = attrs.field(init=False)
    present: dict[int, tuple[NDArray[np.int64], NDArray[np.bool_]]] = attrs.field(factory=dict)
    """Rows of a column that were filled one by one: which, and which of them have it."""

    def __attrs_post_init__(self) -> None:
        self.bytes = np.frombuffer(self.buffer, np.uint8)
        self.untimed = np.zeros(len(self.bases), np.int64)
        for number, wide in enumerate(self.layout.widths.tolist()):
            if not wide:
                self.bytes[self.sizes[number] : self.sizes[number] + 4 * self.rows] = 0

    def values(self, name: str) -> NDArray[Any]:
        """Return a column's entries, shape (rows,), or (rows, width) for bytes."""
        number = self.layout.offsets[name]
        kind = self.layout.columns[number].field.type
        wide = int(self.layout.widths[number])
        part = self.bytes[self.bases[number] : self.bases[number] + self.rows * wide]
        if pa.types.is_fixed_size_binary(kind):
            return part.reshape(self.rows, wide)
        return part.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}[wide])

    def array(self, number: int, has: NDArray[np.bool_] | bool, data: NDArray[np.uint8]) -> pa.Array:
        """Return a column as Arrow array; `has` tells which rows have it."""
        column = self.layout.columns[number]
        kind = column.field.type
        if has is False:
            return pa.nulls(self.rows, kind)
        wide = int(self.layout.widths[number])
        base = int(self.bases[number])
        if pa.types.is_timestamp(kind) and self.untimed[number]:
            timed = self.values(column.name) != e.NO_TIME
            has = timed if has is True else has & timed
        nulls = 0 if has is True else self.rows - int(np.count_nonzero(has))
        bitmap = pa.py_buffer(np.packbits(has, bitorder="little")) if nulls else None
        if not wide:
            return self._varying(number, kind, bitmap, nulls, data)
        if nulls:
            self._blank(base, wide, has)
        if column.address and sys.byteorder == "big":
            self._swap(base, wide)
        if pa.types.is_boolean(kind):
            bits = pa.py_buffer(np.packbits(self.bytes[base : base + self.rows].astype(np.bool_), bitorder="little"))
            return pa.Array.from_buffers(kind, self.rows, [bitmap, bits], nulls)
        return pa.Array.from_buffers(kind, self.rows, [bitmap, self.buffer.slice(base, self.rows * wide)], nulls)

    def _blank(self, base: int, wide: int, has: NDArray[np.bool_] | bool) -> None:
        """Lay zeros where nothing was written, so that a batch is the same each time."""
        self.bytes[base : base + self.rows * wide].reshape(self.rows, wide)[~np.asarray(has)] = 0

    def _swap(self, base: int, wide: int) -> None:
        self.bytes[base : base + self.rows * wide].view(np.uint64).byteswap(inplace=True)

    def _varying(
        self, number: int, kind: pa.DataType, bitmap: pa.Buffer | None, nulls: int, data: NDArray[np.uint8]
    ) -> pa.Array:
        start, size = int(self.bases[number]), int(self.sizes[number])
        position = self.bytes[start : start + 8 * self.rows].view(np.uint64)
        length = self.bytes[size : size + 4 * self.rows].view(np.uint32)
        offsets = np.empty(self.rows + 1, np.int32)
        out = np.empty(int(length.sum(dtype=np.int64)), np.uint8)
        f.gather(data, position, length, offsets, out)
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(out)]
        found = pa.Array.from_buffers(kind, self.rows, buffers, nulls)
        if pa.types.is_string(kind):
            try:
                found.validate(full=True)
            except pa.ArrowInvalid:  # what is no UTF-8 is kept as far as it can be
                raw = pa.Array.from_buffers(pa.binary(), self.rows, buffers, nulls).to_pylist()
                texts = [None if text is None else text.decode("utf-8", "replace") for text in raw]
                found = pa.array(texts, pa.string())
        return found
