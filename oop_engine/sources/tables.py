"""Files of rows become Arrow record batches: CSV, TSV, NDJSON, Parquet, Arrow IPC, one or many, packed or not.

    table = Table("flows/*.csv.gz", columns=["ts", "srcIP"], types={"srcIP": "ip"})
    table.schema                            attributes of the stream, known before the first batch
    for batch in table.batches(): ...       at most batch_rows tuples each, in the order of the files' names
    for ticks in table.values("ts"): ...    one attribute alone as int64, for a pass that collects the low-watermark

Text with ISO 8601 times becomes timestamp(ns, UTC); times without a zone are UTC; other times keep their unit.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from oop_engine.sources.capture.compression import PackedDamage, Pieces, Plain, unpack
from oop_engine.sources.columns import Types, check_columns, check_words, convert, stream_schema, ticks
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.paths import STDIN, expand, standard_input
from oop_engine.sources.text import Delimited, Lines, Objects, Piece, pieces
from operators.errors import SchemaError, did_you_mean
from operators.page import Int64s
from operators.schema import is_ip

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
}
FORMATS = ("csv", "tsv", "ndjson", "parquet", "arrow")
_PACKED = (".gz", ".zst", ".zstd")
_GROUP_ROWS = 1 << 22
"""Larger row groups are not decoded as a whole."""


class Table:
    """One stream of rows read from files, standard input (`-`) or a binary stream.

    `source`: a path, a pattern, several of them, or an open binary stream, read once. `format`: one of FORMATS; by
    default the suffix tells. `columns`: only these are read, in the order of the file. `types`: words or Arrow types
    that overrule what the file says, see `oop_engine.sources.columns`. Raises SourceError when there is no such file or
    format, SchemaError for a column that is not there, TableError for content that cannot be read.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO | Sequence[str | Path],
        *,
        format: str | None = None,
        columns: Sequence[str] | None = None,
        batch_rows: int = 65_536,
        types: Types | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise SourceError(f'"{format}" is no format of tables; known are {", ".join(FORMATS)}.')
        if batch_rows < 1:
            raise SourceError(f"batch_rows = {batch_rows}: a batch has at least one row")
        self.batch_rows = batch_rows
        self._types: Types = dict(types or {})
        self._inputs = _inputs(source, format)
        self.rewindable = all(i.stream is None for i in self._inputs)
        self.columnar = self.rewindable and all(i.format == "parquet" for i in self._inputs)
        name = self._inputs[0].name
        check_words(self._types, name)
        self._first = self._open(self._inputs[0])
        try:
            check_columns(self._types, self._first.file_schema, name)
            whole = stream_schema(self._first.file_schema, self._types)
            self.schema: pa.Schema = _pruned(whole, columns, name)
        except SchemaError:
            self._first.close()
            raise
        if self.rewindable:
            self._first.close()
        sizes = [i.size() for i in self._inputs]
        self.size: int | None = None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)
        self._done = 0
        self._reading: _Opened | None = None
        self._begun = False

    @property
    def position(self) -> int:
        """Give how many bytes of the sources the current reading has used, as they lie on disk."""
        return self._done + (self._reading.position() if self._reading is not None else 0)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read all rows from the beginning, in batches of at most `batch_rows`; a stream can be read once only."""
        yield from self._read(self.schema)

    def values(self, column: str) -> Iterator[Int64s]:
        """Read one attribute alone: int64 ticks in arrival order, NO_TIME where it is null."""
        wanted = _pruned(self.schema, [column], self._inputs[0].name)
        for batch in self._read(wanted):
            yield ticks(batch, column)

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._begun and not self.rewindable:
            raise SourceError(f"{self._inputs[0].name} is a stream: it cannot be read a second time")
        self._begun = True
        self._done = 0
        for number, given in enumerate(self._inputs):
            opened = self._first if number == 0 and not self.rewindable else self._open(given)
            self._reading = opened
            try:
                yield from self._read_one(opened, schema, given.name)
            except (pa.ArrowInvalid, PackedDamage) as error:
                raise TableError(f"{given.name}: {error}") from error
            except OSError as error:
                raise TableError(f"{given.name}: damaged or cut ({error})") from error
            except TableError as error:
                raise TableError(f"{given.name}: {error}") from error
            finally:
                self._done += opened.position()
                self._reading = None
                opened.close()

    def _read_one(self, opened: _Opened, schema: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
        for column in schema.names:
            if column not in opened.file_schema.names:
                raise SchemaError(
                    f'{name}: there is no column "{column}", which {self._inputs[0].name} has.\n'
                    f"  {did_you_mean(column, opened.file_schema.names)}"
                )
        for batch in opened.batches(schema.names, self.batch_rows):
            arrays = [self._column(batch, field, name) for field in schema]
            whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
            for start in range(0, len(whole), self.batch_rows):
                yield whole.slice(start, self.batch_rows)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, name: str) -> pa.Array:
        array = batch.column(field.name)
        word = self._types.get(field.name)
        try:
            return convert(array, field, word)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            wanted = f'"{word}"' if word is not None else f"{field.type}, as in {self._inputs[0].name}"
            raise TableError(f'column "{field.name}" ({array.type}) cannot be read as {wanted}: {error}') from error

    def _open(self, given: _Input) -> _Opened:
        try:
            if given.format == "parquet":
                return _Parquet(given)
            if given.format == "arrow":
                return _Arrow(given)
            # All files have the types that the first lines of the first decided.
            first = getattr(self, "_first", None)
            return _Text(given, self._types, first.lines if isinstance(first, _Text) else None)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, PackedDamage, TableError) as error:
            raise TableError(f"{given.name}: {error}") from error


@attrs.frozen
class _Input:
    """One file or stream and its format."""

    name: str
    format: str
    path: Path | None = None
    stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        return self.stream if self.stream is not None else open(str(self.path), "rb", buffering=0)

    def size(self) -> int | None:
        return self.path.stat().st_size if self.path is not None else None


class _Opened(Protocol):
    """One reading of one file."""

    @property
    def file_schema(self) -> pa.Schema: ...

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]: ...

    def position(self) -> int: ...

    def close(self) -> None: ...


class _Text:
    def __init__(self, given: _Input, types: Types, known: Lines | None) -> None:
        self._file = given.open()
        self._plain = Plain(self._file, again=given.stream is None)
        self._owned = given.stream is None
        try:
            self._pieces = pieces(unpack(self._plain), quotes=given.format != "ndjson")
            # The first piece of a live stream may be late in coming, but without it nobody knows the columns.
            self._head = next(self._pieces, Piece(1, b""))
            self.lines = _lines_of(self._head.data, given.format, types, known)
        except BaseException:
            self.close()
            raise

    @property
    def file_schema(self) -> pa.Schema:
        return self.lines.schema

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        piece: Piece | None = self._head
        while piece is not None:
            yield from self.lines.parse(piece, columns).to_batches(max_chunksize=batch_rows)
            piece = next(self._pieces, None)

    def position(self) -> int:
        return self._plain.taken

    def close(self) -> None:
        if self._owned:
            self._file.close()


def _lines_of(first: bytes, format: str, types: Types, known: Lines | None) -> Lines:
    """Say how a file's lines are read; `known` is how the first file of several was, whose types hold for all."""
    if format == "ndjson":
        return known if isinstance(known, Objects) else Objects.of(first, types)
    lines = Delimited.of(first, types, "\t" if format == "tsv" else ",")
    if not isinstance(known, Delimited):
        return lines
    # This file's own order of columns, with the types of the first file.
    kinds = {f.name: f.type for f in known.schema}
    return Delimited(pa.schema([pa.field(f.name, kinds.get(f.name, f.type)) for f in lines.schema]), known.delimiter)


