"""min and max keep the type of their argument and need an order only.

Numbers, times, truth values, addresses, text, binary and decimals have one. NaN
propagates. A maximum is a minimum of complements, so both run the same loops.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.functions.arguments import plain, refuse
from operators.functions.choice import Choice
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import OfOne
from operators.functions.order import FIRST, LAST, is_keyed, is_ordered, keys, unkeyed
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.functions.extremes import (
    combine_least,
    combine_least_blocks,
    combine_least_pair,
    keep_least,
    keep_least_pair,
)
from operators.kernels.functions.sums import BLOCK

PAIR = 16


class _Extreme(OfOne):
    """A function that finds the least or the greatest value."""

    __slots__ = ()

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        field, descending = self._field(schema), self.name == "max"
        if is_keyed(field.type):
            return KeyedExtremes(field.name, field.type, descending)
        if pa.types.is_fixed_size_binary(field.type) and field.type.byte_width == PAIR:
            return PairExtremes(field.name, field.type, descending)
        return Choice(field, field, descending=descending)

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if not is_ordered(field.type):
            instead = f"Write first({self.argument}) or last({self.argument}) for any of them."
            raise refuse(self._where, field, "its values have no order", instead)
        return field


@attrs.frozen
class Min(_Extreme):
    """Find the least value of an attribute, of its own type; null when there is none. Text is ordered by its bytes.

    Cost: 9 bytes a slot, 17 for an address; for text and the like one entry of a value log.
    """

    name = "min"


@attrs.frozen
class Max(_Extreme):
    """Find the greatest value of an attribute; as `Min` in all else."""

    name = "max"


@attrs.define(eq=False)
class KeyedExtremes(StateColumns):
    """Hold the least key a slot, of values that have an int64 key."""

    argument: str
    kind: pa.DataType
    descending: bool
    _least: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    _seen: Bools = attrs.field(factory=lambda: np.zeros(0, np.bool_), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._least[slots] = LAST
        self._seen[slots] = False

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        keep_least(slots, keys(plain(page, self.argument), descending=self.descending), self._least, self._seen)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_least(frozen(into), frozen(source), self._least, self._seen)

    def clear_blocks(self, blocks: Slots) -> None:
        self._least.reshape(-1, BLOCK)[blocks] = LAST
        self._seen.reshape(-1, BLOCK)[blocks] = False

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        combine_least_blocks(frozen(into), frozen(source), self._least, self._seen)

    def finalize(self, slots: Slots) -> pa.Array:
        return unkeyed(self._least[slots], self._seen[slots], self.kind, descending=self.descending)

    def free(self, slots: Slots) -> None:
        pass


@attrs.define(eq=False)
class PairExtremes(StateColumns):
    """Hold the least 16 bytes a slot, in network order, as two words; for IP addresses and other values as long."""

    argument: str
    kind: pa.DataType
    descending: bool
    _least: Int64s = attrs.field(factory=lambda: np.zeros((0, 2), np.int64), init=False, metadata=memory.slots())
    _seen: Bools = attrs.field(factory=lambda: np.zeros(0, np.bool_), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._seen[slots] = False

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        keep_least_pair(slots, frozen(self._turned(_words(plain(page, self.argument)))), self._least, self._seen)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_least_pair(frozen(into), frozen(source), self._least, self._seen)

    def finalize(self, slots: Slots) -> pa.Array:
        there = self._seen[slots]
        data = self._turned(self._least[slots]).view(np.uint64).astype(">u8")
        validity = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
        return pa.Array.from_buffers(self.kind, len(slots), [validity, pa.py_buffer(data)])

    def free(self, slots: Slots) -> None:
        pass

    def _turned(self, words: Int64s) -> Int64s:
        """Let signed words compare as unsigned ones do, complemented when descending; undoes itself."""
        return words ^ (LAST if self.descending else FIRST)


def _words(column: pa.Array) -> Int64s:
    """Return 16-byte values as two words each, shape (n, 2), most significant first."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros((len(column), 2), np.int64)
    words = np.frombuffer(data, ">u8", 2 * (column.offset + len(column)))[2 * column.offset :]
    return words.astype(np.uint64).view(np.int64).reshape(-1, 2)
