"""Zeek's logs as a source: lines of TSV under `#fields`, or of JSON; plain, in gzip or in zstd.

Columns that flow records have too have their names: ts, srcIP (id.orig_h), destIP (id.resp_h), srcPort, destPort and
proto, as a number; of a conn.log also end_ts (ts and duration), packets and bytes (orig_pkts and orig_ip_bytes) and
rev_packets and rev_bytes. All others keep Zeek's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeVar, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from oop_engine.sources.capture.compression import Plain, unpack
from oop_engine.sources.columns import TIME, convert, ticks
from oop_engine.sources.errors import TableError
from oop_engine.sources.flows.schema import FLOW_ALIASES
from oop_engine.sources.flows.undamaged import Undamaged
from oop_engine.sources.flows.whole_lines import WholeLines
from oop_engine.sources.inputs import Unit
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.lines import untyped
from oop_engine.sources.objects import Objects
from oop_engine.sources.paths import stream_name
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import OfFiles, Reading, size_of
from oop_engine.sources.tables import Mark
from oop_engine.sources.text import Piece, first_bad_line
from oop_engine.sources.turn import Turn
from operators.data.page import Int64s
from operators.data.schema import aliased, ip_field, is_ip
from operators.errors import SchemaError, did_you_mean

ZEEK_ALIASES: Final = {
    "id.orig_h": "srcIP",
    "id.resp_h": "destIP",
    "id.orig_p": "srcPort",
    "id.resp_p": "destPort",
    "orig_pkts": "packets",
    "orig_ip_bytes": "bytes",
    "resp_pkts": "rev_packets",
    "resp_ip_bytes": "rev_bytes",
}
"""Zeek's names of the columns that have the names of flow records."""

_WORDS: Final = {
    "time": pa.string(), "addr": pa.string(), "port": pa.uint16(), "count": pa.uint64(), "int": pa.int64(),
    "double": pa.float64(), "interval": pa.float64(), "bool": pa.bool_(),
}  # fmt: skip
_PROTOCOLS: Final = {"tcp": 6, "udp": 17, "icmp": 1, "sctp": 132, "gre": 47, "icmp6": 58}
_JSON: Final[Mapping[str, str]] = {
    "ts": "time", "uid": "string", "id.orig_h": "addr", "id.orig_p": "port", "id.resp_h": "addr", "id.resp_p": "port",
    "proto": "enum",
}  # fmt: skip
_CONN: Final[Mapping[str, str]] = {
    "service": "string", "duration": "interval", "orig_bytes": "count", "resp_bytes": "count", "conn_state": "string",
    "missed_bytes": "count", "history": "string", "orig_pkts": "count", "orig_ip_bytes": "count", "resp_pkts": "count",
    "resp_ip_bytes": "count",
}  # fmt: skip
_LONGEST_HEADER: Final = 1 << 16


def _stream_field(name: str, word: str) -> pa.Field:
    """Return the field of a stream for a field of a log and Zeek's word for its type."""
    known = ZEEK_ALIASES.get(name, name)
    field = _typed_field(name, known, word)
    names = [alias for alias, column in FLOW_ALIASES.items() if column == known]
    return aliased(field, [*({name} - {known}), *names]) if names or name != known else field


def _typed_field(name: str, known: str, word: str) -> pa.Field:
    if name == "proto":
        return pa.field(known, pa.uint8())
    if word == "time":
        return pa.field(known, TIME)
    if word == "addr":
        return ip_field(known)
    return pa.field(known, _WORDS.get(word, pa.string()))


