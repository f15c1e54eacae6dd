"""Read Parquet and Arrow files, which name their columns and types, in the batches they hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from oop_engine.sources.capture.compression import Pieces, Plain, unpack
from oop_engine.sources.errors import TableError
from oop_engine.sources.inputs import Input, Unit
from oop_engine.sources.owned import owned
from oop_engine.sources.sound import sound
from operators.data.schema import is_ip
from punctuation import NEVER

_GROUP_ROWS: Final = 1 << 22
_GROUP_BYTES: Final = 1 << 28
"""Larger row groups are not decoded as a whole."""
_FEW_CORES: Final = 2
"""On so few, one thread decodes: more would keep what is decoded from being worked on, and be idle at the end."""
_LEAST_GROUP_ROWS: Final = 1 << 12
"""Row groups smaller than that on average are not decoded one by one."""


class ParquetFile:
    def __init__(self, given: Input) -> None:
        # A stream cannot be read from its end, where Parquet keeps its table of contents.
        whole = pa.BufferReader(owned(given.stream.read())) if given.stream is not None else str(given.path)
        schema = pq.read_schema(whole)
        # Addresses written as text are parsed once a distinct one.
        texts = [f.name for f in schema if is_ip(f) and pa.types.is_string(f.type)]
        self._file = pq.ParquetFile(whole, page_checksum_verification=True, read_dictionary=texts)
        self._path = given.path if given.stream is None and not texts else None
        self._size = given.size() or 0
        self._read = 0
        self._start = 0
        self.unit: Unit = None
        self.ends: Sequence[int] = ()
        """Behind how many rows of the last batch each of its row groups but the last ends."""

    @property
    def file_schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if self._path is None or not self._whole_groups():
            found = self._file.iter_batches(batch_rows, columns=columns, use_threads=True)
        else:
            found = self._groups(self._path, columns, batch_rows)
        for batch in found:
            self._read += len(batch)
            yield batch

    def seek(self, unit: Mapping[str, int]) -> None:
        self._start = unit["group"]
        self._read = sum(self._file.metadata.row_group(number).num_rows for number in range(self._start))

    def outline(self, column: str) -> list[tuple[int, int]] | None:
        """Return rows and least tick of each row group; None where a group is not read whole, or has no statistics."""
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

    def _groups(self, path: Path, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Decode the row groups, two batches ahead. Small ones share a batch, so that a page of them costs no more."""
        metadata, few = self._file.metadata, pa.cpu_count() <= _FEW_CORES

        def decode(numbers: Sequence[int], threads: bool) -> pa.RecordBatch:
            with pq.ParquetFile(str(path), metadata=metadata, page_checksum_verification=True) as file:
                return _one_batch(file.read_row_groups(numbers, columns=columns, use_threads=threads))

        lengths = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        together = together_of(lengths, self._start, batch_rows)
        with ThreadPoolExecutor(1 if few else 2) as pool:
            # Nothing goes on before the first one is there, so it has all threads.
            waiting = deque((numbers, pool.submit(decode, numbers, True)) for numbers in islice(together, 1))
            while waiting:
                numbers, decoded = waiting.popleft()
                batch = decoded.result()
                further = islice(together, 2 - len(waiting))
                waiting.extend((numbers, pool.submit(decode, numbers, not few)) for numbers in further)
                self.unit = {"group": numbers[0]}
                self.ends = list(accumulate(lengths[number] for number in numbers[:-1]))
                yield batch

    def _whole_groups(self) -> bool:
        """Return whether row groups are large enough to be read one by one, and small enough to be held."""
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


def together_of(lengths: Sequence[int], start: int, most: int) -> Iterator[Sequence[int]]:
    """Yield which row groups, of so many rows each, are read together: the first alone, then up to so many rows."""
    numbers, rows = list[int](), 0
    for number in range(start, len(lengths)):
        if numbers and (numbers[0] == start or rows + lengths[number] > most):
            yield numbers
            numbers, rows = [], 0
        numbers.append(number)
        rows += lengths[number]
    if numbers:
        yield numbers


def _is_int64(kind: pa.DataType) -> bool:
    return pa.types.is_int64(kind) or (pa.types.is_temporal(kind) and getattr(kind, "bit_width", 0) == 64)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)


class ArrowFile:
    """Arrow IPC, the file form or the stream form: the first bytes tell.

    Each batch is validated before anybody reads it; see `sound`.
    """

    def __init__(self, given: Input) -> None:
        self._file = given.open()
        self._owned = given.stream is None
        self._plain = Plain(self._file)
        # A file of its own on the disk; not mapped, since whoever cut it would end this process.
        self._random: pa.NativeFile | None = None
        try:
            self._reader = self._open(_Whole(unpack(self._plain)), given.path)
            _check_names(self._reader.schema)
        except BaseException:
            self.close()
            raise
        self._size = given.size() or 0
        self._share = 0.0
        self._start = 0
        self.unit: Unit = None

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
            reader, batches = self._reading(columns), self._reader.num_record_batches
            for number in range(self._start, batches):
                self.unit = {"batch": number}
                self._share = (number + 1) / batches
                yield sound(reader.get_batch(number).select(columns), f"record batch {number}")
        else:
            for number, batch in enumerate(self._reader):
                yield sound(batch.select(columns), f"record batch {number}")

    def seek(self, unit: Mapping[str, int]) -> None:
        self._start = unit["batch"]

    def _reading(self, columns: list[str]) -> pa.RecordBatchFileReader:
        """Return a reader of these columns, and of no others where they lie apart on the disk."""
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


def _check_names(schema: pa.Schema) -> None:
    for place, field in enumerate(schema):
        try:
            _ = field.name, str(field.type)
        except UnicodeDecodeError as error:
            raise TableError(
                f"the name of column {place} is not UTF-8: {error.object!r}.\n  Copy the file again, or write it anew."
            ) from error


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
