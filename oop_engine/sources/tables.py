"""Read files of rows as Arrow record batches: CSV, TSV, NDJSON, Parquet, Arrow IPC, one or many, packed or not.

    table = Table("flows/*.csv.gz", columns=["ts", "srcIP"], types={"srcIP": "ip"})
    table.schema                            attributes of the stream, known before the first batch
    for batch in table.batches(): ...       at most batch_rows tuples each, in the order of the files' names
    for ticks in table.values("ts"): ...    one attribute alone as int64, for a pass that collects the low-watermark

Text with ISO 8601 times becomes timestamp(ns, UTC); times without a zone are UTC; other times keep their unit.
The first file that has a line names the columns. Their types are those of their first values, in whichever file these
are, as far as `text_file.LOOK` bytes show them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, TypedDict

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.capture.compression import PackedDamage
from oop_engine.sources.columnar import ArrowFile, ParquetFile
from oop_engine.sources.columns import Types, check_columns, check_words, convert, stream_schema, ticks
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.inputs import FORMATS, Input, Opened, Unit, inputs
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.lines import first_value, is_text, retyped, untyped
from oop_engine.sources.outline import Outline, Watch
from oop_engine.sources.text_file import LOOK, TextFile
from oop_engine.sources.text_form import TextForm
from operators.data.page import Int64s
from operators.errors import SchemaError, did_you_mean

_SHOWN: Final = 5
"""Files of which the rest was left out that are named, at most."""


class Mark(TypedDict):
    """A file, by its number, and a unit of it; its start where there is no unit."""

    file: int
    unit: Unit


@attrs.frozen
class Settled:
    """The columns of a table as files have them, null where no value was seen, and the file that named them."""

    schema: pa.Schema
    name: str
    format: str
    empty: bool = False
    """Whether there is no tuple in any of the files."""
    times: tuple[str, ...] = ()
    """The columns of text that are times in the form that was said."""

    @property
    def untyped(self) -> tuple[str, ...]:
        """Name the columns of which no value was seen."""
        return untyped(self.schema)

    def taking(self, kinds: Mapping[str, pa.DataType]) -> Settled:
        """Take types for columns that had no value so far."""
        found = {name: kinds[name] for name in self.untyped if name in kinds}
        return attrs.evolve(self, schema=retyped(self.schema, found))

    def streamed(self, types: Types, form: TextForm) -> pa.Schema:
        """Return the columns as a stream has them; SchemaError for a type of a column that is not there."""
        types = self.typed(types, form)
        check_columns(types, self.schema, self.name)
        return stream_schema(self.schema, types)

    def typed(self, types: Types, form: TextForm) -> Types:
        """Return the types that are said, of the times in a form that is said for all of them, too."""
        return types if form.time_format is None else {**dict.fromkeys(self.times, form.time_format), **types}

    def for_lines(self, given: Input) -> pa.Schema | None:
        """Return the columns for a file of lines, None for one that has types of its own."""
        same = given.format == self.format or {given.format, self.format} == {"csv", "tsv"}
        return self.schema if same else None


class Table:
    """One stream of rows read from files, standard input (`-`) or a binary stream.

    `source`: a path, a pattern, several of them, or an open binary stream, read once. `format`: one of FORMATS; by
    default the suffix tells. `columns`: only these are read, in the order of the file. `types`: words or Arrow types
    that overrule what the file says, see `oop_engine.sources.columns`. `strict`: a key or column that the first lines
    have not is an error, not a note. `form`: how lines are written. `skips`: where a file cannot be read on, its rest
    is left out. `settled`: what another table found out about the same files. `left_out`: counts keys that are no
    columns, for several tables. Raises SourceError when there is no such file or format, SchemaError for a column that
    is not there, TableError for content that cannot be read.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO | Sequence[str | Path],
        *,
        format: str | None = None,
        columns: Sequence[str] | None = None,
        batch_rows: int = 65_536,
        types: Types | None = None,
        strict: bool = False,
        skips: bool = False,
        settled: Settled | None = None,
        form: TextForm | None = None,
        left_out: LeftOut | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise SourceError(f'"{format}" is no format of tables; known are {", ".join(FORMATS)}.')
        if batch_rows < 1:
            raise SourceError(f"batch_rows = {batch_rows}: a batch has at least one row")
        self.batch_rows = batch_rows
        self._types: Types = dict(types or {})
        self._form = form or TextForm()
        self._strict = strict
        self._skips = skips
        self._skipped: list[str] = []
        self._inputs = inputs(source, format)
        self.rewindable = all(i.stream is None for i in self._inputs)
        name = self._inputs[0].name
        check_words(self._types, name)
        self._left_out = left_out or LeftOut(strict)
        self._notes: list[str] = []
        self._first = self._open(self._inputs[0], settled)
        try:
            self.settled = settled or self._settle()
            whole = self.settled.streamed(self._types, self._form)
            self._types = self.settled.typed(self._types, self._form)
            self.schema: pa.Schema = _pruned(whole, columns, name)
        except (UnicodeDecodeError, RecursionError) as error:
            self._first.close()
            raise TableError(_unreadable(name, error)) from error
        except BaseException:
            self._first.close()
            raise
        self._notes += [_not_text(name, f.name) for f in self.settled.schema if self._is_not_text(f)]
        if self._inputs[0].stream is None:
            self._first.close()
        sizes = [i.size() for i in self._inputs]
        self.size: int | None = None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)
        self._done = 0
        self._reading: Opened | None = None
        self._begun = False
        self._start: Mark | None = None
        self._given = 0
        self.mark: tuple[Mark, int] | None = None
        """The file and the unit of it that the last batch is of, and the tuples that were given before that unit."""

    @property
    def position(self) -> int:
        """Return how many bytes of the sources the current reading has used, as they lie on disk."""
        return self._done + (self._reading.position() if self._reading is not None else 0)

    def notes(self) -> list[str]:
        """Say what was left out of the files read so far."""
        return [*self._notes, *self._left_out.notes(), *self._skipped_notes()]

    def _skipped_notes(self) -> list[str]:
        """Say which files could not be read to their ends, and count them."""
        shown, more = self._skipped[:_SHOWN], len(self._skipped) - _SHOWN
        told = [f"{why}; the rest of this file was left out" for why in shown]
        told += [f"of {more:,} more files the rest was left out, because they could not be read"] if more > 0 else []
        if self._skipped:
            told.append(
                f"{len(self._skipped):,} of {len(self._inputs):,} files could not be read to the end; windows of their"
                " times may lack rows"
            )
        return told

    def _is_not_text(self, field: pa.Field) -> bool:
        """Return whether a column of a file of lines, of which nobody said what it is, holds bytes."""
        lines = self.settled.format in ("csv", "tsv")
        return lines and pa.types.is_binary(field.type) and field.name not in self._types

    def _settle(self) -> Settled:
        """Find columns and types: in the first lines of the files, then in more lines of each."""
        settled: Settled | None = None
        room, longer, empty = LOOK, list[int](), True
        for number, given in enumerate(self._inputs):
            with self._looking(number) as opened:
                if isinstance(opened, TextFile) and not opened.names_columns:
                    continue
                empty &= isinstance(opened, TextFile) and not opened.has_tuples
                if opened is None:
                    continue
                if settled is None:
                    settled = Settled(opened.file_schema, given.name, given.format)
                else:
                    settled = settled.taking(_kinds(opened.file_schema))
                if isinstance(opened, TextFile):
                    room -= opened.held
                    longer += [number] if opened.position() != given.size() else []
            if room <= 0 or not settled.untyped:
                break
        # Without a line, the columns are those whose types were said; without any, nothing is known.
        settled = settled or Settled(self._first.file_schema, self._inputs[0].name, self._inputs[0].format)
        if not settled.schema.names and settled.format == "ndjson":
            raise TableError(f"{settled.name}: the file is empty: its lines, or types=, would name the columns")
        for number in longer:
            if room <= 0 or not settled.untyped:
                break
            with self._looking(number) as opened:
                if isinstance(opened, TextFile):
                    found, used = opened.look(settled.untyped, room)
                    settled, room = settled.taking(found), room - used
                    empty &= not opened.has_tuples
        if isinstance(self._first, TextFile) and (schema := settled.for_lines(self._inputs[0])) is not None:
            self._first.settle(schema)
        return attrs.evolve(settled, empty=empty, times=self._written())

    def _written(self) -> tuple[str, ...]:
        """Name the columns that are times in the form that was said, in the first file that has them."""
        if self._form.time_format is None:
            return ()
        for number in range(len(self._inputs)):
            with self._looking(number) as opened:
                if isinstance(opened, TextFile) and opened.has_tuples:
                    return self._written_in(opened, self._form.time_format)
        return ()

    def _written_in(self, opened: TextFile, format: str) -> tuple[str, ...]:
        found = opened.written_as(format)
        if not found and format not in self._types.values():
            texts = [field.name for field in opened.file_schema if is_text(field.type)]
            raise SchemaError(
                f'{self._inputs[0].name}: no column is written as the time format "{format}" all over its first lines;'
                f" text is in {', '.join(texts) or 'no column'}.\n"
                f'  Correct the format, or name the column: --types "ts={format}"'
                f' (in Python types={{"ts": "{format}"}}).'
            )
        return tuple(name for name in found if name not in self._types)

    @contextmanager
    def _looking(self, number: int) -> Generator[Opened | None]:
        """Open a file to look at it; the first is open. Of other streams nothing may be read yet."""
        given = self._inputs[number]
        if number == 0:
            yield self._first
        elif given.stream is not None:
            yield None
        else:
            opened: Opened | None = None
            # Whoever reads a damaged file is told.
            with suppress(TableError):
                opened = self._open(given, None)
            try:
                yield opened
            finally:
                if opened is not None:
                    opened.close()

    def batches(self, watches: Mapping[str, Watch] | None = None) -> Iterator[pa.RecordBatch]:
        """Read all rows from the beginning, in batches of at most `batch_rows`; a stream can be read once only.

        Watchers of a column see it piece by piece, in the pieces of `outline`.
        """
        yield from self._read(self.schema, watches or {})

    def seek(self, mark: Mark) -> None:
        """Let the next reading begin at a mark of another reading of the same files."""
        self._start = mark

    def outline(self, column: str) -> Outline | None:
        """Return the row groups and the least tick in each; None when the files do not say, or it would not pay."""
        if not self.rewindable or self._skips or self._types.get(column) == "epoch":
            # A file of which a part is left out has fewer rows than it says.
            return None
        lengths: list[int] = []
        leasts: list[int] = []
        for given in self._inputs:
            opened = self._open(given, self.settled)
            try:
                found = opened.outline(column) if isinstance(opened, ParquetFile) else None
                if found is None or not _same_ticks(
                    opened.file_schema.field(column).type, self.schema.field(column).type
                ):
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
        self._done = self._given = 0
        start, self._start = self._start or {"file": 0, "unit": None}, None
        for number, given in enumerate(self._inputs):
            if number < start["file"]:
                self._done += given.size() or 0
                continue
            done, before = self._done, self._given
            place = start["unit"] if number == start["file"] else None
            try:
                yield from self._read_file(number, given, place, schema, watches or {})
            except TableError as error:
                if not self._skips or isinstance(error.__cause__, MemoryError):
                    raise
                rows = self._given - before
                why = str(error).partition(".\n")[0].rstrip(".")
                since = "where this run went on" if place is not None else "its start"
                self._skipped.append(f"{why}, after {rows:,} rows from {since}")
                self._done = done + (given.size() or 0)

    def _read_file(
        self, number: int, given: Input, place: Unit, schema: pa.Schema, watches: Mapping[str, Watch]
    ) -> Iterator[pa.RecordBatch]:
        """Read one file, from a place in it if there is one; TableError where it cannot be read."""
        opened = self._first if number == 0 and given.stream is not None else self._open(given, self.settled)
        self._reading = opened
        try:
            if place is not None:
                opened.seek(place)
            for batch in self._read_one(opened, schema, given.name, watches):
                if self.mark is None or self.mark[0] != {"file": number, "unit": opened.unit}:
                    self.mark = {"file": number, "unit": opened.unit}, self._given
                self._given += len(batch)
                yield batch
        except MemoryError as error:
            raise TableError(_too_large(given.name)) from error
        except OSError as error:
            raise TableError(f"{given.name}: damaged or cut ({error})") from error
        except (pa.ArrowException, PackedDamage) as error:
            raise TableError(f"{given.name}: {error}") from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise TableError(_unreadable(given.name, error)) from error
        except TableError as error:
            raise TableError(f"{given.name}: {error}") from error
        finally:
            self._done += opened.position()
            self._reading = None
            opened.close()

    def _read_one(
        self, opened: Opened, schema: pa.Schema, name: str, watches: Mapping[str, Watch]
    ) -> Iterator[pa.RecordBatch]:
        there = frozenset(opened.file_schema.names)
        lacking = next((column for column in schema.names if column not in there), None)
        if lacking is not None:
            raise SchemaError(
                f'{name}: there is no column "{lacking}", which {self.settled.name} has.\n'
                f"  {did_you_mean(lacking, opened.file_schema.names)}"
            )
        self._check_others(opened.file_schema, name)
        unsure = frozenset(self.settled.untyped)
        batches = (
            opened.batches(schema.names, self.batch_rows, self._left_out)
            if isinstance(opened, TextFile)
            else opened.batches(schema.names, self.batch_rows)
        )
        for batch in batches:
            arrays = [self._column(batch, field, name, field.name in unsure) for field in schema]
            whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
            for column, watch in watches.items():
                values = ticks(whole, column)
                try:
                    for piece in np.split(values, opened.ends) if isinstance(opened, ParquetFile) else [values]:
                        watch(piece)
                except ValueError as error:
                    raise TableError(
                        f"its statistics of {column} are wrong, or it changed while it was read: {error}.\n"
                        "  Give the input a punctuator, as punctuate=oop.slack(...), so that they are not needed."
                    ) from error
            for start in range(0, len(whole), self.batch_rows):
                yield whole.slice(start, self.batch_rows)

    def _check_others(self, schema: pa.Schema, name: str) -> None:
        """Warn of columns that the file's first lines lack; their values are left out."""
        known = frozenset(self.settled.schema.names)
        others = [f'"{column}"' for column in schema.names if column not in known]
        if not others:
            return
        what = f"column{'' if len(others) == 1 else 's'} {', '.join(others)}"
        if self._strict:
            raise SchemaError(f"{name}: {self.settled.name}, which names the columns, has no {what}.\n  Name it first.")
        self._notes.append(f"{name}: {what} left out, which {self.settled.name} has not; name {name} first to have all")

    def _column(self, batch: pa.RecordBatch, field: pa.Field, name: str, unsure: bool) -> pa.Array:
        """Return a column as the stream has it; one that is `unsure` had no value when its type was decided."""
        array = batch.column(field.name)
        word = self._types.get(field.name)
        if word is None and unsure and not is_text(array.type):
            valid = array.drop_null()
            if len(valid):
                raise TableError(first_value(field.name, valid[0], array.type))
        try:
            return convert(array, field, word)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            wanted = f'"{word}"' if word is not None else f"{field.type}, as in {self.settled.name}"
            raise TableError(f'column "{field.name}" ({array.type}) cannot be read as {wanted}: {error}') from error

    def _open(self, given: Input, settled: Settled | None) -> Opened:
        try:
            if given.format == "parquet":
                return ParquetFile(given)
            if given.format == "arrow":
                return ArrowFile(given)
            columns = settled.for_lines(given) if settled is not None else None
            return TextFile(given, self._types, columns, self._form)
        except MemoryError as error:
            raise TableError(_too_large(given.name)) from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise TableError(_unreadable(given.name, error)) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise TableError(f"{given.name}: damaged or cut ({error})") from error
        except (pa.ArrowException, PackedDamage, TableError) as error:
            raise TableError(f"{given.name}: {error}") from error