@attrs.frozen
class Fields:
    """The fields of a log, with Zeek's words for their types."""

    types: Mapping[str, str]
    schema: pa.Schema = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        fields = [_stream_field(name, word) for name, word in self.types.items()]
        if {"ts", "duration"} <= self.types.keys():
            fields.insert(1, _stream_field("end_ts", "time"))
        object.__setattr__(self, "schema", pa.schema(fields))

    def read(self, wanted: Sequence[str]) -> list[str]:
        """Name the fields of the log that these columns are made of."""
        names = [name for name in self.types if ZEEK_ALIASES.get(name, name) in wanted]
        extra = [name for name in ("ts", "duration") if "end_ts" in wanted]
        extra += ["id.orig_h"] if "proto" in wanted and "id.orig_h" in self.types else []
        return [*names, *(name for name in extra if name not in names)]

    def columns(self, table: pa.Table, wanted: Sequence[str]) -> pa.RecordBatch:
        """Turn the fields as read into the columns of a stream."""
        schema = pa.schema([field for field in self.schema if field.name in wanted])
        names = {ZEEK_ALIASES.get(name, name): name for name in self.types}
        arrays: list[pa.Array] = []
        for field in schema:
            if field.name == "end_ts" and "end_ts" not in names:
                arrays.append(self._end(table))
            elif field.name == "proto":
                arrays.append(_protocols(table, "id.orig_h" in table.column_names))
            else:
                arrays.append(_converted(_column(table, names[field.name]), field))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _end(self, table: pa.Table) -> pa.Array:
        """Return the last packet of connections: the first one's time for those of a single packet."""
        start = _converted(_column(table, "ts"), pa.field("ts", TIME)).view(pa.int64())
        lasting = pc.fill_null(_column(table, "duration").cast(pa.float64()), 0.0)
        # Zeek gives microseconds.
        micros = pc.round(pc.multiply(lasting, 1e6)).cast(pa.int64())
        return pc.add(start, pc.multiply(micros, 1000)).view(TIME)


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


def _converted(column: pa.Array, field: pa.Field) -> pa.Array:
    if field.type == TIME:
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        return convert(column, field, "epoch" if numeric or _seconds(column) else "timestamp")
    if is_ip(field):
        return convert(column, field, "ip")
    if pa.types.is_list(column.type):  # as in TSV
        return pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    return column.cast(field.type)


def _seconds(column: pa.Array) -> bool:
    """Return whether text is seconds since 1970, not a date."""
    first = column.drop_null()
    return not len(first) or "T" not in first[0].as_py()


def _protocols(table: pa.Table, addressed: bool) -> pa.Array:
    """Return the numbers of protocols' names; ICMP between IPv6 addresses is 58, which Zeek calls icmp too."""
    column = _column(table, "proto")
    if pa.types.is_integer(column.type):
        return column.cast(pa.uint8())
    names = column.dictionary_encode()
    numbers = pa.array([_PROTOCOLS.get(text) for text in names.dictionary.to_pylist()], pa.uint8())
    found = numbers.take(names.indices)
    if addressed:
        six = pc.match_substring(_column(table, "id.orig_h").cast(pa.string()), ":")
        found = pc.if_else(pc.and_(pc.equal(found, 1), six), pa.scalar(58, pa.uint8()), found)
    return found


class Log(Protocol):
    """A reader of the lines of a log."""

    fields: Fields

    def parse(self, piece: Piece, names: Sequence[str]) -> pa.Table:
        """Read these fields of a piece of lines; ArrowInvalid for what cannot be read."""
        ...


_ESCAPED: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(\\))")


def _unescaped(text: str) -> str:
    """Return a text in which Zeek has written some bytes as a backslash, x and two digits, and each backslash twice."""
    raw = _ESCAPED.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else b"\\", text.encode())
    return raw.decode("utf-8", "replace")


