"""Files of rows as a source: CSV, NDJSON, Parquet and Arrow files read as one stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import attrs
import pyarrow as pa

from oop_engine.sources.inputs import TEXTS, OnError
from oop_engine.sources.outline import Outline, Watch
from oop_engine.sources.paths import expand
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import Reading
from oop_engine.sources.tables import Mark, Settled, Table
from oop_engine.sources.text_form import TextForm
from oop_engine.sources.turn import Turn
from operators.data.page import Int64s

Input = str | Path | BinaryIO | Sequence["str | Path"]


@attrs.frozen(eq=False)
class Files:
    """The rows of files, in the order of the files and of the rows in them."""

    label: str
    given: Input = attrs.field(repr=False)
    format: str | None = None
    types: Mapping[str, str | pa.DataType] | None = None
    strict: bool = False
    on_error: OnError = "stop"
    """Whether a file that cannot be read on ends the run, or its rest is left out."""
    form: TextForm = attrs.field(factory=TextForm)
    """The form of lines."""
    settled: Settled | None = attrs.field(default=None, repr=False)
    """What was found out about columns and types, where other files than these decided them."""
    arrow: pa.Schema = attrs.field(init=False, repr=False)
    rewindable: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        table = self._table(None, 8192)
        object.__setattr__(self, "arrow", table.schema)
        object.__setattr__(self, "settled", table.settled)
        object.__setattr__(self, "rewindable", table.rewindable)
        object.__setattr__(self, "_first", None if table.rewindable else table)

    @property
    def waits(self) -> bool:
        """Return whether there is an open stream or a pipe among them, whose writer may take its time."""
        return not self.rewindable

    @property
    def paths(self) -> tuple[Path | BinaryIO, ...]:
        """Return the files, patterns expanded, and open streams."""
        if isinstance(self.given, (str, Path)):
            return tuple(expand(self.given))
        if isinstance(self.given, Sequence):
            return tuple(path for place in self.given for path in expand(place))
        return (self.given,)

    _first: Table | None = attrs.field(init=False, default=None, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    @property
    def name(self) -> str:
        return self.label

    @property
    def promised(self) -> tuple[str, ...]:
        return ()

    @property
    def laborious(self) -> bool:
        return self.settled is not None and self.settled.format in TEXTS

    def _table(self, columns: Sequence[str] | None, batch_rows: int) -> Table:
        return Table(
            self.given,
            format=self.format,
            columns=columns,
            types=self.types,
            batch_rows=batch_rows,
            strict=self.strict,
            skips=self.on_error == "skip",
            settled=self.settled,
            form=self.form,
        )

    def open(self, columns: Sequence[str], batch_rows: int) -> FileReader:
        # What can be read only once was opened to learn its schema; that opening is the reading.
        if self._first is not None:
            self._turn.take(self.name)
            return FileReader(self._first, tuple(columns))
        return FileReader(self._table(columns, batch_rows), tuple(columns))

    def outline(self, column: str) -> Outline | None:
        """Return the row groups of Parquet files and the least tick in each; None where these are not known."""
        return None if self._first is not None else self._table((column,), 8192).outline(column)

    def open_watched(self, columns: Sequence[str], batch_rows: int, watches: Mapping[str, Watch]) -> FileReader:
        return FileReader(self._table(columns, batch_rows), tuple(columns), watches)

    def values(self, column: str) -> Iterator[Int64s]:
        return self._table((column,), 1 << 17).values(column)


@attrs.define
class FileReader(Reading):
    """One reading of files."""

    table: Table
    columns: tuple[str, ...]
    watches: Mapping[str, Watch] = attrs.field(factory=dict)

    def chunks(self) -> Iterator[Chunk]:
        for batch in self.table.batches(self.watches):
            yield batch if tuple(batch.schema.names) == self.columns else batch.select(list(self.columns))

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        return self.table.mark

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        if mark is None:
            return 0
        self.table.seek(cast(Mark, mark))
        return at

    def progress(self) -> tuple[int, int | None]:
        return self.table.position, self.table.size

    def notes(self) -> list[str]:
        return self.table.notes()