def _unreadable(name: str, error: UnicodeDecodeError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return f"{name}: a value is nested too deeply to be read.\n  Leave that key out, or write it as text."
    return (
        f"{name}: the name of a column, {bytes(error.object)[:60]!r}, is not UTF-8.\n"
        '  Say its encoding, e.g. --encoding latin-1 (in Python encoding="latin-1").'
    )


def _not_text(name: str, column: str) -> str:
    return (
        f'{name}: column "{column}" is not UTF-8 and is read as bytes, which are written as hexadecimal digits; '
        'say its encoding to have text, e.g. --encoding latin-1 (in Python encoding="latin-1")'
    )


def _same_ticks(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Return whether values of one type are those of another: what is converted is not what its statistics are of."""
    # Times of any zone, and of none, are counted in UTC.
    times = pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs)
    return ours.unit == theirs.unit if times else ours == theirs


def _too_large(name: str) -> str:
    return (
        f"{name}: a batch asks for more memory than there is: the file is damaged, or its batches are too large.\n"
        "  Copy it again, or write it anew in smaller batches or row groups."
    )


def _kinds(schema: pa.Schema) -> Mapping[str, pa.DataType]:
    """Return the types of the columns that have one."""
    return {field.name: field.type for field in schema if not pa.types.is_null(field.type)}


def _pruned(schema: pa.Schema, columns: Sequence[str] | None, where: str) -> pa.Schema:
    if columns is None:
        return schema
    check_columns(columns, schema, where)
    wanted = frozenset(columns)
    return pa.schema([field for field in schema if field.name in wanted])