@attrs.define
class Tsv:
    """A log under header lines; those of another log behind it in the same file hold from there on."""

    fields: Fields
    separator: str
    unset: str
    empty: str
    """What stands for an empty text, set or list."""
    within: str
    """What stands between the entries of a set or list."""

    @classmethod
    def of(cls, head: bytes) -> Tsv:
        """Read the header lines that a log begins with; TableError when they tell no fields."""
        told: dict[str, list[str]] = {}
        separator = "\t"
        for line in head.decode("utf-8", "replace").splitlines():
            if not line.startswith("#"):
                break
            if line.startswith("#separator "):
                separator = _separator(line.split(" ", 1)[1])
            else:
                key, *values = line.split(separator)
                told[key] = values
        names, types = told.get("#fields", []), told.get("#types", [])
        if not names or len(names) != len(types) or len(separator) != 1:
            raise TableError(
                "this is no log of Zeek: it should begin with lines #separator, #fields and #types, or be JSON"
            )
        marks = (("#unset_field", "-"), ("#empty_field", "(empty)"), ("#set_separator", ","))
        unset, empty, within = ((told.get(key) or [usual])[0] for key, usual in marks)
        return cls(Fields(dict(zip(names, types, strict=True))), separator, unset, empty, within)

    def parse(self, piece: Piece, names: Sequence[str]) -> pa.Table:
        data = self._lines(piece)
        kinds = {name: _WORDS.get(word, pa.string()) for name, word in self.fields.types.items()}
        if not data:
            return pa.schema([pa.field(name, kinds[name]) for name in names]).empty_table()
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                column_names=list(self.fields.types), block_size=len(data) + 1, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.separator, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: kinds[name] for name in names}, include_columns=list(names),
                null_values=[self.unset], strings_can_be_null=True, true_values=["T"], false_values=["F"],
            ),
        )  # fmt: skip
        for place, name in enumerate(table.column_names):
            if pa.types.is_string(kinds[name]) and self.fields.types[name] not in ("time", "addr"):
                table = table.set_column(place, name, self._text(_column(table, name), self.fields.types[name]))
        return table

    def _text(self, column: pa.Array, word: str) -> pa.Array:
        """Return texts as they were before they were written in a line, and sets and lists as they are in JSON."""
        if word.startswith(("set[", "vector[")) and self.within != ",":
            column = pc.replace_substring(column, self.within, ",")
        column = pc.if_else(pc.equal(column, self.empty), "", column)
        if not pc.any(pc.match_substring(column, "\\")).as_py():
            return column
        found = column.dictionary_encode()
        return pa.array([_unescaped(text) for text in found.dictionary.to_pylist()], pa.string()).take(found.indices)

    def _lines(self, piece: Piece) -> bytes:
        """Leave out the lines of headers; where they tell other fields than before, TableError."""
        if not piece.data.startswith(b"#") and b"\n#" not in piece.data:
            return piece.data
        kept: list[bytes] = []
        for number, line in enumerate(piece.data.splitlines(keepends=True), piece.line):
            if not line.startswith(b"#"):
                kept.append(line)
            elif line.startswith(b"#fields"):
                names = line.decode("utf-8", "replace").rstrip("\r\n").split(self.separator)[1:]
                if names != list(self.fields.types):
                    raise TableError(f"line {number}: a log of other fields begins; read it as a file of its own")
        return b"".join(kept)


@attrs.define
class Json:
    """A log of one JSON object a line."""

    fields: Fields
    objects: Objects

    @classmethod
    def of(cls, first: Piece) -> Json:
        """Find the fields in the first lines; those that every conn.log may have are there even if no line has them."""
        begun = len(first.data) - len(first.data.lstrip())
        line = 1 + first.data.count(b"\n", 0, begun)
        try:
            keys = json.loads(first.data[begun:].split(b"\n", 1)[0])
        except ValueError as error:
            raise TableError(f"line {line}: {error}") from error
        if not isinstance(keys, dict):
            raise TableError(f"line {line}: each line of a JSON log is an object")
        known = {name: word for name, word in _JSON.items() if name in keys}
        if "conn_state" in keys or "orig_pkts" in keys:
            known |= _CONN
        kinds = {name: _WORDS.get(word, pa.string()) for name, word in known.items()}
        if not isinstance(keys.get("ts"), str):
            kinds.pop("ts", None)  # seconds as a number; else ISO 8601

        def found(piece: Piece) -> Objects:
            try:
                objects = Objects.of(piece.data, kinds)
                return objects.typed(dict.fromkeys(untyped(objects.schema), pa.string()))
            except TableError as error:
                raise _unplaced(error) from error

        objects = _placed(first, found)
        types = {
            field.name: known.get(field.name, _word(field.type))
            for field in objects.schema
            if not pa.types.is_nested(field.type)
            or (pa.types.is_list(field.type) and not pa.types.is_nested(field.type.value_type))
        }
        return cls(Fields(types), objects)

    def parse(self, piece: Piece, names: Sequence[str]) -> pa.Table:
        try:
            return self.objects.parse(piece, names)
        except TableError as error:
            raise _unplaced(error) from error