class _Parquet:
    def __init__(self, given: _Input) -> None:
        # A stream cannot be read from its end, where Parquet keeps its table of contents.
        whole = io.BytesIO(given.stream.read()) if given.stream is not None else str(given.path)
        schema = pq.read_schema(whole)
        # Addresses written as text are parsed once a distinct one.
        texts = [f.name for f in schema if is_ip(f) and pa.types.is_string(f.type)]
        self._file = pq.ParquetFile(whole, page_checksum_verification=True, read_dictionary=texts)
        self._path = given.path if given.stream is None and not texts else None
        self._size = given.size() or 0
        self._read = 0

    @property
    def file_schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        groups = self._file.metadata.num_row_groups
        # Arrow decodes columns side by side; a single one is decoded row group by row group, two at a time.
        if len(columns) == 1 and self._path is not None and groups > 1 and self._largest() <= _GROUP_ROWS:
            found = self._groups(self._path, columns, groups)
        else:
            found = self._file.iter_batches(batch_rows, columns=columns, use_threads=True)
        for batch in found:
            self._read += len(batch)
            yield batch

    def _groups(self, path: Path, columns: list[str], groups: int) -> Iterator[pa.RecordBatch]:
        def decode(number: int) -> pa.Table:
            with pq.ParquetFile(str(path), page_checksum_verification=True) as file:
                return file.read_row_group(number, columns=columns)

        with ThreadPoolExecutor(2) as pool:
            waiting = deque(pool.submit(decode, number) for number in range(min(2, groups)))
            for number in range(groups):
                table = waiting.popleft().result()
                if number + 2 < groups:
                    waiting.append(pool.submit(decode, number + 2))
                yield from table.combine_chunks().to_batches()

    def _largest(self) -> int:
        metadata = self._file.metadata
        return max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))

    def position(self) -> int:
        rows = self._file.metadata.num_rows
        return self._size * self._read // rows if rows else self._size

    def close(self) -> None:
        self._file.close()


