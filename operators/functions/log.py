"""A value log keeps values of any Arrow type by position, and forgets some of them when it is told which are in use.

Chunks are merged while the last is at least half as long as the one before it, so n appended values lie in O(log n)
chunks and each was copied O(log n) times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s
from operators.data.saved import read_batch
from operators.protocol import State, StateValue


@attrs.define(eq=False)
class ValueLog:
    """Hold values of one type at positions 0 <= p < len."""

    kind: pa.DataType
    _chunks: list[pa.Array] = attrs.field(factory=lambda: [], init=False)
    _length: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held by the values."""
        return sum(int(chunk.nbytes) for chunk in self._chunks)

    def append(self, values: pa.Array) -> int:
        """Add values and give the position of the first; a slice of a larger array would keep all of it alive."""
        start = self._length
        if len(values) == 0:
            return start
        self._length += len(values)
        self._chunks.append(values)
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            self._chunks[-2:] = [pa.concat_arrays(self._chunks[-2:])]
        return start

    def take(self, positions: Int64s) -> pa.Array:
        """Return the values at these positions, in this order; null where the position is negative."""
        held = self.settled()
        if len(positions) and int(positions.min()) < 0:
            return held.take(pa.array(positions, mask=positions < 0))
        return held.take(pa.array(positions))

    def settled(self) -> pa.Array:
        """Return all values as one array."""
        if not self._chunks:
            return pa.array([], self.kind)
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_arrays(self._chunks)]
        return self._chunks[0]

    def become(self, values: pa.Array) -> None:
        """Hold these values and no others."""
        self._chunks = [values] if len(values) else []
        self._length = len(values)


class _Logs(memory.Column):
    holds = True

    def save(self, state: State, name: str, value: Sequence[ValueLog]) -> None:
        names = [str(number) for number in range(len(value))]
        state[name] = pa.RecordBatch.from_arrays([log.settled() for log in value], names)

    def load(self, state: Mapping[str, StateValue], name: str, value: Sequence[ValueLog], owner: object) -> object:
        batch = read_batch(state, name)
        if batch.schema.types != [log.kind for log in value]:
            kinds = ", ".join(str(log.kind) for log in value)
            raise ValueError(f'the saved state has columns of {batch.schema.types} in "{name}", not of {kinds}')
        for log, column in zip(value, batch.columns, strict=True):
            log.become(column)
        return value

    def nbytes(self, value: Sequence[ValueLog]) -> int:
        return sum([log.nbytes for log in value])


def logs(name: str) -> memory.Metadata:
    """Declare a tuple of logs, equally long, saved as the columns of a record batch."""
    return _Logs(name=name).declared()