def _unplaced(error: TableError) -> pa.ArrowInvalid:
    """Return what Arrow said; the line that TableError names counts no blank ones."""
    return pa.ArrowInvalid(str(error.__cause__ or error))


_Read = TypeVar("_Read")
_ROW: Final = re.compile(r"Row #\d+: | in row \d+")


def _placed(piece: Piece, read: Callable[[Piece], _Read]) -> _Read:
    """Read a piece of a log; TableError names the line of the file that cannot be read."""
    try:
        return read(piece)
    except ValueError as error:
        line = first_bad_line(piece, read)
        raise TableError(f"line {line}: {_ROW.sub('', str(error))}") from error


def _word(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_integer(kind):
        return "int"
    return "bool" if pa.types.is_boolean(kind) else "string"


@attrs.frozen(eq=False)
class ZeekLogs(OfFiles):
    """The lines of Zeek's logs of one kind, in the order of the files and of the lines in them.

    A last line that is not whole, since the log is cut or still in writing, is left out and noted, and so are keys of
    JSON that the first lines had not, unless they are of a conn.log; `strict` makes both errors. Any other line that
    cannot be read is an error always.
    """

    paths: tuple[Path | BinaryIO, ...] = attrs.field(converter=tuple)
    label: str = attrs.field(default="", kw_only=True)
    strict: bool = attrs.field(default=False, kw_only=True)
    arrow: pa.Schema = attrs.field(init=False, repr=False)
    _first: _Opened = attrs.field(init=False, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    def __attrs_post_init__(self) -> None:
        first = _Opened.of(self.paths[0])
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "arrow", first.log.fields.schema)
        if self.rewindable:
            first.close()

    @property
    def laborious(self) -> bool:
        return True

    def open(self, columns: Sequence[str], batch_rows: int) -> ZeekReader:
        if not self.rewindable:
            self._turn.take(self.name)
        return ZeekReader(self, tuple(columns), batch_rows)

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in ZeekReader(self, (column,), 65_536).batches():
            yield ticks(batch, column)


@attrs.define
class ZeekReader(Reading):
    """One reading of logs."""

    source: ZeekLogs
    columns: tuple[str, ...]
    batch_rows: int
    _notes: list[str] = attrs.field(init=False, factory=list)
    _left_out: LeftOut = attrs.field(
        init=False, default=attrs.Factory(lambda self: LeftOut(self.source.strict, typed=False), takes_self=True)
    )
    _done: int = attrs.field(init=False, default=0)
    _reading: _Opened | None = attrs.field(init=False, default=None)
    _start: Mark = attrs.field(init=False, factory=lambda: Mark(file=0, unit=None))
    _mark: tuple[Mark, int] | None = attrs.field(init=False, default=None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the lines in batches of at most `batch_rows` rows; TableError for what cannot be read."""
        given = 0
        for number, path in enumerate(self.source.paths):
            if number < self._start["file"]:
                self._done += size_of((path,)) or 0
                continue
            begun = number == 0 and not self.source.rewindable
            opened = self.source._first if begun else _Opened.of(path)  # pyright: ignore[reportPrivateUsage]
            self._reading = opened
            try:
                self._check(opened)
                if number == self._start["file"] and self._start["unit"] is not None:
                    opened.seek(self._start["unit"])
                for batch in opened.batches(self.columns, self._left_out):
                    mark = Mark(file=number, unit=opened.unit)
                    if self._mark is None or self._mark[0] != mark:
                        self._mark = mark, given
                    for start in range(0, len(batch), self.batch_rows):
                        yield batch.slice(start, self.batch_rows)
                    given += len(batch)
                if opened.lines.cut is not None:
                    self._stop(f"{opened.name}: {opened.lines.cut}")
            finally:
                self._done += opened.lines.unpacked.taken
                self._reading = None
                opened.close()

    def _stop(self, note: str) -> None:
        self._notes.append(note)
        if self.source.strict:
            raise TableError(note)

    def _check(self, opened: _Opened) -> None:
        have = opened.log.fields.schema
        for name in self.columns:
            wanted = self.source.arrow.field(name)
            if name not in have.names:
                raise SchemaError(f'{opened.name}: there is no column "{name}".\n  {did_you_mean(name, have.names)}')
            if have.field(name).type != wanted.type:
                raise SchemaError(f'{opened.name}: "{name}" is {have.field(name).type}, and {wanted.type} before.')

    def chunks(self) -> Iterator[Chunk]:
        yield from self.batches()

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        return self._mark

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        if mark is None:
            return 0
        self._start = cast(Mark, mark)
        return at

    def progress(self) -> tuple[int, int | None]:
        read = self._done + (self._reading.lines.unpacked.taken if self._reading is not None else 0)
        return read, size_of(self.source.paths)

    def notes(self) -> list[str]:
        return [*self._notes, *self._left_out.notes()]


@attrs.define(eq=False)
class _Opened:
    """A log that is open, with what was read of it to learn its fields."""

    name: str
    file: BinaryIO
    lines: WholeLines
    given: Iterator[Piece]
    first: Piece | None
    log: Log
    owned: bool
    unit: Unit = None
    """Where the piece that was given last begins, in a file that is not packed."""
    plain: bool = False
    """Whether it is a file that is not packed."""

    @classmethod
    def of(cls, path: Path | BinaryIO) -> _Opened:
        owned = isinstance(path, Path)
        file = cast(BinaryIO, path.open("rb", buffering=0)) if isinstance(path, Path) else path
        name = str(path) if isinstance(path, Path) else stream_name(path)
        try:
            raw = Plain(file)
            unpacked = unpack(raw)
            lines = WholeLines(Undamaged(unpacked))
            given = lines.pieces()
            first = next(given, None)
            if first is None or not first.data.strip():
                raise TableError(lines.cut or "the log is empty: it has no line #fields and no object")
            log = Json.of(first) if first.data.lstrip()[:1] == b"{" else Tsv.of(first.data)
        except TableError as error:
            if owned:
                file.close()
            raise TableError(f"{name}: {error}") from error
        return cls(name, file, lines, given, first, log, owned, plain=owned and unpacked is raw)

    def seek(self, unit: Mapping[str, int]) -> None:
        """Read on from a line; the fields stay those that the head of the log told."""
        self.file.seek(unit["byte"])
        plain = Plain(self.file, taken=unit["byte"])
        self.lines = WholeLines(Undamaged(plain, unit["byte"]))
        self.given = self.lines.pieces(unit["line"], unit["byte"])
        self.first = next(self.given, None)

    def batches(self, columns: Sequence[str], left_out: LeftOut) -> Iterator[pa.RecordBatch]:
        """Read these columns, and count what lines of JSON have besides."""
        names = self.log.fields.read(columns)
        if isinstance(self.log, Json):
            left_out.known(self.log.objects.schema.names)

        def read(piece: Piece) -> pa.RecordBatch:
            return self.log.fields.columns(self.log.parse(piece, names), columns)

        try:
            piece = self.first
            while piece is not None:
                self.unit = {"byte": piece.at, "line": piece.line} if self.plain else None
                batch = _placed(piece, read)
                if isinstance(self.log, Json):
                    left_out.look(piece, self.name)
                yield batch
                piece = next(self.given, None)
        except TableError as error:
            raise TableError(f"{self.name}: {error}") from error

    def close(self) -> None:
        if self.owned:
            self.file.close()


def _separator(text: str) -> str:
    """Read what stands behind `#separator`; TableError for an escape that is none."""
    try:
        found = text.encode().decode("unicode_escape")
    except UnicodeDecodeError:
        found = ""
    if not found:
        raise TableError(f"#separator {text} names no character.\n  Write #separator \\x09, as Zeek does for a tab.")
    return found
