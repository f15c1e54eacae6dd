"""The streams of growing files of each kind: what their attributes are, and how each of their files is read."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.sources.columns import check_words
from oop_engine.sources.errors import TableError
from oop_engine.sources.files import Files
from oop_engine.sources.growing.damaged_lines import columns_of
from oop_engine.sources.growing.listing import Order
from oop_engine.sources.growing.source import Growing, Tails, first_of
from oop_engine.sources.growing.tails import PACKED, Carried, LineTail, SourceTail, Tail
from oop_engine.sources.inputs import OnError
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.protocol import Source
from oop_engine.sources.tables import Settled, Table
from oop_engine.sources.text import PIECE, last_line_end
from oop_engine.sources.text_form import TextForm

LINES: Final = ("csv", "tsv", "ndjson")
WHOLE: Final = ("parquet", "arrow", "nfdump")
_ROWS: Final = 1 << 22


@attrs.frozen
class GrowingTables:
    """Tables that grow: lines as they are written, other files when they are complete."""

    format: str
    types: Mapping[str, str | pa.DataType] | None
    strict: bool
    form: TextForm
    on_error: OnError = "stop"

    @property
    def _skips(self) -> bool:
        return self.on_error == "skip"

    def growing(self, places: Sequence[Path], order: Order, label: str, before: Settled | None = None) -> Growing:
        """Return the stream; waits for the first file, which says what columns there are.

        A run that goes on takes those that were found `before`.
        """
        if self.form.recodes and codecs.lookup(str(self.form.encoding)).name.startswith(("utf-16", "utf-32")):
            raise PlanError(
                f'encoding="{self.form.encoding}": a file that grows is read line by line, and lines of this encoding'
                " end in several bytes.\n  Have the program that writes it write UTF-8."
            )
        if before is not None:
            check_words(self.types or {}, label or str(places[0]))
            schema = before.streamed(self.types or {}, self.form)
            return Growing(tuple(places), schema, lambda *given: self._tails(before, *given), order, label, before)
        opened: list[tuple[pa.Schema, Settled]] = []

        def usable(path: Path) -> bool:
            try:
                if (found := self._columns(path)) is not None:
                    opened.append(found)
            except TableError:
                # A file that is read as a whole may be written still.
                if self.format in LINES and path.suffix.lower() not in PACKED and not self._skips:
                    raise
            return bool(opened)

        example = f', or write the first line, with the names of columns, to "{places[0]}"'
        first_of(places, order, usable, example if self.format in LINES else "")
        schema, settled = opened[0]
        if self._skips:
            # A column that had no value is of text, as the stream has it: what lines come together says nothing of it.
            settled = settled.taking(dict.fromkeys(settled.untyped, pa.string()))
        return Growing(tuple(places), schema, lambda *given: self._tails(settled, *given), order, label, settled)

    def _columns(self, path: Path) -> tuple[pa.Schema, Settled] | None:
        """Return the columns of a file and what was found out about them; None where no line is whole as yet."""
        if self.format not in LINES or path.suffix.lower() in PACKED:
            file = self._file(path, None)
            return None if file.settled is None else (file.arrow, file.settled)
        with path.open("rb") as file:
            held = bytearray(file.read(PIECE))
        lines = bytes(held[: last_line_end(held, quotes=self.format != "ndjson")])
        if not lines.strip():
            return None

        def table(lines: bytes) -> Table:
            return Table(named(lines, str(path)), format=self.format, types=self.types, form=self.form)

        made = columns_of(lines, table, quotes=self.format != "ndjson") if self._skips else table(lines)
        return None if made is None else (made.schema, made.settled)

    def _file(self, path: Path, settled: Settled | None) -> Files:
        return Files(str(path), path, self.format, self.types, self.strict, settled=settled, form=self.form)

    def _tails(self, settled: Settled, columns: Sequence[str], batch_rows: int) -> Tails:
        left_out = LeftOut(self.strict)

        def reopened(lines: bytes, path: Path, line: int) -> Table:
            name = str(path) if line <= 1 else f"{path} behind line {line - 1:,}"
            return Table(
                named(lines, name), format=self.format, columns=columns, batch_rows=_ROWS, types=self.types,
                strict=self.strict, settled=settled, form=self.form, left_out=left_out,
            )  # fmt: skip

        def made(path: Path) -> Tail:
            if self.format in LINES and path.suffix.lower() not in PACKED:
                return LineTail(reopened, self.format != "ndjson", self._skips)
            return SourceTail(
                lambda path: self._file(path, settled), columns, batch_rows, whole=True, skips=self._skips
            )

        return Tails(made, left_out.notes)


class _Named(io.BytesIO):
    """Bytes with the name that messages give them."""

    name: str


def named(data: bytes, name: str) -> io.BytesIO:
    """Return bytes as a stream that messages call by a name."""
    stream = _Named(data)
    stream.name = name
    return stream


def growing(
    made: Callable[[Sequence[Path]], Source], kind: str, places: Sequence[Path], order: Order, label: str
) -> Growing:
    """Return the stream of growing files that a source reads each by itself; `made` makes that source of its path."""
    opened: list[Source] = []

    def usable(path: Path) -> bool:
        try:
            opened.append(made([path]))
            return bool(opened[-1].arrow)
        except TableError:
            # A part of its first lines is there as yet.
            return False

    def tails(columns: Sequence[str], batch_rows: int) -> Tails:
        carried = Carried() if kind == "netflow" else None
        whole = kind in WHOLE

        def tail(path: Path) -> Tail:
            packed = path.suffix.lower() in PACKED
            return SourceTail(lambda path: made([path]), columns, batch_rows, whole or packed, carried)

        return Tails(tail, list)

    if kind == "zeek":
        first_of(places, order, usable, "")
    source = opened[-1] if opened else made([])
    return Growing(tuple(places), source.arrow, tails, order, label)
