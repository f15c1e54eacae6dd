"""Mark the end of a stream by a row of its own, behind all others, which a plan takes as END.

Asked for by the option `complete` of a streaming reader: what is available now is all there will ever be. The reader
then has a further column `_end`, null but in that one row, where it alone is true; its last offset has a mark of its
own, so Spark reads the row in one micro-batch and, after a crash, in the same again. A stream that has ended does not
go on: new files under its checkpoint are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sources.errors import SourceError
from oop_engine.spark.options import Options

MARK: Final = "_end"
"""The column that is true in the row that is the end."""
COMPLETE: Final = "complete"
_ENDED: Final = "end"

Offset = Mapping[str, int]


@attrs.frozen
class AtEnd:
    """A partition that is the end marker and nothing else."""


@attrs.frozen
class EndOfStream:
    """The end of a streaming reader, if it was asked to declare it."""

    format: str
    asked: bool

    @classmethod
    def of(cls, options: Options) -> EndOfStream:
        """Read the option."""
        return cls(options.format, options.flag(COMPLETE))

    def check_streaming(self) -> None:
        """Raise SourceError when it was asked of what is read at once."""
        if self.asked:
            raise SourceError(
                f"{self.format}: {COMPLETE} is for spark.readStream; what spark.read reads always ends. Leave it out."
            )

    def arrow(self, arrow: pa.Schema) -> pa.Schema:
        """Return the columns of a reader, with that of the mark."""
        return arrow.append(pa.field(MARK, pa.bool_())) if self.asked else arrow

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return batches of rows none of which is the end."""
        return map(_unmarked, batches) if self.asked else batches

    def mark(self, arrow: pa.Schema) -> pa.RecordBatch:
        """Return the row that is the end."""
        nothing = [pa.nulls(1, field.type) for field in arrow]
        return pa.RecordBatch.from_arrays([*nothing, pa.array([True])], schema=self.arrow(arrow))

    def after(
        self, start: Offset, onward: Callable[[Offset], Offset], more: Callable[[Offset], bool], *, sure: bool
    ) -> dict[str, int]:
        """Return how far a micro-batch goes that begins at an offset, and whether that is the end.

        `onward` goes as far as one may; `more` tells whether there is anything behind an offset; `sure` says that
        nothing will come there any more, or that it is not to be read.
        """
        if _ENDED in start:
            if more(start):
                raise SourceError(
                    f"{self.format}: the stream of this checkpoint has ended, and now there is more to read.\n"
                    f"  Give what is new a checkpoint of its own, or leave {COMPLETE} out while more may come."
                )
            return dict(start)
        found = dict(onward(start))
        return {**found, _ENDED: 1} if self.asked and sure and not more(found) else found

    def between(self, start: Offset, end: Offset) -> list[AtEnd]:
        """Return whether the end is between two offsets."""
        if _ENDED not in end or _ENDED in start:
            return []
        if not self.asked:
            raise SourceError(
                f"{self.format}: the last run under this checkpoint was to end the stream, and was cut short.\n"
                f'  Run it again as it was: .option("{COMPLETE}", True).'
            )
        return [AtEnd()]


def _unmarked(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(pa.field(MARK, pa.bool_()), pa.nulls(batch.num_rows, pa.bool_()))
