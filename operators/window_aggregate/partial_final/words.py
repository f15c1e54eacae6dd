"""Keys of any types are machine words of a fixed number, so that a table of fixed size can hold and compare them.

A whole number or a time is a word, or half a word where 32 bits are enough; an IP address is two words. Of any other
type, values are numbered by a key index of their own, which compares them exactly; the numbers of values that are in no
row of the table are taken back now and then. Where a plain attribute is null, one more word says so, from the first
null on.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.functions.arguments import whole
from operators.functions.columns import frozen

_LEAST = 1024
_BITS = 64


@attrs.define
class KeyWords(memory.Stateful):
    """Make words of keys, and keys of words; `hashed` words are enough to choose a place.

    >>> words = KeyWords([pa.field("a", pa.int32()), pa.field("b", pa.string())])
    >>> words.encode([pa.array([7, 8, 7], pa.int32()), pa.array(["x", "y", "x"])]).tolist()
    [[7], [4294967304], [7]]
    """

    fields: Sequence[pa.Field]
    nulls: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    """Whether the last word says which plain attributes are null."""
    _halves: list[slice] = attrs.field(init=False)
    _numbered: list[KeyIndex | None] = attrs.field(init=False, metadata=memory.parts(""))
    """The values of each attribute that has no word of its own."""
    _limits: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        KeyIndex(self.fields)
        if len(self.fields) > _BITS:
            raise SchemaError(f"a key of a low-level table has at most {_BITS} attributes, not {len(self.fields)}.")
        self._numbered = [None if _halves(field.type) else KeyIndex([field]) for field in self.fields]
        self._limits = [_LEAST] * len(self.fields)
        # The wide ones come first, so that they stand on whole words.
        self._halves, at = [slice(0)] * len(self.fields), 0
        wide = [_halves(field.type) or 1 for field in self.fields]
        for i in sorted(range(len(wide)), key=lambda i: -wide[i]):
            self._halves[i] = slice(at, at + wide[i])
            at += wide[i]

    @property
    def hashed(self) -> int:
        """Return the number of words of a key, without that of nulls."""
        return (max((place.stop for place in self._halves), default=0) + 1) // 2

    @property
    def width(self) -> int:
        """Return the number of words of a key."""
        return self.hashed + self.nulls

    def widens(self, columns: Sequence[pa.Array]) -> bool:
        """Return whether these columns bring the first null of a plain attribute, for which `nulls` must be set."""
        return not self.nulls and any(
            column.null_count and index is None for column, index in zip(columns, self._numbered, strict=True)
        )

    def encode(self, columns: Sequence[pa.Array]) -> Int64s:
        """Return the words of each tuple's key, shape (n, width), read-only; of at least one attribute."""
        if len(columns) == 1 and self._halves[0].stop == 2 and not self.nulls:
            return frozen(self._plain(0, columns[0]).reshape(-1, 1))
        words = np.zeros((len(columns[0]), self.width), np.int64)
        halves = words.view(np.int32)
        for i, (place, column) in enumerate(zip(self._halves, columns, strict=True)):
            values = self._plain(i, column)
            if place.stop - place.start == 1:
                halves[:, place.start] = values
            else:
                words[:, place.start // 2 : place.stop // 2] = values.reshape(len(words), -1)
            if column.null_count and self._numbered[i] is None:
                null = np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))
                halves[null, place] = 0
                words[:, -1] |= null.astype(np.int64) << np.int64(i)
        return frozen(words)

    def decode(self, words: Int64s) -> list[pa.Array]:
        """Return keys, one array an attribute, of rows of words of shape (n, width)."""
        words = np.ascontiguousarray(words)
        halves = words.view(np.int32)
        arrays: list[pa.Array] = []
        for i, (place, field) in enumerate(zip(self._halves, self.fields, strict=True)):
            own = np.ascontiguousarray(halves[:, place])
            if (index := self._numbered[i]) is not None:
                arrays += index.keys(own[:, 0])
                continue
            array = _values(own, field.type)
            if self.nulls and (null := (words[:, -1] >> np.int64(i)) & 1).any():
                array = pc.if_else(pa.array(null.astype(np.bool_)), pa.scalar(None, field.type), array)
            arrays.append(array)
        return arrays

    @property
    def full(self) -> bool:
        """Return whether twice as many values are numbered as were needed last time, so that it is time to `forget`."""
        return any(
            index is not None and len(index) > limit for index, limit in zip(self._numbered, self._limits, strict=True)
        )

    def forget(self, words: Int64s) -> None:
        """Take back the numbers of values that none of these rows, shape (n, width), has."""
        halves = np.ascontiguousarray(words).view(np.int32)
        for i, index in enumerate(self._numbered):
            if index is not None:
                index.free(np.setdiff1d(index.live(), halves[:, self._halves[i].start]))
        self._after_restoring()

    def _plain(self, i: int, column: pa.Array) -> npt.NDArray[np.signedinteger]:
        if (index := self._numbered[i]) is not None:
            return index.assign([column])
        kind = column.type
        if _halves(kind) == 4:
            data = column.buffers()[1]
            if data is None:
                return np.zeros(2 * len(column), np.int64)
            return np.frombuffer(data, np.int64, 2 * (column.offset + len(column)))[2 * column.offset :]
        if _halves(kind) == 1 and pa.types.is_uint32(kind):
            return (column.fill_null(0) if column.null_count else column).to_numpy().view(np.int32)
        return whole(column)

    def _after_restoring(self) -> None:
        self._limits = [max(_LEAST, 2 * (0 if index is None else len(index))) for index in self._numbered]


def _halves(kind: pa.DataType) -> int:
    """Return how many half words a value of a type needs; 0 for types whose values are numbered."""
    if pa.types.is_fixed_size_binary(kind):
        return 4 if kind.byte_width == 16 else 0
    if pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return 1 if kind.bit_width <= 32 else 2
    return 0


def _values(halves: npt.NDArray[np.int32], kind: pa.DataType) -> pa.Array:
    """Return the values of half words, shape (n, halves)."""
    if _halves(kind) == 4:
        return pa.Array.from_buffers(kind, len(halves), [None, pa.py_buffer(halves)])
    if _halves(kind) == 2:
        return pa.array(halves.view(np.int64)[:, 0]).view(kind)
    values = pa.array(halves[:, 0])
    if kind.bit_width == 32:
        return values.view(kind)
    return values.cast(kind)
