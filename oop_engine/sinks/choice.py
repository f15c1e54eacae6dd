"""A sink is chosen by what a user names; it and its format are loaded then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oop_engine import sinks
from oop_engine.sinks.errors import SinkError
from oop_engine.uri import here, remote

if TYPE_CHECKING:
    from oop_engine.sinks import Arrow, Csv, Encoder, Ndjson, Parquet, PartitionedSink, Sink

_CODECS = {".gz": "gzip", ".zst": "zstd"}
_CSV: dict[str, Callable[..., Csv]] = {
    ".csv": lambda **options: sinks.Csv(**options),
    ".tsv": lambda **options: sinks.Csv(delimiter="\t", **options),
}
_LINES: dict[str, Callable[[], Csv | Ndjson]] = {
    **_CSV,
    ".ndjson": lambda: sinks.Ndjson(),
    ".jsonl": lambda: sinks.Ndjson(),
}
_ENCODERS: dict[str, Callable[[], Csv | Ndjson | Arrow | Parquet]] = {
    ".parquet": lambda: sinks.Parquet(),
    **_LINES,
    ".arrow": lambda: sinks.Arrow(),
    ".arrows": lambda: sinks.Arrow(stream=True),
}
STREAMED: Final = ("csv", "tsv", "ndjson", "jsonl", "arrows")
"""Formats that standard output takes."""
FORMS: Final = tuple(suffix[1:] for suffix in _ENCODERS)
"""Formats of files, as their suffixes name them."""


def sink_for(
    target: str | Path,
    *,
    endless: bool = False,
    append: bool = False,
    synced: bool = False,
    spreadsheet: bool = False,
    form: str | None = None,
    partition_by: str | Sequence[str] = (),
) -> Sink:
    """Choose a sink: by the suffix of a path, or for "-" a table on a terminal and CSV where it is none.

    With `partition_by`, the path is that of a folder, see `PartitionedSink`. With `form`, such as "ndjson", results
    are written in that format, whatever the suffix, and for "-" too.
    Text and .arrows are packed when .gz or .zst follows. SinkError names the suffixes for any other. An `endless`
    stream cannot be run again, so a file keeps the released results, whatever ends the run: lines of text that is not
    packed are there at once (see `growing`), with `append` behind those of before, and with `synced` on the disk; other
    files are completed, but where the process is killed. A database is named by the suffix .sqlite or .duckdb, or by
    sqlite:///PATH?table=NAME&key=COLUMNS, or duckdb: in its place (see `DatabaseSink`); one of a server by
    postgresql://USER@HOST/DATABASE?table=NAME (see `PostgresqlSink`). With `spreadsheet`, CSV has
    text that a spreadsheet takes for a formula marked as text (see `Csv`); SinkError for other files.
    """
    text = str(target)
    if partition_by:
        return _partitioned(text, partition_by, form, endless=endless)
    if text == "-":
        if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise SinkError("standard output is closed, and the results would go there; name a file, as --to out.csv.")
        if form is None and sys.stdout.isatty():
            return sinks.TerminalSink()
        return sinks.StreamSink(_streamed(form or "csv", spreadsheet))
    # Start-up: results that go to the terminal need none of these.
    from oop_engine.sinks.databases import KINDS as DATABASES
    from oop_engine.sinks.pagelog import SUFFIX as PAGES
    from oop_engine.sinks.servers import SERVERS, server_sink

    if (server := server_sink(text)) is not None:
        return server
    for database in DATABASES:
        if text.lower().startswith(tuple(f"{scheme}:" for scheme in database.schemes)):
            if form is not None:
                raise SinkError(f'"{text}" is a database, which has rows, no lines: leave out the format "{form}".')
            return database.named(text, keep=endless)
    if (place := remote(text)) is not None:
        raise SinkError(
            f'"{text}" is on no disk of this machine, and results are written to files here.\n'
            f"  Mount {place} as a folder and name a file in it, or write a file here and copy it."
        )
    try:
        path = here(text)
    except RuntimeError as error:
        raise SinkError(
            f'"{text}": there is no such user, or no home of one; write the whole path, or ./{text}'
        ) from error
    suffix = path.suffix.lower() if form is None else f".{form.lower()}"
    if suffix == PAGES:
        return sinks.PageLogSink(path, keep=endless)
    for database in DATABASES:
        if issubclass(database, sinks.FileDatabaseSink) and suffix in database.suffixes:
            return database(path, keep=endless)
    codec = _CODECS.get(path.suffix.lower())
    inner = suffix if form is not None else Path(path.stem).suffix.lower() if codec else suffix
    make = _ENCODERS.get(inner)
    if make is None:
        seen = f'"{suffix}" is no suffix of a sink' if suffix else "the name has no suffix"
        seen = seen if form is None else f'"{form}" is no format of a file'
        raise SinkError(
            f'"{text}": {seen}. Known are {", ".join(_ENCODERS)} (text also with .gz or .zst), {PAGES}, .sqlite,'
            f" .duckdb, postgresql:, {', '.join(f'{scheme}:' for scheme in SERVERS)}, and -."
        )
    if spreadsheet:
        if inner not in _CSV:
            raise SinkError(
                f'"{text}": --spreadsheet is for CSV, which spreadsheets read formulas from, and {inner} has none.\n'
                "  Leave it out, or name a file that ends in .csv or .tsv."
            )
        make = partial(_CSV[inner], spreadsheet=True)
    if append and path.is_file() and (codec is not None or inner not in _LINES):
        raise SinkError(
            f'"{text}" has results of before, which would be replaced: files of this kind are written from their'
            " beginning.\n  Move it away, or name a file that results can be appended to (.csv, .tsv, .ndjson, .jsonl)."
        )
    if codec is None:
        if not endless:
            return sinks.FileSink(path, make)
        lines = partial(_CSV[inner], spreadsheet=True) if spreadsheet else _LINES.get(inner)
        return sinks.KeptSink(path, make) if lines is None else sinks.GrowingSink(path, lines, append, synced)
    if inner in (".parquet", ".arrow"):
        raise SinkError(f'"{text}": {inner} is not packed as a whole; leave out {suffix} (Parquet packs its own pages)')
    return (sinks.KeptSink if endless else sinks.FileSink)(path, lambda: _packed(make, codec))


def _partitioned(text: str, by: str | Sequence[str], form: str | None, *, endless: bool) -> PartitionedSink:
    """Choose the sink for a folder of partitions, which has Parquet or Arrow files; SinkError for another format."""
    suffix = f".{form.lower()}" if form is not None else Path(text).suffix.lower() or ".parquet"
    if text == "-" or remote(text) is not None or suffix not in (".parquet", ".arrow", ".arrows"):
        raise SinkError(
            f'"{text}": what is partitioned is a folder of Parquet or Arrow files.\n'
            "  Write --to flows --partition-by 'hour(window_start)', and --to-format arrow for Arrow."
        )
    names = tuple(name.strip() for name in (by.split(",") if isinstance(by, str) else by))
    return sinks.PartitionedSink(here(text), _ENCODERS[suffix], suffix, names, keep=endless)


def _streamed(form: str, spreadsheet: bool) -> Callable[[], Encoder]:
    """Return what encodes results for standard output; SinkError for a format that is none for it."""
    make = {**_LINES, ".arrows": _ENCODERS[".arrows"]}.get(f".{form.lower()}")
    if make is None:
        raise SinkError(
            f'"{form}" is not for standard output; known there are {", ".join(STREAMED)}.\n'
            f"  Name a file for it: --to out.{form}"
        )
    if not spreadsheet:
        return make
    if f".{form.lower()}" not in _CSV:
        raise SinkError(f"--spreadsheet is for CSV, which spreadsheets read formulas from, and {form} has none.")
    return partial(_CSV[f".{form.lower()}"], spreadsheet=True)


def _packed(make: Callable[[], Csv | Ndjson | Arrow | Parquet], codec: str) -> Encoder:
    encoder = make()
    assert not isinstance(encoder, sinks.Parquet)
    return sinks.Packed(encoder, codec)
