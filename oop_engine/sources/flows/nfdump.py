"""Read files of nfdump by nfdump's pipe format, which has every number as it is, and is its fastest.

Its files change with its versions, its output does not. Times are to the millisecond.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from oop_engine.sources.columns import ticks
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.flows.entries import EARLIEST, LATEST
from oop_engine.sources.flows.schema import FLOW_SCHEMA
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import OfFiles, Reading
from operators.data.page import Int64s
from operators.data.schema import IP_TYPE

_NAMES: Final = (
    "ts", "end_ts", "srcIP", "destIP", "srcPort", "destPort", "proto", "bytes", "packets", "flags", "tos", "in_if",
    "out_if", "src_as", "dest_as",
)  # fmt: skip
NFDUMP_SCHEMA: Final = pa.schema([FLOW_SCHEMA.field(name) for name in _NAMES])

_ADDRESSES: Final = {"srcIP": "source", "destIP": "target"}
_PIPE: Final = (
    "family", "ts", "end_ts", "proto", *(f"source{k}" for k in range(4)), "srcPort",
    *(f"target{k}" for k in range(4)), "destPort", "src_as", "dest_as", "in_if", "out_if", "flags", "tos", "packets",
    "bytes",
)  # fmt: skip
_OLD_PIPE: Final = ("family", "ts", "ts_ms", "end_ts", "end_ts_ms", *_PIPE[3:])
"""Before version 1.7 seconds and milliseconds are two fields."""
_PIECE: Final = 4 << 20
_IPV4: Final = 2
_NOTHING: Final = b"No matching flows\n"


def find_nfdump() -> str:
    """Return where nfdump is installed; SourceError when it is not."""
    found = shutil.which("nfdump")
    if found is None:
        raise SourceError(
            "nfdump is not installed, and its files are read by it.\n"
            "  Install it (Debian: apt install nfdump), or convert the file where it is:\n"
            "  nfdump -r FILE -o csv > flows.csv, then oop.table."
        )
    return found


@attrs.frozen
class NfdumpFiles(OfFiles):
    """The flow records of nfcapd files, in the order of the files and as nfdump prints them."""

    paths: tuple[Path, ...] = attrs.field(converter=tuple)
    label: str = attrs.field(default="", kw_only=True)
    program: str = attrs.field(factory=find_nfdump, kw_only=True)

    @property
    def arrow(self) -> pa.Schema:
        return NFDUMP_SCHEMA

    @property
    def laborious(self) -> bool:
        return True

    def open(self, columns: Sequence[str], batch_rows: int) -> NfdumpReader:
        return NfdumpReader(self.program, self.paths, tuple(columns), batch_rows)

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in NfdumpReader(self.program, self.paths, (column,), 65_536).batches():
            yield ticks(batch, column)


@attrs.define
class NfdumpReader(Reading):
    """One reading of nfcapd files."""

    program: str
    paths: tuple[Path, ...]
    columns: tuple[str, ...]
    batch_rows: int
    _done: int = attrs.field(init=False, default=0)
    _first: int = attrs.field(init=False, default=0)
    """The file that it begins with."""
    _skip: int = attrs.field(init=False, default=0)
    """Records of that file that are passed over."""
    _given: int = attrs.field(init=False, default=0)
    _mark: tuple[Mapping[str, object], int] | None = attrs.field(init=False, default=None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records in batches of at most `batch_rows` rows; TableError for what nfdump cannot read."""
        schema = pa.schema([field for field in NFDUMP_SCHEMA if field.name in self.columns])
        for number, path in enumerate(self.paths):
            if number < self._first:
                continue
            self._mark = {"file": number}, self._given
            line = 1
            for printed in self._printed(path):
                piece, lines = printed, self._passed_over(printed)
                if lines:
                    piece = _behind(printed, lines)
                    self._skip, self._given, line = self._skip - lines, self._given + lines, line + lines
                    if not piece:
                        continue
                batch = _parsed(piece, schema, path, line)
                line += piece.count(b"\n")
                for start in range(0, len(batch), self.batch_rows):
                    part = batch.slice(start, self.batch_rows)
                    self._given += len(part)
                    yield part
            if self._skip:
                raise TableError(f"{path}: it lacks {self._skip:,} records that were read from it before")
            self._done += path.stat().st_size

    def _passed_over(self, printed: bytes) -> int:
        """Return how many lines of a piece are passed over; none is parsed for that."""
        return min(self._skip, printed.count(b"\n")) if self._skip else 0

    def chunks(self) -> Iterator[Chunk]:
        yield from self.batches()

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        """Return the file that is read, and how many records were given before it: nfdump begins at no other place."""
        return self._mark

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        """Begin behind so many records: nfdump prints the file of the mark again, and nobody parses what was taken."""
        number = 0 if mark is None else mark["file"]
        assert isinstance(number, int)
        self._first, self._skip = number, tuples - at
        # The start of the file is before the place where this reading begins.
        self._given = -self._skip
        self._done = sum(path.stat().st_size for path in self.paths[:number])
        return tuples

    def progress(self) -> tuple[int, int | None]:
        return self._done, sum(path.stat().st_size for path in self.paths)

    def _printed(self, path: Path) -> Iterator[bytes]:
        """Run nfdump on a file; give what it prints in pieces that end with a line."""
        command = [self.program, "-q", "-N", "-r", str(path.absolute()), "-o", "pipe"]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "LC_ALL": "C"},
            )
            held, some = b"", False
            try:
                assert process.stdout is not None
                while piece := process.stdout.read(_PIECE):
                    held += piece
                    cut = held.rfind(b"\n") + 1
                    if cut and held[:cut] != _NOTHING:
                        some = True
                        yield held[:cut]
                    held = held[cut:]
                if held:
                    yield held
                code = process.wait()
                said.seek(0)
                why = said.read(2000).decode("utf-8", "replace").strip()
                if code or (why and not some):
                    raise TableError(f"{path}: nfdump cannot read it: {why or f'exit code {code}'}")
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def _behind(piece: bytes, lines: int) -> bytes:
    """Return what is behind so many lines of a piece.

    >>> _behind(b"a\\nb\\nc\\n", 2)
    b'c\\n'
    """
    ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
    return piece[int(ends[lines - 1]) + 1 :]


