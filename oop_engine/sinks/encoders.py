"""Pages become the bytes of CSV, NDJSON, Parquet and Arrow IPC, column by column, without a step a row."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.fields import looked_up, plain
from operators.data.page import Page
from operators.data.readable import address_text, address_text_field, is_number, is_text, text_of
from operators.data.schema import Schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROW_GROUP = 131_072
_SEEN: Final = 1 << 16
"""Values that are looked at for whether they repeat."""
_FEW: Final = 1 << 10
"""So few values have a dictionary, as nobody would notice."""
_FORMULA: Final = r"^[=+\-@\t\r\n＝＋－＠]"
"""How text begins that a spreadsheet takes for a formula, or shows as one where letters are wide."""


@attrs.define
class Csv:
    """CSV with a header line: all text between double quotes, null as nothing, everything else bare.

    Text is data and is never changed. A spreadsheet takes text that begins with = + - or @ for a formula, quoted or
    not; with `spreadsheet` such text gets an apostrophe in front, which spreadsheets need and other readers will see.
    """

    delimiter: str = attrs.field(default=",", kw_only=True)
    spreadsheet: bool = attrs.field(default=False, kw_only=True)
    _fields: list[pa.Field] = attrs.field(factory=list, init=False)

    def open(self, schema: Schema) -> bytes:
        self._fields = list(schema.arrow)
        names = [self._name(name) for name in schema.names]
        return (self.delimiter.join(names) + "\n").encode()

    def write(self, page: Page) -> bytes:
        parts: list[pa.Array | str] = []
        for i, field in enumerate(self._fields):
            parts += [self._cells(page.batch.column(i), field), self.delimiter]
        return bytes_of(pc.binary_join_element_wise(*parts[:-1], "\n", "")) if parts else b"\n" * len(page)

    def close(self) -> bytes:
        return b""

    def _name(self, name: str) -> str:
        if name.replace("_", "").isalnum():
            return name
        return _quoted_text("'" + name if self.spreadsheet and re.match(_FORMULA, name) else name)

    def _cells(self, array: pa.Array, field: pa.Field) -> pa.Array:
        texts = text_of(array, field)
        if is_text(field):
            if self.spreadsheet:
                formula = pc.match_substring_regex(texts, _FORMULA)
                texts = pc.if_else(formula, pc.binary_join_element_wise("'", texts, ""), texts)
            texts = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
        return texts.fill_null("")


@attrs.define
class Ndjson:
    """NDJSON: one object a line, every attribute in it; times, addresses and bytes are text.

    JSON has no NaN and no infinity: both are null, as null is. CSV, Parquet and Arrow tell them apart.
    """

    _fields: list[pa.Field] = attrs.field(factory=list, init=False)

    def open(self, schema: Schema) -> bytes:
        self._fields = list(schema.arrow)
        return b""

    def write(self, page: Page) -> bytes:
        return bytes_of(self.lines(page))

    def lines(self, page: Page) -> pa.Array:
        """Return the line of each tuple, with its end; for `bytes_of`."""
        if not self._fields:
            return pa.array(["{}\n"] * len(page), pa.string())
        # What stands between two values is one literal, quotes included, so that each row is put together once.
        parts: list[pa.Array | str] = []
        before = "{"
        for i, field in enumerate(self._fields):
            cells, quote = self._cells(page.batch.column(i), field)
            parts += [f"{before}{json.dumps(field.name)}:{quote}", cells]
            before = f"{quote},"
        return pc.binary_join_element_wise(*parts, f"{before[:-1]}}}\n", "")

    def close(self) -> bytes:
        return b""

    def _cells(self, array: pa.Array, field: pa.Field) -> tuple[pa.Array, str]:
        """Return the values as text, none of them null, and the quote that stands before and behind each."""
        texts, quote = text_of(array, field), ""
        if pa.types.is_floating(field.type):
            texts = pc.if_else(pc.is_finite(array), texts, pa.scalar(None, pa.string()))
        elif not (is_number(field) or pa.types.is_boolean(field.type) or pa.types.is_nested(field.type)):
            texts, quote = _escaped(texts) if is_text(field) else texts, '"'
        if texts.null_count and quote:
            texts, quote = pc.binary_join_element_wise(quote, texts, quote, ""), ""
        return texts.fill_null("null"), quote


@attrs.define
class Parquet:
    """Parquet with page checksums; addresses are text that Table reads as addresses again; times stay times."""

    compression: str = attrs.field(default="zstd", kw_only=True)
    _written: _Written = attrs.field(init=False, repr=False)
    _writer: pq.ParquetWriter | None = attrs.field(init=False, repr=False)
    """Made with the first row group, whose values tell which columns a dictionary suits."""
    _schema: pa.Schema = attrs.field(init=False, repr=False)
    _fields: list[pa.Field] = attrs.field(factory=list, init=False, repr=False)
    _held: list[pa.RecordBatch] = attrs.field(factory=list, init=False, repr=False)
    _rows: int = attrs.field(default=0, init=False)

    def open(self, schema: Schema) -> bytes:
        self._written, self._held, self._rows = _Written(), [], 0
        self._fields = list(schema.arrow)
        self._schema, self._writer = _readable(schema.arrow), None
        return self._written.taken()

    def write(self, page: Page) -> bytes:
        self._held.append(page.batch)
        self._rows += len(page)
        return self._group() if self._rows >= _ROW_GROUP else b""

    def close(self) -> bytes:
        rest = self._group() if self._rows else b""
        (self._writer or self._begun([])).close()
        return rest + self._written.taken()

    def _begun(self, arrays: Sequence[pa.Array]) -> pq.ParquetWriter:
        """Begin the file. Columns whose values hardly repeat have no dictionary, which would cost time and room."""
        # Start-up: text, which most results are, needs nothing of Parquet.
        import pyarrow.parquet as pq

        repeated = [name for name, array in zip(self._schema.names, arrays, strict=False) if not _distinct(array)]
        # Columns in others have names of their own here.
        all_of_them = len(repeated) == len(arrays) or any(pa.types.is_nested(field.type) for field in self._schema)
        return pq.ParquetWriter(
            pa.PythonFile(self._written, mode="w"),
            self._schema,
            compression=self.compression,
            write_page_checksum=True,
            write_statistics=True,
            use_dictionary=True if all_of_them else repeated,
        )

    def _group(self) -> bytes:
        held, self._held, self._rows = self._held, [], 0
        batches = [pa.RecordBatch.from_arrays(self._arrays(batch), schema=self._schema) for batch in held]
        self._writer = writer = self._writer or self._begun(batches[0].columns)
        writer.write_table(pa.Table.from_batches(batches), row_group_size=_ROW_GROUP)
        return self._written.taken()

    def _arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [address_text(array, field) for array, field in zip(batch.columns, self._fields, strict=True)]


def _distinct(array: pa.Array) -> bool:
    """Return whether there are at least three distinct values in four, as far as the first ones tell."""
    first, kind = array.slice(0, _SEEN), array.type
    known = pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not known or len(first) < _FEW:
        return False
    return 4 * pc.count_distinct(first, mode="all").as_py() >= 3 * len(first)


@attrs.define
class Arrow:
    """Arrow IPC, the file form or (`stream`) the stream form; addresses are text, as in `Parquet`.

    The file form has the values of dictionaries themselves, the stream form a dictionary for each page. With `as_held`
    addresses are the 16 bytes of pages, for files that this program alone reads.
    """

    stream: bool = attrs.field(default=False, kw_only=True)
    as_held: bool = attrs.field(default=False, kw_only=True)
    _written: _Written = attrs.field(init=False, repr=False)
    _writer: pa.RecordBatchFileWriter | pa.RecordBatchStreamWriter = attrs.field(init=False, repr=False)
    _held: pa.Schema = attrs.field(init=False, repr=False)
    _schema: pa.Schema = attrs.field(init=False, repr=False)

    def open(self, schema: Schema) -> bytes:
        self._written = _Written()
        file = pa.PythonFile(self._written, mode="w")
        self._held = schema.arrow if self.stream else plain(schema.arrow)
        self._schema = self._held if self.as_held else _readable(self._held)
        self._writer = (pa.ipc.new_stream if self.stream else pa.ipc.new_file)(file, self._schema)
        return self._written.taken()

    def write(self, page: Page) -> bytes:
        if len(page):
            self._writer.write_batch(self._encoded(page.batch))
        return self._written.taken()

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch if self.stream else looked_up(batch, self._held)
        if self._schema == self._held:
            return batch
        arrays = [address_text(array, field) for array, field in zip(batch.columns, self._held, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def close(self) -> bytes:
        self._writer.close()
        return self._written.taken()


@attrs.define
class Packed:
    """Another encoder's bytes, packed with gzip or zstd."""

    encoder: Csv | Ndjson | Arrow
    codec: str
    _written: _Written = attrs.field(init=False, repr=False)
    _stream: pa.CompressedOutputStream = attrs.field(init=False, repr=False)

    def open(self, schema: Schema) -> bytes:
        self._written = _Written()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._written, mode="w"), self.codec)
        return self._packed(self.encoder.open(schema))

    def write(self, page: Page) -> bytes:
        return self._packed(self.encoder.write(page))

    def close(self) -> bytes:
        self._stream.write(self.encoder.close())
        self._stream.close()
        return self._written.taken()

    def _packed(self, data: bytes) -> bytes:
        self._stream.write(data)
        return self._written.taken()


