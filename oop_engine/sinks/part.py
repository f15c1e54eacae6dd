"""One file of results that is being written: bytes are gathered, and written behind those that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from oop_engine.sinks.disk import Disk
from oop_engine.sinks.protocol import Encoder
from operators.data.page import Page
from operators.data.schema import Schema

_HELD: Final = 1 << 20
"""Bytes that wait to be written, at most."""


@attrs.define(eq=False)
class PartFile:
    """A file at a path, which an encoder writes; `rows` are in it."""

    path: Path
    encoder: Encoder = attrs.field(repr=False)
    disk: Disk = attrs.field(repr=False)
    folder: str = ""
    """The folder that it will be in, where it is not where it is written."""
    rows: int = attrs.field(init=False, default=0)
    _held: list[bytes] = attrs.field(init=False, factory=list)
    _bytes: int = attrs.field(init=False, default=0)

    def begin(self, schema: Schema) -> None:
        """Begin the file."""
        self._hold(self.encoder.open(schema))

    def write(self, page: Page) -> None:
        """Take a page."""
        self._hold(self.encoder.write(page))
        self.rows += len(page)

    def close(self) -> None:
        """Write the rest."""
        self._held.append(self.encoder.close())
        self._write()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._bytes += len(data)
        if self._bytes >= _HELD:
            self._write()

    def _write(self) -> None:
        self.disk.append(self.path, b"".join(self._held))
        self._held, self._bytes = [], 0
