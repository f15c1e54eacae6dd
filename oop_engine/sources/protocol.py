"""A source names a stream and can be opened; a reader hands out its tuples in arrival order, blocking where it must.

A reader is synchronous and knows no runtime: the synchronous driver calls it in turn, the trio runtime in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from operators.data.page import Int64s
from operators.protocol import Element, State

Chunk: TypeAlias = "pa.RecordBatch | Element | Snapshot"

ARRIVAL: Final = "arrival_ts"
"""The attribute that says when a tuple arrived at the system (thesis 5.1.2)."""


@attrs.frozen(eq=False)
class Snapshot:
    """The state of a reading between two of its chunks, which answers the request of this number.

    Of what a journal has, the segments from `segment` on came after it. Nothing comes behind the `last` one.
    """

    number: int
    state: State = attrs.field(repr=False)
    segment: int = 0
    last: bool = False

    def __len__(self) -> int:
        """Return how many tuples it has: none."""
        return 0


class Reader(Protocol):
    """One reading of a source, from its beginning."""

    def chunks(self) -> Iterator[Chunk]:
        """Return record batches of the opened columns, or elements where the stream carries its own punctuation."""
        ...

    def progress(self) -> tuple[int, int | None]:
        """Return the bytes (or tuples) read so far and in all, None when nobody knows."""
        ...

    def arrived(self) -> int | None:
        """Return when the last chunk arrived, in ns, if the stream is replayed; streams keep step by it."""
        ...

    def notes(self) -> list[str]:
        """Say what a user should know of the reading: where a damaged file stopped, what was skipped."""
        ...


@runtime_checkable
class KeepsWaiting(Protocol):
    """A source that says whether a reading may wait for what others do; one that does not say so never does.

    While one waits, the others are read: nobody who writes to them waits for it.
    """

    @property
    def waits(self) -> bool:
        """Return whether reading it may take as long as somebody else likes, as that of a socket or a pipe."""
        ...


@runtime_checkable
class Source(Protocol):
    """The origin of a stream; a frozen value that can be opened any number of times if it is `rewindable`."""

    @property
    def name(self) -> str:
        """Name for messages and statistics."""
        ...

    @property
    def arrow(self) -> pa.Schema:
        """Return attributes of the stream."""
        ...

    @property
    def rewindable(self) -> bool:
        """Return whether the stream is bounded and can be read twice, so that exact punctuation is possible."""
        ...

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        """Name the attributes on which the stream carries punctuation of its own, even if it can be read ahead."""
        ...

    def open(self, columns: Sequence[str], batch_rows: int) -> Reader:
        """Start a reading of these columns, in the order of `arrow`."""
        ...

    def values(self, column: str) -> Iterator[Int64s]:
        """Read one attribute alone, as ticks in arrival order, NO_TIME where it is null; for rewindable sources."""
        ...


@runtime_checkable
class Laborious(Protocol):
    """A rewindable source of which reading one attribute may take about as long as reading all that is wanted."""

    @property
    def laborious(self) -> bool:
        """Return whether it does: it is text, which has to be parsed, or packed."""
        ...