class _Written:
    """Collect what Arrow writes, so that an encoder opens no file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._length += len(data)
        return len(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        return None

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        data, self._parts = b"".join(self._parts), []
        return data


def bytes_of(texts: pa.Array, begin: int = 0, end: int | None = None) -> bytes:
    """Return the bytes of texts, one behind the other: they lie so in memory. None of them is null.

    >>> bytes_of(pa.array(["a", "bc", "d"]), 1)
    b'bcd'
    """
    offsets = offsets_of(texts)
    low, high = int(offsets[begin]), int(offsets[len(texts) if end is None else end])
    return texts.buffers()[2][low:high].to_pybytes() if high > low else b""


def offsets_of(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return where each text begins in their memory, and where the last ends, shape (n + 1,)."""
    if len(texts) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def _readable(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file that other programs read, too; see `address_text`."""
    return pa.schema([address_text_field(field) for field in schema], schema.metadata)


def _quoted_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _escaped(texts: pa.Array) -> pa.Array:
    """Escape text for JSON; control characters are rare, so only where they occur is each distinct text looked at."""
    if not pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        return texts
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        encoded = texts.dictionary_encode()
        known = pa.array([json.dumps(text, ensure_ascii=False)[1:-1] for text in encoded.dictionary.to_pylist()])
        return known.cast(pa.string()).take(encoded.indices)
    return pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
