"""A file appears under its name only when it is whole: it is written beside, synced, and renamed at the end."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import attrs

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.protocol import Deliver, Encoder
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema


@attrs.frozen
class FileSink:
    """Results as one file, replaced as a whole; a pipe or device is written as results come."""

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to a new file in the same folder; at the end it takes the name, or on failure it is removed."""
        if self.path.exists() and not self.path.is_file():
            if self.path.is_dir():
                raise SinkError(f'"{self.path}" is a folder; name a file in it, e.g. "{self.path / "result.parquet"}"')
            with open(self.path, "wb") as pipe, encoded(pipe, self.encoder(), schema) as deliver:
                yield deliver
            return
        folder = self.path.parent
        if not folder.is_dir():
            raise SinkError(f'"{self.path}" cannot be written: there is no folder "{folder}"')
        # The name cannot be foreseen, and O_EXCL takes no file or link that is there already.
        unfinished = folder / f".{self.path.name}.{secrets.token_hex(6)}.part"
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise SinkError(f'"{self.path}" cannot be written: {error.strerror} in "{folder}"') from error
        try:
            with open(handle, "wb") as file:
                with encoded(file, self.encoder(), schema) as deliver:
                    yield deliver
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
            raise
        _sync_folder(folder)


@attrs.frozen
class StreamSink:
    """Results on an open binary stream, standard output by default; every punctuation flushes it."""

    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    stream: BinaryIO | None = None

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to the stream, which stays open."""
        stream = self.stream if self.stream is not None else sys.stdout.buffer
        with encoded(stream, self.encoder(), schema) as deliver:
            yield deliver


@contextmanager
def encoded(stream: BinaryIO, encoder: Encoder, schema: Schema) -> Generator[Deliver, None, None]:
    """Give the function that encodes pages to a stream; a file that failed is not completed."""

    def deliver(element: Element) -> None:
        if isinstance(element, Page):
            stream.write(encoder.write(element))
        else:
            stream.flush()

    stream.write(encoder.open(schema))
    yield deliver
    stream.write(encoder.close())
    stream.flush()


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
