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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oop_engine.sources.capture.compression import PackedDamage, Pieces, Plain, unpack
from oop_engine.sources.columns import Types, check_columns, check_words, convert, stream_schema, ticks
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.outline import Outline, Watch
from oop_engine.sources.paths import STDIN, expand, is_pipe, standard_input
from oop_engine.sources.text import Delimited, Lines, Objects, Piece, pieces
from operators.errors import SchemaError, did_you_mean
from operators.page import Int64s
from operators.schema import is_ip
from punctuation import NEVER

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
_GROUP_BYTES = 1 << 28
"""Larger row groups are not decoded as a whole."""
_LEAST_GROUP_ROWS = 1 << 14
"""Row groups smaller than that on average are not decoded one by one."""


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

    def batches(self, watches: Mapping[str, Watch] | None = None) -> Iterator[pa.RecordBatch]:
        """Read all rows from the beginning, in batches of at most `batch_rows`; a stream can be read once only.

        Those who watch a column are shown it piece by piece, as `outline` says the pieces are.
        """
        yield from self._read(self.schema, watches or {})

    def outline(self, column: str) -> Outline | None:
        """Give the row groups and the least tick in each; None when the files do not say, or it would not pay."""
        if not self.rewindable:
            return None
        lengths: list[int] = []
        leasts: list[int] = []
        for given in self._inputs:
            opened = self._open(given)
            try:
                found = opened.outline(column) if isinstance(opened, _Parquet) else None
                # A unit that is not the first file's is converted, which its statistics are not.
                if found is None or opened.file_schema.field(column).type != self.schema.field(column).type:
                    return None
            finally:
                opened.close()
            lengths += [length for length, _ in found]
            leasts += [least for _, least in found]
        return Outline(np.array(lengths, np.int64), np.array(leasts, np.int64))

    def values(self, column: str) -> Iterator[Int64s]:
        """Read one attribute alone: int64 ticks in arrival order, NO_TIME where it is null."""
        wanted = _pruned(self.schema, [column], self._inputs[0].name)
        for batch in self._read(wanted):
            yield ticks(batch, column)

    def _read(self, schema: pa.Schema, watches: Mapping[str, Watch] | None = None) -> Iterator[pa.RecordBatch]:
        if self._begun and not self.rewindable:
            raise SourceError(f"{self._inputs[0].name} is a stream: it cannot be read a second time")
        self._begun = True
        self._done = 0
        for number, given in enumerate(self._inputs):
            opened = self._first if number == 0 and not self.rewindable else self._open(given)
            self._reading = opened
            try:
                yield from self._read_one(opened, schema, given.name, watches or {})
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

    def _read_one(
        self, opened: _Opened, schema: pa.Schema, name: str, watches: Mapping[str, Watch]
    ) -> Iterator[pa.RecordBatch]:
        for column in schema.names:
            if column not in opened.file_schema.names:
                raise SchemaError(
                    f'{name}: there is no column "{column}", which {self._inputs[0].name} has.\n'
                    f"  {did_you_mean(column, opened.file_schema.names)}"
                )
        for batch in opened.batches(schema.names, self.batch_rows):
            arrays = [self._column(batch, field, name) for field in schema]
            whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
            for column, watch in watches.items():
                try:
                    watch(ticks(whole, column))
                except ValueError as error:
                    raise TableError(
                        f"its statistics of {column} are wrong, or it changed while it was read: {error}.\n"
                        "  Give the input a punctuator, as punctuate=oop.slack(...), so that they are not needed."
                    ) from error
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
        found = (
            self._groups(self._path, columns)
            if self._path is not None and self._whole_groups()
            else self._file.iter_batches(batch_rows, columns=columns, use_threads=True)
        )
        for batch in found:
            self._read += len(batch)
            yield batch

    def outline(self, column: str) -> list[tuple[int, int]] | None:
        """Give rows and least tick of each row group; None where a group is not read whole, or has no statistics."""
        metadata = self._file.metadata
        place = self._file.schema_arrow.get_field_index(column)
        if self._path is None or place < 0 or not _is_int64(self.file_schema.field(column).type):
            return None
        if any(pa.types.is_nested(field.type) for field in self.file_schema) or not self._whole_groups():
            return None
        found: list[tuple[int, int]] = []
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(place).statistics
            rows = metadata.row_group(number).num_rows
            if statistics is None or not (statistics.has_min_max or statistics.null_count == rows):
                return None
            found.append((rows, int(statistics.min_raw) if statistics.has_min_max else NEVER))
        return found

    def _groups(self, path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Decode row group by row group, two ahead; each is one batch."""

        def decode(number: int) -> pa.RecordBatch:
            with pq.ParquetFile(str(path), page_checksum_verification=True) as file:
                return _one_batch(file.read_row_group(number, columns=columns, use_threads=True))

        numbers = iter(range(self._file.metadata.num_row_groups))
        with ThreadPoolExecutor(2) as pool:
            # Nothing goes on before the first one is there, so it has both threads.
            waiting = deque(pool.submit(decode, number) for number in islice(numbers, 1))
            while waiting:
                batch = waiting.popleft().result()
                waiting.extend(pool.submit(decode, number) for number in islice(numbers, 2 - len(waiting)))
                yield batch

    def _whole_groups(self) -> bool:
        """Tell whether row groups are large enough to be read one by one, and small enough to be held."""
        metadata = self._file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        return bool(groups) and (
            max(group.num_rows for group in groups) <= _GROUP_ROWS
            and max(group.total_byte_size for group in groups) <= _GROUP_BYTES
            and metadata.num_rows >= _LEAST_GROUP_ROWS * (len(groups) - 1)
        )

    def position(self) -> int:
        rows = self._file.metadata.num_rows
        return self._size * self._read // rows if rows else self._size

    def close(self) -> None:
        self._file.close()


def _is_int64(kind: pa.DataType) -> bool:
    return pa.types.is_int64(kind) or (pa.types.is_temporal(kind) and getattr(kind, "bit_width", 0) == 64)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)


class _Arrow:
    """Arrow IPC, the file form or the stream form: the first bytes tell."""

    def __init__(self, given: _Input) -> None:
        self._file = given.open()
        self._owned = given.stream is None
        self._plain = Plain(self._file)
        # A file of its own on the disk; not mapped, since whoever cut it would end this process.
        self._random: pa.NativeFile | None = None
        try:
            self._reader = self._open(_Whole(unpack(self._plain)), given.path)
        except BaseException:
            self.close()
            raise
        self._size = given.size() or 0
        self._share = 0.0

    def _open(self, whole: _Whole, path: Path | None) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        if not (first := whole.peek(6)):
            raise TableError("the file is empty")
        if first != b"ARROW1":
            return pa.ipc.open_stream(pa.PythonFile(whole, mode="r"))
        if path is None or not isinstance(whole.source, Plain):
            return pa.ipc.open_file(pa.BufferReader(whole.read(-1)))
        self._random = pa.OSFile(str(path))
        return pa.ipc.open_file(self._random)

    @property
    def file_schema(self) -> pa.Schema:
        return self._reader.schema

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if isinstance(self._reader, pa.RecordBatchFileReader):
            reader, count = self._reading(columns), self._reader.num_record_batches
            for number in range(count):
                self._share = (number + 1) / count
                yield reader.get_batch(number).select(columns)
        else:
            for batch in self._reader:
                yield batch.select(columns)

    def _reading(self, columns: list[str]) -> pa.RecordBatchFileReader:
        """Give a reader of these columns, and of no others where they lie apart on the disk."""
        schema = self._reader.schema
        chosen = [schema.get_field_index(name) for name in columns] or [0]
        if self._random is None or not len(schema) or min(chosen) < 0:
            return self._reader
        return pa.ipc.open_file(self._random, options=pa.ipc.IpcReadOptions(included_fields=sorted(chosen)))

    def position(self) -> int:
        return self._plain.taken if self._random is None else int(self._size * self._share)

    def close(self) -> None:
        if self._owned:
            self._file.close()
        if self._random is not None:
            self._random.close()


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
        elif is_pipe(path):
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
