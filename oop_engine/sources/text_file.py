"""One reading of a file of lines, CSV, TSV or NDJSON, piece by piece."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from oop_engine.sources.capture.compression import Plain, unpack
from oop_engine.sources.columns import Types
from oop_engine.sources.delimited import Delimited
from oop_engine.sources.inputs import Input, Unit
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.lines import Lines, is_text, untyped
from oop_engine.sources.objects import Objects
from oop_engine.sources.text import Piece, pieces
from oop_engine.sources.text_form import TextForm, times_or_null

LOOK: Final = 64 << 20
"""Bytes of files that are looked at for the types of columns that had no value in the first lines."""
_HOLD: Final = 16 << 20
"""Bytes that are held of a stream for the same purpose, since it gives them once."""
_PATIENCE: Final = 1.0
"""Seconds for which tuples of a stream are held back for it, at most."""
_PAUSE: Final = 0.2
"""Seconds without bytes after which a stream is taken to have no more for now."""


class TextFile:
    """One reading of a file or stream of lines.

    `settled` are the columns that other files have decided, `form` is how the lines are written. Reading ahead for
    types uses a file up, so that it is opened again to be read; of a stream it holds what it has read.
    """

    def __init__(self, given: Input, types: Types, settled: pa.Schema | None, form: TextForm) -> None:
        self._name = given.name
        self._given = given
        self.unit: Unit = None
        self._file = given.open()
        self._plain = Plain(self._file, again=given.stream is None)
        self._owned = given.stream is None
        self._held: deque[Piece] = deque()
        try:
            self._source = form.utf8(unpack(self._plain))
            self._pieces = pieces(self._source, quotes=given.format != "ndjson")
            # The first piece of a live stream may be late in coming, but without it nobody knows the columns.
            head = next(self._pieces, Piece(1, b""))
            while given.format == "ndjson" and not head.data.strip() and (more := next(self._pieces, None)):
                head = more
            self._held.append(head)
            self.lines: Lines = _lines_of(head.data, given.format, types, settled, form)
            self.names_columns = given.format != "ndjson" or bool(head.data.strip())
            """Whether the file has a line that says which columns there are."""
            self.has_tuples = self.lines.holds(head)
            """Whether a tuple was seen."""
        except BaseException:
            self.close()
            raise

    @property
    def file_schema(self) -> pa.Schema:
        return self.lines.schema

    @property
    def held(self) -> int:
        """Return how many bytes were read ahead."""
        return sum(len(piece.data) for piece in self._held)

    def settle(self, columns: pa.Schema) -> None:
        """Read the columns that were decided, each as its type."""
        kinds = {field.name: field.type for field in columns}
        self.lines = self.lines.settled(columns) if isinstance(self.lines, Objects) else self.lines.typed(kinds)

    def written_as(self, format: str) -> tuple[str, ...]:
        """Name the columns of text that are times of a format all over, as far as the first lines show."""
        texts = [field.name for field in self.lines.schema if is_text(field.type)]
        if not texts or not self._held or not self.lines.holds(self._held[0]):
            return ()
        table = self.lines.parse(self._held[0], texts)
        return tuple(name for name in texts if _is_written(table.column(name), format))

    def look(self, columns: Sequence[str], room: int) -> tuple[Mapping[str, pa.DataType], int]:
        """Read on for the types of columns without one; give what was found, and the bytes it took."""
        found: dict[str, pa.DataType] = {}
        used, held, until = 0, not self._owned, time.monotonic() + _PATIENCE
        known = frozenset(self.lines.schema.names)
        waiting = [name for name in columns if name in known]
        while waiting and used < (_HOLD if held else room):
            # Where there is no tuple yet, nobody waits for one either.
            if held and self.has_tuples and not (time.monotonic() < until and self._at_hand()):
                break
            if (piece := next(self._pieces, None)) is None:
                break
            if held:
                self._held.append(piece)
            used += len(piece.data)
            self.has_tuples |= self.lines.holds(piece)
            found.update(self.lines.look(piece, waiting))
            waiting = [name for name in waiting if name not in found]
        return found, used

    def _at_hand(self) -> bool:
        """Return whether a stream has more bytes, or will within a moment, as one that another program writes."""
        if self._source.ready():
            return True
        try:
            return bool(select.select([self._file.fileno()], [], [], _PAUSE)[0])
        except (OSError, ValueError, AttributeError):  # no descriptor to wait for
            return False

    def batches(self, columns: list[str], batch_rows: int, left_out: LeftOut | None = None) -> Iterator[pa.RecordBatch]:
        """Read the wanted columns, and count what NDJSON has besides."""
        if left_out is not None and isinstance(self.lines, Objects):
            left_out.known(self.lines.schema.names)
        else:
            left_out = None
        wanted = frozenset(columns)
        while (piece := self._held.popleft() if self._held else next(self._pieces, None)) is not None:
            if self._owned and self._source is self._plain:
                self.unit = {"byte": piece.at, "line": piece.line}
            table = self.lines.parse(piece, columns)
            if left_out is not None and isinstance(self.lines, Objects) and self.lines.paths is not None:
                left_out.look_into(piece, self.lines.others(piece), self._name)
            elif left_out is not None:
                left_out.look(piece, self._name)
            if without := [name for name in untyped(self.lines.schema) if name in wanted]:
                # The first value was text, as what had none is taken to be.
                self.lines = self.lines.typed({name: table.schema.field(name).type for name in without})
            yield from table.to_batches(max_chunksize=batch_rows)

    def seek(self, unit: Mapping[str, int]) -> None:
        """Read on from a line; the columns stay those that the head of the file has decided."""
        self._file.close()
        self._file = self._given.open()
        self._file.seek(unit["byte"])
        self._source = self._plain = Plain(self._file, again=True, taken=unit["byte"])
        quotes = self._given.format != "ndjson"
        self._pieces = pieces(self._plain, quotes=quotes, line=unit["line"], at=unit["byte"])
        self._held.clear()

    def position(self) -> int:
        return self._plain.taken

    def close(self) -> None:
        if self._owned:
            self._file.close()


def _is_written(column: pa.ChunkedArray, format: str) -> bool:
    known = column.drop_null().combine_chunks()
    return len(known) > 0 and times_or_null(known.cast(pa.string()), format).null_count == 0


def _lines_of(first: bytes, format: str, types: Types, settled: pa.Schema | None, form: TextForm) -> Lines:
    """Say how a file's lines are read: CSV in its own order of columns, with the types that were decided."""
    if format == "ndjson":
        return Objects.of(first, types, flatten=form.flatten, settled=settled)
    lines = Delimited.of(first, types, form.delimiter or ("\t" if format == "tsv" else ","), form.decimal or ".")
    return lines if settled is None else lines.typed({field.name: field.type for field in settled})
