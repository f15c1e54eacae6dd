"""Sinks take results out: a pure encoder turns pages to bytes, and a thin shell beside it writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from oop_engine.sinks.encoders import Arrow, Csv, Ndjson, Packed, Parquet
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.files import FileSink, StreamSink
from oop_engine.sinks.pagelog import SUFFIX as PAGES
from oop_engine.sinks.pagelog import PageLogSink
from oop_engine.sinks.protocol import Deliver, Encoder, Sink
from oop_engine.sinks.python import ListSink, PageSink
from oop_engine.sinks.terminal import TerminalSink

_CODECS = {".gz": "gzip", ".zst": "zstd"}
_ENCODERS: dict[str, Callable[[], Csv | Ndjson | Arrow | Parquet]] = {
    ".parquet": Parquet,
    ".csv": Csv,
    ".tsv": lambda: Csv(delimiter="\t"),
    ".ndjson": Ndjson,
    ".jsonl": Ndjson,
    ".arrow": Arrow,
    ".arrows": lambda: Arrow(stream=True),
}


def sink_for(target: str | Path) -> Sink:
    """Choose a sink: by the suffix of a path, or for "-" a table on a terminal and CSV where it is none.

    Text and .arrows are packed when .gz or .zst follows. SinkError names the suffixes for any other.
    """
    text = str(target)
    if text == "-":
        if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise SinkError("standard output is closed, and the results would go there; name a file, as --to out.csv.")
        return TerminalSink() if sys.stdout.isatty() else StreamSink(Csv)
    path = Path(text).expanduser()
    suffix = path.suffix.lower()
    if suffix == PAGES:
        return PageLogSink(path)
    codec = _CODECS.get(suffix)
    inner = Path(path.stem).suffix.lower() if codec else suffix
    make = _ENCODERS.get(inner)
    if make is None:
        seen = f'"{suffix}" is no suffix of a sink' if suffix else "the name has no suffix"
        raise SinkError(
            f'"{text}": {seen}. Known are {", ".join(_ENCODERS)} (text also with .gz or .zst), {PAGES}, and -.'
        )
    if codec is None:
        return FileSink(path, make)
    if inner in (".parquet", ".arrow"):
        raise SinkError(f'"{text}": {inner} is not packed as a whole; leave out {suffix} (Parquet packs its own pages)')
    return FileSink(path, lambda: _packed(make, codec))


def _packed(make: Callable[[], Csv | Ndjson | Arrow | Parquet], codec: str) -> Encoder:
    encoder = make()
    assert not isinstance(encoder, Parquet)
    return Packed(encoder, codec)


__all__ = [
    "Arrow",
    "Csv",
    "Deliver",
    "Encoder",
    "FileSink",
    "ListSink",
    "Ndjson",
    "Packed",
    "PageSink",
    "Parquet",
    "Sink",
    "SinkError",
    "StreamSink",
    "TerminalSink",
    "sink_for",
]
