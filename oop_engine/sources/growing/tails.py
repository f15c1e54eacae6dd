"""The reading of one file that may grow: it gives what is new, and can be taken up by another run."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.errors import TableError
from oop_engine.sources.growing.damaged_lines import Damage, readable
from oop_engine.sources.positions import Placing, Plain
from oop_engine.sources.protocol import Snapshot, Source
from oop_engine.sources.tables import Table
from oop_engine.sources.text import PIECE, last_line_end
from operators.data.page import Page
from operators.data.saved import part, prefixed
from operators.protocol import State, StateValue
from punctuation import Punctuation

SETTLED: Final = 1.0
"""Seconds for which a file is unchanged that is read as a whole, where its end does not say that it is complete."""
PATIENCE: Final = 60.0
"""Seconds after which an unchanged file that cannot be read is taken to be damaged, and no more to be written."""
_SMALLEST: Final = 28
"""Bytes of the header of a capture, at most."""
PACKED: Final = (".gz", ".zst", ".zstd")
_ENDS: Final = {".parquet": b"PAR1", ".pq": b"PAR1", ".arrow": b"ARROW1", ".feather": b"ARROW1", ".ipc": b"ARROW1"}
Reopened: TypeAlias = Callable[[bytes, Path, int], Table]


@attrs.frozen
class Seen:
    """A file as a look found it."""

    path: Path
    size: int
    unchanged: float
    """Seconds since it was seen to change."""
    last: bool
    """Whether no newer file is there."""


class Tail(Protocol):
    """One reading of one file."""

    def batches(self, seen: Seen) -> Iterator[pa.RecordBatch]:
        """Yield what is new; between two batches the reading can be saved."""
        ...

    def unread(self, size: int) -> int:
        """Return how many of so many bytes were not read."""
        ...

    def anew(self) -> None:
        """Read the file from its start: it was replaced or cut."""
        ...

    def position(self) -> Plain: ...

    def state(self) -> State: ...

    def restore(self, position: Plain, state: Mapping[str, StateValue]) -> None: ...

    def left_out(self) -> int:
        """Return how many lines, or rests of files, were damaged and left out."""
        ...

    def notes(self, *, last: bool) -> list[str]:
        """Say what was found; of the `last` file only what will stay as it is, however much is written to it."""
        ...


@attrs.define(eq=False)
class LineTail:
    """Lines, read as soon as they are whole; the last one without an end when nobody will write on."""

    reopened: Reopened
    """Gives a table of some lines of a file, the first of which has this number."""
    csv: bool
    skips: bool = False
    """Whether lines that cannot be read are left out, and end no run."""
    byte: int = 0
    line: int = 1
    header: bytes = b""
    """The line of CSV that names the columns."""
    _cut: int = attrs.field(init=False, default=0)
    """Lines without an end that could not be read."""
    _damage: Damage = attrs.field(init=False, factory=Damage)

    def batches(self, seen: Seen) -> Iterator[pa.RecordBatch]:
        while self.byte < seen.size:
            lines = self._lines(seen.path, seen.size)
            ends = not lines and not seen.last and seen.unchanged > PATIENCE
            if ends:
                with open(seen.path, "rb") as file:
                    file.seek(self.byte)
                    lines = file.read()
            if not lines:
                return
            try:
                batch = self._read(lines, seen.path)
            except TableError:
                if not ends:
                    raise
                batch, self._cut = None, self._cut + 1
            self.byte += len(lines)
            self.line += lines.count(b"\n")
            if batch is not None:
                yield batch

    def _lines(self, path: Path, size: int) -> bytes:
        """Return the next whole lines, some megabytes at most if lines are no longer."""
        most = PIECE
        while True:
            with open(path, "rb") as file:
                file.seek(self.byte)
                held = bytearray(file.read(min(most, size - self.byte)))
            cut = last_line_end(held, quotes=self.csv)
            if not cut and self.skips and self.csv and len(held) >= PIECE:
                # The quote that is open holds too much for a text: it is damage, and its line ends where it ends.
                cut = held.find(b"\n") + 1
            if cut or len(held) < most:
                return bytes(held[:cut])
            most *= 2

    def _read(self, lines: bytes, path: Path) -> pa.RecordBatch | None:
        line = self.line
        if self.csv and self.byte == 0 and not self.header:
            self.header = _first_line(lines)
        if self.csv and self.byte == 0 and lines.startswith(self.header):
            # Whoever cuts a log that another program appends to leaves no header.
            line, lines = line + self.header.count(b"\n"), lines[len(self.header) :]

        def read(lines: bytes, line: int) -> pa.RecordBatch | None:
            before = self.header.count(b"\n")
            batches = list(self.reopened(self.header + lines, path, line - before).batches())
            if not batches:
                return None
            (found,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
            return found

        if self.skips:
            return readable(lines, line, read, self._damage, quotes=self.csv)
        return read(lines, line)

    def unread(self, size: int) -> int:
        return max(0, size - self.byte)

    def anew(self) -> None:
        self.byte, self.line, self._damage = 0, 1, Damage()

    def position(self) -> Plain:
        place = {"byte": self.byte, "line": self.line, "header": self.header.decode("latin-1")}
        return {**place, "damaged": self._damage.lines, "damage": self._damage.first}

    def state(self) -> State:
        return {}

    def restore(self, position: Plain, state: Mapping[str, StateValue]) -> None:
        byte, line, header = position["byte"], position["line"], position["header"]
        # Older checkpoints know of no damage.
        damaged, damage = position.get("damaged", 0), position.get("damage", "")
        assert isinstance(byte, int) and isinstance(line, int) and isinstance(header, str)
        assert isinstance(damaged, int) and isinstance(damage, str)
        self.byte, self.line, self.header = byte, line, header.encode("latin-1")
        self._damage = Damage(damaged, damage)

    def left_out(self) -> int:
        return self._damage.lines

    def notes(self, *, last: bool) -> list[str]:
        cut = ["its last line is cut, and was left out"] if self._cut and not last else []
        return [*self._damage.notes(), *cut]


def _first_line(lines: bytes) -> bytes:
    """Return the first line, in which a line end may stand between quotes."""
    at = 0
    while (end := lines.find(b"\n", at)) >= 0:
        if lines.count(b'"', 0, end) % 2 == 0:
            return lines[: end + 1]
        at = end + 1
    return lines + b"\n"


@runtime_checkable
class Remembering(Protocol):
    """A reader of files that say something of one another, as the templates of flow exports do."""

    def known(self) -> State:
        """Return what is known now."""
        ...

    def take_up(self, state: Mapping[str, StateValue]) -> None:
        """Know it from the start."""
        ...


@attrs.define(eq=False)
class Carried:
    """Keep what was known at the end of the file that was read last."""

    latest: State = attrs.field(factory=dict)


@attrs.define(eq=False)
class SourceTail:
    """A file that a source of its own reads: read on from the last place where that source can begin."""

    made: Callable[[Path], Source]
    columns: Sequence[str]
    batch_rows: int
    whole: bool
    """Whether the file is read when it is complete, and not before."""
    carried: Carried | None = None
    skips: bool = False
    """Whether the rest of a file that cannot be read is left out, and ends no run."""
    _placing: Placing = attrs.field(init=False, factory=lambda: Placing(""))
    _begun: State = attrs.field(init=False, factory=dict)
    """What was known when this file began."""
    _taken: int = attrs.field(init=False, default=0)
    """Bytes of the file when it was read last."""
    _notes: list[str] = attrs.field(init=False, factory=list)
    _damage: str = attrs.field(init=False, default="")
    """Why its rest was left out."""

    def batches(self, seen: Seen) -> Iterator[pa.RecordBatch]:
        if seen.size == self._taken or not self._ready(seen):
            return
        placing = self._placing
        placing.name = str(seen.path)
        if self.carried is not None and not self._taken and not self._begun and not placing.tuples:
            self._begun = self.carried.latest
        try:
            reader = self.made(seen.path).open(self.columns, self.batch_rows)
            if self._begun and isinstance(reader, Remembering):
                reader.take_up(self._begun)
            for chunk in placing.chunks(reader):
                if isinstance(chunk, Punctuation | Snapshot | Page):
                    continue
                placing.took(chunk)
                if len(chunk):
                    yield chunk
        except (TableError, DecodeError) as error:
            if self.whole and seen.unchanged <= PATIENCE:
                return
            if not self.skips or isinstance(error.__cause__, MemoryError):
                raise
            self._taken, self._damage = seen.size, str(error).partition("\n")[0]
            return
        self._taken, self._notes, self._damage = seen.size, reader.notes(), ""
        if self.carried is not None and isinstance(reader, Remembering):
            self.carried.latest = reader.known()

    def _ready(self, seen: Seen) -> bool:
        if not self.whole:
            return seen.size >= _SMALLEST
        if (mark := _ENDS.get(seen.path.suffix.lower())) is not None and seen.size > len(mark):
            with open(seen.path, "rb") as file:
                file.seek(-len(mark), io.SEEK_END)
                if file.read() == mark:
                    return True
        return seen.unchanged >= SETTLED

    def unread(self, size: int) -> int:
        return max(0, size - self._taken)

    def anew(self) -> None:
        self._placing, self._taken, self._begun, self._damage = Placing(""), 0, {}, ""

    def position(self) -> Plain:
        return {"taken": self._taken, "damage": self._damage, **self._placing.position()}

    def state(self) -> State:
        return prefixed("begun ", self._begun) | prefixed("mark ", dict(self._placing.state or {}))

    def restore(self, position: Plain, state: Mapping[str, StateValue]) -> None:
        # Older checkpoints know of no damage.
        taken, self._damage = position["taken"], str(position.get("damage", ""))
        assert isinstance(taken, int)
        self._taken, self._placing, self._begun = taken, Placing.of("", position), dict(part("begun ", state))
        if marked := part("mark ", state):
            self._placing.state = marked

    def left_out(self) -> int:
        return int(bool(self._damage))

    def notes(self, *, last: bool) -> list[str]:
        damage = [f"its rest could not be read, and was left out: {self._damage}"] if self._damage else []
        return [*damage, *([] if last else self._notes)]
