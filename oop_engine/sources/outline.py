"""Outlines of files, such as Parquet's row groups, describe pieces before they are read and so spare a pass.

Exact punctuation needs the least value of all that is still to come. Where a source knows the least value of every
piece, a piece is looked at when it is read, and none is read twice (see `punctuation.Unfolding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from oop_engine.sources.protocol import Reader
from operators.data.page import Int64s

Watch: TypeAlias = Callable[[Int64s], None]
"""Is given the values of an attribute in a whole piece before any of the piece's batches."""


@attrs.frozen(eq=False)
class Outline:
    """The number of tuples of each piece of a stream, and its least tick of an attribute, NEVER without one; shape
    (k,).
    """

    lengths: Int64s
    leasts: Int64s


@runtime_checkable
class Outlined(Protocol):
    """A source that may know its pieces beforehand."""

    def outline(self, column: str) -> Outline | None:
        """Return the pieces and their least ticks of an attribute; None where that is not known."""
        ...

    def open_watched(self, columns: Sequence[str], batch_rows: int, watches: Mapping[str, Watch]) -> Reader:
        """Open for these columns, showing whole pieces of some of them to whoever watches."""
        ...
