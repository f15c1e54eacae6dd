"""Tables that are replaced as a whole: each version is a file, whose name says from when it holds.

Of a version only the rows count that another one than the last has; a key that is gone has a row of nulls. So each row
holds from its `since` to the next row of its key, whoever reads the files, and however often.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sinks.files import sync_folder
from oop_engine.sources.columns import Types
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.growing.listing import Found, looked_at
from oop_engine.sources.paths import expand
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import Reading
from oop_engine.sources.tables import Table
from operators.data.keys import KeyIndex
from operators.data.lookup_table import LookupTable
from operators.data.page import Bools, Int64s
from operators.errors import SchemaError, did_you_mean
from punctuation import NO_TIME, before

SINCE: Final = "since"
"""The column that says from when a row holds."""
TIME: Final = pa.timestamp("ns", "UTC")
SETTLED: Final = 1_000_000_000
"""Nanoseconds for which a file has to stay as it is before it is taken."""
_LINES: Final = (".csv", ".tsv", ".ndjson", ".jsonl")
_MOMENT: Final = re.compile(
    r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)(?:[T_ -](\d\d)[:.-]?(\d\d)(?:[:.-]?(\d\d)(?:[.,](\d{1,9}))?)?Z?)?(?!\d)"
)
_SECOND: Final = 10**9


@attrs.frozen(order=True)
class Version:
    """A file, and from when it holds, in ns since 1970."""

    at: int
    path: Path


def moment_in(name: str) -> int | None:
    """Return the time in a file's name, in ns since 1970; None where it has none. Times are UTC.

    >>> moment_in("hosts.20261127T120000.5Z.csv") == moment_in("hosts 2026-11-27 12:00:00.500.csv")
    True
    """
    found = _MOMENT.search(name)
    if found is None:
        return None
    *parts, fraction = found.groups(default="")
    try:
        moment = datetime.datetime(*(int(part or 0) for part in parts), tzinfo=datetime.UTC)  # type: ignore[misc]
    except ValueError:
        return None
    return int(moment.timestamp()) * _SECOND + int(fraction.ljust(9, "0") or 0)


def stamp(at: int) -> str:
    """Write a time as `moment_in` reads it, for the name of a file."""
    seconds, rest = divmod(at, _SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y%m%dT%H%M%S}.{rest:09}Z"


def versions_in(paths: Iterable[Path]) -> list[Version]:
    """Return files by the times in their names; SourceError for a file without one, and for two of one time."""
    found: dict[int, Version] = {}
    for path in paths:
        at = moment_in(path.name)
        if at is None:
            raise SourceError(
                f'{path}: the name of a version says from when it holds, and "{path.name}" has no time.\n'
                "  Rename it, e.g. hosts.2026-11-27T12:00:00Z.csv."
            )
        if at in found:
            raise SourceError(f"{found[at].path} and {path} would both hold from one time; leave out one of them.")
        found[at] = Version(at, path)
    return sorted(found.values())


def read_version(path: Path, types: Types | None, like: pa.Schema | None = None) -> pa.RecordBatch:
    """Read a whole file, with the columns of an earlier version; SchemaError or TableError where it has others."""
    file = Table(path, types=types if like is None else {**{f.name: f.type for f in like}, **(types or {})})
    table = pa.Table.from_batches(list(file.batches()), file.schema)
    if like is not None:
        try:
            table = table.select(like.names).cast(like)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TableError(f"{path}: {error}, in a column whose type the versions before it give") from error
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def kept_versions(keep: Path) -> list[Version]:
    """Return the versions that were kept in a folder."""
    if not keep.is_dir():
        return []
    return versions_in(p for p in keep.iterdir() if not p.name.startswith(".") and p.suffix != ".tmp")


def first_version(path: Path, keep: Path, types: Types | None) -> pa.RecordBatch:
    """Read the first version that was kept of a file, or the file; SourceError where there is neither."""
    kept = kept_versions(keep)
    if not kept and looked_at(path) is None:
        raise SourceError(
            f"{path}: there is no such file, and no version of it in {keep}.\n"
            "  Write the file first, so that its columns are known."
        )
    return read_version(kept[0].path if kept else path, types)


@attrs.define
class Changes:
    """Find what each version changes of the one before it; `keys` tell rows apart, by default the first column."""

    keys: tuple[str, ...] = attrs.field(converter=tuple)
    name: str = "table"
    last: pa.RecordBatch | None = None

    def to(self, version: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """Return the rows that hold from a time on; SchemaError for keys that are missing, null or there twice."""
        keys = self.keys or tuple(version.schema.names[:1])
        for key in keys:
            if key not in version.schema.names:
                raise SchemaError(
                    f'{self.name}: there is no column "{key}" to tell rows apart.\n'
                    f"  columns: {', '.join(version.schema.names)}\n  {did_you_mean(key, version.schema.names)}"
                )
        if SINCE in version.schema.names:
            raise SchemaError(
                f'{self.name}: the column "{SINCE}" is in the file already, and versions say it by their names.\n'
                f'  A file whose rows say it is looked up as it is: lookup(..., valid_from="{SINCE}").'
            )
        LookupTable.of(self.name, version, keys)
        changed = version
        if self.last is not None:
            there = _known(self.last, version, version.schema.names)
            gone = self.last.filter(pa.array(~_known(version, self.last, list(keys))))
            nothing = [
                gone.column(field.name) if field.name in keys else pa.nulls(len(gone), field.type)
                for field in version.schema
            ]
            rows = [version.filter(pa.array(~there)), pa.RecordBatch.from_arrays(nothing, schema=version.schema)]
            changed = pa.concat_batches(rows)
        self.last = version
        since = pa.array(np.full(len(changed), at), pa.int64()).cast(TIME)
        return pa.RecordBatch.from_arrays([since, *changed.columns], schema=with_since(version.schema))


def with_since(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table with that of its versions' times."""
    return pa.schema([pa.field(SINCE, TIME), *schema])