class _Arrow:
    """Arrow IPC, the file form or the stream form: the first bytes tell."""

    def __init__(self, given: _Input) -> None:
        self._file = given.open()
        self._owned = given.stream is None
        self._plain = Plain(self._file)
        self._memory: pa.NativeFile | None = None
        try:
            self._reader = self._open(_Whole(unpack(self._plain)), given.path)
        except BaseException:
            self.close()
            raise
        self._size = given.size() or 0
        self._share = 0.0

    def _open(self, whole: _Whole, path: Path | None) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        if whole.peek(6) != b"ARROW1":
            return pa.ipc.open_stream(pa.PythonFile(whole, mode="r"))
        if path is None or not isinstance(whole.source, Plain):
            return pa.ipc.open_file(pa.BufferReader(whole.read(-1)))
        self._memory = pa.memory_map(str(path))
        return pa.ipc.open_file(self._memory)

    @property
    def file_schema(self) -> pa.Schema:
        return self._reader.schema

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if isinstance(self._reader, pa.RecordBatchFileReader):
            count = self._reader.num_record_batches
            for number in range(count):
                self._share = (number + 1) / count
                yield self._reader.get_batch(number).select(columns)
        else:
            for batch in self._reader:
                yield batch.select(columns)

    def position(self) -> int:
        return self._plain.taken if self._memory is None else int(self._size * self._share)

    def close(self) -> None:
        if self._owned:
            self._file.close()
        if self._memory is not None:
            self._memory.close()


@attrs.define
class _Whole:
    """Bytes in the form that Arrow asks for: all that it wants (-1: everything), unless they end."""

    source: Pieces
    closed: bool = attrs.field(default=False, init=False)
    _ahead: bytes = attrs.field(default=b"", init=False)

    def peek(self, count: int) -> bytes:
        self._ahead = self.read(count)
        return self._ahead

    def read(self, most: int) -> bytes:
        held = bytearray(self._ahead[: most if most >= 0 else None])
        self._ahead = self._ahead[len(held) :]
        while len(held) < most or most < 0:
            piece = self.source.read(most - len(held) if most >= 0 else 1 << 20)
            if not piece:
                break
            held += piece
        return bytes(held)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _inputs(source: str | Path | BinaryIO | Sequence[str | Path], format: str | None) -> list[_Input]:
    if isinstance(source, (str, Path)):
        named = expand(source)
    elif isinstance(source, Sequence):
        named = [path for pattern in source for path in expand(pattern)]
        if not named:
            raise SourceError("no file is named: give at least one")
    else:
        name = str(getattr(source, "name", "stream"))
        return [_Input(name, format or _format(Path(name)), stream=source)]
    found: list[_Input] = []
    for path in named:
        if path == STDIN:
            if format is None:
                raise SourceError(f"standard input has no suffix: say format= one of {', '.join(FORMATS)}.")
            found.append(_Input("standard input", format, stream=standard_input()))
        elif path.is_fifo() or path.is_char_device():
            found.append(_Input(str(path), format or _format(path), stream=_pipe(path)))
        else:
            found.append(_Input(str(path), format or _format(path), path=path))
    return found


def _pipe(path: Path) -> BinaryIO:
    return open(path, "rb")


def _format(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    if last in SUFFIXES:
        return SUFFIXES[last]
    seen = f'"{last}" is no suffix of a table' if last else "the name has no suffix"
    raise SourceError(
        f"{path}: {seen}. Known are {', '.join(SUFFIXES)} (text and streams also with .gz or .zst); "
        f"or say format= one of {', '.join(FORMATS)}."
    )


def _pruned(schema: pa.Schema, columns: Sequence[str] | None, where: str) -> pa.Schema:
    if columns is None:
        return schema
    check_columns(columns, schema, where)
    return pa.schema([field for field in schema if field.name in columns])
