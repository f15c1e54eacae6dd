"""A file appears under its name only when it is whole: it is written beside, synced, and renamed at the end.

As long as a run writes a file, no other run does: see `claimed`.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

import attrs

from oop_engine.lock import Claim, Taken, abandoned, hold
from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.protocol import Deliver, Encoder
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element


@attrs.frozen
class FileSink:
    """Results as one file, replaced as a whole; a pipe or device is written as results come.

    While it is written no other run can write it, unless it was `claimed` already by who opens it.
    """

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    claimed: bool = attrs.field(default=False, kw_only=True)

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to a new file in the same folder; at the end it takes the name, or on failure it is removed."""
        with (
            written(self.path, claim=not self.claimed) as file,
            encoded(file, self.encoder(), schema, f'"{self.path}"') as deliver,
        ):
            yield deliver


@contextmanager
def written(path: Path, *, example: str = "result.parquet", claim: bool = True) -> Generator[BinaryIO, None, None]:
    """Yield a file to write, which takes its name when it is whole; SinkError where none can be written.

    A pipe or device is written as it is. `example` names a file that could be written to a folder. With `claim`, no
    other run can write the file meanwhile, and what killed runs left unfinished of it is removed.
    """
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise SinkError(f'"{path}" is a folder; name a file in it, e.g. "{path / example}"')
        try:
            handle = os.open(path, os.O_WRONLY)
        except OSError as error:
            raise SinkError(f'"{path}" cannot be written: {error.strerror}') from error
        with _opened(handle, path) as pipe:
            yield pipe
        return
    with claimed(path) if claim else nullcontext():
        for left in unfinished_of(path) if claim else ():
            with suppress(OSError):
                left.unlink()
        unfinished, handle = beside(path)
        try:
            with _opened(handle, path) as file:
                yield file
                with naming(f'"{path}"'):
                    file.flush()
                    os.fsync(handle)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
            raise
        sync_folder(path.parent)


@contextmanager
def claimed(path: Path, *, what: str = "") -> Generator[None, None, None]:
    """Keep all other runs from writing a file or folder; SinkError, which names the process, where one does.

    `what` they are is said for the path. Links and relative paths do not lead around that. Where the system has no
    locks for a file, nobody is kept out.
    """
    try:
        claim = Claim.of(path, must=False)
    except Taken as taken:
        written = f"{what} are" if what else f'"{path}" is'
        raise SinkError(
            f"{written} being written by {taken.who}.\n"
            "  End that one first, or name another place: one run would replace the results of the other."
        ) from None
    try:
        yield
    finally:
        claim.release()


def unfinished_of(path: Path) -> Iterator[Path]:
    """Yield the files that killed runs began beside a file and did not complete."""
    named = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.part")
    with suppress(OSError):
        yield from abandoned(found for found in path.parent.iterdir() if named.fullmatch(found.name))


@contextmanager
def _opened(handle: int, path: Path) -> Generator[BinaryIO, None, None]:
    """Yield a file that is closed at the end, which writes what is left; after an error, that error is what is told."""
    file = io.BufferedWriter(io.FileIO(handle, "wb"))
    try:
        yield file
        with naming(f'"{path}"'):
            file.close()
    except BaseException:
        with suppress(OSError):
            file.close()
        raise


def beside(path: Path) -> tuple[Path, int]:
    """Begin a file beside one that it will be; SinkError where none can be written. Give its name and handle."""
    folder = path.parent
    if not folder.is_dir():
        raise SinkError(no_folder(path))
    # The name cannot be foreseen, and O_EXCL takes no file or link that is there already.
    unfinished = folder / f".{path.name}.{secrets.token_hex(6)}.part"
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise SinkError(f'"{path}" cannot be written: {error.strerror} in "{folder}"') from error
    hold(handle)
    return unfinished, handle


def no_folder(path: Path) -> str:
    """Say that a file cannot be written as there is no folder for it."""
    return f'"{path}" cannot be written: there is no folder "{path.parent}".\n  Make it first, or name another file.'


@attrs.frozen
class StreamSink:
    """Results on an open binary stream, standard output by default; every punctuation flushes it."""

    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    stream: BinaryIO | None = None

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to the stream, which stays open."""
        stream = self.stream if self.stream is not None else sys.stdout.buffer
        with encoded(stream, self.encoder(), schema, "standard output") as deliver:
            yield deliver


@contextmanager
def encoded(stream: BinaryIO, encoder: Encoder, schema: Schema, where: str) -> Generator[Deliver, None, None]:
    """Yield the function that encodes pages to a stream; a file that failed is not completed.

    WriteFailed, which tells `where`, when the system does not take what is written.
    """

    def deliver(element: Element) -> None:
        if isinstance(element, Page):
            put(encoder.write(element))
        else:
            with naming(where):
                stream.flush()

    def put(data: bytes | memoryview) -> None:
        with naming(where):
            stream.write(data)

    put(encoder.open(schema))
    yield deliver
    put(encoder.close())
    with naming(where):
        stream.flush()


@contextmanager
def naming(where: str) -> Generator[None, None, None]:
    """Have an error of the system tell what was written; a reader who has left is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteFailed.of(where, error) from error


def sync_folder(folder: Path) -> None:
    """Make the new name durable, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