def _parsed(piece: bytes, schema: pa.Schema, path: Path, line: int) -> pa.RecordBatch:
    """Turn lines of the pipe format into records."""
    first = piece.partition(b"\n")[0]
    fields = first.count(b"|") + 1
    names = {len(_PIPE): _PIPE, len(_OLD_PIPE): _OLD_PIPE}.get(fields)
    if names is None:
        shown = first[:80].decode("ascii", "backslashreplace")
        raise TableError(
            f"{path}: nfdump printed a line of {fields} fields where {len(_PIPE)} are expected: {shown!r}.\n"
            "  Its pipe format is of a version that is not known here; convert by nfdump -o csv, then oop.table."
        )
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(piece),
            read_options=arrow_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(piece) + 1),
            parse_options=arrow_csv.ParseOptions(delimiter="|"),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int64())),
        ).combine_chunks()
    except pa.ArrowInvalid as error:
        raise TableError(f"{path}: at or after line {line} of what nfdump printed: {error}") from error
    arrays = [_column(table, field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.Array:
    if field.name in _ADDRESSES:
        return _addresses(table, _ADDRESSES[field.name])
    values = table.column(field.name).to_numpy()
    if not pa.types.is_timestamp(field.type):
        return pa.array(values).cast(field.type)
    if f"{field.name}_ms" in table.column_names:
        values = values * 1000 + table.column(f"{field.name}_ms").to_numpy()
    known = (values >= EARLIEST // 10**6) & (values < LATEST // 10**6)
    return pa.array(np.where(known, values, 0) * 10**6, mask=~known).view(field.type)


def _addresses(table: pa.Table, which: str) -> pa.Array:
    words = np.stack([table.column(f"{which}{k}").to_numpy() for k in range(4)], axis=1).astype(">u4")
    mapped = table.column("family").to_numpy() == _IPV4
    words[mapped, :2] = 0
    words[mapped, 2] = 0xFFFF
    return pa.Array.from_buffers(IP_TYPE, len(words), [None, pa.py_buffer(words.tobytes())], 0)
