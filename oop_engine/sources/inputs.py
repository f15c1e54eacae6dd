"""Inputs of tables: files of known formats, standard input, pipes, open streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.sources.errors import SourceError
from oop_engine.sources.paths import STDIN, expand, is_pipe, standard_input, stream_name

SUFFIXES: Final[Mapping[str, str]] = {
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
TEXTS: Final = ("csv", "tsv", "ndjson")
FORMATS: Final = (*TEXTS, "parquet", "arrow")
Unit: TypeAlias = "Mapping[str, int] | None"
OnError = Literal["stop", "skip"]
"""What becomes of a run whose source cannot be read on."""
_PACKED: Final = (".gz", ".zst", ".zstd")


@attrs.frozen
class Input:
    """One file or stream and its format."""

    name: str
    format: str
    path: Path | None = None
    stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        return self.stream if self.stream is not None else open(str(self.path), "rb", buffering=0)

    def size(self) -> int | None:
        return self.path.stat().st_size if self.path is not None else None


class Opened(Protocol):
    """One reading of one file."""

    @property
    def file_schema(self) -> pa.Schema: ...

    def batches(self, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]: ...

    def position(self) -> int: ...

    @property
    def unit(self) -> Unit:
        """Return where the unit begins that the last batch is of, for `seek`; None where nothing can begin there."""
        ...

    def seek(self, unit: Mapping[str, int]) -> None:
        """Begin with a unit; called before `batches`."""
        ...

    def close(self) -> None: ...


def inputs(source: str | Path | BinaryIO | Sequence[str | Path], format: str | None) -> list[Input]:
    if isinstance(source, (str, Path)):
        named = expand(source)
    elif isinstance(source, Sequence):
        named = [path for pattern in source for path in expand(pattern)]
        if not named:
            raise SourceError("no file is named: give at least one")
    else:
        name = stream_name(source)
        return [Input(name, format or _format(Path(name)), stream=source)]
    found: list[Input] = []
    for path in named:
        if path == STDIN:
            if format is None:
                raise SourceError(f"standard input has no suffix: say format= one of {', '.join(FORMATS)}.")
            found.append(Input("standard input", format, stream=standard_input()))
        elif is_pipe(path):
            found.append(Input(str(path), format or _format(path), stream=_pipe(path)))
        else:
            found.append(Input(str(path), format or _format(path), path=path))
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