def _known(known: pa.RecordBatch, asked: pa.RecordBatch, names: Sequence[str]) -> Bools:
    """Return which rows have the values of a row that is known."""
    index = KeyIndex([known.schema.field(name) for name in names])
    index.assign([known.column(name) for name in names])
    return np.asarray(index.find([asked.column(name) for name in names]) >= 0)


@attrs.frozen(eq=False)
class Reloaded:
    """A file that is replaced now and then, as a stream of the rows that each version changes.

    Each version is kept in a folder before it is given, as a file whose name says when it was taken: from then on it
    holds. Another reading takes the kept ones first, with the same times. The stream promises `since` by the `clock`.
    """

    path: Path
    keys: tuple[str, ...] = attrs.field(converter=tuple)
    keep: Path
    every: int = attrs.field(default=_SECOND, kw_only=True)
    types: Types | None = attrs.field(default=None, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    clock: Callable[[], int] = attrs.field(default=time.time_ns, kw_only=True)
    lasting: int | None = attrs.field(default=None, kw_only=True)
    _columns: pa.Schema = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        first = first_version(self.path, self.keep, self.types)
        Changes(self.keys, self.name).to(first, 0)
        object.__setattr__(self, "_columns", first.schema)

    @property
    def name(self) -> str:
        """Return the name that plans and messages have for it."""
        return self.label or self.path.name.partition(".")[0]

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns of the file behind that of the versions' times."""
        return with_since(self._columns)

    @property
    def rewindable(self) -> bool:
        """Return that its rows come once, as time goes by."""
        return False

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        """Promise from when further rows hold."""
        return (SINCE,)

    def values(self, column: str) -> Iterator[Int64s]:
        """Raise SourceError: nobody knows what versions will come."""
        raise SourceError(
            f"{self.name} is replaced while it is read, so it cannot be read ahead; it promises its time."
        )

    def kept(self) -> list[Version]:
        """Return the versions that were kept."""
        return kept_versions(self.keep)

    def open(self, columns: Sequence[str], batch_rows: int) -> ReloadedReader:
        """Begin a reading, with the versions that were kept."""
        return ReloadedReader(self, tuple(columns), batch_rows)

    def version(self, path: Path, like: pa.Schema | None) -> pa.RecordBatch:
        """Read a version with the columns of the first one."""
        return read_version(path, self.types, like)


@attrs.define
class ReloadedReader(Reading):
    """One reading of a file that is replaced. `stop` is for other threads than that which reads."""

    source: Reloaded
    columns: tuple[str, ...]
    batch_rows: int
    _changes: Changes = attrs.field(init=False)
    _given: int = attrs.field(init=False, default=0)
    _skip: int = attrs.field(init=False, default=0)
    _promised: int = attrs.field(init=False, default=NO_TIME)
    _seen: tuple[int, int, int, int] | None = attrs.field(init=False, default=None)
    """The file as it was when it was taken or refused."""
    _looked: tuple[tuple[int, int, int, int], int] | None = attrs.field(init=False, default=None)
    """The file as it is that is not taken yet, and since when it is so."""
    _refused: dict[str, int] = attrs.field(init=False, factory=dict)
    taken: int = attrs.field(init=False, default=0)
    """Versions that were taken, kept ones with them."""
    _stopped: Event = attrs.field(init=False, factory=Event)

    def __attrs_post_init__(self) -> None:
        self._changes = Changes(self.source.keys, self.source.name)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows that versions change, and from when further ones hold at the earliest."""
        source = self.source
        for version in source.kept():
            yield from self._promise(version.at)
            yield from self._rows(source.version(version.path, source.arrow.remove(0)), version.at)
        ends = None if source.lasting is None else time.monotonic_ns() + source.lasting
        while True:
            stopped = self._stopped.is_set() or (ends is not None and time.monotonic_ns() >= ends)
            yield from self.look()
            if stopped:
                return
            left = source.every if ends is None else min(source.every, max(0, ends - time.monotonic_ns()))
            self._stopped.wait(left / _SECOND)

    def look(self) -> Iterator[Chunk]:
        """Take the file where it is another one and complete; promise that no further version holds from before now."""
        source, now = self.source, self.source.clock()
        found = looked_at(source.path)
        mark = None if found is None else (*found.key, found.size, found.modified)
        if found is not None and mark is not None and mark != self._seen:
            if self._looked is None or self._looked[0] != mark:
                self._looked = (mark, now)
            if now - self._looked[1] >= SETTLED or now - found.modified >= 2 * SETTLED:
                self._seen, self._looked = mark, None
                yield from self._take(found, max(now, self._promised))
                now = self.source.clock()
        yield from self._promise(now)

    def _take(self, found: Found, at: int) -> Iterator[Chunk]:
        """Keep the file as a version and give what it changes; one that cannot be read is told of and left."""
        source = self.source
        suffix = "".join(found.path.suffixes)
        kept = source.keep / f"{found.path.name.removesuffix(suffix)}.{stamp(at)}{suffix}"
        part = kept.with_name(f".{kept.name}")
        try:
            content = found.path.read_bytes()
            after = looked_at(found.path)
            if after != found or len(content) != found.size:
                self._seen = None
                return
            if suffix in _LINES and not content.endswith(b"\n"):
                raise TableError(f"{found.path}: the last line has no end, so the file is not complete")
            source.keep.mkdir(parents=True, exist_ok=True)
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            version = source.version(part, source.arrow.remove(0))
            changes = Changes(self._changes.keys, self._changes.name, self._changes.last)
            rows = changes.to(version, at)
        except (TableError, SchemaError, FileNotFoundError) as error:
            part.unlink(missing_ok=True)
            why = str(error).replace(str(part), str(found.path)).partition("\n")[0]
            self._refused[why] = self._refused.get(why, 0) + 1
            return
        except OSError as error:
            raise SourceError(
                f"{kept}: a version cannot be kept, so no run could repeat what this one gives: {error.strerror}.\n"
                "  Free or repair that disk, or name another folder by keep=."
            ) from error
        if not len(rows):
            part.unlink()
            return
        os.replace(part, kept)
        sync_folder(source.keep)
        self._changes = changes
        yield from self._give(rows)

    def _rows(self, version: pa.RecordBatch, at: int) -> Iterator[Chunk]:
        yield from self._give(self._changes.to(version, at))

    def _give(self, rows: pa.RecordBatch) -> Iterator[Chunk]:
        self.taken += 1
        skipped = min(self._skip, len(rows))
        self._skip -= skipped
        rows = rows.slice(skipped).select(list(self.columns))
        for start in range(0, len(rows), self.batch_rows):
            piece = rows.slice(start, self.batch_rows)
            self._given += len(piece)
            yield piece

    def _promise(self, at: int) -> Iterator[Chunk]:
        if at > self._promised:
            self._promised = at
            yield before(SINCE, at)

    def stop(self) -> None:
        """End the reading after what is there by now."""
        self._stopped.set()

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        """Return nothing: another reading takes all versions, and leaves out what was given."""
        return None

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        """Leave out so many tuples of the versions that were kept."""
        self._skip = self._given = tuples
        return tuples

    def progress(self) -> tuple[int, int | None]:
        """Return how many rows were given."""
        return self._given, None

    def notes(self) -> list[str]:
        """Say how many versions were taken, and which could not be."""
        told = [f"{self.source.name}: {self.taken:,} version{'' if self.taken == 1 else 's'} taken"]
        return told + [
            f"{why}; this version was left out, and the one before it holds on"
            + (f" ({times:,} times)" if times > 1 else "")
            for why, times in self._refused.items()
        ]


def read_versions(places: Iterable[str | Path], keys: Sequence[str], types: Types | None = None) -> pa.Table:
    """Read versions as one table with the column `since`; SourceError, TableError or SchemaError where that fails."""
    paths = [path for place in places for path in _files(Path(place).expanduser(), place)]
    versions = versions_in(dict.fromkeys(paths))
    changes = Changes(tuple(keys), versions[0].path.name.partition(".")[0])
    found: list[pa.RecordBatch] = []
    like: pa.Schema | None = None
    for version in versions:
        read = read_version(version.path, types, like)
        like = read.schema
        try:
            found.append(changes.to(read, version.at))
        except SchemaError as error:
            raise SchemaError(f"{version.path}: {error}") from error
    return pa.Table.from_batches(found)


def _files(path: Path, place: str | Path) -> list[Path]:
    if not path.is_dir():
        return expand(place)
    found = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    if not found:
        raise SourceError(f"{path}: this folder has no versions of a table.")
    return found
